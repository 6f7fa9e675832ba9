//! Raw records of one length in index order: found by arithmetic.

use std::iter;
use std::sync::Arc;

use zrecord_core::codec::Codec;
use zrecord_core::format::{CHUNK_SIZE_MAX, RecordLocation};
use zrecord_core::storage::Span;
use zrecord_core::{Error, Result};

use crate::copying::{STREAM_BYTES_MIN, prefetch_distance, share_weight, workers_for};
use crate::gather::{Touched, to_usize, too_short};
use crate::handle::{Reading, Snapshot};
use crate::mapping::Mapping;
use crate::options::Verify;
use crate::pool;
use crate::readahead::{Readahead, Stored, Stretch};
use crate::table::TableView;

/// A batch of a raw store that has one chunk, which is mapped: copied without
/// looking records up, and without a look at the table but for the checksums
/// that are to be compared. Others take the general way, which fetches one more
/// line from memory for each record.
pub(crate) struct Strided<'a> {
    indices: &'a [u64],
    record_len: usize,
    touched: Touched,
    mapping: Arc<Mapping>,
    readahead: &'a Readahead,
    /// More than stays in the cache.
    streams: bool,
    /// `None` where nothing is to be compared.
    checks: Option<Checks<'a>>,
}

/// What comparing the checksums of a batch needs.
struct Checks<'a> {
    table: TableView<'a>,
    snapshot: &'a Snapshot,
    always: bool,
}

impl<'a> Strided<'a> {
    /// The batch, if it is such a one. All indices are in range.
    pub(crate) fn new(
        reading: &'a Reading<'_>,
        indices: &'a [u64],
        dst_len: usize,
        record_len: u64,
        verify: Verify,
    ) -> Result<Option<Self>> {
        let snapshot = &*reading.snapshot;
        let stride = u64::from(snapshot.commit.stride);
        let wanted = record_len.checked_mul(indices.len() as u64);
        if stride == 0
            || stride != record_len
            || snapshot.commit.length > CHUNK_SIZE_MAX / stride
            || wanted.is_none_or(|wanted| wanted > dst_len as u64)
        {
            return Ok(None);
        }
        let Some(&last) = indices.iter().max() else { return Ok(None) };
        let farthest = location(snapshot, last);
        let chunk = reading.files.chunks.get(last, &farthest)?;
        let Some(mapping) = chunk.mapping(farthest.end()) else { return Ok(None) };
        let touched =
            Touched { chunk, mapping: Some(Arc::clone(&mapping)), last: (last, farthest) };
        let checks = Checks::new(verify, reading, indices)?;
        let (record_len, readahead) = (to_usize(record_len), &reading.files.chunks.readahead);
        let streams = record_len.saturating_mul(indices.len()) >= STREAM_BYTES_MIN;
        Ok(Some(Self { indices, record_len, touched, mapping, readahead, streams, checks }))
    }

    /// Writes the records one behind the other.
    pub(crate) fn run(&self, dst: &mut [u8], threads: usize) -> Result<()> {
        self.touched.check_file()?;
        self.read_ahead();
        let bytes = self.record_len * self.indices.len();
        let dst = &mut dst[..bytes];
        let workers = workers_for(bytes, threads);
        let copied = if workers < 2 {
            self.copy(self.indices, dst)
        } else {
            let records = share_weight(bytes, workers).div_ceil(self.record_len);
            let shares =
                self.indices.chunks(records).zip(dst.chunks_mut(records * self.record_len));
            pool::share_out(threads, workers, shares.collect(), |(indices, dst)| {
                self.copy(indices, dst)
            })
        };
        // A file that was cut is the cause of whatever its bytes looked like,
        // and its zeros are not to be taken for data.
        self.touched.check_file()?;
        if let Some(checks) = &self.checks {
            checks.table.check_file()?;
        }
        copied
    }

    fn read_ahead(&self) {
        self.readahead.ask_for(self);
        if let Some(checks) = &self.checks {
            checks.table.read_ahead(self.indices);
        }
    }

    fn copy(&self, indices: &[u64], dst: &mut [u8]) -> Result<()> {
        match &self.checks {
            Some(checks) => self.copy_and_check(indices, dst, checks),
            None if self.streams => {
                self.copy_by(indices, dst, |at, record| self.mapping.stream(at, record))
            }
            None => self.copy_by(indices, dst, |at, record| self.mapping.copy(at, record)),
        }
    }

    fn copy_by(
        &self,
        indices: &[u64],
        dst: &mut [u8],
        copy: impl Fn(usize, &mut [u8]) -> bool,
    ) -> Result<()> {
        let distance = prefetch_distance(self.record_len);
        let ask = |index: &u64| self.mapping.prefetch(self.offset(*index), self.record_len);
        indices.iter().take(distance).for_each(ask);
        let records = dst.chunks_exact_mut(self.record_len);
        for (position, (&index, record)) in indices.iter().zip(records).enumerate() {
            if let Some(ahead) = indices.get(position + distance) {
                ask(ahead);
            }
            if !copy(self.offset(index), record) {
                return Err(self.not_mapped(index));
            }
        }
        Ok(())
    }

    fn copy_and_check(&self, indices: &[u64], dst: &mut [u8], checks: &Checks<'_>) -> Result<()> {
        let distance = prefetch_distance(self.record_len);
        let ask = |index: &u64| {
            self.mapping.prefetch(self.offset(*index), self.record_len);
            checks.table.prefetch(*index);
        };
        indices.iter().take(distance).for_each(ask);
        let mut verified = 0;
        let records = dst.chunks_exact_mut(self.record_len);
        for (position, (&index, record)) in indices.iter().zip(records).enumerate() {
            if let Some(ahead) = indices.get(position + distance) {
                ask(ahead);
            }
            if !self.mapping.copy(self.offset(index), record) {
                return Err(self.not_mapped(index));
            }
            // Hashed where it was just written, which is in the cache.
            verified += u64::from(checks.check(index, record)?);
        }
        checks.snapshot.verified.count_in(verified);
        Ok(())
    }

    #[cold]
    fn not_mapped(&self, index: u64) -> Error {
        too_short(index, &self.touched.last.1, 0)
    }

    fn offset(&self, index: u64) -> usize {
        // Below the size of a chunk, as the whole store is.
        to_usize(index) * self.record_len
    }
}

impl Stored for Strided<'_> {
    fn count(&self) -> usize {
        self.indices.len()
    }

    fn stretch(&self, position: usize) -> Option<Stretch> {
        let index = self.indices.get(position)?;
        let offset = self.offset(*index) as u64;
        Some((0, Span { offset, len: self.record_len as u64 }))
    }

    fn is_cached(&self, _: usize, offset: u64) -> bool {
        self.touched.chunk.is_cached(offset)
    }

    fn mapping(&self, _: usize) -> Option<&Mapping> {
        Some(&self.mapping)
    }

    fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        iter::once(&*self.mapping)
    }
}

impl<'a> Checks<'a> {
    fn new(verify: Verify, reading: &'a Reading<'_>, indices: &[u64]) -> Result<Option<Self>> {
        let snapshot = &*reading.snapshot;
        let needless = match verify {
            Verify::Never => true,
            Verify::Always => false,
            Verify::First => indices.iter().all(|index| snapshot.verified.contains(*index)),
        };
        if needless {
            return Ok(None);
        }
        let table = reading.files.table.view(snapshot.commit.length)?;
        Ok(Some(Self { table, snapshot, always: verify == Verify::Always }))
    }

    /// Compares unless it was done; whether that is news.
    fn check(&self, index: u64, record: &[u8]) -> Result<bool> {
        if !self.always && self.snapshot.verified.contains(index) {
            return Ok(false);
        }
        let location = self.table.location(index)?;
        check(self.snapshot, index, &location)?;
        location.check(index, record)?;
        Ok(!self.always && self.snapshot.verified.insert(index))
    }
}

/// Checks that the table says of a record what the stride promises, on which
/// every later look at the record rests.
pub(crate) fn check(snapshot: &Snapshot, index: u64, found: &RecordLocation) -> Result<()> {
    let stride = snapshot.commit.stride;
    if stride == 0 || found.is_strided(snapshot.first_chunk, stride, index) {
        return Ok(());
    }
    Err(found.corrupt(index, "it does not lie where the header's stride says"))
}

/// Where a stride promises record `index`.
pub(crate) fn location(snapshot: &Snapshot, index: u64) -> RecordLocation {
    let len = snapshot.commit.stride;
    let per_chunk = (CHUNK_SIZE_MAX / u64::from(len)).max(1);
    let (chunks, within) =
        if index < per_chunk { (0, index) } else { (index / per_chunk, index % per_chunk) };
    let low = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    RecordLocation {
        chunk: snapshot.first_chunk.saturating_add(low(chunks)),
        offset: low(within * u64::from(len)),
        stored_len: len,
        len,
        codec: Codec::Raw,
        dictionary: 0,
        checksum: None,
    }
}
