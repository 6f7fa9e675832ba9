//! The component: Zrecord's core behind a WIT interface, for any component
//! runtime.
//!
//! This crate is a shell. It will hold the generated bindings of
//! `zrecord:store` and one thin `impl` per exported resource that converts
//! arguments, calls [`zrecord_core`], and converts the answer back. Formats,
//! codecs, samplers and every decision live in the core, where native code
//! uses the very same text; nothing here may decide anything.
//!
//! The bindings are not written yet. What exists is what they will stand on:
//! the core, built for wasm with its pure-Rust codec and no import at all.
//!
//! On a native target this crate is empty: a native linker would reject the
//! symbols that bindings export.

#[cfg(target_family = "wasm")]
pub use zrecord_core as core;
