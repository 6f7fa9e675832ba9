//! Stores read and changed inside a WebAssembly sandbox: for data that need
//! not be trusted. In builds with the feature `sandbox`.
//!
//! The component of `guest/` is embedded: the core, compiled to wasm, with no
//! import but the files of one directory. It parses and decodes; the host
//! takes locks, serves bytes by position, and stops it where it meets one of
//! its [`Limits`]. Whatever a store holds, what comes of it is records or an
//! error.
//!
//! ```no_run
//! use zrecord_host::sandbox::{Limits, Sandbox};
//!
//! let store = Sandbox::open("from-somebody.zr", Limits::new().memory(256 << 20))?;
//! let mut first = vec![0; usize::try_from(store.lengths(&[0])?[0]).unwrap_or(0)];
//! store.gather(&[0], &mut first, &[0])?;
//! # Ok::<(), zrecord_host::Error>(())
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | `store`, `fork` | [`Sandbox`]: how it is opened and closed, also after a fork |
//! | `reading`, `writing`, `inspect`, `verify`, `convert` | what it does |
//! | `limits`, `failure` | [`Limits`], and [`SandboxError`] where one is met |
//! | `instance`, `ticker` | one component at work; the clock that stops it |
//! | `engine`, `cache`, `compiled` | compiled components, kept between runs |
//! | `files`, `lent` | what is lent to it |
//! | `bindings`, `wire` | its contract; its words and the core's |

/// The Rust example of `docs/COMPONENT.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/COMPONENT.md")]
struct Document;

#[allow(unsafe_code, reason = "generated: how wasmtime lays out values of the contract")]
mod bindings;
#[doc(hidden)] // For tests across the parts.
pub mod cache;
#[allow(unsafe_code, reason = "loads machine code, whose origin the cache has checked")]
mod compiled;
mod convert;
mod engine;
mod failure;
mod files;
mod fork;
mod inspect;
mod instance;
mod lent;
mod limits;
mod reading;
pub mod step;
mod store;
mod ticker;
mod verify;
mod wire;
mod writing;

pub use convert::convert;
pub use failure::SandboxError;
pub use limits::{CALL_BYTES_MIN, Limits};
pub use store::Sandbox;
pub use verify::verify;
