//! Carrying out a batch: copying or decoding each record straight into its
//! part of the destination, on as many threads as pay.

use std::cell::RefCell;
use std::io;
use std::mem;
use std::ops::Range;

use zrecord_core::codec::Codec;
use zrecord_core::codec::libzstd::{Decoder, Libzstd};
use zrecord_core::codec::pack::unpack_record;
use zrecord_core::{Error, Result};

use crate::dictionaries::Digested;
use crate::gather::{Job, Touched, to_usize, too_short};
use crate::handle::Snapshot;
use crate::options::Verify;
use crate::pool;

/// A byte that is decoded costs about as much as this many that are copied.
const DECODE_WEIGHT: usize = 8;
/// What a record costs besides its bytes, in bytes, and what one does that is
/// decoded: preparing for a frame takes a good part of a microsecond.
const RECORD_WEIGHT: usize = 64;
const FRAME_WEIGHT: usize = 6 << 10;
/// A thread works on a batch for at least so many bytes, or what weighs as much:
/// another one is awake only after some ten or twenty microseconds.
const WEIGHT_PER_THREAD_MIN: usize = 64 << 10;
/// Batches of so many bytes are written past the cache.
pub(crate) const STREAM_BYTES_MIN: usize = 16 << 20;
/// A share weighs at least as much as so many bytes that are copied, but for the
/// last, and a thread takes at most so many of them on average. The smaller they
/// are, the less does one thread wait for another in the end.
const SHARE_WEIGHT_MIN: usize = 32 << 10;
const SHARES_PER_THREAD_MAX: usize = 32;
/// A thread keeps a buffer of at most this many bytes for stored bytes.
const SCRATCH_KEPT_MAX: usize = 8 << 20;

/// The first bytes of a record are asked for so many records ahead, or short
/// ones from as many bytes, so that several fetches from memory are under way
/// at once: a core has some two dozen.
const PREFETCH_DISTANCE_MIN: usize = 6;
const PREFETCH_DISTANCE_MAX: usize = 24;
const PREFETCH_BYTES_AHEAD: usize = 6 << 10;

/// What one thread needs to read records, kept from one batch to the next.
#[derive(Default)]
struct Scratch {
    decoder: Decoder,
    stored: Vec<u8>,
    /// Records of a share that have passed for the first time.
    verified: u64,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A planned batch and what it needs.
pub(crate) struct Copying<'a> {
    pub(crate) jobs: &'a [Job],
    pub(crate) touched: &'a [Touched],
    /// What all jobs weigh.
    pub(crate) weight: usize,
    pub(crate) dictionaries: &'a Digested,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) verify: Verify,
}

/// A run of jobs, and the part of the destination that is theirs alone.
struct Share<'a> {
    jobs: Range<usize>,
    /// Where `dst` begins in the whole destination.
    base: usize,
    dst: &'a mut [u8],
}

impl Copying<'_> {
    /// Writes every record to its place.
    pub(crate) fn run(&self, dst: &mut [u8], threads: usize) -> Result<()> {
        let streams = self.streams();
        let workers = workers_for(self.weight, threads);
        if workers < 2 {
            return self.run_share(Share { jobs: 0..self.jobs.len(), base: 0, dst }, streams);
        }
        let shares = self.cut(dst, share_weight(self.weight, workers));
        pool::share_out(threads, workers, shares, |share| self.run_share(share, streams))
    }

    /// Cuts the batch into shares of about `weight_target`, in order.
    fn cut<'a>(&self, dst: &'a mut [u8], weight_target: usize) -> Vec<Share<'a>> {
        let mut shares = Vec::new();
        let (mut first, mut base, mut gathered) = (0, 0, 0);
        let mut rest = dst;
        for (position, job) in self.jobs.iter().enumerate() {
            gathered = weight(job).saturating_add(gathered);
            if gathered >= weight_target {
                let (dst, behind) = mem::take(&mut rest).split_at_mut(job.end() - base);
                shares.push(Share { jobs: first..position + 1, base, dst });
                (first, base, gathered, rest) = (position + 1, job.end(), 0, behind);
            }
        }
        if first < self.jobs.len() {
            shares.push(Share { jobs: first..self.jobs.len(), base, dst: rest });
        }
        shares
    }

    fn run_share(&self, share: Share<'_>, streams: bool) -> Result<()> {
        SCRATCH.with_borrow_mut(|scratch| {
            let jobs = &self.jobs[share.jobs];
            let distance = prefetch_distance(share.dst.len() / jobs.len().max(1));
            // A share that failed has left some.
            scratch.verified = 0;
            jobs.iter().take(distance).for_each(|job| self.prefetch(job));
            for (position, job) in jobs.iter().enumerate() {
                if let Some(ahead) = jobs.get(position + distance) {
                    self.prefetch(ahead);
                }
                let dst = &mut share.dst[job.start - share.base..job.end() - share.base];
                self.fetch(scratch, job, dst, streams)?;
            }
            self.snapshot.verified.count_in(mem::take(&mut scratch.verified));
            if scratch.stored.capacity() > SCRATCH_KEPT_MAX {
                scratch.stored = Vec::new();
            }
            Ok(())
        })
    }

    /// Whether the batch is more than stays in the cache.
    fn streams(&self) -> bool {
        // No batch weighs less than its bytes.
        self.weight >= STREAM_BYTES_MIN
            && self.jobs.iter().map(Job::len).sum::<usize>() >= STREAM_BYTES_MIN
    }

    fn prefetch(&self, job: &Job) {
        let touched = self.touched.get(job.touched);
        if let Some(mapping) = touched.and_then(|touched| touched.mapping.as_ref()) {
            let offset = to_usize(u64::from(job.location.offset));
            mapping.prefetch(offset, to_usize(u64::from(job.location.stored_len)));
        }
    }

    /// Reads one record into exactly `dst`, past the cache if it `streams`.
    fn fetch(&self, scratch: &mut Scratch, job: &Job, dst: &mut [u8], streams: bool) -> Result<()> {
        let Job { index, location, .. } = job;
        let check = location.checksum.is_some()
            && match self.verify {
                Verify::Never => false,
                Verify::Always => true,
                Verify::First => !self.snapshot.verified.contains(*index),
            };
        match (location.codec, self.touched.get(job.touched)) {
            // Hashed where it was just written, which is in the cache.
            (Codec::Raw, touched) => {
                if let Some(touched) = touched {
                    copy(touched, job, dst, streams && !check)?;
                }
                if check {
                    location.check(*index, dst)?;
                }
            }
            (_, Some(touched)) => {
                let stored = stored(touched, job, &mut scratch.stored)?;
                // Both look at one copy, which nobody else can change.
                if check {
                    location.check(*index, stored)?;
                }
                let dictionary = self.dictionaries.get(&location.dictionary).map(AsRef::as_ref);
                let decoder = &mut scratch.decoder;
                unpack_record::<Libzstd>(decoder, dictionary, *index, location, stored, dst)?;
            }
            (_, None) => return Err(location.corrupt(*index, "it has no stored bytes")),
        }
        if check && self.verify == Verify::First {
            scratch.verified += u64::from(self.snapshot.verified.insert(*index));
        }
        Ok(())
    }
}

/// The stored bytes of a record as they are, into `dst`; past the cache if
/// `streams`.
fn copy(touched: &Touched, job: &Job, dst: &mut [u8], streams: bool) -> Result<()> {
    let offset = to_usize(u64::from(job.location.offset));
    let is_copied = touched.mapping.as_ref().is_some_and(|mapping| match streams {
        true => mapping.stream(offset, dst),
        false => mapping.copy(offset, dst),
    });
    if is_copied { Ok(()) } else { read(touched, job, dst) }
}

/// The stored bytes of a record, copied into `buffer`.
fn stored<'a>(touched: &Touched, job: &Job, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    let len = to_usize(u64::from(job.location.stored_len));
    if buffer.len() < len {
        let file = job.location.file();
        buffer
            .try_reserve(len - buffer.len())
            .map_err(|_| Error::Io { file, source: io::Error::from(io::ErrorKind::OutOfMemory) })?;
        buffer.resize(len, 0);
    }
    copy(touched, job, &mut buffer[..len], false)?;
    Ok(&buffer[..len])
}

fn read(touched: &Touched, job: &Job, dst: &mut [u8]) -> Result<()> {
    let Job { index, location, .. } = job;
    let file = location.file();
    let read = touched.chunk.read(dst, u64::from(location.offset));
    let read = read.map_err(|source| Error::Io { file, source })?;
    if read == dst.len() { Ok(()) } else { Err(too_short(*index, location, read as u64)) }
}

/// How many of so many threads pay for a batch of that weight; bytes that are
/// only copied weigh themselves.
pub(crate) fn workers_for(weight: usize, threads: usize) -> usize {
    threads.min(weight / WEIGHT_PER_THREAD_MIN).max(1)
}

/// What the part of a batch weighs that a thread takes at once.
pub(crate) fn share_weight(weight: usize, workers: usize) -> usize {
    (weight / (workers * SHARES_PER_THREAD_MAX)).max(SHARE_WEIGHT_MIN)
}

/// How many records ahead one of about this length is asked for.
pub(crate) fn prefetch_distance(record_len: usize) -> usize {
    (PREFETCH_BYTES_AHEAD / record_len.max(1)).clamp(PREFETCH_DISTANCE_MIN, PREFETCH_DISTANCE_MAX)
}

/// What reading a record costs, in copied bytes.
pub(crate) fn weight(job: &Job) -> usize {
    match job.location.codec {
        Codec::Raw => job.len().saturating_add(RECORD_WEIGHT),
        _ => job.len().saturating_mul(DECODE_WEIGHT).saturating_add(FRAME_WEIGHT),
    }
}
