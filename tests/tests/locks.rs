//! Locks between processes: one writes, others read beside it and follow,
//! delete and compact need the store alone, and a lock dies with its holder.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zrecord_host::core::Error as CoreError;
use zrecord_host::{Format, Mode, OpenOptions, Store};
#[cfg(target_os = "linux")]
use zrecord_tests::alone::{alone, mount, mounting};
use zrecord_tests::worker::Worker;
use zrecord_tests::workload::{numbers, record};

/// Far longer than any busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

fn fresh() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.zr");
    (folder, path)
}

fn worker(path: &Path) -> Worker {
    Worker::obeying(env!("CARGO_BIN_EXE_zrecord-worker"), path).unwrap()
}

/// A worker with a store open, which it writes to if `mode` is `append`.
fn opened(path: &Path, mode: &str, format: &str) -> Worker {
    let mut worker = worker(path);
    ok(&mut worker, &format!("open {mode} {format}"));
    worker
}

fn ok(worker: &mut Worker, command: &str) -> String {
    let answer = worker.tell(command).unwrap();
    let rest = answer.strip_prefix("ok ").or((answer == "ok").then_some(""));
    rest.unwrap_or_else(|| panic!("{command}: {answer}")).to_owned()
}

fn busy(worker: &mut Worker, command: &str) {
    let answer = worker.tell(command).unwrap();
    assert!(answer.starts_with("busy "), "{command}: {answer}");
}

fn names(path: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(path).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn one_process_writes_and_others_read_beside_it() {
    for format in ["classic", "extended"] {
        let (_folder, path) = fresh();
        let mut writer = opened(&path, "append", format);
        assert_eq!(ok(&mut writer, "append 1"), "0");
        let mut second = opened(&path, "append", format);
        let mut reader = opened(&path, "read", format);
        for number in 2..20 {
            ok(&mut writer, &format!("append {number}"));
            // Without asking for the length first.
            assert_eq!(ok(&mut reader, &format!("read {}", number - 1)), number.to_string());
            assert_eq!(ok(&mut second, "len"), number.to_string());
            for change in ["append 99", "lock", "delete 0", "compact"] {
                busy(&mut second, change);
            }
            assert!(reader.tell("append 99").unwrap().starts_with("error "));
        }
        ok(&mut writer, "close");
        assert_eq!(ok(&mut second, "append 20"), "19");
        assert_eq!(ok(&mut reader, "read 19"), "20");
        ok(&mut writer, &format!("open append {format}"));
        busy(&mut writer, "append 99");
        ok(&mut second, "close");
        assert_eq!(ok(&mut writer, "append 21"), "20");
        ok(&mut writer, "close");
        assert_eq!(numbers(&Store::open(&path).unwrap()).unwrap(), (1..=21).collect::<Vec<_>>());
    }
}

#[test]
fn delete_and_compact_are_refused_while_another_process_reads() {
    for format in ["classic", "extended"] {
        let (_folder, path) = fresh();
        let mut writer = opened(&path, "append", format);
        for number in 1..6 {
            ok(&mut writer, &format!("append {number}"));
        }
        let mut reader = opened(&path, "read", format);
        busy(&mut writer, "delete 0");
        busy(&mut writer, "compact");
        // The refused ones have changed nothing, and lost no lock.
        assert_eq!(ok(&mut reader, "read 0"), "1");
        busy(&mut opened(&path, "append", format), "append 99");
        ok(&mut reader, "close");
        ok(&mut writer, "delete 0");
        ok(&mut writer, "compact");
        assert_eq!(ok(&mut writer, "read 0"), "5");
        // A handle in this very process counts like one in another.
        let here = Store::open(&path).unwrap();
        busy(&mut writer, "delete 0");
        drop(here);
        ok(&mut writer, "delete 0");
    }
}

#[test]
fn a_view_in_another_process_keeps_deletes_away_until_it_is_dropped() {
    let (_folder, path) = fresh();
    let mut writer = opened(&path, "append", "extended");
    ok(&mut writer, "append 1");
    let mut reader = opened(&path, "read", "extended");
    ok(&mut reader, "view");
    ok(&mut reader, "close");
    busy(&mut writer, "delete 0");
    ok(&mut reader, "drop-view");
    ok(&mut writer, "compact");
    ok(&mut reader, "open read");
    ok(&mut reader, "view");
    ok(&mut reader, "close");
    busy(&mut writer, "delete 0");
    reader.kill().unwrap();
    ok(&mut writer, "delete 0");
}

#[test]
fn locks_die_with_their_holder() {
    for format in ["classic", "extended"] {
        let (_folder, path) = fresh();
        let mut first = opened(&path, "append", format);
        ok(&mut first, "append 1");
        let mut second = opened(&path, "append", format);
        busy(&mut second, "append 2");
        first.kill().unwrap();
        // Read without a writer, and then taken over.
        assert_eq!(ok(&mut opened(&path, "read", format), "read 0"), "1");
        assert_eq!(ok(&mut second, "append 2"), "1");
        let mut reader = opened(&path, "read", format);
        ok(&mut reader, "len");
        busy(&mut second, "delete 0");
        reader.kill().unwrap();
        ok(&mut second, "delete 0");
        ok(&mut second, "compact");
        assert_eq!(ok(&mut second, "read 0"), "2");
    }
}

#[test]
fn nobody_opens_a_store_while_it_is_changed_alone() {
    for format in [Format::Classic, Format::Extended] {
        let (_folder, path) = fresh();
        let options = OpenOptions::new().mode(Mode::Append).format(format);
        options.open(&path).unwrap().append(&record(1), &[0], None).unwrap();
        // As delete and compact hold it.
        let directory = File::open(&path).unwrap();
        directory.lock().unwrap();
        for options in [OpenOptions::new(), options] {
            let error = options.open(&path).unwrap_err();
            assert!(matches!(error.core(), Some(CoreError::Busy { .. })), "{error}");
        }
        assert!(worker(&path).tell("open read").unwrap().starts_with("busy "));
        directory.unlock().unwrap();
        assert_eq!(numbers(&Store::open(&path).unwrap()).unwrap(), [1]);
    }
}

/// What two workers had acknowledged, each with the index it was told.
type Acknowledged = Vec<(u64, u64)>;

/// Every record that was acknowledged is at its index, and none twice.
fn check(path: &Path, acknowledged: &Acknowledged) -> Result<(), String> {
    let store = Store::open(path).map_err(|error| error.to_string())?;
    let found = numbers(&store).map_err(|error| error.to_string())?;
    for &(number, index) in acknowledged {
        let there = found.get(usize::try_from(index).unwrap());
        if there != Some(&number) {
            return Err(format!("record {number} was acknowledged at {index}, where {there:?} is"));
        }
    }
    let faults = store.verify(&mut |_| {}).map_err(|error| error.to_string())?;
    match (faults.first(), found.len() == acknowledged.len()) {
        (Some(fault), _) => Err(fault.to_string()),
        (None, false) => Err(format!("{} records, not {}", found.len(), acknowledged.len())),
        (None, true) => Ok(()),
    }
}

/// Two processes that have the store open append in turn; refusals are fine.
fn write_in_turn(path: &Path, options: &str) -> Acknowledged {
    let mut workers = [opened(path, "append", options), opened(path, "append", options)];
    let mut acknowledged = Vec::new();
    for number in 1..30 {
        let worker = &mut workers[number % 2];
        let answer = worker.tell(&format!("append {number}")).unwrap();
        match answer.strip_prefix("ok ") {
            Some(index) => acknowledged.push((number as u64, index.parse().unwrap())),
            None => assert!(answer.starts_with("busy "), "{answer}"),
        }
    }
    acknowledged
}

#[test]
fn two_writing_processes_lose_nothing_and_without_locks_that_is_noticed() {
    for format in ["classic", "extended"] {
        let (_folder, path) = fresh();
        let acknowledged = write_in_turn(&path, format);
        assert!(acknowledged.len() >= 14, "{acknowledged:?}");
        check(&path, &acknowledged).unwrap();
        // The same with locks switched off: the check can fail.
        let (_folder, path) = fresh();
        let acknowledged = write_in_turn(&path, &format!("{format} unlocked"));
        assert_eq!(acknowledged.len(), 29);
        check(&path, &acknowledged).expect_err("nobody noticed");
    }
}

#[test]
fn processes_that_write_at_once_take_turns() {
    const APPENDS: u64 = 40;
    for format in ["classic", "extended"] {
        let (_folder, path) = fresh();
        ok(&mut opened(&path, "append", format), "close");
        let append = |first: u64| {
            let mut worker = worker(&path);
            let mut acknowledged = Vec::new();
            for number in first..first + APPENDS {
                let began = Instant::now();
                loop {
                    ok(&mut worker, &format!("open append {format}"));
                    let answer = worker.tell(&format!("append {number}")).unwrap();
                    ok(&mut worker, "close");
                    if let Some(index) = answer.strip_prefix("ok ") {
                        acknowledged.push((number, index.parse().unwrap()));
                        break;
                    }
                    assert!(answer.starts_with("busy "), "{answer}");
                    assert!(began.elapsed() < PATIENCE, "nobody lets it write");
                }
            }
            acknowledged
        };
        let acknowledged = thread::scope(|scope| {
            let runs = [1, 1_001, 2_001].map(|first| scope.spawn(move || append(first)));
            runs.into_iter().flat_map(|run| run.join().unwrap()).collect()
        });
        check(&path, &acknowledged).unwrap();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_store_on_read_only_media_is_read_and_nothing_is_made() {
    let launcher = match mounting() {
        Ok(launcher) => launcher,
        Err(reason) => return eprintln!("not run: {reason}"),
    };
    alone("a_store_on_read_only_media_is_read_and_nothing_is_made", launcher, || {
        let folder = tempfile::tempdir().unwrap();
        mount("size=4m", folder.path());
        let path = |format: Format| folder.path().join(format.name());
        for format in [Format::Classic, Format::Extended] {
            let mut writer = opened(&path(format), "append", format.name());
            ok(&mut writer, "append 1");
            writer.kill().unwrap();
            fs::remove_file(path(format).join("lock.zr")).unwrap();
        }
        mount("remount,ro", folder.path());
        for format in [Format::Classic, Format::Extended] {
            let before = names(&path(format));
            for mode in [Mode::Read, Mode::Append] {
                let store = OpenOptions::new().mode(mode).open(path(format)).unwrap();
                assert_eq!(numbers(&store).unwrap(), [1]);
                assert_eq!(store.verify(&mut |_| {}).unwrap(), []);
                store.inspect().unwrap();
                let error = store.append(&record(2), &[0], None).unwrap_err();
                match mode {
                    Mode::Read => assert!(matches!(error.core(), Some(CoreError::ReadOnly))),
                    _ => {
                        let kind = error.io_error().unwrap().kind();
                        assert_eq!(kind, std::io::ErrorKind::ReadOnlyFilesystem, "{error}");
                        assert!(error.to_string().contains("lock.zr"), "{error}");
                    }
                }
                store.close().unwrap();
            }
            assert_eq!(names(&path(format)), before);
            let new = OpenOptions::new().mode(Mode::Create).format(format);
            let error = new.open(folder.path().join("new")).unwrap_err();
            assert!(error.io_error().is_some(), "{error}");
        }
        assert_eq!(names(folder.path()).len(), 2);
    });
}
