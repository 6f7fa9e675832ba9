//! The component in other runtimes than ours: the programs of
//! `guest/embeddings`, in wasmtime's Python package and in Node, say of a store
//! what the native host says of it.
//!
//! `cargo xtask test` prepares both and runs this; no other test run does.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zrecord_host::core::reader::Reader;
use zrecord_host::core::storage::Access;
use zrecord_host::directory::FsDirectory;
use zrecord_host::{Format, Sampler, SamplerMode, SamplerOptions, Store, convert};

mod support;
use support::{copy_golden, fresh, gather, golden, golden_names};

/// A program that looks into a store.
#[derive(Clone, Copy, Debug)]
enum Embedding {
    Python,
    Node,
}

const EMBEDDINGS: [Embedding; 2] = [Embedding::Python, Embedding::Node];

/// Where something is in the repository, if it has been prepared.
fn prepared(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    assert!(path.exists(), "{} is missing: `cargo xtask test` makes it", path.display());
    path
}

impl Embedding {
    fn run(self, store: &Path, indices: &[u64]) -> Output {
        let mut command = match self {
            Self::Python => {
                let mut python = Command::new(prepared(".venv-embeddings/bin/python"));
                python.arg("-B").arg(prepared("guest/embeddings/python/reader.py"));
                python.arg(prepared("target/component/reader.wasm"));
                python
            }
            Self::Node => {
                prepared("guest/embeddings/node/generated/reader.js");
                let mut node = Command::new("node");
                node.arg(prepared("guest/embeddings/node/reader.js"));
                node
            }
        };
        command.arg(store).args(indices.iter().map(u64::to_string)).output().unwrap()
    }

    /// What it prints of a store that is as it should be.
    fn read(self, store: &Path, indices: &[u64]) -> Vec<Value> {
        let output = self.run(store, indices);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{self:?}, {}: {errors}", store.display());
        assert!(errors.is_empty(), "{self:?}, {}: {errors}", store.display());
        lines(&output)
    }

    /// What it prints of a store or a request that is not, and what it blames.
    fn fail(self, store: &Path, indices: &[u64]) -> (Vec<Value>, String) {
        let output = self.run(store, indices);
        assert_eq!(output.status.code(), Some(1), "{self:?}, {}", store.display());
        let errors = String::from_utf8(output.stderr.clone()).unwrap();
        assert!(errors.lines().count() <= 1, "an error is a sentence: {errors}");
        (lines(&output), errors)
    }
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What the native host says of a store, as the programs print it.
fn native(path: &Path, indices: Option<&[u64]>) -> Vec<Value> {
    let store = Store::open(path).unwrap();
    let inspection = store.inspect().unwrap();
    let schema = inspection.schema.map(|schema| {
        json!({
            "kind": schema.kind().name(),
            "dtype": schema.dtype().to_string(),
            "item-shape": schema.item_shape(),
            "codec": schema.codec().name().replace('_', "-"),
        })
    });
    let info = json!({
        "format": inspection.format.name(),
        "version": inspection.version,
        "id": inspection.id.map(hex),
        "records": inspection.stats.records,
        "schema": schema,
    });
    let indices = indices.map_or_else(|| draw(inspection.stats.records), <[u64]>::to_vec);
    let records = gather(&store, &indices).unwrap();
    let record = |(index, bytes): (&u64, &Vec<u8>)| json!({ "index": index, "len": bytes.len(), "sha256": hex(Sha256::digest(bytes)) });
    [info, faults(path)].into_iter().chain(indices.iter().zip(&records).map(record)).collect()
}

fn faults(path: &Path) -> Value {
    let faults = Store::open(path).unwrap().verify(&mut |_| {}).unwrap();
    let fault = |fault: &zrecord_host::Fault| {
        json!({
            "file": fault.file.to_string(),
            "offset": fault.offset,
            "index": fault.index,
            "reason": fault.reason,
        })
    };
    json!({ "faults": faults.iter().map(fault).collect::<Vec<_>>() })
}

/// The batch that the programs draw.
fn draw(length: u64) -> Vec<u64> {
    if length == 0 {
        return Vec::new();
    }
    let (batch_size, mode) = (length.min(8), SamplerMode::Cyclic);
    let options = SamplerOptions { length, batch_size, mode, seed: 42, rank: 0, world_size: 1 };
    let mut batch = vec![0; usize::try_from(batch_size).unwrap()];
    Sampler::new(options).unwrap().fill(0, &mut batch).unwrap();
    batch
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An extended store of zstd frames: a small one, since bytes are slow in Python.
fn extended(to: &Path) {
    convert(golden().join("dense_zstd"), to, Format::Extended, &mut |_| {}).unwrap();
}

/// Changes a byte in the middle of what is stored of a record.
fn damage(path: &Path, index: u64) {
    let reader = Reader::open(FsDirectory::new(path), Access::Read).unwrap();
    let location = reader.locations(&[index]).unwrap()[0];
    let chunk = File::options().read(true).write(true).open(path.join(location.file().to_string()));
    let chunk = chunk.unwrap();
    let at = u64::from(location.offset) + u64::from(location.stored_len) / 2;
    let mut byte = [0];
    chunk.read_exact_at(&mut byte, at).unwrap();
    chunk.write_all_at(&[!byte[0]], at).unwrap();
}

#[test]
fn stores_read_as_they_do_natively() {
    let (_guard, path) = fresh();
    extended(&path);
    for embedding in EMBEDDINGS {
        assert_eq!(embedding.read(&path, &[]), native(&path, None), "{embedding:?}");
    }
    // Each run in Python compiles the component anew.
    for (embedding, names) in [
        (Embedding::Python, vec!["empty".to_owned(), "ragged_rows_f4x3".to_owned()]),
        (Embedding::Node, golden_names()),
    ] {
        for name in names {
            let path = golden().join(&name);
            assert_eq!(embedding.read(&path, &[]), native(&path, None), "{embedding:?}, {name}");
        }
    }
}

#[test]
fn records_come_in_the_order_asked_for() {
    let path = golden().join("ragged_i32");
    let indices = [7, 0, 3, 0, 7];
    for embedding in EMBEDDINGS {
        assert_eq!(embedding.read(&path, &indices), native(&path, Some(&indices)), "{embedding:?}");
    }
}

#[test]
fn an_index_past_the_end_is_an_error() {
    let path = golden().join("ragged_i32");
    for embedding in EMBEDDINGS {
        let (printed, error) = embedding.fail(&path, &[8]);
        assert_eq!(printed, native(&path, Some(&[])), "{embedding:?}");
        assert!(error.contains("out-of-range: index 8, length 8"), "{embedding:?}: {error}");
    }
}

#[test]
fn damage_is_listed_and_not_read() {
    let (_guard, path) = fresh();
    extended(&path);
    damage(&path, 40);
    let faults = faults(&path);
    let found = &faults["faults"][0];
    assert_eq!((&found["file"], &found["index"]), (&json!("0.zr"), &json!(40)));
    for embedding in EMBEDDINGS {
        // Records beside it are as good as before.
        let (printed, error) = embedding.fail(&path, &[39, 41]);
        assert_eq!(printed, native(&path, Some(&[39, 41])), "{embedding:?}");
        assert!(error.is_empty() && printed[1] == faults, "{embedding:?}: {error}");
        let (printed, error) = embedding.fail(&path, &[39, 40]);
        assert_eq!(printed.len(), 2, "{embedding:?}: no record of that batch");
        let reason = found["reason"].as_str().unwrap();
        for word in ["corrupt: file 0.zr", "index 40", reason] {
            assert!(error.contains(word), "{embedding:?}: {word} in {error}");
        }
    }
}

#[test]
fn what_is_no_store_is_refused() {
    let (_guard, path) = fresh();
    fs::create_dir(&path).unwrap();
    for embedding in EMBEDDINGS {
        let (printed, error) = embedding.fail(&path, &[]);
        assert!(printed.is_empty(), "{embedding:?}");
        assert!(error.contains("not-a-store: there is no meta.zr"), "{embedding:?}: {error}");
    }
    copy_golden("ragged_i32", &path);
    File::options().write(true).open(path.join("meta.zr")).unwrap().set_len(20).unwrap();
    let native = Store::open(&path).unwrap_err().to_string();
    for embedding in EMBEDDINGS {
        let (printed, error) = embedding.fail(&path, &[]);
        assert!(printed.is_empty(), "{embedding:?}");
        let (_, reason) = error.split_once("corrupt: file meta.zr, reason ").unwrap();
        assert!(native.contains(reason.trim()), "{embedding:?}: {error} / {native}");
    }
}

/// Whoever sent the store could have it lead anywhere.
#[test]
fn a_link_in_the_place_of_a_file_is_not_followed() {
    let (_guard, path) = fresh();
    copy_golden("ragged_i32", &path);
    let outside = path.with_extension("outside");
    fs::rename(path.join("0.zr"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, path.join("0.zr")).unwrap();
    for embedding in EMBEDDINGS {
        let (printed, error) = embedding.fail(&path, &[0]);
        assert!(printed.iter().all(|line| line.get("sha256").is_none()), "{embedding:?}");
        assert!(error.contains("io: file 0.zr, code not-a-file"), "{embedding:?}: {error}");
    }
}
