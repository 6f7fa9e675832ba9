//! Several handles of one store, and several threads in one handle.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use zrecord_host::core::Error;
use zrecord_host::{Codec, Dtype, Format, Kind, Mode, OpenOptions, Schema, Store};

mod support;
use support::{
    FORMATS, all, append, copy_golden, core_error, fresh, gather, golden_names, writable,
};

fn records(count: u8) -> Vec<Vec<u8>> {
    (1..=count).map(|byte| vec![byte; 10 * usize::from(byte)]).collect()
}

fn names(path: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_second_writer_is_busy_until_the_first_closes() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let first = writable(format).open(&path).unwrap();
        append(&first, &records(3));
        let second = writable(format).open(&path).unwrap();
        assert_eq!(second.len().unwrap(), 3);
        assert!(matches!(core_error(second.append(b"x", &[0], None)), Error::Busy { .. }));
        first.close().unwrap();
        assert_eq!(append(&second, &records(1)), 3);
    }
}

#[test]
fn a_store_is_opened_again_and_another_in_its_place_is_not() {
    let (_guard, path) = fresh();
    let first = writable(Format::Extended).open(&path).unwrap();
    append(&first, &records(3));
    assert_eq!(all(&first.open_again().unwrap()), records(3));
    first.close().unwrap();
    fs::remove_dir_all(&path).unwrap();
    assert!(first.open_again().unwrap_err().is_not_found());
    assert!(!path.exists(), "it was made anew");
    for format in FORMATS {
        writable(format).open(&path).unwrap().close().unwrap();
        let error = first.open_again().unwrap_err();
        // One that was opened with a format says that it is not this one.
        let refused = matches!(error.core(), Some(Error::Unsupported { .. }));
        assert!(error.is_not_found() || refused, "{error}");
        fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn opening_does_not_take_the_writers_lock() {
    let (_guard, path) = fresh();
    writable(Format::Extended).open(&path).unwrap().close().unwrap();
    let first = writable(Format::Extended).open(&path).unwrap();
    let second = writable(Format::Extended).open(&path).unwrap();
    append(&second, &records(2));
    assert_eq!(first.len().unwrap(), 2);
}

#[test]
fn a_reader_follows_a_writer_without_reopening() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let writer = writable(format).open(&path).unwrap();
        let reader = Store::open(&path).unwrap();
        assert_eq!(reader.len().unwrap(), 0);
        append(&writer, &records(3));
        // Without asking for the length first.
        assert_eq!(gather(&reader, &[2]).unwrap(), [vec![3; 30]]);
        append(&writer, &records(5));
        assert_eq!(reader.len().unwrap(), 8);
        assert_eq!(all(&reader), all(&writer));
    }
}

#[test]
fn delete_and_compact_are_busy_while_another_handle_reads() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let writer = writable(format).open(&path).unwrap();
        append(&writer, &records(4));
        let reader = Store::open(&path).unwrap();
        assert!(matches!(core_error(writer.delete(&[0])), Error::Busy { .. }));
        assert!(matches!(core_error(writer.compact(&mut |_| {})), Error::Busy { .. }));
        // The failed conversion did not lose the writer's own presence.
        let other = writable(format).open(&path).unwrap();
        assert_eq!(other.len().unwrap(), 4);
        other.close().unwrap();
        reader.close().unwrap();
        writer.delete(&[0]).unwrap();
        assert_eq!(writer.len().unwrap(), 3);
        writer.compact(&mut |_| {}).unwrap();
    }
}

#[test]
fn a_reader_can_be_opened_while_and_after_a_writer_deletes() {
    let (_guard, path) = fresh();
    let writer = writable(Format::Extended).open(&path).unwrap();
    append(&writer, &records(4));
    writer.delete(&[1]).unwrap();
    let reader = Store::open(&path).unwrap();
    assert_eq!(all(&reader), all(&writer));
    assert_eq!(reader.generation(), writer.generation());
}

#[test]
fn without_locks_nobody_is_busy() {
    let (_guard, path) = fresh();
    let options = writable(Format::Extended).lock(false);
    let writer = options.open(&path).unwrap();
    append(&writer, &records(2));
    let reader = Store::open(&path).unwrap();
    writer.delete(&[0]).unwrap();
    assert_eq!(reader.len().unwrap(), 2);
    assert!(!path.join("lock.zr").exists());
}

#[test]
fn reading_writes_nothing() {
    for name in golden_names() {
        let (_guard, path) = fresh();
        copy_golden(&name, &path);
        let before = names(&path);
        let store = Store::open(&path).unwrap();
        all(&store);
        assert!(matches!(core_error(store.append(b"x", &[0], None)), Error::ReadOnly));
        assert!(matches!(core_error(store.delete(&[])), Error::ReadOnly));
        store.verify(&mut |_| {}).unwrap();
        store.close().unwrap();
        assert_eq!(names(&path), before, "{name}");
        let size = fs::metadata(path.join("meta.zr")).unwrap().len();
        let golden = support::golden().join(&name).join("meta.zr");
        assert_eq!(size, fs::metadata(golden).unwrap().len(), "{name}");
    }
}

#[test]
fn an_unclean_store_is_read_without_a_write() {
    let (_guard, path) = fresh();
    let writer = writable(Format::Extended).open(&path).unwrap();
    append(&writer, &records(4));
    // As a killed process leaves it: a copy of the files, with no lock held.
    let copy = path.with_file_name("copy.zr");
    fs::create_dir(&copy).unwrap();
    for name in ["meta.zr", "0.zr"] {
        fs::copy(path.join(name), copy.join(name)).unwrap();
    }
    let reader = Store::open(&copy).unwrap();
    assert_eq!(all(&reader), records(4));
    assert!(!reader.inspect().unwrap().clean);
    assert_eq!(names(&copy), ["0.zr", "meta.zr"]);
    reader.close().unwrap();
    let next = writable(Format::Extended).open(&copy).unwrap();
    append(&next, &records(1));
    next.close().unwrap();
    assert!(Store::open(&copy).unwrap().inspect().unwrap().clean);
}

#[test]
fn modes_open_and_create_as_they_say() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let missing = Store::open(&path).unwrap_err();
        assert!(missing.is_not_found(), "{missing}");
        assert!(!path.exists());
        let create = OpenOptions::new().mode(Mode::Create).format(format);
        create.open(path.join("deep/er")).unwrap();
        let created = create.open(&path).unwrap();
        assert_eq!(created.format(), format);
        assert!(matches!(core_error(create.open(&path)), Error::AlreadyExists));
        created.close().unwrap();
        let other = FORMATS.into_iter().find(|other| *other != format).unwrap();
        let contradicting = OpenOptions::new().format(other).open(&path);
        assert!(matches!(core_error(contradicting), Error::Unsupported { .. }));
    }
}

#[test]
fn a_closed_store_says_so_and_closes_again() {
    let (_guard, path) = fresh();
    let store = writable(Format::Extended).open(&path).unwrap();
    append(&store, &records(2));
    store.close().unwrap();
    store.close().unwrap();
    assert!(store.is_closed());
    assert!(matches!(core_error(store.len()), Error::Closed));
    assert!(matches!(core_error(store.gather(&[0], &mut [0; 10], &[0])), Error::Closed));
    assert!(matches!(core_error(store.append(b"x", &[0], None)), Error::Closed));
    assert!(matches!(core_error(store.delete(&[0])), Error::Closed));
    assert!(matches!(core_error(store.sync()), Error::Closed));
}

#[test]
fn gathers_and_appends_run_from_many_threads() {
    let (_guard, path) = fresh();
    let store = Arc::new(writable(Format::Extended).open(&path).unwrap());
    let done = Arc::new(AtomicBool::new(false));
    let value = |record: &[u8]| record.first().copied();
    thread::scope(|scope| {
        let writers: Vec<_> = (1..=3_u8)
            .map(|byte| {
                let store = Arc::clone(&store);
                scope.spawn(move || {
                    for round in 0..60_usize {
                        append(&store, &vec![vec![byte; 1 + round * usize::from(byte)]; 5]);
                    }
                })
            })
            .collect();
        for seed in 0..2 {
            let (store, done) = (Arc::clone(&store), Arc::clone(&done));
            scope.spawn(move || {
                let mut random = support::Random::new(seed);
                while !done.load(Ordering::Relaxed) {
                    let length = store.len().unwrap();
                    let count = if length == 0 { 0 } else { 20 };
                    let indices: Vec<u64> = (0..count).map(|_| random.below(length)).collect();
                    for record in gather(&store, &indices).unwrap() {
                        let first = value(&record).unwrap();
                        assert!(record.iter().all(|byte| *byte == first));
                    }
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.len().unwrap(), 900);
    let counts = [1, 2, 3]
        .map(|byte| all(&store).iter().filter(|record| value(record) == Some(byte)).count());
    assert_eq!(counts, [300; 3]);
}

#[test]
fn a_view_shows_rows_without_a_copy_and_keeps_deletes_away() {
    let (_guard, path) = fresh();
    let store = writable(Format::Extended).open(&path).unwrap();
    let schema =
        Schema::new(Kind::Dense, Dtype::parse("<u4").unwrap(), vec![4], Codec::Raw, vec![]);
    store.set_schema(&schema.unwrap()).unwrap();
    let rows: Vec<Vec<u8>> = (0..50_u8).map(|byte| vec![byte; 16]).collect();
    append(&store, &rows);
    let view = store.view(10, 13).unwrap();
    assert_eq!(&*view, rows[10..13].concat());
    assert!(matches!(core_error(store.delete(&[0])), Error::Busy { .. }));
    assert!(store.view(0, 51).is_err());
    assert!(store.view(7, 7).unwrap().is_empty());
    store.close().unwrap();
    assert_eq!(&*view, rows[10..13].concat());
    let store = writable(Format::Extended).open(&path).unwrap();
    store.append(&[7; 16], &[0], Some(Codec::Zstd)).unwrap();
    store.append(&[7; 16], &[0], Some(Codec::Raw)).unwrap();
}

#[test]
fn a_schema_is_checked_before_anything_is_appended() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let store = writable(format).open(&path).unwrap();
        let schema = |dtype| {
            let dtype = Dtype::parse(dtype).unwrap();
            Schema::new(Kind::Dense, dtype, vec![2], Codec::Raw, vec![]).unwrap()
        };
        store.set_schema(&schema("<f4")).unwrap();
        store.set_schema(&schema("<f4")).unwrap();
        assert!(matches!(
            core_error(store.set_schema(&schema("<f8"))),
            Error::SchemaMismatch { .. }
        ));
        let mismatch = core_error(store.append(&[0; 15], &[0, 8], None));
        assert!(matches!(mismatch, Error::SchemaMismatch { .. }), "{mismatch}");
        assert_eq!(store.len().unwrap(), 0);
        append(&store, &[vec![1; 8], vec![2; 8]]);
        store.close().unwrap();
        let dataset = zrecord_host::DenseDataset::open(&path).unwrap();
        assert_eq!((dataset.row_bytes(), dataset.len().unwrap()), (8, 2));
        let mut rows = [0; 24];
        dataset.gather(&[1, 0, 1], &mut rows).unwrap();
        assert_eq!(rows[..8], [2; 8]);
        assert_eq!(rows[8..16], [1; 8]);
        assert!(zrecord_host::RaggedDataset::open(&path).is_err());
    }
}

#[test]
fn a_view_that_outlives_its_store_keeps_delete_and_compact_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let writer = OpenOptions::new().mode(Mode::Append).open(&path).unwrap();
    writer.append(&[7; 64], &[0, 16, 32, 48], Some(Codec::Raw)).unwrap();
    let reader = OpenOptions::new().open(&path).unwrap();
    let view = reader.view(1, 3).unwrap();
    reader.close().unwrap();
    let busy = writer.delete(&[0]).unwrap_err();
    assert!(matches!(busy.core(), Some(Error::Busy { .. })), "{busy}");
    assert_eq!(&*view, &[7; 32]);
    drop(view);
    writer.delete(&[0]).unwrap();
}
