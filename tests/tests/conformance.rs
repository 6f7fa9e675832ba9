//! The core over memory, the host over files, the component over what it is
//! lent and the host's sandbox over files are one store: the same behaviours,
//! and in random sequences the same answers and files, step by step.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use zrecord_tests::component::bindings::store::{Compression, Format};
use zrecord_tests::conformance::sequence::{self, Draw};
use zrecord_tests::conformance::{self, behaviour};
use zrecord_tests::fuzz::bases;

const FORMATS: [Format; 2] = [Format::Classic, Format::Extended];
const RAW: &[Compression] = &[Compression::Raw];
const BOTH: &[Compression] = &[Compression::Raw, Compression::Zstd];
/// Operations of one sequence.
const STEPS: usize = 25;

/// How many sequences are run: `ZRECORD_SLOW=1` runs more.
fn rounds() -> u64 {
    if std::env::var_os("ZRECORD_SLOW").is_some() { 100 } else { 6 }
}

#[test]
fn every_implementation_behaves() {
    for format in FORMATS {
        for (name, behave) in behaviour::ALL {
            for store in &mut conformance::all(None) {
                println!("{}, {format:?}: {name}", store.name());
                behave(&mut **store, format);
            }
        }
    }
}

#[test]
fn raw_stores_are_the_same_to_the_byte() {
    for seed in 0..rounds() {
        for format in FORMATS {
            let row = [None, Some(6)][usize::from(seed % 2 == 1)];
            println!("seed {seed}, {format:?}, rows {row:?}");
            sequence::run(&mut Draw::new(seed, RAW, row), STEPS, Err(format));
        }
    }
}

#[test]
fn stores_of_every_codec_answer_the_same() {
    for seed in 0..rounds() {
        for format in FORMATS {
            println!("seed {seed}, {format:?}");
            sequence::run(&mut Draw::new(1000 + seed, BOTH, None), STEPS, Err(format));
        }
    }
}

#[test]
fn stores_that_are_there_are_changed_alike() {
    for seed in 0..rounds().div_ceil(3) {
        for (number, base) in bases::all().iter().enumerate() {
            println!("seed {seed}, base {number}");
            // Cut, and so none that can be opened.
            if [5, 7].contains(&number) {
                continue;
            }
            // What is typed there is of rows of twelve bytes, or ragged.
            let row = (number == 0).then_some(12);
            sequence::run(&mut Draw::new(2000 + seed, BOTH, row), STEPS, Ok(base));
        }
    }
}
