//! Read-only memory maps of files that grow: one of the named files that may
//! hold unsafe code.
#![expect(unsafe_code, reason = "memory maps are read through pointers")]

use std::fs::File;
use std::io;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(unix)]
use memmap2::Advice;
use memmap2::{MmapOptions, MmapRaw};

/// Whether the system maps past the end of a file, so that a mapping made once
/// holds what is appended later.
pub(crate) const MAPS_PAST_END: bool = cfg!(unix);
/// Whether address space is large enough to reserve whole chunks in it.
pub(crate) const ROOMY: bool = cfg!(target_pointer_width = "64");

/// A part of a file, mapped for reading.
///
/// Invariants:
///
/// 1. `raw` spans `len()` bytes of address space, which stay mapped, read-only
///    and in place until the mapping is dropped.
/// 2. Touching bytes past the end of the file raises SIGBUS, which ends the
///    process but breaks no rule of the language; whoever reads has compared
///    with the file's size, as far as sizes can tell.
/// 3. Bytes that a commit counts are never written again by this project, so
///    a slice of them does not change under its reader. Foreign programs that
///    overwrite them are outside every promise; checksums tell.
/// 4. Headers do change. They are only read by [`load_u32`](Self::load_u32)
///    and [`load_u64`](Self::load_u64).
#[derive(Debug)]
pub(crate) struct Mapping {
    raw: MmapRaw,
}

impl Mapping {
    /// Maps `len` bytes of `file` from `offset`, which is a multiple of 64 KiB.
    /// Where the system cannot map past the end, as far as the file goes.
    pub(crate) fn new(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        let len = if MAPS_PAST_END {
            len
        } else {
            let there = file.metadata()?.len().saturating_sub(offset);
            usize::try_from(there).unwrap_or(usize::MAX).min(len)
        };
        let mut options = MmapOptions::new();
        let raw = options.offset(offset).len(len).no_probe_handle().map_raw_read_only(file)?;
        // Batches jump about: what lies around a record is of no use. Advice
        // that is not taken does no harm.
        #[cfg(unix)]
        let _ = raw.advise(Advice::Random);
        Ok(Self { raw })
    }

    /// How many bytes are mapped.
    pub(crate) fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether `len` bytes at `offset` are mapped.
    fn spans(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len())
    }

    /// A pointer to a mapped byte, or just past the last.
    fn pointer(&self, offset: usize) -> *const u8 {
        assert!(offset <= self.len());
        // SAFETY: within the mapping, or just past it (invariant 1).
        unsafe { self.raw.as_ptr().add(offset) }
    }

    /// Copies the bytes at `offset` into `dst`; false when they are not all
    /// mapped.
    #[must_use]
    pub(crate) fn copy(&self, offset: usize, dst: &mut [u8]) -> bool {
        if !self.spans(offset, dst.len()) {
            return false;
        }
        let source = self.pointer(offset);
        // SAFETY: `dst.len()` bytes are mapped from `source` on (invariant 1),
        // and `dst`, which is borrowed mutably, is no part of the mapping.
        unsafe { source.copy_to_nonoverlapping(dst.as_mut_ptr(), dst.len()) };
        true
    }

    /// The committed bytes at `offset`; `None` when they are not all mapped.
    pub(crate) fn bytes(&self, offset: usize, len: usize) -> Option<&[u8]> {
        if !self.spans(offset, len) {
            return None;
        }
        // SAFETY: `len` bytes are mapped from there on for as long as `self`
        // is borrowed (invariant 1) and do not change (invariant 3).
        Some(unsafe { slice::from_raw_parts(self.pointer(offset), len) })
    }

    /// A little-endian word of the header; `None` when it is not mapped.
    pub(crate) fn load_u32(&self, offset: usize) -> Option<u32> {
        if !self.spans(offset, size_of::<u32>()) || !offset.is_multiple_of(align_of::<u32>()) {
            return None;
        }
        let word = self.pointer(offset).cast_mut().cast::<u32>();
        // SAFETY: mapped (invariant 1) and aligned, since mappings begin at
        // multiples of a page; only ever loaded from, never stored to, and
        // read no other way (invariant 4).
        let word = unsafe { AtomicU32::from_ptr(word) };
        Some(u32::from_le(word.load(Ordering::Acquire)))
    }

    /// As [`load_u32`](Self::load_u32), twice as wide.
    pub(crate) fn load_u64(&self, offset: usize) -> Option<u64> {
        if !self.spans(offset, size_of::<u64>()) || !offset.is_multiple_of(align_of::<u64>()) {
            return None;
        }
        let word = self.pointer(offset).cast_mut().cast::<u64>();
        // SAFETY: as in `load_u32`.
        let word = unsafe { AtomicU64::from_ptr(word) };
        Some(u64::from_le(word.load(Ordering::Acquire)))
    }
}
