//! Threads that help with a call for a moment: one of the named files that may
//! hold unsafe code.
#![expect(unsafe_code, reason = "lends work to threads that may come when it is over")]

use std::any::Any;
use std::hint;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Whoever calls for helpers calls so many, and each who comes calls as many:
/// to wake a thread takes some microseconds, which many share like this.
const CALLS_AT_ONCE: usize = 2;
/// A caller who has to wait for helpers looks so many times before it sleeps.
/// Their last shares are short, and to be woken takes longer.
const LOOKS_MAX: usize = 256;

/// The threads of a pool.
pub(crate) struct Crew {
    pool: ThreadPool,
    /// Calls that no thread has followed yet. There are never more of them than
    /// threads: while those are busy elsewhere, nobody calls in vain.
    calls: AtomicUsize,
}

impl Crew {
    /// Starts so many threads.
    pub(crate) fn new(threads: usize) -> Result<Self, ThreadPoolBuildError> {
        let builder = ThreadPoolBuilder::new().num_threads(threads);
        let pool = builder.thread_name(|number| format!("zrecord-{number}")).build()?;
        Ok(Self { pool, calls: AtomicUsize::new(0) })
    }

    /// The pool, for work that is waited for in other ways.
    pub(crate) fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// Runs `task` here and on up to `helpers` of the threads, each once.
    ///
    /// Returns when every run that was begun has ended. A thread that has not
    /// begun by the time the caller's own run ends never does, and is not
    /// waited for; a scope of the pool would do that.
    ///
    /// # Panics
    ///
    /// With what `task` panicked with, wherever it did.
    pub(crate) fn together(self: &Arc<Self>, helpers: usize, task: &(dyn Fn() + Sync)) {
        // SAFETY: only the lifetime changes. The pointer is shared only after
        // `Closing` exists, whose drop, on return or by a panic, waits until the
        // gate is closed and nobody is inside.
        let task: &'static (dyn Fn() + Sync) = unsafe { mem::transmute(task) };
        let gate = Arc::new(Gate {
            crew: Arc::clone(self),
            task,
            wanted: AtomicUsize::new(helpers),
            state: AtomicUsize::new(0),
            caller: thread::current(),
            panic: Mutex::default(),
        });
        let closing = Closing(&gate);
        gate.call();
        task();
        drop(closing);
        let panic = gate.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = panic {
            panic::resume_unwind(panic);
        }
    }
}

/// What lets helpers in to a task, until it is closed.
struct Gate {
    crew: Arc<Crew>,
    /// The caller's: valid while somebody is inside, and else not to be touched.
    task: *const (dyn Fn() + Sync),
    /// How many helpers more may be called.
    wanted: AtomicUsize,
    /// [`CLOSED`], and [`INSIDE`] for each helper who is.
    state: AtomicUsize,
    /// Whom the last one to leave wakes.
    caller: Thread,
    /// What the first helper to panic did so with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

const CLOSED: usize = 1;
const INSIDE: usize = 2;

// SAFETY: what `task` points to is `Sync`, so any thread may use it, and `help`
// alone does, while it is counted in at an open gate. The rest is `Send`.
unsafe impl Send for Gate {}
// SAFETY: as above; the rest is `Sync`.
unsafe impl Sync for Gate {}

impl Gate {
    /// Calls a few of the helpers who are wanted, unless as many calls as there
    /// are threads have not been followed yet.
    fn call(self: &Arc<Self>) {
        let (relaxed, crew) = (Ordering::Relaxed, &self.crew);
        let threads = crew.pool.current_num_threads();
        let one_less = |wanted: usize| wanted.checked_sub(1);
        let one_more = |calls: usize| (calls < threads).then_some(calls + 1);
        for _ in 0..CALLS_AT_ONCE {
            if self.wanted.fetch_update(relaxed, relaxed, one_less).is_err()
                || crew.calls.fetch_update(relaxed, relaxed, one_more).is_err()
            {
                return;
            }
            let gate = Arc::clone(self);
            crew.pool.spawn(move || gate.help());
        }
    }

    /// Runs the task, unless it is over.
    fn help(self: &Arc<Self>) {
        self.crew.calls.fetch_sub(1, Ordering::Relaxed);
        let enter = |state: usize| (state & CLOSED == 0).then_some(state + INSIDE);
        if self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_err() {
            return;
        }
        let run = || {
            self.call();
            // SAFETY: counted in before the gate was closed, so the caller, who
            // has lent it, does not go on before this thread is counted out.
            let task = unsafe { &*self.task };
            task();
        };
        if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(run)) {
            let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(panic);
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier, mpsc};
    use std::thread;

    use super::Crew;

    fn crew(threads: usize) -> Arc<Crew> {
        Arc::new(Crew::new(threads).unwrap())
    }

    #[test]
    fn all_run_what_only_all_can_end() {
        let crew = crew(5);
        for helpers in [0, 1, 2, 5, 3, 5] {
            let (met, barrier) = (AtomicUsize::new(0), Barrier::new(helpers + 1));
            crew.together(helpers, &|| {
                barrier.wait();
                met.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(met.into_inner(), helpers + 1);
        }
    }

    #[test]
    fn a_thread_that_has_not_begun_is_not_waited_for() {
        let crew = crew(1);
        let (release, held) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        crew.pool().spawn(move || {
            begin.send(()).unwrap();
            let _ = held.recv();
        });
        begun.recv().unwrap();
        for round in 0..3 {
            let count = AtomicUsize::new(round);
            crew.together(1, &|| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            // What was lent is the caller's again, and may go.
            assert_eq!(count.into_inner(), round + 1);
            // Nor is one called again who has not come yet.
            assert_eq!(crew.calls.load(Ordering::Relaxed), 1);
        }
        drop(release);
        // Who comes now finds nothing to do.
        let (late, later) = mpsc::channel();
        crew.pool().spawn(move || late.send(()).unwrap());
        later.recv().unwrap();
        assert_eq!(crew.calls.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_panic_is_passed_on_and_everybody_waited_for() {
        let crew = crew(2);
        let caller = thread::current().id();
        for callers in [false, true] {
            let (panics, ended, barrier) =
                (AtomicUsize::new(0), AtomicUsize::new(0), Barrier::new(3));
            let task = || {
                barrier.wait();
                let is_first = || panics.fetch_add(1, Ordering::Relaxed) == 0;
                if (thread::current().id() == caller) == callers && is_first() {
                    panic!("the one who was told to");
                }
                ended.fetch_add(1, Ordering::Relaxed);
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| crew.together(2, &task)));
            assert_eq!(
                *outcome.unwrap_err().downcast::<&str>().unwrap(),
                "the one who was told to"
            );
            assert_eq!(ended.into_inner(), 2);
        }
    }

    #[test]
    fn many_callers_get_their_own_work_done() {
        let (crew, rounds) = (crew(2), if cfg!(miri) { 3 } else { 500 });
        thread::scope(|scope| {
            for caller in 0..4_usize {
                let crew = &crew;
                scope.spawn(move || {
                    for round in 0..rounds {
                        let (next, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
                        crew.together(2, &|| {
                            while next.fetch_add(1, Ordering::Relaxed) < 10 {
                                sum.fetch_add(caller + round, Ordering::Relaxed);
                            }
                        });
                        assert_eq!(sum.into_inner(), 10 * (caller + round));
                    }
                });
            }
        });
    }
}
