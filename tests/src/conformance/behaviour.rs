//! What every implementation of a store does, said once: each function is a
//! promise, and demands it of the implementation that it is given.

use super::Implementation;
use crate::component::bindings::store::{Compression, Error, Format, Kind, RecordBatch, Schema};
use crate::component::bindings::store_edit::Packing;
use crate::component::contract::{cut, records};

/// A promise, by its name.
pub type Behaviour = (&'static str, fn(&mut dyn Implementation, Format));

/// All of them; each begins over nothing.
pub const ALL: [Behaviour; 11] = [
    ("an empty store answers", empty),
    ("there is no store before it is made, and one after", made_once),
    ("what was appended is read", appended),
    ("a gather keeps to its order and its limit", gathered),
    ("requests past the end are refused", past_the_end),
    ("a reader changes nothing", read_only),
    ("records fit the schema", typed),
    ("a delete moves the last records into the holes", deleted),
    ("a compaction gives dead bytes back", compacted),
    ("what is synced is durable", synced),
    ("a conversion keeps every record", converted),
];

const CODECS: [Compression; 2] = [Compression::Raw, Compression::Zstd];

fn id(format: Format) -> &'static [u8] {
    match format {
        Format::Classic => &[],
        Format::Extended => b"a store of a kin",
    }
}

fn create(store: &mut dyn Implementation, format: Format) {
    store.create(format, id(format)).unwrap();
}

/// Words, noise and one long record, none of them empty.
fn samples() -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(8);
    let mut samples: Vec<Vec<u8>> = (0..40_usize)
        .map(|number| match number % 3 {
            0 => (0..=number * 7).map(|_| random.u8(..)).collect(),
            1 => format!("sample {number} with words, ").repeat(number).into_bytes(),
            _ => vec![number as u8; 1 + number],
        })
        .collect();
    samples.push((0..70_000_u32).map(|at| (at / 50 % 251) as u8).collect());
    samples
}

fn append(store: &mut dyn Implementation, samples: &[Vec<u8>], codec: Compression) -> u64 {
    let ends = samples.iter().scan(0, |end, record| {
        *end += record.len() as u64;
        Some(*end)
    });
    let ends: Vec<u64> = ends.collect();
    let packing = Packing { codec, level: None, min_saving: None };
    store.append(&samples.concat(), &ends, packing).unwrap()
}

/// Nothing is wrong with it, and it holds these records, also when it is
/// opened anew.
fn assert_holds(store: &mut dyn Implementation, expected: &[Vec<u8>]) {
    assert!(records(store).unwrap() == expected, "other records");
    store.close().unwrap();
    store.drop_store();
    store.open(true).unwrap();
    assert!(records(store).unwrap() == expected, "other records when it is opened anew");
    assert_eq!(store.verify_structure().unwrap(), []);
    assert_eq!(store.verify(0, u64::MAX).unwrap(), []);
    let summary = store.summarise(0, u64::MAX).unwrap();
    assert_eq!(summary.records, expected.len() as u64);
    assert_eq!(summary.plain_bytes, expected.concat().len() as u64);
    assert_eq!(summary.lens.iter().sum::<u64>(), summary.records);
    assert_eq!(store.entries_present().unwrap(), summary.records);
}

fn empty(store: &mut dyn Implementation, format: Format) {
    create(store, format);
    let info = store.info();
    assert_eq!((info.format, info.length, info.dictionaries), (format, 0, 0));
    assert_eq!(info.id.is_some(), format == Format::Extended);
    assert_eq!(store.schema().unwrap(), None);
    let batch = RecordBatch { bytes: vec![], ends: vec![] };
    assert_eq!(store.gather(&[], 0).unwrap(), batch);
    assert!(store.lengths(&[]).unwrap().is_empty());
    assert_eq!(store.usage().unwrap().chunk_bytes, 0);
    assert_eq!(store.leftovers().unwrap(), [] as [&str; 0]);
    store.delete(&[]).unwrap();
    store.compact().unwrap();
    assert_holds(store, &[]);
}

fn made_once(store: &mut dyn Implementation, format: Format) {
    let not_yet = [store.open(true), store.open_to_edit()];
    for refused in not_yet {
        assert!(matches!(refused, Err(Error::NotAStore(_))), "{refused:?}");
    }
    let wrong = vec![1; 16 - id(format).len() + 1];
    let refused = store.create(format, &wrong);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    create(store, format);
    append(store, &samples(), Compression::Raw);
    store.close().unwrap();
    store.drop_store();
    assert_eq!(store.create(format, id(format)), Err(Error::AlreadyExists));
    store.open_to_edit().unwrap();
    assert_holds(store, &samples());
}

fn appended(store: &mut dyn Implementation, format: Format) {
    create(store, format);
    let samples = samples();
    for (turn, codec) in CODECS.into_iter().enumerate() {
        assert_eq!(append(store, &samples, codec), (turn * samples.len()) as u64);
    }
    let expected = [samples.clone(), samples].concat();
    let indices: Vec<u64> = (0..expected.len() as u64).collect();
    let lens: Vec<u32> = expected.iter().map(|record| record.len() as u32).collect();
    assert_eq!(store.lengths(&indices).unwrap(), lens);
    let locations = store.locations(&indices).unwrap();
    assert_eq!(locations.lens, lens);
    assert_eq!(locations.checksums.is_some(), format == Format::Extended);
    let compressed = locations.codecs.iter().filter(|codec| **codec == Compression::Zstd);
    assert!(compressed.count() > 10);
    for (index, record) in (0..).zip(&expected) {
        for most in [0, 1, 20, u64::MAX] {
            let prefix = &record[..(record.len() as u64).min(most) as usize];
            assert_eq!(store.read_prefix(index, most).unwrap(), prefix);
        }
    }
    assert_holds(store, &expected);
}

fn gathered(store: &mut dyn Implementation, format: Format) {
    create(store, format);
    let samples = samples();
    append(store, &samples, Compression::Zstd);
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..30 {
        let indices: Vec<u64> =
            (0..random.usize(1..60)).map(|_| random.u64(..samples.len() as u64)).collect();
        let limit = random.u64(70_000..200_000);
        let batch = store.gather(&indices, limit).unwrap();
        let got = cut(&batch);
        assert!(!got.is_empty() && batch.bytes.len() as u64 <= limit);
        for (index, record) in indices.iter().zip(&got) {
            assert!(samples[*index as usize] == *record, "record {index}");
        }
        if let Some(next) = indices.get(got.len()) {
            let more = batch.bytes.len() + samples[*next as usize].len();
            assert!(more as u64 > limit, "one more had fitted");
        }
    }
    let len = samples[40].len() as u64;
    assert!(matches!(store.gather(&[40, 0], len - 1), Err(Error::TooLarge(large))
        if (large.position, large.len, large.limit) == (0, len, len - 1)));
}

fn past_the_end(store: &mut dyn Implementation, format: Format) {
    create(store, format);
    let samples = samples();
    append(store, &samples, Compression::Raw);
    let length = samples.len() as u64;
    for indices in [&[length][..], &[0, u64::MAX], &[length + 7, 0]] {
        let refused = [
            store.lengths(indices).map(drop),
            store.locations(indices).map(drop),
            store.gather(indices, u64::MAX).map(drop),
            store.delete(indices),
        ];
        for refused in refused {
            let Err(Error::OutOfRange(range)) = refused else { panic!("{refused:?}") };
            assert!(indices.contains(&range.index) && range.length == length);
        }
    }
    assert!(matches!(store.read_prefix(length, 1), Err(Error::OutOfRange(_))));
    assert_holds(store, &samples);
}

fn read_only(store: &mut dyn Implementation, format: Format) {
    create(store, format);
    let samples = samples();
    append(store, &samples, Compression::Raw);
    store.close().unwrap();
    store.drop_store();
    let before = store.image();
    store.open(true).unwrap();
    let packing = Packing { codec: Compression::Raw, level: None, min_saving: None };
    let refused = [
        store.append(b"1", &[1], packing).map(drop),
        store.delete(&[0]),
        store.compact().map(drop),
        store.sync(),
        store.add_dictionary(crate::fuzz::codec::trained()).map(drop),
        store.set_schema(&rows()),
    ];
    for refused in refused {
        assert_eq!(refused, Err(Error::ReadOnly));
    }
    store.drop_store();
    super::files::assert_same("only read", &before, &store.image(), true);
}

/// Rows of three numbers of two bytes.
fn rows() -> Schema {
    Schema {
        kind: Kind::Dense,
        dtype: ">i2".into(),
        item_shape: vec![3],
        codec: Compression::Raw,
        row_bytes: 6,
        metadata: b"\x81\xa7made by\xa4hand".to_vec(),
    }
}

fn typed(store: &mut dyn Implementation, format: Format) {
    create(store, format);
    store.set_schema(&rows()).unwrap();
    assert_eq!(store.schema().unwrap(), Some(rows()));
    let fitting = vec![vec![1; 6], vec![2; 6]];
    append(store, &fitting, Compression::Zstd);
    let packing = Packing { codec: Compression::Raw, level: None, min_saving: None };
    let refused = store.append(&[3; 11], &[6, 11], packing);
    assert!(matches!(refused, Err(Error::SchemaMismatch(_))), "{refused:?}");
    let other = Schema { item_shape: vec![4], row_bytes: 8, ..rows() };
    let refused = store.set_schema(&other);
    assert!(matches!(refused, Err(Error::SchemaMismatch(_))), "{refused:?}");
    store.set_schema(&rows()).unwrap();
    assert_holds(store, &fitting);
    assert_eq!(store.schema().unwrap(), Some(rows()));
}

fn deleted(store: &mut dyn Implementation, format: Format) {
    create(store, format);
    let mut expected = samples();
    append(store, &expected, Compression::Zstd);
    let generation = store.info().generation;
    for indices in [&[3, 40, 7, 7][..], &[0], &[35, 36, 1]] {
        store.delete(indices).unwrap();
        let mut holes = indices.to_vec();
        holes.sort_unstable();
        holes.dedup();
        for hole in holes.into_iter().rev() {
            expected.swap_remove(hole as usize);
        }
        assert!(records(store).unwrap() == expected, "after deleting {indices:?}");
    }
    assert!(format == Format::Classic || store.info().generation > generation);
    assert_holds(store, &expected);
}

fn compacted(store: &mut dyn Implementation, format: Format) {
    create(store, format);
    let samples = samples();
    append(store, &samples, Compression::Raw);
    store.delete(&(0..20).collect::<Vec<u64>>()).unwrap();
    let expected = records(store).unwrap();
    let usage = store.usage().unwrap();
    assert!(usage.reclaimable_bytes > 1000);
    let done = store.compact().unwrap();
    assert!(done.reclaimed_bytes > 0 && done.moved_records > 0, "{done:?}");
    let after = store.usage().unwrap();
    assert_eq!(after.reclaimable_bytes, 0);
    assert_eq!(after.chunk_bytes, usage.chunk_bytes - usage.reclaimable_bytes);
    assert_eq!(store.leftovers().unwrap(), [] as [&str; 0]);
    append(store, &samples[..3], Compression::Zstd);
    assert_holds(store, &[expected, samples[..3].to_vec()].concat());
}

fn synced(store: &mut dyn Implementation, format: Format) {
    create(store, format);
    let samples = samples();
    append(store, &samples, Compression::Raw);
    let before = store.info();
    assert_eq!(before.length, samples.len() as u64);
    // A classic store cannot tell.
    assert!(format == Format::Classic || before.durable_length < before.length);
    store.sync().unwrap();
    let after = store.info();
    assert_eq!((after.length, after.durable_length), (before.length, before.length));
    assert_holds(store, &samples);
}

fn converted(store: &mut dyn Implementation, format: Format) {
    create(store, format);
    store
        .set_schema(&Schema { kind: Kind::Ragged, item_shape: vec![], row_bytes: 2, ..rows() })
        .unwrap();
    let mut samples = samples();
    samples.iter_mut().for_each(|record| record.resize(record.len().next_multiple_of(2), 1));
    append(store, &samples, Compression::Zstd);
    append(store, &samples, Compression::Raw);
    store.delete(&[5]).unwrap();
    let expected = records(store).unwrap();
    for to in [Format::Classic, Format::Extended, Format::Extended, Format::Classic] {
        if store.info().format == to {
            continue;
        }
        store.close().unwrap();
        store.drop_store();
        store.open(true).unwrap();
        let schema = store.schema().unwrap();
        store.begin_conversion(to, id(to)).unwrap();
        while store.step_conversion(10_000).map(|p| p.done < p.total).unwrap() {}
        store.take_converted();
        store.open_to_edit().unwrap();
        assert_eq!((store.info().format, store.schema().unwrap()), (to, schema));
        assert_eq!(store.usage().unwrap().reclaimable_bytes, 0);
        assert!(records(store).unwrap() == expected, "other records as {to:?}");
    }
    assert_holds(store, &expected);
}
