//! Varints of a body: seven bits a byte, the lowest first.

/// Reads the varint at the start of bytes, and returns the number of its bytes. None: the bytes end within it, or it has
/// more than ten bytes. As in Java, surplus high bits of the tenth byte are dropped.
#[inline(always)]
pub(crate) fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    // Most tags, lengths and enums are one byte.
    if let Some(&byte) = bytes.first()
        && byte < 0x80
    {
        return Some((byte.into(), 1));
    }
    if let Some(&word) = bytes.first_chunk() {
        let word = u64::from_le_bytes(word);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends != 0 {
            let bits = ends.trailing_zeros() + 1;
            let value = compact(word & (u64::MAX >> (64 - bits)));
            return Some((value, bits as usize / 8));
        }
    }
    read_long(bytes)
}

/// Reads a varint of more than eight bytes, or one near the end of the bytes.
#[inline(never)]
fn read_long(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// The seven lower bits of each byte, one after the other.
#[inline]
fn compact(word: u64) -> u64 {
    let pairs = (word & 0x7f00_7f00_7f00_7f00) >> 1 | word & 0x007f_007f_007f_007f;
    let fours = (pairs & 0x3fff_0000_3fff_0000) >> 2 | pairs & 0x0000_3fff_0000_3fff;
    (fours & 0x0fff_ffff_0000_0000) >> 4 | fours & 0x0fff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;

    #[test]
    fn a_varint_is_the_same_however_much_follows_it_and_none_if_it_is_cut() {
        let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) | 1]);
        for value in edges.chain([u64::MAX, 0x0123_4567_89ab_cdef]) {
            let mut written = Vec::new();
            encode::varint(value, &mut written);
            for cut in 0..written.len() {
                let bytes = written.get(..cut).unwrap_or_default();
                assert_eq!(read(bytes), None, "{value} {cut}");
            }
            for (rest, byte) in
                (0..12).flat_map(|rest| [0, 0x7f, 0x80, 0xff].map(|one| (rest, one)))
            {
                let mut bytes = written.clone();
                bytes.resize(written.len() + rest, byte);
                assert_eq!(read(&bytes), Some((value, written.len())), "{rest} {byte}");
            }
        }
        // With surplus zeros, and with more than ten bytes.
        for zeros in 1..12 {
            let mut bytes = vec![0x85];
            bytes.resize(zeros, 0x80);
            bytes.push(0);
            let found = read(&bytes);
            assert_eq!(
                found,
                (bytes.len() <= 10).then_some((5, bytes.len())),
                "{zeros}"
            );
        }
    }
}
