//! Opening what is left of a damaged store, by whatever of its header can
//! still be believed: for `verify`, which must say more than the first thing
//! that is wrong, and for saving the records that are intact.

use crate::codec::Zstd;
use crate::error::{Error, Result};
use crate::format::{Commit, Format, classic, extended, u64_at};
use crate::reader::{
    DICTIONARY_SIZE_MAX, Identity, Reader, blocks, newest_first, read_exact, read_identity,
    read_slots, to_usize,
};
use crate::schema::SCHEMA_SIZE_MAX;
use crate::storage::{Access, Directory, File, FileName};
use crate::store::Store;

impl<D: Directory> Reader<D> {
    /// Opens a store that [`open`](Self::open) may refuse. Its state is that
    /// of the newest valid commit slot, whatever the table then holds; with no
    /// valid slot, every entry up to the end of the table counts, and so does
    /// every dictionary with a hash and a schema that can be read. In a
    /// classic store without a valid header the entries count up to the last
    /// one that says anything.
    ///
    /// # Errors
    ///
    /// IO errors of `meta.zr`; [`Error::NotAStore`] or [`Error::Corrupt`] when
    /// nothing in it tells which format it has.
    pub fn salvage(directory: D) -> Result<Self> {
        let meta =
            directory.open(FileName::Meta, Access::Read).map_err(Error::io(FileName::Meta))?;
        let identity = match read_identity(&meta) {
            Ok(identity) => identity,
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => guess_identity(&meta)?.ok_or(error)?,
        };
        let mut reader = Self::created(directory, meta, identity, Commit::default());
        reader.access = Access::Read;
        reader.commit = match identity {
            Identity::Extended(id) => match newest_slot(&reader.meta, &id) {
                Some(newest) => newest,
                None => reader.guess_extended_commit()?,
            },
            Identity::Classic => reader.salvage_classic_commit()?,
        };
        Ok(reader)
    }

    /// Another reader of the same state, with files of its own.
    ///
    /// # Errors
    ///
    /// IO errors.
    pub fn duplicate(&self) -> Result<Self>
    where
        D: Clone,
    {
        let directory = self.directory.clone();
        let meta =
            directory.open(FileName::Meta, Access::Read).map_err(Error::io(FileName::Meta))?;
        let mut reader = Self::created(directory, meta, self.identity, self.commit);
        reader.access = Access::Read;
        Ok(reader)
    }

    /// How many of the counted records have an entry: fewer than are counted
    /// when the table was cut short.
    ///
    /// # Errors
    ///
    /// IO errors.
    pub fn entries_present(&self) -> Result<u64> {
        self.entries_up_to(self.commit.length)
    }

    /// The bytes of a dictionary as far as they are proven: as
    /// [`dictionary`](Self::dictionary), but of a hash that differs in one bit
    /// it is the hash that was damaged, since no other bytes come that near.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn salvage_dictionary(&self, number: u8) -> Result<Vec<u8>> {
        match self.dictionary(number) {
            Err(error @ Error::Corrupt { .. }) if self.format() == Format::Extended => {
                let name = FileName::Dictionary(number);
                let Ok(bytes) = self.read_small(name, DICTIONARY_SIZE_MAX) else {
                    return Err(error);
                };
                let expected = self.dictionary_hash(number)?;
                let differing = (extended::file_hash(&bytes) ^ expected).count_ones();
                if differing == 1 { Ok(bytes) } else { Err(error) }
            }
            result => result,
        }
    }

    /// The state by the table alone.
    fn guess_extended_commit(&self) -> Result<Commit> {
        let length = self.entries_up_to(extended::LENGTH_MAX)?;
        let hashes = (0..=u8::MAX).map(|number| self.dictionary_hash(number));
        let dictionaries = hashes.take_while(|hash| hash.as_ref().is_ok_and(|hash| *hash != 0));
        let schema = self.read_small(FileName::Schema, SCHEMA_SIZE_MAX as u64);
        Ok(Commit {
            length,
            durable_length: length,
            unsynced_hash: extended::EMPTY_HASH,
            dictionaries: u32::try_from(dictionaries.count()).unwrap_or(0),
            schema_hash: schema.map_or(0, |bytes| extended::file_hash(&bytes)),
            ..Commit::default()
        })
    }

    fn salvage_classic_commit(&self) -> Result<Commit> {
        let commit = match self.read_classic_header() {
            Ok(commit) => commit,
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) if !is_known_classic(&self.meta)? => return Err(error),
            Err(_) => self.guess_classic_commit()?,
        };
        // One that cannot be looked at is reported with what needs it.
        let dictionaries = u32::from(self.exists(FileName::Dictionary(0)).unwrap_or(true));
        Ok(Commit { dictionaries, ..commit })
    }

    /// Entries up to the last that is not zero: a classic table is sparse
    /// behind it.
    fn guess_classic_commit(&self) -> Result<Commit> {
        let mut length = 0;
        let mut bytes = Vec::new();
        for (first, count) in blocks(0..self.entries_up_to(classic::LENGTH_MAX)?) {
            self.entries(first, count, &mut bytes)?;
            let used = bytes.chunks_exact(classic::ENTRY_SIZE).zip(first + 1..);
            length = used
                .filter(|(entry, _)| entry.iter().any(|byte| *byte != 0))
                .map(|(_, count)| count)
                .last()
                .unwrap_or(length);
        }
        Ok(Commit { length, durable_length: length, ..Commit::default() })
    }

    /// How many entries the file has room for, at most `length`.
    fn entries_up_to(&self, length: u64) -> Result<u64> {
        let size = self.meta.size().map_err(Error::io(FileName::Meta))?;
        let entries = size.saturating_sub(self.format().entry_offset(0));
        Ok(length.min(entries / self.format().entry_size()))
    }

    /// The hash that the header has of a dictionary.
    pub(crate) fn dictionary_hash(&self, number: u8) -> Result<u64> {
        let mut hash = [0; 8];
        let offset = extended::dictionary_hash_offset(number);
        read_exact(&self.meta, FileName::Meta, &mut hash, offset)?;
        Ok(u64_at(&hash, 0))
    }
}

impl<D: Directory, Z: Zstd> Store<D, Z> {
    /// Opens a store by [`Reader::salvage`]. With no writer at work, pass
    /// `recover`, as in [`open`](Self::open); a recovery that damage stops
    /// leaves what the newest commit counts.
    ///
    /// # Errors
    ///
    /// As [`Reader::salvage`].
    pub fn salvage(directory: D, recover: bool) -> Result<Self> {
        let mut reader = Reader::salvage(directory)?;
        if recover && !reader.commit().is_clean() {
            let newest = reader.commit;
            if reader.recover().is_err() {
                reader.commit = newest;
            }
        }
        Ok(Self::of_reader(reader))
    }

    /// Loads a dictionary by [`Reader::salvage_dictionary`] for the records
    /// that need it.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn salvage_dictionary(&mut self, number: u8) -> Result<()> {
        if !self.has_dictionary(number) {
            let bytes = self.reader().salvage_dictionary(number)?;
            self.insert_dictionary(number, &bytes)?;
        }
        Ok(())
    }
}

/// The newest valid slot; none also where they cannot be read.
fn newest_slot(meta: &impl File, id: &extended::StoreId) -> Option<Commit> {
    let slots = read_slots(meta, id).ok()?;
    newest_first(slots).next()
}

/// What the rest of a header says that [`read_identity`] refused. Never a
/// format that is merely newer: its entries would be read wrongly.
fn guess_identity(meta: &impl File) -> Result<Option<Identity>> {
    let mut head = [0; extended::IDENTITY_SIZE];
    let read = meta.read(&mut head, 0).map_err(Error::io(FileName::Meta))?;
    if read < classic::HEADER_SIZE {
        return Ok(None);
    }
    let id = extended::store_id(&head);
    let magic_holds = head.starts_with(&extended::MAGIC);
    if magic_holds && extended::identity_holds(&head) {
        return Ok(None);
    }
    let mut mended = head;
    mended[..extended::MAGIC.len()].copy_from_slice(&extended::MAGIC);
    let is_extended = magic_holds
        || extended::decode_identity(&mended).is_ok()
        || newest_slot(meta, &id).is_some();
    if is_extended {
        return Ok(Some(Identity::Extended(id)));
    }
    let is_classic = classic::decode_header(&head[..classic::HEADER_SIZE]).is_ok();
    Ok(is_classic.then_some(Identity::Classic))
}

/// Entries of another version would be read wrongly.
fn is_known_classic(meta: &impl File) -> Result<bool> {
    let header = read_header(meta, Format::Classic)?;
    Ok(header.len() == classic::HEADER_SIZE && classic::version(&header) == classic::VERSION)
}

/// A header as long as the format's, for finding what is wrong with it; fewer
/// bytes where the file ends before.
pub(crate) fn read_header(meta: &impl File, format: Format) -> Result<Vec<u8>> {
    let mut header = vec![0; to_usize(format.entry_offset(0))];
    let read = meta.read(&mut header, 0).map_err(Error::io(FileName::Meta))?;
    header.truncate(read);
    Ok(header)
}
