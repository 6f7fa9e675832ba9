//! Sizes at their limits, and arguments that are refused before anything
//! happens.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use zrecord_host::core::Error;
use zrecord_host::{Codec, Format, Mode, OpenOptions, Store};

mod support;
use support::{FORMATS, all, append, core_error, fresh, gather, sequential, writable};

const MIB: usize = 1 << 20;

#[test]
fn records_of_about_a_mebibyte() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let store = writable(format).level(1).open(&path).unwrap();
        let mut random = support::Random::new(3);
        let records: Vec<Vec<u8>> = [MIB - 1, MIB].map(|len| random.record(len)).to_vec();
        append(&store, &records);
        let larger = random.record(MIB + 1);
        let result = store.append(&larger, &[0], None);
        match format {
            Format::Classic => {
                let error = core_error(result);
                assert!(
                    matches!(error, Error::TooLarge { index: 0, len: 1_048_577, .. }),
                    "{error}"
                );
                assert_eq!(store.len().unwrap(), 2);
            }
            Format::Extended => assert_eq!(result.unwrap(), 2),
        }
        assert_eq!(all(&store)[..2], records);
    }
}

#[test]
fn empty_records_are_records_where_the_format_has_them() {
    let (_guard, path) = fresh();
    let store = writable(Format::Extended).open(&path).unwrap();
    let records = vec![vec![], vec![1], vec![], vec![], vec![2, 3]];
    append(&store, &records);
    assert_eq!(all(&store), records);
    assert_eq!(gather(&store, &[0, 2, 0]).unwrap(), vec![Vec::<u8>::new(); 3]);
    store.delete(&[0]).unwrap();
    store.compact(&mut |_| {}).unwrap();
    assert_eq!(store.lengths(&[0, 1, 2, 3]).unwrap(), [2, 1, 0, 0]);

    let (_guard, path) = fresh();
    let store = writable(Format::Classic).open(&path).unwrap();
    let error = core_error(store.append(b"ab", &[0, 1, 1], None));
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert_eq!(store.len().unwrap(), 0);
}

#[test]
fn a_store_of_only_empty_records_opens_again() {
    let (_guard, path) = fresh();
    let store = writable(Format::Extended).open(&path).unwrap();
    store.append(&[], &[0, 0, 0], Some(Codec::Raw)).unwrap();
    store.close().unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(all(&store), vec![Vec::<u8>::new(); 3]);
    assert_eq!(store.verify(&mut |_| {}).unwrap(), []);
}

#[test]
fn an_empty_store_is_a_store() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let store = writable(format).open(&path).unwrap();
        assert_eq!(store.append(&[], &[], None).unwrap(), 0);
        store.delete(&[]).unwrap();
        store.compact(&mut |_| {}).unwrap();
        store.gather(&[], &mut [], &[]).unwrap();
        store.close().unwrap();
        let store = Store::open(&path).unwrap();
        assert!(store.is_empty().unwrap());
        assert!(matches!(
            core_error(store.lengths(&[0])),
            Error::OutOfRange { index: 0, length: 0 }
        ));
        assert_eq!(store.inspect().unwrap().lengths, None);
        assert_eq!(store.verify(&mut |_| {}).unwrap(), []);
    }
}

#[test]
fn chunks_are_filled_in_turn() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let options = writable(format).chunk_size_max(1_000);
        let store = options.open(&path).unwrap();
        let mut random = support::Random::new(9);
        let records: Vec<Vec<u8>> = (0..60).map(|_| random.record(300)).collect();
        let (src, offsets) = support::pack(&records);
        store.append(&src, &offsets, Some(Codec::Raw)).unwrap();
        // One that is larger than a chunk has one for itself.
        store.append(&vec![5; 2_500], &[0], Some(Codec::Raw)).unwrap();
        assert_eq!(store.stats().unwrap().chunks, 21);
        assert_eq!(all(&store)[..60], records);
        store.delete(&(0..50).collect::<Vec<u64>>()).unwrap();
        store.compact(&mut |_| {}).unwrap();
        let kept = all(&store);
        assert_eq!(store.stats().unwrap().reclaimable, 0);
        store.close().unwrap();
        assert_eq!(sequential(&path), kept);
        assert_eq!(all(&Store::open(&path).unwrap()), kept);
    }
}

#[test]
fn offsets_that_cannot_be_are_refused_by_position() {
    let (_guard, path) = fresh();
    let store = writable(Format::Extended).open(&path).unwrap();
    for (offsets, expected) in [(&[0, 5, 4][..], "offset 2 is 4"), (&[0, 11][..], "offset 1 is 11")]
    {
        let error = core_error(store.append(&[1; 10], offsets, None));
        assert!(matches!(error, Error::InvalidArgument { argument: "offsets", .. }));
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(store.len().unwrap(), 0);
    // What lies before the first offset is no record.
    store.append(b"skipped!one", &[8], None).unwrap();
    assert_eq!(all(&store), [b"one"]);
}

#[test]
fn a_dictionary_codec_needs_a_dictionary() {
    let (_guard, path) = fresh();
    let store = writable(Format::Extended).codec(Codec::ZstdDict).open(&path).unwrap();
    assert!(!store.has_dictionary());
    let error = core_error(store.append(&[1; 10], &[0], None));
    assert!(matches!(error, Error::InvalidArgument { argument: "codec", .. }), "{error}");
    let error = core_error(store.train_dictionary(&[1; 10], &[10], 1_000));
    assert!(matches!(error, Error::Training { .. }), "{error}");
}

#[test]
fn gathers_that_cannot_be_leave_the_destination_alone() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let store = writable(format).open(&path).unwrap();
        append(&store, &[vec![1; 10], vec![2; 20], vec![3; 30]]);
        let mut dst = [9; 60];
        let mut refused = |indices: &[u64], offsets: &[u64]| {
            let error = core_error(store.gather(indices, &mut dst, offsets));
            assert_eq!(dst, [9; 60]);
            error
        };
        let error = refused(&[0, 3], &[0, 10]);
        assert!(matches!(error, Error::OutOfRange { index: 3, length: 3 }), "{error}");
        let error = refused(&[0, 2], &[0, 31]);
        let expected = "record 1 of the batch needs bytes 31..61";
        assert!(error.to_string().contains(expected), "{error}");
        assert!(matches!(refused(&[0, 0], &[0, 9]), Error::InvalidArgument { .. }));
        assert!(matches!(refused(&[1, 0], &[5, 0]), Error::InvalidArgument { .. }));
        assert!(matches!(refused(&[1], &[0, 1]), Error::InvalidArgument { .. }));
        assert!(matches!(refused(&[0], &[u64::MAX]), Error::BufferTooSmall { .. }));
        // Any order is fine, as long as nothing overlaps.
        store.gather(&[2, 0, 1], &mut dst, &[30, 20, 0]).unwrap();
        assert_eq!(dst[..20], [2; 20]);
        assert_eq!(dst[20..30], [1; 10]);
        assert_eq!(dst[30..], [3; 30]);
        let error = core_error(store.gather_packed(&[0, 1], &mut dst, 10));
        assert!(matches!(error, Error::SchemaMismatch { .. }), "{error}");
    }
}

#[test]
fn large_batches_are_split_between_threads() {
    for threads in [1, 2, 5] {
        let (_guard, path) = fresh();
        let options = writable(Format::Extended).threads(threads).level(1);
        let store = options.open(&path).unwrap();
        let mut random = support::Random::new(threads as u64);
        let records: Vec<Vec<u8>> = (0..120)
            .map(|_| {
                let len = random.below(60_000);
                random.record(usize::try_from(len).unwrap())
            })
            .collect();
        append(&store, &records);
        let indices: Vec<u64> = (0..400).map(|_| random.below(120)).collect();
        for (record, index) in gather(&store, &indices).unwrap().iter().zip(&indices) {
            assert_eq!(*record, records[usize::try_from(*index).unwrap()]);
        }
        assert_eq!(store.verify(&mut |_| {}).unwrap(), []);
    }
}

#[test]
fn raw_records_of_one_length_are_found_without_the_table() {
    let (_guard, path) = fresh();
    let options = OpenOptions::new().codec(Codec::Raw);
    let store = writable(Format::Extended).codec(Codec::Raw).open(&path).unwrap();
    let records: Vec<Vec<u8>> = (0..100_u8).map(|byte| vec![byte; 33]).collect();
    append(&store, &records);
    assert_eq!(store.inspect().unwrap().stride, 33);
    for _ in 0..2 {
        assert_eq!(all(&store), records);
    }
    let mut packed = vec![0; 66];
    store.gather_packed(&[99, 1], &mut packed, 33).unwrap();
    assert_eq!(packed, [&[99; 33][..], &[1; 33]].concat());
    store.delete(&[0]).unwrap();
    assert_eq!(store.inspect().unwrap().stride, 0);
    store.compact(&mut |_| {}).unwrap();
    assert_eq!(store.inspect().unwrap().stride, 33);
    let kept = all(&store);
    assert_eq!(kept[0], [99; 33]);
    store.close().unwrap();
    assert_eq!(all(&options.open(&path).unwrap()), kept);
}

/// Takes some 7 GB of memory and as much disk, so only `--all` runs it.
#[test]
fn a_record_of_more_than_two_gib_comes_back() {
    if std::env::var_os("ZRECORD_SLOW").is_none() {
        eprintln!("not run: needs ZRECORD_SLOW=1");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let len = (1_usize << 31) + 12_345;
    let mut record: Vec<u8> = (0..=250_u8).cycle().take(len).collect();
    record[len - 1] = 255;
    for codec in [Codec::Raw, Codec::Zstd] {
        let store = OpenOptions::new().mode(Mode::Append).open(&path).unwrap();
        let index = store.append(&record, &[0], Some(codec)).unwrap();
        store.close().unwrap();
        let store = OpenOptions::new().open(&path).unwrap();
        assert_eq!(store.lengths(&[index]).unwrap(), [u32::try_from(len).unwrap()]);
        let mut found = vec![0; len];
        store.gather(&[index], &mut found, &[0]).unwrap();
        assert!(found == record, "{codec}");
    }
    assert_eq!(Store::open(&path).unwrap().verify(&mut |_| {}).unwrap(), []);
}
