//! Other systems, checked from this one: they compile, though they do not run.
//!
//! The C of libzstd is compiled by zig, which comes as a Python package and
//! holds the headers of every system, so no cross compiler is needed.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{self, cargo};
use crate::component;
use crate::python::Environment;
use crate::steps::Steps;
use crate::system;
use crate::tree::Tree;
use crate::web;

/// Where the component runs.
pub const WASM: &str = "wasm32-unknown-unknown";
/// The systems that the native host supports beside glibc Linux.
const NATIVE: [&str; 3] =
    ["x86_64-pc-windows-gnu", "aarch64-apple-darwin", "x86_64-unknown-linux-musl"];

/// The whole job.
///
/// # Errors
///
/// When a tool is missing or a target does not compile.
pub fn run(tree: &Tree, steps: &mut Steps) -> Result<()> {
    steps.run("C compiler", system::require_c_compiler)?;
    component::run(tree, steps, false)?;
    web::build(tree, steps)?;
    check(tree, steps)
}

/// The steps of the job, for a larger one that has checked for a C compiler and
/// built the page.
///
/// # Errors
///
/// When a tool is missing or a target does not compile.
pub fn check(tree: &Tree, steps: &mut Steps) -> Result<()> {
    let tools = steps.run("tools for other targets", || {
        install(&[&NATIVE[..], &[WASM]].concat())?;
        Environment::prepare(tree, ".venv-tools", "tools.txt")
    })?;
    steps.run(&format!("check {WASM}"), || check_wasm(tree))?;
    for target in NATIVE {
        steps.run(&format!("check {target}"), || check_native(tree, &tools, target))?;
    }
    Ok(())
}

/// Core must compile with no system below it, and both worlds of the component
/// around it.
fn check_wasm(tree: &Tree) -> Result<()> {
    let check = |package: &str| {
        let mut check = cargo(tree);
        check.args(["check", "--quiet", "--target", WASM, "--package", package]);
        check
    };
    command::run(check("zrecord-core").args(["--no-default-features", "--features", "ruzstd"]))?;
    command::run(&mut check("zrecord-guest"))?;
    command::run(check("zrecord-guest").args(["--features", "edit"]))
}

fn check_native(tree: &Tree, tools: &Environment, target: &str) -> Result<()> {
    let program = tools.programs().join("cargo-zigbuild");
    command::run(
        Command::new(program)
            .current_dir(tree.root())
            .env("PATH", command::path_with(&tools.programs())?)
            .args(["check", "--quiet", "--package", "zrecord-core"])
            .args(["--package", "zrecord-host", "--features", "zrecord-host/view"])
            .args(["--target", target]),
    )
}

/// Add those of the targets `wanted` that the toolchain in use lacks.
///
/// # Errors
///
/// When there is no rustup, or it cannot add one; the message says what to do.
pub fn install(wanted: &[&str]) -> Result<()> {
    let sysroot = command::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let has = |target: &&str| {
        std::path::Path::new(&sysroot).join("lib/rustlib").join(target).join("lib").is_dir()
    };
    let missing: Vec<&str> = wanted.iter().filter(|target| !has(target)).copied().collect();
    if missing.is_empty() {
        println!("  every target is installed");
        return Ok(());
    }
    let list = missing.join(" ");
    if !command::succeeds(Command::new("rustup").arg("--version")) {
        bail!(
            "the targets {list} are missing and there is no rustup to add them: add their std by hand"
        );
    }
    command::run(Command::new("rustup").args(["target", "add"]).args(&missing)).with_context(|| {
        format!("cannot add the targets; with a network run `rustup target add {list}`")
    })
}
