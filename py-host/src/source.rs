//! What a loader draws from: stores, natively, and anything else through
//! Python.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use zrecord_core::schema::Kind;
use zrecord_host::BufferPool;
use zrecord_host::loader::{BoxError, Column, Stream, StreamState};

use crate::batch::{self, Form};
use crate::errors::{self, Failure, PythonFailure, Result};
use crate::held::Held;
use crate::layout::Layout;
use crate::reader::Reader;
use crate::records::Records;

/// One stream of a loader.
#[pyclass(frozen, module = "zrecord._native")]
pub(crate) struct Source {
    kind: SourceKind,
}

#[derive(Clone)]
pub(crate) enum SourceKind {
    Native(Arc<NativeStream>),
    Python(Arc<PythonStream>),
}

/// A store, and in which form its records are wanted.
pub(crate) struct NativeStream {
    store: Held<Py<Reader>>,
    layout: Held<Py<Layout>>,
    row_bytes: usize,
    form: Form,
}

/// An object that Python gathers from, when the batch is put together.
pub(crate) struct PythonStream {
    /// `None` once the garbage collector has cleared it.
    pub(crate) object: Mutex<Option<Held<Py<PyAny>>>>,
    description: String,
}

#[pymethods]
impl Source {
    #[new]
    fn new(
        store: Py<Reader>,
        layout: Py<Layout>,
        form: &str,
        max_len: Option<usize>,
        filler: Vec<u8>,
    ) -> Result<Self> {
        let row_bytes = layout.get().row_bytes();
        let form = match form {
            "dense" => Form::Dense,
            "list" => Form::List,
            "packed" => Form::Packed,
            "pad" if filler.len() == row_bytes => Form::Padded { width: max_len, filler },
            _ => return Err(errors::new("InvalidArgumentError", "there is no such form").into()),
        };
        store.get().open()?;
        let (store, layout) = (Held::new(store), Held::new(layout));
        let stream = NativeStream { store, layout, row_bytes, form };
        Ok(Self { kind: SourceKind::Native(Arc::new(stream)) })
    }

    /// An object with a length and items; `description` tells its data from
    /// other data.
    #[staticmethod]
    fn python(object: Py<PyAny>, description: String) -> Self {
        let stream = PythonStream { object: Mutex::new(Some(Held::new(object))), description };
        Self { kind: SourceKind::Python(Arc::new(stream)) }
    }
}

impl Source {
    pub(crate) fn kind(&self) -> &SourceKind {
        &self.kind
    }
}

impl NativeStream {
    pub(crate) fn layout(&self) -> &Layout {
        self.layout.get()
    }

    /// The dataset's own handle, which a forked child opens anew.
    fn store(&self) -> std::result::Result<Arc<dyn Records>, BoxError> {
        self.store.get().open().map_err(|failure| match failure {
            Failure::Host(error) => error.into(),
            Failure::Gather(error) => error.into(),
            Failure::Python(error) => PythonFailure::passing(error).into(),
        })
    }
}

impl Stream for NativeStream {
    fn length(&self) -> std::result::Result<u64, BoxError> {
        Ok(self.store()?.len()?)
    }

    fn identity(&self) -> std::result::Result<StreamState, BoxError> {
        let store = self.store()?;
        if let Some(id) = store.id() {
            return Ok(StreamState::extended(id, store.generation()?));
        }
        let length = store.len()?;
        let Some(schema) = store.schema()? else {
            return Ok(StreamState::Other { kind: "untyped".into(), length });
        };
        Ok(StreamState::Classic {
            kind: Kind::name(schema.kind()).into(),
            dtype: schema.dtype().to_string(),
            item_shape: schema.item_shape().to_vec(),
            length,
        })
    }

    fn gather(&self, indices: &[u64], pool: &BufferPool) -> std::result::Result<Column, BoxError> {
        let gathered = batch::gather(&*self.store()?, self.row_bytes, &self.form, indices, pool);
        Ok(Column::Other(Box::new(gathered?)))
    }
}

impl PythonStream {
    fn python_length(&self) -> PyResult<u64> {
        Python::attach(|py| {
            let object = self.object.lock().unwrap_or_else(PoisonError::into_inner);
            let object = object.as_ref().map(|object| object.clone_ref(py));
            let length = object.map_or(Ok(0), |object| object.bind(py).len())?;
            Ok(length as u64)
        })
    }
}

impl Stream for PythonStream {
    fn length(&self) -> std::result::Result<u64, BoxError> {
        Ok(self.python_length().map_err(PythonFailure::passing)?)
    }

    fn identity(&self) -> std::result::Result<StreamState, BoxError> {
        let length = self.length()?;
        Ok(StreamState::Other { kind: self.description.clone(), length })
    }

    fn gather(&self, _: &[u64], _: &BufferPool) -> std::result::Result<Column, BoxError> {
        Ok(Column::Other(Box::new(())))
    }
}
