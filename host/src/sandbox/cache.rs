//! Compiled components, kept between runs in a folder of the user's own:
//! compiling takes half a second, loading what was compiled a millisecond.
//!
//! The folder is `zrecord` in `XDG_CACHE_HOME`, or in `~/.cache`, with mode
//! 0700. It is never beside a store or a step, which somebody else may have
//! made. Folder and files are used only if they belong to the user and nobody
//! else may write or read them; where that cannot be said (also on systems
//! without such modes) there is no cache, and nothing fails for it.

use std::hash::{Hash, Hasher};
use std::path::Path;
use std::{fs, io};

use sha2::{Digest, Sha256};
use wasmtime::component::Component;
use wasmtime::{Engine, Result};

use crate::sandbox::compiled::Artifact;

/// A file begins with the SHA-256 of what follows.
const HASH_SIZE: usize = 32;

/// The component, from the cache or compiled now.
///
/// # Errors
///
/// Those of compiling; the cache has none.
pub fn component(engine: &Engine, bytes: &[u8]) -> Result<Component> {
    let name = file_name(engine, bytes);
    let path = match folder::private() {
        Ok(folder) => Some(folder.join(name)),
        Err(error) => {
            log::debug!("compiled components are not kept: {error}");
            None
        }
    };
    if let Some(path) = &path {
        match folder::read(path).and_then(artifact) {
            Ok(artifact) => match artifact.load(engine) {
                Ok(component) => return Ok(component),
                Err(error) => log::debug!("{}: {error:#}", path.display()),
            },
            Err(error) => log::debug!("{}: {error}", path.display()),
        }
    }
    let component = Component::new(engine, bytes)?;
    if let Some(path) = &path
        && let Err(error) = keep(path, &component.serialize()?)
    {
        log::debug!("{}: {error}", path.display());
    }
    Ok(component)
}

/// What tells one artifact from another: the component, and wasmtime's version
/// and configuration.
fn file_name(engine: &Engine, bytes: &[u8]) -> String {
    let mut hash = Sha256::new_with_prefix(bytes);
    engine.precompile_compatibility_hash().hash(&mut Feed(&mut hash));
    format!("{}.cwasm", hex(&hash.finalize()))
}

/// Lets a hash of the standard library's kind flow into another.
struct Feed<'a>(&'a mut Sha256);

impl Hasher for Feed<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Nobody asks: the other hash is the result.
    fn finish(&self) -> u64 {
        0
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks that nothing of a file was lost or changed.
fn artifact(mut file: Vec<u8>) -> io::Result<Artifact> {
    if file.len() < HASH_SIZE || Sha256::digest(&file[HASH_SIZE..])[..] != file[..HASH_SIZE] {
        return Err(io::Error::other("it is damaged"));
    }
    file.drain(..HASH_SIZE);
    Ok(Artifact::vouched_for(file))
}

/// Puts a compiled component into the cache, whole or not at all.
fn keep(path: &Path, compiled: &[u8]) -> io::Result<()> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let partial = path.with_extension(format!("{}.new", hex(&random)));
    let hash = Sha256::digest(compiled);
    let written =
        folder::write(&partial, &[&hash, compiled]).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

#[cfg(unix)]
mod folder {
    use std::env;
    use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
    use std::io::{self, Read, Write};
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    use std::path::{Path, PathBuf};

    use crate::directory::open_regular;

    /// More than any component of ours compiles to.
    const FILE_SIZE_MAX: u64 = 256 << 20;

    /// The folder, made if need be, and nobody else's.
    pub(super) fn private() -> io::Result<PathBuf> {
        let Some(parent) = user_cache() else {
            return Err(io::Error::other("neither XDG_CACHE_HOME nor HOME names a folder"));
        };
        fs::create_dir_all(&parent)?;
        let folder = parent.join("zrecord");
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let found = folder.symlink_metadata()?;
        if !found.is_dir() {
            return Err(io::Error::other(format!("{} is no folder", folder.display())));
        }
        check(&found)
            .map_err(|error| io::Error::other(format!("{}: {error}", folder.display())))?;
        Ok(folder)
    }

    /// The user's cache folder, which need not exist.
    fn user_cache() -> Option<PathBuf> {
        let absolute =
            |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))
    }

    /// A file of the folder, if it is nobody else's either. What is checked is
    /// the file that was opened, whatever its name leads to by then.
    pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
        let file: File = open_regular(path, OpenOptions::new().read(true))?;
        let found = file.metadata()?;
        check(&found)?;
        if found.len() > FILE_SIZE_MAX {
            return Err(io::Error::other("it is too large"));
        }
        let mut bytes = Vec::new();
        file.take(FILE_SIZE_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Makes a file that only the user can read and write.
    pub(super) fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        parts.iter().try_for_each(|part| file.write_all(part))
    }

    fn check(found: &Metadata) -> io::Result<()> {
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("it belongs to somebody else"));
        }
        if found.mode() & 0o077 != 0 {
            return Err(io::Error::other("others may use it"));
        }
        Ok(())
    }
}

#[cfg(not(unix))]
mod folder {
    use std::io;
    use std::path::{Path, PathBuf};

    fn none() -> io::Error {
        io::Error::other("this system does not say who may write to a file")
    }

    pub(super) fn private() -> io::Result<PathBuf> {
        Err(none())
    }

    pub(super) fn read(_: &Path) -> io::Result<Vec<u8>> {
        Err(none())
    }

    pub(super) fn write(_: &Path, _: &[&[u8]]) -> io::Result<()> {
        Err(none())
    }
}
