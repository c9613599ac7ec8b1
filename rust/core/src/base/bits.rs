//! Bit sets over the records of a segment, by record number. Bits after the last byte are 0.

/// A bit set that grows.
#[derive(Debug, Default)]
pub(crate) struct Bits(Vec<u8>);

impl Bits {
    /// Sets the bit of a record. The caller has read the records, which take at least eight times the memory of this
    /// bit set.
    pub(crate) fn set(&mut self, number: u64) {
        let at = (number / 8) as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        if let Some(byte) = self.0.get_mut(at) {
            *byte |= 1 << (number % 8);
        }
    }

    /// Returns the bytes up to the last one that is not 0.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        let length = self.0.iter().rposition(|&byte| byte != 0);
        self.0.truncate(length.map_or(0, |at| at + 1));
        self.0
    }
}

/// Returns true if the bit of a record is set.
pub(crate) fn is_set(bits: &[u8], number: u64) -> bool {
    let byte = usize::try_from(number / 8).ok().and_then(|at| bits.get(at));
    byte.is_some_and(|byte| byte >> (number % 8) & 1 != 0)
}

/// Counts the bits that are set among the `count` bits from `first` on.
pub(crate) fn ones(bits: &[u8], first: u64, count: u64) -> u64 {
    let end = first.saturating_add(count).min(bits.len() as u64 * 8);
    let mut number = first;
    let mut ones = 0;
    while number < end {
        let left = (end - number).min(8 - number % 8);
        let byte = bits.get((number / 8) as usize).copied().unwrap_or(0);
        let mask = (0xff_u32 >> (8 - left) << (number % 8)) as u8;
        ones += u64::from((byte & mask).count_ones());
        number += left;
    }
    ones
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_wherever_a_run_begins_and_ends() {
        let mut bits = Bits::default();
        let set = [0, 3, 7, 8, 9, 15, 16, 30];
        set.into_iter().for_each(|number| bits.set(number));
        bits.set(3);
        let bytes = bits.into_bytes();
        assert_eq!(bytes.len(), 4);
        for first in 0..40 {
            assert_eq!(is_set(&bytes, first), set.contains(&first));
            for count in [0, 1, 2, 7, 8, 9, 17, u64::MAX] {
                let run = |n: &&u64| **n >= first && **n - first < count;
                let expected = set.iter().filter(run).count() as u64;
                assert_eq!(ones(&bytes, first, count), expected, "{count} from {first}");
            }
        }
    }
}
