//! Numbers of bytes in messages.

/// Returns a number of bytes in the largest unit that gives two digits, rounded up, as `brokerless.wording.in_bytes`
/// does.
pub fn in_bytes(count: u64) -> String {
    for (unit, size) in [("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1000)] {
        if count >= 10 * size || (count >= size && count.is_multiple_of(size)) {
            return format!("{} {unit}", count.div_ceil(size));
        }
    }
    format!("{count} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_number_is_not_zero_of_a_large_unit() {
        let worded = [512, 12_500, 2_000_000, 2_300_000_000].map(in_bytes);
        assert_eq!(worded, ["512 bytes", "13 KB", "2 MB", "2300 MB"]);
    }
}
