//! A directory in memory that fails when it is told to: as a device that
//! breaks, a disk that is full, a medium that cannot be written.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::rc::Rc;

use zrecord_core::storage::memory::{MemoryDirectory, MemoryFile};
use zrecord_core::storage::{Access, Directory, File, FileName};

/// What shall go wrong.
#[derive(Debug, Default)]
struct Script {
    is_read_only: Cell<bool>,
    /// How many more changes are made, and what becomes of the one after them.
    changes: Cell<Option<(u64, ErrorKind)>>,
    /// Files that cannot be opened.
    closed: RefCell<BTreeMap<FileName, ErrorKind>>,
    /// Files that can be opened and not read.
    unreadable: RefCell<BTreeMap<FileName, ErrorKind>>,
}

/// The directory. Clones share files and script.
#[derive(Clone, Debug, Default)]
pub struct Scripted {
    memory: MemoryDirectory,
    script: Rc<Script>,
}

/// A file in it.
#[derive(Debug)]
pub struct ScriptedFile {
    memory: MemoryFile,
    name: FileName,
    script: Rc<Script>,
}

impl Scripted {
    /// Over files in memory; nothing goes wrong yet.
    pub fn over(memory: MemoryDirectory) -> Self {
        Self { memory, script: Rc::default() }
    }

    /// The files.
    pub fn memory(&self) -> &MemoryDirectory {
        &self.memory
    }

    /// From now on nothing can be changed.
    pub fn protect(&self) {
        self.script.is_read_only.set(true);
    }

    /// The change after `changes` more fails, and later ones do not.
    pub fn fail_after(&self, changes: u64, kind: ErrorKind) {
        self.script.changes.set(Some((changes, kind)));
    }

    /// Whether a change is still to fail; `false` once it has.
    pub fn is_failing(&self) -> bool {
        self.script.changes.get().is_some()
    }

    /// A file can no longer be opened.
    pub fn close(&self, name: FileName, kind: ErrorKind) {
        self.script.closed.borrow_mut().insert(name, kind);
    }

    /// A file can no longer be read.
    pub fn spoil(&self, name: FileName, kind: ErrorKind) {
        self.script.unreadable.borrow_mut().insert(name, kind);
    }

    /// Nothing goes wrong any more.
    pub fn mend(&self) {
        self.script.is_read_only.set(false);
        self.script.changes.set(None);
        self.script.closed.borrow_mut().clear();
        self.script.unreadable.borrow_mut().clear();
    }

    fn file(&self, name: FileName, memory: MemoryFile) -> ScriptedFile {
        ScriptedFile { memory, name, script: Rc::clone(&self.script) }
    }
}

impl Script {
    fn change(&self) -> io::Result<()> {
        if self.is_read_only.get() {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        match self.changes.get() {
            Some((0, kind)) => {
                self.changes.set(None);
                Err(kind.into())
            }
            Some((left, kind)) => {
                self.changes.set(Some((left - 1, kind)));
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn check(files: &RefCell<BTreeMap<FileName, ErrorKind>>, name: FileName) -> io::Result<()> {
        files.borrow().get(&name).map_or(Ok(()), |kind| Err((*kind).into()))
    }
}

impl Directory for Scripted {
    type File = ScriptedFile;

    fn open(&self, name: FileName, access: Access) -> io::Result<ScriptedFile> {
        Script::check(&self.script.closed, name)?;
        if access == Access::Write && self.script.is_read_only.get() {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(self.file(name, self.memory.open(name, access)?))
    }

    fn create(&self, name: FileName) -> io::Result<ScriptedFile> {
        self.script.change()?;
        Ok(self.file(name, self.memory.create(name)?))
    }

    fn rename(&self, from: FileName, to: FileName) -> io::Result<()> {
        self.script.change()?;
        self.memory.rename(from, to)
    }

    fn remove(&self, name: FileName) -> io::Result<()> {
        self.script.change()?;
        self.memory.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.script.change()?;
        self.memory.sync()
    }
}

impl File for ScriptedFile {
    fn size(&self) -> io::Result<u64> {
        self.memory.size()
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Script::check(&self.script.unreadable, self.name)?;
        self.memory.read(buffer, offset)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.script.change()?;
        self.memory.write(bytes, offset)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.script.change()?;
        self.memory.set_size(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.script.change()?;
        self.memory.sync()
    }
}
