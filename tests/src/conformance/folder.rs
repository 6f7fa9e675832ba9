//! A handle of the host's as an implementation of the contract, over files.
//! What the host has no call for, core's reader says of the same files.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::reader::Reader;
use zrecord_core::storage::Access;
use zrecord_core::store::Store as Sequential;
use zrecord_host::Error as HostError;
use zrecord_host::directory::FsDirectory;

use super::handle::Handle;
use crate::component::bindings::store::{
    Error, Fault, Format, Info, Locations, RecordBatch, Schema, Summary, TooLarge, Usage,
};
use crate::component::bindings::store_edit::{Compaction, Packing, Progress};
use crate::component::contract::{Answer, Contract};
use crate::component::native::{core_schema, identity};
use crate::component::words;
use crate::fuzz::image::Image;
use crate::fuzz::observe;

/// A store in a folder of its own.
pub struct Folder<H: Handle> {
    _guard: TempDir,
    path: PathBuf,
    handle: Option<H>,
    is_writer: bool,
    /// What was salvaged, for which the host has no handle.
    salvaged: Option<Sequential<FsDirectory, Libzstd>>,
    converted: Option<PathBuf>,
}

impl<H: Handle> Folder<H> {
    /// Over the files of an image; of none, over no folder.
    pub fn of(image: Option<&Image>) -> Self {
        let (guard, path) = observe::folder();
        match image {
            Some(image) => image.in_folder(&path),
            None => std::fs::remove_dir(&path).unwrap(),
        }
        Self {
            _guard: guard,
            path,
            handle: None,
            is_writer: false,
            salvaged: None,
            converted: None,
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn handle(&self) -> &H {
        self.handle.as_ref().expect("no store is open")
    }

    fn opened(&mut self, handle: zrecord_host::Result<H>, is_writer: bool) -> Answer<()> {
        self.handle = Some(handle.map_err(error)?);
        self.is_writer = is_writer;
        Ok(())
    }

    /// Core's reader of the same state.
    fn reader(&self) -> Answer<Reader<FsDirectory>> {
        let opened = Reader::open(FsDirectory::new(&self.path), Access::Read);
        let mut reader = opened.map_err(words::error)?;
        if !self.is_writer {
            reader.recover().map_err(words::error)?;
        }
        Ok(reader)
    }

    fn sequential(&mut self) -> Answer<&mut Sequential<FsDirectory, Libzstd>> {
        if self.handle.is_some() {
            self.salvaged = Some(Sequential::of_reader(self.reader()?));
        }
        Ok(self.salvaged.as_mut().expect("no store is open"))
    }

    fn writing(&self) -> Answer<&H> {
        if self.is_writer { Ok(self.handle()) } else { Err(Error::ReadOnly) }
    }
}

/// The core's error behind one of the host's.
fn error(error: HostError) -> Error {
    match error {
        HostError::Store { source, .. } => words::error(source),
        other => Error::Other(Some(other.to_string())),
    }
}

impl<H: Handle> Contract for Folder<H> {
    fn name(&self) -> &'static str {
        H::NAME
    }

    fn open(&mut self, recover: bool) -> Answer<()> {
        assert!(recover, "the host finds out by itself whether a writer lives");
        self.drop_store();
        self.opened(H::open(&self.path), false)
    }

    fn salvage(&mut self, recover: bool) -> Answer<()> {
        self.drop_store();
        let salvaged = Sequential::salvage(FsDirectory::new(&self.path), recover);
        self.salvaged = Some(salvaged.map_err(words::error)?);
        Ok(())
    }

    fn open_to_edit(&mut self) -> Answer<()> {
        self.drop_store();
        self.opened(H::open_writer(&self.path), true)
    }

    fn create(&mut self, format: Format, id: &[u8]) -> Answer<()> {
        self.drop_store();
        let format = identity(format, id)?.format();
        self.opened(H::create(&self.path, format), true)
    }

    fn drop_store(&mut self) {
        (self.handle, self.salvaged) = (None, None);
    }

    fn info(&mut self) -> Info {
        if self.handle.is_none() {
            return words::info(self.sequential().unwrap().reader());
        }
        let mut info = words::info(&self.reader().unwrap());
        let (length, id, generation) = self.handle().header().unwrap();
        if info.format == Format::Classic {
            // Not in the file: who has the store open counts for itself.
            info.generation = generation;
        }
        assert_eq!((length, generation), (info.length, info.generation), "host and core differ");
        assert_eq!(id.map(Vec::from), info.id, "host and core differ");
        info
    }

    fn refresh(&mut self) -> Answer<Info> {
        self.handle().header().map_err(error)?;
        Ok(self.info())
    }

    fn schema(&mut self) -> Answer<Option<Schema>> {
        Ok(self.handle().schema().map_err(error)?.as_ref().map(words::schema))
    }

    fn dictionary(&mut self, number: u8) -> Answer<Vec<u8>> {
        let count = self.info().dictionaries;
        if u32::from(number) >= count {
            let reason = format!("{number} is not below the number of dictionaries, {count}");
            return Err(words::invalid_argument("number", reason));
        }
        self.reader()?.dictionary(number).map_err(words::error)
    }

    fn locations(&mut self, indices: &[u64]) -> Answer<Locations> {
        let reader = self.reader()?;
        let rows = reader.locations(indices).map_err(words::error)?;
        Ok(words::locations(&rows, reader.format()))
    }

    fn lengths(&mut self, indices: &[u64]) -> Answer<Vec<u32>> {
        match &self.handle {
            Some(handle) => handle.lengths(indices).map_err(error),
            None => self.sequential()?.lengths(indices).map_err(words::error),
        }
    }

    fn gather(&mut self, indices: &[u64], max_bytes: u64) -> Answer<RecordBatch> {
        let lengths = self.lengths(indices)?;
        let mut end = 0;
        let ends = lengths.iter().map(|len| {
            end += u64::from(*len);
            end
        });
        let ends: Vec<u64> = ends.take_while(|end| *end <= max_bytes).collect();
        if let (true, Some(&len)) = (ends.is_empty(), lengths.first()) {
            let len = len.into();
            return Err(Error::TooLarge(TooLarge { position: 0, len, limit: max_bytes }));
        }
        let indices = &indices[..ends.len()];
        let Some(handle) = &self.handle else {
            let batch = self.sequential()?.gather(indices, max_bytes).map_err(words::error)?;
            return Ok(RecordBatch { bytes: batch.bytes, ends: batch.ends });
        };
        let mut bytes = vec![0; ends.last().map_or(0, |end| *end as usize)];
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let starts: Vec<u64> = starts.take(ends.len()).collect();
        handle.gather(indices, &mut bytes, &starts).map_err(error)?;
        Ok(RecordBatch { bytes, ends })
    }

    fn read_prefix(&mut self, index: u64, max_bytes: u64) -> Answer<Vec<u8>> {
        let mut bytes = self.gather(&[index], u64::MAX)?.bytes;
        bytes.truncate(usize::try_from(max_bytes).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    fn summarise(&mut self, first: u64, count: u64) -> Answer<Summary> {
        let sum = self.reader()?.summarise(first..first.saturating_add(count));
        Ok(words::summary(&sum.map_err(words::error)?))
    }

    fn usage(&mut self) -> Answer<Usage> {
        Ok(words::usage(&self.handle().stats().map_err(error)?))
    }

    fn leftovers(&mut self) -> Answer<Vec<String>> {
        let names = self.handle().leftovers().map_err(error)?;
        Ok(names.iter().map(ToString::to_string).collect())
    }

    fn entries_present(&mut self) -> Answer<u64> {
        self.sequential()?.reader().entries_present().map_err(words::error)
    }

    fn verify(&mut self, first: u64, count: u64) -> Answer<Vec<Fault>> {
        let range = first..first.saturating_add(count);
        let faults = self.sequential()?.verify_records(range).map_err(words::error)?;
        Ok(faults.into_iter().map(words::fault).collect())
    }

    fn verify_structure(&mut self) -> Answer<Vec<Fault>> {
        let faults = self.sequential()?.reader().verify_structure().map_err(words::error)?;
        let faults: Vec<Fault> = faults.into_iter().map(words::fault).collect();
        if let Some(handle) = &self.handle {
            // The host has one call for everything.
            let all = handle.verify().map_err(error)?.into_iter().map(words::fault);
            let all: Vec<Fault> = all.collect();
            assert_eq!(all, [faults.clone(), self.verify(0, u64::MAX)?].concat());
        }
        Ok(faults)
    }

    fn set_schema(&mut self, schema: &Schema) -> Answer<()> {
        self.writing()?.set_schema(&core_schema(schema)?).map_err(error)
    }

    fn add_dictionary(&mut self, dictionary: &[u8]) -> Answer<u8> {
        self.writing()?;
        // The host only trains its own; the writer is the same.
        self.drop_store();
        let opened = Sequential::<_, Libzstd>::open_writer(FsDirectory::new(&self.path));
        let (mut writer, _) = opened.map_err(words::error)?;
        let added = writer.add_dictionary(dictionary).map_err(words::error);
        writer.close().map_err(words::error)?;
        self.open_to_edit()?;
        added
    }

    fn append(&mut self, bytes: &[u8], ends: &[u64], packing: Packing) -> Answer<u64> {
        assert!(packing.level.is_none() && packing.min_saving.is_none());
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let offsets: Vec<u64> = starts.take(ends.len()).collect();
        let codec = words::codec(packing.codec);
        self.writing()?.append(bytes, &offsets, codec).map_err(error)
    }

    fn sync(&mut self) -> Answer<()> {
        self.writing()?.sync().map_err(error)
    }

    fn delete(&mut self, indices: &[u64]) -> Answer<()> {
        self.writing()?.delete(indices).map_err(error)
    }

    fn compact(&mut self) -> Answer<Compaction> {
        let done = self.writing()?.compact().map_err(error)?;
        Ok(Compaction {
            moved_records: done.moved_records,
            moved_bytes: done.moved_bytes,
            reclaimed_bytes: done.reclaimed_bytes,
        })
    }

    fn close(&mut self) -> Answer<()> {
        self.handle().close().map_err(error)?;
        // What is closed is closed: reading goes on with another handle.
        self.open(true)
    }

    fn begin_conversion(&mut self, format: Format, id: &[u8]) -> Answer<()> {
        self.drop_store();
        let format = identity(format, id)?.format();
        let to = self.path.with_extension(format!("{}.zr", format.name()));
        H::convert(&self.path, &to, format).map_err(error)?;
        self.converted = Some(to);
        Ok(())
    }

    fn step_conversion(&mut self, _: u64) -> Answer<Progress> {
        let converted = self.converted.as_ref().expect("no conversion has begun");
        let reader = Reader::open(FsDirectory::new(converted), Access::Read);
        let total = reader.map_err(words::error)?.commit().length;
        Ok(Progress { done: total, total })
    }

    fn take_converted(&mut self) {
        self.drop_store();
        let converted = self.converted.take().expect("nothing was converted");
        std::fs::remove_dir_all(&self.path).unwrap();
        std::fs::rename(converted, &self.path).unwrap();
    }
}
