//! `zrecord --sandbox`, and the compiled components that it keeps.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(unix)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use zrecord_host::Format;

mod support;
use support::{append, fresh, golden, golden_names, writable};

fn zrecord(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zrecord")).args(arguments).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Both ways, which must say the same and end the same.
fn assert_same(arguments: &[&str]) -> Output {
    let native = zrecord(arguments);
    let sandboxed = zrecord(&[arguments, &["--sandbox"]].concat());
    let stdout = [&native, &sandboxed].map(|output| String::from_utf8_lossy(&output.stdout));
    let stderr = [&native, &sandboxed].map(|output| String::from_utf8_lossy(&output.stderr));
    assert_eq!(stdout[0], stdout[1], "{arguments:?}: {stderr:?}");
    assert_eq!(stderr[0], stderr[1], "{arguments:?}");
    assert_eq!(native.status.code(), sandboxed.status.code());
    native
}

#[test]
fn inspect_and_verify_say_the_same() {
    for name in golden_names() {
        let path = golden().join(name);
        for arguments in
            [&["inspect"][..], &["inspect", "--json"], &["verify"], &["verify", "--json"]]
        {
            let output = assert_same(&[arguments, &[text(&path)]].concat());
            assert!(output.status.success());
        }
    }
    let (_guard, path) = fresh();
    append(&writable(Format::Extended).open(&path).unwrap(), &[vec![1; 900], vec![2; 100]]);
    fs::write(path.join("meta.zr.new"), "cut").unwrap();
    fs::write(path.join("7.zr"), "left").unwrap();
    for arguments in [["inspect", "--json"], ["verify", "--json"]] {
        let output = assert_same(&[&arguments[..], &[text(&path)]].concat());
        assert!(String::from_utf8_lossy(&output.stdout).contains("7.zr"));
    }
}

#[test]
fn damage_is_said_the_same() {
    let (_guard, path) = fresh();
    // With checksums, decoders need not say in words of their own what is wrong.
    let source = golden().join("dense_zstd");
    zrecord_host::convert(source, &path, Format::Extended, &mut |_| {}).unwrap();
    let chunk = path.join("0.zr");
    let mut bytes = fs::read(&chunk).unwrap();
    bytes[100..120].fill(0xee);
    fs::write(&chunk, bytes).unwrap();
    let output = assert_same(&["verify", text(&path)]);
    assert_eq!(output.status.code(), Some(1));
    let json = assert_same(&["verify", "--json", text(&path)]);
    assert!(String::from_utf8_lossy(&json.stdout).contains("\"intact\": false"));
    fs::write(path.join("meta.zr"), "nothing of a store").unwrap();
    assert_eq!(assert_same(&["verify", text(&path)]).status.code(), Some(1));
    assert_eq!(assert_same(&["inspect", text(&path)]).status.code(), Some(1));
    fs::remove_file(path.join("meta.zr")).unwrap();
    assert_eq!(assert_same(&["verify", text(&path)]).status.code(), Some(1));
    let nothing = path.with_file_name("nothing.zr");
    for name in ["inspect", "verify"] {
        assert_eq!(assert_same(&[name, text(&nothing)]).status.code(), Some(1));
    }
}

#[test]
fn convert_makes_the_same_store() {
    let (_guard, first) = fresh();
    let second = first.with_file_name("second.zr");
    let source = golden().join("dense_zstd_dict");
    for (path, flag) in [(&first, &[][..]), (&second, &["--sandbox"])] {
        let arguments = ["convert", text(&source), text(path), "--format", "extended"];
        let output = zrecord(&[&arguments[..], flag].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.ends_with("records, extended\n"), "{said}");
    }
    assert_eq!(fs::read(first.join("0.zr")).unwrap(), fs::read(second.join("0.zr")).unwrap());
    let inspect = |path| String::from_utf8(zrecord(&["inspect", "--json", text(path)]).stdout);
    let without_id = |path| {
        let said = inspect(path).unwrap();
        said.lines().filter(|line| !line.contains("\"id\"")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(without_id(&first), without_id(&second));
}

/// Runs a command that needs the reader, with a cache of its own.
fn inspect_with(cache: &Path) {
    let path = golden().join(&golden_names()[0]);
    let output = Command::new(env!("CARGO_BIN_EXE_zrecord"))
        .args(["inspect", "--sandbox", text(&path)])
        .env("XDG_CACHE_HOME", cache)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn kept(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn compiled_components_are_kept_for_their_user_alone() {
    let directory = tempfile::tempdir().unwrap();
    // As a user's cache may be before anything was kept in it: not there.
    let cache = directory.path().join("cache");
    inspect_with(&cache);
    let folder = cache.join("zrecord");
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    let [file] = &kept(&folder)[..] else { panic!("{:?}", kept(&folder)) };
    assert_eq!(fs::metadata(file).unwrap().mode() & 0o777, 0o600);
    let identity = || fs::metadata(file).map(|found| (found.ino(), found.len())).unwrap();
    let made = identity();
    inspect_with(&cache);
    assert_eq!(identity(), made, "it is used again");
    let bytes = fs::read(file).unwrap();
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(file, damaged).unwrap();
    inspect_with(&cache);
    assert_ne!(identity().0, made.0, "a damaged one is replaced");
    assert!(fs::read(file).unwrap().len() == bytes.len());
    assert_eq!(kept(&folder).len(), 1, "no part of one stays");
}

#[test]
fn what_others_may_write_to_is_no_cache() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("zrecord");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o770)).unwrap();
    inspect_with(directory.path());
    assert_eq!(kept(&folder), [] as [PathBuf; 0]);
    let elsewhere = directory.path().join("elsewhere");
    fs::rename(&folder, &elsewhere).unwrap();
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o700)).unwrap();
    symlink(&elsewhere, &folder).unwrap();
    inspect_with(directory.path());
    assert_eq!(kept(&elsewhere), [] as [PathBuf; 0]);
}
