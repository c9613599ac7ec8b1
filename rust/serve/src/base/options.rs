//! The options of a server.

use std::path::PathBuf;
use std::time::Duration;

/// Limits that protect clients from each other.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum number of connections at a time. A further connection replaces a connection that has sent no request
    /// yet; without such a connection, it is closed.
    pub connections: usize,
    /// The maximum number of connections of one address at a time.
    pub connections_of_address: usize,
    /// The maximum size of a request in bytes.
    pub request_bytes: usize,
    /// The maximum number of record bytes in one response, even if the client requests more.
    pub response_bytes: u64,
    /// The maximum memory for all requests and replies. In addition, sessions get a quarter of this amount, members an
    /// eighth, and commits an eighth. Records that are sent from their files need no memory.
    pub memory_bytes: usize,
    /// The time limit for a client to log in, or to send its first request if there is no login.
    pub login: Duration,
    /// The time that a connection may be silent between two requests.
    pub idle: Duration,
    /// The time limit for a client to receive the part of a reply that is in memory.
    pub transfer: Duration,
    /// The maximum number of clients with incremental fetch sessions at a time. Further clients fetch without a
    /// session.
    pub sessions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2000,
            connections_of_address: 500,
            request_bytes: 1 << 20,
            response_bytes: 64 << 20,
            memory_bytes: 128 << 20,
            login: Duration::from_secs(10),
            idle: Duration::from_secs(600),
            transfer: Duration::from_secs(60),
            sessions: 1000,
        }
    }
}

/// The form in which records are shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecordView {
    /// Send batches of v0 and v1 as v2, for clients that cannot read older formats.
    pub as_v2: bool,
    /// Send all clients only records of committed transactions, and records outside transactions.
    pub only_committed: bool,
}

/// Encryption: files in PEM form.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate chain of the server, its own certificate first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Host and port to listen at.
    pub listen: String,
    /// The id of the node that clients see.
    pub node_id: i32,
    /// The host, or host and port, in metadata responses; None for the address at which the client connects.
    pub advertised: Option<String>,
    /// A file for the commits of groups; None to keep them in memory.
    pub commits: Option<PathBuf>,
    /// Encryption; None for no encryption.
    pub tls: Option<Tls>,
    /// Users with their passwords; None for no login.
    pub users: Option<Vec<(String, String)>>,
    /// A file for lines that record each read and its user.
    pub read_log: Option<PathBuf>,
    /// The form in which records are shown.
    pub view: RecordView,
    /// Limits.
    pub limits: Limits,
}

/// The address at which clients find the server.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) node_id: i32,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Parses a host, or a host and a port. An IPv6 address with a port is in brackets.
pub(crate) fn host_and_port(text: String) -> (String, Option<u16>) {
    let apart = text.rsplit_once(':').and_then(|(host, port)| {
        let is_one = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
        let port = port.parse().ok().filter(|_| is_one)?;
        Some((host.trim_matches(['[', ']']).to_owned(), Some(port)))
    });
    apart.unwrap_or((text, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advertised_host_may_have_a_port() {
        let parsed = |text: &str| host_and_port(text.to_owned());
        assert_eq!(parsed("h"), ("h".to_owned(), None));
        assert_eq!(parsed("h:9"), ("h".to_owned(), Some(9)));
        assert_eq!(parsed("::1"), ("::1".to_owned(), None));
        assert_eq!(parsed("[::1]:9"), ("::1".to_owned(), Some(9)));
        assert_eq!(parsed("h:x"), ("h:x".to_owned(), None));
    }
}
