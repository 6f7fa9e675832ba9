//! What the component costs: gathers of the same records by the native host,
//! by the core compiled natively with the component's codec, and by the
//! component in the sandbox, in one run.
//!
//! `cargo xtask bench component`. One thread each. The contestants gather in
//! turn, each time other records, so that none finds in the cache what another
//! has just read. Ratios are taken within a round and the middle one counts,
//! with those that nine in ten lie below and above. All answers are checked
//! before anything is timed; a wrong one ends the run. Sizes: `--megabytes` of
//! records in a store, `--rounds`, `--openings`.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

mod contestants;
mod opening;
mod records;
mod times;

use std::path::Path;
use std::process::ExitCode;

use zrecord_host::Codec;

use crate::contestants::Contestant;
use crate::records::{Kind, Random};
use crate::times::Ratio;

const MEGABYTES_DEFAULT: usize = 96;
const ROUNDS_DEFAULT: usize = 100;
const OPENINGS_DEFAULT: usize = 20;

/// Raw: the least of the speed of the native host.
const RAW_TARGET: f64 = 0.25;
/// Compressed: the least of the speed of the native core with ruzstd.
const ZSTD_TARGET: f64 = 0.6;

/// Gathers of one kind of record.
struct Case {
    name: &'static str,
    kind: Kind,
    codec: Codec,
    batch: usize,
}

const CASES: [Case; 4] = [
    Case { name: "raw, 12 KiB", kind: Kind::Noise(12 << 10), codec: Codec::Raw, batch: 256 },
    Case { name: "raw, 784 B", kind: Kind::Noise(784), codec: Codec::Raw, batch: 256 },
    Case { name: "zstd, 12 KiB rows", kind: Kind::Rows(12 << 10), codec: Codec::Zstd, batch: 64 },
    Case { name: "zstd, 4 KiB text", kind: Kind::Text(4 << 10), codec: Codec::Zstd, batch: 64 },
];

/// One batch of more than the sandbox, and the runtime, copy in one call.
const LARGE: Case = Case {
    name: "raw, one of 160 MiB",
    kind: Kind::Noise(12 << 10),
    codec: Codec::Raw,
    batch: (160 << 20) / (12 << 10),
};
const LARGE_ROUNDS: usize = 5;

fn main() -> ExitCode {
    if let Some(code) = opening::child() {
        return code;
    }
    let megabytes = argument("--megabytes").unwrap_or(MEGABYTES_DEFAULT).max(1);
    let rounds = argument("--rounds").unwrap_or(ROUNDS_DEFAULT).max(1);
    let openings = argument("--openings").unwrap_or(OPENINGS_DEFAULT).max(1);
    println!("stores of {megabytes} MiB of records, {rounds} rounds, one thread; milliseconds");
    println!(
        "{:<20} {:>8} {:>8} {:>9}  speed of the component beside (9 in 10)",
        "a batch", "native", "ruzstd", "component"
    );
    let mut missed = Vec::new();
    let folder = tempfile::tempdir().unwrap();
    for case in &CASES {
        let path = folder.path().join(case.name);
        let count = case.build(&path, megabytes << 20);
        if !case.measure(&path, count, rounds) {
            missed.push(case.name);
        }
    }
    let path = folder.path().join(CASES[0].name);
    let count = records::count(&path);
    if !LARGE.measure(&path, count, LARGE_ROUNDS.min(rounds)) {
        missed.push(LARGE.name);
    }
    println!();
    if !opening::measure(&path, openings) {
        missed.push("opening");
    }
    println!();
    println!("targets: raw {RAW_TARGET} of native, zstd {ZSTD_TARGET} of the native ruzstd,");
    println!("         opening below {} ms", opening::TARGET_MS);
    match missed.as_slice() {
        [] => println!("met: all"),
        missed => println!("missed: {}", missed.join("; ")),
    }
    ExitCode::SUCCESS
}

/// The number after an argument of that name.
fn argument(name: &str) -> Option<usize> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).map(|value| value.parse().unwrap())
}

impl Case {
    fn build(&self, path: &Path, bytes: usize) -> usize {
        let count = (bytes / self.kind.len()).max(self.batch);
        records::build(path, self.kind, self.codec, count);
        count
    }

    /// Prints one line; says whether the target is met.
    fn measure(&self, path: &Path, count: usize, rounds: usize) -> bool {
        let mut contestants = Contestant::all(path);
        let mut dst = vec![0; self.batch * self.kind.len()];
        for contestant in &mut contestants {
            self.check(contestant, count, &mut dst);
        }
        let mut random = Random::new(0x5eed);
        let warming = rounds / 10 + 1;
        let mut times = [const { Vec::new() }; Contestant::COUNT];
        for round in 0..rounds + warming {
            for turn in 0..Contestant::COUNT {
                let who = (round + turn) % Contestant::COUNT;
                let batch: Vec<u64> = (0..self.batch).map(|_| random.below(count as u64)).collect();
                let time = contestants[who].timed(&batch, &mut dst);
                // The first rounds warm the caches of everything.
                if round >= warming {
                    times[who].push(time);
                }
            }
        }
        self.report(&times)
    }

    /// Every record is what it must be, and so is a batch in any order.
    fn check(&self, contestant: &mut Contestant, count: usize, dst: &mut [u8]) {
        let all: Vec<u64> = (0..count as u64).collect();
        let mut random = Random::new(0xfeed);
        let mixed: Vec<u64> = (0..self.batch).map(|_| random.below(count as u64)).collect();
        for batch in all.chunks(self.batch).chain([&mixed[..]]) {
            let dst = &mut dst[..batch.len() * self.kind.len()];
            let found = contestant.gather(batch, dst);
            for (index, found) in batch.iter().zip(found.chunks_exact(self.kind.len())) {
                assert!(found == self.kind.record(*index), "{}: record {index}", self.name);
            }
        }
    }

    fn report(&self, [native, core, component]: &[Vec<f64>; Contestant::COUNT]) -> bool {
        let of_native = Ratio::of(native, component);
        let of_core = Ratio::of(core, component);
        let [native, core, component] = [native, core, component].map(|all| times::median(all));
        println!(
            "{:<20} {:>8.3} {:>8.3} {:>9.3}  native {of_native}, ruzstd {of_core}",
            self.name, native, core, component
        );
        match self.codec {
            Codec::Raw => of_native.median >= RAW_TARGET,
            Codec::Zstd | Codec::ZstdDict => of_core.median >= ZSTD_TARGET,
        }
    }
}
