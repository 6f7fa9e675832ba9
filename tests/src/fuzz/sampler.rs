//! Samplers of any arguments: an error, or batches that keep what the mode
//! promises, at any step and on every rank.

use std::collections::HashSet;

use zrecord_core::sampler::{Cursor, Mode, Sampler, SamplerOptions};
use zrecord_host::sampler_simd;

use super::choices::Choices;
use super::memory;

/// Larger batches are made but not filled.
const BATCH_FILLED_MAX: u64 = 1 << 12;
/// The sampler itself takes nothing: these are the batches of the oracle.
pub const MEMORY_MAX: usize = 1 << 20;

/// Runs one input.
pub fn run(input: &[u8]) {
    memory::bounded(MEMORY_MAX, || check(&mut Choices::new(input)));
}

fn check(choices: &mut Choices<'_>) {
    let length = choices.number(1000);
    let options = SamplerOptions {
        length,
        batch_size: choices.number(length),
        mode: choices.one_of(&[Mode::Sequential, Mode::Iid, Mode::Cyclic]),
        seed: choices.any(),
        rank: choices.number(0),
        world_size: choices.number(1),
    };
    let Ok(sampler) = Sampler::new(options) else { return };
    let global = u128::from(options.batch_size) * u128::from(options.world_size);
    assert!(u64::try_from(global) == Ok(sampler.global_batch()));
    assert!(options.rank < options.world_size && options.length > 0);
    assert!(sampler.fill(0, &mut []).is_err(), "a batch is never empty");
    if options.batch_size > BATCH_FILLED_MAX {
        return;
    }
    for _ in 0..4 {
        check_step(&sampler, choices.number(sampler.batches_per_cycle().unwrap_or(7)));
    }
    check_cycle(&sampler, choices.number(0));
}

fn fill(sampler: &Sampler, step: u64) -> Vec<u64> {
    let mut batch = vec![u64::MAX; usize::try_from(sampler.batch_size()).unwrap()];
    sampler.fill(step, &mut batch).unwrap();
    batch
}

/// One batch: in range, the same by every way, and what the mode promises.
fn check_step(sampler: &Sampler, step: u64) {
    let options = sampler.options();
    let batch = fill(sampler, step);
    assert!(batch.iter().all(|index| *index < options.length), "out of range at {step}");
    let mut cursor = Cursor::new(sampler.clone());
    cursor.seek(step);
    let mut again = vec![0; batch.len()];
    cursor.next(&mut again).unwrap();
    assert_eq!(batch, again, "a cursor differs at {step}");
    assert_eq!(cursor.step(), step.wrapping_add(1));
    again.fill(0);
    sampler_simd::fill(sampler, step, &mut again).unwrap();
    assert_eq!(batch, again, "the host differs at {step}");
    match options.mode {
        Mode::Sequential => {
            let first = u128::from(step) * u128::from(sampler.global_batch())
                + u128::from(options.rank) * u128::from(options.batch_size);
            let expected = (first..).map(|place| place % u128::from(options.length));
            let found = batch.iter().map(|index| u128::from(*index));
            assert!(found.zip(expected).all(|(found, expected)| found == expected));
        }
        Mode::Cyclic => {
            let different: HashSet<&u64> = batch.iter().collect();
            assert_eq!(different.len(), batch.len(), "an index comes twice at {step}");
        }
        Mode::Iid => {}
    }
}

/// A short cycle as a whole, over all ranks: no index comes twice.
fn check_cycle(sampler: &Sampler, cycle: u64) {
    let Some(batches) = sampler.batches_per_cycle() else { return };
    let options = sampler.options();
    let drawn = u128::from(batches) * u128::from(sampler.global_batch());
    assert!(drawn <= u128::from(options.length));
    let first =
        cycle.checked_mul(batches).and_then(|first| Some((first, first.checked_add(batches)?)));
    let Some((first, end)) = first.filter(|_| drawn <= u128::from(BATCH_FILLED_MAX)) else {
        return;
    };
    let mut seen = HashSet::new();
    for rank in 0..options.world_size {
        let sampler = Sampler::new(SamplerOptions { rank, ..options }).unwrap();
        for step in first..end {
            for index in fill(&sampler, step) {
                assert!(seen.insert(index), "{index} comes twice in cycle {cycle}");
            }
        }
    }
}
