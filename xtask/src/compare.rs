//! `cargo xtask compare`: what becomes of stores and processes when something
//! goes wrong, beside loaderx.

use anyhow::Result;

use crate::command;
use crate::python::Environment;
use crate::steps::Steps;
use crate::tree::Tree;
use crate::wheel;

/// Build the wheel, and run each test in turn with it and with loaderx, which
/// has an environment of its own.
///
/// # Errors
///
/// When a build fails, or when Zrecord gives a wrong answer, crashes or hangs.
pub fn run(tree: &Tree, steps: &mut Steps, arguments: &[String]) -> Result<()> {
    let environment = wheel::install_for_development(tree, steps)?;
    let peer = steps.run("peer environment .venv-loaderx", || {
        Environment::prepare(tree, ".venv-loaderx", "loaderx.txt")
    })?;
    steps.run("comparison", || {
        let mut compare = environment.command(tree);
        compare.arg("py-host/bench/reliability.py").arg("--peer").arg(peer.python());
        command::run(compare.args(arguments))
    })
}
