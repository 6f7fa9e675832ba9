//! Zero-copy views of raw stores.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use zrecord_core::format::{CHUNK_SIZE_MAX, RecordLocation};
use zrecord_core::{Error, Result};

use crate::gather::{Touched, to_usize};
use crate::handle::{Handle, Reading};
use crate::lock::Presence;
use crate::mapping::Mapping;
use crate::options::Verify;
use crate::strided;

/// The bytes of neighbouring records, where they are mapped. Keeps the map
/// alive, also after the store is closed.
///
/// The user of a view keeps others from writing the file or cutting it while
/// the view lives. When it is cut all the same, the [guard](crate::guard) lets
/// the view show zeros from some place on, which
/// [`is_damaged`](Self::is_damaged) tells; without the guard, reading it ends
/// the process.
pub struct View {
    /// `None` when it is empty.
    mapping: Option<Arc<Mapping>>,
    offset: usize,
    len: usize,
    _alive: Alive,
}

/// Makes delete and compact busy until it is dropped: those of its handle by a
/// count, those of others by the handle's presence, also once it is closed.
struct Alive {
    views: Arc<AtomicUsize>,
    _presence: Option<Arc<Presence>>,
}

impl Alive {
    fn new(handle: &Handle) -> Self {
        handle.views.fetch_add(1, Ordering::AcqRel);
        let presence = handle.presence.lock().unwrap_or_else(PoisonError::into_inner);
        Self { views: Arc::clone(&handle.views), _presence: presence.clone() }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.views.fetch_sub(1, Ordering::AcqRel);
    }
}

impl View {
    /// Whether the file was cut under a view of it, as far as it was read: the
    /// bytes may then be zeros that were never stored.
    pub fn is_damaged(&self) -> bool {
        self.mapping.as_ref().is_some_and(|mapping| mapping.is_damaged())
    }
}

impl Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // Planned to lie within the map.
        let mapping = self.mapping.as_ref();
        mapping.and_then(|mapping| mapping.lend(self.offset, self.len)).unwrap_or_default()
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Handle {
    /// See [`Store::view`](crate::Store::view).
    pub(crate) fn view(&self, start: u64, stop: u64) -> Result<View> {
        if start > stop {
            let reason = format!("it ends at {stop}, before it begins at {start}");
            return Err(Error::InvalidArgument { argument: "view", reason });
        }
        if start == stop {
            self.share()?;
            return Ok(View { mapping: None, offset: 0, len: 0, _alive: Alive::new(self) });
        }
        let reading = self.share_for(&[stop - 1])?;
        let alive = Alive::new(self);
        let (first, last) = ends(&reading, start, stop)?;
        let chunk = reading.files.chunks.get(start, &first)?;
        let mapping = chunk.mapping(last.end()).ok_or_else(|| Error::Unsupported {
            what: "a view of a store that is read by position (io=pread); gather copies".into(),
        })?;
        let touched =
            Touched { chunk, mapping: Some(Arc::clone(&mapping)), last: (stop - 1, last) };
        touched.check_file()?;
        let offset = to_usize(u64::from(first.offset));
        let len = to_usize(last.end()) - offset;
        let view = View { mapping: Some(mapping), offset, len, _alive: alive };
        let checked = self.check_view(&reading, start, stop, &view);
        // A file that was cut is the cause of whatever its bytes looked like.
        touched.check_file()?;
        checked.map(|()| view)
    }

    /// Compares checksums, as reading the records would.
    fn check_view(&self, reading: &Reading<'_>, start: u64, stop: u64, view: &View) -> Result<()> {
        let snapshot = &reading.snapshot;
        let record_len = to_usize(u64::from(snapshot.commit.stride));
        let (mut table, mut verified) = (None, 0);
        for (index, record) in (start..stop).zip(view.chunks_exact(record_len)) {
            let skip = match self.options.verify {
                Verify::Never => true,
                Verify::Always => false,
                Verify::First => snapshot.verified.contains(index),
            };
            if skip {
                continue;
            }
            let table = match &table {
                Some(table) => table,
                None => &*table.insert(reading.files.table.view(snapshot.commit.length)?),
            };
            let location = table.location(index)?;
            strided::check(snapshot, index, &location)?;
            location.check(index, record)?;
            verified += u64::from(snapshot.verified.insert(index));
        }
        snapshot.verified.count_in(verified);
        table.map_or(Ok(()), |table| table.check_file())
    }
}

/// The first and the last record of a view, which lie in one chunk.
fn ends(reading: &Reading<'_>, start: u64, stop: u64) -> Result<(RecordLocation, RecordLocation)> {
    let stride = reading.snapshot.commit.stride;
    if stride == 0 {
        let what = "a view of records that are not all raw, of one length and in order".into();
        return Err(Error::Unsupported { what });
    }
    let first = strided::location(&reading.snapshot, start);
    let last = strided::location(&reading.snapshot, stop - 1);
    if first.chunk != last.chunk {
        let per_chunk = CHUNK_SIZE_MAX / u64::from(stride);
        let what = format!(
            "a view across chunks: records {start}..{stop}, a chunk holds {per_chunk}; \
             take one up to each multiple of that"
        );
        return Err(Error::Unsupported { what });
    }
    Ok((first, last))
}
