//! Appending: packing in parallel, then one ordered commit by the core's
//! writer.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::{Arena, PackEncoder, PackedRecord, Packer};
use zrecord_core::codec::{Codec, CodecError};
use zrecord_core::writer::Segment;
use zrecord_core::{Error, Result};

use crate::handle::Handle;
use crate::pool;

/// One thread packs at least this many bytes at a time, and at most these.
const PART_BYTES_MIN: usize = 256 << 10;
const PART_BYTES_MAX: usize = 4 << 20;
/// Parts per thread, so that threads end about together.
const PARTS_PER_THREAD: usize = 8;

/// Packs records by one policy; its threads reuse their encoders from one
/// append to the next.
pub(crate) struct SharedPacker {
    packer: Packer<Libzstd>,
    encoders: Mutex<Vec<PackEncoder<Libzstd>>>,
}

/// Records that lie one behind the other in the caller's memory.
pub(crate) struct Records<'a> {
    src: &'a [u8],
    /// One more than there are records.
    bounds: Vec<usize>,
}

/// What one thread has packed.
struct Part {
    arena: Arena,
    records: Vec<PackedRecord>,
}

impl SharedPacker {
    pub(crate) fn new(packer: Packer<Libzstd>) -> Self {
        Self { packer, encoders: Mutex::default() }
    }

    fn pack(&self, records: &Records<'_>, range: Range<usize>) -> Result<Part> {
        let mut arena = Arena::with_capacity(records.bytes(&range));
        let mut packed = Vec::with_capacity(range.len());
        let mut encoder = self.lock().pop().unwrap_or_default();
        for position in range {
            let record = records.get(position);
            packed.push(self.packer.pack(&mut encoder, record, &mut arena).map_err(unsupported)?);
        }
        self.lock().push(encoder);
        Ok(Part { arena, records: packed })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<PackEncoder<Libzstd>>> {
        self.encoders.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn bytes(&self, range: &Range<usize>) -> usize {
        self.bounds[range.end] - self.bounds[range.start]
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
        for (pair, index) in self.bounds.windows(2).zip(0..) {
            let len = (pair[1] - pair[0]) as u64;
            if len > limit {
                return Err(Error::TooLarge { index, len, limit });
            }
        }
        Ok(())
    }

    /// Cuts the records into parts of about `bytes`.
    fn parts(&self, bytes: usize) -> Vec<Range<usize>> {
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
        // The lock is taken before the work, and not held during it: several
        // threads pack at once, and commit one after the other.
        let packer = self.write(&reading.files)?.get()?.packer(codec, &self.options)?;
        let parts = self.pack(&packer, &records)?;
        let segments: Vec<Segment<'_>> = match packer.packer.is_raw() {
            // Raw records go out from where they are.
            true => {
                let packed = parts.first().map_or(&[][..], |part| &part.records);
                vec![Segment { bytes: records.all(), records: packed }]
            }
            false => parts
                .iter()
                .map(|part| Segment { bytes: part.arena.bytes(), records: &part.records })
                .collect(),
        };
        let segments = if records.len() == 0 { Vec::new() } else { segments };
        let mut guard = self.write(&reading.files)?;
        let writing = guard.get()?;
        let result = match commits {
            true => writing.writer.append(&segments),
            false => writing.writer.stage(&segments),
        };
        self.publish(&reading.files, *writing.writer.commit())?;
        result
    }

    /// The codec of records for which none is named.
    pub(crate) fn codec(&self) -> Result<Codec> {
        Ok(self.schema()?.map_or(self.options.codec, |schema| schema.codec()))
    }

    fn pack(&self, packer: &SharedPacker, records: &Records<'_>) -> Result<Vec<Part>> {
        let total = records.bytes(&(0..records.len()));
        let part_bytes = total / (self.threads * PARTS_PER_THREAD).max(1);
        let ranges = records.parts(part_bytes.clamp(PART_BYTES_MIN, PART_BYTES_MAX));
        let pool = if ranges.len() > 1 { pool::pool(self.threads) } else { None };
        if packer.packer.is_raw() {
            let describe = |position| PackedRecord::raw(records.get(position)).map_err(unsupported);
            let packed: Result<Vec<_>> = match pool {
                Some(pool) => {
                    pool.install(|| (0..records.len()).into_par_iter().map(describe).collect())
                }
                None => (0..records.len()).map(describe).collect(),
            };
            return Ok(vec![Part { arena: Arena::default(), records: packed? }]);
        }
        let pack = |range| packer.pack(records, range);
        match pool {
            Some(pool) => pool.install(|| ranges.into_par_iter().map(pack).collect()),
            None => ranges.into_iter().map(pack).collect(),
        }
    }
}

fn unsupported(error: CodecError) -> Error {
    Error::Unsupported { what: error.to_string() }
}
