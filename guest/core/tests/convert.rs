//! Rewriting stores in the other format, over memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;

use zrecord_core::Error;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::codec::{Codec, Zstd};
use zrecord_core::convert::{Conversion, Converted, Failure, Survey};
use zrecord_core::format::Format;
use zrecord_core::reader::{Identity, Reader};
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::storage::{Access, Directory, File, FileName};
use zrecord_core::store::Store;

type Memory = Store<MemoryDirectory, Libzstd>;

fn golden(name: &str) -> MemoryDirectory {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/loaderx-0.9.4").join(name);
    let directory = MemoryDirectory::new();
    for file in [FileName::Meta, FileName::Schema, FileName::Chunk(0), FileName::Dictionary(0)] {
        if let Ok(bytes) = fs::read(folder.join(file.to_string())) {
            directory.put(file, &bytes);
        }
    }
    assert!(directory.file(FileName::Meta).is_some(), "{name} is no golden store");
    directory
}

fn identity(format: Format) -> Identity {
    match format {
        Format::Classic => Identity::Classic,
        Format::Extended => Identity::Extended([7; 16]),
    }
}

fn begin(
    source: &MemoryDirectory,
    target: &MemoryDirectory,
    format: Format,
) -> Result<Conversion<MemoryDirectory, MemoryDirectory>, Failure> {
    let reader = Reader::open(source.clone(), Access::Read).map_err(Failure::Source)?;
    let survey = Survey::new(&reader, format).map_err(Failure::Source)?;
    Conversion::begin(reader, survey, target.clone(), identity(format))
}

fn convert(source: &MemoryDirectory, format: Format, bytes_max: u64) -> (MemoryDirectory, u64) {
    let target = MemoryDirectory::new();
    let mut conversion = begin(source, &target, format).unwrap();
    let mut steps = 1;
    while !conversion.step(bytes_max).unwrap().is_over() {
        steps += 1;
    }
    (target, steps)
}

/// The records, by whichever codec backends there are.
fn records(directory: &MemoryDirectory) -> Vec<Vec<u8>> {
    let records = records_by::<Libzstd>(directory);
    #[cfg(feature = "ruzstd")]
    assert_eq!(records_by::<zrecord_core::codec::pure::Ruzstd>(directory), records);
    records
}

fn records_by<Z: Zstd>(directory: &MemoryDirectory) -> Vec<Vec<u8>> {
    let mut store = Store::<_, Z>::open(directory.clone(), true).unwrap();
    assert_eq!(store.reader().verify_structure().unwrap(), []);
    assert_eq!(store.verify_records(0..u64::MAX).unwrap(), []);
    let indices: Vec<u64> = (0..store.len()).collect();
    store.gather(&indices, u64::MAX).unwrap().iter().map(<[u8]>::to_vec).collect()
}

/// A store of `count` records that are some bytes long, index for index.
fn raw_store(count: u8) -> MemoryDirectory {
    let directory = MemoryDirectory::new();
    let mut store = Memory::create(directory.clone(), identity(Format::Extended)).unwrap();
    let rows: Vec<Vec<u8>> = (1..=count).map(|len| vec![len; len.into()]).collect();
    let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
    store.append(&rows, PackPolicy::new(Codec::Raw, Format::Extended)).unwrap();
    store.close().unwrap();
    directory
}

#[test]
fn every_codec_goes_there_and_back_in_steps_of_any_size() {
    for name in ["dense_raw", "dense_zstd", "dense_zstd_dict"] {
        let source = golden(name);
        let expected = records(&source);
        for bytes_max in [1, 5_000, u64::MAX] {
            let (extended, steps) = convert(&source, Format::Extended, bytes_max);
            let (classic, _) = convert(&extended, Format::Classic, bytes_max);
            assert_eq!(records(&extended), expected, "{name}");
            assert_eq!(records(&classic), expected, "{name}");
            match bytes_max {
                1 => assert_eq!(steps, expected.len() as u64, "a record each"),
                u64::MAX => assert_eq!(steps, 1),
                _ => assert!(steps > 1, "{name}: {steps} steps"),
            }
            let mut store = Memory::open(extended.clone(), false).unwrap();
            assert!(store.reader().commit().is_clean());
        }
    }
}

#[test]
fn an_empty_store_is_converted_by_one_step() {
    let (target, steps) = convert(&raw_store(0), Format::Classic, 0);
    assert_eq!((records(&target), steps), (Vec::new(), 1));
}

#[test]
fn progress_counts_records_and_stored_bytes() {
    let target = MemoryDirectory::new();
    let mut conversion = begin(&raw_store(4), &target, Format::Classic).unwrap();
    let numbers = |progress: Converted| {
        [progress.records.done, progress.records.total, progress.stored.done, progress.stored.total]
    };
    assert_eq!(numbers(conversion.progress()), [0, 4, 0, 10]);
    assert_eq!(numbers(conversion.step(3).unwrap()), [2, 4, 3, 10]);
    assert_eq!(numbers(conversion.step(3).unwrap()), [3, 4, 6, 10]);
    assert_eq!(numbers(conversion.step(3).unwrap()), [4, 4, 10, 10]);
    assert_eq!(numbers(conversion.step(3).unwrap()), [4, 4, 10, 10], "it stays over");
}

#[test]
fn damage_ends_a_conversion_for_good() {
    let source = raw_store(4);
    let chunk = source.open(FileName::Chunk(0), Access::Write).unwrap();
    chunk.write(&[0], 3).unwrap();
    let mut conversion = begin(&source, &MemoryDirectory::new(), Format::Classic).unwrap();
    conversion.step(3).unwrap();
    let failure = conversion.step(3).unwrap_err();
    assert!(matches!(failure, Failure::Source(Error::Checksum { index: 2, .. })), "{failure:?}");
    let failure = conversion.step(3).unwrap_err();
    assert!(matches!(failure, Failure::Destination(Error::Closed)), "{failure:?}");
}

#[test]
fn overlapping_records_are_refused_before_anything_is_written() {
    let source = raw_store(4);
    let meta = source.open(FileName::Meta, Access::Write).unwrap();
    let mut entry = [0; 24];
    meta.read(&mut entry, Format::Extended.entry_offset(3)).unwrap();
    for index in 0..3 {
        meta.write(&entry, Format::Extended.entry_offset(index)).unwrap();
    }
    let target = MemoryDirectory::new();
    let Err(Failure::Source(error)) = begin(&source, &target, Format::Classic) else {
        panic!("it was not refused")
    };
    assert!(error.to_string().contains("they overlap"), "{error}");
    assert_eq!(target.names(), []);
}

#[test]
fn a_store_in_the_way_is_the_destinations_fault() {
    let failure = begin(&raw_store(1), &raw_store(1), Format::Classic).err();
    assert!(matches!(failure, Some(Failure::Destination(Error::AlreadyExists))), "{failure:?}");
}
