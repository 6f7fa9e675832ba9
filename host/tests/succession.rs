//! Stores that take the place of others, and what killed runs leave beside it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

use zrecord_host::core::Error;
use zrecord_host::{Format, Mode, OpenOptions, Store, Successor, convert};

mod support;
use support::{FORMATS, all, append, core_error, fresh, golden, writable};

fn filled(path: &Path, format: Format, byte: u8) {
    let store = writable(format).open(path).unwrap();
    append(&store, &vec![vec![byte; 100]; 5]);
    store.close().unwrap();
}

/// Begins to replace the store at `path`, up to the point where it is whole.
fn begin(path: &Path, format: Format, byte: u8) -> zrecord_host::Result<Successor> {
    let successor = Successor::begin(path, true)?;
    filled(successor.path(), format, byte);
    Ok(successor)
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// As a killed run leaves it: files, and nobody who holds a lock.
fn dead(path: &Path, unique: &str) -> PathBuf {
    let name = path.file_name().unwrap().to_str().unwrap();
    let dead = path.with_file_name(format!(".{name}.{unique}.new"));
    filled(&dead, Format::Extended, 9);
    dead
}

#[test]
fn a_store_takes_the_place_of_nothing_of_an_empty_directory_and_of_a_store() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let deep = path.join("deep/er");
        begin(&deep, format, 1).unwrap().publish().unwrap();
        assert_eq!(all(&Store::open(&deep).unwrap()), vec![vec![1; 100]; 5]);
        let (_guard, path) = fresh();
        fs::create_dir(&path).unwrap();
        drop(Successor::begin(&path, true).unwrap());
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        for byte in 1..4 {
            begin(&path, format, byte).unwrap().publish().unwrap();
            assert_eq!(all(&Store::open(&path).unwrap()), vec![vec![byte; 100]; 5]);
            assert_eq!(names(&path), ["store.zr"]);
        }
        drop(begin(&path, format, 7).unwrap());
        assert_eq!(all(&Store::open(&path).unwrap()), vec![vec![3; 100]; 5]);
        assert_eq!(names(&path), ["store.zr"]);
    }
}

#[test]
fn a_store_that_came_into_an_empty_directory_meanwhile_stays() {
    for replaces in [false, true] {
        let (_guard, path) = fresh();
        fs::create_dir(&path).unwrap();
        let successor = Successor::begin(&path, replaces).unwrap();
        filled(successor.path(), Format::Extended, 2);
        filled(&path, Format::Extended, 1);
        let reader = Store::open(&path).unwrap();
        assert!(successor.publish().is_err());
        assert_eq!(all(&reader), vec![vec![1; 100]; 5]);
        assert_eq!(names(&path), ["store.zr"]);
    }
}

#[test]
fn a_successor_may_be_looked_into_by_whom_its_predecessor_allowed() {
    use std::os::unix::fs::PermissionsExt;
    for filled_before in [false, true] {
        let (_guard, path) = fresh();
        fs::create_dir(&path).unwrap();
        if filled_before {
            filled(&path, Format::Extended, 1);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o710)).unwrap();
        begin(&path, Format::Extended, 2).unwrap().publish().unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o710);
    }
}

#[test]
fn through_a_link_the_store_behind_it_is_replaced() {
    let (_guard, path) = fresh();
    filled(&path, Format::Extended, 1);
    let link = path.with_file_name("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    begin(&link, Format::Extended, 2).unwrap().publish().unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(all(&Store::open(&path).unwrap()), vec![vec![2; 100]; 5]);
    assert_eq!(names(&path), ["link", "store.zr"]);
}

#[test]
fn a_store_that_is_open_is_not_replaced() {
    let (_guard, path) = fresh();
    filled(&path, Format::Extended, 1);
    let reader = Store::open(&path).unwrap();
    assert!(matches!(core_error(Successor::begin(&path, true)), Error::Busy { .. }));
    drop(reader);
    // Opened while the new one was written.
    let successor = begin(&path, Format::Extended, 2).unwrap();
    let reader = Store::open(&path).unwrap();
    assert!(matches!(core_error(successor.publish()), Error::Busy { .. }));
    assert_eq!(all(&reader), vec![vec![1; 100]; 5]);
    assert_eq!(names(&path), ["store.zr"]);
}

#[test]
fn what_is_more_than_a_store_is_not_replaced() {
    let (_guard, path) = fresh();
    filled(&path, Format::Extended, 1);
    for strange in ["thesis.tex", "00.zr", "dict.256.zr", "+1.zr"] {
        fs::write(path.join(strange), "...").unwrap();
        let error = core_error(Successor::begin(&path, true));
        assert!(matches!(&error, Error::NotAStore { reason } if reason.contains(strange)));
        fs::remove_file(path.join(strange)).unwrap();
    }
    fs::create_dir(path.join("1.zr")).unwrap();
    assert!(matches!(core_error(Successor::begin(&path, true)), Error::NotAStore { .. }));
    assert!(matches!(core_error(Successor::begin(&path, false)), Error::AlreadyExists));
    assert_eq!(names(&path), ["store.zr"]);
}

#[test]
fn the_next_run_removes_what_dead_ones_left_and_nothing_else() {
    let (_guard, path) = fresh();
    dead(&path, "0123456789abcdef");
    dead(&path, "00000000000000ff");
    let elsewhere = dead(&path.with_file_name("other.zr"), "0123456789abcdef");
    let strange = dead(&path, "00000000000000aa");
    fs::write(strange.join("thesis.tex"), "...").unwrap();
    let not_ours = path.with_file_name(".store.zr.0123.new");
    fs::create_dir(&not_ours).unwrap();
    let link = path.with_file_name(".store.zr.00000000000000bb.new");
    std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
    let living = Successor::begin(&path, true).unwrap();
    let read = dead(&path, "00000000000000cc");
    let reader = OpenOptions::new().mode(Mode::Read).open(&read).unwrap();

    convert(golden().join("dense_raw"), &path, Format::Extended, &mut |_| {}).unwrap();
    for path in [&path, &elsewhere, &strange, &not_ours, &link, &read, living.path()] {
        assert!(path.symlink_metadata().is_ok(), "{} is gone", path.display());
    }
    assert_eq!(names(&path).len(), 7, "{:?}", names(&path));
    drop((reader, living));
    fs::remove_dir_all(&path).unwrap();
    convert(golden().join("dense_raw"), &path, Format::Extended, &mut |_| {}).unwrap();
    assert!(!read.exists());
}
