//! The latest record of each key, as a coordinator keeps it when it loads its topic.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::base::error::{Error, Result};
use crate::base::primitives::Reader;
use crate::base::units::in_bytes;
use crate::state::offset_commit::OffsetCommit;

/// A record: its value, its offset and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestRecord {
    /// The value.
    pub value: Box<[u8]>,
    /// The offset.
    pub offset: i64,
    /// The timestamp in ms.
    pub timestamp: i64,
}

/// The memory of a record in addition to its key and its value: their allocations, and the slots of a map that is half
/// full.
const MEMORY_OF_RECORD: usize = 160;
/// The maximum memory of one record, as a fraction of all memory. A larger record would take more than all memory once
/// it is decoded.
const SHARE_OF_RECORD: usize = 8;

/// The latest record of each key that is not removed. It uses memory for each such key, up to a limit.
#[derive(Debug)]
pub struct LatestRecords {
    by_key: HashMap<Box<[u8]>, LatestRecord>,
    /// The latest records that are too large to keep: their offsets and bytes.
    too_large: HashMap<Box<[u8]>, (i64, usize)>,
    memory: usize,
    most: usize,
    /// The share of the keys that is kept, by their hash: its number, and the number of shares.
    share: (u64, u64),
}

impl LatestRecords {
    /// Creates an empty map that takes at most `most` bytes of memory.
    pub fn new(most: usize) -> Self {
        Self {
            by_key: HashMap::new(),
            too_large: HashMap::new(),
            memory: 0,
            most,
            share: (0, 1),
        }
    }

    /// Keeps only the keys of share `number` of `count` equal shares. All maps divide keys in the same way.
    pub fn of_share(self, number: u64, count: u64) -> Self {
        Self {
            share: (number, count.max(1)),
            ..self
        }
    }

    fn is_of_share(&self, key: &[u8]) -> bool {
        let (number, count) = self.share;
        count == 1 || {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            hasher.finish() % count == number
        }
    }

    /// Adds a record that comes after all others. A record without a value removes its key.
    ///
    /// Fails if the records take more memory than is allowed; the earlier records are then unchanged.
    pub fn push(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        offset: i64,
        timestamp: i64,
    ) -> Result<()> {
        if !self.is_of_share(key) {
            return Ok(());
        }
        if !self.too_large.is_empty() && self.too_large.remove(key).is_some() {
            self.memory -= MEMORY_OF_RECORD + key.len();
        }
        let Some(value) = value else {
            self.remove(key);
            return Ok(());
        };
        if key.len() + value.len() > self.most / SHARE_OF_RECORD {
            self.remove(key);
            self.take(key.len())?;
            self.too_large
                .insert(key.into(), (offset, key.len() + value.len()));
            return Ok(());
        }
        match self.by_key.get(key) {
            Some(known) => self.memory -= known.value.len(),
            None => self.take(key.len())?,
        }
        self.take_bytes(value.len())?;
        match self.by_key.get_mut(key) {
            // Most values are as long as the previous one, so its memory is reused.
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
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(known) = self.by_key.remove(key) {
            self.memory -= MEMORY_OF_RECORD + key.len() + known.value.len();
        }
    }

    fn take(&mut self, key_length: usize) -> Result<()> {
        self.take_bytes(MEMORY_OF_RECORD + key_length)
    }

    fn take_bytes(&mut self, bytes: usize) -> Result<()> {
        self.memory += bytes;
        if self.memory > self.most {
            return Err(Error::unsupported(format!(
                "the latest records of {} keys take more than {} of memory",
                self.by_key.len(),
                in_bytes(self.most as u64)
            )));
        }
        Ok(())
    }

    /// Returns the latest records that are too large to keep: the offset of each, and the bytes of key and value.
    pub fn too_large(&self) -> Vec<(i64, usize)> {
        let mut found: Vec<_> = self.too_large.values().copied().collect();
        found.sort_unstable();
        found
    }

    /// Removes the offset commits of `__consumer_offsets`, and returns their groups with the newest timestamp of each.
    ///
    /// Commits that cannot be decoded stay.
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
        records.sort_unstable_by_key(|(_, record)| record.offset);
        records
    }

    /// Returns the records of `__consumer_offsets`, group by group.
    pub fn into_groups(self) -> Vec<(Box<[u8]>, LatestRecord)> {
        let mut records: Vec<_> = self.by_key.into_iter().collect();
        records.sort_unstable_by(|(one, before), (next, after)| {
            (group_in(one), before.offset).cmp(&(group_in(next), after.offset))
        });
        records
    }
}

/// The group in the key of a record of `__consumer_offsets`: the text in the first field of each key.
fn group_in(key: &[u8]) -> &[u8] {
    let mut reader = Reader::new(key);
    let length = reader.i16().and_then(|_| reader.i16()).unwrap_or(0);
    let length = usize::try_from(length).unwrap_or(0);
    reader.rest().get(..length).unwrap_or_default()
}
