//! The files of the store: opened by the names that a store has, in the one
//! directory that was opened at the start.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use zrecord_core::Error as CoreError;
use zrecord_core::storage::FileName;

use crate::directory::{IS_NOT_REGULAR, read_at};
use crate::error::{Error, Result};

/// The directory of a store.
#[derive(Debug)]
pub struct Folder {
    /// Open, so that whatever later stands at its path is not looked into.
    #[cfg(unix)]
    handle: std::os::fd::OwnedFd,
    #[cfg(not(unix))]
    path: std::path::PathBuf,
}

impl Folder {
    /// The directory at `path`, if there is a store in it, be it damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let no_store = |reason: &str| {
            Err(Error::store(path)(CoreError::NotAStore { reason: reason.to_owned() }))
        };
        let found = fs::metadata(path).map_err(CoreError::io(FileName::Meta));
        if !found.map_err(Error::store(path))?.is_dir() {
            return no_store("it is not a folder");
        }
        let folder = Self::at(path).map_err(Error::io(path))?;
        match folder.file(FileName::Meta) {
            Ok(_) => Ok(folder),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                no_store("there is no meta.zr in it")
            }
            Err(error) => Err(Error::store(path)(CoreError::io(FileName::Meta)(error))),
        }
    }

    #[cfg(unix)]
    fn at(path: &Path) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { handle: rustix::fs::open(path, flags, Mode::empty())? })
    }

    #[cfg(not(unix))]
    fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.canonicalize()? })
    }

    /// Opens a file of the store: a regular one, no link.
    pub fn file(&self, name: FileName) -> io::Result<ServedFile> {
        let file = self.open_regular(name)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, IS_NOT_REGULAR));
        }
        Ok(ServedFile { file, size: metadata.len(), tag: tag(&metadata) })
    }

    #[cfg(unix)]
    fn open_regular(&self, name: FileName) -> io::Result<fs::File> {
        use rustix::fs::{Mode, OFlags};
        use rustix::io::Errno;
        // A pipe must block nobody.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.handle, name.to_string(), flags, Mode::empty()) {
            Ok(file) => Ok(file.into()),
            Err(Errno::LOOP) => {
                Err(io::Error::new(ErrorKind::InvalidInput, crate::directory::IS_LINK))
            }
            // A socket.
            Err(Errno::NXIO) => Err(io::Error::new(ErrorKind::InvalidInput, IS_NOT_REGULAR)),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(unix))]
    fn open_regular(&self, name: FileName) -> io::Result<fs::File> {
        let path = self.path.join(name.to_string());
        crate::directory::open_regular(&path, fs::OpenOptions::new().read(true))
    }
}

/// A file as it was when it was opened.
#[derive(Debug)]
pub struct ServedFile {
    file: fs::File,
    /// In bytes.
    pub size: u64,
    /// Another one for every state of the file, as an ETag has it.
    pub tag: String,
}

impl ServedFile {
    /// Reads the bytes at `offset`; an error where the file no longer has them.
    pub fn read(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match read_at(&self.file, buffer, offset) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    buffer = &mut buffer[read..];
                    offset += read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A file that is replaced has another inode; one that is changed in place
/// another size or time.
#[cfg(unix)]
fn tag(metadata: &fs::Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
    format!("\"{:x}-{:x}-{seconds:x}.{nanoseconds:x}\"", metadata.ino(), metadata.len())
}

#[cfg(windows)]
fn tag(metadata: &fs::Metadata) -> String {
    use std::os::windows::fs::MetadataExt;
    let (made, changed) = (metadata.creation_time(), metadata.last_write_time());
    format!("\"{made:x}-{:x}-{changed:x}\"", metadata.len())
}
