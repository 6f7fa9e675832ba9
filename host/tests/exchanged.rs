//! Files that were cut, removed, extended, exchanged or replaced before the
//! store is opened: reading gives an error or what was stored.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(unix)]

use std::fs::{self, File, OpenOptions as FileOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use zrecord_host::{Format, Io, OpenOptions, Store, Verify};

mod damaging;
mod support;
use damaging::{Recipe, Subject, faults, strided, used_bytes};
use support::{FORMATS, Random, append, fresh, writable};

/// What a change of files came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Reading gave an error, and verify a fault.
    Error,
    /// Verify saw nothing: an untyped store is as good as any.
    ReadAlone,
    VerifyAlone,
    NoEffect,
    Silent,
}

fn outcome(subject: &Subject) -> Outcome {
    let readings = [(Verify::First, Io::Map), (Verify::Always, Io::Pread)]
        .map(|(verify, io)| subject.read(verify, io));
    let faults = subject.faults();
    if readings.iter().any(|reading| reading.wrong > 0) {
        return Outcome::Silent;
    }
    if readings.iter().any(|reading| reading.errors > 0) {
        return if faults.is_empty() { Outcome::ReadAlone } else { Outcome::Error };
    }
    if faults.is_empty() { Outcome::NoEffect } else { Outcome::VerifyAlone }
}

fn set_size(path: &Path, size: u64) {
    FileOptions::new().write(true).open(path).unwrap().set_len(size).unwrap();
}

/// Cuts a file to `size`, looks, and puts it back.
fn outcome_of_cut(subject: &Subject, name: &str, size: usize, bytes: &[u8]) -> Outcome {
    set_size(&subject.file(name), size as u64);
    let outcome = outcome(subject);
    fs::write(subject.file(name), bytes).unwrap();
    outcome
}

#[test]
fn a_cut_file_of_an_extended_store_is_noticed_at_every_length() {
    let subject = Recipe::small(Format::Extended, 11).make();
    let used = used_bytes(&subject.path);
    for name in subject.files() {
        let bytes = fs::read(subject.file(&name)).unwrap();
        for size in 0..bytes.len() {
            // What lies in the header between its parts is all alike.
            if name == "meta.zr" && size < 12_288 && size % 61 != 0 {
                continue;
            }
            let found = outcome_of_cut(&subject, &name, size, &bytes);
            let is_used = used[&name][size..].contains(&true);
            assert_ne!(found, Outcome::Silent, "{name} cut to {size}");
            assert_ne!(found, Outcome::ReadAlone, "{name} cut to {size}");
            assert!(!is_used || found != Outcome::NoEffect, "{name} cut to {size}");
        }
    }
    assert_eq!(outcome(&subject), Outcome::NoEffect);
}

#[test]
fn a_cut_file_of_a_larger_store_is_noticed() {
    for (seed, subject) in [(21, strided(2_000, 500)), (22, larger(22))] {
        let mut random = Random::new(seed);
        let used = used_bytes(&subject.path);
        for name in subject.files() {
            let bytes = fs::read(subject.file(&name)).unwrap();
            for _ in 0..10 {
                let size = usize::try_from(random.below(bytes.len() as u64)).unwrap();
                let found = outcome_of_cut(&subject, &name, size, &bytes);
                let is_used = used[&name][size..].contains(&true);
                assert_ne!(found, Outcome::Silent, "{name} cut to {size}");
                assert!(!is_used || found != Outcome::NoEffect, "{name} cut to {size}");
            }
        }
    }
}

fn larger(seed: u64) -> Subject {
    let recipe = Recipe::small(Format::Extended, seed);
    Recipe { records: 1_200, len_max: 1_000, chunk_size: 100_000, deleted: 9, ..recipe }.make()
}

#[test]
fn a_cut_file_of_a_classic_store_is_an_error_or_has_no_effect() {
    let subject = Recipe::small(Format::Classic, 12).make();
    let table_end = 16 + 16 * subject.records.len() as u64;
    for size in 0..table_end {
        let meta = used_part(&subject.file("meta.zr"), table_end);
        set_size(&subject.file("meta.zr"), size);
        assert_eq!(outcome(&subject), Outcome::Error, "meta.zr cut to {size}");
        fs::write(subject.file("meta.zr"), meta).unwrap();
    }
    assert_eq!(outcome(&subject), Outcome::NoEffect);
    for size in 0..250 {
        let chunk = used_part(&subject.file("0.zr"), 250);
        set_size(&subject.file("0.zr"), size);
        let found = outcome(&subject);
        // The bytes of a deleted record may be the last.
        assert!(found == Outcome::Error || size > 150, "0.zr cut to {size}: {found:?}");
        assert_ne!(found, Outcome::Silent);
        fs::write(subject.file("0.zr"), chunk).unwrap();
    }
}

fn used_part(path: &Path, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    let file = File::open(path).unwrap();
    let there = file.metadata().unwrap().len().min(len);
    bytes.truncate(usize::try_from(there).unwrap());
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn a_removed_file_is_noticed() {
    for format in FORMATS {
        let subject = Recipe::small(format, 13).make();
        for name in subject.files() {
            let aside = subject.path.with_extension("aside");
            fs::rename(subject.file(&name), &aside).unwrap();
            // A classic store without its schema is an untyped one.
            let expected = match (format, name.as_str()) {
                (Format::Classic, "schema.msgpack") => Outcome::ReadAlone,
                _ => Outcome::Error,
            };
            assert_eq!(outcome(&subject), expected, "{name}");
            fs::rename(&aside, subject.file(&name)).unwrap();
        }
        fs::remove_file(subject.file("lock.zr")).unwrap_or_default();
        assert_eq!(outcome(&subject), Outcome::NoEffect);
    }
}

#[test]
fn an_extended_file_is_noticed_or_has_no_effect() {
    for format in FORMATS {
        let subject = Recipe::small(format, 14).make();
        for name in subject.files() {
            let size = fs::metadata(subject.file(&name)).unwrap().len();
            for more in [1, 100, 5_000] {
                set_size(&subject.file(&name), size + more);
                assert_ne!(outcome(&subject), Outcome::Silent, "{name} and {more} bytes");
            }
            set_size(&subject.file(&name), size);
        }
        assert_eq!(outcome(&subject), Outcome::NoEffect);
    }
}

fn exchange(one: &Path, other: &Path) {
    let aside = one.with_extension("aside");
    fs::rename(one, &aside).unwrap();
    fs::rename(other, one).unwrap();
    fs::rename(&aside, other).unwrap();
}

#[test]
fn chunks_exchanged_within_a_store_are_noticed() {
    let subject = Recipe::small(Format::Extended, 15).make();
    let chunks = subject.files().into_iter().filter(|name| name.as_bytes()[0].is_ascii_digit());
    let chunks: Vec<String> = chunks.collect();
    assert!(chunks.len() > 2);
    for pair in chunks.windows(2) {
        exchange(&subject.file(&pair[0]), &subject.file(&pair[1]));
        assert_eq!(outcome(&subject), Outcome::Error, "{pair:?}");
        exchange(&subject.file(&pair[0]), &subject.file(&pair[1]));
    }
    assert_eq!(outcome(&subject), Outcome::NoEffect);
}

#[test]
fn files_exchanged_with_those_of_a_like_store_are_noticed() {
    let (one, other) =
        (Recipe::small(Format::Extended, 16).make(), Recipe::small(Format::Extended, 17).make());
    // Files of the same sizes.
    let (first, second) = (strided(50, 40), strided_of_other_bytes(50, 40));
    let sizes = |subject: &Subject| fs::metadata(subject.file("0.zr")).unwrap().len();
    assert_eq!(sizes(&first), sizes(&second));
    exchange(&first.file("0.zr"), &second.file("0.zr"));
    assert_eq!(outcome(&first), Outcome::Error);
    assert_eq!(outcome(&second), Outcome::Error);
    for name in ["0.zr", "1.zr", "dict.zr"] {
        exchange(&one.file(name), &other.file(name));
        for subject in [&one, &other] {
            let found = outcome(subject);
            // A dictionary that no record needs is noticed by verify alone.
            let noticed =
                found == Outcome::Error || (name, found) == ("dict.zr", Outcome::VerifyAlone);
            assert!(noticed, "{name}: {found:?}");
        }
        exchange(&one.file(name), &other.file(name));
    }
    exchange(&one.file("schema.msgpack"), &first.file("schema.msgpack"));
    assert_eq!(outcome(&one), Outcome::Error);
    assert!(one.faults()[0].to_string().contains("schema.msgpack: its hash is"));
}

/// As [`strided`], with records that have other bytes.
fn strided_of_other_bytes(count: u64, len: usize) -> Subject {
    let subject = strided(count, len);
    let (_guard, path) = fresh();
    let store = writable(Format::Extended).lock(false).open(&path).unwrap();
    store.set_schema(&subject.schema).unwrap();
    let records: Vec<Vec<u8>> = subject
        .records
        .iter()
        .map(|record| record.iter().map(|byte| byte ^ 0x55).collect())
        .collect();
    append(&store, &records);
    store.close().unwrap();
    for name in ["meta.zr", "0.zr", "schema.msgpack"] {
        fs::copy(path.join(name), subject.file(name)).unwrap();
    }
    Subject { records, ..subject }
}

#[test]
fn an_older_copy_of_a_chunk_is_noticed() {
    let subject = Recipe::small(Format::Extended, 18).make();
    let names = subject.files();
    let last = names.iter().rfind(|name| name.as_bytes()[0].is_ascii_digit()).unwrap();
    let older = fs::read(subject.file(last)).unwrap();
    let store = OpenOptions::new().mode(zrecord_host::Mode::Append).lock(false);
    let store = store.open(&subject.path).unwrap();
    append(&store, &[vec![7; 30]]);
    store.close().unwrap();
    let mut records = subject.records.clone();
    records.push(vec![7; 30]);
    let subject = Subject { records, ..subject };
    assert_eq!(outcome(&subject), Outcome::NoEffect);
    fs::write(subject.file(last), older).unwrap();
    assert_eq!(outcome(&subject), Outcome::Error);
}

#[test]
fn what_is_no_regular_file_is_refused_and_does_not_block() {
    for format in FORMATS {
        let subject = Recipe::small(format, 19).make();
        for name in subject.files() {
            let path = subject.file(&name);
            let aside = subject.path.with_extension("aside");
            fs::rename(&path, &aside).unwrap();
            let refused = |what: &str| {
                assert_eq!(outcome(&subject), Outcome::Error, "{name} is {what}");
                let faults = subject.faults();
                let told = faults
                    .iter()
                    .any(|fault| fault.file.to_string() == name && fault.reason.contains(what));
                assert!(told, "{name} is {what}: {:?}", faults.first());
            };
            symlink(&aside, &path).unwrap();
            refused("symbolic link");
            fs::remove_file(&path).unwrap();
            symlink("/dev/zero", &path).unwrap();
            refused("symbolic link");
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
            refused("not a regular file");
            fs::remove_dir(&path).unwrap();
            make_fifo(&path);
            refused("not a regular file");
            fs::remove_file(&path).unwrap();
            let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
            refused("not a regular file");
            drop(socket);
            fs::remove_file(&path).unwrap();
            fs::rename(&aside, &path).unwrap();
        }
        assert_eq!(outcome(&subject), Outcome::NoEffect);
    }
}

fn make_fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[test]
fn a_writer_writes_through_no_link_and_into_no_pipe() {
    let (guard, path) = fresh();
    let outside = guard.path().join("outside");
    fs::write(&outside, b"precious").unwrap();
    fs::create_dir(&path).unwrap();
    for name in ["lock.zr", "meta.zr.new"] {
        symlink(&outside, path.join(name)).unwrap();
        let error = writable(Format::Extended).open(&path).unwrap_err().to_string();
        assert!(error.contains("symbolic link") && error.contains(name), "{error}");
        fs::remove_file(path.join(name)).unwrap();
        make_fifo(&path.join(name));
        let error = writable(Format::Extended).open(&path).unwrap_err().to_string();
        assert!(error.contains("regular file") && error.contains(name), "{error}");
        fs::remove_file(path.join(name)).unwrap();
    }
    let store = writable(Format::Extended).open(&path).unwrap();
    symlink(&outside, path.join("0.zr")).unwrap();
    assert!(store.append(&[1; 9], &[0], None).is_err());
    assert_eq!(fs::read(&outside).unwrap(), b"precious");
    assert_eq!(store.len().unwrap(), 0);
}

#[test]
fn the_directory_of_a_store_may_be_a_link() {
    let subject = Recipe::small(Format::Extended, 20).make();
    let link = subject.path.with_extension("link");
    symlink(&subject.path, &link).unwrap();
    assert_eq!(Store::open(&link).unwrap().len().unwrap(), subject.records.len() as u64);
    assert_eq!(faults(&link), []);
}

#[test]
fn huge_files_take_no_memory() {
    let subject = Recipe::small(Format::Extended, 23).make();
    for (name, limit) in [("schema.msgpack", "1048576"), ("dict.zr", "16777216")] {
        let bytes = fs::read(subject.file(name)).unwrap();
        set_size(&subject.file(name), 1 << 42);
        assert_eq!(outcome(&subject), Outcome::Error, "{name}");
        let told = subject
            .faults()
            .iter()
            .any(|fault| fault.file.to_string() == name && fault.reason.contains(limit));
        assert!(told, "{name}");
        fs::write(subject.file(name), bytes).unwrap();
    }
    // A table that is all hole, which nothing counts, has no effect.
    let size = fs::metadata(subject.file("meta.zr")).unwrap().len();
    set_size(&subject.file("meta.zr"), 1 << 42);
    assert_eq!(outcome(&subject), Outcome::NoEffect);
    set_size(&subject.file("meta.zr"), size);
}

/// The header counts as many records as a sparse file has room for, and the
/// last of them is intact.
#[test]
fn a_huge_table_that_is_counted_is_read_without_memory_for_all_of_it() {
    use zrecord_host::core::format::extended;
    let subject = strided(3, 40);
    let length = 1_u64 << 37;
    let meta = FileOptions::new().read(true).write(true).open(subject.file("meta.zr")).unwrap();
    let mut entry = [0; 24];
    meta.read_exact_at(&mut entry, 12_288 + 24).unwrap();
    meta.write_all_at(&entry, 12_288 + 24 * (length - 1)).unwrap();
    let store = subject.open(Verify::First, Io::Map).unwrap();
    let id = store.id().unwrap();
    drop(store);
    let mut slot = [0; extended::SLOT_SIZE];
    meta.read_exact_at(&mut slot, 4_096).unwrap();
    let mut commit = extended::decode_slot(&slot, &id).unwrap();
    (commit.length, commit.durable_length, commit.stride) = (length, length, 0);
    for page in 1..3 {
        meta.write_all_at(&extended::encode_slot(&commit, &id), 4_096 * page).unwrap();
    }
    let store = subject.open(Verify::First, Io::Map).unwrap();
    let mut record = [0; 40];
    for _ in 0..2 {
        store.gather(&[length - 1], &mut record, &[0]).unwrap();
        assert_eq!(record, *subject.records[1]);
    }
    assert!(store.gather(&[length - 2], &mut record, &[0]).is_err());
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = resident.map_or(0, |line| line.trim().trim_end_matches(" kB").parse().unwrap());
    assert!(kilobytes < 1_000_000_u64, "{kilobytes} kB");
}
