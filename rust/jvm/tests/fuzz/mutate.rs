//! Inputs that are nearly valid: seeds with bytes changed, cut, doubled or joined, and checksums corrected.

use brokerless_core::{NextBatch, next_batch};

/// splitmix64, which gives the same inputs on every machine for the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 for an empty range.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        if end == 0 {
            0
        } else {
            (self.next() % end as u64) as usize
        }
    }

    /// A range inside 0..=`end`, mostly short.
    fn range(&mut self, end: usize) -> std::ops::Range<usize> {
        let start = self.below(end + 1);
        let most = if self.below(4) == 0 {
            end - start
        } else {
            (end - start).min(16)
        };
        start..start + self.below(most + 1)
    }
}

/// Numbers at which lengths, counts and offsets tend to go wrong.
const NUMBERS: [i64; 14] = [
    0,
    1,
    -1,
    2,
    -2,
    13,
    49,
    61,
    127,
    255,
    i32::MAX as i64,
    i32::MIN as i64,
    i64::MAX,
    i64::MIN,
];

/// Returns one input of at most `max` bytes.
pub(crate) fn mutated(random: &mut Random, seeds: &[Vec<u8>], max: usize) -> Vec<u8> {
    let mut data = seeds[random.below(seeds.len())].clone();
    for _ in 0..1 + random.below(6) {
        mutate(random, &mut data, seeds);
    }
    if random.below(2) == 0 {
        correct_checksums(&mut data);
    }
    data.truncate(max);
    data
}

fn mutate(random: &mut Random, data: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let at = random.below(data.len());
    match random.below(12) {
        0..3 => {
            if let Some(byte) = data.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        3 => {
            if let Some(byte) = data.get_mut(at) {
                *byte = [0, 1, 0x7f, 0x80, 0xff][random.below(5)];
            }
        }
        4 => {
            if let Some(byte) = data.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        5 | 6 => {
            let number = NUMBERS[random.below(NUMBERS.len())].to_be_bytes();
            let width = [1, 2, 4, 8][random.below(4)];
            let number = number.iter().skip(8 - width);
            data.iter_mut()
                .skip(at)
                .zip(number)
                .for_each(|(byte, new)| *byte = *new);
        }
        7 => drop(data.drain(random.range(data.len()))),
        8 => {
            let copied = data[random.range(data.len())].to_vec();
            data.splice(at..at, copied);
        }
        9 => {
            let bytes: Vec<u8> = (0..random.below(20)).map(|_| random.next() as u8).collect();
            data.splice(at..at, bytes);
        }
        10 => data.truncate(at),
        _ => {
            let other = &seeds[random.below(seeds.len())];
            if random.below(2) == 0 {
                data.extend_from_slice(other);
            } else {
                data.truncate(at);
                data.extend_from_slice(&other[random.below(other.len() + 1)..]);
            }
        }
    }
}

/// Corrects the checksums of all whole entries. Otherwise no reader would reach the damage after a wrong checksum.
fn correct_checksums(data: &mut [u8]) {
    let mut at = 0;
    while let Ok(NextBatch::Batch(header, entry)) = next_batch(&data[at..], at as u64) {
        let crc = header.computed_crc(entry).to_be_bytes();
        let place = at + if header.magic == 2 { 17 } else { 12 };
        at += header.size();
        data[place..place + 4].copy_from_slice(&crc);
    }
}
