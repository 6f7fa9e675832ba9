//! Workloads: every operation of the writer, drawn from a seed and run with
//! the model beside it.

use std::rc::Rc;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::{PackPolicy, PackedRecord};
use zrecord_core::codec::{Codec, Zstd};
use zrecord_core::dtype::Dtype;
use zrecord_core::error::Error;
use zrecord_core::format::Format;
use zrecord_core::reader::Identity;
use zrecord_core::schema::{Kind, Schema};
use zrecord_core::store::Store;
use zrecord_core::writer::Segment;

use super::disk::Disk;
use super::model::{History, Observed, Promise, State};
use super::record::{RecordingDirectory, Sabotage};

/// The length of a record in a store of dense records.
const DENSE_LEN: u16 = 24;
/// How many dictionaries there are to add.
const DICTIONARIES: usize = 3;

/// One call of the writer, or several that belong together.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A batch.
    Append {
        /// What each record tries.
        codec: Codec,
        /// The lengths of the records in bytes.
        lens: Vec<u16>,
        /// What their bytes are drawn from.
        seed: u64,
    },
    /// Batches that are written first and then count, or not.
    Stage {
        /// The lengths of the records of each.
        batches: Vec<Vec<u16>>,
        /// What their bytes are drawn from.
        seed: u64,
        /// Whether they are committed or discarded.
        kept: bool,
    },
    /// Records go.
    Delete {
        /// Which, modulo how many there are then.
        picks: Vec<u64>,
    },
    /// Giving dead bytes back.
    Compact,
    /// A dictionary more, or another one.
    AddDictionary {
        /// Which of those that were trained.
        which: usize,
    },
    /// A schema, if the store can take one.
    SetSchema {
        /// Whether records have one length.
        dense: bool,
    },
    /// Making everything durable.
    Sync,
    /// Another writer takes over.
    Reopen {
        /// Whether the last one has closed.
        cleanly: bool,
    },
}

/// What stays the same through a workload.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The store's format.
    pub format: Format,
    /// How large chunks become.
    pub chunk_size_max: u64,
    /// How many chunks there may be.
    pub chunks_max: u32,
    /// What the build leaves out.
    pub sabotage: Option<Sabotage>,
    /// False for a build whose readers trust whatever they find.
    pub recovers: bool,
}

/// A workload: creating a store and changing it.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What stays the same.
    pub settings: Settings,
    /// What happens, in order.
    pub operations: Vec<Operation>,
}

impl Workload {
    /// The workload of a seed.
    pub fn draw(seed: u64, sabotage: Option<Sabotage>, recovers: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let format = if rng.bool() { Format::Extended } else { Format::Classic };
        let chunk_size_max = match rng.u8(..6) {
            0 => u64::MAX,
            1 => rng.u64(2000..8000),
            _ => rng.u64(150..1200),
        };
        let chunks_max = if rng.bool() { 200 } else { rng.u32(10..24) };
        let settings = Settings { format, chunk_size_max, chunks_max, sabotage, recovers };
        let count = rng.usize(4..16);
        let operations = (0..count).map(|_| Operation::draw(&mut rng)).collect();
        Self { settings, operations }
    }
}

impl Operation {
    /// Any operation.
    pub fn draw(rng: &mut Rng) -> Self {
        match rng.u8(..20) {
            0..=5 => Self::draw_append(rng),
            6..=7 => {
                let batches = (0..rng.usize(1..4)).map(|_| draw_lens(rng)).collect();
                Self::Stage { batches, seed: rng.u64(..), kept: rng.bool() }
            }
            8..=10 => {
                let count = if rng.u8(..4) == 0 { rng.usize(..30) } else { rng.usize(..5) };
                Self::Delete { picks: (0..count).map(|_| rng.u64(..)).collect() }
            }
            11..=13 => Self::Compact,
            14 => Self::AddDictionary { which: rng.usize(..DICTIONARIES) },
            15 => Self::SetSchema { dense: rng.bool() },
            16 => Self::Sync,
            _ => Self::Reopen { cleanly: rng.bool() },
        }
    }

    /// A batch.
    pub fn draw_append(rng: &mut Rng) -> Self {
        let codec = Codec::ALL[rng.usize(..Codec::ALL.len())];
        Self::Append { codec, lens: draw_lens(rng), seed: rng.u64(..) }
    }
}

/// Lengths of a batch: mostly small records, some empty, some of several
/// sectors, some batches of equal ones.
fn draw_lens(rng: &mut Rng) -> Vec<u16> {
    let count = if rng.u8(..8) == 0 { rng.usize(20..60) } else { rng.usize(..8) };
    if rng.u8(..3) == 0 {
        return vec![rng.u16(1..80); count];
    }
    let mut len = || match rng.u8(..12) {
        0 => 0,
        1 if count < 10 => rng.u16(512..3000),
        2 => rng.u16(200..700),
        _ => rng.u16(1..120),
    };
    (0..count).map(|_| len()).collect()
}

/// The dictionaries that operations add, trained once.
fn dictionaries() -> &'static [Vec<u8>] {
    static TRAINED: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    TRAINED.get_or_init(|| {
        let train = |which: usize| {
            let sample = |at: usize| word(which as u64, at as u64).into_bytes();
            let samples: Vec<Vec<u8>> = (0..300).map(sample).collect();
            let sizes: Vec<usize> = samples.iter().map(Vec::len).collect();
            Libzstd::train(&samples.concat(), &sizes, 600)
        };
        (0..DICTIONARIES).map_while(|which| train(which).ok()).collect()
    })
}

/// Text that compresses, and better with the dictionary of its kind.
fn word(which: u64, at: u64) -> String {
    let kind = ["sample", "measure", "reading"][usize::try_from(which % 3).unwrap_or(0)];
    format!("{kind} number {at} of the words {} in kind {which}", at * 7)
}

/// Records that tell which they are: half of them compress.
fn records(lens: &[u16], seed: u64, state: &State, settings: &Settings) -> Vec<Rc<[u8]>> {
    let dense = state.schema.as_ref().is_some_and(|schema| is_dense(schema));
    let mut rng = Rng::with_seed(seed);
    let make = |&len: &u16| {
        let len = match (dense, settings.format) {
            (true, _) => DENSE_LEN,
            (false, Format::Classic) => len.max(1),
            (false, Format::Extended) => len,
        };
        let mut bytes: Vec<u8> = if rng.bool() {
            let (which, start) = (rng.u64(..3), rng.u64(..1000));
            (start..)
                .take(1 + usize::from(len) / 16)
                .map(|at| word(which, at))
                .collect::<String>()
                .into()
        } else {
            (0..len).map(|_| rng.u8(..)).collect()
        };
        bytes.truncate(usize::from(len));
        bytes.into()
    };
    lens.iter().map(make).collect()
}

fn is_dense(schema: &[u8]) -> bool {
    schema.windows(5).any(|bytes| bytes == b"dense")
}

/// A writer at work over a recording directory, with the model beside it.
pub struct Run {
    /// Where it writes.
    pub directory: RecordingDirectory,
    /// What it has promised.
    pub history: History,
    settings: Settings,
    store: Option<Store<RecordingDirectory, Libzstd>>,
}

impl Run {
    /// Over an empty disk.
    pub fn new(settings: &Settings) -> Self {
        let directory = RecordingDirectory::over(&Disk::default(), settings.sabotage);
        Self::over(directory, History::new(vec![None]), settings)
    }

    /// Over a disk on which something has happened before.
    pub fn over(directory: RecordingDirectory, history: History, settings: &Settings) -> Self {
        Self { directory, history, settings: *settings, store: None }
    }

    /// Opens or creates the store, and applies operations.
    ///
    /// # Errors
    ///
    /// When a call fails that should not, or the writer itself reads other
    /// records than it wrote.
    pub fn apply_all(&mut self, operations: &[Operation]) -> Result<()> {
        self.open()?;
        for operation in operations {
            self.apply(operation).with_context(|| format!("{operation:?}"))?;
        }
        self.check()
    }

    fn store(&mut self) -> Result<&mut Store<RecordingDirectory, Libzstd>> {
        self.store.as_mut().context("no writer is open")
    }

    /// The newest state; what it holds before creation is nothing.
    fn state(&self) -> State {
        self.history.state().cloned().unwrap_or_default()
    }

    /// Makes one call, and notes in the history what it led to.
    fn call<T>(
        &mut self,
        after: Option<State>,
        durable: bool,
        call: impl FnOnce(&mut Store<RecordingDirectory, Libzstd>) -> Result<T, Error>,
    ) -> Result<()> {
        let begin = self.directory.position();
        call(self.store()?)?;
        self.history.returned(begin, self.directory.position(), after, durable);
        Ok(())
    }

    /// As `call`, for those that read or move records: what is damaged cannot
    /// be, and says so. Every other call works whatever is damaged.
    fn call_or_damaged<T>(
        &mut self,
        after: Option<State>,
        durable: bool,
        call: impl FnOnce(&mut Store<RecordingDirectory, Libzstd>) -> Result<T, Error>,
    ) -> Result<()> {
        let begin = self.directory.position();
        let damaged = self.state().is_damaged();
        let result = self.call(after, durable, call);
        match result.as_ref().err().and_then(|error| error.downcast_ref::<Error>()) {
            Some(error) if damaged && error.is_corruption() => {
                self.history.returned(begin, self.directory.position(), None, false);
                Ok(())
            }
            _ => result,
        }
    }

    /// Opens the store for writing, or creates it where none is.
    fn open(&mut self) -> Result<()> {
        let begin = self.directory.position();
        let mut created = None;
        let mut store = if self.history.state().is_some() {
            Store::open_writer(self.directory.clone()).context("opening for writing")?.0
        } else {
            created = Some(State::default());
            let identity = match self.settings.format {
                Format::Classic => Identity::Classic,
                Format::Extended => Identity::Extended(*b"a store of trial"),
            };
            Store::create(self.directory.clone(), identity).context("creating")?
        };
        // An extended store is as durable as it looks once a writer has it.
        let durable = created.is_some() || self.settings.format == Format::Extended;
        self.history.returned(begin, self.directory.position(), created, durable);
        store.writer()?.set_chunk_size_max(self.settings.chunk_size_max);
        store.writer()?.set_chunks_max(self.settings.chunks_max);
        self.store = Some(store);
        Ok(())
    }

    /// Applies one operation.
    ///
    /// # Errors
    ///
    /// As [`apply_all`](Self::apply_all).
    pub fn apply(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Append { codec, lens, seed } => self.append(*codec, lens, *seed),
            Operation::Stage { batches, seed, kept } => self.stage(batches, *seed, *kept),
            Operation::Delete { picks } => self.delete(picks),
            Operation::Compact => self.compact(),
            Operation::AddDictionary { which } => self.add_dictionary(*which),
            Operation::SetSchema { dense } => self.set_schema(*dense),
            Operation::Sync => self.call(None, true, Store::sync),
            Operation::Reopen { cleanly } => {
                if *cleanly {
                    self.close()?;
                }
                self.store = None;
                self.open()?;
                self.check()
            }
        }
    }

    /// Closes the store cleanly.
    ///
    /// # Errors
    ///
    /// Those of [`Store::close`].
    pub fn close(&mut self) -> Result<()> {
        self.call(None, true, |store| store.writer()?.close())?;
        self.store = None;
        Ok(())
    }

    fn append(&mut self, codec: Codec, lens: &[u16], seed: u64) -> Result<()> {
        let mut state = self.state();
        let codec = match codec {
            Codec::ZstdDict if state.dictionaries.is_empty() => Codec::Zstd,
            codec => codec,
        };
        let records = records(lens, seed, &state, &self.settings);
        state.records.extend(records.iter().cloned().map(Some));
        let slices: Vec<&[u8]> = records.iter().map(|record| &**record).collect();
        let policy = PackPolicy { level: Some(1), ..PackPolicy::new(codec, self.settings.format) };
        let after = (!records.is_empty()).then_some(state);
        self.call_or_full(after, |store| store.append(&slices, policy).map(drop))
    }

    /// A batch that does not fit is refused and changes nothing.
    fn call_or_full(
        &mut self,
        after: Option<State>,
        call: impl FnOnce(&mut Store<RecordingDirectory, Libzstd>) -> Result<(), Error>,
    ) -> Result<()> {
        let begin = self.directory.position();
        let result = self.call(after, false, call);
        match result.as_ref().err().and_then(|error| error.downcast_ref()) {
            Some(Error::Full { .. }) if self.settings.chunks_max < 200 => {
                self.history.returned(begin, self.directory.position(), None, false);
                Ok(())
            }
            _ => result,
        }
    }

    fn stage(&mut self, batches: &[Vec<u16>], seed: u64, kept: bool) -> Result<()> {
        let mut state = self.state();
        let mut changed = false;
        for (lens, number) in batches.iter().zip(0..) {
            let records = records(lens, seed.wrapping_add(number), &state, &self.settings);
            let packed: Vec<PackedRecord> =
                records.iter().map(|record| PackedRecord::raw(record)).collect::<Result<_, _>>()?;
            let bytes = records.concat();
            let mut full = false;
            self.call(None, false, |store| {
                let segment = Segment { bytes: &bytes, records: &packed };
                match store.writer()?.stage(&[segment]) {
                    Err(Error::Full { .. }) => full = true,
                    result => drop(result?),
                }
                Ok(())
            })?;
            if !full {
                changed |= !records.is_empty();
                state.records.extend(records.into_iter().map(Some));
            }
        }
        let after = (kept && changed).then_some(state);
        self.call(after, false, |store| match kept {
            true => store.writer()?.commit_staged(),
            false => {
                store.writer()?.discard_staged();
                Ok(())
            }
        })
    }

    fn delete(&mut self, picks: &[u64]) -> Result<()> {
        let mut state = self.state();
        let length = state.records.len() as u64;
        let mut indices: Vec<u64> =
            picks.iter().filter_map(|pick| pick.checked_rem(length)).collect();
        let call = indices.clone();
        indices.sort_unstable();
        indices.dedup();
        for index in indices.iter().rev() {
            state.records.swap_remove(usize::try_from(*index)?);
        }
        if self.settings.format == Format::Extended {
            state.generation += 1;
        }
        let changes = !indices.is_empty();
        self.call_or_damaged(changes.then_some(state), changes, |store| store.delete(&call))
    }

    /// Compacts, and checks that nothing is left to give back.
    ///
    /// # Errors
    ///
    /// As [`apply_all`](Self::apply_all).
    pub fn compact(&mut self) -> Result<()> {
        let limit = usize::try_from(self.settings.chunks_max)?;
        let mut full = false;
        self.call_or_damaged(None, true, |store| match store.compact(&mut |_| {}) {
            // Only when no number is free, the tail's counted.
            Err(Error::Full { .. }) if store.reader().chunk_usage()?.len() + 1 >= limit => {
                full = true;
                Ok(())
            }
            result => result.map(drop),
        })?;
        if !full && !self.state().is_damaged() {
            let stats = self.store()?.stats()?;
            ensure!(stats.reclaimable == 0, "after compacting: {stats:?}");
            let leftovers = self.store()?.reader().leftovers()?;
            ensure!(leftovers.is_empty(), "compacting left {leftovers:?}");
        }
        Ok(())
    }

    fn add_dictionary(&mut self, which: usize) -> Result<()> {
        let mut state = self.state();
        let Some(bytes) = dictionaries().get(which) else { bail!("dictionary {which} is missing") };
        if self.settings.format == Format::Classic {
            state.dictionaries.clear();
        }
        state.dictionaries.push(bytes.as_slice().into());
        let begin = self.directory.position();
        let result =
            self.call_or_damaged(Some(state), true, |store| store.writer()?.add_dictionary(bytes));
        match result.as_ref().err().and_then(|error| error.downcast_ref()) {
            // A record uses the one that there is.
            Some(Error::Unsupported { .. }) if self.settings.format == Format::Classic => {
                self.history.returned(begin, self.directory.position(), None, false);
                Ok(())
            }
            _ => result,
        }
    }

    fn set_schema(&mut self, dense: bool) -> Result<()> {
        let mut state = self.state();
        if state.schema.is_some() || !state.records.is_empty() {
            return Ok(());
        }
        let (kind, shape) = match dense {
            true => (Kind::Dense, vec![u64::from(DENSE_LEN)]),
            false => (Kind::Ragged, Vec::new()),
        };
        let schema = Schema::new(kind, Dtype::parse("|u1")?, shape, Codec::Zstd, Vec::new())?;
        state.schema = Some(schema.encode(self.settings.format)?);
        self.call(Some(state), true, |store| store.writer()?.set_schema(&schema))
    }

    /// Checks that the writer reads what it wrote and finds no fault.
    ///
    /// # Errors
    ///
    /// What it found.
    pub fn check(&mut self) -> Result<()> {
        let state = self.state();
        let store = self.store()?;
        let observed = Observed::read(store).context("the writer's own reading")?;
        let states = [Some(state.clone())];
        let promise =
            Promise { states: &states, damages: false, before: &[], killed: true, torn: false };
        if observed.find(&promise).is_none() {
            bail!("the writer itself reads {}", observed.difference(&state));
        }
        if !state.is_damaged() {
            let faults = store.reader().verify_structure()?;
            ensure!(faults.is_empty(), "faults of structure: {faults:?}");
            let faults = store.verify_records(0..u64::MAX)?;
            ensure!(faults.is_empty(), "faults of records: {faults:?}");
        }
        Ok(())
    }
}
