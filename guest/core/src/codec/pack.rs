//! Packing and unpacking one record: the only place that decides between raw
//! and compressed, and that knows what the two mean.
//!
//! A [`Packer`] is made once per append and shared by its threads; each thread
//! has a [`PackEncoder`] and appends stored bytes to an [`Arena`] of its own.
//! After both have warmed up, packing a record allocates nothing. A batch that
//! is stored raw needs neither: [`PackedRecord::raw`] describes the bytes
//! where they are.

use crate::error::{Error, Result};
use crate::format::{Format, RecordLocation, checksum};
use crate::storage::FileName;

use super::{Codec, CodecError, Preset, Zstd};

/// The share of its bytes that a record must save to be stored compressed in
/// an extended store, unless another is asked for: below it, decoding costs
/// ten times what copying does for next to no disk.
pub const MIN_SAVING_DEFAULT: f64 = 0.05;

/// How records are to be packed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PackPolicy {
    /// What to try; a record that it does not shrink is stored raw.
    pub codec: Codec,
    /// The zstd level, or `None` for the backend's own.
    pub level: Option<i32>,
    /// What frames are made for, beside their size.
    pub preset: Option<Preset>,
    /// The share of its bytes, from 0 to below 1, that a record must save or
    /// be stored raw.
    pub min_saving: f64,
}

impl PackPolicy {
    /// The defaults of a format: loaderx compresses whatever shrinks at all.
    pub fn new(codec: Codec, format: Format) -> Self {
        let min_saving = match format {
            Format::Classic => 0.0,
            Format::Extended => MIN_SAVING_DEFAULT,
        };
        Self { codec, level: None, preset: None, min_saving }
    }

    /// Refuses what no record can be packed by.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`], naming `min_saving` or `preset`.
    pub fn check(&self) -> Result<()> {
        let invalid = |argument, reason| Err(Error::InvalidArgument { argument, reason });
        let min_saving = self.min_saving;
        if !(0.0..1.0).contains(&min_saving) {
            let reason = format!("{min_saving} is not a share from 0 to below 1");
            return invalid("min_saving", reason);
        }
        match self.preset {
            Some(preset) if self.codec == Codec::ZstdDict => {
                let reason = format!(
                    "{:?} is for the codec zstd; with a dictionary frames decode no faster by it",
                    preset.name()
                );
                invalid("preset", reason)
            }
            _ => Ok(()),
        }
    }
}

/// A dictionary to pack with.
#[derive(Clone, Copy, Debug)]
pub struct PackDictionary<'a> {
    /// Its number in the store.
    pub number: u8,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// How one record is stored: its entry, but for where it will lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedRecord {
    /// How many bytes are stored.
    pub stored_len: u32,
    /// How many bytes the record has as the user sees it.
    pub len: u32,
    /// How the stored bytes become the record's.
    pub codec: Codec,
    /// The number of the dictionary, for [`Codec::ZstdDict`]; else 0.
    pub dictionary: u8,
    /// The checksum of the stored bytes.
    pub checksum: u32,
}

impl PackedRecord {
    /// A record that is stored as it is, where it is.
    ///
    /// # Errors
    ///
    /// [`CodecError::Unsupported`] when its length has more than 32 bits.
    pub fn raw(record: &[u8]) -> Result<Self, CodecError> {
        let len = record_len(record)?;
        Ok(Self::new(record, len, Codec::Raw, 0))
    }

    fn new(stored: &[u8], len: u32, codec: Codec, dictionary: u8) -> Self {
        // No longer than `len`, which fits.
        let stored_len = u32::try_from(stored.len()).unwrap_or(len);
        Self {
            stored_len,
            len,
            codec,
            dictionary,
            checksum: checksum(stored, len, codec, dictionary),
        }
    }

    /// Its location in a store of `format`, once its place is known.
    pub fn at(&self, chunk: u32, offset: u32, format: Format) -> RecordLocation {
        RecordLocation {
            chunk,
            offset,
            stored_len: self.stored_len,
            len: self.len,
            codec: self.codec,
            dictionary: self.dictionary,
            checksum: match format {
                Format::Classic => None,
                Format::Extended => Some(self.checksum),
            },
        }
    }
}

/// Stored bytes, packed one behind the other. Clearing keeps the memory.
#[derive(Debug, Default)]
pub struct Arena {
    /// As long as it ever was, so that no byte is zeroed twice.
    bytes: Vec<u8>,
    used: usize,
}

impl Arena {
    /// Makes room for `additional` bytes behind the used ones. Stored bytes are
    /// never longer than the records, so the sum of their lengths is always
    /// enough.
    pub fn reserve(&mut self, additional: usize) {
        let wanted = self.used + additional;
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
    }

    /// For how many bytes there is room, the used ones among them.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// The stored bytes so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.used
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// At least `len` bytes behind the used ones.
    fn spare(&mut self, len: usize) -> &mut [u8] {
        let wanted = self.used + len;
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted.max(self.bytes.len() * 2), 0);
        }
        &mut self.bytes[self.used..wanted]
    }
}

/// Packs records by one policy. Shared by threads.
pub struct Packer<Z: Zstd> {
    compression: Option<Compression<Z>>,
    min_saving: f64,
}

struct Compression<Z: Zstd> {
    plan: Z::EncoderPlan,
    codec: Codec,
    dictionary: u8,
}

/// What one thread needs to pack: a context, made when first used.
pub struct PackEncoder<Z: Zstd>(Option<Z::Encoder>);

impl<Z: Zstd> Default for PackEncoder<Z> {
    fn default() -> Self {
        Self(None)
    }
}

impl<Z: Zstd> Packer<Z> {
    /// Prepares packing. `dictionary` must be given for [`Codec::ZstdDict`]
    /// and is ignored for the others.
    ///
    /// # Errors
    ///
    /// Those of [`PackPolicy::check`]; [`Error::InvalidArgument`] for a missing
    /// dictionary, [`Error::Unsupported`] for what the backend cannot encode,
    /// [`Error::Corrupt`] for a dictionary that is none.
    pub fn new(policy: PackPolicy, dictionary: Option<PackDictionary<'_>>) -> Result<Self> {
        policy.check()?;
        let PackPolicy { codec, level, preset, min_saving } = policy;
        let dictionary = match (codec, dictionary) {
            (Codec::Raw, _) => return Ok(Self { compression: None, min_saving }),
            (Codec::Zstd, _) => None,
            (Codec::ZstdDict, Some(dictionary)) => Some(dictionary),
            (Codec::ZstdDict, None) => {
                return Err(Error::InvalidArgument {
                    argument: "codec",
                    reason: "zstd_dict needs a dictionary; the store has none: train one".into(),
                });
            }
        };
        let number = dictionary.map_or(0, |dictionary| dictionary.number);
        let level = level.unwrap_or_else(|| Z::default_level(codec, preset));
        let bytes = dictionary.map(|dictionary| dictionary.bytes);
        let plan = Z::plan(level, preset, bytes).map_err(|error| match error {
            CodecError::Corrupt(reason) => Error::corrupt(FileName::Dictionary(number), reason),
            CodecError::Unsupported(what) | CodecError::Training(what) => {
                Error::Unsupported { what }
            }
        })?;
        Ok(Self { compression: Some(Compression { plan, codec, dictionary: number }), min_saving })
    }

    /// True when every record is stored raw, so that [`PackedRecord::raw`]
    /// does without an arena.
    pub fn is_raw(&self) -> bool {
        self.compression.is_none()
    }

    /// Packs `record` and appends its stored bytes to `arena`.
    ///
    /// # Errors
    ///
    /// [`CodecError::Unsupported`] when the record's length has more than 32
    /// bits or the backend fails; `arena` is as before.
    pub fn pack(
        &self,
        PackEncoder(encoder): &mut PackEncoder<Z>,
        record: &[u8],
        arena: &mut Arena,
    ) -> Result<PackedRecord, CodecError> {
        let len = record_len(record)?;
        let spare = arena.spare(record.len());
        let mut stored = None;
        let limit = stored_len_max(len, self.min_saving);
        if let Some(compression) = self.compression.as_ref().filter(|_| limit > 0) {
            let encoder = match encoder {
                Some(encoder) => encoder,
                none => none.insert(Z::encoder(&compression.plan)?),
            };
            // All of the space, not just the limit: libzstd wants a few bytes
            // more than it writes.
            stored = Z::encode(&compression.plan, encoder, record, spare)?
                .filter(|stored_len| *stored_len <= limit)
                .map(|stored_len| (stored_len, compression.codec, compression.dictionary));
        }
        let (stored_len, codec, dictionary) = stored.unwrap_or((record.len(), Codec::Raw, 0));
        if codec == Codec::Raw {
            spare.copy_from_slice(record);
        }
        let packed = PackedRecord::new(&spare[..stored_len], len, codec, dictionary);
        arena.used += stored_len;
        Ok(packed)
    }
}

/// The most bytes that may be stored of a record for it to be stored
/// compressed: fewer than it has, by at least the share `min_saving`.
fn stored_len_max(len: u32, min_saving: f64) -> usize {
    let saving = (min_saving * f64::from(len)).ceil().max(1.0);
    // A difference of integers from 0 to `len`, all of them exact in f64.
    #[expect(clippy::cast_possible_truncation, reason = "at most `len`, which has 32 bits")]
    #[expect(clippy::cast_sign_loss, reason = "not negative")]
    let stored = (f64::from(len) - saving).max(0.0) as usize;
    stored
}

fn record_len(record: &[u8]) -> Result<u32, CodecError> {
    u32::try_from(record.len()).map_err(|_| {
        CodecError::Unsupported(format!(
            "a record of {} bytes; no format holds more than {}",
            record.len(),
            u32::MAX
        ))
    })
}

/// Decodes stored bytes into exactly `dst`. `dictionary` is only looked at for
/// [`Codec::ZstdDict`].
///
/// # Errors
///
/// [`CodecError::Corrupt`] when the stored bytes do not have or do not decode
/// to `dst.len()` bytes, or need a dictionary that is not there.
pub fn unpack<Z: Zstd>(
    decoder: &mut Z::Decoder,
    dictionary: Option<&Z::Dictionary>,
    codec: Codec,
    stored: &[u8],
    dst: &mut [u8],
) -> Result<(), CodecError> {
    match (codec, dictionary) {
        (Codec::Raw, _) if stored.len() == dst.len() => {
            dst.copy_from_slice(stored);
            Ok(())
        }
        (Codec::Raw, _) => Err(CodecError::Corrupt(format!(
            "{} bytes are stored raw, the record has {}",
            stored.len(),
            dst.len()
        ))),
        (Codec::Zstd, _) => Z::decode(decoder, None, stored, dst),
        (Codec::ZstdDict, Some(_)) => Z::decode(decoder, dictionary, stored, dst),
        (Codec::ZstdDict, None) => Err(CodecError::Corrupt(
            "the record needs a dictionary that the store does not have".into(),
        )),
    }
}

/// [`unpack`] for the record `index` at `location`.
///
/// # Errors
///
/// [`Error::CorruptRecord`], naming the record and where it lies, also when
/// `stored` or `dst` have not the lengths that its entry says;
/// [`Error::Unsupported`] for what the backend cannot decode.
pub fn unpack_record<Z: Zstd>(
    decoder: &mut Z::Decoder,
    dictionary: Option<&Z::Dictionary>,
    index: u64,
    location: &RecordLocation,
    stored: &[u8],
    dst: &mut [u8],
) -> Result<()> {
    for (what, found, expected) in [
        ("stored bytes", stored.len(), location.stored_len),
        ("bytes of destination", dst.len(), location.len),
    ] {
        if u32::try_from(found) != Ok(expected) {
            let reason = format!("{found} {what}; its entry says {expected}");
            return Err(location.corrupt(index, reason));
        }
    }
    unpack::<Z>(decoder, dictionary, location.codec, stored, dst).map_err(|error| match error {
        CodecError::Unsupported(what) => Error::Unsupported { what },
        corrupt => location.corrupt(index, corrupt.to_string()),
    })
}
