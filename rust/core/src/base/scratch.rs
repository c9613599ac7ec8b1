//! The reused memory in which batches are built.

/// A buffer above this size is freed once a batch needs much less memory.
const KEEP: usize = 8 << 20;

/// A buffer that is written from the front. Its memory is zeroed once, when it grows, and overwritten from then on.
#[derive(Debug, Default)]
pub(crate) struct ScratchBuffer {
    bytes: Vec<u8>,
    filled: usize,
}

impl ScratchBuffer {
    /// Reuses the memory of `bytes`. Their content does not matter.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, filled: 0 }
    }

    /// Returns the memory, and the number of bytes written.
    pub(crate) fn into_parts(self) -> (Vec<u8>, usize) {
        (self.bytes, self.filled)
    }

    /// The number of bytes written.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    /// The written bytes from `at` on.
    pub(crate) fn written(&self, at: usize) -> &[u8] {
        self.bytes.get(at..self.filled).unwrap_or_default()
    }

    /// The written bytes from `at` on, to be overwritten.
    pub(crate) fn written_mut(&mut self, at: usize) -> &mut [u8] {
        self.bytes.get_mut(at..self.filled).unwrap_or_default()
    }

    /// Returns the next `n` bytes and treats them as written. The caller overwrites their old content.
    #[inline]
    pub(crate) fn next(&mut self, n: usize) -> &mut [u8] {
        let start = self.filled;
        if n > self.bytes.len() - start {
            self.grow(start + n);
        }
        self.filled += n;
        self.bytes.get_mut(start..self.filled).unwrap_or_default()
    }

    /// Returns the memory after the written bytes, at least `n` bytes of old content.
    #[inline]
    pub(crate) fn spare(&mut self, n: usize) -> &mut [u8] {
        if n > self.bytes.len() - self.filled {
            self.grow(self.filled + n);
        }
        self.bytes.get_mut(self.filled..).unwrap_or_default()
    }

    /// Treats the next `n` bytes as written.
    #[inline]
    pub(crate) fn fill(&mut self, n: usize) {
        self.filled = (self.filled + n).min(self.bytes.len());
    }

    /// Discards the written bytes from `at` on.
    pub(crate) fn truncate(&mut self, at: usize) {
        self.filled = self.filled.min(at);
    }

    /// Frees the memory if it is large and mostly unused. The written bytes are no longer needed.
    pub(crate) fn shrink(&mut self) {
        if self.bytes.len() > KEEP && self.filled < self.bytes.len() / 4 {
            *self = Self::default();
        }
    }

    #[cold]
    fn grow(&mut self, least: usize) {
        // Little at first: rows may go to thousands of partitions, each with a buffer.
        let length = least.max(self.bytes.len() * 2).max(4 << 10);
        self.bytes.resize(length, 0);
    }
}
