//! What is done for a caller who wants a part: prefixes, summaries of ranges,
//! faults up to a limit; and how a store stops writing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use zrecord_core::Error;
use zrecord_core::codec::Codec;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::format::Format;
use zrecord_core::reader::Identity;
use zrecord_core::schema::{decode_metadata, encode_metadata};
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::storage::{Access, Directory, File, FileName};
use zrecord_core::store::Store;
use zrecord_core::summary::Summary;
use zrecord_core::verify::{Fault, FaultList};

type Memory = Store<MemoryDirectory, Libzstd>;

/// Ten raw bytes, nothing, and a thousand equal bytes in a frame.
fn mixed() -> (MemoryDirectory, Memory) {
    let directory = MemoryDirectory::new();
    let mut store = Memory::create(directory.clone(), Identity::Extended([7; 16])).unwrap();
    let policy = PackPolicy::new(Codec::Zstd, Format::Extended);
    store.append(&[b"0123456789", b"", &[b'x'; 1000]], policy).unwrap();
    (directory, store)
}

#[test]
fn a_prefix_is_no_longer_than_the_record() {
    let (_, mut store) = mixed();
    let mut prefix = |index, bytes_max| store.read_prefix(index, bytes_max).unwrap();
    assert_eq!(prefix(0, 4), b"0123");
    assert_eq!(prefix(0, 0), b"");
    assert_eq!(prefix(0, 10), b"0123456789");
    assert_eq!(prefix(0, u64::MAX), b"0123456789");
    assert_eq!(prefix(1, 5), b"");
    assert_eq!(prefix(2, 3), b"xxx");
    assert_eq!(prefix(2, 2000), [b'x'; 1000]);
    let error = store.read_prefix(3, 1).unwrap_err();
    assert!(matches!(error, Error::OutOfRange { index: 3, length: 3 }), "{error}");
}

#[test]
fn only_a_whole_record_is_held_to_its_checksum() {
    let (directory, mut store) = mixed();
    let chunk = directory.open(FileName::Chunk(0), Access::Write).unwrap();
    chunk.write(b"!", 9).unwrap();
    assert_eq!(store.read_prefix(0, 9).unwrap(), b"012345678");
    let error = store.read_prefix(0, 10).unwrap_err();
    assert!(matches!(error, Error::Checksum { index: 0, .. }), "{error}");
    chunk.set_size(5).unwrap();
    let mut store = Memory::open(directory, false).unwrap();
    let error = store.read_prefix(0, 4).unwrap_err();
    assert!(matches!(error, Error::CorruptRecord { index: 0, .. }), "{error}");
}

#[test]
fn a_summary_counts_its_range_and_no_more() {
    let (_, mut store) = mixed();
    let whole = store.reader().summarise(0..u64::MAX).unwrap();
    let stored = store.reader().commit().live_stored;
    assert_eq!((whole.records, whole.stored_bytes, whole.plain_bytes), (3, stored, 1010));
    assert_eq!(whole.codecs, [2, 1, 0]);
    assert_eq!([whole.lens[0], whole.lens[4], whole.lens[10]], [1, 1, 1]);
    assert_eq!((whole.lens.iter().sum::<u64>(), whole.ratios.iter().sum::<u64>()), (3, 3));
    assert_eq!(whole.ratios[0], 2, "what is raw");
    let first = store.reader().summarise(0..1).unwrap();
    assert_eq!((first.records, first.plain_bytes), (1, 10));
    assert_eq!(store.reader().summarise(3..9).unwrap(), Summary::default());
}

#[test]
fn faults_past_the_limit_are_counted() {
    let fault = |index| Fault {
        file: FileName::Chunk(1),
        offset: None,
        index: Some(index),
        reason: "damaged".into(),
    };
    for besides in [0, 1, 5] {
        let mut list = FaultList::new(3);
        (0..3 + besides).for_each(|index| list.push(fault(index)));
        let faults = list.into_faults();
        assert_eq!(faults[..3], [0, 1, 2].map(fault));
        let rest = &faults[3..];
        assert_eq!(rest.len(), usize::from(besides > 0));
        for last in rest {
            assert_eq!(last.index, None);
            assert_eq!(last.reason, format!("and {besides} more faults"));
        }
    }
}

#[test]
fn a_store_that_has_ended_writing_is_read() {
    let (directory, mut store) = mixed();
    store.end_writing().unwrap();
    store.end_writing().unwrap();
    let policy = PackPolicy::new(Codec::Raw, Format::Extended);
    assert!(matches!(store.append(&[b"more"], policy), Err(Error::ReadOnly)));
    assert!(matches!(store.delete(&[0]), Err(Error::ReadOnly)));
    assert_eq!(store.read_prefix(0, 10).unwrap(), b"0123456789");
    let mut opened = Memory::open(directory, false).unwrap();
    assert!(opened.reader().commit().is_clean(), "it is synced");
    opened.end_writing().unwrap();
}

#[test]
fn a_dictionary_must_be_one() {
    let (_, mut store) = mixed();
    let error = store.add_dictionary(b"no dictionary").unwrap_err();
    assert!(matches!(error, Error::Corrupt { file: FileName::Dictionary(0), .. }), "{error}");
    assert_eq!(store.reader().commit().dictionaries, 0);

    let samples: Vec<u8> =
        (0..20_000_u32).flat_map(|n| format!("{} ", n % 700).into_bytes()).collect();
    let sizes = vec![100; samples.len() / 100];
    let (_, mut other) = mixed();
    other.train_dictionary(&samples[..sizes.len() * 100], &sizes, 2_000).unwrap();
    let bytes = other.reader().dictionary(0).unwrap();
    assert_eq!(store.add_dictionary(&bytes).unwrap(), 0);
    assert_eq!(store.add_dictionary(&bytes).unwrap(), 1);
    let policy = PackPolicy::new(Codec::ZstdDict, Format::Extended);
    let index = store.append(&[&samples[..2_000]], policy).unwrap();
    assert_eq!(store.read_prefix(index, u64::MAX).unwrap(), samples[..2_000]);
    let location = store.reader().locations(&[index]).unwrap()[0];
    assert_eq!((location.codec, location.dictionary), (Codec::ZstdDict, 1));
}

#[test]
fn metadata_go_there_and_back_and_must_be_a_map() {
    let map = vec![("a".into(), 1.into()), (2.into(), true.into())];
    assert_eq!(decode_metadata(&encode_metadata(&map)).unwrap(), map);
    assert_eq!(encode_metadata(&Vec::new()), []);
    assert_eq!(decode_metadata(&[]).unwrap(), []);
    let deep = [0x81, 0xa1, b'a'].repeat(200);
    for (bytes, word) in [
        (&[0xa1, b'a'][..], "text, not a map"),
        (&[0x80, 0x80], "1 bytes follow"),
        (&[0x81], "not MessagePack"),
        (&deep, "not MessagePack"),
        (&[0; (1 << 20) + 1], "limit"),
    ] {
        let error = decode_metadata(bytes).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { argument: "metadata", .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}
