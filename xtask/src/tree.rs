//! Where things are in the repository.

use std::path::{Path, PathBuf};

/// The root of the repository and the folders that jobs use below it.
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The repository that this program was started from by `cargo`; started
    /// by hand, the one it was compiled in.
    pub fn find() -> Self {
        let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest_dir.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf);
        Self { root }
    }

    /// The copy of the repository in that folder.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path below the root, as it is written in the documentation.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// A requirements file of the Python environments.
    pub fn requirements(&self, name: &str) -> PathBuf {
        self.path("py-host/requirements").join(name)
    }
}
