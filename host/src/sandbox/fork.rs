//! Sandboxes that a fork has copied. The child has their memory, but neither
//! the clock that would interrupt them nor the threads that were inside: it
//! opens the store anew.

use std::io;
use std::mem;
use std::sync::Arc;

use zrecord_core::Error as CoreError;
use zrecord_core::storage::FileName;

use crate::error::{Error, Result};
use crate::process;
use crate::sandbox::store::Sandbox;

impl Sandbox {
    /// Opens the same store once more for reading, with the same limits: also
    /// in a forked child.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); the core's `Io` with `NotFound` also when
    /// another store is in its place, which a classic one cannot tell from
    /// another classic one.
    pub fn open_again(&self) -> Result<Self> {
        let again = Self::open(&self.path, self.limits)?;
        if again.id != self.id {
            let source = io::Error::new(
                io::ErrorKind::NotFound,
                "another store is where the one that was opened had been",
            );
            return Err(Error::store(&self.path)(CoreError::Io { file: FileName::Meta, source }));
        }
        Ok(again)
    }

    /// In a forked child: gives up the locks that it has inherited, so that
    /// they die with their holder. Nothing elsewhere.
    pub fn after_fork(&self) {
        // A thread of the parent that was inside has left it locked for good.
        if self.is_inherited()
            && let Ok(mut session) = self.session.try_lock()
            && let Some(session) = &mut *session
        {
            drop((session.presence.take(), session.writer.take()));
        }
    }

    pub(super) fn is_inherited(&self) -> bool {
        self.process != process::id()
    }

    /// Lets go of a copy. One that a thread of the parent was inside of is
    /// never freed: it may be half changed.
    pub(super) fn abandon(&self) {
        self.after_fork();
        if self.session.try_lock().is_err() {
            mem::forget(Arc::clone(&self.session));
        }
    }
}
