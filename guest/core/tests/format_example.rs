//! The worked example of `FORMAT.md` is what the writer writes.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests may fail")]

use zrecord_core::codec::Codec;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::dtype::Dtype;
use zrecord_core::format::Format;
use zrecord_core::reader::Identity;
use zrecord_core::schema::{Kind, Schema};
use zrecord_core::storage::FileName;
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::store::Store;

/// The store of the example: two records, `[1, 2, 3]` and `[4]`, one append
/// each, the first synced.
fn example(format: Format) -> MemoryDirectory {
    let directory = MemoryDirectory::new();
    let identity = match format {
        Format::Classic => Identity::Classic,
        Format::Extended => Identity::Extended(*b"FORMAT.md sample"),
    };
    let mut store = Store::<_, Libzstd>::create(directory.clone(), identity).unwrap();
    let dtype = Dtype::parse("|u1").unwrap();
    let schema = Schema::new(Kind::Ragged, dtype, Vec::new(), Codec::Raw, Vec::new()).unwrap();
    store.writer().unwrap().set_schema(&schema).unwrap();
    let policy = PackPolicy::new(Codec::Raw, format);
    store.append(&[&[1, 2, 3]], policy).unwrap();
    store.sync().unwrap();
    store.append(&[&[4]], policy).unwrap();
    directory
}

/// Non-zero lines of 16 bytes, as `FORMAT.md` prints them.
fn dump(directory: &MemoryDirectory, name: FileName) -> String {
    let bytes = directory.file(name).unwrap().bytes();
    let mut text = String::new();
    for (line, chunk) in bytes.chunks(16).enumerate() {
        if chunk.iter().any(|&byte| byte != 0) {
            let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
            text += &format!("{:08x}  {}\n", line * 16, hex.join(" "));
        }
    }
    text
}

fn check(format: Format, names: &[(FileName, &str)]) {
    let document = include_str!("../FORMAT.md");
    let directory = example(format);
    for (name, heading) in names {
        let block = format!("`{heading}`:\n\n```text\n{}```", dump(&directory, *name));
        assert!(document.contains(&block), "FORMAT.md should say:\n\n{block}\n");
    }
}

#[test]
fn the_extended_example_is_what_is_written() {
    check(
        Format::Extended,
        &[
            (FileName::Meta, "extended meta.zr"),
            (FileName::Chunk(0), "extended 0.zr"),
            (FileName::Schema, "extended schema.msgpack"),
        ],
    );
}

#[test]
fn the_classic_example_is_what_is_written() {
    let directory = example(Format::Classic);
    let meta = directory.file(FileName::Meta).unwrap();
    // Only the used part is printed: the file is sparse behind it.
    zrecord_core::storage::File::set_size(&meta, 48).unwrap();
    let document = include_str!("../FORMAT.md");
    let block = format!("`classic meta.zr`:\n\n```text\n{}```", dump(&directory, FileName::Meta));
    assert!(document.contains(&block), "FORMAT.md should say:\n\n{block}\n");
    let name = FileName::Schema;
    let block = format!("`classic schema.msgpack`:\n\n```text\n{}```", dump(&directory, name));
    assert!(document.contains(&block), "FORMAT.md should say:\n\n{block}\n");
}
