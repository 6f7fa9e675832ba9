//! The interface `store` over good stores, over files that cannot be read, and
//! with arguments that are wrong.

use std::io::ErrorKind;

use zrecord_core::storage::FileName;
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_tests::component::bindings::store::Error;
use zrecord_tests::component::contract::{Contract, cut};
use zrecord_tests::component::instance::World;
use zrecord_tests::component::pair::Pair;
use zrecord_tests::fuzz::bases;
use zrecord_tests::fuzz::image::Image;

use super::Compared;
use super::stores::{self, CLASSIC_MIXED, HOLES, MIXED, UNCLEAN};

/// Ways in which a file cannot be read, and what the contract calls them.
const KINDS: [ErrorKind; 4] =
    [ErrorKind::PermissionDenied, ErrorKind::InvalidInput, ErrorKind::Other, ErrorKind::NotFound];

pub fn open(world: World) -> Compared {
    let mut compared = Compared::new();
    for (name, files) in stores::all() {
        for recover in [true, false] {
            let mut pair = Pair::over(world, &files);
            pair.same(&name, |store| store.open(recover)).unwrap();
            pair.same(&name, |store| store.info());
            pair.component.drop_store();
            assert_eq!(pair.component.held(), 0, "{name}: it keeps what it was lent");
            compared.append(&mut pair.take_compared());
        }
    }
    for (what, files) in no_stores() {
        let mut pair = Pair::over(world, &files);
        let error = pair.same(what, |store| store.open(true)).unwrap_err();
        let named = match what {
            "nothing" | "something else" | "a few bytes" => matches!(error, Error::NotAStore(_)),
            _ => matches!(error, Error::Corrupt(_)),
        };
        assert!(named, "{what}: {error:?}");
        assert_eq!(pair.component.held(), 0, "{what}: it keeps what it was lent");
    }
    for kind in KINDS {
        let mut pair = Pair::of(world, &bases::all()[MIXED]);
        pair.script(|files| files.close(FileName::Meta, kind));
        pair.same("meta.zr is closed", |store| store.open(true)).unwrap_err();
        pair.script(|files| {
            files.mend();
            files.spoil(FileName::Meta, kind);
        });
        pair.same("meta.zr is unreadable", |store| store.open(true)).unwrap_err();
    }
    compared
}

/// Directories that hold no store that can be opened.
fn no_stores() -> Vec<(&'static str, MemoryDirectory)> {
    let only = |bytes: &[u8]| {
        let files = MemoryDirectory::new();
        files.put(FileName::Meta, bytes);
        files
    };
    let changed = |base: usize, change: &dyn Fn(&mut Image)| {
        let mut image = bases::all()[base].clone();
        change(&mut image);
        image.in_memory()
    };
    vec![
        ("nothing", MemoryDirectory::new()),
        ("something else", only(&[7; 20_000])),
        ("a few bytes", only(b"ZRX1")),
        (
            "another version",
            changed(CLASSIC_MIXED, &|image| {
                image.put(FileName::Meta, 4, &[9, 0]);
            }),
        ),
        ("no slot", changed(MIXED, &|image| image.put(FileName::Meta, 4096, &[0; 8192]))),
        ("a cut table", changed(MIXED, &|image| image.resize(FileName::Meta, 12_300))),
        ("a count", changed(CLASSIC_MIXED, &|image| image.put(FileName::Meta, 12, &[255; 4]))),
    ]
}

pub fn info(world: World) -> Compared {
    let mut compared = Compared::new();
    for (name, mut pair) in stores::opened(world) {
        pair.same(&name, |store| store.info());
        compared.append(&mut pair.take_compared());
    }
    compared
}

pub fn refresh(world: World) -> Compared {
    let mut compared = Compared::new();
    for (name, mut pair) in stores::opened(world) {
        let before = pair.same(&name, |store| store.refresh()).unwrap();
        pair.script(|files| {
            // As the store's schema wants it.
            let len = if name.starts_with("base") { 12 } else { 0 };
            if len > 0 {
                stores::append_elsewhere(files.clone(), &vec![5; len]);
            }
        });
        let stale = pair.same(&name, |store| store.info());
        assert_eq!(stale, before, "{name}: it looks without being asked");
        let after = pair.same(&name, |store| store.refresh()).unwrap();
        if name.starts_with("base") {
            assert_eq!(after.length, before.length + 2, "{name}");
            pair.same(&name, |store| store.gather(&[after.length - 1], 100)).unwrap();
        }
        compared.append(&mut pair.take_compared());
    }
    // A header that turns bad afterwards; what was known stays known.
    for base in [MIXED, CLASSIC_MIXED] {
        let mut pair = stores::base(world, base);
        let known = pair.same("info", |store| store.info());
        pair.script(|files| files.spoil(FileName::Meta, ErrorKind::Other));
        let refused = pair.same("unreadable", |store| store.refresh()).unwrap_err();
        assert!(matches!(refused, Error::Io(_)), "{refused:?}");
        pair.script(|files| {
            files.mend();
            files.memory().put(FileName::Meta, &[0; 3]);
        });
        drop(pair.same("replaced", |store| store.refresh()));
        assert_eq!(pair.same("info", |store| store.info()), known);
    }
    compared
}

pub fn schema(world: World) -> Compared {
    let mut compared = Compared::new();
    let mut typed = 0;
    for (name, mut pair) in stores::opened(world) {
        typed += u32::from(pair.same(&name, |store| store.schema()).unwrap().is_some());
        compared.append(&mut pair.take_compared());
    }
    assert!(typed > 5, "{typed} typed stores");
    let wrong: [&[u8]; 5] = [b"", b"\xc1", b"\x80", b"\x81\xa6format\xa7zrecord", &[0x91; 9000]];
    for bytes in wrong {
        for base in [MIXED, CLASSIC_MIXED] {
            let mut pair = stores::base(world, base);
            pair.script(|files| files.memory().put(FileName::Schema, bytes));
            let error = pair.same("a schema that is none", |store| store.schema()).unwrap_err();
            assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
        }
    }
    // Of the right hash, and of no format that is known.
    let mut image = bases::all()[MIXED].clone();
    let schema = image.files[&FileName::Schema].bytes.clone();
    let place = schema.windows(3).position(|window| window == b"|u1").unwrap() as u64;
    image.put(FileName::Schema, place, b"|O1");
    image.fix(u8::MAX);
    let mut pair = Pair::of(world, &image);
    pair.same("opening", |store| store.open(true)).unwrap();
    let error = pair.same("objects", |store| store.schema()).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_) | Error::Corrupt(_)), "{error:?}");
    for kind in KINDS {
        let mut pair = stores::base(world, MIXED);
        pair.script(|files| files.close(FileName::Schema, kind));
        pair.same("closed", |store| store.schema()).unwrap_err();
    }
    compared
}

pub fn dictionary(world: World) -> Compared {
    let mut compared = Compared::new();
    for (name, mut pair) in stores::opened(world) {
        let count = pair.same(&name, |store| store.info()).dictionaries;
        for number in [0, 1, 2, 255] {
            let found = pair.same(&name, |store| store.dictionary(number));
            assert_eq!(found.is_ok(), u32::from(number) < count, "{name}: {number}");
        }
        compared.append(&mut pair.take_compared());
    }
    let mut pair = stores::base(world, MIXED);
    pair.script(|files| files.memory().put(FileName::Dictionary(0), b"another"));
    let error = pair.same("of another hash", |store| store.dictionary(0)).unwrap_err();
    assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
    pair.same("what needs it", |store| store.gather(&[14], 1000)).unwrap_err();
    for kind in KINDS {
        let mut pair = stores::base(world, MIXED);
        pair.script(|files| files.close(FileName::Dictionary(0), kind));
        pair.same("closed", |store| store.dictionary(0)).unwrap_err();
    }
    compared
}

/// Lists of indices: none, one, many, again, backwards, past the end.
fn lists(length: u64) -> Vec<Vec<u64>> {
    let mut random = fastrand::Rng::with_seed(length);
    let mut lists = vec![vec![], vec![length], vec![u64::MAX], vec![0, length]];
    if length > 0 {
        lists.push((0..length).collect());
        lists.push((0..length).rev().collect());
        lists.push((0..100).map(|_| random.u64(..length)).collect());
        lists.push(vec![length - 1; 3]);
        lists.push(vec![length - 1, length, 0]);
    }
    lists
}

/// Asks for every list of indices, on every store, and where the table cannot
/// be read or has an entry that no writer writes.
fn of_indices<T: PartialEq + std::fmt::Debug>(
    world: World,
    ask: impl Fn(&mut dyn Contract, &[u64]) -> Result<T, Error>,
) -> Compared {
    let mut compared = Compared::new();
    for (name, mut pair) in stores::opened(world) {
        let length = pair.same(&name, |store| store.info()).length;
        for indices in lists(length) {
            let answer = pair.same(&name, |store| ask(store, &indices));
            let is_past = indices.iter().any(|index| *index >= length);
            assert_eq!(matches!(answer, Err(Error::OutOfRange(_))), is_past, "{name}: {indices:?}");
            assert_eq!(answer.is_err(), is_past, "{name}: {indices:?}");
        }
        compared.append(&mut pair.take_compared());
    }
    for base in [MIXED, CLASSIC_MIXED] {
        let mut image = bases::all()[base].clone();
        let entry = image.format().entry_offset(1) + image.format().entry_size();
        // The bytes before the end: dictionary or codec, and what is reserved.
        image.put(FileName::Meta, entry - 4, &[255; 4]);
        let mut pair = Pair::of(world, &image);
        pair.same("opening", |store| store.open(true)).unwrap();
        let error = pair.same("an impossible entry", |store| ask(store, &[0, 1])).unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
        pair.script(|files| files.spoil(FileName::Meta, ErrorKind::Other));
        let error = pair.same("an unreadable table", |store| ask(store, &[0])).unwrap_err();
        assert!(matches!(error, Error::Io(_)), "{error:?}");
    }
    compared
}

pub fn locations(world: World) -> Compared {
    of_indices(world, |store, indices| store.locations(indices))
}

pub fn lengths(world: World) -> Compared {
    of_indices(world, |store, indices| store.lengths(indices))
}

pub fn gather(world: World) -> Compared {
    let mut compared = of_indices(world, |store, indices| store.gather(indices, u64::MAX));
    for (name, mut pair) in stores::opened(world) {
        let length = pair.same(&name, |store| store.info()).length;
        let indices: Vec<u64> = (0..length.min(60)).collect();
        let lens = pair.same(&name, |store| store.lengths(&indices)).unwrap();
        let mut limits = vec![0, 1, u64::MAX];
        for len in lens.iter().take(8).map(|len| u64::from(*len)) {
            limits.extend([len.saturating_sub(1), len, len + 1, 3 * len]);
        }
        for limit in limits {
            match pair.same(&name, |store| store.gather(&indices, limit)) {
                Ok(batch) => {
                    assert!(batch.bytes.len() as u64 <= limit, "{name}: more than {limit}");
                    let fits = cut(&batch).iter().zip(&lens).all(|(r, l)| r.len() == *l as usize);
                    assert!(fits && (length == 0 || !batch.ends.is_empty()));
                }
                Err(Error::TooLarge(large)) => {
                    assert_eq!((large.position, large.limit), (0, limit))
                }
                Err(error) => panic!("{name}: {error:?}"),
            }
        }
        compared.append(&mut pair.take_compared());
    }
    let gather =
        |store: &mut dyn Contract, index| store.gather(&[index], u64::MAX).map(|batch| batch.bytes);
    let damaged = unreadable(world, gather);
    assert!(damaged > 50, "{damaged} damaged records");
    compared
}

/// Records whose chunk or dictionary is damaged or cannot be read; how many of
/// the damaged ones are refused.
fn unreadable(world: World, ask: impl Fn(&mut dyn Contract, u64) -> Result<Vec<u8>, Error>) -> u32 {
    for base in [MIXED, HOLES, CLASSIC_MIXED] {
        let length = stores::base(world, base).same("info", |store| store.info()).length;
        for name in [FileName::Chunk(0), FileName::Dictionary(0)] {
            for kind in KINDS {
                let mut pair = stores::base(world, base);
                pair.script(|files| files.close(name, kind));
                (0..length).for_each(|index| drop(pair.same("closed", |s| ask(s, index))));
                let mut pair = stores::base(world, base);
                pair.script(|files| files.spoil(name, kind));
                (0..length).for_each(|index| drop(pair.same("spoilt", |s| ask(s, index))));
            }
        }
    }
    let mut random = fastrand::Rng::with_seed(3);
    let mut damaged = 0;
    for base in [MIXED, HOLES, UNCLEAN] {
        for _ in 0..40 {
            let mut image = bases::all()[base].clone();
            let size = image.files[&FileName::Chunk(0)].size;
            image.put(FileName::Chunk(0), random.u64(..size), &[random.u8(..)]);
            let mut pair = Pair::of(world, &image);
            pair.same("opening", |store| store.open(true)).unwrap();
            for index in 0..pair.same("info", |store| store.info()).length {
                damaged += u32::from(pair.same("damaged", |store| ask(store, index)).is_err());
            }
        }
    }
    damaged
}

pub fn read_prefix(world: World) -> Compared {
    let mut compared = Compared::new();
    for (name, mut pair) in stores::opened(world) {
        let length = pair.same(&name, |store| store.info()).length;
        for index in (0..length.min(25)).chain([length, u64::MAX]) {
            let whole = pair.same(&name, |store| store.read_prefix(index, u64::MAX));
            let len = whole.as_ref().map_or(3, |bytes| bytes.len() as u64);
            for most in [0, 1, len / 2, len.saturating_sub(1), len, len + 1] {
                let part = pair.same(&name, |store| store.read_prefix(index, most));
                assert_eq!(part.is_ok(), index < length);
                if let (Ok(whole), Ok(part)) = (&whole, part) {
                    assert_eq!(part, whole[..most.min(len) as usize], "{name}: {index}");
                }
            }
        }
        compared.append(&mut pair.take_compared());
    }
    // Of a raw record no more is read, and so nothing found.
    let damaged =
        [10, u64::MAX].map(|most| unreadable(world, |s, index| s.read_prefix(index, most)));
    assert!(damaged[0] < damaged[1] && damaged[1] > 50, "{damaged:?} damaged records");
    compared
}

pub fn summarise(world: World) -> Compared {
    let mut compared = Compared::new();
    for (name, mut pair) in stores::opened(world) {
        let length = pair.same(&name, |store| store.info()).length;
        let ranges = [(0, length), (0, 0), (length / 3, length / 3), (1, u64::MAX), (length, 1)];
        for (first, count) in ranges.into_iter().chain([(u64::MAX, u64::MAX), (0, u64::MAX)]) {
            let sum = pair.same(&name, |store| store.summarise(first, count)).unwrap();
            assert_eq!(sum.records, length.saturating_sub(first).min(count), "{name}: {first}");
            assert_eq!((sum.codecs.len(), sum.lens.len(), sum.ratios.len()), (3, 33, 81));
        }
        compared.append(&mut pair.take_compared());
    }
    compared.append(&mut of_the_table(world, |store| store.summarise(0, u64::MAX).map(drop)));
    compared
}

/// What looks at the whole table, where that is damaged or cannot be read.
fn of_the_table(world: World, ask: impl Fn(&mut dyn Contract) -> Result<(), Error>) -> Compared {
    let mut compared = Compared::new();
    for base in [HOLES, CLASSIC_MIXED] {
        let mut image = bases::all()[base].clone();
        let end = image.format().entry_offset(3);
        image.put(FileName::Meta, end - 4, &[255; 4]);
        let mut pair = Pair::of(world, &image);
        pair.same("opening", |store| store.open(true)).unwrap();
        let error = pair.same("an impossible entry", |store| ask(store)).unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
        pair.script(|files| files.spoil(FileName::Meta, ErrorKind::PermissionDenied));
        let error = pair.same("an unreadable table", |store| ask(store)).unwrap_err();
        assert!(matches!(error, Error::Io(_)), "{error:?}");
        compared.append(&mut pair.take_compared());
    }
    compared
}

pub fn usage(world: World) -> Compared {
    let mut compared = of_the_table(world, |store| store.usage().map(drop));
    let mut reclaimable = 0;
    for (name, mut pair) in stores::opened(world) {
        let usage = pair.same(&name, |store| store.usage()).unwrap();
        reclaimable += u32::from(usage.reclaimable_bytes > 0);
        compared.append(&mut pair.take_compared());
    }
    assert!(reclaimable > 1, "{reclaimable} stores with dead bytes");
    compared
}

pub fn leftovers(world: World) -> Compared {
    let mut compared = of_the_table(world, |store| store.leftovers().map(drop));
    let left = [
        FileName::MetaNew,
        FileName::SchemaNew,
        FileName::DictionaryNew(0),
        FileName::Dictionary(1),
        FileName::Chunk(9),
        FileName::Chunk(250),
    ];
    for (name, mut pair) in stores::opened(world) {
        pair.same(&name, |store| store.leftovers()).unwrap();
        pair.script(|files| left.iter().for_each(|file| files.memory().put(*file, b"left")));
        let found = pair.same(&name, |store| store.leftovers()).unwrap();
        assert!(found.len() >= 4, "{name}: {found:?}");
        compared.append(&mut pair.take_compared());
    }
    compared
}
