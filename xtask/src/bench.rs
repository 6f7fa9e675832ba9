//! `cargo xtask bench`: gathers timed beside loaderx and NumPy, or with and
//! without checksums.

use anyhow::Result;

use crate::command::{self, cargo};
use crate::python::Environment;
use crate::steps::Steps;
use crate::system;
use crate::tree::Tree;
use crate::wheel::{self, Extent};

/// Build the wheel, install it beside its rivals and time them in turn.
///
/// # Errors
///
/// When a build fails, or when any of the contestants gives a wrong answer.
pub fn run(tree: &Tree, steps: &mut Steps, arguments: &[String]) -> Result<()> {
    steps.run("C compiler", system::require_c_compiler)?;
    if let [first, arguments @ ..] = arguments
        && first == "verify"
    {
        return steps.run("benchmark", || {
            let mut bench = cargo(tree);
            bench.args(["bench", "--package", "zrecord-host", "--no-default-features"]);
            bench.args(["--bench", "verify", "--"]);
            command::run(bench.args(arguments))
        });
    }
    let environment = steps.run("Python environment .venv-bench", || {
        Environment::prepare(tree, ".venv-bench", "bench.txt")
    })?;
    wheel::install(tree, steps, &environment, Extent::Plain)?;
    steps.run("benchmark", || {
        command::run(environment.command(tree).arg("py-host/bench/gather.py").args(arguments))
    })
}
