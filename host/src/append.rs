//! Appending: packing in parallel, writing in order by the core's writer, and
//! one commit.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::{Arena, PackEncoder, PackedRecord, Packer};
use zrecord_core::codec::{Codec, CodecError};
use zrecord_core::writer::Segment;
use zrecord_core::{Error, Result};

use crate::handle::Handle;
use crate::pool;

/// One thread packs at least this many bytes at a time, and at most these: few
/// enough that they are written while the cache still has them.
const PART_BYTES_MIN: usize = 256 << 10;
const PART_BYTES_MAX: usize = 1 << 20;
/// The memory of so many parts is kept for the next ones.
const ARENAS_KEPT_MAX: usize = 16;
/// Raw records are written from where they are, so many bytes at a time. The
/// page cache keeps what is written at once in pieces as large, up to the 2 MiB
/// of a huge page, and gathers at random from large pieces take half the time.
const RAW_PART_BYTES: usize = 4 << 20;
/// Parts per thread, so that threads end about together.
const PARTS_PER_THREAD: usize = 8;

/// Packs records by one policy; its threads reuse their encoders and arenas
/// from one append to the next.
pub(crate) struct SharedPacker {
    packer: Packer<Libzstd>,
    encoders: Mutex<Vec<PackEncoder<Libzstd>>>,
    arenas: Mutex<Vec<Arena>>,
}

/// Records that lie one behind the other in the caller's memory.
pub(crate) struct Records<'a> {
    src: &'a [u8],
    /// One more than there are records.
    bounds: Vec<usize>,
}

/// Some neighbouring records, packed.
struct Part<'a> {
    stored: Stored<'a>,
    records: Vec<PackedRecord>,
}

/// Where the stored bytes of records are.
enum Stored<'a> {
    /// Raw records go out from where the caller has them.
    InPlace(&'a [u8]),
    Packed(Arena),
}

impl SharedPacker {
    pub(crate) fn new(packer: Packer<Libzstd>) -> Self {
        Self { packer, encoders: Mutex::default(), arenas: Mutex::default() }
    }

    fn pack<'a>(&self, records: &Records<'a>, range: Range<usize>) -> Result<Part<'a>> {
        if self.packer.is_raw() {
            let stored = Stored::InPlace(records.bytes(&range));
            let described = range.map(|position| PackedRecord::raw(records.get(position)));
            let records = described.collect::<Result<_, _>>().map_err(unsupported)?;
            return Ok(Part { stored, records });
        }
        let mut arena = lock(&self.arenas).pop().unwrap_or_default();
        arena.reserve(records.bytes(&range).len());
        let mut packed = Vec::with_capacity(range.len());
        let mut encoder = lock(&self.encoders).pop().unwrap_or_default();
        for position in range {
            let record = records.get(position);
            packed.push(self.packer.pack(&mut encoder, record, &mut arena).map_err(unsupported)?);
        }
        lock(&self.encoders).push(encoder);
        Ok(Part { stored: Stored::Packed(arena), records: packed })
    }

    /// Takes back the memory of a part that was written.
    fn reuse(&self, part: Part<'_>) {
        let Stored::Packed(mut arena) = part.stored else { return };
        let mut arenas = lock(&self.arenas);
        if arenas.len() < ARENAS_KEPT_MAX && arena.capacity() <= PART_BYTES_MAX {
            arena.clear();
            arenas.push(arena);
        }
    }
}

fn lock<T>(kept: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Part<'_> {
    fn segment(&self) -> Segment<'_> {
        let bytes = match &self.stored {
            Stored::InPlace(bytes) => bytes,
            Stored::Packed(arena) => arena.bytes(),
        };
        Segment { bytes, records: &self.records }
    }
}

impl<'a> Records<'a> {
    /// Record `i` is `src[offsets[i]..offsets[i + 1]]`; the last one runs to
    /// the end.
    pub(crate) fn new(src: &'a [u8], offsets: &[u64]) -> Result<Self> {
        let invalid = |reason| Error::InvalidArgument { argument: "offsets", reason };
        let mut bounds = Vec::with_capacity(offsets.len() + 1);
        let mut previous = 0;
        for (position, &offset) in offsets.iter().enumerate() {
            let bound = usize::try_from(offset).ok().filter(|bound| *bound <= src.len());
            let Some(bound) = bound else {
                return Err(invalid(format!(
                    "offset {position} is {offset}, past the {} bytes of the source",
                    src.len()
                )));
            };
            if bound < previous {
                return Err(invalid(format!(
                    "offset {position} is {offset}, less than the one before it, {previous}"
                )));
            }
            bounds.push(bound);
            previous = bound;
        }
        bounds.push(src.len());
        Ok(Self { src, bounds })
    }

    fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    fn get(&self, position: usize) -> &'a [u8] {
        &self.src[self.bounds[position]..self.bounds[position + 1]]
    }

    fn bytes(&self, range: &Range<usize>) -> &'a [u8] {
        &self.src[self.bounds[range.start]..self.bounds[range.end]]
    }

    fn lens(&self) -> impl Iterator<Item = u64> {
        self.bounds.windows(2).map(|pair| (pair[1] - pair[0]) as u64)
    }

    /// All of them, without what lies before the first.
    pub(crate) fn all(&self) -> &'a [u8] {
        &self.src[self.bounds[0]..]
    }

    /// Where each of them ends in [`all`](Self::all).
    #[cfg(feature = "sandbox")]
    pub(crate) fn ends(&self) -> Vec<u64> {
        self.bounds[1..].iter().map(|bound| (bound - self.bounds[0]) as u64).collect()
    }

    fn check_lens(&self, limit: u64) -> Result<()> {
        for (len, index) in self.lens().zip(0..) {
            if len > limit {
                return Err(Error::TooLarge { index, len, limit });
            }
        }
        Ok(())
    }

    /// Cuts the records into parts that so many threads pack.
    fn parts(&self, packer: &Packer<Libzstd>, threads: usize) -> Vec<Range<usize>> {
        let bytes = self.all().len() / (threads * PARTS_PER_THREAD).max(1);
        let bytes = match packer.is_raw() {
            true => RAW_PART_BYTES,
            false => bytes.clamp(PART_BYTES_MIN, PART_BYTES_MAX),
        };
        let mut parts = Vec::new();
        let mut start = 0;
        while start < self.len() {
            let limit = self.bounds[start].saturating_add(bytes);
            let fitting = self.bounds[start + 1..].partition_point(|bound| *bound <= limit);
            let end = start + fitting.max(1);
            parts.push(start..end);
            start = end;
        }
        parts
    }
}

impl Handle {
    /// Writes records past the end of the store, and makes them count if
    /// `commits`; returns the index of the first.
    pub(crate) fn append(
        &self,
        src: &[u8],
        offsets: &[u64],
        codec: Option<Codec>,
        commits: bool,
    ) -> Result<u64> {
        let reading = self.share()?;
        let records = Records::new(src, offsets)?;
        records.check_lens(self.format().record_len_max())?;
        let codec = match codec {
            Some(codec) => codec,
            None => self.codec()?,
        };
        let packer = self.write(&reading.files)?.get()?.packer(codec, &self.options)?;
        let parts = records.parts(&packer.packer, self.threads);
        let pack = |part| packer.pack(&records, part);
        // What keeps one thread busy is done before the store is locked, so
        // that several callers pack at once.
        let is_alone = self.threads < 2 || parts.len() < 2;
        let packed = match is_alone && !packer.packer.is_raw() {
            true => Some(parts.iter().cloned().map(pack).collect::<Result<Vec<_>>>()?),
            false => None,
        };
        let mut guard = self.write(&reading.files)?;
        let writer = &mut guard.get()?.writer;
        writer.check_lens(records.lens())?;
        let before = writer.savepoint();
        let first = writer.stage(&[])?;
        let mut stage = |part: Part<'_>| -> Result<()> {
            writer.stage(&[part.segment()])?;
            packer.reuse(part);
            Ok(())
        };
        let staged = match packed {
            Some(packed) => packed.into_iter().try_for_each(stage),
            // Some are written while others are packed.
            None => pool::in_order(self.threads, parts, pack, |part| stage(part?)),
        };
        let result = staged.and_then(|()| if commits { writer.commit_staged() } else { Ok(()) });
        if result.is_err() {
            writer.roll_back(before);
        }
        self.publish(&reading.files, *writer.commit())?;
        result.map(|()| first)
    }

    /// The codec of records for which none is named.
    pub(crate) fn codec(&self) -> Result<Codec> {
        Ok(self.schema()?.map_or(self.options.codec, |schema| schema.codec()))
    }
}

fn unsupported(error: CodecError) -> Error {
    Error::Unsupported { what: error.to_string() }
}
