//! What the tests of prefetcher and loader share: time limits, thread counts,
//! and streams without a store behind them.
#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use zrecord_host::{BoxError, BufferPool, Column, Stream, StreamState};

/// The tests of a file count the threads of the process, so they run one at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `test` and fails, instead of hanging, when it takes minutes.
pub fn in_time<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(test()));
    // An interpreter takes its time.
    let limit = Duration::from_secs(if cfg!(miri) { 3600 } else { 120 });
    match receiver.recv_timeout(limit) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => std::panic::resume_unwind(payload),
            Ok(_) => unreachable!("the sender was dropped without a panic"),
        },
    }
}

/// How many loader threads this process has; none where nobody can say.
///
/// A joined thread may be listed for a moment, so the lowest count of a while.
pub fn loader_threads() -> usize {
    let mut count = listed_threads();
    for _ in 0..100 {
        if count == 0 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
        count = count.min(listed_threads());
    }
    count
}

fn listed_threads() -> usize {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let names = tasks.flatten().filter_map(|task| std::fs::read(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with(b"zrecord-loader")).count()
}

/// A length of time that looks random and depends on the step alone.
pub fn moment(step: u64) -> Duration {
    let mixed = (step ^ 0x9e37_79b9).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 40;
    Duration::from_micros(mixed % 700)
}

/// A stream without a store: record `i` is made from `i`.
pub struct Numbers {
    length: AtomicU64,
    identity: StreamState,
    /// The length of each dense record; 0 makes ragged ones of `i % 5` bytes.
    record_len: usize,
    /// The index that cannot be read; none is [`u64::MAX`].
    pub broken: AtomicU64,
    /// How often records were gathered.
    pub gathers: AtomicUsize,
}

impl Numbers {
    pub fn new(length: u64, record_len: usize, identity: StreamState) -> Arc<Self> {
        Arc::new(Self {
            length: length.into(),
            identity,
            record_len,
            broken: u64::MAX.into(),
            gathers: 0.into(),
        })
    }

    pub fn dense(length: u64) -> Arc<Self> {
        Self::new(length, 8, StreamState::extended([7; 16], 0))
    }

    pub fn ragged(length: u64) -> Arc<Self> {
        Self::new(length, 0, StreamState::extended([8; 16], 0))
    }

    pub fn grow(&self, length: u64) {
        self.length.store(length, Ordering::SeqCst);
    }

    /// The bytes of record `index`.
    pub fn record(&self, index: u64) -> Vec<u8> {
        match self.record_len {
            0 => index.to_le_bytes()[..1].repeat(usize::try_from(index % 5).unwrap()),
            len => index.to_le_bytes().repeat(len / 8),
        }
    }
}

impl Stream for Numbers {
    fn length(&self) -> Result<u64, BoxError> {
        Ok(self.length.load(Ordering::SeqCst))
    }

    fn identity(&self) -> Result<StreamState, BoxError> {
        Ok(self.identity.clone())
    }

    fn gather(&self, indices: &[u64], pool: &BufferPool) -> Result<Column, BoxError> {
        self.gathers.fetch_add(1, Ordering::SeqCst);
        if let Some(index) = indices.iter().find(|&&i| i == self.broken.load(Ordering::SeqCst)) {
            return Err(format!("record {index} is corrupt").into());
        }
        let records: Vec<_> = indices.iter().map(|&index| self.record(index)).collect();
        let bytes = records.concat();
        let mut buffer = pool.try_take(bytes.len())?;
        buffer.copy_from_slice(&bytes);
        if self.record_len > 0 {
            return Ok(Column::Dense { buffer, record_len: self.record_len as u64 });
        }
        let mut offsets = vec![0];
        offsets.extend(records.iter().scan(0, |end, record| {
            *end += record.len() as u64;
            Some(*end)
        }));
        Ok(Column::Ragged { values: buffer, offsets })
    }
}
