//! Datasets as streams.

use zrecord_core::schema::Schema;

use super::batch::Column;
use super::error::BoxError;
use super::state::StreamState;
use super::stream::Stream;
use crate::buffer::BufferPool;
use crate::dataset::{DenseDataset, RaggedDataset};
use crate::store::Store;

impl Stream for DenseDataset {
    fn length(&self) -> Result<u64, BoxError> {
        Ok(self.len()?)
    }

    fn identity(&self) -> Result<StreamState, BoxError> {
        identity(self.store(), self.schema())
    }

    fn gather(&self, indices: &[u64], pool: &BufferPool) -> Result<Column, BoxError> {
        let buffer = self.gather_into(indices, pool)?;
        Ok(Column::Dense { buffer, record_len: self.row_bytes() })
    }
}

impl Stream for RaggedDataset {
    fn length(&self) -> Result<u64, BoxError> {
        Ok(self.len()?)
    }

    fn identity(&self) -> Result<StreamState, BoxError> {
        identity(self.store(), self.schema())
    }

    fn gather(&self, indices: &[u64], pool: &BufferPool) -> Result<Column, BoxError> {
        let batch = RaggedDataset::gather(self, indices, pool)?;
        Ok(Column::Ragged { values: batch.values, offsets: batch.offsets })
    }
}

/// The id of an extended store; what can be compared of a classic one.
fn identity(store: &Store, schema: &Schema) -> Result<StreamState, BoxError> {
    if let Some(id) = store.id() {
        return Ok(StreamState::extended(id, store.generation()));
    }
    Ok(StreamState::Classic {
        kind: schema.kind().name().into(),
        dtype: schema.dtype().to_string(),
        item_shape: schema.item_shape().to_vec(),
        length: store.len()?,
    })
}
