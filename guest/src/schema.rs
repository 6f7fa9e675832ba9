//! Schemas, codecs and formats, both ways.

#[cfg(feature = "edit")]
use zrecord_core::Error as CoreError;
use zrecord_core::codec::Codec;
use zrecord_core::schema::{Kind as CoreKind, Schema as CoreSchema, encode_metadata};

use crate::bindings::exports::zrecord::store::store::{Compression, Format, Kind, Schema};

impl From<Codec> for Compression {
    fn from(codec: Codec) -> Self {
        match codec {
            Codec::Raw => Self::Raw,
            Codec::Zstd => Self::Zstd,
            Codec::ZstdDict => Self::ZstdDict,
        }
    }
}

impl From<Compression> for Codec {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::Raw => Self::Raw,
            Compression::Zstd => Self::Zstd,
            Compression::ZstdDict => Self::ZstdDict,
        }
    }
}

impl From<zrecord_core::format::Format> for Format {
    fn from(format: zrecord_core::format::Format) -> Self {
        match format {
            zrecord_core::format::Format::Classic => Self::Classic,
            zrecord_core::format::Format::Extended => Self::Extended,
        }
    }
}

impl From<&CoreSchema> for Schema {
    fn from(schema: &CoreSchema) -> Self {
        Self {
            kind: match schema.kind() {
                CoreKind::Dense => Kind::Dense,
                CoreKind::Ragged => Kind::Ragged,
            },
            dtype: schema.dtype().to_string(),
            item_shape: schema.item_shape().to_vec(),
            codec: schema.codec().into(),
            row_bytes: schema.row_bytes(),
            metadata: encode_metadata(schema.metadata()),
        }
    }
}

/// A schema that a caller hands in.
#[cfg(feature = "edit")]
pub(crate) fn schema(schema: Schema) -> Result<CoreSchema, CoreError> {
    use zrecord_core::dtype::{Dtype, DtypeError};
    use zrecord_core::schema::decode_metadata;

    let kind = match schema.kind {
        Kind::Dense => CoreKind::Dense,
        Kind::Ragged => CoreKind::Ragged,
    };
    let dtype = Dtype::parse(&schema.dtype).map_err(|error| match error {
        DtypeError::Unsupported(what) => CoreError::Unsupported { what },
        error => CoreError::InvalidArgument { argument: "dtype", reason: error.to_string() },
    })?;
    let metadata = decode_metadata(&schema.metadata)?;
    CoreSchema::new(kind, dtype, schema.item_shape, schema.codec.into(), metadata)
}
