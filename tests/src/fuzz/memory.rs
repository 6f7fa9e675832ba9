//! How much memory an input may cost.
//!
//! A program that counts has `#[global_allocator]` of [`PeakAlloc`]: the fuzz
//! targets and the test that replays the corpus. Memory that C code takes is
//! not seen: libzstd's contexts and digested dictionaries, each of at most a
//! few times the dictionary's size. libFuzzer's `-rss_limit_mb` bounds the
//! whole.

pub use peak_alloc::PeakAlloc;

/// Runs `work`, and panics when it had more than `limit` bytes at once, beyond
/// those that were in use before.
///
/// Only one thread of the program may measure at a time.
pub fn bounded<T>(limit: usize, work: impl FnOnce() -> T) -> T {
    let allocator = PeakAlloc;
    allocator.reset_peak_usage();
    let before = allocator.current_usage();
    let result = work();
    let taken = allocator.peak_usage().saturating_sub(before);
    assert!(taken <= limit, "{taken} bytes of memory were taken at once; the bound is {limit}");
    result
}

/// Whether this program counts its memory: what it has at least is what is
/// held here, whatever other threads take and give back meanwhile.
pub fn is_counted() -> bool {
    let held = std::hint::black_box(vec![1_u8; 1 << 16]);
    PeakAlloc.current_usage() >= held.len()
}
