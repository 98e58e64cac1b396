//! Locks that a panic of another thread does not take away.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whatever panicked while it held the lock, what is in it is whole between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
