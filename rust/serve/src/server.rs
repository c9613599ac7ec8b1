//! The server: it listens, and each connection has a task.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{OnceCell, Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::connection::serve_connection;
use crate::counters::{Count, Counters};
use crate::directory::Directory;
use crate::groups::commits::Commits;
use crate::groups::coordinator::Coordinator;
use crate::memory::Memory;
use crate::partitions::Partitions;
use crate::read_log::ReadLog;
use crate::records::Shown;
use crate::sasl::Users;
use crate::session::Sessions;
use crate::socket;

/// How often groups are looked at for silent members.
const TICK: Duration = Duration::from_millis(100);
/// Fetches that read files at once.
const FETCHES: usize = 8;
/// Other requests that read files at once: fetches of many partitions do not keep them waiting.
const READERS: usize = 8;

/// Limits that keep one client from the others.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once. Others are closed at once.
    pub connections: usize,
    /// The bytes of a request.
    pub request_bytes: usize,
    /// The bytes of the records in a response, whatever the client asks for.
    pub response_bytes: u64,
    /// The memory of all requests and replies; half as much is for sessions, groups and commits. Records that are sent
    /// from their files take none.
    pub memory_bytes: usize,
    /// How long a connection may be silent between two requests.
    pub idle: Duration,
    /// How long a reply may take to be taken, as far as it is in memory.
    pub transfer: Duration,
    /// Clients with incremental fetches at once; further ones fetch without.
    pub sessions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2000,
            request_bytes: 1 << 20,
            response_bytes: 64 << 20,
            memory_bytes: 128 << 20,
            idle: Duration::from_secs(600),
            transfer: Duration::from_secs(60),
            sessions: 1000,
        }
    }
}

/// Encryption: files in PEM form.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate of the server, followed by those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How a server serves.
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
    /// How records are shown.
    pub shown: Shown,
    /// Limits.
    pub limits: Limits,
}

/// Where clients find the server.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) node_id: i32,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) partitions: Partitions,
    pub(crate) sessions: Sessions,
    pub(crate) coordinator: Coordinator,
    pub(crate) limits: Limits,
    pub(crate) memory: Arc<Memory>,
    pub(crate) counters: Counters,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) users: Option<Users>,
    pub(crate) read_log: Option<ReadLog>,
    pub(crate) node_id: i32,
    pub(crate) advertised: Option<(String, Option<u16>)>,
    /// Fetches that read files.
    pub(crate) fetches: Semaphore,
    /// Other requests that do.
    pub(crate) readers: Semaphore,
    /// Whether every topic has an id. Clients ask for this before they have a password: it is looked up once.
    pub(crate) have_ids: OnceCell<bool>,
}

impl Shared {
    pub(crate) fn new(directory: Arc<dyn Directory>, options: Options) -> io::Result<Self> {
        let limits = options.limits;
        let memory = Memory::new(limits.memory_bytes);
        // Of its own: clients that leave much behind do not keep the requests of others out.
        let kept = Memory::new(limits.memory_bytes / 2);
        Ok(Self {
            partitions: Partitions::new(directory, options.shown, Arc::clone(&memory)),
            sessions: Sessions::new(limits.sessions, &kept),
            coordinator: Coordinator::new(Commits::new(options.commits, &kept)?, &kept),
            limits,
            memory,
            counters: Counters::default(),
            tls: options.tls.as_ref().map(socket::acceptor).transpose()?,
            users: options.users.map(Users::new).transpose()?,
            read_log: options.read_log.as_deref().map(ReadLog::open).transpose()?,
            node_id: options.node_id,
            advertised: options.advertised.map(host_and_port),
            fetches: Semaphore::new(FETCHES),
            readers: Semaphore::new(READERS),
            have_ids: OnceCell::new(),
        })
    }
}

/// A running server. Dropping it stops it.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server on threads of its own.
    ///
    /// # Errors
    ///
    /// It cannot listen there, or a file of the options cannot be used.
    pub fn start(directory: Arc<dyn Directory>, options: Options) -> io::Result<Self> {
        let listen = options.listen.clone();
        let shared = Arc::new(Shared::new(directory, options)?);
        let listener = StdListener::bind(&listen).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen on {listen}: {error}"))
        })?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("brokerless-serve")
            .enable_all()
            .build()?;
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("brokerless-serve".to_owned())
            .spawn(move || {
                runtime.block_on(accept(listener, of_thread, stopped));
                runtime.shutdown_timeout(Duration::from_secs(1));
            })?;
        Ok(Self {
            address,
            shared,
            stop,
            thread: Some(thread),
        })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done so far.
    pub fn counts(&self) -> Vec<Count> {
        self.shared.counters.all(self.shared.memory.used())
    }

    /// Stops: connections are closed.
    pub fn stop(&mut self) {
        // Nobody may listen any more.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Takes a host, or a host and a port, apart. An address of IPv6 stands in brackets before a port.
fn host_and_port(text: String) -> (String, Option<u16>) {
    let apart = text.rsplit_once(':').and_then(|(host, port)| {
        let is_one = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
        let port = port.parse().ok().filter(|_| is_one)?;
        Some((host.trim_matches(['[', ']']).to_owned(), Some(port)))
    });
    apart.unwrap_or((text, None))
}

async fn accept(listener: StdListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let counters = &shared.counters;
    let mut ticks = tokio::time::interval(TICK);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ticks.tick() => {
                shared.coordinator.expire(Instant::now());
                continue;
            }
            _ = stopped.changed() => return,
        };
        match accepted {
            Ok((socket, _)) => {
                if counters.open.fetch_add(1, Ordering::Relaxed) >= shared.limits.connections {
                    counters.open.fetch_sub(1, Ordering::Relaxed);
                    Counters::add(&counters.refused, 1);
                    continue;
                }
                Counters::add(&counters.accepted, 1);
                let shared = Arc::clone(&shared);
                let mut stopped = stopped.clone();
                tokio::spawn(async move {
                    let ended = tokio::select! {
                        ended = serve_connection(socket, &shared) => ended,
                        _ = stopped.changed() => Ok(()),
                    };
                    shared.counters.open.fetch_sub(1, Ordering::Relaxed);
                    if ended.is_err() {
                        Counters::add(&shared.counters.broken, 1);
                    }
                });
            }
            // Too many open files: others may be closed soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
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
