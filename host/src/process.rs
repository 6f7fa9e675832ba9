//! Which process this is, for little: one of the named files that may hold
//! unsafe code.
//!
//! Handles ask with every batch, so that the child of a fork does not use what
//! belongs to its parent. On Linux the answer is kept on a page that the kernel
//! empties in every such child, however it was made; elsewhere, and where the
//! kernel does not, the system is asked each time.
#![cfg_attr(all(target_os = "linux", not(miri)), expect(unsafe_code, reason = "advice for a page"))]

/// The number of this process, as [`std::process::id`] has it.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub fn id() -> u32 {
    std::process::id()
}

#[cfg(all(target_os = "linux", not(miri)))]
pub use kept::id;

#[cfg(all(target_os = "linux", not(miri)))]
mod kept {
    use std::process;
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
    use std::{mem, ptr};

    use libc::{MADV_WIPEONFORK, c_int, c_void};
    use memmap2::MmapMut;

    /// Where the number is kept: null before it is first asked for, and where
    /// pages are not emptied. Once it is not null it points, for good, to a
    /// page that is never unmapped, of which nothing but the atomic is used.
    static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
    /// Pages are not emptied here.
    static IS_VAIN: AtomicBool = AtomicBool::new(false);
    /// What the page holds before the number was written, and in a new child.
    const UNKNOWN: u32 = 0;
    /// No kernel knows such advice. Emulators have taken any and done nothing.
    const NONSENSE: c_int = -1;

    /// The number of this process, as [`std::process::id`] has it.
    pub fn id() -> u32 {
        // SAFETY: null, or the page, which stays (see `PAGE`).
        let Some(kept) = (unsafe { PAGE.load(Ordering::Acquire).as_ref() }) else {
            return first();
        };
        match kept.load(Ordering::Relaxed) {
            UNKNOWN => {
                let id = process::id();
                kept.store(id, Ordering::Relaxed);
                id
            }
            id => id,
        }
    }

    /// Without a lock: a fork could leave it held in the child.
    #[cold]
    fn first() -> u32 {
        if IS_VAIN.load(Ordering::Relaxed) {
            return process::id();
        }
        if let Some(page) = new_page() {
            let place = page.as_ptr().cast_mut().cast::<AtomicU32>();
            // Another thread may have been faster, whose page it is then.
            let (here, there) = (Ordering::AcqRel, Ordering::Acquire);
            if PAGE.compare_exchange(ptr::null_mut(), place, here, there).is_ok() {
                mem::forget(page);
            }
        } else {
            IS_VAIN.store(true, Ordering::Relaxed);
        }
        process::id()
    }

    /// A page of zeros that is one again in every forked child.
    fn new_page() -> Option<MmapMut> {
        let page = MmapMut::map_anon(size_of::<AtomicU32>()).ok()?;
        (!is_taken(&page, NONSENSE) && is_taken(&page, MADV_WIPEONFORK)).then_some(page)
    }

    fn is_taken(page: &MmapMut, advice: c_int) -> bool {
        let start = page.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: a page that was just mapped, and holds nothing yet.
        unsafe { libc::madvise(start, page.len(), advice) == 0 }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_what_the_system_says() {
        for _ in 0..3 {
            assert_eq!(super::id(), std::process::id());
        }
    }
}
