//! Stores with every single bit of every file flipped, and cut at every
//! length: no panic, and in the extended format no wrong byte unnoticed.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests may fail")]

use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::codec::{Codec, Zstd};
use zrecord_core::format::Format;
use zrecord_core::reader::Identity;
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::storage::{Directory, File, FileName};
use zrecord_core::store::Store;

const FILES: [FileName; 4] =
    [FileName::Meta, FileName::Schema, FileName::Chunk(0), FileName::Dictionary(0)];

fn records() -> Vec<Vec<u8>> {
    (0..6_u8)
        .map(|number| {
            (0..48_u8)
                .map(|at| if number % 2 == 0 { at % 4 } else { at.wrapping_mul(37) })
                .collect()
        })
        .collect()
}

/// A typed store with raw, zstd and zstd_dict records.
fn store(format: Format) -> MemoryDirectory {
    use zrecord_core::dtype::Dtype;
    use zrecord_core::schema::{Kind, Schema};
    let directory = MemoryDirectory::new();
    let identity = match format {
        Format::Classic => Identity::Classic,
        Format::Extended => Identity::Extended([1; 16]),
    };
    let mut store = Store::<_, Libzstd>::create(directory.clone(), identity).unwrap();
    let dtype = Dtype::parse("|u1").unwrap();
    let schema = Schema::new(Kind::Dense, dtype, vec![48], Codec::Zstd, Vec::new()).unwrap();
    store.writer().unwrap().set_schema(&schema).unwrap();
    let samples: Vec<u8> = (0..64 * 48_u32).map(|at| (at % 48 * (at / 480)) as u8).collect();
    store.train_dictionary(&samples, &[48; 64], 512).unwrap();
    let records = records();
    for (codec, records) in [
        (Codec::Raw, &records[..2]),
        (Codec::Zstd, &records[2..4]),
        (Codec::ZstdDict, &records[4..]),
    ] {
        let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        store.append(&slices, PackPolicy::new(codec, format)).unwrap();
    }
    store.close().unwrap();
    directory
}

/// Whether anything in opening, reading or verifying says that the store is
/// damaged; panics when wrong bytes come back although nothing does.
fn damage_is_noticed<Z: Zstd>(directory: &MemoryDirectory) -> bool {
    let Ok(mut store) = Store::<_, Z>::open(directory.clone(), true) else { return true };
    let expected = records();
    let mut noticed = store.schema().map_or(true, |schema| schema.is_none());
    noticed |= store.len() != expected.len() as u64;
    for index in 0..store.len().min(expected.len() as u64) {
        match store.gather(&[index], 1 << 20) {
            Ok(batch) if noticed || batch.bytes == expected[index as usize] => {}
            Ok(_) => panic!("record {index} came back wrong"),
            Err(_) => noticed = true,
        }
    }
    noticed |= !store.reader().verify_structure().unwrap().is_empty();
    noticed |= !store.verify_records(0..u64::MAX).unwrap().is_empty();
    noticed
}

fn flip_every_bit(format: Format, mut check: impl FnMut(FileName, usize, &MemoryDirectory)) {
    let directory = store(format);
    for name in FILES {
        // Classic files are sparse behind what is used.
        let most = if format == Format::Classic { 600 } else { 16_384 };
        let mut bytes = vec![0; most];
        let used = directory.file(name).unwrap().read(&mut bytes, 0).unwrap();
        for position in 0..used {
            // One bit of a byte that holds nothing says what all eight say.
            let bits = if bytes[position] == 0 { 1 } else { 8 };
            for bit in (0..8).cycle().skip(position % 8).take(bits) {
                let mut flipped = bytes[..used].to_vec();
                flipped[position] ^= 1 << bit;
                let copy = directory.snapshot();
                copy.put(name, &flipped);
                check(name, position, &copy);
            }
        }
    }
}

#[test]
fn no_flipped_bit_of_an_extended_store_goes_unnoticed() {
    flip_every_bit(Format::Extended, |name, position, directory| {
        // One dictionary hash may be there before a slot counts it.
        let uncounted = 2048 + 8..2048 + 16;
        let allowed = name == FileName::Meta && uncounted.contains(&position);
        assert!(damage_is_noticed::<Libzstd>(directory) || allowed, "{name} at {position}");
    });
}

#[test]
fn no_cut_file_of_an_extended_store_goes_unnoticed() {
    let directory = store(Format::Extended);
    for name in FILES {
        let bytes = directory.file(name).unwrap().bytes();
        for len in 0..bytes.len() {
            let copy = directory.snapshot();
            copy.put(name, &bytes[..len]);
            assert!(damage_is_noticed::<Libzstd>(&copy), "{name} cut to {len}");
        }
        let copy = directory.snapshot();
        copy.remove(name).unwrap();
        assert!(damage_is_noticed::<Libzstd>(&copy), "{name} removed");
    }
}

#[test]
fn no_flipped_bit_of_a_classic_store_panics() {
    flip_every_bit(Format::Classic, |_, _, directory| {
        let Ok(mut store) = Store::<_, Libzstd>::open(directory.clone(), true) else { return };
        for index in 0..store.len().min(6) {
            let _ = store.gather(&[index], 1 << 22);
        }
        let _ = store.schema();
        let _ = store.reader().verify_structure();
        let _ = store.verify_records(0..6);
    });
}
