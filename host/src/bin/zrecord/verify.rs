//! `zrecord verify` and `zrecord compact`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use zrecord_host::{Fault, Mode, OpenOptions, Store};

use crate::report::{self, Bar, Unit, size};

/// A store that cannot even be opened is a fault too, when it is damaged.
pub fn run(path: &Path, out: &mut dyn Write) -> Result<ExitCode> {
    let store = match Store::open(path) {
        Ok(store) => store,
        Err(error) if error.core().is_some_and(zrecord_host::core::Error::is_corruption) => {
            writeln!(out, "{}", error.core().map_or_else(String::new, ToString::to_string))?;
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error.into()),
    };
    let bar = Bar::new("verifying", Unit::Records);
    let faults = store.verify(&mut |progress| bar.show(progress))?;
    drop(bar);
    for fault in &faults {
        writeln!(out, "{fault}")?;
    }
    if let Ok(leftovers) = store.leftovers() {
        for name in leftovers {
            report::note(&format!("{name} was left behind by a cut operation; compact removes it"));
        }
    }
    let records = store.len()?;
    store.close()?;
    if faults.is_empty() {
        writeln!(out, "{}: {records} records are intact", path.display())?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(summary(&faults))
}

fn summary(faults: &[Fault]) -> ExitCode {
    eprintln!("zrecord: {} faults", faults.len());
    ExitCode::FAILURE
}

pub fn compact(path: &Path, out: &mut dyn Write) -> Result<()> {
    // Opened for reading first: compacting must not create a store.
    Store::open(path)?.close()?;
    let store = OpenOptions::new().mode(Mode::Append).open(path)?;
    let bar = Bar::new("compacting", Unit::Bytes);
    let compaction = store.compact(&mut |progress| bar.show(progress))?;
    drop(bar);
    store.close()?;
    writeln!(
        out,
        "{}: moved {} records, gave back {}",
        path.display(),
        compaction.moved_records,
        size(compaction.reclaimed_bytes)
    )?;
    Ok(())
}
