//! `cargo xtask bench`: gathers timed beside loaderx and NumPy, with and without
//! checksums, or in the component and natively.

use anyhow::Result;

use crate::command::{self, cargo};
use crate::component;
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
    match arguments {
        [first, arguments @ ..] if first == "verify" => {
            return steps.run("benchmark", || rust_bench(tree, "verify", "", arguments));
        }
        [first, arguments @ ..] if first == "component" => {
            component::run(tree, steps, false)?;
            return steps.run("benchmark", || rust_bench(tree, "component", "sandbox", arguments));
        }
        _ => {}
    }
    let environment = steps.run("Python environment .venv-bench", || {
        Environment::prepare(tree, ".venv-bench", "bench.txt")
    })?;
    wheel::install(tree, steps, &environment, Extent::Plain)?;
    steps.run("benchmark", || {
        command::run(environment.command(tree).arg("py-host/bench/gather.py").args(arguments))
    })
}

fn rust_bench(tree: &Tree, name: &str, features: &str, arguments: &[String]) -> Result<()> {
    let mut bench = cargo(tree);
    bench.args(["bench", "--package", "zrecord-host", "--no-default-features"]);
    bench.args(["--features", features, "--bench", name, "--"]);
    // Compiled components are kept in the repository, as all else is.
    bench.env("XDG_CACHE_HOME", tree.path("target/cache"));
    command::run(bench.args(arguments))
}
