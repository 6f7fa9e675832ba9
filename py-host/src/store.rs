//! The store: what changes it, beside what reads it.

use std::sync::Arc;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zrecord_core::codec::{Codec, Preset};
use zrecord_core::dtype::Dtype;
use zrecord_core::format::Format;
use zrecord_core::schema::{Kind, Schema};
use zrecord_host::{Io, Mode, OpenOptions, Store as HostStore, Verify};

use crate::arguments;
use crate::array::Memory;
use crate::errors::{self, Result};
use crate::handle::{AnyHandle, Handle};
use crate::layout::Layout;
use crate::progress::Report;
use crate::reader::Reader;
use crate::value;
use crate::view::PinnedView;

/// A handle of the host's store.
#[pyclass(frozen, extends = Reader, module = "zrecord._native")]
pub(crate) struct Store {
    handle: Arc<Handle<HostStore>>,
}

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
        preset: Option<&str>,
        min_saving: Option<f64>,
        verify: &str,
        io: &str,
        lock: bool,
        threads: Option<usize>,
    ) -> Result<PyClassInitializer<Self>> {
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
        options.preset = preset.map(preset_of).transpose()?;
        options.min_saving = min_saving;
        options.threads = threads;
        let inner = py.detach(|| options.open(&path))?;
        let handle = Arc::new(Handle::new(path, inner));
        let reader = Reader::over(Arc::clone(&handle) as Arc<dyn AnyHandle>);
        Ok(PyClassInitializer::from(reader).add_subclass(Self { handle }))
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
        offsets: &Bound<'_, PyAny>,
        codec: Option<&str>,
    ) -> Result<u64> {
        let codec = codec.map(codec_of).transpose()?;
        let (src, offsets) = (arguments::borrow(src)?, arguments::offsets(offsets)?);
        let src = src.as_slice().map_err(PyErr::from)?;
        let store = self.open()?;
        Ok(py.detach(|| store.append(src, &offsets, codec))?)
    }

    /// Adds records that `commit_staged` makes count.
    fn stage(
        &self,
        py: Python<'_>,
        src: &Bound<'_, PyArray1<u8>>,
        offsets: &Bound<'_, PyAny>,
        codec: Option<&str>,
    ) -> Result<u64> {
        let codec = codec.map(codec_of).transpose()?;
        let (src, offsets) = (arguments::borrow(src)?, arguments::offsets(offsets)?);
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

    /// Records in place.
    fn view<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
        layout: &Layout,
    ) -> Result<Bound<'py, PyAny>> {
        let store = self.open()?;
        if self.handle.is_closed() {
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

    fn sync(&self, py: Python<'_>) -> Result<()> {
        let store = self.open()?;
        Ok(py.detach(|| store.sync())?)
    }

    /// Trains a dictionary and returns its size in bytes.
    fn train_dictionary(
        &self,
        py: Python<'_>,
        samples: &Bound<'_, PyArray1<u8>>,
        sizes: &Bound<'_, PyAny>,
        capacity: usize,
    ) -> Result<usize> {
        let samples = arguments::borrow(samples)?;
        let samples = samples.as_slice().map_err(PyErr::from)?;
        let sizes = arguments::offsets(sizes)?.into_iter().map(usize::try_from);
        let sizes: Vec<usize> = sizes.collect::<std::result::Result<_, _>>().map_err(|_| {
            errors::new("InvalidArgumentError", "a size is larger than this system can address")
        })?;
        let store = self.open()?;
        Ok(py.detach(|| store.train_dictionary(samples, &sizes, capacity))?)
    }
}

impl Store {
    fn open(&self) -> Result<Arc<HostStore>> {
        self.handle.open()
    }
}

pub(crate) fn codec_of(name: &str) -> Result<Codec> {
    let unknown = || errors::new("UnknownCodecError", format!("unknown codec {name:?}")).into();
    Codec::from_name(name).ok_or_else(unknown)
}

pub(crate) fn preset_of(name: &str) -> Result<Preset> {
    let unknown = || errors::new("InvalidArgumentError", format!("unknown preset {name:?}")).into();
    Preset::from_name(name).ok_or_else(unknown)
}

pub(crate) fn format_of(name: &str) -> Result<Format> {
    match name {
        "classic" => Ok(Format::Classic),
        "extended" => Ok(Format::Extended),
        _ => Err(errors::new("InvalidArgumentError", format!("unknown format {name:?}")).into()),
    }
}
