//! Rolling: the conditions for a new segment, and the last writes to the old one.

use super::{ActiveSegment, Analysis, Effects, LogAppender, LogConfig, SegmentWrite};
use crate::broker::index_builder::{
    IndexError, SegmentIndexes, TransactionIndexEnd, relative_offset,
};

impl LogAppender {
    /// Returns the base offset of a new segment, if a new segment must begin before these bytes.
    pub(super) fn roll_offset(&self, size: usize, analysis: &Analysis, now: i64) -> Option<i64> {
        let segment = &self.segment;
        let waited = match segment.first_timestamp {
            Some(first) if first >= 0 => analysis.max_timestamp.wrapping_sub(first),
            _ => now.wrapping_sub(segment.created_ms),
        };
        let limit = self
            .config
            .segment_ms
            .wrapping_sub(self.jitter(segment.base_offset));
        let is_due = segment.size as i64 > self.config.segment_bytes - size as i64
            || (segment.size > 0 && waited > limit)
            || segment.indexes.is_full()
            || relative_offset(analysis.last_offset, segment.base_offset).is_none();
        // The first offset of a set of magic 0 or 1 is not known. It starts at most this far below its last.
        let first = analysis
            .first_offset
            .unwrap_or_else(|| analysis.last_offset.wrapping_sub(i64::from(i32::MAX)));
        is_due.then(|| first.max(self.log_end_offset))
    }

    /// Returns the jitter of a segment. Kafka's jitter is random. This jitter is reproducible.
    fn jitter(&self, base_offset: i64) -> i64 {
        let most = self.config.segment_jitter_ms.min(self.config.segment_ms);
        let mut mixed = self.config.jitter_seed ^ base_offset as u64;
        // SplitMix64.
        mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        match u64::try_from(most) {
            Ok(most) if most > 0 => (mixed % most) as i64,
            _ => 0,
        }
    }

    pub(super) fn new_segment(&self, base_offset: i64, now: i64) -> ActiveSegment {
        let LogConfig {
            index_interval_bytes,
            segment_index_bytes,
            ..
        } = self.config;
        ActiveSegment {
            base_offset,
            size: 0,
            created_ms: now,
            first_timestamp: None,
            indexes: SegmentIndexes::new(base_offset, index_interval_bytes, segment_index_bytes),
            transactions: TransactionIndexEnd::default(),
        }
    }

    /// Ends the active segment. The next segment has this base offset.
    pub(super) fn leave_segment(
        &mut self,
        base_offset: i64,
        effects: &mut Effects,
    ) -> std::result::Result<(), IndexError> {
        let mut final_time_entry = Vec::new();
        self.segment.indexes.finish(&mut final_time_entry)?;
        self.producers.set_end_offset(base_offset);
        effects.writes.push(SegmentWrite {
            base_offset,
            is_new: true,
            snapshot: self.producers.take_snapshot(),
            final_time_entry,
            ..SegmentWrite::default()
        });
        Ok(())
    }
}
