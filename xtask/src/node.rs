//! Node: finding it, and packages of the repository's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command;
use crate::system;
use crate::tree::Tree;

/// The oldest version that has what our programs use.
const MAJOR_MIN: u32 = 20;
/// Written among the packages once they are all there.
const STAMP_NAME: &str = ".zrecord-stamp.txt";

/// Makes sure that Node and npm are there.
///
/// # Errors
///
/// When they are not, or too old, and cannot be installed; the message says
/// what to install.
pub fn require() -> Result<()> {
    let Err(found) = check() else { return Ok(()) };
    if system::install_with_apt(&["nodejs", "npm"])? && check().is_ok() {
        return Ok(());
    }
    bail!(
        "Node {MAJOR_MIN} or newer and npm are needed, but {found}; install them from \
         https://nodejs.org, or with a version manager (`nvm install {MAJOR_MIN}`), and run this again"
    );
}

/// What is missing, in words.
fn check() -> Result<(), String> {
    let version = command::output(Command::new("node").arg("--version"));
    let version = version.map_err(|_| "there is no node on PATH".to_owned())?;
    match major(&version) {
        Some(major) if major >= MAJOR_MIN => {}
        _ => return Err(format!("node is {version}")),
    }
    match command::succeeds(npm().arg("--version")) {
        true => Ok(()),
        false => Err("there is no npm on PATH".to_owned()),
    }
}

fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

fn npm() -> Command {
    Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" })
}

/// A folder with a `package.json` and its lock file.
pub struct Package {
    folder: PathBuf,
}

impl Package {
    /// The package with exactly what its lock file pins, installed now unless
    /// it is there.
    ///
    /// # Errors
    ///
    /// When a package cannot be installed.
    pub fn prepare(tree: &Tree, folder: &str) -> Result<Self> {
        let package = Self { folder: tree.path(folder) };
        let stamp_path = package.folder.join("node_modules").join(STAMP_NAME);
        let lock = package.folder.join("package-lock.json");
        let stamp =
            fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
        if fs::read_to_string(&stamp_path).is_ok_and(|written| written == stamp) {
            println!("  the packages of {folder} are up to date");
            return Ok(package);
        }
        // Nothing that a package brings is run by installing it.
        let mut install = package.npm(&tree.path(".cache/npm"));
        command::run(install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]))?;
        fs::write(&stamp_path, stamp)
            .with_context(|| format!("cannot write {}", stamp_path.display()))?;
        Ok(package)
    }

    /// Runs one of its scripts.
    ///
    /// # Errors
    ///
    /// When the script fails.
    pub fn run(&self, tree: &Tree, script: &str) -> Result<()> {
        command::run(self.npm(&tree.path(".cache/npm")).args(["run", "--silent", script]))
    }

    fn npm(&self, cache: &Path) -> Command {
        let mut npm = npm();
        npm.current_dir(&self.folder).env("npm_config_cache", cache);
        npm.env("npm_config_update_notifier", "false");
        npm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(major("v20.19.2"), Some(20));
        assert_eq!(major("v9"), Some(9));
        assert_eq!(major("20"), None);
    }
}
