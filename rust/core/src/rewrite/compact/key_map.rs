//! A map from hashed keys to the last record of each, in bounded memory.
//!
//! The hash is SipHash-1-3-128 with a secret key for each run, so that nobody can construct two record keys that
//! collide. By chance, two of 10^10 keys collide with a probability of 10^-19. Kafka also compares keys by a hash
//! alone, by MD5.
//!
//! A map holds the keys of a range of hashes. If the map needs more memory than it may use, it shrinks the range and
//! forgets the keys outside. Another map then covers these keys, starting at the end of this range. So a map is always
//! complete for its range.

use std::hint::black_box;

use super::packed_record::PackedRecord;

/// The maximum number of tables of a map, each for a part of the range. Tables grow or are dropped one at a time.
const MAX_TABLES: u64 = 64;

/// The number of slots of a new table.
const MIN_SLOTS: usize = 4;

/// The number of keys whose slots are fetched together, so that the waiting times overlap.
const TOGETHER: usize = 64;

/// The two halves of a hash, and a packed record. A record of 0 marks an empty slot; zeroed memory costs nothing until
/// it is used.
type Slot = [u64; 3];

/// A key's hash, and the record to store or look up for it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HashedKey {
    pub(crate) hash: [u64; 2],
    pub(super) record: PackedRecord,
}

/// The hashes from `start` to below `start + width`. A width of 0 stands for all hashes from `start` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashRange {
    /// The first hash.
    pub start: u64,
    /// The number of hashes; 0 for all that follow.
    pub width: u64,
}

impl HashRange {
    /// Every hash.
    pub const ALL: Self = Self { start: 0, width: 0 };

    /// The number of hashes minus one.
    fn last(&self) -> u64 {
        let all = u64::MAX - self.start;
        match self.width {
            0 => all,
            width => (width - 1).min(all),
        }
    }

    /// Returns the next range, an eighth wider, because the keys of a range that shrank may have been unusually dense.
    /// Returns None after the last hash.
    pub fn next(&self) -> Option<Self> {
        let start = self.start.checked_add(self.last())?.checked_add(1)?;
        let width = self.width.checked_add(self.width.div_ceil(8)).unwrap_or(0);
        Some(Self { start, width })
    }
}

#[derive(Debug, Default)]
struct Table {
    slots: Vec<Slot>,
    used: usize,
}

impl Table {
    /// The slot where a search starts: the hash's second half, scaled to the slots.
    #[inline]
    fn home(&self, hash: &[u64; 2]) -> usize {
        ((u128::from(hash[1]) * self.slots.len() as u128) >> 64) as usize
    }

    /// Returns the slot of the hash, or the empty slot where it belongs. None only if the table has no slots.
    #[inline]
    fn find(&mut self, hash: &[u64; 2]) -> Option<&mut Slot> {
        let home = self.home(hash);
        let (head, tail) = self.slots.split_at_mut_checked(home)?;
        tail.iter_mut()
            .chain(head)
            .find(|slot| slot[2] == 0 || slot[..2] == *hash)
    }

    /// Returns true if more than four in five slots would be used, because searches would become long.
    fn is_full(&self) -> bool {
        (self.used + 1) * 5 > self.slots.len() * 4
    }

    fn grown(&self) -> usize {
        (self.slots.len() + self.slots.len() / 2).max(MIN_SLOTS)
    }

    /// Moves the slots that `stays` accepts to a table of `slots` slots.
    fn rebuild(&mut self, slots: usize, stays: impl Fn(&Slot) -> bool) {
        let mut next = Self {
            slots: vec![[0; 3]; slots],
            used: 0,
        };
        for slot in &self.slots {
            if slot[2] != 0
                && stays(slot)
                && let Some(empty) = next.find(&[slot[0], slot[1]])
            {
                *empty = *slot;
                next.used += 1;
            }
        }
        *self = next;
    }
}

/// The map.
#[derive(Debug)]
pub(crate) struct KeyMap {
    range: HashRange,
    /// The number of bits by which the distance of a hash from the start of the range is shifted right. The result is
    /// the number of the hash's table.
    shift: u32,
    tables: Vec<Table>,
    slots: usize,
    max_slots: usize,
    /// Keys ordered by table, while they are stored.
    sorted: Vec<HashedKey>,
}

impl KeyMap {
    /// Creates a map for the keys of `range`, or for as much of it as fits into `max_bytes`.
    pub(crate) fn new(range: HashRange, max_bytes: usize) -> Self {
        let mut shift = 0;
        while range.last() >> shift >= MAX_TABLES {
            shift += 1;
        }
        let count = (range.last() >> shift) as usize + 1;
        Self {
            range,
            shift,
            tables: (0..count).map(|_| Table::default()).collect(),
            slots: 0,
            max_slots: max_bytes / size_of::<Slot>(),
            sorted: Vec::new(),
        }
    }

    /// The range for which the map is complete.
    pub(crate) fn range(&self) -> HashRange {
        self.range
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.tables.iter().map(|table| table.used).sum()
    }

    /// The last record of every key.
    pub(super) fn records(&self) -> impl Iterator<Item = PackedRecord> + '_ {
        let slots = self.tables.iter().flat_map(|table| &table.slots);
        slots
            .filter(|slot| slot[2] != 0)
            .map(|slot| PackedRecord(slot[2]))
    }

    /// Stores the records of the keys in the range. `first` is the number of records before these. A later record
    /// replaces an earlier one.
    pub(crate) fn put(&mut self, keys: &[HashedKey], first: u64) {
        for keys in keys.chunks(TOGETHER) {
            self.touch(keys);
            for key in keys {
                self.put_one(&key.hash, key.record.after(first));
            }
        }
    }

    /// Stores runs of keys, each with the number of preceding records. Many keys are stored table by table: a table
    /// fits into the processor's caches and page tables, and the map does not.
    pub(crate) fn put_all(&mut self, runs: &[(&[HashedKey], u64)]) {
        let mut ends = [0_usize; MAX_TABLES as usize + 1];
        for (keys, _) in runs {
            for key in *keys {
                if let Some(end) = self.table(&key.hash).and_then(|at| ends.get_mut(at + 1)) {
                    *end += 1;
                }
            }
        }
        let mut total = 0;
        for end in &mut ends {
            total += *end;
            *end = total;
        }
        let mut sorted = std::mem::take(&mut self.sorted);
        sorted.resize(total, HashedKey::default());
        for (keys, first) in runs {
            for key in *keys {
                // Where the next key of its table goes. The end of the table before is its start.
                let next = self.table(&key.hash).and_then(|at| ends.get_mut(at));
                if let Some(next) = next
                    && let Some(place) = sorted.get_mut(*next)
                {
                    *place = HashedKey {
                        record: key.record.after(*first),
                        ..*key
                    };
                    *next += 1;
                }
            }
        }
        self.put(&sorted, 0);
        self.sorted = sorted;
    }

    /// Calls `found` for each key in the range, and whether the map has it.
    pub(crate) fn look_up(&mut self, keys: &[HashedKey], mut found: impl FnMut(&HashedKey, bool)) {
        for keys in keys.chunks(TOGETHER) {
            self.touch(keys);
            for key in keys {
                let Some(table) = self.table(&key.hash) else {
                    continue;
                };
                let table = self.tables.get_mut(table);
                let slot = table.and_then(|table| table.find(&key.hash));
                found(key, slot.is_some_and(|slot| slot[2] != 0));
            }
        }
    }

    /// Reads the slots where the searches start. No read waits for another.
    #[inline]
    fn touch(&self, keys: &[HashedKey]) {
        let mut all = 0;
        for key in keys {
            let table = self.table(&key.hash).and_then(|at| self.tables.get(at));
            let slot = table.and_then(|table| table.slots.get(table.home(&key.hash)));
            all |= slot.map_or(0, |slot| slot[2]);
        }
        black_box(all);
    }

    #[inline]
    fn table(&self, hash: &[u64; 2]) -> Option<usize> {
        let distance = hash[0].checked_sub(self.range.start)?;
        (distance <= self.range.last()).then_some((distance >> self.shift) as usize)
    }

    #[inline]
    fn put_one(&mut self, hash: &[u64; 2], record: PackedRecord) {
        while let Some(at) = self.table(hash) {
            let Some(table) = self.tables.get_mut(at) else {
                return;
            };
            let has_room = !table.is_full();
            if let Some(slot) = table.find(hash) {
                let is_new = slot[2] == 0;
                if has_room || !is_new {
                    *slot = [hash[0], hash[1], record.0];
                    table.used += usize::from(is_new);
                    return;
                }
            }
            self.make_room(at);
        }
    }

    /// Grows a table, or shrinks the range until one could grow.
    #[cold]
    fn make_room(&mut self, at: usize) {
        let Some(table) = self.tables.get_mut(at) else {
            return;
        };
        let slots = table.grown();
        // Both tables exist while one is moved to the other.
        if self.slots + slots <= self.max_slots || self.range.width == 1 {
            self.slots += slots - table.slots.len();
            table.rebuild(slots, |_| true);
        } else {
            self.shrink();
        }
    }

    /// Shrinks the range by an eighth. The step is small: forgotten keys must be read again, and shrinking too much may
    /// cost another pass.
    fn shrink(&mut self) {
        let last = self.range.last();
        let last = last - (last / 8).max(1).min(last);
        self.range.width = last + 1;
        let count = (last >> self.shift) as usize + 1;
        self.tables.truncate(count);
        let start = self.range.start;
        if let Some(table) = self.tables.last_mut() {
            let slots = table.slots.len();
            table.rebuild(slots, |slot| slot[0].wrapping_sub(start) <= last);
        }
        self.slots = self.tables.iter().map(|table| table.slots.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::packed_record::ValueKind;
    use super::*;

    fn keys(count: u64) -> Vec<HashedKey> {
        let hasher = siphasher::sip128::SipHasher13::new_with_keys(1, 2);
        (0..count)
            .map(|number| {
                let hash = hasher.hash(&number.to_be_bytes());
                HashedKey {
                    hash: [hash.h1, hash.h2],
                    record: PackedRecord::new(number, ValueKind::Present),
                }
            })
            .collect()
    }

    fn numbers(map: &KeyMap) -> impl Iterator<Item = u64> {
        map.records().map(PackedRecord::number)
    }

    fn all(keys: &[HashedKey], max_bytes: usize) -> (Vec<u64>, usize) {
        let (mut range, mut passes, mut found) = (Some(HashRange::ALL), 0, Vec::new());
        while let Some(this) = range {
            let mut map = KeyMap::new(this, max_bytes);
            let mut twin = KeyMap::new(this, max_bytes);
            map.put(keys, 0);
            let (one, other) = keys.split_at(keys.len() / 3);
            twin.put_all(&[(one, 0), (&[], 7), (other, 0)]);
            // in another order, the range may shrink elsewhere; what is in both ranges is the same
            if twin.range() == map.range() {
                let sorted = |map: &KeyMap| {
                    let mut numbers: Vec<_> = numbers(map).collect();
                    numbers.sort_unstable();
                    numbers
                };
                assert_eq!(sorted(&map), sorted(&twin));
            }
            assert!(map.slots <= map.max_slots || map.len() == 1);
            assert_eq!(numbers(&map).count(), map.len());
            found.extend(numbers(&map));
            range = map.range().next();
            passes += 1;
        }
        found.sort_unstable();
        (found, passes)
    }

    #[test]
    fn every_key_is_in_one_range_however_little_memory_there_is() {
        let keys = keys(3000);
        let expected: Vec<u64> = (0..3000).collect();
        assert_eq!(all(&keys, 1 << 20), (expected.clone(), 1));
        for (slots, most) in [(2000, 4), (300, 60), (30, 600), (6, 12_000)] {
            let (numbers, passes) = all(&keys, 24 * slots);
            assert_eq!(numbers, expected);
            assert!(
                passes > 1 && passes < most,
                "{passes} passes with {slots} slots"
            );
        }
    }

    #[test]
    fn a_later_number_replaces_an_earlier_one() {
        let mut twice = keys(500);
        twice.extend(keys(500).into_iter().map(|key| HashedKey {
            record: key.record.after(1000),
            ..key
        }));
        assert_eq!(all(&twice, 1 << 20).0, (1000..1500).collect::<Vec<_>>());
        assert_eq!(all(&twice, 24 * 100).0, (1000..1500).collect::<Vec<_>>());
    }

    #[test]
    fn ranges_meet_and_end_with_the_last_hash() {
        let half = HashRange {
            start: 0,
            width: 1 << 63,
        };
        let other = half.next().unwrap();
        assert_eq!((other.start, other.last()), (1 << 63, u64::MAX >> 1));
        assert_eq!(other.next(), None);
        assert_eq!(HashRange::ALL.next(), None);
        let rest = HashRange {
            start: u64::MAX,
            width: 5,
        };
        assert_eq!((rest.last(), rest.next()), (0, None));
        let wide = HashRange {
            start: 3,
            width: u64::MAX - 20,
        };
        assert_eq!(wide.next().map(|next| next.width), Some(0));
    }
}
