//! Processes that work on a store and can be killed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// Chunks are small, so that there are several and compaction has rounds.
pub const CHUNK_SIZE_MAX: u64 = 60_000;

/// Where a worker puts what it converts the store at `path` into.
pub fn beside(path: &Path) -> PathBuf {
    path.with_extension("other")
}

/// A running worker; killed when it is dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts the worker program with these arguments.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(program: &str, arguments: &[String]) -> Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("its output")?);
        Ok(Self { child, commands, answers })
    }

    /// Starts a worker that obeys, over the store at `path`.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn obeying(program: &str, path: &Path) -> Result<Self> {
        Self::start(program, &["obey".into(), path.display().to_string()])
    }

    /// The next line that it says.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("the worker has ended: {}", self.child.wait()?);
        }
        Ok(line.trim_end().to_owned())
    }

    /// Tells it to do something and says what it answers.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn tell(&mut self, command: &str) -> Result<String> {
        let commands = self.commands.as_mut().context("its input")?;
        commands.write_all(format!("{command}\n").as_bytes())?;
        self.answer()
    }

    /// Kills it at once; says how it ended and what it had still said.
    ///
    /// # Errors
    ///
    /// IO errors.
    pub fn kill(mut self) -> Result<(ExitStatus, Vec<String>)> {
        self.child.kill()?;
        let status = self.child.wait()?;
        let mut lines = Vec::new();
        while let Ok(line) = self.answer() {
            lines.push(line);
        }
        Ok((status, lines))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself, or been killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
