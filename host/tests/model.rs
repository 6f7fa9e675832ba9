//! Random operations on a threaded store, compared with a list of records in
//! memory and with the sequential core, byte for byte.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::prelude::*;
use zrecord_host::{Codec, Format, Io, OpenOptions, Store, Verify};

mod support;
use support::{Random, all, delete, fresh, gather, pack, sequential, writable};

#[derive(Clone, Debug)]
enum Operation {
    Append { count: u64, len_max: u64, codec: Codec },
    Delete { count: u64 },
    Compact,
    Train,
    Sync,
    Reopen,
    Gather { count: u64 },
}

fn operation() -> impl Strategy<Value = Operation> {
    let codec = prop_oneof![Just(Codec::Raw), Just(Codec::Zstd), Just(Codec::ZstdDict)];
    prop_oneof![
        6 => (0..40_u64, prop_oneof![Just(3_u64), Just(700), Just(40_000)], codec)
            .prop_map(|(count, len_max, codec)| Operation::Append { count, len_max, codec }),
        2 => (0..30_u64).prop_map(|count| Operation::Delete { count }),
        1 => Just(Operation::Compact),
        1 => Just(Operation::Train),
        1 => Just(Operation::Sync),
        2 => Just(Operation::Reopen),
        4 => (0..200_u64).prop_map(|count| Operation::Gather { count }),
    ]
}

struct Run {
    options: OpenOptions,
    path: std::path::PathBuf,
    store: Store,
    model: Vec<Vec<u8>>,
    random: Random,
    trained: bool,
}

impl Run {
    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Append { count, len_max, codec } => self.append(count, len_max, codec),
            Operation::Delete { count } => {
                let length = self.model.len() as u64;
                let count = if length == 0 { 0 } else { count };
                let indices: Vec<u64> = (0..count).map(|_| self.random.below(length)).collect();
                self.store.delete(&indices).unwrap();
                delete(&mut self.model, &indices);
            }
            Operation::Compact => {
                self.store.compact(&mut |_| {}).unwrap();
                assert_eq!(self.store.stats().unwrap().reclaimable, 0);
            }
            Operation::Train => self.train(),
            Operation::Sync => self.store.sync().unwrap(),
            Operation::Reopen => {
                self.store.close().unwrap();
                self.store = self.options.open(&self.path).unwrap();
            }
            Operation::Gather { count } => {
                let length = self.model.len() as u64;
                let count = if length == 0 { 0 } else { count };
                let indices: Vec<u64> = (0..count).map(|_| self.random.below(length)).collect();
                let gathered = gather(&self.store, &indices).unwrap();
                for (index, record) in indices.iter().zip(gathered) {
                    assert_eq!(record, self.model[usize::try_from(*index).unwrap()]);
                }
            }
        }
        assert_eq!(self.store.len().unwrap(), self.model.len() as u64);
    }

    fn append(&mut self, count: u64, len_max: u64, codec: Codec) {
        let len_min = u64::from(self.store.format() == Format::Classic);
        let records: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let len = len_min + self.random.below(len_max);
                self.random.record(usize::try_from(len).unwrap())
            })
            .collect();
        let codec = if codec == Codec::ZstdDict && !self.trained { Codec::Zstd } else { codec };
        let (src, offsets) = pack(&records);
        let first = self.store.append(&src, &offsets, Some(codec)).unwrap();
        assert_eq!(first, self.model.len() as u64);
        self.model.extend(records);
    }

    fn train(&mut self) {
        let samples: Vec<Vec<u8>> = (0..300_usize)
            .map(|number| format!("sample {number} of {} words {}", number % 7, number * 31).into())
            .collect();
        let sizes: Vec<usize> = samples.iter().map(Vec::len).collect();
        match self.store.train_dictionary(&pack(&samples).0, &sizes, 4096) {
            Ok(size) => {
                assert!(size > 0 && self.store.has_dictionary());
                self.trained = true;
            }
            // A classic store keeps its one dictionary once it is used.
            Err(_) => assert!(self.trained && self.store.format() == Format::Classic),
        }
    }
}

fn run(options: OpenOptions, seed: u64, operations: Vec<Operation>) {
    let (_guard, path) = fresh();
    let store = options.open(&path).unwrap();
    let (random, model) = (Random::new(seed), Vec::new());
    let mut run = Run { options, path, store, model, random, trained: false };
    for operation in operations {
        run.apply(operation);
    }
    assert_eq!(all(&run.store), run.model);
    assert_eq!(run.store.verify(&mut |_| {}).unwrap(), []);
    run.store.close().unwrap();
    assert_eq!(sequential(&run.path), run.model);
    let reader = Store::open(&run.path).unwrap();
    assert_eq!(all(&reader), run.model);
    let stats = reader.stats().unwrap();
    assert_eq!(stats.plain_bytes, run.model.iter().map(|record| record.len() as u64).sum::<u64>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn an_extended_store_does_what_a_list_does(
        seed: u64,
        io in prop_oneof![Just(Io::Map), Just(Io::Pread)],
        verify in prop_oneof![Just(Verify::First), Just(Verify::Always), Just(Verify::Never)],
        chunk_size_max in prop_oneof![Just(None), Just(Some(20_000_u64))],
        operations in prop::collection::vec(operation(), 1..25),
    ) {
        let mut options = writable(Format::Extended).io(io).verify(verify).threads(3).level(1);
        options.chunk_size_max = chunk_size_max;
        run(options, seed, operations);
    }

    #[test]
    fn a_classic_store_does_what_a_list_does(
        seed: u64,
        chunk_size_max in prop_oneof![Just(None), Just(Some(50_000_u64))],
        operations in prop::collection::vec(operation(), 1..25),
    ) {
        let mut options = writable(Format::Classic).threads(3).level(1);
        options.chunk_size_max = chunk_size_max;
        run(options, seed, operations);
    }
}
