//! The buffer into which all codecs decode, with the cap on its size.

use crate::base::error::{Error, Result};

/// A buffer above this size is freed once a payload needs much less memory.
const KEEP: usize = 8 << 20;

/// The initial size. Most batches fit, so most buffers never grow.
const MIN: usize = 64 << 10;

/// A buffer that is filled from the front. Its memory is zeroed once, when the buffer grows, not for each payload.
#[derive(Debug)]
pub(super) struct OutputBuffer {
    bytes: Vec<u8>,
    filled: usize,
    max: usize,
}

impl OutputBuffer {
    pub(super) fn new(max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            filled: 0,
            max,
        }
    }

    /// Starts the next payload.
    pub(super) fn clear(&mut self) {
        if self.bytes.len() > KEEP && self.filled < self.bytes.len() / 4 {
            self.bytes = Vec::new();
        }
        self.filled = 0;
    }

    pub(super) fn filled(&self) -> &[u8] {
        self.bytes.get(..self.filled).unwrap_or_default()
    }

    pub(super) fn all(&self) -> &[u8] {
        &self.bytes
    }

    /// The last `n` filled bytes.
    pub(super) fn last(&self, n: usize) -> &[u8] {
        self.bytes
            .get(self.filled.saturating_sub(n)..self.filled)
            .unwrap_or_default()
    }

    /// Bytes that can still be filled before the cap is reached.
    pub(super) fn allowed(&self) -> usize {
        self.max - self.filled
    }

    /// Returns the memory after the filled bytes.
    pub(super) fn spare(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.filled..).unwrap_or_default()
    }

    /// Treats the next `n` bytes as filled.
    pub(super) fn fill(&mut self, n: usize) {
        self.filled = (self.filled + n).min(self.bytes.len());
    }

    /// Makes room for `n` bytes; fails if the cap prevents it.
    pub(super) fn reserve(&mut self, n: usize) -> Result<()> {
        if n > self.allowed() {
            return Err(self.too_large());
        }
        if n > self.bytes.len() - self.filled {
            self.grow_to(self.filled + n);
        }
        Ok(())
    }

    /// Makes room for a payload that declares, or suggests, its decoded size. Only up to 64 times the payload's own
    /// bytes are trusted.
    pub(super) fn expect(&mut self, size: u64, payload: usize) {
        let believed = payload
            .saturating_mul(64)
            .min(usize::try_from(size).unwrap_or(usize::MAX));
        let n = believed.min(self.allowed());
        if n > self.bytes.len() - self.filled {
            self.grow_to(self.filled + n);
        }
    }

    /// Makes more room after the decoder ran out of it.
    pub(super) fn grow(&mut self) -> Result<()> {
        if self.bytes.len() >= self.max {
            return Err(self.too_large());
        }
        self.grow_to(self.bytes.len() + 1);
        Ok(())
    }

    fn grow_to(&mut self, least: usize) {
        let len = least
            .max(self.bytes.len().saturating_mul(2))
            .max(MIN)
            .min(self.max);
        if self.filled == 0 {
            // Nothing must be kept: fresh zero pages are cheaper than a copy, and the old ones are freed first.
            self.bytes = Vec::new();
            self.bytes = vec![0; len];
        } else {
            self.bytes.reserve_exact(len - self.bytes.len());
            self.bytes.resize(len, 0);
        }
    }

    #[cold]
    fn too_large(&self) -> Error {
        Error::unsupported(format!(
            "batch decompresses to more than max_batch_bytes ({}): Conversion(compression=\"none\") in Python, \
             with a larger max_batch_bytes, makes the log readable",
            self.max
        ))
    }
}
