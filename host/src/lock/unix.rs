//! `flock`, by way of std: presence on the directory, the writer's on
//! `lock.zr`.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Attempt, Which};

pub(super) fn open_presence(directory: &Path) -> io::Result<File> {
    // Whatever stands there, opening it must not block.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(directory)
}

/// Whether what was opened is still what has that name.
pub(super) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (ours, there) = match path.metadata() {
        Ok(there) => (file.metadata()?, there),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino()))
}

pub(super) fn try_shared(file: &File, _: Which) -> io::Result<Attempt> {
    attempt(file.try_lock_shared())
}

pub(super) fn try_exclusive(file: &File, _: Which) -> io::Result<Attempt> {
    attempt(file.try_lock())
}

/// Converts an exclusive lock, or takes a lost one.
pub(super) fn share_again(file: &File, which: Which) -> io::Result<Attempt> {
    try_shared(file, which)
}

pub(super) fn unlock(file: &File, _: Which) {
    // Closing the last descriptor does the same.
    let _ = file.unlock();
}

fn attempt(result: Result<(), TryLockError>) -> io::Result<Attempt> {
    match result {
        Ok(()) => Ok(Attempt::Taken),
        Err(TryLockError::WouldBlock) => Ok(Attempt::Held),
        Err(TryLockError::Error(error)) if is_unsupported(&error) => Ok(Attempt::Unsupported),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// How file systems say that they have no locks, or none on directories:
/// network ones turn `flock` into byte ranges, which need a writable file.
fn is_unsupported(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    let unsupported =
        [Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP, Errno::NOLCK, Errno::INVAL, Errno::BADF];
    errno.is_some_and(|errno| unsupported.contains(&errno))
}
