//! The threads of this process: one pool that every store shares.

use std::collections::BTreeMap;
use std::env;
use std::mem;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use arc_swap::ArcSwapOption;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The environment variable that says how many threads work on one call.
pub const THREADS_VARIABLE: &str = "ZRECORD_THREADS";

/// Pools by their number of threads, and the process that made them: a forked
/// child has the memory of its parent's pools, but not their threads.
struct Pools {
    process: u32,
    pools: BTreeMap<usize, Arc<ThreadPool>>,
}

static POOLS: ArcSwapOption<Pools> = ArcSwapOption::const_empty();

/// How many threads work on one call: what was asked for, else the
/// environment variable, else what affinity and quota allow.
pub fn thread_count(asked: Option<usize>) -> usize {
    let from_environment =
        || env::var(THREADS_VARIABLE).ok().and_then(|value| value.trim().parse::<usize>().ok());
    asked
        .or_else(from_environment)
        .filter(|threads| *threads > 0)
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

/// The pool of that many threads; `None` when one thread is all there is, or
/// the system gives no more.
pub(crate) fn pool(threads: usize) -> Option<Arc<ThreadPool>> {
    if threads < 2 {
        return None;
    }
    let process = process::id();
    let current = POOLS.load();
    let ours = current.as_ref().filter(|pools| pools.process == process);
    if let Some(pool) = ours.and_then(|pools| pools.pools.get(&threads)) {
        return Some(Arc::clone(pool));
    }
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|number| format!("zrecord-{number}"))
        .build();
    let pool = match pool {
        Ok(pool) => Arc::new(pool),
        Err(error) => {
            log::warn!("a pool of {threads} threads cannot be made, so one works: {error}");
            return None;
        }
    };
    insert(process, threads, &pool);
    Some(pool)
}

/// Does `work` on every share, on up to `threads` threads with the caller among
/// them, who does all of it if no other wakes in time. Of several failures,
/// the one of the first share is returned.
pub(crate) fn share_out<S: Send, E: Send>(
    threads: usize,
    shares: Vec<S>,
    work: impl Fn(S) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let helpers = threads.min(shares.len()).saturating_sub(1);
    let shares = Mutex::new(shares.into_iter().enumerate());
    let failure: Mutex<Option<(usize, E)>> = Mutex::new(None);
    let drain = || {
        let next = || shares.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some((position, share)) = next() {
            let Err(error) = work(share) else { continue };
            let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
            if failure.as_ref().is_none_or(|(first, _)| position < *first) {
                *failure = Some((position, error));
            }
        }
    };
    match if helpers > 0 { pool(threads) } else { None } {
        Some(pool) => pool.in_place_scope(|scope| {
            for _ in 0..helpers {
                scope.spawn(|_| drain());
            }
            drain();
        }),
        None => drain(),
    }
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    failure.map_or(Ok(()), |(_, error)| Err(error))
}

fn insert(process: u32, threads: usize, pool: &Arc<ThreadPool>) {
    let replaced = POOLS.rcu(|current| {
        let ours = current.as_ref().filter(|pools| pools.process == process);
        let mut pools = ours.map(|pools| pools.pools.clone()).unwrap_or_default();
        pools.entry(threads).or_insert_with(|| Arc::clone(pool));
        Some(Arc::new(Pools { process, pools }))
    });
    // Dropping a parent's pool would wait for threads that are not there.
    if replaced.as_ref().is_some_and(|pools| pools.process != process) {
        mem::forget(replaced);
    }
}
