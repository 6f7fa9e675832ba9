//! What comparing checksums costs: gathers of records of 12 KiB with every
//! `Verify`, in one run.
//!
//! `cargo xtask bench verify`. Handles of one store gather in turn, each time
//! other records, so that none finds in the cache what another has just read;
//! of many short rounds the medians count. One handle is there twice, to show
//! how far the machine is to be trusted. All answers are checked before
//! anything is timed. Sizes and rounds: `--records`, `--rounds`. On a machine
//! that is busy with other things `--percentile 10` says more than the median.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use zrecord_host::{Buffer, Codec, Format, Mode, OpenOptions, Store, Verify};

const RECORD_LEN: usize = 12 << 10;
const BATCH: usize = 256;
const RECORDS_DEFAULT: usize = 16_384;
const ROUNDS_DEFAULT: usize = 600;
/// `Never` twice: by how much the two differ is what the machine adds.
const MODES: [Verify; 4] = [Verify::Never, Verify::Never, Verify::First, Verify::Always];

/// What the records are, and how they are stored.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    codec: Codec,
    data: fn(&mut Random) -> Vec<u8>,
    /// What "always" and "first" may take of the speed of "never".
    bounds: [f64; 2],
}

const CASES: [Case; 3] = [
    Case { name: "raw", codec: Codec::Raw, data: noisy, bounds: [1.0 / 3.0, 0.02] },
    Case { name: "zstd, noisy", codec: Codec::Zstd, data: noisy, bounds: [0.05, 0.02] },
    Case { name: "zstd, smooth", codec: Codec::Zstd, data: smooth, bounds: [0.05, 0.02] },
];

/// Shrinks by a ratio of 1.07: sums of two throws.
fn noisy(random: &mut Random) -> Vec<u8> {
    let mut byte = || (random.next() % 104 + random.next() % 104).to_le_bytes()[0];
    (0..RECORD_LEN).map(|_| byte()).collect()
}

/// Shrinks about ninefold: a slow random walk.
fn smooth(random: &mut Random) -> Vec<u8> {
    let mut value = 128_u8;
    let mut step = || {
        value = match random.next() % 38 {
            0 => value.wrapping_add(1),
            1 => value.wrapping_sub(1),
            _ => value,
        };
        value
    };
    (0..RECORD_LEN).map(|_| step()).collect()
}

/// A small generator: the same data in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }
}

fn main() {
    let records = argument("--records").unwrap_or(RECORDS_DEFAULT).max(BATCH);
    let rounds = argument("--rounds").unwrap_or(ROUNDS_DEFAULT).max(1);
    let percentile = argument("--percentile").unwrap_or(50).min(99);
    println!("{records} records of {RECORD_LEN} bytes, batches of {BATCH}, {rounds} rounds");
    println!("case           threads   never/ms    again    first   always, lost of never's speed");
    let mut held = true;
    for case in CASES {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.zr");
        build(&path, case, records);
        for threads in [1, 2] {
            held &= measure(&path, case, records, (rounds, percentile), threads);
        }
    }
    let bounds = "raw: always 33.3 %, first 2 %; zstd: always 5 %, first 2 %";
    println!("lost at most ({bounds}): {}", if held { "yes" } else { "NO" });
}

/// The number after an argument of that name.
fn argument(name: &str) -> Option<usize> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).map(|value| value.parse().unwrap())
}

fn record(case: Case, index: usize) -> Vec<u8> {
    let mut random = Random((index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    (case.data)(&mut random)
}

fn build(path: &Path, case: Case, records: usize) {
    let options = OpenOptions::new().mode(Mode::Append).format(Format::Extended);
    let store = options.codec(case.codec).min_saving(0.0).open(path).unwrap();
    let offsets: Vec<u64> = (0..BATCH).map(|at| (at * RECORD_LEN) as u64).collect();
    let mut block = Vec::new();
    for first in (0..records).step_by(BATCH) {
        block.clear();
        let last = records.min(first + BATCH);
        (first..last).for_each(|index| block.extend(record(case, index)));
        store.append(&block, &offsets[..last - first], None).unwrap();
    }
    store.close().unwrap();
}

/// Prints one line; says whether the bounds hold.
fn measure(
    path: &Path,
    case: Case,
    records: usize,
    (rounds, percentile): (usize, usize),
    threads: usize,
) -> bool {
    let stores = MODES.map(|verify| {
        let store = OpenOptions::new().verify(verify).threads(threads).open(path).unwrap();
        check(&store, case, records);
        store
    });
    let mut dst = Buffer::zeroed(BATCH * RECORD_LEN).unwrap();
    let mut random = Random(0x5eed);
    let mut times = MODES.map(|_| Vec::with_capacity(rounds));
    for round in 0..rounds + rounds / 10 {
        for turn in 0..MODES.len() {
            let mode = (round + turn) % MODES.len();
            let batch: Vec<u64> = (0..BATCH).map(|_| random.next() % records as u64).collect();
            let time = gather(&stores[mode], &batch, &mut dst);
            // The first rounds warm the caches of everything.
            if round >= rounds / 10 {
                times[mode].push(time);
            }
        }
    }
    let [never, again, first, always] = times.map(|times| ranked(times, percentile));
    let lost = |time: Duration| 1.0 - never.as_secs_f64() / time.as_secs_f64();
    println!(
        "{:<14} {threads:>7} {:>10.4} {:>6.1} % {:>6.1} % {:>6.1} %",
        case.name,
        never.as_secs_f64() * 1e3,
        lost(again) * 100.0,
        lost(first) * 100.0,
        lost(always) * 100.0,
    );
    lost(always) <= case.bounds[0] && lost(first) <= case.bounds[1]
}

/// Every record is what it must be; the first pass of every handle.
fn check(store: &Store, case: Case, records: usize) {
    let mut dst = vec![0; BATCH * RECORD_LEN];
    for first in (0..records).step_by(BATCH) {
        let batch: Vec<u64> = (first..records.min(first + BATCH)).map(|at| at as u64).collect();
        store.gather_packed(&batch, &mut dst, RECORD_LEN as u64).unwrap();
        for (index, found) in (first..records).zip(dst.chunks_exact(RECORD_LEN)) {
            assert!(found == record(case, index), "record {index}");
        }
    }
}

fn gather(store: &Store, batch: &[u64], dst: &mut [u8]) -> Duration {
    let started = Instant::now();
    store.gather_packed(black_box(batch), dst, RECORD_LEN as u64).unwrap();
    black_box(&*dst);
    started.elapsed()
}

/// The time that so many per cent of the rounds are below.
fn ranked(mut times: Vec<Duration>, percentile: usize) -> Duration {
    times.sort_unstable();
    times[times.len() * percentile / 100]
}
