//! Taking the GIL in threads that Python does not know, and forks beside it.
//!
//! A thread of ours that takes the GIL is given a state by the interpreter
//! first, under a lock that CPython does not make anew in a forked child
//! before it needs it: a fork at that moment leaves a child that waits for
//! ever inside of `os.fork`. So states are made behind a gate, which a fork
//! closes. Python's own threads get theirs with the GIL held, which keeps a
//! fork away, and so are they all given back.
#![allow(unsafe_code, reason = "whether a thread has a state is asked of the C interface alone")]

use std::cell::RefCell;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use pyo3::ffi;
use pyo3::prelude::*;

/// Shared by threads that are given a state, or make a sandbox; exclusive to a
/// fork.
static GATE: RwLock<()> = RwLock::new(());

thread_local! {
    /// In the thread that forks, from before until after it.
    static CLOSED: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// As [`Python::try_attach`], for code that may run in a thread of ours.
pub(crate) fn try_attach<R>(work: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    // A thread that has a state may hold the GIL, and must not wait with it.
    let passing = (!has_state()).then(|| GATE.read().unwrap_or_else(PoisonError::into_inner));
    Python::try_attach(|py| {
        drop(passing);
        work(py)
    })
}

/// Does work that takes locks of others, which a fork in between would leave
/// locked in the child. It must not take the GIL.
#[cfg(feature = "sandbox")]
pub(crate) fn away_from_forks<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let mut work = Some(work);
    let mut pass = || {
        let _passing = GATE.read().unwrap_or_else(PoisonError::into_inner);
        work.take().map(|work| work())
    };
    // Whoever has closed the gate may wait for the GIL behind it.
    let done = try_attach(|py| py.detach(&mut pass)).unwrap_or_else(&mut pass);
    match done {
        Some(done) => done,
        None => unreachable!("it passes once"),
    }
}

fn has_state() -> bool {
    // SAFETY: it reads a variable of this thread, and may be called without
    // the GIL; before the interpreter begins and after it has ended it is null.
    !unsafe { ffi::PyGILState_GetThisThreadState() }.is_null()
}

/// Before a fork: waits for threads that are being given a state or make a
/// sandbox, and keeps others from it.
#[pyfunction]
pub(crate) fn before_fork(py: Python<'_>) {
    // They wait for the GIL in there.
    py.detach(|| {
        let closed = GATE.write().unwrap_or_else(PoisonError::into_inner);
        CLOSED.set(Some(closed));
    });
}

/// After a fork, in both processes.
#[pyfunction]
pub(crate) fn after_fork() {
    CLOSED.take();
}
