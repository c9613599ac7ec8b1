//! Batches that stay where they are: only their headers come and go.

use super::{AppendInfos, AppendRequest, Effects, LogAppender, Result};
use crate::base::error::Error;
use crate::broker::validate::not_in_place;
use crate::format::walk::{self, NextBatch};

/// How the batches of a request come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    /// Headers alone; their records stay where they are.
    Headers,
}

impl Form {
    pub(super) fn next(
        self,
        data: &[u8],
        position: u64,
    ) -> std::result::Result<NextBatch<'_>, Error> {
        match self {
            Self::Whole => walk::next_batch(data, position),
            Self::Headers => walk::next_alone(data, position),
        }
    }
}

impl LogAppender {
    /// Takes every batch of a file that is to be the next segment's, or the empty active one's: all, or none. Headers come
    /// alone, and go out alone. Refused where more than headers would change, or a segment be rolled in between.
    pub fn append_in_place(
        &mut self,
        headers: &[u8],
        request: AppendRequest,
        effects: &mut Effects,
    ) -> Result<AppendInfos> {
        let (producers, epochs) = (self.producers.clone(), self.epochs.clone());
        let before = (self.segment, producers, epochs, self.log_end_offset);
        let rolled = match self.segment.size {
            0 => Ok(()),
            _ => self.roll(request.now, effects),
        };
        let taken = rolled.and_then(|()| {
            let mut answers = self.take_each(headers, request, Form::Headers, effects);
            match answers.refused.take() {
                Some(refused) => Err(refused),
                None if answers.count == 0 => Err(not_in_place("there is none")),
                None if answers.consumed < headers.len() => Err(not_in_place("its header is cut")),
                None => Ok(answers),
            }
        });
        if taken.is_err() {
            (
                self.segment,
                self.producers,
                self.epochs,
                self.log_end_offset,
            ) = before;
            *effects = Effects::default();
        }
        taken
    }
}
