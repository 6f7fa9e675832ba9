//! `zrecord repair`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};
use zrecord_host::repair::{Loss, RepairReport, SchemaFate};

use crate::report::{Bar, Unit};
use crate::verify::fault_to_json;

pub fn run(
    source: &Path,
    destination: &Path,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<ExitCode> {
    let bar = Bar::new("repairing", Unit::Records);
    let report = zrecord_host::repair(source, destination, &mut |progress| bar.show(progress))?;
    drop(bar);
    if as_json {
        writeln!(out, "{:#}", to_json(&report))?;
    } else {
        print(destination, &report, out)?;
    }
    Ok(if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn to_json(report: &RepairReport) -> Value {
    let losses = report.lost.iter().map(|loss| {
        json!({
            "first": loss.records.start,
            "last": loss.records.end - 1,
            "file": loss.file.to_string(),
            "reason": loss.reason,
        })
    });
    json!({
        "format": report.format.name(),
        "counted": report.counted,
        "saved": report.saved,
        "lost": losses.collect::<Value>(),
        "schema": match report.schema {
            SchemaFate::None => "none",
            SchemaFate::Kept => "kept",
            SchemaFate::Lost => "lost",
        },
        "dictionaries": { "kept": report.dictionaries, "lost": report.lost_dictionaries },
        "faults": report.faults.iter().map(fault_to_json).collect::<Value>(),
    })
}

fn print(destination: &Path, report: &RepairReport, out: &mut dyn Write) -> Result<()> {
    for fault in &report.faults {
        writeln!(out, "{fault}")?;
    }
    if report.schema == SchemaFate::Lost {
        writeln!(out, "lost the schema: the new store is untyped")?;
    }
    for number in &report.lost_dictionaries {
        writeln!(out, "lost dictionary {number}, and every record that needs it")?;
    }
    for Loss { records, file, reason } in &report.lost {
        let last = records.end - 1;
        match records.end - records.start {
            1 => writeln!(out, "lost record {last}: {file}: {reason}")?,
            _ => writeln!(out, "lost records {} to {last}: {file}: {reason}", records.start)?,
        }
    }
    let RepairReport { saved, counted, .. } = report;
    writeln!(out, "{}: saved {saved} of {counted} records", destination.display())?;
    Ok(())
}
