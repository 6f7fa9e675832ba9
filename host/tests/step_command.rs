//! `zrecord run`, as its users call it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use zrecord_host::{Codec, Dtype, Format, Kind, Schema, Store};

mod support;
use support::{append, fresh, writable};

fn zrecord(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zrecord"));
    command.args(arguments);
    command
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn step(name: &str) -> PathBuf {
    let folder = std::env::var_os("ZRECORD_COMPONENTS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/component"),
        PathBuf::from,
    );
    folder.join("steps").join(format!("{name}.wasm"))
}

/// Bytes of text, of which one is too short for the step `text`.
fn texts(path: &Path) {
    let store = writable(Format::Extended).open(path).unwrap();
    let dtype = Dtype::parse("|u1").unwrap();
    let schema = Schema::new(Kind::Ragged, dtype, vec![], Codec::Zstd, vec![]).unwrap();
    store.set_schema(&schema).unwrap();
    let line = b"one line of a text\n".to_vec();
    append(&store, &[line.repeat(3), b"short".to_vec(), line.repeat(200)]);
    store.close().unwrap();
}

fn run(step: &Path, from: &Path, to: &Path, rest: &[&str]) -> Output {
    let paths = ["run", text(step), "--from", text(from), "--to", text(to)];
    zrecord(&paths).args(rest).output().unwrap()
}

fn one_line(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn a_step_is_run_and_says_what_it_made() {
    let (guard, from) = fresh();
    texts(&from);
    let config = guard.path().join("config.json");
    fs::write(&config, r#"{"max_len": 190}"#).unwrap();
    let at_config = format!("@{}", text(&config));
    for (number, config) in [r#"{"max_len": 190}"#, &at_config].iter().enumerate() {
        let to = from.with_extension(number.to_string());
        let rest = ["--config", config, "--memory", "64MiB", "--time", "20s", "--instances", "2"];
        let output = run(&step("text"), &from, &to, &rest);
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, format!("{}: 21 records of 3 (1 made none)\n", text(&to)));
        assert_eq!(Store::open(&to).unwrap().len().unwrap(), 21);
    }
}

#[test]
fn what_cannot_be_done_is_said_in_a_line_and_leaves_nothing() {
    let (guard, from) = fresh();
    texts(&from);
    let to = from.with_extension("out");
    let says = |step: &Path, rest: &[&str], expected: &str| {
        let said = one_line(&run(step, &from, &to, rest));
        assert!(said.contains(expected), "{said}");
        assert_eq!(fs::read_dir(guard.path()).unwrap().count(), 1);
    };
    says(&step("text"), &["--config", "{"], "the configuration");
    says(&step("text"), &["--config", "@/nowhere"], "/nowhere");
    says(&step("tiles"), &[], "tiles are dense rows");
    says(Path::new("/nowhere.wasm"), &[], "/nowhere.wasm");
    says(&from, &[], "store.zr");
    says(&from.join("0.zr"), &[], "does not begin as WebAssembly does");
    says(&step("misbehaving"), &["--config", "loop", "--time", "100ms"], "limit on time was met");
    says(&step("misbehaving"), &["--config", "take all memory", "--memory", "200MiB"], "memory");
    says(&step("misbehaving"), &["--config", "fail"], "records 0 to 2: out of luck");
    let said = one_line(&run(&step("text"), &to, &from.with_extension("x"), &[]));
    assert!(said.contains("store.out"), "{said}");
    for wrong in [["--memory", "much"], ["--time", "5"], ["--instances", "0"]] {
        assert_eq!(run(&step("text"), &from, &to, &wrong).status.code(), Some(2));
    }
}

#[test]
fn a_run_that_is_killed_leaves_no_store_and_the_next_cleans_up() {
    let (guard, from) = fresh();
    texts(&from);
    let to = from.with_extension("out");
    let misbehaving = step("misbehaving");
    let paths = ["run", text(&misbehaving), "--from", text(&from), "--to", text(&to)];
    let mut child =
        zrecord(&paths).args(["--config", "loop"]).stderr(Stdio::null()).spawn().unwrap();
    // Until the new store is being written beside its place.
    let begun = Instant::now();
    while fs::read_dir(guard.path()).unwrap().count() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!to.exists());
    let output = run(&step("misbehaving"), &from, &to, &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_dir(guard.path()).unwrap().count(), 2);
    assert_eq!(Store::open(&to).unwrap().len().unwrap(), 3);
}
