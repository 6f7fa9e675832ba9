//! Python objects on their way out of a loader, in the garbage collector's sight.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::attach;
use crate::errors;
use crate::held::Held;

/// What workers have made and nobody has taken yet; they pass on tickets.
///
/// It may lead back to the loader, as an exception does by its traceback and
/// the frame of the call that raised it. The collector frees such a cycle only
/// if it sees all of it, and it cannot look into the loader's queue.
///
/// The lock is held only with the GIL and while no Python code can run, so
/// that the collector and a fork always find it free.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    objects: HashMap<u64, Held<Py<PyAny>>>,
    /// The number of the next ticket.
    next: u64,
}

/// The right to one object on a shelf, which leaves it with the ticket.
#[derive(Debug)]
pub(crate) struct Ticket {
    shelf: Arc<Shelf>,
    number: u64,
}

impl Shelf {
    pub(crate) fn put(self: &Arc<Self>, py: Python<'_>, object: Py<PyAny>) -> Ticket {
        let mut kept = self.lock(py);
        let number = kept.next;
        kept.next += 1;
        kept.objects.insert(number, Held::new(object));
        Ticket { shelf: Arc::clone(self), number }
    }

    /// Shows everything to the collector, which must not wait.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.0.try_lock() {
            Ok(kept) => kept.objects.values().try_for_each(|object| visit.call(&**object)),
            Err(_) => Ok(()),
        }
    }

    pub(crate) fn clear(&self, py: Python<'_>) {
        let objects = std::mem::take(&mut self.lock(py).objects);
        drop(objects);
    }

    fn lock(&self, _: Python<'_>) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    pub(crate) fn object(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let object = self.shelf.lock(py).objects.get(&self.number).map(|held| held.clone_ref(py));
        object.ok_or_else(|| errors::new("ClosedError", "the loader is being destroyed"))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // At exit there is no GIL to be had, and nothing left to be freed.
        attach::try_attach(|py| {
            let object = self.shelf.lock(py).objects.remove(&self.number);
            drop(object);
        });
    }
}
