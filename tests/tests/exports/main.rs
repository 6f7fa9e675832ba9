//! Every function that the components export, called through the contract and
//! natively with the same arguments: the same answers, the same errors, and
//! where it writes the same bytes. What has no entry in the tables below, or
//! an entry that does not call it, fails.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::panic_in_result_fn, reason = "as above")]
#![allow(clippy::cast_possible_truncation, reason = "the stores of tests are small")]

use std::collections::{BTreeMap, BTreeSet};
use std::panic;
use std::path::Path;

use wit_parser::{FunctionKind, Resolve, WorldItem};
use zrecord_tests::component::instance::World;

mod codec;
mod conversion;
mod damaged;
mod editing;
mod reading;
mod sampler;
mod stores;

/// The functions whose answers were compared, as the bindings name them.
type Compared = BTreeSet<&'static str>;
/// Asks for one function everything that there is to ask.
type Ask = fn(World) -> Compared;

/// The functions of both worlds, by the names of the contract.
const READING: [(&str, Ask); 21] = [
    ("codec#unpack", codec::unpack),
    ("codec#pack", codec::pack),
    ("codec#checksum", codec::checksum),
    ("sampler#sampler.create", sampler::create),
    ("sampler#sampler.batches", sampler::batches),
    ("sampler#sampler.batches-per-cycle", sampler::batches_per_cycle),
    ("store#store.open", reading::open),
    ("store#store.salvage", damaged::salvage),
    ("store#store.info", reading::info),
    ("store#store.refresh", reading::refresh),
    ("store#store.schema", reading::schema),
    ("store#store.dictionary", reading::dictionary),
    ("store#store.locations", reading::locations),
    ("store#store.lengths", reading::lengths),
    ("store#store.gather", reading::gather),
    ("store#store.read-prefix", reading::read_prefix),
    ("store#store.summarise", reading::summarise),
    ("store#store.usage", reading::usage),
    ("store#store.leftovers", reading::leftovers),
    ("store#store.entries-present", damaged::entries_present),
    ("store#store.verify", damaged::verify),
];

/// Asked apart: it takes the longest.
const STRUCTURE: [(&str, Ask); 1] = [("store#store.verify-structure", damaged::verify_structure)];

/// The functions of the world that writes.
const EDITING: [(&str, Ask); 11] = [
    ("store-edit#open", editing::open),
    ("store-edit#create", editing::create),
    ("store-edit#set-schema", editing::set_schema),
    ("store-edit#add-dictionary", editing::add_dictionary),
    ("store-edit#append", editing::append),
    ("store-edit#sync", editing::sync),
    ("store-edit#delete", editing::delete),
    ("store-edit#compact", editing::compact),
    ("store-edit#close", editing::close),
    ("store-edit#conversion.begin", conversion::begin),
    ("store-edit#conversion.step", conversion::step),
];

/// What a world exports: names of the contract, and those of the bindings.
fn exports(world: &str) -> BTreeMap<String, String> {
    let mut resolve = Resolve::new();
    resolve.push_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit")).unwrap();
    let (_, world) = resolve.worlds.iter().find(|(_, found)| found.name == world).unwrap();
    let mut exports = BTreeMap::new();
    for item in world.exports.values() {
        let WorldItem::Interface { id, .. } = item else { panic!("{item:?} has no test") };
        let interface = &resolve.interfaces[*id];
        let interface_name = interface.name.as_deref().unwrap();
        for function in interface.functions.values() {
            let name = function.item_name();
            let (wit, binding) = match function.kind {
                FunctionKind::Freestanding => (name.into(), format!("call_{name}")),
                FunctionKind::Method(id) | FunctionKind::Static(id) => {
                    let resource = resolve.types[id].name.as_deref().unwrap();
                    (format!("{resource}.{name}"), format!("{resource}.call_{name}"))
                }
                _ => panic!("{} is of a kind that has no test", function.name),
            };
            let binding = format!("{interface_name}.{binding}").replace('-', "_");
            exports.insert(format!("{interface_name}#{wit}"), binding);
        }
    }
    assert!(!exports.is_empty());
    exports
}

/// Asks all of a world, and demands that this was all of it.
fn ask_all(world: World, name: &str, tables: &[&[(&str, Ask)]]) {
    let exports = exports(name);
    let mut compared = Compared::new();
    let mut failed = Vec::new();
    for (function, ask) in tables.concat() {
        let binding = exports.get(function).unwrap_or_else(|| panic!("{name} has no {function}"));
        println!("{function}");
        match panic::catch_unwind(|| ask(world)) {
            Ok(asked) if !asked.contains(&**binding) => {
                failed.push(format!("the entry of {function} does not compare it"));
            }
            Ok(mut asked) => compared.append(&mut asked),
            Err(_) => failed.push(format!("{function} answers otherwise")),
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    let exported: BTreeSet<&str> = exports.values().map(String::as_str).collect();
    assert_eq!(compared, exported, "compared and exported functions of {name}");
    println!("{name}: {} functions", exported.len());
}

#[test]
fn the_reader_answers_as_the_core_does() {
    ask_all(World::Reader, "reader", &[&READING, &STRUCTURE]);
}

#[test]
fn the_record_store_answers_as_the_core_does() {
    ask_all(World::RecordStore, "record-store", &[&READING, &STRUCTURE, &EDITING]);
}

/// A function that nobody asks is noticed.
#[test]
#[should_panic(expected = "compared and exported functions of reader")]
fn an_export_without_a_test_fails() {
    ask_all(World::Reader, "reader", &[&READING[..6]]);
}

/// So is an entry that asks something else.
#[test]
#[should_panic(expected = "the entry of store#store.verify does not compare it")]
fn an_entry_that_asks_something_else_fails() {
    ask_all(World::Reader, "reader", &[&[("store#store.verify", codec::checksum)]]);
}
