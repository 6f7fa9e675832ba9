//! What the core says, in the words of the contract: the expected answers.

use std::io::ErrorKind;

use zrecord_core::Error as CoreError;
use zrecord_core::codec::Codec;
use zrecord_core::format::{Format as CoreFormat, RecordLocation, classic, extended};
use zrecord_core::reader::{Identity, Reader};
use zrecord_core::schema::{Kind as CoreKind, Schema as CoreSchema, encode_metadata};
use zrecord_core::storage::{Directory, FileName};
use zrecord_core::summary::Summary as CoreSummary;
use zrecord_core::usage::Stats;
use zrecord_core::verify::Fault as CoreFault;

use super::bindings::store::{
    Compression, Error, Fault, Format, Info, InvalidArgument, IoFailure, Kind, Locations,
    OutOfRange, Schema, Summary, TooLarge, Usage,
};
use super::files::code;

/// An error of the core's.
pub fn error(error: CoreError) -> Error {
    match error {
        CoreError::NotAStore { reason } => Error::NotAStore(reason),
        CoreError::AlreadyExists => Error::AlreadyExists,
        CoreError::Unsupported { what } => Error::Unsupported(what),
        CoreError::Corrupt { .. }
        | CoreError::CorruptRecord { .. }
        | CoreError::Checksum { .. } => {
            Error::Corrupt(fault(CoreFault::from_error(error).unwrap()))
        }
        CoreError::OutOfRange { index, length } => Error::OutOfRange(OutOfRange { index, length }),
        CoreError::TooLarge { index, len, limit } => {
            Error::TooLarge(TooLarge { position: index, len, limit })
        }
        CoreError::Full { reason } => Error::Full(reason),
        CoreError::Busy { reason } => Error::Busy(reason),
        CoreError::InvalidArgument { argument, reason } => invalid_argument(argument, reason),
        CoreError::SchemaMismatch { reason } => Error::SchemaMismatch(reason),
        CoreError::ReadOnly => Error::ReadOnly,
        CoreError::Poisoned => Error::Poisoned,
        CoreError::Io { file: FileName::Meta, source } if source.kind() == ErrorKind::NotFound => {
            Error::NotAStore("there is no meta.zr".into())
        }
        CoreError::Io { file, source } => {
            Error::Io(IoFailure { file: file.to_string(), code: code(&source) })
        }
        other => Error::Other(Some(other.to_string())),
    }
}

/// The error of an argument that can never be right.
pub fn invalid_argument(argument: &str, reason: impl Into<String>) -> Error {
    Error::InvalidArgument(InvalidArgument { argument: argument.into(), reason: reason.into() })
}

/// A fault.
pub fn fault(fault: CoreFault) -> Fault {
    let CoreFault { file, offset, index, reason } = fault;
    Fault { file: file.to_string(), offset, index, reason }
}

/// A codec.
pub fn compression(codec: Codec) -> Compression {
    match codec {
        Codec::Raw => Compression::Raw,
        Codec::Zstd => Compression::Zstd,
        Codec::ZstdDict => Compression::ZstdDict,
    }
}

/// A codec of the contract's.
pub fn codec(compression: Compression) -> Codec {
    match compression {
        Compression::Raw => Codec::Raw,
        Compression::Zstd => Codec::Zstd,
        Compression::ZstdDict => Codec::ZstdDict,
    }
}

/// A format.
pub fn format(format: CoreFormat) -> Format {
    match format {
        CoreFormat::Classic => Format::Classic,
        CoreFormat::Extended => Format::Extended,
    }
}

/// What a reader knows of a store by its header.
pub fn info<D: Directory>(reader: &Reader<D>) -> Info {
    let (identity, commit) = (reader.identity(), reader.commit());
    let (version, durable_length) = match identity {
        Identity::Classic => (u32::from(classic::VERSION), commit.length),
        Identity::Extended(_) => (extended::VERSION, commit.durable_length),
    };
    Info {
        format: format(identity.format()),
        version,
        id: identity.id().map(Vec::from),
        length: commit.length,
        durable_length,
        generation: commit.generation,
        stride: commit.stride,
        stored_bytes: commit.live_stored,
        plain_bytes: commit.live_len,
        dictionaries: commit.dictionaries,
    }
}

/// A schema.
pub fn schema(schema: &CoreSchema) -> Schema {
    Schema {
        kind: match schema.kind() {
            CoreKind::Dense => Kind::Dense,
            CoreKind::Ragged => Kind::Ragged,
        },
        dtype: schema.dtype().to_string(),
        item_shape: schema.item_shape().to_vec(),
        codec: compression(schema.codec()),
        row_bytes: schema.row_bytes(),
        metadata: encode_metadata(schema.metadata()),
    }
}

/// Rows as columns; of no rows, those of the format.
pub fn locations(rows: &[RecordLocation], format: CoreFormat) -> Locations {
    let checksums = rows.iter().map(|row| row.checksum).collect::<Option<Vec<u32>>>();
    Locations {
        chunks: rows.iter().map(|row| row.chunk).collect(),
        offsets: rows.iter().map(|row| row.offset.into()).collect(),
        stored_lens: rows.iter().map(|row| row.stored_len).collect(),
        lens: rows.iter().map(|row| row.len).collect(),
        codecs: rows.iter().map(|row| compression(row.codec)).collect(),
        dictionaries: rows.iter().map(|row| row.dictionary).collect(),
        checksums: checksums.filter(|_| format == CoreFormat::Extended),
    }
}

/// Counts of a range.
pub fn summary(summary: &CoreSummary) -> Summary {
    Summary {
        records: summary.records,
        stored_bytes: summary.stored_bytes,
        plain_bytes: summary.plain_bytes,
        codecs: summary.codecs.to_vec(),
        lens: summary.lens.to_vec(),
        ratios: summary.ratios.to_vec(),
    }
}

/// What the chunks hold.
pub fn usage(stats: &Stats) -> Usage {
    Usage {
        chunks: stats.chunks,
        chunk_bytes: stats.chunk_bytes,
        reclaimable_bytes: stats.reclaimable,
    }
}
