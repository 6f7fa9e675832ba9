//! The handler of SIGBUS: one of the named files that may hold unsafe code.
//!
//! # Invariants
//!
//! 1. The handler does only what a signal handler may: it loads and stores
//!    atomics, calls `mmap`, `sigaction`, `raise` and `getpid`, allocates
//!    nothing, takes no lock, does not panic, and leaves `errno` as it was.
//! 2. A range in the registry is one of our mappings, whole pages, mapped for
//!    reading only, and stays in the registry and mapped while a thread reads
//!    it. The thread that faults in it is such a reader, so it is there until
//!    the handler returns.
//! 3. `PREVIOUS` is null or points to an action that is never freed or changed.
#![expect(unsafe_code, reason = "signals are handled through the C library")]

use std::mem::{self, MaybeUninit};
use std::ops::RangeInclusive;
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};

use super::REGISTRY;

/// Faults that end with the file or its medium, `BUS_ADRERR` and `BUS_OBJERR`,
/// as opposed to an address that is not aligned and to failing memory.
const FAULT_CODES: RangeInclusive<c_int> = 2..=3;
/// Codes from here on, and those below 1, are of signals that were sent.
const SENT_CODE_MIN: c_int = 0x1_0000;
/// Signals that this process sends itself are overlooked this many times
/// between two faults: see [`overlooks`].
const OVERLOOKED_MAX: usize = 64;

/// The action that was there before ours; null: the system's own.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
/// The size of a page in bytes.
static PAGE_SIZE: AtomicUsize = AtomicUsize::new(0);
/// How many signals of this process to itself were overlooked since the last
/// fault.
static OVERLOOKED: AtomicUsize = AtomicUsize::new(0);

type Handler = extern "C" fn(c_int);
type InfoHandler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// Installs the handler, once; says whether it is there, or about to be. Takes
/// no lock, which a fork might copy while it is held.
pub(super) fn install() -> bool {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static FAILED: AtomicBool = AtomicBool::new(false);
    if !BEGUN.swap(true, Ordering::AcqRel)
        && let Err(error) = try_install()
    {
        log::warn!("mapped files are not guarded against being cut: {error}");
        FAILED.store(true, Ordering::Release);
    }
    !FAILED.load(Ordering::Acquire)
}

fn try_install() -> std::io::Result<()> {
    PAGE_SIZE.store(rustix::param::page_size(), Ordering::Release);
    // Before ours can be called, and again in case another was faster.
    let previous = exchange(None)?;
    remember(previous);
    let mut ours = default_action();
    ours.sa_sigaction = on_signal as InfoHandler as usize;
    // As the one before expects to be called, which is done from ours.
    ours.sa_mask = previous.sa_mask;
    ours.sa_flags = libc::SA_SIGINFO
        | libc::SA_ONSTACK
        | (previous.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART));
    remember(exchange(Some(&ours))?);
    Ok(())
}

/// Keeps an action for the rest of the process: the handler may be reading it
/// at any time.
fn remember(action: libc::sigaction) {
    PREVIOUS.store(Box::leak(Box::new(action)), Ordering::Release);
}

/// The system's own action.
fn default_action() -> libc::sigaction {
    // SAFETY: a plain structure of C, for which zeros are a value: no flags,
    // an empty mask, `SIG_DFL`.
    unsafe { mem::zeroed() }
}

/// Sets the action of SIGBUS, if one is given, and returns the one before.
fn exchange(action: Option<&libc::sigaction>) -> std::io::Result<libc::sigaction> {
    let new = action.map_or(ptr::null(), ptr::from_ref);
    let mut old = MaybeUninit::uninit();
    // SAFETY: `new` is null or borrowed, `old` has room for an action. What is
    // installed is ours, which keeps to invariant 1, or the system's own.
    let status = unsafe { libc::sigaction(libc::SIGBUS, new, old.as_mut_ptr()) };
    if status != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so it has written the action.
    Ok(unsafe { old.assume_init() })
}

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let errno = errno::errno();
    // SAFETY: the system hands a handler with `SA_SIGINFO` what it knows of
    // the signal.
    let known = unsafe { &*info };
    let is_sent = known.si_code < 1 || known.si_code >= SENT_CODE_MIN;
    if is_sent {
        if !overlooks(known) {
            pass_on(signal, info, context, is_sent);
        }
    } else {
        OVERLOOKED.store(0, Ordering::Relaxed);
        if !(FAULT_CODES.contains(&known.si_code) && repair(known)) {
            pass_on(signal, info, context, is_sent);
        }
    }
    errno::set_errno(errno);
}

/// A handler that was installed after ours, a crash reporter's such as
/// Python's `faulthandler`, gets a fault first. It says so, puts ours back,
/// sends the signal again and returns. Then the fault happens again, and
/// comes to us with its address: so a signal that the process sends itself is
/// overlooked, a few times, as many threads may fault at once. One that is
/// sent in earnest is not answered before the last of them.
fn overlooks(known: &siginfo_t) -> bool {
    // SAFETY: a signal that was sent says by whom.
    let sender = unsafe { known.si_pid() };
    u32::try_from(sender) == Ok(process::id())
        && OVERLOOKED.fetch_add(1, Ordering::Relaxed) < OVERLOOKED_MAX
}

/// If the fault is in one of our mappings, replaces the rest of that mapping by
/// zeros: the file ends there or before, and one mapping more takes the place
/// of one for every page. False: it is somebody else's, or cannot be mended.
fn repair(known: &siginfo_t) -> bool {
    // SAFETY: a fault says where it was.
    let address = unsafe { known.si_addr() }.addr();
    let Some((slot, range)) = REGISTRY.find(address) else { return false };
    let page_size = PAGE_SIZE.load(Ordering::Acquire).max(1);
    let start = (address - address % page_size).max(range.start);
    // First, so that nobody takes the zeros for data.
    slot.damaged.store(true, Ordering::SeqCst);
    // SAFETY: replaces pages of one of our mappings alone, by pages that can be
    // read just as well; that mapping stays as long as this takes
    // (invariant 2), and nobody trusts its bytes to stay the same.
    let mapped = unsafe {
        libc::mmap(
            ptr::without_provenance_mut(start),
            range.end.saturating_sub(start),
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    mapped != libc::MAP_FAILED
}

/// Does with the signal what would have been done without us.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void, is_sent: bool) {
    // SAFETY: null, or never freed or changed (invariant 3).
    let previous = unsafe { PREVIOUS.load(Ordering::Acquire).as_ref() };
    let handler = previous.map_or(libc::SIG_DFL, |previous| previous.sa_sigaction);
    match previous {
        Some(previous) if handler != libc::SIG_DFL && handler != libc::SIG_IGN => {
            if previous.sa_flags & libc::SA_RESETHAND != 0 {
                PREVIOUS.store(ptr::null_mut(), Ordering::Release);
            }
            call(previous, signal, info, context);
        }
        // A fault cannot be ignored.
        _ if handler == libc::SIG_IGN && is_sent => {}
        _ => {
            // It can only fail for a signal that there is not.
            let _ = exchange(Some(&default_action()));
            // A fault happens again when we return; another signal does not.
            if is_sent {
                // SAFETY: may be called from a handler.
                let _ = unsafe { libc::raise(signal) };
            }
        }
    }
}

/// Calls the handler that was there before, in its own form.
fn call(previous: &libc::sigaction, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let handler = ptr::without_provenance::<()>(previous.sa_sigaction);
    if previous.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: neither of the two words that mean no function, so it was
        // installed as one of this form.
        let handler = unsafe { mem::transmute::<*const (), InfoHandler>(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: as above, of the other form.
        let handler = unsafe { mem::transmute::<*const (), Handler>(handler) };
        handler(signal);
    }
}
