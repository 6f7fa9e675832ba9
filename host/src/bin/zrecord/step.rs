//! `zrecord run`: a user's step over a store. A build without the sandbox says
//! which one has it.

use std::io::Write;

use anyhow::Result;

use crate::arguments::RunArguments;

#[cfg(feature = "sandbox")]
pub fn run(arguments: &RunArguments, out: &mut dyn Write) -> Result<()> {
    use zrecord_host::sandbox::step::{StepOptions, run_step};

    use crate::report::{Bar, Unit};

    let RunArguments { step, from, to, limits, .. } = arguments;
    let mut options = StepOptions::default();
    options.config = configuration(&arguments.config)?;
    options.limits = options.limits.memory(limits.memory.as_u64()).time(limits.time.into());
    options.instances = arguments.instances.map(Into::into);
    options.codec = arguments.codec.map(Into::into);
    options.format = arguments.format.map(Into::into);
    options.level = arguments.level;
    options.preset = arguments.preset.map(Into::into);
    options.min_saving = arguments.min_saving;
    let bar = Bar::new("processing", Unit::Records);
    let report = run_step(step, from, to, &options, &mut |progress| bar.show(progress))?;
    drop(bar);
    writeln!(
        out,
        "{}: {} records of {} ({} made none)",
        to.display(),
        report.outputs,
        report.inputs,
        report.dropped
    )?;
    Ok(())
}

#[cfg(not(feature = "sandbox"))]
pub fn run(_: &RunArguments, _: &mut dyn Write) -> Result<()> {
    anyhow::bail!(crate::sandbox::MISSING)
}

/// The text, or that of the file behind an `@`.
#[cfg(feature = "sandbox")]
fn configuration(text: &str) -> Result<String> {
    use std::path::Path;

    use anyhow::Context;

    match text.strip_prefix('@') {
        Some(path) => {
            let path = Path::new(path);
            std::fs::read_to_string(path).with_context(|| path.display().to_string())
        }
        None => Ok(text.to_owned()),
    }
}
