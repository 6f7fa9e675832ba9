//! The interface `store-edit`: what is answered and what is written, also where
//! the storage fails at any of the changes that a call makes.

use std::io::ErrorKind;

use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_tests::component::bindings::store::{Compression, Error, Format, Kind, Schema};
use zrecord_tests::component::bindings::store_edit::Packing;
use zrecord_tests::component::contract::{Answer, Contract, records};
use zrecord_tests::component::instance::World;
use zrecord_tests::component::pair::Pair;
use zrecord_tests::fuzz::bases;
use zrecord_tests::fuzz::codec::trained;

use super::Compared;
use super::stores::{self, CLASSIC_HOLES, CLASSIC_MIXED, HOLES, MIXED, UNCLEAN, packing, schema};

const FORMATS: [(Format, &[u8]); 2] = [(Format::Classic, &[]), (Format::Extended, &[0xA7; 16])];

/// Makes a change, and again with the storage failing at each of the steps
/// that it takes: the same answer and the same files, then and after opening
/// the store anew.
fn at_every_step(
    what: &str,
    files: &MemoryDirectory,
    open: impl Fn(&mut dyn Contract) -> Answer<()>,
    change: impl Fn(&mut dyn Contract) -> Answer<()>,
) -> Compared {
    let mut compared = Compared::new();
    for step in 0.. {
        let kind = [ErrorKind::StorageFull, ErrorKind::Other][usize::from(step % 2 == 1)];
        let mut pair = Pair::over(World::RecordStore, files);
        pair.same(what, &open).unwrap();
        pair.script(|files| files.fail_after(step, kind));
        let changed = pair.same(what, &change);
        let failed = !pair.core.directory().is_failing();
        pair.script(zrecord_tests::component::scripted::Scripted::mend);
        pair.same_files(what);
        if pair.core.is_open() {
            pair.same(what, |store| store.info());
            // Poisoned or not, alike.
            drop(pair.same(what, |store| store.sync()));
            drop(pair.same(what, |store| records(store)));
        }
        drop(pair.same(what, |store| store.open(true).and_then(|()| records(store))));
        pair.same_files(what);
        compared.append(&mut pair.take_compared());
        if !failed {
            assert!(step > 0 && changed.is_ok(), "{what}: {changed:?}");
            break;
        }
    }
    compared
}

fn image(base: usize) -> MemoryDirectory {
    bases::all()[base].in_memory()
}

fn to_edit(store: &mut dyn Contract) -> Answer<()> {
    store.open_to_edit()
}

/// What a store that was opened for reading, or is written no more, says.
fn refused_unless_writing<T: PartialEq + std::fmt::Debug>(
    change: impl Fn(&mut dyn Contract) -> Answer<T>,
) {
    let mut pair = stores::base(World::RecordStore, MIXED);
    assert_eq!(pair.same("opened for reading", &change), Err(Error::ReadOnly));
    let mut pair = stores::base_to_edit(MIXED);
    pair.same("closing", |store| store.close()).unwrap();
    assert_eq!(pair.same("closed", &change), Err(Error::ReadOnly));
    pair.same_files("a change that was refused");
    pair.same("read", |store| records(store)).unwrap();
    // After a sync that failed, only reading goes on.
    let mut pair = stores::base_to_edit(MIXED);
    pair.same("append", |store| store.append(b"1", &[1], packing(Compression::Raw))).unwrap();
    pair.script(|files| files.fail_after(0, ErrorKind::Other));
    pair.same("a sync that fails", |store| store.sync()).unwrap_err();
    assert_eq!(pair.same("poisoned", &change), Err(Error::Poisoned));
    pair.same("read", |store| records(store)).unwrap();
    pair.same_files("a change of a poisoned store");
}

pub fn open(_: World) -> Compared {
    let mut compared = Compared::new();
    for (name, files) in stores::all() {
        let mut pair = Pair::over(World::RecordStore, &files);
        pair.same(&name, |store| store.open_to_edit()).unwrap();
        pair.same_files(&name);
        pair.same(&name, |store| store.info());
        pair.component.drop_store();
        assert_eq!(pair.component.held(), 0, "{name}: it keeps what it was lent");
        compared.append(&mut pair.take_compared());
    }
    let open = |store: &mut dyn Contract| store.open_to_edit();
    for base in [UNCLEAN, CLASSIC_HOLES] {
        for step in 0..40 {
            let mut pair = Pair::over(World::RecordStore, &image(base));
            pair.script(|files| files.fail_after(step, ErrorKind::StorageFull));
            drop(pair.same("opening fails", open));
            pair.same_files("opening fails");
        }
    }
    let mut pair = Pair::of(World::RecordStore, &bases::all()[MIXED]);
    pair.script(|files| files.protect());
    let error = pair.same("protected", open).unwrap_err();
    assert!(matches!(error, Error::Io(_)), "{error:?}");
    let mut pair = Pair::empty(World::RecordStore);
    let error = pair.same("nothing", open).unwrap_err();
    assert!(matches!(error, Error::NotAStore(_)), "{error:?}");
    assert_eq!(pair.component.held(), 0, "it keeps what it was lent");
    compared
}

pub fn create(_: World) -> Compared {
    let mut compared = Compared::new();
    for (format, id) in FORMATS {
        let nothing = MemoryDirectory::new();
        for step in 0..40 {
            let mut pair = Pair::over(World::RecordStore, &nothing);
            pair.script(|files| files.fail_after(step, ErrorKind::StorageFull));
            let created = pair.same("create", |store| store.create(format, id));
            pair.same_files("create");
            assert!(created.is_ok() || step < 30, "{created:?}");
        }
        let mut pair = Pair::empty(World::RecordStore);
        pair.same("create", |store| store.create(format, id)).unwrap();
        pair.same_files("create");
        let info = pair.same("info", |store| store.info());
        assert_eq!((info.format, info.length), (format, 0));
        assert_eq!(info.id.as_deref().unwrap_or_default(), id);
        let again = pair.same("again", |store| store.create(format, id));
        assert_eq!(again, Err(Error::AlreadyExists));
        compared.append(&mut pair.take_compared());
    }
    for (format, len) in
        [(Format::Classic, 1), (Format::Classic, 16), (Format::Extended, 0), (Format::Extended, 17)]
    {
        let mut pair = Pair::empty(World::RecordStore);
        let error = pair.same("a wrong id", |s| s.create(format, &vec![1; len])).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
        pair.same_files("a wrong id");
    }
    let mut pair = Pair::empty(World::RecordStore);
    pair.script(|files| files.protect());
    pair.same("protected", |store| store.create(Format::Classic, &[])).unwrap_err();
    compared
}

pub fn set_schema(_: World) -> Compared {
    let mut compared = Compared::new();
    let with = |change: fn(&mut Schema)| {
        let mut changed = schema();
        change(&mut changed);
        changed
    };
    for (format, id) in FORMATS {
        let mut pair = Pair::empty(World::RecordStore);
        pair.same("create", |store| store.create(format, id)).unwrap();
        let empty = pair.core.directory().memory().snapshot();
        let wrong = [
            with(|schema| schema.dtype = "<f3".into()),
            with(|schema| schema.dtype = "|O".into()),
            with(|schema| schema.item_shape = vec![u64::MAX, 2]),
            with(|schema| schema.item_shape = vec![1; 65]),
            with(|schema| schema.metadata = vec![0xc1]),
            with(|schema| schema.metadata = vec![0x81]),
        ];
        for schema in &wrong {
            pair.same("a wrong schema", |store| store.set_schema(schema)).unwrap_err();
            pair.same_files("a wrong schema");
        }
        let right = [
            schema(),
            with(|schema| schema.row_bytes = 99),
            with(|schema| schema.kind = Kind::Ragged),
            with(|schema| schema.dtype = "bfloat16".into()),
            with(|schema| schema.dtype = "[('a', '<f4'), ('b', '|u1', (3,))]".into()),
            with(|schema| schema.metadata = b"\x81\xa1a\x92\x01\x02".to_vec()),
        ];
        for schema in &right {
            let mut pair = Pair::over(World::RecordStore, &empty);
            pair.same("open", to_edit).unwrap();
            // A classic store has no words for some of them.
            drop(pair.same("a schema", |store| store.set_schema(schema)));
            pair.same("again", |store| store.set_schema(schema)).ok();
            pair.same("another", |store| store.set_schema(&right[2])).ok();
            pair.same_files("a schema");
            pair.same("read again", |store| store.schema()).unwrap();
        }
        let set = |store: &mut dyn Contract| store.set_schema(&schema());
        compared.append(&mut at_every_step("schema", &empty, to_edit, set));
    }
    // Records without one, or with another.
    for base in [HOLES, MIXED, CLASSIC_HOLES, CLASSIC_MIXED] {
        let mut pair = stores::base_to_edit(base);
        let error = pair.same("records", |store| store.set_schema(&schema())).unwrap_err();
        assert!(matches!(error, Error::SchemaMismatch(_)), "{error:?}");
    }
    refused_unless_writing(|store| store.set_schema(&Schema { kind: Kind::Ragged, ..schema() }));
    compared
}

pub fn add_dictionary(_: World) -> Compared {
    let mut compared = Compared::new();
    let add = |store: &mut dyn Contract| store.add_dictionary(trained()).map(drop);
    for base in [HOLES, CLASSIC_HOLES] {
        compared.append(&mut at_every_step("dictionary", &image(base), to_edit, add));
    }
    let mut pair = stores::base_to_edit(MIXED);
    assert_eq!(pair.same("a second", |store| store.add_dictionary(trained())), Ok(1));
    for wrong in [&b""[..], b"none", &trained()[..40], &[7; 3000]] {
        let error = pair.same("no dictionary", |store| store.add_dictionary(wrong)).unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
        pair.same_files("no dictionary");
    }
    for number in 2..256 {
        assert_eq!(pair.same("more", |s| s.add_dictionary(trained())), Ok(number as u8));
    }
    let full = pair.same("too many", |store| store.add_dictionary(trained())).unwrap_err();
    assert!(matches!(full, Error::Full(_)), "{full:?}");
    let mut pair = stores::base_to_edit(CLASSIC_MIXED);
    let used = pair.same("one that is used", |s| s.add_dictionary(trained())).unwrap_err();
    assert!(matches!(used, Error::Unsupported(_)), "{used:?}");
    refused_unless_writing(|store| store.add_dictionary(trained()));
    compared
}

/// Records one behind the other, and where they end.
fn batch(records: &[&[u8]]) -> (Vec<u8>, Vec<u64>) {
    let ends = records.iter().scan(0, |end, record| {
        *end += record.len() as u64;
        Some(*end)
    });
    (records.concat(), ends.collect())
}

pub fn append(_: World) -> Compared {
    let mut compared = Compared::new();
    let words = b"sample 4 of 12 with words, and words again, and words".repeat(9);
    let (bytes, ends) = batch(&[&words, b"short", &[0; 300], &words]);
    for base in [HOLES, MIXED, UNCLEAN, CLASSIC_HOLES, CLASSIC_MIXED] {
        for codec in [Compression::Raw, Compression::Zstd] {
            let append =
                |store: &mut dyn Contract| store.append(&bytes, &ends, packing(codec)).map(drop);
            compared.append(&mut at_every_step("append", &image(base), to_edit, append));
        }
        let mut pair = stores::base_to_edit(base);
        let before = pair.same("info", |store| store.info()).length;
        for level in [None, Some(0), Some(1), Some(3), Some(19), Some(-1), Some(i32::MAX)] {
            for min_saving in
                [None, Some(0.0), Some(0.3), Some(0.999), Some(1.0), Some(-0.1), Some(f64::NAN)]
            {
                for codec in [Compression::Raw, Compression::Zstd, Compression::ZstdDict] {
                    let packing = Packing { codec, level, min_saving };
                    pair.same("packing", |store| store.append(&bytes, &ends, packing)).ok();
                }
            }
        }
        let after = pair.same("info", |store| store.info()).length;
        assert!(after > before + 20, "{before} to {after}");
        pair.same_files("packing");
        assert_eq!(
            pair.same("none", |s| s.append(&[], &[], packing(Compression::Zstd))),
            Ok(after)
        );
        refusals(&mut pair);
    }
    of_a_schema();
    refused_unless_writing(|store| store.append(&bytes, &ends, packing(Compression::Zstd)));
    compared
}

/// Batches that no store takes, and those that some do not.
fn refusals(pair: &mut Pair) {
    let raw = packing(Compression::Raw);
    let wrong: [(&[u8], &[u64]); 8] = [
        (b"abc", &[]),
        (b"abc", &[2]),
        (b"abc", &[4]),
        (b"abc", &[2, 1, 3]),
        (b"abc", &[3, 3, 2]),
        (b"", &[1]),
        (b"abc", &[u64::MAX]),
        (b"abc", &[1 << 32, 3]),
    ];
    for (bytes, ends) in wrong {
        let error = pair.same("wrong ends", |s| s.append(bytes, ends, raw)).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{ends:?}: {error:?}");
    }
    let is_classic = pair.same("info", |store| store.info()).format == Format::Classic;
    let empty = pair.same("an empty record", |store| store.append(b"abc", &[1, 1, 3], raw));
    assert_eq!(empty.is_err(), is_classic, "{empty:?}");
    let mebibyte = vec![1; (1 << 20) + 1];
    let end = mebibyte.len() as u64;
    let large = pair.same("a mebibyte and one", |s| s.append(&mebibyte, &[end], raw));
    assert_eq!(matches!(large, Err(Error::TooLarge(_))), is_classic, "{:?}", large.err());
    let most = pair.same("a mebibyte", |s| s.append(&mebibyte[1..], &[end - 1], raw));
    assert!(most.is_ok());
    pair.same_files("refusals");
}

/// Only records that fit.
fn of_a_schema() {
    for (format, id) in FORMATS {
        let mut pair = Pair::empty(World::RecordStore);
        pair.same("create", |store| store.create(format, id)).unwrap();
        pair.same("schema", |store| store.set_schema(&schema())).unwrap();
        let raw = packing(Compression::Raw);
        assert_eq!(pair.same("rows", |s| s.append(&[1; 24], &[8, 16, 24], raw)), Ok(0));
        for ends in [&[8_u64, 15, 24][..], &[24], &[7, 24]] {
            let error = pair.same("misfits", |s| s.append(&[1; 24], ends, raw)).unwrap_err();
            assert!(matches!(error, Error::SchemaMismatch(_)), "{error:?}");
        }
        assert_eq!(pair.same("info", |store| store.info()).length, 3);
        pair.same_files("misfits");
    }
}

pub fn sync(_: World) -> Compared {
    let mut compared = Compared::new();
    for base in [HOLES, UNCLEAN, CLASSIC_HOLES] {
        let open = |store: &mut dyn Contract| {
            store.open_to_edit()?;
            store.append(b"onetwo", &[3, 6], packing(Compression::Raw)).map(drop)
        };
        compared.append(&mut at_every_step("sync", &image(base), open, |s| s.sync()));
        let mut pair = stores::base_to_edit(base);
        pair.same("append", |s| s.append(b"1", &[1], packing(Compression::Raw))).unwrap();
        pair.same("sync", |store| store.sync()).unwrap();
        let info = pair.same("info", |store| store.info());
        assert_eq!(info.length, info.durable_length);
        pair.same("sync", |store| store.sync()).unwrap();
        pair.same_files("sync");
    }
    refused_unless_writing(|store| store.sync());
    compared
}

pub fn delete(_: World) -> Compared {
    let mut compared = Compared::new();
    for base in [HOLES, MIXED, UNCLEAN, CLASSIC_HOLES, CLASSIC_MIXED] {
        let delete = |store: &mut dyn Contract| store.delete(&[0, 3, 3]);
        compared.append(&mut at_every_step("delete", &image(base), to_edit, delete));
        let mut pair = stores::base_to_edit(base);
        let before = pair.same("info", |store| store.info());
        for wrong in [vec![before.length], vec![0, u64::MAX]] {
            let error = pair.same("past the end", |s| s.delete(&wrong)).unwrap_err();
            assert!(matches!(error, Error::OutOfRange(_)), "{error:?}");
        }
        assert_eq!(pair.same("info", |store| store.info()), before);
        pair.same("none", |store| store.delete(&[])).unwrap();
        pair.same("the last", |store| store.delete(&[before.length - 1])).unwrap();
        let all: Vec<u64> = (0..before.length - 1).collect();
        pair.same("all", |store| store.delete(&all)).unwrap();
        assert_eq!(pair.same("info", |store| store.info()).length, 0);
        pair.same_files("delete");
    }
    refused_unless_writing(|store| store.delete(&[0]));
    compared
}

pub fn compact(_: World) -> Compared {
    let mut compared = Compared::new();
    for base in [HOLES, CLASSIC_HOLES, UNCLEAN] {
        let open = |store: &mut dyn Contract| {
            store.open_to_edit()?;
            store.delete(&[1])
        };
        let compact = |store: &mut dyn Contract| store.compact().map(drop);
        compared.append(&mut at_every_step("compact", &image(base), open, compact));
        let mut pair = stores::base_to_edit(base);
        pair.same("delete", |store| store.delete(&[0])).unwrap();
        let kept = pair.same("records", |store| records(store)).unwrap();
        let done = pair.same("compact", |store| store.compact()).unwrap();
        assert!(done.reclaimed_bytes > 0, "{done:?}");
        assert_eq!(pair.same("records", |store| records(store)).unwrap(), kept);
        let usage = pair.same("usage", |store| store.usage()).unwrap();
        assert_eq!(usage.reclaimable_bytes, 0);
        pair.same("again", |store| store.compact()).unwrap();
        pair.same_files("compact");
    }
    // Records that cannot be copied, and some that need not be.
    let mut refused = [0, 0];
    for index in 0..9 {
        let mut image = bases::all()[HOLES].clone();
        let location = image.location(index).unwrap();
        image.put(location.file(), location.offset.into(), &[0xEE; 5]);
        let mut pair = Pair::of(World::RecordStore, &image);
        pair.same("open", to_edit).unwrap();
        match pair.same("damaged", |store| store.compact()) {
            Ok(_) => refused[0] += 1,
            Err(Error::Corrupt(fault)) => {
                assert_eq!(fault.index, Some(index));
                refused[1] += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
        pair.same_files("damaged");
        let mut pair = stores::base_to_edit(HOLES);
        pair.script(|files| files.spoil(location.file(), ErrorKind::Other));
        drop(pair.same("unreadable", |store| store.compact()));
        pair.same_files("unreadable");
    }
    assert!(refused.iter().all(|count| *count > 1), "{refused:?}");
    refused_unless_writing(|store| store.compact());
    compared
}

pub fn close(_: World) -> Compared {
    let mut compared = Compared::new();
    for base in [HOLES, UNCLEAN, CLASSIC_HOLES] {
        let open = |store: &mut dyn Contract| {
            store.open_to_edit()?;
            store.append(b"onetwo", &[3, 6], packing(Compression::Raw)).map(drop)
        };
        compared.append(&mut at_every_step("close", &image(base), open, |s| s.close()));
        let mut pair = stores::base_to_edit(base);
        pair.same("close", |store| store.close()).unwrap();
        pair.same("again", |store| store.close()).unwrap();
        pair.same("read", |store| records(store)).unwrap();
        pair.same_files("close");
    }
    let mut pair = stores::base(World::RecordStore, MIXED);
    assert_eq!(pair.same("opened for reading", |store| store.close()), Ok(()));
    compared
}
