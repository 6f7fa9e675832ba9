//! Threads that fill batches together, with a hand-off that costs next to
//! nothing: they spin, as no product should, since here the work is the limit.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
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

/// How far ahead records are approached.
const AHEAD: usize = 6;
/// After so many turns of waiting a thread lets others have its core: on a busy
/// machine one of them may be what it waits for.
const SPINS_MAX: usize = 1 << 12;

/// Which batch is under way and how many of its parts are claimed, in one
/// word, so that a thread which comes late claims nothing of the next batch.
struct Board {
    /// The batch's number, from 1, times 2^32, and the next part.
    state: AtomicU64,
    /// Parts that are done, of all batches together.
    done: AtomicU64,
    /// More threads than cores wait here instead of spinning.
    bell: Option<(Mutex<()>, Condvar)>,
}

impl Board {
    /// A batch number that is none.
    const CLOSED: u64 = u32::MAX as u64;

    fn new(threads: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let bell = (threads > cores).then(|| (Mutex::new(()), Condvar::new()));
        Self { state: AtomicU64::new(0), done: AtomicU64::new(0), bell }
    }

    /// Begins batch `number`, or closes the board.
    fn begin(&self, number: u64) {
        let guard = self.bell.as_ref().map(|(lock, bell)| (lock.lock(), bell));
        self.state.store(number << 32, Ordering::Release);
        if let Some((_held, bell)) = guard {
            bell.notify_all();
        }
    }

    /// A part of the batch that is under way, of `parts` each has.
    fn claim(&self, parts: impl Fn(usize) -> u64) -> Claim {
        let state = self.state.load(Ordering::Acquire);
        let (number, next) = (state >> 32, state & u64::from(u32::MAX));
        if number == Self::CLOSED {
            return Claim::Closed;
        }
        let Some(batch) = usize::try_from(number).ok().and_then(|number| number.checked_sub(1))
        else {
            return Claim::Nothing(state);
        };
        if next >= parts(batch) {
            return Claim::Nothing(state);
        }
        let claimed =
            self.state.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed);
        match (claimed, usize::try_from(next)) {
            (Ok(_), Ok(part)) => Claim::Part { batch, part },
            _ => Claim::Again,
        }
    }

    /// Waits a little, at most until the state is another than `seen`.
    fn wait(&self, seen: u64, spins: &mut usize) {
        match &self.bell {
            None => relax(spins),
            Some((lock, bell)) => {
                let mut held = lock.lock().unwrap_or_else(PoisonError::into_inner);
                while self.state.load(Ordering::Acquire) == seen {
                    held = bell.wait(held).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

enum Claim {
    Part {
        batch: usize,
        part: usize,
    },
    /// Another thread was faster.
    Again,
    /// All is claimed, in the state that was seen.
    Nothing(u64),
    Closed,
}

fn relax(spins: &mut usize) {
    *spins += 1;
    if *spins < SPINS_MAX {
        hint::spin_loop();
    } else {
        thread::yield_now();
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
    let failure = Mutex::new(None);
    let board = Board::new(threads);
    let count = |batch: usize| batches[batch].len().div_ceil(GRAIN) as u64;
    let work = |context: &mut S::Context, batch: usize, part: usize| {
        let mut dst = parts[part].lock().unwrap_or_else(PoisonError::into_inner);
        let filled = fill(source, context, &batches[batch][part * GRAIN..], record_bytes, &mut dst);
        if let Err(error) = filled {
            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        board.done.fetch_add(1, Ordering::Release);
    };
    let mut times = Vec::with_capacity(batches.len());
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| {
                let (mut context, mut spins) = (S::Context::default(), 0);
                loop {
                    match board.claim(count) {
                        Claim::Part { batch, part } => {
                            work(&mut context, batch, part);
                            spins = 0;
                        }
                        Claim::Again => {}
                        Claim::Nothing(seen) => board.wait(seen, &mut spins),
                        Claim::Closed => break,
                    }
                }
            });
        }
        let (mut context, mut wanted) = (S::Context::default(), 0);
        for number in 0..batches.len() {
            wanted += count(number);
            let started = Instant::now();
            board.begin(number as u64 + 1);
            loop {
                match board.claim(count) {
                    Claim::Part { batch, part } => work(&mut context, batch, part),
                    Claim::Again => {}
                    Claim::Nothing(_) | Claim::Closed => break,
                }
            }
            let mut spins = 0;
            while board.done.load(Ordering::Acquire) < wanted {
                relax(&mut spins);
            }
            times.push(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        board.begin(Board::CLOSED);
    });
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    failure.map_or(Ok(times), Err)
}

/// One part of a batch: the first of `rest`, as far as the part's memory goes.
fn fill<S: Source>(
    source: &S,
    context: &mut S::Context,
    rest: &[u64],
    record_bytes: usize,
    dst: &mut [u8],
) -> Result<(), AnyError> {
    for (position, (&index, dst)) in rest.iter().zip(dst.chunks_mut(record_bytes)).enumerate() {
        if let Some(&ahead) = rest.get(position + AHEAD) {
            source.approach(ahead);
        }
        source.fetch(context, index, dst)?;
    }
    Ok(())
}
