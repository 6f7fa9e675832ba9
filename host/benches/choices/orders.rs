//! Choices of the sampler.

use std::hint::black_box;

use zrecord_host::{Sampler, SamplerMode, SamplerOptions, sampler_simd};

use crate::Choice;

const LENGTH: u64 = 1_000_000;

pub fn run(rounds: usize) {
    for mode in [SamplerMode::Iid, SamplerMode::Cyclic] {
        for size in [256_usize, 8192] {
            let batch_size = size as u64;
            let options = SamplerOptions {
                length: LENGTH,
                batch_size,
                mode,
                seed: 1,
                rank: 0,
                world_size: 1,
            };
            let sampler = Sampler::new(options).unwrap();
            let mut batches = [vec![0; size], vec![0; size]];
            let [plain, wide] = &mut batches;
            sampler.fill(7, plain).unwrap();
            sampler_simd::fill(&sampler, 7, wide).unwrap();
            assert_eq!(plain, wide);
            let choice = Choice {
                name: format!("{size} indices, {mode}: wide registers where there are"),
                without: Box::new(|round| {
                    sampler.fill(round as u64, plain).unwrap();
                    black_box(&*plain);
                }),
                with: Box::new(|round| {
                    sampler_simd::fill(&sampler, round as u64, wide).unwrap();
                    black_box(&*wide);
                }),
            };
            choice.measure(rounds);
        }
    }
}
