//! The imports of the component, served from any storage of the core's: memory
//! as well as folders, and storage that fails when it is told to.

use std::io::{self, ErrorKind};

use wasmtime::component::Resource;
use wasmtime::{Result, bail};
use zrecord_core::storage::{Access, Directory, File, FileName, Span};

use super::bindings::{files, files_edit};

/// One call copies at most so many bytes, as the sandbox of the host has it.
const CALL_BYTES: u64 = 64 << 20;

/// Stands for a directory of [`Lent`]: storage in memory cannot leave its
/// thread, and so cannot lie in wasmtime's table of resources.
#[derive(Debug)]
pub struct LentDirectory;

/// Stands for a file of [`Lent`].
#[derive(Debug)]
pub struct LentFile;

/// What was lent to one instance of the component.
pub struct Lent<D: Directory> {
    directories: Slots<D>,
    files: Slots<D::File>,
}

type Answer<T> = std::result::Result<T, files::ErrorCode>;

impl<D: Directory> Default for Lent<D> {
    fn default() -> Self {
        Self { directories: Slots::default(), files: Slots::default() }
    }
}

impl<D: Directory> Lent<D> {
    /// Lends a directory; the component owns it from here on.
    pub fn lend(&mut self, directory: D) -> Resource<LentDirectory> {
        Resource::new_own(self.directories.put(directory))
    }

    /// How many directories and files the component holds.
    pub fn held(&self) -> usize {
        self.directories.used() + self.files.used()
    }

    fn open_file(
        &mut self,
        directory: &Resource<LentDirectory>,
        name: &str,
        open: impl FnOnce(&D, FileName) -> io::Result<D::File>,
    ) -> Result<Answer<Resource<LentFile>>> {
        let directory = self.directories.get(directory.rep())?;
        Ok(match lendable(name).and_then(|name| open(directory, name).map_err(|e| code(&e))) {
            Ok(file) => Ok(Resource::new_own(self.files.put(file))),
            Err(code) => Err(code),
        })
    }

    fn change(
        &self,
        directory: &Resource<LentDirectory>,
        change: impl FnOnce(&D) -> Answer<io::Result<()>>,
    ) -> Result<Answer<()>> {
        let directory = self.directories.get(directory.rep())?;
        Ok(change(directory).and_then(|changed| changed.map_err(|error| code(&error))))
    }

    fn file<T>(
        &self,
        file: &Resource<LentFile>,
        work: impl FnOnce(&D::File) -> io::Result<T>,
    ) -> Result<Answer<T>> {
        Ok(work(self.files.get(file.rep())?).map_err(|error| code(&error)))
    }
}

/// Values by the numbers that stand for them.
struct Slots<T>(Vec<Option<T>>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Slots<T> {
    fn put(&mut self, value: T) -> u32 {
        let free = self.0.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[slot] = Some(value);
        slot as u32
    }

    fn get(&self, slot: u32) -> Result<&T> {
        match self.0.get(slot as usize) {
            Some(Some(value)) => Ok(value),
            _ => bail!("resource {slot} was not lent"),
        }
    }

    fn drop(&mut self, slot: u32) -> Result<()> {
        self.get(slot)?;
        self.0[slot as usize] = None;
        Ok(())
    }

    fn used(&self) -> usize {
        self.0.iter().flatten().count()
    }
}

/// The file of that name, if a component may have it: the lock is the host's.
fn lendable(name: &str) -> Answer<FileName> {
    let lendable = FileName::parse(name).filter(|name| *name != FileName::Lock);
    lendable.ok_or(files::ErrorCode::Invalid)
}

/// What storage says, in the contract's words.
pub fn code(error: &io::Error) -> files::ErrorCode {
    match error.kind() {
        ErrorKind::NotFound => files::ErrorCode::NoEntry,
        ErrorKind::PermissionDenied => files::ErrorCode::Access,
        ErrorKind::ReadOnlyFilesystem => files::ErrorCode::ReadOnly,
        ErrorKind::InvalidInput | ErrorKind::IsADirectory => files::ErrorCode::NotAFile,
        ErrorKind::StorageFull => files::ErrorCode::InsufficientSpace,
        ErrorKind::FileTooLarge => files::ErrorCode::TooLarge,
        _ => files::ErrorCode::Other(Some(error.to_string())),
    }
}

fn room(len: u64) -> io::Result<Vec<u8>> {
    match usize::try_from(len) {
        Ok(size) if len <= CALL_BYTES => Ok(vec![0; size]),
        _ => Err(ErrorKind::FileTooLarge.into()),
    }
}

impl<D: Directory> files::Host for Lent<D> {}

impl<D: Directory> files::HostDirectory for Lent<D> {
    fn open(
        &mut self,
        directory: Resource<LentDirectory>,
        name: String,
    ) -> Result<Answer<Resource<LentFile>>> {
        self.open_file(&directory, &name, |directory, name| directory.open(name, Access::Read))
    }

    fn drop(&mut self, directory: Resource<LentDirectory>) -> Result<()> {
        self.directories.drop(directory.rep())
    }
}

impl<D: Directory> files::HostFile for Lent<D> {
    fn size(&mut self, file: Resource<LentFile>) -> Result<Answer<u64>> {
        self.file(&file, File::size)
    }

    fn read(
        &mut self,
        file: Resource<LentFile>,
        length: u64,
        offset: u64,
    ) -> Result<Answer<(Vec<u8>, bool)>> {
        self.file(&file, |file| {
            let mut buffer = room(length)?;
            let read = file.read(&mut buffer, offset)?;
            buffer.truncate(read);
            Ok((buffer, (read as u64) < length))
        })
    }

    fn read_many(
        &mut self,
        file: Resource<LentFile>,
        spans: Vec<files::Span>,
    ) -> Result<Answer<Vec<u8>>> {
        let spans = spans.into_iter().map(|span| Span { offset: span.offset, len: span.length });
        let spans: Vec<Span> = spans.collect();
        self.file(&file, |file| {
            let sum = spans.iter().fold(0, |sum: u64, span| sum.saturating_add(span.len));
            let mut buffer = room(sum)?;
            let read = file.read_many(&spans, &mut buffer)?;
            buffer.truncate(read);
            Ok(buffer)
        })
    }

    fn drop(&mut self, file: Resource<LentFile>) -> Result<()> {
        self.files.drop(file.rep())
    }
}

impl<D: Directory> files_edit::Host for Lent<D> {
    fn open(
        &mut self,
        directory: Resource<LentDirectory>,
        name: String,
    ) -> Result<Answer<Resource<LentFile>>> {
        self.open_file(&directory, &name, |directory, name| directory.open(name, Access::Write))
    }

    fn create(
        &mut self,
        directory: Resource<LentDirectory>,
        name: String,
    ) -> Result<Answer<Resource<LentFile>>> {
        self.open_file(&directory, &name, Directory::create)
    }

    fn rename(
        &mut self,
        directory: Resource<LentDirectory>,
        old_name: String,
        new_name: String,
    ) -> Result<Answer<()>> {
        self.change(&directory, |directory| {
            Ok(directory.rename(lendable(&old_name)?, lendable(&new_name)?))
        })
    }

    fn remove(&mut self, directory: Resource<LentDirectory>, name: String) -> Result<Answer<()>> {
        self.change(&directory, |directory| Ok(directory.remove(lendable(&name)?)))
    }

    fn sync_directory(&mut self, directory: Resource<LentDirectory>) -> Result<Answer<()>> {
        self.change(&directory, |directory| Ok(directory.sync()))
    }

    fn write(
        &mut self,
        file: Resource<LentFile>,
        buffer: Vec<u8>,
        offset: u64,
    ) -> Result<Answer<()>> {
        self.file(&file, |file| file.write(&buffer, offset))
    }

    fn set_size(&mut self, file: Resource<LentFile>, size: u64) -> Result<Answer<()>> {
        self.file(&file, |file| file.set_size(size))
    }

    fn sync(&mut self, file: Resource<LentFile>) -> Result<Answer<()>> {
        self.file(&file, File::sync)
    }
}
