//! What the fuzz targets do: generators that turn any bytes into something
//! hostile, and oracles that panic when the code under test breaks a promise.
//!
//! The crate in `fuzz/` hands its inputs to [`TARGETS`] and holds nothing of
//! its own; ordinary tests hand the same functions the saved corpus and
//! inputs made from seeds. An oracle demands:
//!
//! - no panic, and an end in reasonable time (libFuzzer's `-timeout`);
//! - no more memory than the target states, see [`memory`];
//! - nothing but bytes that were stored: the host's reader, the sequential
//!   core and what the format's text says of the raw bytes must agree.
//!
//! | target | holds |
//! | --- | --- |
//! | [`open`] | reading a store with anything in each of its files |
//! | [`writer`] | changing such a store |
//! | [`codec`] | decoding frames, and packing and unpacking records |
//! | [`schema`] | schemas, dtypes and the saved states of loaders |
//! | [`sampler`] | arguments of samplers |
//! | [`operations`] | sequences of operations, and arguments of gathers, against a model |
#![expect(clippy::unwrap_used, reason = "an oracle panics when something is wrong")]
#![expect(clippy::cast_possible_truncation, reason = "a hostile number may be any")]

pub mod bases;
pub mod choices;
pub mod codec;
pub mod image;
pub mod memory;
pub mod observe;
pub mod open;
pub mod operations;
pub mod sampler;
pub mod schema;
pub mod steps;
pub mod subject;
pub mod writer;

/// One target: what it is called, and what it does with an input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: of the fuzz target, and of the folder of its corpus.
    pub name: &'static str,
    /// Runs one input; panics at a finding.
    pub run: fn(&[u8]),
}

/// All there are.
pub const TARGETS: [Target; 6] = [
    Target { name: "codec", run: codec::run },
    Target { name: "open", run: open::run },
    Target { name: "operations", run: operations::run },
    Target { name: "sampler", run: sampler::run },
    Target { name: "schema", run: schema::run },
    Target { name: "writer", run: writer::run },
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
