//! Stores whose files were damaged: errors that name the place, never bytes
//! that were not written.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(unix)]

use std::fs::{self, OpenOptions as FileOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use zrecord_host::core::Error;
use zrecord_host::{Codec, Format, Io, Mode, OpenOptions, Store, Verify};

mod support;
use support::{FORMATS, append, core_error, fresh, gather, writable};

fn cut(path: &Path, size: u64) {
    FileOptions::new().write(true).open(path).unwrap().set_len(size).unwrap();
}

fn flip(path: &Path, offset: u64) {
    let file = FileOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
}

fn noise(count: u64, len: usize) -> Vec<Vec<u8>> {
    let mut random = support::Random::new(count);
    (0..count).map(|_| (0..len).map(|_| random.next().to_le_bytes()[3]).collect()).collect()
}

fn filled(path: &Path, options: &OpenOptions, codec: Codec) -> Vec<Vec<u8>> {
    let store = options.open(path).unwrap();
    let records = noise(20, 5_000);
    let (src, offsets) = support::pack(&records);
    store.append(&src, &offsets, Some(codec)).unwrap();
    store.close().unwrap();
    records
}

#[test]
fn a_chunk_that_is_cut_while_it_is_open_gives_an_error() {
    for format in FORMATS {
        for io in [Io::Map, Io::Pread] {
            for verify in [Verify::First, Verify::Never] {
                let (_guard, path) = fresh();
                let records = filled(&path, &writable(format), Codec::Raw);
                let store = OpenOptions::new().io(io).verify(verify).open(&path).unwrap();
                assert_eq!(gather(&store, &[3, 19]).unwrap(), [&records[3][..], &records[19]]);
                // Within a page, where a map would read zeros.
                cut(&path.join("0.zr"), 52_000);
                assert_eq!(gather(&store, &[3, 9]).unwrap(), [&records[3][..], &records[9]]);
                for index in [10, 19] {
                    let error = core_error(gather(&store, &[3, index]));
                    let text = error.to_string();
                    assert!(matches!(error, Error::CorruptRecord { .. }), "{text}");
                    assert!(text.contains("0.zr") && text.contains("5000 stored bytes"), "{text}");
                }
                let error = core_error(gather(&store, &[10])).to_string();
                assert!(error.contains("record 10") && error.contains("2000 are there"), "{error}");
            }
        }
    }
}

#[test]
fn a_table_that_is_cut_while_it_is_open_gives_an_error() {
    for io in [Io::Map, Io::Pread] {
        let (_guard, path) = fresh();
        filled(&path, &writable(Format::Extended), Codec::Raw);
        // One of another length, so that the table is needed.
        append(&writable(Format::Extended).open(&path).unwrap(), &[vec![1; 10]]);
        let store = OpenOptions::new().io(io).open(&path).unwrap();
        gather(&store, &[3]).unwrap();
        cut(&path.join("meta.zr"), 12_288 + 24 * 10);
        let error = core_error(store.lengths(&[15]));
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert!(core_error(gather(&store, &[15])).to_string().contains("cut short"));
        drop(store);
        let error = core_error(Store::open(&path));
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    }
}

#[test]
fn a_missing_chunk_is_an_error_and_is_not_created() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        filled(&path, &writable(format), Codec::Raw);
        fs::remove_file(path.join("0.zr")).unwrap();
        let store = Store::open(&path).unwrap();
        let error = core_error(gather(&store, &[0])).to_string();
        assert!(error.contains("0.zr") && error.contains("missing"), "{error}");
        assert!(!path.join("0.zr").exists());
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    for codec in [Codec::Raw, Codec::Zstd] {
        let (_guard, path) = fresh();
        let options = writable(Format::Extended).level(1).min_saving(0.0);
        let store = options.open(&path).unwrap();
        let smooth: Vec<Vec<u8>> = (0..8_u8)
            .map(|byte| (0..300_u16).map(|at| (at / 9).to_le_bytes()[0] ^ byte).collect())
            .collect();
        let (src, offsets) = support::pack(&smooth);
        store.append(&src, &offsets, Some(codec)).unwrap();
        store.close().unwrap();
        let size = fs::metadata(path.join("0.zr")).unwrap().len();
        for offset in (0..size).step_by(13) {
            flip(&path.join("0.zr"), offset);
            let store = Store::open(&path).unwrap();
            let error = core_error(gather(&store, &(0..8).collect::<Vec<u64>>()));
            assert!(matches!(error, Error::Checksum { .. }), "{error}");
            assert_eq!(store.verify(&mut |_| {}).unwrap().len(), 1);
            flip(&path.join("0.zr"), offset);
        }
        assert_eq!(Store::open(&path).unwrap().verify(&mut |_| {}).unwrap(), []);
    }
}

#[test]
fn checksums_are_compared_as_often_as_asked() {
    let (_guard, path) = fresh();
    let records = filled(&path, &writable(Format::Extended), Codec::Raw);
    let open = |verify| OpenOptions::new().verify(verify).open(&path).unwrap();
    let (first, always, never) = (open(Verify::First), open(Verify::Always), open(Verify::Never));
    for store in [&first, &always, &never] {
        assert_eq!(gather(store, &[7]).unwrap(), [&records[7][..]]);
    }
    flip(&path.join("0.zr"), 7 * 5_000 + 1);
    assert!(gather(&first, &[7]).is_ok());
    assert!(gather(&never, &[7]).is_ok());
    let error = core_error(gather(&always, &[7]));
    assert!(matches!(error, Error::Checksum { index: 7, offset: 35_000, .. }), "{error}");
    flip(&path.join("0.zr"), 8 * 5_000);
    assert!(gather(&first, &[8]).is_err());
    // A record that did not pass is compared again.
    assert!(gather(&first, &[8]).is_err());
}

#[test]
fn compacting_stops_at_damage_and_keeps_the_store() {
    let (_guard, path) = fresh();
    let records = filled(&path, &writable(Format::Extended), Codec::Raw);
    let store = writable(Format::Extended).open(&path).unwrap();
    store.delete(&[0]).unwrap();
    flip(&path.join("0.zr"), 12 * 5_000);
    let error = core_error(store.compact(&mut |_| {}));
    assert!(matches!(error, Error::Checksum { index: 12, .. }), "{error}");
    assert_eq!(gather(&store, &[11, 13]).unwrap(), [&records[11][..], &records[13]]);
    append(&store, &records[..1]);
    flip(&path.join("0.zr"), 12 * 5_000);
    store.compact(&mut |_| {}).unwrap();
    assert_eq!(gather(&store, &[12, 19]).unwrap(), [&records[12][..], &records[0]]);
}

#[test]
fn files_that_are_no_store_are_told_apart() {
    let (_guard, path) = fresh();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("meta.zr"), b"").unwrap();
    assert!(matches!(core_error(Store::open(&path)), Error::NotAStore { .. }));
    assert!(matches!(core_error(writable(Format::Extended).open(&path)), Error::NotAStore { .. }));
    fs::write(path.join("meta.zr"), [7; 20_000]).unwrap();
    assert!(matches!(core_error(Store::open(&path)), Error::NotAStore { .. }));
    fs::remove_file(path.join("meta.zr")).unwrap();
    fs::create_dir(path.join("meta.zr")).unwrap();
    assert!(Store::open(&path).is_err());
}

#[test]
fn hostile_entries_are_refused() {
    let (_guard, path) = fresh();
    filled(&path, &writable(Format::Extended), Codec::Raw);
    let meta = FileOptions::new().write(true).open(path.join("meta.zr")).unwrap();
    // Entry 2: a chunk number that no store can have.
    meta.write_all_at(&u32::MAX.to_le_bytes(), 12_288 + 2 * 24 + 16).unwrap();
    // Entry 3: an unknown codec.
    meta.write_all_at(&[77], 12_288 + 3 * 24 + 20).unwrap();
    let store = Store::open(&path).unwrap();
    for index in [2, 3] {
        let error = core_error(store.gather(&[index], &mut [0; 5_000], &[0]));
        assert!(matches!(error, Error::CorruptRecord { .. }), "{error}");
    }
    assert!(gather(&store, &[4]).is_ok());
    assert!(store.verify(&mut |_| {}).unwrap().len() >= 2);
}

/// Power was lost before the first sync: the slots say more than the table has.
#[test]
fn a_store_that_lost_every_unsynced_record_opens_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = OpenOptions::new().mode(Mode::Append).lock(false);
    let store = options.open(&path).unwrap();
    for number in 0..3 {
        store.append(&[number; 16], &[0, 8], Some(Codec::Raw)).unwrap();
    }
    // A process that ends so does not close.
    std::mem::forget(store);
    let meta = std::fs::OpenOptions::new().write(true).open(path.join("meta.zr")).unwrap();
    meta.set_len(12_288).unwrap();

    let reader = OpenOptions::new().lock(false).open(&path).unwrap();
    assert_eq!(reader.len().unwrap(), 0);
    let writer = options.open(&path).unwrap();
    writer.append(&[9; 8], &[0], Some(Codec::Raw)).unwrap();
    let mut record = [0; 8];
    writer.gather(&[0], &mut record, &[0]).unwrap();
    assert_eq!(record, [9; 8]);
}
