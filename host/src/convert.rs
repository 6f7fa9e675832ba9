//! Rewriting a store in the other format: core's [`Conversion`] over files.
//!
//! The new store grows beside the destination and takes its place at the end:
//! see [`Successor`].

use std::path::Path;

use zrecord_core::convert::{Conversion, Failure, Survey};
use zrecord_core::format::Format;
use zrecord_core::reader::Identity;
use zrecord_core::writer::Progress;
use zrecord_core::{Error as CoreError, Result as CoreResult};

use crate::directory::FsDirectory;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::options::OpenOptions;
use crate::successor::Successor;
use crate::writing::draw_id;

/// This many stored bytes are read and committed at once.
const STEP_BYTES: u64 = 32 << 20;

/// Writes the records of the store at `source` into a new store of `format`
/// at `destination`. Checksums are compared where the source has them.
/// Progress counts stored bytes.
///
/// # Errors
///
/// `AlreadyExists` when there is anything at `destination`; `Unsupported`,
/// before anything is written, naming the first record that `format` cannot
/// hold; damage in the source; IO errors. Nothing is left behind then.
pub fn convert(
    source: impl AsRef<Path>,
    destination: impl AsRef<Path>,
    format: Format,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    let (source, destination) = (source.as_ref(), destination.as_ref());
    if destination.symlink_metadata().is_ok() {
        return Err(Error::store(destination)(CoreError::AlreadyExists));
    }
    // Open for as long as it takes, so that nothing is deleted meanwhile.
    let handle = Handle::open(source, &OpenOptions::new())?;
    let reader = handle.take_reader().map_err(Error::store(source))?;
    let survey = Survey::new(&reader, format).map_err(Error::store(source))?;
    let successor = Successor::begin(destination, false)?;
    let identity = identity(format).map_err(Error::store(destination))?;
    // Failures are told apart by the store that is to blame.
    let blame = |failure| match failure {
        Failure::Source(error) => Error::store(source)(error),
        Failure::Destination(error) => Error::store(destination)(error),
    };
    let directory = FsDirectory::new(successor.path());
    let mut conversion = Conversion::begin(reader, survey, directory, identity).map_err(blame)?;
    loop {
        progress(conversion.progress().stored);
        if conversion.step(STEP_BYTES).map_err(blame)?.is_over() {
            break;
        }
    }
    progress(conversion.progress().stored);
    successor.publish()
}

fn identity(format: Format) -> CoreResult<Identity> {
    Ok(match format {
        Format::Classic => Identity::Classic,
        Format::Extended => Identity::Extended(draw_id()?),
    })
}
