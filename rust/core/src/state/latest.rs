//! The latest record of each key, as a coordinator that loads its topic keeps it.

use std::collections::HashMap;

use crate::state::offset_commit::OffsetCommit;

/// A record: its value, its place and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestRecord {
    /// The value.
    pub value: Box<[u8]>,
    /// The offset.
    pub offset: i64,
    /// The timestamp in ms.
    pub timestamp: i64,
}

/// The latest record of each key that is not removed. Takes memory for each such key.
#[derive(Debug, Default)]
pub struct LatestRecords {
    by_key: HashMap<Box<[u8]>, LatestRecord>,
}

impl LatestRecords {
    /// Takes a record that comes after all others. Without a value, it removes its key.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>, offset: i64, timestamp: i64) {
        let Some(value) = value else {
            self.by_key.remove(key);
            return;
        };
        match self.by_key.get_mut(key) {
            // Most values are as long as the one before: their memory is used again.
            Some(known) if known.value.len() == value.len() => {
                known.value.copy_from_slice(value);
                (known.offset, known.timestamp) = (offset, timestamp);
            }
            Some(known) => {
                *known = LatestRecord {
                    value: value.into(),
                    offset,
                    timestamp,
                };
            }
            None => {
                self.by_key.insert(
                    key.into(),
                    LatestRecord {
                        value: value.into(),
                        offset,
                        timestamp,
                    },
                );
            }
        }
    }

    /// Removes the offset commits of `__consumer_offsets`, and returns their groups: the newest timestamp of each.
    ///
    /// Commits that do not decode stay.
    pub fn take_commit_groups(&mut self) -> HashMap<String, i64> {
        let mut groups: HashMap<String, i64> = HashMap::new();
        self.by_key.retain(|key, record| {
            let Ok(Some(commit)) = OffsetCommit::decode(Some(key), Some(&record.value)) else {
                return true;
            };
            match groups.get_mut(commit.group.as_ref()) {
                Some(newest) => *newest = record.timestamp.max(*newest),
                None => drop(groups.insert(commit.group.into_owned(), record.timestamp)),
            }
            false
        });
        groups
    }

    /// Returns the keys and their records, in the order of the log.
    pub fn into_records(self) -> Vec<(Box<[u8]>, LatestRecord)> {
        let mut records: Vec<_> = self.by_key.into_iter().collect();
        records.sort_by_key(|(_, record)| record.offset);
        records
    }
}
