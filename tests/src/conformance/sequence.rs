//! Random changes, made to all implementations in step: after each of them
//! they answer the same, and have the same files.

use super::{Implementation, Likeness, files};
use crate::component::bindings::store::{
    Compression, Error, Format, Info, Kind, Locations, Schema, Summary, Usage,
};
use crate::component::bindings::store_edit::Packing;
use crate::component::contract::{Answer, Contract, records};
use crate::fuzz::codec::trained;
use crate::fuzz::image::Image;

/// A change, or a question.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Appends records in a codec.
    Append(Vec<Vec<u8>>, Compression),
    /// Deletes records; some of them may not be there.
    Delete(Vec<u64>),
    /// Compacts.
    Compact,
    /// Syncs.
    Sync,
    /// Makes it typed, which only an empty store takes.
    SetSchema(Schema),
    /// Adds a dictionary.
    AddDictionary,
    /// Closes and opens again, to be changed.
    Reopen,
    /// Closes, and makes a change that must be refused.
    ChangeClosed,
    /// Rewrites it in the other format.
    Convert,
    /// Gathers records, at most so many bytes.
    Gather(Vec<u64>, u64),
    /// Reads the first bytes of a record.
    Prefix(u64, u64),
}

/// What can be seen of a store after an operation.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    answer: Answer<String>,
    info: Info,
    schema: Answer<Option<Schema>>,
    records: Answer<Vec<Vec<u8>>>,
    locations: Option<Answer<Locations>>,
    summary: Answer<Summary>,
    usage: Option<Answer<Usage>>,
    leftovers: Answer<Vec<String>>,
}

/// Draws operations.
pub struct Draw {
    random: fastrand::Rng,
    /// Codecs of appends.
    codecs: &'static [Compression],
    /// How many bytes every record has, once the store is dense.
    row: Option<usize>,
}

impl Draw {
    /// By a seed, with appends in these codecs.
    pub fn new(seed: u64, codecs: &'static [Compression], row: Option<usize>) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), codecs, row }
    }

    fn record(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let len = match self.row {
            // Now and then one that does not fit.
            Some(row) if random.u8(..20) > 0 => row,
            _ => random.choice([0, 1, 40, 300, 5_000]).unwrap() + random.usize(..9),
        };
        match random.u8(..3) {
            0 => (0..len).map(|_| random.u8(..)).collect(),
            1 => b"sample 4 of 12 with words ".iter().copied().cycle().take(len).collect(),
            _ => vec![random.u8(..); len],
        }
    }

    fn indices(&mut self, length: u64) -> Vec<u64> {
        let count = self.random.usize(..9);
        let past = u64::from(self.random.u8(..12) == 0);
        (0..count).map(|_| self.random.u64(..(length + past).max(1))).collect()
    }

    fn operation(&mut self, length: u64) -> Operation {
        match self.random.u8(..24) {
            0..=7 => {
                let count = self.random.usize(..7);
                let records = (0..count).map(|_| self.record()).collect();
                let codec = self.random.choice(self.codecs).unwrap();
                Operation::Append(records, *codec)
            }
            8..=10 => Operation::Delete(self.indices(length)),
            11 | 12 => Operation::Compact,
            13 => Operation::Sync,
            14 => {
                let (kind, item_shape) = match self.row {
                    Some(row) => (Kind::Dense, vec![row as u64]),
                    None => (Kind::Ragged, vec![]),
                };
                let codec = Compression::Raw;
                let dtype = "|u1".into();
                let row_bytes = item_shape.iter().product();
                let metadata = b"\x81\xa1a\x01".to_vec();
                let schema = Schema { kind, dtype, item_shape, codec, row_bytes, metadata };
                Operation::SetSchema(schema)
            }
            15 => Operation::AddDictionary,
            16 | 17 => Operation::Reopen,
            18 => Operation::ChangeClosed,
            19 => Operation::Convert,
            20 => Operation::Prefix(self.random.u64(..length + 2), self.random.u64(..400)),
            _ => Operation::Gather(self.indices(length), self.random.u64(..20_000)),
        }
    }
}

/// Applies drawn operations to all, and compares after each. Begins over the
/// files of an image, or with a new store of a format.
pub fn run(draw: &mut Draw, count: usize, begin: Result<&Image, Format>) {
    let mut all = super::all(begin.ok());
    for store in &mut all {
        match begin {
            Ok(_) => store.open_to_edit().unwrap(),
            Err(Format::Classic) => store.create(Format::Classic, &[]).unwrap(),
            Err(Format::Extended) => store.create(Format::Extended, &[0x1D; 16]).unwrap(),
        }
    }
    // Another codec's bytes were there from the start, and are the same.
    let mut is_packed_alike = true;
    let mut said = Vec::new();
    for _ in 0..count {
        let operation = draw.operation(all[0].info().length);
        if let Operation::Append(_, codec) = operation {
            is_packed_alike &= codec == Compression::Raw;
        }
        said.push(format!("{operation:?}").chars().take(90).collect::<String>());
        let what = |store: &dyn Implementation| format!("{}: {said:#?}", store.name());
        let expected = seen(&mut *all[0], &operation);
        let (core, others) = all.split_first_mut().unwrap();
        for other in others {
            let mut expected = expected.clone();
            let mut found = seen(&mut **other, &operation);
            let likeness = other.likeness();
            let is_alike = is_packed_alike || likeness != Likeness::PacksOtherwise;
            for seen in [&mut expected, &mut found] {
                seen.forget(likeness, is_alike, &operation);
            }
            assert_eq!(found, expected, "{}", what(&**other));
            if is_alike {
                let is_whole = likeness == Likeness::Whole;
                files::assert_same(&what(&**other), &core.image(), &other.image(), is_whole);
            }
        }
    }
    for store in &mut all {
        assert_eq!(store.verify_structure().unwrap(), [], "{}", store.name());
        assert_eq!(store.verify(0, u64::MAX).unwrap(), [], "{}", store.name());
    }
}

impl Seen {
    /// Forgets what an implementation need not have in common with the core.
    fn forget(&mut self, likeness: Likeness, is_packed_alike: bool, operation: &Operation) {
        if likeness != Likeness::Whole {
            self.info.id = None;
        }
        if likeness != Likeness::Whole && self.info.format == Format::Classic {
            // No file holds it, and a folder's store was opened more often.
            self.info.generation = 0;
        }
        if !is_packed_alike {
            (self.info.stored_bytes, self.info.stride) = (0, 0);
            (self.locations, self.usage) = (None, None);
            if let Ok(summary) = &mut self.summary {
                summary.stored_bytes = 0;
                summary.codecs.clear();
                summary.ratios.clear();
            }
            if let (Operation::Compact, Ok(answer)) = (operation, &mut self.answer) {
                answer.clear();
            }
        }
    }
}

fn seen(store: &mut dyn Contract, operation: &Operation) -> Seen {
    let answer = apply(store, operation);
    let info = store.info();
    let indices: Vec<u64> = (0..info.length).collect();
    Seen {
        answer,
        schema: store.schema(),
        records: records(store),
        locations: Some(store.locations(&indices)),
        summary: store.summarise(0, u64::MAX),
        usage: Some(store.usage()),
        leftovers: store.leftovers(),
        info,
    }
}

fn shown<T: std::fmt::Debug>(answer: Answer<T>) -> Answer<String> {
    answer.map(|answer| format!("{answer:?}"))
}

fn apply(store: &mut dyn Contract, operation: &Operation) -> Answer<String> {
    match operation {
        Operation::Append(records, codec) => {
            let ends = records.iter().scan(0, |end, record| {
                *end += record.len() as u64;
                Some(*end)
            });
            let ends: Vec<u64> = ends.collect();
            let packing = Packing { codec: *codec, level: None, min_saving: None };
            shown(store.append(&records.concat(), &ends, packing))
        }
        Operation::Delete(indices) => shown(store.delete(indices)),
        Operation::Compact => shown(store.compact()),
        Operation::Sync => shown(store.sync()),
        Operation::SetSchema(schema) => shown(store.set_schema(schema)),
        Operation::AddDictionary => {
            // The host closes for it, which syncs.
            store.sync()?;
            shown(store.add_dictionary(trained()))
        }
        Operation::Reopen => {
            store.close()?;
            store.drop_store();
            shown(store.open_to_edit())
        }
        Operation::ChangeClosed => {
            store.close()?;
            let refused = [store.sync(), store.delete(&[0]), store.compact().map(drop)];
            assert!(refused.iter().all(|refused| *refused == Err(Error::ReadOnly)));
            store.drop_store();
            shown(store.open_to_edit())
        }
        Operation::Convert => convert(store),
        Operation::Gather(indices, max_bytes) => shown(store.gather(indices, *max_bytes)),
        Operation::Prefix(index, max_bytes) => shown(store.read_prefix(*index, *max_bytes)),
    }
}

/// A conversion that is refused leaves the store as it is.
fn convert(store: &mut dyn Contract) -> Answer<String> {
    let (format, id) = match store.info().format {
        Format::Classic => (Format::Extended, vec![0x2E; 16]),
        Format::Extended => (Format::Classic, vec![]),
    };
    store.close()?;
    store.drop_store();
    store.open(true)?;
    let begun = store.begin_conversion(format, &id);
    if begun.is_ok() {
        loop {
            let progress = store.step_conversion(u64::MAX)?;
            if progress.done == progress.total {
                break;
            }
        }
        store.take_converted();
    }
    store.drop_store();
    store.open_to_edit()?;
    shown(begun)
}
