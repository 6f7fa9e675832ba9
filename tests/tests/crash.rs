//! The crash simulator within a fixed budget, and the proof that it can fail:
//! a build that leaves one of its syncs out is caught.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use zrecord_tests::crash::campaign::{self, Build, Counts, Crash, Point};
use zrecord_tests::crash::record::Sabotage;
use zrecord_tests::crash::shrink;

/// How many crash points are checked in turn; `cargo xtask crash` checks any
/// number.
const POINTS: u64 = 4_000;
/// Where the seeds of the workloads begin.
const SEED: u64 = 0;
/// Within how many a broken build must be caught.
const POINTS_TO_CATCH: u64 = 4_000;

#[test]
fn every_promise_is_kept_wherever_the_writer_is_cut() {
    let mut counts = Counts::default();
    let outcome = campaign::run(SEED.., POINTS, Build::SHIPPED, &mut counts);
    println!("{counts}; seeds from {SEED}");
    if let Err(failure) = outcome {
        let smallest = shrink::shrink(failure, Build::SHIPPED);
        panic!("{}", shrink::describe(&smallest, Build::SHIPPED));
    }
    assert!(counts.classic > 0 && counts.classic < counts.workloads, "both formats: {counts}");
    assert!(counts.kills > 500 && counts.losses > 500 && counts.again > 500, "{counts}");
}

/// A broken build is caught, and the point that is printed shows it again
/// while the build that ships passes there.
fn is_caught(build: Build) {
    let mut counts = Counts::default();
    let failure = campaign::run(SEED.., POINTS_TO_CATCH, build, &mut counts)
        .expect_err("a broken build keeps every promise");
    println!("caught after {counts}");
    let point: Point = failure.point.to_string().parse().unwrap();
    assert_eq!(point, failure.point);
    assert!(shrink::replay(&point, build).is_err(), "{point} does not fail again");
    let shipped = Build { sabotage: None, ..Build::SHIPPED };
    // The log of the whole build is longer, so its positions are others, but
    // none of them fails.
    campaign::run([point.seed].into_iter(), u64::MAX, shipped, &mut counts).unwrap();
}

fn without(sabotage: Sabotage) -> Build {
    Build { sabotage: Some(sabotage), ..Build::SHIPPED }
}

#[test]
fn a_build_that_does_not_sync_chunks_is_caught() {
    is_caught(without(Sabotage::Chunks));
}

#[test]
fn a_build_that_renames_a_table_before_its_sync_is_caught() {
    is_caught(without(Sabotage::NewTable));
}

#[test]
fn a_build_that_does_not_sync_the_directory_is_caught() {
    is_caught(without(Sabotage::Names));
}

#[test]
fn a_build_that_calls_entries_durable_before_their_sync_is_caught() {
    is_caught(without(Sabotage::Entries));
}

#[test]
fn a_build_that_renames_a_dictionary_before_its_sync_is_caught() {
    is_caught(without(Sabotage::SmallFiles));
}

#[test]
fn a_build_whose_readers_trust_the_newest_commit_is_caught() {
    is_caught(Build { recovers: false, ..Build::SHIPPED });
}

#[test]
fn a_failure_is_made_smaller_and_still_fails() {
    let build = without(Sabotage::Chunks);
    let failure = campaign::run(SEED.., u64::MAX, build, &mut Counts::default()).unwrap_err();
    let smallest = shrink::shrink(failure, build);
    let operations = smallest.point.kept.as_ref().map(Vec::len);
    assert!(operations.is_some_and(|count| count <= 3), "{operations:?} operations are left");
    let text = shrink::describe(&smallest, build);
    assert!(text.contains(&format!("--replay {}", smallest.point)), "{text}");
    assert!(shrink::replay(&smallest.point, build).is_err());
}

#[test]
fn a_point_is_written_as_it_is_read() {
    for (text, crash) in [("7:all:12:kill", Crash::Kill), ("7:0.3:12:power2", Crash::Power(2))] {
        let point: Point = text.parse().unwrap();
        assert_eq!((point.seed, point.position, point.crash), (7, 12, crash));
        assert_eq!(point.to_string(), text);
    }
    assert!("7:all:12".parse::<Point>().is_err());
    assert!("7:all:12:flood".parse::<Point>().is_err());
}
