//! A store that is written beside the place it will take, so that the place
//! holds either what was there before or the whole new store.
//!
//! It grows in a directory `.NAME.HEX.new` beside `NAME`. A run that is killed
//! leaves that directory behind; the next one to the same place removes it. A
//! living run is told from a dead one by the presence lock on the directory,
//! which dies with its holder, and nothing is removed that holds more than
//! files of a store.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use zrecord_core::Error as CoreError;
use zrecord_core::storage::FileName;

use crate::directory::{create_directories, sync_directory};
use crate::error::{Error, Result};
use crate::lock::{self, Presence, WriterLock};
use crate::process;
use crate::writing::draw_id;

/// How often a directory is made anew when another run takes it for a dead
/// one's, in the instant before it is locked.
const ATTEMPTS: u32 = 10;

/// A directory that becomes a store's; removed unless it does.
#[derive(Debug)]
pub struct Successor {
    path: PathBuf,
    /// The place that it will take.
    place: PathBuf,
    replaces: bool,
    /// The process that has begun it; a forked child's copy does nothing.
    process: u32,
    /// Tells others that this run is alive; `None` where there are no locks.
    presence: Option<Presence>,
    published: bool,
}

/// What a sibling of the place is, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It is to take the place, or was in it before the two were exchanged.
    New,
    /// It was in the place, where the system cannot exchange two names.
    Old,
}

impl Successor {
    /// Makes the directory, and the parents of the place. With `replaces`, a
    /// store may be in the place by the end. Removes what dead runs have left.
    ///
    /// # Errors
    ///
    /// With `replaces`: `Busy` when another handle has the store open,
    /// `NotAStore` when there is more in the place than files of a store. Else
    /// `AlreadyExists` when there is a store. IO errors.
    pub fn begin(place: impl AsRef<Path>, replaces: bool) -> Result<Self> {
        let given = place.as_ref();
        // Through a link the directory behind it is replaced, not the link.
        // Absolute, as the process may change its directory before the end.
        let place = fs::canonicalize(given).or_else(|_| std::path::absolute(given));
        let place = place.map_err(Error::io(given))?;
        drop(Incumbent::take(&place, replaces)?);
        let parent = parent(&place);
        create_directories(parent).map_err(Error::io(parent))?;
        remove_dead(&place);
        for _ in 0..ATTEMPTS {
            let path = sibling(&place, Role::New)?;
            fs::create_dir(&path).map_err(Error::io(&path))?;
            match Presence::take(&path) {
                Ok(presence) if path.exists() => {
                    let process = process::id();
                    return Ok(Self { path, place, replaces, process, presence, published: false });
                }
                // Another run has found it before it was locked.
                Ok(_) | Err(CoreError::Busy { .. }) => {}
                Err(error) => {
                    let _ = fs::remove_dir(&path);
                    return Err(Error::store(&place)(error));
                }
            }
        }
        let reason = "directories beside it are removed as soon as they are made".into();
        Err(Error::store(&place)(CoreError::Busy { reason }))
    }

    /// Where the new store is to be written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the place, durably. The store in it is closed by now.
    ///
    /// Where the system exchanges two names in one step (Linux, macOS), there
    /// is a store in the place at every moment. Elsewhere a run that is killed
    /// between two renames leaves the replaced store as `.NAME.HEX.old`, which
    /// the next run puts back.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin); then nothing has changed. `Forked` in a
    /// child of the process that has begun.
    pub fn publish(mut self) -> Result<()> {
        if self.process != process::id() {
            return Err(Error::Forked { path: self.place.clone(), opened_by: self.process });
        }
        let incumbent = Incumbent::take(&self.place, self.replaces)?;
        if !matches!(incumbent, Incumbent::Nothing) {
            copy_mode(&self.place, &self.path).map_err(Error::io(&self.place))?;
        }
        let old = match &incumbent {
            Incumbent::Store { .. } => self.exchange()?,
            Incumbent::Empty => self.settle(rename_to_empty)?,
            Incumbent::Nothing => self.settle(rename_to_nothing)?,
        };
        self.published = true;
        let parent = parent(&self.place);
        sync_directory(parent).map_err(Error::io(parent))?;
        if let Some(old) = old
            && let Err(error) = remove_store(&old)
        {
            log::warn!("{}: removing the store that was replaced: {error}", old.display());
        }
        Ok(())
    }

    /// Takes a place where no store is, by a rename that fails if one came.
    fn settle(&self, rename: fn(&Path, &Path) -> io::Result<()>) -> Result<Option<PathBuf>> {
        let renamed = rename(&self.path, &self.place).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => {
                Error::store(&self.place)(CoreError::AlreadyExists)
            }
            _ => Error::io(&self.place)(error),
        });
        renamed.map(|()| None)
    }

    /// Changes places with the store that is there; says where that is now.
    fn exchange(&self) -> Result<Option<PathBuf>> {
        if exchange_names(&self.path, &self.place) {
            return Ok(Some(self.path.clone()));
        }
        let old = sibling(&self.place, Role::Old)?;
        fs::rename(&self.place, &old).map_err(Error::io(&self.place))?;
        if let Err(error) = fs::rename(&self.path, &self.place) {
            if let Err(error) = fs::rename(&old, &self.place) {
                log::error!("{}: putting the store back: {error}", old.display());
            }
            return Err(Error::io(&self.place)(error));
        }
        Ok(Some(old))
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        // Directory and lock are the parent's.
        if self.process != process::id() {
            return;
        }
        if !self.published
            && let Err(error) = remove_store(&self.path)
        {
            log::error!("{}: removing what was begun: {error}", self.path.display());
        }
        if let Some(presence) = self.presence.take() {
            presence.release();
        }
    }
}

/// What is in the place.
#[derive(Debug)]
enum Incumbent {
    Nothing,
    /// An empty directory. It needs no lock: it is replaced while it is empty,
    /// or not at all.
    Empty,
    /// A store, which nobody else may have open while it goes.
    Store {
        _writer: WriterLock,
        /// Taken when it is dropped.
        presence: Option<Presence>,
    },
}

impl Incumbent {
    /// Locks a store in the place against everybody.
    fn take(place: &Path, replaces: bool) -> Result<Self> {
        let store = Error::store;
        match place.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::Nothing),
            Err(error) => return Err(Error::io(place)(error)),
            Ok(found) if !found.is_dir() && !replaces => {
                return Err(store(place)(CoreError::AlreadyExists));
            }
            Ok(_) => {}
        }
        if Self::check(place, replaces)?.is_empty() {
            return Ok(Self::Empty);
        }
        let writer = WriterLock::take(place).map_err(store(place))?;
        let presence = Presence::take(place).map_err(store(place))?;
        // Without it nobody knows who has the store open.
        let presence = presence.ok_or_else(lock::unsupported).map_err(store(place))?;
        presence.exclude_for_good().map_err(store(place))?;
        // Again, now that nobody writes to it.
        Self::check(place, replaces)?;
        Ok(Self::Store { _writer: writer, presence: Some(presence) })
    }

    /// Refuses to replace files that are none of a store, and a store unless
    /// it `replaces` one. What a killed creation has left is no store.
    fn check(place: &Path, replaces: bool) -> Result<Vec<OsString>> {
        let files = files(place).map_err(Error::io(place))?;
        if !replaces && files.iter().any(|(_, file)| *file == Some(FileName::Meta)) {
            return Err(Error::store(place)(CoreError::AlreadyExists));
        }
        if let Some((strange, _)) = files.iter().find(|(_, file)| file.is_none()) {
            let reason = format!(
                "it holds {strange:?}, which is none of a store's files, so it is not replaced"
            );
            return Err(Error::store(place)(CoreError::NotAStore { reason }));
        }
        Ok(files.into_iter().map(|(name, _)| name).collect())
    }
}

impl Drop for Incumbent {
    fn drop(&mut self) {
        if let Self::Store { presence, .. } = self
            && let Some(presence) = presence.take()
        {
            presence.release();
        }
    }
}

/// The directory in which the place is.
fn parent(place: &Path) -> &Path {
    place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A name beside the place that nothing has.
fn sibling(place: &Path, role: Role) -> Result<PathBuf> {
    let unnamed = || io::Error::new(ErrorKind::InvalidInput, "a path without a name");
    let name = place.file_name().ok_or_else(unnamed).map_err(Error::io(place))?;
    let id = draw_id().map_err(Error::store(place))?;
    let unique = u64::from_le_bytes(id[..8].try_into().unwrap_or_default());
    let mut sibling = OsString::from(".");
    sibling.push(name);
    sibling.push(format!(".{unique:016x}.{}", role.ending()));
    Ok(parent(place).join(sibling))
}

impl Role {
    fn ending(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Old => "old",
        }
    }

    /// What `name` is beside a place called `place`; `None` when it is
    /// anything else.
    fn of(name: &OsStr, place: &OsStr) -> Option<Self> {
        let rest = name.as_encoded_bytes().strip_prefix(b".")?;
        let rest = rest.strip_prefix(place.as_encoded_bytes())?.strip_prefix(b".")?;
        let (unique, ending) = rest.split_at_checked(16)?;
        let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        let ending = ending.strip_prefix(b".")?;
        let role =
            [Self::New, Self::Old].into_iter().find(|role| role.ending().as_bytes() == ending);
        role.filter(|_| unique.iter().all(is_hex))
    }
}

/// Removes what dead runs to the same place have left. That it does not work
/// is no reason not to go on.
fn remove_dead(place: &Path) {
    let parent = parent(place);
    let Some(name) = place.file_name() else { return };
    let entries = match fs::read_dir(parent) {
        Ok(entries) => entries,
        Err(error) => return log::debug!("{}: {error}", parent.display()),
    };
    for entry in entries.flatten() {
        let Some(role) = Role::of(&entry.file_name(), name) else { continue };
        let path = parent.join(entry.file_name());
        match remove_if_dead(&path, role, place) {
            Ok(true) => log::info!("{}: removed, its run was killed", path.display()),
            Ok(false) => {}
            Err(error) => log::warn!("{}: removing it: {error}", path.display()),
        }
    }
}

/// Removes a sibling that no living run holds, or puts it back into the place.
fn remove_if_dead(path: &Path, role: Role, place: &Path) -> io::Result<bool> {
    if !path.symlink_metadata()?.is_dir() {
        return Ok(false);
    }
    // Without a lock nobody knows; a living run is then left alone as well.
    let Ok(Some(presence)) = Presence::take(path) else { return Ok(false) };
    if presence.exclude_for_good().is_err() {
        return Ok(false);
    }
    let is_lost = role == Role::Old && place.symlink_metadata().is_err();
    let result = if is_lost { fs::rename(path, place) } else { remove_store(path) };
    presence.release();
    result.map(|()| true)
}

/// The entries of a directory, each with what it is in a store; `None` for
/// what is no file of one.
fn files(directory: &Path) -> io::Result<Vec<(OsString, Option<FileName>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_file = entry.file_type()?.is_file();
        let file = name.to_str().filter(|_| is_file).and_then(FileName::parse);
        files.push((name, file));
    }
    Ok(files)
}

/// Gives a directory the mode of another: whoever could not look into a store
/// cannot look into its successor.
fn copy_mode(from: &Path, to: &Path) -> io::Result<()> {
    fs::set_permissions(to, from.metadata()?.permissions())
}

/// Removes a directory that holds files of a store and nothing else.
fn remove_store(directory: &Path) -> io::Result<()> {
    let files = files(directory)?;
    if let Some((strange, _)) = files.iter().find(|(_, file)| file.is_none()) {
        let reason = format!("it holds {strange:?}, which is none of a store's files");
        return Err(io::Error::new(ErrorKind::DirectoryNotEmpty, reason));
    }
    for (name, _) in files {
        fs::remove_file(directory.join(name))?;
    }
    fs::remove_dir(directory)
}

/// Exchanges two names in one step; false where the system cannot.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn exchange_names(one: &Path, other: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn exchange_names(_: &Path, _: &Path) -> bool {
    false
}

/// Takes the place of an empty directory, which unix does in one step.
fn rename_to_empty(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(not(unix))]
    fs::remove_dir(to)?;
    fs::rename(from, to)
}

/// Renames to a name that nothing has, in one step where the system can.
fn rename_to_nothing(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // The file system does not know how.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            result => return result.map_err(io::Error::from),
        }
    }
    if to.symlink_metadata().is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to)
}

/// Refuses a new store inside of the one that it is made from, which would be
/// written to by that.
pub(crate) fn check_outside(source: &Path, destination: &Path) -> Result<()> {
    let source = source.canonicalize().map_err(Error::io(source))?;
    // The first ancestor that exists; the others will be made in it.
    let ancestors = destination.ancestors().skip(1);
    let here = Path::new(".");
    let parent = ancestors
        .map(|path| if path.as_os_str().is_empty() { here } else { path })
        .find_map(|path| path.canonicalize().ok());
    if parent.is_some_and(|parent| parent.starts_with(&source)) {
        let reason = format!("it lies in the store {}", source.display());
        let error = CoreError::InvalidArgument { argument: "destination", reason };
        return Err(Error::store(destination)(error));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_recognised_by_their_whole_name() {
        let of = |name: &str| Role::of(OsStr::new(name), OsStr::new("a.zr"));
        assert_eq!(of(".a.zr.0123456789abcdef.new"), Some(Role::New));
        assert_eq!(of(".a.zr.0123456789abcdef.old"), Some(Role::Old));
        for other in [
            "a.zr",
            ".a.zr",
            ".a.zr.new",
            ".a.zr.0123456789abcde.new",
            ".a.zr.0123456789abcdef0.new",
            ".a.zr.0123456789ABCDEF.new",
            ".a.zr.0123456789abcdeg.new",
            ".a.zr.0123456789abcdef.newer",
            ".b.zr.0123456789abcdef.new",
            ".a.zr.b.0123456789abcdef.new",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        let sibling = sibling(Path::new("deep/a.zr"), Role::New).unwrap();
        assert_eq!(sibling.parent().unwrap(), Path::new("deep"));
        assert_eq!(Role::of(sibling.file_name().unwrap(), OsStr::new("a.zr")), Some(Role::New));
    }

    #[test]
    fn a_replaced_store_that_lost_its_place_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a.zr");
        let old = sibling(&place, Role::Old).unwrap();
        fs::create_dir(&old).unwrap();
        fs::write(old.join("meta.zr"), b"old").unwrap();
        remove_dead(&place);
        assert!(!old.exists());
        assert_eq!(fs::read(place.join("meta.zr")).unwrap(), b"old");
        // With a store in the place it is dead.
        fs::create_dir(&old).unwrap();
        fs::write(old.join("meta.zr"), b"older").unwrap();
        remove_dead(&place);
        assert!(!old.exists());
        assert_eq!(fs::read(place.join("meta.zr")).unwrap(), b"old");
    }
}
