//! The `zrecord` command.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(feature = "cli")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use zrecord_host::Format;

mod support;
use support::{append, copy_golden, fresh, golden, golden_names, writable};

fn zrecord(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zrecord")).args(arguments).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn inspect(path: &Path) -> Value {
    let output = zrecord(&["inspect", "--json", text(path)]);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn inspect_says_what_a_store_holds() {
    let store = inspect(&golden().join("dense_zstd_dict"));
    assert_eq!(store["format"], "classic");
    assert_eq!(store["version"], 3);
    assert_eq!(store["records"], 2048);
    assert_eq!(store["schema"]["kind"], "dense");
    assert_eq!(store["dictionaries"], 1);
    assert_eq!(store["clean"], true);
    assert!(store["codecs"]["zstd_dict"].as_u64().unwrap() > 0);
    assert_eq!(store["record_len"]["median"], store["record_len"]["max"]);
    for name in golden_names() {
        let output = zrecord(&["inspect", text(&golden().join(name))]);
        assert!(output.status.success() && stdout(&output).contains("records"));
    }
}

#[cfg(not(feature = "sandbox"))]
#[test]
fn a_build_without_the_sandbox_says_so() {
    let (_guard, path) = fresh();
    let store = golden().join("dense_zstd");
    for arguments in [
        &["inspect", text(&store)][..],
        &["verify", text(&store)],
        &["convert", text(&store), text(&path), "--format", "extended"],
    ] {
        let output = zrecord(&[arguments, &["--sandbox"]].concat());
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("no sandbox") && said.contains("--features sandbox"), "{said}");
        assert!(output.stdout.is_empty() && !path.exists());
    }
}

#[cfg(not(feature = "view"))]
#[test]
fn a_build_without_the_page_says_so() {
    let output = zrecord(&["view", text(&golden().join("dense_zstd"))]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("cargo xtask web") && said.contains("--features view"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn inspect_keeps_its_keys() {
    let (_guard, path) = fresh();
    append(&writable(Format::Extended).open(&path).unwrap(), &[vec![1; 9]]);
    let store = inspect(&path);
    let keys: Vec<&str> = store.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "chunk_bytes",
        "chunks",
        "clean",
        "codecs",
        "dictionaries",
        "format",
        "generation",
        "id",
        "leftovers",
        "plain_bytes",
        "ratio",
        "reclaimable_bytes",
        "record_len",
        "records",
        "schema",
        "stored_bytes",
        "stride",
        "version",
    ];
    assert_eq!(keys, expected);
    assert_eq!(store["id"].as_str().unwrap().len(), 32);
    assert_eq!(store["stride"], 9);
}

#[test]
fn errors_are_one_line_and_a_failure() {
    let (_guard, path) = fresh();
    for arguments in [
        &["inspect", text(&path)][..],
        &["verify", text(&path)],
        &["repair", text(&path), "--to", text(&path.join("x"))],
        &["compact", text(&path)],
        &["convert", text(&path), text(&path.join("x")), "--format", "classic"],
        &["demo", text(&path)],
    ] {
        let output = zrecord(arguments);
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(errors.starts_with("zrecord: "), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(!path.exists());
    }
}

#[test]
fn verify_lists_faults_a_line_each() {
    let (_guard, path) = fresh();
    let store = writable(Format::Extended).open(&path).unwrap();
    append(&store, &[vec![1; 50], vec![2; 50], vec![3; 50]]);
    store.close().unwrap();
    let intact = zrecord(&["verify", text(&path)]);
    assert!(intact.status.success());
    assert!(stdout(&intact).contains("3 records are intact"));
    let mut bytes = fs::read(path.join("0.zr")).unwrap();
    let last = bytes.len() - 1;
    bytes[0] ^= 1;
    bytes[last] ^= 1;
    fs::write(path.join("0.zr"), bytes).unwrap();
    let damaged = zrecord(&["verify", text(&path)]);
    assert_eq!(damaged.status.code(), Some(1));
    let faults = stdout(&damaged);
    assert_eq!(faults.lines().count(), 2, "{faults}");
    assert!(faults.contains("record 0") && faults.contains("record 2"), "{faults}");
}

/// A store of three records, of which the first is damaged.
fn damaged(path: &Path) {
    let store = writable(Format::Extended).open(path).unwrap();
    append(&store, &[vec![1; 50], vec![2; 50], vec![3; 50]]);
    store.close().unwrap();
    let mut bytes = fs::read(path.join("0.zr")).unwrap();
    bytes[0] ^= 1;
    fs::write(path.join("0.zr"), bytes).unwrap();
}

#[test]
fn verify_says_the_same_in_json() {
    let (_guard, path) = fresh();
    damaged(&path);
    let output = zrecord(&["verify", "--json", text(&path)]);
    assert_eq!(output.status.code(), Some(1));
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&verdict["intact"], &verdict["records"]), (&false.into(), &3.into()));
    assert_eq!(verdict["faults"].as_array().unwrap().len(), 1);
    let fault = &verdict["faults"][0];
    assert_eq!(
        (&fault["file"], &fault["index"], &fault["offset"]),
        (&"0.zr".into(), &0.into(), &0.into())
    );
    let intact = zrecord(&["verify", "--json", text(&golden().join("dense_raw"))]);
    assert!(intact.status.success());
    let verdict: Value = serde_json::from_slice(&intact.stdout).unwrap();
    assert_eq!((&verdict["intact"], &verdict["faults"]), (&true.into(), &Value::Array(vec![])));
    assert_eq!(verdict["format"], "classic");
}

#[test]
fn verify_reads_on_where_a_store_cannot_be_opened() {
    let (_guard, path) = fresh();
    damaged(&path);
    let mut meta = fs::read(path.join("meta.zr")).unwrap();
    meta[20] ^= 1;
    fs::write(path.join("meta.zr"), &meta).unwrap();
    let faults = stdout(&zrecord(&["verify", text(&path)]));
    for part in ["meta.zr at 0:", "meta.zr at 4096:", "meta.zr at 8192:", "0.zr at 0, record 0:"] {
        assert!(faults.contains(part), "{part}: {faults}");
    }
    fs::remove_file(path.join("meta.zr")).unwrap();
    let output = zrecord(&["verify", text(&path)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).starts_with("meta.zr: it is missing"), "{}", stdout(&output));
}

#[test]
fn repair_lists_what_it_lost() {
    let (_guard, path) = fresh();
    damaged(&path);
    let target = path.with_file_name("new.zr");
    let output = zrecord(&["repair", text(&path), "--to", text(&target)]);
    assert_eq!(output.status.code(), Some(1));
    let report = stdout(&output);
    assert!(report.contains("lost record 0: 0.zr: the checksum does not match"), "{report}");
    assert!(report.contains("saved 2 of 3 records"), "{report}");
    let again = zrecord(&["repair", text(&target), "--to", text(&path)]);
    assert!(stderr(&again).contains("already exists"));
    let third = path.with_file_name("third.zr");
    let output = zrecord(&["repair", text(&target), "--to", text(&third), "--json"]);
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["saved"], &report["counted"]), (&2.into(), &2.into()));
    assert_eq!((&report["lost"], &report["schema"]), (&Value::Array(vec![]), &"none".into()));
}

#[test]
fn compact_and_convert_do_their_work() {
    let (_guard, path) = fresh();
    copy_golden("deleted", &path);
    assert!(inspect(&path)["reclaimable_bytes"].as_u64().unwrap() > 0);
    let compacted = zrecord(&["compact", text(&path)]);
    assert!(compacted.status.success(), "{}", stderr(&compacted));
    assert_eq!(inspect(&path)["reclaimable_bytes"], 0);
    let target = path.with_file_name("extended.zr");
    let converted = zrecord(&["convert", text(&path), text(&target), "--format", "extended"]);
    assert!(converted.status.success(), "{}", stderr(&converted));
    assert_eq!(inspect(&target)["format"], "extended");
    assert_eq!(inspect(&target)["records"], inspect(&path)["records"]);
    let again = zrecord(&["convert", text(&path), text(&target), "--format", "extended"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("already exists"));
}

#[test]
fn demo_packs_a_folder_and_leaves_it_alone() {
    let (guard, _) = fresh();
    fs::write(guard.path().join("a.txt"), "some words ".repeat(100)).unwrap();
    fs::create_dir(guard.path().join("below")).unwrap();
    fs::write(guard.path().join("below/b.txt"), "other words ".repeat(200)).unwrap();
    let output = zrecord(&["demo", text(guard.path())]);
    assert!(output.status.success(), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("raw") && table.contains("zstd"), "{table}");
    assert_eq!(fs::read_dir(guard.path()).unwrap().count(), 2);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zrecord"))
        .args(["inspect", text(&golden().join("dense_raw"))])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}
