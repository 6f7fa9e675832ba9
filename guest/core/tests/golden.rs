//! Stores that loaderx 0.9.4 wrote, read as it reads them.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests may fail")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use zrecord_core::codec::Codec;
use zrecord_core::codec::Zstd;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::format::Format;
use zrecord_core::storage::FileName;
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::store::Store;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/loaderx-0.9.4")
}

fn expected() -> serde_json::Map<String, Value> {
    let text = fs::read_to_string(golden().join("expected.json")).unwrap();
    let Value::Object(map) = serde_json::from_str(&text).unwrap() else { panic!("no map") };
    assert_eq!(map.len(), 13);
    map
}

fn load(name: &str) -> MemoryDirectory {
    let directory = MemoryDirectory::new();
    for file in [FileName::Meta, FileName::Schema, FileName::Chunk(0), FileName::Dictionary(0)] {
        if let Ok(bytes) = fs::read(golden().join(name).join(file.to_string())) {
            directory.put(file, &bytes);
        }
    }
    directory
}

fn records<Z: Zstd>(store: &mut Store<MemoryDirectory, Z>) -> Vec<Vec<u8>> {
    let indices: Vec<u64> = (0..store.len()).collect();
    store.gather(&indices, u64::MAX).unwrap().iter().map(<[u8]>::to_vec).collect()
}

fn check(name: &str, expected: &Value, records: &[Vec<u8>]) {
    assert_eq!(records.len() as u64, expected["records"].as_u64().unwrap(), "{name}");
    for (record, prefix) in records.iter().zip(expected["record_sha256_prefix"].as_array().unwrap())
    {
        assert_eq!(&sha256(record)[..16], prefix.as_str().unwrap(), "{name}");
    }
    assert_eq!(sha256(&records.concat()), expected["sha256"].as_str().unwrap(), "{name}");
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn reads_every_golden_store<Z: Zstd>() {
    for (name, expected) in expected() {
        let mut store = Store::<_, Z>::open(load(&name), true).unwrap();
        let found = records(&mut store);
        check(&name, &expected, &found);
        let stats = store.stats().unwrap();
        for (key, value) in [
            ("live_bytes", stats.live_bytes),
            ("chunk_bytes", stats.chunk_bytes),
            ("reclaimable", stats.reclaimable),
        ] {
            assert_eq!(expected["stats"][key].as_u64().unwrap(), value, "{name}: {key}");
        }
        assert_eq!(store.verify_records(0..u64::MAX).unwrap(), [], "{name}");
        assert_eq!(store.reader().verify_structure().unwrap(), [], "{name}");
        if let Some(schema) = store.schema().unwrap() {
            let bytes = load(&name).file(FileName::Schema).unwrap().bytes();
            assert_eq!(schema.encode(Format::Classic).unwrap(), bytes, "{name}");
        }
    }
}

#[test]
fn libzstd_reads_every_golden_store() {
    reads_every_golden_store::<Libzstd>();
}

#[cfg(feature = "ruzstd")]
#[test]
fn ruzstd_reads_every_golden_store() {
    reads_every_golden_store::<zrecord_core::codec::pure::Ruzstd>();
}

#[test]
fn golden_stores_can_be_appended_to_deleted_from_and_compacted() {
    for (name, expected) in expected() {
        let directory = load(&name);
        let (mut store, _) = Store::<_, Libzstd>::open_writer(directory.clone()).unwrap();
        let mut model = records(&mut store);
        check(&name, &expected, &model);
        let schema = store.schema().unwrap();
        let len = schema.map_or(512, |schema| usize::try_from(schema.row_bytes()).unwrap());
        let new: Vec<Vec<u8>> = (0..5_u8).map(|number| vec![number; len]).collect();
        let slices: Vec<&[u8]> = new.iter().map(Vec::as_slice).collect();
        let codec = if name == "dense_zstd_dict" { Codec::ZstdDict } else { Codec::Zstd };
        store.append(&slices, PackPolicy::new(codec, Format::Classic)).unwrap();
        model.extend(new);
        store.delete(&[0, model.len() as u64 - 2]).unwrap();
        model.swap_remove(model.len() - 2);
        model.swap_remove(0);
        assert_eq!(records(&mut store), model, "{name}");
        store.compact(&mut |_| {}).unwrap();
        assert_eq!(records(&mut store), model, "{name}");
        store.close().unwrap();
        // loaderx maps its files at these sizes.
        let meta = directory.file(FileName::Meta).unwrap();
        assert_eq!(zrecord_core::storage::File::size(&meta).unwrap(), 268_435_472);
        let mut reopened = Store::<_, Libzstd>::open(directory, true).unwrap();
        assert_eq!(records(&mut reopened), model, "{name}");
    }
}
