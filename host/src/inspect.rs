//! What can be said of a store by its header and its record table.

use std::collections::BTreeMap;
use std::sync::Arc;

use zrecord_core::Result;
use zrecord_core::format::{Format, classic, extended};
use zrecord_core::schema::Schema;
use zrecord_core::usage::Stats;

use crate::handle::Handle;

/// What a store is and holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// Its format.
    pub format: Format,
    /// The format's version.
    pub version: u32,
    /// Its id, in a format that has one.
    pub id: Option<[u8; 16]>,
    /// What its records mean, if it is typed.
    pub schema: Option<Arc<Schema>>,
    /// Its counts.
    pub stats: Stats,
    /// How many records are stored in each codec, by the codec's number.
    pub codecs: [u64; 3],
    /// Lengths of records in bytes; `None` when there are none.
    pub lengths: Option<Lengths>,
    /// True when everything survives a loss of power. Always so in a classic
    /// store, which cannot tell.
    pub clean: bool,
    /// Rises when records are renumbered.
    pub generation: u64,
    /// The length of every record, where each is raw, of that length and in
    /// order; else 0.
    pub stride: u32,
}

/// How lengths are spread, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// The shortest.
    pub min: u32,
    /// The one in the middle; the lower one of two.
    pub median: u32,
    /// The longest.
    pub max: u32,
}

impl Handle {
    /// See [`Store::inspect`](crate::Store::inspect).
    pub(crate) fn inspect(&self) -> Result<Inspection> {
        let mut reading = self.share()?;
        self.follow(&mut reading)?;
        let stats = {
            let mut reader = self.reader()?;
            reader.refresh()?;
            reader.stats()?
        };
        let commit = &reading.snapshot.commit;
        let table = reading.files.table.view(commit.length)?;
        let mut codecs = [0; 3];
        let mut counts = BTreeMap::<u32, u64>::new();
        for index in 0..commit.length {
            let location = table.location(index)?;
            codecs[usize::from(location.codec.number())] += 1;
            *counts.entry(location.len).or_default() += 1;
        }
        table.check_file()?;
        Ok(Inspection {
            format: self.format(),
            version: match self.format() {
                Format::Classic => u32::from(classic::VERSION),
                Format::Extended => extended::VERSION,
            },
            id: self.identity.id(),
            schema: self.schema()?,
            stats,
            codecs,
            lengths: lengths(&counts, commit.length),
            clean: commit.is_clean(),
            generation: commit.generation,
            stride: commit.stride,
        })
    }
}

pub(crate) fn lengths(counts: &BTreeMap<u32, u64>, total: u64) -> Option<Lengths> {
    let (&min, _) = counts.first_key_value()?;
    let (&max, _) = counts.last_key_value()?;
    let mut below = 0;
    let median = counts.iter().find(|(_, count)| {
        below += **count;
        below * 2 >= total
    });
    Some(Lengths { min, median: median.map_or(max, |(median, _)| *median), max })
}
