//! What can be said of a store by its header and its record table, as the
//! component reads them.

use std::collections::BTreeMap;

use zrecord_core::format::Format;
use zrecord_core::usage::Stats;

use crate::error::Result;
use crate::inspect::{Inspection, lengths};
use crate::sandbox::failure::Failure;
use crate::sandbox::store::{Sandbox, Session};
use crate::sandbox::wire;

/// How many lengths are asked for at once.
const LENGTHS_PER_CALL: u64 = 1 << 16;

impl Sandbox {
    /// Everything that can be said of the store without reading its chunks.
    ///
    /// # Errors
    ///
    /// `Closed`, IO errors, entries that no writer writes.
    pub fn inspect(&self) -> Result<Inspection> {
        self.with(Session::inspect)
    }

    /// Counts of the store.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    pub fn stats(&self) -> Result<Stats> {
        self.with(|session| {
            session.follow()?;
            session.stats()
        })
    }
}

impl Session {
    fn stats(&mut self) -> Result<Stats, Failure> {
        let usage = self.call(|guest, wasm, store| guest.call_usage(wasm, store))?;
        let (mut live_bytes, mut plain_bytes) = (self.info.stored_bytes, self.info.plain_bytes);
        if wire::format(self.info.format) == Format::Classic {
            let sum = self.summarise(0..self.info.length)?;
            (live_bytes, plain_bytes) = (sum.stored_bytes, sum.plain_bytes);
        }
        Ok(Stats {
            records: self.info.length,
            live_bytes,
            plain_bytes,
            chunk_bytes: usage.chunk_bytes,
            reclaimable: usage.reclaimable_bytes,
            chunks: usage.chunks,
            dictionaries: self.info.dictionaries,
        })
    }

    fn inspect(&mut self) -> Result<Inspection, Failure> {
        let schema = self.schema()?;
        let stats = self.stats()?;
        let length = self.info.length;
        let codecs = self.summarise(0..length)?.codecs;
        let mut counts = BTreeMap::<u32, u64>::new();
        let mut first = 0;
        while first < length {
            let end = length.min(first + LENGTHS_PER_CALL);
            let indices: Vec<u64> = (first..end).collect();
            for len in self.lengths(&indices)? {
                *counts.entry(len).or_default() += 1;
            }
            first = end;
        }
        Ok(Inspection {
            format: wire::format(self.info.format),
            version: self.info.version,
            id: wire::id(&self.info)?,
            schema,
            stats,
            codecs,
            lengths: lengths(&counts, length),
            clean: self.info.durable_length == length,
            generation: self.info.generation,
            stride: self.info.stride,
        })
    }
}
