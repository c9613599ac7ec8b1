//! Finds the sound batches of a segment: those with correct framing and checksum, in the order of their offsets.
//! Records are not read.
//!
//! No checksum covers a base offset, so one flipped bit can move a batch to other offsets. The order of the batches
//! reveals such a move. Where batches contradict each other, as few as possible are dropped.

use crate::base::error::{Error, Result};
use crate::format::batch::Header;
use crate::format::walk::{MAX_GAP, NextBatch, check_offset_range, first_known_offset, next_batch};

/// A sound batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SoundBatch {
    /// Byte position in the file.
    position: u64,
    /// The position after its last byte.
    end_position: u64,
    /// The first offset according to its header.
    first_offset: i64,
    /// The offset after its last offset.
    next_offset: i64,
    /// True if it may be a wrapper, whose first offset is inside.
    is_wrapper: bool,
}

/// One batch, or several neighbouring batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchRange {
    /// Byte position in the file.
    pub position: u64,
    /// The position after the last byte.
    pub end_position: u64,
    /// First offset.
    pub first_offset: i64,
    /// The offset after the last one.
    pub next_offset: i64,
}

/// A segment's batches, divided by whether their offsets rise.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rising {
    /// The batches that stay; neighbours are one range.
    pub kept: Vec<BatchRange>,
    /// The other batches. The flag is true if some of the batch's offsets are missing from the batches that stay.
    pub dropped: Vec<(BatchRange, bool)>,
    /// The offset ranges [first, next) of the batches that stay.
    pub covered: Vec<(i64, i64)>,
    /// The batches that stay although they overlap the previous batch. The range starts at the end of the previous
    /// batch. The number is the offset at which the batch itself begins.
    pub overlapping: Vec<(BatchRange, i64)>,
}

/// Checks the batches of one segment, in the order of the file.
#[derive(Debug)]
pub struct Soundness {
    first_possible: i64,
    limit: i64,
    check_crcs: bool,
    /// First offset of the first sound batch since the last [`Soundness::start_run`].
    pub first_offset: Option<i64>,
    /// The offset after the last sound batch.
    pub next_offset: i64,
    /// The size in bytes of the batch after the last one; 0 if unknown.
    pub needed: usize,
    /// True if no batch so far contradicts another one or leaves the segment's range of offsets.
    pub is_rising: bool,
    batches: Option<Vec<SoundBatch>>,
}

/// The known facts about the end of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentEnd {
    /// The end may be anywhere up to the limit.
    Unknown,
    /// The end is the limit.
    Known,
    /// The next segment begins at the limit.
    Followed,
}

impl Soundness {
    /// Creates a check for a segment with offsets from `base_offset` to below `limit`. With `collects`, it remembers
    /// every batch, in 40 bytes.
    pub fn new(base_offset: i64, limit: i64, check_crcs: bool, collects: bool) -> Self {
        Self {
            first_possible: base_offset,
            limit,
            check_crcs,
            first_offset: None,
            next_offset: base_offset,
            needed: 0,
            is_rising: true,
            batches: collects.then(Vec::new),
        }
    }

    /// Starts a new run of consecutive batches with the next batch.
    pub fn start_run(&mut self) {
        self.first_offset = None;
    }

    /// Checks the sound batches at the start of `bytes`, which start at `position` of the file. Returns their size in
    /// bytes.
    ///
    /// If the first batch is not sound, its error is returned. The `next_position` of the error is the end of the batch
    /// according to its header.
    pub fn check(&mut self, bytes: &[u8], position: u64) -> Result<usize> {
        let mut taken = 0;
        self.needed = 0;
        loop {
            let rest = bytes.get(taken..).unwrap_or_default();
            let found = match next_batch(rest, position + taken as u64) {
                Ok(NextBatch::NeedMore(needed)) => {
                    self.needed = needed;
                    return Ok(taken);
                }
                Ok(NextBatch::Batch(header, entry)) => {
                    self.is_sound(&header, entry).map(|()| header)
                }
                Err(error) => Err(error),
            };
            match found {
                Ok(header) => {
                    self.take(&header);
                    taken += header.size();
                }
                Err(_) if taken > 0 => return Ok(taken),
                Err(error) => return Err(error),
            }
        }
    }

    fn is_sound(&self, header: &Header, entry: &[u8]) -> Result<()> {
        let summed = if self.check_crcs {
            header.check_crc(entry)
        } else {
            Ok(())
        };
        summed.map_err(|error| {
            let mut error: Error = header.locate(error);
            error.next_position = Some(header.end_position());
            error
        })
    }

    fn take(&mut self, header: &Header) {
        let batch = SoundBatch {
            position: header.position,
            end_position: header.end_position(),
            first_offset: first_known_offset(header),
            next_offset: header.next_offset(),
            is_wrapper: header.magic < 2 && header.compression_id() != 0,
        };
        self.is_rising &= check_offset_range(header, self.next_offset, self.limit).is_ok();
        self.first_offset.get_or_insert(batch.first_offset);
        self.next_offset = batch.next_offset;
        if let Some(batches) = &mut self.batches {
            batches.push(batch);
        }
    }

    /// Divides the batches into as many as possible whose offsets rise within the segment's range, and the others.
    pub fn rising(&self, end_of_segment: SegmentEnd) -> Rising {
        let is_limited = end_of_segment != SegmentEnd::Unknown;
        let (batches, mut stays) = self.longest_rising(is_limited);
        if let Some(first_ones) = self.first_of_overlapping(batches, end_of_segment) {
            stays = first_ones;
        }
        let range = |batch: &SoundBatch| BatchRange {
            position: batch.position,
            end_position: batch.end_position,
            first_offset: batch.first_offset,
            next_offset: batch.next_offset,
        };
        let mut rising = Rising::default();
        let mut ranges: Vec<BatchRange> = batches.iter().map(range).collect();
        self.keep_overlapping(
            batches,
            &mut stays,
            &mut ranges,
            end_of_segment,
            &mut rising,
        );
        let (kept, dropped): (Vec<_>, Vec<_>) =
            ranges.into_iter().zip(stays).partition(|&(_, stays)| stays);
        let kept: Vec<_> = kept.into_iter().map(|(batch, _)| batch).collect();
        let mut overlapping = rising.overlapping.iter().peekable();
        for &batch in &kept {
            // The rows of a batch that overlaps are read from the end of the one before on: it begins a range.
            let begins = overlapping
                .next_if(|(one, _)| one.position == batch.position)
                .is_some();
            match rising.kept.last_mut() {
                Some(last) if last.end_position == batch.position && !begins => {
                    (last.end_position, last.next_offset) = (batch.end_position, batch.next_offset);
                }
                _ => rising.kept.push(batch),
            }
            match rising.covered.last_mut() {
                Some(last) if last.1 == batch.first_offset => last.1 = batch.next_offset,
                _ => rising.covered.push((batch.first_offset, batch.next_offset)),
            }
        }
        let end = kept.last().map_or(i64::MIN, |last| last.next_offset);
        let certain_end = if is_limited { end.max(self.limit) } else { end };
        for (batch, _) in dropped {
            let is_missing = is_missing(&batch, &kept, end, certain_end);
            rising.dropped.push((batch, is_missing));
        }
        rising
    }

    /// Returns the batches that begin at the end of the previous batch, if all other batches overlap the previous one,
    /// so that no batch is dropped. Without this check, the later of two overlapping batches could be kept, and the
    /// earlier one dropped.
    fn first_of_overlapping(
        &self,
        batches: &[SoundBatch],
        end_of_segment: SegmentEnd,
    ) -> Option<Vec<bool>> {
        let limit = self.reach(batches);
        let mut end = self.first_possible;
        let mut stays = Vec::with_capacity(batches.len());
        for (i, batch) in batches.iter().enumerate() {
            if batch.next_offset <= batch.first_offset || limit < batch.next_offset {
                return None;
            }
            let continues = batch.first_offset == end;
            if !continues && !self.overlaps(batches, i, end, end_of_segment) {
                return None;
            }
            stays.push(continues);
            end = batch.next_offset;
        }
        Some(stays)
    }

    /// Returns true if a batch begins below `low`, the end of the previous batch, and ends above it (KAFKA-3919). The
    /// next batch must begin at its end, and no single flipped bit may explain the overlap.
    fn overlaps(
        &self,
        batches: &[SoundBatch],
        i: usize,
        low: i64,
        end_of_segment: SegmentEnd,
    ) -> bool {
        let Some(batch) = batches.get(i) else {
            return false;
        };
        let is_followed = match batches.get(i + 1) {
            Some(next) => !next.is_wrapper && next.first_offset == batch.next_offset,
            None => end_of_segment == SegmentEnd::Followed && batch.next_offset == self.limit,
        };
        let reaches_over = self.first_possible <= batch.first_offset
            && batch.first_offset < low
            && low < batch.next_offset;
        let is_moved = (batch.first_offset ^ low).count_ones() == 1;
        is_followed && reaches_over && !is_moved && !batch.is_wrapper
    }

    /// Keeps the batches that overlap the previous batch, if no offset is missing before them.
    fn keep_overlapping(
        &self,
        batches: &[SoundBatch],
        stays: &mut [bool],
        ranges: &mut [BatchRange],
        end_of_segment: SegmentEnd,
        rising: &mut Rising,
    ) {
        let mut end: Option<i64> = None;
        let mut has_gap = false;
        for (i, batch) in batches.iter().enumerate() {
            if is_set(stays, i) {
                has_gap = end.unwrap_or(self.first_possible) < batch.first_offset;
                end = Some(batch.next_offset);
                continue;
            }
            let Some(low) = end else { continue };
            let is_followed = i + 1 == batches.len() || is_set(stays, i + 1);
            if has_gap || !is_followed || !self.overlaps(batches, i, low, end_of_segment) {
                continue;
            }
            if let (Some(stay), Some(range)) = (stays.get_mut(i), ranges.get_mut(i)) {
                *stay = true;
                range.first_offset = low;
                rising.overlapping.push((*range, batch.first_offset));
                end = Some(batch.next_offset);
            }
        }
    }

    /// The batches in the order of the file, and for each whether it stays.
    fn longest_rising(&self, is_limited: bool) -> (&[SoundBatch], Vec<bool>) {
        let batches = self.batches.as_deref().unwrap_or_default();
        let limit = self.reach(batches);
        // For each length of a chain of rising batches: the lowest end of such a chain, and its last batch.
        let mut lowest: Vec<(i64, usize)> = Vec::new();
        let mut before: Vec<Option<usize>> = vec![None; batches.len()];
        for (i, batch) in batches.iter().enumerate() {
            let fits = self.first_possible <= batch.first_offset
                && batch.first_offset < batch.next_offset
                && batch.next_offset <= limit;
            if !fits {
                continue;
            }
            let length = lowest.partition_point(|&(end, _)| end <= batch.first_offset);
            if let Some(previous) = before.get_mut(i) {
                *previous = length
                    .checked_sub(1)
                    .and_then(|shorter| lowest.get(shorter))
                    .map(|&(_, last)| last);
            }
            match lowest.get_mut(length) {
                Some(chain) if batch.next_offset < chain.0 => *chain = (batch.next_offset, i),
                Some(_) => {}
                None => lowest.push((batch.next_offset, i)),
            }
        }
        let mut stays = vec![false; batches.len()];
        let mut at = lowest.last().map(|&(_, last)| last);
        while let Some(i) = at {
            if let Some(stay) = stays.get_mut(i) {
                *stay = true;
            }
            at = before.get(i).copied().flatten();
        }
        self.prefer_fewer_gaps(batches, &mut stays, is_limited);
        (batches, stays)
    }

    /// Returns the limit of the segment. Without one, returns the limit of the batches that continue without a gap that
    /// is too large. Indexes hold 31 bits, but brokers have written segments that span more (KAFKA-6264).
    fn reach(&self, batches: &[SoundBatch]) -> i64 {
        if self.limit < i64::MAX {
            return self.limit;
        }
        let reached = batches.iter().fold(self.first_possible, |end, batch| {
            let gap = batch.first_offset.checked_sub(end);
            let goes_on = gap.is_some_and(|gap| (0..MAX_GAP).contains(&gap));
            if goes_on {
                end.max(batch.next_offset)
            } else {
                end
            }
        });
        reached.max(self.first_possible.saturating_add(MAX_GAP))
    }

    /// Chooses again between two neighbouring batches that contradict each other: the batch that leaves fewer gaps
    /// stays, because a batch that a flipped bit has moved a little leaves gaps on both sides. If both batches leave
    /// the same number of gaps, the batch stays whose gap is on the side of the other batch, because dropping the other
    /// batch explains this gap.
    fn prefer_fewer_gaps(&self, batches: &[SoundBatch], stays: &mut [bool], is_limited: bool) {
        let limit = self.reach(batches);
        let mut kept: Vec<usize> = (0..batches.len()).filter(|&i| is_set(stays, i)).collect();
        let dropped: Vec<usize> = (0..batches.len()).filter(|&i| !is_set(stays, i)).collect();
        for i in dropped {
            let behind = kept.partition_point(|&k| k < i);
            for at in [behind.checked_sub(1), Some(behind)].into_iter().flatten() {
                let before = at.checked_sub(1).and_then(|at| kept.get(at));
                let low = before
                    .and_then(|&k| batches.get(k))
                    .map_or(self.first_possible, |batch| batch.next_offset);
                let high = kept
                    .get(at + 1)
                    .and_then(|&k| batches.get(k))
                    .map(|batch| batch.first_offset)
                    .or(is_limited.then_some(self.limit));
                let gaps = |batch: &SoundBatch, is_first: bool| {
                    let is_before = low < batch.first_offset;
                    let is_behind = high.is_some_and(|high| batch.next_offset < high);
                    let is_unexplained = if is_first { is_before } else { is_behind };
                    (
                        usize::from(is_before) + usize::from(is_behind),
                        is_unexplained,
                    )
                };
                let Some(k) = kept.get_mut(at) else { continue };
                let (Some(other), Some(batch)) = (batches.get(*k), batches.get(i)) else {
                    continue;
                };
                let fits = low <= batch.first_offset
                    && batch.first_offset < batch.next_offset
                    && batch.next_offset <= high.unwrap_or(limit);
                // How far a wrapper reaches down is unknown.
                let is_known = !batch.is_wrapper && !other.is_wrapper;
                if is_known && fits && gaps(batch, i < *k) < gaps(other, *k < i) {
                    stays.swap(*k, i);
                    *k = i;
                    break;
                }
            }
        }
    }
}

/// Returns true if some offsets of a dropped batch are in no batch that stays. Considers offsets below `certain_end`,
/// the known minimum of the segment's end, and the offsets of a batch that continues the log at `end` or overlaps a
/// batch that stays.
fn is_missing(batch: &BatchRange, kept: &[BatchRange], end: i64, certain_end: i64) -> bool {
    let (first, next) = (batch.first_offset, batch.next_offset);
    let after = kept.partition_point(|kept| kept.next_offset <= first);
    let covered: i64 = kept
        .iter()
        .skip(after)
        .take_while(|kept| kept.first_offset < next)
        .map(|kept| {
            kept.next_offset
                .min(next)
                .saturating_sub(kept.first_offset.max(first))
        })
        .sum();
    let is_of_segment = covered > 0 || next <= certain_end || first == end;
    is_of_segment && covered < next.saturating_sub(first)
}

fn is_set(stays: &[bool], i: usize) -> bool {
    stays.get(i).copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(batches: &[(i64, i64)]) -> Soundness {
        let mut check = Soundness::new(0, 100, true, true);
        check.batches = Some(
            batches
                .iter()
                .zip(0..)
                .map(|(&(first_offset, next_offset), number)| SoundBatch {
                    position: 10 * number,
                    end_position: 10 * number + 10,
                    first_offset,
                    next_offset,
                    is_wrapper: false,
                })
                .collect(),
        );
        check
    }

    fn rising(batches: &[(i64, i64)]) -> Vec<bool> {
        check(batches).longest_rising(false).1
    }

    #[test]
    fn offsets_that_only_a_dropped_batch_has_are_missing() {
        let check = check(&[(0, 2), (2, 4), (3, 5), (8, 9), (50, 52)]);
        let found = check.rising(SegmentEnd::Unknown);
        assert_eq!(found.covered, [(0, 4), (8, 9), (50, 52)]);
        let kept = found
            .kept
            .iter()
            .map(|batch| (batch.position, batch.end_position));
        assert_eq!(kept.collect::<Vec<_>>(), [(0, 20), (30, 50)]);
        let dropped = |end: SegmentEnd, batches: &[(i64, i64)]| {
            let dropped = self::check(batches).rising(end).dropped;
            let missing =
                |(batch, is_missing): (BatchRange, bool)| (batch.first_offset, is_missing);
            dropped.into_iter().map(missing).collect::<Vec<_>>()
        };
        assert_eq!(found.dropped.len(), 1);
        assert_eq!(
            dropped(SegmentEnd::Unknown, &[(0, 2), (2, 4), (3, 5), (8, 9)]),
            [(3, true)]
        );
        // What lies beyond the last batch may be in the next segment, unless this one certainly goes on.
        let batches = [(0, 2), (50, 52), (2, 6), (6, 8)];
        assert_eq!(dropped(SegmentEnd::Unknown, &batches), [(50, false)]);
        assert_eq!(dropped(SegmentEnd::Followed, &batches), [(50, true)]);
    }

    #[test]
    fn of_batches_that_contradict_each_other_as_few_as_possible_go() {
        assert_eq!(
            rising(&[(0, 2), (2, 4), (2, 4), (4, 6)])
                .iter()
                .filter(|&&stays| stays)
                .count(),
            3
        );
        assert_eq!(
            rising(&[(0, 2), (50, 52), (4, 6), (6, 8)]),
            [true, false, true, true]
        );
        assert_eq!(rising(&[(0, 2), (-9, -7), (4, 6)]), [true, false, true]);
        assert_eq!(rising(&[(0, 2), (2, 4), (99, 101)]), [true, true, false]);
        assert_eq!(
            rising(&[
                (0, 2),
                (50, 52),
                (52, 54),
                (2, 4),
                (4, 6),
                (6, 50),
                (50, 52)
            ]),
            [true, false, false, true, true, true, true]
        );
        assert_eq!(
            rising(&[(0, 30), (31, 41), (40, 50), (50, 60)]),
            [true, false, true, true],
            "a bit moved the second one"
        );
        assert_eq!(
            rising(&[(0, 10), (10, 20), (19, 29), (30, 40)]),
            [true, true, false, true],
            "a bit moved the third one"
        );
        assert_eq!(
            rising(&[(0, 1), (1, 2), (3, 4), (3, 4), (4, 5)]),
            [true, true, false, true, true],
            "a bit moved the third one onto the fourth: where it was is a gap"
        );
        assert_eq!(
            rising(&[(0, 1), (1, 2), (2, 3), (2, 3), (4, 5)]),
            [true, true, true, false, true],
            "a bit moved the fourth one onto the third"
        );
        assert_eq!(
            rising(&[(2, 4), (2, 4), (4, 6), (6, 8)]),
            [false, true, true, true],
            "the first one"
        );
        assert_eq!(
            rising(&[(0, 2), (2, 4), (5, 7), (6, 8)]),
            [true, true, false, true],
            "the third one, and the last has its place"
        );
        assert!(rising(&[]).is_empty());
        assert_eq!(
            check(&[(0, 95), (95, 99), (95, 96)]).longest_rising(true).1,
            [true, true, false],
            "a bit moved the last one, from 99 down"
        );
    }
}
