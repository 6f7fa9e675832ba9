//! Stores written with one zstd backend, read with the other.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests may fail")]
#![cfg(all(feature = "libzstd", feature = "ruzstd"))]

use zrecord_core::Error;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::codec::pure::Ruzstd;
use zrecord_core::codec::{Codec, Zstd};
use zrecord_core::format::Format;
use zrecord_core::reader::Identity;
use zrecord_core::storage::FileName;
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::store::Store;

const IDENTITIES: [Identity; 2] = [Identity::Classic, Identity::Extended([3; 16])];

fn records() -> Vec<Vec<u8>> {
    (1..40_u32)
        .map(|number| {
            format!("record {number}, {}", "words and more words. ".repeat(number as usize))
        })
        .map(String::into_bytes)
        .collect()
}

fn write<Z: Zstd>(identity: Identity, codecs: &[Codec]) -> MemoryDirectory {
    let directory = MemoryDirectory::new();
    let mut store = Store::<_, Z>::create(directory.clone(), identity).unwrap();
    let records = records();
    let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    for &codec in codecs {
        if codec == Codec::ZstdDict {
            let sizes: Vec<usize> = records.iter().map(Vec::len).collect();
            store.train_dictionary(&records.concat(), &sizes, 1024).unwrap();
        }
        store.append(&slices, PackPolicy::new(codec, identity.format())).unwrap();
    }
    store.close().unwrap();
    directory
}

fn check<Z: Zstd>(directory: MemoryDirectory, copies: usize) {
    let mut store = Store::<_, Z>::open(directory, true).unwrap();
    let indices: Vec<u64> = (0..store.len()).collect();
    let batch = store.gather(&indices, u64::MAX).unwrap();
    let expected = vec![records(); copies].concat();
    assert_eq!(batch.iter().collect::<Vec<_>>(), expected);
    assert_eq!(store.verify_records(0..u64::MAX).unwrap(), []);
}

#[test]
fn ruzstd_reads_what_libzstd_wrote() {
    for identity in IDENTITIES {
        let directory = write::<Libzstd>(identity, &Codec::ALL);
        check::<Libzstd>(directory.clone(), 3);
        check::<Ruzstd>(directory, 3);
    }
}

#[test]
fn libzstd_reads_what_ruzstd_wrote() {
    for identity in IDENTITIES {
        let directory = write::<Ruzstd>(identity, &[Codec::Raw, Codec::Zstd]);
        check::<Ruzstd>(directory.clone(), 2);
        check::<Libzstd>(directory, 2);
    }
}

#[test]
fn raw_stores_are_the_same_bytes_whoever_writes_them() {
    for identity in IDENTITIES {
        let [a, b] =
            [write::<Libzstd>, write::<Ruzstd>].map(|write| write(identity, &[Codec::Raw]));
        assert_eq!(a.names(), b.names());
        for name in a.names() {
            // Classic files are sparse behind what is used.
            let head = |directory: &MemoryDirectory| {
                let mut bytes = vec![0; 1 << 20];
                let file = directory.file(name).unwrap();
                let read = zrecord_core::storage::File::read(&file, &mut bytes, 0).unwrap();
                bytes.truncate(read);
                bytes
            };
            assert_eq!(head(&a), head(&b), "{name}");
        }
    }
}

#[test]
fn ruzstd_says_who_can_do_what_it_cannot() {
    let mut store = Store::<_, Ruzstd>::create(MemoryDirectory::new(), IDENTITIES[1]).unwrap();
    let level = PackPolicy { level: Some(3), ..PackPolicy::new(Codec::Zstd, Format::Extended) };
    let refused = store.append(&[b"abc"], level).unwrap_err();
    assert!(
        matches!(&refused, Error::Unsupported { what } if what.contains("native")),
        "{refused}"
    );
    let refused = store.train_dictionary(&[0; 64], &[64], 1024).unwrap_err();
    assert!(
        matches!(&refused, Error::Unsupported { what } if what.contains("native")),
        "{refused}"
    );
    assert!(!store.reader().directory().names().contains(&FileName::Dictionary(0)));
}
