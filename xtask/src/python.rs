//! Python: finding an interpreter, and environments of the repository's own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tree::Tree;
use crate::{command, system};

/// The oldest minor version of Python 3 that the wheel supports.
const MINOR_MIN: u32 = 10;
/// Written into an environment once it is complete.
const STAMP_NAME: &str = "zrecord-stamp.txt";
/// Prints the minor version of a Python 3, and nothing for another.
const PRINT_MINOR: &str = "import sys; v = sys.version_info; print(v[1] if v[0] == 3 else '')";

/// A virtual environment in a folder of the repository.
pub struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// The environment in `folder` with exactly the packages that the file
    /// `requirements` pins, made now unless it is there.
    ///
    /// # Errors
    ///
    /// When no suitable Python is found, when it cannot make environments, or
    /// when a package cannot be installed.
    pub fn prepare(tree: &Tree, folder: &str, requirements: &str) -> Result<Self> {
        Self::prepare_from(tree, folder, &tree.requirements(requirements))
    }

    /// As [`prepare`](Self::prepare), of a file that lies elsewhere.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn prepare_from(tree: &Tree, folder: &str, requirements: &Path) -> Result<Self> {
        let environment = Self { folder: tree.path(folder) };
        let interpreter = Interpreter::find()?;
        let stamp = environment.stamp(requirements, &interpreter)?;
        if environment.is_complete(&stamp) {
            println!("  {folder} is up to date");
            return Ok(environment);
        }
        interpreter.require_venv()?;
        command::run(
            interpreter
                .command()
                .current_dir(tree.root())
                .args(["-m", "venv", "--clear"])
                .arg(&environment.folder),
        )?;
        command::run(environment.pip_install(tree).arg("--requirement").arg(requirements))?;
        std::fs::write(environment.folder.join(STAMP_NAME), stamp)
            .with_context(|| format!("cannot write into {folder}"))?;
        Ok(environment)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The interpreter of this environment.
    pub fn python(&self) -> PathBuf {
        self.programs().join(if cfg!(windows) { "python.exe" } else { "python" })
    }

    /// The folder of its programs.
    pub fn programs(&self) -> PathBuf {
        self.folder.join(if cfg!(windows) { "Scripts" } else { "bin" })
    }

    /// A command of its interpreter, at the root of the repository.
    pub fn command(&self, tree: &Tree) -> Command {
        let mut command = Command::new(self.python());
        command.current_dir(tree.root());
        command
    }

    /// `pip install`, to be completed.
    pub fn pip_install(&self, tree: &Tree) -> Command {
        let mut command = self.command(tree);
        command.args(["-m", "pip", "install", "--quiet"]);
        command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        command
    }

    /// What must be unchanged for the environment to be used again: the pins,
    /// the interpreter, and its own place, which its scripts hold.
    fn stamp(&self, requirements: &Path, interpreter: &Interpreter) -> Result<String> {
        let pins = std::fs::read_to_string(requirements)
            .with_context(|| format!("cannot read {}", requirements.display()))?;
        Ok(format!(
            "{}\n{} 3.{}\n{pins}",
            self.folder.display(),
            interpreter.program,
            interpreter.minor
        ))
    }

    fn is_complete(&self, stamp: &str) -> bool {
        let written = std::fs::read_to_string(self.folder.join(STAMP_NAME));
        written.is_ok_and(|written| written == stamp)
            && command::succeeds(Command::new(self.python()).arg("--version"))
    }
}

/// A Python 3 on `PATH`.
struct Interpreter {
    program: String,
    minor: u32,
}

impl Interpreter {
    /// `python3` if it is new enough, else the newest `python3.N` that is.
    fn find() -> Result<Self> {
        let named = ["python3", "python"].map(str::to_owned);
        let numbered = (MINOR_MIN..=MINOR_MIN + 10).rev();
        let candidates = named.into_iter().chain(numbered.map(|minor| format!("python3.{minor}")));
        let mut too_old = None;
        for program in candidates {
            let mut ask = Command::new(&program);
            let Ok(answer) = command::output(ask.args(["-c", PRINT_MINOR])) else {
                continue;
            };
            match answer.parse() {
                Ok(minor) if minor >= MINOR_MIN => return Ok(Self { program, minor }),
                Ok(minor) => too_old = too_old.or(Some(format!("{program} is Python 3.{minor}"))),
                Err(_) => {}
            }
        }
        let found = too_old.unwrap_or_else(|| "there is no python3 on PATH".to_owned());
        bail!(
            "Python 3.{MINOR_MIN} or newer is needed, but {found}; install one \
             (for example `apt-get install python3 python3-venv`) and run this again"
        );
    }

    fn command(&self) -> Command {
        Command::new(&self.program)
    }

    /// Make sure that it can make environments: Debian ships that apart.
    fn require_venv(&self) -> Result<()> {
        let able =
            || command::succeeds(self.command().args(["-c", "import ensurepip, venv, ctypes"]));
        if able() {
            return Ok(());
        }
        let package = format!("python3.{}-venv", self.minor);
        if system::install_with_apt(&[&package])? && able() {
            return Ok(());
        }
        bail!(
            "{} cannot make virtual environments (its `ensurepip` is missing); \
             on Debian and Ubuntu run `apt-get install {package}`",
            self.program
        );
    }
}
