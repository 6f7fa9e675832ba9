//! A store that is being changed, behind one face: the sequential core's over
//! memory, or the host's over files.

use std::path::{Path, PathBuf};

use zrecord_core::codec::Codec;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::format::Format;
use zrecord_core::reader::Identity;
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::store::Store;
use zrecord_core::{Error, Result};
use zrecord_host::{Mode, OpenOptions};

use super::codec::trained;
use super::observe::RECORD_MAX;

/// What can be done to a store. `None` and `false` are errors.
pub trait Subject {
    /// How many records there are.
    fn length(&mut self) -> Option<u64>;
    /// The bytes of a record, if they can be read.
    fn record(&mut self, index: u64) -> Option<Vec<u8>>;
    /// The bytes of a row, if the store is typed.
    fn row_bytes(&mut self) -> Option<u64>;
    /// Appends records; the index of the first.
    fn append(&mut self, records: &[Vec<u8>], codec: Codec) -> Option<u64>;
    /// Deletes records.
    fn delete(&mut self, indices: &[u64]) -> bool;
    /// Compacts.
    fn compact(&mut self) -> bool;
    /// Syncs.
    fn sync(&mut self) -> bool;
    /// Adds a dictionary.
    fn train(&mut self) -> bool;
    /// Closes and opens again; not `cleanly`, as after a kill, where that can
    /// be had. The store is not there any more when it fails.
    fn reopen(&mut self, cleanly: bool) -> bool;
}

/// The sequential core's store over memory.
pub struct Core {
    directory: MemoryDirectory,
    store: Store<MemoryDirectory, Libzstd>,
    chunk_size_max: u64,
}

impl Core {
    /// Opens a store for writing.
    ///
    /// # Errors
    ///
    /// As [`Store::open_writer`].
    pub fn open(directory: MemoryDirectory, chunk_size_max: u64) -> Result<Self> {
        let (mut store, _) = Store::open_writer(directory.clone())?;
        store.writer()?.set_chunk_size_max(chunk_size_max);
        Ok(Self { directory, store, chunk_size_max })
    }

    /// Creates a store.
    ///
    /// # Errors
    ///
    /// As [`Store::create`].
    pub fn create(format: Format, chunk_size_max: u64) -> Result<Self> {
        let identity = match format {
            Format::Classic => Identity::Classic,
            Format::Extended => Identity::Extended([7; 16]),
        };
        let directory = MemoryDirectory::new();
        let mut store = Store::create(directory.clone(), identity)?;
        store.writer()?.set_chunk_size_max(chunk_size_max);
        Ok(Self { directory, store, chunk_size_max })
    }
}

impl Subject for Core {
    fn length(&mut self) -> Option<u64> {
        Some(self.store.len())
    }

    fn record(&mut self, index: u64) -> Option<Vec<u8>> {
        self.store.gather(&[index], u64::from(RECORD_MAX)).ok().map(|batch| batch.bytes)
    }

    fn row_bytes(&mut self) -> Option<u64> {
        self.store.schema().ok().flatten().map(|schema| schema.row_bytes())
    }

    fn append(&mut self, records: &[Vec<u8>], codec: Codec) -> Option<u64> {
        let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let policy = PackPolicy { level: Some(1), ..PackPolicy::new(codec, self.store.format()) };
        self.store.append(&slices, policy).ok()
    }

    fn delete(&mut self, indices: &[u64]) -> bool {
        self.store.delete(indices).is_ok()
    }

    fn compact(&mut self) -> bool {
        self.store.compact(&mut |_| {}).is_ok()
    }

    fn sync(&mut self) -> bool {
        self.store.sync().is_ok()
    }

    fn train(&mut self) -> bool {
        self.store.writer().and_then(|writer| writer.add_dictionary(trained())).is_ok()
    }

    fn reopen(&mut self, cleanly: bool) -> bool {
        let closed = match cleanly {
            true => self.store.writer().and_then(|writer| writer.close()),
            false => Ok(()),
        };
        let reopened =
            closed.and_then(|()| Self::open(self.directory.clone(), self.chunk_size_max));
        reopened.map(|reopened| *self = reopened).is_ok()
    }
}

/// The host's store over files.
pub struct Host {
    path: PathBuf,
    options: OpenOptions,
    /// The open store.
    pub store: zrecord_host::Store,
}

impl Host {
    /// Opens a store for writing, or creates one.
    ///
    /// # Errors
    ///
    /// As [`zrecord_host::Store::open_with`].
    pub fn open(
        path: &Path,
        format: Option<Format>,
        chunk_size_max: u64,
    ) -> zrecord_host::Result<Self> {
        let mut options = OpenOptions::new().mode(Mode::Append).threads(1).level(1);
        options.format = format;
        options.chunk_size_max = Some(chunk_size_max);
        let store = options.open(path)?;
        Ok(Self { path: path.into(), options, store })
    }
}

impl Subject for Host {
    fn length(&mut self) -> Option<u64> {
        self.store.len().ok()
    }

    fn record(&mut self, index: u64) -> Option<Vec<u8>> {
        let len = self.store.lengths(&[index]).ok()?[0];
        let mut bytes = vec![0; len.min(RECORD_MAX) as usize];
        self.store.gather(&[index], &mut bytes, &[0]).ok()?;
        Some(bytes)
    }

    fn row_bytes(&mut self) -> Option<u64> {
        self.store.schema().map(|schema| schema.row_bytes())
    }

    fn append(&mut self, records: &[Vec<u8>], codec: Codec) -> Option<u64> {
        let mut end = 0;
        let offsets = records.iter().map(|record| {
            let start = end;
            end += record.len() as u64;
            start
        });
        let offsets: Vec<u64> = offsets.collect();
        self.store.append(&records.concat(), &offsets, Some(codec)).ok()
    }

    fn delete(&mut self, indices: &[u64]) -> bool {
        self.store.delete(indices).is_ok()
    }

    fn compact(&mut self) -> bool {
        self.store.compact(&mut |_| {}).is_ok()
    }

    fn sync(&mut self) -> bool {
        self.store.sync().is_ok()
    }

    fn train(&mut self) -> bool {
        let samples: Vec<u8> =
            (0..1200_u32).flat_map(|at| (at / 7 * at % 61).to_le_bytes()).collect();
        match self.store.train_dictionary(&samples, &[40; 120], 512) {
            Ok(_) => true,
            Err(error) => {
                // The samples are good enough.
                assert!(!matches!(error.core(), Some(Error::Training { .. })), "{error}");
                false
            }
        }
    }

    fn reopen(&mut self, _: bool) -> bool {
        let closed = self.store.close();
        let reopened = closed.and_then(|()| self.options.open(&self.path));
        reopened.map(|reopened| self.store = reopened).is_ok()
    }
}
