//! Every file of a store cut, deleted, extended or replaced while the store is
//! open, in every way it can be read: an error, or the bytes that were stored.
//!
//! In the extended format whatever is wrong is revealed, unless checksums are
//! not compared; then, as in the classic format, by lengths and by zstd alone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(unix)]

use std::fs::{self, OpenOptions as FileOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zrecord_host::core::Error;
use zrecord_host::{Codec, Dtype, Format, Io, Kind, OpenOptions, Schema, Store, Verify};

mod support;
use support::{FORMATS, copy_golden, fresh, writable};

/// A test that loops ends well before, or has failed.
const DEADLINE: Duration = Duration::from_secs(120);

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Cut to so many thousandths of what is in use.
    Cut(u64),
    /// Cut by one byte.
    CutByOne,
    /// Extended by so many bytes.
    Extend(u64),
    Delete,
    /// By a directory of that name.
    ReplaceByDirectory,
    /// By a file of other bytes, as long as the one before.
    ReplaceByNoise,
    /// By the first half of itself, in a new file.
    ReplaceByHalf,
}

const CHANGES: [Change; 11] = [
    Change::Cut(0),
    Change::Cut(3),
    Change::Cut(500),
    Change::Cut(999),
    Change::CutByOne,
    Change::Extend(1),
    Change::Extend(10_000),
    Change::Delete,
    Change::ReplaceByDirectory,
    Change::ReplaceByNoise,
    Change::ReplaceByHalf,
];

impl Change {
    fn apply(self, path: &Path, used: u64) {
        let file = || FileOptions::new().write(true).open(path).unwrap();
        match self {
            Self::Cut(thousandths) => file().set_len(used * thousandths / 1_000).unwrap(),
            Self::CutByOne => file().set_len(used.saturating_sub(1)).unwrap(),
            Self::Extend(bytes) => {
                let size = fs::metadata(path).unwrap().len();
                file().set_len(size + bytes).unwrap();
            }
            Self::Delete => fs::remove_file(path).unwrap(),
            Self::ReplaceByDirectory => {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            }
            Self::ReplaceByNoise => {
                let mut random = support::Random::new(used);
                let noise: Vec<u8> = (0..used).map(|_| random.next().to_le_bytes()[2]).collect();
                replace(path, &noise);
            }
            Self::ReplaceByHalf => {
                let mut bytes = fs::read(path).unwrap();
                bytes.truncate(usize::try_from(used / 2).unwrap());
                replace(path, &bytes);
            }
        }
    }
}

fn replace(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("other");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, path).unwrap();
}

/// A store, what is in it, and how many bytes of its files are in use.
struct Sample {
    name: &'static str,
    format: Format,
    records: Vec<Vec<u8>>,
    schema: Option<Schema>,
    used: Vec<(String, u64)>,
}

impl Sample {
    /// Makes it at `path`.
    fn build(name: &'static str, format: Format, path: &Path) -> Self {
        match name {
            "golden" => copy_golden("dense_zstd_dict", path),
            _ => build(name, format, path),
        }
        let store = Store::open(path).unwrap();
        let (records, schema) = (support::all(&store), store.schema());
        let schema = schema.map(|schema| Schema::clone(&schema));
        let stats = store.stats().unwrap();
        assert_eq!(stats.chunks, 1, "the sizes below are those of one chunk");
        let mut used = Vec::new();
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let file = entry.file_name().into_string().unwrap();
            let size = match &*file {
                "meta.zr" => format.entry_offset(records.len() as u64),
                "0.zr" => stats.chunk_bytes,
                _ => entry.metadata().unwrap().len(),
            };
            used.push((file, size));
        }
        used.sort();
        Self { name, format, records, schema, used }
    }

    /// Whether a change of one file must be noticed by a handle that has not
    /// read from it, or may go unseen.
    fn is_revealed(&self, file: &str, change: Change, verify: Verify) -> bool {
        let of_bytes = change == Change::ReplaceByNoise && file == "0.zr";
        let has_checksums = self.format == Format::Extended;
        match file {
            "0.zr" if of_bytes => has_checksums && verify != Verify::Never,
            // A classic dictionary is known by its number alone.
            _ if file.starts_with("dict") => has_checksums,
            // That there is a schema is known from the file itself.
            "schema.msgpack" => has_checksums,
            _ => true,
        }
    }
}

fn build(name: &str, format: Format, path: &Path) {
    let store = writable(format).level(3).min_saving(0.0).open(path).unwrap();
    let dtype = Dtype::parse("|u1").unwrap();
    let schema = Schema::new(Kind::Ragged, dtype, Vec::new(), Codec::Zstd, Vec::new()).unwrap();
    store.set_schema(&schema).unwrap();
    let mut random = support::Random::new(3);
    let lengths = |at: u64| if name == "strided" { 3_000 } else { 2_500 + at * 37 };
    let mut records: Vec<Vec<u8>> = (0..12)
        .map(|at| {
            let len = lengths(at);
            (0..len).map(|_| (random.next() % 9 + at).to_le_bytes()[0]).collect()
        })
        .collect();
    if name == "dictionaries" {
        let samples: Vec<Vec<u8>> = (0..200_u8)
            .map(|at| {
                (0..300_u32).map(|byte| (byte / 7 + byte % 5).to_le_bytes()[0] ^ (at % 3)).collect()
            })
            .collect();
        let sizes: Vec<usize> = samples.iter().map(Vec::len).collect();
        store.train_dictionary(&samples.concat(), &sizes, 2_000).unwrap();
        records.truncate(2);
        records.extend(samples.into_iter().take(10));
    }
    let codecs = match name {
        "strided" => [Codec::Raw; 3],
        "dictionaries" => [Codec::ZstdDict; 3],
        _ => [Codec::Zstd, Codec::Raw, Codec::Zstd],
    };
    for (part, codec) in records.chunks(4).zip(codecs) {
        let (src, offsets) = support::pack(part);
        store.append(&src, &offsets, Some(codec)).unwrap();
    }
    store.close().unwrap();
}

/// What a reader may do with a store; each answer is right, or an error.
fn read_everything(store: &Store, sample: &Sample, about: &str) -> Vec<bool> {
    let count = sample.records.len() as u64;
    let mut refused = Vec::new();
    let mut note = |error: Option<zrecord_host::Error>| {
        if let Some(error) = &error {
            let text = error.to_string();
            assert!(matches!(error, zrecord_host::Error::Store { .. }), "{about}: {text}");
            assert!(!matches!(error.core(), Some(Error::OutOfRange { .. })), "{about}: {text}");
        }
        refused.push(error.is_some());
    };
    let gather = |indices: &[u64]| {
        let records =
            || indices.iter().map(|index| &sample.records[usize::try_from(*index).unwrap()]);
        let offsets: Vec<u64> = records()
            .scan(0, |end, record| {
                let start = *end;
                *end += record.len() as u64;
                Some(start)
            })
            .collect();
        let expected = records().cloned().collect::<Vec<_>>().concat();
        let mut dst = vec![0x5a; expected.len()];
        let gathered = store.gather(indices, &mut dst, &offsets);
        assert!(gathered.is_err() || dst == expected, "{about}: other bytes at {indices:?}");
        gathered.err()
    };
    // One by one, the last among them, which lies where a cut is felt first.
    for index in (0..count).rev().step_by(usize::try_from(count / 8).unwrap().max(1)) {
        note(gather(&[index]));
    }
    note(gather(&(0..count).rev().collect::<Vec<_>>()));
    let stride = sample.records[0].len();
    if sample.name == "strided" {
        let mut dst = vec![0x5a; stride * sample.records.len()];
        let indices: Vec<u64> = (0..count).collect();
        let gathered = store.gather_packed(&indices, &mut dst, stride as u64);
        let is_right = dst == sample.records.concat();
        assert!(gathered.is_err() || is_right, "{about}: other bytes when packed");
        note(gathered.err());
    }
    match store.lengths(&(0..count).collect::<Vec<_>>()) {
        Ok(lengths) => {
            let expected = sample.records.iter().map(Vec::len);
            assert!(lengths.into_iter().map(|len| len as usize).eq(expected), "{about}: lengths");
            note(None);
        }
        Err(error) => note(Some(error)),
    }
    match store.read_schema() {
        Ok(schema) => {
            // A classic store that lost its schema is an untyped one.
            let is_lost = schema.is_none() && sample.format == Format::Classic;
            assert!(is_lost || schema.as_deref() == sample.schema.as_ref(), "{about}: schema");
            note(None);
        }
        Err(error) => note(Some(error)),
    }
    match store.len() {
        Ok(len) => {
            assert_eq!(len, count, "{about}");
            note(None);
        }
        Err(error) => note(Some(error)),
    }
    if let Ok(view) = store.view(0, count) {
        let is_right = *view == sample.records.concat();
        assert!(is_right || view.is_damaged(), "{about}: the view shows other bytes");
    }
    refused
}

/// Tries all changes of all files; says how many it tried, and of those how
/// many the reader refused something after.
fn try_changes(name: &'static str, format: Format) -> [usize; 2] {
    let (mut tried, mut noticed) = (0, 0);
    let (_guard, original) = fresh();
    let sample = Sample::build(name, format, &original);
    for (file, used) in &sample.used {
        for change in CHANGES {
            for io in [Io::Map, Io::Pread] {
                for verify in [Verify::First, Verify::Always, Verify::Never] {
                    for is_warm in [true, false] {
                        if !is_warm && !sample.is_revealed(file, change, verify) {
                            continue;
                        }
                        let about = format!(
                            "{name}, {}, {file}, {change:?}, {io:?}, {verify:?}, warm: {is_warm}",
                            format.name()
                        );
                        let (_guard, path) = fresh();
                        copy(&original, &path, &sample.used);
                        let options = OpenOptions::new().io(io).verify(verify).threads(1);
                        let store = options.open(&path).unwrap();
                        if is_warm {
                            let refused = read_everything(&store, &sample, &about);
                            assert!(refused.iter().all(|refused| !refused), "{about}: intact");
                        }
                        change.apply(&path.join(file), *used);
                        let refused = read_everything(&store, &sample, &about);
                        tried += 1;
                        noticed += usize::from(refused.iter().any(|refused| *refused));
                        let cut_to_nothing = change == Change::Cut(0) && file == "0.zr";
                        assert!(!cut_to_nothing || refused.iter().any(|it| *it), "{about}");
                    }
                }
            }
        }
    }
    println!("{name}, {}: {tried} changes, {noticed} refused", format.name());
    [tried, noticed]
}

/// Copies what is in use, so that sparse files stay small.
fn copy(from: &Path, to: &Path, used: &[(String, u64)]) {
    fs::create_dir(to).unwrap();
    for (file, size) in used {
        let mut bytes = vec![0; usize::try_from(*size).unwrap()];
        let source = fs::File::open(from.join(file)).unwrap();
        source.read_exact_at(&mut bytes, 0).unwrap();
        fs::write(to.join(file), bytes).unwrap();
    }
}

#[test]
fn a_store_of_one_stride_gives_an_error_or_what_was_stored() {
    for format in FORMATS {
        let [tried, noticed] = try_changes("strided", format);
        assert!(noticed > 0 && noticed < tried);
    }
}

#[test]
fn a_store_of_mixed_codecs_gives_an_error_or_what_was_stored() {
    for format in FORMATS {
        let [tried, noticed] = try_changes("mixed", format);
        assert!(noticed > 0 && noticed < tried);
    }
}

#[test]
fn a_store_with_a_dictionary_gives_an_error_or_what_was_stored() {
    for format in FORMATS {
        let [tried, noticed] = try_changes("dictionaries", format);
        assert!(noticed > 0 && noticed < tried);
    }
}

/// Neither is mapped, and the hash of each is compared.
#[test]
fn small_files_that_are_cut_and_restored_in_a_loop_give_errors_or_what_was_stored() {
    let (_guard, path) = fresh();
    let sample = Sample::build("dictionaries", Format::Extended, &path);
    let started = Instant::now();
    let done = AtomicBool::new(false);
    let (mut refused, mut complete) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = support::Random::new(17);
            let files = ["dict.zr", "schema.msgpack"].map(|file| path.join(file));
            let bytes = files.clone().map(|file| fs::read(file).unwrap());
            while !done.load(Ordering::Relaxed) && started.elapsed() < DEADLINE {
                for (file, bytes) in files.iter().zip(&bytes) {
                    let file = FileOptions::new().write(true).open(file).unwrap();
                    file.set_len(random.below(bytes.len() as u64)).unwrap();
                    thread::sleep(Duration::from_micros(random.below(300)));
                    file.write_all_at(bytes, 0).unwrap();
                    thread::sleep(Duration::from_micros(random.below(3_000)));
                }
            }
        });
        while refused < 10 || complete < 10 {
            assert!(started.elapsed() < DEADLINE, "{refused} refused, {complete} complete");
            let store = Store::open(&path).unwrap();
            let answers = read_everything(&store, &sample, "cut in a loop");
            let any = answers.iter().any(|refused| *refused);
            refused += usize::from(any);
            complete += usize::from(!any);
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_loaderx_wrote_gives_an_error_or_what_was_stored() {
    let [tried, noticed] = try_changes("golden", Format::Classic);
    assert!(noticed > 0 && noticed < tried);
}
