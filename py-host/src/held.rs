//! Python objects that a thread without the GIL may be the last to hold.

use std::mem;
use std::ops::Deref;

use crate::attach;

/// A value that is dropped with the GIL.
///
/// Left to itself, PyO3 notes what is dropped without it in a list behind a
/// lock. A fork at that moment would leave the lock held in the child, which
/// would wait for ever as soon as it came by.
#[derive(Debug)]
pub(crate) struct Held<T>(Option<T>);

impl<T> Held<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => unreachable!("it is taken by the drop alone"),
        }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        let mut value = self.0.take();
        // At exit there is no GIL to be had, and nothing left to be freed.
        if attach::try_attach(|_| drop(value.take())).is_none() {
            mem::forget(value);
        }
    }
}
