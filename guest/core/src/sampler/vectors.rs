//! `tests/vectors/sampler.json`, the frozen answers that every language's
//! tests read: each case must be what the sampler and the reference give.
//!
//! `ZRECORD_BLESS=1 cargo test -p zrecord-core sampler` adds the cases that
//! are listed here and missing there; what is there is never changed.

use std::fmt::Write;

use serde_json::Value;

use super::tests::batch;
use super::{Mode, SamplerOptions, reference};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/sampler.json");
const FROZEN: &str = include_str!("../../../../tests/vectors/sampler.json");

/// The cases that must be in the file.
fn cases() -> Vec<(SamplerOptions, u64)> {
    let case = |mode, length, batch_size, seed, (rank, world_size), step| {
        (SamplerOptions { length, batch_size, mode, seed, rank, world_size }, step)
    };
    let lengths = [
        1,
        2,
        3,
        4,
        10,
        128,
        129,
        1000,
        65_536,
        1_281_167,
        u64::from(u32::MAX),
        1 << 32,
        (1 << 32) + 1,
        1 << 40,
        (1 << 62) + 1, // a quarter of the words is rejected
        (1 << 63) - 1,
        1 << 63,
    ];
    let mut cases = Vec::new();
    for mode in Mode::ALL {
        for length in lengths {
            let batch_size = if mode == Mode::Cyclic { length.min(20) } else { 20 };
            for (seed, step) in [(42, 0), (u64::MAX, 1), (1 << 32, 1 << 40), (7, u64::MAX)] {
                cases.push(case(mode, length, batch_size, seed, (0, 1), step));
            }
        }
        for rank in 0..3 {
            cases.push(case(mode, 100, 11, 5, (rank, 3), 4));
            cases.push(case(mode, 50_000, 11, 5, (rank, 3), 1_000_000_007));
        }
        // Across position 2^32, and a batch of several blocks.
        cases.push(case(mode, 3_000_000_000, 10, 1, (0, 1), 429_496_729));
        cases.push(case(mode, 300, 257, 0, (0, 1), 12));
        cases.push(case(mode, 1 << 33, 6, 9, (123_456_788, 123_456_789), 99));
    }
    cases
}

/// A case as one line of JSON; every number is a string of decimal digits.
fn line(options: SamplerOptions, step: u64, indices: &[u64]) -> String {
    let SamplerOptions { length, batch_size, mode, seed, rank, world_size } = options;
    let mut line =
        format!(r#"{{"mode": "{mode}", "length": "{length}", "batch_size": "{batch_size}", "#);
    let _ = write!(
        line,
        r#""seed": "{seed}", "rank": "{rank}", "world_size": "{world_size}", "step": "{step}", "#
    );
    let indices: Vec<String> = indices.iter().map(|index| format!("\"{index}\"")).collect();
    let _ = write!(line, r#""indices": [{}]}}"#, indices.join(", "));
    line
}

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

fn frozen() -> Vec<(SamplerOptions, u64, Vec<u64>)> {
    let file: Value = serde_json::from_str(FROZEN).unwrap();
    let cases = file["cases"].as_array().unwrap().iter();
    cases
        .map(|case| {
            let options = SamplerOptions {
                length: number(&case["length"]),
                batch_size: number(&case["batch_size"]),
                mode: case["mode"].as_str().unwrap().parse().unwrap(),
                seed: number(&case["seed"]),
                rank: number(&case["rank"]),
                world_size: number(&case["world_size"]),
            };
            let indices = case["indices"].as_array().unwrap().iter().map(number).collect();
            (options, number(&case["step"]), indices)
        })
        .collect()
}

#[test]
fn the_frozen_vectors_hold() {
    for (options, step, indices) in frozen() {
        assert_eq!(batch(options, step), indices, "{options:?} at {step}");
        assert_eq!(reference::batch(options, step), indices, "{options:?} at {step}");
    }
}

#[test]
fn the_vector_file_has_every_case() {
    let frozen = frozen();
    let known = |case: &(SamplerOptions, u64)| {
        frozen.iter().any(|(options, step, _)| (options, step) == (&case.0, &case.1))
    };
    let missing: Vec<_> = cases().into_iter().filter(|case| !known(case)).collect();
    if missing.is_empty() {
        return;
    }
    #[expect(clippy::disallowed_methods, reason = "a test that was asked to extend the vectors")]
    let bless = std::env::var("ZRECORD_BLESS").is_ok();
    assert!(bless, "{} cases are missing; ZRECORD_BLESS=1 adds them", missing.len());
    let old = frozen.iter().map(|(options, step, indices)| line(*options, *step, indices));
    let new = missing.iter().map(|&(options, step)| line(options, step, &batch(options, step)));
    let lines: Vec<String> = old.chain(new).collect();
    std::fs::write(FILE, format!("{{\"cases\": [\n{}\n]}}\n", lines.join(",\n"))).unwrap();
}
