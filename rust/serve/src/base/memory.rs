//! The memory that requests, replies and the state of clients may take, over all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory of each element of a decoded request and of its answer. For example, an empty key in FindCoordinator has
/// one byte, and takes 250 bytes with its answer.
const OF_ELEMENT: usize = 512;
/// Parts above this size share half of the budget, so that clients with large requests do not lock out the others.
const LARGE: usize = 256 << 10;
/// Parts up to this size have a quarter of the budget for themselves. With parts of this size, all connections of one
/// address together take less than this quarter.
const SMALL: usize = 16 << 10;

/// A budget. A part that does not fit is refused, and its connection is closed, because waiting would let one client
/// block the others.
#[derive(Debug)]
pub(crate) struct Memory {
    most: usize,
    /// The maximum number of bytes for all large parts together.
    most_of_large: usize,
    used: AtomicUsize,
}

/// A part of the budget. It is released when this object is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<Memory>,
    bytes: AtomicUsize,
}

impl Memory {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_of_large: most / 2,
            used: AtomicUsize::new(0),
        })
    }

    /// A budget that a single part may use up.
    pub(crate) fn of_one(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_of_large: most,
            used: AtomicUsize::new(0),
        })
    }

    /// Returns an empty part, which can grow.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share {
            memory: Arc::clone(self),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Returns the bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns true if more than half of the memory is in use. Clients that only wait should then release their memory.
    pub(crate) fn is_short(&self) -> bool {
        self.used() > self.most / 2
    }
}

impl Share {
    /// Reserves more memory; returns whether there was enough.
    pub(crate) fn grow(&self, bytes: usize) -> bool {
        let held = self.bytes.load(Ordering::Relaxed);
        let Memory {
            most,
            most_of_large,
            ..
        } = *self.memory;
        let most = match held.saturating_add(bytes) {
            0..=SMALL => most,
            size if size <= LARGE => most_of_large + (most - most_of_large) / 2,
            _ => most_of_large,
        };
        let taken = self
            .memory
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= most)
            });
        if taken.is_ok() {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    /// Reserves the memory for decoding a request with this number of elements. Returns false if there is not enough.
    pub(crate) fn grow_to_decode(&self, elements: usize) -> bool {
        self.grow(elements.saturating_mul(OF_ELEMENT))
    }

    /// Releases the memory for decoding a request with this number of elements.
    pub(crate) fn give_back_decoded(&self, elements: usize) {
        self.give_back(elements.saturating_mul(OF_ELEMENT));
    }

    /// Reserves more memory even beyond the budget: commits of an earlier run are kept in any case.
    pub(crate) fn force(&self, bytes: usize) {
        self.memory.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Releases a part of the memory.
    pub(crate) fn give_back(&self, bytes: usize) {
        let held = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                Some(held.saturating_sub(bytes))
            });
        let held = held.unwrap_or_default();
        self.memory
            .used
            .fetch_sub(bytes.min(held), Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_parts_leave_room_for_small_ones() {
        let memory = Memory::new(4 * LARGE);
        let (large, middle, small) = (memory.share(), memory.share(), memory.share());
        assert!(large.grow(2 * LARGE) && !large.grow(1));
        assert!(middle.grow(LARGE) && !middle.grow(1) && !memory.share().grow(SMALL + 1));
        assert!(small.grow(SMALL) && !small.grow(1));
        let shares: Vec<_> = (0..15).map(|_| memory.share()).collect();
        assert!(shares.iter().all(|share| share.grow(SMALL)));
        assert!(!memory.share().grow(1));
    }

    #[test]
    fn what_does_not_fit_is_refused_until_others_give_back() {
        let memory = Memory::new(100);
        let (one, other) = (memory.share(), memory.share());
        assert!(one.grow(60) && !other.grow(41) && other.grow(40));
        assert!(memory.is_short() && !one.grow(usize::MAX));
        drop(one);
        assert!(!memory.is_short() && other.grow(60) && !other.grow(1));
        other.give_back(50);
        assert_eq!(memory.used(), 50);
        other.force(1000);
        drop(other);
        assert_eq!(memory.used(), 0);
    }
}
