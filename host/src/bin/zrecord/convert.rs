//! `zrecord convert`.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use zrecord_host::{Format, Store};

use crate::report::{Bar, Unit};

pub fn run(source: &Path, destination: &Path, format: Format, out: &mut dyn Write) -> Result<()> {
    let bar = Bar::new("converting", Unit::Bytes);
    zrecord_host::convert(source, destination, format, &mut |progress| bar.show(progress))?;
    drop(bar);
    let records = Store::open(destination)?.len()?;
    writeln!(out, "{}: {records} records, {}", destination.display(), format.name())?;
    Ok(())
}
