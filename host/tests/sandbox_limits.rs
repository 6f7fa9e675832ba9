//! Limits of a sandbox, and what happens to it and to others where one is met.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::{Duration, Instant};

use zrecord_host::core::Error;
use zrecord_host::sandbox::{CALL_BYTES_MIN, Limits, Sandbox, SandboxError};
use zrecord_host::{Codec, Format, sandbox};

#[path = "sandboxed/mod.rs"]
mod sandboxed;
mod support;
use sandboxed::{gather, native, open, records, sandbox_error};
use support::{Random, core_error, fresh};

/// Bytes that one compressed frame holds a great many of.
fn smooth(len: usize) -> Vec<u8> {
    (0..len).map(|position| u8::try_from(position / 64 % 251).unwrap()).collect()
}

/// Bytes that take the component a third of a second to decode, at least.
fn slow() -> Vec<u8> {
    let mut random = Random::new(5);
    (0..60 << 20).map(|_| u8::try_from(random.below(16)).unwrap()).collect()
}

/// Less than that takes, and more than opening a store does.
const SHORT: Duration = Duration::from_millis(50);

/// Opens a store in a short time; again where the machine had none for us.
fn open_in_time(open: impl Fn() -> zrecord_host::Result<Sandbox>) -> Sandbox {
    (0..50).find_map(|_| open().ok()).expect("opening takes too long")
}

#[test]
fn memory_is_limited() {
    let (_guard, path) = fresh();
    let large = smooth(32 << 20);
    native(&path, Format::Extended, Codec::Zstd, &[large.clone(), vec![5; 10]]);
    let limit = 16 << 20;
    let small = Sandbox::open(&path, Limits::new().memory(limit)).unwrap();
    assert_eq!(gather(&small, &[1]).unwrap(), [vec![5; 10]]);
    let error = small.gather(&[0], &mut vec![0; large.len()], &[0]).unwrap_err();
    assert!(error.to_string().contains("limit on memory"), "{error}");
    assert_eq!(sandbox_error(Err::<(), _>(error)), SandboxError::Memory { limit });
    assert_eq!(gather(&open(&path), &[0]).unwrap(), [large], "others have their own");
    let none = sandbox_error(Sandbox::open(&path, Limits::new().memory(1 << 16)));
    assert_eq!(none, SandboxError::Memory { limit: 1 << 16 });
}

#[test]
fn time_is_limited_and_a_trap_ends_only_its_sandbox() {
    let (_guard, path) = fresh();
    let large = slow();
    native(&path, Format::Extended, Codec::Zstd, std::slice::from_ref(&large));
    let bystander = open(&path);
    let limits = Limits::new().time(SHORT);
    let stopped = open_in_time(|| Sandbox::open(&path, limits));
    let mut dst = vec![0; large.len()];
    let began = Instant::now();
    let error = sandbox_error(stopped.gather(&[0], &mut dst, &[0]));
    assert_eq!(error, SandboxError::Time { limit: limits.time });
    assert!(began.elapsed() < Duration::from_secs(5), "it went on for {:?}", began.elapsed());
    let ended = SandboxError::Ended { cause: Box::new(error.clone()) };
    assert_eq!(sandbox_error(stopped.lengths(&[0])), ended);
    assert_eq!(sandbox_error(stopped.verify(&mut |_| {})), ended);
    assert!(ended.to_string().contains("limit on time"), "{ended}");
    stopped.close().unwrap();
    bystander.gather(&[0], &mut dst, &[0]).unwrap();
    assert!(dst == large);
    let verdict = sandbox::verify(&path, limits, &mut |_| {}, &mut |_| {});
    assert_eq!(sandbox_error(verdict), error);
}

#[test]
fn a_writer_that_was_stopped_leaves_the_store_as_it_was() {
    let (_guard, path) = fresh();
    let kept = records(3, 20);
    native(&path, Format::Extended, Codec::Raw, &kept);
    let limits = Limits::new().time(SHORT);
    let writer = open_in_time(|| Sandbox::open_writer(&path, limits));
    let error = sandbox_error(writer.append(&slow(), &[0], Some(Codec::Zstd)));
    assert_eq!(error, SandboxError::Time { limit: limits.time });
    let ended = SandboxError::Ended { cause: Box::new(error) };
    assert_eq!(sandbox_error(writer.close()), ended, "its last words were not synced");
    let writer = Sandbox::open_writer(&path, Limits::new()).unwrap();
    assert_eq!(sandboxed::all(&writer), kept);
    assert_eq!(writer.append(b"more", &[0], None).unwrap(), 20);
}

#[test]
fn bytes_of_a_call_are_limited() {
    let (_guard, path) = fresh();
    let limit = CALL_BYTES_MIN;
    let large = vec![1; usize::try_from(limit).unwrap() + 1];
    let store = native(&path, Format::Extended, Codec::Raw, &[vec![2; 10], large.clone()]);
    let limits = Limits::new().call_bytes(limit);
    let small = Sandbox::open(&path, limits).unwrap();
    let mut dst = vec![7; large.len() + 10];
    let error = core_error(small.gather(&[0, 1], &mut dst, &[0, 10]));
    let Error::TooLarge { index: 1, len, limit: most } = error else { panic!("{error}") };
    assert_eq!((len, most), (limit + 1, limit));
    assert!(dst.iter().all(|byte| *byte == 7), "nothing is written");
    assert_eq!(gather(&small, &[0]).unwrap(), [vec![2; 10]], "it harms nothing");
    // Checking takes it in pieces.
    assert_eq!(small.verify(&mut |_| {}).unwrap(), []);
    assert_eq!(small.read_prefix(1, u64::MAX).unwrap(), large[..large.len() - 1]);
    store.close().unwrap();
    let writer = Sandbox::open_writer(&path, limits).unwrap();
    let error = core_error(writer.append(&large, &[0], None));
    assert!(matches!(error, Error::InvalidArgument { argument: "src", .. }), "{error}");
    let error = core_error(Sandbox::open(&path, Limits::new().call_bytes(limit - 1)));
    assert!(matches!(error, Error::InvalidArgument { argument: "call_bytes", .. }), "{error}");
}

#[test]
fn batches_larger_than_a_call_are_gathered() {
    let (_guard, path) = fresh();
    let records: Vec<Vec<u8>> = (0..4).map(|byte| vec![byte; (1 << 20) + 1]).collect();
    native(&path, Format::Extended, Codec::Raw, &records);
    let store = open(&path);
    // More than wasmtime copies in one call by itself, 128 MiB, and than ours.
    let indices: Vec<u64> = (0..150).map(|position| position % 4).collect();
    let len = (1 << 20) + 1;
    let mut dst = vec![0xff; 150 * len];
    store.gather_packed(&indices, &mut dst, len as u64).unwrap();
    for (index, record) in indices.iter().zip(dst.chunks(len)) {
        assert!(record.iter().all(|byte| u64::from(*byte) == *index));
    }
    // One record too long for what is said of them, found before any is read.
    let mut dst = vec![0xff; 150 * len];
    store.gather_packed(&indices, &mut dst, len as u64 - 1).unwrap_err();
    assert!(dst.iter().all(|byte| *byte == 0xff));
}

#[test]
fn many_sandboxes_work_at_once() {
    let (_guard, path) = fresh();
    let records = records(4, 200);
    native(&path, Format::Extended, Codec::Zstd, &records);
    let shared = open(&path);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(sandboxed::all(&open(&path)), records));
            scope.spawn(|| assert_eq!(sandboxed::all(&shared), records));
        }
    });
}

/// The threads of this process that advance the clock of sandboxes.
#[cfg(target_os = "linux")]
fn tickers() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")));
    names.filter(|name| name.as_ref().is_ok_and(|name| name.trim() == "zrecord-epoch")).count()
}

/// Waits for so many of them: a thread names itself once it runs, and its entry
/// may outlive it for an instant.
#[cfg(target_os = "linux")]
fn assert_tickers(count: usize) {
    let began = Instant::now();
    while tickers() != count && began.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(tickers(), count);
}

/// In a process of its own, since other tests have sandboxes as well.
#[cfg(target_os = "linux")]
#[test]
fn the_clock_runs_while_there_are_sandboxes() {
    const ALONE: &str = "ZRECORD_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "the_clock_runs_while_there_are_sandboxes";
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(ALONE, "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let (_guard, path) = fresh();
    native(&path, Format::Extended, Codec::Raw, &[vec![1]]);
    assert_tickers(0);
    let (one, other) = (open(&path), open(&path));
    assert_tickers(1);
    drop(one);
    assert_tickers(1);
    drop(other);
    assert_tickers(0);
    open(&path).len().unwrap();
    assert_tickers(0);
}
