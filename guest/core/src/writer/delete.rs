//! Deleting records: the last records move into the holes, as loaderx does it.

use std::collections::BTreeMap;

use super::Writer;
use crate::error::{Error, Result};
use crate::storage::Directory;

impl<D: Directory> Writer<D> {
    /// Deletes records, in any order, duplicates allowed; durable when it
    /// returns. From the highest index down, each hole is filled with the
    /// record that is then the last, so indices are renumbered. Bytes stay
    /// until [`compact`](Writer::compact).
    ///
    /// Rewrites the whole record table: 24 MB per million records (16 MB in
    /// the classic format).
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] before anything is changed.
    pub fn delete(&mut self, indices: &[u64]) -> Result<()> {
        self.check_settled()?;
        let length = self.commit().length;
        if let Some(&index) = indices.iter().find(|&&index| index >= length) {
            return Err(Error::OutOfRange { index, length });
        }
        if indices.is_empty() {
            return Ok(());
        }
        self.sync()?;
        let (remaining, moved) = renumber(indices, length);
        let result = self.delete_into_new_table(remaining, &moved);
        if result.is_err() {
            self.abandon_table();
        }
        result
    }

    fn delete_into_new_table(&mut self, remaining: u64, moved: &BTreeMap<u64, u64>) -> Result<()> {
        let sources: Vec<u64> = moved.values().copied().collect();
        let mut replacements =
            moved.keys().copied().zip(self.reader.locations(&sources)?).peekable();
        let mut table = self.begin_table()?;
        self.reader.scan(0..remaining, |index, location| {
            match replacements.next_if(|(hole, _)| *hole == index) {
                Some((_, replacement)) => table.push(&replacement),
                None => table.push(&location),
            }
        })?;
        self.finish_table(table, |commit| commit.generation = commit.generation.wrapping_add(1))
    }
}

/// How many records remain, and which of them now stand at which index
/// (only those that moved).
fn renumber(indices: &[u64], length: u64) -> (u64, BTreeMap<u64, u64>) {
    let mut holes = indices.to_vec();
    holes.sort_unstable();
    holes.dedup();
    let mut moved: BTreeMap<u64, u64> = BTreeMap::new();
    let mut remaining = length;
    for &hole in holes.iter().rev() {
        remaining -= 1;
        let last = moved.remove(&remaining).unwrap_or(remaining);
        if hole != remaining {
            moved.insert(hole, last);
        }
    }
    (remaining, moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_record_moves_into_each_hole() {
        let (remaining, moved) = renumber(&[1, 5, 5, 15], 16);
        assert_eq!(remaining, 13);
        assert_eq!(moved, BTreeMap::from([(1, 13), (5, 14)]));
    }

    #[test]
    fn renumbering_is_what_removing_one_by_one_does() {
        // Every subset; an interpreter needs minutes for those of ten.
        let length = if cfg!(miri) { 5 } else { 10 };
        for mask in 0_u32..1 << length {
            let deleted: Vec<u64> = (0..length).filter(|bit| mask >> bit & 1 == 1).collect();
            let mut expected: Vec<u64> = (0..length).collect();
            for &index in deleted.iter().rev() {
                expected.swap_remove(usize::try_from(index).unwrap());
            }
            let (remaining, moved) = renumber(&deleted, length);
            let found: Vec<u64> =
                (0..remaining).map(|index| *moved.get(&index).unwrap_or(&index)).collect();
            assert_eq!(found, expected);
        }
    }
}
