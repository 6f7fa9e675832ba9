//! Changing stores with anything in each of their files: an error or a change,
//! and every record that could be read before is there after.

use super::choices::Choices;
use super::image::Image;
use super::observe::{self, RECORDS_SCANNED};
use super::steps::{self, Model, Step};
use super::subject::{Core, Host, Subject};
use super::{memory, open};

/// What changing takes beyond reading: the buffers of a compaction and of a
/// new table, the encoder, and the oracle's list of records.
const MEMORY_FIXED: usize = 48 << 20;

/// Runs one input.
pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let over_files: bool = choices.any();
    let chunk_size_max = choices.one_of(&[150, 1000, u64::MAX]);
    let steps = steps::choose(&mut choices);
    let image = Image::choose(&mut choices);
    if image.entries() > RECORDS_SCANNED && !is_sparse_table(&image) {
        return;
    }
    let check = if over_files { over_host } else { over_core };
    memory::bounded(memory_max(&image), || check(&image, chunk_size_max, &steps));
}

/// The most memory that changing a store may take.
pub fn memory_max(image: &Image) -> usize {
    MEMORY_FIXED + open::memory_max(image)
}

/// Changes a store over the core and over the host.
pub fn check(image: &Image, chunk_size_max: u64, steps: &[Step]) {
    for check in [over_core, over_host] {
        memory::bounded(memory_max(image), || check(image, chunk_size_max, steps));
    }
}

/// A classic table at its full size.
fn is_sparse_table(image: &Image) -> bool {
    let meta = &image.files[&zrecord_core::storage::FileName::Meta];
    meta.size > meta.bytes.len() as u64
}

fn over_core(image: &Image, chunk_size_max: u64, steps: &[Step]) {
    let directory = image.in_memory();
    let Some(before) = observe::core_records(&directory) else {
        assert!(
            Core::open(directory, chunk_size_max).is_err(),
            "a writer opens what no reader does"
        );
        return;
    };
    let mut model = Model { records: before };
    let check = |model: &Model| {
        let after = observe::core_records(&directory);
        let after = after.unwrap_or_else(|| panic!("the store cannot be opened any more"));
        assert_same(&model.records, &after);
    };
    if let Ok(mut subject) = Core::open(directory.clone(), chunk_size_max) {
        model.check(&mut subject);
        for step in steps {
            let done = model.apply(step, &mut subject);
            if !done && matches!(step, Step::Reopen { .. }) {
                break;
            }
            model.check(&mut subject);
        }
    }
    check(&model);
}

fn over_host(image: &Image, chunk_size_max: u64, steps: &[Step]) {
    let (_guard, path) = observe::folder();
    image.in_folder(&path);
    let Ok(mut subject) = Host::open(&path, None, chunk_size_max) else { return };
    if subject.length().is_none_or(|length| length > RECORDS_SCANNED) {
        return;
    }
    let mut model = Model::of(&mut subject);
    for step in steps {
        let done = model.apply(step, &mut subject);
        if !done && matches!(step, Step::Reopen { .. }) {
            break;
        }
        model.check(&mut subject);
    }
    drop(subject);
    let Ok(mut subject) = Host::open(&path, None, chunk_size_max) else {
        panic!("the store cannot be opened any more");
    };
    model.check(&mut subject);
}

/// What could be read before is the same after.
pub fn assert_same(before: &[Option<Vec<u8>>], after: &[Option<Vec<u8>>]) {
    assert_eq!(before.len(), after.len(), "another number of records");
    for (index, (before, after)) in before.iter().zip(after).enumerate() {
        assert!(before.is_none() || before == after, "record {index} was changed");
    }
}
