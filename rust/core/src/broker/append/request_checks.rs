//! Checks of a request that do not depend on its producers.

use super::config::ANY_EPOCH;
use super::{Analysis, AppendOrigin, AppendRequest, LogAppender, Result};
use crate::broker::refusal::{Refusal, Refused};
use crate::broker::validate::ValidatedBatch;

impl LogAppender {
    pub(super) fn check_given_offsets(&self, analysis: &Analysis) -> Result<()> {
        if !analysis.is_monotonic {
            return Err(Refused::new(
                Refusal::OffsetsOutOfOrder,
                "the batches' last offsets do not increase: append them in the order of their log",
            ));
        }
        let first = analysis
            .first_offset
            .unwrap_or(analysis.last_offset_of_first);
        if first < self.log_end_offset {
            return Err(Refused::new(
                Refusal::UnexpectedAppendOffset,
                format!(
                    "first offset {first} is below the log end offset {}: these offsets are in the log already",
                    self.log_end_offset
                ),
            ));
        }
        Ok(())
    }

    /// Fills in missing leader epochs: batches that were converted from older formats have none. A broker starts on
    /// such a log, but a follower cannot replicate it (`LeaderEpochFileCache.assign`). In a copy, such batches get the
    /// epoch of the previous batch, so that the copy can be replicated.
    pub(super) fn fill_epochs(&mut self, request: AppendRequest) {
        if request.origin != AppendOrigin::Replication || request.leader_epoch != ANY_EPOCH {
            return;
        }
        let mut latest = self.epochs.latest().unwrap_or(0);
        for ValidatedBatch { header, .. } in &mut self.batches {
            match header.partition_leader_epoch {
                epoch if header.magic < 2 || epoch >= 0 => latest = latest.max(epoch),
                _ => header.partition_leader_epoch = latest,
            }
        }
    }

    pub(super) fn check_epochs(&self) -> Result<()> {
        let negative = |placed: &&ValidatedBatch| {
            let header = &placed.header;
            header.magic == 2 && (header.partition_leader_epoch < 0 || header.base_offset < 0)
        };
        match self.batches.iter().find(negative) {
            Some(ValidatedBatch { header, .. }) => Err(Refused::new(
                Refusal::Append,
                format!(
                    "leader epoch {} from offset {} on: neither may be negative",
                    header.partition_leader_epoch, header.base_offset
                ),
            )
            .at(header.position, header.base_offset)),
            None => Ok(()),
        }
    }

    pub(super) fn check_fits(&self, size: usize) -> Result<()> {
        if size as i64 <= self.config.segment_bytes {
            return Ok(());
        }
        Err(Refused::new(
            Refusal::RecordBatchTooLarge,
            format!(
                "{size} bytes are appended in one call, but segment_bytes is {}: append fewer batches in one call, or \
                 raise segment_bytes",
                self.config.segment_bytes
            ),
        ))
    }
}
