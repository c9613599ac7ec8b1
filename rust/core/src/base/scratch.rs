//! The memory that batches are written into.

/// A buffer larger than this is given back once much less of it was needed.
const KEEP: usize = 8 << 20;

/// Bytes written, then room for more. Room is zeroed once, when it grows, and written over from then on.
#[derive(Debug, Default)]
pub(crate) struct ScratchBuffer {
    bytes: Vec<u8>,
    filled: usize,
}

impl ScratchBuffer {
    /// All of `bytes`, whatever they hold.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, filled: 0 }
    }

    /// The memory, and how much of it is written.
    pub(crate) fn into_parts(self) -> (Vec<u8>, usize) {
        (self.bytes, self.filled)
    }

    /// How much is written.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    /// What is written, from `at` on.
    pub(crate) fn written(&self, at: usize) -> &[u8] {
        self.bytes.get(at..self.filled).unwrap_or_default()
    }

    /// The same, to be written over.
    pub(crate) fn written_mut(&mut self, at: usize) -> &mut [u8] {
        self.bytes.get_mut(at..self.filled).unwrap_or_default()
    }

    /// The next `n` bytes, which count as written: whatever they hold, write over it.
    #[inline]
    pub(crate) fn next(&mut self, n: usize) -> &mut [u8] {
        let start = self.filled;
        if n > self.bytes.len() - start {
            self.grow(start + n);
        }
        self.filled += n;
        self.bytes.get_mut(start..self.filled).unwrap_or_default()
    }

    /// The memory behind what is written, of at least `n` bytes, and whatever it holds.
    pub(crate) fn spare(&mut self, n: usize) -> &mut [u8] {
        if n > self.bytes.len() - self.filled {
            self.grow(self.filled + n);
        }
        self.bytes.get_mut(self.filled..).unwrap_or_default()
    }

    /// Counts the next `n` bytes as written.
    pub(crate) fn fill(&mut self, n: usize) {
        self.filled = (self.filled + n).min(self.bytes.len());
    }

    /// Takes back what is written behind `at`.
    pub(crate) fn truncate(&mut self, at: usize) {
        self.filled = self.filled.min(at);
    }

    /// Gives the memory back if it is large and mostly not written; what is written is done with.
    pub(crate) fn shrink(&mut self) {
        if self.bytes.len() > KEEP && self.filled < self.bytes.len() / 4 {
            *self = Self::default();
        }
    }

    #[cold]
    fn grow(&mut self, least: usize) {
        let length = least.max(self.bytes.len() * 2).max(64 << 10);
        self.bytes.resize(length, 0);
    }
}
