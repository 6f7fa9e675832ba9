//! Evidence that the orders are as random as they claim. Seeds are fixed, so
//! nothing here passes or fails by luck; larger runs are in `SAMPLER.md`.

use super::philox::{Purpose, keys};
use super::{LOW, Mode, Sampler, SamplerOptions, to_usize};

/// The chi-square statistic of counts that should be equal, as standard
/// deviations from what chance gives.
fn deviation(counts: &[u64]) -> f64 {
    let total: u64 = counts.iter().sum();
    let expected = total as f64 / counts.len() as f64;
    assert!(expected >= 5.0, "too few samples for chi-square");
    let square = |&count: &u64| (count as f64 - expected).powi(2) / expected;
    let freedom = (counts.len() - 1) as f64;
    (counts.iter().map(square).sum::<f64>() - freedom) / (2.0 * freedom).sqrt()
}

/// Chance exceeds it once in ten thousand to a million times.
#[track_caller]
fn assert_even(counts: &[u64], what: &str) {
    let deviation = deviation(counts);
    assert!(deviation < 5.0, "{what}: {deviation:.1} standard deviations");
}

fn sampler(mode: Mode, length: u64, batch_size: u64, seed: u64) -> Sampler {
    let options = SamplerOptions { length, batch_size, mode, seed, rank: 0, world_size: 1 };
    Sampler::new(options).unwrap()
}

#[test]
fn iid_is_uniform_over_steps_and_over_seeds() {
    for length in [2_u64, 3, 7, 64, 100, 1000, (1 << 32) - 1, 3 << 40] {
        let bins = length.min(100);
        // At the large lengths, the highest and the lowest digits.
        let bin = |index| (u128::from(index) * u128::from(bins) / u128::from(length)) as usize;
        let mut counts =
            [vec![0; to_usize(bins)], vec![0; to_usize(bins)], vec![0; to_usize(bins)]];
        let mut batch = [0; 64];
        for i in 0..1000 {
            sampler(Mode::Iid, length, 64, 5).fill(i, &mut batch).unwrap();
            batch.iter().for_each(|&index| counts[0][bin(index)] += 1);
            sampler(Mode::Iid, length, 64, i).fill(1 << 40, &mut batch).unwrap();
            batch.iter().for_each(|&index| counts[1][bin(index)] += 1);
            // The remainder is uniform too, but for a length that is short.
            batch.iter().for_each(|&index| counts[2][to_usize(index % bins)] += 1);
        }
        for (counts, what) in counts.iter().zip(["over steps", "over seeds", "low digits"]) {
            assert_even(counts, &format!("iid of {length} {what}"));
        }
    }
}

#[test]
fn neighbouring_iid_draws_are_independent() {
    let mut pairs = vec![0; 100];
    let mut steps = vec![0; 100];
    let sampler = sampler(Mode::Iid, 10, 64, 1);
    let (mut before, mut batch) = ([0; 64], [0; 64]);
    for step in 0..1000 {
        sampler.fill(step, &mut batch).unwrap();
        batch.windows(2).for_each(|pair| pairs[to_usize(pair[0] * 10 + pair[1])] += 1);
        before.iter().zip(&batch).for_each(|(a, b)| steps[to_usize(a * 10 + b)] += 1);
        before = batch;
    }
    assert_even(&pairs, "neighbours in a batch");
    assert_even(&steps, "neighbours from step to step");
}

#[test]
fn every_position_of_a_cycle_is_uniform_over_seeds() {
    for length in (2..=40).chain([64, 100, 127, 128, 129, 130, 143, 256, 257, 300]) {
        let seeds = length * 40;
        let size = to_usize(length);
        let mut batch = vec![0; size];
        let mut counts = vec![vec![0; size]; size];
        for seed in 0..seeds {
            sampler(Mode::Cyclic, length, length, seed).fill(3, &mut batch).unwrap();
            for (counts, &index) in counts.iter_mut().zip(&batch) {
                counts[to_usize(index)] += 1;
            }
        }
        assert_even(&counts[0], &format!("the first of {length}"));
        assert_even(&counts[size - 1], &format!("the last of {length}"));
        assert_even(&counts.concat(), &format!("all positions of {length}"));
    }
}

#[test]
fn all_orders_of_short_lengths_are_equally_frequent() {
    for (length, orders) in [(2, 2), (3, 6), (4, 24), (5, 120)] {
        let mut by_seed = std::collections::BTreeMap::new();
        let mut by_cycle = by_seed.clone();
        let mut batch = vec![0; length];
        for i in 0..orders * 200 {
            sampler(Mode::Cyclic, length as u64, length as u64, i).fill(0, &mut batch).unwrap();
            *by_seed.entry(batch.clone()).or_insert(0) += 1;
            sampler(Mode::Cyclic, length as u64, length as u64, 0).fill(i, &mut batch).unwrap();
            *by_cycle.entry(batch.clone()).or_insert(0) += 1;
        }
        for (found, what) in [(by_seed, "seeds"), (by_cycle, "cycles")] {
            assert_eq!(found.len() as u64, orders, "orders of {length} over {what}");
            let counts: Vec<u64> = found.into_values().collect();
            assert_even(&counts, &format!("orders of {length} over {what}"));
        }
    }
}

#[test]
fn pairs_of_positions_are_uniform_over_seeds() {
    // The shortest lengths of the Feistel network are its hardest. Positions
    // 0 and 16 begin in one column, 0 and 1 in one row.
    for (length, other) in [(129, 1), (129, 16), (131, 16), (200, 1), (257, 16)] {
        let size = to_usize(length);
        let mut counts = vec![0; size * (size - 1)];
        let mut differences = vec![0; size - 1];
        let mut batch = [0; 17];
        for seed in 0..length * length * 6 {
            sampler(Mode::Cyclic, length, 17, seed).fill(0, &mut batch).unwrap();
            let difference = to_usize((batch[other] + length - batch[0]) % length) - 1;
            counts[to_usize(batch[0]) * (size - 1) + difference] += 1;
            differences[difference] += 1;
        }
        assert_even(&counts, &format!("positions 0 and {other} of {length}"));
        assert_even(&differences, &format!("difference of 0 and {other} of {length}"));
    }
}

#[test]
fn consecutive_cycles_and_neighbouring_seeds_are_unrelated() {
    for length in [100_u64, 131, 1000, 100_003] {
        let size = to_usize(length.min(1000));
        let mut batch = [vec![0; size], vec![0; size]];
        let mut counts = [vec![0; 50], vec![0; 50]];
        let mut same = [0_u64; 2];
        let rounds = 200_000 / size as u64;
        for i in 0..rounds {
            for (kind, (seed, cycle)) in [(1, i + 1), (i + 1, 0)].into_iter().enumerate() {
                let before = if kind == 0 { (1, i) } else { (i, 0) };
                for (batch, (seed, cycle)) in batch.iter_mut().zip([before, (seed, cycle)]) {
                    let sampler = sampler(Mode::Cyclic, length, size as u64, seed);
                    let step = cycle * sampler.batches_per_cycle().unwrap();
                    sampler.fill(step, batch).unwrap();
                }
                for (a, b) in batch[0].iter().zip(&batch[1]) {
                    counts[kind][to_usize((a + length - b) % length * 50 / length)] += 1;
                    same[kind] += u64::from(a == b);
                }
            }
        }
        // Bins are of equal size only where the length is a multiple.
        for (kind, what) in ["cycles", "seeds"].into_iter().enumerate() {
            if length % 50 == 0 || length > 100_000 {
                assert_even(&counts[kind], &format!("{length}: neighbouring {what}"));
            }
            let expected = (rounds * size as u64) as f64 / length as f64;
            let surplus = (same[kind] as f64 - expected) / expected.sqrt();
            assert!(surplus.abs() < 5.0, "{length}: {} same, {what}", same[kind]);
        }
    }
}

#[test]
fn a_long_cycle_has_no_slope_and_no_clusters() {
    for length in [1_000_003_u64, 1 << 32, 1 << 40, (1 << 63) - 5] {
        let mut batch = vec![0; 100_000];
        sampler(Mode::Cyclic, length, 100_000, 11).fill(4, &mut batch).unwrap();
        let bin = |index: u64| (u128::from(index) * 64 / u128::from(length)) as usize;
        let mut counts = [vec![0; 64], vec![0; 64], vec![0; 64], vec![0; 64 * 64]];
        for indices in batch.windows(3) {
            let &[a, b, c] = indices else { unreachable!() };
            counts[0][bin(a)] += 1;
            counts[1][to_usize(a % 64)] += 1;
            let bend = u128::from(a) + u128::from(c) + 2 * u128::from(length - b);
            counts[2][bin(super::low64(bend % u128::from(length)))] += 1;
            counts[3][bin(a) * 64 + bin(b)] += 1;
        }
        for (counts, what) in counts.iter().zip(["high bits", "low bits", "bends", "pairs"]) {
            assert_even(counts, &format!("{length}: {what}"));
        }
    }
}

#[test]
fn one_bit_of_seed_or_cycle_flips_half_of_the_keys() {
    let words = |seed, number| keys::<4>(seed, Purpose::Permute, number);
    let mut flips = [0; 2];
    for i in 0..64_u32 {
        let (seed, cycle) = (u64::from(i) * 977, u128::from(i) << 20);
        let others = [words(seed ^ 1 << i, cycle), words(seed, cycle ^ 1 << i)];
        for (flips, other) in flips.iter_mut().zip(others) {
            let pairs = words(seed, cycle).into_iter().flatten().zip(other.into_iter().flatten());
            *flips += pairs.map(|(a, b)| ((a ^ b) & LOW).count_ones()).sum::<u32>();
        }
    }
    // 64 times 512 bits, so half of them is 16384 and a deviation 90.
    assert!(flips.iter().all(|flips| flips.abs_diff(16_384) < 4 * 90), "{flips:?}");
}
