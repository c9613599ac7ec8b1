//! The partition of a record, as Kafka's producers choose it.

use crate::base::error::{Error, Result};

const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;

/// Kafka's `Utils.murmur2`: Austin Appleby's MurmurHash2 with Kafka's seed.
pub fn murmur2(data: &[u8]) -> i32 {
    let (words, rest) = data.as_chunks::<4>();
    let mut hash = SEED ^ data.len() as u32;
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        let last = rest
            .iter()
            .rev()
            .fold(0u32, |word, &byte| word << 8 | u32::from(byte));
        hash = (hash ^ last).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    (hash ^ hash >> 15) as i32
}

/// `BuiltInPartitioner.partitionForKey`; 0 if there are no partitions.
pub fn partition_for_key(key: &[u8], partitions: i32) -> i32 {
    (murmur2(key) & i32::MAX)
        .checked_rem(partitions)
        .unwrap_or(0)
}

/// The partitioner of one topic.
#[derive(Debug)]
pub struct Partitioner {
    topic: String,
    /// Ascending, at least one.
    partitions: Vec<i32>,
    batch_size: u64,
    /// The index in `partitions` of the partition that gets the rows without a partition and a key.
    sticky: usize,
    sticky_bytes: u64,
    random: u64,
}

impl Partitioner {
    /// `partitions` are the topic's partitions in this directory, ascending; `batch_size` is the size of a batch in
    /// bytes. `seed` determines the order of the sticky partitions.
    pub fn new(topic: &str, partitions: Vec<i32>, batch_size: u64, seed: u64) -> Result<Self> {
        if partitions.is_empty() {
            return Err(Error::invalid(format!(
                "topic '{topic}' has no partition here"
            )));
        }
        let mut partitioner = Self {
            topic: topic.to_owned(),
            partitions,
            batch_size: batch_size.max(1),
            sticky: 0,
            sticky_bytes: 0,
            random: seed,
        };
        partitioner.sticky = partitioner.below(partitioner.partitions.len());
        Ok(partitioner)
    }

    /// Chooses the partition of a record of about this many bytes: the partition that the record names, or the
    /// partition of its key, or the partition whose batch is being filled.
    #[inline]
    pub fn choose(&mut self, given: Option<i32>, key: Option<&[u8]>, bytes: usize) -> Result<i32> {
        match (given, key) {
            (Some(number), _) => self.named(number),
            (None, Some(key)) => Ok(partition_for_key(key, self.count_for_keys()?)),
            (None, None) => Ok(self.stuck(bytes)),
        }
    }

    /// Refuses a record for which [`Self::choose`] would find no partition.
    #[inline]
    pub fn check(&self, given: Option<i32>, has_key: bool) -> Result<()> {
        match given {
            Some(number) => self.named(number).map(drop),
            None if has_key => self.count_for_keys().map(drop),
            None => Ok(()),
        }
    }

    /// The partition that a record names.
    #[inline]
    fn named(&self, number: i32) -> Result<i32> {
        // If all partitions are here, each is at its own index.
        let own = usize::try_from(number).ok();
        if own.is_some_and(|own| self.partitions.get(own) == Some(&number))
            || self.partitions.binary_search(&number).is_ok()
        {
            return Ok(number);
        }
        Err(Error::invalid(format!(
            "topic '{}' has no partition {number}: it has {}, and the last of them is {}",
            self.topic,
            self.partitions.len(),
            self.partitions.last().copied().unwrap_or(-1),
        )))
    }

    /// The number of partitions, if all of them are here.
    fn count_for_keys(&self) -> Result<i32> {
        let count = self.partitions.len() as i32;
        // Ascending numbers without a gap end one below their count.
        if self.partitions.last() == Some(&(count - 1)) {
            return Ok(count);
        }
        let here: Vec<_> = self.partitions.iter().map(i32::to_string).collect();
        Err(Error::invalid(format!(
            "topic '{}' has partitions {} here, and the rest elsewhere: how many there are decides where a key goes; \
             give each row its partition",
            self.topic,
            here.join(", ")
        )))
    }

    fn stuck(&mut self, bytes: usize) -> i32 {
        self.sticky_bytes += bytes as u64;
        if self.sticky_bytes >= self.batch_size {
            self.sticky_bytes %= self.batch_size;
            let count = self.partitions.len();
            // Any other one.
            if count > 1 {
                self.sticky = (self.sticky + 1 + self.below(count - 1)) % count;
            }
        }
        self.partitions
            .get(self.sticky)
            .copied()
            .unwrap_or_default()
    }

    /// A pseudo-random number below `bound`: Sebastiano Vigna's splitmix64.
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::{Partitioner, murmur2, partition_for_key};

    #[test]
    fn a_record_goes_to_its_partition_or_to_that_of_its_key() {
        let mut partitioner = Partitioner::new("t", vec![0, 1, 2], 100, 1).unwrap();
        assert_eq!(partitioner.choose(Some(2), Some(b"k"), 1).unwrap(), 2);
        let of_key = partition_for_key(b"k", 3);
        assert_eq!(partitioner.choose(None, Some(b"k"), 1).unwrap(), of_key);
        assert!(partitioner.choose(Some(3), None, 1).is_err());
        assert!(partitioner.choose(Some(-1), None, 1).is_err());
    }

    #[test]
    fn a_key_is_not_hashed_where_partitions_are_elsewhere() {
        let mut partitioner = Partitioner::new("t", vec![0, 2], 100, 1).unwrap();
        assert!(partitioner.choose(None, Some(b"k"), 1).is_err());
        assert_eq!(partitioner.choose(Some(2), Some(b"k"), 1).unwrap(), 2);
        let refused = |given, has_key| partitioner.check(given, has_key).is_err();
        assert_eq!([refused(None, true), refused(Some(2), true)], [true, false]);
        assert_eq!(
            [refused(None, false), refused(Some(1), false)],
            [false, true]
        );
        assert!(matches!(partitioner.choose(None, None, 1), Ok(0 | 2)));
        assert!(Partitioner::new("t", vec![], 100, 1).is_err());
    }

    #[test]
    fn rows_without_a_key_fill_a_batch_of_one_partition_then_of_another() {
        let mut partitioner = Partitioner::new("t", vec![0, 1, 2], 100, 7).unwrap();
        let chosen: Vec<_> = (0..400)
            .map(|_| partitioner.choose(None, None, 10).unwrap())
            .collect();
        // The tenth row fills the first batch, and goes to the next partition.
        let batches: Vec<_> = chosen[9..].chunks(10).collect();
        assert!(chosen[..9].iter().all(|number| *number == chosen[0]));
        assert!(
            batches
                .iter()
                .all(|batch| batch.iter().all(|number| *number == batch[0]))
        );
        assert!(batches.windows(2).all(|pair| pair[0][0] != pair[1][0]));
        assert_eq!(
            chosen
                .iter()
                .collect::<std::collections::HashSet<_>>()
                .len(),
            3
        );
    }

    /// The vectors of Kafka's `UtilsTest`.
    #[test]
    fn hashes_are_kafkas() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()), hash, "{key}");
            assert_eq!(partition_for_key(key.as_bytes(), 7), (hash & i32::MAX) % 7);
        }
    }
}
