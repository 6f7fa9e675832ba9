//! Steps of preprocessing: the examples on real stores, and one that does what
//! none should.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use zrecord_host::sandbox::SandboxError;
use zrecord_host::sandbox::step::{StepError, StepOptions, run_step};
use zrecord_host::{Codec, Dtype, Error, Format, Kind, OpenOptions, Schema, Store};

mod support;
use support::{FORMATS, Random, all, fresh, pack, writable};

/// As `cargo xtask component` builds them.
fn step(name: &str) -> PathBuf {
    let folder = std::env::var_os("ZRECORD_COMPONENTS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/component"),
        PathBuf::from,
    );
    folder.join("steps").join(format!("{name}.wasm"))
}

fn configured(config: &str) -> StepOptions {
    let mut options = StepOptions::default();
    options.config = config.into();
    options
}

fn make(path: &Path, format: Format, schema: Option<Schema>, records: &[Vec<u8>]) {
    let store = writable(format).codec(Codec::Zstd).open(path).unwrap();
    if let Some(schema) = schema {
        store.set_schema(&schema).unwrap();
    }
    for part in records.chunks(1_000) {
        let (src, offsets) = pack(part);
        store.append(&src, &offsets, None).unwrap();
    }
    store.close().unwrap();
}

fn schema(kind: Kind, dtype: &str, shape: &[u64]) -> Schema {
    Schema::new(kind, Dtype::parse(dtype).unwrap(), shape.to_vec(), Codec::Zstd, vec![]).unwrap()
}

/// Words, lines and paragraphs as tokens.
fn texts(count: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(7);
    let text = |_| {
        let tokens = random.below(3_000);
        let token = |_| if random.below(20) == 0 { 10 } else { 256 + narrow(random.below(900)) };
        (0..tokens).map(token).flat_map(u16::to_le_bytes).collect()
    };
    (0..count).map(text).collect()
}

fn narrow(number: u64) -> u16 {
    u16::try_from(number).unwrap()
}

fn tiles(count: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(8);
    (0..count)
        .map(|_| (0..8 * 6 * 3).map(|_| random.below(256).to_le_bytes()[0]).collect())
        .collect()
}

/// Every file of a folder, by its name.
fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    fs::read_dir(path).unwrap().map(|entry| read(entry.unwrap())).collect()
}

#[test]
fn tiles_are_downsampled_and_normalised() {
    let (_guard, from) = fresh();
    let to = from.with_extension("small");
    let records = tiles(3_000);
    make(&from, Format::Extended, Some(schema(Kind::Dense, "|u1", &[8, 6, 3])), &records);
    let options = configured(r#"{"factor": 2, "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}"#);
    let mut seen = Vec::new();
    let mut progress =
        |progress: zrecord_host::Progress| seen.push((progress.done, progress.total));
    let report = run_step(step("tiles"), &from, &to, &options, &mut progress).unwrap();
    assert_eq!((report.inputs, report.dropped, report.outputs), (3_000, 0, 3_000));
    assert_eq!((seen[0], *seen.last().unwrap()), ((0, 3_000), (3_000, 3_000)));
    let made = Store::open(&to).unwrap();
    let made_schema = made.schema().unwrap();
    assert_eq!(
        (made_schema.dtype().to_string(), made_schema.item_shape()),
        ("<f4".into(), &[4, 3, 3][..])
    );
    for (tile, row) in records.iter().zip(all(&made)) {
        assert_eq!(row, expected_row(tile));
    }
    assert_eq!(made.verify(&mut |_| {}).unwrap(), []);
}

/// The same by hand.
fn expected_row(tile: &[u8]) -> Vec<u8> {
    let mut row = Vec::new();
    for (y, x, channel) in positions() {
        let at = |y: usize, x: usize| f32::from(tile[(y * 6 + x) * 3 + channel]);
        let mean = (at(y, x) + at(y, x + 1) + at(y + 1, x) + at(y + 1, x + 1)) / 4.0;
        let (shift, std) = [(0.5, 0.2), (0.4, 0.3), (0.3, 0.4_f32)][channel];
        let value: f32 = mean * (1.0 / (255.0 * std)) + -shift / std;
        row.extend_from_slice(&value.to_le_bytes());
    }
    row
}

fn positions() -> impl Iterator<Item = (usize, usize, usize)> {
    let places = (0..8).step_by(2).flat_map(|y| (0..6).step_by(2).map(move |x| (y, x)));
    places.flat_map(|(y, x)| (0..3).map(move |channel| (y, x, channel)))
}

#[test]
fn texts_are_split_and_filtered() {
    let (_guard, from) = fresh();
    let to = from.with_extension("pieces");
    let records = texts(500);
    make(&from, Format::Extended, Some(schema(Kind::Ragged, "<u2", &[])), &records);
    let options = configured(r#"{"max_len": 100, "min_len": 5, "separator": 10}"#);
    let report = run_step(step("text"), &from, &to, &options, &mut |_| {}).unwrap();
    let expected: Vec<Vec<Vec<u8>>> = records.iter().map(|text| pieces(text)).collect();
    let dropped = expected.iter().filter(|pieces| pieces.is_empty()).count() as u64;
    let expected = expected.concat();
    assert!(dropped > 0 && expected.len() > records.len());
    assert_eq!((report.inputs, report.dropped), (500, dropped));
    assert_eq!(report.outputs, expected.len() as u64);
    assert_eq!(all(&Store::open(&to).unwrap()), expected);
}

/// The same by hand: behind the last separator that fits, or at the limit.
fn pieces(text: &[u8]) -> Vec<Vec<u8>> {
    let mut tokens: Vec<&[u8]> = text.chunks(2).collect();
    let mut pieces = Vec::new();
    while !tokens.is_empty() {
        let mut end = tokens.len();
        if end > 100 {
            end = (1..=100).rev().find(|end| tokens[end - 1] == [10, 0]).unwrap_or(100);
        }
        let piece: Vec<&[u8]> = tokens.drain(..end).collect();
        if piece.len() >= 5 {
            pieces.push(piece.concat());
        }
    }
    pieces
}

#[test]
fn the_output_is_the_same_bytes_with_any_number_of_instances() {
    for format in FORMATS {
        let (_guard, from) = fresh();
        // Classic stores have no empty records.
        let records: Vec<Vec<u8>> =
            texts(3_000).into_iter().filter(|text| !text.is_empty()).collect();
        make(&from, format, Some(schema(Kind::Ragged, "<u2", &[])), &records);
        let made: Vec<_> = [1, 2, 8]
            .map(|instances| {
                let to = from.with_extension(format!("{instances}"));
                let mut options = configured(r#"{"max_len": 64}"#);
                options.instances = Some(instances);
                run_step(step("text"), &from, &to, &options, &mut |_| {}).unwrap();
                files(&to)
            })
            .into();
        assert!(made[0] == made[1] && made[1] == made[2], "{format:?}");
        // Another configuration is another store.
        let to = from.with_extension("other");
        run_step(step("text"), &from, &to, &configured(r#"{"max_len": 65}"#), &mut |_| {}).unwrap();
        let id = |path: &Path| Store::open(path).unwrap().id();
        assert_ne!(id(&to), id(&from.with_extension("1")));
    }
}

/// The error of a run that must leave nothing.
fn failure(name: &str, config: &str, records: &[Vec<u8>], limits: fn(&mut StepOptions)) -> Error {
    let (_guard, from) = fresh();
    make(&from, Format::Extended, Some(schema(Kind::Dense, "|u1", &[8, 6, 3])), records);
    let to = from.with_extension("out");
    let mut options = configured(config);
    options.instances = Some(2);
    options.limits = options.limits.memory(MEMORY);
    limits(&mut options);
    let error = run_step(step(name), &from, &to, &options, &mut |_| {}).unwrap_err();
    let left: Vec<_> = fs::read_dir(from.parent().unwrap()).unwrap().map(|e| e.unwrap()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_is_a_line(&error.to_string());
    error
}

/// One line, not too long, with nothing in it that a terminal would obey.
fn assert_is_a_line(text: &str) {
    assert!(text.len() < 2_000, "{} bytes", text.len());
    assert!(!text.chars().any(|letter| letter.is_control() || letter == '\u{202e}'), "{text:?}");
}

/// What a step that never ends is given.
const LOOP_TIME: Duration = Duration::from_millis(300);
/// The memory of every step that misbehaves.
const MEMORY: u64 = 256 << 20;

fn misbehaviour(config: &str) -> StepError {
    // Only those that never end are to be stopped for it.
    let limits: fn(&mut StepOptions) = match config.starts_with("loop") {
        true => |options| options.limits = options.limits.time(LOOP_TIME),
        false => |_| {},
    };
    let error = failure("misbehaving", config, &tiles(9_000), limits);
    match error {
        Error::Step { path, source } => {
            assert_eq!(path, step("misbehaving"));
            source
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_that_do_not_add_up_name_the_batch() {
    for (config, says) in [
        ("too few", "outputs for"),
        ("too many", "outputs for"),
        ("an end too far", "the last output ends at"),
        ("an end past all counting", "the last output ends at 18446744073709551615"),
        ("ends that fall", "the one before at"),
        ("bytes behind the last", "the last output ends at"),
        ("counts too few", "counts for"),
        ("counts too large", "counts add up to"),
        ("a short record", "not what it has declared"),
        ("fail", "out of luck"),
        ("blame a record that is not there", "that is not there: it is odd"),
    ] {
        match misbehaviour(config) {
            StepError::Batch { first, last, reason } => {
                assert!(first == 0 && last > 0 && last < 8_999, "{config}: {first} to {last}");
                assert!(reason.contains(says), "{config}: {reason}");
            }
            other => panic!("{config}: {other}"),
        }
    }
}

#[test]
fn a_record_that_a_step_blames_is_named_by_its_index() {
    let expected = StepError::Record { index: 3, reason: "it is odd".into() };
    assert_eq!(misbehaviour("blame record 3"), expected);
}

#[test]
fn limits_that_a_step_meets_are_named() {
    let source = |config: &str| match misbehaviour(config) {
        StepError::Sandbox { source, .. } | StepError::Setup(source) => source,
        other => panic!("{config}: {other}"),
    };
    let time = SandboxError::Time { limit: LOOP_TIME };
    assert_eq!(source("loop"), time);
    assert_eq!(source("loop at once"), time);
    assert_eq!(source("take all memory"), SandboxError::Memory { limit: MEMORY });
    assert_eq!(source("ask for 4 GiB"), SandboxError::Memory { limit: MEMORY });
    assert!(matches!(source("panic"), SandboxError::Component { .. }));
    let SandboxError::Component { reason } = source("recurse") else { panic!("not the stack") };
    assert!(reason.contains("stack"), "{reason}");
    for what in ["bytes", "ends", "counts", "words"] {
        let error = source(&format!("more {what} than a call may have"));
        assert_eq!(error, SandboxError::CallBytes { limit: 64 << 20 }, "{what}");
    }
}

#[test]
fn what_a_step_says_is_made_fit_for_a_line() {
    let text = |config| misbehaviour(config).to_string();
    assert!(
        text("refuse in ugly words").starts_with(r"the step refuses to begin: out of\r\nluck \u")
    );
    assert!(text("fail in ugly words").ends_with("..."));
    assert!(text("blame record 3 in ugly words").starts_with(r"record 3: out of\r\nluck \u"));
}

#[test]
fn a_record_that_the_format_does_not_hold_is_refused() {
    let (guard, from) = fresh();
    make(&from, Format::Extended, Some(schema(Kind::Ragged, "|u1", &[])), &[vec![1; 10]]);
    let to = from.with_extension("out");
    let mut options = configured("a record of 2 MiB");
    options.format = Some(Format::Classic);
    let error = run_step(step("misbehaving"), &from, &to, &options, &mut |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("2097162 bytes; the limit is 1048576"), "{text}");
    assert!(text.contains("store.out"), "{text}");
    assert_is_a_line(&text);
    assert_eq!(fs::read_dir(guard.path()).unwrap().count(), 1, "nothing is left");
    options.format = Some(Format::Extended);
    run_step(step("misbehaving"), &from, &to, &options, &mut |_| {}).unwrap();
    assert_eq!(Store::open(&to).unwrap().lengths(&[0]).unwrap(), [(2 << 20) + 10]);
}

#[test]
fn a_step_may_refuse_to_begin() {
    let refused = |config| match misbehaviour(config) {
        StepError::Refused { reason } => reason,
        other => panic!("{config}: {other}"),
    };
    assert_eq!(refused("refuse"), "not today");
    assert_eq!(refused("refuse without a word"), "it does not say why");
    assert!(refused("an impossible dtype").contains("its output"));
    assert!(refused("an impossible shape").contains("its output"));
    let error = failure("tiles", r#"{"factor": 5}"#, &tiles(1), |_| {});
    assert!(error.to_string().contains("factor 5 does not divide 8 and 6"), "{error}");
    let error = failure("tiles", "{", &tiles(1), |_| {});
    assert!(error.to_string().contains("the configuration"), "{error}");
    let error = failure("text", "", &tiles(1), |_| {});
    assert!(error.to_string().contains("text is ragged"), "{error}");
}

#[test]
fn an_empty_store_and_one_of_which_nothing_is_left_make_empty_stores() {
    for (config, records) in [("", vec![]), ("drop all", tiles(5_000))] {
        let (_guard, from) = fresh();
        make(&from, Format::Extended, Some(schema(Kind::Dense, "|u1", &[8, 6, 3])), &records);
        let to = from.with_extension("out");
        let count = records.len() as u64;
        let report =
            run_step(step("misbehaving"), &from, &to, &configured(config), &mut |_| {}).unwrap();
        assert_eq!((report.inputs, report.dropped, report.outputs), (count, count, 0));
        assert_eq!(Store::open(&to).unwrap().len().unwrap(), 0);
    }
}

#[test]
fn untyped_stores_and_records_of_any_length_go_through() {
    let (_guard, from) = fresh();
    let records = vec![vec![1; 3 << 20], vec![], vec![2], vec![3; 2 << 20], vec![4; 10]];
    make(&from, Format::Extended, None, &records);
    let to = from.with_extension("out");
    let report = run_step(step("misbehaving"), &from, &to, &configured(""), &mut |_| {}).unwrap();
    assert_eq!((report.inputs, report.dropped, report.outputs), (5, 0, 5));
    let made = Store::open(&to).unwrap();
    assert_eq!((all(&made), made.schema().is_none()), (records, true));
}

#[test]
fn what_is_no_step_is_refused_in_a_line() {
    let (guard, from) = fresh();
    make(&from, Format::Extended, None, &[vec![1]]);
    let to = from.with_extension("out");
    let refused = |name: &str, bytes: &[u8]| {
        let path = guard.path().join(name);
        fs::write(&path, bytes).unwrap();
        let error = run_step(&path, &from, &to, &StepOptions::default(), &mut |_| {}).unwrap_err();
        assert!(!to.exists());
        let text = error.to_string();
        assert!(text.contains(name), "{text}");
        assert_is_a_line(&text);
        match error {
            Error::Step { source, .. } => source,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(refused("a", b""), StepError::Invalid { .. }));
    assert!(matches!(refused("b", b"#!/bin/sh"), StepError::Invalid { .. }));
    assert!(matches!(refused("c", b"\0asm\x01\0\0\0\xff"), StepError::Invalid { .. }));
    assert!(matches!(refused("d", b"\0asm\x0d\0\x01\0\xff"), StepError::Invalid { .. }));
    // A module without the metadata that bindings leave in it.
    assert!(matches!(refused("no metadata", b"\0asm\x01\0\0\0"), StepError::World { .. }));
    // A step, and a component, that were cut.
    for whole in [step("text"), step("x").with_file_name("../reader.wasm")] {
        let whole = fs::read(whole).unwrap();
        for part in [9, 100, whole.len() / 2, whole.len() - 1] {
            let error = refused("cut", &whole[..part]);
            assert!(matches!(error, StepError::Invalid { .. }), "cut to {part}: {error:?}");
        }
    }
    // An empty module, and an empty component, export nothing.
    assert!(matches!(refused("e", b"\0asm\x0d\0\x01\0"), StepError::World { .. }));
    let reader = fs::read(step("x").with_file_name("../reader.wasm")).unwrap();
    let StepError::Imports { names } = refused("reader", &reader) else { panic!() };
    assert_eq!(names, ["zrecord:store/files@0.1.0"]);
    let wasi =
        b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02\x1d\x01\x16wasi_snapshot_preview1\x02fd\0\0";
    let StepError::Imports { names } = refused("wasi", wasi) else { panic!() };
    assert_eq!(names, ["wasi_snapshot_preview1"]);
    let error = run_step("/nowhere.wasm", &from, &to, &StepOptions::default(), &mut |_| {});
    assert!(matches!(error, Err(Error::Step { source: StepError::File { .. }, .. })));
}

#[test]
fn the_output_must_be_new_and_outside_of_the_input() {
    let (_guard, from) = fresh();
    make(&from, Format::Extended, None, &[vec![1]]);
    for to in [from.clone(), from.join("inside")] {
        let error = run_step(step("misbehaving"), &from, &to, &configured(""), &mut |_| {});
        assert!(error.is_err());
    }
    assert_eq!(all(&OpenOptions::new().open(&from).unwrap()), [vec![1]]);
}

/// Whatever the step is doing, and long before its limit on time.
#[test]
fn a_run_that_is_stopped_ends_and_leaves_nothing() {
    let (guard, from) = fresh();
    for (format, config) in [
        (Format::Extended, "loop"),
        (Format::Extended, "loop at once"),
        (Format::Extended, ""),
        (Format::Classic, ""),
    ] {
        let input = from.with_extension(format.name());
        if !input.exists() {
            make(&input, format, None, &tiles(20_000));
        }
        let to = from.with_extension("out");
        let mut options = configured(config);
        options.limits = options.limits.time(Duration::from_secs(3600));
        options.instances = Some(2);
        let stop = Arc::clone(&options.stop);
        let begun = Instant::now();
        let watch = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
        });
        // One that has nothing to wait for is held up until then.
        let mut slow = |_| thread::sleep(Duration::from_millis(100));
        let error = run_step(step("misbehaving"), &input, &to, &options, &mut slow);
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Step { source: StepError::Stopped, .. }), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(60));
        watch.join().unwrap();
        assert!(!to.exists());
    }
    assert_eq!(fs::read_dir(guard.path()).unwrap().count(), 2, "the inputs alone");
}
