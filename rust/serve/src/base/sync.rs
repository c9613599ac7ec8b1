//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. What a thread that panicked left is still whole: nothing here is changed in two steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
