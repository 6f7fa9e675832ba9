//! What is left when a writer stops at any of its storage operations, and
//! what a store is like after one of them has failed.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests may fail")]

mod support;

use support::faulty::FaultyDirectory;
use zrecord_core::codec::Codec;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::error::{Error, Result};
use zrecord_core::format::{Format, classic};
use zrecord_core::reader::Identity;
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::storage::{Directory, File, FileName};
use zrecord_core::store::Store;

type Model = Vec<Vec<u8>>;
type FaultyStore = Store<FaultyDirectory, Libzstd>;

/// Few chunk numbers, since compaction looks for leftovers at all of them.
fn limited<D: Directory>(store: &mut Store<D, Libzstd>, chunk_size_max: u64) {
    store.writer().unwrap().set_chunk_size_max(chunk_size_max);
    store.writer().unwrap().set_chunks_max(100);
}

fn identity(format: Format) -> Identity {
    match format {
        Format::Classic => Identity::Classic,
        Format::Extended => Identity::Extended([7; 16]),
    }
}

fn record(number: u8) -> Vec<u8> {
    vec![number; 40 + usize::from(number % 5)]
}

/// One step of the workload; the model follows only when it returns.
fn step<D: Directory>(
    store: &mut Store<D, Libzstd>,
    number: u8,
    model: &mut Model,
) -> Result<Option<Model>> {
    let mut next = model.clone();
    match number % 6 {
        0 | 1 | 3 => {
            let records: Model = (0..4).map(|at| record(number.wrapping_mul(4) + at)).collect();
            let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
            next.extend(records.clone());
            store.append(&slices, PackPolicy::new(Codec::Raw, Format::Extended))?;
        }
        2 => {
            let indices = [1, next.len() as u64 - 1, 3];
            next.swap_remove(next.len() - 1);
            next.swap_remove(3);
            next.swap_remove(1);
            store.delete(&indices)?;
        }
        4 => {
            store.compact(&mut |_| {})?;
        }
        _ => store.sync()?,
    }
    *model = next;
    Ok(None)
}

/// Runs the workload; returns what was there before the step that failed and
/// what would be there after it.
fn run(directory: FaultyDirectory, format: Format) -> (Model, Model, bool) {
    let mut model = Model::new();
    let Ok(mut store) = Store::<_, Libzstd>::create(directory, identity(format)) else {
        return (model.clone(), model, true);
    };
    limited(&mut store, 300);
    for number in 0..24 {
        let before = model.clone();
        if step(&mut store, number, &mut model).is_err() {
            let mut after = before.clone();
            let mut shadow = reference(format, &before);
            step(&mut shadow, number, &mut after).unwrap();
            return (before, after, true);
        }
    }
    (model.clone(), model, false)
}

/// A store in memory that holds `model`.
fn reference(format: Format, model: &Model) -> Store<MemoryDirectory, Libzstd> {
    let mut store = Store::create(MemoryDirectory::new(), identity(format)).unwrap();
    let slices: Vec<&[u8]> = model.iter().map(Vec::as_slice).collect();
    store.append(&slices, PackPolicy::new(Codec::Raw, format)).unwrap();
    store
}

fn contents<D: Directory>(store: &mut Store<D, Libzstd>) -> Model {
    let indices: Vec<u64> = (0..store.len()).collect();
    let batch = store.gather(&indices, u64::MAX).unwrap();
    batch.iter().map(<[u8]>::to_vec).collect()
}

fn stops_at_every_operation(format: Format) {
    let mut stops = 0;
    for operations in 0.. {
        let files = MemoryDirectory::new();
        let (before, after, stopped) =
            run(FaultyDirectory::stopping_after(files.clone(), operations), format);
        match Store::<_, Libzstd>::open(files.clone(), true) {
            Err(Error::Io { source, .. }) => {
                assert_eq!(source.kind(), std::io::ErrorKind::NotFound, "{source}");
                assert!(before.is_empty());
                Store::<_, Libzstd>::create(files, identity(format)).unwrap();
            }
            Err(error) => panic!("after {operations} operations: {error}"),
            Ok(mut reader) => {
                let found = contents(&mut reader);
                assert!(found == before || found == after, "after {operations} operations");
                let (mut writer, _) = Store::<_, Libzstd>::open_writer(files).unwrap();
                assert_eq!(contents(&mut writer), found);
                writer.compact(&mut |_| {}).unwrap();
                assert_eq!(contents(&mut writer), found);
                assert_eq!(writer.reader().leftovers().unwrap(), []);
                assert_eq!(writer.reader().verify_structure().unwrap(), []);
                assert_eq!(writer.stats().unwrap().reclaimable, 0);
            }
        }
        if !stopped {
            break;
        }
        stops += 1;
    }
    assert!(stops > 100, "the workload has only {stops} operations");
}

#[test]
fn an_extended_store_survives_a_stop_at_every_operation() {
    stops_at_every_operation(Format::Extended);
}

#[test]
fn a_classic_store_survives_a_stop_at_every_operation() {
    stops_at_every_operation(Format::Classic);
}

/// One operation fails, as when the disk is full for a moment.
fn fails_once_at_every_operation(format: Format) {
    for operation in 0.. {
        let files = MemoryDirectory::new();
        let directory = FaultyDirectory::failing_once(files.clone(), operation);
        let Ok(mut store) = Store::<_, Libzstd>::create(directory, identity(format)) else {
            continue;
        };
        limited(&mut store, 300);
        let mut model = Model::new();
        let mut failed = false;
        for number in 0..24 {
            let before = model.clone();
            if let Err(error) = step(&mut store, number, &mut model) {
                failed = true;
                assert!(matches!(error, Error::Io { .. }), "{error}");
                let found = contents(&mut store);
                let poisoned = matches!(store.sync(), Err(Error::Poisoned));
                // Only a failed sync of the directory comes after the swap of
                // a table; the handle then refuses to write.
                assert!(found == before || poisoned, "as before the call");
                match step(&mut store, number, &mut model) {
                    Ok(_) => {}
                    // A sync that failed leaves the handle reading only.
                    Err(Error::Poisoned) => break,
                    Err(error) => panic!("operation {operation}: {error}"),
                }
            }
        }
        let live = contents(&mut store);
        drop(store);
        let (mut reopened, _) = Store::<_, Libzstd>::open_writer(files).unwrap();
        assert_eq!(contents(&mut reopened), live);
        if !failed {
            break;
        }
    }
}

#[test]
fn an_extended_store_is_as_before_after_a_failed_call() {
    fails_once_at_every_operation(Format::Extended);
}

#[test]
fn a_classic_store_is_as_before_after_a_failed_call() {
    fails_once_at_every_operation(Format::Classic);
}

/// Two chunks with holes, one that stays, and a tail that may be emptied:
/// compaction takes more than one round.
fn holey<D: Directory>(store: &mut Store<D, Libzstd>, emptied_tail: bool) -> Result<Model> {
    let mut model: Model = (0..13).map(|number| vec![number; 40]).collect();
    let slices: Vec<&[u8]> = model.iter().map(Vec::as_slice).collect();
    store.append(&slices, PackPolicy::new(Codec::Raw, Format::Extended))?;
    // The last records move into the holes, so the tail empties first.
    for index in if emptied_tail { &[12, 0, 3][..] } else { &[0, 3][..] } {
        store.delete(&[*index])?;
        model.swap_remove(usize::try_from(*index).unwrap());
    }
    Ok(model)
}

/// After a compaction that was cut or failed anywhere, appends that begin new
/// chunks lose nothing and are not refused.
fn appends_after_a_cut_compaction(format: Format, emptied_tail: bool, stays: bool) {
    for operations in 0.. {
        let files = MemoryDirectory::new();
        let mut store = Store::<_, Libzstd>::create(files.clone(), identity(format)).unwrap();
        limited(&mut store, 120);
        let mut model = holey(&mut store, emptied_tail).unwrap();
        store.close().unwrap();

        let directory = match stays {
            true => FaultyDirectory::stopping_after(files.clone(), operations),
            false => FaultyDirectory::failing_once(files.clone(), operations),
        };
        let opened = Store::<_, Libzstd>::open_writer(directory);
        let mut cut = opened.is_err();
        let append = |store: &mut dyn FnMut(&[&[u8]]) -> Result<u64>, model: &mut Model| {
            for number in 100..107 {
                let record = vec![number; 40];
                // The fault may come this late; once only.
                store(&[&record]).or_else(|_| store(&[&record])).unwrap();
                model.push(record);
            }
        };
        let policy = PackPolicy::new(Codec::Raw, format);
        if let Ok((mut store, _)) = opened {
            limited(&mut store, 120);
            cut = store.compact(&mut |_| {}).is_err();
            let poisoned = matches!(store.sync(), Err(Error::Poisoned));
            if !stays && !poisoned {
                append(&mut |records| store.append(records, policy), &mut model);
                assert_eq!(contents(&mut store), model, "operation {operations}");
            }
        }
        let (mut store, _) = Store::<_, Libzstd>::open_writer(files).unwrap();
        limited(&mut store, 120);
        append(&mut |records| store.append(records, policy), &mut model);
        assert_eq!(contents(&mut store), model, "after {operations} operations");
        store.compact(&mut |_| {}).unwrap();
        assert_eq!(contents(&mut store), model);
        assert_eq!(store.reader().verify_structure().unwrap(), []);
        assert_eq!(store.reader().leftovers().unwrap(), []);
        if !cut {
            break;
        }
    }
}

#[test]
fn a_cut_compaction_leaves_no_chunk_in_the_way_of_appends() {
    for format in [Format::Extended, Format::Classic] {
        for (emptied_tail, stays) in [(false, false), (false, true), (true, false), (true, true)] {
            appends_after_a_cut_compaction(format, emptied_tail, stays);
        }
    }
}

#[test]
fn a_failed_append_is_not_staged() {
    for operation in 0..10 {
        let files = MemoryDirectory::new();
        let mut store =
            Store::<_, Libzstd>::create(files.clone(), identity(Format::Extended)).unwrap();
        store.append(&[b"before"], PackPolicy::new(Codec::Raw, Format::Extended)).unwrap();
        store.close().unwrap();
        let directory = FaultyDirectory::failing_once(files, operation);
        // Taking a store over syncs what is found.
        let Ok((mut store, _)) = Store::<_, Libzstd>::open_writer(directory) else {
            assert!(operation < 2, "opening has two operations");
            continue;
        };
        let policy = PackPolicy::new(Codec::Raw, Format::Extended);
        let expected: Model = match store.append(&[b"first"], policy) {
            Ok(_) => vec![b"before".to_vec(), b"first".to_vec(), b"second".to_vec()],
            Err(_) => vec![b"before".to_vec(), b"second".to_vec()],
        };
        store.append(&[b"second"], policy).or_else(|_| store.append(&[b"second"], policy)).unwrap();
        assert_eq!(contents(&mut store), expected, "operation {operation}");
    }
}

#[test]
fn a_failed_sync_is_said_by_every_later_change_and_by_close() {
    for format in [Format::Extended, Format::Classic] {
        let policy = PackPolicy::new(Codec::Raw, format);
        let mut failures = 0;
        for operation in 0..12 {
            let files = MemoryDirectory::new();
            let mut store = Store::<_, Libzstd>::create(files.clone(), identity(format)).unwrap();
            store.append(&[b"before"], policy).unwrap();
            store.close().unwrap();
            let directory = FaultyDirectory::failing_once(files.clone(), operation);
            let Ok((mut store, _)) = Store::<_, Libzstd>::open_writer(directory) else { continue };
            if store.append(&[b"after"], policy).is_err() || store.sync().is_ok() {
                continue;
            }
            failures += 1;
            assert!(matches!(store.append(&[b"x"], policy), Err(Error::Poisoned)));
            assert!(matches!(store.delete(&[0]), Err(Error::Poisoned)));
            assert!(matches!(store.compact(&mut |_| {}), Err(Error::Poisoned)));
            assert!(matches!(store.sync(), Err(Error::Poisoned)));
            // It still reads.
            let expected = [b"before".to_vec(), b"after".to_vec()];
            assert_eq!(contents(&mut store), expected);
            assert!(matches!(store.close(), Err(Error::Poisoned)));
            let (mut store, _) = Store::<_, Libzstd>::open_writer(files).unwrap();
            assert_eq!(contents(&mut store), expected);
        }
        assert!(failures >= 2, "{failures} syncs failed");
    }
}

#[test]
fn a_store_is_not_created_over_chunks_whose_table_is_missing() {
    for format in [Format::Extended, Format::Classic] {
        let files = MemoryDirectory::new();
        let create = || Store::<_, Libzstd>::create(files.clone(), identity(format));
        let mut store = create().unwrap();
        store.append(&[b"precious"], PackPolicy::new(Codec::Raw, format)).unwrap();
        store.close().unwrap();
        files.rename(FileName::Meta, FileName::Lock).unwrap();
        let error = create().err().unwrap();
        assert!(matches!(&error, Error::NotAStore { reason } if reason.contains("0.zr")));
        // Nothing was touched.
        files.rename(FileName::Lock, FileName::Meta).unwrap();
        let mut store = Store::<_, Libzstd>::open(files.clone(), true).unwrap();
        assert_eq!(contents(&mut store), [b"precious"]);
        // Nor are chunks of zeros, ones that begin late, or what needs no table.
        files.remove(FileName::Meta).unwrap();
        let put = |name, size| files.create(name).unwrap().set_size(size).unwrap();
        let others =
            [FileName::Chunk(0), FileName::Chunk(40), FileName::Schema, FileName::Dictionary(0)];
        for name in others {
            put(FileName::Chunk(0), 0);
            put(name, 10_000);
            let error = create().err().unwrap().to_string();
            assert!(error.contains(&name.to_string()), "{error}");
            files.remove(name).unwrap();
        }
        // What a cut creation leaves stands in nobody's way.
        for size in [0, classic::CHUNK_FILE_SIZE] {
            put(FileName::Chunk(0), size);
            put(FileName::MetaNew, 16);
            put(FileName::Lock, 0);
            create().unwrap();
            files.remove(FileName::Meta).unwrap();
        }
    }
}

/// Counts up the operation that fails, from the opening on, until `change`
/// works; returns whether the last failure poisoned the handle.
fn is_poisoned_last(format: Format, change: fn(&mut FaultyStore) -> Result<()>) -> bool {
    let mut poisoned = false;
    for operation in 0.. {
        let files = MemoryDirectory::new();
        let mut store = Store::<_, Libzstd>::create(files.clone(), identity(format)).unwrap();
        let policy = PackPolicy::new(Codec::Raw, format);
        store.append(&[b"deleted", b"stays"], policy).unwrap();
        store.delete(&[0]).unwrap();
        store.close().unwrap();
        let directory = FaultyDirectory::failing_once(files, operation);
        let Ok((mut store, _)) = Store::<_, Libzstd>::open_writer(directory) else { continue };
        limited(&mut store, 1000);
        if change(&mut store).is_ok() {
            break;
        }
        poisoned = matches!(store.append(&[b"x"], policy), Err(Error::Poisoned));
    }
    poisoned
}

/// The last operation of these is a sync of the directory.
#[test]
fn names_that_may_not_be_on_the_disk_poison_the_handle() {
    for format in [Format::Extended, Format::Classic] {
        let compact = |store: &mut FaultyStore| store.compact(&mut |_| {}).map(drop);
        assert!(is_poisoned_last(format, compact), "{format:?}: compacting");
    }
    let dictionary = |store: &mut FaultyStore| store.writer()?.add_dictionary(b"any").map(drop);
    assert!(is_poisoned_last(Format::Classic, dictionary), "adding a dictionary");
}
