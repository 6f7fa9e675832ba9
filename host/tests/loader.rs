//! The loader over streams without a store: order, ranks, resuming, failures,
//! memory. `loader_store.rs` runs it over real ones.
#![allow(clippy::unwrap_used, reason = "tests may fail")]

mod loading;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use loading::{Numbers, alone, in_time, loader_threads, moment};
use zrecord_host::{
    Batch, BatchSource, BoxError, Column, Loader, LoaderError, LoaderOptions, LoaderState,
    SamplerMode, StateError, Stream, StreamState, Streams,
};

const MODES: [SamplerMode; 3] = [SamplerMode::Sequential, SamplerMode::Iid, SamplerMode::Cyclic];

fn streams(length: u64) -> Streams {
    Streams::new().with("x", Numbers::dense(length)).with("words", Numbers::ragged(length))
}

fn options(mode: SamplerMode, batch_size: u64) -> LoaderOptions {
    LoaderOptions { batch_size, mode, ..LoaderOptions::default() }
}

/// The indices of the next `count` batches.
fn indices(loader: &Loader, count: usize) -> Vec<Vec<u64>> {
    loader.take(count).map(|batch| batch.unwrap().indices).collect()
}

fn state_error(error: LoaderError) -> StateError {
    match error {
        LoaderError::State { source } => source,
        other => panic!("{other}"),
    }
}

#[test]
fn every_stream_is_gathered_at_the_same_indices() {
    let _alone = alone();
    in_time(|| {
        let (x, words) = (Numbers::dense(1000), Numbers::ragged(1000));
        let streams = Streams::new().with("x", x.clone()).with("words", words.clone());
        for workers in [0, 1, 8] {
            let options = LoaderOptions { workers, ..options(SamplerMode::Iid, 32) };
            let loader = Loader::new(streams.clone(), options).unwrap();
            for step in 0..50 {
                let batch = loader.next_batch().unwrap();
                assert_eq!((batch.step, batch.len()), (step, 32));
                let names: Vec<_> = batch.columns.iter().map(|(name, _)| &**name).collect();
                assert_eq!(names, ["x", "words"]);
                for (row, &index) in batch.indices.iter().enumerate() {
                    assert!(index < 1000);
                    assert_eq!(batch.column("x").unwrap().record(row).unwrap(), x.record(index));
                    let word = batch.column("words").unwrap().record(row).unwrap();
                    assert_eq!(word, words.record(index));
                }
                assert!(batch.column("x").unwrap().record(32).is_none());
                assert!(batch.column("words").unwrap().record(32).is_none());
                assert!(batch.column("y").is_none());
            }
        }
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn what_comes_follows_from_seed_and_step_alone() {
    let _alone = alone();
    in_time(|| {
        for mode in MODES {
            let expected = {
                let source = BatchSource::sampled(streams(500), 16, mode, 42, 0, 1).unwrap();
                (0..40).map(|step| source.batch(step).unwrap().indices).collect::<Vec<_>>()
            };
            for (workers, prefetch) in [(0, 4), (1, 1), (4, 4), (8, 3)] {
                let options = LoaderOptions { workers, prefetch, ..options(mode, 16) };
                let loader = Loader::with_transform(streams(500), options, |batch| {
                    thread::sleep(moment(batch.step));
                    Ok::<_, BoxError>(batch)
                });
                assert_eq!(indices(&loader.unwrap(), 40), expected);
            }
        }
    });
}

#[test]
fn transforms_run_in_the_workers() {
    let _alone = alone();
    in_time(|| {
        let transform = |batch: Batch| {
            let name = thread::current().name().unwrap_or_default().to_owned();
            Ok::<_, BoxError>((batch.step, name))
        };
        let loader = Loader::with_transform(streams(99), LoaderOptions::default(), transform);
        for (step, result) in (0..20).zip(loader.unwrap()) {
            let (own, name) = result.unwrap();
            assert_eq!(own, step);
            assert!(name.starts_with("zrecord-loader-"), "{name}");
        }
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn a_resumed_loader_goes_on_exactly() {
    let _alone = alone();
    in_time(|| {
        for mode in MODES {
            for delivered in [0, 1, 2, 7, 33] {
                for workers in [0, 4] {
                    let options = LoaderOptions { workers, ..options(mode, 16) };
                    let loader = Loader::new(streams(300), options).unwrap();
                    indices(&loader, delivered);
                    // Batches ahead of the consumer do not count.
                    thread::sleep(Duration::from_millis(2));
                    let state = loader.state().unwrap();
                    assert_eq!(state.step, delivered as u64);
                    let json = serde_json::to_string(&state).unwrap();
                    let expected = indices(&loader, 20);

                    let state: LoaderState = serde_json::from_str(&json).unwrap();
                    let other = LoaderOptions { workers: 2, prefetch: 9, ..options };
                    let fresh = Loader::new(streams(300), other).unwrap();
                    assert!(fresh.load_state(&state, true).unwrap().is_empty());
                    assert_eq!(fresh.state().unwrap(), state);
                    assert_eq!(indices(&fresh, 20), expected);

                    // And the loader itself, in the middle of its work.
                    loader.load_state(&state, true).unwrap();
                    assert_eq!(indices(&loader, 20), expected);
                }
            }
        }
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn ranks_share_one_global_order_whatever_their_number() {
    let _alone = alone();
    in_time(|| {
        for mode in MODES {
            let global = indices(&Loader::new(streams(500), options(mode, 24)).unwrap(), 12);
            let mut saved = None;
            for world_size in [1, 2, 3, 4, 8] {
                let ranks: Vec<_> = (0..world_size)
                    .map(|rank| {
                        let options = options(mode, 24 / world_size);
                        Loader::new(streams(500), LoaderOptions { rank, world_size, ..options })
                    })
                    .collect::<Result<_, _>>()
                    .unwrap();
                let first = ranks.iter().map(|loader| indices(loader, 5)).collect::<Vec<_>>();
                let states: Vec<_> = ranks.iter().map(|loader| loader.state().unwrap()).collect();
                assert!(states.iter().all(|state| *state == states[0]), "the same on all ranks");
                // Saved by the world before, which was of another size.
                let state = saved.replace(states[0].clone()).unwrap_or(states[0].clone());
                for loader in &ranks {
                    loader.load_state(&state, true).unwrap();
                }
                let rest = ranks.iter().map(|loader| indices(loader, 7)).collect::<Vec<_>>();
                for (step, expected) in global.iter().enumerate() {
                    let part = |batches: &Vec<Vec<u64>>, step: usize| batches[step].clone();
                    let parts: Vec<_> = match step.checked_sub(5) {
                        None => first.iter().map(|batches| part(batches, step)).collect(),
                        Some(step) => rest.iter().map(|batches| part(batches, step)).collect(),
                    };
                    assert_eq!(parts.concat(), *expected, "step {step} of {world_size} ranks");
                }
            }
        }
    });
}

#[test]
fn a_state_of_other_data_is_refused_by_name() {
    let _alone = alone();
    in_time(|| {
        let loader = Loader::new(streams(300), options(SamplerMode::Iid, 16)).unwrap();
        indices(&loader, 3);
        let state = loader.state().unwrap();
        let id = StreamState::extended([9; 16], 0);
        let generation = StreamState::extended([7; 16], 2);
        let stream = |stream| {
            let mut state = state.clone();
            state.streams.insert("x".into(), stream);
            state
        };
        let mut without = state.clone();
        without.streams.remove("words");
        let cases = [
            (LoaderState { seed: 1, ..state.clone() }, "seed was 1, is 42"),
            (LoaderState { global_batch: 32, ..state.clone() }, "global_batch was 32, is 16"),
            (LoaderState { length: 301, ..state.clone() }, "length was 301, is 300"),
            (LoaderState { mode: SamplerMode::Cyclic, ..state.clone() }, "mode was cyclic, is iid"),
            (stream(id), "stream \"x\" was store 09090909090909090909090909090909"),
            (stream(generation), "generation 2, is store 0707070707070707070707070707"),
            (without, "stream \"words\" was absent"),
        ];
        let expected = indices(&loader, 4);
        for (saved, message) in cases {
            loader.load_state(&state, true).unwrap();
            indices(&loader, 1);
            let error = loader.load_state(&saved, true).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
            assert!(
                matches!(state_error(error), StateError::Differs { differences } if differences.len() == 1)
            );
            assert_eq!(indices(&loader, 1), expected[1..2], "a refused state changes nothing");

            let warnings = loader.load_state(&saved, false).unwrap();
            assert!(warnings[0].contains(message), "{warnings:?}");
            assert_eq!(indices(&loader, 4), expected, "its own order, from the saved step");
        }
        let newer = LoaderState { version: 2, ..state };
        for strict in [true, false] {
            let error = state_error(loader.load_state(&newer, strict).unwrap_err());
            assert_eq!(error, StateError::Version { got: 2 });
        }
    });
}

#[test]
fn a_longer_store_goes_on_over_the_saved_length() {
    let _alone = alone();
    in_time(|| {
        let x = Numbers::dense(100);
        let only = |x: &Arc<Numbers>| Streams::new().with("x", x.clone() as Arc<dyn Stream>);
        let loader = Loader::new(only(&x), options(SamplerMode::Cyclic, 10)).unwrap();
        indices(&loader, 4);
        let state = loader.state().unwrap();
        x.grow(1000);
        let expected = indices(&loader, 30);
        assert_eq!(loader.length(), 100, "fixed when the loader was made");

        let loader = Loader::new(only(&x), options(SamplerMode::Cyclic, 10)).unwrap();
        assert_eq!(loader.length(), 1000);
        let warnings = loader.load_state(&state, true).unwrap();
        assert!(warnings[0].contains("have grown from 100 to 1000"), "{warnings:?}");
        assert_eq!(loader.length(), 100);
        assert_eq!(indices(&loader, 30), expected);
        assert_eq!(loader.state().unwrap().length, 100);

        // A loader made before the store grew may take a state from after.
        let x = Numbers::dense(100);
        let early = Loader::new(only(&x), options(SamplerMode::Cyclic, 10)).unwrap();
        x.grow(200);
        let late = Loader::new(only(&x), options(SamplerMode::Cyclic, 10)).unwrap();
        early.load_state(&late.state().unwrap(), true).unwrap();
        assert_eq!(indices(&early, 30), indices(&late, 30));
    });
}

#[test]
fn states_are_the_json_that_they_are_documented_to_be() {
    let classic = StreamState::Classic {
        kind: "dense".into(),
        dtype: "<f4".into(),
        item_shape: vec![2, 4],
        length: 7,
    };
    let python = StreamState::Other { kind: "python".into(), length: 7 };
    let streams: Streams = [
        ("a", Numbers::new(50, 8, StreamState::extended([0xab; 16], 3)) as Arc<dyn Stream>),
        ("b", Numbers::new(50, 8, classic)),
        ("c", Numbers::new(50, 8, python)),
    ]
    .into_iter()
    .collect();
    let options = LoaderOptions { seed: u64::MAX - 1, ..options(SamplerMode::Cyclic, 5) };
    let options = LoaderOptions { rank: 1, world_size: 3, ..options };
    let loader = Loader::new(streams, options).unwrap();
    loader.seek(1 << 60).unwrap();
    let state = loader.state().unwrap();
    let json = serde_json::to_value(&state).unwrap();
    let expected = serde_json::json!({
        "version": 1,
        "seed": u64::MAX - 1,
        "step": 1_u64 << 60,
        "global_batch": 15,
        "length": 50,
        "mode": "cyclic",
        "streams": {
            "a": {"id": "abababababababababababababababab", "generation": 3},
            "b": {"kind": "dense", "dtype": "<f4", "item_shape": [2, 4], "length": 50},
            "c": {"kind": "python", "length": 50},
        },
    });
    assert_eq!(json, expected);
    assert_eq!(serde_json::from_value::<LoaderState>(json).unwrap(), state);
    for broken in [
        r#"{"version": 1}"#.to_owned(),
        expected.to_string().replace("cyclic", "circular"),
        expected.to_string().replace("\"step\":1152921504606846976", "\"step\":-1"),
        expected.to_string().replace("\"length\":50", "\"length\":\"50\""),
    ] {
        assert!(serde_json::from_str::<LoaderState>(&broken).is_err(), "{broken}");
    }
}

#[test]
fn a_failed_gather_surfaces_at_its_batch_and_stays() {
    let _alone = alone();
    in_time(|| {
        for workers in [0, 4] {
            let x = Numbers::dense(100);
            x.broken.store(57, Ordering::SeqCst);
            let streams = Streams::new().with("x", x.clone() as Arc<dyn Stream>);
            let options = LoaderOptions { workers, ..options(SamplerMode::Sequential, 10) };
            let mut loader = Loader::new(streams, options).unwrap();
            for step in 0..5 {
                assert_eq!(loader.next_batch().unwrap().step, step);
            }
            for _ in 0..4 {
                let error = loader.next().unwrap().unwrap_err();
                assert_eq!(error.to_string(), "step 5, stream \"x\": record 57 is corrupt");
                assert_eq!(error.step(), Some(5));
                assert_eq!(loader.state().unwrap().step, 5);
            }
            let gathers = x.gathers.load(Ordering::SeqCst);
            thread::sleep(Duration::from_millis(5));
            assert_eq!(x.gathers.load(Ordering::SeqCst), gathers, "nothing goes on behind it");
            // Mended, it goes on from there.
            x.broken.store(u64::MAX, Ordering::SeqCst);
            let state = loader.state().unwrap();
            loader.load_state(&state, true).unwrap();
            assert_eq!(loader.next_batch().unwrap().indices[7], 57);
        }
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn a_failed_transform_keeps_its_own_error() {
    let _alone = alone();
    in_time(|| {
        #[derive(Debug, PartialEq, thiserror::Error)]
        #[error("the transform is tired")]
        struct Tired(u64);
        let tired = |batch: Batch| match batch.step {
            12 => Err(Tired(12)),
            13 => panic!("not reached by the consumer"),
            step => Ok(step),
        };
        let loader = Loader::with_transform(streams(100), LoaderOptions::default(), tired).unwrap();
        assert_eq!(loader.by_ref_take(12), (0..12).collect::<Vec<_>>());
        for _ in 0..3 {
            let error = loader.next_batch().unwrap_err();
            assert_eq!(error.to_string(), "step 12, transform: the transform is tired");
            let LoaderError::Transform { step: 12, source } = error else { panic!("{error}") };
            assert_eq!(source.downcast_ref(), Some(&Tired(12)));
        }
        let state = loader.state().unwrap();
        assert_eq!(state.step, 12);
    });
}

/// Takes batches by reference, so that the loader is there afterwards.
trait ByRefTake<T> {
    fn by_ref_take(&self, count: usize) -> Vec<T>;
}

impl<T: Send + 'static> ByRefTake<T> for Loader<T> {
    fn by_ref_take(&self, count: usize) -> Vec<T> {
        self.into_iter().take(count).map(Result::unwrap).collect()
    }
}

#[test]
fn a_panic_in_a_transform_is_an_error_of_its_step() {
    let _alone = alone();
    in_time(|| {
        for workers in [0, 4] {
            let options = LoaderOptions { workers, ..LoaderOptions::default() };
            let loader = Loader::with_transform(streams(100), options, |batch| {
                assert!(batch.step < 3, "beyond me");
                Ok::<_, BoxError>(())
            });
            let loader = loader.unwrap();
            loader.by_ref_take(3);
            for _ in 0..2 {
                let error = loader.next_batch().unwrap_err();
                assert_eq!(error.to_string(), "step 3 panicked: beyond me");
            }
        }
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn a_closed_loader_says_so() {
    let _alone = alone();
    in_time(|| {
        for taken in [0, 3] {
            let loader = Loader::new(streams(100), LoaderOptions::default()).unwrap();
            indices(&loader, taken);
            let state = loader.state().unwrap();
            loader.close();
            assert_eq!(loader_threads(), 0);
            assert!(loader.is_closed());
            assert!(matches!(loader.next_batch(), Err(LoaderError::Closed)));
            assert!(matches!(loader.next_timeout(Duration::ZERO), Err(LoaderError::Closed)));
            assert!(matches!(loader.load_state(&state, true), Err(LoaderError::Closed)));
            assert_eq!(loader.state().unwrap(), state, "may still be saved");
            loader.close();
        }
    });
}

#[test]
fn loaders_come_and_go_without_a_trace() {
    let _alone = alone();
    in_time(|| {
        let x = Numbers::dense(100);
        for number in 0..300 {
            let streams = Streams::new().with("x", x.clone() as Arc<dyn Stream>);
            let loader = Loader::new(streams, options(SamplerMode::Iid, 4)).unwrap();
            indices(&loader, number % 3);
        }
        assert_eq!(Arc::strong_count(&x), 1, "nothing holds on to the streams");
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn buffers_are_recycled() {
    let _alone = alone();
    in_time(|| {
        for workers in [0, 4] {
            let x = Numbers::new(100, 12_288, StreamState::extended([7; 16], 0));
            let streams = Streams::new().with("x", x as Arc<dyn Stream>);
            let options = LoaderOptions { workers, ..options(SamplerMode::Iid, 16) };
            let loader = Loader::new(streams, options).unwrap();
            let mut addresses = BTreeSet::new();
            for batch in loader.take(200) {
                let batch = batch.unwrap();
                let Some(Column::Dense { buffer, .. }) = batch.column("x") else { panic!() };
                assert_eq!(buffer.as_ptr().addr() % 4096, 0);
                addresses.insert(buffer.as_ptr().addr());
            }
            // Four ahead and one in the caller's hands.
            assert!(addresses.len() <= 5, "{} buffers", addresses.len());
        }
    });
}

#[test]
fn batches_kept_are_never_written_again() {
    let _alone = alone();
    in_time(|| {
        let x = Numbers::new(100, 4096, StreamState::extended([7; 16], 0));
        let streams = Streams::new().with("x", x.clone() as Arc<dyn Stream>);
        let loader = Loader::new(streams, options(SamplerMode::Iid, 4)).unwrap();
        let kept: Vec<_> = loader.take(60).map(Result::unwrap).collect();
        for batch in kept {
            for (row, &index) in batch.indices.iter().enumerate() {
                assert_eq!(batch.column("x").unwrap().record(row).unwrap(), x.record(index));
            }
        }
    });
}

#[test]
fn options_that_do_not_fit_are_refused_when_the_loader_is_made() {
    let refused = |streams, options| Loader::new(streams, options).unwrap_err();
    let fine = LoaderOptions::default();
    assert!(matches!(refused(Streams::new(), fine), LoaderError::NoStreams));
    let twice = streams(5).with("x", Numbers::dense(5));
    assert!(matches!(refused(twice, fine), LoaderError::DuplicateStream { .. }));
    let unequal = streams(5).with("y", Numbers::dense(6));
    let error = refused(unequal, fine);
    assert_eq!(error.to_string(), "streams must have one length: \"x\" has 5 records, \"y\" has 6");
    for options in [
        LoaderOptions { batch_size: 0, ..fine },
        LoaderOptions { rank: 2, world_size: 2, ..fine },
        LoaderOptions { world_size: 0, ..fine },
        LoaderOptions { batch_size: u64::MAX, world_size: 2, rank: 1, ..fine },
        LoaderOptions { mode: SamplerMode::Cyclic, batch_size: 6, ..fine },
    ] {
        assert!(matches!(refused(streams(5), options), LoaderError::Options { .. }), "{options:?}");
    }
    assert!(matches!(refused(streams(0), fine), LoaderError::Options { .. }));
}

#[test]
fn a_batch_that_no_memory_holds_is_an_error() {
    let options = LoaderOptions { workers: 0, ..options(SamplerMode::Iid, 1 << 59) };
    match Loader::new(streams(5), options) {
        Ok(loader) => assert!(matches!(loader.next_batch(), Err(LoaderError::Sample { .. }))),
        Err(error) => assert!(matches!(error, LoaderError::Options { .. })),
    }
}

#[test]
fn a_loader_is_shared_between_threads() {
    let _alone = alone();
    in_time(|| {
        let loader = Loader::new(streams(100), options(SamplerMode::Sequential, 10)).unwrap();
        let (taken, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    loop {
                        match loader.next_batch() {
                            Ok(_) => taken.fetch_add(1, Ordering::SeqCst),
                            Err(LoaderError::Closed) => break,
                            Err(error) => panic!("{error}"),
                        };
                    }
                });
            }
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let state = loader.state().unwrap();
                    loader.load_state(&LoaderState { step: 50, ..state }, true).unwrap();
                    thread::sleep(Duration::from_millis(1));
                }
            });
            while taken.load(Ordering::SeqCst) < 500 {
                thread::sleep(Duration::from_millis(1));
            }
            stop.store(true, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(3));
            loader.close();
        });
    });
    assert_eq!(loader_threads(), 0);
}
