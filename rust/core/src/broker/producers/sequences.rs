//! The sequences of a producer's batches. They show which batch is next, and which was stored before.

use super::producer::{BatchMetadata, Producer};
use super::{DuplicateBatch, Producers};
use crate::broker::refusal::{Refusal, Refused};
use crate::format::batch::Header;

impl Producer {
    pub(super) fn check_sequence(
        &self,
        stored: &Self,
        header: &Header,
    ) -> std::result::Result<(), Refused> {
        let first = header.base_sequence;
        let expected = if header.producer_epoch != self.epoch {
            // A producer that is unknown, or forgotten, may start with any sequence.
            if first == 0 || self.epoch == -1 {
                return Ok(());
            }
            0
        } else {
            if stored.epoch == -1 {
                return Ok(());
            }
            let last = if self.recent.last().is_some() {
                self.last_sequence()
            } else if header.producer_epoch == stored.epoch {
                stored.last_sequence()
            } else {
                -1
            };
            let next = match last {
                i32::MAX => 0,
                last => last + 1,
            };
            if first == next {
                return Ok(());
            }
            next
        };
        Err(Refused::new(
            Refusal::OutOfOrderSequence,
            format!(
                "producer {} (epoch {}) sends base_sequence {first}, {expected} is next: a batch is missing, or this one \
                 was stored before",
                header.producer_id, header.producer_epoch
            ),
        ))
    }
}

impl Producers {
    /// Returns the stored batch, if this is one of the producer's last five.
    pub fn duplicate(&self, header: &Header) -> Option<DuplicateBatch> {
        let producer = self.producers.get(&header.producer_id)?;
        if producer.epoch != header.producer_epoch {
            return None;
        }
        let (first, last) = (header.base_sequence, header.last_sequence());
        let same =
            |batch: &&BatchMetadata| batch.first_sequence() == first && batch.last_sequence == last;
        producer
            .recent
            .iter()
            .find(same)
            .map(|batch| DuplicateBatch {
                first_offset: batch
                    .last_offset
                    .wrapping_sub(i64::from(batch.offset_delta)),
                last_offset: batch.last_offset,
                timestamp: batch.timestamp,
            })
    }
}
