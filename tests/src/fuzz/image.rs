//! Stores as a hostile hand would make them: a good store, changed in any
//! number of places, with its checksums put right again or not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use zrecord_core::codec::Codec;
use zrecord_core::format::{Commit, Format, RecordLocation, checksum, classic, extended};
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::storage::{File, FileName};

use super::bases;
use super::choices::Choices;

/// Files of an image are not made longer than this, in bytes...
const FILE_SIZE_MAX: u64 = 1 << 20;
/// ...nor tables...
const META_SIZE_MAX: u64 = 1 << 16;
/// ...but for chunks, which may be sparse up to their limit, where no entry
/// makes anyone read all of it.
const CHUNK_SIZE_MAX: u64 = 1 << 32;
/// The most changes of one store.
const CHANGES_MAX: usize = 48;

/// The files that changes are made to.
const NAMES: [FileName; 8] = [
    FileName::Meta,
    FileName::Chunk(0),
    FileName::Chunk(1),
    FileName::Chunk(2),
    FileName::Schema,
    FileName::Dictionary(0),
    FileName::Dictionary(1),
    FileName::MetaNew,
];

/// The bytes of a file, and its size: what lies behind the bytes is zero.
#[derive(Clone, Debug, Default)]
pub struct ImageFile {
    /// As far as they are written.
    pub bytes: Vec<u8>,
    /// The size; the bytes are cut at it.
    pub size: u64,
}

impl ImageFile {
    fn new(bytes: Vec<u8>) -> Self {
        let size = bytes.len() as u64;
        Self { bytes, size }
    }

    /// The bytes at `offset`, if the file has them all.
    pub fn get(&self, offset: u64, len: u64) -> Option<Vec<u8>> {
        let end = offset.checked_add(len).filter(|end| *end <= self.size)?;
        let mut found = vec![0; usize::try_from(len).ok()?];
        let there = self.bytes.len() as u64;
        if offset < there {
            let range = usize::try_from(offset).ok()?..usize::try_from(end.min(there)).ok()?;
            found[..range.len()].copy_from_slice(&self.bytes[range]);
        }
        Some(found)
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let Ok(start) = usize::try_from(offset.min(FILE_SIZE_MAX)) else { return };
        let end = start + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(bytes);
        self.size = self.size.max(end as u64);
    }

    fn resize(&mut self, size: u64) {
        self.size = size;
        if let Ok(size) = usize::try_from(size) {
            self.bytes.truncate(size);
        }
    }
}

/// The files of a store.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// By their names.
    pub files: BTreeMap<FileName, ImageFile>,
}

impl Image {
    /// A store made of choices.
    pub fn choose(choices: &mut Choices<'_>) -> Self {
        let bases = bases::all();
        let mut image = bases[choices.below(bases.len())].clone();
        let fixes: u8 = choices.any();
        let mut changes = 0;
        while !choices.is_empty() && changes < CHANGES_MAX && !choices.once_in(16) {
            image.change(choices);
            changes += 1;
        }
        image.fix(fixes);
        image.bound_sizes();
        image
    }

    /// The files of a directory, but for zeros at their ends.
    pub fn of(directory: &MemoryDirectory) -> Self {
        let files = directory.names().into_iter().map(|name| {
            let file = directory.file(name).unwrap();
            let size = file.size().unwrap();
            let mut bytes = vec![0; usize::try_from(size.min(FILE_SIZE_MAX)).unwrap()];
            file.read(&mut bytes, 0).unwrap();
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            bytes.truncate(used);
            (name, ImageFile { bytes, size })
        });
        Self { files: files.collect() }
    }

    /// The same with every file cut to what it holds, as a copy may do it.
    pub fn cut_to_used(&self) -> Self {
        let mut cut = self.clone();
        cut.files.values_mut().for_each(|file| file.size = file.bytes.len() as u64);
        cut
    }

    /// Changes what both commit slots say, below valid checksums.
    pub fn forge_commit(&mut self, change: impl Fn(&mut Commit)) {
        let id = self.identity().unwrap();
        for page in 0..2 {
            self.change_slot(page, &id, &change);
        }
    }

    /// Changes one commit slot, below a valid checksum.
    pub fn forge_slot(&mut self, page: u64, change: impl FnOnce(&mut Commit)) {
        let id = self.identity().unwrap();
        self.change_slot(page, &id, change);
    }

    /// Changes an entry, and gives it the checksum of what it points at.
    pub fn forge_entry(&mut self, index: u64, change: impl FnOnce(&mut RecordLocation)) {
        let mut location = self.location(index).unwrap();
        change(&mut location);
        let mut entry = Vec::new();
        self.format().encode_entry(&location, &mut entry);
        let offset = self.format().entry_offset(index);
        self.put(FileName::Meta, offset, &entry);
        self.check_entry(index);
    }

    /// Writes bytes into a file, which is made when it is not there.
    pub fn put(&mut self, name: FileName, offset: u64, bytes: &[u8]) {
        self.files.entry(name).or_default().put(offset, bytes);
    }

    /// Cuts or extends a file.
    pub fn resize(&mut self, name: FileName, size: u64) {
        self.files.entry(name).or_default().resize(size);
    }

    /// How many bytes the files hold.
    pub fn len(&self) -> usize {
        self.files.values().map(|file| file.bytes.len()).sum()
    }

    /// True when they hold none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The format, by the first bytes of the table.
    pub fn format(&self) -> Format {
        let meta = self.files.get(&FileName::Meta);
        match meta.is_some_and(|meta| meta.bytes.starts_with(&classic::MAGIC)) {
            true => Format::Classic,
            false => Format::Extended,
        }
    }

    /// What the table says of record `index`, if it says what can be.
    pub fn location(&self, index: u64) -> Option<RecordLocation> {
        let format = self.format();
        let entry = self
            .files
            .get(&FileName::Meta)?
            .get(format.entry_offset(index), format.entry_size())?;
        format.decode_entry(&entry, index).ok()
    }

    /// How many entries the table has room for, whatever its header counts.
    pub fn entries(&self) -> u64 {
        let format = self.format();
        let size = self.files.get(&FileName::Meta).map_or(0, |meta| meta.size);
        size.saturating_sub(format.entry_offset(0)) / format.entry_size()
    }

    /// How many entries may be other than zero.
    fn written_entries(&self) -> u64 {
        let format = self.format();
        let bytes = self.files.get(&FileName::Meta).map_or(0, |meta| meta.bytes.len() as u64);
        bytes.saturating_sub(format.entry_offset(0)).div_ceil(format.entry_size())
    }

    /// The locations that the table holds, but for zeros, which are those of
    /// empty records.
    pub fn locations(&self) -> impl Iterator<Item = RecordLocation> {
        (0..self.written_entries()).filter_map(|index| self.location(index))
    }

    /// The image in memory.
    pub fn in_memory(&self) -> MemoryDirectory {
        let directory = MemoryDirectory::new();
        for (name, file) in &self.files {
            directory.put(*name, &file.bytes);
            directory.file(*name).unwrap().set_size(file.size).unwrap();
        }
        directory
    }

    /// The image as files of an existing folder.
    pub fn in_folder(&self, folder: &Path) {
        for (name, file) in &self.files {
            let path = folder.join(name.to_string());
            fs::write(&path, &file.bytes).unwrap();
            if file.size != file.bytes.len() as u64 {
                let opened = fs::OpenOptions::new().write(true).open(&path).unwrap();
                opened.set_len(file.size).unwrap();
            }
        }
    }

    fn change(&mut self, choices: &mut Choices<'_>) {
        match choices.any::<u8>() % 12 {
            0 | 1 => self.change_header(choices),
            2..=4 => self.change_entry(choices),
            5 | 6 => self.forge_record(choices),
            kind => self.change_file(kind, choices),
        }
    }

    /// Any change of any file.
    fn change_file(&mut self, kind: u8, choices: &mut Choices<'_>) {
        let name = choices.one_of(&NAMES);
        let size = self.files.get(&name).map_or(0, |file| file.size);
        match kind {
            7 => {
                let offset = choices.number(0) % size.saturating_add(64);
                let bytes = choices.bytes(32);
                self.files.entry(name).or_default().put(offset, bytes);
            }
            8 => {
                let size = choices.number(size);
                self.files.entry(name).or_default().resize(size);
            }
            9 => {
                let bytes = choices.bytes(1024).to_vec();
                self.files.insert(name, ImageFile::new(bytes));
            }
            10 => drop(self.files.remove(&name)),
            _ => {
                let source = choices.one_of(&NAMES);
                let file = self.files.get(&source).cloned().unwrap_or_default();
                self.files.insert(name, file);
            }
        }
    }

    /// One field of the header gets another value, below a valid checksum.
    fn change_header(&mut self, choices: &mut Choices<'_>) {
        let (which, field) = (choices.any::<u8>(), choices.below(14));
        if self.format() == Format::Classic {
            let value: u32 = choices.number(3) as u32;
            let Some(meta) = self.files.get_mut(&FileName::Meta) else { return };
            match field % 4 {
                0 => meta.put(4, &value.to_le_bytes()[..2]),
                1 => meta.put(6, &value.to_le_bytes()[..2]),
                2 => meta.put(8, &value.to_le_bytes()),
                _ => meta.put(12, &value.to_le_bytes()),
            }
            return;
        }
        let Some(id) = self.identity() else { return };
        let mut value = None;
        for page in 0..2 {
            // The one, the other, or both.
            if which % 3 == page as u8 {
                continue;
            }
            self.change_slot(page, &id, |commit| {
                let old = slot_field(commit, field, None);
                let new = *value.get_or_insert_with(|| choices.number(old));
                slot_field(commit, field, Some(new));
            });
        }
    }

    fn identity(&self) -> Option<extended::StoreId> {
        let page = self.files.get(&FileName::Meta)?.get(0, extended::IDENTITY_SIZE as u64)?;
        extended::decode_identity(&page).ok()
    }

    /// Changes a commit slot, if it is one, and gives it a valid checksum.
    fn change_slot(&mut self, page: u64, id: &extended::StoreId, change: impl FnOnce(&mut Commit)) {
        let Some(meta) = self.files.get_mut(&FileName::Meta) else { return };
        let offset = extended::slot_offset(page);
        let Some(slot) = meta.get(offset, extended::SLOT_SIZE as u64) else { return };
        let Some(mut commit) = extended::decode_slot(&slot, id) else { return };
        change(&mut commit);
        meta.put(offset, &extended::encode_slot(&commit, id));
    }

    /// One field of an entry gets another value; its checksum may follow.
    fn change_entry(&mut self, choices: &mut Choices<'_>) {
        let format = self.format();
        let index = choices.number(0) % self.entries().clamp(1, 64);
        let offset = format.entry_offset(index);
        let Some(meta) = self.files.get_mut(&FileName::Meta) else { return };
        let Some(mut entry) = meta.get(offset, format.entry_size()) else { return };
        let fields: &[(usize, usize)] = match format {
            Format::Classic => &[(0, 4), (4, 4), (8, 4), (12, 2), (14, 1), (15, 1)],
            Format::Extended => {
                &[(0, 4), (4, 4), (8, 4), (12, 4), (16, 4), (20, 1), (21, 1), (22, 2)]
            }
        };
        let (start, len) = choices.one_of(fields);
        let mut old = [0; 8];
        old[..len].copy_from_slice(&entry[start..start + len]);
        let value = choices.number(u64::from_le_bytes(old)).to_le_bytes();
        entry[start..start + len].copy_from_slice(&value[..len]);
        // The two lengths of a raw record are one.
        if start == 4 && choices.any() {
            entry[8..12].copy_from_slice(&value[..4]);
        }
        meta.put(offset, &entry);
        if choices.any() {
            self.check_entry(index);
        }
    }

    /// Gives an entry the checksum of what lies where it points.
    fn check_entry(&mut self, index: u64) {
        let Some(location) = self.location(index).filter(|l| l.checksum.is_some()) else { return };
        if u64::from(location.stored_len) > FILE_SIZE_MAX {
            return;
        }
        let chunk = self.files.get(&location.file());
        let stored = chunk.and_then(|chunk| {
            chunk.get(u64::from(location.offset), u64::from(location.stored_len))
        });
        let Some(stored) = stored.or_else(|| (location.stored_len == 0).then(Vec::new)) else {
            return;
        };
        let sum = checksum(&stored, location.len, location.codec, location.dictionary);
        let offset = Format::Extended.entry_offset(index) + 12;
        self.files.entry(FileName::Meta).or_default().put(offset, &sum.to_le_bytes());
    }

    /// Puts bytes of any kind into a chunk as a record that says it is a frame
    /// of any length.
    fn forge_record(&mut self, choices: &mut Choices<'_>) {
        let index = choices.number(0) % self.entries().clamp(1, 64);
        let chunk = choices.below(3) as u32;
        let place = choices.number(0) % 4096;
        let frame = super::codec::frame(choices);
        let declared = zrecord_core::codec::frame::FrameHeader::parse(&frame)
            .ok()
            .and_then(|header| header.content_size)
            .unwrap_or(0);
        let location = RecordLocation {
            chunk,
            offset: place as u32,
            stored_len: frame.len() as u32,
            len: choices.one_of(&[declared as u32, frame.len() as u32 + 1, u32::MAX]),
            codec: choices.one_of(&Codec::ALL),
            dictionary: choices.once_in(4).into(),
            checksum: None,
        };
        self.files.entry(FileName::Chunk(chunk)).or_default().put(place, &frame);
        let mut entry = Vec::new();
        self.format().encode_entry(&location, &mut entry);
        let offset = self.format().entry_offset(index);
        self.files.entry(FileName::Meta).or_default().put(offset, &entry);
        self.check_entry(index);
    }

    /// Puts right what can be computed, as far as `fixes` says: the hashes of
    /// dictionaries, of the schema, of unsynced entries, and the sums.
    pub fn fix(&mut self, fixes: u8) {
        let Some(id) = self.identity().filter(|_| self.format() == Format::Extended) else {
            return;
        };
        let hash = |file: Option<&ImageFile>| file.map(|file| extended::file_hash(&file.bytes));
        let schema = hash(self.files.get(&FileName::Schema));
        for number in 0..2 {
            let dictionary = hash(self.files.get(&FileName::Dictionary(number)));
            if let Some(hash) = dictionary.filter(|_| fixes & 1 != 0) {
                let offset = extended::dictionary_hash_offset(number);
                let meta = self.files.entry(FileName::Meta).or_default();
                meta.put(offset, &hash.to_le_bytes());
            }
        }
        let image = self.clone();
        for page in 0..2 {
            self.change_slot(page, &id, |commit| {
                if fixes & 2 != 0 && commit.schema_hash != 0 {
                    commit.schema_hash = schema.unwrap_or(1);
                }
                if fixes & 4 != 0 {
                    commit.unsynced_hash = image.unsynced_hash(commit);
                }
                if fixes & 8 != 0 {
                    let locations =
                        || (0..commit.length.min(4096)).filter_map(|i| image.location(i));
                    commit.live_stored = locations().map(|l| u64::from(l.stored_len)).sum();
                    commit.live_len = locations().map(|l| u64::from(l.len)).sum();
                }
            });
        }
    }

    fn unsynced_hash(&self, commit: &Commit) -> u64 {
        let offset = Format::Extended.entry_offset(commit.durable_length);
        let len = Format::Extended.entry_offset(commit.length).saturating_sub(offset);
        let meta = self.files.get(&FileName::Meta);
        let entries = meta.filter(|_| len <= FILE_SIZE_MAX).and_then(|meta| meta.get(offset, len));
        entries.map_or(0, |entries| twox_hash::XxHash3_64::oneshot(&entries))
    }

    /// Keeps files small enough to be read whole within a moment.
    fn bound_sizes(&mut self) {
        let is_large = |location: RecordLocation| u64::from(location.stored_len) > FILE_SIZE_MAX;
        let classic = self.format() == Format::Classic;
        if let Some(meta) = self.files.get_mut(&FileName::Meta) {
            let limit = if classic { classic::META_SIZE } else { META_SIZE_MAX };
            meta.resize(meta.size.min(limit));
        }
        let chunk_limit =
            if self.locations().any(is_large) { FILE_SIZE_MAX } else { CHUNK_SIZE_MAX };
        for (name, file) in &mut self.files {
            let limit = match name {
                FileName::Meta => continue,
                FileName::Chunk(_) => chunk_limit,
                _ => FILE_SIZE_MAX,
            };
            file.resize(file.size.min(limit));
        }
    }
}

/// Reads a field of a slot by its number, and gives it a new value.
fn slot_field(commit: &mut Commit, field: usize, new: Option<u64>) -> u64 {
    let long: [&mut u64; 8] = [
        &mut commit.sequence,
        &mut commit.length,
        &mut commit.durable_length,
        &mut commit.generation,
        &mut commit.unsynced_hash,
        &mut commit.schema_hash,
        &mut commit.live_stored,
        &mut commit.live_len,
    ];
    let short: [&mut u32; 6] = [
        &mut commit.tail.chunk,
        &mut commit.tail.offset,
        &mut commit.durable_tail.chunk,
        &mut commit.durable_tail.offset,
        &mut commit.stride,
        &mut commit.dictionaries,
    ];
    let fields = long.len();
    let old = match field.checked_sub(fields) {
        None => *long[field],
        Some(field) => u64::from(*short[field]),
    };
    if let Some(new) = new {
        match field.checked_sub(fields) {
            None => *long[field] = new,
            Some(field) => *short[field] = new as u32,
        }
    }
    old
}
