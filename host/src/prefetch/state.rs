//! Which steps are handed out, under way, finished: the bookkeeping alone,
//! without threads or locks.

use std::collections::VecDeque;
use std::mem;

use super::PrefetchError;

/// What came of a step, kept until it is delivered.
pub(super) type Outcome<T, E> = Result<T, PrefetchError<E>>;

/// A step that was handed out, and by which seek.
#[derive(Clone, Copy)]
pub(super) struct Task {
    pub(super) step: u64,
    generation: u64,
}

pub(super) struct State<T, E> {
    /// The step to deliver next.
    pub(super) position: u64,
    /// The step to end before.
    end: u64,
    /// How many results may be finished or under way.
    limit: usize,
    /// How many are: in a slot, being produced, or not yet dropped after a
    /// seek made them useless.
    alive: usize,
    /// The steps handed out, from `position` on; `None` while under way.
    slots: VecDeque<Option<Outcome<T, E>>>,
    /// Counts seeks, to know a result that comes too late.
    generation: u64,
    /// One of the slots is an error, the last one.
    failed: bool,
    pub(super) closed: bool,
}

impl<T, E: Clone> State<T, E> {
    /// What a caller gets now; `None` if it has to wait.
    pub(super) fn answer(&mut self) -> Option<Outcome<T, E>> {
        if self.closed {
            return Some(Err(PrefetchError::Closed));
        }
        if self.position >= self.end {
            return Some(Err(PrefetchError::Ended));
        }
        match self.slots.front_mut()? {
            Some(Err(error)) => return Some(Err(error.clone())),
            Some(Ok(_)) => {}
            None => return None,
        }
        self.position += 1;
        self.alive -= 1;
        self.slots.pop_front()?
    }

    /// The next step to produce, if there is room for it.
    pub(super) fn hand_out(&mut self) -> Option<Task> {
        let step = self.position.saturating_add(self.slots.len() as u64);
        if self.closed || self.failed || self.alive >= self.limit || step >= self.end {
            return None;
        }
        self.slots.push_back(None);
        self.alive += 1;
        Some(Task { step, generation: self.generation })
    }

    /// Takes in what came of a task; returns what nobody will ask for, to be
    /// dropped and then reported to [`forget`](Self::forget).
    pub(super) fn finish(&mut self, task: Task, outcome: Outcome<T, E>) -> Vec<Outcome<T, E>> {
        let is_current = task.generation == self.generation && !self.closed;
        // The slots before this one were delivered, so the distance is small.
        let index = usize::try_from(task.step.wrapping_sub(self.position)).unwrap_or(usize::MAX);
        let Some(slot) = self.slots.get_mut(index).filter(|_| is_current) else {
            return vec![outcome];
        };
        let has_failed = outcome.is_err();
        *slot = Some(outcome);
        if !has_failed {
            return Vec::new();
        }
        self.failed = true;
        self.slots.drain(index + 1..).flatten().collect()
    }

    /// Drops what was made ahead, except that the caller does: see
    /// [`finish`](Self::finish).
    pub(super) fn seek(&mut self, step: u64) -> Vec<Outcome<T, E>> {
        self.generation += 1;
        self.position = step;
        self.failed = false;
        self.clear()
    }
}

impl<T, E> State<T, E> {
    pub(super) fn new(position: u64, end: u64, limit: usize) -> Self {
        Self {
            position,
            end,
            limit,
            alive: 0,
            slots: VecDeque::new(),
            generation: 0,
            failed: false,
            closed: false,
        }
    }

    /// Makes room for as many results as were dropped.
    pub(super) fn forget(&mut self, count: usize) {
        self.alive -= count;
    }

    pub(super) fn clear(&mut self) -> Vec<Outcome<T, E>> {
        mem::take(&mut self.slots).into_iter().flatten().collect()
    }
}
