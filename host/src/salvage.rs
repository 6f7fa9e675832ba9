//! A damaged store opened for reading what is left of it, on all threads.

use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use zrecord_core::Result;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::reader::Reader;
use zrecord_core::store::Store;
use zrecord_core::verify::Fault;

use crate::directory::FsDirectory;
use crate::lock::{self, Presence};
use crate::pool;

/// A store opened by whatever can be believed of it.
pub(crate) struct Salvaged {
    pub(crate) store: Store<FsDirectory, Libzstd>,
    /// How many records its newest commit counts.
    pub(crate) counted: u64,
    _presence: Option<Presence>,
}

impl Salvaged {
    /// Opens it; `report` hears of a lock file that is none.
    pub(crate) fn open(
        path: &Path,
        presence: Option<Presence>,
        report: &mut dyn FnMut(Fault),
    ) -> Result<Self> {
        let is_written = match lock::writer_lives(path) {
            Ok(is_written) => is_written,
            Err(error) => {
                report(Fault::from_error(error)?);
                false
            }
        };
        let directory = FsDirectory::new(path);
        let counted = Reader::salvage(directory.clone())?.commit().length;
        let store = Store::salvage(directory, !is_written)?;
        Ok(Self { store, counted, _presence: presence })
    }
}

/// Stores of the sequential kind, one for each thread that is at work.
pub(crate) struct Checkers {
    reader: Reader<FsDirectory>,
    idle: Mutex<Vec<Store<FsDirectory, Libzstd>>>,
}

impl Checkers {
    /// Those of the state that `reader` has come to.
    pub(crate) fn new(reader: Reader<FsDirectory>) -> Self {
        Self { reader, idle: Mutex::default() }
    }

    /// Runs `check` with a store that no other thread has at the time.
    pub(crate) fn with<T>(
        &self,
        check: impl FnOnce(&mut Store<FsDirectory, Libzstd>) -> Result<T>,
    ) -> Result<T> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut store = match taken {
            Some(store) => store,
            None => Store::of_reader(self.reader.duplicate()?),
        };
        let checked = check(&mut store);
        idle().push(store);
        checked
    }

    /// Runs `check` on every range, on all threads; results are in order.
    pub(crate) fn each<T: Send>(
        &self,
        threads: usize,
        ranges: &[Range<u64>],
        check: impl Fn(&mut Store<FsDirectory, Libzstd>, Range<u64>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let check = |range: &Range<u64>| self.with(|store| check(store, range.clone()));
        // One range wakes no other thread.
        let crew = if ranges.len() < 2 { None } else { pool::crew(threads) };
        match crew {
            Some(crew) => crew.pool().install(|| ranges.par_iter().map(check).collect()),
            None => ranges.iter().map(check).collect(),
        }
    }
}

/// Cuts a range into parts of `step`, of which the last may be shorter.
pub(crate) fn cut(range: Range<u64>, step: u64) -> Vec<Range<u64>> {
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    let parts = range.clone().step_by(step);
    parts.map(|first| first..range.end.min(first + step as u64)).collect()
}
