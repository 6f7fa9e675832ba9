//! A reader beside a writer that recovers the store.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{File, OpenOptions as FileOptions};
use std::path::Path;

use zrecord_host::core::Error;
use zrecord_host::{Codec, Format, Io, OpenOptions, Store};

mod support;
use support::{core_error, fresh, gather, writable};

fn cut(path: &Path, size: u64) {
    FileOptions::new().write(true).open(path).unwrap().set_len(size).unwrap();
}

/// Ten records of which the first five are synced, as a loss of power leaves
/// them when the rest of `torn` was not written.
fn torn(path: &Path, torn: &str, size: u64) {
    let store = writable(Format::Extended).open(path).unwrap();
    for half in 0..2 {
        for number in 0..5 {
            store.append(&[half * 5 + number; 100], &[0], Some(Codec::Raw)).unwrap();
        }
        if half == 0 {
            // One of another length, so that the table is needed.
            store.append(&[77; 10], &[0], Some(Codec::Raw)).unwrap();
            store.sync().unwrap();
        }
    }
    let copy = path.with_extension("copy");
    std::fs::create_dir(&copy).unwrap();
    for name in ["meta.zr", "0.zr"] {
        std::fs::copy(path.join(name), copy.join(name)).unwrap();
    }
    drop(store);
    std::fs::remove_dir_all(path).unwrap();
    std::fs::rename(copy, path).unwrap();
    cut(&path.join(torn), size);
}

#[test]
fn a_reader_that_counted_torn_records_follows_the_recovery() {
    for io in [Io::Map, Io::Pread] {
        for (file, size) in [("0.zr", 700), ("meta.zr", 12_288 + 24 * 7)] {
            let (_guard, path) = fresh();
            torn(&path, file, size);
            // Opened while another process holds the writer's lock, and is
            // about to recover.
            let lock = File::create(path.join("lock.zr")).unwrap();
            lock.lock().unwrap();
            let readers: Vec<Store> =
                (0..4).map(|_| OpenOptions::new().io(io).open(&path).unwrap()).collect();
            assert!(gather(&readers[0], &[9]).is_err(), "a torn record is no record");
            lock.unlock().unwrap();
            let writer = writable(Format::Extended).open(&path).unwrap();
            writer.lock_writer().unwrap();
            assert_eq!(writer.len().unwrap(), 6);
            // Without asking for the length first.
            let error = core_error(gather(&readers[0], &[9]));
            assert!(matches!(error, Error::OutOfRange { index: 9, length: 6 }), "{error}");
            assert_eq!(gather(&readers[1], &[5, 0]).unwrap(), [vec![77; 10], vec![0; 100]]);
            assert_eq!(readers[2].lengths(&[5]).unwrap(), [10]);
            assert_eq!(readers[3].inspect().unwrap().stats.records, 6);
            for reader in &readers {
                assert_eq!(reader.len().unwrap(), 6);
            }
            // And on to what the writer appends then, at the same indices.
            writer.append(&[9; 50], &[0], Some(Codec::Raw)).unwrap();
            for reader in &readers {
                assert_eq!(gather(reader, &[6]).unwrap(), [[9; 50]]);
            }
        }
    }
}
