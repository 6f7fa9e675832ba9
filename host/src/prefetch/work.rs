//! The threads: what a worker does, and what it shares with the callers.

use std::any::Any;
use std::cell::RefCell;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockResult};
use std::thread::{self, JoinHandle};

use super::PrefetchError;
use super::state::{Outcome, State, Task};

/// The stack of a worker in bytes; as large as a main thread's usually is,
/// because a worker may run an interpreter. Only what is used is ever mapped.
const STACK_SIZE: usize = 8 << 20;

pub(super) type Produce<T, E> = dyn Fn(u64) -> Result<T, E> + Send + Sync;

/// What the workers and the callers share.
pub(super) struct Shared<T, E> {
    state: Mutex<State<T, E>>,
    /// Workers wait here for steps.
    pub(super) work: Condvar,
    /// Callers wait here for results.
    pub(super) done: Condvar,
    produce: Box<Produce<T, E>>,
}

impl<T, E> Shared<T, E> {
    pub(super) fn new(state: State<T, E>, produce: Box<Produce<T, E>>) -> Self {
        Self { state: Mutex::new(state), work: Condvar::new(), done: Condvar::new(), produce }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<T, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock if nobody holds it: see [`lock`](Self::lock).
    pub(super) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, State<T, E>>> {
        self.state.try_lock()
    }

    /// Drops results outside the lock, and makes room for others after that.
    pub(super) fn discard<'a>(
        &'a self,
        state: MutexGuard<'a, State<T, E>>,
        discarded: Vec<Outcome<T, E>>,
    ) -> MutexGuard<'a, State<T, E>> {
        drop(state);
        let count = discarded.len();
        drop_each(discarded);
        let mut state = self.lock();
        state.forget(count);
        state
    }

    pub(super) fn wake_all(&self) {
        self.work.notify_all();
        self.done.notify_all();
    }

    /// Tells this prefetcher from every other one that is alive.
    pub(super) fn id(&self) -> usize {
        (&raw const *self).addr()
    }
}

impl<T, E: Clone> Shared<T, E> {
    /// What a worker does: until closed, takes a step and produces its result.
    fn work(&self) {
        let _producing = Producing::enter(self.id());
        let mut state = self.lock();
        while !state.closed {
            state = match state.hand_out() {
                Some(task) => {
                    drop(state);
                    self.run(task)
                }
                None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    pub(super) fn run(&self, task: Task) -> MutexGuard<'_, State<T, E>> {
        let outcome = self.outcome(task.step);
        let mut state = self.lock();
        let discarded = state.finish(task, outcome);
        self.done.notify_all();
        if discarded.is_empty() { state } else { self.discard(state, discarded) }
    }

    fn outcome(&self, step: u64) -> Outcome<T, E> {
        match catch_unwind(AssertUnwindSafe(|| (self.produce)(step))) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(cause)) => Err(PrefetchError::Failed { step, cause }),
            Err(payload) => {
                let message = panic_message(payload.as_ref()).into();
                drop_quietly(payload);
                Err(PrefetchError::Panicked { step, message })
            }
        }
    }
}

pub(super) fn spawn<T, E>(number: usize, shared: &Arc<Shared<T, E>>) -> io::Result<JoinHandle<()>>
where
    T: Send + 'static,
    E: Clone + Send + 'static,
{
    let shared = Arc::clone(shared);
    thread::Builder::new()
        .name(format!("zrecord-loader-{number}"))
        .stack_size(STACK_SIZE)
        .spawn(move || shared.work())
}

/// Drops results one at a time: two that panic in one drop abort the process.
pub(super) fn drop_each<V>(values: Vec<V>) {
    values.into_iter().for_each(drop_quietly);
}

/// Drops a value whose drop may panic; a worker must not die of it.
fn drop_quietly<V>(value: V) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        log::error!("dropping a result panicked: {}", panic_message(payload.as_ref()));
        mem::forget(payload);
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// While it lives, this thread works for the prefetcher with that id.
pub(super) struct Producing;

thread_local! {
    static PRODUCING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

impl Producing {
    pub(super) fn enter(id: usize) -> Self {
        PRODUCING.with_borrow_mut(|ids| ids.push(id));
        Self
    }

    /// False while the thread is being torn down.
    pub(super) fn is_inside(id: usize) -> bool {
        PRODUCING.try_with(|ids| ids.borrow().contains(&id)).unwrap_or(false)
    }
}

impl Drop for Producing {
    fn drop(&mut self) {
        PRODUCING.with_borrow_mut(|ids| ids.pop());
    }
}
