//! Handles that outlive a fork.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arc_swap::ArcSwap;

use zrecord_host::process;

use crate::errors::Result;
use crate::records::Records;

/// What opens its store anew in the child of a fork.
pub(crate) struct Handle<T> {
    path: String,
    inner: ArcSwap<T>,
    /// The process that opened `inner`.
    process: AtomicU32,
    is_closed: AtomicBool,
}

/// A handle, whatever its records are read through.
pub(crate) trait AnyHandle: Send + Sync {
    /// The absolute path that the store was opened by.
    fn path(&self) -> &str;
    /// The store of this process.
    fn records(&self) -> Result<Arc<dyn Records>>;
    fn is_closed(&self) -> bool;
    fn close(&self) -> Result<()>;
    /// Called in the child of a fork: gives up the locks that it has inherited.
    fn after_fork(&self);
}

impl<T: Records> Handle<T> {
    pub(crate) fn new(path: String, inner: T) -> Self {
        Self {
            path,
            inner: ArcSwap::from_pointee(inner),
            process: AtomicU32::new(process::id()),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The store of this process, opened anew if it was forked.
    pub(crate) fn open(&self) -> Result<Arc<T>> {
        let process = process::id();
        if self.process.load(Ordering::Acquire) != process {
            if self.is_closed.load(Ordering::Acquire) {
                let (path, source) = (self.path.clone().into(), zrecord_core::Error::Closed);
                return Err(zrecord_host::Error::Store { path, source }.into());
            }
            self.inner.load_full().after_fork();
            self.inner.store(Arc::new(self.inner.load_full().open_again()?));
            self.process.store(process, Ordering::Release);
        }
        Ok(self.inner.load_full())
    }
}

impl<T: Records + 'static> AnyHandle for Handle<T> {
    fn path(&self) -> &str {
        &self.path
    }

    fn records(&self) -> Result<Arc<dyn Records>> {
        Ok(self.open()?)
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn close(&self) -> Result<()> {
        self.is_closed.store(true, Ordering::Release);
        Ok(self.inner.load_full().close()?)
    }

    fn after_fork(&self) {
        if self.process.load(Ordering::Acquire) != process::id() {
            self.inner.load_full().after_fork();
        }
    }
}
