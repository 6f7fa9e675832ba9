//! The bytes of chunk files, by map or by positional reads.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use zrecord_core::format::{CHUNK_SIZE_MAX, RecordLocation};
use zrecord_core::storage::{File, FileName};
use zrecord_core::{Error, Result};

use crate::chunk_file::{ChunkFile, KEPT_MAX, is_out_of_descriptors};
use crate::directory::FsDirectory;
use crate::mapping::{MAPS_PAST_END, Mapping, ROOMY};
use crate::options::Io;
use crate::readahead::Readahead;

/// The chunk files of a store, opened when they are first read.
#[derive(Debug)]
pub(crate) struct Chunks {
    directory: FsDirectory,
    io: Io,
    open: ArcSwap<BTreeMap<u32, Arc<Chunk>>>,
    opening: Mutex<()>,
    /// The process has once run out of descriptors, so none is kept.
    is_short: AtomicBool,
    pub(crate) readahead: Readahead,
}

impl Chunks {
    /// No chunk is opened yet.
    pub(crate) fn new(directory: FsDirectory, io: Io) -> Self {
        let (open, opening) = (ArcSwap::default(), Mutex::default());
        let (is_short, readahead) = (AtomicBool::new(false), Readahead::default());
        Self { directory, io, open, opening, is_short, readahead }
    }

    /// The chunk that holds record `index`.
    pub(crate) fn get(&self, index: u64, location: &RecordLocation) -> Result<Arc<Chunk>> {
        let number = location.chunk;
        if let Some(chunk) = self.open.load().get(&number) {
            return Ok(Arc::clone(chunk));
        }
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open = BTreeMap::clone(&self.open.load());
        if let Some(chunk) = open.get(&number) {
            return Ok(Arc::clone(chunk));
        }
        let name = FileName::Chunk(number);
        let file = self.open(name, &open).map_err(|source| match source.kind() {
            ErrorKind::NotFound => location.corrupt(index, "the chunk file is missing"),
            _ => Error::Io { file: name, source },
        })?;
        let mappable = self.io == Io::Map && ROOMY;
        let chunk = Arc::new(Chunk { file, mapping: ArcSwapOption::empty(), mappable });
        open.insert(number, Arc::clone(&chunk));
        self.open.store(Arc::new(open));
        Ok(chunk)
    }

    /// Opens one more. Where there are no descriptors left, those of the
    /// others go, which can do without.
    fn open(&self, name: FileName, open: &BTreeMap<u32, Arc<Chunk>>) -> io::Result<ChunkFile> {
        let keeps = open.len() < KEPT_MAX && !self.is_short.load(Ordering::Relaxed);
        match ChunkFile::open(&self.directory, name, keeps) {
            Err(error) if is_out_of_descriptors(&error) => {
                self.is_short.store(true, Ordering::Relaxed);
                open.values().for_each(|chunk| chunk.file.release());
                ChunkFile::open(&self.directory, name, false)
            }
            result => result,
        }
    }
}

/// One chunk file.
#[derive(Debug)]
pub(crate) struct Chunk {
    file: ChunkFile,
    mapping: ArcSwapOption<Mapping>,
    mappable: bool,
}

impl Chunk {
    /// The file's size in bytes.
    pub(crate) fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    /// Whether the byte at `offset` is in memory, as far as can be known.
    pub(crate) fn is_cached(&self, offset: u64) -> bool {
        self.file.get().map_or(true, |file| file.is_cached(offset))
    }

    /// The chunk mapped, at least up to byte `end`, which the file has; `None`
    /// when it is to be read by position.
    pub(crate) fn mapping(&self, end: u64) -> Option<Arc<Mapping>> {
        if !self.mappable {
            return None;
        }
        let end = usize::try_from(end).ok()?;
        loop {
            let current = self.mapping.load();
            if let Some(mapping) = current.as_ref().filter(|mapping| mapping.len() >= end) {
                return Some(Arc::clone(mapping));
            }
            // Reserved once for all that the chunk may ever hold. Where that
            // does not work the map is made anew as the file grows; readers of
            // the old one keep it until they are done.
            let len = usize::try_from(CHUNK_SIZE_MAX).ok()?;
            let mapping = self.file.get().and_then(|file| Mapping::new(file.file(), 0, len));
            let mapping = match mapping {
                Ok(mapping) => Arc::new(mapping),
                Err(error) => {
                    log::debug!("a chunk cannot be mapped and is read by position: {error}");
                    return None;
                }
            };
            let covers = mapping.len() >= end;
            debug_assert!(covers || !MAPS_PAST_END);
            // All threads read from one map, so that what befalls it is known
            // to all; another thread may have been faster.
            let before = self.mapping.compare_and_swap(&current, Some(Arc::clone(&mapping)));
            if before.as_ref().map(Arc::as_ptr) == current.as_ref().map(Arc::as_ptr) {
                return covers.then_some(mapping);
            }
        }
    }

    /// Reads until `dst` is full or the file ends; says how many bytes it read.
    pub(crate) fn read(&self, dst: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.get()?.read(dst, offset)
    }
}
