//! The partition of a key, as Kafka's producers choose it.

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

#[cfg(test)]
mod tests {
    use super::{murmur2, partition_for_key};

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
