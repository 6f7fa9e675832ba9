//! Threads of loaders that were dropped; they end by themselves.
//!
//! Whoever drops a loader without saying so, as the garbage collector does in
//! any thread and at any line, may hold a lock that a transform waits for. So
//! the drop waits for no thread; the end of the program does.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use pyo3::prelude::*;
use zrecord_host::process;

struct Left {
    /// The process that has the threads.
    owner: u32,
    threads: Vec<JoinHandle<()>>,
}

/// Locked only with the GIL, so that a fork finds it free.
static LEFT: Mutex<Left> = Mutex::new(Left { owner: 0, threads: Vec::new() });

/// Remembers threads that were asked to end.
pub(crate) fn leave(py: Python<'_>, threads: Vec<JoinHandle<()>>) {
    let mut left = lock(py);
    left.threads.retain(|thread| !thread.is_finished());
    left.threads.extend(threads);
}

/// Waits for them, before the interpreter ends that they may be inside of.
#[pyfunction]
pub(crate) fn join_left(py: Python<'_>) {
    let threads = mem::take(&mut lock(py).threads);
    py.detach(|| {
        for thread in threads {
            // It cannot have panicked: whatever may panic in it is caught.
            let _ = thread.join();
        }
    });
}

fn lock(_: Python<'_>) -> MutexGuard<'static, Left> {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let process = process::id();
    if left.owner != process {
        // A forked child has none of them; even detaching would touch them.
        mem::forget(mem::take(&mut left.threads));
        left.owner = process;
    }
    left
}
