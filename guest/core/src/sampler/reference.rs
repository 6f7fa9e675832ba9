//! The sampler once more, written straight from `SAMPLER.md`: one index at a
//! time, with nothing in mind but the text.
#![expect(clippy::cast_possible_truncation, reason = "words are cut out of wider numbers")]

use super::{Mode, SamplerOptions};

fn philox4x32_10(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let ([mut k0, mut k1], [mut a, mut b, mut c, mut d]) = (key, counter);
    for _ in 0..10 {
        let p = 0xd251_1f53 * u64::from(a);
        let q = 0xcd9e_8d57 * u64::from(c);
        let next_a = (q >> 32) as u32 ^ b ^ k0;
        let next_c = (p >> 32) as u32 ^ d ^ k1;
        (a, b, c, d) = (next_a, q as u32, next_c, p as u32);
        k0 = k0.wrapping_add(0x9e37_79b9);
        k1 = k1.wrapping_add(0xbb67_ae85);
    }
    [a, b, c, d]
}

fn philox2x32_7(key: u32, counter: [u32; 2]) -> [u32; 2] {
    let (mut k, [mut a, mut b]) = (key, counter);
    for _ in 0..7 {
        let p = 0xd256_d193 * u64::from(a);
        (a, b) = ((p >> 32) as u32 ^ k ^ b, p as u32);
        k = k.wrapping_add(0x9e37_79b9);
    }
    [a, b]
}

fn keys(seed: u64, purpose: u32, number: u128, block: u32) -> [u32; 4] {
    let counter =
        [number as u32, (number >> 32) as u32, (number >> 64) as u32, purpose * 256 + block];
    philox4x32_10([seed as u32, (seed >> 32) as u32], counter)
}

fn draw(seed: u64, purpose: u32, number: u128, position: u32, length: u64) -> u64 {
    let [key, origin, _, _] = keys(seed, purpose, number, 0);
    for retry in 0.. {
        let [high, low] = philox2x32_7(key, [position, origin.wrapping_add(retry)]);
        let word = u128::from(high) << 32 | u128::from(low);
        let product = word * u128::from(length);
        if product % (1 << 64) >= (1 << 64) % u128::from(length) {
            return (product >> 64) as u64;
        }
    }
    unreachable!()
}

fn iid(seed: u64, position: u128, length: u64) -> u64 {
    draw(seed, 1, position >> 32, position as u32, length)
}

fn permuted(seed: u64, cycle: u64, position: u64, length: u64) -> u64 {
    let mut bits = 0;
    while bits < 64 && u128::from(length) > 1 << bits {
        bits += 1;
    }
    let low_bits = if bits == 63 { 32 } else { bits / 2 };
    let (low_count, high_count) = (1 << low_bits, length.div_ceil(1 << low_bits));
    let middle = |x: u64, factor: u32, addend: u32| {
        let sum = (x as u32).wrapping_mul(factor | 1).wrapping_add(addend);
        (u64::from(sum) * u64::from(sum)) >> 16 & 0xffff_ffff
    };
    let mut x = position;
    loop {
        let (mut low, mut high) = (x % low_count, x / low_count);
        for block in 0..4 {
            let [f0, a0, f1, a1] = keys(seed, 3, cycle.into(), block);
            high = (high + ((middle(low, f0, a0) * high_count) >> 32)) % high_count;
            low = (low + ((middle(high, f1, a1) * low_count) >> 32)) % low_count;
        }
        x = high * low_count + low;
        if x < length {
            return x;
        }
    }
}

fn shuffled(seed: u64, cycle: u64, length: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..length).collect();
    for last in (1..length).rev() {
        let chosen = draw(seed, 2, cycle.into(), last as u32, last + 1);
        order.swap(last as usize, chosen as usize);
    }
    order
}

/// The batch of `step`.
pub(super) fn batch(options: SamplerOptions, step: u64) -> Vec<u64> {
    let SamplerOptions { length, batch_size, mode, seed, rank, world_size } = options;
    let global_batch = batch_size * world_size;
    let index = |i: u64| {
        let offset = rank * batch_size + i;
        let position = u128::from(step) * u128::from(global_batch) + u128::from(offset);
        match mode {
            Mode::Sequential => (position % u128::from(length)) as u64,
            Mode::Iid => iid(seed, position, length),
            Mode::Cyclic => {
                let batches = length / global_batch;
                let cycle = step / batches;
                let position = step % batches * global_batch + offset;
                if length <= 128 {
                    shuffled(seed, cycle, length)[position as usize]
                } else {
                    permuted(seed, cycle, position, length)
                }
            }
        }
    };
    (0..batch_size).map(index).collect()
}
