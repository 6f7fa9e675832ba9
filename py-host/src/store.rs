//! The store: one call of the host per batch, without the GIL.
//!
//! Even small calls let the GIL go: a compaction in another thread holds the
//! store while it calls its progress function, which needs the GIL.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arc_swap::ArcSwap;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use zrecord_core::codec::Codec;
use zrecord_core::dtype::Dtype;
use zrecord_core::format::Format;
use zrecord_core::schema::{Kind, Schema};
use zrecord_host::{BufferPool, Io, Mode, OpenOptions, Store as HostStore, Verify};

use crate::arguments;
use crate::array::Memory;
use crate::batch::{self, Form};
use crate::errors::{self, Result};
use crate::layout::Layout;
use crate::progress::Report;
use crate::value;
use crate::view::PinnedView;

/// A handle that opens its store anew in the child of a fork.
#[pyclass(frozen, weakref, module = "zrecord._native")]
pub(crate) struct Store {
    path: String,
    inner: ArcSwap<HostStore>,
    /// The process that opened `inner`.
    process: AtomicU32,
    is_closed: AtomicBool,
}

/// Kind, dtype, item shape, codec and metadata.
type SchemaParts<'py> = (
    &'static str,
    Bound<'py, PyAny>,
    Bound<'py, pyo3::types::PyTuple>,
    &'static str,
    Bound<'py, PyDict>,
);

#[pymethods]
impl Store {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "named in Python, where it is called from")]
    fn new(
        py: Python<'_>,
        path: String,
        mode: &str,
        codec: &str,
        format: Option<&str>,
        level: Option<i32>,
        min_saving: Option<f64>,
        verify: &str,
        io: &str,
        lock: bool,
        threads: Option<usize>,
    ) -> Result<Self> {
        let mut options = OpenOptions::new()
            .mode(match mode {
                "r" => Mode::Read,
                "x" => Mode::Create,
                _ => Mode::Append,
            })
            .codec(codec_of(codec)?)
            .verify(match verify {
                "always" => Verify::Always,
                "never" => Verify::Never,
                _ => Verify::First,
            })
            .io(if io == "pread" { Io::Pread } else { Io::Map })
            .lock(lock);
        options.format = format.map(format_of).transpose()?;
        options.level = level;
        options.min_saving = min_saving;
        options.threads = threads;
        let inner = py.detach(|| options.open(&path))?;
        Ok(Self {
            path,
            inner: ArcSwap::from_pointee(inner),
            process: AtomicU32::new(process::id()),
            is_closed: AtomicBool::new(false),
        })
    }

    /// The absolute path that it was opened by.
    #[getter]
    fn path(&self) -> &str {
        &self.path
    }

    #[getter]
    fn codec(&self, py: Python<'_>) -> Result<&'static str> {
        let store = self.open()?;
        Ok(py.detach(|| store.codec()).name())
    }

    #[getter]
    fn format(&self) -> Result<&'static str> {
        Ok(self.open()?.format().name())
    }

    #[getter]
    fn id(&self) -> Result<Option<String>> {
        let id = self.open()?.id();
        Ok(id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    #[getter]
    fn generation(&self) -> Result<u64> {
        Ok(self.open()?.generation())
    }

    #[getter]
    fn closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// How many records there are.
    fn length(&self, py: Python<'_>) -> Result<u64> {
        let store = self.open()?;
        Ok(py.detach(|| store.len())?)
    }

    /// The schema, if the store is typed.
    fn schema<'py>(&self, py: Python<'py>) -> Result<Option<SchemaParts<'py>>> {
        let store = self.open()?;
        let Some(schema) = py.detach(|| store.read_schema())? else { return Ok(None) };
        Ok(Some((
            schema.kind().name(),
            value::to_python(py, &schema.dtype().to_value())?,
            pyo3::types::PyTuple::new(py, schema.item_shape())?,
            schema.codec().name(),
            value::map_to_python(py, schema.metadata())?,
        )))
    }

    /// Makes an empty store typed, or checks that it has this layout.
    fn set_schema(
        &self,
        py: Python<'_>,
        kind: &str,
        dtype: &Bound<'_, PyAny>,
        item_shape: Vec<u64>,
        codec: &str,
        metadata: &Bound<'_, PyDict>,
    ) -> Result<()> {
        let invalid = |reason: String| errors::new("InvalidArgumentError", reason);
        let kind = Kind::from_name(kind).ok_or_else(|| invalid(format!("no kind {kind:?}")))?;
        let dtype = Dtype::from_value(&value::from_python(dtype)?)
            .map_err(|error| errors::new("UnsupportedError", error.to_string()))?;
        let rmpv::Value::Map(metadata) = value::from_python(metadata)? else {
            return Err(invalid("the metadata are no map".into()).into());
        };
        let schema = Schema::new(kind, dtype, item_shape, codec_of(codec)?, metadata)
            .map_err(errors::core_error)?;
        let store = self.open()?;
        Ok(py.detach(|| store.set_schema(&schema))?)
    }

    /// Appends records, as one commit.
    fn append(
        &self,
        py: Python<'_>,
        src: &Bound<'_, PyArray1<u8>>,
        offsets: &Bound<'_, PyArray1<u64>>,
        codec: Option<&str>,
    ) -> Result<u64> {
        let codec = codec.map(codec_of).transpose()?;
        let (src, offsets) = (arguments::borrow(src)?, arguments::copy(offsets)?);
        let src = src.as_slice().map_err(PyErr::from)?;
        let store = self.open()?;
        Ok(py.detach(|| store.append(src, &offsets, codec))?)
    }

    /// Adds records that `commit_staged` makes count.
    fn stage(
        &self,
        py: Python<'_>,
        src: &Bound<'_, PyArray1<u8>>,
        offsets: &Bound<'_, PyArray1<u64>>,
        codec: Option<&str>,
    ) -> Result<u64> {
        let codec = codec.map(codec_of).transpose()?;
        let (src, offsets) = (arguments::borrow(src)?, arguments::copy(offsets)?);
        let src = src.as_slice().map_err(PyErr::from)?;
        let store = self.open()?;
        Ok(py.detach(|| store.stage(src, &offsets, codec))?)
    }

    fn commit_staged(&self, py: Python<'_>) -> Result<()> {
        let store = self.open()?;
        Ok(py.detach(|| store.commit_staged())?)
    }

    fn discard_staged(&self, py: Python<'_>) -> Result<()> {
        let store = self.open()?;
        Ok(py.detach(|| store.discard_staged())?)
    }

    /// Takes the writer's lock now.
    fn lock_writer(&self, py: Python<'_>) -> Result<()> {
        let store = self.open()?;
        Ok(py.detach(|| store.lock_writer())?)
    }

    /// Copies records to places in `dst`.
    fn gather(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        dst: &Bound<'_, PyArray1<u8>>,
        offsets: &Bound<'_, PyArray1<u64>>,
    ) -> Result<()> {
        let indices = arguments::indices(indices, || Ok(None))?;
        let offsets = arguments::copy(offsets)?;
        let mut dst = arguments::borrow_mut(dst)?;
        let dst = dst.as_slice_mut().map_err(PyErr::from)?;
        let store = self.open()?;
        Ok(py.detach(|| store.gather(&indices, dst, &offsets))?)
    }

    /// The lengths of records in bytes.
    fn lengths<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyArray1<u32>>> {
        let indices = arguments::indices(indices, || Ok(None))?;
        let store = self.open()?;
        Ok(py.detach(|| store.lengths(&indices))?.into_pyarray(py))
    }

    /// One record.
    fn read<'py>(&self, py: Python<'py>, index: u64) -> Result<Bound<'py, PyBytes>> {
        let store = self.open()?;
        let record = py.detach(|| -> Result<Vec<u8>> {
            let len = store.lengths(&[index])?.first().copied().unwrap_or_default();
            let mut record = vec![0; len as usize];
            store.gather(&[index], &mut record, &[0])?;
            Ok(record)
        })?;
        Ok(PyBytes::new(py, &record))
    }

    /// Rows as one array.
    fn take<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        layout: &Layout,
    ) -> Result<Bound<'py, PyAny>> {
        self.take_form(py, indices, layout, &Form::Dense)
    }

    /// One row: an array of the item shape, or a scalar.
    fn take_one<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        layout: &Layout,
    ) -> Result<Bound<'py, PyAny>> {
        let store = self.open()?;
        let index = index.extract::<i64>().map_err(|_| {
            errors::new("OutOfRangeError", format!("index {index} is out of range for any store"))
        })?;
        let row_bytes = layout.row_bytes();
        let gathered = py.detach(|| -> Result<_> {
            let index = arguments::resolve(index, || {
                store.len().map(Some).map_err(|error| errors::host_error(&error))
            })?;
            let pool = BufferPool::shared();
            Ok(batch::gather(&store, row_bytes, &Form::Dense, &[index], pool)?)
        })?;
        let row = gathered.into_python(py, layout)?;
        Ok(row.get_item(0)?)
    }

    /// Rows into the caller's memory.
    fn take_into(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        dst: &Bound<'_, PyArray1<u8>>,
        layout: &Layout,
    ) -> Result<()> {
        let store = self.open()?;
        let indices = arguments::indices(indices, || length(py, &store))?;
        let mut dst = arguments::borrow_mut(dst)?;
        let dst = dst.as_slice_mut().map_err(PyErr::from)?;
        let row_bytes = layout.row_bytes() as u64;
        Ok(py.detach(|| store.gather_packed(&indices, dst, row_bytes))?)
    }

    /// Ragged records, an array each.
    fn take_list<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        layout: &Layout,
    ) -> Result<Bound<'py, PyAny>> {
        self.take_form(py, indices, layout, &Form::List)
    }

    /// The rows of ragged records, and where each record begins.
    fn take_packed<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        layout: &Layout,
    ) -> Result<Bound<'py, PyAny>> {
        self.take_form(py, indices, layout, &Form::Packed)
    }

    /// Ragged records padded to one width, and their numbers of rows.
    fn take_padded<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        layout: &Layout,
        max_len: Option<usize>,
        filler: Vec<u8>,
    ) -> Result<Bound<'py, PyAny>> {
        if filler.len() != layout.row_bytes() {
            return Err(errors::new("InvalidArgumentError", "the filler is no row").into());
        }
        self.take_form(py, indices, layout, &Form::Padded { width: max_len, filler })
    }

    /// How many rows ragged records have.
    fn row_counts<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        layout: &Layout,
    ) -> Result<Bound<'py, PyArray1<i64>>> {
        let store = self.open()?;
        let indices = arguments::indices(indices, || length(py, &store))?;
        let row_bytes = layout.row_bytes();
        let rows = py.detach(|| batch::row_counts(&store, row_bytes, &indices))?;
        Ok(batch::counts(py, &rows))
    }

    /// Records in place.
    fn view<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
        layout: &Layout,
    ) -> Result<Bound<'py, PyAny>> {
        let store = self.open()?;
        if self.closed() {
            return Err(errors::new("ClosedError", "the store is closed").into());
        }
        let view = py.detach(|| PinnedView::new(&store, start, stop))?;
        let count = usize::try_from(stop.saturating_sub(start)).unwrap_or(usize::MAX);
        Ok(Memory::read_only(py, view)?.array(layout, &[count])?)
    }

    fn delete(&self, py: Python<'_>, indices: &Bound<'_, PyAny>) -> Result<()> {
        let indices = arguments::indices(indices, || Ok(None))?;
        let store = self.open()?;
        Ok(py.detach(|| store.delete(&indices))?)
    }

    fn compact(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> Result<()> {
        let store = self.open()?;
        let mut report = Report::new(progress);
        py.detach(|| store.compact(&mut |progress| report.say(progress)))?;
        report.outcome()
    }

    fn verify(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> Result<Vec<String>> {
        let store = self.open()?;
        let mut report = Report::new(progress);
        let faults = py.detach(|| store.verify(&mut |progress| report.say(progress)))?;
        report.outcome()?;
        Ok(faults.iter().map(ToString::to_string).collect())
    }

    fn stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let store = self.open()?;
        let stats = py.detach(|| store.stats())?;
        let dict = PyDict::new(py);
        dict.set_item("records", stats.records)?;
        dict.set_item("live_bytes", stats.live_bytes)?;
        dict.set_item("chunk_bytes", stats.chunk_bytes)?;
        dict.set_item("reclaimable", stats.reclaimable)?;
        Ok(dict)
    }

    fn sync(&self, py: Python<'_>) -> Result<()> {
        let store = self.open()?;
        Ok(py.detach(|| store.sync())?)
    }

    /// Trains a dictionary and returns its size in bytes.
    fn train_dictionary(
        &self,
        py: Python<'_>,
        samples: &Bound<'_, PyArray1<u8>>,
        sizes: &Bound<'_, PyArray1<u64>>,
        capacity: usize,
    ) -> Result<usize> {
        let samples = arguments::borrow(samples)?;
        let samples = samples.as_slice().map_err(PyErr::from)?;
        let sizes = arguments::copy(sizes)?.into_iter().map(usize::try_from);
        let sizes: Vec<usize> = sizes.collect::<std::result::Result<_, _>>().map_err(|_| {
            errors::new("InvalidArgumentError", "a size is larger than this system can address")
        })?;
        let store = self.open()?;
        Ok(py.detach(|| store.train_dictionary(samples, &sizes, capacity))?)
    }

    fn has_dictionary(&self, py: Python<'_>) -> Result<bool> {
        let store = self.open()?;
        Ok(py.detach(|| store.has_dictionary()))
    }

    fn close(&self, py: Python<'_>) -> Result<()> {
        self.is_closed.store(true, Ordering::Release);
        let store = self.inner.load_full();
        Ok(py.detach(|| store.close())?)
    }

    /// Called in the child of a fork: gives up the locks that it has inherited.
    fn after_fork(&self) {
        if self.process.load(Ordering::Acquire) != process::id() {
            self.inner.load_full().after_fork();
        }
    }
}

impl Store {
    /// The store of this process, opened anew if it was forked.
    pub(crate) fn open(&self) -> Result<Arc<HostStore>> {
        let process = process::id();
        if self.process.load(Ordering::Acquire) != process {
            if self.is_closed.load(Ordering::Acquire) {
                let (path, source) = (self.path.clone().into(), zrecord_core::Error::Closed);
                return Err(zrecord_host::Error::Store { path, source }.into());
            }
            self.inner.load_full().after_fork();
            self.inner.store(Arc::new(self.inner.load_full().open_again()?));
            self.process.store(process, Ordering::Release);
        }
        Ok(self.inner.load_full())
    }

    fn take_form<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        layout: &Layout,
        form: &Form,
    ) -> Result<Bound<'py, PyAny>> {
        let store = self.open()?;
        let indices = arguments::indices(indices, || length(py, &store))?;
        let row_bytes = layout.row_bytes();
        let pool = BufferPool::shared();
        let gathered = py.detach(|| batch::gather(&store, row_bytes, form, &indices, pool))?;
        Ok(gathered.into_python(py, layout)?)
    }
}

fn length(py: Python<'_>, store: &HostStore) -> PyResult<Option<u64>> {
    let length = py.detach(|| store.len());
    length.map(Some).map_err(|error| errors::host_error(&error))
}

fn codec_of(name: &str) -> Result<Codec> {
    let unknown = || errors::new("UnknownCodecError", format!("unknown codec {name:?}")).into();
    Codec::from_name(name).ok_or_else(unknown)
}

fn format_of(name: &str) -> Result<Format> {
    match name {
        "classic" => Ok(Format::Classic),
        "extended" => Ok(Format::Extended),
        _ => Err(errors::new("InvalidArgumentError", format!("unknown format {name:?}")).into()),
    }
}
