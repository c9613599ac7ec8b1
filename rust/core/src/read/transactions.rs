//! Open and aborted transactions, found from batch headers and markers in log order.
//!
//! Kafka's `ProducerStateManager` tracks the same state, and also sequences. A producer's first transactional batch
//! opens a transaction, and a marker ends it. The last stable offset is the first offset of the earliest open
//! transaction.

use std::collections::HashMap;

use crate::base::error::{Error, Result};
use crate::format::batch::{BATCH_OVERHEAD, Header};
use crate::format::control::{self, ControlType};
use crate::format::record;
use crate::read::fetch::AbortedTransaction;

/// The transactions seen so far.
#[derive(Debug, Default)]
pub struct Transactions {
    open: HashMap<i64, i64>,
    aborted: Vec<AbortedTransaction>,
}

impl Transactions {
    /// Starts with transactions that are already open, as in a producer snapshot: producer id, first offset.
    pub fn with_open(open: impl IntoIterator<Item = (i64, i64)>) -> Self {
        Self {
            open: open.into_iter().collect(),
            aborted: Vec::new(),
        }
    }

    /// Adds the next batch of the log. `entry` is the whole batch; it is read for markers only.
    pub fn batch(&mut self, header: &Header, entry: &[u8]) -> Result<()> {
        if header.producer_id < 0 {
            return Ok(());
        }
        if header.is_control() {
            self.marker(header, entry)
                .map_err(|error| header.locate(error))
        } else {
            if header.is_transactional() {
                self.open
                    .entry(header.producer_id)
                    .or_insert(header.base_offset);
            }
            Ok(())
        }
    }

    fn marker(&mut self, header: &Header, entry: &[u8]) -> Result<()> {
        // One wrong bit would turn a COMMIT into an ABORT.
        header.check_crc(entry)?;
        let Some(control_type) = marker_type(header, entry)? else {
            return Ok(());
        };
        if let Some(first_offset) = self.open.remove(&header.producer_id)
            && control_type == ControlType::Abort
        {
            self.aborted.push(AbortedTransaction {
                producer_id: header.producer_id,
                first_offset,
                last_offset: header.last_offset(),
            });
        }
        Ok(())
    }

    /// Producer id and first offset of the open transactions, ordered by first offset.
    pub fn open(&self) -> Vec<(i64, i64)> {
        let mut open: Vec<_> = self.open.iter().map(|(&id, &first)| (id, first)).collect();
        open.sort_unstable_by_key(|&(id, first)| (first, id));
        open
    }

    /// The transactions ended by ABORT, in the order of their markers.
    pub fn aborted(&self) -> &[AbortedTransaction] {
        &self.aborted
    }
}

/// The end of a transaction, by its marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndOfTransaction {
    /// True for COMMIT, false for ABORT.
    pub is_commit: bool,
    /// The epoch of the coordinator that decided.
    pub coordinator_epoch: i32,
}

/// Returns the contents of a marker; None for a batch that is not a marker, or that the cleaner emptied.
pub fn end_of_transaction(entry: &[u8]) -> Result<Option<EndOfTransaction>> {
    let Some(header) = Header::parse(entry, 0)? else {
        return Err(Error::corrupt(format!(
            "batch of {} bytes is cut",
            entry.len()
        )));
    };
    if !header.is_control() {
        return Ok(None);
    }
    header.check_crc(entry)?;
    let Some(control_type) = marker_type(&header, entry)? else {
        return Ok(None);
    };
    let first = record::first(entry.get(BATCH_OVERHEAD..).unwrap_or_default())?;
    Ok(Some(EndOfTransaction {
        is_commit: control_type == ControlType::Commit,
        coordinator_epoch: control::coordinator_epoch(first.value.unwrap_or_default())?,
    }))
}

/// Returns COMMIT or ABORT of a control batch; None for other types, and for a marker that the cleaner emptied.
fn marker_type(header: &Header, entry: &[u8]) -> Result<Option<ControlType>> {
    let mut found = None;
    let payload = entry.get(BATCH_OVERHEAD..).unwrap_or_default();
    // As in Kafka, only the first record of a control batch counts.
    if header.records_count.is_some_and(|count| count > 0) {
        let first = record::first(payload)?;
        let control_type = control::control_type(first.key.unwrap_or_default())?;
        if matches!(control_type, ControlType::Abort | ControlType::Commit) {
            found = Some(control_type);
        }
    }
    Ok(found)
}
