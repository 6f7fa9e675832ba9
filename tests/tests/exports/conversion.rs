//! The resource `conversion`.

use std::io::ErrorKind;

use zrecord_core::storage::FileName;
use zrecord_tests::component::bindings::store::{Compression, Error, Format};
use zrecord_tests::component::contract::{Answer, Contract, records};
use zrecord_tests::component::instance::World;
use zrecord_tests::component::pair::Pair;
use zrecord_tests::fuzz::bases;

use super::Compared;
use super::stores::{self, HOLES, MIXED, packing};

const ID: [u8; 16] = [0x1D; 16];

fn other(format: Format) -> (Format, &'static [u8]) {
    match format {
        Format::Classic => (Format::Extended, &ID),
        Format::Extended => (Format::Classic, &[]),
    }
}

/// Converts to the end; how many steps it took.
fn run(store: &mut dyn Contract, max_bytes: u64) -> Answer<u32> {
    for steps in 1.. {
        let progress = store.step_conversion(max_bytes)?;
        if progress.done == progress.total {
            // Asked once more, it is still over.
            assert_eq!(store.step_conversion(max_bytes)?, progress);
            return Ok(steps);
        }
    }
    unreachable!("a conversion has an end")
}

/// Converts every store into the other format and back.
fn there_and_back(max_bytes: u64) -> Compared {
    let mut compared = Compared::new();
    let mut most_steps = 0;
    for (name, mut pair) in stores::opened(World::RecordStore) {
        let expected = pair.same(&name, |store| records(store)).unwrap();
        for _ in 0..2 {
            let (format, id) = other(pair.same(&name, |store| store.info()).format);
            let begun = pair.same(&name, |store| store.begin_conversion(format, id));
            if let Err(error) = begun {
                // Two dictionaries do not fit into a classic store.
                assert!(matches!(error, Error::Unsupported(_)), "{name}: {error:?}");
                break;
            }
            most_steps = most_steps.max(pair.same(&name, |s| run(s, max_bytes)).unwrap());
            pair.core.take_converted();
            pair.component.take_converted();
            pair.same_files(&name);
            pair.same(&name, |store| store.open(true)).unwrap();
            assert_eq!(pair.same(&name, |store| records(store)).unwrap(), expected, "{name}");
        }
        compared.append(&mut pair.take_compared());
    }
    assert!(max_bytes > 1 << 20 || most_steps > 5, "{most_steps} steps at most");
    compared
}

pub fn begin(_: World) -> Compared {
    let compared = there_and_back(u64::MAX);
    for (format, len) in [(Format::Extended, 3), (Format::Classic, 16)] {
        let mut pair = stores::base(World::RecordStore, MIXED);
        let id = vec![1; len];
        let error = pair.same("a wrong id", |s| s.begin_conversion(format, &id)).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
        assert_eq!(pair.component.held(), 0, "it keeps what it was lent");
    }
    // What a classic store cannot hold, named before anything is written.
    for bytes in [&b""[..], &[7; (1 << 20) + 1]] {
        let mut pair = Pair::empty(World::RecordStore);
        pair.same("create", |store| store.create(Format::Extended, &ID)).unwrap();
        let ends = [1, 1 + bytes.len() as u64];
        let src = [b"a", bytes].concat();
        pair.same("append", |s| s.append(&src, &ends, packing(Compression::Raw))).unwrap();
        let refused = pair.same("begin", |s| s.begin_conversion(Format::Classic, &[]));
        let Err(Error::Unsupported(text)) = refused else { panic!("{refused:?}") };
        assert!(text.contains("record 1"), "{text}");
        assert_eq!(pair.component.held(), 0, "it keeps what it was lent");
    }
    for name in [FileName::Dictionary(0), FileName::Schema, FileName::Meta] {
        let mut pair = stores::base(World::RecordStore, MIXED);
        pair.script(|files| files.spoil(name, ErrorKind::Other));
        pair.same("unreadable", |s| s.begin_conversion(Format::Classic, &[])).unwrap_err();
    }
    compared
}

pub fn step(_: World) -> Compared {
    let mut compared = Compared::new();
    for max_bytes in [0, 1, 100] {
        compared.append(&mut there_and_back(max_bytes));
    }
    // Damage on the way: the conversion fails, and then goes no further.
    for record in 0..9 {
        let mut image = bases::all()[HOLES].clone();
        let location = image.location(record).unwrap();
        image.put(location.file(), location.offset.into(), &[0xEE; 7]);
        let mut pair = Pair::of(World::RecordStore, &image);
        pair.same("open", |store| store.open(true)).unwrap();
        pair.same("begin", |s| s.begin_conversion(Format::Classic, &[])).unwrap();
        let error = pair.same("a damaged record", |store| run(store, 1)).unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
        let after = pair.same("once more", |store| store.step_conversion(1)).unwrap_err();
        assert!(matches!(after, Error::Other(Some(_))), "{after:?}");
    }
    let mut pair = stores::base(World::RecordStore, HOLES);
    pair.same("begin", |s| s.begin_conversion(Format::Classic, &[])).unwrap();
    pair.script(|files| files.spoil(FileName::Meta, ErrorKind::PermissionDenied));
    let error = pair.same("an unreadable table", |store| run(store, 1)).unwrap_err();
    assert!(matches!(error, Error::Io(_)), "{error:?}");
    compared
}
