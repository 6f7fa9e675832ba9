//! `cargo xtask fuzz`: every fuzz target of `fuzz/`, for a while, beginning
//! with the saved corpus of `tests/corpus`.
//!
//! What a target does lies in `zrecord_tests::fuzz`; ordinary tests replay the
//! corpus without any of this. New inputs are kept in `target/fuzz/corpora`,
//! findings in `target/fuzz/findings`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};

use crate::command::{self, cargo};
use crate::steps::Steps;
use crate::tree::Tree;

/// How long each target runs unless asked otherwise, in seconds.
pub const SECONDS: u32 = 30;
/// All there are, as `zrecord_tests::fuzz::TARGETS` has them.
const TARGETS: [&str; 6] = ["codec", "open", "operations", "sampler", "schema", "writer"];
const CARGO_FUZZ_VERSION: &str = "0.13.2";
/// How many run at once: each is one thread.
const AT_ONCE: usize = 2;
/// What libFuzzer holds every input to: seconds, of which a busy machine needs
/// some for what takes milliseconds; and megabytes in all.
const LIMITS: [&str; 3] = ["-timeout=30", "-rss_limit_mb=1024", "-max_len=4096"];

/// How the targets are built and run.
pub struct Options {
    /// One target, or all.
    pub target: Option<String>,
    /// How long each runs, in seconds.
    pub seconds: u32,
    /// What inputs are drawn from; another one for every run unless given.
    pub seed: Option<u32>,
    /// What the compiler adds: `none`, or `address` for a slower build that
    /// also watches every access to memory.
    pub sanitizer: String,
}

/// Builds the targets and runs them.
///
/// # Errors
///
/// When a tool is missing, the build fails, or a target has a finding.
pub fn run(tree: &Tree, steps: &mut Steps, options: &Options) -> Result<()> {
    let targets: Vec<&str> = match &options.target {
        None => TARGETS.to_vec(),
        Some(name) => match TARGETS.into_iter().find(|target| target == name) {
            Some(target) => vec![target],
            None => bail!("there is no fuzz target {name}; there are {}", TARGETS.join(", ")),
        },
    };
    if !has_nightly() {
        bail!(
            "fuzzing needs a nightly compiler: rustup toolchain install nightly --profile minimal"
        );
    }
    steps.run("cargo-fuzz", || install(tree))?;
    let folder = match &*options.sanitizer {
        "none" => "target/fuzz".to_owned(),
        sanitizer => format!("target/fuzz-{sanitizer}"),
    };
    steps.run("fuzz targets", || build(tree, &folder, &options.sanitizer))?;
    let name = format!("fuzzing, {} s for each of {}", options.seconds, targets.len());
    steps.run(&name, || fuzz(tree, &folder, &targets, options))
}

/// The part of the tests: [`SECONDS`] for each target, from one seed, so that
/// a change is judged by what it changes and not by luck. A machine without a
/// nightly compiler does without; the saved corpus was replayed anyway.
///
/// # Errors
///
/// As [`run`].
pub fn test(tree: &Tree, steps: &mut Steps) -> Result<()> {
    if !has_nightly() {
        println!(
            "==> no fuzzing: there is no nightly compiler here (rustup toolchain install nightly)"
        );
        return Ok(());
    }
    let sanitizer = "none".into();
    run(tree, steps, &Options { target: None, seconds: SECONDS, seed: Some(1), sanitizer })
}

fn has_nightly() -> bool {
    command::succeeds(Command::new("rustup").args(["run", "nightly", "rustc", "--version"]))
}

fn install(tree: &Tree) -> Result<()> {
    let tool = tree.path("target/tools/bin/cargo-fuzz");
    if tool.is_file() {
        println!("  target/tools/bin/cargo-fuzz is there");
        return Ok(());
    }
    let mut install = cargo(tree);
    install.args(["install", "--quiet", "--locked", "--root", "target/tools"]);
    install.args(["--version", CARGO_FUZZ_VERSION, "cargo-fuzz"]);
    command::run(&mut install)
}

fn build(tree: &Tree, folder: &str, sanitizer: &str) -> Result<()> {
    let mut build = Command::new("rustup");
    build.current_dir(tree.root());
    build.env("PATH", command::path_with(&tree.path("target/tools/bin"))?);
    build.args(["run", "nightly", "cargo", "fuzz", "build", "--codegen-units", "16"]);
    build.args(["--sanitizer", sanitizer, "--target-dir", folder]);
    command::run(&mut build)
}

/// Runs targets, two at a time, and says what each did.
fn fuzz(tree: &Tree, folder: &str, targets: &[&str], options: &Options) -> Result<()> {
    let waiting = Mutex::new(targets.iter());
    let findings = Mutex::new(Vec::new());
    let work = || {
        let next = || waiting.lock().ok().and_then(|mut waiting| waiting.next());
        while let Some(target) = next() {
            match fuzz_one(tree, folder, target, options) {
                Ok(line) => println!("  {target}: {line}"),
                Err(error) => {
                    println!("  {target}: {error:#}");
                    if let Ok(mut findings) = findings.lock() {
                        findings.push(*target);
                    }
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    match findings.into_inner() {
        Ok(findings) if findings.is_empty() => Ok(()),
        Ok(findings) => bail!("findings in {}", findings.join(", ")),
        Err(_) => bail!("a thread of the job panicked"),
    }
}

/// Runs one target; what it did, in a line.
fn fuzz_one(tree: &Tree, folder: &str, target: &str, options: &Options) -> Result<String> {
    let program = program(&tree.path(folder), target)?;
    let folder = |kind: &str| -> Result<PathBuf> {
        let path = tree.path("target/fuzz").join(kind).join(target);
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(path)
    };
    let (corpus, found) = (folder("corpora")?, folder("findings")?);
    let log = folder("logs")?.join("log");
    let output = File::create(&log).with_context(|| log.display().to_string())?;
    let mut run = Command::new(&program);
    run.current_dir(tree.root()).arg(&corpus).arg(tree.path("tests/corpus").join(target));
    run.args(LIMITS).arg("-print_final_stats=1");
    run.arg(format!("-max_total_time={}", options.seconds));
    // libFuzzer takes 0 as "draw one".
    run.arg(format!("-seed={}", options.seed.unwrap_or(0)));
    // The trailing slash makes it a folder.
    run.arg(format!("-artifact_prefix={}/", found.display()));
    run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    let status = run.status().with_context(|| format!("cannot start {}", program.display()))?;
    let text = fs::read(&log).with_context(|| log.display().to_string())?;
    let text = String::from_utf8_lossy(&text);
    if !status.success() {
        let last: Vec<&str> = text.lines().rev().take(40).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        bail!("a finding ({status}), kept in {}:\n{}", found.display(), last.join("\n"));
    }
    Ok(summary(&text))
}

/// The built program of a target, below the folder of the target's triple.
fn program(folder: &Path, target: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path().join("release").join(target);
        if path.is_file() {
            return Ok(path);
        }
    }
    bail!("cargo fuzz left no program {target} in {}", folder.display())
}

/// The counts of a run by libFuzzer's last lines.
fn summary(text: &str) -> String {
    let stat = |name: &str| {
        let line = text.lines().rev().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()
    };
    let progress = text.lines().rev().find(|line| line.contains(" ft: "));
    let features = progress.and_then(|line| line.split(" ft: ").nth(1)?.split(' ').next());
    format!(
        "{} inputs, {} features, {} new inputs kept, at most {} MB, no finding",
        stat("stat::number_of_executed_units").unwrap_or("?"),
        features.unwrap_or("?"),
        stat("stat::new_units_added").unwrap_or("?"),
        stat("stat::peak_rss_mb").unwrap_or("?"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_are_those_of_the_fuzz_crate() {
        let manifest = include_str!("../../fuzz/Cargo.toml");
        let named = manifest.lines().filter(|line| line.starts_with("path = \"fuzz_targets/"));
        let expected = TARGETS.map(|target| format!("path = \"fuzz_targets/{target}.rs\""));
        let mut named: Vec<&str> = named.collect();
        named.sort_unstable();
        assert_eq!(named, expected);
    }

    #[test]
    fn a_run_is_summed_up_by_its_last_lines() {
        let log = "#9 NEW cov: 1 ft: 2 corp: 3/4b\n#99 DONE cov: 10 ft: 20 corp: 3/4b lim: 4\n\
                   stat::number_of_executed_units: 99\nstat::new_units_added:          7\n\
                   stat::peak_rss_mb:              55\n";
        let expected = "99 inputs, 20 features, 7 new inputs kept, at most 55 MB, no finding";
        assert_eq!(summary(log), expected);
    }
}
