//! The codec of a native host: C libzstd, with every level, dictionaries and
//! their training.

use zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd_safe::{CCtx, CDict, CParameter, DCtx, DDict, ParamSwitch};

use super::{CodecError, Preset, Zstd, frame};

/// The smallest dictionary that libzstd trains, in bytes.
pub const DICTIONARY_SIZE_MIN: usize = 256;

/// C libzstd.
#[derive(Debug)]
pub struct Libzstd;

/// A dictionary digested for decoding.
pub struct Dictionary {
    id: u32,
    digested: DDict<'static>,
}

/// A context for decoding, reused for every frame of a thread.
pub struct Decoder(DCtx<'static>);

impl Default for Decoder {
    fn default() -> Self {
        Self(DCtx::create())
    }
}

/// A level, with the dictionary digested for it.
pub struct EncoderPlan {
    level: i32,
    preset: Option<Preset>,
    dictionary: Option<CDict<'static>>,
}

/// A context for encoding, reused for every record of a thread.
pub struct Encoder(CCtx<'static>);

impl Zstd for Libzstd {
    type Dictionary = Dictionary;
    type Decoder = Decoder;
    type Encoder = Encoder;
    type EncoderPlan = EncoderPlan;

    fn dictionary(bytes: &[u8]) -> Result<Dictionary, CodecError> {
        let id = frame::dictionary_id(bytes)?;
        let digested = DDict::try_create(bytes).ok_or_else(undigested)?;
        Ok(Dictionary { id, digested })
    }

    fn decode(
        Decoder(context): &mut Decoder,
        dictionary: Option<&Dictionary>,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        frame::check(src, dictionary.map(|dictionary| dictionary.id), dst.len())?;
        let decoded = match dictionary {
            None => context.decompress(dst, src),
            Some(dictionary) => context.decompress_using_ddict(dst, src, &dictionary.digested),
        };
        match decoded {
            Ok(len) if len == dst.len() => Ok(()),
            Ok(len) => Err(CodecError::Corrupt(format!(
                "the zstd frame decodes to {len} bytes, the record has {}",
                dst.len()
            ))),
            Err(code) => Err(CodecError::Corrupt(format!("libzstd cannot decode: {}", said(code)))),
        }
    }

    fn plan(
        level: i32,
        preset: Option<Preset>,
        dictionary: Option<&[u8]>,
    ) -> Result<EncoderPlan, CodecError> {
        let levels = zstd_safe::min_c_level()..=zstd_safe::max_c_level();
        if !levels.contains(&level) {
            return Err(CodecError::Unsupported(format!(
                "zstd level {level}; libzstd has {} to {}",
                levels.start(),
                levels.end()
            )));
        }
        let digest = |bytes| {
            frame::dictionary_id(bytes)?;
            CDict::try_create(bytes, level).ok_or_else(undigested)
        };
        Ok(EncoderPlan { level, preset, dictionary: dictionary.map(digest).transpose()? })
    }

    fn encoder(plan: &EncoderPlan) -> Result<Encoder, CodecError> {
        let mut context = CCtx::create();
        let literals = match plan.preset {
            None => ParamSwitch::Auto,
            Some(Preset::Decode) => ParamSwitch::Disable,
        };
        // With a dictionary the level is part of the digest, and libzstd's
        // defaults for the rest are these.
        for parameter in [
            CParameter::CompressionLevel(plan.level),
            CParameter::ContentSizeFlag(true),
            CParameter::ChecksumFlag(false),
            CParameter::DictIdFlag(true),
            CParameter::LiteralCompressionMode(literals),
        ] {
            context.set_parameter(parameter).map_err(not_encoded)?;
        }
        Ok(Encoder(context))
    }

    fn encode(
        plan: &EncoderPlan,
        Encoder(context): &mut Encoder,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<Option<usize>, CodecError> {
        let encoded = match &plan.dictionary {
            None => context.compress2(dst, src),
            Some(dictionary) => context.compress_using_cdict(dst, src, dictionary),
        };
        match encoded {
            Ok(len) => Ok(Some(len)),
            Err(code) if does_not_fit(code) => Ok(None),
            Err(code) => Err(not_encoded(code)),
        }
    }

    fn train(samples: &[u8], sizes: &[usize], capacity: usize) -> Result<Vec<u8>, CodecError> {
        let total = sizes.iter().try_fold(0_usize, |sum, size| sum.checked_add(*size));
        if total != Some(samples.len()) {
            return Err(CodecError::Training(format!(
                "the sample sizes must sum to the {} bytes of the samples",
                samples.len()
            )));
        }
        if capacity < DICTIONARY_SIZE_MIN {
            return Err(CodecError::Training(format!(
                "a dictionary of at most {capacity} bytes; the smallest has {DICTIONARY_SIZE_MIN}"
            )));
        }
        // libzstd counts samples in 32 bits and wraps.
        if u32::try_from(sizes.len()).is_err() {
            return Err(CodecError::Training(format!("too many samples ({})", sizes.len())));
        }
        let mut dictionary = Vec::with_capacity(capacity);
        zstd_safe::train_from_buffer(&mut dictionary, samples, sizes).map_err(|code| {
            CodecError::Training(format!(
                "too few or too small samples ({} with {} bytes in all) for a dictionary of \
                 {capacity} bytes; libzstd said: {}",
                sizes.len(),
                samples.len(),
                said(code)
            ))
        })?;
        frame::dictionary_id(&dictionary)?;
        Ok(dictionary)
    }
}

fn undigested() -> CodecError {
    CodecError::Corrupt("libzstd cannot digest the dictionary".into())
}

fn not_encoded(code: usize) -> CodecError {
    CodecError::Unsupported(format!("libzstd cannot encode: {}", said(code)))
}

fn does_not_fit(code: usize) -> bool {
    zstd_safe::is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall)
}

fn said(code: usize) -> &'static str {
    zstd_safe::get_error_name(code)
}
