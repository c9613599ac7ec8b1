//! All other changes of a log: rolls, closing, log start offset and high watermark.

use super::{ActiveSegment, Effects, LogAppender, Result};
use crate::base::error::Error;
use crate::broker::epochs::LeaderEpochs;
use crate::broker::producers::Producers;
use crate::broker::refusal::{Refusal, Refused};

impl LogAppender {
    /// Begins a new segment at the log end offset. An empty segment with that offset is created anew.
    pub fn roll(&mut self, now: i64, effects: &mut Effects) -> Result<()> {
        let base_offset = self.log_end_offset;
        self.leave_segment(base_offset, effects)
            .map_err(|error| Refused::new(Refusal::Append, error.to_string()))?;
        self.segment = self.new_segment(base_offset, now);
        Ok(())
    }

    /// Returns the bytes to write at a clean close: the last bytes of the active segment's time index, and a producer
    /// snapshot named by the log end offset, unless that snapshot exists.
    pub fn close(&mut self) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        let mut final_time_entry = Vec::new();
        self.segment
            .indexes
            .finish(&mut final_time_entry)
            .map_err(|error| Refused::new(Refusal::Append, error.to_string()))?;
        self.producers.set_end_offset(self.log_end_offset);
        Ok((final_time_entry, self.producers.take_snapshot()))
    }

    /// Raises the log start offset, as DeleteRecords and retention do. True if the leader epochs changed. `batch` is
    /// the base offset of the batch that contains `offset`, `snapshot` the offset of the newest snapshot file.
    pub fn set_log_start_offset(
        &mut self,
        offset: i64,
        batch: i64,
        snapshot: Option<i64>,
    ) -> std::result::Result<bool, Error> {
        if offset > self.high_watermark() {
            return Err(Error::invalid(format!(
                "log start offset {offset} is above the high watermark {}",
                self.high_watermark()
            )));
        }
        if offset <= self.log_start_offset {
            return Ok(false);
        }
        self.log_start_offset = offset;
        self.log_start_batch = batch.min(offset);
        self.producers.forget_ended(offset);
        let end_offset = self.producers.end_offset().max(offset);
        self.producers.set_end_offset(end_offset);
        // `ProducerStateManager.onLogStartOffsetIncremented`: what lies below the start needs no snapshot.
        self.producers
            .set_snapshot_offset(Some(snapshot.unwrap_or(offset)));
        Ok(self.epochs.truncate_from_start(offset))
    }

    /// Pins the high watermark; None lets it follow the log end.
    pub fn set_high_watermark(&mut self, offset: Option<i64>) {
        self.high_watermark = offset;
        self.producers.forget_ended(self.high_watermark());
    }

    /// Removes idle producers; returns their ids.
    pub fn remove_expired_producers(&mut self, now: i64) -> Vec<i64> {
        self.producers
            .remove_expired(now, self.config.producer_id_expiration_ms)
    }

    /// The high watermark, between log start and log end.
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark.map_or(self.log_end_offset, |pinned| {
            pinned.min(self.log_end_offset).max(self.log_start_offset)
        })
    }

    /// Returns the first offset that is undecided for consumers that read committed; None if every offset is decided.
    pub fn first_unstable_offset(&self) -> Option<i64> {
        let first = self.producers.first_unstable_offset()?;
        Some(if first < self.log_start_offset {
            self.log_start_batch
        } else {
            first
        })
    }

    /// The offset where consumers that read committed stop.
    pub fn last_stable_offset(&self) -> i64 {
        let high_watermark = self.high_watermark();
        self.first_unstable_offset()
            .map_or(high_watermark, |first| first.min(high_watermark))
    }

    /// The offset of the next record.
    pub fn log_end_offset(&self) -> i64 {
        self.log_end_offset
    }

    /// The first offset of the log.
    pub fn log_start_offset(&self) -> i64 {
        self.log_start_offset
    }

    /// The active segment.
    pub fn segment(&self) -> &ActiveSegment {
        &self.segment
    }

    /// The producer state.
    pub fn producers(&self) -> &Producers {
        &self.producers
    }

    /// The leader epochs. A new leader assigns its own epoch at the log end offset.
    pub fn epochs(&mut self) -> &mut LeaderEpochs {
        &mut self.epochs
    }
}
