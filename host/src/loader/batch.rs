//! A batch: which records, and their bytes, one column for each stream.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::buffer::Buffer;

/// The records of one step, gathered from every stream at the same indices.
#[derive(Debug)]
pub struct Batch {
    /// The step, counted from 0.
    pub step: u64,
    /// The records' indices, in the order of the columns' rows.
    pub indices: Vec<u64>,
    /// A column for each stream, in the order the streams were given.
    pub columns: Vec<(Arc<str>, Column)>,
}

impl Batch {
    /// How many records there are.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// True without records: the part of a rank in the last batch of a pass.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// The column of the stream `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|(own, _)| &**own == name).map(|(_, column)| column)
    }
}

/// The records of one stream in a batch.
#[non_exhaustive]
pub enum Column {
    /// Records of one length, one behind the other.
    Dense {
        /// Their bytes.
        buffer: Buffer,
        /// The length of each in bytes.
        record_len: u64,
    },
    /// Records of any length, one behind the other.
    Ragged {
        /// Their bytes.
        values: Buffer,
        /// Where each begins in `values`, in bytes, and where the last ends:
        /// one more than there are records.
        offsets: Vec<u64>,
    },
    /// What a stream of another kind gathered, such as an interpreter's object.
    Other(Box<dyn Any + Send>),
}

impl Column {
    /// The bytes of the record at `row`; `None` past the end, and of columns
    /// that hold no bytes.
    pub fn record(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Dense { buffer, record_len } => {
                let len = usize::try_from(*record_len).ok()?;
                buffer.get(row.checked_mul(len)?..)?.get(..len)
            }
            Self::Ragged { values, offsets } => {
                let start = usize::try_from(*offsets.get(row)?).ok()?;
                let end = usize::try_from(*offsets.get(row + 1)?).ok()?;
                values.get(start..end)
            }
            Self::Other(_) => None,
        }
    }
}

impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dense { buffer, record_len } => f
                .debug_struct("Dense")
                .field("buffer", buffer)
                .field("record_len", record_len)
                .finish(),
            Self::Ragged { values, offsets } => f
                .debug_struct("Ragged")
                .field("values", values)
                .field("records", &offsets.len().saturating_sub(1))
                .finish(),
            Self::Other(_) => f.write_str("Other(..)"),
        }
    }
}
