//! Between the words of the contract and those of the core.
//!
//! A component is not believed either: what it answers is checked before it
//! becomes a value of the core's.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use zrecord_core::Error;
use zrecord_core::codec::Codec;
use zrecord_core::dtype::Dtype;
use zrecord_core::format::{Format, RecordLocation};
use zrecord_core::schema::{Kind, Schema, decode_metadata, encode_metadata};
use zrecord_core::storage::FileName;
use zrecord_core::summary::Summary;
use zrecord_core::verify::Fault;

use crate::sandbox::bindings::{files, store};
use crate::sandbox::failure::{Failure, SandboxError};

/// Arguments that errors of a store name. The core's errors hold them as
/// constants.
const ARGUMENTS: [&str; 11] = [
    "codec",
    "dictionary",
    "ends",
    "format",
    "id",
    "indices",
    "item_shape",
    "level",
    "metadata",
    "min_saving",
    "offsets",
];

/// The error that native code would have given.
pub(super) fn failure(error: store::Error, call_bytes: u64) -> Failure {
    let error = match error {
        store::Error::NotAStore(reason) => Error::NotAStore { reason },
        store::Error::AlreadyExists => Error::AlreadyExists,
        store::Error::Unsupported(what) => Error::Unsupported { what },
        store::Error::Corrupt(found) => return corruption(found),
        store::Error::OutOfRange(store::OutOfRange { index, length }) => {
            Error::OutOfRange { index, length }
        }
        store::Error::TooLarge(store::TooLarge { position, len, limit }) => {
            Error::TooLarge { index: position, len, limit }
        }
        store::Error::Full(reason) => Error::Full { reason },
        store::Error::Busy(reason) => Error::Busy { reason },
        store::Error::InvalidArgument(store::InvalidArgument { argument, reason }) => {
            match ARGUMENTS.into_iter().find(|known| *known == argument) {
                Some(argument) => Error::InvalidArgument { argument, reason },
                None => {
                    let reason = format!("{argument}: {reason}");
                    Error::InvalidArgument { argument: "argument", reason }
                }
            }
        }
        store::Error::SchemaMismatch(reason) => Error::SchemaMismatch { reason },
        store::Error::ReadOnly => Error::ReadOnly,
        store::Error::Poisoned => Error::Poisoned,
        store::Error::Io(store::IoFailure { code: files::ErrorCode::TooLarge, .. }) => {
            return SandboxError::CallBytes { limit: call_bytes }.into();
        }
        store::Error::Io(store::IoFailure { file, code }) => match FileName::parse(&file) {
            Some(file) => Error::Io { file, source: io_error(code) },
            None => return unknown_file(&file),
        },
        store::Error::Other(reason) => {
            let reason = reason.unwrap_or_else(|| "it gave no reason".into());
            return SandboxError::answer(reason).into();
        }
    };
    error.into()
}

fn corruption(found: store::Fault) -> Failure {
    let Some(file) = FileName::parse(&found.file) else { return unknown_file(&found.file) };
    let reason = found.reason;
    let error = match (found.index, found.offset) {
        (Some(index), Some(offset)) => match checksums(&reason) {
            Some((expected, found)) => Error::Checksum { index, file, offset, expected, found },
            None => Error::CorruptRecord { index, file, offset, reason },
        },
        _ => Error::Corrupt { file, reason },
    };
    error.into()
}

/// The checksums that a fault of the core's names: see [`Fault::from_error`].
fn checksums(reason: &str) -> Option<(u32, u32)> {
    let (found, expected) = reason.strip_prefix("checksum ")?.split_once(", expected ")?;
    let parse = |text| u32::from_str_radix(text, 16).ok();
    Some((parse(expected)?, parse(found)?))
}

fn unknown_file(name: &str) -> Failure {
    SandboxError::answer(format!("it named the file {name:?}, which is none of a store's")).into()
}

fn io_error(code: files::ErrorCode) -> io::Error {
    let kind = match code {
        files::ErrorCode::NoEntry => ErrorKind::NotFound,
        files::ErrorCode::Access => ErrorKind::PermissionDenied,
        files::ErrorCode::ReadOnly => ErrorKind::ReadOnlyFilesystem,
        files::ErrorCode::NotAFile => {
            return io::Error::new(ErrorKind::InvalidInput, "it is not a regular file");
        }
        files::ErrorCode::Invalid => ErrorKind::InvalidInput,
        files::ErrorCode::InsufficientSpace => ErrorKind::StorageFull,
        files::ErrorCode::TooLarge => ErrorKind::FileTooLarge,
        files::ErrorCode::Io => return io::Error::other("the device failed"),
        files::ErrorCode::Other(reason) => {
            return io::Error::other(reason.unwrap_or_else(|| "unknown reason".into()));
        }
    };
    kind.into()
}

/// A fault as native code lists it.
pub(super) fn fault(fault: store::Fault) -> Result<Fault, Failure> {
    match FileName::parse(&fault.file) {
        Some(file) => {
            Ok(Fault { file, offset: fault.offset, index: fault.index, reason: fault.reason })
        }
        None => Err(unknown_file(&fault.file)),
    }
}

pub(super) fn format(format: store::Format) -> Format {
    match format {
        store::Format::Classic => Format::Classic,
        store::Format::Extended => Format::Extended,
    }
}

pub(super) fn format_to_wire(format: Format) -> store::Format {
    match format {
        Format::Classic => store::Format::Classic,
        Format::Extended => store::Format::Extended,
    }
}

fn codec(codec: store::Compression) -> Codec {
    match codec {
        store::Compression::Raw => Codec::Raw,
        store::Compression::Zstd => Codec::Zstd,
        store::Compression::ZstdDict => Codec::ZstdDict,
    }
}

pub(super) fn codec_to_wire(codec: Codec) -> store::Compression {
    match codec {
        Codec::Raw => store::Compression::Raw,
        Codec::Zstd => store::Compression::Zstd,
        Codec::ZstdDict => store::Compression::ZstdDict,
    }
}

/// The id of a store, if it has one.
pub(super) fn id(info: &store::Info) -> Result<Option<[u8; 16]>, Failure> {
    let Some(bytes) = &info.id else { return Ok(None) };
    let id = <[u8; 16]>::try_from(bytes.as_slice());
    id.map(Some).map_err(|_| SandboxError::answer("it gave an id that has not 16 bytes").into())
}

pub(super) fn schema(schema: store::Schema) -> Result<Arc<Schema>, Failure> {
    let refused = |reason: String| SandboxError::answer(format!("it gave a schema: {reason}"));
    let dtype = Dtype::parse(&schema.dtype).map_err(|error| refused(error.to_string()))?;
    let kind = match schema.kind {
        store::Kind::Dense => Kind::Dense,
        store::Kind::Ragged => Kind::Ragged,
    };
    let metadata = decode_metadata(&schema.metadata).map_err(|error| refused(error.to_string()))?;
    let built = Schema::new(kind, dtype, schema.item_shape, codec(schema.codec), metadata);
    Ok(Arc::new(built.map_err(|error| refused(error.to_string()))?))
}

pub(super) fn schema_to_wire(schema: &Schema) -> store::Schema {
    let metadata = match schema.metadata().is_empty() {
        true => Vec::new(),
        false => encode_metadata(schema.metadata()),
    };
    store::Schema {
        kind: match schema.kind() {
            Kind::Dense => store::Kind::Dense,
            Kind::Ragged => store::Kind::Ragged,
        },
        dtype: schema.dtype().to_string(),
        item_shape: schema.item_shape().to_vec(),
        codec: codec_to_wire(schema.codec()),
        row_bytes: schema.row_bytes(),
        metadata,
    }
}

/// Columns as rows.
pub(super) fn locations(
    columns: &store::Locations,
    count: usize,
) -> Result<Vec<RecordLocation>, Failure> {
    let store::Locations { chunks, offsets, stored_lens, lens, codecs, dictionaries, checksums } =
        columns;
    let sums = checksums.as_ref().map_or(count, Vec::len);
    let sizes = [chunks.len(), offsets.len(), stored_lens.len(), lens.len(), codecs.len()];
    if sizes.iter().chain(&[dictionaries.len(), sums]).any(|size| *size != count) {
        return Err(SandboxError::answer("it gave columns of different lengths").into());
    }
    let row = |position: usize| {
        let offset = u32::try_from(offsets[position]);
        let offset = offset.map_err(|_| SandboxError::answer("it gave an offset past 4 GiB"))?;
        Ok(RecordLocation {
            chunk: chunks[position],
            offset,
            stored_len: stored_lens[position],
            len: lens[position],
            codec: codec(codecs[position]),
            dictionary: dictionaries[position],
            checksum: checksums.as_ref().map(|checksums| checksums[position]),
        })
    };
    (0..count).map(row).collect()
}

/// Counts as the core has them.
pub(super) fn summary(summary: &store::Summary) -> Result<Summary, Failure> {
    let wrong = |_| SandboxError::answer("it gave a summary of another shape");
    Ok(Summary {
        records: summary.records,
        stored_bytes: summary.stored_bytes,
        plain_bytes: summary.plain_bytes,
        codecs: summary.codecs.as_slice().try_into().map_err(wrong)?,
        lens: summary.lens.as_slice().try_into().map_err(wrong)?,
        ratios: summary.ratios.as_slice().try_into().map_err(wrong)?,
    })
}
