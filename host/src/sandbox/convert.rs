//! Rewriting a store in the other format inside a sandbox. The component fills
//! a directory beside the destination; putting it into its place is the host's.

use std::path::Path;

use wasmtime::component::ResourceAny;
use zrecord_core::Error as CoreError;
use zrecord_core::format::Format;
use zrecord_core::storage::Access;
use zrecord_core::writer::Progress;

use crate::directory::FsDirectory;
use crate::error::{Error, Result};
use crate::lock::{self, Presence};
use crate::sandbox::engine::World;
use crate::sandbox::failure::{Failure, SandboxError};
use crate::sandbox::instance::Instance;
use crate::sandbox::limits::Limits;
use crate::sandbox::store::check_present;
use crate::sandbox::wire;
use crate::sandbox::writing::new_id;
use crate::successor::Successor;

/// About this many stored bytes are converted by one call.
const STEP_BYTES: u64 = 16 << 20;

/// As [`zrecord_host::convert`](crate::convert()), inside a sandbox. Progress
/// counts records.
///
/// # Errors
///
/// As there; [`Error::Sandbox`]. Nothing is left behind then.
pub fn convert(
    source: impl AsRef<Path>,
    destination: impl AsRef<Path>,
    format: Format,
    limits: Limits,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    let (source, destination) = (source.as_ref(), destination.as_ref());
    if destination.symlink_metadata().is_ok() {
        return Err(Error::store(destination)(CoreError::AlreadyExists));
    }
    // Held for as long as it takes, so that nothing is deleted meanwhile.
    let presence = Presence::take(source).map_err(Error::store(source))?;
    let mut instance = Instance::new(World::RecordStore, limits).map_err(Failure::at(source))?;
    let opened = open(&mut instance, source).map_err(Failure::at(source))?;
    let successor = Successor::begin(destination, false)?;
    let converted = run(&mut instance, opened, successor.path(), format, progress);
    // Its files are closed before their directory is renamed or removed.
    drop(instance);
    converted.map_err(|failure| match failure {
        // The two stores are told apart by what went wrong.
        Failure::Store(error @ (CoreError::AlreadyExists | CoreError::Full { .. })) => {
            Error::store(destination)(error)
        }
        failure => Failure::at(source)(failure),
    })?;
    successor.publish()?;
    if let Some(presence) = presence {
        presence.release();
    }
    Ok(())
}

/// Opens the source, which cannot be changed.
fn open(instance: &mut Instance, source: &Path) -> Result<ResourceAny, Failure> {
    check_present(source)?;
    let recovers = !lock::writer_lives(source)?;
    let directory = instance.lend(FsDirectory::new(source), Access::Read)?;
    instance.read(|wasm, guest| guest.store().call_open(wasm, directory, recovers))
}

fn run(
    instance: &mut Instance,
    source: ResourceAny,
    path: &Path,
    format: Format,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Failure> {
    let id = new_id(format)?;
    let destination = instance.lend(FsDirectory::new(path), Access::Write)?;
    let format = wire::format_to_wire(format);
    let conversion = instance.edit(|wasm, guest| {
        guest.conversion().call_begin(wasm, source, destination, format, &id)
    })?;
    let mut before = None;
    loop {
        let after = instance
            .edit(|wasm, guest| guest.conversion().call_step(wasm, conversion, STEP_BYTES))?;
        progress(Progress { done: after.done, total: after.total });
        if after.done >= after.total {
            return Ok(());
        }
        // A component that never ends would be stopped by no limit.
        if before.replace(after.done).is_some_and(|before| after.done <= before) {
            return Err(SandboxError::answer("a conversion does not go on").into());
        }
    }
}
