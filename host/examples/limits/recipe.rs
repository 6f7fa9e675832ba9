//! Frames of other parameters than the product's, to see what could be decoded
//! faster.

use serde::Deserialize;
use zrecord_host::Codec;
use zrecord_host::core::codec::Zstd;
use zrecord_host::core::codec::libzstd::{Dictionary, Libzstd};
use zstd_safe::{CCtx, CParameter, ParamSwitch};

use crate::AnyError;
use crate::sources::Frame;

/// How records are encoded.
#[derive(Deserialize)]
pub struct Recipe {
    level: i32,
    /// The share of its bytes that a record must save, or be stored raw.
    min_saving: f64,
    /// Literals are stored as they are.
    #[serde(default)]
    plain_literals: bool,
    /// The length of the shortest match, or libzstd's choice.
    min_match: Option<u32>,
    /// The most bytes of a dictionary, which is trained on the records.
    dictionary_bytes: Option<usize>,
}

impl Recipe {
    /// The frame of each record, and the dictionary that they need.
    pub fn encode(
        &self,
        rows: &[u8],
        record_bytes: usize,
    ) -> Result<(Vec<Frame>, Option<Dictionary>), AnyError> {
        let dictionary = match self.dictionary_bytes {
            Some(capacity) => {
                let sizes = vec![record_bytes; rows.len() / record_bytes];
                Some(Libzstd::train(rows, &sizes, capacity)?)
            }
            None => None,
        };
        let mut context = self.context(dictionary.as_deref()).map_err(zstd_safe::get_error_name)?;
        let codec = if dictionary.is_some() { Codec::ZstdDict } else { Codec::Zstd };
        let mut dst = vec![0; zstd_safe::compress_bound(record_bytes)];
        let encode = |record: &[u8]| {
            let len = context.compress2(&mut dst[..], record).map_err(zstd_safe::get_error_name)?;
            let saved = 1.0 - len as f64 / record.len() as f64;
            Ok(match saved >= self.min_saving {
                true => Frame { codec, dictionary: 0, bytes: dst[..len].to_vec() },
                false => Frame { codec: Codec::Raw, dictionary: 0, bytes: record.to_vec() },
            })
        };
        let frames =
            rows.chunks_exact(record_bytes).map(encode).collect::<Result<_, AnyError>>()?;
        let digested = dictionary.as_deref().map(Libzstd::dictionary).transpose()?;
        Ok((frames, digested))
    }

    fn context(&self, dictionary: Option<&[u8]>) -> Result<CCtx<'static>, usize> {
        let mut context = CCtx::create();
        let literals = if self.plain_literals { ParamSwitch::Disable } else { ParamSwitch::Auto };
        let chosen = [
            Some(CParameter::CompressionLevel(self.level)),
            Some(CParameter::LiteralCompressionMode(literals)),
            self.min_match.map(CParameter::MinMatch),
        ];
        for parameter in chosen.into_iter().flatten() {
            context.set_parameter(parameter)?;
        }
        if let Some(dictionary) = dictionary {
            context.load_dictionary(dictionary)?;
        }
        Ok(context)
    }
}
