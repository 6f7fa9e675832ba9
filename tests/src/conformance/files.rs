//! Files of stores, compared.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use zrecord_core::format::{Commit, Format, extended};
use zrecord_core::storage::FileName;

use crate::fuzz::image::{Image, ImageFile};

/// So much of a file is compared; the stores of tests have no more.
const SIZE_MAX: u64 = 1 << 20;

/// The files of a folder, but for its lock; sparse ones as far as they are
/// written.
pub fn of_folder(folder: &Path) -> Image {
    let mut image = Image::default();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = FileName::parse(&entry.file_name().into_string().unwrap()).unwrap();
        if name == FileName::Lock {
            continue;
        }
        let file = File::open(entry.path()).unwrap();
        let size = file.metadata().unwrap().len();
        let mut bytes = Vec::new();
        file.take(SIZE_MAX).read_to_end(&mut bytes).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(used);
        image.files.insert(name, ImageFile { bytes, size });
    }
    image
}

/// Demands that the files of two stores are the same to the byte; or, unless
/// `is_whole`, but for what follows from the id and from how often the store was
/// opened: the commit that counts is the same.
pub fn assert_same(what: &str, one: &Image, other: &Image, is_whole: bool) {
    let names = |image: &Image| image.files.keys().copied().collect::<Vec<_>>();
    assert_eq!(names(one), names(other), "{what}: other files");
    for (name, file) in &one.files {
        let found = &other.files[name];
        assert_eq!(file.size, found.size, "{what}: the size of {name}");
        if is_whole || *name != FileName::Meta || one.format() == Format::Classic {
            assert!(file.bytes == found.bytes, "{what}: other bytes in {name}");
            continue;
        }
        let (one, other) = (without_id(&file.bytes), without_id(&found.bytes));
        assert_eq!(one.0, other.0, "{what}: another commit");
        assert!(one.1 == other.1, "{what}: other bytes in {name}");
    }
}

/// The newest commit of an extended header, but for its number, and the rest of
/// its file.
fn without_id(meta: &[u8]) -> (Option<Commit>, Vec<u8>) {
    let mut meta = meta.to_vec();
    // Zeros at its end were cut, and a checksum may end in one.
    meta.resize(meta.len().max(Format::Extended.entry_offset(0) as usize), 0);
    let mut rest = meta.clone();
    let id = extended::decode_identity(&meta[..extended::IDENTITY_SIZE]).unwrap();
    rest[..extended::IDENTITY_SIZE].fill(0);
    let commits = [0, 1].map(|page| {
        let start = extended::slot_offset(page) as usize;
        let slot = start..start + extended::SLOT_SIZE;
        let commit = extended::decode_slot(meta.get(slot.clone())?, &id);
        rest[slot].fill(0);
        commit
    });
    let newest = commits.into_iter().flatten().max_by_key(|commit| commit.sequence);
    (newest.map(|commit| Commit { sequence: 0, ..commit }), rest)
}
