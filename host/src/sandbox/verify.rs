//! Checking a store inside a sandbox, a slice of records at a time, so that a
//! limit on time is one on a slice.

use std::ops::Range;
use std::path::Path;

use zrecord_core::Error as CoreError;
use zrecord_core::storage::{Access, FileName};
use zrecord_core::verify::{Fault, FaultList};
use zrecord_core::writer::Progress;

use crate::directory::FsDirectory;
use crate::error::Result;
use crate::lock::{self, Presence};
use crate::sandbox::engine::World;
use crate::sandbox::failure::{Failure, SandboxError};
use crate::sandbox::instance::Instance;
use crate::sandbox::limits::Limits;
use crate::sandbox::store::{Sandbox, Session, check_present};
use crate::sandbox::wire;
use crate::verify::{FAULTS_MAX, Verdict, fault_of_header};

/// How many records are checked by one call, unless they are large.
const SLICE_RECORDS: u64 = 1024;
/// How many stored and decoded bytes of records one call is to check at most,
/// unless a single record has more.
const SLICE_BYTES: u64 = 64 << 20;
/// How many are checked by one call where the table is damaged.
const SLICE_RECORDS_UNKNOWN: u64 = 16;

/// As [`zrecord_host::verify`](crate::verify()), inside a sandbox.
///
/// # Errors
///
/// As there; [`Error::Sandbox`](crate::Error::Sandbox).
pub fn verify(
    path: impl AsRef<Path>,
    limits: Limits,
    progress: &mut dyn FnMut(Progress),
    report: &mut dyn FnMut(Fault),
) -> Result<Verdict> {
    let path = path.as_ref();
    let mut faults = 0;
    let mut report = |fault| {
        faults += 1;
        report(fault);
    };
    let verdict = verify_directory(path, limits, progress, &mut report);
    Ok(Verdict { faults, ..verdict.map_err(Failure::at(path))? })
}

fn verify_directory(
    path: &Path,
    limits: Limits,
    progress: &mut dyn FnMut(Progress),
    report: &mut dyn FnMut(Fault),
) -> Result<Verdict, Failure> {
    // Shared, so that nothing is deleted meanwhile.
    let presence = Presence::take(path)?;
    let is_written = match lock::writer_lives(path) {
        Ok(is_written) => is_written,
        Err(error) => {
            report(Fault::from_error(error)?);
            false
        }
    };
    let salvaged = Session::salvage(path, limits, false, None).and_then(|newest| {
        let counted = newest.info.length;
        drop(newest);
        Ok((Session::salvage(path, limits, !is_written, presence)?, counted))
    });
    let (mut session, counted) = match salvaged {
        Ok(salvaged) => salvaged,
        Err(Failure::Store(error)) => {
            report(fault_of_header(&FsDirectory::new(path), error)?);
            return Ok(Verdict::default());
        }
        Err(failure) => return Err(failure),
    };
    let unrecovered = counted.saturating_sub(session.info.length);
    // What entries do not say cannot be told apart from what they refer to.
    let leftovers = match session.leftovers() {
        Ok(leftovers) => leftovers,
        Err(Failure::Store(_)) => Vec::new(),
        Err(failure) => return Err(failure),
    };
    let format = Some(wire::format(session.info.format));
    let records = session.check(progress, report)?;
    Ok(Verdict { format, records, faults: 0, unrecovered, leftovers })
}

impl Sandbox {
    /// Reads everything and lists what is wrong. Progress counts records.
    ///
    /// # Errors
    ///
    /// IO errors of the record table; faults are not errors.
    pub fn verify(&self, progress: &mut dyn FnMut(Progress)) -> Result<Vec<Fault>> {
        self.with(|session| {
            session.follow()?;
            let mut faults = FaultList::new(FAULTS_MAX);
            session.check(progress, &mut |fault| faults.push(fault))?;
            Ok(faults.into_faults())
        })
    }

    /// Files that a cut operation left behind. They do no harm; the next
    /// compaction removes them.
    ///
    /// # Errors
    ///
    /// IO errors, entries that no writer writes.
    pub fn leftovers(&self) -> Result<Vec<FileName>> {
        self.with(|session| {
            session.follow()?;
            session.leftovers()
        })
    }
}

impl Session {
    /// Opens what is left of a damaged store.
    fn salvage(
        path: &Path,
        limits: Limits,
        recovers: bool,
        presence: Option<Presence>,
    ) -> Result<Self, Failure> {
        check_present(path)?;
        let mut instance = Instance::new(World::Reader, limits)?;
        let directory = instance.lend(FsDirectory::new(path), Access::Read)?;
        let store =
            instance.read(|wasm, guest| guest.store().call_salvage(wasm, directory, recovers))?;
        Self::over(instance, store, presence, None)
    }

    pub(super) fn leftovers(&mut self) -> Result<Vec<FileName>, Failure> {
        let names = self.call(|guest, wasm, store| guest.call_leftovers(wasm, store))?;
        let parse = |name: &String| {
            FileName::parse(name).ok_or_else(|| {
                SandboxError::answer(format!("it named the file {name:?}, which is none")).into()
            })
        };
        names.iter().map(parse).collect()
    }

    /// Reports every fault; returns how many records were checked.
    fn check(
        &mut self,
        progress: &mut dyn FnMut(Progress),
        report: &mut dyn FnMut(Fault),
    ) -> Result<u64, Failure> {
        for fault in self.call(|guest, wasm, store| guest.call_verify_structure(wasm, store))? {
            report(wire::fault(fault)?);
        }
        let total = self.call(|guest, wasm, store| guest.call_entries_present(wasm, store))?;
        let mut done = 0;
        progress(Progress { done, total });
        while done < total {
            let count = self.slice(done..total)?;
            let faults =
                self.call(|guest, wasm, store| guest.call_verify(wasm, store, done, count))?;
            for fault in faults {
                report(wire::fault(fault)?);
            }
            done += count;
            progress(Progress { done, total });
        }
        Ok(total)
    }

    /// How many records one call checks.
    fn slice(&mut self, rest: Range<u64>) -> Result<u64, Failure> {
        let all = rest.end - rest.start;
        let mut count = all.min(SLICE_RECORDS);
        while count > 1 {
            match self.summarise(rest.start..rest.start + count) {
                Ok(sum) if sum.stored_bytes.saturating_add(sum.plain_bytes) > SLICE_BYTES => {
                    count /= 2;
                }
                Ok(_) => break,
                // An entry says nonsense, which checking it will find.
                Err(Failure::Store(error)) if !matches!(error, CoreError::Io { .. }) => {
                    return Ok(all.min(SLICE_RECORDS_UNKNOWN));
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(count)
    }
}
