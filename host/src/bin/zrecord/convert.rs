//! `zrecord convert`.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use zrecord_host::{Format, Store};

use crate::report::{Bar, Unit};
use crate::sandbox;

pub fn run(
    source: &Path,
    destination: &Path,
    format: Format,
    sandboxed: bool,
    out: &mut dyn Write,
) -> Result<()> {
    let records = if sandboxed {
        let bar = Bar::new("converting", Unit::Records);
        sandbox::convert(source, destination, format, &mut |progress| bar.show(progress))?
    } else {
        let bar = Bar::new("converting", Unit::Bytes);
        zrecord_host::convert(source, destination, format, &mut |progress| bar.show(progress))?;
        Store::open(destination)?.len()?
    };
    writeln!(out, "{}: {records} records, {}", destination.display(), format.name())?;
    Ok(())
}
