//! The state that all connections share, and the state of one connection's client.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use crate::answers::session::Sessions;
use crate::base::counters::Counters;
use crate::base::directory::{Directory, Refusal};
use crate::base::memory::Memory;
use crate::base::options::{Address, Limits, Options, host_and_port};
use crate::base::read_log::ReadLog;
use crate::groups::commits::Commits;
use crate::groups::coordinator::Coordinator;
use crate::log::partitions::Partitions;
use crate::protocol::sasl::{Authenticating, Users};

/// The state that all connections share.
pub(crate) struct Shared {
    pub(crate) partitions: Partitions,
    pub(crate) sessions: Sessions,
    pub(crate) coordinator: Coordinator,
    pub(crate) limits: Limits,
    pub(crate) memory: Arc<Memory>,
    pub(crate) counters: Counters,
    pub(crate) users: Option<Users>,
    pub(crate) read_log: Option<ReadLog>,
    node_id: i32,
    advertised: Option<(String, Option<u16>)>,
    have_ids: OnceLock<bool>,
}

impl Shared {
    pub(crate) fn new(directory: Arc<dyn Directory>, options: Options) -> io::Result<Self> {
        let limits = options.limits;
        let memory = Memory::new(limits.memory_bytes);
        // Separate budgets: clients that leave much behind do not lock out the requests of others, and those with
        // sessions not the members and commits.
        let sessions = Memory::new(limits.memory_bytes / 4);
        let members = Memory::new(limits.memory_bytes / 8);
        let commits = Memory::of_one(limits.memory_bytes / 8);
        let commits = Commits::new(options.commits.as_deref(), &commits)?;
        Ok(Self {
            partitions: Partitions::new(directory, options.view, Arc::clone(&memory)),
            sessions: Sessions::new(limits.sessions, &sessions),
            coordinator: Coordinator::new(commits, &members),
            limits,
            memory,
            counters: Counters::default(),
            users: options.users.map(Users::new).transpose()?,
            read_log: options.read_log.as_deref().map(ReadLog::open).transpose()?,
            node_id: options.node_id,
            advertised: options.advertised.map(host_and_port),
            have_ids: OnceLock::new(),
        })
    }

    /// Returns true if every topic has an id; None if that has not been looked up.
    pub(crate) fn known_to_have_ids(&self) -> Option<bool> {
        self.have_ids.get().copied()
    }

    /// Returns true if every topic has an id. Clients can cause this lookup before they have logged in, so it is done
    /// only once. Blocks.
    pub(crate) fn have_ids(&self) -> Result<bool, Refusal> {
        let topics = self.partitions.directory().topics()?;
        let have_ids = topics.all().iter().all(|topic| !topic.id.is_nil());
        Ok(*self.have_ids.get_or_init(|| have_ids))
    }
}

/// The client of a connection.
pub(crate) struct Peer {
    /// The server as this client sees it.
    pub(crate) server: Address,
    pub(crate) client: SocketAddr,
    pub(crate) login: Mutex<Login>,
}

/// The login state of a client.
pub(crate) enum Login {
    /// The user; None if the server requires no login.
    Done(Option<String>),
    Asked,
    /// The login is under way, by requests or by bare bytes (version 0 of SaslHandshake).
    Begun(Box<Authenticating>, Tokens),
    /// The password was wrong. The connection ends, so that the client cannot try many.
    Refused,
}

/// The way in which a client sends its SASL tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tokens {
    InRequests,
    Bare,
}

impl Peer {
    pub(crate) fn new(shared: &Shared, local: SocketAddr, remote: SocketAddr) -> Self {
        let (host, port) = match &shared.advertised {
            None => (local.ip().to_string(), None),
            Some((host, port)) => (host.clone(), *port),
        };
        Self {
            server: Address {
                node_id: shared.node_id,
                host,
                port: port.unwrap_or_else(|| local.port()),
            },
            client: remote,
            login: Mutex::new(match &shared.users {
                None => Login::Done(None),
                Some(_) => Login::Asked,
            }),
        }
    }
}
