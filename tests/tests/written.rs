//! What the component writes, loaderx 0.9.4 reads: the same records, the same
//! types, and it goes on with the store. It needs a Python that has loaderx,
//! named by `ZRECORD_LOADERX_PYTHON`; `cargo xtask test` has one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::dtype::Dtype;
use zrecord_core::schema::{Kind, Schema};
use zrecord_core::store::Store as Sequential;
use zrecord_host::directory::FsDirectory;
use zrecord_host::{Codec, Format, Limits, Sandbox, sandbox};
use zrecord_tests::fuzz::{bases, observe};

/// Reads a store by loaderx: its records go into a file, the rest is printed.
/// Where it is asked to, it appends one.
const PEER: &str = r#"
import json, sys
import numpy as np
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.zrecord import Zrecord
args = json.loads(sys.argv[1])
said = {}
if args["kind"]:
    ds = (DenseDataset if args["kind"] == "dense" else RaggedDataset)(args["path"])
    rows = [np.asarray(ds[i]).tobytes() for i in range(len(ds))]
    said["typed"] = [ds.dtype.str, list(ds.item_shape), ds.codec, b"".join(rows).hex()]
    if hasattr(ds, "close"):
        ds.close()
with Zrecord(args["path"]) as z:
    n = len(z)
    lengths = np.asarray(z.lengths(np.arange(n, dtype=np.uint64))) if n else np.zeros(0, np.uint32)
    ends = np.cumsum(lengths.astype(np.uint64)).astype(np.uint64)
    out = np.zeros(int(ends[-1]) if n else 0, np.uint8)
    if n:
        z.gather(np.arange(n, dtype=np.uint64), out, ends - lengths.astype(np.uint64))
    open(args["out"], "wb").write(out.tobytes())
    said["lengths"] = lengths.tolist()
    if args["append"]:
        z.append(np.frombuffer(b"by loaderx", np.uint8), np.zeros(1, np.uint64))
print(json.dumps(said))
"#;

/// A folder for stores, and the Python that reads them.
struct Peer {
    _guard: tempfile::TempDir,
    folder: PathBuf,
    python: PathBuf,
}

impl Peer {
    fn new() -> Self {
        let python = std::env::var_os("ZRECORD_LOADERX_PYTHON");
        let python = python.expect("ZRECORD_LOADERX_PYTHON names no Python that has loaderx");
        let (guard, folder) = observe::folder();
        Self { _guard: guard, folder, python: python.into() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn ask(&self, path: &Path, kind: Option<&str>, append: bool) -> (Value, Vec<u8>) {
        let out = self.folder.join("out");
        let args = json!({"path": path, "kind": kind, "out": out, "append": append});
        let done = Command::new(&self.python).args(["-c", PEER, &args.to_string()]).output();
        let done = done.unwrap();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}: {errors}", path.display());
        (serde_json::from_slice(&done.stdout).unwrap(), std::fs::read(out).unwrap())
    }

    /// Demands that loaderx finds these records, and that what it appends is
    /// read by the component.
    fn assert_reads(&self, path: &Path, records: &[Vec<u8>]) {
        let lengths: Vec<usize> = records.iter().map(Vec::len).collect();
        let (said, bytes) = self.ask(path, None, true);
        assert_eq!(said["lengths"], json!(lengths), "{}", path.display());
        assert!(bytes == records.concat(), "{}: other bytes", path.display());
        let store = Sandbox::open(path, Limits::new()).unwrap();
        let length = records.len() as u64;
        assert_eq!(store.len().unwrap(), length + 1);
        assert_eq!(store.read_prefix(length, 100).unwrap(), b"by loaderx");
        assert_eq!(store.verify(&mut |_| {}).unwrap(), []);
    }
}

/// Words, noise, single bytes: none of them empty.
fn records(seed: u64) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..200_usize)
        .map(|number| match number % 3 {
            0 => (0..=random.usize(..900)).map(|_| random.u8(..)).collect(),
            1 => format!("record {number} of words, ").repeat(1 + number % 40).into_bytes(),
            _ => vec![random.u8(..); 1 + random.usize(..3_000)],
        })
        .collect()
}

fn append(store: &Sandbox, records: &[Vec<u8>], codec: Codec) {
    let ends = records.iter().scan(0, |end, record| {
        let start = *end;
        *end += record.len() as u64;
        Some(start)
    });
    store.append(&records.concat(), &ends.collect::<Vec<u64>>(), Some(codec)).unwrap();
}

/// Everything, as the core reads it natively.
fn natively(path: &Path) -> Vec<Vec<u8>> {
    let mut store = Sequential::<_, Libzstd>::open(FsDirectory::new(path), true).unwrap();
    let indices: Vec<u64> = (0..store.len()).collect();
    store.gather(&indices, u64::MAX).unwrap().iter().map(<[u8]>::to_vec).collect()
}

#[test]
#[ignore = "it needs a Python that has loaderx"]
fn records_of_every_codec_are_read_by_loaderx() {
    let peer = Peer::new();
    for codecs in [&[Codec::Raw][..], &[Codec::Zstd], &[Codec::Zstd, Codec::Raw, Codec::Zstd]] {
        let path = peer.path(&format!("{codecs:?}").replace(['[', ']', ',', ' '], ""));
        let store = Sandbox::create(&path, Format::Classic, Limits::new()).unwrap();
        let mut expected = Vec::new();
        for (seed, codec) in (0..).zip(codecs) {
            append(&store, &records(seed), *codec);
            expected.extend(records(seed));
        }
        store.close().unwrap();
        peer.assert_reads(&path, &expected);
    }
    let path = peer.path("empty");
    Sandbox::create(&path, Format::Classic, Limits::new()).unwrap().close().unwrap();
    peer.assert_reads(&path, &[]);
}

#[test]
#[ignore = "it needs a Python that has loaderx"]
fn typed_stores_are_read_by_loaderx() {
    let peer = Peer::new();
    let cases = [
        (Kind::Dense, "<f4", vec![3, 2], Codec::Raw),
        (Kind::Dense, ">i2", vec![], Codec::Zstd),
        (Kind::Dense, "<M8[s]", vec![40], Codec::Zstd),
        (Kind::Ragged, "|u1", vec![], Codec::Zstd),
        (Kind::Ragged, "<u2", vec![3], Codec::Raw),
    ];
    for (number, (kind, dtype, shape, codec)) in cases.into_iter().enumerate() {
        let path = peer.path(&number.to_string());
        let metadata = vec![("made by".into(), "hand".into())];
        let parsed = Dtype::parse(dtype).unwrap();
        let schema = Schema::new(kind, parsed, shape.clone(), codec, metadata).unwrap();
        let row = usize::try_from(schema.row_bytes()).unwrap();
        let records: Vec<Vec<u8>> = (0..50_usize)
            .map(|number| {
                let rows = if kind == Kind::Dense { 1 } else { 1 + number % 7 };
                (0..rows * row).map(|at| (at / 3 + number).to_le_bytes()[0]).collect()
            })
            .collect();
        let store = Sandbox::create(&path, Format::Classic, Limits::new()).unwrap();
        store.set_schema(&schema).unwrap();
        append(&store, &records, codec);
        store.close().unwrap();
        let (said, bytes) = peer.ask(&path, Some(kind.name()), false);
        assert!(bytes == records.concat(), "{dtype}: other bytes");
        let hex: String = records.concat().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(said["typed"], json!([dtype, shape, codec.name(), hex]));
    }
}

#[test]
#[ignore = "it needs a Python that has loaderx"]
fn what_the_component_has_deleted_from_and_compacted_is_read_by_loaderx() {
    let peer = Peer::new();
    for codec in [Codec::Raw, Codec::Zstd] {
        for compacts in [false, true] {
            let path = peer.path(&format!("{codec}{compacts}"));
            let store = Sandbox::create(&path, Format::Classic, Limits::new()).unwrap();
            let mut expected = records(5);
            append(&store, &expected, codec);
            store.delete(&[0, 7, 150, 199]).unwrap();
            for hole in [199, 150, 7, 0] {
                expected.swap_remove(hole);
            }
            if compacts {
                assert!(store.compact().unwrap().reclaimed_bytes > 0);
            }
            append(&store, &records(6)[..3], codec);
            expected.extend(records(6).drain(..3));
            store.close().unwrap();
            peer.assert_reads(&path, &expected);
        }
    }
}

/// Chunks of 150 bytes, with dead ones in them, that the core has written: the
/// component goes on with them.
#[test]
#[ignore = "it needs a Python that has loaderx"]
fn stores_of_many_chunks_are_read_by_loaderx() {
    let peer = Peer::new();
    for compacts in [false, true] {
        let path = peer.path(&format!("chunks{compacts}"));
        std::fs::create_dir(&path).unwrap();
        bases::all()[8].in_folder(&path);
        let store = Sandbox::open_writer(&path, Limits::new()).unwrap();
        let chunks = store.stats().unwrap().chunks;
        assert!(chunks > 2, "{chunks} chunks");
        append(&store, &records(7)[..20], Codec::Zstd);
        store.delete(&[1, 4]).unwrap();
        if compacts {
            store.compact().unwrap();
        }
        store.close().unwrap();
        peer.assert_reads(&path, &natively(&path));
    }
}

#[test]
#[ignore = "it needs a Python that has loaderx"]
fn what_the_component_has_converted_is_read_by_loaderx() {
    let peer = Peer::new();
    // Records of every codec, a dictionary and a schema; many chunks.
    for base in [1, 2] {
        let (from, to) = (peer.path(&format!("from{base}")), peer.path(&format!("to{base}")));
        std::fs::create_dir(&from).unwrap();
        bases::all()[base].in_folder(&from);
        sandbox::convert(&from, &to, Format::Classic, Limits::new(), &mut |_| {}).unwrap();
        let expected = natively(&from);
        assert!(expected.len() > 8);
        peer.assert_reads(&to, &expected);
    }
}
