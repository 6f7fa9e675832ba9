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

/// How much of a record is asked for ahead; the processor sees by itself where
/// a longer copy is going.
const PREFETCH_BYTES: usize = 256;
const CACHE_LINE: usize = 64;

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
        match self.bytes(offset, dst.len()) {
            Some(source) => {
                vectors::copy(source, dst);
                true
            }
            None => false,
        }
    }

    /// Asks the processor for the first bytes at `offset`, which are about to
    /// be read. Only a hint: nothing happens when they are not mapped, or
    /// where there is no such instruction.
    pub(crate) fn prefetch(&self, offset: usize, len: usize) {
        if let Some(bytes) = self.bytes(offset, len.min(PREFETCH_BYTES)) {
            bytes.iter().step_by(CACHE_LINE).for_each(vectors::prefetch);
        }
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

/// Copying, with a detour around a trap of the C library.
#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::{
        __m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_storeu_si128,
    };
    use std::array;

    const PAGE_SIZE: usize = 4096;
    /// A destination that lies less than this many bytes past its source,
    /// modulo a page, makes glibc's copy five times slower on Zen 3: each load
    /// seems to depend on the store just before it. It is the common case of
    /// records that begin on pages and a destination from `malloc`, which
    /// begins 16 bytes into one.
    const TRAP_BYTES: usize = 32;
    /// Shorter copies do not step into it.
    const TRAP_LEN_MIN: usize = 1024;

    const VECTOR: usize = size_of::<__m128i>();
    const VECTORS_PER_BLOCK: usize = 8;
    const BLOCK: usize = VECTOR * VECTORS_PER_BLOCK;

    pub(super) fn copy(source: &[u8], dst: &mut [u8]) {
        let distance = dst.as_ptr().addr().wrapping_sub(source.as_ptr().addr()) % PAGE_SIZE;
        if source.len() < TRAP_LEN_MIN || distance == 0 || distance >= TRAP_BYTES {
            dst.copy_from_slice(source);
            return;
        }
        let (source_blocks, source_rest) = source.as_chunks::<BLOCK>();
        let (dst_blocks, dst_rest) = dst.as_chunks_mut::<BLOCK>();
        for (source, dst) in source_blocks.iter().zip(dst_blocks) {
            let (source, _) = source.as_chunks::<VECTOR>();
            let loaded: [__m128i; VECTORS_PER_BLOCK] = array::from_fn(|at| load(&source[at]));
            let (dst, _) = dst.as_chunks_mut::<VECTOR>();
            for (dst, vector) in dst.iter_mut().zip(loaded) {
                store(dst, vector);
            }
        }
        dst_rest.copy_from_slice(source_rest);
    }

    pub(super) fn prefetch(byte: &u8) {
        let line = std::ptr::from_ref(byte).cast();
        // SAFETY: a prefetch reads nothing and faults on nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
    }

    fn load(source: &[u8; VECTOR]) -> __m128i {
        // SAFETY: as many bytes are borrowed; the load needs no alignment.
        unsafe { _mm_loadu_si128(source.as_ptr().cast()) }
    }

    fn store(dst: &mut [u8; VECTOR], vector: __m128i) {
        // SAFETY: as many bytes are borrowed mutably; the store needs no
        // alignment.
        unsafe { _mm_storeu_si128(dst.as_mut_ptr().cast(), vector) };
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn every_distance_and_length_is_copied() {
            let source: Vec<u8> = (0..9_000_u16).map(|at| (at % 251).to_le_bytes()[0]).collect();
            for distance in 0..40 {
                for len in [0, 1, 1_023, 1_024, 1_150, 4_096, 5_000] {
                    // So that the two lie that far apart, modulo a page.
                    let mut dst = vec![0; 4_096 + 40 + len];
                    let apart = dst.as_ptr().addr().wrapping_sub(source.as_ptr().addr());
                    let start = (distance + 4_096 - apart % 4_096) % 4_096;
                    super::copy(&source[..len], &mut dst[start..start + len]);
                    assert_eq!(dst[start..start + len], source[..len]);
                    assert!(dst[start + len..].iter().all(|byte| *byte == 0));
                }
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod vectors {
    pub(super) fn copy(source: &[u8], dst: &mut [u8]) {
        dst.copy_from_slice(source);
    }

    pub(super) fn prefetch(_: &u8) {}
}
