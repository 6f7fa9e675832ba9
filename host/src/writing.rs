//! The changing side of a handle: the writer's lock, the core's writer, and
//! every change but append.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::{PackDictionary, Packer};
use zrecord_core::codec::{Codec, CodecError, Zstd};
use zrecord_core::format::Format;
use zrecord_core::reader::{Identity, Reader};
use zrecord_core::schema::Schema;
use zrecord_core::storage::Access;
use zrecord_core::writer::{Compaction, Progress, Writer};
use zrecord_core::{Error, Result};

use crate::append::SharedPacker;
use crate::directory::FsDirectory;
use crate::handle::{Files, Handle};
use crate::lock::{self, Presence, WriterLock};
use crate::options::{Mode, OpenOptions};

/// What the one writing handle of a store has.
pub(crate) struct Writing {
    pub(crate) writer: Writer<FsDirectory>,
    /// `None` when locks are switched off.
    lock: Option<WriterLock>,
    /// By codec and, for the dictionary codec, its newest dictionary.
    packers: BTreeMap<(u8, u32), Arc<SharedPacker>>,
}

impl Writing {
    /// Creates a store in a directory that exists.
    pub(crate) fn create(
        directory: &FsDirectory,
        options: &OpenOptions,
    ) -> Result<(Self, Identity)> {
        let lock = take_lock(directory, options)?;
        let identity = match options.format.unwrap_or(Format::Extended) {
            Format::Classic => Identity::Classic,
            Format::Extended => Identity::Extended(options.id.map_or_else(draw_id, Ok)?),
        };
        let writer = Writer::create(directory.clone(), identity)?;
        Ok((Self::over(writer, lock, options), identity))
    }

    /// Takes over an existing store.
    fn open(handle: &Handle) -> Result<Self> {
        let Handle { directory, options, .. } = handle;
        let lock = take_lock(directory, options)?;
        let reader = Reader::open(directory.clone(), Access::Write)?;
        let (writer, recovery) = Writer::open(reader)?;
        if recovery.unclean {
            log::warn!(
                "{}: the store was not closed cleanly; {} of {} records were kept",
                directory.path().display(),
                recovery.kept,
                recovery.counted
            );
        }
        Ok(Self::over(writer, lock, options))
    }

    fn over(
        mut writer: Writer<FsDirectory>,
        lock: Option<WriterLock>,
        options: &OpenOptions,
    ) -> Self {
        if let Some(bytes) = options.chunk_size_max {
            writer.set_chunk_size_max(bytes);
        }
        Self { writer, lock, packers: BTreeMap::new() }
    }

    /// Syncs, and gives the lock back whether or not that worked.
    pub(crate) fn close(mut self) -> Result<()> {
        let result = self.writer.close();
        if let Some(lock) = self.lock {
            lock.release();
        }
        result
    }

    /// What packs records with `codec`: made once, since digesting a
    /// dictionary at a high level takes long.
    pub(crate) fn packer(
        &mut self,
        codec: Codec,
        options: &OpenOptions,
    ) -> Result<Arc<SharedPacker>> {
        let count = match codec {
            Codec::Raw | Codec::Zstd => 0,
            Codec::ZstdDict => self.writer.commit().dictionaries,
        };
        let key = (codec.number(), count);
        if let Some(packer) = self.packers.get(&key) {
            return Ok(Arc::clone(packer));
        }
        let newest = count.checked_sub(1).and_then(|newest| u8::try_from(newest).ok());
        let bytes = newest.map(|number| self.writer.reader().dictionary(number)).transpose()?;
        let dictionary =
            newest.zip(bytes.as_deref()).map(|(number, bytes)| PackDictionary { number, bytes });
        let policy = options.policy(codec, self.writer.format());
        let packer = Arc::new(SharedPacker::new(Packer::new(policy, dictionary)?));
        self.packers.retain(|(other, _), _| *other != codec.number());
        self.packers.insert(key, Arc::clone(&packer));
        Ok(packer)
    }
}

/// The writing side, taken over by the first change.
pub(crate) struct WritingGuard<'a>(MutexGuard<'a, Option<Writing>>);

impl WritingGuard<'_> {
    pub(crate) fn get(&mut self) -> Result<&mut Writing> {
        self.0.as_mut().ok_or(Error::Closed)
    }
}

impl Handle {
    /// Becomes the writer, if it is not: takes the writer's lock, reads the
    /// newest commit again and recovers. Whoever calls it holds `files`.
    pub(crate) fn write(&self, files: &Files) -> Result<WritingGuard<'_>> {
        if self.options.mode == Mode::Read {
            return Err(Error::ReadOnly);
        }
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if writing.is_none() {
            let taken = Writing::open(self)?;
            if let Err(error) = self.ensure_presence() {
                taken.close()?;
                return Err(error);
            }
            self.is_writer.store(true, Ordering::Release);
            self.publish(files, *taken.writer.commit())?;
            *writing = Some(taken);
        }
        Ok(WritingGuard(writing))
    }

    /// On Windows presence needs `lock.zr`, which the writer's lock has made.
    fn ensure_presence(&self) -> Result<()> {
        let mut presence = self.presence.lock().unwrap_or_else(PoisonError::into_inner);
        if self.options.lock && presence.is_none() {
            let taken = Presence::take(self.path())?.ok_or_else(lock::unsupported)?;
            *presence = Some(Arc::new(taken));
        }
        Ok(())
    }

    /// A change that needs the store alone: no batch in this handle, no other
    /// handle anywhere.
    fn change_alone<T>(&self, change: impl FnOnce(&mut Writing) -> Result<T>) -> Result<T> {
        let mut files = self.exclude();
        let current = Arc::clone(files.as_ref().ok_or(Error::Closed)?);
        if self.views.load(Ordering::Acquire) > 0 {
            let reason = "zero-copy views of it are alive; drop them first".into();
            return Err(Error::Busy { reason });
        }
        let mut guard = self.write(&current)?;
        let writing = guard.get()?;
        let presence = self.presence.lock().unwrap_or_else(PoisonError::into_inner);
        let _alone = presence.as_ref().map(|presence| presence.exclude()).transpose()?;
        // A mapped file cannot be replaced on Windows, so ours go first.
        drop(current);
        *files = None;
        let result = change(writing);
        // Parts of a change may have been swapped in before it failed. If the
        // files cannot be opened again, the handle is as good as closed.
        let reopened = self.reopen_files()?;
        self.forget_places();
        self.publish(&reopened, *writing.writer.commit())?;
        *files = Some(reopened);
        result
    }

    /// See [`Writer::delete`].
    pub(crate) fn delete(&self, indices: &[u64]) -> Result<()> {
        self.change_alone(|writing| writing.writer.delete(indices))
    }

    /// See [`Writer::compact`].
    pub(crate) fn compact(&self, progress: &mut dyn FnMut(Progress)) -> Result<Compaction> {
        self.change_alone(|writing| writing.writer.compact(progress))
    }

    /// A change beside which batches go on, but no append.
    fn change<T>(&self, change: impl FnOnce(&mut Writing) -> Result<T>) -> Result<T> {
        let reading = self.share()?;
        let mut guard = self.write(&reading.files)?;
        let writing = guard.get()?;
        let result = change(writing);
        self.publish(&reading.files, *writing.writer.commit())?;
        result
    }

    /// See [`Writer::commit_staged`].
    pub(crate) fn commit_staged(&self) -> Result<()> {
        self.change(|writing| writing.writer.commit_staged())
    }

    /// See [`Writer::discard_staged`].
    pub(crate) fn discard_staged(&self) -> Result<()> {
        self.change(|writing| {
            writing.writer.discard_staged();
            Ok(())
        })
    }

    /// Becomes the writer now rather than with the first change.
    pub(crate) fn lock_writer(&self) -> Result<()> {
        self.change(|_| Ok(()))
    }

    /// See [`Writer::sync`]; nothing to do in a handle that has not written.
    pub(crate) fn sync(&self) -> Result<()> {
        if !self.is_writer.load(Ordering::Acquire) {
            return self.share().map(drop);
        }
        self.change(|writing| writing.writer.sync())
    }

    /// See [`Writer::set_schema`].
    pub(crate) fn set_schema(&self, schema: &Schema) -> Result<()> {
        self.change(|writing| writing.writer.set_schema(schema))
    }

    /// Trains a dictionary and adds it; returns its size.
    pub(crate) fn train_dictionary(
        &self,
        samples: &[u8],
        sizes: &[usize],
        capacity: usize,
    ) -> Result<usize> {
        // Training takes seconds; whether it may be added is known before.
        self.change(|_| Ok(()))?;
        let bytes = Libzstd::train(samples, sizes, capacity).map_err(|error| match error {
            CodecError::Training(reason) => Error::Training { reason },
            other => Error::Unsupported { what: other.to_string() },
        })?;
        // A classic store replaces its one dictionary, which no append may be
        // packing with meanwhile.
        let files = self.exclude();
        let current = Arc::clone(files.as_ref().ok_or(Error::Closed)?);
        let mut guard = self.write(&current)?;
        let writing = guard.get()?;
        let result = writing.writer.add_dictionary(&bytes);
        writing.packers.clear();
        if self.format() == Format::Classic {
            self.dictionaries.clear();
        }
        self.publish(&current, *writing.writer.commit())?;
        result.map(|_| bytes.len())
    }
}

fn take_lock(directory: &FsDirectory, options: &OpenOptions) -> Result<Option<WriterLock>> {
    options.lock.then(|| WriterLock::take(directory.path())).transpose()
}

/// The id of a new store.
pub(crate) fn draw_id() -> Result<[u8; 16]> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| Error::Unsupported {
        what: format!("drawing random bytes for the id of the store ({error})"),
    })?;
    Ok(id)
}
