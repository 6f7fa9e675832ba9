//! `cargo xtask demo`: the main job on real data, for a newcomer.

use anyhow::Result;

use crate::command;
use crate::steps::Steps;
use crate::tree::Tree;
use crate::wheel::{self, Extent, Profile};

/// Build, install and run the demonstration.
///
/// # Errors
///
/// When a build fails, or when a claim of the demonstration does not hold.
pub fn run(tree: &Tree, steps: &mut Steps) -> Result<()> {
    let environment = wheel::install_for_development(tree, steps, Extent::Plain, Profile::Release)?;
    steps.run("demonstration", || {
        let mut program = environment.command(tree);
        // Relative, since the program prints it for the reader to use.
        command::run(program.args(["py-host/demo/demo.py", "--out", "target/demo"]))
    })
}
