//! Loaders: the host's, with batches put together by Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use numpy::IntoPyArray;
use pyo3::exceptions::{PyException, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyList;
use zrecord_core::sampler::Mode;
use zrecord_host::loader::{
    Batch, Batches, BatchesOptions, BoxError, Column, Loader, LoaderError, LoaderOptions,
    LoaderState, Stream, Streams,
};

use crate::attach;
use crate::batch::{GatherError, Gathered};
use crate::errors::{self, PythonFailure};
use crate::held::Held;
use crate::left;
use crate::shelf::{Shelf, Ticket};
use crate::source::{Source, SourceKind};

/// How long a wait may keep a signal such as Ctrl-C from being seen.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Makes batches ahead, in order.
#[pyclass(frozen, weakref, module = "zrecord._native")]
pub(crate) struct Engine {
    loader: AnyLoader,
    work: Arc<Work>,
    /// The last batch of a pass was delivered, and the threads are gone.
    has_ended: AtomicBool,
}

enum AnyLoader {
    Endless(Loader<Delivery>),
    Pass(Batches<Delivery>),
}

/// What makes a batch out of gathered bytes.
struct Work {
    sources: Vec<SourceKind>,
    /// `assemble(step, indices, parts) -> batch`; `None` once it was cleared.
    assemble: Mutex<Option<Held<Py<PyAny>>>>,
    /// Batches that were assembled, and exceptions that were raised, in workers.
    shelf: Arc<Shelf>,
    needs_indices: bool,
    /// Python code of the user's runs in it, so it belongs in the workers.
    in_worker: bool,
}

/// What a worker hands over.
enum Delivery {
    Gathered(Batch),
    Assembled(Ticket),
}

#[pymethods]
impl Engine {
    /// An endless loader.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "named in Python, where it is called from")]
    fn endless(
        py: Python<'_>,
        streams: Vec<(String, PyRef<'_, Source>)>,
        assemble: Py<PyAny>,
        needs_indices: bool,
        in_worker: bool,
        workers: usize,
        batch_size: u64,
        prefetch: usize,
        mode: u8,
        seed: u64,
        rank: u64,
        world_size: u64,
    ) -> PyResult<Self> {
        let mode = Mode::from_number(mode)
            .ok_or_else(|| errors::new("InvalidArgumentError", "there is no such mode"))?;
        let options = LoaderOptions { workers, batch_size, prefetch, mode, seed, rank, world_size };
        let (streams, work) = prepare(streams, assemble, needs_indices, in_worker);
        let transform = transform(&work);
        let loader = py.detach(|| Loader::with_transform(streams, options, transform));
        let loader = loader.map_err(|error| to_python(py, &error))?;
        Ok(Self::over(AnyLoader::Endless(loader), work))
    }

    /// One pass, in order.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "named in Python, where it is called from")]
    fn pass_once(
        py: Python<'_>,
        streams: Vec<(String, PyRef<'_, Source>)>,
        assemble: Py<PyAny>,
        needs_indices: bool,
        in_worker: bool,
        workers: usize,
        batch_size: u64,
        prefetch: usize,
        drop_last: bool,
        rank: u64,
        world_size: u64,
    ) -> PyResult<Self> {
        let options = BatchesOptions { workers, batch_size, prefetch, drop_last, rank, world_size };
        let (streams, work) = prepare(streams, assemble, needs_indices, in_worker);
        let transform = transform(&work);
        let loader = py.detach(|| Batches::with_transform(streams, options, transform));
        let loader = loader.map_err(|error| to_python(py, &error))?;
        Ok(Self::over(AnyLoader::Pass(loader), work))
    }

    /// The next batch; `StopIteration` behind the last of a pass.
    fn next(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if self.has_ended.load(Ordering::Acquire) {
            return Err(PyStopIteration::new_err(()));
        }
        loop {
            let outcome = py.detach(|| match &self.loader {
                AnyLoader::Endless(loader) => loader.next_timeout(SIGNAL_INTERVAL),
                AnyLoader::Pass(pass) => pass.next_timeout(SIGNAL_INTERVAL),
            });
            match outcome {
                Ok(Some(Delivery::Assembled(batch))) => return batch.object(py),
                Ok(Some(Delivery::Gathered(batch))) => return self.work.assemble(py, batch),
                Ok(None) => py.check_signals()?,
                Err(error) => return Err(self.failed(py, &error)),
            }
        }
    }

    /// Where an endless loader stands, as JSON.
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        let state = self.endless_loader()?.state().map_err(|error| to_python(py, &error))?;
        serde_json::to_string(&state)
            .map_err(|error| errors::new("ZrecordError", error.to_string()))
    }

    /// Goes on from a state; returns what the user should know.
    fn load_state(&self, py: Python<'_>, state: &str, strict: bool) -> PyResult<Vec<String>> {
        let state: LoaderState = serde_json::from_str(state).map_err(|error| {
            errors::new("InvalidArgumentError", format!("that is no state of a loader: {error}"))
        })?;
        let loader = self.endless_loader()?;
        let warnings = py.detach(|| loader.load_state(&state, strict));
        warnings.map_err(|error| to_python(py, &error))
    }

    /// How many steps a pass has.
    #[getter]
    fn steps(&self) -> Option<u64> {
        match &self.loader {
            AnyLoader::Endless(_) => None,
            AnyLoader::Pass(pass) => Some(pass.steps()),
        }
    }

    /// How many records an endless loader draws from.
    #[getter]
    fn length(&self) -> PyResult<u64> {
        Ok(self.endless_loader()?.length())
    }

    #[getter]
    fn closed(&self) -> bool {
        match &self.loader {
            AnyLoader::Endless(loader) => loader.is_closed(),
            AnyLoader::Pass(pass) => pass.is_closed(),
        }
    }

    /// Ends the threads, after the batches under way.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.close_detached());
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Locked only while the GIL is held, which the collector holds now.
        self.work.references().try_for_each(|reference| match reference.try_lock() {
            Ok(reference) => visit.call(reference.as_ref().map(|held| &**held)),
            Err(_) => Ok(()),
        })?;
        self.work.shelf.traverse(&visit)
    }

    fn __clear__(&self) {
        Python::attach(|py| {
            self.abandon(py);
            self.work.shelf.clear(py);
        });
        for reference in self.work.references() {
            let taken = reference.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(taken);
        }
    }
}

impl Engine {
    fn over(loader: AnyLoader, work: Arc<Work>) -> Self {
        Self { loader, work, has_ended: AtomicBool::new(false) }
    }

    fn endless_loader(&self) -> PyResult<&Loader<Delivery>> {
        match &self.loader {
            AnyLoader::Endless(loader) => Ok(loader),
            AnyLoader::Pass(_) => Err(errors::new("UnsupportedError", "a pass has no state")),
        }
    }

    fn close_detached(&self) {
        match &self.loader {
            AnyLoader::Endless(loader) => loader.close(),
            AnyLoader::Pass(pass) => pass.close(),
        }
    }

    /// Ends the threads without waiting for them: see [`left`].
    fn abandon(&self, py: Python<'_>) {
        // Values may be dropped in it, and a worker may hold its locks, while
        // they wait for the GIL.
        let threads = py.detach(|| match &self.loader {
            AnyLoader::Endless(loader) => loader.close_without_waiting(),
            AnyLoader::Pass(pass) => pass.close_without_waiting(),
        });
        left::leave(py, threads);
    }

    /// The exception of a failed `next`.
    fn failed(&self, py: Python<'_>, error: &LoaderError) -> PyErr {
        if matches!(error, LoaderError::Ended) {
            self.has_ended.store(true, Ordering::Release);
            py.detach(|| self.close_detached());
        }
        let raised = to_python(py, error);
        // Ctrl-C in the caller's own thread is no fault of the batch, which
        // may be made again.
        if let (Some(step), AnyLoader::Endless(loader)) = (error.step(), &self.loader)
            && !raised.is_instance_of::<PyException>(py)
        {
            let _ = py.detach(|| loader.seek(step));
        }
        raised
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // At exit there is no GIL to be had, and no thread: Python has closed it.
        Python::try_attach(|py| self.abandon(py));
    }
}

impl Work {
    /// What the garbage collector must know of.
    fn references(&self) -> impl Iterator<Item = &Mutex<Option<Held<Py<PyAny>>>>> {
        let streams = self.sources.iter().filter_map(|source| match source {
            SourceKind::Python(stream) => Some(&stream.object),
            SourceKind::Native(_) => None,
        });
        streams.chain([&self.assemble])
    }

    fn assemble(&self, py: Python<'_>, batch: Batch) -> PyResult<Py<PyAny>> {
        let assemble = {
            let assemble = self.assemble.lock().unwrap_or_else(PoisonError::into_inner);
            assemble.as_ref().map(|assemble| assemble.clone_ref(py))
        };
        let Some(assemble) = assemble else {
            return Err(errors::new("ClosedError", "the loader is being destroyed"));
        };
        let parts = self.sources.iter().zip(batch.columns);
        let parts = parts.map(|(source, (_, column))| part(py, source, column));
        let parts = PyList::new(py, parts.collect::<PyResult<Vec<_>>>()?)?;
        let indices = self.needs_indices.then(|| {
            // An index is below 2^63, as a length is.
            let indices: Vec<i64> = batch.indices.iter().map(|i| i.cast_signed()).collect();
            indices.into_pyarray(py)
        });
        assemble.call1(py, (batch.step, indices, parts))
    }
}

/// One stream's part of a batch; None for what Python has to gather.
fn part<'py>(py: Python<'py>, source: &SourceKind, column: Column) -> PyResult<Bound<'py, PyAny>> {
    match (source, column) {
        (SourceKind::Native(stream), Column::Other(gathered)) => {
            match gathered.downcast::<Gathered>() {
                Ok(gathered) => gathered.into_python(py, stream.layout()),
                Err(_) => Err(errors::new("ZrecordError", "a column of another stream")),
            }
        }
        _ => Ok(py.None().into_bound(py)),
    }
}

fn prepare(
    streams: Vec<(String, PyRef<'_, Source>)>,
    assemble: Py<PyAny>,
    needs_indices: bool,
    in_worker: bool,
) -> (Streams, Arc<Work>) {
    let sources: Vec<_> = streams.iter().map(|(_, source)| source.kind().clone()).collect();
    let named = streams.into_iter().zip(&sources).map(|((name, _), source)| {
        let stream: Arc<dyn Stream> = match source {
            SourceKind::Native(stream) => Arc::clone(stream) as _,
            SourceKind::Python(stream) => Arc::clone(stream) as _,
        };
        (name, stream)
    });
    let streams = named.collect();
    let assemble = Mutex::new(Some(Held::new(assemble)));
    let shelf = Arc::default();
    (streams, Arc::new(Work { sources, assemble, shelf, needs_indices, in_worker }))
}

/// What the workers do with a gathered batch.
fn transform(
    work: &Arc<Work>,
) -> impl Fn(Batch) -> Result<Delivery, BoxError> + Send + Sync + 'static {
    let work = Arc::clone(work);
    move |batch| {
        if !work.in_worker {
            return Ok(Delivery::Gathered(batch));
        }
        let step = batch.step;
        let assembled = attach::try_attach(|py| match work.assemble(py, batch) {
            Ok(batch) => Ok(work.shelf.put(py, batch)),
            Err(error) => {
                errors::note_step(py, &error, step);
                Err(PythonFailure::new(py, error, &work.shelf))
            }
        });
        match assembled {
            Some(batch) => Ok(Delivery::Assembled(batch?)),
            None => Err("the interpreter is ending".into()),
        }
    }
}

/// The exception of an error of a loader.
fn to_python(py: Python<'_>, error: &LoaderError) -> PyErr {
    let kind = match error {
        LoaderError::Gather { step, source, .. } => {
            let error = source_to_python(py, &**source);
            errors::note_step(py, &error, *step);
            return error;
        }
        LoaderError::Stream { source, .. } | LoaderError::Transform { source, .. } => {
            return source_to_python(py, &**source);
        }
        LoaderError::Ended => return PyStopIteration::new_err(()),
        LoaderError::Closed => "ClosedError",
        LoaderError::Forked { .. } => "ForkedError",
        LoaderError::NoStreams
        | LoaderError::DuplicateStream { .. }
        | LoaderError::UnequalLengths { .. }
        | LoaderError::Options { .. }
        | LoaderError::State { .. }
        | LoaderError::Sample { .. } => "InvalidArgumentError",
        _ => "ZrecordError",
    };
    errors::new(kind, error.to_string())
}

fn source_to_python(
    py: Python<'_>,
    source: &(dyn std::error::Error + Send + Sync + 'static),
) -> PyErr {
    if let Some(failure) = source.downcast_ref::<PythonFailure>() {
        return failure.raise_again(py);
    }
    if let Some(error) = source.downcast_ref::<GatherError>() {
        return error.to_python();
    }
    if let Some(error) = source.downcast_ref::<zrecord_host::Error>() {
        return errors::host_error(error);
    }
    errors::new("ZrecordError", source.to_string())
}
