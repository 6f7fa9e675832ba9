//! A store inside the sandbox is the store that the native host sees.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use zrecord_host::core::Error;
use zrecord_host::core::format::{Commit, RecordLocation, Tail, checksum, extended};
use zrecord_host::core::reader::Reader;
use zrecord_host::core::storage::Access;
use zrecord_host::directory::FsDirectory;
use zrecord_host::sandbox::{Limits, Sandbox};
use zrecord_host::{Codec, Dtype, Format, Kind, Schema, Store, Verdict, sandbox};

#[path = "sandboxed/mod.rs"]
mod sandboxed;
mod support;
use sandboxed::{append, gather, kind, native, open, records};
use support::{FORMATS, Random, copy_golden, core_error, fresh, golden, golden_names, writable};

/// Compares everything that both say of a store.
fn assert_same(path: &Path) {
    let (native, sandbox) = (Store::open(path).unwrap(), open(path));
    assert_eq!(sandbox.len().unwrap(), native.len().unwrap());
    assert_eq!(sandbox.format(), native.format());
    assert_eq!(sandbox.id(), native.id());
    assert_eq!(sandbox.schema().unwrap(), native.schema());
    let indices: Vec<u64> = (0..native.len().unwrap()).collect();
    assert_eq!(sandbox.lengths(&indices).unwrap(), native.lengths(&indices).unwrap());
    assert_eq!(sandboxed::all(&sandbox), support::all(&native));
    let reader = Reader::open(FsDirectory::new(path), Access::Read).unwrap();
    assert_eq!(sandbox.locations(&indices).unwrap(), reader.locations(&indices).unwrap());
    let range = 0..native.len().unwrap();
    assert_eq!(sandbox.summarise(range.clone()).unwrap(), reader.summarise(range).unwrap());
    // Of a schema, only what it means crosses the border.
    let inspections = [sandbox.inspect().unwrap(), native.inspect().unwrap()];
    assert_eq!(inspections[0].schema, inspections[1].schema);
    let [one, other] = inspections.map(|mut inspection| {
        inspection.schema = None;
        format!("{inspection:?}")
    });
    assert_eq!(one, other);
    assert_eq!(sandbox.leftovers().unwrap(), native.leftovers().unwrap());
    assert_eq!(sandbox.verify(&mut |_| {}).unwrap(), native.verify(&mut |_| {}).unwrap());
}

#[test]
fn native_stores_read_the_same_in_every_codec() {
    for format in FORMATS {
        for codec in Codec::ALL {
            let (_guard, path) = fresh();
            let records = records(7, 300);
            drop(native(&path, format, codec, &records));
            assert_same(&path);
            let sandbox = open(&path);
            assert!(sandbox.summarise(0..300).unwrap().codecs[usize::from(codec.number())] > 0);
            let mut random = Random::new(3);
            let indices: Vec<u64> = (0..500).map(|_| random.below(300)).collect();
            let got = gather(&sandbox, &indices).unwrap();
            for (index, record) in indices.iter().zip(got) {
                assert_eq!(record, records[usize::try_from(*index).unwrap()], "{format:?} {codec}");
            }
        }
    }
}

#[test]
fn golden_stores_read_the_same() {
    for name in golden_names() {
        assert_same(&golden().join(name));
    }
}

/// The component has another hash crate, whose method depends on the length.
#[test]
fn checksums_agree_at_every_length() {
    let (_guard, path) = fresh();
    let mut random = Random::new(9);
    let lengths = (0..600).chain((600..9_000).step_by(331));
    let records: Vec<Vec<u8>> = lengths.map(|len| random.record(len)).collect();
    drop(native(&path, Format::Extended, Codec::Raw, &records));
    assert_same(&path);
}

#[test]
fn an_empty_store_reads_the_same() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        writable(format).open(&path).unwrap().close().unwrap();
        assert_same(&path);
        assert!(open(&path).is_empty().unwrap());
    }
}

#[test]
fn prefixes_are_read() {
    let (_guard, path) = fresh();
    let records = records(5, 20);
    for codec in [Codec::Raw, Codec::Zstd] {
        native(&path, Format::Extended, codec, &records);
    }
    let store = open(&path);
    for (index, record) in (0..40).zip(records.iter().cycle()) {
        assert_eq!(store.read_prefix(index, 100).unwrap(), record[..record.len().min(100)]);
        assert_eq!(store.read_prefix(index, u64::MAX).unwrap(), *record);
    }
}

#[test]
fn requests_are_refused_as_the_native_host_does() {
    let (_guard, path) = fresh();
    let native = native(&path, Format::Extended, Codec::Zstd, &records(1, 4));
    let sandbox = open(&path);
    let lengths = native.lengths(&[0, 1]).unwrap();
    let end = u64::from(lengths[0]);
    let size = lengths.iter().map(|len| *len as usize).sum();
    let (indices, offsets): (&[&[u64]], &[&[u64]]) =
        (&[&[0, 4], &[0, 1], &[0, 1], &[0, 1]], &[&[0, end], &[0], &[0, end + 1], &[0, end - 1]]);
    for (indices, offsets) in indices.iter().zip(offsets) {
        let mut dst = vec![7; size];
        let refused = sandbox.gather(indices, &mut dst, offsets).unwrap_err();
        assert_eq!(dst, vec![7; size], "nothing is written");
        let expected = native.gather(indices, &mut dst, offsets).unwrap_err();
        assert_eq!(refused.to_string(), expected.to_string());
    }
    let mut dst = vec![0; size];
    let refused = sandbox.gather_packed(&[0], &mut dst, 1).unwrap_err();
    assert_eq!(
        refused.to_string(),
        native.gather_packed(&[0], &mut dst, 1).unwrap_err().to_string()
    );
    assert!(matches!(core_error(sandbox.append(b"a", &[0], None)), Error::ReadOnly));
    assert!(matches!(core_error(sandbox.delete(&[0])), Error::ReadOnly));
    assert!(matches!(core_error(sandbox.compact()), Error::ReadOnly));
    sandbox.close().unwrap();
    assert!(matches!(core_error(sandbox.len()), Error::Closed));
    sandbox.close().unwrap();
    let missing = Sandbox::open(path.with_file_name("none.zr"), Limits::new()).unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
}

#[test]
fn a_reader_follows_a_writer() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let native = native(&path, format, Codec::Raw, &records(1, 3));
        let sandbox = open(&path);
        support::append(&native, &records(2, 2));
        assert_eq!(gather(&sandbox, &[4]).unwrap(), support::gather(&native, &[4]).unwrap());
        assert_eq!(sandbox.len().unwrap(), 5);
        // Its presence keeps records where they are.
        assert!(matches!(core_error(native.delete(&[0])), Error::Busy { .. }));
    }
}

/// The record table and the chunk: all but the header.
fn table_and_chunk(path: &Path, format: Format) -> (Vec<u8>, Vec<u8>) {
    let meta = fs::read(path.join("meta.zr")).unwrap();
    let entries = usize::try_from(format.entry_offset(0)).unwrap();
    let end = entries + 1000 * usize::try_from(format.entry_size()).unwrap();
    let chunk = File::open(path.join("0.zr")).unwrap();
    let mut bytes = vec![0; 1 << 20];
    let read = chunk.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(read);
    (meta[entries..end.min(meta.len())].to_vec(), bytes)
}

#[test]
fn what_the_sandbox_writes_the_native_host_reads() {
    for format in FORMATS {
        for codec in [Codec::Raw, Codec::Zstd] {
            let (_guard, path) = fresh();
            let other = path.with_file_name("native.zr");
            let records = records(11, 100);
            let store = Sandbox::create(&path, format, Limits::new()).unwrap();
            let busy = Sandbox::open_writer(&path, Limits::new());
            assert!(matches!(core_error(busy), Error::Busy { .. }));
            assert_eq!(append(&store, &records[..60], codec), 0);
            store.sync().unwrap();
            assert_eq!(append(&store, &records[60..], codec), 60);
            assert_eq!(sandboxed::all(&store), records);
            store.close().unwrap();
            assert_same(&path);
            let native_store = writable(format).codec(codec).open(&other).unwrap();
            support::append(&native_store, &records);
            native_store.close().unwrap();
            assert_eq!(support::all(&Store::open(&path).unwrap()), records);
            if codec == Codec::Raw {
                assert_eq!(table_and_chunk(&path, format), table_and_chunk(&other, format));
            }
        }
        let (_guard, path) = fresh();
        drop(Sandbox::create(&path, format, Limits::new()).unwrap());
        let again = Sandbox::create(&path, format, Limits::new());
        assert!(matches!(core_error(again), Error::AlreadyExists));
    }
}

#[test]
fn records_are_deleted_and_chunks_compacted() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let mut model = records(12, 50);
        drop(native(&path, format, Codec::Zstd, &model));
        let store = Sandbox::open_writer(&path, Limits::new()).unwrap();
        let reader = open(&path);
        assert!(matches!(core_error(store.delete(&[3])), Error::Busy { .. }));
        reader.close().unwrap();
        let out = core_error(store.delete(&[50]));
        assert!(matches!(out, Error::OutOfRange { index: 50, length: 50 }), "{out}");
        store.delete(&[3, 7, 49]).unwrap();
        support::delete(&mut model, &[3, 7, 49]);
        assert_eq!(sandboxed::all(&store), model);
        let compaction = store.compact().unwrap();
        assert!(compaction.reclaimed_bytes > 0 && compaction.moved_records > 0);
        append(&store, &model[..5], Codec::Raw);
        model.extend_from_within(..5);
        store.close().unwrap();
        assert_eq!(support::all(&Store::open(&path).unwrap()), model);
        assert_eq!(Store::open(&path).unwrap().inspect().unwrap().stats.reclaimable, 0);
        assert_same(&path);
    }
}

#[test]
fn schemas_and_dictionaries_cross_the_border() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        let metadata = vec![("made by".into(), "hand".into())];
        let dtype = Dtype::parse("<f4").unwrap();
        let schema = Schema::new(Kind::Dense, dtype, vec![5, 2], Codec::Raw, metadata).unwrap();
        let store = Sandbox::create(&path, format, Limits::new()).unwrap();
        store.set_schema(&schema).unwrap();
        let misfit = store.append(&[0; 39], &[0], None);
        assert!(matches!(core_error(misfit), Error::SchemaMismatch { .. }));
        store.append(&[1; 80], &[0, 40], None).unwrap();
        assert_eq!(store.summarise(0..2).unwrap().codecs, [2, 0, 0], "the schema's codec");
        let dictionary = core_error(store.append(&[1; 40], &[0], Some(Codec::ZstdDict)));
        assert!(matches!(dictionary, Error::Unsupported { .. }), "{dictionary}");
        store.close().unwrap();
        assert_eq!(*Store::open(&path).unwrap().schema().unwrap(), schema);
        assert_same(&path);
    }
    let (_guard, path) = fresh();
    let (_other_guard, other) = fresh();
    drop(native(&path, Format::Extended, Codec::ZstdDict, &records(8, 300)));
    let bytes = open(&path).dictionary(0).unwrap();
    assert_eq!(bytes, fs::read(path.join("dict.zr")).unwrap());
    let store = Sandbox::create(&other, Format::Extended, Limits::new()).unwrap();
    assert_eq!(store.add_dictionary(&bytes).unwrap(), 0);
    store.close().unwrap();
    assert!(Store::open(&other).unwrap().has_dictionary());
}

#[test]
fn conversions_equal_the_native_ones() {
    for name in golden_names() {
        let (_guard, extended) = fresh();
        let source = golden().join(&name);
        let mut seen = Vec::new();
        sandbox::convert(&source, &extended, Format::Extended, Limits::new(), &mut |progress| {
            seen.push(progress);
        })
        .unwrap();
        let last = seen.last().unwrap();
        assert_eq!((last.done, last.total), (last.total, open(&source).len().unwrap()));
        let [one, other] = ["one.zr", "other.zr"].map(|name| extended.with_file_name(name));
        sandbox::convert(&extended, &one, Format::Classic, Limits::new(), &mut |_| {}).unwrap();
        zrecord_host::convert(&extended, &other, Format::Classic, &mut |_| {}).unwrap();
        assert_eq!(
            support::all(&Store::open(&one).unwrap()),
            support::all(&Store::open(&source).unwrap())
        );
        let tables = [&one, &other].map(|path| table_and_chunk(path, Format::Classic));
        assert!(tables[0] == tables[1], "{name}: other bytes than the native conversion");
        assert_same(&extended);
        assert_same(&one);
        let again = sandbox::convert(&source, &one, Format::Extended, Limits::new(), &mut |_| {});
        assert!(matches!(core_error(again), Error::AlreadyExists));
    }
    let (_guard, path) = fresh();
    let store = writable(Format::Extended).open(&path).unwrap();
    store.append(b"", &[0], None).unwrap();
    let classic = path.with_file_name("classic.zr");
    let refused = sandbox::convert(&path, &classic, Format::Classic, Limits::new(), &mut |_| {});
    assert!(matches!(core_error(refused), Error::Unsupported { .. }));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left");
}

/// A header that says another length of all records than the table does.
#[test]
fn a_forged_stride_misleads_nobody() {
    let (_guard, path) = fresh();
    let records: Vec<Vec<u8>> = (0..9_u8).map(|at| vec![at; 500]).collect();
    native(&path, Format::Extended, Codec::Raw, &records).close().unwrap();
    let reader = Reader::open(FsDirectory::new(&path), Access::Read).unwrap();
    let (id, mut commit) = (reader.identity().id().unwrap(), *reader.commit());
    assert_eq!(commit.stride, 500);
    let meta = File::options().write(true).open(path.join("meta.zr")).unwrap();
    for stride in [400, 600] {
        commit.stride = stride;
        for _ in 0..2 {
            commit.sequence += 1;
            let slot = extended::encode_slot(&commit, &id);
            meta.write_all_at(&slot, extended::slot_offset(commit.sequence)).unwrap();
        }
        let store = open(&path);
        assert_eq!(store.inspect().unwrap().stride, stride);
        assert_eq!(gather(&store, &[8, 0, 8]).unwrap(), [8, 0, 8].map(|at| vec![at; 500]));
        let mut dst = vec![0; 2 * stride as usize];
        let refused = store.gather_packed(&[3, 4], &mut dst, stride.into());
        assert!(matches!(core_error(refused), Error::SchemaMismatch { .. }), "{stride}");
        let mut dst = vec![0; 1000];
        store.gather_packed(&[3, 4], &mut dst, 500).unwrap();
        assert_eq!(dst, [vec![3; 500], vec![4; 500]].concat());
    }
}

/// A store whose record table passes 4 GiB, with records at both ends of it
/// and of a chunk. Between them are empty records.
fn sparse(path: &Path, length: u64, records: &[(u64, RecordLocation, Vec<u8>)]) {
    fs::create_dir(path).unwrap();
    let meta = File::create(path.join("meta.zr")).unwrap();
    let id = [9; 16];
    meta.write_all_at(&extended::encode_identity(&id), 0).unwrap();
    for (index, location, bytes) in records {
        let mut entry = Vec::new();
        Format::Extended.encode_entry(location, &mut entry);
        meta.write_all_at(&entry, Format::Extended.entry_offset(*index)).unwrap();
        let name = path.join(location.file().to_string());
        let chunk = File::options().write(true).create(true).truncate(false).open(name).unwrap();
        chunk.write_all_at(bytes, location.offset.into()).unwrap();
    }
    let sum = records.iter().map(|(.., bytes)| bytes.len() as u64).sum();
    let tail = Tail { chunk: 1, offset: u32::MAX };
    let mut commit = Commit {
        sequence: 1,
        length,
        durable_length: length,
        unsynced_hash: extended::EMPTY_HASH,
        live_stored: sum,
        live_len: sum,
        tail,
        durable_tail: tail,
        ..Commit::default()
    };
    for sequence in [1, 2] {
        commit.sequence = sequence;
        meta.write_all_at(&extended::encode_slot(&commit, &id), extended::slot_offset(sequence))
            .unwrap();
    }
    meta.set_len(Format::Extended.entry_offset(length)).unwrap();
}

#[test]
fn positions_past_4_gib_are_read() {
    let (_guard, path) = fresh();
    let mut random = Random::new(1);
    let length = (1 << 32) / Format::Extended.entry_size() + 1000;
    let last = length - 1;
    assert!(Format::Extended.entry_offset(last) > 1 << 32);
    let mut record = |index, chunk, end: u32| {
        let bytes = random.record(1000);
        let location = RecordLocation {
            chunk,
            offset: end - 1000,
            stored_len: 1000,
            len: 1000,
            codec: Codec::Raw,
            dictionary: 0,
            checksum: Some(checksum(&bytes, 1000, Codec::Raw, 0)),
        };
        (index, location, bytes)
    };
    let records = [record(0, 0, 1000), record(last - 1, 1, 1000), record(last, 1, u32::MAX)];
    sparse(&path, length, &records);
    let indices = records.each_ref().map(|(index, ..)| *index);
    let bytes = records.each_ref().map(|(.., bytes)| bytes.clone());
    let store = open(&path);
    assert_eq!(gather(&store, &indices).unwrap(), bytes);
    assert_eq!(store.locations(&indices).unwrap(), records.map(|(_, location, _)| location));
    assert_eq!(support::gather(&Store::open(&path).unwrap(), &indices).unwrap(), bytes);
}

/// A fault without what a decoder says in words of its own.
fn fault(fault: &zrecord_host::Fault) -> String {
    let text = fault.to_string();
    let own_words = ["libzstd", "ruzstd"].iter().find_map(|name| text.find(name));
    own_words.map_or(text.clone(), |at| format!("{}undecodable", &text[..at]))
}

/// What `verify` says of a store, faults and all.
fn verdicts(path: &Path) -> [Result<(Verdict, Vec<String>), String>; 2] {
    let mut faults = [Vec::new(), Vec::new()];
    let [one, other] = &mut faults;
    let native = zrecord_host::verify(path, &mut |_| {}, &mut |found| one.push(fault(&found)));
    let report = &mut |found| other.push(fault(&found));
    let sandboxed = sandbox::verify(path, Limits::new(), &mut |_| {}, report);
    let [one, other] = faults;
    [(native, one), (sandboxed, other)].map(|(verdict, faults)| match verdict {
        Ok(verdict) => Ok((verdict, faults)),
        Err(error) => Err(kind(&error)),
    })
}

#[test]
fn damage_is_found_as_the_native_host_finds_it() {
    let mut random = Random::new(99);
    let mut damaged = 0;
    for round in 0..60_u64 {
        let (_guard, path) = fresh();
        let format = FORMATS[usize::try_from(round % 2).unwrap()];
        let codec = Codec::ALL[usize::try_from(round / 2 % 3).unwrap()];
        drop(native(&path, format, codec, &records(round, 120)));
        let name =
            ["meta.zr", "0.zr", "dict.zr", "meta.zr"][usize::try_from(round / 6 % 4).unwrap()];
        let file = path.join(name);
        if !file.exists() {
            continue;
        }
        let used = Format::entry_offset(format, 120).min(fs::metadata(&file).unwrap().len());
        let at = random.below(used);
        let open = File::options().read(true).write(true).open(&file).unwrap();
        match round % 5 {
            0 => open.set_len(at).unwrap(),
            _ => {
                let byte = u8::try_from(random.below(256)).unwrap();
                open.write_all_at(&[byte], at).unwrap();
            }
        }
        let [native, sandboxed] = verdicts(&path);
        assert_eq!(sandboxed, native, "{format:?}, {codec}, {name} at {at}");
        damaged += usize::from(native.is_ok_and(|(verdict, _)| verdict.faults > 0));
        let read =
            |lengths: zrecord_host::Result<Vec<Vec<u8>>>| lengths.map_err(|error| kind(&error));
        let [one, other] = [
            read(Store::open(&path).and_then(|store| support::gather(&store, &[0, 119, 60]))),
            read(
                Sandbox::open(&path, Limits::new()).and_then(|store| gather(&store, &[0, 119, 60])),
            ),
        ];
        assert_eq!(one.is_ok(), other.is_ok(), "{one:?} natively, {other:?} in the sandbox");
        if one.is_ok() {
            assert_eq!(one, other);
        }
    }
    assert!(damaged > 20, "only {damaged} stores were damaged");
}

#[test]
fn what_is_no_file_is_refused() {
    for name in ["meta.zr", "0.zr", "dict.zr", "schema.msgpack"] {
        for kind_of_file in ["link", "folder"] {
            let (_guard, path) = fresh();
            copy_golden("dense_zstd_dict", &path);
            let file = path.join(name);
            let aside = path.with_file_name("aside");
            fs::rename(&file, &aside).unwrap();
            match kind_of_file {
                "link" => std::os::unix::fs::symlink(&aside, &file).unwrap(),
                _ => fs::create_dir(&file).unwrap(),
            }
            let read = |store: Sandbox| {
                store.schema()?;
                gather(&store, &(0..2048).collect::<Vec<u64>>())
            };
            let refused = Sandbox::open(&path, Limits::new()).and_then(read).unwrap_err();
            let text = kind(&refused);
            assert_eq!(text, format!("{name} InvalidInput"), "{kind_of_file}: {refused}");
        }
    }
}
