//! Core's storage over the imported files.

use std::cmp::Ordering;
use std::{io, mem};

use zrecord_core::memory;
use zrecord_core::storage::{self, Access, FileName, Span};

use crate::bindings::zrecord::store::files;
use crate::error::io_error;

#[cfg(feature = "edit")]
mod edit;
#[cfg(not(feature = "edit"))]
#[path = "files/no_edit.rs"]
mod edit;

/// One call moves at most so many bytes: hosts limit what they copy in one, and
/// a copy on each side of the border takes memory.
const CALL_BYTES: u64 = 8 << 20;
/// And names at most so many spans.
const CALL_SPANS: usize = 1 << 16;

/// The directory that a host has lent.
pub(crate) struct Directory(pub(crate) files::Directory);

/// A file in it.
pub(crate) struct File(files::File);

impl storage::Directory for Directory {
    type File = File;

    fn open(&self, name: FileName, access: Access) -> io::Result<File> {
        let name = name.to_string();
        let file = match access {
            Access::Read => self.0.open(&name).map_err(io_error),
            Access::Write => edit::open(&self.0, &name),
        };
        file.map(File)
    }

    fn create(&self, name: FileName) -> io::Result<File> {
        edit::create(&self.0, &name.to_string()).map(File)
    }

    fn rename(&self, from: FileName, to: FileName) -> io::Result<()> {
        edit::rename(&self.0, &from.to_string(), &to.to_string())
    }

    fn remove(&self, name: FileName) -> io::Result<()> {
        edit::remove(&self.0, &name.to_string())
    }

    fn sync(&self) -> io::Result<()> {
        edit::sync_directory(&self.0)
    }
}

impl storage::File for File {
    fn size(&self) -> io::Result<u64> {
        self.0.size().map_err(io_error)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_many(&[Span { offset, len: buffer.len() as u64 }], buffer)
    }

    fn read_many(&self, spans: &[Span], buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        for call in calls(spans)? {
            let (bytes, is_whole) = self.read_call(&call)?;
            let rest = buffer.get_mut(filled..).unwrap_or_default();
            let Some(target) = rest.get_mut(..bytes.len()) else { return Err(too_many()) };
            target.copy_from_slice(&bytes);
            filled += bytes.len();
            if !is_whole {
                break;
            }
        }
        Ok(filled)
    }

    /// What one call returns is handed on as it is.
    fn read_list(&self, spans: &[Span]) -> io::Result<Vec<u8>> {
        let calls = calls(spans)?;
        if let [call] = calls.as_slice() {
            return self.read_call(call).map(|(bytes, _)| bytes);
        }
        let room = usize::try_from(storage::total_len(spans)).map_err(io::Error::other)?;
        let mut list = memory::with_room(room)?;
        for call in calls {
            let (bytes, is_whole) = self.read_call(&call)?;
            list.extend_from_slice(&bytes);
            if !is_whole {
                break;
            }
        }
        Ok(list)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let size = usize::try_from(CALL_BYTES).unwrap_or(usize::MAX);
        let mut offset = offset;
        for part in bytes.chunks(size) {
            edit::write(&self.0, part, offset)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        edit::set_size(&self.0, size)
    }

    fn sync(&self) -> io::Result<()> {
        edit::sync(&self.0)
    }
}

impl File {
    /// One call into the host: what was read, and whether it is all. The host
    /// writes its answer into memory of ours, which is a trap when there is
    /// none: so that is found out before.
    fn read_call(&self, spans: &[files::Span]) -> io::Result<(Vec<u8>, bool)> {
        let wanted = spans.iter().map(|span| span.length).sum::<u64>();
        let room = usize::try_from(wanted).map_err(io::Error::other)?;
        drop(memory::with_room::<u8>(room)?);
        let bytes = match spans {
            [span] => self.0.read(span.length, span.offset).map(|(bytes, _)| bytes),
            spans => self.0.read_many(spans),
        };
        let bytes = bytes.map_err(io_error)?;
        match bytes.len().cmp(&room) {
            Ordering::Less => Ok((bytes, false)),
            Ordering::Equal => Ok((bytes, true)),
            Ordering::Greater => Err(too_many()),
        }
    }
}

fn too_many() -> io::Error {
    io::Error::other("the host returned more bytes than were asked for")
}

/// Spans grouped into calls that keep to the limits, long ones cut.
fn calls(spans: &[Span]) -> io::Result<Vec<Vec<files::Span>>> {
    let mut calls = Vec::new();
    let mut call = memory::with_room(spans.len().min(CALL_SPANS))?;
    let mut room = CALL_BYTES;
    for span in spans {
        let (mut offset, mut rest) = (span.offset, span.len);
        while rest > 0 {
            if room == 0 || call.len() == CALL_SPANS {
                calls.push(mem::take(&mut call));
                room = CALL_BYTES;
            }
            let length = rest.min(room);
            call.push(files::Span { offset, length });
            (room, rest) = (room - length, rest - length);
            // A span past the last byte that 64 bits can count reads nothing.
            offset = offset.saturating_add(length);
        }
    }
    if !call.is_empty() {
        calls.push(call);
    }
    Ok(calls)
}
