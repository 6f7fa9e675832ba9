//! The record table in `meta.zr`, by map or by positional reads.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use zrecord_core::format::{Commit, Format, RecordLocation, classic, extended};
use zrecord_core::storage::{Access, Directory, File, FileName, Span};
use zrecord_core::{Error, Result};

use crate::directory::{FsDirectory, FsFile};
use crate::gather::{to_usize, was_cut};
use crate::mapping::{Mapping, ROOMY};
use crate::options::Io;
use crate::readahead::{Readahead, Stored, Stretch};

/// The table is mapped in parts of this many bytes.
const SEGMENT_SIZE: u64 = 1 << 30;
/// At most so many parts are mapped, and what lies behind them is read by
/// position: a file that is all hole must not take the address space.
const SEGMENTS_MAX: u64 = 256;
/// An entry has at most this many bytes in either format.
const ENTRY_SIZE_MAX: usize = 24;

const _: () = assert!(ENTRY_SIZE_MAX == extended::ENTRY_SIZE);
const _: () = assert!(classic::ENTRY_SIZE < extended::ENTRY_SIZE);

/// The file `meta.zr` of a store.
#[derive(Debug)]
pub(crate) struct Table {
    file: FsFile,
    format: Format,
    mappable: bool,
    segments: ArcSwap<Vec<Arc<Mapping>>>,
    growing: Mutex<()>,
    readahead: Readahead,
}

impl Table {
    /// Opens the table.
    pub(crate) fn open(directory: &FsDirectory, format: Format, io: Io) -> Result<Self> {
        let file =
            directory.open(FileName::Meta, Access::Read).map_err(Error::io(FileName::Meta))?;
        Ok(Self {
            file,
            format,
            mappable: io == Io::Map && ROOMY,
            segments: ArcSwap::default(),
            growing: Mutex::new(()),
            readahead: Readahead::default(),
        })
    }

    /// Whether the header may say more than `commit`. A torn look is made
    /// good by whoever then reads the header.
    pub(crate) fn may_be_newer(&self, commit: &Commit) -> bool {
        let segments = self.segments.load();
        let Some(header) = segments.first() else { return true };
        // Of a header that was cut the map shows zeros, or nothing at all.
        if self.file.size().map_or(true, |size| size < self.format.entry_offset(0)) {
            return true;
        }
        let is_newer = match self.format {
            Format::Classic => {
                let length = header.load_u32(classic::LENGTH_OFFSET);
                length.is_none_or(|length| u64::from(length) != commit.length)
            }
            Format::Extended => (0..2).any(|slot| {
                let offset = to_usize(extended::slot_offset(slot)) + extended::SLOT_SEQUENCE;
                let sequence = header.load_u64(offset);
                sequence.is_none_or(|sequence| sequence > commit.sequence)
            }),
        };
        is_newer || header.is_damaged()
    }

    /// The entries of the first `length` records, for reading.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when the file is too short for them.
    pub(crate) fn view(&self, length: u64) -> Result<TableView<'_>> {
        let end = self.format.entry_offset(length);
        let mut view = TableView { table: self, end, segments: Arc::default() };
        // First, so that nothing is mapped for entries that are not there.
        view.check_file()?;
        view.segments = self.segments(end);
        Ok(view)
    }

    /// Mappings that cover the file up to `end`; fewer where it is to be read
    /// by position.
    fn segments(&self, end: u64) -> Arc<Vec<Arc<Mapping>>> {
        let end = end.min(SEGMENTS_MAX * SEGMENT_SIZE);
        let covers = |segments: &[Arc<Mapping>]| {
            let mapped = segments.len() as u64 * SEGMENT_SIZE;
            let last = segments.last().map_or(0, |segment| segment.len() as u64);
            mapped.saturating_sub(SEGMENT_SIZE) + last >= end
        };
        let current = self.segments.load_full();
        if !self.mappable || covers(&current) {
            return current;
        }
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut segments = Vec::clone(&self.segments.load());
        if segments.last().is_some_and(|last| (last.len() as u64) < SEGMENT_SIZE) {
            // Mapped as far as the file went; it has grown.
            segments.pop();
        }
        while !covers(&segments) {
            let offset = segments.len() as u64 * SEGMENT_SIZE;
            let len = usize::try_from(SEGMENT_SIZE).unwrap_or(usize::MAX);
            match Mapping::new(self.file.file(), offset, len) {
                Ok(segment) => segments.push(Arc::new(segment)),
                Err(error) => {
                    log::debug!("the table cannot be mapped and is read by position: {error}");
                    break;
                }
            }
            if segments.last().is_some_and(|last| (last.len() as u64) < SEGMENT_SIZE) {
                break;
            }
        }
        let segments = Arc::new(segments);
        self.segments.store(Arc::clone(&segments));
        segments
    }
}

/// The entries that one commit counts.
#[derive(Debug)]
pub(crate) struct TableView<'a> {
    table: &'a Table,
    end: u64,
    segments: Arc<Vec<Arc<Mapping>>>,
}

impl TableView<'_> {
    /// Compares with the file's size: before entries are read from a map, so
    /// that nothing past its end is touched, and after, so that a file which
    /// was cut meanwhile is not taken for zeros.
    pub(crate) fn check_file(&self) -> Result<()> {
        if self.segments.iter().any(|segment| segment.is_damaged()) {
            return Err(was_cut(FileName::Meta));
        }
        let size = self.table.file.size().map_err(Error::io(FileName::Meta))?;
        if size >= self.end {
            return Ok(());
        }
        let reason = format!("it has {size} bytes, {} are in use: it was cut short", self.end);
        Err(Error::Corrupt { file: FileName::Meta, reason })
    }

    /// Asks for the entries of a batch, if they lie on disk only. All are of
    /// those the view was made for.
    pub(crate) fn read_ahead(&self, indices: &[u64]) {
        self.table.readahead.ask_for(&Entries { view: self, indices });
    }

    /// Where record `index` lies; it is one of those the view was made for.
    ///
    /// # Errors
    ///
    /// [`Error::CorruptRecord`] for an entry that no writer writes.
    pub(crate) fn location(&self, index: u64) -> Result<RecordLocation> {
        let format = self.table.format;
        let mut entry = [0; ENTRY_SIZE_MAX];
        let entry = &mut entry[..usize::try_from(format.entry_size()).unwrap_or(ENTRY_SIZE_MAX)];
        let offset = format.entry_offset(index);
        if !self.copy_mapped(offset, entry) {
            self.read(offset, entry)?;
        }
        format.decode_entry(entry, index)
    }

    /// Asks the processor for an entry that is about to be read.
    pub(crate) fn prefetch(&self, index: u64) {
        let format = self.table.format;
        if let Some((segment, within)) = self.place(format.entry_offset(index)) {
            segment.prefetch(within, ENTRY_SIZE_MAX);
        }
    }

    fn copy_mapped(&self, offset: u64, entry: &mut [u8]) -> bool {
        // An entry that straddles two segments is read by position.
        self.place(offset).is_some_and(|(segment, within)| segment.copy(within, entry))
    }

    /// The segment that maps a byte of the file, and where in it.
    fn place(&self, offset: u64) -> Option<(&Mapping, usize)> {
        let number = usize::try_from(offset / SEGMENT_SIZE).ok()?;
        let within = usize::try_from(offset % SEGMENT_SIZE).ok()?;
        Some((self.segments.get(number)?, within))
    }

    fn read(&self, offset: u64, entry: &mut [u8]) -> Result<()> {
        let read = self.table.file.read(entry, offset).map_err(Error::io(FileName::Meta))?;
        if read == entry.len() {
            return Ok(());
        }
        let reason = format!("{} bytes at {offset} were expected, {read} are there", entry.len());
        Err(Error::Corrupt { file: FileName::Meta, reason })
    }
}

/// The entries of a batch, in segments of the table.
struct Entries<'a> {
    view: &'a TableView<'a>,
    indices: &'a [u64],
}

impl Stored for Entries<'_> {
    fn count(&self) -> usize {
        self.indices.len()
    }

    fn stretch(&self, position: usize) -> Option<Stretch> {
        let format = self.view.table.format;
        let offset = format.entry_offset(*self.indices.get(position)?);
        let segment = to_usize(offset / SEGMENT_SIZE);
        self.mapping(segment)?;
        Some((segment, Span { offset: offset % SEGMENT_SIZE, len: format.entry_size() }))
    }

    fn is_cached(&self, segment: usize, offset: u64) -> bool {
        self.view.table.file.is_cached(segment as u64 * SEGMENT_SIZE + offset)
    }

    fn mapping(&self, segment: usize) -> Option<&Mapping> {
        self.view.segments.get(segment).map(Arc::as_ref)
    }

    fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.view.segments.iter().map(Arc::as_ref)
    }
}
