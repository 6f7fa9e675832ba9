//! What the tests of the sandbox share.
#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::panic_in_result_fn, reason = "a test that cannot go on has failed")]

use std::path::Path;

use zrecord_host::core::Error;
use zrecord_host::sandbox::{Limits, Sandbox, SandboxError};
use zrecord_host::{Codec, Format, Store};

use crate::support::{Random, pack, writable};

pub fn open(path: &Path) -> Sandbox {
    Sandbox::open(path, Limits::new()).unwrap()
}

/// Gathers records with gaps between them, and checks that the gaps stay.
pub fn gather(store: &Sandbox, indices: &[u64]) -> zrecord_host::Result<Vec<Vec<u8>>> {
    const GAP: usize = 3;
    let lengths: Vec<usize> = store.lengths(indices)?.into_iter().map(|len| len as usize).collect();
    let mut places = Vec::new();
    let mut end = GAP;
    for len in &lengths {
        places.push(end..end + len);
        end += len + GAP;
    }
    let mut dst = vec![0xa5; end];
    let offsets: Vec<u64> = places.iter().map(|place| place.start as u64).collect();
    store.gather(indices, &mut dst, &offsets)?;
    let records = places.iter().map(|place| dst[place.clone()].to_vec()).collect();
    places.into_iter().for_each(|place| dst[place].fill(0xa5));
    assert!(dst.iter().all(|byte| *byte == 0xa5), "a gap was written");
    Ok(records)
}

pub fn all(store: &Sandbox) -> Vec<Vec<u8>> {
    let indices: Vec<u64> = (0..store.len().unwrap()).collect();
    gather(store, &indices).unwrap()
}

pub fn append(store: &Sandbox, records: &[Vec<u8>], codec: Codec) -> u64 {
    let (src, offsets) = pack(records);
    store.append(&src, &offsets, Some(codec)).unwrap()
}

/// Records of many lengths, none of them empty, as classic stores want them.
pub fn records(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    (0..count)
        .map(|_| {
            let len = 1 + usize::try_from(random.below(5000)).unwrap();
            random.record(len)
        })
        .collect()
}

/// A store that the native host has written in one codec.
pub fn native(path: &Path, format: Format, codec: Codec, records: &[Vec<u8>]) -> Store {
    let store = writable(format).open(path).unwrap();
    if codec == Codec::ZstdDict {
        let (samples, sizes) = (records.concat(), records.iter().map(Vec::len).collect::<Vec<_>>());
        store.train_dictionary(&samples, &sizes, 4096).unwrap();
    }
    let (src, offsets) = pack(records);
    store.append(&src, &offsets, Some(codec)).unwrap();
    store.sync().unwrap();
    store
}

/// What ended a sandbox, or a call in it.
pub fn sandbox_error<T>(result: zrecord_host::Result<T>) -> SandboxError {
    match result.err().expect("it must fail") {
        zrecord_host::Error::Sandbox { source, .. } => source,
        other => panic!("not an error of the sandbox: {other}"),
    }
}

/// An error without what only one of the two hosts can say of it.
pub fn kind(error: &zrecord_host::Error) -> String {
    match error.core() {
        Some(Error::Io { file, source }) => format!("{file} {:?}", source.kind()),
        _ => error.to_string(),
    }
}
