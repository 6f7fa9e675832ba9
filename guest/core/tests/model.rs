//! Random sequences of operations against a plain list of byte strings, in
//! both formats, over memory.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests may fail")]

use proptest::prelude::*;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::{PackPolicy, PackedRecord};
use zrecord_core::codec::{Codec, Zstd};
use zrecord_core::format::Format;
use zrecord_core::reader::Identity;
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::store::Store;
use zrecord_core::writer::Segment;

type MemoryStore = Store<MemoryDirectory, Libzstd>;

#[derive(Clone, Debug)]
enum Operation {
    Append { codec: Codec, lens: Vec<u16>, seed: u8 },
    Stage { lens: Vec<u16>, keep: bool },
    Gather { picks: Vec<u32> },
    Delete { picks: Vec<u32> },
    Compact,
    Sync,
    Reopen { cleanly: bool },
    Train,
}

fn operation() -> impl Strategy<Value = Operation> {
    let codec = prop_oneof![Just(Codec::Raw), Just(Codec::Zstd), Just(Codec::ZstdDict)];
    let lens = proptest::collection::vec(0_u16..300, 0..12);
    let equal = (1_u16..40, 1_usize..12).prop_map(|(len, count)| vec![len; count]);
    let picks = || proptest::collection::vec(any::<u32>(), 0..6);
    prop_oneof![
        4 => (codec, prop_oneof![lens.clone(), equal], any::<u8>())
            .prop_map(|(codec, lens, seed)| Operation::Append { codec, lens, seed }),
        1 => (lens, any::<bool>()).prop_map(|(lens, keep)| Operation::Stage { lens, keep }),
        2 => picks().prop_map(|picks| Operation::Gather { picks }),
        2 => picks().prop_map(|picks| Operation::Delete { picks }),
        2 => Just(Operation::Compact),
        1 => Just(Operation::Sync),
        2 => any::<bool>().prop_map(|cleanly| Operation::Reopen { cleanly }),
        1 => Just(Operation::Train),
    ]
}

/// Compaction looks for leftovers at every chunk number there may be, so there
/// are fewer here than the format allows.
fn limit(store: &mut MemoryStore, chunk_size_max: u64) {
    store.writer().unwrap().set_chunk_size_max(chunk_size_max);
    store.writer().unwrap().set_chunks_max(1000);
}

struct Run {
    directory: MemoryDirectory,
    store: MemoryStore,
    model: Vec<Vec<u8>>,
    chunk_size_max: u64,
    has_dictionary: bool,
    uses_dictionary: bool,
}

impl Run {
    fn new(format: Format, chunk_size_max: u64) -> Self {
        let directory = MemoryDirectory::new();
        let identity = match format {
            Format::Classic => Identity::Classic,
            Format::Extended => Identity::Extended(*b"0123456789abcdef"),
        };
        let mut store = MemoryStore::create(directory.clone(), identity).unwrap();
        limit(&mut store, chunk_size_max);
        Self {
            directory,
            store,
            model: Vec::new(),
            chunk_size_max,
            has_dictionary: false,
            uses_dictionary: false,
        }
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Append { codec, lens, seed } => self.append(*codec, lens, *seed),
            Operation::Stage { lens, keep } => self.stage(lens, *keep),
            Operation::Gather { picks } => self.gather(picks),
            Operation::Delete { picks } => self.delete(picks),
            Operation::Compact => {
                self.store.compact(&mut |_| {}).unwrap();
                let stats = self.store.stats().unwrap();
                assert_eq!(stats.reclaimable, 0, "{stats:?}");
                assert_eq!(self.store.reader().leftovers().unwrap(), []);
            }
            Operation::Sync => self.store.sync().unwrap(),
            Operation::Reopen { cleanly } => self.reopen(*cleanly),
            Operation::Train => self.train(),
        }
        assert_eq!(self.store.len(), self.model.len() as u64);
    }

    fn records(&mut self, lens: &[u16], seed: u8) -> Vec<Vec<u8>> {
        let classic = self.store.format() == Format::Classic;
        let base = self.model.len();
        lens.iter()
            .enumerate()
            .map(|(i, &len)| {
                let len = usize::from(if classic { len.max(1) } else { len });
                // Half of them compress, half do not.
                let step = if i % 2 == 0 { 0 } else { seed | 1 };
                (0..len)
                    .map(|at| (at as u8).wrapping_mul(step).wrapping_add(base as u8 ^ i as u8))
                    .collect()
            })
            .collect()
    }

    fn append(&mut self, codec: Codec, lens: &[u16], seed: u8) {
        let codec = match codec {
            Codec::ZstdDict if !self.has_dictionary => Codec::Zstd,
            other => other,
        };
        let records = self.records(lens, seed);
        let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let policy = PackPolicy { level: Some(1), ..PackPolicy::new(codec, self.store.format()) };
        let first = self.store.append(&slices, policy).unwrap();
        assert_eq!(first, self.model.len() as u64);
        self.uses_dictionary |= codec == Codec::ZstdDict && !records.is_empty();
        self.model.extend(records);
    }

    fn stage(&mut self, lens: &[u16], keep: bool) {
        let records = self.records(lens, 3);
        for half in records.chunks(4) {
            let bytes = half.concat();
            let packed: Vec<PackedRecord> =
                half.iter().map(|record| PackedRecord::raw(record).unwrap()).collect();
            let segment = Segment { bytes: &bytes, records: &packed };
            self.store.writer().unwrap().stage(&[segment]).unwrap();
            assert_eq!(self.store.len(), self.model.len() as u64, "staged records do not count");
        }
        if keep {
            self.store.writer().unwrap().commit_staged().unwrap();
            self.model.extend(records);
        } else {
            self.store.writer().unwrap().discard_staged();
        }
    }

    fn pick(&self, picks: &[u32]) -> Vec<u64> {
        let length = self.model.len() as u64;
        if length == 0 {
            return Vec::new();
        }
        picks.iter().map(|&pick| u64::from(pick) % length).collect()
    }

    fn gather(&mut self, picks: &[u32]) {
        let indices = self.pick(picks);
        let batch = self.store.gather(&indices, u64::MAX).unwrap();
        let expected: Vec<&[u8]> =
            indices.iter().map(|&index| self.model[index as usize].as_slice()).collect();
        assert_eq!(batch.iter().collect::<Vec<_>>(), expected);
        let beyond = self.model.len() as u64;
        assert!(self.store.gather(&[beyond], u64::MAX).is_err());
    }

    fn delete(&mut self, picks: &[u32]) {
        let mut indices = self.pick(picks);
        self.store.delete(&indices).unwrap();
        indices.sort_unstable();
        indices.dedup();
        for &index in indices.iter().rev() {
            self.model.swap_remove(index as usize);
        }
    }

    fn reopen(&mut self, cleanly: bool) {
        if cleanly {
            self.store.sync().unwrap();
        }
        // A reader of the same bytes computes the same state and writes nothing.
        let frozen = self.directory.snapshot();
        let mut reader = MemoryStore::open(frozen, true).unwrap();
        assert_eq!(reader.len(), self.model.len() as u64);
        let (store, recovery) = MemoryStore::open_writer(self.directory.clone()).unwrap();
        if cleanly {
            assert!(!recovery.unclean);
        }
        self.store = store;
        limit(&mut self.store, self.chunk_size_max);
        self.check_all();
    }

    fn train(&mut self) {
        let samples: Vec<Vec<u8>> = (0..256_u32)
            .map(|i| format!("sample number {i} of the words {}", i * 7).into())
            .collect();
        let sizes: Vec<usize> = samples.iter().map(Vec::len).collect();
        let result = self.store.train_dictionary(&samples.concat(), &sizes, 2048);
        let refused = self.store.format() == Format::Classic && self.uses_dictionary;
        match result {
            Ok(_) => self.has_dictionary = true,
            Err(error) => assert!(refused, "{error}"),
        }
    }

    fn check_all(&mut self) {
        let indices: Vec<u64> = (0..self.model.len() as u64).collect();
        let batch = self.store.gather(&indices, u64::MAX).unwrap();
        let expected: Vec<&[u8]> = self.model.iter().map(Vec::as_slice).collect();
        assert_eq!(batch.iter().collect::<Vec<_>>(), expected);
        assert_eq!(self.store.reader().verify_structure().unwrap(), []);
        assert_eq!(self.store.verify_records(0..u64::MAX).unwrap(), []);
        self.check_stride();
        let plain: usize = self.model.iter().map(Vec::len).sum();
        assert_eq!(self.store.stats().unwrap().plain_bytes, plain as u64);
    }

    /// A stride, where one is promised, tells where every record lies.
    fn check_stride(&mut self) {
        let stride = self.store.reader().commit().stride;
        if stride == 0 || self.model.is_empty() {
            return;
        }
        let indices: Vec<u64> = (0..self.model.len() as u64).collect();
        let locations = self.store.reader().locations(&indices).unwrap();
        for (location, index) in locations.iter().zip(0..) {
            assert_eq!((location.codec, location.len), (Codec::Raw, stride));
            assert_eq!(location.chunk, locations[0].chunk);
            assert_eq!(location.offset, index * stride);
        }
    }
}

fn run(format: Format, chunk_size_max: u64, operations: &[Operation]) {
    let mut run = Run::new(format, chunk_size_max);
    for operation in operations {
        run.apply(operation);
    }
    run.check_all();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn extended_stores_hold_what_a_list_holds(
        operations in proptest::collection::vec(operation(), 1..40),
        chunk_size_max in prop_oneof![Just(u64::MAX), 100_u64..2000],
    ) {
        run(Format::Extended, chunk_size_max, &operations);
    }

    #[test]
    fn classic_stores_hold_what_a_list_holds(
        operations in proptest::collection::vec(operation(), 1..40),
        chunk_size_max in prop_oneof![Just(u64::MAX), 500_u64..2000],
    ) {
        run(Format::Classic, chunk_size_max, &operations);
    }
}

#[test]
fn equal_raw_records_keep_a_stride_through_appends_and_compaction() {
    let mut run = Run::new(Format::Extended, u64::MAX);
    run.append(Codec::Raw, &[16; 10], 0);
    run.append(Codec::Raw, &[16; 10], 1);
    assert_eq!(run.store.reader().commit().stride, 16);
    run.delete(&[3]);
    assert_eq!(run.store.reader().commit().stride, 0);
    run.store.compact(&mut |_| {}).unwrap();
    assert_eq!(run.store.reader().commit().stride, 16);
    run.check_all();
    run.append(Codec::Raw, &[16; 3], 1);
    assert_eq!(run.store.reader().commit().stride, 16);
    run.check_all();
    run.append(Codec::Raw, &[17], 1);
    assert_eq!(run.store.reader().commit().stride, 0);
}

/// Records of a third of a chunk, so that lengths and tails coincide in all
/// the ways that they can.
#[test]
fn a_stride_is_dropped_when_deletes_leave_the_tail_elsewhere() {
    use zrecord_core::format::CHUNK_SIZE_MAX;
    let len = u32::try_from(CHUNK_SIZE_MAX / 3).unwrap();
    let packed = |checksum| PackedRecord {
        stored_len: len,
        len,
        codec: Codec::Raw,
        dictionary: 0,
        checksum,
    };
    let bytes = vec![0_u8; len as usize];
    let mut run = Run::new(Format::Extended, u64::MAX);
    for count in [5, 1] {
        for number in 0..count {
            let segment = Segment { bytes: &bytes, records: &[packed(number)] };
            run.store.writer().unwrap().append(&[segment]).unwrap();
        }
        if count == 5 {
            assert_eq!(run.store.reader().commit().stride, len);
            run.store.delete(&[2, 3, 4]).unwrap();
        }
    }
    let commit = *run.store.reader().commit();
    let location = run.store.reader().locations(&[2]).unwrap()[0];
    assert_eq!(commit.length, 3);
    assert!(commit.stride == 0 || location.is_strided(0, len, 2));
}

#[test]
fn a_dictionary_of_the_past_stays_readable() {
    let mut run = Run::new(Format::Extended, u64::MAX);
    run.train();
    run.append(Codec::ZstdDict, &[200; 8], 0);
    run.train();
    run.append(Codec::ZstdDict, &[200; 8], 0);
    run.reopen(true);
    assert_eq!(run.store.reader().commit().dictionaries, 2);
}

#[test]
fn the_backend_is_a_type_parameter() {
    fn train<Z: Zstd>() -> bool {
        Z::train(&[], &[], 0).is_err()
    }
    assert!(train::<Libzstd>());
}
