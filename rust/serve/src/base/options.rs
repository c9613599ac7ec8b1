//! The options of a server.

use std::path::PathBuf;
use std::time::Duration;

/// Limits that keep one client from the others.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once. A further one takes the place of one that has not asked anything yet, or is closed at once.
    pub connections: usize,
    /// Connections of an address at once.
    pub connections_of_address: usize,
    /// The bytes of a request.
    pub request_bytes: usize,
    /// The bytes of the records in a response, whatever the client asks for.
    pub response_bytes: u64,
    /// The memory of all requests and replies. A quarter as much is for sessions, an eighth for members, and an eighth
    /// for commits. Records that are sent from their files take none.
    pub memory_bytes: usize,
    /// The time limit for a client to log in, or to send its first request where no password is asked for.
    pub login: Duration,
    /// The time that a connection may be silent between two requests.
    pub idle: Duration,
    /// The time limit for a client to take a reply, as far as the reply is in memory.
    pub transfer: Duration,
    /// Clients with incremental fetches at once; further ones fetch without.
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
    /// Batches of v0 and v1 as v2, for clients that read nothing older.
    pub as_v2: bool,
    /// To all clients, only records of transactions that were committed, and records without a transaction.
    pub only_committed: bool,
}

/// Encryption: files in PEM form.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate of the server, followed by those that vouch for it.
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
    /// The host for clients, or host and port; None: the address at which they connect.
    pub advertised: Option<String>,
    /// A file for what groups commit; None: only memory.
    pub commits: Option<PathBuf>,
    /// Encryption; None: there is none.
    pub tls: Option<Tls>,
    /// Users with their passwords; None: nobody is asked.
    pub users: Option<Vec<(String, String)>>,
    /// A file for lines that say who read what.
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

/// Takes a host, or a host and a port, apart. An address of IPv6 stands in brackets before a port.
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
