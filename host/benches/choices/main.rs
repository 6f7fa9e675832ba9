//! What some choices of the host are worth: each with and without, in turn.
//!
//! `cargo xtask bench choices`. Medians of many rounds; both sides give the same
//! answers, which is checked first. `--rounds` says how many. Choices that cannot
//! be switched off are not here: `docs/OPTIMISATION.md` has them all.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

mod codec;
mod gathers;
mod orders;

use std::time::{Duration, Instant};

const ROUNDS_DEFAULT: usize = 400;

/// One side of a choice: does the work of a round and leaves an answer.
type Side<'a> = Box<dyn FnMut(usize) + 'a>;

/// Work done in two ways.
struct Choice<'a> {
    name: String,
    without: Side<'a>,
    with: Side<'a>,
}

fn main() {
    let rounds = argument("--rounds").unwrap_or(ROUNDS_DEFAULT).max(1);
    println!("medians of {rounds} rounds, in microseconds");
    println!("{:<58} {:>10} {:>10} {:>7}", "choice", "without", "with", "ratio");
    gathers::run(rounds);
    codec::run(rounds);
    orders::run(rounds);
}

/// The number after an argument of that name.
fn argument(name: &str) -> Option<usize> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).map(|value| value.parse().unwrap())
}

impl Choice<'_> {
    /// Times both sides in turn and prints a line.
    fn measure(mut self, rounds: usize) {
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..rounds + rounds / 10 {
            for turn in 0..2 {
                let side = (round + turn) % 2;
                let work = if side == 0 { &mut self.without } else { &mut self.with };
                // The first of a turn finds the caches full of the other's.
                work(2 * round);
                let started = Instant::now();
                work(2 * round + 1);
                // The first rounds warm everything.
                if round >= rounds / 10 {
                    times[side].push(started.elapsed());
                }
            }
        }
        let [without, with] = times.map(median);
        println!("{:<58} {without:>10.2} {with:>10.2} {:>7.2}", self.name, without / with);
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

/// A small generator: the same data in every run.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % limit
    }
}
