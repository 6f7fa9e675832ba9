//! What a loader draws from.

use std::collections::HashSet;
use std::sync::Arc;

use super::batch::Column;
use super::error::{BoxError, LoaderError};
use super::state::StreamState;
use crate::buffer::BufferPool;

/// Records by index, of any kind, for a loader.
///
/// All methods are called from the loader's worker threads, several at once.
pub trait Stream: Send + Sync {
    /// How many records there are now.
    ///
    /// # Errors
    ///
    /// Whatever kept the stream from knowing.
    fn length(&self) -> Result<u64, BoxError>;

    /// Which data this is, to be found again when a loader resumes.
    ///
    /// # Errors
    ///
    /// Whatever kept the stream from knowing.
    fn identity(&self) -> Result<StreamState, BoxError>;

    /// The records at `indices`, in that order, duplicates too; none is legal.
    /// A buffer from `pool` comes with old contents and must be filled wholly.
    ///
    /// # Errors
    ///
    /// Whatever kept the stream from reading them.
    fn gather(&self, indices: &[u64], pool: &BufferPool) -> Result<Column, BoxError>;
}

/// Streams by name, in order, all of one length.
#[derive(Clone, Default)]
pub struct Streams {
    entries: Vec<(Arc<str>, Arc<dyn Stream>)>,
}

impl Streams {
    /// No streams.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a stream behind the others.
    #[must_use]
    pub fn with(mut self, name: impl Into<Arc<str>>, stream: Arc<dyn Stream>) -> Self {
        self.entries.push((name.into(), stream));
        self
    }

    /// The streams and their names.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Arc<dyn Stream>)> {
        self.entries.iter().map(|(name, stream)| (name, stream))
    }

    /// The length that all streams have.
    pub(super) fn common_length(&self) -> Result<u64, LoaderError> {
        let mut names = HashSet::new();
        if let Some((name, _)) = self.iter().find(|(name, _)| !names.insert(*name)) {
            return Err(LoaderError::DuplicateStream { stream: Arc::clone(name) });
        }
        let lengths = self.lengths()?;
        let Some((first, length)) = lengths.first() else { return Err(LoaderError::NoStreams) };
        match lengths.iter().find(|(_, other)| other != length) {
            Some((name, other)) => Err(LoaderError::UnequalLengths {
                stream: Arc::clone(first),
                length: *length,
                other_stream: Arc::clone(name),
                other_length: *other,
            }),
            None => Ok(*length),
        }
    }

    /// The length that every stream has at least, now.
    pub(super) fn available(&self) -> Result<u64, LoaderError> {
        Ok(self.lengths()?.into_iter().map(|(_, length)| length).min().unwrap_or(0))
    }

    fn lengths(&self) -> Result<Vec<(Arc<str>, u64)>, LoaderError> {
        let length = |(name, stream): (&Arc<str>, &Arc<dyn Stream>)| match stream.length() {
            Ok(length) => Ok((Arc::clone(name), length)),
            Err(source) => Err(LoaderError::stream(name, source)),
        };
        self.iter().map(length).collect()
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, Arc<dyn Stream>)> for Streams {
    fn from_iter<I: IntoIterator<Item = (N, Arc<dyn Stream>)>>(streams: I) -> Self {
        Self { entries: streams.into_iter().map(|(name, stream)| (name.into(), stream)).collect() }
    }
}
