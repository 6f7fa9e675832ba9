//! Saving what is intact of a damaged store.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions as FileOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use zrecord_host::core::Error;
use zrecord_host::repair::{RepairReport, SchemaFate, repair};
use zrecord_host::{Codec, Format, Store, convert};

mod damaging;
mod support;
use damaging::{Recipe, Subject, faults, unclean};
use support::{FORMATS, Random, all, append, core_error, fresh, gather, writable};

fn target(subject: &Subject) -> PathBuf {
    subject.path.with_extension("repaired")
}

/// Repairs a store, checks the outcome against what was stored, and that the
/// source is as it was.
fn repaired(subject: &Subject) -> RepairReport {
    let before = contents(&subject.path);
    let target = target(subject);
    let report = repair(&subject.path, &target, &mut |_| {}).unwrap();
    assert_eq!(contents(&subject.path), before, "the source was written to");
    check(subject, &target, &report);
    fs::remove_dir_all(&target).unwrap();
    report
}

fn contents(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        // Classic files are sparse behind what is used.
        let size = usize::try_from(entry.metadata().unwrap().len().min(1 << 16)).unwrap();
        let mut bytes = vec![0; size];
        fs::File::open(entry.path()).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        (name, bytes)
    };
    fs::read_dir(path).unwrap().map(|entry| read(entry.unwrap())).collect()
}

/// What is left are the records that are not lost, in their order.
fn check(subject: &Subject, target: &Path, report: &RepairReport) {
    assert_eq!(faults(target), []);
    let store = Store::open(target).unwrap();
    assert_eq!(store.format(), report.format);
    let is_lost = |index: u64| report.lost.iter().any(|loss| loss.records.contains(&index));
    let kept = (0..).zip(&subject.records).filter(|(index, _)| !is_lost(*index));
    let kept: Vec<&Vec<u8>> = kept.map(|(_, record)| record).collect();
    let saved = all(&store);
    assert_eq!(saved.len() as u64, report.saved);
    assert_eq!(saved.iter().collect::<Vec<_>>(), kept);
    let lost: u64 = report.lost.iter().map(|loss| loss.records.end - loss.records.start).sum();
    assert_eq!(lost + report.saved, report.counted);
    match report.schema {
        SchemaFate::Kept => assert_eq!(*store.schema().unwrap(), subject.schema),
        SchemaFate::None | SchemaFate::Lost => assert!(store.schema().is_none()),
    }
}

fn lost_indices(report: &RepairReport) -> Vec<u64> {
    report.lost.iter().flat_map(|loss| loss.records.clone()).collect()
}

fn overwrite(subject: &Subject, name: &str, offset: u64, bytes: &[u8]) {
    let file = FileOptions::new().write(true).open(subject.file(name)).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

/// Flips one bit, does something, and puts it back.
fn with_flip<T>(subject: &Subject, name: &str, bit: u64, run: impl FnOnce() -> T) -> T {
    let file = FileOptions::new().read(true).write(true).open(subject.file(name)).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit / 8).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << (bit % 8)], bit / 8).unwrap();
    let result = run();
    file.write_all_at(&byte, bit / 8).unwrap();
    result
}

/// Every bit with `ZRECORD_SLOW=1`, else some of every byte's.
fn step() -> usize {
    if std::env::var_os("ZRECORD_SLOW").is_some() { 1 } else { 7 }
}

#[test]
fn an_intact_store_is_saved_whole() {
    for format in FORMATS {
        let subject = Recipe::small(format, 31).make();
        let report = repaired(&subject);
        assert!(report.is_complete(), "{report:?}");
        assert_eq!((report.format, report.schema), (format, SchemaFate::Kept));
        assert_eq!((report.dictionaries, report.faults), (vec![0], vec![]));
    }
}

#[test]
fn a_damaged_record_is_lost_and_the_others_are_saved() {
    let subject = Recipe::small(Format::Extended, 32).make();
    overwrite(&subject, "0.zr", 0, &[0x77; 8]);
    let report = repaired(&subject);
    assert_eq!(report.lost.len(), 1);
    assert_eq!(report.lost[0].reason, "the checksum does not match");
    assert_eq!(report.saved, report.counted - 1);
    assert!(!report.is_complete());
}

#[test]
fn neighbours_lost_for_one_reason_are_one_range() {
    let subject = Recipe::small(Format::Extended, 33).make();
    for name in subject.files().iter().filter(|name| name.as_bytes()[0].is_ascii_digit()) {
        fs::remove_file(subject.file(name)).unwrap();
    }
    let report = repaired(&subject);
    // The empty record lies in no chunk.
    assert_eq!(report.saved, 1);
    assert!(report.lost.iter().all(|loss| loss.reason == "the chunk file is missing"));
    assert!(report.lost.len() < lost_indices(&report).len());
}

#[test]
fn any_flipped_bit_of_a_header_loses_no_record() {
    let subject = Recipe::small(Format::Extended, 34).make();
    let places = [(0, 40), (2048, 2056), (4096, 4192), (8192, 8288)];
    let bits = places.into_iter().flat_map(|(start, end)| start * 8..end * 8);
    for bit in bits.step_by(step()) {
        let report = with_flip(&subject, "meta.zr", bit, || repaired(&subject));
        assert!(report.is_complete(), "bit {bit}: {report:?}");
        assert!(!report.faults.is_empty(), "bit {bit}");
    }
}

#[test]
fn a_flipped_bit_of_the_table_loses_one_record_at_most() {
    let subject = Recipe::small(Format::Extended, 35).make();
    let end = 12_288 + 24 * subject.records.len() as u64;
    for bit in (12_288 * 8..end * 8).step_by(step()) {
        let index = (bit / 8 - 12_288) / 24;
        let report = with_flip(&subject, "meta.zr", bit, || repaired(&subject));
        assert!(lost_indices(&report).iter().all(|lost| *lost == index), "bit {bit}: {report:?}");
    }
}

#[test]
fn without_any_header_the_table_is_enough() {
    let subject = Recipe::small(Format::Extended, 36).make();
    // Both slots gone: the table, the dictionaries and the schema stand.
    overwrite(&subject, "meta.zr", 4096, &[0xee; 8192]);
    assert!(Store::open(&subject.path).is_err());
    let report = repaired(&subject);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(report.schema, SchemaFate::Kept);
    let places: Vec<_> = report.faults.iter().map(|fault| fault.offset).collect();
    assert!(places.contains(&Some(4096)) && places.contains(&Some(8192)), "{places:?}");
    // The dictionary's hash gone with them: its records cannot be proven.
    overwrite(&subject, "meta.zr", 2048, &[0xee; 8]);
    let report = repaired(&subject);
    assert_eq!(report.lost_dictionaries[0], 0);
    assert!(report.saved > 0 && !report.is_complete());
}

#[test]
fn a_cut_table_gives_what_its_entries_say() {
    for format in FORMATS {
        let subject = Recipe::small(format, 37).make();
        let start = if format == Format::Classic { 16 } else { 12_288 };
        let entry = if format == Format::Classic { 16 } else { 24 };
        let file = FileOptions::new().write(true).open(subject.file("meta.zr")).unwrap();
        file.set_len(start + entry * 5 + 3).unwrap();
        let report = repaired(&subject);
        assert_eq!(report.saved, 5);
        assert_eq!(lost_indices(&report), (5..report.counted).collect::<Vec<_>>());
        assert_eq!(report.lost.len(), 1);
    }
}

#[test]
fn a_lost_schema_makes_the_store_untyped() {
    for format in FORMATS {
        let subject = Recipe::small(format, 38).make();
        fs::write(subject.file("schema.msgpack"), b"not a schema").unwrap();
        let report = repaired(&subject);
        assert_eq!(report.schema, SchemaFate::Lost);
        assert_eq!(report.saved, report.counted);
        assert!(!report.is_complete());
    }
}

#[test]
fn a_lost_dictionary_takes_its_records_along() {
    let subject = Recipe::small(Format::Extended, 39).make();
    fs::remove_file(subject.file("dict.zr")).unwrap();
    let report = repaired(&subject);
    assert_eq!(report.lost_dictionaries, [0]);
    assert!(report.lost.iter().all(|loss| loss.file.to_string() == "dict.zr"));
    assert!(report.saved > 0 && report.saved < report.counted);
}

#[test]
fn the_header_of_a_classic_store_is_guessed_from_its_table() {
    let subject = Recipe::small(Format::Classic, 40).make();
    // A count past every limit.
    overwrite(&subject, "meta.zr", 12, &[0xff; 4]);
    assert!(Store::open(&subject.path).is_err());
    let report = repaired(&subject);
    assert!(report.is_complete(), "{report:?}");
    overwrite(&subject, "meta.zr", 12, &u32::try_from(report.counted).unwrap().to_le_bytes());
    overwrite(&subject, "meta.zr", 0, b"ZRAC");
    assert!(repaired(&subject).is_complete());
}

#[test]
fn a_store_whose_writer_died_is_saved_as_far_as_it_is_there() {
    let subject = unclean(40);
    let report = repaired(&subject);
    assert!(report.is_complete(), "{report:?}");
}

#[test]
fn what_random_damage_leaves_is_saved() {
    for format in FORMATS {
        for seed in 0..30 {
            let subject = Recipe::small(format, 100 + seed).make();
            let mut random = Random::new(seed);
            for name in subject.files() {
                // The header of a classic store is believed where it can be.
                let from = if name == "meta.zr" { 16 } else { 0 };
                if random.below(2) == 0 && format == Format::Extended {
                    let size = fs::metadata(subject.file(&name)).unwrap().len();
                    let offset = from + random.below(size.min(14_000) - from);
                    overwrite(&subject, &name, offset, &random.next().to_le_bytes());
                }
            }
            let _ = repaired(&subject);
        }
    }
}

#[test]
fn repairing_refuses_what_would_overwrite_something() {
    let subject = Recipe::small(Format::Extended, 41).make();
    let error = core_error(repair(&subject.path, &subject.path, &mut |_| {}));
    assert!(matches!(error, Error::AlreadyExists), "{error}");
    let inside = subject.path.join("deep/new.zr");
    let error = core_error(repair(&subject.path, &inside, &mut |_| {}));
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    assert!(!subject.path.join("deep").exists());
    let nothing = subject.path.with_extension("nothing");
    assert!(repair(&nothing, target(&subject), &mut |_| {}).unwrap_err().is_not_found());
    fs::write(subject.file("meta.zr"), [9; 30_000]).unwrap();
    let error = core_error(repair(&subject.path, target(&subject), &mut |_| {}));
    assert!(matches!(error, Error::NotAStore { .. }), "{error}");
    let left: Vec<_> = fs::read_dir(subject.path.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn records_are_read_after_repair_by_their_new_indices() {
    let subject = Recipe::small(Format::Extended, 42).make();
    overwrite(&subject, "0.zr", 0, &[0x55; 4]);
    let report = repair(&subject.path, target(&subject), &mut |_| {}).unwrap();
    let lost = lost_indices(&report)[0];
    let store = Store::open(target(&subject)).unwrap();
    let behind = usize::try_from(lost + 1).unwrap();
    assert_eq!(gather(&store, &[lost]).unwrap(), [&subject.records[behind][..]]);
}

/// Entries made to lie over each other would else fill any disk.
#[test]
fn records_over_the_same_bytes_take_no_more_than_twice_the_room() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let store = writable(format).codec(Codec::Raw).open(&path).unwrap();
        append(&store, &[vec![7; 100_000]]);
        append(&store, &vec![vec![9]; 600]);
        store.close().unwrap();
        forge_equal_entries(&path, format);
        let target = path.with_extension("repaired");
        let error = convert(&path, &target, format, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("they overlap"), "{error}");
        assert!(!target.exists());
        let store = writable(format).open(&path).unwrap();
        let error = store.compact(&mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("they overlap"), "{error}");
        drop(store);
        let room = fs::metadata(path.join("0.zr")).unwrap().len() * 2;
        let report = repair(&path, &target, &mut |_| {}).unwrap();
        match format {
            Format::Extended => {
                assert_eq!(report.saved, room / 100_000);
                assert_eq!(report.lost.len(), 1);
                assert!(report.lost[0].reason.contains("they overlap"));
            }
            // Its chunks are sparse, with room for all of these.
            Format::Classic => assert!(report.is_complete()),
        }
        assert_eq!(all(&Store::open(&target).unwrap()).len() as u64, report.saved);
    }
}

/// Makes every entry of a store the first one.
fn forge_equal_entries(path: &Path, format: Format) {
    let count = Store::open(path).unwrap().len().unwrap();
    let meta = FileOptions::new().read(true).write(true).open(path.join("meta.zr")).unwrap();
    let mut entry = vec![0; usize::try_from(format.entry_size()).unwrap()];
    meta.read_exact_at(&mut entry, format.entry_offset(0)).unwrap();
    for index in 1..count {
        meta.write_all_at(&entry, format.entry_offset(index)).unwrap();
    }
}
