//! The finite pass: each record once, in order, shared by ranks.
#![allow(clippy::unwrap_used, reason = "tests may fail")]

mod loading;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loading::{Numbers, alone, in_time, loader_threads};
use zrecord_host::{Batches, BatchesOptions, LoaderError, Stream, Streams};

fn streams(length: u64) -> Streams {
    Streams::new().with("x", Numbers::dense(length)).with("words", Numbers::ragged(length))
}

fn pass(length: u64, options: BatchesOptions) -> (u64, Vec<Vec<u64>>) {
    let mut batches = Batches::new(streams(length), options).unwrap();
    let steps = batches.steps();
    assert_eq!(u64::try_from(batches.size_hint().0).unwrap(), steps);
    let all: Vec<_> = batches.by_ref().map(|batch| batch.unwrap().indices).collect();
    assert!(batches.next().is_none(), "it stays at its end");
    assert!(matches!(batches.next_batch(), Err(LoaderError::Ended)));
    batches.rewind().unwrap();
    assert!(batches.map(|batch| batch.unwrap().indices).eq(all.iter().cloned()));
    assert_eq!(all.len() as u64, steps);
    (steps, all)
}

#[test]
fn a_pass_sees_each_record_once_and_in_order() {
    let _alone = alone();
    in_time(|| {
        for workers in [0, 4] {
            for length in [0, 1, 9, 10, 11, 60, 64] {
                for world_size in 1..=4_u64 {
                    let options = BatchesOptions { batch_size: 5, workers, ..Default::default() };
                    let parts: Vec<_> = (0..world_size)
                        .map(|rank| pass(length, BatchesOptions { rank, world_size, ..options }))
                        .collect();
                    let steps = length.div_ceil(5 * world_size);
                    assert!(parts.iter().all(|(own, _)| *own == steps), "the same on every rank");
                    let mut seen = Vec::new();
                    for step in 0..usize::try_from(steps).unwrap() {
                        seen.extend(parts.iter().flat_map(|(_, batches)| batches[step].clone()));
                    }
                    assert!(seen.into_iter().eq(0..length), "{length} on {world_size}");
                }
            }
        }
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn a_pass_may_leave_out_the_last_records() {
    let _alone = alone();
    in_time(|| {
        let options = BatchesOptions { batch_size: 4, drop_last: true, ..Default::default() };
        assert_eq!(pass(11, options).1, [vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
        let rank = BatchesOptions { rank: 1, world_size: 2, ..options };
        assert_eq!(pass(15, rank).1, [vec![4, 5, 6, 7]]);
        assert_eq!(pass(7, rank).0, 0);
        let cut = BatchesOptions { drop_last: false, ..rank };
        assert_eq!(pass(11, cut).1, [vec![4, 5, 6, 7], vec![]]);
        assert_eq!(pass(13, cut).1, [vec![4, 5, 6, 7], vec![12]]);
    });
}

#[test]
fn a_failed_pass_ends_all_the_same() {
    let _alone = alone();
    in_time(|| {
        let x = Numbers::dense(100);
        x.broken.store(57, Ordering::SeqCst);
        let streams = Streams::new().with("x", x as Arc<dyn Stream>);
        let options = BatchesOptions { batch_size: 10, ..Default::default() };
        let results: Vec<_> = Batches::new(streams, options).unwrap().collect();
        assert_eq!(results.len(), 10);
        for (step, result) in results.iter().enumerate() {
            match result {
                Ok(batch) => assert!(step < 5 && batch.step == step as u64),
                Err(error) => assert!(step >= 5 && error.step() == Some(5)),
            }
        }
        let bad = BatchesOptions { rank: 1, ..options };
        assert!(matches!(Batches::new(self::streams(5), bad), Err(LoaderError::Options { .. })));
    });
}
