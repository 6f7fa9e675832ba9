//! libzstd encoding records on all cores.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use zrecord_host::core::codec::Zstd;
use zrecord_host::core::codec::libzstd::{EncoderPlan, Libzstd};

use crate::AnyError;

/// Records that a thread claims at once.
const GRAIN: usize = 16;

/// The rows of a file, from where they begin.
pub fn rows_of(path: &Path, offset: u64) -> Result<Vec<u8>, AnyError> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut rows = Vec::new();
    file.read_to_end(&mut rows)?;
    Ok(rows)
}

/// Records in memory, and how they are encoded.
pub struct Encoding {
    rows: Vec<u8>,
    record_bytes: usize,
    plan: EncoderPlan,
}

impl Encoding {
    pub fn new(
        path: &Path,
        offset: u64,
        record_bytes: usize,
        level: i32,
        dictionary: Option<&Path>,
    ) -> Result<Self, AnyError> {
        let rows = rows_of(path, offset)?;
        let dictionary = dictionary.map(fs::read).transpose()?;
        let plan = Libzstd::plan(level, None, dictionary.as_deref())?;
        Ok(Self { rows, record_bytes, plan })
    }

    /// The nanoseconds that all records took, and the bytes that came of them.
    pub fn time(&self, threads: usize) -> Result<(u64, u64), AnyError> {
        let (claimed, stored) = (AtomicUsize::new(0), AtomicU64::new(0));
        let failure = Mutex::new(None);
        let started = Instant::now();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| match self.encode(&claimed) {
                    Ok(bytes) => drop(stored.fetch_add(bytes, Ordering::Relaxed)),
                    Err(error) => {
                        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                });
            }
        });
        let ns = u64::try_from(started.elapsed().as_nanos())?;
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok((ns, stored.into_inner())), Err)
    }

    /// What one thread does; returns how many bytes it made.
    fn encode(&self, claimed: &AtomicUsize) -> Result<u64, AnyError> {
        let mut encoder = Libzstd::encoder(&self.plan)?;
        // libzstd is faster when it need not look whether its output fits.
        let mut dst = vec![0; self.record_bytes + self.record_bytes / 128 + 1024];
        let mut stored = 0;
        loop {
            let start = claimed.fetch_add(GRAIN, Ordering::Relaxed) * self.record_bytes;
            let Some(rest) = self.rows.get(start..).filter(|rest| !rest.is_empty()) else {
                return Ok(stored);
            };
            for record in rest.chunks(self.record_bytes).take(GRAIN) {
                let encoded = Libzstd::encode(&self.plan, &mut encoder, record, &mut dst)?;
                stored += encoded.unwrap_or(record.len()) as u64;
            }
        }
    }
}
