//! Errors, both ways, with nothing of what they say lost.

use std::fmt;
use std::io::{self, ErrorKind};

use zrecord_core::Error as CoreError;
use zrecord_core::storage::FileName;
use zrecord_core::verify::Fault as CoreFault;

use crate::bindings::exports::zrecord::store::store::{
    Error, Fault, InvalidArgument, IoFailure, OutOfRange, TooLarge,
};
use crate::bindings::zrecord::store::files::ErrorCode;

/// What a host has answered, carried through core's IO errors as it is.
#[derive(Debug)]
struct Refusal(ErrorCode);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            ErrorCode::NoEntry => "there is no such file",
            ErrorCode::Access => "the host gives no access",
            ErrorCode::ReadOnly => "it can only be read",
            ErrorCode::NotAFile => "it is no file",
            ErrorCode::Invalid => "the host takes it for no file of a store",
            ErrorCode::InsufficientSpace => "no space is left",
            ErrorCode::TooLarge => "more bytes than the host copies at once",
            ErrorCode::Io => "the device failed",
            ErrorCode::Other(Some(text)) => text,
            ErrorCode::Other(None) => "the host failed",
        })
    }
}

impl std::error::Error for Refusal {}

/// The error of a call into the host.
pub(crate) fn io_error(code: ErrorCode) -> io::Error {
    let kind = match &code {
        ErrorCode::NoEntry => ErrorKind::NotFound,
        ErrorCode::Access => ErrorKind::PermissionDenied,
        ErrorCode::ReadOnly => ErrorKind::ReadOnlyFilesystem,
        ErrorCode::NotAFile | ErrorCode::Invalid => ErrorKind::InvalidInput,
        ErrorCode::InsufficientSpace => ErrorKind::StorageFull,
        ErrorCode::TooLarge => ErrorKind::FileTooLarge,
        ErrorCode::Io | ErrorCode::Other(_) => ErrorKind::Other,
    };
    io::Error::new(kind, Refusal(code))
}

/// What a host has answered, or what core's own error is closest to.
fn error_code(error: &io::Error) -> ErrorCode {
    if let Some(Refusal(code)) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return code.clone();
    }
    match error.kind() {
        ErrorKind::NotFound => ErrorCode::NoEntry,
        _ => ErrorCode::Other(Some(error.to_string())),
    }
}

impl From<CoreError> for Error {
    fn from(error: CoreError) -> Self {
        match error {
            CoreError::NotAStore { reason } => Self::NotAStore(reason),
            CoreError::AlreadyExists => Self::AlreadyExists,
            CoreError::Unsupported { what } => Self::Unsupported(what),
            CoreError::OutOfRange { index, length } => {
                Self::OutOfRange(OutOfRange { index, length })
            }
            CoreError::TooLarge { index, len, limit } => {
                Self::TooLarge(TooLarge { position: index, len, limit })
            }
            CoreError::Full { reason } => Self::Full(reason),
            CoreError::Busy { reason } => Self::Busy(reason),
            CoreError::InvalidArgument { argument, reason } => invalid_argument(argument, reason),
            CoreError::SchemaMismatch { reason } => Self::SchemaMismatch(reason),
            CoreError::ReadOnly => Self::ReadOnly,
            CoreError::Poisoned => Self::Poisoned,
            CoreError::Io { file: FileName::Meta, source }
                if source.kind() == ErrorKind::NotFound =>
            {
                Self::NotAStore("there is no meta.zr".into())
            }
            CoreError::Io { file, source } => {
                Self::Io(IoFailure { file: file.to_string(), code: error_code(&source) })
            }
            error if error.is_corruption() => match CoreFault::from_error(error) {
                Ok(fault) => Self::Corrupt(fault.into()),
                Err(error) => other(&error),
            },
            error => other(&error),
        }
    }
}

fn other(error: &CoreError) -> Error {
    Error::Other(Some(error.to_string()))
}

/// The error of an argument that can never be right.
pub(crate) fn invalid_argument(argument: &str, reason: impl Into<String>) -> Error {
    Error::InvalidArgument(InvalidArgument { argument: argument.into(), reason: reason.into() })
}

/// The error of memory that is not there.
pub(crate) fn no_memory(error: io::Error) -> Error {
    Error::Other(Some(error.to_string()))
}

impl From<CoreFault> for Fault {
    fn from(fault: CoreFault) -> Self {
        let CoreFault { file, offset, index, reason } = fault;
        Self { file: file.to_string(), offset, index, reason }
    }
}
