//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even after a thread panicked: the data is still consistent, because each change of it is a single
/// step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
