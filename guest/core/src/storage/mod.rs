//! The seam to whoever holds the files: a directory that opens, creates,
//! renames and removes files by fixed names, and files with positional IO.
//!
//! The WIT interfaces `files` and `files-edit` mirror these traits. They are
//! implemented by the native host over the file system, by [`memory`] for
//! tests, and by the component over its imports.

use std::fmt;
use std::io;

use crate::memory::zeroed;

pub mod memory;

/// The name of a file of a store. No name inside a store is ever turned into
/// a path: these are all there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// `meta.zr`: header and record table.
    Meta,
    /// `meta.zr.new`: the next `meta.zr`, before it is renamed over it.
    MetaNew,
    /// `schema.msgpack`.
    Schema,
    /// `schema.msgpack.new`.
    SchemaNew,
    /// `0.zr`, `1.zr`, ...: stored bytes of records.
    Chunk(u32),
    /// `dict.zr`, `dict.1.zr`, ...: dictionaries.
    Dictionary(u8),
    /// A dictionary before it is renamed into place.
    DictionaryNew(u8),
    /// `lock.zr`: empty; the writer holds a lock on it.
    Lock,
}

impl FileName {
    /// The file of a store that has this name; `None` for every other name.
    pub fn parse(name: &str) -> Option<Self> {
        let fixed =
            [Self::Meta, Self::MetaNew, Self::Schema, Self::SchemaNew, Self::Lock].into_iter();
        let chunk = || name.strip_suffix(".zr")?.parse().ok().map(Self::Chunk);
        let dictionaries = (0..=u8::MAX)
            .flat_map(|number| [Self::Dictionary(number), Self::DictionaryNew(number)]);
        // Only as this project writes it: no sign, no zero in front.
        fixed.chain(chunk()).chain(dictionaries).find(|file| file.to_string() == name)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meta => f.write_str("meta.zr"),
            Self::MetaNew => f.write_str("meta.zr.new"),
            Self::Schema => f.write_str("schema.msgpack"),
            Self::SchemaNew => f.write_str("schema.msgpack.new"),
            Self::Chunk(chunk) => write!(f, "{chunk}.zr"),
            Self::Dictionary(0) => f.write_str("dict.zr"),
            Self::Dictionary(number) => write!(f, "dict.{number}.zr"),
            Self::DictionaryNew(0) => f.write_str("dict.zr.new"),
            Self::DictionaryNew(number) => write!(f, "dict.{number}.zr.new"),
            Self::Lock => f.write_str("lock.zr"),
        }
    }
}

/// What an opened file will be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; works on read-only media.
    Read,
    /// Reading and writing.
    Write,
}

/// The directory of one store.
pub trait Directory {
    /// Its files.
    type File: File;

    /// Opens an existing file.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] when there is none.
    fn open(&self, name: FileName, access: Access) -> io::Result<Self::File>;

    /// Creates an empty file for reading and writing; one that exists is
    /// emptied.
    fn create(&self, name: FileName) -> io::Result<Self::File>;

    /// Gives a file another name at once; a file that has it is replaced.
    fn rename(&self, from: FileName, to: FileName) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: FileName) -> io::Result<()>;

    /// Makes creations, renames and removals so far survive a loss of power.
    fn sync(&self) -> io::Result<()>;
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub len: u64,
}

/// The bytes of all spans.
pub fn total_len(spans: &[Span]) -> u64 {
    spans.iter().fold(0, |sum, span| sum.saturating_add(span.len))
}

/// One file, read and written by position.
pub trait File {
    /// Its size in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Reads from `offset` until `buffer` is full or the file ends; returns
    /// how many bytes were read.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads many spans, packed one behind the other into `buffer`, which has
    /// exactly their total length. Returns how many bytes were read before the
    /// first span that the file is too short for.
    fn read_many(&self, spans: &[Span], buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        for span in spans {
            let len = usize::try_from(span.len).map_err(io::Error::other)?;
            let read = self.read(&mut buffer[filled..filled + len], span.offset)?;
            filled += read;
            if read < len {
                break;
            }
        }
        Ok(filled)
    }

    /// As [`read_many`](Self::read_many), into memory of its own, which storage
    /// that hands out lists need not copy into. Fewer bytes are returned where
    /// fewer were read.
    fn read_list(&self, spans: &[Span]) -> io::Result<Vec<u8>> {
        let mut bytes = zeroed(total_len(spans))?;
        let read = self.read_many(spans, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Writes all of `bytes` at `offset`, growing the file as needed.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts or grows the file; new bytes are zero.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Makes the file's bytes and size survive a loss of power.
    fn sync(&self) -> io::Result<()>;
}
