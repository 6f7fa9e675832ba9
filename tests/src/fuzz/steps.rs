//! Changes of a store, one after the other, and the list of byte strings that
//! the store must be equal to after each.

use zrecord_core::codec::Codec;

use super::choices::Choices;
use super::subject::Subject;

/// The most changes in one run.
const STEPS_MAX: usize = 24;
/// The longest record that is appended, in bytes.
const RECORD_LEN_MAX: usize = 600;

/// One change.
#[derive(Clone, Debug)]
pub enum Step {
    /// Appends records of these lengths, with bytes that follow from `seed`.
    Append {
        /// Tried codec.
        codec: Codec,
        /// Lengths in bytes.
        lens: Vec<usize>,
        /// Decides the bytes.
        seed: u8,
    },
    /// Deletes records, picked modulo the length; one past it now and then.
    Delete(Vec<u8>),
    /// Compacts.
    Compact,
    /// Syncs.
    Sync,
    /// Adds a dictionary.
    Train,
    /// Closes and opens again.
    Reopen {
        /// Or as after a kill.
        cleanly: bool,
    },
}

/// A sequence of changes, made of choices.
pub fn choose(choices: &mut Choices<'_>) -> Vec<Step> {
    let count = choices.below(STEPS_MAX);
    (0..count).map(|_| step(choices)).collect()
}

fn step(choices: &mut Choices<'_>) -> Step {
    match choices.any::<u8>() % 16 {
        0..=5 => {
            let (codec, seed, count) =
                (choices.one_of(&Codec::ALL), choices.any(), choices.below(6));
            let len = choices.below(RECORD_LEN_MAX);
            let even: bool = choices.any();
            let lens = (0..count).map(|_| if even { len } else { choices.below(RECORD_LEN_MAX) });
            Step::Append { codec, lens: lens.collect(), seed }
        }
        6..=8 => {
            let count = choices.below(6);
            Step::Delete((0..count).map(|_| choices.any()).collect())
        }
        9..=11 => Step::Compact,
        12 => Step::Sync,
        13 => Step::Train,
        _ => Step::Reopen { cleanly: choices.any() },
    }
}

/// The records of a store, `None` for one that was damaged from the start.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// In order.
    pub records: Vec<Option<Vec<u8>>>,
}

impl Model {
    /// What is there now.
    pub fn of(subject: &mut impl Subject) -> Self {
        let length = subject.length().unwrap_or(0);
        Self { records: (0..length).map(|index| subject.record(index)).collect() }
    }

    /// Demands that every record is there, as it was.
    pub fn check(&self, subject: &mut impl Subject) {
        assert_eq!(subject.length(), Some(self.records.len() as u64));
        for (index, expected) in (0..).zip(&self.records) {
            if expected.is_some() {
                assert_eq!(subject.record(index), *expected, "record {index}");
            }
        }
    }

    /// Makes a change; whether it was made. An error must have changed
    /// nothing, which the next check sees.
    pub fn apply(&mut self, step: &Step, subject: &mut impl Subject) -> bool {
        match step {
            Step::Append { codec, lens, seed } => self.append(*codec, lens, *seed, subject),
            Step::Delete(picks) => self.delete(picks, subject),
            Step::Compact => subject.compact(),
            Step::Sync => subject.sync(),
            Step::Train => subject.train(),
            Step::Reopen { cleanly } => subject.reopen(*cleanly),
        }
    }

    fn append(
        &mut self,
        codec: Codec,
        lens: &[usize],
        seed: u8,
        subject: &mut impl Subject,
    ) -> bool {
        let row = subject.row_bytes().and_then(|row| usize::try_from(row).ok());
        let row = row.filter(|row| (2..=RECORD_LEN_MAX).contains(row));
        let records: Vec<Vec<u8>> = (1..)
            .zip(lens)
            .map(|(number, len)| {
                let step = seed.wrapping_mul(number) % 7;
                let byte = |at: usize| (at as u8).wrapping_mul(step) ^ seed ^ number;
                (0..row.unwrap_or(*len)).map(byte).collect()
            })
            .collect();
        let Some(first) = subject.append(&records, codec) else { return false };
        assert_eq!(first, self.records.len() as u64, "the index of the first");
        self.records.extend(records.into_iter().map(Some));
        true
    }

    fn delete(&mut self, picks: &[u8], subject: &mut impl Subject) -> bool {
        let length = self.records.len() as u64;
        let index = |pick: &u8| match *pick {
            u8::MAX => length,
            pick => u64::from(pick) % length.max(1),
        };
        let mut indices: Vec<u64> = picks.iter().map(index).collect();
        if !subject.delete(&indices) {
            return false;
        }
        assert!(indices.iter().all(|index| *index < length), "what is not there was deleted");
        indices.sort_unstable();
        indices.dedup();
        for index in indices.into_iter().rev() {
            self.records.swap_remove(usize::try_from(index).unwrap());
        }
        true
    }
}
