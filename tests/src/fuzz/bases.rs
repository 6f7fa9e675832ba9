//! Good stores that hostile ones are made from, written by the writer itself.

use std::sync::OnceLock;

use zrecord_core::codec::Codec;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::dtype::Dtype;
use zrecord_core::format::Format;
use zrecord_core::reader::Identity;
use zrecord_core::schema::{Kind, Schema};
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::store::Store;

use super::image::Image;

type MemoryStore = Store<MemoryDirectory, Libzstd>;

/// Records that are short, that compress, and that do not.
fn records() -> Vec<Vec<u8>> {
    let noise =
        |number: u8| (0..40_u8).map(move |at| at.wrapping_mul(97) ^ number.wrapping_mul(31));
    (0..6_u8)
        .map(|number| match number % 3 {
            0 => noise(number).collect(),
            1 => format!("sample {number} of 12 with words, and words again").into_bytes(),
            _ => vec![number; 200],
        })
        .collect()
}

/// All there are.
pub fn all() -> &'static [Image] {
    static ALL: OnceLock<Vec<Image>> = OnceLock::new();
    ALL.get_or_init(|| {
        let extended = Format::Extended;
        let mut all = vec![
            strided(),
            mixed(extended),
            with_holes(extended),
            unclean(),
            closed(create(extended)),
        ];
        for image in [mixed(Format::Classic), with_holes(Format::Classic)] {
            all.push(image.cut_to_used());
            all.push(image);
        }
        all
    })
}

fn create(format: Format) -> (MemoryDirectory, MemoryStore) {
    let directory = MemoryDirectory::new();
    let identity = match format {
        Format::Classic => Identity::Classic,
        Format::Extended => Identity::Extended(*b"hostile to begin"),
    };
    let store = Store::create(directory.clone(), identity).unwrap();
    (directory, store)
}

fn closed((directory, store): (MemoryDirectory, MemoryStore)) -> Image {
    store.close().unwrap();
    Image::of(&directory)
}

fn append(store: &mut MemoryStore, records: &[Vec<u8>], codec: Codec) {
    let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let format = store.format();
    store.append(&slices, PackPolicy::new(codec, format)).unwrap();
}

/// Raw records of one length in index order, typed.
fn strided() -> Image {
    let (directory, mut store) = create(Format::Extended);
    let dtype = Dtype::parse("<f4").unwrap();
    let schema = Schema::new(Kind::Dense, dtype, vec![3], Codec::Raw, Vec::new()).unwrap();
    store.writer().unwrap().set_schema(&schema).unwrap();
    let records: Vec<Vec<u8>> = (0..9).map(|number| vec![number; 12]).collect();
    append(&mut store, &records, Codec::Raw);
    closed((directory, store))
}

/// Records of every codec, typed, with a dictionary.
fn mixed(format: Format) -> Image {
    let (directory, mut store) = create(format);
    let dtype = Dtype::parse("|u1").unwrap();
    let schema = Schema::new(Kind::Ragged, dtype, Vec::new(), Codec::Zstd, Vec::new()).unwrap();
    let writer = store.writer().unwrap();
    writer.set_schema(&schema).unwrap();
    writer.add_dictionary(super::codec::trained()).unwrap();
    for codec in Codec::ALL {
        append(&mut store, &records(), codec);
    }
    closed((directory, store))
}

/// Several chunks, with dead bytes in some.
fn with_holes(format: Format) -> Image {
    let (directory, mut store) = create(format);
    store.writer().unwrap().set_chunk_size_max(150);
    append(&mut store, &records(), Codec::Raw);
    append(&mut store, &records(), Codec::Zstd);
    store.delete(&[1, 4, 6]).unwrap();
    closed((directory, store))
}

/// Some records synced, others not, and the writer gone.
fn unclean() -> Image {
    let (directory, mut store) = create(Format::Extended);
    append(&mut store, &records()[..3], Codec::Raw);
    store.sync().unwrap();
    append(&mut store, &records()[3..], Codec::Zstd);
    append(&mut store, &records()[..2], Codec::Raw);
    drop(store);
    Image::of(&directory)
}
