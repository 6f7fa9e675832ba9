//! Read-only memory maps of files that grow: one of the named files that may
//! hold unsafe code.
#![expect(unsafe_code, reason = "memory maps are read through pointers")]

use std::fs::File;
use std::io;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(unix)]
use memmap2::Advice;
use memmap2::{MmapOptions, MmapRaw};

use crate::guard::Watch;

/// Whether the system maps past the end of a file, so that a mapping made once
/// holds what is appended later.
pub(crate) const MAPS_PAST_END: bool = cfg!(unix);
/// Whether address space is large enough to reserve whole chunks in it.
pub(crate) const ROOMY: bool = cfg!(target_pointer_width = "64");

/// How much of a record is asked for ahead. The processor sees by itself where
/// a longer copy is going, but not past the end of a page: of the further ones
/// the beginning is asked for too, and so where they lie.
const PREFETCH_BYTES: usize = 1024;
const PREFETCH_PAGE_BYTES: usize = 128;
/// Of a record that is longer much of that would be gone before it is used.
const PREFETCH_PAGES_MAX: usize = 16;
const PAGE_SIZE: usize = 4096;
const CACHE_LINE: usize = 64;

/// A part of a file, mapped for reading.
///
/// Invariants:
///
/// 1. `raw` spans `len()` bytes of address space, which stay mapped, readable
///    and in place until the mapping is dropped.
/// 2. Touching bytes past the end of the file raises SIGBUS. The
///    [guard](crate::guard) then puts zeros there, or the process ends; either
///    breaks no rule of the language. Whoever reads has compared with the
///    file's size, and asks [`is_damaged`](Self::is_damaged) afterwards.
/// 3. Bytes may change at any time: this project writes none that a commit
///    counts, but other programs can, and so does the guard. So nothing here
///    makes a reference to them, but for invariant 5. They are copied out by
///    pointer, each once, and what is checked and decoded is the copy.
/// 4. Headers change in words. They are only read by
///    [`load_u32`](Self::load_u32) and [`load_u64`](Self::load_u64).
/// 5. [`lend`](Self::lend) alone hands out a slice. It is for a view, whose
///    contract leaves it to the user that nobody else writes the file.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// Before `raw`, since fields are dropped in this order: what is not mapped
    /// any more must not be guarded.
    watch: Watch,
    raw: MmapRaw,
    /// What the system was told last of how it is read.
    is_scanned: AtomicBool,
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
        let watch = Watch::new()?;
        let mut options = MmapOptions::new();
        let raw = options.offset(offset).len(len).no_probe_handle().map_raw_read_only(file)?;
        // Batches jump about: what lies around a record is of no use. Advice
        // that is not taken does no harm.
        #[cfg(unix)]
        let _ = raw.advise(Advice::Random);
        let start = raw.as_ptr().addr();
        watch.cover(start..start.saturating_add(raw.len()));
        Ok(Self { watch, raw, is_scanned: AtomicBool::new(false) })
    }

    /// How many bytes are mapped.
    pub(crate) fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether a file that is cut leaves the process alive.
    #[cfg(feature = "sandbox")]
    pub(crate) fn is_guarded(&self) -> bool {
        self.watch.is_guarded()
    }

    /// Whether a part of the file was gone when it was read, so that zeros
    /// were read instead. It stays so: what this maps is not to be read again.
    pub(crate) fn is_damaged(&self) -> bool {
        self.watch.is_damaged()
    }

    /// A pointer to `len` mapped bytes at `offset`; `None` when they are not
    /// all mapped.
    fn pointer(&self, offset: usize, len: usize) -> Option<*const u8> {
        let end = offset.checked_add(len)?;
        if end > self.len() {
            return None;
        }
        // SAFETY: within the mapping, or just past it (invariant 1).
        Some(unsafe { self.raw.as_ptr().add(offset) })
    }

    /// Copies the bytes at `offset` into `dst`; false when they are not all
    /// mapped.
    #[must_use]
    pub(crate) fn copy(&self, offset: usize, dst: &mut [u8]) -> bool {
        let Some(source) = self.pointer(offset, dst.len()) else { return false };
        // SAFETY: as many bytes are mapped there, for as long as `self` is
        // borrowed (invariant 1). They are not the caller's `dst`, since
        // nobody has a mutable slice of a mapping.
        unsafe { vectors::copy(source, dst) };
        true
    }

    /// As [`copy`](Self::copy), but past the cache where the processor can:
    /// for destinations that are larger than it, of which nothing is read again
    /// at once.
    #[must_use]
    pub(crate) fn stream(&self, offset: usize, dst: &mut [u8]) -> bool {
        let Some(source) = self.pointer(offset, dst.len()) else { return false };
        // SAFETY: as in `copy`.
        unsafe { vectors::stream(source, dst) };
        true
    }

    /// Asks the processor for the first of the bytes at `offset`, which are about
    /// to be read. Only a hint: nothing happens when they are not mapped, or
    /// where there is no such instruction.
    pub(crate) fn prefetch(&self, offset: usize, len: usize) {
        let Some(start) = self.pointer(offset, len) else { return };
        let ask = |first: usize, last: usize| {
            // From where the line of the first byte begins, or a short stretch
            // over the end of a line would be asked for in part.
            let (first, last) = (start.wrapping_add(first), start.wrapping_add(last.min(len)));
            (first.addr() & !(CACHE_LINE - 1)..last.addr())
                .step_by(CACHE_LINE)
                .for_each(|line| vectors::prefetch(first.with_addr(line)));
        };
        ask(0, PREFETCH_BYTES);
        if len > PREFETCH_BYTES {
            let next_page = PAGE_SIZE - start.addr() % PAGE_SIZE;
            let pages = (next_page..len).step_by(PAGE_SIZE).take(PREFETCH_PAGES_MAX);
            pages.for_each(|page| ask(page, page + PREFETCH_PAGE_BYTES));
        }
    }

    /// Tells the system whether it is read in order from here on, so that it
    /// reads ahead by itself, or at random.
    pub(crate) fn expect_scan(&self, is_scan: bool) {
        if self.is_scanned.load(Ordering::Relaxed) == is_scan {
            return;
        }
        self.is_scanned.store(is_scan, Ordering::Relaxed);
        // Not that it is read in order, which Linux believes of a map only from
        // its first byte on: elsewhere it would read a piece, and wait, each time.
        #[cfg(unix)]
        let _ = self.raw.advise(if is_scan { Advice::Normal } else { Advice::Random });
    }

    /// Asks the system to read the bytes at `offset` into memory, if they are
    /// not there, and does not wait for it.
    pub(crate) fn will_need(&self, offset: usize, len: usize) {
        #[cfg(unix)]
        if self.pointer(offset, len).is_some() {
            // Advice that is not taken does no harm.
            let _ = self.raw.advise_range(Advice::WillNeed, offset, len);
        }
        #[cfg(not(unix))]
        let _ = (offset, len);
    }

    /// The bytes at `offset`, for a view; `None` when they are not all mapped.
    pub(crate) fn lend(&self, offset: usize, len: usize) -> Option<&[u8]> {
        let start = self.pointer(offset, len)?;
        // SAFETY: `len` bytes are mapped from there on for as long as `self`
        // is borrowed (invariant 1), and whoever has a view keeps others from
        // writing them (invariant 5).
        Some(unsafe { slice::from_raw_parts(start, len) })
    }

    /// A little-endian word of the header; `None` when it is not mapped.
    pub(crate) fn load_u32(&self, offset: usize) -> Option<u32> {
        let word = self.pointer(offset, size_of::<u32>())?.cast_mut().cast::<u32>();
        if !word.is_aligned() {
            return None;
        }
        // SAFETY: mapped (invariant 1), aligned, and read no other way
        // (invariant 4).
        let word = unsafe { AtomicU32::from_ptr(word) };
        // Memory that cannot be written allows for relaxed loads alone.
        let value = u32::from_le(word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        Some(value)
    }

    /// As [`load_u32`](Self::load_u32), twice as wide.
    pub(crate) fn load_u64(&self, offset: usize) -> Option<u64> {
        let word = self.pointer(offset, size_of::<u64>())?.cast_mut().cast::<u64>();
        if !word.is_aligned() {
            return None;
        }
        // SAFETY: as in `load_u32`.
        let word = unsafe { AtomicU64::from_ptr(word) };
        let value = u64::from_le(word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        Some(value)
    }
}

/// Copying, with a detour around a trap of the C library.
#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::{
        __cpuid, __m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_sfence, _mm_storeu_si128,
        _mm_stream_si128,
    };
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::{array, ptr};

    use super::{CACHE_LINE, PAGE_SIZE};

    /// On AMD's processors, a destination that lies less than this many bytes
    /// past its source, modulo a page, makes glibc's copy five times slower (on
    /// Zen 3): each load seems to depend on the store just before it. It is the
    /// common case of records that begin on pages and a destination from
    /// `malloc`, which begins 16 bytes into one.
    const TRAP_BYTES: usize = 32;
    /// There our own loop is also faster for copies up to this length: they are
    /// over before the C library has looked which of its ways to take. On Intel's
    /// the C library, which writes whole lines, is a quarter faster at any length.
    const SHORT_LEN_MAX: usize = 1024;

    /// What [`is_amd`] has found. No lock: a fork could leave it held in the
    /// child. Who asks at once finds the same.
    static MAKER: AtomicU8 = AtomicU8::new(UNKNOWN);
    const UNKNOWN: u8 = 0;
    const AMD: u8 = 1;
    const OTHER: u8 = 2;

    /// Whether the processor is of the maker on whose the detour pays.
    fn is_amd() -> bool {
        match MAKER.load(Ordering::Relaxed) {
            UNKNOWN => {
                let maker = ask_for_maker();
                MAKER.store(maker, Ordering::Relaxed);
                maker == AMD
            }
            maker => maker == AMD,
        }
    }

    #[cold]
    fn ask_for_maker() -> u8 {
        if cfg!(miri) {
            // It does not know the instruction.
            return OTHER;
        }
        let answer = __cpuid(0);
        let name = [answer.ebx, answer.edx, answer.ecx].map(u32::to_le_bytes);
        // The second has the first one's design.
        match name.as_flattened() {
            b"AuthenticAMD" | b"HygonGenuine" => AMD,
            _ => OTHER,
        }
    }

    const VECTOR: usize = size_of::<__m128i>();
    const VECTORS_PER_BLOCK: usize = 8;
    const BLOCK: usize = VECTOR * VECTORS_PER_BLOCK;
    /// How far ahead of a long copy its source is asked for, in bytes: the
    /// processor looks ahead no farther than to the end of a page.
    const AHEAD: usize = 1024;

    /// Copies as many bytes as `dst` has.
    ///
    /// # Safety
    ///
    /// They can be read at `source` and are not those of `dst`. They may
    /// change meanwhile: each is read once, as it is then.
    #[inline]
    pub(super) unsafe fn copy(source: *const u8, dst: &mut [u8]) {
        if is_amd() {
            // SAFETY: the caller's promise.
            return unsafe { copy_around(source, dst) };
        }
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(source, dst.as_mut_ptr(), dst.len()) };
    }

    /// As [`copy`], by loops of our own where the C library's is slow.
    ///
    /// # Safety
    ///
    /// As of [`copy`].
    #[inline]
    unsafe fn copy_around(source: *const u8, dst: &mut [u8]) {
        if dst.len() <= SHORT_LEN_MAX {
            // SAFETY: the caller's promise.
            return unsafe { copy_blocks::<0>(source, dst, store) };
        }
        let distance = dst.as_ptr().addr().wrapping_sub(source.addr()) % PAGE_SIZE;
        if distance == 0 || distance >= TRAP_BYTES {
            // SAFETY: the caller's promise.
            unsafe { ptr::copy_nonoverlapping(source, dst.as_mut_ptr(), dst.len()) };
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { copy_blocks::<AHEAD>(source, dst, store) };
    }

    /// As [`copy`], with stores that leave the cache as it is: each line is
    /// written without being read first.
    ///
    /// # Safety
    ///
    /// As of [`copy`].
    pub(super) unsafe fn stream(source: *const u8, dst: &mut [u8]) {
        if cfg!(miri) {
            // It does not know the instruction.
            // SAFETY: the caller's promise.
            return unsafe { copy(source, dst) };
        }
        let head = dst.as_ptr().align_offset(VECTOR).min(dst.len());
        let (head, aligned) = dst.split_at_mut(head);
        // SAFETY: the first of the bytes that can be read.
        unsafe { ptr::copy_nonoverlapping(source, head.as_mut_ptr(), head.len()) };
        // SAFETY: the rest of them.
        unsafe { copy_blocks::<AHEAD>(source.wrapping_add(head.len()), aligned, store_past_cache) };
        // So that other threads see what was written once they see what comes
        // after it.
        // SAFETY: every processor of this architecture has the instruction.
        unsafe { _mm_sfence() };
    }

    /// Copies a block of vectors at a time: all are loaded before any is stored.
    /// What lies `AHEAD` bytes on is asked for, unless that is 0.
    ///
    /// # Safety
    ///
    /// As of [`copy`].
    #[inline(always)]
    unsafe fn copy_blocks<const AHEAD: usize>(
        source: *const u8,
        dst: &mut [u8],
        store: impl Fn(&mut [u8; VECTOR], __m128i),
    ) {
        let (blocks, rest) = dst.as_chunks_mut::<BLOCK>();
        let mut source = source;
        for block in blocks {
            if AHEAD > 0 {
                prefetch(source.wrapping_add(AHEAD));
                prefetch(source.wrapping_add(AHEAD + CACHE_LINE));
            }
            let loaded: [__m128i; VECTORS_PER_BLOCK] = array::from_fn(|at| {
                let vector = source.wrapping_add(at * VECTOR).cast();
                // SAFETY: within the bytes that can be read, a block of them
                // for each of `dst`; the load needs no alignment.
                unsafe { _mm_loadu_si128(vector) }
            });
            let (vectors, _) = block.as_chunks_mut::<VECTOR>();
            for (vector, loaded) in vectors.iter_mut().zip(loaded) {
                store(vector, loaded);
            }
            source = source.wrapping_add(BLOCK);
        }
        let (vectors, rest) = rest.as_chunks_mut::<VECTOR>();
        for vector in vectors {
            // SAFETY: as above.
            let loaded = unsafe { _mm_loadu_si128(source.cast()) };
            store(vector, loaded);
            source = source.wrapping_add(VECTOR);
        }
        if !rest.is_empty() {
            // SAFETY: what is left of the bytes that can be read.
            unsafe { ptr::copy_nonoverlapping(source, rest.as_mut_ptr(), rest.len()) };
        }
    }

    pub(super) fn prefetch(line: *const u8) {
        // SAFETY: a prefetch reads nothing and faults on nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }

    fn store(dst: &mut [u8; VECTOR], vector: __m128i) {
        // SAFETY: as many bytes are borrowed mutably; the store needs no
        // alignment.
        unsafe { _mm_storeu_si128(dst.as_mut_ptr().cast(), vector) };
    }

    fn store_past_cache(dst: &mut [u8; VECTOR], vector: __m128i) {
        let dst = dst.as_mut_ptr().cast::<__m128i>();
        assert!(dst.is_aligned());
        // SAFETY: as many bytes are borrowed mutably, and it is aligned.
        unsafe { _mm_stream_si128(dst, vector) };
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn every_distance_and_length_is_copied() {
            let source: Vec<u8> = (0..9_000_u16).map(|at| (at % 251).to_le_bytes()[0]).collect();
            let step = if cfg!(miri) { 16 } else { 1 };
            for distance in (0..40).step_by(step) {
                for len in [0, 1, 1_023, 1_024, 1_150, 4_096, 5_000] {
                    // So that the two lie that far apart, modulo a page.
                    let mut dst = vec![0; 4_096 + 40 + len];
                    let apart = dst.as_ptr().addr().wrapping_sub(source.as_ptr().addr());
                    let start = (distance + 4_096 - apart % 4_096) % 4_096;
                    let part = &mut dst[start..start + len];
                    assert!(len <= source.len());
                    type Copy = unsafe fn(*const u8, &mut [u8]);
                    for copy in [super::copy as Copy, super::copy_around, super::stream] {
                        part.fill(0);
                        // SAFETY: as many bytes are borrowed.
                        unsafe { copy(source.as_ptr(), part) };
                        assert_eq!(*part, source[..len]);
                    }
                    assert!(dst[start + len..].iter().all(|byte| *byte == 0));
                }
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod vectors {
    use std::ptr;

    /// Copies as many bytes as `dst` has.
    ///
    /// # Safety
    ///
    /// They can be read at `source` and are not those of `dst`. They may
    /// change meanwhile: each is read once, as it is then.
    pub(super) unsafe fn copy(source: *const u8, dst: &mut [u8]) {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(source, dst.as_mut_ptr(), dst.len()) };
    }

    /// As [`copy`]: there is no other way here.
    ///
    /// # Safety
    ///
    /// As of [`copy`].
    pub(super) unsafe fn stream(source: *const u8, dst: &mut [u8]) {
        // SAFETY: the caller's promise.
        unsafe { copy(source, dst) };
    }

    pub(super) fn prefetch(_: *const u8) {}
}
