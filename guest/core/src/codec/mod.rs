//! How the bytes of one record are stored: raw, zstd, or zstd with a
//! dictionary; and [`pack`], the one place that decides between them.
//!
//! Two backends implement [`Zstd`]: libzstd (feature `libzstd`), which a
//! native host uses, and ruzstd (feature `ruzstd`), which the component uses.
//! Their compressed bytes differ; what they decode from a frame that an encoder
//! wrote never does. Neither notices every damage: a record's checksum does.

use std::fmt;

pub mod frame;
#[cfg(feature = "libzstd")]
pub mod libzstd;
pub mod pack;
#[cfg(feature = "ruzstd")]
pub mod pure;

/// The zstd level of [`Preset::Decode`] unless another is asked for: higher ones
/// save little more, and decode more slowly.
const DECODE_LEVEL: i32 = 9;

/// How a record's bytes are stored. The numbers are the ones on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// As they are.
    Raw = 0,
    /// One zstd frame.
    Zstd = 1,
    /// One zstd frame that needs the store's dictionary.
    ZstdDict = 2,
}

impl Codec {
    /// Every codec, by its number.
    pub const ALL: [Self; 3] = [Self::Raw, Self::Zstd, Self::ZstdDict];

    /// The codec with that number on disk.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Its number on disk.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Its name in schemas, arguments and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zstd => "zstd",
            Self::ZstdDict => "zstd_dict",
        }
    }

    /// The codec of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// The zstd level used unless another is asked for. With a dictionary one
    /// whose frames are within half a per cent of level 19's, in half to all of
    /// its time.
    pub fn default_level(self) -> i32 {
        match self {
            Self::Raw | Self::Zstd => 3,
            Self::ZstdDict => 15,
        }
    }
}

/// What frames are made for, where the level alone does not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preset {
    /// Fast decoding: literals are stored as they are, since undoing their
    /// Huffman code is what takes most of decoding's time, and matches are
    /// looked for longer. Any zstd decoder reads such frames. Not for
    /// [`Codec::ZstdDict`], whose frames gain nothing by it.
    Decode,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 1] = [Self::Decode];

    /// Its name in arguments.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
        }
    }

    /// The preset of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a frame could not be decoded, encoded, or a dictionary not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The stored bytes are no frame that decodes to exactly the length the
    /// record has.
    #[error("{0}")]
    Corrupt(String),
    /// This backend cannot do it; the text names who can.
    #[error("{0}")]
    Unsupported(String),
    /// A dictionary could not be trained from these samples.
    #[error("{0}")]
    Training(String),
}

/// A zstd implementation. Contexts are made once per thread and reused;
/// dictionaries are digested once and shared.
pub trait Zstd: 'static {
    /// A dictionary made ready for decoding.
    type Dictionary: Send + Sync;
    /// A context for decoding.
    type Decoder: Send + Default;
    /// A context for encoding at one level, perhaps with a dictionary.
    type Encoder: Send;
    /// Everything that encoders of one level and dictionary share.
    type EncoderPlan: Send + Sync;

    /// The level this backend encodes `codec` at unless another is asked for.
    fn default_level(codec: Codec, preset: Option<Preset>) -> i32 {
        match preset {
            None => codec.default_level(),
            Some(Preset::Decode) => DECODE_LEVEL,
        }
    }

    /// Digests a dictionary (the bytes of `dict.zr`: a zstd dictionary with
    /// its magic number and an id, not raw content).
    ///
    /// # Errors
    ///
    /// [`CodecError::Corrupt`] when `bytes` are none.
    fn dictionary(bytes: &[u8]) -> Result<Self::Dictionary, CodecError>;

    /// Decodes one frame into exactly `dst`.
    ///
    /// # Errors
    ///
    /// [`CodecError::Corrupt`] unless `src` is one frame that names exactly the
    /// dictionary given, and declares and produces `dst.len()` bytes. What
    /// `dst` holds then is unspecified.
    fn decode(
        decoder: &mut Self::Decoder,
        dictionary: Option<&Self::Dictionary>,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), CodecError>;

    /// Prepares encoding at `level`, with the bytes of a dictionary if given.
    ///
    /// # Errors
    ///
    /// [`CodecError::Unsupported`] for a level, preset or dictionary that this
    /// backend cannot encode with.
    fn plan(
        level: i32,
        preset: Option<Preset>,
        dictionary: Option<&[u8]>,
    ) -> Result<Self::EncoderPlan, CodecError>;

    /// A context for encoding after `plan`.
    ///
    /// # Errors
    ///
    /// [`CodecError::Unsupported`] when the backend refuses.
    fn encoder(plan: &Self::EncoderPlan) -> Result<Self::Encoder, CodecError>;

    /// Encodes `src` as one frame that declares its content size, into `dst`.
    /// Returns its length, or `None` when it does not fit into `dst`; a backend
    /// may want a few bytes more than it writes.
    ///
    /// # Errors
    ///
    /// [`CodecError::Unsupported`] when the backend fails or cannot encode a
    /// record of that length.
    fn encode(
        plan: &Self::EncoderPlan,
        encoder: &mut Self::Encoder,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<Option<usize>, CodecError>;

    /// Trains a dictionary of at most `capacity` bytes from samples that lie
    /// packed in `samples`, of `sizes` bytes each.
    ///
    /// # Errors
    ///
    /// [`CodecError::Training`] when the samples are too few or too small,
    /// [`CodecError::Unsupported`] when this backend cannot train.
    fn train(samples: &[u8], sizes: &[usize], capacity: usize) -> Result<Vec<u8>, CodecError>;
}

#[cfg(test)]
#[cfg(all(feature = "libzstd", feature = "ruzstd"))]
mod tests;
