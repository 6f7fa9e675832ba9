//! `cargo xtask lint`: formatting, lints and documentation, warnings refused.

use anyhow::Result;

use crate::command::{self, cargo};
use crate::component;
use crate::steps::Steps;
use crate::system;
use crate::targets;
use crate::tree::Tree;
use crate::web;

/// Check formatting, lints and documentation of the whole workspace.
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
    steps.run("documentation", || {
        let mut doc = cargo(tree);
        doc.args(["doc", "--quiet", "--workspace", "--no-deps"]);
        command::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
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
    web::build(tree, steps)?;
    steps.run("lints of the sandbox and of the view", || {
        let mut clippy = cargo(tree);
        clippy.arg("clippy");
        for package in ["zrecord-host", "zrecord-py", "zrecord-tests"] {
            clippy.args(["--package", package, "--features", &format!("{package}/sandbox")]);
        }
        clippy.args(["--features", "zrecord-host/view,zrecord-py/view"]);
        command::run(clippy.args(["--all-targets", "--", "-D", "warnings"]))?;
        let mut doc = cargo(tree);
        doc.args(["doc", "--quiet", "--package", "zrecord-host", "--features", "sandbox,view"]);
        command::run(doc.arg("--no-deps").env("RUSTDOCFLAGS", "-D warnings"))
    })
}
