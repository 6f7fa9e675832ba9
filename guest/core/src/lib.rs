//! The logic of Zrecord: two on-disk formats, per-record codecs, schema,
//! sampler, and the one writing path, all of it pure.
//!
//! Core plans and transforms; hosts execute. Nothing here opens a file, starts
//! a thread or reads a clock: whatever touches the outside comes in through
//! the traits of [`storage`], so the same code runs inside the native host,
//! inside the WebAssembly component, and over a memory full of injected
//! faults in the tests.
//!
//! Reading downwards is getting closer to the disk:
//!
//! | module | holds |
//! | --- | --- |
//! | [`store`] | the sequential reference [`Store`](store::Store): every operation, one thread |
//! | [`writer`] | append, sync, delete, compact, train: the only code that changes a store |
//! | [`convert`] | rewriting a store in the other format |
//! | [`recovery`] | what a store holds after a writer died, decided by reading |
//! | [`salvage`] | opening what is left of a damaged store |
//! | [`reader`] | opening, the record table, stored bytes by position |
//! | [`codec`] | raw, zstd, zstd with a dictionary; packing one record |
//! | [`schema`], [`dtype`] | what the bytes of a record mean |
//! | [`format`](mod@format) | headers, entries and commit slots of both formats as bytes |
//! | [`storage`] | the seam to whoever holds the files |
//! | [`usage`], [`summary`] | what the chunks hold; counts of a range of records |
//! | [`verify`] | what is wrong with a store |
//! | [`memory`] | taking it without a panic |
//! | [`sampler`] | which records come next: a pure function of `(seed, step)` |
#![forbid(unsafe_code)]

pub mod codec;
pub mod convert;
pub mod dtype;
pub mod error;
pub mod format;
pub mod memory;
mod overlap;
pub mod reader;
pub mod recovery;
pub mod salvage;
pub mod sampler;
pub mod schema;
pub mod storage;
pub mod store;
pub mod summary;
pub mod usage;
pub mod verify;
pub mod writer;

pub use error::{Error, Result};
