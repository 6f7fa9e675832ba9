//! What a store promises to hold, as plain values.

use std::rc::Rc;

use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::error::Result;
use zrecord_core::format::Format;
use zrecord_core::storage::Directory;
use zrecord_core::store::Store;

/// The bytes of a record; `None` for one that a loss of power has damaged, of
/// which nothing is known any more.
pub type Record = Option<Rc<[u8]>>;

/// Everything that a user put into a store.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The records, in order.
    pub records: Vec<Record>,
    /// `schema.msgpack` of a typed store.
    pub schema: Option<Vec<u8>>,
    /// The dictionaries, in order.
    pub dictionaries: Vec<Rc<[u8]>>,
    /// Rises with each delete, in the extended format.
    pub generation: u64,
}

impl State {
    /// True when a loss of power has damaged a record.
    pub fn is_damaged(&self) -> bool {
        self.records.contains(&None)
    }
}

/// One call of a workload: where in the log it began and ended, and which
/// states it may leave.
#[derive(Clone, Copy, Debug)]
struct Call {
    begin: usize,
    end: usize,
    /// The state that it leads to.
    after: usize,
    /// The state that survives a loss of power once it has returned.
    durable: usize,
}

/// The states that a workload went through, in order; `None` is no store.
#[derive(Clone, Debug)]
pub struct History {
    states: Vec<Option<State>>,
    calls: Vec<Call>,
}

/// What may be found after a crash: one of some consecutive states.
#[derive(Clone, Copy, Debug)]
pub struct Promise<'a> {
    /// The states, oldest first.
    pub states: &'a [Option<State>],
    /// Records that were never durable may be damaged.
    pub damages: bool,
    /// After a kill: the states before these, from the one that is durable.
    /// A loss of power may still bring them back.
    pub before: &'a [Option<State>],
    /// True when the system lives on.
    pub killed: bool,
    /// The kill cut a write in two.
    pub torn: bool,
}

impl History {
    /// It begins with a durable state, and others that followed it and are not
    /// durable.
    pub fn new(states: Vec<Option<State>>) -> Self {
        let call = Call { begin: 0, end: 0, after: states.len().saturating_sub(1), durable: 0 };
        Self { states, calls: vec![call] }
    }

    /// The newest state.
    pub fn state(&self) -> Option<&State> {
        self.states.last()?.as_ref()
    }

    /// A call has returned that began at position `begin` of the log and ended
    /// at `end`; it led to `after`, if that is another state, and made
    /// everything durable, if it says so.
    pub fn returned(&mut self, begin: usize, end: usize, after: Option<State>, durable: bool) {
        if let Some(state) = after {
            self.states.push(Some(state));
        }
        let after = self.states.len() - 1;
        let before = self.calls.last().map_or(0, |call| call.durable);
        let durable = if durable { after } else { before };
        self.calls.push(Call { begin, end, after, durable });
    }

    /// What is promised after a crash at position `at`; when `torn`, within
    /// the change at that position.
    pub fn promise(&self, at: usize, torn: bool, killed: bool, format: Format) -> Promise<'_> {
        let returned = self.calls.partition_point(|call| call.end <= at);
        let under_way = self.calls.get(returned).filter(|call| call.begin < at + usize::from(torn));
        // The first call is the beginning itself, which ends at 0.
        let last = &self.calls[returned.saturating_sub(1)];
        let oldest = if killed { last.after } else { last.durable };
        let newest = under_way.map_or(last.after, |call| call.after);
        let states = &self.states[oldest..=newest];
        let damages = !killed && format == Format::Classic;
        Promise { states, damages, before: &self.states[last.durable..oldest], killed, torn }
    }
}

impl Promise<'_> {
    /// How many leading records of a state were durable at the oldest one: what
    /// a delete left of them, if one came between.
    fn durable_records(&self, at: usize) -> usize {
        let count = |state: &Option<State>| state.as_ref().map_or(0, |state| state.records.len());
        self.states[..=at].iter().map(count).min().unwrap_or(0)
    }
}

/// What a handle reads.
#[derive(Debug)]
pub struct Observed {
    records: Vec<Record>,
    schema: Option<Vec<u8>>,
    dictionaries: Vec<Vec<u8>>,
    generation: u64,
}

impl Observed {
    /// Reads everything.
    ///
    /// # Errors
    ///
    /// Those of the store, but for a record that cannot be read in a classic
    /// store: it counts as damaged.
    pub fn read<D: Directory>(store: &mut Store<D, Libzstd>) -> Result<Self> {
        let format = store.format();
        let schema = store.schema()?.map(|schema| schema.encode(format)).transpose()?;
        let count = store.reader().commit().dictionaries;
        let numbers = (0..count).map_while(|number| u8::try_from(number).ok());
        let dictionaries =
            numbers.map(|number| store.reader().dictionary(number)).collect::<Result<_>>()?;
        // The classic format has none on the disk.
        let generation = match format {
            Format::Extended => store.reader().commit().generation,
            Format::Classic => 0,
        };
        Ok(Self { records: read_records(store)?, schema, dictionaries, generation })
    }

    /// Which promised state this is, the newest first, with its damaged
    /// records forgotten.
    pub fn find(&self, promise: &Promise<'_>) -> Option<(usize, State)> {
        let find = |damages: bool| {
            promise.states.iter().enumerate().rev().find_map(|(at, state)| {
                let state = state.as_ref()?;
                let all = state.records.len();
                let intact = if damages { promise.durable_records(at) } else { all };
                let found = self.compare(state, intact, promise)?;
                Some((at, State { generation: self.generation, ..found }))
            })
        };
        find(false).or_else(|| if promise.damages { find(true) } else { None })
    }

    fn compare(&self, state: &State, intact: usize, promise: &Promise<'_>) -> Option<State> {
        let generation = match promise.killed {
            // Half a slot may be that of a recovery which cut, and had raised it.
            true => state.generation.wrapping_sub(self.generation) <= u64::from(promise.torn),
            // A recovery that cut has raised it.
            false => self.generation >= state.generation,
        };
        let same = self.records.len() == state.records.len()
            && self.schema == state.schema
            && self.dictionaries.iter().eq(state.dictionaries.iter().map(|bytes| &**bytes))
            && generation;
        if !same {
            return None;
        }
        let mut records = Vec::with_capacity(state.records.len());
        for (index, (found, expected)) in self.records.iter().zip(&state.records).enumerate() {
            match expected {
                None => records.push(None),
                Some(_) if found == expected => records.push(expected.clone()),
                Some(_) if index >= intact => records.push(None),
                Some(_) => return None,
            }
        }
        Some(State { records, ..state.clone() })
    }

    /// How this differs from a state, in a line.
    pub fn difference(&self, state: &State) -> String {
        let (found, expected) = (self.records.len(), state.records.len());
        if found != expected {
            return format!("{found} records, not {expected}");
        }
        if self.schema != state.schema {
            return "another schema".into();
        }
        if !self.dictionaries.iter().eq(state.dictionaries.iter().map(|bytes| &**bytes)) {
            let (found, expected) = (self.dictionaries.len(), state.dictionaries.len());
            return format!("other dictionaries ({found}, not {expected})");
        }
        let differs =
            |(found, expected): &(&Record, &Record)| expected.is_some() && found != expected;
        let mut pairs = self.records.iter().zip(&state.records);
        match pairs.position(|pair| differs(&pair)) {
            Some(index) => format!("record {index} of {expected} is another or unreadable"),
            None => format!("generation {}, not {}", self.generation, state.generation),
        }
    }
}

fn read_records<D: Directory>(store: &mut Store<D, Libzstd>) -> Result<Vec<Record>> {
    let indices: Vec<u64> = (0..store.len()).collect();
    match store.gather(&indices, u64::MAX) {
        Ok(batch) => return Ok(batch.iter().map(|record| Some(record.into())).collect()),
        Err(error) if store.format() == Format::Extended => return Err(error),
        Err(_) => {}
    }
    let mut records = Vec::with_capacity(indices.len());
    for index in indices {
        records.push(match store.gather(&[index], u64::MAX) {
            Ok(batch) => batch.iter().next().map(Into::into),
            Err(error) if error.is_corruption() => None,
            Err(error) => return Err(error),
        });
    }
    Ok(records)
}
