//! The file of a chunk, whether or not a descriptor of it is kept.
//!
//! A store may have more chunks than a process may have descriptors. A map
//! needs none; only its file's size has to be asked now and then. So the
//! descriptors of the first [`KEPT_MAX`] chunks are kept, and the files of
//! others are opened by name for a moment, and must still be the same files.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwapOption;
use zrecord_core::storage::{Access, Directory, File, FileName};

use crate::directory::{FsDirectory, FsFile};

/// How many descriptors of chunks one handle keeps.
pub(crate) const KEPT_MAX: usize = 128;

/// A chunk's file.
#[derive(Debug)]
pub(crate) struct ChunkFile {
    directory: FsDirectory,
    name: FileName,
    identity: Identity,
    kept: ArcSwapOption<FsFile>,
}

impl ChunkFile {
    /// Opens the file, and keeps it open if `keeps`, or if the system does not
    /// say whether a file opened by the same name later is the same.
    pub(crate) fn open(directory: &FsDirectory, name: FileName, keeps: bool) -> io::Result<Self> {
        let file = directory.open(name, Access::Read)?;
        let identity = Identity::of(&file)?;
        let keeps = keeps || identity == Identity::UNKNOWN;
        let kept = ArcSwapOption::from(keeps.then(|| Arc::new(file)));
        Ok(Self { directory: directory.clone(), name, identity, kept })
    }

    /// The file, open while the caller holds it.
    ///
    /// # Errors
    ///
    /// Those of opening, and when the name is another file's by now.
    pub(crate) fn get(&self) -> io::Result<Arc<FsFile>> {
        if let Some(file) = self.kept.load_full() {
            return Ok(file);
        }
        let file = self.directory.open(self.name, Access::Read)?;
        if Identity::of(&file)? != self.identity {
            return Err(io::Error::other("another file has taken its place; reopen the store"));
        }
        Ok(Arc::new(file))
    }

    /// The file's size in bytes.
    pub(crate) fn size(&self) -> io::Result<u64> {
        match &*self.kept.load() {
            Some(file) => file.size(),
            None => self.get()?.size(),
        }
    }

    /// Keeps no descriptor any longer.
    pub(crate) fn release(&self) {
        if self.identity != Identity::UNKNOWN {
            self.kept.store(None);
        }
    }
}

/// What tells a file from others: where it is, and when it was made, since the
/// number of a file that was removed is given to another. Unknown where the
/// system does not keep that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(Option<(u64, u64, SystemTime)>);

impl Identity {
    const UNKNOWN: Self = Self(None);

    #[cfg(unix)]
    fn of(file: &FsFile) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let metadata = file.file().metadata()?;
        let made = metadata.created().ok();
        Ok(Self(made.map(|made| (metadata.dev(), metadata.ino(), made))))
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "as on unix, where asking may fail")]
    fn of(_: &FsFile) -> io::Result<Self> {
        Ok(Self::UNKNOWN)
    }
}

/// Whether the process, or the system, has no descriptor left to give.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
    }
    #[cfg(not(unix))]
    {
        let _ = error;
        false
    }
}
