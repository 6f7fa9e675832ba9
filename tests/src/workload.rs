//! Random changes of a store that two processes can agree on: what is done is
//! a pure function of a seed and of how long the store is, so whoever counts
//! what was acknowledged knows what must be there.

use anyhow::{Context, Result, ensure};
use zrecord_host::{Codec, Format, Store};

/// Above this many records a workload deletes more than it appends.
const LENGTH_GOAL: u64 = 150;
/// The longest of the usual records, in bytes.
const LEN_MAX: u64 = 2_500;

/// A small generator, so that runs can be repeated.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// The next number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit.max(1)
    }
}

/// The bytes of a record, which tell its number: some compress, some do not.
pub fn record(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let len = 8 + random.below(LEN_MAX);
    let is_smooth = random.below(2) == 0;
    let mut bytes = number.to_le_bytes().to_vec();
    while (bytes.len() as u64) < len {
        let word = if is_smooth { number } else { random.draw() };
        bytes.extend_from_slice(&word.to_le_bytes()[..6]);
    }
    bytes
}

/// Records one behind the other, and where each begins.
pub fn pack(numbers: &[u64]) -> (Vec<u8>, Vec<u64>) {
    let (mut src, mut offsets) = (Vec::new(), Vec::new());
    for &number in numbers {
        offsets.push(src.len() as u64);
        src.extend_from_slice(&record(number));
    }
    (src, offsets)
}

/// The numbers of all records of a store.
///
/// # Errors
///
/// When one cannot be read, or is not what was written by its number.
pub fn numbers(store: &Store) -> Result<Vec<u64>> {
    let indices: Vec<u64> = (0..store.len()?).collect();
    let (mut bounds, mut end) = (Vec::new(), 0);
    for len in store.lengths(&indices)? {
        bounds.push(end);
        end += u64::from(len);
    }
    let mut bytes = vec![0; usize::try_from(end)?];
    store.gather(&indices, &mut bytes, &bounds)?;
    bounds.push(end);
    let mut numbers = Vec::with_capacity(indices.len());
    for (index, pair) in bounds.windows(2).enumerate() {
        let found = &bytes[usize::try_from(pair[0])?..usize::try_from(pair[1])?];
        let (number, _) = found.split_first_chunk().context("a record without its number")?;
        let number = u64::from_le_bytes(*number);
        ensure!(found == record(number), "record {index} is not what was written");
        numbers.push(number);
    }
    Ok(numbers)
}

/// One change of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Append records as one commit.
    Append {
        /// The records, by number.
        numbers: Vec<u64>,
        /// How they are stored; one without a dictionary where there is none.
        codec: Codec,
    },
    /// Append records in two stages, which count at once.
    Stage {
        /// The records, by number.
        numbers: Vec<u64>,
    },
    /// Delete records.
    Delete {
        /// Their indices.
        indices: Vec<u64>,
    },
    /// Give dead bytes back.
    Compact,
    /// Train a dictionary; a classic store that uses its one refuses.
    Train,
    /// Sync.
    Sync,
    /// Close the store and open it again.
    Reopen,
    /// Convert the store into the other format beside it.
    Convert,
    /// Put another store into its place.
    Replace {
        /// The records of that one, by number.
        numbers: Vec<u64>,
    },
}

impl Operation {
    /// What it is called in a report.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Append { .. } => "append",
            Self::Stage { .. } => "staged append",
            Self::Delete { .. } => "delete",
            Self::Compact => "compact",
            Self::Train => "train",
            Self::Sync => "sync",
            Self::Reopen => "close and open",
            Self::Convert => "convert",
            Self::Replace { .. } => "replace",
        }
    }

    /// What it does to the numbers of the records.
    pub fn apply(&self, model: &mut Vec<u64>) {
        match self {
            Self::Append { numbers, .. } | Self::Stage { numbers } => {
                model.extend_from_slice(numbers);
            }
            Self::Delete { indices } => {
                let mut holes = indices.clone();
                holes.sort_unstable();
                holes.dedup();
                for hole in holes.into_iter().rev() {
                    model.swap_remove(usize::try_from(hole).unwrap_or(usize::MAX));
                }
            }
            Self::Replace { numbers } => model.clone_from(numbers),
            Self::Compact | Self::Train | Self::Sync | Self::Reopen | Self::Convert => {}
        }
    }
}

/// An endless sequence of operations.
#[derive(Clone, Debug)]
pub struct Workload {
    random: Random,
    length: u64,
    next_number: u64,
}

impl Workload {
    /// A sequence for a store of `length` records; new records get numbers
    /// from `next_number` on.
    pub fn new(seed: u64, length: u64, next_number: u64) -> Self {
        Self { random: Random::new(seed), length, next_number }
    }

    fn numbers(&mut self, count: u64) -> Vec<u64> {
        let first = self.next_number;
        self.next_number += count;
        (first..self.next_number).collect()
    }

    fn appended(&mut self) -> Operation {
        let count = 1 + self.random.below(25);
        let numbers = self.numbers(count);
        self.length += count;
        if self.random.below(4) == 0 {
            return Operation::Stage { numbers };
        }
        let codecs = [Codec::Raw, Codec::Zstd, Codec::ZstdDict];
        let codec = codecs[usize::try_from(self.random.below(3)).unwrap_or_default()];
        Operation::Append { numbers, codec }
    }

    fn deleted(&mut self) -> Operation {
        let count = 1 + self.random.below(self.length.min(30));
        let mut indices: Vec<u64> = (0..count).map(|_| self.random.below(self.length)).collect();
        let given = indices.clone();
        indices.sort_unstable();
        indices.dedup();
        self.length -= indices.len() as u64;
        Operation::Delete { indices: given }
    }

    fn replaced(&mut self) -> Operation {
        let count = self.random.below(40);
        self.length = count;
        Operation::Replace { numbers: self.numbers(count) }
    }
}

impl Iterator for Workload {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        let prefers_delete = self.length > self.random.below(2 * LENGTH_GOAL);
        Some(match self.random.below(100) {
            0..50 if prefers_delete => self.deleted(),
            0..50 => self.appended(),
            50..66 => Operation::Compact,
            66..78 => Operation::Convert,
            78..86 => Operation::Train,
            86..92 => self.replaced(),
            92..96 => Operation::Sync,
            _ => Operation::Reopen,
        })
    }
}

/// The format that is not this one.
pub fn other(format: Format) -> Format {
    match format {
        Format::Classic => Format::Extended,
        Format::Extended => Format::Classic,
    }
}
