//! Which numbers chunks get: compaction keeps them low, so that a store never
//! runs out of them while low ones are free.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests may fail")]

mod support;

use support::faulty::FaultyDirectory;
use zrecord_core::codec::Codec;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::error::Error;
use zrecord_core::format::Format;
use zrecord_core::reader::Identity;
use zrecord_core::storage::Directory;
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::store::Store;

/// Three records of 40 bytes fill a chunk.
const CHUNK_SIZE: u64 = 120;
/// How many chunks a store may have here.
const CHUNKS: u32 = 8;

type Model = Vec<Vec<u8>>;

fn limited<D: Directory>(store: &mut Store<D, Libzstd>) {
    store.writer().unwrap().set_chunk_size_max(CHUNK_SIZE);
    store.writer().unwrap().set_chunks_max(CHUNKS);
}

fn create(files: &MemoryDirectory, format: Format) -> Store<MemoryDirectory, Libzstd> {
    let identity = match format {
        Format::Classic => Identity::Classic,
        Format::Extended => Identity::Extended([7; 16]),
    };
    let mut store = Store::create(files.clone(), identity).unwrap();
    limited(&mut store);
    store
}

fn append<D: Directory>(
    store: &mut Store<D, Libzstd>,
    model: &mut Model,
    number: usize,
) -> Result<(), Error> {
    let record = vec![number as u8; 40];
    store.append(&[&record], PackPolicy::new(Codec::Raw, Format::Extended))?;
    model.push(record);
    Ok(())
}

fn delete<D: Directory>(store: &mut Store<D, Libzstd>, model: &mut Model, index: usize) {
    store.delete(&[index as u64]).unwrap();
    model.swap_remove(index);
}

/// The records are the model's, and no chunk in use lies past the tail.
fn check<D: Directory>(store: &mut Store<D, Libzstd>, model: &Model) {
    let indices: Vec<u64> = (0..store.len()).collect();
    let batch = store.gather(&indices, u64::MAX).unwrap();
    assert_eq!(batch.iter().map(<[u8]>::to_vec).collect::<Model>(), *model);
    assert_eq!(store.reader().verify_structure().unwrap(), []);
    let tail = store.reader().commit().tail.chunk;
    let usage = store.reader().chunk_usage().unwrap();
    assert!(usage.keys().all(|&chunk| chunk <= tail), "{usage:?} and the tail is {tail}");
    assert!(tail < CHUNKS);
}

/// A record in twelve is in the way, in turn, of a store of four chunks.
#[test]
fn numbers_do_not_creep_up_through_repeated_compaction() {
    for format in [Format::Classic, Format::Extended] {
        let mut store = create(&MemoryDirectory::new(), format);
        let mut model = Model::new();
        for number in 0..12 {
            append(&mut store, &mut model, number).unwrap();
        }
        for round in 0..100 {
            delete(&mut store, &mut model, round * 5 % 12);
            store.compact(&mut |_| {}).unwrap();
            check(&mut store, &model);
            append(&mut store, &mut model, round).unwrap_or_else(|error| {
                panic!("{} store, round {round}: {error}", format.name());
            });
            check(&mut store, &model);
        }
    }
}

/// A store that has used every number, of which the low ones are free again.
fn high(files: &MemoryDirectory, format: Format) -> Model {
    let mut store = create(files, format);
    let mut model = Model::new();
    let mut number = 0;
    while append(&mut store, &mut model, number).is_ok() {
        number += 1;
    }
    assert_eq!(model.len(), 3 * CHUNKS as usize);
    // The last records move into the holes: what stays lies in the chunks
    // with the highest numbers, which have no holes.
    for index in 0..9 {
        delete(&mut store, &mut model, index);
    }
    for index in (9..15).rev() {
        delete(&mut store, &mut model, index);
    }
    assert!(matches!(append(&mut store, &mut model, 0), Err(Error::Full { .. })));
    check(&mut store, &model);
    store.close().unwrap();
    model
}

#[test]
fn a_store_with_high_numbers_moves_down_and_takes_appends_again() {
    for format in [Format::Classic, Format::Extended] {
        let files = MemoryDirectory::new();
        let mut model = high(&files, format);
        let (mut store, _) = Store::<_, Libzstd>::open_writer(files).unwrap();
        limited(&mut store);
        let usage = store.reader().chunk_usage().unwrap();
        assert!(usage.keys().all(|&chunk| chunk >= 5), "{usage:?}");
        store.compact(&mut |_| {}).unwrap();
        check(&mut store, &model);
        assert_eq!(store.reader().leftovers().unwrap(), []);
        assert_eq!(store.stats().unwrap().reclaimable, 0);
        let tail = store.reader().commit().tail.chunk;
        assert!(tail < 5, "its numbers are still high: {tail}");
        for number in 0..3 * (CHUNKS as usize - 5) {
            append(&mut store, &mut model, number).unwrap();
        }
        check(&mut store, &model);
    }
}

#[test]
fn moving_down_may_be_cut_anywhere() {
    for format in [Format::Classic, Format::Extended] {
        for operations in 0.. {
            let files = MemoryDirectory::new();
            let mut model = high(&files, format);
            let directory = FaultyDirectory::stopping_after(files.clone(), operations);
            let cut = match Store::<_, Libzstd>::open_writer(directory) {
                Ok((mut store, _)) => {
                    limited(&mut store);
                    store.compact(&mut |_| {}).is_err()
                }
                Err(_) => true,
            };
            let (mut store, _) = Store::<_, Libzstd>::open_writer(files).unwrap();
            limited(&mut store);
            check(&mut store, &model);
            store.compact(&mut |_| {}).unwrap();
            append(&mut store, &mut model, 1).unwrap();
            check(&mut store, &model);
            assert_eq!(store.reader().leftovers().unwrap(), []);
            if !cut {
                assert!(operations > 20, "only {operations} operations");
                break;
            }
        }
    }
}
