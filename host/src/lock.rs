//! Locks between processes, never waited for and dying with their holder.
//!
//! | lock | shared by | exclusive to |
//! | --- | --- | --- |
//! | presence | every open handle | delete and compact |
//! | writer | a reader that probes, for an instant | the one handle that writes |
//!
//! On unix presence is a lock on the store's directory, so that it works on
//! read-only media and creates nothing; on Windows it is a byte of `lock.zr`
//! far past its end. Two handles in one process are as two processes.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use zrecord_core::storage::FileName;
use zrecord_core::{Error, Result};

use crate::directory::open_regular;

#[cfg_attr(unix, path = "lock/unix.rs")]
#[cfg_attr(windows, path = "lock/windows.rs")]
mod system;

/// How often the writer's lock is asked for before it counts as held, and how
/// long to pause between: a reader that finds a store unclean holds it shared
/// for an instant, which is no reason to be busy.
const WRITER_ATTEMPTS: u32 = 20;
const WRITER_PAUSE: Duration = Duration::from_millis(1);

/// Which of the two locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Presence,
    Writer,
}

/// What asking for a lock came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    Taken,
    Held,
    /// The file system has no locks.
    Unsupported,
}

/// The presence of an open handle.
#[derive(Debug)]
pub(crate) struct Presence {
    file: File,
}

impl Presence {
    /// Shares the store's presence; `None` where locks are unsupported.
    pub(crate) fn take(directory: &Path) -> Result<Option<Self>> {
        loop {
            let file = match system::open_presence(directory) {
                Ok(file) => file,
                // No writer of ours has been here, or the directory is not
                // there at all, which opening the store will say better.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(lock_error(error)),
            };
            match system::try_shared(&file, Which::Presence).map_err(lock_error)? {
                Attempt::Taken if system::is_at(&file, directory).map_err(lock_error)? => {
                    return Ok(Some(Self { file }));
                }
                // Another store has taken the place in between.
                Attempt::Taken => {}
                Attempt::Unsupported => return Ok(None),
                Attempt::Held => {
                    return Err(busy(
                        "another handle is deleting from it, compacting it or \
                                     replacing it at the moment",
                    ));
                }
            }
        }
    }

    /// Excludes every other handle. Only the holder of the writer's lock asks
    /// for this, so nobody takes presence away while it is being converted.
    pub(crate) fn exclude(&self) -> Result<Exclusion<'_>> {
        self.exclude_for_good()?;
        Ok(Exclusion { presence: self })
    }

    /// Excludes every other handle until this presence ends.
    pub(crate) fn exclude_for_good(&self) -> Result<()> {
        match system::try_exclusive(&self.file, Which::Presence).map_err(lock_error)? {
            Attempt::Taken => Ok(()),
            Attempt::Held | Attempt::Unsupported => {
                // A failed conversion has lost the shared lock.
                self.share()?;
                Err(busy("other handles have it open; delete and compact need it alone"))
            }
        }
    }

    fn share(&self) -> Result<()> {
        match system::share_again(&self.file, Which::Presence).map_err(lock_error)? {
            Attempt::Taken => Ok(()),
            Attempt::Held | Attempt::Unsupported => Err(busy("its presence lock was lost")),
        }
    }

    /// Gives the lock back, also when a forked child still has the descriptor.
    pub(crate) fn release(self) {
        system::unlock(&self.file, Which::Presence);
    }
}

/// Presence held alone, until it is dropped.
#[derive(Debug)]
pub(crate) struct Exclusion<'a> {
    presence: &'a Presence,
}

impl Drop for Exclusion<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.presence.share() {
            log::error!("sharing the presence of a store again: {error}");
        }
    }
}

/// The writer's lock.
#[derive(Debug)]
pub(crate) struct WriterLock {
    file: File,
}

impl WriterLock {
    /// Takes the writer's lock; creates `lock.zr` if it is not there.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] when another handle has it, [`Error::Unsupported`]
    /// where there are no locks.
    pub(crate) fn take(directory: &Path) -> Result<Self> {
        let path = lock_path(directory);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        for attempt in 0..WRITER_ATTEMPTS {
            if attempt > 0 {
                thread::sleep(WRITER_PAUSE);
            }
            let file = open_regular(&path, &mut options).map_err(lock_error)?;
            match system::try_exclusive(&file, Which::Writer).map_err(lock_error)? {
                Attempt::Taken if system::is_at(&file, &path).map_err(lock_error)? => {
                    return Ok(Self { file });
                }
                // Held, or another store has taken the place in between.
                Attempt::Taken | Attempt::Held => {}
                Attempt::Unsupported => return Err(unsupported()),
            }
        }
        Err(busy("another handle is writing to it"))
    }

    /// Gives the lock back, also when a forked child still has the descriptor.
    pub(crate) fn release(self) {
        system::unlock(&self.file, Which::Writer);
    }
}

/// Whether a writer is at work. Holds the writer's lock shared for an instant.
pub(crate) fn writer_lives(directory: &Path) -> Result<bool> {
    let path = lock_path(directory);
    let file = match open_regular(&path, OpenOptions::new().read(true)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(lock_error(error)),
    };
    match system::try_shared(&file, Which::Writer).map_err(lock_error)? {
        Attempt::Held => Ok(true),
        // Without locks nobody knows, and looking harder than needed does no
        // harm.
        Attempt::Unsupported => Ok(false),
        Attempt::Taken => {
            system::unlock(&file, Which::Writer);
            Ok(false)
        }
    }
}

/// What a change is answered where there are no locks.
pub(crate) fn unsupported() -> Error {
    Error::Unsupported {
        what: "locks on this file system, without which nothing keeps two processes from \
               writing at once; if only one does, open the store with lock=false"
            .into(),
    }
}

fn lock_path(directory: &Path) -> PathBuf {
    directory.join(FileName::Lock.to_string())
}

fn lock_error(source: io::Error) -> Error {
    Error::Io { file: FileName::Lock, source }
}

fn busy(reason: &str) -> Error {
    Error::Busy { reason: reason.into() }
}
