//! Every job of the repository, by name: `cargo xtask demo`, `cargo xtask test`
//! and the rest (`cargo xtask --help`).
//!
//! A job is a list of [steps]; a step runs tools that a newcomer could
//! run by hand, and prints each command line before running it. What a job
//! needs is installed into folders of the repository alone: `.venv*` for
//! Python, `.cache` for downloads, `dist` for wheels, `target` for the rest.

mod bench;
mod command;
mod compare;
mod component;
mod crash;
mod demo;
mod embeddings;
mod fuzz;
mod kill;
mod lint;
mod miri;
mod node;
mod python;
mod rivals;
mod steps;
mod suite;
mod system;
mod targets;
mod tree;
mod web;
mod wheel;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::steps::Steps;
use crate::tree::Tree;
use crate::wheel::{Extent, Profile};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Every job of the Zrecord repository, by name")]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Write real data into stores, train from them, stop and resume.
    Demo,
    /// Set up and pass the tests, Rust and Python.
    Test {
        /// Also run the peer's own test suite, the slow tests and those with torch.
        #[arg(long)]
        all: bool,
    },
    /// Time `store` (unless another is named), `sampler`, `loader`, `write`,
    /// `cold`, `small` or `all` beside rivals; `verify`: with and without
    /// checksums; `choices`: with and without what the host does to be fast;
    /// `component`: in the sandbox and natively.
    Bench {
        /// `--torch`, `--quick`, `--save` and the rest that `bench store --help`
        /// lists; or those of `verify`, `choices` or `component`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Crash the writer at every position of random workloads: `--points N`,
    /// `--seed S`, `--replay POINT`.
    Crash {
        /// Arguments for the simulator.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Kill processes at random moments of everything that changes a store.
    Kill {
        /// How many.
        #[arg(long, default_value_t = 2_000)]
        rounds: u64,
        /// Another seed is another run.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Do what goes wrong in training, beside loaderx: kills, forks, damage.
    Compare {
        /// Arguments for `py-host/bench/reliability.py`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the fuzz targets, beginning with their saved corpora.
    Fuzz {
        /// One target (default: all).
        target: Option<String>,
        /// How long each runs.
        #[arg(long, default_value_t = fuzz::SECONDS)]
        seconds: u32,
        /// What inputs are drawn from (default: another for every run).
        #[arg(long)]
        seed: Option<u32>,
        /// `none`, or `address` for a slower build that watches every access.
        #[arg(long, default_value = "none")]
        sanitizer: String,
    },
    /// Build the component's two worlds into `target/component`.
    Component {
        /// Also build them from a copy of the sources in another folder, and
        /// compare the bytes.
        #[arg(long)]
        elsewhere: bool,
    },
    /// Run the component in Python and in Node, and compare what it says there
    /// with what the native host says.
    Embeddings,
    /// Build the inspector, a page that looks into stores, into `web/dist`.
    Web {
        /// Also use it in a headless Chromium, and compare what it shows with
        /// what the native command and the wheel say.
        #[arg(long)]
        test: bool,
    },
    /// Make the Python environment in `.venv`, with the wheel installed, but
    /// without the sandbox, which takes long to build, and the inspector.
    Python,
    /// Build the wheel into `dist`, with the sandbox and the inspector.
    Wheel,
    /// Check formatting, lints and documentation of everything.
    Lint,
    /// Run tests in an interpreter that knows the rules of the language.
    Miri,
    /// Check that the code compiles for every other supported target.
    CheckTargets,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let tree = Tree::find();
    let mut steps = Steps::new();
    let outcome = match arguments.job {
        Job::Demo => demo::run(&tree, &mut steps),
        Job::Test { all } => suite::run(&tree, &mut steps, all),
        Job::Bench { arguments } => bench::run(&tree, &mut steps, &arguments),
        Job::Crash { arguments } => crash::run(&tree, &mut steps, &arguments),
        Job::Kill { rounds, seed } => kill::run(&tree, &mut steps, rounds, seed),
        Job::Compare { arguments } => compare::run(&tree, &mut steps, &arguments),
        Job::Fuzz { target, seconds, seed, sanitizer } => {
            let options = fuzz::Options { target, seconds, seed, sanitizer };
            fuzz::run(&tree, &mut steps, &options)
        }
        Job::Component { elsewhere } => component::run(&tree, &mut steps, elsewhere),
        Job::Embeddings => embeddings::run(&tree, &mut steps),
        Job::Web { test } => web::run(&tree, &mut steps, test),
        Job::Python => {
            let (extent, profile) = (Extent::Plain, Profile::Release);
            wheel::install_for_development(&tree, &mut steps, extent, profile).map(drop)
        }
        Job::Wheel => wheel::build_for_distribution(&tree, &mut steps),
        Job::Lint => lint::run(&tree, &mut steps),
        Job::Miri => miri::run(&tree, &mut steps),
        Job::CheckTargets => targets::run(&tree, &mut steps),
    };
    steps.summarise(outcome.as_ref().err());
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
