//! The loader over real stores of both formats: the right bytes, resuming
//! across processes' handles, and what a store does while it is read.
#![allow(clippy::unwrap_used, reason = "tests may fail")]

mod loading;

use std::path::Path;
use std::sync::Arc;

use loading::{alone, in_time, loader_threads};
use tempfile::tempdir;
use zrecord_host::{
    Batches, BatchesOptions, Codec, DenseDataset, Dtype, Error, Format, Kind, Loader, LoaderError,
    LoaderOptions, LoaderState, Mode, OpenOptions, RaggedDataset, SamplerMode, Schema, StateError,
    Store, StreamState, Streams,
};

const FORMATS: [Format; 2] = [Format::Classic, Format::Extended];
const ROW: u64 = 64;

/// The bytes of dense record `index`: noise or something that compresses.
fn row(index: u64) -> Vec<u8> {
    let mut state = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let byte = move |position| {
        state = state.rotate_left(9).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (if index.is_multiple_of(2) { state >> 13 } else { index + position / 16 }).to_le_bytes()[0]
    };
    (0..ROW).map(byte).collect()
}

/// The bytes of ragged record `index`: up to six rows of four.
fn words(index: u64) -> Vec<u8> {
    let len = usize::try_from(index % 6 * 4 + 4).unwrap();
    row(index)[..len].to_vec()
}

fn writer(path: &Path, format: Format, kind: Kind, codec: Codec) -> Store {
    let options = OpenOptions::new().mode(Mode::Append).format(format).codec(codec);
    let store = options.open(path).unwrap();
    if store.schema().is_none() {
        let shape = vec![if kind == Kind::Dense { ROW } else { 4 }];
        let dtype = Dtype::parse("|u1").unwrap();
        store.set_schema(&Schema::new(kind, dtype, shape, codec, Vec::new()).unwrap()).unwrap();
    }
    store
}

fn append(store: &Store, records: impl Iterator<Item = Vec<u8>>) {
    let (mut src, mut starts) = (Vec::new(), Vec::new());
    for record in records {
        starts.push(src.len() as u64);
        src.extend(record);
    }
    store.append(&src, &starts, None).unwrap();
}

/// A dense and a ragged store of `count` records.
fn build(directory: &Path, format: Format, codec: Codec, count: u64) {
    let dense = writer(&directory.join("x.zr"), format, Kind::Dense, codec);
    append(&dense, (0..count).map(row));
    dense.close().unwrap();
    let ragged = writer(&directory.join("words.zr"), format, Kind::Ragged, codec);
    append(&ragged, (0..count).map(words));
    ragged.close().unwrap();
}

fn streams(directory: &Path) -> Streams {
    Streams::new()
        .with("x", Arc::new(DenseDataset::open(directory.join("x.zr")).unwrap()))
        .with("words", Arc::new(RaggedDataset::open(directory.join("words.zr")).unwrap()))
}

fn options(batch_size: u64) -> LoaderOptions {
    LoaderOptions { batch_size, mode: SamplerMode::Cyclic, ..LoaderOptions::default() }
}

#[test]
fn batches_hold_the_records_that_were_stored() {
    let _alone = alone();
    in_time(|| {
        for format in FORMATS {
            for codec in [Codec::Raw, Codec::Zstd] {
                let directory = tempdir().unwrap();
                build(directory.path(), format, codec, 300);
                let loader = Loader::new(streams(directory.path()), options(32)).unwrap();
                for batch in loader.take(30) {
                    let batch = batch.unwrap();
                    let (x, ragged) = (batch.column("x").unwrap(), batch.column("words").unwrap());
                    for (position, &index) in batch.indices.iter().enumerate() {
                        assert_eq!(x.record(position).unwrap(), row(index));
                        assert_eq!(ragged.record(position).unwrap(), words(index));
                    }
                }
            }
        }
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn a_pass_over_a_store_reads_all_of_it() {
    let _alone = alone();
    in_time(|| {
        for format in FORMATS {
            let directory = tempdir().unwrap();
            build(directory.path(), format, Codec::Zstd, 101);
            let mut seen = 0;
            for rank in 0..4 {
                let options =
                    BatchesOptions { batch_size: 10, rank, world_size: 4, ..Default::default() };
                let batches = Batches::new(streams(directory.path()), options).unwrap();
                assert_eq!(batches.steps(), 3);
                // The last batches of all ranks but the first are short or empty.
                for batch in batches {
                    let batch = batch.unwrap();
                    for (position, &index) in batch.indices.iter().enumerate() {
                        assert_eq!(
                            batch.column("x").unwrap().record(position).unwrap(),
                            row(index)
                        );
                    }
                    seen += batch.len();
                }
            }
            assert_eq!(seen, 101);
        }
    });
}

#[test]
fn stores_are_known_by_what_their_format_has() {
    let _alone = alone();
    in_time(|| {
        let states = FORMATS.map(|format| {
            let directory = tempdir().unwrap();
            build(directory.path(), format, Codec::Zstd, 50);
            Loader::new(streams(directory.path()), options(8)).unwrap().state().unwrap()
        });
        let classic = StreamState::Classic {
            kind: "ragged".into(),
            dtype: "|u1".into(),
            item_shape: vec![4],
            length: 50,
        };
        assert_eq!(states[0].streams["words"], classic);
        let StreamState::Extended { id, generation: 0 } = &states[1].streams["words"] else {
            panic!("{:?}", states[1].streams)
        };
        assert_eq!(id.len(), 32);
        assert_ne!(states[1].streams["x"], states[1].streams["words"]);
    });
}

#[test]
fn other_handles_resume_and_other_stores_are_refused() {
    let _alone = alone();
    in_time(|| {
        for format in FORMATS {
            let directory = tempdir().unwrap();
            build(directory.path(), format, Codec::Zstd, 200);
            let loader = Loader::new(streams(directory.path()), options(16)).unwrap();
            (&loader).take(7).for_each(|batch| drop(batch.unwrap()));
            let saved = loader.state().unwrap();
            let take = |loader: &Loader| -> Vec<_> {
                loader.take(20).map(|batch| batch.unwrap().indices).collect()
            };
            let expected = take(&loader);
            drop(loader);

            // The stores grow while a reader has them open, and before it resumes.
            let reader = Loader::new(streams(directory.path()), options(16)).unwrap();
            let json = serde_json::to_string(&saved).unwrap();
            let saved: LoaderState = serde_json::from_str(&json).unwrap();
            for (name, kind) in [("x.zr", Kind::Dense), ("words.zr", Kind::Ragged)] {
                let store = writer(&directory.path().join(name), format, kind, Codec::Zstd);
                let record = if kind == Kind::Dense { row } else { words };
                append(&store, (200..300).map(record));
                store.close().unwrap();
            }
            let later = Loader::new(streams(directory.path()), options(16)).unwrap();
            for loader in [reader, later] {
                let warnings = loader.load_state(&saved, true).unwrap();
                assert!(warnings[0].contains("from 200 to 300"), "{warnings:?}");
                assert_eq!(take(&loader), expected);
            }

            // The same bytes written anew are another store, where stores have ids.
            let copy = tempdir().unwrap();
            build(copy.path(), format, Codec::Zstd, 200);
            let other = Loader::new(streams(copy.path()), options(16)).unwrap();
            let loaded = other.load_state(&saved, true);
            match format {
                Format::Classic => assert!(loaded.unwrap().is_empty()),
                Format::Extended => assert!(matches!(
                    loaded,
                    Err(LoaderError::State { source: StateError::Differs { differences } })
                        if differences.len() == 2
                )),
            }
        }
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn deleting_records_makes_a_saved_state_useless_and_says_so() {
    let _alone = alone();
    in_time(|| {
        let directory = tempdir().unwrap();
        build(directory.path(), Format::Extended, Codec::Zstd, 200);
        let loader = Loader::new(streams(directory.path()), options(16)).unwrap();
        let saved = loader.state().unwrap();
        drop(loader);
        for (name, kind) in [("x.zr", Kind::Dense), ("words.zr", Kind::Ragged)] {
            let store = writer(&directory.path().join(name), Format::Extended, kind, Codec::Zstd);
            store.delete(&[3, 77]).unwrap();
            store.close().unwrap();
        }
        let loader = Loader::new(streams(directory.path()), options(16)).unwrap();
        let message = loader.load_state(&saved, true).unwrap_err().to_string();
        assert!(message.contains("length was 200, is 198"), "{message}");
        assert!(message.contains("generation 0"), "{message}");
        assert!(message.contains("generation 1"), "{message}");
    });
}

#[test]
fn damage_surfaces_at_its_batch_with_the_stores_own_error() {
    let _alone = alone();
    in_time(|| {
        let directory = tempdir().unwrap();
        build(directory.path(), Format::Extended, Codec::Raw, 100);
        let chunk = directory.path().join("x.zr").join("0.zr");
        let mut bytes = std::fs::read(&chunk).unwrap();
        // Somewhere in record 57.
        bytes[57 * 64 + 5] ^= 1;
        std::fs::write(&chunk, bytes).unwrap();
        let options = LoaderOptions { mode: SamplerMode::Sequential, ..options(10) };
        let loader = Loader::new(streams(directory.path()), options).unwrap();
        for step in 0..5 {
            assert_eq!(loader.next_batch().unwrap().step, step);
        }
        for _ in 0..3 {
            let error = loader.next_batch().unwrap_err();
            let LoaderError::Gather { step: 5, source, .. } = error else { panic!("{error}") };
            let core = source.downcast_ref::<Error>().and_then(Error::core).unwrap();
            assert!(core.is_corruption(), "{core}");
            assert_eq!(loader.state().unwrap().step, 5);
        }
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn a_store_closed_under_a_loader_is_an_error_not_a_crash() {
    let _alone = alone();
    in_time(|| {
        let directory = tempdir().unwrap();
        build(directory.path(), Format::Extended, Codec::Raw, 100);
        let dataset = DenseDataset::open(directory.path().join("x.zr")).unwrap();
        let store = Arc::clone(dataset.store());
        let streams = Streams::new().with("x", Arc::new(dataset));
        let mut loader = Loader::new(streams, options(10)).unwrap();
        loader.next_batch().unwrap();
        store.close().unwrap();
        let error = loader.find_map(Result::err).unwrap();
        assert!(error.to_string().contains("closed"), "{error}");
    });
}
