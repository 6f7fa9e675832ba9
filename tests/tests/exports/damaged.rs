//! The interface `store` over stores that are damaged: what `salvage` opens,
//! and what is said to be wrong.

use std::io::ErrorKind;

use zrecord_core::storage::FileName;
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_tests::component::bindings::store::Error;
use zrecord_tests::component::bindings::store::Format;
use zrecord_tests::component::contract::{Contract, records};
use zrecord_tests::component::instance::World;
use zrecord_tests::component::native::Core;
use zrecord_tests::component::native::FAULTS_PER_CALL;
use zrecord_tests::component::pair::Pair;
use zrecord_tests::component::scripted::Scripted;
use zrecord_tests::fuzz::bases;
use zrecord_tests::fuzz::image::Image;

use super::Compared;
use super::stores::{self, MIXED, packing};

/// Every base with random damage in each of its files, a few times.
fn damaged() -> Vec<Image> {
    let mut random = fastrand::Rng::with_seed(5);
    let mut damaged = Vec::new();
    for base in bases::all() {
        for (name, file) in &base.files {
            for round in 0..6 {
                let mut image = base.clone();
                let used = (file.bytes.len() as u64).max(1);
                match round {
                    0 => drop(image.files.remove(name)),
                    1 => image.resize(*name, random.u64(..used)),
                    2 => image.put(*name, random.u64(..used), &[0; 70]),
                    _ => image.put(*name, random.u64(..used), &[random.u8(..)]),
                }
                damaged.push(image);
            }
        }
    }
    damaged
}

/// Salvages every damaged store, and asks of those that open.
fn of_salvaged(world: World, ask: impl Fn(&mut dyn Contract) -> usize) -> Compared {
    let mut compared = Compared::new();
    let mut found = 0;
    for image in damaged() {
        for recover in [true, false] {
            let mut pair = Pair::of(world, &image);
            if pair.same("salvage", |store| store.salvage(recover)).is_ok() {
                pair.same("info", |store| store.info());
                found += pair.same("of what was salvaged", |store| ask(store));
                compared.append(&mut pair.take_compared());
            }
        }
    }
    assert!(found > 100, "only {found} are found");
    compared
}

pub fn salvage(world: World) -> Compared {
    let mut compared =
        of_salvaged(world, |store| records(store).map_or(0, |records| records.len()));
    let mut pair = Pair::empty(world);
    pair.same("nothing", |store| store.salvage(true)).unwrap_err();
    let files = MemoryDirectory::new();
    files.put(FileName::Meta, &[7; 20_000]);
    let mut pair = Pair::over(world, &files);
    let error = pair.same("something else", |store| store.salvage(true)).unwrap_err();
    assert!(matches!(error, Error::NotAStore(_) | Error::Corrupt(_)), "{error:?}");
    assert_eq!(pair.component.held(), 0, "it keeps what it was lent");
    let mut pair = Pair::of(world, &bases::all()[MIXED]);
    pair.script(|files| files.spoil(FileName::Meta, ErrorKind::Other));
    let error = pair.same("unreadable", |store| store.salvage(true)).unwrap_err();
    assert!(matches!(error, Error::Io(_)), "{error:?}");
    compared.append(&mut pair.take_compared());
    compared
}

pub fn entries_present(world: World) -> Compared {
    let mut compared = of_salvaged(world, |store| store.entries_present().unwrap() as usize);
    let mut image = bases::all()[MIXED].clone();
    image.resize(FileName::Meta, image.format().entry_offset(7) + 3);
    let mut pair = Pair::of(world, &image);
    pair.same("a cut table", |store| store.salvage(false)).unwrap();
    assert_eq!(pair.same("a cut table", |store| store.entries_present()).unwrap(), 7);
    compared.append(&mut pair.take_compared());
    compared
}

pub fn verify(world: World) -> Compared {
    let mut compared =
        of_salvaged(world, |store| store.verify(0, u64::MAX).map_or(0, |faults| faults.len()));
    for (name, mut pair) in stores::opened(world) {
        let length = pair.same(&name, |store| store.info()).length;
        for (first, count) in
            [(0, u64::MAX), (0, 0), (length / 2, 3), (length, 9), (u64::MAX, u64::MAX)]
        {
            let faults = pair.same(&name, |store| store.verify(first, count)).unwrap();
            assert_eq!(faults, [], "{name}");
        }
        compared.append(&mut pair.take_compared());
    }
    let mut pair = Pair::over(world, &without_its_chunk());
    pair.same("opening", |store| store.open(true)).unwrap();
    let faults = pair.same("more than are listed", |store| store.verify(0, u64::MAX)).unwrap();
    assert_eq!(faults.len(), FAULTS_PER_CALL + 1);
    let last = faults.last().unwrap();
    assert!(last.index.is_none() && last.reason.contains("904 more"), "{last:?}");
    pair.script(|files| files.spoil(FileName::Meta, ErrorKind::Other));
    let faults = pair.same("an unreadable table", |store| store.verify(0, 5)).unwrap();
    assert_eq!(faults.len(), 5);
    compared
}

/// Five thousand records, and no chunk.
fn without_its_chunk() -> MemoryDirectory {
    let directory = Scripted::default();
    let mut core = Core::new(directory.clone(), std::rc::Rc::new(Scripted::default));
    core.create(Format::Extended, &[3; 16]).unwrap();
    let ends: Vec<u64> = (1..=5_000).collect();
    let codec = zrecord_tests::component::bindings::store::Compression::Raw;
    core.append(&[9; 5_000], &ends, packing(codec)).unwrap();
    core.close().unwrap();
    let files = directory.memory().snapshot();
    zrecord_core::storage::Directory::remove(&files, FileName::Chunk(0)).unwrap();
    files
}

pub fn verify_structure(world: World) -> Compared {
    let mut compared =
        of_salvaged(world, |store| store.verify_structure().map_or(0, |faults| faults.len()));
    for (name, mut pair) in stores::opened(world) {
        let faults = pair.same(&name, |store| store.verify_structure()).unwrap();
        assert_eq!(faults, [], "{name}");
        compared.append(&mut pair.take_compared());
    }
    let mut pair = stores::base(world, MIXED);
    pair.script(|files| files.spoil(FileName::Meta, ErrorKind::Other));
    let error = pair.same("an unreadable table", |store| store.verify_structure()).unwrap_err();
    assert!(matches!(error, Error::Io(_)), "{error:?}");
    compared
}
