//! Reading everything and listing what is wrong, on all threads.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use zrecord_core::Result;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::store::Store;
use zrecord_core::verify::Fault;
use zrecord_core::writer::Progress;

use crate::directory::FsDirectory;
use crate::handle::Handle;
use crate::{lock, pool};

/// How many records a thread checks at a time.
const RANGE_RECORDS: u64 = 256;
/// How many ranges are handed out between two reports of progress.
const RANGES_PER_REPORT: usize = 64;

/// Stores of the sequential kind, one for each thread that is at work.
struct Checkers<'a> {
    directory: &'a FsDirectory,
    recover: bool,
    idle: Mutex<Vec<Store<FsDirectory, Libzstd>>>,
}

impl Checkers<'_> {
    fn check(&self, range: Range<u64>) -> Result<Vec<Fault>> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut store = match taken {
            Some(store) => store,
            None => Store::open(self.directory.clone(), self.recover)?,
        };
        let faults = store.verify_records(range);
        idle().push(store);
        faults
    }
}

impl Handle {
    /// See [`Store::verify`](crate::Store::verify).
    pub(crate) fn verify(&self, progress: &mut dyn FnMut(Progress)) -> Result<Vec<Fault>> {
        // Shared, so that nothing is deleted meanwhile.
        let _reading = self.share()?;
        let writer_lives = self.is_writer.load(Ordering::Acquire)
            || (self.options.lock && lock::writer_lives(self.path())?);
        let recover = !writer_lives;
        let mut store = Store::<_, Libzstd>::open(self.directory.clone(), recover)?;
        let mut faults = store.reader().verify_structure()?;
        let total = store.len();
        let idle = Mutex::new(vec![store]);
        let checkers = Checkers { directory: &self.directory, recover, idle };
        let ranges: Vec<Range<u64>> = (0..total)
            .step_by(usize::try_from(RANGE_RECORDS).unwrap_or(usize::MAX))
            .map(|first| first..total.min(first + RANGE_RECORDS))
            .collect();
        let pool = pool::pool(self.threads);
        progress(Progress { done: 0, total });
        for group in ranges.chunks(RANGES_PER_REPORT) {
            let check = |range: &Range<u64>| checkers.check(range.clone());
            let found: Result<Vec<Vec<Fault>>> = match &pool {
                Some(pool) => pool.install(|| group.par_iter().map(check).collect()),
                None => group.iter().map(check).collect(),
            };
            faults.extend(found?.into_iter().flatten());
            progress(Progress { done: group.last().map_or(0, |range| range.end), total });
        }
        Ok(faults)
    }
}
