//! Work that threads share for a moment: one of the named files that may hold
//! unsafe code.
#![expect(unsafe_code, reason = "lends work to threads that may come when it is over")]

use std::any::Any;
use std::hint;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};

use rayon::ThreadPool;

/// Whoever has to wait for helpers looks so many times before it sleeps: what
/// they are about is nearly done, and to be woken takes longer than that.
const LOOKS_MAX: usize = 256;

/// Runs `task` here, and on as many threads of the pool more as there are
/// `helpers`. Returns when it has returned here and wherever else it was begun:
/// a thread that has not begun by then never does, and is not waited for, which
/// a scope of the pool would do.
///
/// # Panics
///
/// As `task` does, wherever.
pub(crate) fn together(pool: &ThreadPool, helpers: usize, task: &(dyn Fn() + Sync)) {
    // SAFETY: nothing but the lifetime is another. `Gate::help` alone follows
    // the pointer, inside the gate, and this function does not end, nor unwind,
    // before `Closing` has seen to it that nobody is inside or ever will be.
    let task: &'static (dyn Fn() + Sync) = unsafe { mem::transmute(task) };
    let gate = Arc::new(Gate {
        task,
        state: AtomicUsize::new(0),
        caller: thread::current(),
        panic: Mutex::default(),
    });
    let closing = Closing(&gate);
    for _ in 0..helpers {
        let gate = Arc::clone(&gate);
        pool.spawn(move || gate.help());
    }
    task();
    drop(closing);
    let panic = gate.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(panic) = panic {
        panic::resume_unwind(panic);
    }
}

/// What lets helpers in to the task, until it is closed.
struct Gate {
    /// Not to be followed but inside: it is the caller's, who goes on when the
    /// gate is closed and nobody is inside.
    task: *const (dyn Fn() + Sync),
    /// [`CLOSED`], and [`INSIDE`] for each helper who is.
    state: AtomicUsize,
    /// Whom the last one to leave wakes.
    caller: Thread,
    /// What the first helper to panic did so with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

const CLOSED: usize = 1;
const INSIDE: usize = 2;

// SAFETY: the pointer keeps it from being so by itself. What it points to may
// be used by all threads at once, and `help` says when.
unsafe impl Send for Gate {}
// SAFETY: as above.
unsafe impl Sync for Gate {}

impl Gate {
    /// Runs the task, unless it is over.
    fn help(&self) {
        // In one step, so that the caller either sees this thread inside or has
        // closed the gate before.
        if self.state.fetch_add(INSIDE, Ordering::Acquire) & CLOSED == 0 {
            // SAFETY: inside, so the caller waits, who has lent it.
            let task = unsafe { &*self.task };
            if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(task)) {
                let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(panic);
            }
        }
        if self.state.fetch_sub(INSIDE, Ordering::Release) == INSIDE | CLOSED {
            self.caller.unpark();
        }
    }
}

/// Closes the gate when it is dropped, also by a panic, and waits for those who
/// are inside.
struct Closing<'a>(&'a Gate);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let state = &self.0.state;
        state.fetch_or(CLOSED, Ordering::Relaxed);
        let mut looks = 0;
        // Acquires what those wrote who have left.
        while state.load(Ordering::Acquire) != CLOSED {
            looks += 1;
            if looks < LOOKS_MAX {
                hint::spin_loop();
            } else {
                thread::park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use rayon::{ThreadPool, ThreadPoolBuilder};

    use super::together;

    fn pool(threads: usize) -> ThreadPool {
        ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
    }

    #[test]
    fn all_run_what_only_all_can_end() {
        let pool = pool(3);
        for _ in 0..20 {
            let (met, barrier) = (AtomicUsize::new(0), Barrier::new(4));
            together(&pool, 3, &|| {
                barrier.wait();
                met.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(met.into_inner(), 4);
        }
    }

    #[test]
    fn a_thread_that_has_not_begun_is_not_waited_for() {
        let pool = pool(1);
        let (release, held) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        pool.spawn(move || {
            begin.send(()).unwrap();
            let _ = held.recv();
        });
        begun.recv().unwrap();
        let mut runs = vec![0];
        for round in 0..3 {
            let count = AtomicUsize::new(round);
            together(&pool, 1, &|| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            // What is lent is the caller's again, and may go.
            runs.push(count.into_inner());
        }
        assert_eq!(runs, [0, 1, 2, 3]);
        drop(release);
        // Those who come now find nothing to do.
        let (late, later) = mpsc::channel();
        pool.spawn(move || late.send(()).unwrap());
        later.recv().unwrap();
    }

    #[test]
    fn a_panic_is_passed_on_and_everybody_waited_for() {
        let pool = pool(2);
        for panicking in 0..3 {
            let (turn, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let barrier = Barrier::new(3);
            let task = || {
                let mine = turn.fetch_add(1, Ordering::Relaxed);
                barrier.wait();
                assert!(mine != panicking, "the one who was told to");
                ended.fetch_add(1, Ordering::Relaxed);
            };
            assert!(catch_unwind(AssertUnwindSafe(|| together(&pool, 2, &task))).is_err());
            assert_eq!(ended.into_inner(), 2);
        }
    }
}
