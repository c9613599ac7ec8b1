//! The memory that requests and replies may take, and what clients leave behind, over all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A decoded request takes so many times its bytes, at most: a partition of a fetch has 16 bytes at least, and takes
/// some 200 with what is found for it.
const DECODED: usize = 16;
/// Parts above this size share half of the budget: clients with large requests do not keep the others out.
const SMALL: usize = 256 << 10;

/// A budget. What does not fit is refused, and its connection closed: to wait would let one client hold the others up.
#[derive(Debug)]
pub(crate) struct Memory {
    most: usize,
    used: AtomicUsize,
}

/// A part of the budget, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Memory {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let used = AtomicUsize::new(0);
        Arc::new(Self { most, used })
    }

    /// Returns an empty part, which can grow.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share {
            memory: Arc::clone(self),
            bytes: 0,
        }
    }

    /// What is taken now.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether so much is taken that clients that only wait should give back theirs.
    pub(crate) fn is_short(&self) -> bool {
        self.used() > self.most / 2
    }
}

impl Share {
    /// Takes more; returns whether there was enough.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let most = match self.bytes.saturating_add(bytes) > SMALL {
            true => self.memory.most / 2,
            false => self.memory.most,
        };
        let taken = self
            .memory
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= most)
            });
        if taken.is_ok() {
            self.bytes += bytes;
        }
        taken.is_ok()
    }

    /// Takes what a request of so many bytes takes when it is decoded; returns whether there was enough.
    pub(crate) fn grow_to_decode(&mut self, bytes: usize) -> bool {
        self.grow(bytes.saturating_mul(DECODED))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_parts_leave_room_for_small_ones() {
        let memory = Memory::new(4 * SMALL);
        let (mut large, mut small) = (memory.share(), memory.share());
        assert!(large.grow(2 * SMALL) && !large.grow(1));
        assert!(small.grow(SMALL) && !small.grow(1));
        let mut other = memory.share();
        assert!(other.grow(SMALL) && !memory.share().grow(1));
    }

    #[test]
    fn what_does_not_fit_is_refused_until_others_give_back() {
        let memory = Memory::new(100);
        let (mut one, mut other) = (memory.share(), memory.share());
        assert!(one.grow(60) && !other.grow(41) && other.grow(40));
        assert!(memory.is_short() && !one.grow(usize::MAX));
        drop(one);
        assert!(!memory.is_short() && other.grow(60) && !other.grow(1));
    }
}
