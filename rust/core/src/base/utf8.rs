//! Decoding of UTF-8 as Java's `new String(bytes, UTF_8)` does it.

use std::borrow::Cow;

/// Decodes `bytes`, with U+FFFD in place of malformed sequences.
///
/// Malformed bytes are divided as the Unicode standard recommends, and as Rust's lossy conversion does: one replacement
/// for each maximal valid prefix. There is one exception: Java replaces an encoded surrogate (ED, then A0 to BF, then a
/// continuation byte if present) as a whole.
pub fn java_utf8(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(replaced(bytes)),
    }
}

#[cold]
fn replaced(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(chunk) = rest.utf8_chunks().next() {
        text.push_str(chunk.valid());
        let malformed = rest.get(chunk.valid().len()..).unwrap_or_default();
        let length = match malformed {
            [] => break,
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => 3,
            [0xed, 0xa0..=0xbf, ..] => 2,
            _ => chunk.invalid().len(),
        };
        text.push(char::REPLACEMENT_CHARACTER);
        rest = malformed.get(length..).unwrap_or_default();
    }
    text
}
