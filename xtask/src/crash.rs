//! `cargo xtask crash`: the crash simulator for as long as wanted.

use anyhow::Result;

use crate::command::{self, cargo};
use crate::steps::Steps;
use crate::tree::Tree;

/// Builds the simulator optimised and runs it on every core; `arguments` are
/// its own.
///
/// # Errors
///
/// When a promise is broken; what was found is printed before.
pub fn run(tree: &Tree, steps: &mut Steps, arguments: &[String]) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    steps.run("crash simulator", || {
        let mut simulator = cargo(tree);
        simulator.args(["run", "--quiet", "--release", "--package", "zrecord-tests"]);
        simulator.args(["--example", "crash", "--", "--threads", &threads]);
        command::run(simulator.args(arguments))
    })
}
