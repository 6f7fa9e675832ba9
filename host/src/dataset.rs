//! Typed views of a store: records as rows of items.

use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use zrecord_core::codec::Codec;
use zrecord_core::dtype::Dtype;
use zrecord_core::schema::{Kind, Schema};

use crate::buffer::{Buffer, BufferPool};
use crate::error::{Error, Result};
use crate::options::OpenOptions;
use crate::store::Store;
use crate::view::View;

/// An open store whose records have a schema: what both kinds of dataset are.
#[derive(Clone, Debug)]
pub struct TypedStore {
    store: Arc<Store>,
    schema: Arc<Schema>,
}

impl TypedStore {
    fn new(store: Arc<Store>, kind: Kind) -> Result<Self> {
        let schema = typed(&store, kind)?;
        Ok(Self { store, schema })
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// What a row is.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// How many records there are by now.
    ///
    /// # Errors
    ///
    /// As [`Store::len`].
    pub fn len(&self) -> Result<u64> {
        self.store.len()
    }

    /// True when there are no records.
    ///
    /// # Errors
    ///
    /// As [`Store::len`].
    pub fn is_empty(&self) -> Result<bool> {
        self.store.is_empty()
    }

    /// The type of one item.
    pub fn dtype(&self) -> &Dtype {
        self.schema.dtype()
    }

    /// The shape of a row.
    pub fn item_shape(&self) -> &[u64] {
        self.schema.item_shape()
    }

    /// The codec of records for which none is named.
    pub fn codec(&self) -> Codec {
        self.schema.codec()
    }

    /// The bytes of a row.
    pub fn row_bytes(&self) -> u64 {
        self.schema.row_bytes()
    }
}

/// A store whose every record is one row of the same dtype and shape.
#[derive(Clone, Debug)]
pub struct DenseDataset(TypedStore);

impl Deref for DenseDataset {
    type Target = TypedStore;

    fn deref(&self) -> &TypedStore {
        &self.0
    }
}

impl DenseDataset {
    /// Opens the dataset at `path` for reading. Never creates one.
    ///
    /// # Errors
    ///
    /// As [`Store::open`] and [`from_store`](Self::from_store).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &OpenOptions::new())
    }

    /// Opens with options, but never for writing.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        Self::from_store(open_store(path.as_ref(), options)?)
    }

    /// The dataset in an open store.
    ///
    /// # Errors
    ///
    /// `SchemaMismatch` when the store is untyped or ragged.
    pub fn from_store(store: Arc<Store>) -> Result<Self> {
        TypedStore::new(store, Kind::Dense).map(Self)
    }

    /// Gathers rows, one behind the other, into `dst`.
    ///
    /// # Errors
    ///
    /// As [`Store::gather_packed`].
    pub fn gather(&self, indices: &[u64], dst: &mut [u8]) -> Result<()> {
        self.store.gather_packed(indices, dst, self.row_bytes())
    }

    /// Gathers rows into a buffer of `pool`.
    ///
    /// # Errors
    ///
    /// As [`gather`](Self::gather), and when there is no memory for them.
    pub fn gather_into(&self, indices: &[u64], pool: &BufferPool) -> Result<Buffer> {
        let len = self.row_bytes().checked_mul(indices.len() as u64);
        let mut rows = take(&self.store, pool, len)?;
        self.gather(indices, &mut rows)?;
        Ok(rows)
    }

    /// Rows `start..stop` without a copy, in a raw dataset.
    ///
    /// # Errors
    ///
    /// As [`Store::view`].
    pub fn view(&self, start: u64, stop: u64) -> Result<View> {
        self.store.view(start, stop)
    }
}

/// A store whose records are any number of rows each.
#[derive(Clone, Debug)]
pub struct RaggedDataset(TypedStore);

impl Deref for RaggedDataset {
    type Target = TypedStore;

    fn deref(&self) -> &TypedStore {
        &self.0
    }
}

/// Ragged records, one behind the other.
#[derive(Debug)]
pub struct RaggedBatch {
    /// The bytes of all records.
    pub values: Buffer,
    /// Where each record begins in `values`, in bytes, and where the last one
    /// ends: one more than there are records.
    pub offsets: Vec<u64>,
}

impl RaggedBatch {
    /// The bytes of the record at `position` in the batch.
    pub fn get(&self, position: usize) -> Option<&[u8]> {
        let &start = self.offsets.get(position)?;
        let &end = self.offsets.get(position.checked_add(1)?)?;
        self.values.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }
}

impl RaggedDataset {
    /// Opens the dataset at `path` for reading. Never creates one.
    ///
    /// # Errors
    ///
    /// As [`Store::open`] and [`from_store`](Self::from_store).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &OpenOptions::new())
    }

    /// Opens with options, but never for writing.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        Self::from_store(open_store(path.as_ref(), options)?)
    }

    /// The dataset in an open store.
    ///
    /// # Errors
    ///
    /// `SchemaMismatch` when the store is untyped or dense.
    pub fn from_store(store: Arc<Store>) -> Result<Self> {
        TypedStore::new(store, Kind::Ragged).map(Self)
    }

    /// The lengths of records in bytes.
    ///
    /// # Errors
    ///
    /// As [`Store::lengths`].
    pub fn lengths(&self, indices: &[u64]) -> Result<Vec<u32>> {
        self.store.lengths(indices)
    }

    /// Gathers records into a buffer of `pool`.
    ///
    /// # Errors
    ///
    /// As [`Store::gather`], and when there is no memory for them.
    pub fn gather(&self, indices: &[u64], pool: &BufferPool) -> Result<RaggedBatch> {
        let mut offsets = Vec::with_capacity(indices.len() + 1);
        let mut end = 0;
        offsets.push(end);
        for len in self.lengths(indices)? {
            end += u64::from(len);
            offsets.push(end);
        }
        let mut values = take(&self.store, pool, Some(end))?;
        self.store.gather(indices, &mut values, &offsets[..indices.len()])?;
        Ok(RaggedBatch { values, offsets })
    }
}

fn open_store(path: &Path, options: &OpenOptions) -> Result<Arc<Store>> {
    let options = options.clone().mode(crate::options::Mode::Read);
    Ok(Arc::new(Store::open_with(path, &options)?))
}

/// The schema of a store that must be of that kind.
fn typed(store: &Store, kind: Kind) -> Result<Arc<Schema>> {
    let mismatch = |reason| {
        let source = zrecord_core::Error::SchemaMismatch { reason };
        Err(Error::store(store.path())(source))
    };
    match store.read_schema()? {
        Some(schema) if schema.kind() == kind => Ok(schema),
        Some(schema) => mismatch(format!("the dataset is {}, not {kind}", schema.kind())),
        None => mismatch("the store is untyped, so it is no dataset".into()),
    }
}

fn take(store: &Store, pool: &BufferPool, len: Option<u64>) -> Result<Buffer> {
    let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
    let len = len.and_then(|len| usize::try_from(len).ok()).ok_or_else(too_large);
    len.and_then(|len| pool.try_take(len)).map_err(Error::io(store.path()))
}
