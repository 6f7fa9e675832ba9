//! Every record once, in order: the finite pass for evaluation.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::batch::Batch;
use super::error::{BoxError, Cause, LoaderError};
use super::source::{BatchSource, Pass};
use super::stream::Streams;
use super::{batches_alive, produce};
use crate::prefetch::{PrefetchOptions, Prefetcher};

/// How a pass is cut, and how far ahead it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchesOptions {
    /// Threads that gather and transform; 0 does it in the caller's.
    pub workers: usize,
    /// Records of each batch on this rank.
    pub batch_size: u64,
    /// Batches that are finished or under way, at most; 0 means none ahead.
    pub prefetch: usize,
    /// Leaves out the records behind the last full global batch.
    pub drop_last: bool,
    /// This process among those that share the pass.
    pub rank: u64,
    /// How many processes share the pass.
    pub world_size: u64,
}

impl Default for BatchesOptions {
    /// 4 workers, batches of 256, 4 ahead, nothing left out, alone.
    fn default() -> Self {
        Self { workers: 4, batch_size: 256, prefetch: 4, drop_last: false, rank: 0, world_size: 1 }
    }
}

/// A finite pass: each record once, in order, prefetched.
///
/// With several ranks, batch `k` of rank `r` holds the records
/// `(k × world_size + r) × batch_size ..` of the store, `batch_size` of them:
/// the parts of all ranks, one behind the other, are the global batch. Every
/// rank sees **the same number of batches**. Unless `drop_last` is set, the
/// records may end inside the last global batch: one rank's part is short then,
/// and the parts of the ranks behind it are **empty**, batches of 0 records.
///
/// After an error the iterator repeats it for the batches that were left, so
/// it ends all the same.
pub struct Batches<T = Batch> {
    prefetcher: Prefetcher<T, Cause>,
    steps: u64,
    /// What the iterator has yet to yield.
    left: u64,
}

impl Batches<Batch> {
    /// A pass of plain batches over the records that are there now.
    ///
    /// # Errors
    ///
    /// [`LoaderError`]: no streams, or of unequal lengths, or options that do
    /// not fit.
    pub fn new(streams: Streams, options: BatchesOptions) -> Result<Self, LoaderError> {
        Self::with_transform(streams, options, Ok::<_, BoxError>)
    }
}

impl<T: Send + 'static> Batches<T> {
    /// A pass of what `transform` makes of the batches, in the worker threads.
    ///
    /// # Errors
    ///
    /// As [`Batches::new`].
    pub fn with_transform<E: Into<BoxError>>(
        streams: Streams,
        options: BatchesOptions,
        transform: impl Fn(Batch) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, LoaderError> {
        let BatchesOptions { workers, batch_size, prefetch, drop_last, rank, world_size } = options;
        let (source, pass) = BatchSource::once(streams, |length| {
            Pass::new(length, batch_size, rank, world_size, drop_last)
        })?;
        let source = Arc::new(ArcSwap::from_pointee(source.recycling(batches_alive(prefetch))));
        let steps = pass.steps();
        let options = PrefetchOptions { workers, prefetch, first_step: 0, end_step: steps };
        let prefetcher = Prefetcher::new(options, produce(&source, transform));
        Ok(Self { prefetcher, steps, left: steps })
    }

    /// How many batches the whole pass has, the same on every rank.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The next batch; waits until it is there.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Ended`] behind the last one, else as
    /// [`Loader::next_batch`](super::Loader::next_batch).
    pub fn next_batch(&self) -> Result<T, LoaderError> {
        Ok(self.prefetcher.next()?)
    }

    /// As [`next_batch`](Self::next_batch), but gives up waiting after
    /// `timeout`: `None` then, and nothing is lost.
    ///
    /// # Errors
    ///
    /// As [`next_batch`](Self::next_batch).
    pub fn next_timeout(&self, timeout: Duration) -> Result<Option<T>, LoaderError> {
        Ok(self.prefetcher.next_timeout(timeout)?)
    }

    /// Begins the pass anew, over the same records.
    ///
    /// # Errors
    ///
    /// `Closed` and `Forked`.
    pub fn rewind(&mut self) -> Result<(), LoaderError> {
        self.prefetcher.seek(0)?;
        self.left = self.steps;
        Ok(())
    }

    /// Ends the threads, after the batches under way; later calls are errors.
    pub fn close(&self) {
        self.prefetcher.close();
    }

    /// As [`close`](Self::close), but waits for nothing and returns the
    /// threads, which end after the batches under way.
    #[must_use = "a thread that nobody joins may outlive what it uses"]
    pub fn close_without_waiting(&self) -> Vec<JoinHandle<()>> {
        self.prefetcher.close_without_waiting()
    }

    /// True once the pass was closed.
    pub fn is_closed(&self) -> bool {
        self.prefetcher.is_closed()
    }
}

impl<T: Send + 'static> Iterator for Batches<T> {
    type Item = Result<T, LoaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        match self.next_batch() {
            Err(LoaderError::Ended) => None,
            batch => Some(batch),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left);
        (left.unwrap_or(usize::MAX), left.ok())
    }
}

impl<T> fmt::Debug for Batches<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches")
            .field("steps", &self.steps)
            .field("prefetcher", &self.prefetcher)
            .finish()
    }
}
