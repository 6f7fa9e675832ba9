//! What happens when a mapped file is cut while it is read.
//!
//! Touching a mapped page that the file no longer has raises SIGBUS, which
//! ends the process. So on unix the first mapping installs a handler for that
//! signal. When the fault lies in one of our mappings, the handler maps zeros
//! over the rest of that mapping and marks it as damaged; the gather goes on,
//! looks at the mark when it is done, and ends in an error, as does every later
//! one from that mapping. Any other fault goes to the handler that was there
//! before.
//!
//! The handler finds our mappings in a fixed registry, which it reads
//! without locks and without allocating. A mapping that finds no room there is
//! not made, and its file is read by position.
//!
//! A handler belongs to the whole process, so the guard can be switched off:
//! by the environment variable [`GUARD_VARIABLE`], or by [`switch_guard`].
//! Mappings made while it is off are not guarded.

use std::env;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};

#[cfg(unix)]
mod handler;

/// The environment variable that switches the guard off when it is `0`.
pub const GUARD_VARIABLE: &str = "ZRECORD_SIGBUS";

/// So many mappings can be guarded at once.
const MAPPINGS_MAX: usize = 4096;

/// The guarded mappings of this process.
static REGISTRY: Registry<MAPPINGS_MAX> = Registry::new();

/// What [`switch_guard`] was told, or the environment variable says.
static SWITCH: AtomicU8 = AtomicU8::new(UNDECIDED);
const UNDECIDED: u8 = 0;
const ON: u8 = 1;
const OFF: u8 = 2;

/// Switches the guard on or off for mappings that are made from now on, in the
/// whole process. It is on unless the environment variable [`GUARD_VARIABLE`]
/// says otherwise; does nothing where there is no guard.
///
/// Off, a store whose file is cut while it is mapped ends the process, as
/// mapped files do; the signal's handler is then not touched.
pub fn switch_guard(on: bool) {
    SWITCH.store(if on { ON } else { OFF }, Ordering::Relaxed);
}

fn is_on() -> bool {
    match SWITCH.load(Ordering::Relaxed) {
        ON => true,
        OFF => false,
        _ => env::var_os(GUARD_VARIABLE).is_none_or(|value| value != "0"),
    }
}

/// The guard's eye on one mapping, as long as it lives.
#[derive(Debug)]
pub(crate) struct Watch {
    /// `None`: the mapping is not guarded.
    slot: Option<&'static Slot>,
}

impl Watch {
    /// Makes room for a mapping; installs the handler if it is the first.
    ///
    /// # Errors
    ///
    /// When there is no room: the file is to be read by position then.
    pub(crate) fn new() -> io::Result<Self> {
        if !is_on() || !installed() {
            return Ok(Self { slot: None });
        }
        match REGISTRY.take() {
            Some(slot) => Ok(Self { slot: Some(slot) }),
            None => Err(io::Error::other(format!("{MAPPINGS_MAX} mappings are guarded already"))),
        }
    }

    /// Guards these addresses, which are mapped until after `self` is dropped.
    pub(crate) fn cover(&self, addresses: Range<usize>) {
        if let Some(slot) = self.slot {
            slot.set(addresses);
        }
    }

    /// Whether there is a guard.
    #[cfg(feature = "sandbox")]
    pub(crate) fn is_guarded(&self) -> bool {
        self.slot.is_some()
    }

    /// Whether a part of the mapping was replaced by zeros. Asked after bytes
    /// were read, it tells whether they are to be believed.
    pub(crate) fn is_damaged(&self) -> bool {
        // The mark is set before the zeros are there, so whoever has read one
        // of them sees it.
        fence(Ordering::Acquire);
        self.slot.is_some_and(|slot| slot.damaged.load(Ordering::Relaxed))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.set(0..0);
            slot.taken.store(false, Ordering::Release);
        }
    }
}

#[cfg(unix)]
fn installed() -> bool {
    handler::install()
}

#[cfg(not(unix))]
fn installed() -> bool {
    false
}

/// Address ranges, read by a signal handler while others come and go.
struct Registry<const N: usize> {
    slots: [Slot; N],
}

/// One address range.
#[derive(Debug)]
struct Slot {
    taken: AtomicBool,
    /// Odd while the range is being changed, and another after each change.
    version: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    damaged: AtomicBool,
}

impl<const N: usize> Registry<N> {
    const fn new() -> Self {
        Self { slots: [const { Slot::new() }; N] }
    }

    /// A slot that nobody has, with an empty range.
    fn take(&self) -> Option<&Slot> {
        self.slots.iter().find(|slot| {
            let (free, taken) = (false, true);
            let taking =
                slot.taken.compare_exchange(free, taken, Ordering::Acquire, Ordering::Relaxed);
            taking.is_ok()
        })
    }

    /// The slot with the range that holds `address`, and that range.
    #[cfg(any(unix, test))]
    fn find(&self, address: usize) -> Option<(&Slot, Range<usize>)> {
        let ranges = self.slots.iter().filter_map(|slot| Some((slot, slot.range()?)));
        ranges.into_iter().find(|(_, range)| range.contains(&address))
    }
}

impl Slot {
    const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            damaged: AtomicBool::new(false),
        }
    }

    /// Only whoever has taken the slot sets it.
    fn set(&self, range: Range<usize>) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(range.start, Ordering::Relaxed);
        self.end.store(range.end, Ordering::Relaxed);
        self.damaged.store(false, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// The range; `None` while it is being changed. Whoever faults in a
    /// mapping holds it, so that its slot is not changed then.
    #[cfg(any(unix, test))]
    fn range(&self) -> Option<Range<usize>> {
        let before = self.version.load(Ordering::Acquire);
        let range = self.start.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let after = self.version.load(Ordering::Relaxed);
        (before == after && before.is_multiple_of(2)).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_registry_has_no_room_until_a_slot_is_given_back() {
        let registry = Registry::<2>::new();
        let first = registry.take().unwrap();
        let second = registry.take().unwrap();
        assert!(registry.take().is_none());
        first.set(100..200);
        second.set(300..400);
        let found = |address| registry.find(address).map(|(_, range)| range);
        assert_eq!(found(100), Some(100..200));
        assert_eq!(found(399), Some(300..400));
        assert!(found(200).is_none() && found(99).is_none() && found(0).is_none());
        first.set(0..0);
        first.taken.store(false, Ordering::Release);
        assert!(found(100).is_none());
        assert!(registry.take().is_some());
    }

    /// What reads it by position gives no view.
    #[test]
    #[cfg(unix)]
    #[cfg_attr(miri, ignore = "maps files")]
    fn a_store_that_finds_no_room_is_read_by_position() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.zr");
        let store = crate::OpenOptions::new().mode(crate::Mode::Append).open(&path).unwrap();
        store.append(b"onetwo", &[0, 3], Some(crate::Codec::Raw)).unwrap();
        store.close().unwrap();
        let read = |store: &crate::Store| {
            let mut records = [0; 6];
            store.gather_packed(&[1, 0], &mut records, 3).unwrap();
            assert_eq!(&records, b"twoone");
        };
        let room = std::iter::from_fn(|| Watch::new().ok());
        let room: Vec<Watch> = room.take(MAPPINGS_MAX + 1).collect();
        assert!(room.len() <= MAPPINGS_MAX);
        let store = crate::Store::open(&path).unwrap();
        read(&store);
        assert!(store.view(0, 2).is_err());
        drop(room);
        read(&store);
        assert_eq!(*store.view(0, 2).unwrap(), *b"onetwo");
    }

    #[test]
    fn a_range_that_is_being_changed_is_never_seen_mixed() {
        let registry = Registry::<1>::new();
        let slot = registry.take().unwrap();
        let rounds = if cfg!(miri) { 50 } else { 100_000 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..rounds {
                    let start = round % 7 * 1_000 + 1;
                    slot.set(start..start + 500);
                }
            });
            for _ in 0..rounds {
                if let Some(range) = slot.range() {
                    assert!(range == (0..0) || range.len() == 500, "{range:?}");
                }
            }
        });
    }
}
