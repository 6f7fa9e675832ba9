//! The sampler's batch fill, compiled for the CPU at hand.
//!
//! Core writes its inner loops so that they vectorise and marks them
//! `#[inline(always)]`; here the same text is compiled with AVX2 switched on,
//! and with AVX-512, and chosen at run time. All give the same indices: there
//! are no floats and nothing else that could differ. On other architectures
//! there is nothing to choose.

use zrecord_core::sampler::Sampler;

/// Writes this rank's part of the batch of `step` into `batch`, as
/// [`Sampler::fill`] does, two to eight times as fast where the CPU has wider
/// registers than every x86-64 has.
///
/// # Errors
///
/// As [`Sampler::fill`]: `batch` must be `batch_size` long.
pub fn fill(sampler: &Sampler, step: u64, batch: &mut [u64]) -> zrecord_core::Result<()> {
    #[cfg(target_arch = "x86_64")]
    {
        if has_avx512() {
            // SAFETY: the CPU has all that the callee requires.
            return unsafe { fill_avx512(sampler, step, batch) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { fill_avx2(sampler, step, batch) };
        }
    }
    sampler.fill(step, batch)
}

/// Whether the CPU has those parts of AVX-512 that [`fill_avx512`] requires; one
/// with fewer takes AVX2.
#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512dq")
        && std::arch::is_x86_feature_detected!("avx512vl")
}

/// [`Sampler::fill`] under AVX2; safe in itself, but only to be called where
/// the CPU has it.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_avx2(sampler: &Sampler, step: u64, batch: &mut [u64]) -> zrecord_core::Result<()> {
    sampler.fill_inline(step, batch)
}

/// As [`fill_avx2`], with registers of twice the width.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn fill_avx512(sampler: &Sampler, step: u64, batch: &mut [u64]) -> zrecord_core::Result<()> {
    sampler.fill_inline(step, batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zrecord_core::sampler::{Mode, SamplerOptions};

    type Fill = fn(&Sampler, u64, &mut [u64]) -> zrecord_core::Result<()>;

    /// All that this CPU can run.
    #[cfg(target_arch = "x86_64")]
    fn fills() -> Vec<Fill> {
        let mut fills: Vec<Fill> = vec![fill];
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has all that the callee requires.
            fills.push(|sampler, step, batch| unsafe { fill_avx2(sampler, step, batch) });
        }
        if has_avx512() {
            // SAFETY: as above.
            fills.push(|sampler, step, batch| unsafe { fill_avx512(sampler, step, batch) });
        }
        fills
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn fills() -> Vec<Fill> {
        vec![fill]
    }

    #[test]
    fn wide_registers_give_what_the_baseline_gives() {
        for mode in Mode::ALL {
            for length in [1_u64, 77, 129, 1000, 1_000_003, u64::from(u32::MAX), 1 << 32, 1 << 63] {
                for batch_size in [1_u64, 15, 16, 77, 1000] {
                    if mode == Mode::Cyclic && batch_size > length {
                        continue;
                    }
                    let options = SamplerOptions {
                        length,
                        batch_size,
                        mode,
                        seed: 9,
                        rank: 0,
                        world_size: 1,
                    };
                    let sampler = Sampler::new(options).unwrap();
                    let mut fast = vec![0; usize::try_from(batch_size).unwrap()];
                    let mut plain = fast.clone();
                    for step in [0, 1, 1 << 40, u64::MAX] {
                        sampler.fill(step, &mut plain).unwrap();
                        for fill in fills() {
                            fast.fill(u64::MAX);
                            fill(&sampler, step, &mut fast).unwrap();
                            assert_eq!(fast, plain, "{mode}, {length}, {batch_size}, {step}");
                        }
                    }
                }
            }
        }
    }
}
