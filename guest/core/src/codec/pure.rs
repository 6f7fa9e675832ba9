//! The codec of the component: ruzstd, pure Rust. It decodes everything,
//! dictionaries included, and encodes at one level without a dictionary.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::sync::Arc;

use ruzstd::decoding::{BlockDecodingStrategy, Dictionary as Parsed, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, FrameCompressor, MatchGeneratorDriver};

use super::{Codec, CodecError, Preset, Zstd, frame};

/// The only level this backend encodes at: ruzstd's "fastest", about zstd's 1.
pub const LEVEL: i32 = 1;
/// The longest frame this backend decodes or encodes, in decoded bytes: ruzstd
/// keeps the whole content beside the destination, in a buffer that it cannot
/// fail to allocate.
pub const CONTENT_SIZE_MAX: usize = 256 << 20;
/// How many digested dictionaries a decoder keeps before it starts afresh.
pub const DICTIONARIES_LOADED_MAX: usize = 16;

/// Pure-Rust zstd.
#[derive(Debug)]
pub struct Ruzstd;

/// A dictionary that was checked; each decoder digests it for itself, since
/// ruzstd's digest cannot be shared.
pub struct Dictionary {
    id: u32,
    bytes: Arc<[u8]>,
}

/// A decoder with the dictionaries it has digested, by id.
#[derive(Default)]
pub struct Decoder {
    frames: FrameDecoder,
    /// The bytes behind each digest. Two dictionaries may have one id; they
    /// are told apart by the allocation, which lives as long as this does.
    loaded: BTreeMap<u32, Arc<[u8]>>,
}

/// There is nothing to prepare: one level, no dictionary.
pub struct EncoderPlan(());

/// An encoder, and a decoder to check its work.
pub struct Encoder {
    frames: FrameCompressor<Cursor<Vec<u8>>, Vec<u8>, MatchGeneratorDriver>,
    decoder: Decoder,
    decoded: Vec<u8>,
}

impl Decoder {
    /// Makes ruzstd know exactly this dictionary under its id.
    fn load(&mut self, dictionary: &Dictionary) -> Result<(), CodecError> {
        let loaded = self.loaded.get(&dictionary.id);
        if loaded.is_some_and(|bytes| Arc::ptr_eq(bytes, &dictionary.bytes)) {
            return Ok(());
        }
        if loaded.is_none() && self.loaded.len() >= DICTIONARIES_LOADED_MAX {
            *self = Self::default();
        }
        self.frames.add_dict(parse(&dictionary.bytes)?).map_err(undecodable)?;
        self.loaded.insert(dictionary.id, Arc::clone(&dictionary.bytes));
        Ok(())
    }
}

impl Zstd for Ruzstd {
    type Dictionary = Dictionary;
    type Decoder = Decoder;
    type Encoder = Encoder;
    type EncoderPlan = EncoderPlan;

    fn default_level(_: Codec, _: Option<Preset>) -> i32 {
        LEVEL
    }

    fn dictionary(bytes: &[u8]) -> Result<Dictionary, CodecError> {
        let id = frame::dictionary_id(bytes)?;
        parse(bytes)?;
        Ok(Dictionary { id, bytes: bytes.into() })
    }

    /// A checksum inside the frame is read but not compared, which ruzstd
    /// cannot do without another hash crate: no writer of these stores asks
    /// for one, and a record's own checksum covers the stored bytes.
    fn decode(
        decoder: &mut Decoder,
        dictionary: Option<&Dictionary>,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        let header = frame::check(src, dictionary.map(|dictionary| dictionary.id), dst.len())?;
        check_size(dst.len())?;
        if let Some(dictionary) = dictionary {
            decoder.load(dictionary)?;
        }
        // ruzstd reserves the window, which a frame may declare far beyond its
        // content; as a single segment the two are the same.
        let (bytes, len) = frame::single_segment(&header, dst.len() as u64);
        let frames = &mut decoder.frames;
        frames.set_max_window_size(CONTENT_SIZE_MAX as u64);
        frames.init(&bytes[..len]).map_err(undecodable)?;
        let mut blocks = src.get(header.len..).unwrap_or_default();
        while !frames.is_finished() {
            frames
                .decode_blocks(&mut blocks, BlockDecodingStrategy::UptoBlocks(1))
                .map_err(undecodable)?;
            // Before the last block only what exceeds the window can be
            // collected, and the window is the content.
            if !frames.is_finished() && frames.can_collect() > 0 {
                return Err(wrong_len("more than", dst.len(), dst.len()));
            }
        }
        let decoded = frames.can_collect();
        if decoded != dst.len() {
            return Err(wrong_len("", decoded, dst.len()));
        }
        frames.read_exact(dst).map_err(undecodable)
    }

    fn plan(
        level: i32,
        preset: Option<Preset>,
        dictionary: Option<&[u8]>,
    ) -> Result<EncoderPlan, CodecError> {
        if let Some(preset) = preset {
            return Err(unsupported(&format!("the preset {:?}", preset.name())));
        }
        if dictionary.is_some() {
            return Err(unsupported("encoding with a dictionary"));
        }
        if level != LEVEL {
            return Err(unsupported(&format!("zstd level {level} (here there is only {LEVEL})")));
        }
        Ok(EncoderPlan(()))
    }

    fn encoder(_: &EncoderPlan) -> Result<Encoder, CodecError> {
        Ok(Encoder {
            frames: FrameCompressor::new(CompressionLevel::Fastest),
            decoder: Decoder::default(),
            decoded: Vec::new(),
        })
    }

    /// Encodes, and decodes what it encoded: a frame that does not come back
    /// as it went in counts as one that does not fit.
    ///
    /// Its encoder is young, and by its source it keeps the Huffman table of a
    /// block that it then stores raw, to which a later block could refer.
    fn encode(
        _: &EncoderPlan,
        encoder: &mut Encoder,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<Option<usize>, CodecError> {
        check_size(src.len())?;
        let frame = encoder.compress(src);
        let written = frame::with_content_size(&frame, src.len() as u64, dst);
        encoder.frames.set_drain(frame);
        let Some(len) = written? else { return Ok(None) };
        encoder.decoded.resize(src.len(), 0);
        let decoded = Self::decode(&mut encoder.decoder, None, &dst[..len], &mut encoder.decoded);
        Ok((decoded.is_ok() && encoder.decoded == src).then_some(len))
    }

    fn train(_: &[u8], _: &[usize], _: usize) -> Result<Vec<u8>, CodecError> {
        Err(unsupported("training a dictionary"))
    }
}

impl Encoder {
    /// One frame, without a content size, in a buffer that is to be handed
    /// back. The source must be owned, since the compressor outlives it.
    fn compress(&mut self, src: &[u8]) -> Vec<u8> {
        let mut source = self.frames.take_source().unwrap_or_default().into_inner();
        source.clear();
        source.extend_from_slice(src);
        self.frames.set_source(Cursor::new(source));
        let mut drain = self.frames.take_drain().unwrap_or_default();
        drain.clear();
        self.frames.set_drain(drain);
        self.frames.compress();
        self.frames.take_drain().unwrap_or_default()
    }
}

fn parse(bytes: &[u8]) -> Result<Parsed, CodecError> {
    Parsed::decode_dict(bytes).map_err(|error| {
        CodecError::Corrupt(format!("ruzstd cannot digest the dictionary: {error}"))
    })
}

fn check_size(len: usize) -> Result<(), CodecError> {
    if len <= CONTENT_SIZE_MAX {
        return Ok(());
    }
    Err(unsupported(&format!(
        "a compressed record of {len} bytes (the limit here is {CONTENT_SIZE_MAX})"
    )))
}

fn undecodable(error: impl std::fmt::Display) -> CodecError {
    CodecError::Corrupt(format!("ruzstd cannot decode: {error}"))
}

fn wrong_len(relation: &str, found: usize, expected: usize) -> CodecError {
    let space = if relation.is_empty() { "" } else { " " };
    CodecError::Corrupt(format!(
        "the zstd frame decodes to {relation}{space}{found} bytes, the record has {expected}"
    ))
}

fn unsupported(what: &str) -> CodecError {
    CodecError::Unsupported(format!(
        "{what} needs libzstd: use the native host (zrecord-host, or the zrecord wheel)"
    ))
}
