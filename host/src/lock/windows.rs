//! `LockFileEx` on single bytes far past the end of `lock.zr`, so that the two
//! locks do not meet and no data is ever locked.
//!
//! A handle that only reads creates nothing, so where no writer of this
//! project has been there is no `lock.zr` and no presence; the system itself
//! then refuses to replace a file that is mapped.
#![expect(unsafe_code, reason = "std locks whole files only")]

use std::fs::File;
use std::io;
use std::os::windows::io::AsRawHandle;
use std::path::Path;

use windows_sys::Win32::Foundation::{ERROR_INVALID_FUNCTION, ERROR_NOT_SUPPORTED};
use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, HANDLE};
use windows_sys::Win32::Storage::FileSystem::{
    LOCK_FILE_FLAGS, LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, UnlockFileEx,
};
use windows_sys::Win32::System::IO::OVERLAPPED;

use super::{Attempt, Which, lock_path};

pub(super) fn open_presence(directory: &Path) -> io::Result<File> {
    File::open(lock_path(directory))
}

/// A directory in which a file is open cannot be renamed here.
pub(super) fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

pub(super) fn try_shared(file: &File, which: Which) -> io::Result<Attempt> {
    lock(file, which, 0)
}

/// Windows does not convert locks: the shared one goes first.
pub(super) fn try_exclusive(file: &File, which: Which) -> io::Result<Attempt> {
    if which == Which::Presence {
        unlock(file, which);
    }
    lock(file, which, LOCKFILE_EXCLUSIVE_LOCK)
}

/// As there, an exclusive lock goes first.
pub(super) fn share_again(file: &File, which: Which) -> io::Result<Attempt> {
    unlock(file, which);
    try_shared(file, which)
}

pub(super) fn unlock(file: &File, which: Which) {
    let mut place = place(which);
    let handle = file.as_raw_handle() as HANDLE;
    // Fails when the byte is not locked, or closing the handle does it.
    // SAFETY: the handle is open as long as `file`, and `place` lives here.
    let _ = unsafe { UnlockFileEx(handle, 0, 1, 0, &raw mut place) };
}

fn lock(file: &File, which: Which, flags: LOCK_FILE_FLAGS) -> io::Result<Attempt> {
    let mut place = place(which);
    let flags = flags | LOCKFILE_FAIL_IMMEDIATELY;
    let handle = file.as_raw_handle() as HANDLE;
    // SAFETY: the handle is open as long as `file`, and the call, which fails
    // rather than waits, is done with `place` when it returns.
    let taken = unsafe { LockFileEx(handle, flags, 0, 1, 0, &raw mut place) };
    if taken != 0 {
        return Ok(Attempt::Taken);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error().map(i32::cast_unsigned) {
        Some(ERROR_LOCK_VIOLATION | ERROR_IO_PENDING) => Ok(Attempt::Held),
        Some(ERROR_INVALID_FUNCTION | ERROR_NOT_SUPPORTED) => Ok(Attempt::Unsupported),
        _ => Err(error),
    }
}

/// The locked byte, as the call wants it.
fn place(which: Which) -> OVERLAPPED {
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous.OffsetHigh = 1 << 30;
    place.Anonymous.Anonymous.Offset = match which {
        Which::Presence => 0,
        Which::Writer => 1,
    };
    place
}
