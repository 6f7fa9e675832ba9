//! The component as an implementation of the contract. Every call goes through
//! one macro, which remembers what was called by the name that it calls.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;

use wasmtime::component::{self as wasm, HasSelf, Linker, Resource, ResourceAny};
use wasmtime::{Config, Engine, Store};
use zrecord_core::storage::Directory;

use super::bindings::store::{
    Compression, Fault, Format, Info, Locations, RecordBatch, Schema, Summary, Usage,
};
use super::bindings::store_edit::{Compaction, Packing, Progress};
use super::bindings::{codec, files, files_edit, sampler, store, store_edit};
use super::contract::{Answer, Contract, Functions};
use super::files::{Lent, LentDirectory};

/// What one call may do, in instructions: a loop without an end fails a test,
/// and by the same instruction everywhere.
const FUEL: u64 = 20_000_000_000;

/// Which of the two components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// It imports nothing that writes.
    Reader,
    /// It reads and writes.
    RecordStore,
}

impl World {
    fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::RecordStore => "record-store",
        }
    }

    /// The component, compiled once, or kept from an earlier run.
    fn compiled(self) -> &'static wasm::Component {
        static READER: OnceLock<wasm::Component> = OnceLock::new();
        static RECORD_STORE: OnceLock<wasm::Component> = OnceLock::new();
        let compiled = match self {
            Self::Reader => &READER,
            Self::RecordStore => &RECORD_STORE,
        };
        compiled.get_or_init(|| {
            let path = folder().join(format!("{}.wasm", self.name()));
            let bytes = fs::read(&path).unwrap_or_else(|error| {
                panic!("{}: {error}: run `cargo xtask component`", path.display())
            });
            zrecord_host::sandbox::cache::component(engine(), &bytes).unwrap()
        })
    }
}

/// Where `cargo xtask component` puts what it builds.
pub fn folder() -> PathBuf {
    std::env::var_os("ZRECORD_COMPONENTS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/component"),
        PathBuf::from,
    )
}

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let mut config = Config::new();
        config.wasm_component_model(true).consume_fuel(true);
        Engine::new(&config).unwrap()
    })
}

/// The exports of one instance.
struct Exports {
    codec: codec::Guest,
    sampler: sampler::Guest,
    store: store::Guest,
    store_edit: Option<store_edit::Guest>,
}

impl Exports {
    fn codec(&self) -> &codec::Guest {
        &self.codec
    }

    fn sampler(&self) -> &sampler::Guest {
        &self.sampler
    }

    fn store(&self) -> &store::Guest {
        &self.store
    }

    fn store_edit(&self) -> &store_edit::Guest {
        self.store_edit.as_ref().expect("the world `reader` does not export it")
    }
}

/// An instance of the component, and the directories that it was lent.
pub struct Component<D: Directory + 'static> {
    wasm: Store<Lent<D>>,
    exports: Exports,
    called: BTreeSet<&'static str>,
    directory: D,
    /// Makes the directory that a conversion fills.
    empty: Rc<dyn Fn() -> D>,
    store: Option<ResourceAny>,
    conversion: Option<ResourceAny>,
    converted: Option<D>,
    sampler: Option<ResourceAny>,
}

fn open(store: Option<ResourceAny>) -> ResourceAny {
    store.expect("no store is open")
}

/// Calls an export, and remembers its name. A trap is no answer: it fails the
/// test.
macro_rules! call {
    ($self:ident.$interface:ident.$($resource:ident.)? {$function:ident} ($($argument:expr),*)) => {{
        let name = concat!(
            stringify!($interface), ".", $(stringify!($resource), ".",)? stringify!($function)
        );
        $self.called.insert(name);
        $self.wasm.set_fuel(FUEL).unwrap();
        let exports = $self.exports.$interface()$(.$resource())?;
        let called = exports.$function(&mut $self.wasm, $($argument),*);
        called.unwrap_or_else(|trap| panic!("{name}: {trap:?}"))
    }};
}

impl<D: Directory + Clone + 'static> Component<D> {
    /// An instance over a directory; conversions go into what `empty` makes.
    pub fn new(world: World, directory: D, empty: Rc<dyn Fn() -> D>) -> Self {
        let mut linker: Linker<Lent<D>> = Linker::new(engine());
        files::add_to_linker::<_, HasSelf<_>>(&mut linker, |lent| lent).unwrap();
        if world == World::RecordStore {
            files_edit::add_to_linker::<_, HasSelf<_>>(&mut linker, |lent| lent).unwrap();
        }
        let prepared = linker.instantiate_pre(world.compiled()).unwrap();
        let mut wasm = Store::new(engine(), Lent::default());
        wasm.set_fuel(FUEL).unwrap();
        let instance = prepared.instantiate(&mut wasm).unwrap();
        macro_rules! load {
            ($interface:ident) => {
                $interface::GuestIndices::new(&prepared)
                    .and_then(|indices| indices.load(&mut wasm, &instance))
                    .unwrap()
            };
        }
        let store_edit = (world == World::RecordStore).then(|| load!(store_edit));
        let exports = Exports {
            codec: load!(codec),
            sampler: load!(sampler),
            store: load!(store),
            store_edit,
        };
        Self {
            wasm,
            exports,
            called: BTreeSet::new(),
            directory,
            empty,
            store: None,
            conversion: None,
            converted: None,
            sampler: None,
        }
    }

    /// The names of the functions that were called, as the bindings have them;
    /// forgets them.
    pub fn take_called(&mut self) -> BTreeSet<&'static str> {
        std::mem::take(&mut self.called)
    }

    /// The directory.
    pub fn directory(&self) -> &D {
        &self.directory
    }

    /// How many directories and files the component holds.
    pub fn held(&self) -> usize {
        self.wasm.data().held()
    }

    fn lend(&mut self) -> Resource<LentDirectory> {
        let directory = self.directory.clone();
        self.wasm.data_mut().lend(directory)
    }

    /// Drops what was opened before, as an owner of resources does.
    fn opened(&mut self, store: Answer<ResourceAny>) -> Answer<()> {
        let store = store?;
        let before = self.store.replace(store);
        self.drop_resource(before);
        Ok(())
    }

    fn drop_resource(&mut self, resource: Option<ResourceAny>) {
        if let Some(resource) = resource {
            self.wasm.set_fuel(FUEL).unwrap();
            resource.resource_drop(&mut self.wasm).unwrap();
        }
    }
}

impl<D: Directory + Clone + 'static> Contract for Component<D> {
    fn name(&self) -> &'static str {
        "component"
    }

    fn open(&mut self, recover: bool) -> Answer<()> {
        let directory = self.lend();
        let opened = call!(self.store.store.{call_open}(directory, recover));
        self.opened(opened)
    }

    fn salvage(&mut self, recover: bool) -> Answer<()> {
        let directory = self.lend();
        let opened = call!(self.store.store.{call_salvage}(directory, recover));
        self.opened(opened)
    }

    fn open_to_edit(&mut self) -> Answer<()> {
        let directory = self.lend();
        let opened = call!(self.store_edit.{call_open}(directory));
        self.opened(opened)
    }

    fn create(&mut self, format: Format, id: &[u8]) -> Answer<()> {
        let directory = self.lend();
        let created = call!(self.store_edit.{call_create}(directory, format, id));
        self.opened(created)
    }

    fn drop_store(&mut self) {
        let store = self.store.take();
        self.drop_resource(store);
    }

    fn info(&mut self) -> Info {
        call!(self.store.store.{call_info}(open(self.store)))
    }

    fn refresh(&mut self) -> Answer<Info> {
        call!(self.store.store.{call_refresh}(open(self.store)))
    }

    fn schema(&mut self) -> Answer<Option<Schema>> {
        call!(self.store.store.{call_schema}(open(self.store)))
    }

    fn dictionary(&mut self, number: u8) -> Answer<Vec<u8>> {
        call!(self.store.store.{call_dictionary}(open(self.store), number))
    }

    fn locations(&mut self, indices: &[u64]) -> Answer<Locations> {
        call!(self.store.store.{call_locations}(open(self.store), indices))
    }

    fn lengths(&mut self, indices: &[u64]) -> Answer<Vec<u32>> {
        call!(self.store.store.{call_lengths}(open(self.store), indices))
    }

    fn gather(&mut self, indices: &[u64], max_bytes: u64) -> Answer<RecordBatch> {
        call!(self.store.store.{call_gather}(open(self.store), indices, max_bytes))
    }

    fn read_prefix(&mut self, index: u64, max_bytes: u64) -> Answer<Vec<u8>> {
        call!(self.store.store.{call_read_prefix}(open(self.store), index, max_bytes))
    }

    fn summarise(&mut self, first: u64, count: u64) -> Answer<Summary> {
        call!(self.store.store.{call_summarise}(open(self.store), first, count))
    }

    fn usage(&mut self) -> Answer<Usage> {
        call!(self.store.store.{call_usage}(open(self.store)))
    }

    fn leftovers(&mut self) -> Answer<Vec<String>> {
        call!(self.store.store.{call_leftovers}(open(self.store)))
    }

    fn entries_present(&mut self) -> Answer<u64> {
        call!(self.store.store.{call_entries_present}(open(self.store)))
    }

    fn verify(&mut self, first: u64, count: u64) -> Answer<Vec<Fault>> {
        call!(self.store.store.{call_verify}(open(self.store), first, count))
    }

    fn verify_structure(&mut self) -> Answer<Vec<Fault>> {
        call!(self.store.store.{call_verify_structure}(open(self.store)))
    }

    fn set_schema(&mut self, schema: &Schema) -> Answer<()> {
        call!(self.store_edit.{call_set_schema}(open(self.store), schema))
    }

    fn add_dictionary(&mut self, dictionary: &[u8]) -> Answer<u8> {
        call!(self.store_edit.{call_add_dictionary}(open(self.store), dictionary))
    }

    fn append(&mut self, bytes: &[u8], ends: &[u64], packing: Packing) -> Answer<u64> {
        call!(self.store_edit.{call_append}(open(self.store), bytes, ends, packing))
    }

    fn sync(&mut self) -> Answer<()> {
        call!(self.store_edit.{call_sync}(open(self.store)))
    }

    fn delete(&mut self, indices: &[u64]) -> Answer<()> {
        call!(self.store_edit.{call_delete}(open(self.store), indices))
    }

    fn compact(&mut self) -> Answer<Compaction> {
        call!(self.store_edit.{call_compact}(open(self.store)))
    }

    fn close(&mut self) -> Answer<()> {
        call!(self.store_edit.{call_close}(open(self.store)))
    }

    fn begin_conversion(&mut self, format: Format, id: &[u8]) -> Answer<()> {
        let source = self.store.take().expect("no store is open");
        let destination = (self.empty)();
        let lent = self.wasm.data_mut().lend(destination.clone());
        let begun = call!(self.store_edit.conversion.{call_begin}(source, lent, format, id));
        let before = self.conversion.replace(begun?);
        self.drop_resource(before);
        self.converted = Some(destination);
        Ok(())
    }

    fn step_conversion(&mut self, max_bytes: u64) -> Answer<Progress> {
        let conversion = self.conversion.expect("no conversion has begun");
        call!(self.store_edit.conversion.{call_step}(conversion, max_bytes))
    }

    fn take_converted(&mut self) {
        let conversion = self.conversion.take();
        self.drop_resource(conversion);
        self.drop_store();
        self.directory = self.converted.take().expect("nothing was converted");
    }
}

impl<D: Directory + Clone + 'static> Functions for Component<D> {
    fn unpack(
        &mut self,
        codec: Compression,
        dictionary: Option<&[u8]>,
        bytes: &[u8],
        len: u32,
    ) -> Result<Vec<u8>, codec::Error> {
        call!(self.codec.{call_unpack}(codec, dictionary, bytes, len))
    }

    fn pack(
        &mut self,
        codec: Compression,
        bytes: &[u8],
    ) -> Result<(Compression, Vec<u8>), codec::Error> {
        call!(self.codec.{call_pack}(codec, bytes))
    }

    fn checksum(&mut self, stored: &[u8], len: u32, codec: Compression, dictionary: u8) -> u32 {
        call!(self.codec.{call_checksum}(stored, len, codec, dictionary))
    }

    fn create_sampler(&mut self, options: sampler::Options) -> Result<(), sampler::Error> {
        let created = call!(self.sampler.sampler.{call_create}(options));
        let before = self.sampler.replace(created?);
        self.drop_resource(before);
        Ok(())
    }

    fn batches(&mut self, first_step: u64, count: u64) -> Result<Vec<u64>, sampler::Error> {
        let sampler = self.sampler.expect("there is no sampler");
        call!(self.sampler.sampler.{call_batches}(sampler, first_step, count))
    }

    fn batches_per_cycle(&mut self) -> Option<u64> {
        let sampler = self.sampler.expect("there is no sampler");
        call!(self.sampler.sampler.{call_batches_per_cycle}(sampler))
    }
}
