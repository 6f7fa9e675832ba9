//! The storage of the core over a directory of the file system.

use std::fs;
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zrecord_core::storage::{Access, Directory, File, FileName};

/// A directory of the file system that holds one store.
#[derive(Clone, Debug)]
pub struct FsDirectory {
    path: Arc<Path>,
}

impl FsDirectory {
    /// The directory at `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names are the fixed ones; nothing inside a store becomes a path.
    fn join(&self, name: FileName) -> PathBuf {
        self.path.join(name.to_string())
    }
}

impl Directory for FsDirectory {
    type File = FsFile;

    fn open(&self, name: FileName, access: Access) -> io::Result<FsFile> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(access == Access::Write);
        Ok(FsFile { file: open_regular(&self.join(name), &mut options)? })
    }

    fn create(&self, name: FileName) -> io::Result<FsFile> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true);
        // Emptied once it is known to be a file of the store's own.
        let file = open_regular(&self.join(name), &mut options)?;
        file.set_len(0)?;
        Ok(FsFile { file })
    }

    fn rename(&self, from: FileName, to: FileName) -> io::Result<()> {
        fs::rename(self.join(from), self.join(to))
    }

    fn remove(&self, name: FileName) -> io::Result<()> {
        fs::remove_file(self.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        sync_directory(&self.path)
    }
}

/// Opens a regular file and nothing else that may stand under its name: a
/// link would lead out of the store, a pipe would stop the process.
pub(crate) fn open_regular(path: &Path, options: &mut fs::OpenOptions) -> io::Result<fs::File> {
    let refused = |what| Err(io::Error::new(ErrorKind::InvalidInput, what));
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        options.custom_flags(flags.bits().cast_signed());
    }
    #[cfg(not(unix))]
    if path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
        return refused(IS_LINK);
    }
    let file = match options.open(path) {
        Ok(file) => file,
        #[cfg(unix)]
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return refused(IS_LINK);
        }
        Err(error) if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) => {
            log::debug!("{}: {error}", path.display());
            return refused(IS_NOT_REGULAR);
        }
        Err(error) => return Err(error),
    };
    if file.metadata()?.is_file() { Ok(file) } else { refused(IS_NOT_REGULAR) }
}

pub(crate) const IS_LINK: &str = "it is a symbolic link, which no file of a store may be";
pub(crate) const IS_NOT_REGULAR: &str = "it is not a regular file";

/// Makes names in a directory survive a loss of power.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    match fs::File::open(path)?.sync_all() {
        // A file system that cannot sync a directory has nothing to sync.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
            Ok(())
        }
        result => result,
    }
    // Windows journals names by itself and has no such call.
    #[cfg(not(unix))]
    {
        let _ = path;
        Ok(())
    }
}

/// Creates a directory and its parents, durably.
pub(crate) fn create_directories(path: &Path) -> io::Result<()> {
    let mut missing: Vec<PathBuf> = Vec::new();
    let mut ancestor = Some(path);
    while let Some(directory) = ancestor.filter(|directory| !directory.exists()) {
        missing.push(directory.into());
        ancestor = directory.parent();
    }
    fs::create_dir_all(path)?;
    for directory in missing {
        match directory.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                sync_directory(parent)?;
            }
            _ => sync_directory(Path::new("."))?,
        }
    }
    Ok(())
}

/// A file of the file system, read and written by position.
#[derive(Debug)]
pub struct FsFile {
    file: fs::File,
}

impl FsFile {
    /// The file itself, for mapping it.
    pub(crate) fn file(&self) -> &fs::File {
        &self.file
    }

    /// Whether the byte at `offset` is in memory; also true where the system
    /// does not say.
    pub(crate) fn is_cached(&self, offset: u64) -> bool {
        #[cfg(target_os = "linux")]
        {
            use rustix::io::{Errno, ReadWriteFlags, preadv2};
            let mut byte = [0];
            let mut buffers = [io::IoSliceMut::new(&mut byte)];
            let read = preadv2(&self.file, &mut buffers, offset, ReadWriteFlags::NOWAIT);
            read != Err(Errno::AGAIN)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = offset;
            true
        }
    }
}

impl File for FsFile {
    /// By seeking to its end, which is cheaper than asking for everything
    /// that is known of a file; nothing here depends on the cursor.
    fn size(&self) -> io::Result<u64> {
        (&self.file).seek(SeekFrom::End(0))
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match read_at(&self.file, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        check_size_limit(offset.saturating_add(bytes.len() as u64))?;
        write_all_at(&self.file, bytes, offset)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        check_size_limit(size)?;
        self.file.set_len(size)
    }

    /// On macOS std issues `F_FULLFSYNC`, which is what reaches the disk there.
    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Past `RLIMIT_FSIZE` the system sends a signal that ends the process, so
/// the limit is asked first.
#[cfg(unix)]
fn check_size_limit(size: u64) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| size > limit) {
        return Err(io::Error::new(
            ErrorKind::FileTooLarge,
            format!("{size} bytes are more than the process may write to a file (RLIMIT_FSIZE)"),
        ));
    }
    Ok(())
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "as on unix, where a limit may be hit")]
fn check_size_limit(_: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
pub(crate) fn read_at(file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(unix)]
fn write_all_at(file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
pub(crate) fn read_at(file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

#[cfg(windows)]
fn write_all_at(file: &fs::File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, offset) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
