//! Threads that fill batches together, with a hand-off that costs next to
//! nothing: they spin, as no product should, since here the work is the limit.

use std::hint;
use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::AnyError;

/// Records that a thread claims at once.
const GRAIN: usize = 16;

/// Where records come from.
pub trait Source: Sync {
    /// What a thread keeps from record to record.
    type Context: Default;

    /// Brings the first bytes of a record that is wanted soon into the cache.
    fn approach(&self, _index: u64) {}

    /// Fills `dst` with one record.
    fn fetch(
        &self,
        context: &mut Self::Context,
        index: u64,
        dst: &mut [u8],
    ) -> Result<(), AnyError>;
}

/// After so many turns of waiting a thread lets others have its core: on a busy
/// machine it may be the one that the other thread needs.
const SPINS_MAX: usize = 1 << 16;

/// How far ahead records are approached.
const AHEAD: usize = 6;

/// How the batches begin and end. More threads than cores wait at barriers.
enum Gate {
    Spinning { begun: AtomicUsize, ended: AtomicUsize, helpers: usize },
    Parking(Barrier),
}

impl Gate {
    fn new(threads: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        if threads > cores {
            return Self::Parking(Barrier::new(threads));
        }
        let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self::Spinning { begun, ended, helpers: threads - 1 }
    }

    /// Lets the helpers into batch `number`, counted from 1.
    fn begin(&self, number: usize) {
        match self {
            Self::Spinning { begun, .. } => begun.store(number, Ordering::Release),
            Self::Parking(barrier) => drop(barrier.wait()),
        }
    }

    fn wait_for_begin(&self, number: usize) {
        match self {
            Self::Spinning { begun, .. } => spin_until(begun, number),
            Self::Parking(barrier) => drop(barrier.wait()),
        }
    }

    fn end(&self) {
        match self {
            Self::Spinning { ended, .. } => drop(ended.fetch_add(1, Ordering::AcqRel)),
            Self::Parking(barrier) => drop(barrier.wait()),
        }
    }

    /// Waits until every helper has ended `number` batches.
    fn wait_for_end(&self, number: usize) {
        match self {
            Self::Spinning { ended, helpers, .. } => spin_until(ended, number * helpers),
            Self::Parking(barrier) => drop(barrier.wait()),
        }
    }
}

fn spin_until(counter: &AtomicUsize, wanted: usize) {
    let mut spins = 0;
    while counter.load(Ordering::Acquire) < wanted {
        spins += 1;
        if spins < SPINS_MAX {
            hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
}

/// Fills `dst` with each batch in turn; returns the nanoseconds that each took.
pub fn time<S: Source>(
    source: &S,
    batches: &[Vec<u64>],
    record_bytes: usize,
    threads: usize,
    dst: &mut [u8],
) -> Result<Vec<u64>, AnyError> {
    if batches.iter().any(|batch| batch.len() * record_bytes > dst.len()) {
        return Err("a batch is larger than was said when it was opened".into());
    }
    let parts: Vec<_> = dst.chunks_mut(GRAIN * record_bytes).map(Mutex::new).collect();
    let claimed = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let gate = Gate::new(threads);
    let work = |context: &mut S::Context, batch: &[u64]| {
        let next = || claimed.fetch_add(1, Ordering::Relaxed);
        for part in iter::repeat_with(next).take_while(|part| part * GRAIN < batch.len()) {
            let mut dst = parts[part].lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = fill(source, context, batch, part * GRAIN, record_bytes, &mut dst) {
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    let mut times = Vec::with_capacity(batches.len());
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| {
                let mut context = S::Context::default();
                for (number, batch) in (1..).zip(batches) {
                    gate.wait_for_begin(number);
                    work(&mut context, batch);
                    gate.end();
                }
            });
        }
        let mut context = S::Context::default();
        for (number, batch) in (1..).zip(batches) {
            claimed.store(0, Ordering::Relaxed);
            let started = Instant::now();
            gate.begin(number);
            work(&mut context, batch);
            gate.wait_for_end(number);
            times.push(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    });
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    failure.map_or(Ok(times), Err)
}

/// One part of a batch: the records from position `first` on, as far as the
/// part's memory goes.
fn fill<S: Source>(
    source: &S,
    context: &mut S::Context,
    batch: &[u64],
    first: usize,
    record_bytes: usize,
    dst: &mut [u8],
) -> Result<(), AnyError> {
    let part = &batch[first..];
    for (position, (&index, dst)) in part.iter().zip(dst.chunks_mut(record_bytes)).enumerate() {
        if let Some(&ahead) = part.get(position + AHEAD) {
            source.approach(ahead);
        }
        source.fetch(context, index, dst)?;
    }
    Ok(())
}
