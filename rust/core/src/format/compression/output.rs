//! The buffer that all codecs decode into.

use crate::base::error::{Error, Result};

/// A buffer kept longer than this is given back once a payload needs much less.
const KEEP: usize = 8 << 20;

/// The smallest buffer worth having: most batches fit, so most readers never grow it.
const MIN: usize = 64 << 10;

/// Decoded bytes, then room for more. Room is zeroed once, when the buffer grows, not per payload.
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

    /// What the last `n` filled bytes are.
    pub(super) fn last(&self, n: usize) -> &[u8] {
        self.bytes
            .get(self.filled.saturating_sub(n)..self.filled)
            .unwrap_or_default()
    }

    /// Bytes that can still be filled before the cap is reached.
    pub(super) fn allowed(&self) -> usize {
        self.max - self.filled
    }

    /// Whatever room there is.
    pub(super) fn spare(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.filled..).unwrap_or_default()
    }

    /// Counts the first `n` bytes of the room as filled.
    pub(super) fn fill(&mut self, n: usize) {
        self.filled = (self.filled + n).min(self.bytes.len());
    }

    /// Makes room for `n` bytes, or fails because the cap is in the way.
    pub(super) fn reserve(&mut self, n: usize) -> Result<()> {
        if n > self.allowed() {
            return Err(self.too_large());
        }
        if n > self.bytes.len() - self.filled {
            self.grow_to(self.filled + n);
        }
        Ok(())
    }

    /// Room for a payload that says (or suggests) it decodes to `size`, believed only up to 64 times
    /// the `payload` bytes that are really there.
    pub(super) fn expect(&mut self, size: u64, payload: usize) {
        let believed = payload
            .saturating_mul(64)
            .min(usize::try_from(size).unwrap_or(usize::MAX));
        let n = believed.min(self.allowed());
        if n > self.bytes.len() - self.filled {
            self.grow_to(self.filled + n);
        }
    }

    /// More room after what there was proved too little.
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
            // Nothing to keep: fresh zero pages are cheaper than a copy, and the old ones go first.
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
            "batch decompresses to more than max_batch_bytes ({}); raise max_batch_bytes to read it",
            self.max
        ))
    }
}
