//! `cargo xtask compare`: what becomes of stores and processes when something
//! goes wrong, beside loaderx.

use anyhow::Result;

use crate::command;
use crate::python::Environment;
use crate::steps::Steps;
use crate::tree::Tree;
use crate::wheel::{self, Extent, Profile};

/// Build the wheel, and run each test in turn with it and with loaderx, which
/// has an environment of its own. Arguments are those of the second step's
/// program, `py-host/bench/reliability.py`.
///
/// # Errors
///
/// When a build fails, or when Zrecord gives a wrong answer, crashes or hangs.
pub fn run(tree: &Tree, steps: &mut Steps, arguments: &[String]) -> Result<()> {
    let environment = wheel::install_for_development(tree, steps, Extent::Plain, Profile::Release)?;
    let peer = steps.run("peer environment .venv-loaderx", || {
        Environment::prepare(tree, ".venv-loaderx", "loaderx.txt")
    })?;
    steps.run("damaged stores", || {
        let mut compare = environment.command(tree);
        compare.arg("py-host/bench/integrity.py").arg("--other-python").arg(peer.python());
        command::run(&mut compare)
    })?;
    steps.run("processes and crashes", || {
        let mut compare = environment.command(tree);
        compare.arg("py-host/bench/reliability.py").arg("--peer").arg(peer.python());
        command::run(compare.args(arguments))
    })
}
