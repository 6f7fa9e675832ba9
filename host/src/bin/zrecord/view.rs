//! `zrecord view`: a store in the browser. A build without the page says which
//! one has it.

use std::io::Write;
use std::path::Path;

use anyhow::Result;

#[cfg(feature = "view")]
pub fn run(
    path: &Path,
    port: u16,
    record: u64,
    in_browser: bool,
    out: &mut dyn Write,
) -> Result<()> {
    use zrecord_host::{Inspector, InspectorOptions};

    use crate::report;

    let mut options = InspectorOptions::default();
    options.port = port;
    options.record = record;
    let inspector = Inspector::start(path, &options)?;
    writeln!(out, "{}", inspector.invitation())?;
    out.flush()?;
    if in_browser && let Err(error) = inspector.open_browser() {
        log::debug!("no browser: {error}");
        report::note("no browser could be started; open the address in one");
    }
    loop {
        // Until Ctrl-C ends the process: there is nothing to be put in order.
        std::thread::park();
    }
}

#[cfg(not(feature = "view"))]
pub fn run(_: &Path, _: u16, _: u64, _: bool, _: &mut dyn Write) -> Result<()> {
    anyhow::bail!(
        "this build cannot show stores in a browser; one that can is made by `cargo xtask web` \
         and `cargo build --release --features view`"
    )
}
