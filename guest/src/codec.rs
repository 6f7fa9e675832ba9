//! The interface `codec`.

use zrecord_core::Error as CoreError;
use zrecord_core::codec::pack::{self, Arena, PackEncoder, PackPolicy, Packer};
use zrecord_core::codec::pure::{Decoder, Ruzstd};
use zrecord_core::codec::{Codec, CodecError, Zstd, frame};
use zrecord_core::{format, memory};

use crate::Component;
use crate::bindings::exports::zrecord::store::codec::{Compression, Error, Guest};

impl Guest for Component {
    fn unpack(
        codec: Compression,
        dictionary: Option<Vec<u8>>,
        bytes: Vec<u8>,
        len: u32,
    ) -> Result<Vec<u8>, Error> {
        let dictionary = match (codec, dictionary) {
            (Compression::ZstdDict, Some(dictionary)) => Some(Ruzstd::dictionary(&dictionary)?),
            _ => None,
        };
        check_len(codec, &bytes, len)?;
        let mut record = memory::zeroed(len.into()).map_err(no_memory)?;
        let mut decoder = Decoder::default();
        let dictionary = dictionary.as_ref();
        pack::unpack::<Ruzstd>(&mut decoder, dictionary, codec.into(), &bytes, &mut record)?;
        Ok(record)
    }

    fn pack(codec: Compression, bytes: Vec<u8>) -> Result<(Compression, Vec<u8>), Error> {
        if codec == Compression::ZstdDict {
            // What the backend says of any dictionary.
            Ruzstd::plan(Ruzstd::default_level(Codec::ZstdDict, None), None, Some(&[]))?;
        }
        let policy = PackPolicy { codec: codec.into(), level: None, preset: None, min_saving: 0.0 };
        let packer = Packer::<Ruzstd>::new(policy, None)?;
        let mut arena = Arena::default();
        let packed = packer.pack(&mut PackEncoder::default(), &bytes, &mut arena)?;
        match packed.codec {
            Codec::Raw => Ok((Compression::Raw, bytes)),
            codec => Ok((codec.into(), arena.bytes().to_vec())),
        }
    }

    fn checksum(stored: Vec<u8>, len: u32, codec: Compression, dictionary: u8) -> u32 {
        format::checksum(&stored, len, codec.into(), dictionary)
    }
}

/// The stored bytes must have or declare the length before memory is taken for
/// it.
fn check_len(codec: Compression, bytes: &[u8], len: u32) -> Result<(), Error> {
    let declared = match codec {
        Compression::Raw => Some(bytes.len() as u64),
        Compression::Zstd | Compression::ZstdDict => frame::parse(bytes)?.content_size,
    };
    if declared == Some(len.into()) {
        return Ok(());
    }
    let found = declared.map_or("a length that they do not tell".into(), |len| len.to_string());
    Err(Error::Corrupt(format!("the stored bytes are those of {found} bytes, not of {len}")))
}

impl From<CodecError> for Error {
    fn from(error: CodecError) -> Self {
        match error {
            CodecError::Corrupt(reason) => Self::Corrupt(reason),
            CodecError::Unsupported(what) => Self::Unsupported(what),
            error => Self::Other(Some(error.to_string())),
        }
    }
}

impl From<CoreError> for Error {
    fn from(error: CoreError) -> Self {
        match error {
            CoreError::Unsupported { what } => Self::Unsupported(what),
            error => Self::Other(Some(error.to_string())),
        }
    }
}

fn no_memory(error: std::io::Error) -> Error {
    Error::Other(Some(error.to_string()))
}
