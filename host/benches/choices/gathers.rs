//! Choices of gathering.

use std::hint::black_box;
use std::path::Path;

use zrecord_host::{
    Buffer, BufferPool, BufferPoolOptions, Codec, Format, Io, Mode, OpenOptions, Store,
};

use crate::{Choice, Random};

const BATCH: usize = 256;
/// All records of a store: more than the caches hold.
const STORE_BYTES: usize = 96 << 20;

pub fn run(rounds: usize) {
    let directory = tempfile::tempdir().unwrap();
    for record_len in [256, 12 << 10, 150 << 10] {
        let path = directory.path().join(record_len.to_string());
        write(&path, record_len, Codec::Raw, false);
        let rounds = if record_len > 64 << 10 { rounds / 8 } else { rounds };
        let open = |options: OpenOptions| Gather::new(options.open(&path).unwrap(), record_len);
        let new = OpenOptions::new;
        pair(rounds, "all threads instead of one", open(new().threads(1)), open(new()));
        pair(rounds, "mapped instead of read by position", open(new().io(Io::Pread)), open(new()));
        let path = directory.path().join(format!("{record_len} unequal"));
        write(&path, record_len, Codec::Raw, true);
        let looked_up = Gather::new(new().open(&path).unwrap(), record_len);
        pair(rounds, "found by arithmetic instead of in the table", looked_up, open(new()));
        memory(rounds, &open(new()));
    }
    let path = directory.path().join("zstd");
    write(&path, 12 << 10, Codec::Zstd, false);
    let open = |options: OpenOptions| Gather::new(options.open(&path).unwrap(), 12 << 10);
    let new = OpenOptions::new;
    pair(rounds, "zstd: all threads instead of one", open(new().threads(1)), open(new()));
}

/// Noisy records of one length; `unequal` has one more that is shorter, by which
/// the others are no longer found by arithmetic.
fn write(path: &Path, record_len: usize, codec: Codec, unequal: bool) {
    let options = OpenOptions::new().mode(Mode::Append).format(Format::Extended);
    let store = options.codec(codec).open(path).unwrap();
    let mut random = Random::new(1);
    let mut block = vec![0; BATCH * record_len];
    let offsets: Vec<u64> = (0..block.len()).step_by(record_len).map(|at| at as u64).collect();
    for _ in 0..blocks(record_len) {
        // With zstd they shrink to about a third.
        let limit = if codec == Codec::Raw { 256 } else { 6 };
        block.fill_with(|| random.below(limit).to_le_bytes()[0]);
        store.append(&block, &offsets, None).unwrap();
    }
    if unequal {
        store.append(&[0], &[0], None).unwrap();
    }
    store.close().unwrap();
}

/// How many blocks of `BATCH` records a store has.
fn blocks(record_len: usize) -> usize {
    STORE_BYTES / (BATCH * record_len)
}

/// Batches of a store, all of whose records have been read once.
struct Gather {
    store: Store,
    record_len: usize,
    records: u64,
    dst: Buffer,
}

impl Gather {
    fn new(store: Store, record_len: usize) -> Self {
        let records = (blocks(record_len) * BATCH) as u64;
        let mut gather =
            Self { store, record_len, records, dst: Buffer::zeroed(BATCH * record_len).unwrap() };
        for first in (0..records).step_by(BATCH) {
            let batch: Vec<u64> = (first..records.min(first + BATCH as u64)).collect();
            gather.take(&batch);
        }
        gather
    }

    fn take(&mut self, batch: &[u64]) {
        let dst = &mut self.dst[..batch.len() * self.record_len];
        self.store.gather_packed(black_box(batch), dst, self.record_len as u64).unwrap();
        black_box(dst);
    }

    fn batch(&self, round: usize) -> Vec<u64> {
        let mut random = Random::new(round as u64);
        (0..BATCH).map(|_| random.below(self.records)).collect()
    }
}

fn pair(rounds: usize, name: &str, mut without: Gather, mut with: Gather) {
    let batch = with.batch(0);
    without.take(&batch);
    with.take(&batch);
    assert!(without.dst[..] == with.dst[..], "{name}");
    let batches: Vec<Vec<u64>> = (0..64).map(|round| with.batch(round)).collect();
    // Each has other records, so that neither reads what the other has cached.
    let choice = Choice {
        name: format!("{BATCH} x {}: {name}", with.record_len),
        without: Box::new(|round| without.take(&batches[round % 32])),
        with: Box::new(|round| with.take(&batches[32 + round % 32])),
    };
    choice.measure(rounds);
}

/// New memory for every batch, or memory that was used before.
fn memory(rounds: usize, gather: &Gather) {
    let bytes = BATCH * gather.record_len;
    let pool = BufferPool::new(BufferPoolOptions::default());
    let take = |mut buffer: Buffer, round: usize| {
        let batch = gather.batch(round % 32);
        gather.store.gather_packed(&batch, &mut buffer, gather.record_len as u64).unwrap();
        black_box(&buffer[..]);
    };
    let choice = Choice {
        name: format!("{BATCH} x {}: memory recycled instead of new", gather.record_len),
        without: Box::new(|round| take(Buffer::zeroed(bytes).unwrap(), round)),
        with: Box::new(|round| take(pool.take(bytes), round)),
    };
    choice.measure(rounds);
}
