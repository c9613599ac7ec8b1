//! The server: it listens, and each connection has a task.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, watch};

use crate::connection::serve_connection;
use crate::directory::Directory;
use crate::groups::commits::Commits;
use crate::groups::coordinator::Coordinator;
use crate::partitions::Partitions;
use crate::session::Sessions;

/// How often groups are looked at for silent members.
const TICK: Duration = Duration::from_millis(100);

/// Limits that keep one client from the others.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once. Others are closed at once.
    pub connections: usize,
    /// The bytes of a request.
    pub request_bytes: usize,
    /// The bytes of the records in a response, whatever the client asks for.
    pub response_bytes: u64,
    /// How long a connection may be silent, or not take what is sent.
    pub idle: Duration,
    /// Clients with incremental fetches at once; further ones fetch without.
    pub sessions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2000,
            request_bytes: 4 << 20,
            response_bytes: 64 << 20,
            idle: Duration::from_secs(600),
            sessions: 1000,
        }
    }
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
    pub(crate) node_id: i32,
    /// The host for clients; None: the address at which they connected.
    pub(crate) advertised: Option<String>,
    pub(crate) open: AtomicUsize,
    /// Reads of files at once.
    pub(crate) readers: Semaphore,
}

/// A running server. Dropping it stops it.
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server on threads of its own. `commits` is a file for what groups commit; None: only memory.
    ///
    /// # Errors
    ///
    /// It cannot listen there.
    pub fn start(
        directory: Arc<dyn Directory>,
        listen: &str,
        node_id: i32,
        advertised: Option<String>,
        commits: Option<PathBuf>,
        limits: Limits,
    ) -> io::Result<Self> {
        let listener = StdListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            partitions: Partitions::new(directory),
            sessions: Sessions::new(limits.sessions),
            coordinator: Coordinator::new(Commits::new(commits)),
            limits,
            node_id,
            advertised,
            open: AtomicUsize::new(0),
            readers: Semaphore::new(32),
        });
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("brokerless-serve")
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("brokerless-serve".to_owned())
            .spawn(move || {
                runtime.block_on(accept(listener, shared, stopped));
                runtime.shutdown_timeout(Duration::from_secs(1));
            })?;
        Ok(Self {
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
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

async fn accept(listener: StdListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
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
                if shared.open.fetch_add(1, Ordering::Relaxed) >= shared.limits.connections {
                    shared.open.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let shared = Arc::clone(&shared);
                let mut stopped = stopped.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = serve_connection(socket, &shared) => {}
                        _ = stopped.changed() => {}
                    }
                    shared.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            // Too many open files: others may be closed soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
