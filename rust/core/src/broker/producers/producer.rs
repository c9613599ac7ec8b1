//! The state of one producer, and the checks of its next batch or marker.

use super::AppendOrigin;
use crate::base::error::{Error, ErrorKind};
use crate::broker::refusal::{Refusal, Refused};
use crate::format::batch::{BATCH_OVERHEAD, Header, decrement_sequence};
use crate::format::compression::{Compression, Decompressor};
use crate::format::control::{self, ControlType};
use crate::format::record;
use crate::format::snapshot::ProducerState;

/// The metadata of a batch that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchMetadata {
    pub(super) last_sequence: i32,
    pub(super) last_offset: i64,
    pub(super) offset_delta: i32,
    pub(super) timestamp: i64,
}

impl BatchMetadata {
    pub(super) fn first_sequence(&self) -> i32 {
        decrement_sequence(self.last_sequence, self.offset_delta)
    }
}

/// The last batches of a producer's newest producer epoch, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RecentBatches([Option<BatchMetadata>; 5]);

impl RecentBatches {
    pub(super) fn push(&mut self, batch: BatchMetadata) {
        self.0.rotate_left(1);
        if let Some(last) = self.0.last_mut() {
            *last = Some(batch);
        }
    }

    pub(super) fn last(&self) -> Option<&BatchMetadata> {
        self.0.last().and_then(Option::as_ref)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &BatchMetadata> {
        self.0.iter().flatten()
    }
}

/// A producer's state. -1 stands for unknown, as in snapshot files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Producer {
    pub(super) epoch: i16,
    pub(super) coordinator_epoch: i32,
    pub(super) timestamp: i64,
    pub(super) txn_first_offset: Option<i64>,
    pub(super) recent: RecentBatches,
}

impl Producer {
    pub(super) const UNKNOWN: Self = Self {
        epoch: -1,
        coordinator_epoch: -1,
        timestamp: -1,
        txn_first_offset: None,
        recent: RecentBatches([None; 5]),
    };

    pub(super) fn set_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.recent = RecentBatches::default();
            self.epoch = epoch;
        }
    }

    pub(super) fn last_sequence(&self) -> i32 {
        self.recent.last().map_or(-1, |batch| batch.last_sequence)
    }

    pub(super) fn state(&self, producer_id: i64) -> ProducerState {
        let last = self.recent.last();
        ProducerState {
            producer_id,
            producer_epoch: self.epoch,
            last_sequence: self.last_sequence(),
            last_offset: last.map_or(-1, |batch| batch.last_offset),
            offset_delta: last.map_or(0, |batch| batch.offset_delta),
            timestamp: self.timestamp,
            coordinator_epoch: self.coordinator_epoch,
            current_txn_first_offset: self.txn_first_offset.unwrap_or(-1),
        }
    }
}

/// A transaction that a marker ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct CompletedTxn {
    pub(super) producer_id: i64,
    pub(super) first_offset: i64,
    pub(super) last_offset: i64,
    pub(super) is_aborted: bool,
}

pub(super) fn is_expired(producer: &Producer, now: i64, expiration_ms: i64) -> bool {
    producer.txn_first_offset.is_none() && now.wrapping_sub(producer.timestamp) >= expiration_ms
}

impl Producer {
    /// Checks and adds a data batch. Returns the first offset of the transaction that it begins, if any.
    pub(super) fn data(
        &mut self,
        stored: &Self,
        header: &Header,
        origin: AppendOrigin,
    ) -> std::result::Result<Option<i64>, Refused> {
        self.check_epoch(header, origin)?;
        if origin == AppendOrigin::Client {
            self.check_sequence(stored, header)?;
        }
        self.set_epoch(header.producer_epoch);
        self.recent.push(BatchMetadata {
            last_sequence: header.last_sequence(),
            last_offset: header.last_offset(),
            offset_delta: header.last_offset_delta,
            timestamp: header.max_timestamp,
        });
        self.timestamp = header.max_timestamp;
        match (self.txn_first_offset, header.is_transactional()) {
            (Some(first), false) => Err(Refused::new(
                Refusal::InvalidTxnState,
                format!(
                    "batch outside a transaction from producer {}, whose transaction from offset {first} on is open: \
                     end that first",
                    header.producer_id
                ),
            )),
            (None, true) => {
                self.txn_first_offset = Some(header.base_offset);
                Ok(Some(header.base_offset))
            }
            _ => Ok(None),
        }
    }

    fn check_epoch(
        &self,
        header: &Header,
        origin: AppendOrigin,
    ) -> std::result::Result<(), Refused> {
        if header.producer_epoch >= self.epoch || origin == AppendOrigin::Replication {
            return Ok(());
        }
        Err(Refused::new(
            Refusal::InvalidProducerEpoch,
            format!(
                "producer {} has epoch {}, but epoch {} was seen: a newer producer of that id has taken over",
                header.producer_id, header.producer_epoch, self.epoch
            ),
        ))
    }

    /// Refuses a marker whose producer epoch is not above the transaction's. Since transaction version 2, each
    /// transaction ends with a raised producer epoch, so that a late marker of an earlier transaction does not end it
    /// (KIP-890, KIP-1228). The same epoch is accepted in two cases: if the marker is a retry of one that has ended its
    /// transaction, and if no higher epoch exists.
    fn check_raised_epoch(
        &self,
        header: &Header,
        origin: AppendOrigin,
        transaction_version: i8,
    ) -> std::result::Result<(), Refused> {
        let Some(first) = self.txn_first_offset else {
            return Ok(());
        };
        if transaction_version < 2
            || origin == AppendOrigin::Replication
            || header.producer_epoch != self.epoch
            || self.epoch == i16::MAX
        {
            return Ok(());
        }
        Err(Refused::new(
            Refusal::InvalidProducerEpoch,
            format!(
                "marker of producer {} has epoch {}, as the batches of its transaction from offset {first} on: with \
                 transaction version {transaction_version} it must be higher",
                header.producer_id, header.producer_epoch
            ),
        ))
    }

    /// Checks and adds a marker. Returns the transaction that it ends, if one is open.
    pub(super) fn end(
        &mut self,
        header: &Header,
        marker: &EndTxnMarker,
        origin: AppendOrigin,
        transaction_version: i8,
    ) -> std::result::Result<Option<CompletedTxn>, Refused> {
        self.check_epoch(header, origin)?;
        self.check_raised_epoch(header, origin, transaction_version)?;
        if marker.coordinator_epoch < self.coordinator_epoch && origin != AppendOrigin::Replication
        {
            return Err(Refused::new(
                Refusal::TransactionCoordinatorFenced,
                format!(
                    "marker of producer {} has coordinator epoch {}, but {} was seen: a newer coordinator has taken over",
                    header.producer_id, marker.coordinator_epoch, self.coordinator_epoch
                ),
            ));
        }
        let completed = self.txn_first_offset.map(|first_offset| CompletedTxn {
            producer_id: header.producer_id,
            first_offset,
            last_offset: header.base_offset,
            is_aborted: marker.is_abort,
        });
        self.set_epoch(header.producer_epoch);
        self.coordinator_epoch = marker.coordinator_epoch;
        self.timestamp = marker.timestamp;
        self.txn_first_offset = None;
        Ok(completed)
    }
}

pub(super) struct EndTxnMarker {
    is_abort: bool,
    coordinator_epoch: i32,
    timestamp: i64,
}

/// Returns the marker in a control batch; None if the cleaner emptied the batch, because its transaction is no longer
/// in the log.
pub(super) fn marker(
    header: &Header,
    entry: &[u8],
) -> std::result::Result<Option<EndTxnMarker>, Refused> {
    if header.records_count == Some(0) {
        return Ok(None);
    }
    let refused = |error: Error| {
        let refusal = match error.kind {
            ErrorKind::Corrupt => Refusal::InvalidRecord,
            ErrorKind::Unsupported | ErrorKind::Invalid => Refusal::Append,
        };
        Refused::of(refusal, error).at(header.position, header.base_offset)
    };
    let mut decompressor;
    let stored = entry.get(BATCH_OVERHEAD..).unwrap_or_default();
    let payload = match header.compression().map_err(refused)? {
        Compression::None => stored,
        codec => {
            decompressor = Decompressor::new(MAX_MARKER_BYTES);
            let decompressed = decompressor.decompress(codec, stored, false);
            decompressed.map_err(refused)?
        }
    };
    let first = record::first(payload).map_err(refused)?;
    let is_abort = match control::control_type(first.key.unwrap_or_default()).map_err(refused)? {
        ControlType::Abort => true,
        ControlType::Commit => false,
        other => {
            return Err(Refused::new(
                Refusal::Append,
                format!("control record {other:?} is not a transaction marker"),
            )
            .at(header.position, header.base_offset));
        }
    };
    let (timestamp, _) = first.timestamp_and_offset(header);
    Ok(Some(EndTxnMarker {
        is_abort,
        coordinator_epoch: control::coordinator_epoch(first.value.unwrap_or_default())
            .map_err(refused)?,
        timestamp,
    }))
}

/// The cap on a compressed marker. Markers have some twenty bytes, and brokers do not compress them.
const MAX_MARKER_BYTES: usize = 1 << 16;
