//! Files of a store, lent to a component: the imports `files` and
//! `files-edit`.
//!
//! A name is one of a store's before anything is looked for, and what is
//! opened is a regular file in the directory that was lent. Nothing here looks
//! at what a file holds.

use std::io::{self, ErrorKind};

use wasmtime::Result;
use wasmtime::component::{Resource, ResourceTable};
use zrecord_core::storage::{Access, Directory, File, FileName, Span};

use crate::directory::{FsDirectory, FsFile};
use crate::sandbox::bindings::{files, files_edit};
use crate::sandbox::lent::{LentDirectory, LentFile};
use crate::sandbox::limits::{Limiter, Limits};

/// A component's files and directories at one time: the core keeps 128 chunks
/// of a store open and a handful of others, and a conversion has two stores.
const RESOURCES_MAX: usize = 1024;

/// What belongs to one instance of a component.
pub(crate) struct State {
    resources: ResourceTable,
    pub(crate) limiter: Limiter,
    call_bytes: u64,
}

type Answer<T> = std::result::Result<T, files::ErrorCode>;

impl State {
    pub(crate) fn new(limits: &Limits) -> Self {
        let mut resources = ResourceTable::new();
        resources.set_max_capacity(RESOURCES_MAX);
        Self { resources, limiter: Limiter::new(limits), call_bytes: limits.call_bytes }
    }

    /// Lends a directory; the component owns it from here on.
    pub(crate) fn lend(
        &mut self,
        directory: FsDirectory,
        access: Access,
    ) -> Result<Resource<LentDirectory>> {
        Ok(self.resources.push(LentDirectory { directory, access })?)
    }

    fn directory(&self, directory: &Resource<LentDirectory>) -> Result<&LentDirectory> {
        Ok(self.resources.get(directory)?)
    }

    /// The directory, if it may be changed.
    fn editable(&self, directory: &Resource<LentDirectory>) -> Result<Answer<&FsDirectory>> {
        let lent = self.directory(directory)?;
        Ok(match lent.access {
            Access::Read => Err(files::ErrorCode::ReadOnly),
            Access::Write => Ok(&lent.directory),
        })
    }

    fn open_file(
        &mut self,
        directory: &Resource<LentDirectory>,
        name: &str,
        access: Access,
    ) -> Result<Answer<Resource<LentFile>>> {
        let Some(name) = lendable(name) else { return Ok(Err(files::ErrorCode::Invalid)) };
        let opened = match access {
            Access::Read => self.directory(directory)?.directory.open(name, access),
            Access::Write => match self.editable(directory)? {
                Ok(directory) => directory.open(name, access),
                Err(code) => return Ok(Err(code)),
            },
        };
        self.lend_file(opened, access)
    }

    fn lend_file(
        &mut self,
        opened: io::Result<FsFile>,
        access: Access,
    ) -> Result<Answer<Resource<LentFile>>> {
        let file = match opened {
            Ok(file) => file,
            Err(error) => return Ok(Err(code(&error))),
        };
        Ok(match self.resources.push(LentFile::new(file, access)) {
            Ok(lent) => Ok(lent),
            Err(_) => Err(files::ErrorCode::InsufficientSpace),
        })
    }

    /// The file, if it was opened for writing.
    fn editable_file(&self, file: &Resource<LentFile>) -> Result<Answer<&FsFile>> {
        let lent = self.resources.get(file)?;
        Ok(match lent.access {
            Access::Read => Err(files::ErrorCode::ReadOnly),
            Access::Write => Ok(&lent.file),
        })
    }

    /// Runs a change of a directory with the names of files that it concerns.
    fn change<const N: usize>(
        &self,
        directory: &Resource<LentDirectory>,
        names: [&str; N],
        change: impl FnOnce(&FsDirectory, [FileName; N]) -> io::Result<()>,
    ) -> Result<Answer<()>> {
        let directory = match self.editable(directory)? {
            Ok(directory) => directory,
            Err(code) => return Ok(Err(code)),
        };
        let mut parsed = [FileName::Meta; N];
        for (parsed, name) in parsed.iter_mut().zip(names) {
            match lendable(name) {
                Some(name) => *parsed = name,
                None => return Ok(Err(files::ErrorCode::Invalid)),
            }
        }
        Ok(change(directory, parsed).map_err(|error| code(&error)))
    }

    /// Runs a change of a file.
    fn change_file(
        &self,
        file: &Resource<LentFile>,
        change: impl FnOnce(&FsFile) -> io::Result<()>,
    ) -> Result<Answer<()>> {
        Ok(self.editable_file(file)?.and_then(|file| change(file).map_err(|error| code(&error))))
    }

    /// Room for `len` bytes, if one call may have as many.
    fn room(&self, len: u64) -> Answer<Vec<u8>> {
        if len > self.call_bytes {
            return Err(files::ErrorCode::TooLarge);
        }
        let len = usize::try_from(len).map_err(|_| files::ErrorCode::TooLarge)?;
        Ok(vec![0; len])
    }

    fn read_file(&self, file: &FsFile, length: u64, offset: u64) -> Answer<(Vec<u8>, bool)> {
        let mut buffer = self.room(length)?;
        let read = file.read(&mut buffer, offset).map_err(|error| code(&error))?;
        buffer.truncate(read);
        Ok((buffer, (read as u64) < length))
    }

    fn read_spans(&mut self, file: &Resource<LentFile>, spans: &[Span]) -> Result<Answer<Vec<u8>>> {
        let sum = spans.iter().fold(0, |sum: u64, span| sum.saturating_add(span.len));
        let mut buffer = match self.room(sum) {
            Ok(buffer) => buffer,
            Err(code) => return Ok(Err(code)),
        };
        let lent = self.resources.get_mut(file)?;
        let read = lent.read_many(spans, &mut buffer);
        Ok(read.map_err(|error| code(&error)).map(|read| {
            buffer.truncate(read);
            buffer
        }))
    }
}

/// The file of that name, if a component may have it: the lock is the host's.
fn lendable(name: &str) -> Option<FileName> {
    FileName::parse(name).filter(|name| *name != FileName::Lock)
}

/// What the system said, in the contract's words.
fn code(error: &io::Error) -> files::ErrorCode {
    match error.kind() {
        ErrorKind::NotFound => files::ErrorCode::NoEntry,
        ErrorKind::PermissionDenied => files::ErrorCode::Access,
        ErrorKind::ReadOnlyFilesystem => files::ErrorCode::ReadOnly,
        // What `open_regular` says of links, folders, pipes and devices.
        ErrorKind::InvalidInput | ErrorKind::IsADirectory => files::ErrorCode::NotAFile,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            files::ErrorCode::InsufficientSpace
        }
        _ => files::ErrorCode::Other(Some(error.to_string())),
    }
}

impl files::Host for State {}

impl files::HostDirectory for State {
    fn open(
        &mut self,
        directory: Resource<LentDirectory>,
        name: String,
    ) -> Result<Answer<Resource<LentFile>>> {
        self.open_file(&directory, &name, Access::Read)
    }

    fn drop(&mut self, directory: Resource<LentDirectory>) -> Result<()> {
        self.resources.delete(directory)?;
        Ok(())
    }
}

impl files::HostFile for State {
    fn size(&mut self, file: Resource<LentFile>) -> Result<Answer<u64>> {
        Ok(self.resources.get(&file)?.file.size().map_err(|error| code(&error)))
    }

    fn read(
        &mut self,
        file: Resource<LentFile>,
        length: u64,
        offset: u64,
    ) -> Result<Answer<(Vec<u8>, bool)>> {
        Ok(self.read_file(&self.resources.get(&file)?.file, length, offset))
    }

    fn read_many(
        &mut self,
        file: Resource<LentFile>,
        spans: Vec<files::Span>,
    ) -> Result<Answer<Vec<u8>>> {
        let spans = spans.into_iter().map(|span| Span { offset: span.offset, len: span.length });
        let spans: Vec<Span> = spans.collect();
        self.read_spans(&file, &spans)
    }

    fn drop(&mut self, file: Resource<LentFile>) -> Result<()> {
        self.resources.delete(file)?;
        Ok(())
    }
}

impl files_edit::Host for State {
    fn open(
        &mut self,
        directory: Resource<LentDirectory>,
        name: String,
    ) -> Result<Answer<Resource<LentFile>>> {
        self.open_file(&directory, &name, Access::Write)
    }

    fn create(
        &mut self,
        directory: Resource<LentDirectory>,
        name: String,
    ) -> Result<Answer<Resource<LentFile>>> {
        let Some(name) = lendable(&name) else { return Ok(Err(files::ErrorCode::Invalid)) };
        let created = match self.editable(&directory)? {
            Ok(directory) => directory.create(name),
            Err(code) => return Ok(Err(code)),
        };
        self.lend_file(created, Access::Write)
    }

    fn rename(
        &mut self,
        directory: Resource<LentDirectory>,
        old_name: String,
        new_name: String,
    ) -> Result<Answer<()>> {
        self.change(&directory, [&old_name, &new_name], |directory, [old, new]| {
            directory.rename(old, new)
        })
    }

    fn remove(&mut self, directory: Resource<LentDirectory>, name: String) -> Result<Answer<()>> {
        self.change(&directory, [&name], |directory, [name]| directory.remove(name))
    }

    fn sync_directory(&mut self, directory: Resource<LentDirectory>) -> Result<Answer<()>> {
        self.change(&directory, [], |directory, []| directory.sync())
    }

    fn write(
        &mut self,
        file: Resource<LentFile>,
        buffer: Vec<u8>,
        offset: u64,
    ) -> Result<Answer<()>> {
        self.change_file(&file, |file| file.write(&buffer, offset))
    }

    fn set_size(&mut self, file: Resource<LentFile>, size: u64) -> Result<Answer<()>> {
        self.change_file(&file, |file| file.set_size(size))
    }

    fn sync(&mut self, file: Resource<LentFile>) -> Result<Answer<()>> {
        self.change_file(&file, File::sync)
    }
}

#[cfg(test)]
mod tests;
