//! What a component is lent: a directory, and the files that it opens there.

use std::io;

use zrecord_core::storage::{Access, File, Span};

use crate::directory::{FsDirectory, FsFile};
use crate::mapping::{MAPS_PAST_END, Mapping, ROOMY};

/// Spans that are shorter than this on average are copied from a mapping: a
/// call of the system for each would cost more than the copy. Longer ones are
/// read by position, which a disk serves better when they are not in memory.
const MAPPED_SPAN_MAX: u64 = 16 << 10;
/// A file that is all hole must not take the address space.
const MAPPED_SIZE_MAX: u64 = 1 << 36;
/// The least that is mapped, so that a file which grows is seldom mapped anew.
const MAPPED_SIZE_MIN: u64 = 1 << 20;
/// So many spans ahead the processor is asked for the first bytes.
const PREFETCH_DISTANCE: usize = 6;

/// A directory that a component may use.
#[derive(Debug)]
pub struct LentDirectory {
    pub(super) directory: FsDirectory,
    pub(super) access: Access,
}

/// A file that a component has opened.
#[derive(Debug)]
pub struct LentFile {
    pub(super) file: FsFile,
    pub(super) access: Access,
    mapping: Option<Mapping>,
    /// Not again once it has failed, or the file was cut under it.
    mappable: bool,
}

impl LentFile {
    pub(super) fn new(file: FsFile, access: Access) -> Self {
        // Where no map reaches past the end of a file it is not worth it, and
        // a file that is written to may be replaced.
        let mappable = ROOMY && MAPS_PAST_END && access == Access::Read;
        Self { file, access, mapping: None, mappable }
    }

    /// Reads spans as [`File::read_many`] does.
    pub(super) fn read_many(&mut self, spans: &[Span], buffer: &mut [u8]) -> io::Result<usize> {
        let is_short = (buffer.len() as u64) < MAPPED_SPAN_MAX.saturating_mul(spans.len() as u64);
        if self.mappable && spans.len() > 1 && is_short {
            let size = self.file.size()?;
            if self.map(size)
                && let Some(mapping) = &self.mapping
            {
                let read = copy(mapping, size, spans, buffer);
                if !mapping.is_damaged() {
                    return Ok(read);
                }
                // It was cut meanwhile. By position it is read as it is now.
                (self.mapping, self.mappable) = (None, false);
            }
        }
        self.file.read_many(spans, buffer)
    }

    /// Makes sure that `size` bytes are mapped; false where they cannot be.
    fn map(&mut self, size: u64) -> bool {
        if self.mapping.as_ref().is_some_and(|mapping| mapping.len() as u64 >= size) {
            return true;
        }
        self.mapping = None;
        let wanted = size.max(MAPPED_SIZE_MIN).checked_next_power_of_two();
        let wanted = wanted.filter(|wanted| *wanted <= MAPPED_SIZE_MAX);
        let Some(len) = wanted.and_then(|wanted| usize::try_from(wanted).ok()) else {
            return false;
        };
        match Mapping::new(self.file.file(), 0, len) {
            // A file that is cut must not end the process.
            Ok(mapping) if mapping.is_guarded() => self.mapping = Some(mapping),
            Ok(_) => self.mappable = false,
            Err(error) => {
                log::debug!("a file cannot be mapped and is read by position: {error}");
                self.mappable = false;
            }
        }
        self.mapping.is_some()
    }
}

/// Copies spans of a file of `size` bytes, all of which are mapped.
fn copy(mapping: &Mapping, size: u64, spans: &[Span], buffer: &mut [u8]) -> usize {
    let there = |span: &Span| to_usize(size.saturating_sub(span.offset).min(span.len));
    let mut filled = 0;
    for (position, span) in spans.iter().enumerate() {
        if let Some(ahead) = spans.get(position + PREFETCH_DISTANCE) {
            mapping.prefetch(to_usize(ahead.offset), there(ahead));
        }
        let len = there(span);
        let part = &mut buffer[filled..filled + len];
        if !mapping.copy(to_usize(span.offset), part) {
            break;
        }
        filled += len;
        if (len as u64) < span.len {
            break;
        }
    }
    filled
}

/// Past what can be addressed nothing is mapped.
fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
