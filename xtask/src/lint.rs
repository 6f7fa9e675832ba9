//! `cargo xtask lint`: formatting and lints, warnings refused.

use anyhow::Result;

use crate::command::{self, cargo};
use crate::component;
use crate::steps::Steps;
use crate::system;
use crate::targets;
use crate::tree::Tree;

/// Check formatting and lints of the whole workspace.
///
/// # Errors
///
/// At the first check that does not pass.
pub fn run(tree: &Tree, steps: &mut Steps) -> Result<()> {
    steps.run("C compiler", system::require_c_compiler)?;
    steps.run("formatting", || command::run(cargo(tree).args(["fmt", "--all", "--check"])))?;
    steps.run("lints", || {
        command::run(cargo(tree).args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))
    })?;
    // Natively it is empty.
    steps.run("lints of the component", || {
        targets::install(&[targets::WASM])?;
        for features in ["", "edit"] {
            let mut clippy = cargo(tree);
            clippy.args(["clippy", "--package", "zrecord-guest", "--target", targets::WASM]);
            clippy.args(["--features", features, "--", "-D", "warnings"]);
            command::run(&mut clippy)?;
        }
        let mut clippy = cargo(tree);
        clippy.args(["clippy", "--target", targets::WASM]);
        for step in component::STEPS {
            clippy.args(["--package", &format!("zrecord-step-{step}")]);
        }
        command::run(clippy.args(["--", "-D", "warnings"]))
    })?;
    component::run(tree, steps, false)?;
    steps.run("lints of the sandbox", || {
        for package in ["zrecord-host", "zrecord-tests"] {
            let mut clippy = cargo(tree);
            clippy.args(["clippy", "--package", package, "--features", "sandbox"]);
            command::run(clippy.args(["--all-targets", "--", "-D", "warnings"]))?;
        }
        Ok(())
    })
}
