//! A request with the state that its answer needs, and the steps of an answer.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Message};

use crate::answers::shared::{Peer, Shared};
use crate::base::directory::{Directory, Refusal};
use crate::base::memory::Share;
use crate::log::partitions::Partitions;
use crate::protocol::wire::{ProtocolError, Reply, Request};

/// A request of a client.
pub(crate) struct Call {
    pub(crate) shared: Arc<Shared>,
    pub(crate) peer: Arc<Peer>,
    pub(crate) request: Request,
    /// The memory of the request and its reply.
    pub(crate) share: Arc<Share>,
}

/// An answer, or a part of it; an error closes the connection.
pub(crate) type Answered<T = Reply> = Result<T, ProtocolError>;

/// The next step of an answer.
pub(crate) enum Step {
    /// Send this reply; None if the client wants no reply.
    Reply(Option<Reply>),
    /// Do this work on a thread that may block.
    Block(Threads, Work),
    /// Do this work after this time.
    Sleep(Duration, Work),
    /// Wait for this reply, which depends on other clients.
    Wait(Pin<Box<dyn Future<Output = Answered> + Send>>),
}

/// The work that leads to the next step.
pub(crate) type Work = Box<dyn FnOnce() -> Answered<Step> + Send>;

/// The threads that may block. The number that work at the same time is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// For fetches.
    Fetches,
    /// For commits and other group requests, which wait for the file of commits.
    Groups,
    /// For other requests, so that they do not wait for fetches of many partitions.
    Others,
}

impl Step {
    pub(crate) fn reply(reply: Reply) -> Self {
        Self::Reply(Some(reply))
    }
}

impl Call {
    pub(crate) fn version(&self) -> i16 {
        self.request.version
    }

    pub(crate) fn partitions(&self) -> &Partitions {
        &self.shared.partitions
    }

    pub(crate) fn directory(&self) -> &dyn Directory {
        self.shared.partitions.directory()
    }

    /// Reserves memory for a part of a reply, before it is built.
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), Refusal> {
        match self.share.grow(bytes) {
            true => Ok(()),
            false => Err(Refusal::no_memory()),
        }
    }

    /// Decodes the request, and encodes the response to it.
    pub(crate) fn answer<T: Decodable + Message, R: Encodable + HeaderVersion + Message, E>(
        &self,
        response: impl FnOnce(&Self, &T) -> Result<R, E>,
    ) -> Answered
    where
        ProtocolError: From<E>,
    {
        self.request.reply(&response(self, &self.request.body()?)?)
    }

    /// Returns the step that does the work on a thread that may block, and reports unreadable files to the directory.
    pub(crate) fn block(
        self: &Arc<Self>,
        threads: Threads,
        work: impl FnOnce(&Arc<Self>) -> Answered<Step> + Send + 'static,
    ) -> Step {
        let call = Arc::clone(self);
        let work = move || {
            work(&call).inspect_err(|error| {
                if let ProtocolError::Refused(refusal) = error {
                    call.directory().problem(&refusal.message);
                }
            })
        };
        Step::Block(threads, Box::new(work))
    }
}
