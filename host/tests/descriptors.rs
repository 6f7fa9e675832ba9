//! A store of more chunks than the process may have descriptors.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};
use zrecord_host::core::Error;
use zrecord_host::{Format, Io, Store};

mod support;
use support::{FORMATS, core_error, fresh, writable};

const CHUNKS: u16 = 160;
/// How many descriptors of chunks one handle keeps.
const KEPT_MAX: usize = 128;
/// The directory of the lock, and the table for two readers.
const OTHERS: usize = 3;

/// The limit on descriptors is the whole process's.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn record(index: u16) -> [u8; 50] {
    let [low, high] = index.to_le_bytes();
    std::array::from_fn(|at| if at % 2 == 0 { low } else { high })
}

/// Two records in each of many chunks.
fn many_chunks(format: Format, path: &Path) {
    let store = writable(format).chunk_size_max(100).open(path).unwrap();
    let records: Vec<u8> = (0..2 * CHUNKS).flat_map(record).collect();
    let offsets: Vec<u64> = (0..2 * u64::from(CHUNKS)).map(|index| index * 50).collect();
    store.append(&records, &offsets, Some(zrecord_host::Codec::Raw)).unwrap();
    store.close().unwrap();
    assert!(path.join(format!("{}.zr", CHUNKS - 1)).exists());
}

fn check(store: &Store, indices: impl IntoIterator<Item = u16>) {
    let indices: Vec<u16> = indices.into_iter().collect();
    let wide: Vec<u64> = indices.iter().map(|index| u64::from(*index)).collect();
    let mut found = vec![0; 50 * indices.len()];
    store.gather_packed(&wide, &mut found, 50).unwrap();
    let wanted: Vec<u8> = indices.into_iter().flat_map(record).collect();
    assert_eq!(found, wanted);
}

fn descriptors(path: &Path) -> usize {
    let entries = fs::read_dir("/proc/self/fd").unwrap();
    let targets = entries.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    targets.filter(|target| target.starts_with(path)).count()
}

fn mappings(path: &Path) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(path.to_str().unwrap())).count()
}

/// Sets the limit to as many as are open, and some more; puts it back.
struct Limited(Option<u64>);

impl Limited {
    fn to_spare(spare: u64) -> Self {
        let before = getrlimit(Resource::Nofile);
        let open = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        let mut limit = before;
        limit.current = Some(open + spare);
        setrlimit(Resource::Nofile, limit).unwrap();
        Self(before.current)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = self.0;
        setrlimit(Resource::Nofile, limit).unwrap();
    }
}

#[test]
fn descriptors_are_bounded_and_everything_goes_with_close() {
    let _alone = alone();
    for format in FORMATS {
        let (_guard, path) = fresh();
        many_chunks(format, &path);
        for io in [Io::Map, Io::Pread] {
            assert_eq!((descriptors(&path), mappings(&path)), (0, 0));
            let store = writable(format).io(io).open(&path).unwrap();
            check(&store, 0..2 * CHUNKS);
            check(&store, (0..2 * CHUNKS).rev());
            assert_eq!(descriptors(&path), OTHERS + KEPT_MAX);
            let mapped = if io == Io::Map { usize::from(CHUNKS) + 1 } else { 0 };
            assert_eq!(mappings(&path), mapped);
            store.close().unwrap();
            assert_eq!((descriptors(&path), mappings(&path)), (0, 0));
        }
    }
}

#[test]
fn more_chunks_than_the_process_may_open_are_read_all_the_same() {
    let _alone = alone();
    for format in FORMATS {
        let (_guard, path) = fresh();
        many_chunks(format, &path);
        for io in [Io::Map, Io::Pread] {
            let store = writable(format).io(io).open(&path).unwrap();
            let _limited = Limited::to_spare(80);
            check(&store, 0..2 * CHUNKS);
            check(&store, (0..2 * CHUNKS).rev());
            assert_eq!(store.verify(&mut |_| {}).unwrap(), []);
            // It keeps to what it has learnt.
            assert_eq!(descriptors(&path), OTHERS);
        }
    }
}

#[test]
fn no_descriptor_at_all_is_an_error_that_passes() {
    let _alone = alone();
    let (_guard, path) = fresh();
    many_chunks(Format::Extended, &path);
    let store = Store::open(&path).unwrap();
    check(&store, 0..4);
    let limited = Limited::to_spare(3);
    let mut taken = Vec::new();
    let refused = loop {
        match File::open("/dev/null") {
            Ok(file) => taken.push(file),
            Err(error) => break error,
        }
    };
    assert_eq!(Errno::from_io_error(&refused), Some(Errno::MFILE));
    // The two chunks that were read give theirs up, and then serve others.
    check(&store, 4..6);
    taken.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
    let mut record = [0; 50];
    let error = core_error(store.gather(&[7], &mut record, &[0]));
    assert!(
        matches!(&error, Error::Io { source, .. }
            if Errno::from_io_error(source) == Some(Errno::MFILE)),
        "{error:?}"
    );
    drop(taken);
    check(&store, 0..2 * CHUNKS);
    drop(limited);
    check(&store, 0..2 * CHUNKS);
}

#[test]
fn a_chunk_that_was_put_in_the_place_of_another_is_an_error() {
    let _alone = alone();
    for io in [Io::Map, Io::Pread] {
        let (_guard, path) = fresh();
        many_chunks(Format::Extended, &path);
        let store = writable(Format::Extended).io(io).open(&path).unwrap();
        check(&store, 0..2 * CHUNKS);
        let chunk = path.join(format!("{}.zr", CHUNKS - 1));
        let other = path.join("other");
        fs::copy(&chunk, &other).unwrap();
        fs::rename(&other, &chunk).unwrap();
        let last = u64::from(2 * CHUNKS - 1);
        let mut record = [0; 50];
        let error = core_error(store.gather(&[last], &mut record, &[0]));
        assert!(error.to_string().contains("another file has taken its place"), "{error}");
        fs::remove_file(&chunk).unwrap();
        let error = core_error(store.gather(&[last], &mut record, &[0]));
        assert!(
            matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound),
            "{error:?}"
        );
        check(&store, 0..4);
    }
}

/// File systems give the number of a removed file to the next one.
#[test]
fn a_chunk_that_was_removed_and_written_anew_is_an_error() {
    let _alone = alone();
    let (_guard, path) = fresh();
    many_chunks(Format::Extended, &path);
    let store = writable(Format::Extended).io(Io::Pread).open(&path).unwrap();
    check(&store, 0..2 * CHUNKS);
    let chunk = path.join(format!("{}.zr", CHUNKS - 1));
    let bytes = fs::read(&chunk).unwrap();
    // Later than the first by any clock.
    thread::sleep(Duration::from_millis(50));
    fs::remove_file(&chunk).unwrap();
    fs::write(&chunk, vec![9; bytes.len()]).unwrap();
    let last = u64::from(2 * CHUNKS - 1);
    let mut record = [0; 50];
    match store.gather(&[last], &mut record, &[0]) {
        // Where nobody knows when a file was made, the first is kept open.
        Ok(()) => assert_eq!(record, self::record(2 * CHUNKS - 1)),
        Err(error) => {
            assert!(error.to_string().contains("another file has taken its place"), "{error}");
        }
    }
}
