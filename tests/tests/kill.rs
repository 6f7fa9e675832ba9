//! Processes are killed at random moments of everything that changes a store,
//! and what they leave is compared with what they had acknowledged.
//!
//! `ZRECORD_KILLS` and `ZRECORD_SEED` ask for more kills, or for others:
//! `cargo xtask kill` sets them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::env;
use std::path::Path;
use std::thread;
use std::time::Instant;

use zrecord_host::Format;
use zrecord_tests::kill::{self, Tally};

/// How many workers are killed over stores of each format, unless told.
const KILLS: u64 = 150;
const SEED: u64 = 1;
const WORKER: &str = env!("CARGO_BIN_EXE_zrecord-worker");

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// In memory where there is such a file system: syncs take no time there, so
/// that kills meet every step alike.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let in_memory = memory.is_dir().then(|| tempfile::tempdir_in(memory).ok()).flatten();
    in_memory.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

#[test]
fn what_a_killed_process_has_acknowledged_is_there() {
    let (rounds, seed) =
        (number("ZRECORD_KILLS", KILLS * 2).div_ceil(2), number("ZRECORD_SEED", SEED));
    let kill = |format| {
        let folder = folder();
        kill::run([WORKER, "storm"], folder.path(), format, rounds, seed)
    };
    let began = Instant::now();
    let (classic, extended) = thread::scope(|scope| {
        let classic = scope.spawn(|| kill(Format::Classic));
        let extended = kill(Format::Extended);
        (classic.join().unwrap(), extended)
    });
    for (name, tally) in [("classic", classic), ("extended", extended)] {
        let tally: Tally = tally.unwrap_or_else(|error| panic!("{error:#}"));
        println!("{name}, seed {seed}: {tally}");
        assert_eq!(tally.kills, rounds);
    }
    println!("{:.1} s", began.elapsed().as_secs_f64());
}

/// The same check, of a worker that acknowledges what it has not done yet.
#[test]
fn a_process_that_boasts_is_found_out() {
    for format in [Format::Classic, Format::Extended] {
        let folder = folder();
        let outcome = kill::run([WORKER, "boast"], folder.path(), format, KILLS, SEED);
        let error = format!("{:#}", outcome.expect_err("nobody noticed"));
        assert!(error.contains("left") || error.contains("not there"), "{error}");
    }
}
