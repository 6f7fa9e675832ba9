//! Tests across the parts: what no single crate can check about itself.
//!
//! Each file under `tests/` has one theme. This library holds what they share
//! with programs that run longer: the [crash simulator](crash), and what the
//! [fuzz targets](fuzz) do; and the examples of the project's `README.md`,
//! which are compiled and run as doctests, so a newcomer never copies a line
//! that does not work.

#[cfg(feature = "sandbox")]
pub mod component;
#[cfg(feature = "sandbox")]
pub mod conformance;
pub mod crash;
pub mod fuzz;
pub mod golden;

/// The Rust examples of `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct ReadmeExamples;

#[cfg(unix)]
pub mod alone;
pub mod kill;
pub mod worker;
pub mod workload;
