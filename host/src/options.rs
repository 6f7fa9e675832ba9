//! How a store is opened.

use std::path::Path;

use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::{PackPolicy, Packer};
use zrecord_core::codec::{Codec, Preset};
use zrecord_core::format::Format;

use crate::error::Result;
use crate::pool;
use crate::store::Store;

/// What a handle may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Reads; needs no write permission and writes nothing.
    #[default]
    Read,
    /// Opens or creates, parent directories too. The writer's lock is taken by
    /// the first change, not by opening.
    Append,
    /// Creates; an existing store is an error.
    Create,
}

/// When the checksums of an extended store are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verify {
    /// The first time that the handle reads a record.
    #[default]
    First,
    /// Whenever a record is read.
    Always,
    /// Not at all.
    Never,
}

/// How stored bytes are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Io {
    /// From memory maps, where the system can make them; else as
    /// [`Pread`](Self::Pread).
    #[default]
    Map,
    /// By positional reads.
    Pread,
}

/// How a store is opened: a builder.
///
/// ```no_run
/// # use zrecord_host::{Mode, OpenOptions};
/// let store = OpenOptions::new().mode(Mode::Append).open("train.zr")?;
/// # Ok::<(), zrecord_host::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OpenOptions {
    /// What the handle may do.
    pub mode: Mode,
    /// The codec of appended records, unless the store has a schema or the
    /// append names one.
    pub codec: Codec,
    /// The format of a new store; an existing one must have it.
    pub format: Option<Format>,
    /// The zstd level, or the codec's own.
    pub level: Option<i32>,
    /// What zstd frames are made for, beside their size.
    pub preset: Option<Preset>,
    /// The share of its bytes that a record must save to be stored compressed,
    /// or the format's own: 0.05 in extended stores, 0 in classic ones.
    pub min_saving: Option<f64>,
    /// When checksums are compared.
    pub verify: Verify,
    /// How stored bytes are read.
    pub io: Io,
    /// Whether locks are taken. Without them nothing keeps other processes
    /// from writing at the same time.
    pub lock: bool,
    /// The most threads that work on one call, from 1 to 4096, or what the
    /// environment variable `ZRECORD_THREADS` says, or as many as the process
    /// may use: its affinity and its control group's quota are respected.
    pub threads: Option<usize>,
    /// Begins a new chunk when one would grow beyond these bytes, or at the
    /// format's limit.
    pub chunk_size_max: Option<u64>,
    /// The id of a new store; drawn at random unless given.
    pub(crate) id: Option<[u8; 16]>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            codec: Codec::Zstd,
            format: None,
            level: None,
            preset: None,
            min_saving: None,
            verify: Verify::default(),
            io: Io::default(),
            lock: true,
            threads: None,
            chunk_size_max: None,
            id: None,
        }
    }
}

impl OpenOptions {
    /// The defaults: reading, checksums on first touch, memory maps, locks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what the handle may do.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Sets the codec of appended records.
    #[must_use]
    pub fn codec(self, codec: Codec) -> Self {
        Self { codec, ..self }
    }

    /// Sets the format of a new store, which an existing one must have.
    #[must_use]
    pub fn format(self, format: Format) -> Self {
        Self { format: Some(format), ..self }
    }

    /// Sets the zstd level.
    #[must_use]
    pub fn level(self, level: i32) -> Self {
        Self { level: Some(level), ..self }
    }

    /// Sets what zstd frames are made for.
    #[must_use]
    pub fn preset(self, preset: Preset) -> Self {
        Self { preset: Some(preset), ..self }
    }

    /// Sets the share that compressing must save.
    #[must_use]
    pub fn min_saving(self, min_saving: f64) -> Self {
        Self { min_saving: Some(min_saving), ..self }
    }

    /// Sets when checksums are compared.
    #[must_use]
    pub fn verify(self, verify: Verify) -> Self {
        Self { verify, ..self }
    }

    /// Sets how stored bytes are read.
    #[must_use]
    pub fn io(self, io: Io) -> Self {
        Self { io, ..self }
    }

    /// Sets whether locks are taken.
    #[must_use]
    pub fn lock(self, lock: bool) -> Self {
        Self { lock, ..self }
    }

    /// Sets the most threads that work on one call.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// Sets the size at which a new chunk begins.
    #[must_use]
    pub fn chunk_size_max(self, bytes: u64) -> Self {
        Self { chunk_size_max: Some(bytes), ..self }
    }

    /// Refuses what no append or gather could be done with, before anything is
    /// opened or created.
    pub(crate) fn check(&self) -> zrecord_core::Result<()> {
        pool::thread_count(self.threads)?;
        let policy = self.policy(self.codec, Format::Extended);
        policy.check()?;
        // The level too, whatever the codec.
        Packer::<Libzstd>::new(PackPolicy { codec: Codec::Zstd, ..policy }, None).map(drop)
    }

    /// How records are packed with `codec` in a store of `format`.
    pub(crate) fn policy(&self, codec: Codec, format: Format) -> PackPolicy {
        let policy = PackPolicy::new(codec, format);
        let min_saving = self.min_saving.unwrap_or(policy.min_saving);
        PackPolicy { level: self.level, preset: self.preset, min_saving, ..policy }
    }

    /// Opens or creates the store at `path`.
    ///
    /// # Errors
    ///
    /// As [`Store::open_with`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Store> {
        Store::open_with(path, self)
    }
}
