//! Headers, record tables and commit slots as bytes, in two formats that turn
//! into one logical [`RecordLocation`]. `FORMAT.md` beside this crate draws
//! both; every offset here is derived from the one before it.

use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::storage::FileName;

pub mod classic;
pub mod extended;

/// Which of the two formats a store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// What loaderx 0.9 writes and reads.
    Classic,
    /// Checksums, lifted limits, growing files; the default for new stores.
    Extended,
}

impl Format {
    /// Its name in arguments and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Extended => "extended",
        }
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Classic, Self::Extended].into_iter().find(|format| format.name() == name)
    }

    /// The size of one entry of the record table in bytes.
    pub fn entry_size(self) -> u64 {
        match self {
            Self::Classic => classic::ENTRY_SIZE as u64,
            Self::Extended => extended::ENTRY_SIZE as u64,
        }
    }

    /// Where in `meta.zr` the entry of a record begins, in bytes.
    pub fn entry_offset(self, index: u64) -> u64 {
        let start = match self {
            Self::Classic => classic::ENTRIES_OFFSET,
            Self::Extended => extended::ENTRIES_OFFSET,
        };
        start.saturating_add(index.saturating_mul(self.entry_size()))
    }

    /// The most bytes a record may have.
    pub fn record_len_max(self) -> u64 {
        match self {
            Self::Classic => classic::RECORD_LEN_MAX,
            Self::Extended => extended::RECORD_LEN_MAX,
        }
    }

    /// The most records a store may have.
    pub fn length_max(self) -> u64 {
        match self {
            Self::Classic => classic::LENGTH_MAX,
            Self::Extended => extended::LENGTH_MAX,
        }
    }

    /// The most chunks a store may have.
    pub fn chunks_max(self) -> u32 {
        match self {
            Self::Classic => classic::CHUNKS_MAX,
            Self::Extended => u32::MAX,
        }
    }

    /// The most dictionaries a store may have.
    pub fn dictionaries_max(self) -> u32 {
        match self {
            Self::Classic => 1,
            Self::Extended => extended::DICTIONARIES_MAX,
        }
    }

    /// Decodes the entry of record `index`, checking everything that can be
    /// checked without the files.
    ///
    /// # Errors
    ///
    /// [`Error::CorruptRecord`] when no writer of this format writes it.
    pub fn decode_entry(self, bytes: &[u8], index: u64) -> Result<RecordLocation> {
        let decoded = match self {
            Self::Classic => classic::decode_entry(bytes),
            Self::Extended => extended::decode_entry(bytes),
        };
        decoded.map_err(|reason| Error::CorruptRecord {
            index,
            file: FileName::Meta,
            offset: self.entry_offset(index),
            reason,
        })
    }

    /// Appends the entry of a record to `bytes`.
    pub fn encode_entry(self, location: &RecordLocation, bytes: &mut Vec<u8>) {
        match self {
            Self::Classic => classic::encode_entry(location, bytes),
            Self::Extended => extended::encode_entry(location, bytes),
        }
    }
}

/// A chunk holds at most this many bytes, in both formats: an offset has 32
/// bits, and a chunk never fills to its last byte.
pub const CHUNK_SIZE_MAX: u64 = u32::MAX as u64;

/// Where a record lies and how it is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLocation {
    /// The chunk file that holds it.
    pub chunk: u32,
    /// Where its stored bytes begin in the chunk, in bytes.
    pub offset: u32,
    /// How many bytes are stored.
    pub stored_len: u32,
    /// How many bytes the record has as the user sees it.
    pub len: u32,
    /// How the stored bytes become the record's.
    pub codec: Codec,
    /// The number of the dictionary, for [`Codec::ZstdDict`]; else 0.
    pub dictionary: u8,
    /// The checksum of the stored bytes, in a format that has them.
    pub checksum: Option<u32>,
}

impl RecordLocation {
    /// Where its stored bytes end in the chunk.
    pub fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.stored_len)
    }

    /// The chunk file that holds it.
    pub fn file(&self) -> FileName {
        FileName::Chunk(self.chunk)
    }

    /// Whether it has stored bytes in the tail's chunk behind the tail, or in
    /// a later chunk.
    pub fn is_past(&self, tail: Tail) -> bool {
        let end = (self.chunk, self.end());
        self.stored_len > 0 && end > (tail.chunk, u64::from(tail.offset))
    }

    /// Whether this is where a stride promises record `index`: raw, that long,
    /// in index order from offset 0 of `first_chunk` on, chunks filled in turn.
    pub fn is_strided(&self, first_chunk: u32, stride: u32, index: u64) -> bool {
        if stride == 0 || self.codec != Codec::Raw || self.len != stride {
            return false;
        }
        let per_chunk = CHUNK_SIZE_MAX / u64::from(stride);
        u64::from(self.chunk) == u64::from(first_chunk) + index / per_chunk
            && u64::from(self.offset) == index % per_chunk * u64::from(stride)
    }

    /// A corruption of this record, for errors.
    pub fn corrupt(&self, index: u64, reason: impl Into<String>) -> Error {
        Error::CorruptRecord {
            index,
            file: self.file(),
            offset: u64::from(self.offset),
            reason: reason.into(),
        }
    }

    /// Checks stored bytes against the entry's checksum, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Checksum`], naming the record and where it lies.
    pub fn check(&self, index: u64, stored: &[u8]) -> Result<()> {
        let Some(expected) = self.checksum else { return Ok(()) };
        let found = checksum(stored, self.len, self.codec, self.dictionary);
        if found == expected {
            return Ok(());
        }
        Err(Error::Checksum {
            index,
            file: self.file(),
            offset: u64::from(self.offset),
            expected,
            found,
        })
    }

    /// Checks that a frame declares the length that the entry says: before
    /// memory is taken for decoding it, and where nothing else can be checked.
    ///
    /// # Errors
    ///
    /// [`Error::CorruptRecord`], naming both lengths.
    pub fn check_frame(&self, index: u64, stored: &[u8]) -> Result<()> {
        if self.codec == Codec::Raw {
            return Ok(());
        }
        let header = crate::codec::frame::parse(stored)
            .map_err(|error| self.corrupt(index, error.to_string()))?;
        match header.content_size {
            Some(declared) if declared == u64::from(self.len) => Ok(()),
            declared => {
                let reason = format!("its frame declares {declared:?} bytes, not {}", self.len);
                Err(self.corrupt(index, reason))
            }
        }
    }
}

/// The checksum of a record: the low half of XXH3-64 over its stored bytes,
/// seeded with `len`, `codec` and `dictionary`, so that it covers what its
/// entry says too, but not where the record lies: it survives a move.
pub fn checksum(stored: &[u8], len: u32, codec: Codec, dictionary: u8) -> u32 {
    let seed = u64::from(len) | u64::from(codec.number()) << 32 | u64::from(dictionary) << 40;
    let hash = xxh3(seed, stored);
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or(0)
}

/// By the crate that chooses among the vector units of a processor at run time.
#[cfg(not(target_family = "wasm"))]
fn xxh3(seed: u64, bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// By the one that knows the vector unit of WebAssembly: twice as fast there.
#[cfg(target_family = "wasm")]
fn xxh3(seed: u64, bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed)
}

/// The end of the stored bytes: where the next record goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tail {
    /// The chunk being filled.
    pub chunk: u32,
    /// How many of its bytes are used.
    pub offset: u32,
}

/// The state of a store at one commit. In the classic format only `length`,
/// `tail` and `dictionaries` come from the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// Rises with every commit.
    pub sequence: u64,
    /// How many records there are.
    pub length: u64,
    /// How many of them survive a loss of power.
    pub durable_length: u64,
    /// Rises when indices are renumbered: by delete, and by a recovery that
    /// cuts.
    pub generation: u64,
    /// XXH3-64 over the entries `durable_length..length`.
    pub unsynced_hash: u64,
    /// XXH3-64 over `schema.msgpack`; 0 when the store is untyped.
    pub schema_hash: u64,
    /// The sum of `stored_len` over all records.
    pub live_stored: u64,
    /// The sum of `len` over all records.
    pub live_len: u64,
    /// Where the next record goes.
    pub tail: Tail,
    /// The tail at `durable_length`.
    pub durable_tail: Tail,
    /// Not 0: every record is raw, has this length, and they lie in index
    /// order, chunks filled in turn, from offset 0 of the first one's chunk.
    pub stride: u32,
    /// How many dictionaries there are.
    pub dictionaries: u32,
}

impl Commit {
    /// True when everything survives a loss of power.
    pub fn is_clean(&self) -> bool {
        self.durable_length == self.length
    }
}

/// What every entry of either format keeps to.
fn check_lengths(location: &RecordLocation) -> Result<(), String> {
    if location.end() > CHUNK_SIZE_MAX {
        return Err(format!("it ends at byte {}, past the end of any chunk", location.end()));
    }
    let fits = match location.codec {
        Codec::Raw => location.stored_len == location.len,
        // What does not shrink is stored raw, so whoever reads takes no more
        // memory for the stored bytes than for the record.
        Codec::Zstd | Codec::ZstdDict => (1..location.len).contains(&location.stored_len),
    };
    if !fits {
        return Err(format!(
            "{} stored bytes cannot be {} bytes in codec {}",
            location.stored_len, location.len, location.codec
        ));
    }
    Ok(())
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(field(bytes, offset))
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(field(bytes, offset))
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(field(bytes, offset))
}

/// `N` bytes at a constant offset of a header or entry whose size was checked.
fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[offset..offset + N]);
    value
}
