//! Reading everything and listing what is wrong, on all threads; also in a
//! store that is too damaged to be opened.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::Ordering;

use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::format::Format;
use zrecord_core::storage::{Access, Directory, FileName};
use zrecord_core::store::Store;
use zrecord_core::verify::{Fault, FaultList};
use zrecord_core::writer::Progress;
use zrecord_core::{Error as CoreError, Result as CoreResult};

use crate::directory::FsDirectory;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::lock::{self, Presence};
use crate::pool;
use crate::salvage::{Checkers, Salvaged, cut};

/// How many records a thread checks at a time.
const RANGE_RECORDS: u64 = 256;
/// How many ranges are handed out between two reports of progress.
const RANGES_PER_REPORT: u64 = 64;
/// A list of faults that is kept in memory has at most this many.
pub(crate) const FAULTS_MAX: usize = 1 << 20;

/// What [`verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// The store's format; `None` when nothing tells.
    pub format: Option<Format>,
    /// How many records were checked.
    pub records: u64,
    /// How many faults were reported.
    pub faults: u64,
    /// How many records the newest commit counts beyond those: the store was
    /// not closed cleanly, and they were never synced and are not there.
    pub unrecovered: u64,
    /// Files that a cut operation left behind; they do no harm.
    pub leftovers: Vec<FileName>,
}

/// Reads everything at `path` and reports each fault, also when the store is
/// too damaged to be opened. Progress counts records.
///
/// # Errors
///
/// `Io` with `NotFound` when there is no store, `Busy` while another handle
/// deletes or compacts; faults are not errors.
pub fn verify(
    path: impl AsRef<Path>,
    progress: &mut dyn FnMut(Progress),
    report: &mut dyn FnMut(Fault),
) -> Result<Verdict> {
    let path = path.as_ref();
    let mut faults = 0;
    let mut report = |fault| {
        faults += 1;
        report(fault);
    };
    let verdict = verify_directory(path, progress, &mut report).map_err(Error::store(path))?;
    Ok(Verdict { faults, ..verdict })
}

fn verify_directory(
    path: &Path,
    progress: &mut dyn FnMut(Progress),
    report: &mut dyn FnMut(Fault),
) -> CoreResult<Verdict> {
    let mut verdict = Verdict::default();
    // Shared, so that nothing is deleted meanwhile.
    let presence = Presence::take(path)?;
    let mut salvaged = match Salvaged::open(path, presence, report) {
        Ok(salvaged) => salvaged,
        Err(error) => {
            report(fault_of_header(&FsDirectory::new(path), error)?);
            return Ok(verdict);
        }
    };
    verdict.format = Some(salvaged.store.format());
    verdict.unrecovered = salvaged.counted.saturating_sub(salvaged.store.len());
    // What entries do not say cannot be told apart from what they refer to.
    verdict.leftovers = salvaged.store.reader().leftovers().unwrap_or_default();
    verdict.records = check(salvaged.store, pool::thread_count(None)?, progress, report)?;
    Ok(verdict)
}

/// What keeps a store from being looked at any further, as a fault; an error
/// where there is no store.
pub(crate) fn fault_of_header(directory: &FsDirectory, error: CoreError) -> CoreResult<Fault> {
    let others = [FileName::Chunk(0), FileName::Schema, FileName::Dictionary(0), FileName::MetaNew];
    let fault = |reason| Fault { file: FileName::Meta, offset: None, index: None, reason };
    match error {
        CoreError::Io { file: FileName::Meta, source } if source.kind() == ErrorKind::NotFound => {
            if others.iter().any(|name| directory.open(*name, Access::Read).is_ok()) {
                return Ok(fault("it is missing, and with it the place of every record".into()));
            }
            Err(CoreError::Io { file: FileName::Meta, source })
        }
        CoreError::NotAStore { reason } => Ok(fault(format!("it is no header: {reason}"))),
        error => Fault::from_error(error),
    }
}

/// Reports every fault of a store as it is read; returns how many records
/// were checked.
fn check(
    mut store: Store<FsDirectory, Libzstd>,
    threads: usize,
    progress: &mut dyn FnMut(Progress),
    report: &mut dyn FnMut(Fault),
) -> CoreResult<u64> {
    store.reader().report_structure(report)?;
    let total = store.reader().entries_present()?;
    let checkers = Checkers::new(store.reader().duplicate()?);
    let mut done = 0;
    progress(Progress { done, total });
    while done < total {
        let end = total.min(done + RANGE_RECORDS * RANGES_PER_REPORT);
        let ranges = cut(done..end, RANGE_RECORDS);
        let found = checkers.each(threads, &ranges, Store::verify_records)?;
        found.into_iter().flatten().for_each(&mut *report);
        done = end;
        progress(Progress { done, total });
    }
    Ok(total)
}

impl Handle {
    /// See [`Store::verify`](crate::Store::verify).
    pub(crate) fn verify(&self, progress: &mut dyn FnMut(Progress)) -> CoreResult<Vec<Fault>> {
        // Shared, so that nothing is deleted meanwhile.
        let _reading = self.share()?;
        let writer_lives = self.is_writer.load(Ordering::Acquire)
            || (self.options.lock && lock::writer_lives(self.path())?);
        let store = Store::salvage(self.directory.clone(), !writer_lives)?;
        let mut faults = FaultList::new(FAULTS_MAX);
        check(store, self.threads, progress, &mut |fault| faults.push(fault))?;
        Ok(faults.into_faults())
    }
}
