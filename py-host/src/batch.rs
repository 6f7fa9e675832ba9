//! What is gathered for one batch from one store: bytes first, without the
//! GIL, then arrays over them.

use numpy::{PyArray1, ToPyArray};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use zrecord_host::{Buffer, BufferPool};

use crate::array::Memory;
use crate::errors::{self, Failure};
use crate::layout::Layout;
use crate::records::Records;

/// How the records of a batch are laid out.
pub(crate) enum Form {
    /// Rows of one length.
    Dense,
    /// One array per record.
    List,
    /// All rows one behind the other, and where each record begins.
    Packed,
    /// Rows to `width` of each record, the rest filled.
    Padded {
        /// Rows per record; those of the longest unless given.
        width: Option<usize>,
        /// The bytes of one row of filling.
        filler: Vec<u8>,
    },
}

/// Why a batch could not be gathered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatherError {
    /// The store could not.
    #[error(transparent)]
    Host(#[from] zrecord_host::Error),
    /// The system has no memory for it.
    #[error("no memory for a batch of {0} bytes")]
    Memory(usize),
    /// A record longer than the width asked for.
    #[error("record {position} of the batch has {rows} rows, over max_len={width}")]
    TooManyRows { position: usize, rows: usize, width: usize },
    /// A record that is no whole number of rows.
    #[error("record {position} of the batch has {len} bytes, no whole number of {row_bytes}")]
    Torn { position: usize, len: usize, row_bytes: usize },
}

impl GatherError {
    /// The exception, a new one each time.
    pub(crate) fn to_python(&self) -> PyErr {
        match self {
            Self::Host(error) => errors::host_error(error),
            Self::Memory(_) => PyMemoryError::new_err(self.to_string()),
            Self::TooManyRows { .. } => errors::new("InvalidArgumentError", self.to_string()),
            Self::Torn { .. } => errors::new("CorruptError", self.to_string()),
        }
    }
}

impl From<GatherError> for PyErr {
    fn from(error: GatherError) -> Self {
        error.to_python()
    }
}

impl From<GatherError> for Failure {
    fn from(error: GatherError) -> Self {
        Self::Gather(error)
    }
}

/// The bytes of a batch, and what they are.
pub(crate) enum Gathered {
    Dense {
        buffer: Buffer,
        count: usize,
    },
    /// The records' rows lie one behind the other.
    Ragged {
        buffer: Buffer,
        rows: Vec<usize>,
        form: RaggedForm,
    },
    Padded {
        buffer: Buffer,
        width: usize,
        rows: Vec<usize>,
    },
}

/// What becomes of ragged records.
pub(crate) enum RaggedForm {
    List,
    Packed,
}

/// Gathers records in that form. Needs no GIL.
pub(crate) fn gather(
    store: &dyn Records,
    row_bytes: usize,
    form: &Form,
    indices: &[u64],
    pool: &BufferPool,
) -> Result<Gathered, GatherError> {
    match form {
        Form::Dense => {
            let mut buffer = take(pool, indices.len().checked_mul(row_bytes))?;
            store.gather_packed(indices, &mut buffer, row_bytes as u64)?;
            Ok(Gathered::Dense { buffer, count: indices.len() })
        }
        Form::List => ragged(store, row_bytes, indices, pool, RaggedForm::List),
        Form::Packed => ragged(store, row_bytes, indices, pool, RaggedForm::Packed),
        Form::Padded { width, filler } => padded(store, row_bytes, indices, pool, *width, filler),
    }
}

fn ragged(
    store: &dyn Records,
    row_bytes: usize,
    indices: &[u64],
    pool: &BufferPool,
    form: RaggedForm,
) -> Result<Gathered, GatherError> {
    let rows = row_counts(store, row_bytes, indices)?;
    let mut offsets = Vec::with_capacity(rows.len());
    let mut end = 0_usize;
    for count in &rows {
        offsets.push(end as u64);
        end = end.checked_add(count * row_bytes).ok_or(GatherError::Memory(usize::MAX))?;
    }
    let mut buffer = take(pool, Some(end))?;
    store.gather(indices, &mut buffer, &offsets)?;
    Ok(Gathered::Ragged { buffer, rows, form })
}

fn padded(
    store: &dyn Records,
    row_bytes: usize,
    indices: &[u64],
    pool: &BufferPool,
    width: Option<usize>,
    filler: &[u8],
) -> Result<Gathered, GatherError> {
    let rows = row_counts(store, row_bytes, indices)?;
    let width = width.unwrap_or_else(|| rows.iter().copied().max().unwrap_or(0));
    if let Some(position) = rows.iter().position(|count| *count > width) {
        return Err(GatherError::TooManyRows { position, rows: rows[position], width });
    }
    let record_bytes = width.checked_mul(row_bytes);
    let mut buffer = take(pool, record_bytes.and_then(|size| size.checked_mul(indices.len())))?;
    let record_bytes = record_bytes.unwrap_or_default();
    let offsets: Vec<u64> = (0..rows.len()).map(|i| (i * record_bytes) as u64).collect();
    store.gather(indices, &mut buffer, &offsets)?;
    if record_bytes > 0 {
        for (record, count) in buffer.chunks_exact_mut(record_bytes).zip(&rows) {
            fill(&mut record[count * row_bytes..], filler);
        }
    }
    Ok(Gathered::Padded { buffer, width, rows })
}

fn fill(bytes: &mut [u8], filler: &[u8]) {
    match filler.iter().all(|byte| *byte == 0) {
        true => bytes.fill(0),
        false => bytes.chunks_exact_mut(filler.len()).for_each(|row| row.copy_from_slice(filler)),
    }
}

/// How many rows each record has.
pub(crate) fn row_counts(
    store: &dyn Records,
    row_bytes: usize,
    indices: &[u64],
) -> Result<Vec<usize>, GatherError> {
    let lengths = store.lengths(indices)?;
    let mut rows = Vec::with_capacity(lengths.len());
    for (position, len) in lengths.into_iter().enumerate() {
        let len = usize::try_from(len).map_err(|_| GatherError::Memory(usize::MAX))?;
        match (len, len.checked_rem(row_bytes)) {
            (0, _) => rows.push(0),
            (_, Some(0)) => rows.push(len / row_bytes),
            _ => return Err(GatherError::Torn { position, len, row_bytes }),
        }
    }
    Ok(rows)
}

fn take(pool: &BufferPool, len: Option<usize>) -> Result<Buffer, GatherError> {
    let len = len.ok_or(GatherError::Memory(usize::MAX))?;
    pool.try_take(len).map_err(|_| GatherError::Memory(len))
}

impl Gathered {
    /// Arrays over what was gathered.
    pub(crate) fn into_python<'py>(
        self,
        py: Python<'py>,
        layout: &Layout,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Dense { buffer, count } => Memory::writable(py, buffer)?.array(layout, &[count]),
            Self::Ragged { buffer, rows, form: RaggedForm::List } => {
                Ok(list(&Memory::writable(py, buffer)?, layout, &rows)?.into_any())
            }
            Self::Ragged { buffer, rows, form: RaggedForm::Packed } => {
                let values = Memory::writable(py, buffer)?.array(layout, &[rows.iter().sum()])?;
                let ends = rows.iter().scan(0, |end, count| {
                    *end += count;
                    Some(*end)
                });
                let offsets: Vec<usize> = std::iter::once(0).chain(ends).collect();
                Ok((values, counts(py, &offsets)).into_pyobject(py)?.into_any())
            }
            Self::Padded { buffer, width, rows } => {
                let values = Memory::writable(py, buffer)?.array(layout, &[rows.len(), width])?;
                Ok((values, counts(py, &rows)).into_pyobject(py)?.into_any())
            }
        }
    }
}

/// An array per record, side by side in one memory.
fn list<'py>(
    memory: &Memory<'py>,
    layout: &Layout,
    rows: &[usize],
) -> PyResult<Bound<'py, PyList>> {
    let mut start = 0;
    let mut arrays = Vec::with_capacity(rows.len());
    for count in rows {
        let end = start + count * layout.row_bytes();
        arrays.push(memory.part(start..end, layout, &[*count])?);
        start = end;
    }
    PyList::new(memory.py(), arrays)
}

/// Counts as an int64 vector, which is what index arithmetic is done with.
pub(crate) fn counts<'py>(py: Python<'py>, values: &[usize]) -> Bound<'py, PyArray1<i64>> {
    let values: Vec<i64> = values.iter().map(|value| value.cast_signed() as i64).collect();
    values.to_pyarray(py)
}
