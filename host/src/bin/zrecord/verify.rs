//! `zrecord verify` and `zrecord compact`.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};
use zrecord_host::{Fault, Format, Mode, OpenOptions, Store, Verdict};

use crate::report::{self, Bar, Unit, size};
use crate::sandbox;

pub fn run(path: &Path, as_json: bool, sandboxed: bool, out: &mut dyn Write) -> Result<ExitCode> {
    let bar = Bar::new("verifying", Unit::Records);
    let mut listed = Listed { out, as_json, faults: 0, failed: None };
    let mut progress = |progress| bar.show(progress);
    let mut report = |fault| listed.fault(&fault);
    let verdict = match sandboxed {
        true => sandbox::verify(path, &mut progress, &mut report)?,
        false => zrecord_host::verify(path, &mut progress, &mut report)?,
    };
    drop(bar);
    listed.finish(path, &verdict)?;
    Ok(if verdict.faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Faults that are printed as they are found, so that none need be kept.
struct Listed<'a> {
    out: &'a mut dyn Write,
    as_json: bool,
    faults: u64,
    failed: Option<io::Error>,
}

impl Listed<'_> {
    fn fault(&mut self, fault: &Fault) {
        if self.failed.is_none() {
            self.failed = self.print(fault).err();
        }
        self.faults += 1;
    }

    fn print(&mut self, fault: &Fault) -> io::Result<()> {
        if !self.as_json {
            return writeln!(self.out, "{fault}");
        }
        let before = if self.faults == 0 { "{\n  \"faults\": [\n    " } else { ",\n    " };
        write!(self.out, "{before}{}", fault_to_json(fault))
    }

    fn finish(self, path: &Path, verdict: &Verdict) -> Result<()> {
        let Self { out, as_json, faults, failed } = self;
        if let Some(error) = failed {
            return Err(error.into());
        }
        if as_json {
            let before = if faults == 0 { "{\n  \"faults\": [" } else { "\n  " };
            write!(out, "{before}]")?;
            for (key, value) in summary(verdict) {
                write!(out, ",\n  {key:?}: {value}")?;
            }
            writeln!(out, "\n}}")?;
            return Ok(());
        }
        for name in &verdict.leftovers {
            report::note(&format!("{name} was left behind by a cut operation; compact removes it"));
        }
        let Verdict { records, unrecovered, .. } = *verdict;
        if unrecovered > 0 {
            report::note(&format!(
                "it was not closed cleanly: {unrecovered} records behind these were never synced \
                 and are not all there"
            ));
        }
        match faults {
            0 => writeln!(out, "{}: {records} records are intact", path.display())?,
            1 => eprintln!("zrecord: 1 fault in {records} records"),
            _ => eprintln!("zrecord: {faults} faults in {records} records"),
        }
        Ok(())
    }
}

fn summary(verdict: &Verdict) -> [(&'static str, Value); 5] {
    let leftovers: Vec<String> = verdict.leftovers.iter().map(ToString::to_string).collect();
    [
        ("intact", (verdict.faults == 0).into()),
        ("format", verdict.format.map(Format::name).into()),
        ("records", verdict.records.into()),
        ("unrecovered", verdict.unrecovered.into()),
        ("leftovers", leftovers.into()),
    ]
}

/// A fault as the JSON forms of `verify` and `repair` have it.
pub fn fault_to_json(fault: &Fault) -> Value {
    json!({
        "file": fault.file.to_string(),
        "offset": fault.offset,
        "index": fault.index,
        "reason": fault.reason,
    })
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
