//! Changing files, in a world that does not import it: nothing does.

use std::io;

use crate::bindings::zrecord::store::files::{self, ErrorCode};
use crate::error::io_error;

fn read_only() -> io::Error {
    io_error(ErrorCode::ReadOnly)
}

pub(crate) fn open(_: &files::Directory, _: &str) -> io::Result<files::File> {
    Err(read_only())
}

pub(crate) fn create(_: &files::Directory, _: &str) -> io::Result<files::File> {
    Err(read_only())
}

pub(crate) fn rename(_: &files::Directory, _: &str, _: &str) -> io::Result<()> {
    Err(read_only())
}

pub(crate) fn remove(_: &files::Directory, _: &str) -> io::Result<()> {
    Err(read_only())
}

pub(crate) fn sync_directory(_: &files::Directory) -> io::Result<()> {
    Err(read_only())
}

pub(crate) fn write(_: &files::File, _: &[u8], _: u64) -> io::Result<()> {
    Err(read_only())
}

pub(crate) fn set_size(_: &files::File, _: u64) -> io::Result<()> {
    Err(read_only())
}

pub(crate) fn sync(_: &files::File) -> io::Result<()> {
    Err(read_only())
}
