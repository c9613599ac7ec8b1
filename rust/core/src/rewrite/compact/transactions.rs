//! The transactions of a log as the cleaner follows them (`CleanedTransactionMetadata`).
//!
//! The records of an aborted transaction may be dropped immediately, but its marker only after all its records are
//! dropped. So a marker may be dropped in the first pass that finds no batch of the transaction, not even an empty one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use crate::format::batch::Header;
use crate::format::control::ControlType;
use crate::format::index::AbortedTxn;

/// The transactions at the current batch.
#[derive(Debug, Default)]
pub(crate) struct CleanedTransactions {
    /// Aborted transactions that have not begun, by first offset; then last offset, producer id and last stable offset.
    upcoming: BinaryHeap<Reverse<(i64, i64, i64, i64)>>,
    /// By producer: the aborted transaction that has begun, and whether a batch of it was found.
    aborted: HashMap<i64, (AbortedTxn, bool)>,
    /// Producers that have a batch after their last COMMIT.
    committed: HashSet<i64>,
}

/// The effect of a control batch on the transaction that it ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MarkerVerdict {
    /// True if no batch of the transaction is left: the marker may be dropped.
    pub(crate) is_discardable: bool,
    /// The entry for the transaction index of the new segment.
    pub(crate) aborted: Option<AbortedTxn>,
}

impl CleanedTransactions {
    /// Announces an aborted transaction before its first batch.
    pub(crate) fn add(&mut self, entry: &AbortedTxn) {
        self.upcoming.push(Reverse((
            entry.first_offset,
            entry.last_offset,
            entry.producer_id,
            entry.last_stable_offset,
        )));
    }

    /// Adds a data batch; returns whether it was aborted.
    pub(crate) fn data(&mut self, header: &Header) -> bool {
        self.begin(header);
        if !header.is_transactional() {
            return false;
        }
        match self.aborted.get_mut(&header.producer_id) {
            Some((_, is_met)) => {
                *is_met = true;
                true
            }
            None => {
                self.committed.insert(header.producer_id);
                false
            }
        }
    }

    /// Adds a control batch of this type; None if it has no record.
    pub(crate) fn control(
        &mut self,
        header: &Header,
        control_type: Option<ControlType>,
    ) -> MarkerVerdict {
        self.begin(header);
        let (is_discardable, aborted) = match control_type {
            None => (true, None),
            Some(ControlType::Abort) => match self.aborted.remove(&header.producer_id) {
                Some((entry, true)) => (false, Some(entry)),
                _ => (true, None),
            },
            Some(ControlType::Commit) => (!self.committed.remove(&header.producer_id), None),
            Some(_) => (false, None),
        };
        MarkerVerdict {
            is_discardable,
            aborted,
        }
    }

    /// Begins the aborted transactions that start up to this batch. If a producer has several, the first stays until
    /// its marker.
    fn begin(&mut self, header: &Header) {
        while let Some(&Reverse((first_offset, last_offset, producer_id, last_stable_offset))) =
            self.upcoming.peek()
            && first_offset <= header.last_offset()
        {
            self.upcoming.pop();
            let entry = AbortedTxn {
                version: 0,
                producer_id,
                first_offset,
                last_offset,
                last_stable_offset,
            };
            self.aborted.entry(producer_id).or_insert((entry, false));
        }
    }
}
