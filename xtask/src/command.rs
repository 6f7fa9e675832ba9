//! Running other programs: their output streams through, their command line is
//! shown, and a failure says which one it was.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::tree::Tree;

/// `cargo` at the root of the repository: the one that runs this program.
pub fn cargo(tree: &Tree) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(tree.root());
    // Set for this program by `cargo run`; a build below must not inherit them.
    for (name, _) in std::env::vars_os() {
        let of_this_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if of_this_package {
            command.env_remove(name);
        }
    }
    command
}

/// Run to the end with the output of the program on our own.
pub fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    println!("  $ {line}");
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// What the program prints, trimmed; an error when it fails.
pub fn output(command: &mut Command) -> Result<String> {
    let line = line(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed ({}): {}", output.status, errors.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether the program can be started and succeeds; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// `PATH` with one more folder in front.
pub fn path_with(folder: &Path) -> Result<std::ffi::OsString> {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&rest));
    std::env::join_paths(folders).context("a folder name in PATH holds the separator")
}

/// The command line as a person would type it, paths below the working folder
/// made short.
fn line(command: &Command) -> String {
    let short = |word: &OsStr| {
        let path = Path::new(word);
        let below = command.get_current_dir().and_then(|dir| path.strip_prefix(dir).ok());
        let text = below.unwrap_or(path).to_string_lossy().into_owned();
        if text.is_empty() || text.contains(char::is_whitespace) {
            format!("'{text}'")
        } else {
            text
        }
    };
    let program = Path::new(command.get_program());
    let program = match program.file_stem() {
        Some(stem) if stem == "cargo" => "cargo".to_owned(),
        _ => short(program.as_os_str()),
    };
    std::iter::once(program).chain(command.get_args().map(short)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_shown_short_and_quoted() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command.current_dir("/tree").args(["test", "two words", "/tree/dist"]);
        assert_eq!(line(&command), "cargo test 'two words' dist");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("zrecord-no-such-program")).unwrap_err();
        assert!(error.to_string().contains("zrecord-no-such-program"));
    }
}
