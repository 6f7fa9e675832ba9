//! Memory for batches: aligned, and recycled when its last owner lets go.
//!
//! Two measurements shape this file. A copy into memory that begins sixteen
//! bytes into a page, as `malloc` gives out, took five to six times as long as
//! one into aligned memory; and a fresh destination of 38 MB took 33 ms where
//! a warm one took 4, all of it page faults. So a [`Buffer`] begins on a cache
//! line, a large one on a page, and goes back to its [`BufferPool`] when it is
//! dropped, to be handed out again while it is still warm.
//!
//! Nothing here is unsafe: a block is an ordinary zeroed allocation with room
//! to spare, and the buffer begins at the first aligned byte in it. (Asking
//! the allocator for the alignment would be worse: on unix it then zeroes by
//! writing, which touches every page before anybody needs it.)

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;

use crate::process;

/// What every buffer is aligned to, in bytes: a cache line, and the widest
/// vector register.
pub const ALIGNMENT: usize = 64;
/// What a buffer of at least this size is aligned to, in bytes.
pub const PAGE_SIZE: usize = 4096;
/// Size classes in each doubling, so at most an eighth is allocated in vain.
const CLASSES_PER_DOUBLING: usize = 8;
/// A block is not given to a request of less than its size divided by this.
const WASTE_MAX: usize = 2;

/// One allocation, and where its aligned part begins.
struct Block {
    bytes: Vec<u8>,
    start: usize,
}

impl Block {
    /// Zeroed memory for `capacity` bytes; the system maps it when it is touched.
    fn allocate(capacity: usize) -> io::Result<Self> {
        let alignment = if capacity >= PAGE_SIZE { PAGE_SIZE } else { ALIGNMENT };
        let size = capacity.checked_add(alignment).ok_or(io::ErrorKind::OutOfMemory)?;
        let bytes: Vec<u8> = bytemuck::allocation::try_zeroed_vec(size)
            .map_err(|()| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let start = bytes.as_ptr().addr().wrapping_neg() % alignment;
        Ok(Self { bytes, start })
    }

    /// The bytes from the first aligned one on.
    fn capacity(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// True if this block serves a request of `len` bytes without much waste.
    fn fits(&self, len: usize) -> bool {
        len <= self.capacity() && self.capacity() / WASTE_MAX <= len
    }
}

/// Rounds `len` up to the size that is allocated for it, so that a slightly
/// different batch finds the block of the last one large enough.
fn size_class(len: usize) -> Option<usize> {
    if len <= PAGE_SIZE {
        return Some(len.max(1).next_multiple_of(ALIGNMENT));
    }
    let step = len.checked_next_power_of_two()? / (2 * CLASSES_PER_DOUBLING);
    len.checked_next_multiple_of(step.max(PAGE_SIZE))
}

/// Bytes that belong to whoever holds them, and to the pool again when dropped.
///
/// Begins on a multiple of [`ALIGNMENT`], and of [`PAGE_SIZE`] from that size
/// on. Dereferences to exactly the bytes that were asked for. **A recycled
/// buffer still holds what its last owner wrote**: whoever takes one must fill
/// it wholly, or [`fill`](slice::fill) it with zeros first.
///
/// A buffer may outlive its pool; its memory is freed with it then.
pub struct Buffer {
    block: Block,
    len: usize,
    pool: Weak<Shared>,
}

impl Buffer {
    /// A zeroed buffer that belongs to no pool.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::OutOfMemory`] if the system has no `len` bytes.
    pub fn zeroed(len: usize) -> io::Result<Self> {
        Self::allocate(len, Weak::new())
    }

    fn allocate(len: usize, pool: Weak<Shared>) -> io::Result<Self> {
        let capacity = size_class(len).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { block: Block::allocate(capacity)?, len, pool })
    }

    /// How many bytes it could hold.
    pub fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Gives up the bytes from `len` on. Does nothing if there are none.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block.bytes[self.block.start..][..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.block.bytes[self.block.start..][..self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl fmt::Debug for Buffer {
    /// Hand-written: the derived one would print every byte of a batch.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            let block = mem::replace(&mut self.block, Block { bytes: Vec::new(), start: 0 });
            pool.give_back(block);
        }
    }
}

/// How much memory a [`BufferPool`] keeps while nobody uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferPoolOptions {
    /// Idle buffers, at most.
    pub idle_count_max: usize,
    /// Bytes in idle buffers, at most.
    pub idle_bytes_max: usize,
}

impl Default for BufferPoolOptions {
    /// 16 buffers and 512 MiB.
    fn default() -> Self {
        Self { idle_count_max: 16, idle_bytes_max: 512 << 20 }
    }
}

/// Where dropped buffers wait to be used again. Clones share one pool.
///
/// The bounds are on *idle* memory: any number of buffers may be out at once,
/// and those that come back to a full pool push out the ones that waited
/// longest. The buffer handed out is the fitting one that came back last, the
/// one that is most likely still in the cache.
///
/// A forked child begins with an empty pool: another thread of its parent may
/// have held the pool's lock at that moment, and would hold it for ever.
#[derive(Clone)]
pub struct BufferPool {
    shared: Arc<Shared>,
}

struct Shared {
    options: BufferPoolOptions,
    shelf: ArcSwap<Shelf>,
}

/// The idle blocks of one process, the longest idle first.
struct Shelf {
    process: u32,
    blocks: Mutex<VecDeque<Block>>,
}

impl BufferPool {
    /// An empty pool.
    pub fn new(options: BufferPoolOptions) -> Self {
        let shelf = ArcSwap::from_pointee(Shelf::new());
        Self { shared: Arc::new(Shared { options, shelf }) }
    }

    /// The pool of the whole process, for whoever has no better one.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<BufferPool> = LazyLock::new(BufferPool::default);
        &SHARED
    }

    /// A buffer of `len` bytes with **any contents**: see [`Buffer`].
    ///
    /// # Panics
    ///
    /// If the system has no `len` bytes; [`try_take`](Self::try_take) does not.
    pub fn take(&self, len: usize) -> Buffer {
        match self.try_take(len) {
            Ok(buffer) => buffer,
            Err(error) => panic!("no memory for a batch of {len} bytes: {error}"),
        }
    }

    /// A buffer of `len` bytes with **any contents**: see [`Buffer`].
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::OutOfMemory`] if the system has no `len` bytes.
    pub fn try_take(&self, len: usize) -> io::Result<Buffer> {
        let pool = Arc::downgrade(&self.shared);
        // The system's allocator recycles what is smaller than a page.
        if len < PAGE_SIZE {
            return Buffer::allocate(len, Weak::new());
        }
        match self.shared.find(len) {
            Some(block) => Ok(Buffer { block, len, pool }),
            None => Buffer::allocate(len, pool),
        }
    }

    /// How many buffers wait to be used again.
    pub fn idle_count(&self) -> usize {
        self.shared.shelf().blocks().len()
    }

    /// How many bytes the waiting buffers hold.
    pub fn idle_bytes(&self) -> usize {
        self.shared.shelf().blocks().iter().map(Block::capacity).sum()
    }

    /// Frees the waiting buffers.
    pub fn clear(&self) {
        let blocks = mem::take(&mut *self.shared.shelf().blocks());
        drop(blocks);
    }
}

impl Default for BufferPool {
    fn default() -> Self {
        Self::new(BufferPoolOptions::default())
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool")
            .field("options", &self.shared.options)
            .field("idle_count", &self.idle_count())
            .finish()
    }
}

impl Shared {
    /// The shelf of this process, a new one in a forked child.
    fn shelf(&self) -> Arc<Shelf> {
        let shelf = self.shelf.load_full();
        if shelf.process == process::id() {
            return shelf;
        }
        // The parent's shelf may have been locked, or half changed, when the
        // fork copied it: it is left alone, and so leaked.
        mem::forget(self.shelf.swap(Arc::new(Shelf::new())));
        mem::forget(shelf);
        self.shelf.load_full()
    }

    fn find(&self, len: usize) -> Option<Block> {
        let shelf = self.shelf();
        let mut blocks = shelf.blocks();
        let position = blocks.iter().rposition(|block| block.fits(len))?;
        blocks.remove(position)
    }

    fn give_back(&self, block: Block) {
        let capacity = block.capacity();
        if capacity > self.options.idle_bytes_max || self.options.idle_count_max == 0 {
            return;
        }
        let shelf = self.shelf();
        let mut blocks = shelf.blocks();
        let mut bytes = blocks.iter().map(Block::capacity).sum::<usize>() + capacity;
        let mut evicted = Vec::new();
        while blocks.len() >= self.options.idle_count_max || bytes > self.options.idle_bytes_max {
            let Some(oldest) = blocks.pop_front() else { break };
            bytes -= oldest.capacity();
            evicted.push(oldest);
        }
        blocks.push_back(block);
        // Unmapping large blocks takes a while; nobody should wait for it.
        drop(blocks);
        drop(evicted);
    }
}

impl Shelf {
    fn new() -> Self {
        Self { process: process::id(), blocks: Mutex::new(VecDeque::new()) }
    }

    fn blocks(&self) -> MutexGuard<'_, VecDeque<Block>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_have_the_exact_length() {
        let pool = BufferPool::default();
        let large = if cfg!(miri) { 80_000 } else { 3 << 20 };
        for len in [0, 1, 63, 64, 100, 4095, 4096, 4097, 70_000, large] {
            let mut buffer = pool.take(len);
            let alignment = if len >= PAGE_SIZE { PAGE_SIZE } else { ALIGNMENT };
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr().addr() % alignment, 0, "{len} bytes");
            buffer.fill(7);
            assert!(buffer.iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn the_last_buffer_that_fits_comes_back() {
        let pool = BufferPool::default();
        let (first, second) = (pool.take(100_000), pool.take(100_000));
        let (first_address, second_address) = (first.as_ptr().addr(), second.as_ptr().addr());
        drop(first);
        drop(second);
        let again = pool.take(99_000);
        assert_eq!(again.as_ptr().addr(), second_address);
        assert_eq!(pool.take(101_000).as_ptr().addr(), first_address, "a class covers both");
    }

    #[test]
    fn a_small_request_does_not_hold_a_large_block() {
        let pool = BufferPool::default();
        drop(pool.take(1 << 20));
        assert!(pool.take(10_000).capacity() < 20_000);
        assert_eq!(pool.idle_count(), 2);
    }

    #[test]
    fn idle_memory_is_bounded_in_count_and_in_bytes() {
        let options = BufferPoolOptions { idle_count_max: 3, idle_bytes_max: 1 << 20 };
        let pool = BufferPool::new(options);
        let out: Vec<_> = (0..10).map(|_| pool.take(100_000)).collect();
        drop(out);
        assert_eq!(pool.idle_count(), 3);
        let out: Vec<_> = (0..3).map(|_| pool.take(500_000)).collect();
        drop(out);
        assert!(pool.idle_bytes() <= 1 << 20, "{}", pool.idle_bytes());
        drop(pool.take(2 << 20));
        assert!(pool.idle_bytes() <= 1 << 20);
        pool.clear();
        assert_eq!((pool.idle_count(), pool.idle_bytes()), (0, 0));
    }

    #[test]
    fn a_buffer_outlives_its_pool() {
        let pool = BufferPool::default();
        let mut buffer = pool.take(10_000);
        drop(pool);
        buffer.fill(1);
        assert_eq!(buffer.len(), 10_000);
    }

    #[test]
    fn truncating_keeps_the_front() {
        let mut buffer = BufferPool::shared().take(5000);
        buffer.copy_from_slice(&[3; 5000]);
        buffer.truncate(9000);
        assert_eq!(buffer.len(), 5000);
        buffer.truncate(2);
        assert_eq!(*buffer, [3, 3]);
    }

    #[test]
    fn impossible_sizes_are_errors() {
        for len in [usize::MAX, usize::MAX - PAGE_SIZE, usize::MAX / 2] {
            let error = BufferPool::default().try_take(len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        }
    }

    #[test]
    fn size_classes_waste_at_most_an_eighth_of_large_buffers() {
        for len in [32_769, 40_000, 65_537, 1_000_000, (1 << 20) + 1, 38_400_000] {
            let class = size_class(len).unwrap();
            assert!(class >= len && class - len <= len.div_ceil(CLASSES_PER_DOUBLING), "{len}");
        }
    }

    #[test]
    fn threads_share_a_pool() {
        let pool = BufferPool::default();
        let rounds = if cfg!(miri) { 4 } else { 200 };
        std::thread::scope(|scope| {
            for id in 0..4_u8 {
                let pool = pool.clone();
                scope.spawn(move || {
                    for round in 0..rounds {
                        let mut buffer = pool.take(8192 + round * 64);
                        buffer.fill(id);
                        assert!(buffer.iter().all(|&byte| byte == id));
                    }
                });
            }
        });
        assert!(pool.idle_count() <= BufferPoolOptions::default().idle_count_max);
    }
}
