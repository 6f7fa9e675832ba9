//! What the sampler promises, apart from being random.

use super::*;

/// Small enough to list, large enough to matter.
const LENGTHS: [u64; 21] = [
    1,
    2,
    3,
    16,
    127,
    128,
    129,
    255,
    256,
    257,
    1000,
    65_536,
    1_000_003,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    1 << 40,
    (1 << 62) + 1,
    (1 << 63) - (1 << 31),
    (1 << 63) - 1,
    1 << 63,
];

fn options(mode: Mode, length: u64, batch_size: u64) -> SamplerOptions {
    SamplerOptions { length, batch_size, mode, seed: 42, rank: 0, world_size: 1 }
}

pub(super) fn batch(options: SamplerOptions, step: u64) -> Vec<u64> {
    let mut batch = vec![u64::MAX; usize::try_from(options.batch_size).unwrap()];
    Sampler::new(options).unwrap().fill(step, &mut batch).unwrap();
    batch
}

#[test]
fn every_mode_is_its_specification() {
    for mode in Mode::ALL {
        for length in LENGTHS {
            for batch_size in [1, 15, 16, 17, 40, 100] {
                for world_size in [1, 3] {
                    if mode == Mode::Cyclic && batch_size * world_size > length {
                        continue;
                    }
                    let rank = world_size / 2;
                    let seed = length ^ batch_size << 50;
                    let options =
                        SamplerOptions { length, batch_size, mode, seed, rank, world_size };
                    for step in [0, 1, 1 << 40, u64::MAX - 1, u64::MAX] {
                        let expected = reference::batch(options, step);
                        assert_eq!(batch(options, step), expected, "{options:?} at {step}");
                    }
                }
            }
        }
    }
}

#[test]
fn indices_are_below_the_length_and_reach_its_top_half() {
    for mode in [Mode::Iid, Mode::Cyclic] {
        for length in LENGTHS.into_iter().filter(|&length| length >= 64) {
            let indices = batch(options(mode, length, 64), 3);
            assert!(indices.iter().all(|&index| index < length), "{mode} of {length}");
            assert!(indices.iter().any(|&index| index >= length / 2), "{mode} of {length}");
        }
    }
}

#[test]
fn a_cycle_repeats_nothing_and_drops_the_remainder() {
    let check = |length: u64, batch_size: u64, cycle: u64| {
        let sampler = Sampler::new(options(Mode::Cyclic, length, batch_size)).unwrap();
        let batches = sampler.batches_per_cycle().unwrap();
        assert_eq!(batches, length / batch_size);
        let mut seen = vec![false; to_usize(length)];
        let mut indices = vec![0; to_usize(batch_size)];
        for step in cycle * batches..(cycle + 1) * batches {
            sampler.fill(step, &mut indices).unwrap();
            for &index in &indices {
                let before = std::mem::replace(&mut seen[to_usize(index)], true);
                assert!(!before, "{index} came twice: {length} in {batch_size}, cycle {cycle}");
            }
        }
        let dropped = seen.iter().filter(|&&seen| !seen).count() as u64;
        assert_eq!(dropped, length % batch_size, "{length} in {batch_size}");
    };
    for length in 1..=300 {
        for batch_size in 1..=length.min(24) {
            check(length, batch_size, 1);
        }
    }
    for length in 1..=3000 {
        let inner = length * 7 / 19 % length + 1;
        check(length, length, length % 5);
        check(length, inner.max(length / 8 + 1), 1 << 33);
    }
    for length in [65_535, 65_536, 65_537, 100_003] {
        check(length, 1000, 7);
    }
}

#[test]
fn what_a_cycle_drops_differs_from_cycle_to_cycle() {
    let sampler = Sampler::new(options(Mode::Cyclic, 101, 100)).unwrap();
    let mut indices = [0; 100];
    let mut dropped = std::collections::BTreeSet::new();
    for cycle in 0..20 {
        sampler.fill(cycle, &mut indices).unwrap();
        dropped.insert(5050 - indices.iter().sum::<u64>());
    }
    assert!(dropped.len() > 12, "{dropped:?}");
}

#[test]
fn ranks_share_one_global_order() {
    for mode in Mode::ALL {
        for length in [24, 128, 1000, 1 << 40] {
            for step in [0, 5, 1 << 40, u64::MAX] {
                let whole = batch(options(mode, length, 24), step);
                for world_size in [1, 2, 3, 4, 6, 8, 12, 24] {
                    let parts: Vec<u64> = (0..world_size)
                        .flat_map(|rank| {
                            let batch_size = 24 / world_size;
                            let part = options(mode, length, batch_size);
                            batch(SamplerOptions { rank, world_size, ..part }, step)
                        })
                        .collect();
                    assert_eq!(parts, whole, "{mode} of {length} at {step} by {world_size}");
                }
            }
        }
    }
}

#[test]
fn sequential_and_iid_are_one_stream_whatever_the_batch_size() {
    for mode in [Mode::Sequential, Mode::Iid] {
        // Around position 2^32, where the stream of words changes.
        let first = (1_u64 << 32) - 60;
        let single = |position| batch(options(mode, 1000, 1), position)[0];
        let expected: Vec<u64> = (first..first + 240).map(single).collect();
        for batch_size in [2, 4, 20, 60] {
            let steps = first / batch_size..(first + 240) / batch_size;
            let cut = steps.flat_map(|step| batch(options(mode, 1000, batch_size), step));
            let offset = to_usize(first % batch_size);
            assert!(cut.skip(offset).eq(expected.iter().copied().take(240 - offset)), "{mode}");
        }
    }
}

#[test]
fn bad_options_say_what_to_do() {
    let good = SamplerOptions {
        length: 10,
        batch_size: 4,
        mode: Mode::Cyclic,
        seed: 0,
        rank: 0,
        world_size: 2,
    };
    Sampler::new(good).unwrap();
    let cases = [
        (SamplerOptions { length: 0, ..good }, "length: it is 0"),
        (SamplerOptions { length: (1 << 63) + 1, ..good }, "length: 9223372036854775809 is above"),
        (SamplerOptions { batch_size: 0, ..good }, "batch_size: it is 0; give at least 1"),
        (SamplerOptions { world_size: 0, ..good }, "world_size: it is 0"),
        (SamplerOptions { rank: 2, ..good }, "rank: 2 is not below the world size 2"),
        (SamplerOptions { batch_size: 1 << 63, ..good }, "batch_size: 9223372036854775808 times"),
        (SamplerOptions { batch_size: 6, ..good }, "give at most 5, or use iid"),
        (
            SamplerOptions { world_size: 11, batch_size: 1, ..good },
            "1 for each of 11 ranks are 11 indices of 10",
        ),
    ];
    for (options, message) in cases {
        let error = Sampler::new(options).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_batch_of_the_wrong_size_is_refused_and_untouched() {
    let sampler = Sampler::new(options(Mode::Iid, 10, 4)).unwrap();
    for size in [0, 3, 5] {
        let mut indices = vec![77; size];
        let error = sampler.fill(0, &mut indices).unwrap_err().to_string();
        assert!(error.contains("a batch has 4"), "{error}");
        assert!(indices.iter().all(|&index| index == 77));
    }
}

#[test]
fn a_cursor_steps_and_seeks() {
    let sampler = Sampler::new(options(Mode::Cyclic, 1000, 7)).unwrap();
    let mut cursor = Cursor::new(sampler.clone());
    let (mut found, mut expected) = ([0; 7], [0; 7]);
    for step in [0, 1, 2, 1 << 40, (1 << 40) + 1, u64::MAX, 0] {
        if step == 1 << 40 || step == u64::MAX {
            cursor.seek(step);
        }
        assert_eq!(cursor.step(), step);
        cursor.next(&mut found).unwrap();
        cursor.sampler().fill(step, &mut expected).unwrap();
        assert_eq!(found, expected);
    }
    assert!(cursor.next(&mut [0; 6]).is_err());
    assert_eq!(cursor.step(), 1);
}

#[test]
fn modes_have_names_and_numbers() {
    for (number, mode) in (0..).zip(Mode::ALL) {
        assert_eq!(mode.number(), number);
        assert_eq!(Mode::from_number(number), Some(mode));
        assert_eq!(mode.name().parse::<Mode>().unwrap(), mode);
    }
    assert_eq!(Mode::from_number(3), None);
    assert!("IID".parse::<Mode>().unwrap_err().to_string().starts_with("mode: \"IID\" is none"));
}
