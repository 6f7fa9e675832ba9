//! Stores that loaderx wrote, in memory.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

use zrecord_core::storage::FileName;
use zrecord_core::storage::memory::MemoryDirectory;

/// Where they lie.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/loaderx-0.9.4")
}

/// All there are, by their names.
pub fn stores() -> Vec<(String, MemoryDirectory)> {
    let mut stores: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| (entry.file_name().into_string().unwrap(), read(&entry.path())))
        .collect();
    stores.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(!stores.is_empty());
    stores
}

/// The files of a store in a folder, but for its lock.
pub fn read(folder: &Path) -> MemoryDirectory {
    let directory = MemoryDirectory::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = FileName::parse(&entry.file_name().into_string().unwrap());
        if let Some(name) = name.filter(|name| *name != FileName::Lock) {
            directory.put(name, &fs::read(entry.path()).unwrap());
        }
    }
    directory
}
