//! `--sandbox`: the same answers, from inside the WebAssembly sandbox. A build
//! without the feature says which one has it.

#[cfg(feature = "sandbox")]
pub use with::{convert, inspect, verify};
#[cfg(not(feature = "sandbox"))]
pub use without::{convert, inspect, verify};

/// What a build without the feature says.
#[cfg(not(feature = "sandbox"))]
pub const MISSING: &str = "this build has no sandbox; one with it is made by `cargo xtask component` \
                           and `cargo build --release --features sandbox`";

#[cfg(feature = "sandbox")]
mod with {
    use std::path::Path;

    use anyhow::Result;
    use zrecord_host::core::storage::FileName;
    use zrecord_host::sandbox::{self, Limits, Sandbox};
    use zrecord_host::{Fault, Format, Inspection, Progress, Verdict};

    /// What a store is, and what a cut operation left behind in it.
    pub fn inspect(path: &Path) -> Result<(Inspection, Vec<FileName>)> {
        let store = Sandbox::open(path, Limits::new())?;
        let inspected = (store.inspect()?, store.leftovers()?);
        store.close()?;
        Ok(inspected)
    }

    pub fn verify(
        path: &Path,
        progress: &mut dyn FnMut(Progress),
        report: &mut dyn FnMut(Fault),
    ) -> Result<Verdict> {
        Ok(sandbox::verify(path, Limits::new(), progress, report)?)
    }

    /// Converts, and counts the records.
    pub fn convert(
        source: &Path,
        destination: &Path,
        format: Format,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64> {
        sandbox::convert(source, destination, format, Limits::new(), progress)?;
        Ok(Sandbox::open(destination, Limits::new())?.len()?)
    }
}

#[cfg(not(feature = "sandbox"))]
mod without {
    use std::path::Path;

    use anyhow::{Result, bail};
    use zrecord_host::core::storage::FileName;
    use zrecord_host::{Fault, Format, Inspection, Progress, Verdict};

    use super::MISSING;

    pub fn inspect(_: &Path) -> Result<(Inspection, Vec<FileName>)> {
        bail!(MISSING)
    }

    pub fn verify(
        _: &Path,
        _: &mut dyn FnMut(Progress),
        _: &mut dyn FnMut(Fault),
    ) -> Result<Verdict> {
        bail!(MISSING)
    }

    pub fn convert(_: &Path, _: &Path, _: Format, _: &mut dyn FnMut(Progress)) -> Result<u64> {
        bail!(MISSING)
    }
}
