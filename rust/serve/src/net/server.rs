//! The server: it listens, and each connection has a task.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;

use crate::answers::apis::APIS;
use crate::answers::shared::Shared;
use crate::base::counters::{Count, Counters};
use crate::base::directory::{Commit, Directory};
use crate::base::options::Options;
use crate::net::connection::serve_connection;
use crate::net::open::OpenConnections;
use crate::net::socket;
use crate::net::steps::Steps;

/// The interval between two searches for silent members of groups.
const TICK: Duration = Duration::from_millis(100);
/// The maximum number of connections that wait to be accepted. The system drops further connections, and their clients
/// retry after a second. With the standard library's limit of 128, about a hundred simultaneous connections made all
/// clients wait.
const BACKLOG: i32 = 4096;

/// A running server. Dropping it stops it.
pub struct Server {
    address: SocketAddr,
    /// None if the server was stopped.
    steps: Option<Arc<Steps>>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server on its own threads.
    ///
    /// # Errors
    ///
    /// The server cannot listen at the address, or a file of the options cannot be used.
    pub fn start(directory: Arc<dyn Directory>, options: Options) -> io::Result<Self> {
        let listen = options.listen.clone();
        let tls = options.tls.as_ref().map(socket::acceptor).transpose()?;
        let shared = Shared::new(directory, options)?;
        // Before the first client, who would wait.
        if let Some(users) = &shared.users {
            users.hash_passwords();
        }
        let steps = Arc::new(Steps::new(shared));
        let listener = StdListener::bind(&listen).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen on {listen}: {error}"))
        })?;
        rustix::net::listen(&listener, BACKLOG)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("brokerless-serve")
            .enable_all()
            .build()?;
        let of_thread = Arc::clone(&steps);
        let thread = std::thread::Builder::new()
            .name("brokerless-serve".to_owned())
            .spawn(move || {
                runtime.block_on(accept(listener, tls, of_thread, stopped));
                runtime.shutdown_timeout(Duration::from_secs(1));
            })?;
        Ok(Self {
            address,
            steps: Some(steps),
            stop,
            thread: Some(thread),
        })
    }

    /// The address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server's counters; an empty list after the server was stopped.
    pub fn counts(&self) -> Vec<Count> {
        let Some(steps) = &self.steps else {
            return Vec::new();
        };
        let shared = &steps.shared;
        let apis = APIS.iter().map(|api| api.key);
        shared.counters.all(shared.memory.used(), apis)
    }

    /// Returns the commits made to the server: group, topic, partition. An empty list after the server was stopped.
    pub fn commits(&self) -> Vec<(String, String, i32, Commit)> {
        let steps = self.steps.as_ref();
        steps.map_or_else(Vec::new, |steps| steps.shared.coordinator.commits.own())
    }

    /// Stops: connections and files are closed.
    pub fn stop(&mut self) {
        // All receivers may be gone.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.steps = None;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Accepts connections. It never waits for a lock that an answer holds, so each new connection is accepted or closed
/// immediately.
async fn accept(
    listener: StdListener,
    tls: Option<TlsAcceptor>,
    steps: Arc<Steps>,
    mut stopped: watch::Receiver<bool>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    tokio::spawn(expire(Arc::clone(&steps), stopped.clone()));
    let shared = &steps.shared;
    let counters = &shared.counters;
    let connections = OpenConnections::new(&shared.limits);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        match accepted {
            Ok((socket, client)) => {
                let Some(open) = connections.open(client.ip()) else {
                    Counters::add(&counters.refused, 1);
                    continue;
                };
                counters.open.fetch_add(1, Ordering::Relaxed);
                Counters::add(&counters.accepted, 1);
                let (steps, tls) = (Arc::clone(&steps), tls.clone());
                let mut stopped = stopped.clone();
                tokio::spawn(async move {
                    let ended = tokio::select! {
                        ended = serve_connection(socket, tls.as_ref(), &steps, &open) => ended,
                        () = open.replaced() => Ok(()),
                        _ = stopped.changed() => Ok(()),
                    };
                    let counters = &steps.shared.counters;
                    counters.open.fetch_sub(1, Ordering::Relaxed);
                    if ended.is_err() {
                        Counters::add(&counters.broken, 1);
                    }
                });
            }
            // Too many open files, some of which may be closed soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Searches groups for silent members, on a thread that may wait for a lock.
async fn expire(steps: Arc<Steps>, mut stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stopped.changed() => return,
        }
        let steps = Arc::clone(&steps);
        let work = move || steps.shared.coordinator.expire(Instant::now());
        if tokio::task::spawn_blocking(work).await.is_err() {
            return;
        }
    }
}
