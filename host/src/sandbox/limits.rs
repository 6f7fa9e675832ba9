//! What a sandbox may use at most, and what it is told beyond that.

use std::time::Duration;

use wasmtime::{ResourceLimiter, Result};

use crate::sandbox::failure::SandboxError;

/// The least that [`Limits::call_bytes`] may be: the component reads and writes
/// files in pieces of so many bytes.
pub const CALL_BYTES_MIN: u64 = 8 << 20;

/// What a call has besides the bytes of records: a dictionary or a block of
/// the record table, ends of records, names.
const CALL_EXTRA_BYTES: u64 = 16 << 20;

/// A component of ours has one memory, and a few small instances around it.
const MEMORIES_MAX: usize = 4;
const TABLES_MAX: usize = 16;
const INSTANCES_MAX: usize = 16;
const TABLE_ELEMENTS_MAX: usize = 1 << 16;

/// What one sandbox may use.
///
/// A limit that is met is a [`SandboxError`](crate::sandbox::SandboxError) that
/// names it. Where the component had to be stopped for it, that ends the
/// sandbox. A record longer than [`call_bytes`](Self::call_bytes) is the core's
/// `TooLarge` instead, and harms nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The most bytes that the component's linear memory may have. 1 GiB
    /// unless set; a record is decoded whole, so one of `n` bytes needs about
    /// `2 n`.
    pub memory: u64,
    /// How long one call into the component may take, by the clock, reading
    /// files included. 60 seconds unless set, and exact to some hundredths of
    /// a second. An operation that works in slices (a large gather, a
    /// verification, a conversion) has it for each of them. It is the
    /// component that is interrupted: a system call that hangs is not.
    pub time: Duration,
    /// The most bytes that one call hands from files to the component, or
    /// takes from it: what the host will allocate for a call. 64 MiB unless
    /// set, 8 MiB at least. Gathers of more are split; a single record of more
    /// cannot be gathered.
    pub call_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 1 << 30, time: Duration::from_mins(1), call_bytes: 64 << 20 }
    }
}

impl Limits {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the most bytes of memory.
    #[must_use]
    pub fn memory(self, memory: u64) -> Self {
        Self { memory, ..self }
    }

    /// Sets the time that one call may take.
    #[must_use]
    pub fn time(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// Sets the most bytes that one call copies.
    #[must_use]
    pub fn call_bytes(self, call_bytes: u64) -> Self {
        Self { call_bytes, ..self }
    }

    /// Refuses what no store could be opened with.
    pub(crate) fn check(&self) -> zrecord_core::Result<()> {
        if self.call_bytes >= CALL_BYTES_MIN {
            return Ok(());
        }
        let reason = format!("{} bytes; at least {CALL_BYTES_MIN} are needed", self.call_bytes);
        Err(zrecord_core::Error::InvalidArgument { argument: "call_bytes", reason })
    }

    /// What wasmtime counts down while it copies values out of the component.
    pub(crate) fn hostcall_fuel(&self) -> usize {
        usize::try_from(self.call_bytes.saturating_add(CALL_EXTRA_BYTES)).unwrap_or(usize::MAX)
    }
}

/// Says no to memory beyond the limit, and remembers it: the component itself
/// could only stop without a word.
#[derive(Debug)]
pub(crate) struct Limiter {
    memory: u64,
    /// What all memories of the sandbox have by now.
    used: u64,
    /// It has said no since [`begin_call`](Self::begin_call).
    refused: bool,
}

impl Limiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { memory: limits.memory, used: 0, refused: false }
    }

    /// Forgets what was refused before.
    pub(crate) fn begin_call(&mut self) {
        self.refused = false;
    }

    /// The error to report for a call that failed after it was refused memory.
    pub(crate) fn refusal(&self) -> Option<SandboxError> {
        self.refused.then_some(SandboxError::Memory { limit: self.memory })
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        let used = self.used.saturating_add(desired.saturating_sub(current) as u64);
        let is_within = used <= self.memory;
        if is_within {
            self.used = used;
        }
        self.refused |= !is_within;
        Ok(is_within)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        Ok(desired <= TABLE_ELEMENTS_MAX)
    }

    fn instances(&self) -> usize {
        INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        TABLES_MAX
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX
    }
}
