//! Crash points without end: `cargo xtask crash`.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use zrecord_tests::crash::campaign::{self, Build, Counts, Failure, Point};
use zrecord_tests::crash::shrink;

/// Crash the writer at every position of random workloads, and check what is
/// found.
#[derive(Parser)]
struct Arguments {
    /// How many crash points to check, at least.
    #[arg(long, default_value_t = 100_000)]
    points: u64,
    /// The seed of the first workload; the next have the next ones.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many workloads are crashed at the same time.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Crash once more at a point that failed: SEED:OPERATIONS:POSITION:CRASH.
    #[arg(long)]
    replay: Option<Point>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(point) = arguments.replay {
        return Ok(match shrink::replay(&point, Build::SHIPPED) {
            Ok(()) => {
                println!("{point}: every promise is kept");
                ExitCode::SUCCESS
            }
            Err(error) => {
                println!("{}", shrink::describe(&Failure { point, error }, Build::SHIPPED));
                ExitCode::FAILURE
            }
        });
    }
    let started = Instant::now();
    let (counts, failure) = crash(&arguments);
    let seconds = started.elapsed().as_secs_f64();
    let (first, count) = (arguments.seed, counts.workloads);
    println!("{counts}; seeds {first}..{}, {seconds:.1} s", first + count);
    let Some(failure) = failure else { return Ok(ExitCode::SUCCESS) };
    println!("failed at {}; shrinking", failure.point);
    let smallest = shrink::shrink(failure, Build::SHIPPED);
    println!("{}", shrink::describe(&smallest, Build::SHIPPED));
    Ok(ExitCode::FAILURE)
}

/// Crashes the workloads of consecutive seeds on some threads.
fn crash(arguments: &Arguments) -> (Counts, Option<Failure>) {
    let next = AtomicU64::new(arguments.seed);
    let shared = Mutex::new((Counts::default(), None));
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let Ok(state) = shared.lock() else { return };
                    if state.1.is_some() || state.0.points() >= arguments.points {
                        return;
                    }
                    drop(state);
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let mut counts = Counts::default();
                    let outcome =
                        campaign::run(std::iter::once(seed), u64::MAX, Build::SHIPPED, &mut counts);
                    let Ok(mut state) = shared.lock() else { return };
                    state.0.add(&counts);
                    if let Err(failure) = outcome {
                        state.1.get_or_insert(failure);
                    }
                }
            });
        }
    });
    shared.into_inner().unwrap_or_default()
}
