//! Zrecord's native host: memory maps, positional IO, threads, libzstd and
//! locks around the logic of [`zrecord_core`].
//!
//! ```
//! use zrecord_host::{Mode, OpenOptions, Store};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("words.zr");
//! let store = OpenOptions::new().mode(Mode::Append).open(&path)?;
//! let first = store.append(b"onetwothree", &[0, 3, 6], None)?;
//! assert_eq!(first, 0);
//!
//! let mut words = [0; 8];
//! store.gather(&[2, 0], &mut words, &[0, 5])?;
//! assert_eq!(&words, b"threeone");
//! store.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | `store`, `options`, `error` | [`Store`], how it is opened, what can go wrong |
//! | `dataset` | typed views: [`DenseDataset`], [`RaggedDataset`] |
//! | `loader` | [`Loader`]: endless batches in an order that can be resumed; [`Batches`]: one pass |
//! | `prefetch`, `buffer` | results made ahead, in order; memory that is recycled |
//! | `sampler_simd` | the sampler's batch fill for the CPU at hand |
//! | `handle`, `writing`, `append` | one process's hold of a store, and its changes |
//! | `gather`, `copying`, `strided` | planning a batch, and carrying it out |
//! | `table`, `chunks`, `mapping` | bytes of files, mapped or read by position |
//! | `guard` | what happens when a mapped file is cut while it is read |
//! | `directory`, `lock`, `process` | the file system, locks between processes, which one this is |
//! | `pool`, `crew` | threads, and the work that they share for a moment |
//! | `convert`, `verify`, `inspect` | between the formats; what is wrong; what is there |
//! | `successor` | a store that grows beside the place it will take |
//! | `sandbox` | stores that are read inside WebAssembly; with the feature of that name |
//! | `inspector` | a page that looks into one store, on loopback; with the feature `view` |
//! | `repair`, `salvage` | saving what is intact of a damaged store |
#![deny(unsafe_code)]

mod append;
pub mod buffer;
mod chunk_file;
mod chunks;
pub mod convert;
mod copying;
mod crew;
pub mod dataset;
mod dictionaries;
pub mod directory;
pub mod error;
mod gather;
pub mod guard;
mod handle;
pub mod inspect;
#[cfg(feature = "view")]
pub mod inspector;
pub mod loader;
mod lock;
mod mapping;
pub mod options;
pub mod pool;
pub mod prefetch;
pub mod process;
mod readahead;
pub mod repair;
mod salvage;
#[allow(unsafe_code, reason = "calls a function compiled for the CPU at hand")]
pub mod sampler_simd;
#[cfg(feature = "sandbox")]
pub mod sandbox;
pub mod store;
mod strided;
pub mod successor;
mod table;
mod verified;
pub mod verify;
pub mod view;
mod writing;

pub use buffer::{Buffer, BufferPool, BufferPoolOptions};
pub use convert::convert;
pub use dataset::{DenseDataset, RaggedBatch, RaggedDataset, TypedStore};
pub use error::{Error, Result};
pub use inspect::Inspection;
#[cfg(feature = "view")]
pub use inspector::{Inspector, InspectorOptions};
pub use loader::{
    Batch, BatchSource, Batches, BatchesOptions, BoxError, Column, Difference, Loader, LoaderError,
    LoaderOptions, LoaderState, Resumption, SharedError, StateError, Stream, StreamState, Streams,
};
pub use options::{Io, Mode, OpenOptions, Verify};
pub use prefetch::{PrefetchError, PrefetchOptions, Prefetcher};
pub use repair::repair;
#[cfg(feature = "sandbox")]
pub use sandbox::{Limits, Sandbox, SandboxError};
pub use store::Store;
pub use successor::Successor;
pub use verify::{Verdict, verify};
pub use view::View;

pub use zrecord_core as core;
pub use zrecord_core::codec::{Codec, Preset};
pub use zrecord_core::dtype::Dtype;
pub use zrecord_core::format::Format;
pub use zrecord_core::sampler::{Mode as SamplerMode, Sampler, SamplerOptions};
pub use zrecord_core::schema::{Kind, Schema};
pub use zrecord_core::usage::Stats;
pub use zrecord_core::verify::Fault;
pub use zrecord_core::writer::{Compaction, Progress};
