//! Planning a batch: where its records lie, and which bytes of the
//! destination each one gets. Everything is checked before a byte is written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use zrecord_core::codec::Codec;
use zrecord_core::format::RecordLocation;
use zrecord_core::storage::{FileName, Span};
use zrecord_core::{Error, Result};

use crate::chunks::Chunk;
use crate::copying::{self, Copying};
use crate::handle::{Handle, Reading};
use crate::mapping::Mapping;
use crate::options::Verify;
use crate::readahead::{Stored, Stretch};
use crate::strided::{self, Strided};
use crate::table::TableView;

/// The entry of a record is asked for while those of so many before it are
/// looked at: a fetch from memory takes as long as some ten of them.
const ENTRIES_AHEAD: usize = 16;

/// One record of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// The record's index in the store.
    pub(crate) index: u64,
    /// Where it begins in the destination.
    pub(crate) start: usize,
    /// Its chunk's place among the touched ones.
    pub(crate) touched: usize,
    pub(crate) location: RecordLocation,
}

impl Job {
    pub(crate) fn len(&self) -> usize {
        to_usize(u64::from(self.location.len))
    }

    /// Where it ends in the destination; planning has seen that it fits.
    pub(crate) fn end(&self) -> usize {
        self.start + self.len()
    }
}

/// A chunk that a batch reads from.
pub(crate) struct Touched {
    pub(crate) chunk: Arc<Chunk>,
    pub(crate) mapping: Option<Arc<Mapping>>,
    /// The record that lies farthest back in it.
    pub(crate) last: (u64, RecordLocation),
}

impl Touched {
    /// Compares with the file's size: before bytes are read from a map, so
    /// that nothing past its end is touched, and after, so that a chunk which
    /// was cut meanwhile is not taken for zeros.
    pub(crate) fn check_file(&self) -> Result<()> {
        let (index, location) = &self.last;
        let file = location.file();
        if self.mapping.as_ref().is_some_and(|mapping| mapping.is_damaged()) {
            return Err(was_cut(file));
        }
        let size = self.chunk.size().map_err(|source| Error::Io { file, source })?;
        if size >= location.end() {
            return Ok(());
        }
        Err(too_short(*index, location, size.saturating_sub(u64::from(location.offset))))
    }
}

/// The error of a file that was cut while it was read from its map. The handle
/// keeps to it, also if the file grows back: what it then has is not what was
/// stored.
pub(crate) fn was_cut(file: FileName) -> Error {
    let reason = "it was cut while it was read, or could not be read; reopen the store".into();
    Error::Corrupt { file, reason }
}

/// The error of a chunk that ends before a record does.
pub(crate) fn too_short(index: u64, location: &RecordLocation, found: u64) -> Error {
    let wanted = location.stored_len;
    location.corrupt(index, format!("{wanted} stored bytes were expected, {found} are there"))
}

/// A batch, ready to be copied.
pub(crate) struct Plan {
    /// In the order of the destination.
    pub(crate) jobs: Vec<Job>,
    pub(crate) touched: Vec<Touched>,
    /// What all jobs weigh.
    pub(crate) weight: usize,
    /// The numbers of the dictionaries that decoding needs.
    pub(crate) dictionaries: BTreeSet<u8>,
}

impl Stored for Plan {
    fn count(&self) -> usize {
        self.jobs.len()
    }

    fn stretch(&self, position: usize) -> Option<Stretch> {
        let Job { touched, location, .. } = self.jobs.get(position)?;
        self.mapping(*touched)?;
        let (offset, len) = (location.offset.into(), location.stored_len.into());
        Some((*touched, Span { offset, len }))
    }

    fn is_cached(&self, touched: usize, offset: u64) -> bool {
        self.touched.get(touched).is_none_or(|touched| touched.chunk.is_cached(offset))
    }

    fn mapping(&self, touched: usize) -> Option<&Mapping> {
        self.touched.get(touched)?.mapping.as_deref()
    }

    fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.touched.iter().filter_map(|touched| touched.mapping.as_deref())
    }
}

/// Where a batch wants its records.
#[derive(Clone, Copy)]
pub(crate) enum Places<'a> {
    /// Record `i` at `offsets[i]`.
    Offsets(&'a [u64]),
    /// One behind the other, each of this many bytes.
    Packed(u64),
}

impl Places<'_> {
    /// Refuses offsets that are none for `count` records.
    pub(crate) fn check_count(&self, count: usize) -> Result<()> {
        match self {
            Self::Offsets(offsets) if offsets.len() != count => {
                let reason = format!("{} offsets for {count} indices", offsets.len());
                Err(Error::InvalidArgument { argument: "offsets", reason })
            }
            _ => Ok(()),
        }
    }

    /// Where record `index`, at `position` of the batch, lies in a destination
    /// of `size` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::SchemaMismatch`], [`Error::BufferTooSmall`].
    pub(crate) fn place(
        &self,
        position: usize,
        index: u64,
        len: u32,
        size: usize,
    ) -> Result<Range<usize>> {
        let len = u64::from(len);
        if let Self::Packed(wanted) = *self
            && len != wanted
        {
            let reason = format!("record {index} has {len} bytes, not {wanted}");
            return Err(Error::SchemaMismatch { reason });
        }
        let start = self.start(position);
        let end = start.saturating_add(len);
        if end > size as u64 {
            let (index, size) = (position as u64, size as u64);
            return Err(Error::BufferTooSmall { index, start, end, size });
        }
        Ok(to_usize(start)..to_usize(end))
    }

    fn start(&self, position: usize) -> u64 {
        match self {
            Self::Offsets(offsets) => offsets.get(position).copied().unwrap_or(u64::MAX),
            Self::Packed(len) => len.saturating_mul(position as u64),
        }
    }
}

impl Handle {
    /// Gathers records into the caller's memory.
    pub(crate) fn gather(&self, indices: &[u64], dst: &mut [u8], places: Places<'_>) -> Result<()> {
        let reading = self.share_for(indices)?;
        let verify = match self.options.verify {
            Verify::First if reading.snapshot.is_verified() => Verify::Never,
            verify => verify,
        };
        if let Places::Packed(len) = places
            && let Some(strided) = Strided::new(&reading, indices, dst.len(), len, verify)?
        {
            return strided.run(dst, self.threads);
        }
        let mut table = None;
        let plan = plan(&reading, &mut table, indices, dst.len(), places, verify);
        // A file that was cut is the cause of whatever its bytes looked like.
        if let Some(table) = &table {
            table.check_file()?;
        }
        let plan = plan?;
        for touched in &plan.touched {
            touched.check_file()?;
        }
        reading.files.chunks.readahead.ask_for(&plan);
        let dictionaries = self.dictionaries.with(plan.dictionaries.iter().copied(), |number| {
            let mut reader = self.reader()?;
            reader.refresh()?;
            reader.dictionary(number)
        })?;
        let copying = Copying {
            jobs: &plan.jobs,
            touched: &plan.touched,
            weight: plan.weight,
            dictionaries: &dictionaries,
            snapshot: &reading.snapshot,
            verify,
        };
        let copied = copying.run(dst, self.threads);
        // As above.
        for touched in &plan.touched {
            touched.check_file()?;
        }
        copied
    }

    /// The lengths of records in bytes.
    pub(crate) fn lengths(&self, indices: &[u64]) -> Result<Vec<u32>> {
        let reading = self.share_for(indices)?;
        let commit = &reading.snapshot.commit;
        if commit.stride != 0 {
            return Ok(vec![commit.stride; indices.len()]);
        }
        let table = reading.files.table.view(commit.length)?;
        table.read_ahead(indices);
        let lengths =
            indices.iter().map(|&index| table.location(index).map(|location| location.len));
        let lengths = lengths.collect();
        table.check_file()?;
        lengths
    }

    /// Shares the files, with a commit that counts all of `indices`.
    pub(crate) fn share_for(&self, indices: &[u64]) -> Result<Reading<'_>> {
        let mut reading = self.share()?;
        let Some(&highest) = indices.iter().max() else { return Ok(reading) };
        if highest >= reading.snapshot.commit.length {
            self.follow(&mut reading)?;
        }
        let length = reading.snapshot.commit.length;
        if highest < length {
            return Ok(reading);
        }
        // The first of them is named, not the highest.
        let index = indices.iter().find(|index| **index >= length).copied().unwrap_or(highest);
        Err(Error::OutOfRange { index, length })
    }
}

/// Looks up and checks a batch.
fn plan<'a>(
    reading: &'a Reading<'_>,
    table: &mut Option<TableView<'a>>,
    indices: &[u64],
    size: usize,
    places: Places<'_>,
    verify: Verify,
) -> Result<Plan> {
    places.check_count(indices.len())?;
    let mut locator = Locator { reading, indices, table, verify };
    let mut touching =
        Touching { reading, touched: Vec::new(), slots: BTreeMap::new(), last: None };
    let mut jobs = Vec::with_capacity(indices.len());
    let mut dictionaries = BTreeSet::new();
    let mut weight = 0_usize;
    let mut in_order = true;
    let mut previous_end = 0;
    for (position, &index) in indices.iter().enumerate() {
        locator.prefetch(position + ENTRIES_AHEAD);
        let location = locator.locate(index)?;
        let place = places.place(position, index, location.len, size)?;
        in_order &= place.start >= previous_end;
        previous_end = place.end;
        let touched = touching.touch(index, &location)?;
        if location.codec == Codec::ZstdDict {
            dictionaries.insert(location.dictionary);
        }
        let job = Job { index, start: place.start, touched, location };
        weight = weight.saturating_add(copying::weight(&job));
        jobs.push(job);
    }
    if !in_order {
        sort_disjoint(&mut jobs)?;
    }
    Ok(Plan { jobs, touched: touching.finish(), weight, dictionaries })
}

/// Sorts jobs by their place in the destination, where none may overlap.
fn sort_disjoint(jobs: &mut [Job]) -> Result<()> {
    jobs.sort_unstable_by_key(|job| (job.start, job.len()));
    for pair in jobs.windows(2) {
        if pair[0].end() > pair[1].start {
            return Err(overlap(pair[0].index, pair[1].index, pair[1].start));
        }
    }
    Ok(())
}

/// The error of two records that want the same byte of the destination.
pub(crate) fn overlap(one: u64, other: u64, at: usize) -> Error {
    let reason =
        format!("records {one} and {other} would overlap in the destination, at byte {at}");
    Error::InvalidArgument { argument: "offsets", reason }
}

/// Finds records: by arithmetic where a stride allows it, else in the table,
/// which is then looked at and not before.
struct Locator<'a, 'b, 'c> {
    reading: &'a Reading<'b>,
    /// Of the whole batch.
    indices: &'c [u64],
    table: &'c mut Option<TableView<'a>>,
    verify: Verify,
}

impl Locator<'_, '_, '_> {
    fn locate(&mut self, index: u64) -> Result<RecordLocation> {
        let snapshot = &self.reading.snapshot;
        let needs_checksum = match self.verify {
            Verify::Never => false,
            Verify::Always => true,
            Verify::First => !snapshot.verified.contains(index),
        };
        if snapshot.commit.stride != 0 && !needs_checksum {
            return Ok(strided::location(snapshot, index));
        }
        let table = match &mut *self.table {
            Some(table) => table,
            none => {
                let table = none.insert(self.reading.files.table.view(snapshot.commit.length)?);
                table.read_ahead(self.indices);
                table
            }
        };
        let location = table.location(index)?;
        strided::check(snapshot, index, &location)?;
        Ok(location)
    }

    /// Asks the processor for the entry of the record at `position`, once the
    /// table is being looked at.
    fn prefetch(&self, position: usize) {
        if let (Some(table), Some(&index)) = (&self.table, self.indices.get(position)) {
            table.prefetch(index);
        }
    }
}

/// Collects the chunks of a batch.
struct Touching<'a, 'b> {
    reading: &'a Reading<'b>,
    touched: Vec<(Arc<Chunk>, (u64, RecordLocation))>,
    slots: BTreeMap<u32, usize>,
    /// The chunk of the record before, which most often is the next one's.
    last: Option<(u32, usize)>,
}

impl Touching<'_, '_> {
    fn touch(&mut self, index: u64, location: &RecordLocation) -> Result<usize> {
        // An empty record has a place in no chunk.
        if location.stored_len == 0 {
            return Ok(usize::MAX);
        }
        let slot = match self.last {
            Some((chunk, slot)) if chunk == location.chunk => slot,
            _ => self.slot(index, location)?,
        };
        self.last = Some((location.chunk, slot));
        let farthest = &mut self.touched[slot].1;
        if location.end() > farthest.1.end() {
            *farthest = (index, *location);
        }
        Ok(slot)
    }

    fn slot(&mut self, index: u64, location: &RecordLocation) -> Result<usize> {
        if let Some(&slot) = self.slots.get(&location.chunk) {
            return Ok(slot);
        }
        let chunk = self.reading.files.chunks.get(index, location)?;
        let slot = self.touched.len();
        self.touched.push((chunk, (index, *location)));
        self.slots.insert(location.chunk, slot);
        Ok(slot)
    }

    fn finish(self) -> Vec<Touched> {
        let touched = self.touched.into_iter();
        touched
            .map(|(chunk, last)| {
                let mapping = chunk.mapping(last.1.end());
                Touched { chunk, mapping, last }
            })
            .collect()
    }
}

/// Sizes that were checked against a slice or a file fit the address space.
pub(crate) fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
