//! Tests that change their whole process (a limit, a mount) run in one of
//! their own: the test starts its program again, for itself alone.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// Says to the process that was started which test it is for.
const VARIABLE: &str = "ZRECORD_TEST_ALONE";

/// Runs `work` in a process of its own, started by `launcher` if that is not
/// empty. `name` is the name of the test.
///
/// # Panics
///
/// When that process fails, or is ended by a signal.
pub fn alone(name: &str, launcher: &[&str], work: impl FnOnce()) {
    if env::var(VARIABLE).is_ok_and(|asked| asked == name) {
        return work();
    }
    let program = env::current_exe().map(|path| path.display().to_string());
    let program = program.unwrap_or_else(|error| panic!("the program of the tests: {error}"));
    let words: Vec<&str> = launcher.iter().copied().chain([&*program]).collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env(VARIABLE, name)
        .output()
        .unwrap_or_else(|error| panic!("starting {words:?}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    println!("{said}");
    if let Some(signal) = output.status.signal() {
        panic!("the process was ended by signal {signal}");
    }
    assert!(output.status.success(), "{}", output.status);
    assert!(said.contains("1 passed"), "the test was not run: {name}");
}

/// What starts a process that may mount file systems for itself alone.
///
/// # Errors
///
/// Why this system does not let us.
pub fn mounting() -> Result<&'static [&'static str], String> {
    const LAUNCHERS: [&[&str]; 2] =
        [&["unshare", "--mount"], &["unshare", "--user", "--map-root-user", "--mount"]];
    let mut reason = String::new();
    for launcher in LAUNCHERS {
        let mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/mnt"];
        let tried = Command::new(launcher[0])
            .args(&launcher[1..])
            .args(mount)
            .stdin(Stdio::null())
            .output();
        match tried {
            Ok(output) if output.status.success() => return Ok(launcher),
            Ok(output) => reason = String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => reason = error.to_string(),
        }
    }
    Err(format!("mounting a file system of its own: {reason}"))
}

/// Mounts a file system, or changes how it is mounted.
///
/// # Panics
///
/// When that does not work.
pub fn mount(options: &str, place: &std::path::Path) {
    let status =
        Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(place).status();
    assert!(status.is_ok_and(|status| status.success()), "mounting at {}", place.display());
}
