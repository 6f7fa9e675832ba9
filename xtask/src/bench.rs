//! `cargo xtask bench`: ours beside its rivals and beside what the machine
//! allows; with and without checksums; in the component and natively.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::command::{self, cargo};
use crate::component;
use crate::python::Environment;
use crate::rivals;
use crate::steps::Steps;
use crate::system;
use crate::tree::Tree;
use crate::wheel::{self, Extent, Profile};

/// Asks for the contenders that need torch.
const TORCH: &str = "--torch";

/// Run the benchmark that the first argument names.
///
/// # Errors
///
/// When a build fails, or when ours gives a wrong answer.
pub fn run(tree: &Tree, steps: &mut Steps, arguments: &[String]) -> Result<()> {
    steps.run("C compiler", system::require_c_compiler)?;
    match arguments {
        [first, arguments @ ..] if first == "verify" || first == "choices" => {
            steps.run("benchmark", || native(tree, first, "", arguments))
        }
        [first, arguments @ ..] if first == "component" => {
            component::run(tree, steps, false)?;
            steps.run("benchmark", || native(tree, "component", "sandbox", arguments))
        }
        _ => beside_rivals(tree, steps, arguments),
    }
}

/// A benchmark of the host, in Rust alone.
fn native(tree: &Tree, name: &str, features: &str, arguments: &[String]) -> Result<()> {
    let mut bench = cargo(tree);
    bench.args(["bench", "--package", "zrecord-host", "--no-default-features"]);
    bench.args(["--features", features, "--bench", name, "--"]);
    // Compiled components are kept in the repository, as all else is.
    bench.env("XDG_CACHE_HOME", tree.path("target/cache"));
    command::run(bench.args(arguments))
}

/// Build the wheel, install it beside its rivals and time them in turn.
fn beside_rivals(tree: &Tree, steps: &mut Steps, arguments: &[String]) -> Result<()> {
    let environment = steps.run("Python environment .venv-bench", || {
        Environment::prepare(tree, ".venv-bench", "bench.txt")
    })?;
    steps.run("rivals", || {
        rivals::install(tree, &environment, "bench.txt", "bench-rivals.txt")?;
        rivals::install_newest(tree, &environment, "bench-newest.txt")
    })?;
    wheel::install(tree, steps, &environment, Extent::Plain, Profile::Release)?;
    let limits = steps.run("limits program", || limits(tree))?;
    let torch = if arguments.iter().any(|argument| argument == TORCH) {
        Some(with_torch(tree, steps)?)
    } else {
        None
    };
    steps.run("benchmark", || {
        let mut bench = environment.command(tree);
        bench.arg("py-host/bench/run.py").arg("--limits").arg(&limits);
        if let Some(torch) = &torch {
            bench.arg("--torch-python").arg(torch.python());
        }
        command::run(bench.args(arguments.iter().filter(|argument| *argument != TORCH)))
    })
}

/// The environment with torch and what needs it. It is larger than all else.
fn with_torch(tree: &Tree, steps: &mut Steps) -> Result<Environment> {
    let environment = steps.run("Python environment .venv-bench-torch", || {
        Environment::prepare(tree, ".venv-bench-torch", "bench-torch.txt")
    })?;
    steps.run("rivals with torch", || {
        rivals::install(tree, &environment, "bench-torch.txt", "bench-torch-rivals.txt")?;
        wheel::install_built(tree, &environment)
    })?;
    Ok(environment)
}

/// The path of the program that copies and decodes as fast as the machine can.
fn limits(tree: &Tree) -> Result<PathBuf> {
    let mut build = cargo(tree);
    build.args(["build", "--release", "--package", "zrecord-host", "--no-default-features"]);
    command::run(build.args(["--example", "limits"]))?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| tree.path("target"), PathBuf::from);
    let name = format!("limits{}", std::env::consts::EXE_SUFFIX);
    let path = target.join("release/examples").join(name);
    path.canonicalize().with_context(|| format!("cargo did not leave {}", path.display()))
}
