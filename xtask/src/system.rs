//! What must be on the machine: a C compiler and a few packages.
//!
//! Nothing is installed behind a person's back: only where this runs as the
//! superuser of a Debian-like system, as in a container, is a missing package
//! installed; everywhere else the message says what to type.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command;

/// Make sure that a C compiler is there, since libzstd is built from source.
///
/// # Errors
///
/// When there is none and it cannot be installed; the message says how.
pub fn require_c_compiler() -> Result<()> {
    if cfg!(windows) {
        // There the compiler is found through the registry, by the build itself.
        return Ok(());
    }
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let present = || command::succeeds(Command::new(&compiler).arg("--version"));
    if present() {
        return Ok(());
    }
    if install_with_apt(&["gcc", "libc6-dev"])? && present() {
        return Ok(());
    }
    let advice = if cfg!(target_os = "macos") {
        "run `xcode-select --install`"
    } else {
        "install one, for example `apt-get install gcc libc6-dev` or `dnf install gcc`"
    };
    bail!("no C compiler: `{compiler}` cannot be run, and libzstd is built from C; {advice}");
}

/// Install Debian packages if this machine and this user can.
///
/// False means that it was not tried; nothing was changed then.
///
/// # Errors
///
/// When the installation was tried and failed.
pub fn install_with_apt(packages: &[&str]) -> Result<bool> {
    if !(cfg!(target_os = "linux") && is_superuser() && has_apt()) {
        return Ok(false);
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    command::run(apt().args(["update", "-qq"]))?;
    command::run(apt().args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages))?;
    Ok(true)
}

fn is_superuser() -> bool {
    command::output(Command::new("id").arg("-u")).is_ok_and(|id| id == "0")
}

fn has_apt() -> bool {
    command::succeeds(Command::new("apt-get").arg("--version"))
}
