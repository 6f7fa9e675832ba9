//! Rivals of the benchmark: packages that may fail to install.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command;
use crate::python::Environment;
use crate::tree::Tree;

/// What is installed already, in the folder of the environment.
const INSTALLED: &str = "rivals-installed.txt";
/// What is not, and why; the benchmark reads it.
const NOT_INSTALLED: &str = "not-installed.txt";
/// The folder of the environment with a second version of one package.
const NEWEST: &str = "loaderx-newest";

/// Install each line of the file `rivals` by itself, with nothing that the file
/// `base` pins changed. Those that fail are tried again by the next run.
///
/// # Errors
///
/// When a file cannot be read or written; not when a rival is not to be had.
pub fn install(tree: &Tree, environment: &Environment, base: &str, rivals: &str) -> Result<()> {
    let mut ledger = Ledger::open(environment.folder());
    for pin in pins(&tree.requirements(rivals))? {
        let mut pip = environment.pip_install(tree);
        pip.arg("--constraint").arg(tree.requirements(base)).arg(&pin);
        ledger.install(&pin, name(&pin), &mut pip);
    }
    ledger.write()
}

/// Install the packages of the file `newest` into a folder of their own.
///
/// # Errors
///
/// As [`install`].
pub fn install_newest(tree: &Tree, environment: &Environment, newest: &str) -> Result<()> {
    let mut ledger = Ledger::open(environment.folder());
    let pins = pins(&tree.requirements(newest))?;
    let mut pip = environment.pip_install(tree);
    pip.args(["--no-deps", "--upgrade", "--target"]).arg(environment.folder().join(NEWEST));
    ledger.install(&format!("{NEWEST}: {}", pins.join(" ")), NEWEST, pip.args(&pins));
    ledger.write()
}

/// What an environment has, and what it could not get.
struct Ledger<'a> {
    folder: &'a Path,
    installed: Vec<String>,
    failed: Vec<(String, String)>,
}

impl<'a> Ledger<'a> {
    fn open(folder: &'a Path) -> Self {
        let lines = |file| fs::read_to_string(folder.join(file)).unwrap_or_default();
        let failed = lines(NOT_INSTALLED);
        let failed = failed.lines().filter_map(|line| line.split_once('\t'));
        Self {
            folder,
            installed: lines(INSTALLED).lines().map(str::to_owned).collect(),
            failed: failed.map(|(name, why)| (name.to_owned(), why.to_owned())).collect(),
        }
    }

    fn install(&mut self, pin: &str, name: &str, pip: &mut Command) {
        if self.installed.iter().any(|installed| installed == pin) {
            return;
        }
        self.failed.retain(|(failed, _)| failed != name);
        match command::output(pip) {
            Ok(_) => {
                println!("  {pin}");
                self.installed.push(pin.to_owned());
            }
            Err(error) => {
                let reason = reason(&error.to_string());
                println!("  {pin} is not to be had: {reason}");
                self.failed.push((name.to_owned(), reason));
            }
        }
    }

    fn write(&self) -> Result<()> {
        let failed: String =
            self.failed.iter().map(|(name, why)| format!("{name}\t{why}\n")).collect();
        let installed: String = self.installed.iter().map(|pin| format!("{pin}\n")).collect();
        for (file, text) in [(INSTALLED, installed), (NOT_INSTALLED, failed)] {
            let path = self.folder.join(file);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// The lines of a requirements file that are no comments.
fn pins(path: &Path) -> Result<Vec<String>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().map(str::trim);
    Ok(lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect())
}

/// The package of a pin.
fn name(pin: &str) -> &str {
    pin.split("==").next().unwrap_or(pin)
}

/// What pip says last of why it failed, in one line.
fn reason(error: &str) -> String {
    let lines = || error.lines().map(str::trim);
    let last = lines().rfind(|line| line.starts_with("ERROR: ")).or_else(|| lines().next_back());
    let text = last.unwrap_or(error).trim_start_matches("ERROR: ");
    format!("pip: {}", text.replace('\t', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_and_its_reason_is_one_line() {
        assert_eq!(name("array-record==0.8.6"), "array-record");
        let error = "`pip install x` failed (exit 1): WARNING: old\n\
                     ERROR: No matching distribution found for x\n";
        assert_eq!(reason(error), "pip: No matching distribution found for x");
        assert_eq!(reason("cannot start `pip`"), "pip: cannot start `pip`");
    }

    #[test]
    fn one_that_failed_is_tried_again_and_forgotten_once_it_is_there() {
        let folder = std::env::temp_dir().join(format!("zrecord-rivals-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let install = |program: &str| {
            let mut ledger = Ledger::open(&folder);
            ledger.install("rival==1", "rival", &mut Command::new(program));
            ledger.write().unwrap();
            let ledger = Ledger::open(&folder);
            (ledger.installed.len(), ledger.failed.len())
        };
        assert_eq!(install("zrecord-no-such-program"), (0, 1));
        // Any program that ends well and prints something.
        assert_eq!(install(env!("CARGO")), (1, 0));
        assert_eq!(install("zrecord-no-such-program"), (1, 0));
        fs::remove_dir_all(folder).unwrap();
    }
}
