//! What can go wrong with a store, one variant per kind a caller can act on.

use std::io;

use crate::storage::FileName;

/// The result of every operation on a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory holds no store, or something else under its names.
    #[error("not a zrecord store: {reason}")]
    NotAStore {
        /// What was looked for and what was there instead.
        reason: String,
    },
    /// A new store was asked for where one exists.
    #[error("a store already exists here")]
    AlreadyExists,
    /// The store, or the request, needs something that this build or this
    /// format does not have.
    #[error("unsupported: {what}")]
    Unsupported {
        /// What is needed, and who has it.
        what: String,
    },
    /// A file of the store contradicts itself or its format.
    #[error("{file} is corrupt: {reason}")]
    Corrupt {
        /// The file at fault.
        file: FileName,
        /// What was found and what was expected.
        reason: String,
    },
    /// A record's place, frame or length is impossible.
    #[error("record {index} is corrupt ({file} at {offset}): {reason}")]
    CorruptRecord {
        /// The record's index.
        index: u64,
        /// The file that holds its stored bytes.
        file: FileName,
        /// Where they begin in that file, in bytes.
        offset: u64,
        /// What was found and what was expected.
        reason: String,
    },
    /// Stored bytes differ from the ones that were written.
    #[error(
        "record {index} is corrupt: checksum mismatch in {file} at {offset}: \
         expected {expected:08x}, found {found:08x}"
    )]
    Checksum {
        /// The record's index.
        index: u64,
        /// The chunk file that holds it.
        file: FileName,
        /// Where its stored bytes begin in that file, in bytes.
        offset: u64,
        /// The checksum in the record table.
        expected: u32,
        /// The checksum of the bytes that are there.
        found: u32,
    },
    /// An index past the end of the store.
    #[error("index {index} is out of range for a store of {length} records")]
    OutOfRange {
        /// The index asked for.
        index: u64,
        /// How many records there are.
        length: u64,
    },
    /// A record longer than its format allows.
    #[error("record {index} of the batch has {len} bytes; the limit is {limit}")]
    TooLarge {
        /// The record's position in the batch that was handed in.
        index: u64,
        /// Its length in bytes.
        len: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The format's limit on records or chunks is reached.
    #[error("the store is full: {reason}")]
    Full {
        /// Which limit, and its value.
        reason: String,
    },
    /// Another handle holds what this operation needs.
    #[error("the store is busy: {reason}")]
    Busy {
        /// Which lock, and who may hold it.
        reason: String,
    },
    /// The destination of a gather cannot take what was asked for.
    #[error(
        "the destination is too small: record {index} of the batch needs bytes {start}..{end}, it has {size}"
    )]
    BufferTooSmall {
        /// The record's position in the batch.
        index: u64,
        /// Where the record begins in the destination, in bytes.
        start: u64,
        /// Where it would end.
        end: u64,
        /// The size of the destination in bytes.
        size: u64,
    },
    /// An argument that can never be right.
    #[error("{argument}: {reason}")]
    InvalidArgument {
        /// The argument at fault.
        argument: &'static str,
        /// What it must be.
        reason: String,
    },
    /// Records that do not fit the store's schema.
    #[error("the schema does not fit: {reason}")]
    SchemaMismatch {
        /// What the store holds and what came.
        reason: String,
    },
    /// Training a dictionary failed.
    #[error("dictionary training failed: {reason}")]
    Training {
        /// What libzstd said, and what usually helps.
        reason: String,
    },
    /// The handle cannot write.
    #[error("the store was opened for reading")]
    ReadOnly,
    /// The handle was closed.
    #[error("the store is closed")]
    Closed,
    /// An earlier sync failed, so what the disk holds is unknown; the handle
    /// reads, but does not write again.
    #[error("an earlier sync of this handle failed; reopen the store to write")]
    Poisoned,
    /// The operating system refused.
    #[error("{file}: {source}")]
    Io {
        /// The file at hand.
        file: FileName,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// An IO error of `file`, for `map_err`.
    pub fn io(file: FileName) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { file, source }
    }

    pub(crate) fn corrupt(file: FileName, reason: impl Into<String>) -> Self {
        Self::Corrupt { file, reason: reason.into() }
    }

    /// True for what `verify` reports as a fault of the store rather than of
    /// the caller or the system.
    pub fn is_corruption(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::CorruptRecord { .. } | Self::Checksum { .. })
    }
}
