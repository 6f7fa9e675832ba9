//! The extended format: checksums, lifted limits, growing files, and commits
//! that a loss of power cannot tear.

use twox_hash::XxHash3_64;

use super::{Commit, RecordLocation, Tail, u16_at, u32_at, u64_at};
use crate::codec::Codec;

/// The first four bytes of `meta.zr`.
pub const MAGIC: [u8; 4] = *b"ZRX1";
/// The newest version that this code reads and the one it writes.
pub const VERSION: u32 = 1;

/// Three pages make the header; no page is written by two kinds of write.
pub const PAGE_SIZE: u64 = 4096;
/// Where the record table begins.
pub const ENTRIES_OFFSET: u64 = 3 * PAGE_SIZE;

const VERSION_OFFSET: usize = MAGIC.len();
const FLAGS_OFFSET: usize = VERSION_OFFSET + 4;
const RESERVED_OFFSET: usize = FLAGS_OFFSET + 4;
const STORE_ID_OFFSET: usize = RESERVED_OFFSET + 4;
const IDENTITY_CHECKSUM_OFFSET: usize = STORE_ID_OFFSET + 16;
/// How many bytes of page 0 are written at creation and never change.
pub const IDENTITY_SIZE: usize = IDENTITY_CHECKSUM_OFFSET + 8;
/// Where in page 0 the array of dictionary hashes begins.
pub const DICTIONARY_HASHES_OFFSET: u64 = PAGE_SIZE / 2;
/// The most dictionaries a store has.
pub const DICTIONARIES_MAX: u32 = 256;

/// No writer gets here; a forged slot must not make the next one overflow.
const SEQUENCE_MAX: u64 = u64::MAX >> 1;
/// A writer takes over no store past this: the slots that it writes must be
/// ones that are read.
pub const SEQUENCE_WRITABLE_MAX: u64 = SEQUENCE_MAX >> 1;

/// The size of a commit slot in bytes; it lies within one 512-byte sector.
pub const SLOT_SIZE: usize = SLOT_CHECKSUM + 8;
/// Where in a slot its sequence lies: the word by which readers follow a writer.
pub const SLOT_SEQUENCE: usize = 0;
const SLOT_LENGTH: usize = SLOT_SEQUENCE + 8;
const SLOT_DURABLE_LENGTH: usize = SLOT_LENGTH + 8;
const SLOT_GENERATION: usize = SLOT_DURABLE_LENGTH + 8;
const SLOT_UNSYNCED_HASH: usize = SLOT_GENERATION + 8;
const SLOT_SCHEMA_HASH: usize = SLOT_UNSYNCED_HASH + 8;
const SLOT_LIVE_STORED: usize = SLOT_SCHEMA_HASH + 8;
const SLOT_LIVE_LEN: usize = SLOT_LIVE_STORED + 8;
const SLOT_TAIL_CHUNK: usize = SLOT_LIVE_LEN + 8;
const SLOT_TAIL_OFFSET: usize = SLOT_TAIL_CHUNK + 4;
const SLOT_DURABLE_TAIL_CHUNK: usize = SLOT_TAIL_OFFSET + 4;
const SLOT_DURABLE_TAIL_OFFSET: usize = SLOT_DURABLE_TAIL_CHUNK + 4;
const SLOT_STRIDE: usize = SLOT_DURABLE_TAIL_OFFSET + 4;
const SLOT_DICTIONARIES: usize = SLOT_STRIDE + 4;
const SLOT_CHECKSUM: usize = SLOT_DICTIONARIES + 4;

/// The size of one entry in bytes.
pub const ENTRY_SIZE: usize = 24;
const ENTRY_OFFSET: usize = 0;
const ENTRY_STORED_LEN: usize = ENTRY_OFFSET + 4;
const ENTRY_LEN: usize = ENTRY_STORED_LEN + 4;
const ENTRY_CHECKSUM: usize = ENTRY_LEN + 4;
const ENTRY_CHUNK: usize = ENTRY_CHECKSUM + 4;
const ENTRY_CODEC: usize = ENTRY_CHUNK + 4;
const ENTRY_DICTIONARY: usize = ENTRY_CODEC + 1;
const ENTRY_RESERVED: usize = ENTRY_DICTIONARY + 1;

/// The most records a store holds: its table still has an offset of 63 bits.
pub const LENGTH_MAX: u64 = (i64::MAX as u64 - ENTRIES_OFFSET) / ENTRY_SIZE as u64;
/// The most bytes a record has.
pub const RECORD_LEN_MAX: u64 = u32::MAX as u64;

const _: () = assert!(ENTRY_RESERVED + 2 == ENTRY_SIZE);
const _: () = assert!(SLOT_SIZE == 96 && SLOT_SIZE <= 512);
const _: () = assert!(IDENTITY_SIZE as u64 <= DICTIONARY_HASHES_OFFSET);
const _: () = assert!(DICTIONARY_HASHES_OFFSET + DICTIONARIES_MAX as u64 * 8 == PAGE_SIZE);

/// XXH3-64 of nothing: the `unsynced_hash` of a clean commit.
pub const EMPTY_HASH: u64 = 0x2d06_8005_38d3_94c2;

/// Which store this is: drawn once, at creation.
pub type StoreId = [u8; 16];

/// The part of page 0 that is written at creation.
pub fn encode_identity(id: &StoreId) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(IDENTITY_SIZE);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(id);
    bytes.extend_from_slice(&XxHash3_64::oneshot(&bytes).to_le_bytes());
    bytes
}

/// Reads the identity from page 0, whose magic was recognised.
///
/// # Errors
///
/// What is wrong with it, as text.
pub fn decode_identity(page: &[u8]) -> Result<StoreId, String> {
    let version = u32_at(page, VERSION_OFFSET);
    if !identity_holds(page) {
        let expected = u64_at(page, IDENTITY_CHECKSUM_OFFSET);
        let found = XxHash3_64::oneshot(&page[..IDENTITY_CHECKSUM_OFFSET]);
        return Err(format!(
            "the checksum of its first page is {found:016x}, expected {expected:016x}"
        ));
    }
    let flags = u32_at(page, FLAGS_OFFSET);
    let reserved = u32_at(page, RESERVED_OFFSET);
    if version != VERSION || flags != 0 || reserved != 0 {
        return Err(format!(
            "version {version} with flags {flags:#x} is newer than this reader, which knows {VERSION}"
        ));
    }
    Ok(store_id(page))
}

/// Whether the checksum of page 0 is that of its bytes.
pub(crate) fn identity_holds(page: &[u8]) -> bool {
    let found = XxHash3_64::oneshot(&page[..IDENTITY_CHECKSUM_OFFSET]);
    u64_at(page, IDENTITY_CHECKSUM_OFFSET) == found
}

/// The id in page 0, whether or not its checksum holds.
pub(crate) fn store_id(page: &[u8]) -> StoreId {
    let mut id = [0; 16];
    id.copy_from_slice(&page[STORE_ID_OFFSET..IDENTITY_CHECKSUM_OFFSET]);
    id
}

/// Where in `meta.zr` the hash of a dictionary lies.
pub fn dictionary_hash_offset(dictionary: u8) -> u64 {
    DICTIONARY_HASHES_OFFSET + 8 * u64::from(dictionary)
}

/// The hash of a dictionary or schema file. Never 0, which means "none".
pub fn file_hash(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes).max(1)
}

/// Where in `meta.zr` the slot of that sequence lies: commits alternate, so
/// one never overwrites the one before it.
pub fn slot_offset(sequence: u64) -> u64 {
    PAGE_SIZE * (1 + (sequence & 1))
}

/// A commit slot.
pub fn encode_slot(commit: &Commit, id: &StoreId) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SLOT_SIZE);
    for field in [
        commit.sequence,
        commit.length,
        commit.durable_length,
        commit.generation,
        commit.unsynced_hash,
        commit.schema_hash,
        commit.live_stored,
        commit.live_len,
    ] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    for field in [
        commit.tail.chunk,
        commit.tail.offset,
        commit.durable_tail.chunk,
        commit.durable_tail.offset,
        commit.stride,
        commit.dictionaries,
    ] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(&slot_checksum(&bytes, id).to_le_bytes());
    bytes
}

/// Reads a commit slot; `None` when its checksum does not hold or it says
/// what no writer says.
pub fn decode_slot(bytes: &[u8], id: &StoreId) -> Option<Commit> {
    let expected = u64_at(bytes, SLOT_CHECKSUM);
    if slot_checksum(&bytes[..SLOT_CHECKSUM], id) != expected {
        return None;
    }
    let commit = Commit {
        sequence: u64_at(bytes, SLOT_SEQUENCE),
        length: u64_at(bytes, SLOT_LENGTH),
        durable_length: u64_at(bytes, SLOT_DURABLE_LENGTH),
        generation: u64_at(bytes, SLOT_GENERATION),
        unsynced_hash: u64_at(bytes, SLOT_UNSYNCED_HASH),
        schema_hash: u64_at(bytes, SLOT_SCHEMA_HASH),
        live_stored: u64_at(bytes, SLOT_LIVE_STORED),
        live_len: u64_at(bytes, SLOT_LIVE_LEN),
        tail: tail_at(bytes, SLOT_TAIL_CHUNK),
        durable_tail: tail_at(bytes, SLOT_DURABLE_TAIL_CHUNK),
        stride: u32_at(bytes, SLOT_STRIDE),
        dictionaries: u32_at(bytes, SLOT_DICTIONARIES),
    };
    let possible = commit.durable_length <= commit.length
        && commit.length <= LENGTH_MAX
        && commit.dictionaries <= DICTIONARIES_MAX
        && commit.sequence <= SEQUENCE_MAX;
    possible.then_some(commit)
}

fn tail_at(bytes: &[u8], offset: usize) -> Tail {
    Tail { chunk: u32_at(bytes, offset), offset: u32_at(bytes, offset + 4) }
}

/// Seeded from the store's id, so that a slot of another store is no slot.
fn slot_checksum(bytes: &[u8], id: &StoreId) -> u64 {
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(id), bytes)
}

pub(super) fn encode_entry(location: &RecordLocation, bytes: &mut Vec<u8>) {
    for field in [
        location.offset,
        location.stored_len,
        location.len,
        location.checksum.unwrap_or(0),
        location.chunk,
    ] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(&[location.codec.number(), location.dictionary, 0, 0]);
}

pub(super) fn decode_entry(bytes: &[u8]) -> Result<RecordLocation, String> {
    let codec = bytes[ENTRY_CODEC];
    let location = RecordLocation {
        chunk: u32_at(bytes, ENTRY_CHUNK),
        offset: u32_at(bytes, ENTRY_OFFSET),
        stored_len: u32_at(bytes, ENTRY_STORED_LEN),
        len: u32_at(bytes, ENTRY_LEN),
        codec: Codec::from_number(codec).ok_or_else(|| format!("unknown codec {codec}"))?,
        dictionary: bytes[ENTRY_DICTIONARY],
        checksum: Some(u32_at(bytes, ENTRY_CHECKSUM)),
    };
    let reserved = u16_at(bytes, ENTRY_RESERVED);
    if reserved != 0 {
        return Err(format!("its reserved bytes are {reserved:#06x}, expected 0"));
    }
    if location.codec != Codec::ZstdDict && location.dictionary != 0 {
        return Err(format!("codec {} with dictionary {}", location.codec, location.dictionary));
    }
    super::check_lengths(&location)?;
    Ok(location)
}
