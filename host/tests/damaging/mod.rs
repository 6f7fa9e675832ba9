//! Stores to be damaged, and what a damaged one does to its readers.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zrecord_host::{Codec, Dtype, Fault, Format, Io, Kind, OpenOptions, Schema, Store, Verify};

use crate::support::{Random, fresh, pack, writable};

/// A store, and what must be read from it.
pub struct Subject {
    pub guard: TempDir,
    pub path: PathBuf,
    pub records: Vec<Vec<u8>>,
    pub schema: Schema,
    /// Its writer closed it, so that recovery has nothing to cut off.
    pub is_closed: bool,
}

/// How a store is made.
#[derive(Clone, Copy)]
pub struct Recipe {
    pub format: Format,
    pub seed: u64,
    pub records: u64,
    pub len_max: u64,
    pub chunk_size: u64,
    /// How many records are deleted again, which leaves dead bytes.
    pub deleted: u64,
}

impl Recipe {
    pub fn small(format: Format, seed: u64) -> Self {
        Self { format, seed, records: 14, len_max: 90, chunk_size: 250, deleted: 2 }
    }

    /// A typed store of raw, compressed and dictionary records, in several
    /// chunks and several commits.
    pub fn make(self) -> Subject {
        let (guard, path) = fresh();
        let schema = ragged();
        let options = writable(self.format).lock(false).level(1).chunk_size_max(self.chunk_size);
        let store = options.min_saving(0.0).open(&path).unwrap();
        store.set_schema(&schema).unwrap();
        let mut random = Random::new(self.seed);
        let samples: Vec<u8> = (0..200_u64).flat_map(|_| random.record(40)).collect();
        store.train_dictionary(&samples, &[40; 200], 300).unwrap();
        let mut records = mixed(&mut random, self.records, self.len_max);
        if self.format == Format::Extended {
            records[1].clear();
        }
        let third = records.len().div_ceil(3);
        for (part, codec) in records.chunks(third).zip(Codec::ALL) {
            let (src, offsets) = pack(part);
            store.append(&src, &offsets, Some(codec)).unwrap();
        }
        let doomed: Vec<u64> = (0..self.deleted).map(|number| 2 + 3 * number).collect();
        store.delete(&doomed).unwrap();
        crate::support::delete(&mut records, &doomed);
        store.close().unwrap();
        Subject { guard, path, records, schema, is_closed: true }
    }
}

fn mixed(random: &mut Random, count: u64, len_max: u64) -> Vec<Vec<u8>> {
    let mut record = || {
        let len = random.below(len_max) + 1;
        random.record(usize::try_from(len).unwrap())
    };
    (0..count).map(|_| record()).collect()
}

pub fn ragged() -> Schema {
    let dtype = Dtype::parse("|u1").unwrap();
    Schema::new(Kind::Ragged, dtype, vec![], Codec::Zstd, vec![]).unwrap()
}

/// A raw store whose records lie where arithmetic says, and beside it the
/// leftover of a chunk that reading must never take for the first.
pub fn strided(count: u64, len: usize) -> Subject {
    let (guard, path) = fresh();
    let dtype = Dtype::parse("|u1").unwrap();
    let schema = Schema::new(Kind::Dense, dtype, vec![len as u64], Codec::Raw, vec![]).unwrap();
    let store = writable(Format::Extended).lock(false).open(&path).unwrap();
    store.set_schema(&schema).unwrap();
    let mut random = Random::new(count);
    let records: Vec<Vec<u8>> =
        (0..count).map(|_| (0..len).map(|_| random.next().to_le_bytes()[2]).collect()).collect();
    let (src, offsets) = pack(&records);
    store.append(&src, &offsets, None).unwrap();
    store.close().unwrap();
    let leftover: Vec<u8> = src.iter().map(|byte| !byte).collect();
    fs::write(path.join("1.zr"), leftover).unwrap();
    Subject { guard, path, records, schema, is_closed: true }
}

/// A store whose writer died between two syncs.
pub fn unclean(count: u64) -> Subject {
    let (guard, path) = fresh();
    let store = writable(Format::Extended).lock(false).level(1).open(&path).unwrap();
    let schema = ragged();
    store.set_schema(&schema).unwrap();
    let mut random = Random::new(count);
    let records = mixed(&mut random, count, 1_500);
    let part = records.len().div_ceil(4);
    for (number, part) in records.chunks(part).enumerate() {
        let (src, offsets) = pack(part);
        store.append(&src, &offsets, None).unwrap();
        if number == 1 {
            store.sync().unwrap();
        }
    }
    std::mem::forget(store);
    Subject { guard, path, records, schema, is_closed: false }
}

impl Subject {
    /// The names of its files, but for the lock's.
    pub fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != "lock.zr").collect();
        names.sort();
        names
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn open(&self, verify: Verify, io: Io) -> zrecord_host::Result<Store> {
        OpenOptions::new().lock(false).threads(1).verify(verify).io(io).open(&self.path)
    }

    /// By the open store on one thread, or else by its path: both look the
    /// same way.
    pub fn faults(&self) -> Vec<Fault> {
        match self.open(Verify::First, Io::Map) {
            Ok(store) if self.records.len() > 256 => store.verify(&mut |_| {}).unwrap(),
            _ => faults(&self.path),
        }
    }

    /// Whether recovery leaves fewer records than there were.
    pub fn is_cut_by_recovery(&self) -> bool {
        let length = self.open(Verify::First, Io::Map).and_then(|store| store.len());
        !self.is_closed && length.is_ok_and(|length| length < self.records.len() as u64)
    }

    /// What reading everything comes to.
    pub fn read(&self, verify: Verify, io: Io) -> Reading {
        let mut reading = Reading::default();
        let Ok(store) = self.open(verify, io) else { return Reading { errors: 1, wrong: 0 } };
        reading.errors += u64::from(!matches!(store.read_schema(),
            Ok(Some(schema)) if *schema == self.schema));
        let length = store.len().unwrap();
        let expected = self.records.len() as u64;
        reading.errors += u64::from(length != expected);
        // What was read once may be read another way.
        for _ in 0..2 {
            reading.bisect(&store, &self.records, 0, length.min(expected));
        }
        reading
    }
}

/// Errors and wrong answers while everything was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub errors: u64,
    /// Records that came back with other bytes, and no error.
    pub wrong: u64,
}

impl Reading {
    /// Reads a range at once, or what of it can be read.
    fn bisect(&mut self, store: &Store, records: &[Vec<u8>], first: u64, end: u64) {
        if first == end {
            return;
        }
        match gather(store, first, end) {
            Some(bytes) => {
                let mut rest = bytes.as_slice();
                for (index, len) in (first..).zip(store.lengths(&range(first, end)).unwrap()) {
                    let (record, behind) = rest.split_at(len as usize);
                    rest = behind;
                    let expected = &records[usize::try_from(index).unwrap()];
                    self.wrong += u64::from(record != expected.as_slice());
                }
            }
            None if end - first == 1 => self.errors += 1,
            None => {
                let middle = first.midpoint(end);
                self.bisect(store, records, first, middle);
                self.bisect(store, records, middle, end);
            }
        }
    }
}

fn range(first: u64, end: u64) -> Vec<u64> {
    (first..end).collect()
}

/// Records one behind the other; through the path of equal records where they
/// are.
fn gather(store: &Store, first: u64, end: u64) -> Option<Vec<u8>> {
    let indices = range(first, end);
    let lengths = store.lengths(&indices).ok()?;
    let total: u64 = lengths.iter().map(|len| u64::from(*len)).sum();
    // An entry may claim anything; what is read is small.
    if total > 64 << 20 {
        return None;
    }
    let mut dst = vec![0; usize::try_from(total).unwrap()];
    if lengths.iter().all(|len| *len == lengths[0]) {
        store.gather_packed(&indices, &mut dst, lengths[0].into()).ok()?;
    } else {
        let mut offsets = Vec::new();
        let mut end = 0;
        for len in lengths {
            offsets.push(end);
            end += u64::from(len);
        }
        store.gather(&indices, &mut dst, &offsets).ok()?;
    }
    Some(dst)
}

/// All that `verify` reports, also of a store that cannot be opened.
pub fn faults(path: &Path) -> Vec<Fault> {
    let mut faults = Vec::new();
    zrecord_host::verify(path, &mut |_| {}, &mut |fault| faults.push(fault)).unwrap();
    faults
}

/// Which bytes of an extended store mean something, by `FORMAT.md` and by
/// nothing that the store's own code says.
pub fn used_bytes(path: &Path) -> BTreeMap<String, Vec<bool>> {
    let mut used: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let size = usize::try_from(entry.metadata().unwrap().len()).unwrap();
        used.insert(entry.file_name().into_string().unwrap(), vec![false; size]);
    }
    let meta = fs::read(path.join("meta.zr")).unwrap();
    let u32_at = |at: usize| u32::from_le_bytes(meta[at..at + 4].try_into().unwrap()) as usize;
    let u64_at = |at: usize| u64::from_le_bytes(meta[at..at + 8].try_into().unwrap());
    let newest = [4096, 8192].into_iter().max_by_key(|slot| u64_at(*slot)).unwrap();
    let length = usize::try_from(u64_at(newest + 8)).unwrap();
    let dictionaries = u32_at(newest + 84);
    let mut mark = |name: &str, start: usize, end: usize| {
        used.get_mut(name).unwrap()[start..end].fill(true);
    };
    mark("meta.zr", 0, 40);
    mark("meta.zr", 2048, 2048 + 8 * dictionaries);
    mark("meta.zr", 4096, 4096 + 96);
    mark("meta.zr", 8192, 8192 + 96);
    for index in 0..length {
        let entry = 12288 + 24 * index;
        let (offset, stored_len) = (u32_at(entry), u32_at(entry + 4));
        mark("meta.zr", entry + 4, entry + 16);
        mark("meta.zr", entry + 20, entry + 24);
        // An empty record lies nowhere, whatever its entry says.
        if stored_len > 0 {
            mark("meta.zr", entry, entry + 4);
            mark("meta.zr", entry + 16, entry + 20);
            mark(&format!("{}.zr", u32_at(entry + 16)), offset, offset + stored_len);
        }
    }
    for name in ["schema.msgpack", "dict.zr"] {
        if let Some(bytes) = used.get_mut(name) {
            bytes.fill(true);
        }
    }
    used
}
