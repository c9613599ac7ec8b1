//! The rest of JSON text that is valid.

use std::borrow::Cow;

use crate::limits::{Error, Result};

/// The rest of a text. It was checked before, and is valid JSON.
#[derive(Debug)]
pub(super) struct Input<'b>(&'b str);

impl<'b> Input<'b> {
    pub(super) fn new(text: &'b str) -> Self {
        Self(text)
    }

    /// The first byte of the next value, or what is between values.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u8> {
        let bytes = self.0.as_bytes();
        let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        if bytes.first().is_some_and(space) {
            self.0 = self.0.trim_start_matches([' ', '\t', '\n', '\r']);
        }
        self.0.as_bytes().first().copied()
    }

    /// Removes a byte if it is the next one.
    #[inline]
    pub(super) fn has(&mut self, byte: u8) -> bool {
        let is_next = self.next() == Some(byte);
        if is_next {
            self.0 = self.0.get(1..).unwrap_or_default();
        }
        is_next
    }

    /// Removes the bracket that opens an array or object, and the one that closes it if no part follows. Returns whether
    /// one does.
    pub(super) fn open(&mut self, closing: u8) -> bool {
        self.0 = self.0.get(1..).unwrap_or_default();
        !self.has(closing)
    }

    /// Removes what follows a part of an array or object, and returns whether another part follows.
    #[inline]
    pub(super) fn more(&mut self, closing: u8) -> bool {
        self.has(b',') || {
            self.has(closing);
            false
        }
    }

    /// The name of the next member. It is only copied if it has escapes.
    #[inline]
    pub(super) fn name(&mut self) -> Result<Cow<'b, str>> {
        self.next();
        let name = self.string()?;
        self.has(b':');
        Ok(name)
    }

    /// The string that is next.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Cow<'b, str>> {
        let text = self.take(end_of_string(self.0.as_bytes()))?;
        let inner = text.get(1..text.len() - 1).ok_or_else(Error::misfit)?;
        if inner.contains('\\') {
            // Half of a surrogate pair is valid JSON, and no text.
            let unescaped = serde_json::from_str(text);
            return unescaped
                .map(Cow::Owned)
                .map_err(|_| Error::new("a string has an escape of half a character"));
        }
        Ok(Cow::Borrowed(inner))
    }

    /// The text of the next value.
    pub(super) fn value(&mut self) -> Result<&'b str> {
        let length = match self.next() {
            Some(b'"') => end_of_string(self.0.as_bytes()),
            Some(b'{' | b'[') => end_of_nested(self.0.as_bytes()),
            _ => {
                let ends =
                    |byte: u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
                self.0.bytes().position(ends).unwrap_or(self.0.len())
            }
        };
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Result<&'b str> {
        let parts = self.0.split_at_checked(length);
        let (text, rest) = parts.ok_or_else(Error::misfit)?;
        self.0 = rest;
        Ok(text)
    }
}

/// The length of a string with its quotes.
fn end_of_string(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length of an array or object.
fn end_of_nested(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at += end_of_string(bytes.get(at..).unwrap_or_default());
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}
