//! Endless, prefetched batches of records in an order that can be resumed.
//!
//! | file | holds |
//! | --- | --- |
//! | `stream` | what a loader draws from; `datasets` are streams |
//! | `source` | the batch of a step, as a pure function |
//! | `batch` | what a batch is |
//! | `state` | where a loader stopped, and who may go on |
//! | `pass` | the finite pass for evaluation |
//! | this one | the loader: a source, prefetched, and its state |

mod batch;
mod datasets;
mod error;
mod pass;
mod source;
mod state;
mod stream;

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use zrecord_core::sampler::Mode as SamplerMode;

pub use batch::{Batch, Column};
pub use error::{BoxError, LoaderError, SharedError};
pub use pass::{Batches, BatchesOptions};
pub use source::BatchSource;
pub use state::{Difference, LoaderState, Resumption, STATE_VERSION, StateError, StreamState};
pub use stream::{Stream, Streams};

use crate::prefetch::{PrefetchOptions, Prefetcher};
use error::Cause;

/// What is drawn, and how far ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Threads that gather and transform; 0 does it in the caller's.
    pub workers: usize,
    /// Records of each batch on this rank.
    pub batch_size: u64,
    /// Batches that are finished or under way, at most; 0 means none ahead.
    pub prefetch: usize,
    /// How records are drawn.
    pub mode: SamplerMode,
    /// What the order of the records follows from.
    pub seed: u64,
    /// This process among those that train together.
    pub rank: u64,
    /// How many processes train together.
    pub world_size: u64,
}

impl Default for LoaderOptions {
    /// 4 workers, batches of 256, 4 ahead, drawn with replacement, seed 42, alone.
    fn default() -> Self {
        Self {
            workers: 4,
            batch_size: 256,
            prefetch: 4,
            mode: SamplerMode::Iid,
            seed: 42,
            rank: 0,
            world_size: 1,
        }
    }
}

/// An endless stream of batches: what comes at a step follows from the seed
/// and the step alone, and batches come in step order whatever the number of
/// workers.
///
/// As an iterator it never ends: after an error it gives the same error for
/// ever (so not `flatten`), and its [`state`](Self::state) points at the batch
/// that failed. All methods take `&self`; several threads may take batches, and
/// share them. Dropping it ends its threads.
pub struct Loader<T = Batch> {
    source: Arc<ArcSwap<BatchSource>>,
    prefetcher: Prefetcher<T, Cause>,
}

impl Loader<Batch> {
    /// A loader of plain batches. Its threads start with the first batch.
    ///
    /// # Errors
    ///
    /// [`LoaderError`]: no streams, or of unequal lengths, or options that do
    /// not fit.
    pub fn new(streams: Streams, options: LoaderOptions) -> Result<Self, LoaderError> {
        Self::with_transform(streams, options, Ok::<_, BoxError>)
    }
}

impl<T: Send + 'static> Loader<T> {
    /// A loader of what `transform` makes of the batches, in the worker
    /// threads, several at once and in any order.
    ///
    /// # Errors
    ///
    /// As [`Loader::new`].
    pub fn with_transform<E: Into<BoxError>>(
        streams: Streams,
        options: LoaderOptions,
        transform: impl Fn(Batch) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, LoaderError> {
        let LoaderOptions { workers, batch_size, prefetch, mode, seed, rank, world_size } = options;
        let source = BatchSource::sampled(streams, batch_size, mode, seed, rank, world_size)?
            .recycling(batches_alive(prefetch));
        let source = Arc::new(ArcSwap::from_pointee(source));
        let options = PrefetchOptions { workers, prefetch, ..PrefetchOptions::default() };
        let prefetcher = Prefetcher::new(options, produce(&source, transform));
        Ok(Self { source, prefetcher })
    }

    /// The next batch; waits until it is there.
    ///
    /// # Errors
    ///
    /// [`LoaderError`]: `Gather`, `Transform` and `Panicked` at the step that
    /// failed, and again in every later call; `Closed`, `Forked`, `Reentrant`
    /// and `Spawn`.
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

    /// Where the loader stands, to be saved beside the model.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Forked`].
    pub fn state(&self) -> Result<LoaderState, LoaderError> {
        Ok(self.prefetcher.position_with(|step| self.source.load().state(step))?)
    }

    /// Goes on from where `saved` was taken, before or during iteration; what
    /// was prefetched is dropped. Returns, and logs, what the user should know.
    ///
    /// Another number of ranks goes on with exactly the same order of records
    /// if it divides the same global batch: `batch_size × world_size` must be
    /// what it was. [`LoaderState::check`] has the rules.
    ///
    /// # Errors
    ///
    /// [`LoaderError::State`] if other records would come; the loader is as
    /// before then. `Stream`, `Closed` and `Forked`.
    pub fn load_state(
        &self,
        saved: &LoaderState,
        strict: bool,
    ) -> Result<Vec<String>, LoaderError> {
        let source = self.source.load_full();
        let resumption = saved.check(&source.state(0), source.available()?, strict)?;
        let source = Arc::new(source.with_length(resumption.length)?);
        self.prefetcher.seek_with(resumption.step, || self.source.store(source))?;
        for warning in &resumption.warnings {
            log::warn!("resuming a loader: {warning}");
        }
        Ok(resumption.warnings)
    }

    /// Drops what was prefetched and goes on with `step`, also after an error.
    ///
    /// # Errors
    ///
    /// `Closed` and `Forked`.
    pub fn seek(&self, step: u64) -> Result<(), LoaderError> {
        Ok(self.prefetcher.seek(step)?)
    }

    /// How many records are drawn from; fixed when the loader was made.
    pub fn length(&self) -> u64 {
        self.source.load().length()
    }

    /// Ends the threads, after the batches under way; later calls are errors.
    /// May be called again, and from any thread. The streams stay open.
    pub fn close(&self) {
        self.prefetcher.close();
    }

    /// As [`close`](Self::close), but waits for nothing and returns the
    /// threads, which end after the batches under way.
    #[must_use = "a thread that nobody joins may outlive what it uses"]
    pub fn close_without_waiting(&self) -> Vec<JoinHandle<()>> {
        self.prefetcher.close_without_waiting()
    }

    /// True once the loader was closed.
    pub fn is_closed(&self) -> bool {
        self.prefetcher.is_closed()
    }
}

impl<T: Send + 'static> Iterator for Loader<T> {
    type Item = Result<T, LoaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_batch())
    }
}

impl<T: Send + 'static> Iterator for &Loader<T> {
    type Item = Result<T, LoaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_batch())
    }
}

impl<T> fmt::Debug for Loader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.source.load().state(0);
        f.debug_struct("Loader")
            .field("streams", &state.streams.keys())
            .field("length", &state.length)
            .field("prefetcher", &self.prefetcher)
            .finish()
    }
}

/// What the workers do: gather the batch of a step, transform it.
fn produce<T, E: Into<BoxError>>(
    source: &Arc<ArcSwap<BatchSource>>,
    transform: impl Fn(Batch) -> Result<T, E> + Send + Sync + 'static,
) -> impl Fn(u64) -> Result<T, Cause> + Send + Sync + 'static {
    let source = Arc::clone(source);
    move |step| {
        let batch = source.load_full().gather(step)?;
        transform(batch).map_err(|error| Cause::Transform { source: error.into().into() })
    }
}

/// How many batches exist at once: those ahead, the one in the caller's hands,
/// and the next one beside it when it takes that before it lets go.
fn batches_alive(prefetch: usize) -> usize {
    prefetch.saturating_add(2)
}
