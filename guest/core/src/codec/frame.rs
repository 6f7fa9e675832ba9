//! The outside of a zstd frame (RFC 8878, section 3.1.1): its header, and
//! where its blocks end.
//!
//! Both backends pass every frame through [`check`] before they decode it, so
//! they agree on what a frame is, and a hostile one is refused before a codec
//! allocates anything for it.

use super::CodecError;

/// How every zstd frame begins.
pub const MAGIC: u32 = 0xFD2F_B528;
/// How every zstd dictionary begins.
pub const DICTIONARY_MAGIC: u32 = 0xEC30_A437;
/// Sixteen numbers from here on begin skippable frames, which hold no data.
pub const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
/// The longest frame header: magic, descriptor, window, dictionary id, size.
pub const HEADER_LEN_MAX: usize = 4 + 1 + 1 + 4 + 8;
/// The most bytes a block may have, stored or decoded.
pub const BLOCK_SIZE_MAX: usize = 128 << 10;
/// The largest window of a frame, as a power of two: libzstd's limit.
pub const WINDOW_LOG_MAX: u8 = 31;

const MAGIC_LEN: usize = 4;
const BLOCK_HEADER_LEN: usize = 3;
const CHECKSUM_LEN: usize = 4;
/// Bits of the descriptor byte.
const SINGLE_SEGMENT: u8 = 1 << 5;
const RESERVED: u8 = 1 << 3;
const CHECKSUM: u8 = 1 << 2;
/// A content size in two bytes is stored less this much.
const TWO_BYTE_SIZE_OFFSET: u64 = 256;

/// What the header of a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// How many bytes the frame decodes to, if it says so.
    pub content_size: Option<u64>,
    /// How far back a match may reach, in bytes.
    pub window_size: u64,
    /// True when the window is the whole content.
    pub single_segment: bool,
    /// The dictionary needed; a written 0 means none.
    pub dictionary_id: Option<u32>,
    /// True when 4 bytes of XXH64 over the content follow the last block.
    pub checksum: bool,
    /// The length of the header in bytes, magic included.
    pub len: usize,
}

impl FrameHeader {
    /// Parses the header at the beginning of `src`.
    ///
    /// # Errors
    ///
    /// [`CodecError::Corrupt`] for anything but one frame of data: a missing
    /// magic number, a skippable frame, a reserved bit, a window past
    /// [`WINDOW_LOG_MAX`], or too few bytes.
    pub fn parse(src: &[u8]) -> Result<Self, CodecError> {
        let mut cursor = Cursor { rest: src };
        let magic = cursor.uint(MAGIC_LEN)?;
        if magic != u64::from(MAGIC) {
            return Err(wrong_magic(magic));
        }
        let [descriptor] = cursor.bytes()?;
        if descriptor & RESERVED != 0 {
            return corrupt("the zstd frame sets a reserved bit".into());
        }
        let single_segment = descriptor & SINGLE_SEGMENT != 0;
        let window = if single_segment { None } else { Some(window_size(cursor.bytes()?)?) };
        let dictionary_id = match descriptor & 3 {
            0 => 0,
            width => cursor.uint(1 << (width - 1))?,
        };
        let content_size = match (descriptor >> 6, single_segment) {
            (0, false) => None,
            (0, true) => Some(cursor.uint(1)?),
            (1, _) => Some(cursor.uint(2)? + TWO_BYTE_SIZE_OFFSET),
            (2, _) => Some(cursor.uint(4)?),
            _ => Some(cursor.uint(8)?),
        };
        Ok(Self {
            content_size,
            // A single segment always has a content size, which is its window.
            window_size: window.or(content_size).unwrap_or(0),
            single_segment,
            dictionary_id: u32::try_from(dictionary_id).ok().filter(|id| *id != 0),
            checksum: descriptor & CHECKSUM != 0,
            len: src.len() - cursor.rest.len(),
        })
    }
}

/// Parses the only frame in `src` and walks its blocks, which must end where
/// `src` ends.
///
/// # Errors
///
/// [`CodecError::Corrupt`] as [`FrameHeader::parse`], and for a block of a
/// reserved type, one larger than [`BLOCK_SIZE_MAX`], missing bytes, bytes
/// behind the frame, or a content size that its blocks cannot decode to: so
/// three stored bytes declare at most [`BLOCK_SIZE_MAX`].
pub fn parse(src: &[u8]) -> Result<FrameHeader, CodecError> {
    let header = FrameHeader::parse(src)?;
    let mut cursor = Cursor { rest: src.get(header.len..).unwrap_or_default() };
    let mut content_max = 0_u64;
    loop {
        let [low, middle, high] = cursor.bytes::<BLOCK_HEADER_LEN>()?;
        let block = u32::from_le_bytes([low, middle, high, 0]);
        let size = usize::try_from(block >> 3).unwrap_or(usize::MAX);
        if size > BLOCK_SIZE_MAX {
            return corrupt(format!("a zstd block of {size} bytes; the limit is {BLOCK_SIZE_MAX}"));
        }
        let (stored, decoded_max) = match (block >> 1) & 3 {
            0 => (size, size),
            1 => (1, size),
            2 => (size, BLOCK_SIZE_MAX),
            _ => return corrupt("a zstd block of the reserved type".into()),
        };
        cursor.skip(stored)?;
        content_max += decoded_max as u64;
        if block & 1 == 1 {
            break;
        }
    }
    if header.checksum {
        cursor.skip(CHECKSUM_LEN)?;
    }
    if let Some(size) = header.content_size.filter(|size| *size > content_max) {
        return corrupt(format!(
            "the zstd frame declares {size} bytes, its blocks hold at most {content_max}"
        ));
    }
    match cursor.rest.len() {
        0 => Ok(header),
        rest => corrupt(format!("{rest} bytes follow the zstd frame")),
    }
}

/// Checks that `src` is one frame which declares `len` bytes and needs exactly
/// the dictionary that is given, named by its id.
///
/// # Errors
///
/// [`CodecError::Corrupt`], saying what the frame declares and what was
/// expected.
pub fn check(src: &[u8], dictionary: Option<u32>, len: usize) -> Result<FrameHeader, CodecError> {
    let header = parse(src)?;
    match header.content_size {
        Some(size) if usize::try_from(size) == Ok(len) => {}
        Some(size) => {
            return corrupt(format!("the zstd frame declares {size} bytes, the record has {len}"));
        }
        None => {
            return corrupt(format!(
                "the zstd frame does not declare its size; the record has {len} bytes"
            ));
        }
    }
    match (header.dictionary_id, dictionary) {
        (needed, given) if needed == given => Ok(header),
        (Some(needed), Some(given)) => corrupt(format!(
            "the zstd frame needs dictionary id {needed}; the one given has id {given}"
        )),
        (Some(needed), None) => corrupt(format!(
            "the zstd frame needs a dictionary (id {needed}), but none belongs to the record"
        )),
        (None, given) => corrupt(format!(
            "the zstd frame names no dictionary; the record's has id {}",
            given.unwrap_or(0)
        )),
    }
}

/// The header of a single-segment frame that decodes to `content_size` bytes,
/// and its length: what `header` says otherwise is kept.
pub fn single_segment(header: &FrameHeader, content_size: u64) -> ([u8; HEADER_LEN_MAX], usize) {
    let (size_flag, size_len, size) = match content_size {
        0..TWO_BYTE_SIZE_OFFSET => (0, 1, content_size),
        TWO_BYTE_SIZE_OFFSET..0x1_0100 => (1, 2, content_size - TWO_BYTE_SIZE_OFFSET),
        0x1_0100..0x1_0000_0000 => (2, 4, content_size),
        _ => (3, 8, content_size),
    };
    let (id_flag, id_len) = match header.dictionary_id.unwrap_or(0) {
        0 => (0, 0),
        1..=0xFF => (1, 1),
        0x100..=0xFFFF => (2, 2),
        _ => (3, 4),
    };
    let checksum = if header.checksum { CHECKSUM } else { 0 };
    let descriptor = size_flag << 6 | SINGLE_SEGMENT | checksum | id_flag;

    let mut bytes = [0; HEADER_LEN_MAX];
    let mut end = 0;
    for (field, len) in [
        (u64::from(MAGIC), MAGIC_LEN),
        (u64::from(descriptor), 1),
        (u64::from(header.dictionary_id.unwrap_or(0)), id_len),
        (size, size_len),
    ] {
        bytes[end..end + len].copy_from_slice(&field.to_le_bytes()[..len]);
        end += len;
    }
    (bytes, end)
}

/// Copies `frame` into `dst` as a single-segment frame that declares
/// `content_size`. Returns its length, or `None` when it does not fit.
///
/// The blocks stay as they are: a window that spans the content only allows
/// more than the one it replaces.
///
/// # Errors
///
/// [`CodecError::Corrupt`] when `frame` is no frame or declares another size.
pub fn with_content_size(
    frame: &[u8],
    content_size: u64,
    dst: &mut [u8],
) -> Result<Option<usize>, CodecError> {
    let header = FrameHeader::parse(frame)?;
    if let Some(declared) = header.content_size.filter(|size| *size != content_size) {
        return corrupt(format!("the zstd frame declares {declared} bytes, not {content_size}"));
    }
    let (bytes, len) = single_segment(&header, content_size);
    let blocks = frame.get(header.len..).unwrap_or_default();
    let total = len + blocks.len();
    let Some(dst) = dst.get_mut(..total) else { return Ok(None) };
    dst[..len].copy_from_slice(&bytes[..len]);
    dst[len..].copy_from_slice(blocks);
    Ok(Some(total))
}

/// The id of a zstd dictionary, which is never 0.
///
/// # Errors
///
/// [`CodecError::Corrupt`] when `bytes` are no zstd dictionary: raw content
/// would be taken as one by libzstd and decode wrongly.
pub fn dictionary_id(bytes: &[u8]) -> Result<u32, CodecError> {
    let mut cursor = Cursor { rest: bytes };
    let (Ok(magic), Ok(id)) = (cursor.bytes(), cursor.bytes()) else {
        return corrupt(format!("a zstd dictionary cannot have {} bytes", bytes.len()));
    };
    let (magic, id) = (u32::from_le_bytes(magic), u32::from_le_bytes(id));
    if magic != DICTIONARY_MAGIC {
        return corrupt(format!(
            "not a zstd dictionary: it begins with {magic:08x}, not {DICTIONARY_MAGIC:08x}"
        ));
    }
    if id == 0 {
        return corrupt("the zstd dictionary has id 0, so no frame can name it".into());
    }
    Ok(id)
}

fn window_size([byte]: [u8; 1]) -> Result<u64, CodecError> {
    let log = 10 + (byte >> 3);
    if log > WINDOW_LOG_MAX {
        return corrupt(format!(
            "the zstd frame needs a window of 2^{log} bytes; the limit is 2^{WINDOW_LOG_MAX}"
        ));
    }
    let base = 1_u64 << log;
    Ok(base + base / 8 * u64::from(byte & 7))
}

fn wrong_magic(magic: u64) -> CodecError {
    let skippable = u64::from(SKIPPABLE_MAGIC)..u64::from(SKIPPABLE_MAGIC) + 16;
    CodecError::Corrupt(if skippable.contains(&magic) {
        "a skippable zstd frame, which holds no data".into()
    } else {
        format!("not a zstd frame: it begins with {magic:08x}, not {MAGIC:08x}")
    })
}

fn corrupt<T>(reason: String) -> Result<T, CodecError> {
    Err(CodecError::Corrupt(reason))
}

/// What is left of a frame.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], CodecError> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return corrupt(format!(
                "the zstd frame ends too early: {len} more bytes wanted, {} found",
                self.rest.len()
            ));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn skip(&mut self, len: usize) -> Result<(), CodecError> {
        self.take(len).map(drop)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    /// A little-endian number of at most 8 bytes.
    fn uint(&mut self, len: usize) -> Result<u64, CodecError> {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(self.take(len)?);
        Ok(u64::from_le_bytes(bytes))
    }
}
