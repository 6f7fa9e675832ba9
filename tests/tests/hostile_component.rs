//! The corpora of the fuzz targets, and stores of loaderx with damage, put
//! before the component: it answers as the core does, and nothing traps. Where
//! a limit does stop a sandbox, that is an error of its store, and no other
//! sandbox is harmed. What `hostile.rs` forges goes the same way, in builds
//! with the feature `sandbox`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;

use zrecord_core::format::Format;
use zrecord_core::storage::FileName;
use zrecord_host::{Codec, Limits, Mode, OpenOptions, Sandbox, SandboxError};
use zrecord_tests::component::hostile;
use zrecord_tests::component::instance::World;
use zrecord_tests::component::pair::Pair;
use zrecord_tests::fuzz::choices::Choices;
use zrecord_tests::fuzz::image::Image;
use zrecord_tests::fuzz::{bases, schema, steps};
use zrecord_tests::golden;

fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut seeds: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    seeds.sort();
    assert!(seeds.len() > 50, "{name} has {} seeds", seeds.len());
    seeds
}

#[test]
fn what_the_reading_target_makes_is_read_alike() {
    let mut opened = 0;
    for (name, seed) in corpus("open") {
        println!("open/{name}");
        opened += u32::from(hostile::check(&Image::choose(&mut Choices::new(&seed))));
    }
    assert!(opened > 10, "{opened} could be opened");
}

#[test]
fn what_the_writing_target_makes_is_changed_alike() {
    for (name, seed) in corpus("writer") {
        println!("writer/{name}");
        let mut choices = Choices::new(&seed);
        // As that target chooses: over files or not, and the size of chunks.
        let _: bool = choices.any();
        let _: u64 = choices.one_of(&[150, 1000, u64::MAX]);
        let steps = steps::choose(&mut choices);
        let image = Image::choose(&mut choices);
        hostile::check(&image);
        hostile::change(&image, &steps);
    }
}

#[test]
fn what_the_target_of_operations_does_is_done_alike() {
    for (name, seed) in corpus("operations") {
        println!("operations/{name}");
        let mut choices = Choices::new(&seed);
        let format = choices.one_of(&[Format::Extended, Format::Classic]);
        let _: bool = choices.any();
        let _: u64 = choices.one_of(&[150, 1000, u64::MAX]);
        let steps = steps::choose(&mut choices);
        hostile::change(&empty(format), &steps);
    }
}

/// A store without records.
fn empty(format: Format) -> Image {
    let mut pair = Pair::empty(World::RecordStore);
    let (format, id): (_, &[u8]) = match format {
        Format::Classic => (zrecord_tests::component::words::format(format), &[]),
        Format::Extended => (zrecord_tests::component::words::format(format), &[7; 16]),
    };
    pair.same("create", |store| store.create(format, id)).unwrap();
    pair.same("close", |store| store.close()).unwrap();
    Image::of(pair.core.directory().memory())
}

#[test]
fn what_the_target_of_schemas_makes_is_understood_alike() {
    let mut read = 0;
    for (name, seed) in corpus("schema") {
        println!("schema/{name}");
        let bytes = schema::bytes(&seed);
        // An extended store, a classic one.
        for base in [1, 6] {
            let mut image = bases::all()[base].clone();
            image.resize(FileName::Schema, 0);
            image.put(FileName::Schema, 0, &bytes);
            image.fix(2);
            let mut pair = Pair::of(World::Reader, &image);
            pair.same("open", |store| store.open(true)).unwrap();
            read += u32::from(pair.same("schema", |store| store.schema()).is_ok());
            drop(pair.same("structure", |store| store.verify_structure()));
            drop(pair.same("verify", |store| store.verify(0, u64::MAX)));
        }
    }
    assert!(read > 5, "{read} could be read");
}

#[test]
fn stores_of_loaderx_with_damage_are_read_alike() {
    let mut random = fastrand::Rng::with_seed(17);
    let mut opened = [0, 0];
    for (name, files) in golden::stores() {
        for round in 0..12 {
            let mut image = Image::of(&files);
            let names: Vec<FileName> = image.files.keys().copied().collect();
            let file = random.choice(names).unwrap();
            let used = (image.files[&file].bytes.len() as u64).max(1);
            match round % 4 {
                0 => image.resize(file, random.u64(..used)),
                // The header and the first entries.
                1 => image.put(FileName::Meta, random.u64(..200), &[random.u8(..)]),
                _ => image.put(file, random.u64(..used), &[random.u8(..), random.u8(..)]),
            }
            println!("{name}, round {round}: {file}");
            opened[usize::from(hostile::check(&image))] += 1;
        }
    }
    assert!(opened.iter().all(|count| *count > 3), "{opened:?}");
}

/// Reads all of a store, which holds what it should.
fn assert_reads(store: &Sandbox, expected: &[u8]) {
    let mut record = vec![0; expected.len()];
    store.gather(&[0], &mut record, &[0]).unwrap();
    assert!(record == expected);
    assert_eq!(store.verify(&mut |_| {}).unwrap(), []);
}

#[test]
fn a_sandbox_that_is_stopped_harms_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, record: &[u8]| {
        let path = folder.path().join(name);
        let store = OpenOptions::new().mode(Mode::Create).open(&path).unwrap();
        store.append(record, &[0], Some(Codec::Zstd)).unwrap();
        store.close().unwrap();
        path
    };
    let mut random = fastrand::Rng::with_seed(4);
    // Decoding it takes a while; the other one, little time and much memory.
    let slow: Vec<u8> = (0..24 << 20).map(|_| random.u8(..16)).collect();
    let large = vec![7; 48 << 20];
    let good = b"what others hold".repeat(1000);
    let (slow_path, large_path) = (make("slow", &slow), make("large", &large));
    let good_path = make("good", &good);
    let before = Sandbox::open(&good_path, Limits::new()).unwrap();
    let stopped = |path: &Path, limits: Limits, size: usize| {
        let mut dst = vec![0; size];
        // Opening takes time, too.
        let Some(victim) = (0..50).find_map(|_| Sandbox::open(path, limits).ok()) else {
            panic!("it was never opened")
        };
        let error = (0..20).find_map(|_| victim.gather(&[0], &mut dst, &[0]).err());
        let zrecord_host::Error::Sandbox { source, .. } = error.expect("nothing stopped it") else {
            panic!("not an error of the sandbox")
        };
        let ended = victim.lengths(&[0]).is_err();
        (source, ended)
    };
    let time = std::time::Duration::from_millis(30);
    let (error, ended) = stopped(&slow_path, Limits::new().time(time), slow.len());
    assert_eq!((error, ended), (SandboxError::Time { limit: time }, true));
    assert_reads(&before, &good);
    let (error, _) = stopped(&large_path, Limits::new().memory(16 << 20), large.len());
    assert_eq!(error, SandboxError::Memory { limit: 16 << 20 });
    assert_reads(&before, &good);
    assert_reads(&Sandbox::open(&good_path, Limits::new()).unwrap(), &good);
    // The stores that stopped them are as good as they were.
    assert_reads(&Sandbox::open(&large_path, Limits::new()).unwrap(), &large);
    assert_reads(&Sandbox::open(&slow_path, Limits::new()).unwrap(), &slow);
}
