//! Reading records inside a sandbox: large requests in several calls, answers
//! checked before they are used.

use std::ops::Range;

use zrecord_core::Error as CoreError;
use zrecord_core::format::RecordLocation;
use zrecord_core::summary::Summary;

use crate::error::Result;
use crate::gather::{Places, overlap};
use crate::sandbox::failure::{Failure, SandboxError};
use crate::sandbox::store::{Sandbox, Session};
use crate::sandbox::wire;

/// One call is about at most this many records, whatever their lengths.
const INDICES_PER_CALL: usize = 1 << 16;
/// One call gathers at most so many bytes, unless a record alone has more. On
/// their way out of a file and through the component they are copied several
/// times: so many stay in the cache meanwhile, and the memory for them need not
/// be had from the system anew.
const GATHER_BYTES_PER_CALL: u64 = 512 << 10;
/// One call sums up at most this many.
const RECORDS_PER_SUMMARY: u64 = 1 << 20;

impl Sandbox {
    /// The lengths of records in bytes.
    ///
    /// # Errors
    ///
    /// `OutOfRange`, `CorruptRecord`.
    pub fn lengths(&self, indices: &[u64]) -> Result<Vec<u32>> {
        self.with(|session| {
            session.follow_to(indices)?;
            session.lengths(indices)
        })
    }

    /// Where records lie, and how they are packed.
    ///
    /// # Errors
    ///
    /// As [`lengths`](Self::lengths).
    pub fn locations(&self, indices: &[u64]) -> Result<Vec<RecordLocation>> {
        self.with(|session| {
            session.follow_to(indices)?;
            let mut rows = Vec::with_capacity(indices.len());
            for indices in indices.chunks(INDICES_PER_CALL) {
                let columns = session
                    .call(|guest, wasm, store| guest.call_locations(wasm, store, indices))?;
                rows.extend(wire::locations(&columns, indices.len())?);
            }
            Ok(rows)
        })
    }

    /// Gathers records: record `indices[i]` lands at `dst[offsets[i]..]`.
    /// Other bytes of `dst` stay as they are.
    ///
    /// # Errors
    ///
    /// As [`Store::gather`](crate::Store::gather), and `TooLarge` before a
    /// byte is written for a record longer than
    /// [`Limits::call_bytes`](crate::sandbox::Limits::call_bytes).
    pub fn gather(&self, indices: &[u64], dst: &mut [u8], offsets: &[u64]) -> Result<()> {
        self.with(|session| session.gather(indices, dst, Places::Offsets(offsets)))
    }

    /// Gathers records of `record_len` bytes, one behind the other.
    ///
    /// # Errors
    ///
    /// As [`gather`](Self::gather), and `SchemaMismatch` for a record of
    /// another length.
    pub fn gather_packed(&self, indices: &[u64], dst: &mut [u8], record_len: u64) -> Result<()> {
        self.with(|session| session.gather(indices, dst, Places::Packed(record_len)))
    }

    /// The first bytes of a record, at most `max_bytes` and at most
    /// [`Limits::call_bytes`](crate::sandbox::Limits::call_bytes). Its checksum
    /// is compared only where all of it is read.
    ///
    /// # Errors
    ///
    /// As [`gather`](Self::gather), but for `TooLarge`.
    pub fn read_prefix(&self, index: u64, max_bytes: u64) -> Result<Vec<u8>> {
        self.with(|session| {
            session.follow_to(&[index])?;
            let most = max_bytes.min(session.instance.limits().call_bytes);
            let read = |session: &mut Session| {
                session.call(|guest, wasm, store| guest.call_read_prefix(wasm, store, index, most))
            };
            let bytes = read(session)?;
            if bytes.len() as u64 > most {
                return Err(other_than_asked());
            }
            Ok(bytes)
        })
    }

    /// Counts of a range of records, by the record table alone. A range may
    /// end behind the last record.
    ///
    /// # Errors
    ///
    /// `CorruptRecord`, IO errors.
    pub fn summarise(&self, range: Range<u64>) -> Result<Summary> {
        self.with(|session| {
            let end = range.end.min(session.len()?);
            session.summarise(range.start..end)
        })
    }

    /// The bytes of a dictionary.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` when there is none of that number, `Corrupt`.
    pub fn dictionary(&self, number: u8) -> Result<Vec<u8>> {
        self.with(|session| {
            session.follow()?;
            session.call(|guest, wasm, store| guest.call_dictionary(wasm, store, number))
        })
    }
}

impl Session {
    /// Refuses indices that the store does not have, nor its newest commit.
    fn follow_to(&mut self, indices: &[u64]) -> Result<(), Failure> {
        let Some(&highest) = indices.iter().max() else { return Ok(()) };
        if highest >= self.info.length {
            self.follow()?;
        }
        let length = self.info.length;
        match indices.iter().find(|index| **index >= length) {
            Some(&index) => Err(CoreError::OutOfRange { index, length }.into()),
            None => Ok(()),
        }
    }

    /// The lengths of records that the store has.
    pub(super) fn lengths(&mut self, indices: &[u64]) -> Result<Vec<u32>, Failure> {
        let mut lengths = Vec::with_capacity(indices.len());
        for indices in indices.chunks(INDICES_PER_CALL) {
            let part = self.call(|guest, wasm, store| guest.call_lengths(wasm, store, indices))?;
            if part.len() != indices.len() {
                return Err(other_than_asked());
            }
            lengths.extend(part);
        }
        Ok(lengths)
    }

    /// Counts of records that the store has.
    pub(super) fn summarise(&mut self, range: Range<u64>) -> Result<Summary, Failure> {
        let mut sum = Summary::default();
        let mut first = range.start;
        while first < range.end {
            let count = RECORDS_PER_SUMMARY.min(range.end - first);
            let part =
                self.call(|guest, wasm, store| guest.call_summarise(wasm, store, first, count))?;
            sum.merge(&wire::summary(&part)?);
            first += count;
        }
        Ok(sum)
    }

    fn gather(
        &mut self,
        indices: &[u64],
        dst: &mut [u8],
        places: Places<'_>,
    ) -> Result<(), Failure> {
        self.follow_to(indices)?;
        places.check_count(indices.len())?;
        let stride = self.info.stride;
        if stride != 0 && !self.is_writer() {
            // Known without asking. What goes wrong is for the table to say,
            // since the header may have lied.
            let done = self.fetch(indices, &vec![stride; indices.len()], dst, places);
            if done.is_ok() || self.instance.has_ended() {
                return done;
            }
        }
        let lengths = self.lengths(indices)?;
        self.fetch(indices, &lengths, dst, places)
    }

    /// Gathers records of these lengths.
    fn fetch(
        &mut self,
        indices: &[u64],
        lengths: &[u32],
        dst: &mut [u8],
        places: Places<'_>,
    ) -> Result<(), Failure> {
        let batch = Batch::plan(indices, lengths, dst.len(), places)?;
        let most = self.instance.limits().call_bytes;
        if let Some(position) = lengths.iter().position(|len| u64::from(*len) > most) {
            let (index, len) = (position as u64, lengths[position].into());
            return Err(CoreError::TooLarge { index, len, limit: most }.into());
        }
        let mut first = 0;
        while first < indices.len() {
            let asked = batch.part(first, most.min(GATHER_BYTES_PER_CALL));
            let part = &indices[asked.clone()];
            let got = self.call(|guest, wasm, store| guest.call_gather(wasm, store, part, most))?;
            first += batch.put(asked, &got.bytes, &got.ends, dst)?;
        }
        Ok(())
    }
}

/// Where the records of a gather belong.
struct Batch {
    places: Vec<Range<usize>>,
}

impl Batch {
    /// Checks everything that can be checked before a byte is written.
    fn plan(
        indices: &[u64],
        lengths: &[u32],
        size: usize,
        wanted: Places<'_>,
    ) -> zrecord_core::Result<Self> {
        let place = |(position, (&index, &len))| wanted.place(position, index, len, size);
        let places: zrecord_core::Result<Vec<_>> =
            indices.iter().zip(lengths).enumerate().map(place).collect();
        let places = places?;
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_unstable_by_key(|&position| (places[position].start, places[position].len()));
        for pair in order.windows(2) {
            let (one, other) = (&places[pair[0]], &places[pair[1]]);
            if one.end > other.start {
                return Err(overlap(indices[pair[0]], indices[pair[1]], other.start));
            }
        }
        Ok(Self { places })
    }

    /// As many records from `first` on as one call may have, at least one.
    fn part(&self, first: usize, most: u64) -> Range<usize> {
        let mut bytes = 0_u64;
        let fits = |place: &&Range<usize>| {
            bytes = bytes.saturating_add(place.len() as u64);
            bytes <= most
        };
        let rest = &self.places[first..];
        let count = rest.iter().take(INDICES_PER_CALL).take_while(fits).count();
        first..first + count.max(1)
    }

    /// Copies the leading records of `asked`, which lie packed in `bytes`, to
    /// their places; returns how many there were.
    fn put(
        &self,
        asked: Range<usize>,
        bytes: &[u8],
        ends: &[u64],
        dst: &mut [u8],
    ) -> Result<usize, Failure> {
        if ends.is_empty() || ends.len() > asked.len() {
            return Err(other_than_asked());
        }
        let mut start = 0;
        for (place, &end) in self.places[asked].iter().zip(ends) {
            let next = start + place.len();
            if end != next as u64 || next > bytes.len() {
                return Err(other_than_asked());
            }
            dst[place.clone()].copy_from_slice(&bytes[start..next]);
            start = next;
        }
        Ok(ends.len())
    }
}

/// The component contradicts itself or its contract.
pub(super) fn other_than_asked() -> Failure {
    SandboxError::answer("its answer is not what was asked for").into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn answers_that_cannot_be_are_refused() {
        let batch = Batch::plan(&[7, 8, 9], &[2, 0, 3], 8, Places::Offsets(&[6, 0, 1])).unwrap();
        let mut dst = [0; 8];
        assert_eq!(batch.put(0..3, b"abcde", &[2, 2, 5], &mut dst).unwrap(), 3);
        assert_eq!(&dst, b"\0cde\0\0ab");
        assert_eq!(batch.put(2..3, b"xyz", &[3], &mut dst).unwrap(), 1);
        assert_eq!(batch.put(0..3, b"ab", &[2], &mut dst).unwrap(), 1, "fewer may come");
        let lies: [(&[u8], &[u64]); 5] = [
            (b"abcde", &[]),
            (b"abcde", &[2, 2, 5, 5]),
            (b"abcde", &[3, 3, 5]),
            (b"abcd", &[2, 2, 5]),
            (b"abcde", &[u64::MAX, 2, 5]),
        ];
        for (bytes, ends) in lies {
            let refused = batch.put(0..3, bytes, ends, &mut dst);
            assert!(matches!(refused, Err(Failure::Sandbox(_))), "{ends:?}");
        }
    }

    #[test]
    fn calls_are_as_large_as_they_may_be() {
        let lengths = [4, 4, 0, 1, 9];
        let batch = Batch::plan(&[0, 1, 2, 3, 4], &lengths, 99, Places::Offsets(&[0, 4, 8, 8, 9]));
        let batch = batch.unwrap();
        assert_eq!(batch.part(0, 8), 0..3);
        assert_eq!(batch.part(3, 8), 3..4);
        assert_eq!(batch.part(4, 8), 4..5, "at least one");
    }
}
