//! A directory in memory that logs what changes it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::rc::Rc;

use zrecord_core::format::extended;
use zrecord_core::storage::memory::{MemoryDirectory, MemoryFile};
use zrecord_core::storage::{Access, Directory, File, FileName};

use super::disk::{Disk, Loss};

/// Which file, whatever its name: a rename keeps it.
pub type Inode = usize;

/// Something that changes the disk, or makes changes durable.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new file under a name that was free.
    Create(FileName, Inode),
    /// Another name; a file that has it loses it.
    Rename(FileName, FileName),
    /// A name less.
    Remove(FileName),
    /// Names so far are durable.
    SyncNames,
    /// Bytes at an offset.
    Write(Inode, u64, Rc<[u8]>),
    /// A cut or a growth with zeros. Creating a file that exists is a cut.
    SetSize(Inode, u64),
    /// Bytes and size of a file are durable.
    SyncFile(Inode),
}

/// A sync that a broken build leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Of chunk files.
    Chunks,
    /// Of a new table, before it is renamed over the old one.
    NewTable,
    /// Of the directory.
    Names,
    /// Of entries, before the slot that says they are durable.
    Entries,
    /// Of a dictionary or schema, before it is renamed into place.
    SmallFiles,
}

/// What was logged.
#[derive(Debug, Default)]
struct Log {
    changes: Vec<Change>,
    names: BTreeMap<FileName, Inode>,
    inodes: Inode,
    /// Writes to each inode since its sync was last asked for.
    writes: BTreeMap<Inode, Vec<u64>>,
    sabotage: Option<Sabotage>,
}

impl Log {
    fn write(&mut self, inode: Inode, bytes: &[u8], offset: u64) {
        self.writes.entry(inode).or_default().push(offset);
        self.changes.push(Change::Write(inode, offset, bytes.into()));
    }

    fn sync_file(&mut self, inode: Inode) {
        let writes = self.writes.remove(&inode).unwrap_or_default();
        if !self.is_left_out(inode, &writes) {
            self.changes.push(Change::SyncFile(inode));
        }
    }

    fn is_left_out(&self, inode: Inode, writes: &[u64]) -> bool {
        let is = |wanted: fn(FileName) -> bool| {
            self.names.iter().any(|(&name, &other)| other == inode && wanted(name))
        };
        match self.sabotage {
            None | Some(Sabotage::Names) => false,
            Some(Sabotage::Chunks) => is(|name| matches!(name, FileName::Chunk(_))),
            Some(Sabotage::NewTable) => is(|name| name == FileName::MetaNew),
            Some(Sabotage::SmallFiles) => {
                is(|name| matches!(name, FileName::DictionaryNew(_) | FileName::SchemaNew))
            }
            // The sync after the slot covers that one write.
            Some(Sabotage::Entries) => {
                let is_slot = |&offset: &u64| {
                    (extended::PAGE_SIZE..extended::ENTRIES_OFFSET).contains(&offset)
                };
                is(|name| name == FileName::Meta) && !(writes.len() == 1 && is_slot(&writes[0]))
            }
        }
    }
}

/// A directory in memory that logs what changes it. Clones share everything.
#[derive(Clone, Debug)]
pub struct RecordingDirectory {
    files: MemoryDirectory,
    log: Rc<RefCell<Log>>,
}

impl RecordingDirectory {
    /// A directory that holds what a running system reads from a disk, with
    /// the disk's numbers of its files.
    pub fn over(disk: &Disk, sabotage: Option<Sabotage>) -> Self {
        let (names, inodes) = (disk.names(), disk.inodes());
        let log = Log { names, inodes, sabotage, ..Log::default() };
        Self { files: disk.image(&Loss::new()).directory(), log: Rc::new(RefCell::new(log)) }
    }

    /// How many changes were logged.
    pub fn position(&self) -> usize {
        self.log.borrow().changes.len()
    }

    /// The changes so far.
    pub fn changes(&self) -> Vec<Change> {
        self.log.borrow().changes.clone()
    }

    fn file(&self, name: FileName, file: MemoryFile) -> io::Result<RecordingFile> {
        let inode = *self.log.borrow().names.get(&name).ok_or(io::ErrorKind::NotFound)?;
        Ok(RecordingFile { file, inode, log: Rc::clone(&self.log) })
    }
}

impl Directory for RecordingDirectory {
    type File = RecordingFile;

    fn open(&self, name: FileName, access: Access) -> io::Result<RecordingFile> {
        self.file(name, self.files.open(name, access)?)
    }

    fn create(&self, name: FileName) -> io::Result<RecordingFile> {
        let mut log = self.log.borrow_mut();
        match log.names.get(&name).copied() {
            Some(inode) => log.changes.push(Change::SetSize(inode, 0)),
            None => {
                let inode = log.inodes;
                log.inodes += 1;
                log.names.insert(name, inode);
                log.changes.push(Change::Create(name, inode));
            }
        }
        drop(log);
        self.file(name, self.files.create(name)?)
    }

    fn rename(&self, from: FileName, to: FileName) -> io::Result<()> {
        self.files.rename(from, to)?;
        let mut log = self.log.borrow_mut();
        if let Some(inode) = log.names.remove(&from) {
            log.names.insert(to, inode);
        }
        log.changes.push(Change::Rename(from, to));
        Ok(())
    }

    fn remove(&self, name: FileName) -> io::Result<()> {
        self.files.remove(name)?;
        let mut log = self.log.borrow_mut();
        log.names.remove(&name);
        log.changes.push(Change::Remove(name));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut log = self.log.borrow_mut();
        if log.sabotage != Some(Sabotage::Names) {
            log.changes.push(Change::SyncNames);
        }
        Ok(())
    }
}

/// A file of a [`RecordingDirectory`].
#[derive(Debug)]
pub struct RecordingFile {
    file: MemoryFile,
    inode: Inode,
    log: Rc<RefCell<Log>>,
}

impl File for RecordingFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read(buffer, offset)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.log.borrow_mut().write(self.inode, bytes, offset);
        self.file.write(bytes, offset)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.log.borrow_mut().changes.push(Change::SetSize(self.inode, size));
        self.file.set_size(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.log.borrow_mut().sync_file(self.inode);
        Ok(())
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(name, inode) => write!(f, "create {name} as file {inode}"),
            Self::Rename(from, to) => write!(f, "rename {from} to {to}"),
            Self::Remove(name) => write!(f, "remove {name}"),
            Self::SyncNames => write!(f, "sync the directory"),
            Self::Write(inode, offset, bytes) => {
                write!(f, "write {} bytes at {offset} of file {inode}", bytes.len())
            }
            Self::SetSize(inode, size) => write!(f, "size of file {inode} becomes {size}"),
            Self::SyncFile(inode) => write!(f, "sync file {inode}"),
        }
    }
}
