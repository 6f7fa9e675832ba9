//! Tests across the parts: what no single crate can check about itself.
//!
//! Each file under `tests/` has one theme. This library holds the examples of
//! the project's `README.md`, which are compiled and run as doctests, so a
//! newcomer never copies a line that does not work; and what the fuzz targets
//! do, in [`fuzz`].

pub mod fuzz;

/// The Rust examples of `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct ReadmeExamples;
