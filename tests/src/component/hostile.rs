//! Stores that somebody has made to do harm, read and changed by the component
//! and natively: the same records, the same errors, the same files, and never
//! a trap.

use super::bindings::store::Compression;
use super::bindings::store_edit::Packing;
use super::contract::{Answer, Contract};
use super::instance::World;
use super::pair::Pair;
use crate::fuzz::image::Image;
use crate::fuzz::observe::{RECORD_MAX, RECORDS_SCANNED, seen};
use crate::fuzz::steps::Step;

/// Reads and changes a store in every way that there is; whether it could be
/// opened.
pub fn check(image: &Image) -> bool {
    let opened = read(image, World::Reader, |store| store.open(true));
    read(image, World::Reader, |store| store.salvage(true));
    read(image, World::RecordStore, |store| store.salvage(false));
    let append = |codec| Step::Append { codec, lens: vec![30, 0, 200], seed: 3 };
    let steps = [
        append(zrecord_core::codec::Codec::Raw),
        Step::Reopen { cleanly: false },
        Step::Delete(vec![0, 3]),
        Step::Compact,
        append(zrecord_core::codec::Codec::Zstd),
        Step::Train,
        Step::Sync,
        Step::Reopen { cleanly: true },
    ];
    change(image, &steps);
    opened
}

/// Opens a store, and asks for everything that reading has.
fn read(image: &Image, world: World, open: impl Fn(&mut dyn Contract) -> Answer<()>) -> bool {
    let mut pair = Pair::of(world, image);
    let is_open = pair.same("open", open).is_ok();
    if is_open {
        records(&mut pair);
        whole(&mut pair);
        pair.component.drop_store();
    }
    assert_eq!(pair.component.held(), 0, "it keeps what it was lent");
    pair.same_files("only read");
    is_open
}

/// The first records and the last.
fn records(pair: &mut Pair) {
    let length = pair.same("info", |store| store.info()).length;
    drop(pair.same("schema", |store| store.schema()));
    for number in [0, 1, 255] {
        drop(pair.same("dictionary", |store| store.dictionary(number)));
    }
    let indices: Vec<u64> = seen(length).collect();
    for &index in indices.iter().chain([&length]) {
        drop(pair.same("location", |store| store.locations(&[index])));
        let lengths = pair.same("length", |store| store.lengths(&[index]));
        drop(pair.same("prefix", |store| store.read_prefix(index, 16)));
        if lengths.is_ok_and(|lengths| lengths[0] <= RECORD_MAX) {
            let most = RECORD_MAX.into();
            drop(pair.same("record", |store| store.gather(&[index], most)));
        }
    }
    let most = RECORD_MAX.into();
    drop(pair.same("records", |store| store.gather(&indices, most)));
}

/// What takes a look at all of it.
fn whole(pair: &mut Pair) {
    let length = pair.same("info", |store| store.info()).length;
    if length > RECORDS_SCANNED {
        return;
    }
    drop(pair.same("usage", |store| store.usage()));
    drop(pair.same("leftovers", |store| store.leftovers()));
    drop(pair.same("summary", |store| store.summarise(0, u64::MAX)));
    drop(pair.same("entries", |store| store.entries_present()));
    drop(pair.same("structure", |store| store.verify_structure()));
    drop(pair.same("verify", |store| store.verify(0, u64::MAX)));
    drop(pair.same("refresh", |store| store.refresh()));
}

/// Opens a store to change it, and makes changes.
pub fn change(image: &Image, steps: &[Step]) {
    let mut pair = Pair::of(World::RecordStore, image);
    if pair.same("open to edit", |store| store.open_to_edit()).is_err() {
        pair.same_files("a writer that does not open it");
        return;
    }
    for step in steps {
        let length = pair.same("info", |store| store.info()).length;
        if length > RECORDS_SCANNED {
            return;
        }
        let made = pair.same("a change", |store| apply(step, length, store));
        pair.same_files("a change");
        if made.is_err() && matches!(step, Step::Reopen { .. }) {
            return;
        }
        records(&mut pair);
    }
    whole(&mut pair);
}

fn apply(step: &Step, length: u64, store: &mut dyn Contract) -> Answer<()> {
    match step {
        Step::Append { codec, lens, seed } => {
            let ends = lens.iter().scan(0, |end, len| {
                *end += *len as u64;
                Some(*end)
            });
            let ends: Vec<u64> = ends.collect();
            let size = ends.last().map_or(0, |end| *end as usize);
            let bytes: Vec<u8> = (0..size).map(|at| (at / 5) as u8 ^ seed).collect();
            let codec = match codec {
                zrecord_core::codec::Codec::Raw => Compression::Raw,
                // A dictionary is refused by the sandbox, whatever the store.
                _ => Compression::Zstd,
            };
            let packing = Packing { codec, level: None, min_saving: None };
            store.append(&bytes, &ends, packing).map(drop)
        }
        Step::Delete(picks) => {
            let index = |pick: &u8| match *pick {
                u8::MAX => length,
                pick => u64::from(pick) % length.max(1),
            };
            store.delete(&picks.iter().map(index).collect::<Vec<u64>>())
        }
        Step::Compact => store.compact().map(drop),
        Step::Sync => store.sync(),
        Step::Train => store.add_dictionary(crate::fuzz::codec::trained()).map(drop),
        Step::Reopen { cleanly } => {
            if *cleanly {
                store.close()?;
            }
            store.drop_store();
            store.open_to_edit()
        }
    }
}
