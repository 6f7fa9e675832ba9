//! What is copied, decoded or read.

use std::fs::File;
use std::hint;
use std::path::Path;

use zrecord_host::core::codec::Zstd;
use zrecord_host::core::codec::libzstd::{Decoder, Dictionary, Libzstd};
use zrecord_host::core::reader::Reader;
use zrecord_host::core::storage::Access;
use zrecord_host::directory::FsDirectory;
use zrecord_host::{Codec, DenseDataset, OpenOptions, Verify, View};

use crate::AnyError;
use crate::crew::{self, Source};

/// A source with its sizes.
pub trait Limit {
    /// Fills `dst` with each batch in turn; the nanoseconds that each took.
    fn time(&self, batches: &[Vec<u64>], dst: &mut [u8]) -> Result<Vec<u64>, AnyError>;
}

struct Crew<S> {
    source: S,
    record_bytes: usize,
    threads: usize,
}

impl<S: Source> Crew<S> {
    fn time(&self, batches: &[Vec<u64>], dst: &mut [u8]) -> Result<Vec<u64>, AnyError> {
        crew::time(&self.source, batches, self.record_bytes, self.threads, dst)
    }
}

/// A raw store, copied out of its mapping with the library's copy into memory
/// that is aligned and warm.
pub struct Mapped(Crew<Rows>);

struct Rows {
    view: View,
    record_bytes: usize,
}

impl Mapped {
    pub fn open(path: &Path, record_bytes: usize, threads: usize) -> Result<Self, AnyError> {
        let dataset = DenseDataset::open_with(path, &OpenOptions::new().verify(Verify::Never))?;
        let source = Rows { view: dataset.view(0, dataset.len()?)?, record_bytes };
        Ok(Self(Crew { source, record_bytes, threads }))
    }
}

impl Limit for Mapped {
    fn time(&self, batches: &[Vec<u64>], dst: &mut [u8]) -> Result<Vec<u64>, AnyError> {
        self.0.time(batches, dst)
    }
}

impl Source for Rows {
    type Context = ();

    fn approach(&self, index: u64) {
        // A load that nobody waits for: safe code has no prefetch.
        let first = usize::try_from(index).ok().and_then(|i| self.view.get(i * self.record_bytes));
        hint::black_box(first.copied());
    }

    fn fetch(&self, (): &mut (), index: u64, dst: &mut [u8]) -> Result<(), AnyError> {
        let start = usize::try_from(index)? * self.record_bytes;
        let record = self.view.get(start..start + self.record_bytes);
        dst.copy_from_slice(record.ok_or_else(|| format!("record {index} is past the end"))?);
        Ok(())
    }
}

/// The frames of a store, in memory, decoded by libzstd.
pub struct Frames(Crew<Stored>);

struct Stored {
    records: Vec<Frame>,
    dictionaries: Vec<Dictionary>,
}

/// A record as it is stored.
pub struct Frame {
    pub codec: Codec,
    pub dictionary: u8,
    pub bytes: Vec<u8>,
}

impl Frames {
    pub fn open(path: &Path, record_bytes: usize, threads: usize) -> Result<Self, AnyError> {
        let mut reader = Reader::open(FsDirectory::new(path), Access::Read)?;
        let indices: Vec<u64> = (0..reader.commit().length).collect();
        let mut records = Vec::with_capacity(indices.len());
        for (&index, location) in indices.iter().zip(reader.locations(&indices)?) {
            let mut bytes = Vec::new();
            reader.read_stored(index, &location, &mut bytes)?;
            let (codec, dictionary) = (location.codec, location.dictionary);
            records.push(Frame { codec, dictionary, bytes });
        }
        let count = u8::try_from(reader.commit().dictionaries)?;
        let digest = |number| Ok(Libzstd::dictionary(&reader.dictionary(number)?)?);
        let dictionaries = (0..count).map(digest).collect::<Result<_, AnyError>>()?;
        Ok(Self::new(records, dictionaries, record_bytes, threads))
    }

    pub fn new(
        records: Vec<Frame>,
        dictionaries: Vec<Dictionary>,
        record_bytes: usize,
        threads: usize,
    ) -> Self {
        Self(Crew { source: Stored { records, dictionaries }, record_bytes, threads })
    }
}

impl Limit for Frames {
    fn time(&self, batches: &[Vec<u64>], dst: &mut [u8]) -> Result<Vec<u64>, AnyError> {
        self.0.time(batches, dst)
    }
}

impl Source for Stored {
    type Context = Decoder;

    fn fetch(&self, decoder: &mut Decoder, index: u64, dst: &mut [u8]) -> Result<(), AnyError> {
        let record = self.records.get(usize::try_from(index)?);
        let Frame { codec, dictionary: number, bytes } =
            record.ok_or("a record is past the end")?;
        match codec {
            Codec::Raw if bytes.len() == dst.len() => dst.copy_from_slice(bytes),
            Codec::Raw => return Err("a raw record has another length".into()),
            Codec::Zstd => Libzstd::decode(decoder, None, bytes, dst)?,
            Codec::ZstdDict => {
                let dictionary = self.dictionaries.get(usize::from(*number));
                Libzstd::decode(decoder, dictionary, bytes, dst)?;
            }
        }
        Ok(())
    }
}

/// A file of records, read by position, one call a record.
pub struct Positions(Crew<Records>);

struct Records {
    file: File,
    offset: u64,
}

impl Positions {
    pub fn open(
        path: &Path,
        offset: u64,
        record_bytes: usize,
        threads: usize,
    ) -> Result<Self, AnyError> {
        let source = Records { file: File::open(path)?, offset };
        Ok(Self(Crew { source, record_bytes, threads }))
    }
}

impl Limit for Positions {
    fn time(&self, batches: &[Vec<u64>], dst: &mut [u8]) -> Result<Vec<u64>, AnyError> {
        self.0.time(batches, dst)
    }
}

impl Source for Records {
    type Context = ();

    #[cfg(unix)]
    fn fetch(&self, (): &mut (), index: u64, dst: &mut [u8]) -> Result<(), AnyError> {
        use std::os::unix::fs::FileExt;
        let start = self.offset + index * dst.len() as u64;
        Ok(self.file.read_exact_at(dst, start)?)
    }

    #[cfg(not(unix))]
    fn fetch(&self, (): &mut (), _index: u64, _dst: &mut [u8]) -> Result<(), AnyError> {
        Err(format!("{:?} cannot be read by position on this system", self.file).into())
    }
}
