//! Changing files, in a world that imports `files-edit`.

use std::io;

use crate::bindings::zrecord::store::{files, files_edit};
use crate::error::io_error;

pub(crate) fn open(directory: &files::Directory, name: &str) -> io::Result<files::File> {
    files_edit::open(directory, name).map_err(io_error)
}

pub(crate) fn create(directory: &files::Directory, name: &str) -> io::Result<files::File> {
    files_edit::create(directory, name).map_err(io_error)
}

pub(crate) fn rename(directory: &files::Directory, old: &str, new: &str) -> io::Result<()> {
    files_edit::rename(directory, old, new).map_err(io_error)
}

pub(crate) fn remove(directory: &files::Directory, name: &str) -> io::Result<()> {
    files_edit::remove(directory, name).map_err(io_error)
}

pub(crate) fn sync_directory(directory: &files::Directory) -> io::Result<()> {
    files_edit::sync_directory(directory).map_err(io_error)
}

pub(crate) fn write(file: &files::File, bytes: &[u8], offset: u64) -> io::Result<()> {
    files_edit::write(file, bytes, offset).map_err(io_error)
}

pub(crate) fn set_size(file: &files::File, size: u64) -> io::Result<()> {
    files_edit::set_size(file, size).map_err(io_error)
}

pub(crate) fn sync(file: &files::File) -> io::Result<()> {
    files_edit::sync(file).map_err(io_error)
}
