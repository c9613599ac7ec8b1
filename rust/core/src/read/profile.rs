//! Sums of the records and batches of a log, by time, message format and codec.
//!
//! A record counts at its timestamp, a batch at its largest timestamp. All records count, including aborted records and
//! records below the log start offset. Control records have a sum of their own.

use std::collections::BTreeMap;

use crate::base::error::{Error, Result};
use crate::base::primitives::Reader;
use crate::format::batch::Header;
use crate::format::compression::DEFAULT_MAX_BATCH_BYTES;
use crate::format::walk::{NextBatch, next_batch};
use crate::read::columns::{BinaryColumn, Columns, NULL};
use crate::read::fetch::{Fetch, Progress, Selection};
use crate::read::file::{FileResult, ReadAt, Window};
use crate::read::row_column::RowColumn;
use crate::read::survey::cut_batch;

const HOUR_MS: i64 = 3_600_000;
/// The widths of a bounded profile's groups, each with the most groups that a profile with this width has. With more,
/// the next width follows.
const WIDTHS: [(i64, usize); 4] = [
    (HOUR_MS, 50_000),
    (24 * HOUR_MS, 50_000),
    (168 * HOUR_MS, 50_000),
    (8766 * HOUR_MS, 50_000),
];
/// The number of binary logarithms of a batch's size.
const SIZES: usize = 32;
/// The end of the times that a bounded profile distinguishes: the year 2200. Later times count as no time.
const LAST_MS: i64 = 230 * 8766 * HOUR_MS;

/// The widths of intervals in ms, the shortest first. A profile with more intervals than [`MOST_INTERVALS`] has longer
/// ones; with more of the longest, none.
const INTERVALS: [i64; 6] = [10, 100, 1000, 10_000, 60_000, 600_000];
const MOST_INTERVALS: usize = 200;

/// The start of a group's time in ms, None without a time; its magic; the id of its codec.
pub type ProfileGroup = (Option<i64>, i8, u8);

/// A statistic of a group. A minimum or a maximum is None without values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what its name says")]
pub enum ProfileFact {
    Batches,
    /// Bytes of whole batches, as stored.
    Bytes,
    MinBatchBytes,
    MaxBatchBytes,
    ControlRecords,
    Records,
    KeyBytes,
    ValueBytes,
    NullKeys,
    Tombstones,
    Headers,
    FirstOffset,
    LastOffset,
    FirstTimestamp,
    LastTimestamp,
}

impl ProfileFact {
    /// All statistics and their names, in order.
    pub const ALL: [(&'static str, Self); 15] = [
        ("batches", Self::Batches),
        ("bytes", Self::Bytes),
        ("min_batch_bytes", Self::MinBatchBytes),
        ("max_batch_bytes", Self::MaxBatchBytes),
        ("control_records", Self::ControlRecords),
        ("records", Self::Records),
        ("key_bytes", Self::KeyBytes),
        ("value_bytes", Self::ValueBytes),
        ("null_keys", Self::NullKeys),
        ("tombstones", Self::Tombstones),
        ("headers", Self::Headers),
        ("first_offset", Self::FirstOffset),
        ("last_offset", Self::LastOffset),
        ("first_timestamp", Self::FirstTimestamp),
        ("last_timestamp", Self::LastTimestamp),
    ];

    /// The value of a group without values. An offset or a time of this value, which only damage has, counts as none.
    fn empty(self) -> i64 {
        match self {
            Self::MinBatchBytes | Self::FirstOffset | Self::FirstTimestamp => i64::MAX,
            Self::MaxBatchBytes | Self::LastOffset | Self::LastTimestamp => i64::MIN,
            _ => 0,
        }
    }

    fn combined(self, one: i64, other: i64) -> i64 {
        match self.empty() {
            i64::MAX => one.min(other),
            i64::MIN => one.max(other),
            _ => one.saturating_add(other),
        }
    }
}

/// The statistics of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileSums([i64; ProfileFact::ALL.len()]);

impl Default for ProfileSums {
    fn default() -> Self {
        Self(ProfileFact::ALL.map(|(_, fact)| fact.empty()))
    }
}

impl ProfileSums {
    /// Returns a statistic; None for a minimum or a maximum without values.
    pub fn get(&self, fact: ProfileFact) -> Option<i64> {
        let value = self.0.get(fact as usize).copied()?;
        (fact.empty() == 0 || value != fact.empty()).then_some(value)
    }

    fn add(&mut self, fact: ProfileFact, value: i64) {
        if let Some(sum) = self.0.get_mut(fact as usize) {
            *sum = fact.combined(*sum, value);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (_, fact) in ProfileFact::ALL {
            self.add(
                fact,
                other.0.get(fact as usize).copied().unwrap_or_default(),
            );
        }
    }
}

/// The batches of one size, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchSize {
    /// The number of batches.
    pub batches: i64,
    /// Their bytes.
    pub bytes: i64,
}

/// The records and bytes of short intervals of time, for logs that span less than a few days.
#[derive(Debug)]
struct Intervals {
    /// None: there are too many intervals.
    width: Option<i64>,
    /// Records and bytes, by the start of the interval in ms.
    sums: BTreeMap<i64, (i64, i64)>,
}

impl Intervals {
    fn add(&mut self, time: i64, records: i64, bytes: i64) {
        let Some(width) = self.width else { return };
        if !(0..LAST_MS).contains(&time) {
            return;
        }
        let sums = self.sums.entry(time - time % width).or_default();
        (sums.0, sums.1) = (sums.0.saturating_add(records), sums.1.saturating_add(bytes));
        if self.sums.len() > MOST_INTERVALS {
            self.widen(INTERVALS.into_iter().find(|&wider| wider > width));
        }
    }

    fn widen(&mut self, width: Option<i64>) {
        self.width = width;
        for (time, (records, bytes)) in std::mem::take(&mut self.sums) {
            self.add(time, records, bytes);
        }
    }

    fn merge(&mut self, other: &Self) {
        if self
            .width
            .is_some_and(|width| other.width.is_none_or(|wider| wider > width))
        {
            self.widen(other.width);
        }
        for (&time, &(records, bytes)) in &other.sums {
            self.add(time, records, bytes);
        }
    }
}

/// The sums of a log, or of several logs.
#[derive(Debug)]
pub struct Profile {
    groups: BTreeMap<ProfileGroup, ProfileSums>,
    /// By the binary logarithm of the size.
    batch_sizes: [BatchSize; SIZES],
    width: i64,
    is_bounded: bool,
    intervals: Intervals,
    /// The offset after the last batch of the runs of surveys.
    next_offset: i64,
}

impl Profile {
    /// Creates a profile by the hour. A bounded one also has short intervals, and it has few groups: with more groups,
    /// hours become days, weeks and years.
    pub fn new(is_bounded: bool) -> Self {
        Self {
            groups: BTreeMap::new(),
            batch_sizes: [BatchSize::default(); SIZES],
            width: HOUR_MS,
            is_bounded,
            intervals: Intervals {
                width: INTERVALS.first().copied().filter(|_| is_bounded),
                sums: BTreeMap::new(),
            },
            next_offset: i64::MIN,
        }
    }

    /// The groups and their sums, in order.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&ProfileGroup, &ProfileSums)> {
        self.groups.iter()
    }

    /// The sums of all groups.
    pub fn total(&self) -> ProfileSums {
        let mut total = ProfileSums::default();
        self.groups.values().for_each(|sums| total.merge(sums));
        total
    }

    /// The batches by size. The first number is the power of two at or below the size.
    pub fn batch_sizes(&self) -> impl Iterator<Item = (i64, BatchSize)> {
        let sizes = self.batch_sizes.iter().enumerate();
        sizes
            .filter(|(_, found)| found.batches > 0)
            .map(|(log, &found)| (1 << log, found))
    }

    /// The width of the short intervals in ms; None if there are too many, or the profile is not bounded.
    pub fn interval_width(&self) -> Option<i64> {
        self.intervals.width
    }

    /// The start of each short interval, the number of its records, and the bytes of its batches.
    pub fn intervals(&self) -> impl ExactSizeIterator<Item = (i64, i64, i64)> {
        let sums = self.intervals.sums.iter();
        sums.map(|(&time, &(records, bytes))| (time, records, bytes))
    }

    /// Counts the batches of a file from `position` to `end`. `take_key` gets each key.
    ///
    /// With `first_offset`, the batches are sound according to a survey: rows below this offset do not count, because a
    /// batch before them has them too, and of batches with malformed records, which the survey's reader reports, only
    /// the headers count. The runs of a log must come in order, because a wrapper that begins below the end of the
    /// batch before it is malformed, too. Without it, all batches must be sound and whole.
    pub fn feed<F: ReadAt>(
        &mut self,
        file: F,
        (position, end): (u64, u64),
        first_offset: Option<i64>,
        read_length: usize,
        take_key: &mut dyn FnMut(&[u8]),
    ) -> FileResult<(), F> {
        let mut window = Window::new(file, position, end, read_length)?;
        let mut reading = reading();
        let mut floor = None;
        if first_offset.is_some() {
            reading.0.next_offset = self.next_offset;
        }
        while window.position < end {
            match next_batch(window.data(), window.position)? {
                NextBatch::Batch(header, _) => {
                    let floor = *floor.get_or_insert_with(|| floor_of(&header, first_offset));
                    let counted = self.batch(&header, window.data(), floor, &mut reading, take_key);
                    match counted {
                        Err(error) if first_offset.is_none() => return Err(error.into()),
                        Ok(()) if first_offset.is_some() => {
                            self.next_offset = header.next_offset();
                            reading.0.next_offset = self.next_offset;
                        }
                        _ => {}
                    }
                    window.advance(header.size());
                }
                NextBatch::NeedMore(needed) => {
                    if !window.fill(needed)? {
                        return match first_offset {
                            Some(_) => Ok(()),
                            None => Err(cut_batch(window.position, end).into()),
                        };
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds another profile.
    pub fn merge(&mut self, other: &Self) {
        if self.width < other.width {
            self.widen(other.width);
        }
        for (&(time, magic, codec), sums) in &other.groups {
            self.add((self.start(time), magic, codec), sums);
        }
        for (size, found) in self.batch_sizes.iter_mut().zip(&other.batch_sizes) {
            size.batches = size.batches.saturating_add(found.batches);
            size.bytes = size.bytes.saturating_add(found.bytes);
        }
        self.intervals.merge(&other.intervals);
    }

    /// Returns the profile as bytes, for [`Profile::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut numbers = vec![
            i64::from(self.is_bounded),
            self.width,
            self.intervals.width.unwrap_or(-1),
            self.intervals.sums.len() as i64,
        ];
        for size in &self.batch_sizes {
            numbers.extend([size.batches, size.bytes]);
        }
        for (time, records, bytes) in self.intervals() {
            numbers.extend([time, records, bytes]);
        }
        for (&(time, magic, codec), sums) in &self.groups {
            numbers.extend([time.unwrap_or(-1), magic.into(), codec.into()]);
            numbers.extend(sums.0);
        }
        numbers.into_iter().flat_map(i64::to_be_bytes).collect()
    }

    /// Reads the result of [`Profile::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let refused = |what| Error::invalid(format!("no profile: unknown {what}"));
        let mut reader = Reader::new(bytes);
        let mut profile = Self::new(reader.i64()? == 1);
        profile.width = reader.i64()?;
        let interval = Some(reader.i64()?).filter(|&width| width >= 0);
        if !WIDTHS.iter().any(|&(width, _)| width == profile.width)
            || interval.is_some_and(|width| !profile.is_bounded || !INTERVALS.contains(&width))
        {
            return Err(refused("width"));
        }
        let intervals = reader.i64()?;
        for size in &mut profile.batch_sizes {
            (size.batches, size.bytes) = (reader.i64()?, reader.i64()?);
        }
        profile.intervals.width = interval;
        for _ in 0..intervals {
            let (time, records, bytes) = (reader.i64()?, reader.i64()?, reader.i64()?);
            profile.intervals.add(time, records, bytes);
        }
        while reader.remaining() > 0 {
            let time = Some(reader.i64()?).filter(|&time| time >= 0);
            let (Ok(magic), Ok(codec)) = (reader.i64()?.try_into(), reader.i64()?.try_into())
            else {
                return Err(refused("group"));
            };
            let mut sums = ProfileSums::default();
            for sum in &mut sums.0 {
                *sum = reader.i64()?;
            }
            profile.add((time, magic, codec), &sums);
        }
        Ok(profile)
    }

    /// Counts the batch at the start of `bytes`: its header, and its rows unless they are malformed.
    fn batch(
        &mut self,
        header: &Header,
        bytes: &[u8],
        floor: i64,
        reading: &mut (Fetch, Columns),
        take_key: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let (fetch, columns) = reading;
        let counted = loop {
            match fetch.batch_from(floor, header, bytes, columns) {
                Ok(progress) => {
                    self.rows(header, columns, take_key);
                    let first = columns.batches.first().map(|batch| batch.first_offset);
                    columns.reuse();
                    if progress == Progress::Complete {
                        break Ok(first);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        let first = counted.as_ref().ok().copied().flatten();
        self.header(header, first.unwrap_or(header.base_offset));
        counted.map(|_| ())
    }

    fn header(&mut self, header: &Header, first_offset: i64) {
        let mut sums = ProfileSums::default();
        let size = header.size() as i64;
        let records = i64::from(header.records_count.unwrap_or(0).max(0));
        sums.add(ProfileFact::Batches, 1);
        for fact in [
            ProfileFact::Bytes,
            ProfileFact::MinBatchBytes,
            ProfileFact::MaxBatchBytes,
        ] {
            sums.add(fact, size);
        }
        if header.is_control() {
            sums.add(ProfileFact::ControlRecords, records);
        }
        sums.add(ProfileFact::FirstOffset, first_offset);
        sums.add(ProfileFact::LastOffset, header.last_offset());
        self.add(self.group(header, header.max_timestamp), &sums);
        if let Some(found) = self
            .batch_sizes
            .get_mut(header.size().max(1).ilog2() as usize)
        {
            found.batches += 1;
            found.bytes += size;
        }
        self.intervals.add(header.max_timestamp, 0, size);
    }

    fn rows(&mut self, header: &Header, columns: &Columns, take_key: &mut dyn FnMut(&[u8])) {
        let (Some(keys), Some(values), Some(headers), Some(timestamps)) = (
            &columns.keys,
            &columns.values,
            &columns.headers,
            &columns.timestamps,
        ) else {
            return;
        };
        let (mut group, mut sums) = (None, ProfileSums::default());
        let headers = headers.parts().0.windows(2);
        let rows = timestamps
            .iter()
            .zip(fields(keys))
            .zip(fields(values))
            .zip(headers);
        for (((&timestamp, key), value), headers) in rows {
            let own = self.group(header, timestamp);
            if group.is_some_and(|group| group != own) {
                group.into_iter().for_each(|group| self.add(group, &sums));
                sums = ProfileSums::default();
            }
            group = Some(own);
            sums.add(ProfileFact::Records, 1);
            match key {
                Some(key) => {
                    sums.add(ProfileFact::KeyBytes, key.len() as i64);
                    take_key(key);
                }
                None => sums.add(ProfileFact::NullKeys, 1),
            }
            match value {
                Some(value) => sums.add(ProfileFact::ValueBytes, value.len() as i64),
                None => sums.add(ProfileFact::Tombstones, 1),
            }
            if let [before, after] = headers {
                sums.add(ProfileFact::Headers, i64::from(after - before));
            }
            if timestamp >= 0 {
                sums.add(ProfileFact::FirstTimestamp, timestamp);
                sums.add(ProfileFact::LastTimestamp, timestamp);
                self.intervals.add(timestamp, 1, 0);
            }
        }
        group.into_iter().for_each(|group| self.add(group, &sums));
    }

    fn group(&self, header: &Header, timestamp: i64) -> ProfileGroup {
        let time = (timestamp >= 0).then_some(timestamp);
        (self.start(time), header.magic, header.compression_id())
    }

    /// Returns the start of the group that a time belongs to.
    fn start(&self, time: Option<i64>) -> Option<i64> {
        time.filter(|&time| !self.is_bounded || time < LAST_MS)
            .map(|time| time - time % self.width)
    }

    fn add(&mut self, group: ProfileGroup, sums: &ProfileSums) {
        self.groups.entry(group).or_default().merge(sums);
        let most = WIDTHS
            .iter()
            .find(|&&(width, _)| width == self.width)
            .map_or(0, |&(_, most)| most);
        if self.is_bounded
            && self.groups.len() > most
            && let Some(&(wider, _)) = WIDTHS.iter().find(|&&(width, _)| width > self.width)
        {
            self.widen(wider);
        }
    }

    fn widen(&mut self, width: i64) {
        self.width = width;
        for ((time, magic, codec), sums) in std::mem::take(&mut self.groups) {
            self.groups
                .entry((self.start(time), magic, codec))
                .or_default()
                .merge(&sums);
        }
    }
}

/// Returns the offset below which the rows of a run do not count. The first batch of a run may begin below the run, in
/// the batch before it. A wrapper's header has only its last offset, so it says nothing about the first one.
fn floor_of(first: &Header, first_offset: Option<i64>) -> i64 {
    first_offset
        .filter(|&offset| first.magic == 2 && first.base_offset < offset)
        .unwrap_or(i64::MIN)
}

fn reading() -> (Fetch, Columns) {
    let columns = [
        RowColumn::Key,
        RowColumn::Value,
        RowColumn::Headers,
        RowColumn::Timestamp,
    ];
    (
        Fetch::new(Selection::new(&[]), true, DEFAULT_MAX_BATCH_BYTES),
        RowColumn::decoded(&columns),
    )
}

/// Returns the value of each row.
fn fields(column: &BinaryColumn) -> impl Iterator<Item = Option<&[u8]>> {
    let (offsets, bytes) = column.parts();
    offsets.windows(2).map(|pair| match *pair {
        [before, end] if end >= 0 => bytes.get((before & !NULL) as usize..end as usize),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn profile(is_bounded: bool, times: impl Iterator<Item = i64>) -> Profile {
        let mut profile = Profile::new(is_bounded);
        for time in times {
            let mut sums = ProfileSums::default();
            sums.add(ProfileFact::Records, 1);
            sums.add(ProfileFact::FirstTimestamp, time);
            profile.add((profile.start(Some(time)), 2, 0), &sums);
            profile.intervals.add(time, 1, 10);
        }
        profile
    }

    fn records(profile: &Profile) -> (i64, i64) {
        let intervals = profile.intervals().map(|(_, records, _)| records).sum();
        (
            profile.total().get(ProfileFact::Records).unwrap(),
            intervals,
        )
    }

    #[test]
    fn a_bounded_profile_loses_no_record_and_stays_small() {
        let hours = 120_000;
        let times = |count| (0..count).map(|hour| NOW % HOUR_MS + hour * HOUR_MS);
        let found = profile(true, times(hours).chain([i64::MAX]));
        assert!(found.groups().len() <= 50_000 && found.width == 24 * HOUR_MS);
        assert_eq!(records(&found), (hours + 1, 0));
        assert_eq!(found.interval_width(), None);
        assert!(found.groups().any(|(group, _)| group.0.is_none()));
        let all = profile(false, times(hours));
        assert_eq!(all.groups().len() as i64, hours);
    }

    #[test]
    fn intervals_are_as_short_as_their_number_allows() {
        for (step, width) in [(1, 10), (10, 100), (100, 1000), (60_000, 600_000)] {
            let found = profile(true, (0..201).map(|at| NOW + at * step));
            let expected = (Some(width), (201, 201));
            assert_eq!((found.interval_width(), records(&found)), expected);
        }
        let mut all = profile(true, (0..200).map(|at| NOW + at));
        assert_eq!(all.interval_width(), Some(10));
        all.merge(&profile(true, (0..200).map(|at| NOW + at * 600_000)));
        assert_eq!(
            (all.interval_width(), records(&all)),
            (Some(1000), (400, 400))
        );
        all.merge(&profile(true, (0..201).map(|at| NOW + at * 600_000)));
        assert_eq!((all.interval_width(), records(&all)), (None, (601, 0)));
    }

    #[test]
    fn profiles_merge_in_any_order_and_travel_as_bytes() {
        let few = profile(true, (0..50).map(|at| NOW + at * 70));
        let many = profile(true, (0..60_000).map(|hour| hour * HOUR_MS));
        let joined = |one: &Profile, other: &Profile| {
            let mut all = Profile::from_bytes(&one.to_bytes()).unwrap();
            all.merge(other);
            all.to_bytes()
        };
        let bytes = joined(&few, &many);
        assert_eq!(bytes, joined(&many, &few));
        let whole = few.to_bytes();
        for length in 0..whole.len() {
            // A cut between two groups is a profile with fewer of them.
            if let Ok(found) = Profile::from_bytes(whole.get(..length).unwrap()) {
                assert!(found.groups().len() < few.groups().len());
            }
        }
        let mut wrong = whole;
        *wrong.get_mut(15).unwrap() ^= 1;
        assert!(Profile::from_bytes(&wrong).is_err());
    }
}
