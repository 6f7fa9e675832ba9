//! Stores that questions are about.

use zrecord_core::codec::Codec;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::format::Format;
use zrecord_core::reader::Identity;
use zrecord_core::storage::Directory;
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::store::Store;
use zrecord_tests::component::bindings::store::{Compression, Kind, Schema};
use zrecord_tests::component::bindings::store_edit::Packing;
use zrecord_tests::component::instance::World;
use zrecord_tests::component::pair::Pair;
use zrecord_tests::fuzz::{bases, codec::trained};
use zrecord_tests::golden;

/// Places in `bases::all()`.
pub const MIXED: usize = 1;
pub const HOLES: usize = 2;
pub const UNCLEAN: usize = 3;
pub const CLASSIC_MIXED: usize = 6;
pub const CLASSIC_HOLES: usize = 8;

/// Good stores of every kind: both formats, every codec, typed and not, one
/// and many chunks, none and two dictionaries, with and without dead bytes,
/// clean and not; written by the core with libzstd, and by loaderx.
pub fn all() -> Vec<(String, MemoryDirectory)> {
    // Two more are cut, and cannot be opened.
    let bases = bases::all().iter().enumerate().filter(|(number, _)| ![5, 7].contains(number));
    let mut all: Vec<_> =
        bases.map(|(number, image)| (format!("base {number}"), image.in_memory())).collect();
    all.push(("two dictionaries".into(), two_dictionaries()));
    all.extend(golden::stores());
    all
}

/// A pair over each of them, opened to be read.
pub fn opened(world: World) -> impl Iterator<Item = (String, Pair)> {
    all().into_iter().map(move |(name, files)| {
        let mut pair = Pair::over(world, &files);
        pair.same(&name, |store| store.open(true)).unwrap();
        (name, pair)
    })
}

/// A pair over one of the bases, opened to be read.
pub fn base(world: World, number: usize) -> Pair {
    let mut pair = Pair::of(world, &bases::all()[number]);
    pair.same("opening", |store| store.open(true)).unwrap();
    pair
}

/// A pair over one of the bases, opened to be changed.
pub fn base_to_edit(number: usize) -> Pair {
    let mut pair = Pair::of(World::RecordStore, &bases::all()[number]);
    pair.same("opening", |store| store.open_to_edit()).unwrap();
    pair
}

fn two_dictionaries() -> MemoryDirectory {
    let files = MemoryDirectory::new();
    let mut store: Store<_, Libzstd> =
        Store::create(files.clone(), Identity::Extended(*b"two dictionaries")).unwrap();
    let words: Vec<Vec<u8>> =
        (0..40_u32).map(|n| format!("sample {} of {n} with words", n % 7).into_bytes()).collect();
    let slices: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let policy = PackPolicy::new(Codec::ZstdDict, Format::Extended);
    store.add_dictionary(trained()).unwrap();
    store.append(&slices, policy).unwrap();
    let sizes: Vec<usize> = words.iter().map(Vec::len).collect();
    store.train_dictionary(&words.concat(), &sizes, 600).unwrap();
    store.append(&slices, policy).unwrap();
    assert_eq!(store.reader().commit().dictionaries, 2);
    store.close().unwrap();
    files
}

/// Appends to the store of a directory behind the back of who has it open.
pub fn append_elsewhere<D: Directory>(directory: D, record: &[u8]) {
    let (mut store, _) = Store::<_, Libzstd>::open_writer(directory).unwrap();
    let policy = PackPolicy::new(Codec::Zstd, store.format());
    store.append(&[record, record], policy).unwrap();
    store.close().unwrap();
}

/// Packing by the defaults.
pub fn packing(codec: Compression) -> Packing {
    Packing { codec, level: None, min_saving: None }
}

/// Rows of four numbers.
pub fn schema() -> Schema {
    Schema {
        kind: Kind::Dense,
        dtype: "<u2".into(),
        item_shape: vec![2, 2],
        codec: Compression::Zstd,
        row_bytes: 8,
        metadata: Vec::new(),
    }
}
