//! A directory in memory whose changing operations fail on request.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use zrecord_core::storage::memory::{MemoryDirectory, MemoryFile};
use zrecord_core::storage::{Access, Directory, File, FileName};

/// Counts changing operations down to a fault.
#[derive(Debug)]
struct Fuse {
    left: Cell<u64>,
    /// Every operation from then on fails, rather than just the one.
    stays: bool,
}

impl Fuse {
    fn burn(&self) -> io::Result<()> {
        match self.left.get() {
            0 if self.stays => Err(io::Error::other("stopped")),
            0 => Ok(()),
            1 => {
                self.left.set(0);
                Err(io::ErrorKind::StorageFull.into())
            }
            left => {
                self.left.set(left - 1);
                Ok(())
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct FaultyDirectory {
    inner: MemoryDirectory,
    fuse: Rc<Fuse>,
}

#[derive(Debug)]
pub struct FaultyFile {
    inner: MemoryFile,
    fuse: Rc<Fuse>,
}

impl FaultyDirectory {
    /// After `operations` changing operations nothing is written any more.
    pub fn stopping_after(inner: MemoryDirectory, operations: u64) -> Self {
        Self { inner, fuse: Rc::new(Fuse { left: Cell::new(operations + 1), stays: true }) }
    }

    /// One changing operation fails, the ones after it do not.
    #[allow(dead_code, reason = "not every test that shares this needs it")]
    pub fn failing_once(inner: MemoryDirectory, operation: u64) -> Self {
        Self { inner, fuse: Rc::new(Fuse { left: Cell::new(operation + 1), stays: false }) }
    }

    fn file(&self, inner: MemoryFile) -> FaultyFile {
        FaultyFile { inner, fuse: Rc::clone(&self.fuse) }
    }
}

impl Directory for FaultyDirectory {
    type File = FaultyFile;

    fn open(&self, name: FileName, access: Access) -> io::Result<FaultyFile> {
        Ok(self.file(self.inner.open(name, access)?))
    }

    fn create(&self, name: FileName) -> io::Result<FaultyFile> {
        self.fuse.burn()?;
        Ok(self.file(self.inner.create(name)?))
    }

    fn rename(&self, from: FileName, to: FileName) -> io::Result<()> {
        self.fuse.burn()?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: FileName) -> io::Result<()> {
        self.fuse.burn()?;
        self.inner.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.fuse.burn()?;
        self.inner.sync()
    }
}

impl File for FaultyFile {
    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read(buffer, offset)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Err(error) = self.fuse.burn() {
            // A write may stop half way.
            self.inner.write(&bytes[..bytes.len() / 2], offset)?;
            return Err(error);
        }
        self.inner.write(bytes, offset)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.fuse.burn()?;
        self.inner.set_size(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.fuse.burn()?;
        self.inner.sync()
    }
}
