//! `cargo xtask kill`: workers killed at random moments, as many as asked for.

use anyhow::Result;

use crate::command::{self, cargo};
use crate::steps::Steps;
use crate::system;
use crate::tree::Tree;

/// Kill `rounds` workers and print what that has met.
///
/// # Errors
///
/// At the first promise that is broken; the message names round and seed.
pub fn run(tree: &Tree, steps: &mut Steps, rounds: u64, seed: u64) -> Result<()> {
    steps.run("C compiler", system::require_c_compiler)?;
    steps.run("kills", || {
        command::run(
            cargo(tree)
                .args(["test", "--quiet", "--package", "zrecord-tests", "--test", "kill"])
                .args(["--", "--nocapture", "what_a_killed_process_has_acknowledged_is_there"])
                .env("ZRECORD_KILLS", rounds.to_string())
                .env("ZRECORD_SEED", seed.to_string()),
        )
    })
}
