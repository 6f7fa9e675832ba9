//! The threads of this process: crews that all stores share.

use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use arc_swap::ArcSwapOption;
use zrecord_core::{Error, Result};

use crate::crew::Crew;
use crate::process;

/// The environment variable that says how many threads work on one call.
pub const THREADS_VARIABLE: &str = "ZRECORD_THREADS";

/// Crews by their number of threads, and the process that made them: a forked
/// child has the memory of its parent's crews, but not their threads.
struct Crews {
    process: u32,
    crews: BTreeMap<usize, Arc<Crew>>,
}

static CREWS: ArcSwapOption<Crews> = ArcSwapOption::const_empty();

/// More threads than this do not help one call, and may harm the system.
const THREADS_MAX: usize = 4096;

/// How many threads work on one call: what was asked for, else the
/// environment variable, else what affinity and quota allow.
///
/// # Errors
///
/// [`Error::InvalidArgument`] naming the argument or the variable when it is
/// not from 1 to 4096. An empty variable is as none.
pub fn thread_count(asked: Option<usize>) -> Result<usize> {
    if let Some(asked) = asked {
        return checked("threads", asked);
    }
    let Some(text) = env::var_os(THREADS_VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(thread::available_parallelism().map_or(1, usize::from));
    };
    let text = text.to_string_lossy();
    text.trim().parse().map_or_else(
        |_| Err(invalid(THREADS_VARIABLE, &text)),
        |count| checked(THREADS_VARIABLE, count),
    )
}

fn checked(argument: &'static str, count: usize) -> Result<usize> {
    match count {
        1..=THREADS_MAX => Ok(count),
        _ => Err(invalid(argument, &count.to_string())),
    }
}

fn invalid(argument: &'static str, found: &str) -> Error {
    let reason = format!("{found:?} is not a number of threads, from 1 to {THREADS_MAX}");
    Error::InvalidArgument { argument, reason }
}

/// Results that are made before they are wanted, in order.
const AHEAD_PER_THREAD: usize = 3;

/// The crew of that many threads; `None` when one thread is all there is, or
/// the system gives no more.
pub(crate) fn crew(threads: usize) -> Option<Arc<Crew>> {
    if threads < 2 {
        return None;
    }
    let process = process::id();
    let current = CREWS.load();
    let ours = current.as_ref().filter(|crews| crews.process == process);
    if let Some(crew) = ours.and_then(|crews| crews.crews.get(&threads)) {
        return Some(Arc::clone(crew));
    }
    let crew = match Crew::new(threads) {
        Ok(crew) => Arc::new(crew),
        Err(error) => {
            log::warn!("{threads} threads cannot be started, so one works: {error}");
            return None;
        }
    };
    insert(process, threads, &crew);
    Some(crew)
}

/// Does `work` on every share, on up to `workers` threads of the crew of that
/// many `threads`. The caller is among them, and does all of it if no other
/// wakes in time. Of several failures, the one of the first share is returned.
pub(crate) fn share_out<S: Send, E: Send>(
    threads: usize,
    workers: usize,
    shares: Vec<S>,
    work: impl Fn(S) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let helpers = workers.min(shares.len()).saturating_sub(1);
    // Each is taken by whoever has counted to it, so no two wait for each other.
    let shares: Vec<_> = shares.into_iter().map(|share| Mutex::new(Some(share))).collect();
    let (counted, failure) = (AtomicUsize::new(0), Mutex::new(None::<(usize, E)>));
    let drain = || {
        loop {
            let position = counted.fetch_add(1, Ordering::Relaxed);
            let Some(share) = shares.get(position) else { break };
            let taken = share.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(Err(error)) = taken.map(&work) else { continue };
            let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
            if failure.as_ref().is_none_or(|(first, _)| position < *first) {
                *failure = Some((position, error));
            }
        }
    };
    match if helpers > 0 { crew(threads) } else { None } {
        Some(crew) => crew.together(helpers, &drain),
        None => drain(),
    }
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    failure.map_or(Ok(()), |(_, error)| Err(error))
}

/// Does `work` on every item, on up to `threads` threads, and hands the results
/// to `take` on the caller's, in the order of the items. A few are worked on
/// ahead. Ends at the first failure of `take`.
pub(crate) fn in_order<I: Send, O: Send, E>(
    threads: usize,
    items: Vec<I>,
    work: impl Fn(I) -> O + Sync,
    mut take: impl FnMut(O) -> Result<(), E>,
) -> Result<(), E> {
    let Some(crew) = (if items.len() > 1 { crew(threads) } else { None }) else {
        return items.into_iter().try_for_each(|item| take(work(item)));
    };
    let work = &work;
    crew.pool().in_place_scope(|scope| {
        let mut items = items.into_iter();
        let mut under_way = VecDeque::new();
        loop {
            while under_way.len() < threads * AHEAD_PER_THREAD
                && let Some(item) = items.next()
            {
                let (sender, receiver) = mpsc::sync_channel(1);
                scope.spawn(move |_| drop(sender.send(work(item))));
                under_way.push_back(receiver);
            }
            let Some(next) = under_way.pop_front() else { return Ok(()) };
            // One that panicked has sent nothing; the scope passes that on.
            let Ok(output) = next.recv() else { return Ok(()) };
            take(output)?;
        }
    })
}

fn insert(process: u32, threads: usize, crew: &Arc<Crew>) {
    let replaced = CREWS.rcu(|current| {
        let ours = current.as_ref().filter(|crews| crews.process == process);
        let mut crews = ours.map(|crews| crews.crews.clone()).unwrap_or_default();
        crews.entry(threads).or_insert_with(|| Arc::clone(crew));
        Some(Arc::new(Crews { process, crews }))
    });
    // Dropping a parent's crew would wait for threads that are not there.
    if replaced.as_ref().is_some_and(|crews| crews.process != process) {
        mem::forget(replaced);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::{in_order, share_out};

    #[test]
    fn every_share_is_worked_on_and_the_first_failure_returned() {
        for (threads, workers) in [(1, 1), (2, 2), (5, 3)] {
            for count in [0_usize, 1, 2, 100] {
                let mut done = vec![0; count];
                let shares = done.iter_mut().enumerate().collect();
                let work = |(position, done): (usize, &mut u32)| {
                    *done += 1;
                    if position % 30 == 29 { Err(position) } else { Ok(()) }
                };
                let outcome = share_out(threads, workers, shares, work);
                assert_eq!(outcome, if count > 29 { Err(29) } else { Ok(()) });
                assert!(done.iter().all(|times| *times == 1));
            }
        }
    }

    #[test]
    fn results_are_taken_in_the_order_of_the_items() {
        for threads in [1, 2, 5] {
            for count in [0, 1, 2, 100] {
                let mut taken = Vec::new();
                let result = in_order(
                    threads,
                    (0..count).collect(),
                    |item: u32| item * item,
                    |result| {
                        taken.push(result);
                        Ok::<(), ()>(())
                    },
                );
                assert_eq!(result, Ok(()));
                assert_eq!(taken, (0..count).map(|item| item * item).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn nothing_is_taken_after_a_failure() {
        for threads in [1, 2, 5] {
            let mut taken = 0;
            let take = |item| {
                taken += 1;
                if item == 5 { Err(item) } else { Ok(()) }
            };
            assert_eq!(in_order(threads, (0..100).collect(), |item: u32| item, take), Err(5));
            assert_eq!(taken, 6);
        }
    }

    #[test]
    fn a_panic_is_passed_on() {
        for threads in [1, 2, 5] {
            let work = |item: u32| assert!(item != 7, "the seventh");
            let run = || in_order(threads, (0..100).collect(), work, Ok::<(), ()>);
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        }
    }
}
