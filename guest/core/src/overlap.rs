//! Whether records share bytes, without a list of all records.
//!
//! Records mostly lie in the order of the table, so what is kept is *runs*:
//! neighbouring entries whose records lie one behind the other in one chunk.
//! Only where the spans of runs cross are their records looked at one by one.
//! That is a few runs in a store that was appended to or compacted, some for
//! each deleted record, and at worst one (40 bytes) for each record.

use crate::error::Result;
use crate::format::RecordLocation;
use crate::reader::{Reader, blocks, to_usize};
use crate::storage::{Directory, FileName};
use crate::verify::Fault;

/// Records that lie one behind the other, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    chunk: u32,
    /// Where the first begins and the last ends.
    start: u64,
    end: u64,
    /// The indices of the first and the last.
    first: u64,
    last: u64,
}

/// The places of all records of a store, in the order of the table.
#[derive(Debug, Default)]
pub(crate) struct Places {
    runs: Vec<Run>,
}

impl Places {
    /// Adds the next record.
    pub(crate) fn push(&mut self, index: u64, location: &RecordLocation) {
        if location.stored_len == 0 {
            return;
        }
        let (start, end) = (u64::from(location.offset), location.end());
        match self.runs.last_mut() {
            Some(run) if run.chunk == location.chunk && start >= run.end => {
                (run.end, run.last) = (end, index);
            }
            _ => {
                self.runs.push(Run { chunk: location.chunk, start, end, first: index, last: index })
            }
        }
    }

    /// Reports every record that begins before one that lies in front of it
    /// has ended.
    pub(crate) fn report<D: Directory>(
        mut self,
        reader: &Reader<D>,
        report: &mut dyn FnMut(Fault),
    ) -> Result<()> {
        self.runs.sort_unstable();
        let mut rest = self.runs.as_slice();
        while let Some(first) = rest.first() {
            let mut end = first.end;
            let crossing = rest[1..]
                .iter()
                .take_while(|run| {
                    let crosses = run.chunk == first.chunk && run.start < end;
                    end = end.max(run.end);
                    crosses
                })
                .count();
            let (group, behind) = rest.split_at(crossing + 1);
            rest = behind;
            if crossing > 0 {
                report_overlaps(reader, group, report)?;
            }
        }
        Ok(())
    }
}

/// One by one, for runs of one chunk.
fn report_overlaps<D: Directory>(
    reader: &Reader<D>,
    runs: &[Run],
    report: &mut dyn FnMut(Fault),
) -> Result<()> {
    let format = reader.format();
    let size = to_usize(format.entry_size());
    let mut records = Vec::new();
    let mut bytes = Vec::new();
    for run in runs {
        for (first, count) in blocks(run.first..run.last + 1) {
            reader.entries(first, count, &mut bytes)?;
            for (index, entry) in (first..).zip(bytes.chunks_exact(size)) {
                let Ok(location) = format.decode_entry(entry, index) else { continue };
                if location.stored_len > 0 {
                    records.push((location.offset, location.stored_len, index));
                }
            }
        }
    }
    records.sort_unstable();
    let mut farthest: Option<(u64, u32, u64)> = None;
    for (offset, stored_len, index) in records {
        let end = u64::from(offset) + u64::from(stored_len);
        match farthest {
            Some((before, begins, other)) if before > u64::from(offset) => {
                report(Fault {
                    file: FileName::Chunk(runs[0].chunk),
                    offset: Some(u64::from(offset)),
                    index: Some(index),
                    reason: format!("it overlaps record {other}, which begins at {begins}"),
                });
            }
            _ => {}
        }
        if farthest.is_none_or(|(before, ..)| before < end) {
            farthest = Some((end, offset, index));
        }
    }
    Ok(())
}
