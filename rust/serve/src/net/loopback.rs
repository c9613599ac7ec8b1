//! A connection without a socket, for fast tests with hostile bytes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};

use crate::answers::shared::{Peer, Shared};
use crate::base::directory::Directory;
use crate::base::options::Options;
use crate::net::steps::Steps;
use crate::protocol::wire::Part;

/// The longest wait of a member, by a clock that goes on as soon as nothing else is left to do.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection without a socket.
pub struct Loopback {
    steps: Steps,
    peer: Arc<Peer>,
    runtime: Runtime,
}

impl Loopback {
    /// Connects to a server that does not listen.
    ///
    /// # Errors
    ///
    /// A file of the options cannot be used.
    pub fn new(directory: Arc<dyn Directory>, options: Options) -> io::Result<Self> {
        let shared = Shared::new(directory, options)?;
        let local = ([127, 0, 0, 1], 9092).into();
        Ok(Self {
            peer: Arc::new(Peer::new(&shared, local, local)),
            steps: Steps::new(shared),
            runtime: Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()?,
        })
    }

    /// Handles a request without its length, and returns the bytes of the response; None without a response, or if the
    /// connection would be closed.
    pub fn answer(&mut self, frame: &[u8]) -> Option<u64> {
        let share = Arc::new(self.steps.shared.memory.share());
        let frame = Bytes::copy_from_slice(frame);
        let answer = self.steps.answer(&self.peer, share, frame);
        let answered = self
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, answer).await });
        let parts = answered.ok()?.ok()??.finish().ok()?;
        Some(parts.iter().map(Part::length).sum())
    }
}
