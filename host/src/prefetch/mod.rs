//! Results of numbered steps, made ahead by threads and delivered in order.
//!
//! A [`Prefetcher`] knows nothing of stores or batches. It hands step numbers
//! to its workers in order, keeps what they finish until its turn comes, and
//! hands it out strictly by step, whatever order the workers finish in.
//!
//! What it promises, and every change here must keep:
//!
//! 1. At most `prefetch` results are finished or under way, also across a seek.
//! 2. The step that failed is where everything stops: later calls give the
//!    same error, and [`position`](Prefetcher::position) stays there.
//! 3. No call waits for what cannot happen: failed, closed, forked, ended and
//!    re-entered prefetchers answer with an error.
//! 4. Values are dropped outside the lock, for dropping may run user code.
//! 5. No thread outlives [`close`](Prefetcher::close), or the drop, but for those
//!    that [`close_without_waiting`](Prefetcher::close_without_waiting) hands out.

mod state;
mod work;

use std::fmt;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::process;
use state::State;
use work::{Producing, Shared, drop_each, spawn};

/// The longest single wait; some systems refuse to wait for an age at once.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// How often a forked child tries to lock what no thread should hold, and how
/// long it pauses between: only another thread of the child may be just there.
const CLAIM_ATTEMPTS: u32 = 20;
const CLAIM_PAUSE: Duration = Duration::from_millis(1);

/// How a [`Prefetcher`] works ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefetchOptions {
    /// Threads that produce; 0 produces in the caller's thread, nothing ahead.
    pub workers: usize,
    /// Results that are finished or under way, at most; 0 is as 0 `workers`.
    /// More workers than this would have nothing to do, and are not started.
    pub prefetch: usize,
    /// The step to begin with.
    pub first_step: u64,
    /// The step to end before; [`u64::MAX`] never ends.
    pub end_step: u64,
}

impl Default for PrefetchOptions {
    /// 4 workers, 4 results ahead, from step 0, without end.
    fn default() -> Self {
        Self { workers: 4, prefetch: 4, first_step: 0, end_step: u64::MAX }
    }
}

/// Why there is no next result.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PrefetchError<E> {
    /// `produce` returned an error. Every later call returns it again.
    #[error("step {step}: {cause}")]
    Failed {
        /// The step that failed.
        step: u64,
        /// What `produce` returned.
        cause: E,
    },
    /// `produce` panicked. Every later call returns this again.
    #[error("step {step} panicked: {message}")]
    Panicked {
        /// The step that panicked.
        step: u64,
        /// What the panic said.
        message: Arc<str>,
    },
    /// The step to end before is reached.
    #[error("there are no more steps: the last was delivered")]
    Ended,
    /// [`Prefetcher::close`] was called.
    #[error("closed")]
    Closed,
    /// This process is a fork of the one that began: it has no threads.
    #[error("made by process {owner}, which forked; make another one in this process")]
    Forked {
        /// The process that has the threads.
        owner: u32,
    },
    /// `produce` asked for the next result, which it is itself to produce.
    #[error("the next result was asked for while producing it, which would wait for ever")]
    Reentrant,
    /// The system gave no thread.
    #[error("no thread could be started: {cause}")]
    Spawn {
        /// What the system said.
        cause: Arc<io::Error>,
    },
}

/// Results of `produce(step)`, made ahead by worker threads, in step order.
///
/// Threads start with the first [`next`](Self::next) (or [`start`](Self::start)),
/// so one that is only made, or made and then moved by [`seek`](Self::seek),
/// costs nothing. All methods take `&self` and may be called from any thread.
///
/// In a forked child one that had not started works as in its parent, unless
/// the fork came while a thread was changing it; any other is `Forked`.
///
/// `produce` may take a lock that its callers hold elsewhere, such as an
/// interpreter's: whoever holds it must release it around `next`, `close` and
/// the drop, which wait for the steps under way.
pub struct Prefetcher<T, E> {
    shared: Arc<Shared<T, E>>,
    options: PrefetchOptions,
    /// The process that made it, or a forked child that has claimed it.
    owner: AtomicU32,
    has_started: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<T: Send + 'static, E: Clone + Send + 'static> Prefetcher<T, E> {
    /// Prepares to produce; no thread runs yet.
    pub fn new(
        options: PrefetchOptions,
        produce: impl Fn(u64) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self {
        let ahead = options.workers.min(options.prefetch);
        // The caller's thread has one step under way, its own.
        let limit = if ahead == 0 { 1 } else { options.prefetch };
        let state = State::new(options.first_step, options.end_step, limit);
        let shared = Shared::new(state, Box::new(produce));
        let options = PrefetchOptions { workers: ahead, ..options };
        Self {
            shared: Arc::new(shared),
            options,
            owner: AtomicU32::new(process::id()),
            has_started: AtomicBool::new(false),
            threads: Mutex::default(),
        }
    }

    /// Starts the workers, if they do not run yet.
    ///
    /// # Errors
    ///
    /// [`PrefetchError::Spawn`] if no thread could be started (fewer than
    /// wanted is a warning in the log), `Closed` and `Forked`.
    pub fn start(&self) -> Result<(), PrefetchError<E>> {
        self.check_process()?;
        if self.has_started.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut threads = self.lock_threads();
        if self.has_started.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.shared.lock().closed {
            return Err(PrefetchError::Closed);
        }
        for number in 0..self.options.workers {
            match spawn(number, &self.shared) {
                Ok(thread) => threads.push(thread),
                Err(cause) if threads.is_empty() => {
                    return Err(PrefetchError::Spawn { cause: Arc::new(cause) });
                }
                Err(cause) => {
                    log::warn!("only {number} of {} workers: {cause}", self.options.workers);
                    break;
                }
            }
        }
        self.has_started.store(true, Ordering::Release);
        Ok(())
    }

    /// The result of the next step; waits until it is there.
    ///
    /// # Errors
    ///
    /// See [`PrefetchError`]. After `Failed` and `Panicked` every call returns
    /// the same, until a [`seek`](Self::seek).
    pub fn next(&self) -> Result<T, PrefetchError<E>> {
        loop {
            if let Some(value) = self.next_timeout(Duration::MAX)? {
                return Ok(value);
            }
        }
    }

    /// As [`next`](Self::next), but gives up waiting after `timeout`: `None`
    /// then, and nothing is lost. For callers that must look elsewhere from
    /// time to time, such as for an interpreter's signals. What the caller's
    /// own thread produces is not interrupted.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub fn next_timeout(&self, timeout: Duration) -> Result<Option<T>, PrefetchError<E>> {
        self.check_process()?;
        // Before the start, whose lock a close holds that waits for this thread.
        if Producing::is_inside(self.shared.id()) {
            return Err(PrefetchError::Reentrant);
        }
        self.start()?;
        // No deadline is one so far away that the clock cannot count it.
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.shared.lock();
        loop {
            if let Some(answer) = state.answer() {
                drop(state);
                self.shared.work.notify_one();
                self.shared.done.notify_all();
                return answer.map(Some);
            }
            if self.options.workers == 0
                && let Some(task) = state.hand_out()
            {
                drop(state);
                let _producing = Producing::enter(self.shared.id());
                state = self.shared.run(task);
                continue;
            }
            let left = deadline.map_or(Duration::MAX, |at| at.duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.shared.done.wait_timeout(state, left.min(WAIT_MAX));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Drops what was prefetched and goes on with `step`, also after an error.
    /// Steps under way are finished and then dropped.
    ///
    /// # Errors
    ///
    /// [`PrefetchError::Closed`] and `Forked`.
    pub fn seek(&self, step: u64) -> Result<(), PrefetchError<E>> {
        self.seek_with(step, || ())
    }

    /// As [`seek`](Self::seek), with a `change` of what `produce` looks at:
    /// every result delivered before it was produced before it, and every one
    /// after it after. It runs under the lock: it must be short, and must not
    /// call back.
    ///
    /// # Errors
    ///
    /// As [`seek`](Self::seek); `change` is not called then.
    pub fn seek_with(&self, step: u64, change: impl FnOnce()) -> Result<(), PrefetchError<E>> {
        self.check_process()?;
        let mut state = self.shared.lock();
        if state.closed {
            return Err(PrefetchError::Closed);
        }
        change();
        let discarded = state.seek(step);
        drop(self.shared.discard(state, discarded));
        self.shared.wake_all();
        Ok(())
    }

    /// The step that [`next`](Self::next) delivers next; all before it were
    /// delivered. Stays at a step that failed.
    ///
    /// # Errors
    ///
    /// [`PrefetchError::Forked`].
    pub fn position(&self) -> Result<u64, PrefetchError<E>> {
        self.position_with(|step| step)
    }

    /// What `look` makes of the position, before anything can move it. It runs
    /// under the lock, as the change of [`seek_with`](Self::seek_with).
    ///
    /// # Errors
    ///
    /// [`PrefetchError::Forked`].
    pub fn position_with<R>(&self, look: impl FnOnce(u64) -> R) -> Result<R, PrefetchError<E>> {
        self.check_process()?;
        Ok(look(self.shared.lock().position))
    }

    /// True once [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        // In a forked child the lock may be held by a thread that is not there.
        self.check_process().is_err() || self.shared.lock().closed
    }
}

impl<T, E> Prefetcher<T, E> {
    /// Hands out no more steps, finishes the ones under way, drops every result
    /// that was not delivered, and ends the threads. Whoever waits in
    /// [`next`](Self::next) gets `Closed`. May be called again, and from any
    /// thread.
    ///
    /// From inside `produce`, or from a value that a worker drops, it only
    /// asks: waiting there would be waiting for itself.
    pub fn close(&self) {
        if self.is_forked() {
            return;
        }
        self.end();
        if Producing::is_inside(self.shared.id()) {
            return;
        }
        for thread in self.lock_threads().drain(..) {
            // It cannot have panicked: whatever may panic in it is caught.
            let _ = thread.join();
        }
    }

    /// As [`close`](Self::close), but waits for nothing: returns the threads,
    /// which end after the steps under way. For whoever may hold a lock that
    /// `produce` waits for.
    #[must_use = "a thread that nobody joins may outlive what it uses"]
    pub fn close_without_waiting(&self) -> Vec<JoinHandle<()>> {
        if self.is_forked() {
            return Vec::new();
        }
        self.end();
        mem::take(&mut *self.lock_threads())
    }

    /// Asks the threads to end, and drops what was made ahead.
    fn end(&self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let discarded = state.clear();
        drop(state);
        self.shared.wake_all();
        drop_each(discarded);
    }

    fn lock_threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Comes before every lock: a forked child may find it held for ever.
    fn check_process(&self) -> Result<(), PrefetchError<E>> {
        match self.is_forked() {
            true => Err(PrefetchError::Forked { owner: self.owner.load(Ordering::Acquire) }),
            false => Ok(()),
        }
    }

    fn is_forked(&self) -> bool {
        let process = process::id();
        let is_ours = || self.owner.load(Ordering::Acquire) == process;
        !(is_ours() || !self.has_started.load(Ordering::Acquire) && self.claim(process, is_ours))
    }

    /// Makes one that had not started the forked child's own; false when the
    /// fork has left its locks held.
    fn claim(&self, process: u32, is_ours: impl Fn() -> bool) -> bool {
        for _ in 0..CLAIM_ATTEMPTS {
            if self.threads.try_lock().is_ok() && self.shared.try_lock().is_ok() {
                self.owner.store(process, Ordering::Release);
                return true;
            }
            thread::sleep(CLAIM_PAUSE);
            if is_ours() {
                return true;
            }
        }
        false
    }
}

impl<T, E> Drop for Prefetcher<T, E> {
    fn drop(&mut self) {
        if self.is_forked() {
            // These threads are not in this process; even detaching would touch them.
            let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(mem::take(threads));
            // One of them may have been changing this.
            mem::forget(Arc::clone(&self.shared));
            return;
        }
        self.close();
    }
}

impl<T, E> fmt::Debug for Prefetcher<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefetcher").field("options", &self.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(workers: usize) -> Prefetcher<u64, String> {
        let options = PrefetchOptions { workers, prefetch: 4, ..Default::default() };
        Prefetcher::new(options, Ok)
    }

    /// What a forked child sees: an owner that is another process, and no threads.
    #[test]
    fn a_forked_child_gets_an_error_and_waits_for_nothing() {
        for workers in [0, 2] {
            let mut prefetcher = counting(workers);
            assert_eq!(prefetcher.next().unwrap(), 0);
            prefetcher.close();
            prefetcher.owner = AtomicU32::new(1);
            // Held for ever, as a thread that the fork left behind would.
            let shared = Arc::clone(&prefetcher.shared);
            let _held = shared.lock();
            let forked = |error| matches!(error, PrefetchError::Forked { owner: 1 });
            assert!(forked(prefetcher.next().unwrap_err()));
            assert!(forked(prefetcher.seek(0).unwrap_err()));
            assert!(forked(prefetcher.position().unwrap_err()));
            assert!(prefetcher.is_closed());
            prefetcher.close();
            drop(prefetcher);
        }
    }

    #[test]
    fn one_that_had_not_started_belongs_to_a_forked_child_too() {
        let mut prefetcher = counting(2);
        prefetcher.seek(7).unwrap();
        prefetcher.owner = AtomicU32::new(1);
        assert_eq!(prefetcher.next().unwrap(), 7);
        assert_eq!(*prefetcher.owner.get_mut(), process::id());
    }

    #[test]
    fn one_that_the_fork_caught_half_changed_is_an_error() {
        let mut prefetcher = counting(2);
        prefetcher.owner = AtomicU32::new(1);
        let shared = Arc::clone(&prefetcher.shared);
        let held = shared.lock();
        assert!(matches!(prefetcher.next(), Err(PrefetchError::Forked { owner: 1 })));
        assert!(prefetcher.is_closed());
        drop(prefetcher);
        drop(held);
        // Not freed: it may be half changed.
        assert_eq!(Arc::strong_count(&shared), 2);
    }

    #[test]
    fn only_workers_that_can_have_a_step_are_started() {
        let options = PrefetchOptions { workers: 100, prefetch: 3, ..Default::default() };
        let prefetcher = Prefetcher::<u64, String>::new(options, Ok);
        prefetcher.start().unwrap();
        assert_eq!(prefetcher.lock_threads().len(), 3);
    }
}
