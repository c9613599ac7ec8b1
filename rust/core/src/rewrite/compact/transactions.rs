//! Transactions as the cleaner follows them through a log (`CleanedTransactionMetadata`).
//!
//! A transaction's data may go at once if it was aborted; its marker only after all of its data has gone. So a marker may
//! go in the first pass that meets none of the transaction's batches, empty ones included.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use crate::format::batch::Header;
use crate::format::control::ControlType;
use crate::format::index::AbortedTxn;

/// Where a log's transactions stand, batch by batch.
#[derive(Debug, Default)]
pub(crate) struct CleanedTransactions {
    /// Not begun yet, by first offset; last offset, producer id and last stable offset follow.
    upcoming: BinaryHeap<Reverse<(i64, i64, i64, i64)>>,
    /// By producer: begun and to be aborted, and whether a batch of it was met.
    aborted: HashMap<i64, (AbortedTxn, bool)>,
    /// Producers of which a batch was met since their last COMMIT.
    committed: HashSet<i64>,
}

/// What a control batch means for the transaction that it ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MarkerVerdict {
    /// No batch of the transaction is left: the marker may go.
    pub(crate) is_discardable: bool,
    /// For the transaction index of the new segment.
    pub(crate) aborted: Option<AbortedTxn>,
}

impl CleanedTransactions {
    /// Announces an aborted transaction, before its first batch.
    pub(crate) fn add(&mut self, entry: &AbortedTxn) {
        self.upcoming.push(Reverse((
            entry.first_offset,
            entry.last_offset,
            entry.producer_id,
            entry.last_stable_offset,
        )));
    }

    /// Takes a batch of data; tells whether it was aborted.
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

    /// Takes a control batch of this type; None: it has no record.
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

    /// The aborted transactions that begin up to the batch: of one producer's, the first stays until its marker.
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
