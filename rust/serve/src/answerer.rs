//! Answers to requests without a socket, so that hostile bytes can be fed fast.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};

use crate::connection::{Peer, answer};
use crate::directory::Directory;
use crate::server::{Options, Shared};
use crate::wire::Part;

/// What a member waits for, at most: others that never come.
const PATIENCE: Duration = Duration::from_millis(5);

/// A connection without a socket.
pub struct Answerer {
    shared: Arc<Shared>,
    peer: Peer,
    runtime: Runtime,
}

impl Answerer {
    /// Connects to a server that does not listen.
    ///
    /// # Errors
    ///
    /// A file of the options cannot be used.
    pub fn new(directory: Arc<dyn Directory>, options: Options) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(directory, options)?);
        let local = ([127, 0, 0, 1], 9092).into();
        Ok(Self {
            peer: Peer::new(&shared, local, local),
            shared,
            runtime: Builder::new_current_thread().enable_all().build()?,
        })
    }

    /// Takes a request without its length, and returns the bytes of the response; None: there is none, or the
    /// connection would be closed.
    pub fn answer(&mut self, frame: &[u8]) -> Option<u64> {
        let (shared, peer) = (&self.shared, &mut self.peer);
        let frame = Bytes::copy_from_slice(frame);
        let answered = self
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, answer(shared, peer, frame)).await });
        let parts = answered.ok()?.ok()??.finish().ok()?;
        Some(parts.iter().map(Part::length).sum())
    }
}
