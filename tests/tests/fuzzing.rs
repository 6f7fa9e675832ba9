//! The fuzz targets without a fuzzer: each gets its saved corpus, and inputs
//! drawn from seeds.
#![expect(clippy::unwrap_used, reason = "a panic fails the test that called the helper")]

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use zrecord_tests::fuzz::memory::{self, PeakAlloc};
use zrecord_tests::fuzz::{TARGETS, target};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Memory is measured by one at a time.
static MEASURING: Mutex<()> = Mutex::new(());

/// How many drawn inputs each target gets: `ZRECORD_SLOW=1` gives more.
const DRAWN: u64 = 300;
const DRAWN_SLOWLY: u64 = 5_000;

fn corpus(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Runs an input, and names it when it is a finding.
fn run(name: &str, what: &str, input: &[u8]) {
    let run = target(name).unwrap().run;
    if let Err(finding) = panic::catch_unwind(AssertUnwindSafe(|| run(input))) {
        let hex: Vec<String> = input.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("target {name}, {what}: {}", hex.concat());
        panic::resume_unwind(finding);
    }
}

fn measuring(work: impl FnOnce()) {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    work();
}

fn replay(name: &str) {
    measuring(|| {
        let paths = corpus(name);
        assert!(!paths.is_empty(), "the corpus of {name} is empty");
        for path in paths {
            run(name, &path.display().to_string(), &fs::read(&path).unwrap());
        }
    });
}

/// Reproducible bytes; half of the inputs are mostly small numbers, which
/// choices are more often made of.
fn drawn(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let len = next() % 600;
    let bytes = (0..len).map(|_| {
        let [_, _, _, high, low, ..] = next().to_le_bytes();
        if seed.is_multiple_of(2) && high % 4 != 0 { low % 16 } else { low }
    });
    bytes.collect()
}

fn draw(name: &str) {
    let slow = std::env::var_os("ZRECORD_SLOW").is_some();
    measuring(|| {
        for seed in 0..if slow { DRAWN_SLOWLY } else { DRAWN } {
            run(name, &format!("seed {seed}"), &drawn(seed));
        }
    });
}

macro_rules! targets {
    ($($name:ident)*) => {$(
        mod $name {
            #[test]
            fn its_corpus_has_no_finding() {
                super::replay(stringify!($name));
            }

            #[test]
            fn drawn_inputs_have_no_finding() {
                super::draw(stringify!($name));
            }
        }
    )*};
}

targets! { codec open operations sampler schema writer }

#[test]
fn every_target_is_fuzzed_and_replayed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
    let mut size = 0;
    for target in TARGETS {
        let glue = format!("fuzz_targets/{}.rs", target.name);
        assert!(manifest.contains(&glue), "fuzz/Cargo.toml lacks {glue}");
        let text = fs::read_to_string(root.join("fuzz").join(&glue)).unwrap();
        assert!(text.contains(&format!("zrecord_tests::fuzz::{}::run", target.name)));
        assert!(text.contains("#[global_allocator]"), "{glue} counts no memory");
        let replayed =
            include_str!("fuzzing.rs").lines().find(|line| line.starts_with("targets! {"));
        assert!(replayed.unwrap().split(' ').any(|word| word == target.name));
        let files = corpus(target.name);
        size += files.iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
    }
    assert!(size < 200_000, "the saved corpora have {size} bytes");
}

#[test]
fn memory_is_counted_and_its_bound_can_be_broken() {
    measuring(|| {
        assert!(memory::is_counted());
        memory::bounded(1 << 20, || drop(vec![1_u8; 1 << 19]));
        let broken = panic::catch_unwind(|| {
            memory::bounded(1 << 20, || drop(std::hint::black_box(vec![1_u8; 1 << 21])));
        });
        assert!(broken.is_err(), "two MiB were taken below a bound of one");
    });
}
