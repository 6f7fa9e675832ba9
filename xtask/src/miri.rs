//! `cargo xtask miri`: tests run by an interpreter that knows the rules of the
//! language and stops where one is broken.
//!
//! It runs no C and maps no files. So the core is run with its pure codec, and
//! of the host what needs neither: the threads, the buffers, the bookkeeping
//! of the guard, and the copying.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{self, cargo, succeeds};
use crate::steps::Steps;
use crate::tree::Tree;

/// Of the core: not what counts millions of draws of the sampler, which takes
/// hours here and is arithmetic alone.
const CORE_SKIPPED: [&str; 3] = ["sampler::statistics", "sampler::tests", "sampler::vectors"];
/// Of the host, by module.
const HOST: [&str; 4] = ["buffer::", "guard::", "mapping::", "verified::"];
/// What shares out work is judged by the newer model of borrows: the queues of
/// the pool's own library break the older one. Its threads have no end.
const SHARED: &str = "crew::";
const SHARED_FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-ignore-leaks";
/// Of prefetching: not what makes hundreds of threads, nor panics whose message
/// is left undropped for good, since its drop may panic too: a leak, as Miri has it.
const PREFETCH_SKIPPED: [&str; 5] = [
    "a_thousand_prefetchers",
    "dropping_at_any_moment",
    "no_more_than_prefetch_results",
    "results_come_in_step_order",
    "values_that_panic_when_dropped",
];

/// The whole job.
///
/// # Errors
///
/// When the tool is not installed, a test fails or breaks a rule.
pub fn run(tree: &Tree, steps: &mut Steps) -> Result<()> {
    steps.run("Miri", require_miri)?;
    steps.run("core, with the pure codec", || {
        let mut miri = miri(tree);
        miri.args(["--package", "zrecord-core", "--lib"]);
        miri.args(["--no-default-features", "--features", "ruzstd", "--"]);
        for skipped in CORE_SKIPPED {
            miri.args(["--skip", skipped]);
        }
        command::run(&mut miri)
    })?;
    steps.run("host, what maps no file", || {
        let mut miri = miri(tree);
        miri.args(["--package", "zrecord-host", "--no-default-features", "--lib", "--"]);
        command::run(miri.args(HOST))
    })?;
    steps.run("host, shared work", || {
        let mut miri = miri(tree);
        miri.env("MIRIFLAGS", SHARED_FLAGS);
        miri.args(["--package", "zrecord-host", "--no-default-features", "--lib", "--"]);
        command::run(miri.arg(SHARED))
    })?;
    steps.run("host, prefetching", || {
        let mut miri = miri(tree);
        miri.args(["--package", "zrecord-host", "--no-default-features", "--test", "prefetch"]);
        miri.arg("--");
        for skipped in PREFETCH_SKIPPED {
            miri.args(["--skip", skipped]);
        }
        command::run(&mut miri)
    })
}

fn require_miri() -> Result<()> {
    if succeeds(Command::new("cargo").args(["+nightly", "miri", "--version"])) {
        return Ok(());
    }
    bail!(
        "Miri is not installed; `rustup toolchain install nightly --component miri,rust-src` \
         installs it"
    )
}

/// `cargo miri test`, with clocks and folders as they are.
fn miri(tree: &Tree) -> Command {
    let mut miri = Command::new("cargo");
    miri.current_dir(tree.root());
    for (name, _) in cargo(tree).get_envs() {
        miri.env_remove(name);
    }
    // This program was started by another toolchain's cargo, which says so.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        miri.env_remove(name);
    }
    miri.env("MIRIFLAGS", "-Zmiri-disable-isolation");
    // Drawn cases are hundreds of times slower here, and break no new rule.
    miri.env("PROPTEST_CASES", "2");
    miri.args(["+nightly", "miri", "test"]);
    miri
}
