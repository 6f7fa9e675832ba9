//! Files that are cut in the very midst of a gather: errors or the bytes that
//! were stored, never a signal.
//!
//! What happens to a process needs one of its own, so each test runs this
//! program again with [`SCENE`] set, and only [`the_scene_of_a_child`] does
//! something there. That the scenes are worth playing is shown with the guard
//! off, when the same scene ends in the signal.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(unix)]

use std::env;
use std::fs::{self, OpenOptions as FileOptions};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zrecord_host::core::Error;
use zrecord_host::guard::{GUARD_VARIABLE, switch_guard};
use zrecord_host::{Codec, Format, Mode, OpenOptions, Store, Verify};

mod support;
use support::{FORMATS, core_error, fresh, writable};

/// What a child is to do.
const SCENE: &str = "ZRECORD_TEST_SCENE";
/// A scene ends well before, or has failed.
const DEADLINE: Duration = Duration::from_secs(120);
/// So many times a gather must have met a file that was cut under it.
const CUTS_MET: u32 = 3;
const RECORD_LEN: usize = 12 << 10;
const RECORDS: usize = 400;

/// Runs a scene in a process of its own.
fn play(scene: &str, guard: &str) -> ExitStatus {
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", "the_scene_of_a_child", "--test-threads=1"]);
    child.env(SCENE, scene).env(GUARD_VARIABLE, guard);
    child.stdout(std::process::Stdio::null()).status().unwrap()
}

fn survives(scene: &str) {
    let status = play(scene, "1");
    assert!(status.success(), "{scene}: {status}");
}

fn dies(scene: &str, guard: &str) {
    let status = play(scene, guard);
    assert_eq!(status.signal(), Some(libc::SIGBUS), "{scene}: {status}");
}

#[test]
fn the_scene_of_a_child() {
    let Ok(scene) = env::var(SCENE) else { return };
    match &*scene {
        "chunk" => chunks_are_cut_under_gathers(),
        "table" => tables_are_cut_under_lookups(),
        "loop" => a_chunk_is_cut_and_restored_in_a_loop(),
        "view" => a_chunk_is_cut_under_a_view(),
        "unguarded" => a_chunk_is_cut_that_is_not_guarded(),
        other => panic!("no scene is called {other}"),
    }
}

#[test]
fn a_chunk_that_is_cut_in_the_midst_of_a_gather_gives_an_error() {
    survives("chunk");
}

#[test]
fn a_table_that_is_cut_in_the_midst_of_a_lookup_gives_an_error() {
    survives("table");
}

#[test]
fn a_chunk_that_is_cut_and_restored_in_a_loop_gives_errors_or_its_records() {
    survives("loop");
}

#[test]
fn a_view_of_a_chunk_that_was_cut_shows_zeros_and_says_so() {
    survives("view");
}

#[test]
fn without_the_guard_each_scene_ends_in_the_signal() {
    for scene in ["chunk", "table", "loop", "view"] {
        dies(scene, "0");
    }
}

#[test]
fn a_fault_outside_of_guarded_mappings_still_ends_the_process() {
    dies("unguarded", "1");
}

/// A file that is cut and put back.
struct Target {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Target {
    fn new(path: PathBuf) -> Self {
        let bytes = fs::read(&path).unwrap();
        Self { path, bytes }
    }

    fn cut(&self, size: u64) {
        FileOptions::new().write(true).open(&self.path).unwrap().set_len(size).unwrap();
    }

    /// The same file again, so that open handles see it.
    fn restore(&self) {
        let file = FileOptions::new().write(true).open(&self.path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &self.bytes, 0).unwrap();
    }
}

/// Cuts `target` while `work` is running, again and again, until a gather has
/// met the cut often enough. `work` gets an open store, and says whether its
/// answer was right.
fn cut_under(
    target: &Target,
    keep: u64,
    options: &OpenOptions,
    work: impl Fn(&Store) -> zrecord_host::Result<bool> + Sync,
) {
    let started = Instant::now();
    let path = target.path.parent().unwrap();
    let mut random = support::Random::new(7);
    let (mut met, mut usual) = (0, Duration::from_micros(200));
    while met < CUTS_MET {
        assert!(started.elapsed() < DEADLINE, "only {met} gathers met the cut");
        let store = options.open(path).unwrap();
        let began = Instant::now();
        assert!(work(&store).unwrap(), "wrong bytes from an intact store");
        usual = (usual + began.elapsed()) / 2;
        let pause = usual.mul_f64(random.below(1_000).to_string().parse::<f64>().unwrap() / 1e3);
        let outcome = thread::scope(|scope| {
            let worker = scope.spawn(|| work(&store));
            thread::sleep(pause);
            target.cut(keep);
            worker.join().unwrap()
        });
        let was_cut = match outcome {
            Ok(right) => {
                assert!(right, "wrong bytes while the file was cut");
                false
            }
            Err(error) => is_cut(&error, &target.path),
        };
        target.restore();
        if was_cut {
            // The file is as it was, but the handle cannot know.
            for _ in 0..2 {
                assert!(is_cut(&work(&store).unwrap_err(), &target.path));
            }
            assert!(work(&options.open(path).unwrap()).unwrap(), "opened anew it reads");
            met += 1;
        }
    }
}

/// Whether an error is the guard's, which names the file.
fn is_cut(error: &zrecord_host::Error, path: &Path) -> bool {
    let text = error.to_string();
    assert!(text.contains(path.file_name().unwrap().to_str().unwrap()), "{text}");
    text.contains("it was cut while it was read")
}

/// `RECORDS` records that are not alike, and the last one shorter than the
/// others if they are not to be in strides.
fn build(path: &Path, format: Format, codec: Codec, strided: bool) -> Vec<Vec<u8>> {
    let mut random = support::Random::new(5);
    let mut records: Vec<Vec<u8>> = (0..RECORDS)
        .map(|_| (0..RECORD_LEN).map(|_| (random.next() % 170).to_le_bytes()[0]).collect())
        .collect();
    if !strided {
        records.push(vec![1; 77]);
    }
    let (src, offsets) = support::pack(&records);
    let store = writable(format).min_saving(0.0).level(1).open(path).unwrap();
    store.append(&src, &offsets, Some(codec)).unwrap();
    store.close().unwrap();
    if format == Format::Classic {
        // To the used length, so that restoring it is quick.
        let used: u64 = records.iter().map(|record| record.len() as u64).sum();
        let chunk = FileOptions::new().write(true).open(path.join("0.zr")).unwrap();
        chunk.set_len(used).unwrap();
    }
    records
}

fn right(store: &Store, records: &[Vec<u8>]) -> zrecord_host::Result<bool> {
    // All but the odd one out, in an order that jumps about.
    let indices: Vec<u64> = (0..RECORDS as u64).map(|at| at * 271 % RECORDS as u64).collect();
    let mut dst = vec![0xa5; RECORDS * RECORD_LEN];
    store.gather_packed(&indices, &mut dst, RECORD_LEN as u64)?;
    let mut gathered = indices.iter().zip(dst.chunks_exact(RECORD_LEN));
    Ok(gathered.all(|(index, found)| found == records[usize::try_from(*index).unwrap()]))
}

fn chunks_are_cut_under_gathers() {
    for (format, codec, strided) in [
        (Format::Extended, Codec::Raw, true),
        (Format::Extended, Codec::Raw, false),
        (Format::Extended, Codec::Zstd, false),
        (Format::Classic, Codec::Raw, false),
    ] {
        for (verify, threads) in [(Verify::Never, 1), (Verify::First, 2), (Verify::Always, 1)] {
            let (_guard, path) = fresh();
            let records = build(&path, format, codec, strided);
            let target = Target::new(path.join("0.zr"));
            let options = OpenOptions::new().verify(verify).threads(threads);
            for keep in [0, 100_000] {
                cut_under(&target, keep, &options, |store| right(store, &records));
            }
        }
    }
}

fn tables_are_cut_under_lookups() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let store = writable(format).open(&path).unwrap();
        let lengths: Vec<u32> = (0..60_000).map(|index| index % 5 + 1).collect();
        let ends: Vec<u64> = lengths
            .iter()
            .scan(0, |end, len| {
                let start = *end;
                *end += u64::from(*len);
                Some(start)
            })
            .collect();
        let size = lengths.iter().sum::<u32>() as usize;
        store.append(&vec![3; size], &ends, Some(Codec::Raw)).unwrap();
        store.close().unwrap();
        if format == Format::Classic {
            let meta = FileOptions::new().write(true).open(path.join("meta.zr")).unwrap();
            meta.set_len(16 + 16 * lengths.len() as u64).unwrap();
        }
        let target = Target::new(path.join("meta.zr"));
        let indices: Vec<u64> = (0..lengths.len() as u64).collect();
        for keep in [13_000, 0] {
            cut_under(&target, keep, &OpenOptions::new(), |store| {
                Ok(store.lengths(&indices)? == lengths)
            });
        }
    }
}

/// As fast as it goes, while others gather: only comparing every checksum
/// tells that a file was cut and restored within one gather.
fn a_chunk_is_cut_and_restored_in_a_loop() {
    let (_guard, path) = fresh();
    let records = build(&path, Format::Extended, Codec::Raw, true);
    let target = Target::new(path.join("0.zr"));
    let options = OpenOptions::new().verify(Verify::Always).threads(1);
    let started = Instant::now();
    let (done, good, cut) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) && started.elapsed() < DEADLINE {
                    let store = options.open(&path).unwrap();
                    loop {
                        match right(&store, &records) {
                            Ok(right) => assert!(right, "wrong bytes"),
                            Err(error) => {
                                if is_cut(&error, &target.path) {
                                    cut.fetch_add(1, Ordering::Relaxed);
                                }
                                break;
                            }
                        }
                        good.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut random = support::Random::new(11);
        while good.load(Ordering::Relaxed) < 5 || cut.load(Ordering::Relaxed) < u64::from(CUTS_MET)
        {
            assert!(started.elapsed() < DEADLINE, "{good:?} gathers, {cut:?} cuts met");
            target.cut(random.below(target.bytes.len() as u64));
            target.restore();
            thread::sleep(Duration::from_micros(random.below(20_000)));
        }
        done.store(true, Ordering::Relaxed);
        // Those that wait for an error get one.
        target.cut(0);
    });
}

fn a_chunk_is_cut_under_a_view() {
    let (_guard, path) = fresh();
    let records = build(&path, Format::Extended, Codec::Raw, true);
    let target = Target::new(path.join("0.zr"));
    let store = Store::open(&path).unwrap();
    let view = store.view(0, RECORDS as u64).unwrap();
    target.cut(4 * RECORD_LEN as u64);
    assert_eq!(view[..4 * RECORD_LEN], records[..4].concat());
    assert!(!view.is_damaged());
    assert!(view[4 * RECORD_LEN..].iter().all(|byte| *byte == 0));
    assert!(view.is_damaged());
    target.restore();
    // What it shows stays as it is, and the handle reads nothing more there.
    assert!(view[4 * RECORD_LEN..].iter().all(|byte| *byte == 0));
    assert_eq!(view[..4 * RECORD_LEN], records[..4].concat());
    let error = core_error(store.view(0, 1));
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert!(is_cut(&right(&store, &records).unwrap_err(), &target.path));
    assert!(right(&Store::open(&path).unwrap(), &records).unwrap());
}

/// The handler is there, but the mapping is none of those it knows.
fn a_chunk_is_cut_that_is_not_guarded() {
    let (_guard, path) = fresh();
    let records = build(&path, Format::Extended, Codec::Raw, true);
    let guarded = Store::open(&path).unwrap();
    assert!(right(&guarded, &records).unwrap());
    switch_guard(false);
    let other = OpenOptions::new().mode(Mode::Read).open(&path).unwrap();
    let view = other.view(0, RECORDS as u64).unwrap();
    Target::new(path.join("0.zr")).cut(0);
    let sum: u64 = view.iter().map(|byte| u64::from(*byte)).sum();
    panic!("the process should be gone, and the sum is {sum}");
}
