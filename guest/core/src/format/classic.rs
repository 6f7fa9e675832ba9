//! The classic format: what loaderx 0.9 writes and reads, byte for byte.

use super::{Commit, RecordLocation, Tail, u16_at, u32_at};
use crate::codec::Codec;

/// The first four bytes of `meta.zr`.
pub const MAGIC: [u8; 4] = *b"ZREC";
/// The one version there is.
pub const VERSION: u16 = 3;

const VERSION_OFFSET: usize = MAGIC.len();
const TAIL_CHUNK_OFFSET: usize = VERSION_OFFSET + 2;
const TAIL_OFFSET_OFFSET: usize = TAIL_CHUNK_OFFSET + 2;
/// Where the count of records lies: the aligned word by which readers follow a
/// writer.
pub const LENGTH_OFFSET: usize = TAIL_OFFSET_OFFSET + 4;
/// The size of the header in bytes.
pub const HEADER_SIZE: usize = LENGTH_OFFSET + 4;
/// Where a commit writes: all that ever changes lies behind it.
pub const COMMIT_OFFSET: usize = TAIL_CHUNK_OFFSET;

/// Where the record table begins.
pub const ENTRIES_OFFSET: u64 = HEADER_SIZE as u64;
/// The size of one entry in bytes.
pub const ENTRY_SIZE: usize = 16;

const ENTRY_OFFSET: usize = 0;
const ENTRY_STORED_LEN: usize = ENTRY_OFFSET + 4;
const ENTRY_LEN: usize = ENTRY_STORED_LEN + 4;
const ENTRY_CHUNK: usize = ENTRY_LEN + 4;
const ENTRY_CODEC: usize = ENTRY_CHUNK + 2;
const ENTRY_RESERVED: usize = ENTRY_CODEC + 1;

/// The most records a store holds.
pub const LENGTH_MAX: u64 = 1 << 24;
/// The most chunks a store has.
pub const CHUNKS_MAX: u32 = 4096;
/// The most bytes a record has.
pub const RECORD_LEN_MAX: u64 = 1 << 20;
/// The size that loaderx gives `meta.zr`, sparse, and maps.
pub const META_SIZE: u64 = ENTRIES_OFFSET + LENGTH_MAX * ENTRY_SIZE as u64;
/// The size that loaderx gives every chunk file, sparse.
pub const CHUNK_FILE_SIZE: u64 = 1 << 32;

const _: () = assert!(HEADER_SIZE == 16 && META_SIZE == 268_435_472);
const _: () = assert!(ENTRY_RESERVED + 1 == ENTRY_SIZE);

/// The header of a store at `commit`.
pub fn encode_header(commit: &Commit) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_SIZE);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&low_u16(commit.tail.chunk).to_le_bytes());
    bytes.extend_from_slice(&commit.tail.offset.to_le_bytes());
    bytes.extend_from_slice(&low_u32(commit.length).to_le_bytes());
    bytes
}

/// Reads a header of [`HEADER_SIZE`] bytes whose magic was recognised.
///
/// # Errors
///
/// What is wrong with it, as text.
pub fn decode_header(bytes: &[u8]) -> Result<Commit, String> {
    let version = version(bytes);
    if version != VERSION {
        return Err(format!("its version is {version}, only {VERSION} is known"));
    }
    let tail = Tail {
        chunk: u32::from(u16_at(bytes, TAIL_CHUNK_OFFSET)),
        offset: u32_at(bytes, TAIL_OFFSET_OFFSET),
    };
    if tail.chunk >= CHUNKS_MAX {
        return Err(format!("its tail chunk is {}, the limit is {CHUNKS_MAX}", tail.chunk));
    }
    let length = u64::from(u32_at(bytes, LENGTH_OFFSET));
    if length > LENGTH_MAX {
        return Err(format!("it counts {length} records, the limit is {LENGTH_MAX}"));
    }
    Ok(Commit { length, durable_length: length, tail, durable_tail: tail, ..Commit::default() })
}

/// The version that a header says.
pub(crate) fn version(bytes: &[u8]) -> u16 {
    u16_at(bytes, VERSION_OFFSET)
}

pub(super) fn encode_entry(location: &RecordLocation, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&location.offset.to_le_bytes());
    bytes.extend_from_slice(&location.stored_len.to_le_bytes());
    bytes.extend_from_slice(&location.len.to_le_bytes());
    bytes.extend_from_slice(&low_u16(location.chunk).to_le_bytes());
    bytes.extend_from_slice(&[location.codec.number(), 0]);
}

pub(super) fn decode_entry(bytes: &[u8]) -> Result<RecordLocation, String> {
    let codec = bytes[ENTRY_CODEC];
    let location = RecordLocation {
        chunk: u32::from(u16_at(bytes, ENTRY_CHUNK)),
        offset: u32_at(bytes, ENTRY_OFFSET),
        stored_len: u32_at(bytes, ENTRY_STORED_LEN),
        len: u32_at(bytes, ENTRY_LEN),
        codec: Codec::from_number(codec).ok_or_else(|| format!("unknown codec {codec}"))?,
        dictionary: 0,
        checksum: None,
    };
    if location.chunk >= CHUNKS_MAX {
        return Err(format!("chunk {} is past the limit of {CHUNKS_MAX}", location.chunk));
    }
    if u64::from(location.len) > RECORD_LEN_MAX {
        return Err(format!("{} bytes are more than {RECORD_LEN_MAX}", location.len));
    }
    if location.len == 0 {
        return Err("it has no bytes, which no classic record has".into());
    }
    super::check_lengths(&location)?;
    Ok(location)
}

/// Callers keep chunks and lengths below the limits above.
fn low_u16(value: u32) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

fn low_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
