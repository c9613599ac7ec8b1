//! The steps of an answer, with tokio's threads and clock.

use bytes::Bytes;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::answers::apis::answer;
use crate::answers::call::{Answered, Step, Threads};
use crate::answers::shared::{Peer, Shared};
use crate::base::memory::Share;
use crate::protocol::wire::{ProtocolError, Reply};

/// The maximum number of threads that work on fetches at the same time. As many threads may work on group requests, and
/// as many on other requests.
const READERS: usize = 8;

/// The executor of the steps of all answers.
pub(super) struct Steps {
    pub(super) shared: Arc<Shared>,
    fetches: Semaphore,
    groups: Semaphore,
    others: Semaphore,
}

impl Steps {
    pub(super) fn new(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
            fetches: Semaphore::new(READERS),
            groups: Semaphore::new(READERS),
            others: Semaphore::new(READERS),
        }
    }

    /// Returns the reply to a frame without its length; None if the client wants no reply.
    ///
    /// `share` holds the memory of the frame, and grows as the frame is decoded and answered.
    pub(super) async fn answer(
        &self,
        peer: &Arc<Peer>,
        share: Arc<Share>,
        frame: Bytes,
    ) -> Answered<Option<Reply>> {
        let mut step = answer(&self.shared, peer, share, frame)?;
        loop {
            step = match step {
                Step::Reply(reply) => return Ok(reply),
                Step::Wait(reply) => return reply.await.map(Some),
                Step::Sleep(time, work) => {
                    sleep(time).await;
                    work()?
                }
                Step::Block(threads, work) => {
                    let _permit = match threads {
                        Threads::Fetches => self.fetches.acquire().await,
                        Threads::Groups => self.groups.acquire().await,
                        Threads::Others => self.others.acquire().await,
                    };
                    let ended = spawn_blocking(work).await;
                    ended.map_err(|panic| ProtocolError::Bytes(panic.to_string()))??
                }
            };
        }
    }
}
