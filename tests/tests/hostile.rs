//! One test for each way in which a store can be hostile. Every forged store
//! is also read by all readers, which must agree within the stated memory, and
//! handed to a writer, which must keep every record that could be read. With
//! the feature `sandbox` each also goes through the component.
#![expect(clippy::unwrap_used, reason = "a panic fails the test that called the helper")]

use std::sync::{Mutex, PoisonError};

use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::{Codec, frame};
use zrecord_core::format::{Commit, Tail, extended};
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::storage::{Access, FileName};
use zrecord_core::store::Store;
use zrecord_core::{Error, reader::Reader};
use zrecord_tests::fuzz::image::Image;
use zrecord_tests::fuzz::memory::{self, PeakAlloc};
use zrecord_tests::fuzz::steps::Step;
use zrecord_tests::fuzz::{bases, open, writer};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Memory is measured by one test at a time.
static MEASURING: Mutex<()> = Mutex::new(());

/// Nine raw records of 12 bytes with a stride, typed.
const STRIDED: usize = 0;
/// Eighteen records of every codec, with a dictionary, typed.
const MIXED: usize = 1;
/// Several chunks, with dead bytes.
const HOLES: usize = 2;
/// Three records synced, five not.
const UNCLEAN: usize = 3;
const CLASSIC: usize = 6;

/// A good store, changed, put through every reader and the writer.
fn forged(base: usize, change: impl FnOnce(&mut Image)) -> Image {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut image = bases::all()[base].clone();
    change(&mut image);
    memory::bounded(open::memory_max(&image), || open::check(&image));
    let append = |codec| Step::Append { codec, lens: vec![30, 0, 200], seed: 3 };
    let reopen = |cleanly| Step::Reopen { cleanly };
    let steps = [
        append(Codec::Raw),
        reopen(false),
        Step::Delete(vec![0, 3]),
        append(Codec::ZstdDict),
        Step::Compact,
        append(Codec::Zstd),
        Step::Sync,
        reopen(true),
    ];
    for chunk_size_max in [150, u64::MAX] {
        writer::check(&image, chunk_size_max, &steps);
    }
    #[cfg(feature = "sandbox")]
    zrecord_tests::component::hostile::check(&image);
    image
}

/// Runs `work` while no store is forged, within so much memory.
fn bounded<T>(limit: usize, work: impl FnOnce() -> T) -> T {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    memory::bounded(limit, work)
}

fn opened(image: &Image) -> Result<Store<MemoryDirectory, Libzstd>, Error> {
    Store::open(image.in_memory(), true)
}

/// The error of opening.
fn refusal(image: &Image) -> String {
    opened(image).err().expect("it was opened").to_string()
}

/// The error of reading one record.
fn reading(image: &Image, index: u64) -> String {
    opened(image).unwrap().gather(&[index], 1 << 30).expect_err("it was read").to_string()
}

/// What verifying finds, as text.
fn faults(image: &Image) -> String {
    let mut store = opened(image).unwrap();
    let mut faults = store.reader().verify_structure().unwrap();
    faults.extend(store.verify_records(0..u64::MAX).unwrap());
    faults.iter().map(|fault| format!("{fault}\n")).collect()
}

/// What a writer says that does not take the store over.
fn writing(image: &Image) -> String {
    let error = Store::<_, Libzstd>::open_writer(image.in_memory()).map(drop);
    error.expect_err("a writer opened it").to_string()
}

fn assert_says(text: &str, part: &str) {
    assert!(text.contains(part), "{text:?} does not say {part:?}");
}

/// A store whose record 7 is this frame, said to have `len` bytes.
fn with_frame(frame: &[u8], len: u32, codec: Codec) -> Image {
    forged(MIXED, |image| {
        let offset = u32::try_from(image.files[&FileName::Chunk(0)].size).unwrap();
        image.put(FileName::Chunk(0), u64::from(offset), frame);
        let stored_len = u32::try_from(frame.len()).unwrap();
        let end = offset + stored_len;
        image.forge_commit(|commit| commit.tail.offset = end);
        image.forge_entry(7, |location| {
            (location.offset, location.stored_len) = (offset, stored_len);
            (location.len, location.codec, location.dictionary) = (len, codec, 0);
        });
        image.fix(u8::MAX);
    })
}

/// A frame with this header, and blocks that each repeat a byte.
fn frame_of(descriptor: u8, header: &[u8], blocks: &[u32]) -> Vec<u8> {
    let mut bytes = frame::MAGIC.to_le_bytes().to_vec();
    bytes.push(descriptor);
    bytes.extend_from_slice(header);
    for (number, size) in blocks.iter().enumerate() {
        let last = u32::from(number + 1 == blocks.len());
        bytes.extend_from_slice(&(last | 1 << 1 | size << 3).to_le_bytes()[..3]);
        bytes.push(b'z');
    }
    bytes
}

/// A single segment that declares its size in four bytes.
fn declaring(size: u32, blocks: &[u32]) -> Vec<u8> {
    frame_of(0b1010_0000, &size.to_le_bytes(), blocks)
}

#[test]
fn a_small_frame_that_declares_gigabytes_costs_nothing() {
    let image = with_frame(&declaring(u32::MAX, &[1000]), u32::MAX, Codec::Zstd);
    bounded(4 << 20, || assert_says(&faults(&image), "its blocks hold at most 1000"));
    let mut store = opened(&image).unwrap();
    let error = bounded(1 << 20, || store.read_prefix(7, 16)).unwrap_err();
    assert_says(&error.to_string(), "its blocks hold at most 1000");
}

#[test]
fn a_bomb_grows_to_what_it_declares_and_no_further() {
    let len = 256 << 17;
    let image = with_frame(&declaring(len, &[1 << 17; 256]), len, Codec::Zstd);
    let mut store = opened(&image).unwrap();
    assert_eq!(store.lengths(&[7]).unwrap(), [len]);
    let error = bounded(1 << 20, || store.gather(&[7], 1 << 20).unwrap_err());
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert!(store.gather(&[7], 1 << 30).unwrap().bytes.iter().all(|byte| *byte == b'z'));
}

#[test]
fn a_frame_that_decodes_to_another_length_is_refused() {
    for (blocks, len) in [(&[100, 99][..], 200), (&[100, 101], 200), (&[200], 199)] {
        let image = with_frame(&declaring(200, blocks), len, Codec::Zstd);
        assert_says(&reading(&image, 7), "record 7 is corrupt");
    }
}

#[test]
fn a_frame_that_does_not_declare_its_length_is_refused() {
    let image = with_frame(&frame_of(0, &[0], &[200]), 200, Codec::Zstd);
    assert_says(&reading(&image, 7), "does not declare its size");
}

#[test]
fn a_window_beyond_any_memory_costs_nothing() {
    // An exponent of 21 above 2^10; then one past what is allowed.
    let sized = |window: u8| [&[window][..], &200_u32.to_le_bytes()].concat();
    let image = with_frame(&frame_of(0b1000_0000, &sized(21 << 3), &[200]), 200, Codec::Zstd);
    let mut store = opened(&image).unwrap();
    bounded(1 << 20, || store.gather(&[7], 1 << 20).map(drop)).unwrap();
    let image = with_frame(&frame_of(0b1000_0000, &sized(22 << 3), &[200]), 200, Codec::Zstd);
    assert_says(&reading(&image, 7), "needs a window of 2^32");
}

#[test]
fn a_frame_for_another_dictionary_is_refused() {
    let header = [&77_u32.to_le_bytes()[..], &[200]].concat();
    let image = with_frame(&frame_of(0b0010_0011, &header, &[200]), 200, Codec::ZstdDict);
    assert_says(&reading(&image, 7), "needs dictionary id 77");
    let image = with_frame(&frame_of(0b0010_0011, &header, &[200]), 200, Codec::Zstd);
    assert_says(&reading(&image, 7), "needs a dictionary (id 77), but none");
    let image = with_frame(&declaring(200, &[200]), 200, Codec::ZstdDict);
    assert_says(&reading(&image, 7), "names no dictionary");
}

#[test]
fn anything_but_one_frame_is_refused() {
    let good = declaring(200, &[200]);
    let skippable = [&frame::SKIPPABLE_MAGIC.to_le_bytes()[..], &[1, 0, 0, 0, 9]].concat();
    let cases = [
        ([&skippable[..], &good].concat(), "a skippable zstd frame"),
        ([&good[..], &good].concat(), "bytes follow the zstd frame"),
        ([&good[..], &skippable].concat(), "bytes follow the zstd frame"),
        ([&good[..], &[0]].concat(), "1 bytes follow the zstd frame"),
        (good[..good.len() - 1].to_vec(), "ends too early"),
        (b"\x28\xB5\x2F\xFD".to_vec(), "ends too early"),
    ];
    for (frame, reason) in cases {
        assert_says(&reading(&with_frame(&frame, 200, Codec::Zstd), 7), reason);
    }
}

#[test]
fn impossible_counts_in_the_header_are_no_commit() {
    let forgeries: [fn(&mut Commit); 6] = [
        |commit| commit.length = u64::MAX,
        |commit| commit.length = extended::LENGTH_MAX + 1,
        |commit| commit.sequence = u64::MAX,
        |commit| commit.durable_length = commit.length + 1,
        |commit| commit.dictionaries = 257,
        |commit| commit.dictionaries = u32::MAX,
    ];
    for forge in forgeries {
        let image = forged(MIXED, |image| image.forge_commit(forge));
        assert_says(&refusal(&image), "neither of its commit slots is valid");
    }
}

#[test]
fn a_count_past_the_end_of_the_table_is_refused() {
    for length in [19, 1 << 32, extended::LENGTH_MAX] {
        let image = forged(MIXED, |image| {
            image.forge_commit(|commit| (commit.length, commit.durable_length) = (length, length));
        });
        assert_says(&refusal(&image), "it was cut short");
        // What was not synced is for recovery to judge.
        let image = forged(MIXED, |image| image.forge_commit(|commit| commit.length = length));
        assert_eq!(opened(&image).unwrap().len(), 18);
    }
}

#[test]
fn a_writer_takes_over_no_commit_number_that_would_run_out() {
    let image = forged(MIXED, |image| {
        image.forge_commit(|commit| commit.sequence = u64::MAX >> 1);
    });
    assert_eq!(opened(&image).unwrap().len(), 18);
    assert_says(&writing(&image), "which no writer reaches");
}

#[test]
fn a_generation_may_run_over() {
    let image = forged(MIXED, |image| image.forge_commit(|commit| commit.generation = u64::MAX));
    let (mut store, _) = Store::<_, Libzstd>::open_writer(image.in_memory()).unwrap();
    store.delete(&[0]).unwrap();
    assert_eq!(store.reader().commit().generation, 0);
}

#[test]
fn two_slots_that_claim_one_number_are_found() {
    let image = forged(MIXED, |image| {
        image.forge_slot(1, |commit| (commit.length, commit.durable_length) = (5, 5));
    });
    let access = Access::Read;
    let opened = Reader::open(image.in_memory(), access).unwrap().commit().length;
    let mut recovered = Reader::open(image.in_memory(), access).unwrap();
    recovered.recover().unwrap();
    assert_eq!(opened, recovered.commit().length);
    assert_says(&faults(&image), "two different commit slots claim sequence");
}

#[test]
fn a_tail_before_a_record_overwrites_nothing() {
    for (base, tail) in [(MIXED, 0), (MIXED, 100), (HOLES, 0)] {
        let image = forged(base, |image| {
            image.forge_commit(|commit| commit.tail.offset = tail);
        });
        assert_says(&writing(&image), "ends past the tail of the store");
        assert_says(&faults(&image), "ends past the tail of the store");
    }
    let image = forged(CLASSIC, |image| image.put(FileName::Meta, 8, &50_u32.to_le_bytes()));
    assert_says(&faults(&image), "ends past the tail of the store");
    // A loss of power leaves such a classic store: `forged` saw that a writer
    // keeps every record, since it goes on behind the last of them.
    Store::<_, Libzstd>::open_writer(image.in_memory()).unwrap();
}

#[test]
fn a_tail_in_no_chunk_overwrites_nothing() {
    for tail in [
        Tail { chunk: u32::MAX, offset: 0 },
        Tail { chunk: u32::MAX, offset: u32::MAX },
        Tail { chunk: 0, offset: u32::MAX },
        Tail { chunk: 9, offset: 7 },
    ] {
        forged(HOLES, |image| image.forge_commit(|commit| commit.tail = tail));
    }
}

#[test]
fn dictionaries_that_are_not_there_are_named() {
    let image = forged(MIXED, |image| image.forge_commit(|commit| commit.dictionaries = 256));
    assert_says(&faults(&image), "dict.255.zr: it is missing");
    let image = forged(MIXED, |image| image.forge_commit(|commit| commit.dictionaries = 0));
    assert_says(&reading(&image, 14), "the store does not count it");
}

#[test]
fn a_dictionary_of_any_content_is_refused() {
    let noise: Vec<u8> = (0..3000_u32).map(|at| ((at * at) >> 3).to_le_bytes()[0]).collect();
    let id = &bases::all()[MIXED].files[&FileName::Dictionary(0)].bytes[..8];
    for content in [&b""[..], b"short", &noise, &[id, &noise].concat(), id] {
        let image = forged(MIXED, |image| {
            image.resize(FileName::Dictionary(0), 0);
            image.put(FileName::Dictionary(0), 0, content);
            image.fix(1);
        });
        assert_says(&reading(&image, 14), "dict.zr is corrupt");
    }
}

#[test]
fn a_stride_that_lies_gives_no_other_record() {
    for stride in [1, 4, 13, 24, 1 << 31, u32::MAX] {
        let image = forged(STRIDED, |image| image.forge_commit(|commit| commit.stride = stride));
        assert_says(&faults(&image), "does not lie where the header's stride says");
    }
    forged(MIXED, |image| image.forge_commit(|commit| commit.stride = 40));
    // All but one keep the promise; then all, from another chunk on.
    forged(STRIDED, |image| image.forge_entry(4, |location| location.offset = 12));
    forged(STRIDED, |image| {
        (0..9).for_each(|index| image.forge_entry(index, |location| location.chunk = u32::MAX));
    });
}

#[test]
fn entries_that_point_nowhere_are_errors() {
    let image = forged(MIXED, |image| image.forge_entry(0, |entry| entry.chunk = u32::MAX));
    assert_says(&reading(&image, 0), "the chunk file is missing");
    let image = forged(MIXED, |image| image.forge_entry(0, |entry| entry.offset = u32::MAX));
    assert_says(&reading(&image, 0), "past the end of any chunk");
    let image = forged(MIXED, |image| image.forge_entry(0, |entry| entry.offset = u32::MAX - 40));
    assert_says(&reading(&image, 0), "40 stored bytes were expected, 0 are there");
    let image = forged(CLASSIC, |image| image.put(FileName::Meta, 16 + 12, &[255, 255]));
    assert_says(&reading(&image, 0), "chunk 65535 is past the limit of 4096");
}

#[test]
fn the_last_bytes_of_the_largest_chunk_are_read() {
    let image = forged(MIXED, |image| {
        image.resize(FileName::Chunk(0), u64::from(u32::MAX));
        image.forge_commit(|commit| commit.tail.offset = u32::MAX);
        image.forge_entry(0, |location| location.offset = u32::MAX - 40);
    });
    assert_eq!(opened(&image).unwrap().gather(&[0], 100).unwrap().bytes, [0; 40]);
}

#[test]
fn sums_that_are_wrong_are_found_and_do_no_harm() {
    for sum in [0, 1, u64::MAX] {
        let image = forged(MIXED, |image| {
            image.forge_commit(|commit| (commit.live_stored, commit.live_len) = (sum, sum));
        });
        assert_says(&faults(&image), &format!("sums up {sum} stored"));
    }
}

#[test]
fn a_classic_tail_past_the_last_chunk_is_refused() {
    let image = forged(CLASSIC, |image| image.put(FileName::Meta, 6, &[255, 255]));
    assert_says(&refusal(&image), "its tail chunk is 65535");
    let image = forged(CLASSIC, |image| image.put(FileName::Meta, 12, &[255; 4]));
    assert_says(&refusal(&image), "it counts 4294967295 records");
}

#[test]
fn empty_files_are_errors() {
    for base in [MIXED, CLASSIC] {
        let image = forged(base, |image| image.resize(FileName::Meta, 0));
        assert_says(&refusal(&image), "fewer than any header");
        let image = forged(base, |image| image.resize(FileName::Chunk(0), 0));
        assert_says(&reading(&image, 0), "0 are there");
        let image = forged(base, |image| image.resize(FileName::Schema, 0));
        assert_says(&faults(&image), "schema.msgpack");
        let image = forged(base, |image| image.resize(FileName::Dictionary(0), 0));
        assert_says(&reading(&image, 14), "dict.zr is corrupt");
    }
}

#[test]
fn records_over_the_same_bytes_are_read_and_none_is_lost() {
    for base in [STRIDED, HOLES, CLASSIC] {
        let image = forged(base, |image| {
            let same = image.location(0).unwrap();
            image.forge_entry(1, |location| *location = same);
        });
        assert_says(&faults(&image), "it overlaps record 0");
    }
    // Partly the same bytes, and as many dead ones elsewhere.
    forged(HOLES, |image| image.forge_entry(1, |location| location.offset = 1));
}

#[test]
fn unsynced_records_over_the_same_bytes_are_not_recovered() {
    // The first five unsynced ones were committed three and two at a time.
    for (index, kept) in [(6, 6), (4, 3)] {
        let image = forged(UNCLEAN, |image| {
            let same = image.location(index - 1).unwrap();
            image.forge_entry(index, |location| *location = same);
            image.fix(4);
        });
        assert_eq!(opened(&image).unwrap().len(), kept);
    }
}

/// A schema of the given bytes below a hash that holds.
fn with_schema(bytes: &[u8]) -> String {
    let image = forged(MIXED, |image| {
        image.resize(FileName::Schema, 0);
        image.put(FileName::Schema, 0, bytes);
        image.fix(2);
    });
    opened(&image).unwrap().schema().expect_err("it was read").to_string()
}

#[test]
fn a_schema_that_is_nested_deeply_is_refused() {
    assert_says(&with_schema(&[0x91].repeat(100_000)), "schema.msgpack is corrupt");
    assert_says(&with_schema(&[0x81].repeat(100_000)), "schema.msgpack is corrupt");
    assert_says(&with_schema(&[0x91].repeat(1 << 20)), "schema.msgpack is corrupt");
    assert_says(&with_schema(&vec![0x91; (1 << 20) + 1]), "the limit is 1048576");
    // A list and a map that claim 2^32 - 1 members.
    for head in [0xDD, 0xDF, 0xDB, 0xC6] {
        assert_says(&with_schema(&[head, 255, 255, 255, 255, 1]), "schema.msgpack is corrupt");
    }
}

/// A schema with these values.
fn schema_of(dtype: rmpv::Value, item_shape: Vec<u64>) -> Vec<u8> {
    let shape: rmpv::Value = item_shape.into_iter().map(rmpv::Value::from).collect();
    let map = vec![
        ("format".into(), "zrecord".into()),
        ("version".into(), 2.into()),
        ("kind".into(), "dense".into()),
        ("dtype".into(), dtype),
        ("item_shape".into(), shape),
        ("codec".into(), "raw".into()),
        ("metadata".into(), rmpv::Value::Map(Vec::new())),
    ];
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, &rmpv::Value::Map(map)).unwrap();
    bytes
}

#[test]
fn impossible_dtypes_and_shapes_are_refused() {
    let dtype = |text: &str| schema_of(text.into(), vec![2]);
    assert_says(&with_schema(&schema_of("<f8".into(), vec![1 << 32; 3])), "is too large");
    assert_says(&with_schema(&schema_of("<f8".into(), vec![u64::MAX])), "is too large");
    assert_says(&with_schema(&schema_of("<f8".into(), vec![1; 65])), "dimensions");
    assert_says(&with_schema(&dtype("|V2147483648")), "dtype");
    assert_says(&with_schema(&dtype("<f99999999999999999999")), "dtype");
    assert_says(&with_schema(&dtype("|O")), "unsupported");
    assert_says(&with_schema(&dtype(&"f".repeat(1_000_000))), "dtype");
    assert_says(&with_schema(&dtype(&"f".repeat(10_000_000))), "the limit is 1048576");
    let nested = (0..20).fold(rmpv::Value::from("<f4"), |inner, _| {
        rmpv::Value::Array(vec![rmpv::Value::Array(vec!["field".into(), inner])])
    });
    assert_says(&with_schema(&schema_of(nested, Vec::new())), "nested deeper");
}

#[test]
fn a_key_that_comes_twice_is_refused() {
    let mut bytes = schema_of("<f4".into(), Vec::new());
    bytes[0] += 1;
    bytes.extend_from_slice(b"\xA4kind\xA6ragged");
    assert_says(&with_schema(&bytes), "\"kind\" comes twice");
}

#[test]
fn items_of_no_bytes_are_legal_and_divide_nothing() {
    for shape in [vec![0], vec![0, 1 << 40], vec![3]] {
        let image = forged(4, |image| {
            image.put(FileName::Schema, 0, &schema_of("|S0".into(), shape));
            image.forge_commit(|commit| commit.schema_hash = 1);
            image.fix(2);
        });
        let schema = opened(&image).unwrap().schema().unwrap().unwrap();
        assert_eq!(schema.row_bytes(), 0);
        assert!(schema.check_record_len(0).is_ok() && schema.check_record_len(1).is_err());
    }
}

#[test]
fn the_checks_find_a_store_whose_readers_differ() {
    let image = bases::all()[MIXED].clone();
    let directory = image.in_memory();
    let core = zrecord_tests::fuzz::observe::core::<Libzstd>(&directory).unwrap();
    let fails = |host: &zrecord_tests::fuzz::observe::Observation| {
        std::panic::catch_unwind(|| open::compare(Some(&core), Some(host), false)).is_err()
    };
    assert!(!fails(&core));
    let mut host = core.clone();
    host.records[3].2.as_mut().unwrap()[5] ^= 1;
    assert!(fails(&host), "another byte was not noticed");
    let mut host = core.clone();
    host.records[3].2 = None;
    assert!(fails(&host), "a record that only one reads was not noticed");
    let host = zrecord_tests::fuzz::observe::Observation { length: 17, ..core.clone() };
    assert!(fails(&host), "another length was not noticed");
    assert!(std::panic::catch_unwind(|| open::compare(Some(&core), None, false)).is_err());
}

#[test]
fn the_checks_find_bytes_that_were_not_stored() {
    let image = bases::all()[MIXED].clone();
    let good = opened(&image).unwrap().gather(&[0], 100).unwrap().bytes;
    open::check_stored(&image, 0, &good);
    let mut wrong = good.clone();
    wrong[0] ^= 1;
    for bytes in [&wrong[..], &good[1..], &[]] {
        let checked = std::panic::catch_unwind(|| open::check_stored(&image, 0, bytes));
        assert!(checked.is_err(), "{bytes:?} passed for a stored record");
    }
}

#[test]
fn the_checks_find_a_writer_that_loses_a_record() {
    let before = vec![Some(vec![1]), None, Some(vec![2])];
    let same = |after: &[Option<Vec<u8>>]| {
        std::panic::catch_unwind(|| writer::assert_same(&before, after)).is_ok()
    };
    assert!(same(&before));
    assert!(same(&[Some(vec![1]), Some(vec![9]), Some(vec![2])]));
    assert!(!same(&[Some(vec![1]), None, Some(vec![3])]));
    assert!(!same(&[Some(vec![1]), None, None]));
    assert!(!same(&before[..2]));
}
