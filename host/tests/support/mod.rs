//! What the tests of the host share.
#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::panic_in_result_fn, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zrecord_host::core::codec::libzstd::Libzstd;
use zrecord_host::core::store::Store as Sequential;
use zrecord_host::directory::FsDirectory;
use zrecord_host::{Format, Mode, OpenOptions, Store};

pub const FORMATS: [Format; 2] = [Format::Classic, Format::Extended];

/// A path in a directory that goes away with the guard.
pub fn fresh() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.zr");
    (directory, path)
}

pub fn writable(format: Format) -> OpenOptions {
    OpenOptions::new().mode(Mode::Append).format(format)
}

/// A small generator, so that failures can be repeated.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Noise, or text-like bytes that compress well.
    pub fn record(&mut self, len: usize) -> Vec<u8> {
        let smooth = self.below(2) == 0;
        (0..len)
            .map(|position| {
                let byte = if smooth { position as u64 / 7 % 23 } else { self.next() >> 11 };
                u8::try_from(byte & 0xff).unwrap()
            })
            .collect()
    }
}

/// Records one behind the other, and where each begins.
pub fn pack(records: &[Vec<u8>]) -> (Vec<u8>, Vec<u64>) {
    let mut offsets = Vec::new();
    let mut src = Vec::new();
    for record in records {
        offsets.push(src.len() as u64);
        src.extend_from_slice(record);
    }
    (src, offsets)
}

pub fn append(store: &Store, records: &[Vec<u8>]) -> u64 {
    let (src, offsets) = pack(records);
    store.append(&src, &offsets, None).unwrap()
}

/// Gathers records with gaps between them, and checks that the gaps stay.
pub fn gather(store: &Store, indices: &[u64]) -> zrecord_host::Result<Vec<Vec<u8>>> {
    const GAP: usize = 3;
    let lengths: Vec<usize> = store.lengths(indices)?.into_iter().map(|len| len as usize).collect();
    let mut offsets = Vec::new();
    let mut end = GAP;
    for len in &lengths {
        offsets.push(end as u64);
        end += len + GAP;
    }
    let mut dst = vec![0xa5; end];
    store.gather(indices, &mut dst, &offsets)?;
    let mut records = Vec::new();
    let mut position = 0;
    for (offset, len) in offsets.iter().zip(lengths) {
        let start = usize::try_from(*offset).unwrap();
        assert!(dst[position..start].iter().all(|byte| *byte == 0xa5), "a gap was written");
        records.push(dst[start..start + len].to_vec());
        position = start + len;
    }
    assert!(dst[position..].iter().all(|byte| *byte == 0xa5), "a gap was written");
    Ok(records)
}

pub fn all(store: &Store) -> Vec<Vec<u8>> {
    let indices: Vec<u64> = (0..store.len().unwrap()).collect();
    gather(store, &indices).unwrap()
}

/// Everything in the store, as the sequential core reads it.
pub fn sequential(path: &Path) -> Vec<Vec<u8>> {
    let mut store = Sequential::<_, Libzstd>::open(FsDirectory::new(path), false).unwrap();
    let indices: Vec<u64> = (0..store.len()).collect();
    let batch = store.gather(&indices, u64::MAX).unwrap();
    batch.iter().map(<[u8]>::to_vec).collect()
}

/// What loaderx does with a delete.
pub fn delete(model: &mut Vec<Vec<u8>>, indices: &[u64]) {
    let mut holes = indices.to_vec();
    holes.sort_unstable();
    holes.dedup();
    for hole in holes.into_iter().rev() {
        model.swap_remove(usize::try_from(hole).unwrap());
    }
}

pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/loaderx-0.9.4")
}

/// A copy of a golden store that may be changed.
pub fn copy_golden(name: &str, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(golden().join(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

pub fn golden_names() -> Vec<String> {
    let entries = fs::read_dir(golden()).unwrap().map(Result::unwrap);
    let directories = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    let mut names: Vec<String> =
        directories.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The core's error behind a failure.
pub fn core_error<T>(result: zrecord_host::Result<T>) -> zrecord_host::core::Error {
    match result.err().expect("it must fail") {
        zrecord_host::Error::Store { source, .. } => source,
        other => panic!("not an error of the store: {other}"),
    }
}
