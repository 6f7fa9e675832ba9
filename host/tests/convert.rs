//! Rewriting stores in the other format.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;

use zrecord_host::core::Error;
use zrecord_host::{Codec, Dtype, Format, Kind, Schema, Store, convert};

mod support;
use support::{FORMATS, all, append, core_error, fresh, golden, golden_names, pack, writable};

fn parent_names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn golden_stores_go_there_and_back() {
    for name in golden_names() {
        let (_guard, extended) = fresh();
        let classic = extended.with_file_name("back.zr");
        let source = golden().join(&name);
        convert(&source, &extended, Format::Extended, &mut |_| {}).unwrap();
        convert(&extended, &classic, Format::Classic, &mut |_| {}).unwrap();
        let expected = Store::open(&source).unwrap();
        for (path, format) in [(&extended, Format::Extended), (&classic, Format::Classic)] {
            let store = Store::open(path).unwrap();
            assert_eq!(store.format(), format);
            assert_eq!(all(&store), all(&expected), "{name}");
            assert_eq!(store.verify(&mut |_| {}).unwrap(), [], "{name}");
            let codecs = |store: &Store| store.inspect().unwrap().codecs;
            assert_eq!(codecs(&store), codecs(&expected), "{name}");
            let layout = |store: &Store| {
                store.schema().map(|schema| {
                    (
                        schema.kind(),
                        schema.dtype().clone(),
                        schema.item_shape().to_vec(),
                        schema.codec(),
                    )
                })
            };
            assert_eq!(layout(&store), layout(&expected), "{name}");
            assert!(store.inspect().unwrap().clean);
        }
        assert_eq!(parent_names(&extended), ["back.zr", "store.zr"]);
    }
}

#[test]
fn frames_stay_as_they_are() {
    let (_guard, extended) = fresh();
    let source = golden().join("dense_zstd");
    convert(&source, &extended, Format::Extended, &mut |_| {}).unwrap();
    assert_eq!(fs::read(extended.join("0.zr")).unwrap(), fs::read(source.join("0.zr")).unwrap());
}

#[test]
fn what_the_target_cannot_hold_is_refused_by_its_first_record() {
    let refused = |fill: &dyn Fn(&Store), expected: &str| {
        let (_guard, path) = fresh();
        let store = writable(Format::Extended).level(1).open(&path).unwrap();
        fill(&store);
        store.close().unwrap();
        let target = path.with_file_name("classic.zr");
        let error = core_error(convert(&path, &target, Format::Classic, &mut |_| {}));
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(parent_names(&path), ["store.zr"]);
    };
    let appends =
        |records: Vec<Vec<u8>>| move |store: &Store| assert_eq!(append(store, &records), 0);
    refused(&appends(vec![vec![1], vec![], vec![]]), "record 1");
    refused(&appends(vec![vec![1], vec![2; (1 << 20) + 1]]), "record 1");
    refused(
        &|store| {
            let schema = Schema::new(
                Kind::Dense,
                Dtype::parse("bfloat16").unwrap(),
                vec![],
                Codec::Raw,
                vec![],
            );
            store.set_schema(&schema.unwrap()).unwrap();
        },
        "bfloat16",
    );
    refused(
        &|store| {
            for round in 0..2_usize {
                let samples: Vec<Vec<u8>> = (0..400_usize)
                    .map(|number| {
                        format!("round {round} of sample {number}: {}", number * 7).repeat(4).into()
                    })
                    .collect();
                let sizes: Vec<usize> = samples.iter().map(Vec::len).collect();
                store.train_dictionary(&pack(&samples).0, &sizes, 2_000).unwrap();
                let (src, offsets) = pack(&samples[..3]);
                store.append(&src, &offsets, Some(Codec::ZstdDict)).unwrap();
            }
        },
        "a second dictionary",
    );
}

#[test]
fn an_existing_destination_is_left_alone() {
    for format in FORMATS {
        let (_guard, path) = fresh();
        fs::create_dir(&path).unwrap();
        let error = core_error(convert(golden().join("dense_raw"), &path, format, &mut |_| {}));
        assert!(matches!(error, Error::AlreadyExists));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    }
}

#[test]
fn damage_in_the_source_leaves_nothing_behind() {
    let (_guard, path) = fresh();
    let store = writable(Format::Extended).open(&path).unwrap();
    append(&store, &[vec![1; 100], vec![2; 100]]);
    store.close().unwrap();
    let chunk = path.join("0.zr");
    let mut bytes = fs::read(&chunk).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&chunk, bytes).unwrap();
    let target = path.with_file_name("copy.zr");
    let error = core_error(convert(&path, &target, Format::Extended, &mut |_| {}));
    assert!(matches!(error, Error::Checksum { index: 1, .. }), "{error}");
    assert_eq!(parent_names(&path), ["store.zr"]);
}

#[test]
fn progress_ends_with_everything_done() {
    let (_guard, path) = fresh();
    let mut last = None;
    convert(golden().join("dense_raw"), &path, Format::Extended, &mut |progress| {
        last = Some(progress);
    })
    .unwrap();
    let last = last.unwrap();
    assert_eq!((last.done, last.total), (32_768, 32_768));
}
