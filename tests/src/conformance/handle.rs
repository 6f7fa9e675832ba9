//! The host's two handles of a store in a folder, behind one face: the mapped
//! and threaded one, and the one whose store lies in the sandbox.

use std::path::Path;

use zrecord_core::codec::Codec;
use zrecord_core::format::Format;
use zrecord_core::schema::Schema;
use zrecord_core::storage::FileName;
use zrecord_core::usage::Stats;
use zrecord_core::verify::Fault;
use zrecord_core::writer::Compaction;
use zrecord_host::{Limits, Mode, OpenOptions, Result, Sandbox, Store, sandbox};

/// What both can do.
pub trait Handle: Sized {
    /// What it is called, for messages.
    const NAME: &'static str;

    /// Opens for reading.
    fn open(path: &Path) -> Result<Self>;
    /// Opens for writing.
    fn open_writer(path: &Path) -> Result<Self>;
    /// Creates an empty store.
    fn create(path: &Path, format: Format) -> Result<Self>;
    /// Rewrites a store in another format.
    fn convert(from: &Path, to: &Path, format: Format) -> Result<()>;
    /// What the header says: length, id and generation.
    fn header(&self) -> Result<(u64, Option<[u8; 16]>, u64)>;
    /// The schema.
    fn schema(&self) -> Result<Option<Schema>>;
    /// Lengths of records.
    fn lengths(&self, indices: &[u64]) -> Result<Vec<u32>>;
    /// Records, at their places.
    fn gather(&self, indices: &[u64], dst: &mut [u8], offsets: &[u64]) -> Result<()>;
    /// Counts.
    fn stats(&self) -> Result<Stats>;
    /// What cut operations left.
    fn leftovers(&self) -> Result<Vec<FileName>>;
    /// Every fault.
    fn verify(&self) -> Result<Vec<Fault>>;
    /// Makes it typed.
    fn set_schema(&self, schema: &Schema) -> Result<()>;
    /// Appends.
    fn append(&self, src: &[u8], offsets: &[u64], codec: Codec) -> Result<u64>;
    /// Syncs.
    fn sync(&self) -> Result<()>;
    /// Deletes.
    fn delete(&self, indices: &[u64]) -> Result<()>;
    /// Compacts.
    fn compact(&self) -> Result<Compaction>;
    /// Closes.
    fn close(&self) -> Result<()>;
}

/// What both say by functions of the same names.
macro_rules! same_names {
    () => {
        fn lengths(&self, indices: &[u64]) -> Result<Vec<u32>> {
            self.lengths(indices)
        }

        fn gather(&self, indices: &[u64], dst: &mut [u8], offsets: &[u64]) -> Result<()> {
            self.gather(indices, dst, offsets)
        }

        fn stats(&self) -> Result<Stats> {
            self.stats()
        }

        fn leftovers(&self) -> Result<Vec<FileName>> {
            self.leftovers()
        }

        fn verify(&self) -> Result<Vec<Fault>> {
            self.verify(&mut |_| {})
        }

        fn set_schema(&self, schema: &Schema) -> Result<()> {
            self.set_schema(schema)
        }

        fn append(&self, src: &[u8], offsets: &[u64], codec: Codec) -> Result<u64> {
            self.append(src, offsets, Some(codec))
        }

        fn sync(&self) -> Result<()> {
            self.sync()
        }

        fn delete(&self, indices: &[u64]) -> Result<()> {
            self.delete(indices)
        }

        fn close(&self) -> Result<()> {
            self.close()
        }
    };
}

impl Handle for Store {
    const NAME: &'static str = "host";

    fn open(path: &Path) -> Result<Self> {
        OpenOptions::new().threads(2).open(path)
    }

    fn open_writer(path: &Path) -> Result<Self> {
        // It opens what is there, and creates nothing.
        drop(Self::open(path)?);
        let store = OpenOptions::new().mode(Mode::Append).threads(2).open(path)?;
        store.lock_writer()?;
        Ok(store)
    }

    fn create(path: &Path, format: Format) -> Result<Self> {
        OpenOptions::new().mode(Mode::Create).format(format).threads(2).open(path)
    }

    fn convert(from: &Path, to: &Path, format: Format) -> Result<()> {
        zrecord_host::convert(from, to, format, &mut |_| {})
    }

    fn header(&self) -> Result<(u64, Option<[u8; 16]>, u64)> {
        Ok((self.len()?, self.id(), self.generation()))
    }

    fn schema(&self) -> Result<Option<Schema>> {
        Ok(self.read_schema()?.as_deref().cloned())
    }

    fn compact(&self) -> Result<Compaction> {
        self.compact(&mut |_| {})
    }

    same_names!();
}

impl Handle for Sandbox {
    const NAME: &'static str = "sandbox";

    fn open(path: &Path) -> Result<Self> {
        Self::open(path, Limits::new())
    }

    fn open_writer(path: &Path) -> Result<Self> {
        Self::open_writer(path, Limits::new())
    }

    fn create(path: &Path, format: Format) -> Result<Self> {
        Self::create(path, format, Limits::new())
    }

    fn convert(from: &Path, to: &Path, format: Format) -> Result<()> {
        sandbox::convert(from, to, format, Limits::new(), &mut |_| {})
    }

    fn header(&self) -> Result<(u64, Option<[u8; 16]>, u64)> {
        Ok((self.len()?, self.id(), self.generation()?))
    }

    fn schema(&self) -> Result<Option<Schema>> {
        Ok(self.schema()?.as_deref().cloned())
    }

    fn compact(&self) -> Result<Compaction> {
        self.compact()
    }

    same_names!();
}
