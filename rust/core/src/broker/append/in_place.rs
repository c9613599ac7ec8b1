//! Appending a file of batches in place: the records stay where they are, and only the headers are read and written.

use super::{AppendInfo, AppendInfos, AppendRequest, Decision, Effects, LogAppender, Result};
use crate::base::error::Error;
use crate::broker::validate::not_in_place;
use crate::format::walk::{self, NextBatch};

/// The part of the batches that a request contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchForm {
    Whole,
    /// Only the headers. The records stay in the file.
    HeaderOnly,
}

impl BatchForm {
    pub(super) fn next(
        self,
        data: &[u8],
        position: u64,
    ) -> std::result::Result<NextBatch<'_>, Error> {
        match self {
            Self::Whole => walk::next_batch(data, position),
            Self::HeaderOnly => walk::next_alone(data, position),
        }
    }
}

impl LogAppender {
    /// Appends all batches of a file, or none. The file becomes the `.log` of the next segment, or of the active
    /// segment if that is empty.
    ///
    /// `headers` holds only the headers of the batches. `effects` also gets only headers. The append is refused if it
    /// would change more than headers, or if a segment would begin between the batches.
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
        let appended = rolled.and_then(|()| self.append_all_headers(headers, request, effects));
        if appended.is_err() {
            (
                self.segment,
                self.producers,
                self.epochs,
                self.log_end_offset,
            ) = before;
            *effects = Effects::default();
        }
        appended
    }

    fn append_all_headers(
        &mut self,
        headers: &[u8],
        request: AppendRequest,
        effects: &mut Effects,
    ) -> Result<AppendInfos> {
        let mut infos = self.append_each_of(headers, request, BatchForm::HeaderOnly, effects);
        match infos.refused.take() {
            Some(refused) => Err(refused),
            None if infos.count == 0 => Err(not_in_place("the file holds no batch")),
            None if infos.consumed < headers.len() => Err(not_in_place("its header is cut")),
            None => Ok(infos),
        }
    }

    /// Appends the batch of one header.
    pub(super) fn append_header(
        &mut self,
        header: &[u8],
        request: AppendRequest,
        effects: &mut Effects,
    ) -> Result<AppendInfo> {
        match self.decide(header, request, BatchForm::HeaderOnly)? {
            Decision::Empty => Ok(AppendInfo::EMPTY),
            Decision::Duplicate(_) => Err(not_in_place("it is in the log already")),
            Decision::Append(accepted) if accepted.roll_to.is_some() => {
                Err(not_in_place("a new segment would begin with it"))
            }
            Decision::Append(accepted) => self.store(header, accepted, effects),
        }
    }
}
