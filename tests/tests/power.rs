//! Losses of power that each undid something durable once, told one by one.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use zrecord_core::codec::Codec;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::dtype::Dtype;
use zrecord_core::error::Result;
use zrecord_core::format::Format;
use zrecord_core::reader::Identity;
use zrecord_core::schema::{Kind, Schema};
use zrecord_core::storage::{Access, Directory, File, FileName};
use zrecord_core::store::Store;
use zrecord_tests::crash::disk::{Disk, Loss, Piece};
use zrecord_tests::crash::record::{Change, RecordingDirectory};

type RecordedStore = Store<RecordingDirectory, Libzstd>;

/// A store on a disk, and everything that happened to it.
struct Machine {
    disk: Disk,
    directory: RecordingDirectory,
    played: usize,
}

impl Machine {
    fn over(disk: Disk) -> Self {
        let directory = RecordingDirectory::over(&disk, None);
        Self { disk, directory, played: 0 }
    }

    fn create(format: Format) -> (Self, RecordedStore) {
        let machine = Self::over(Disk::default());
        let identity = match format {
            Format::Classic => Identity::Classic,
            Format::Extended => Identity::Extended([7; 16]),
        };
        let store = Store::create(machine.directory.clone(), identity).unwrap();
        (machine, store)
    }

    /// The disk after all that the store has done so far, but for the last
    /// changes that `skipped` names.
    fn play(&mut self, skipped: usize) -> &Disk {
        let changes = self.directory.changes();
        for change in &changes[self.played..changes.len() - skipped] {
            self.disk.apply(change);
        }
        self.played = changes.len() - skipped;
        &self.disk
    }

    /// The same machine after a loss of power: pieces are as they were when
    /// they were last synced.
    fn fails(&mut self, pieces: impl IntoIterator<Item = Piece>) -> Self {
        self.loses(&pieces.into_iter().map(|piece| (piece, 0)).collect())
    }

    fn loses(&mut self, loss: &Loss) -> Self {
        Self::over(Disk::new(&self.play(0).image(loss)))
    }

    fn inode(&mut self, name: FileName) -> usize {
        self.play(0).names()[&name]
    }

    fn read(&self) -> Result<RecordedStore> {
        Store::open(self.directory.clone(), true)
    }

    fn take_over(&self) -> RecordedStore {
        Store::open_writer(self.directory.clone()).unwrap().0
    }
}

fn append(store: &mut RecordedStore, record: &[u8]) {
    let policy = PackPolicy::new(Codec::Raw, store.format());
    store.append(&[record], policy).unwrap();
}

fn records(store: &mut RecordedStore) -> Vec<Vec<u8>> {
    let indices: Vec<u64> = (0..store.len()).collect();
    store.gather(&indices, u64::MAX).unwrap().iter().map(<[u8]>::to_vec).collect()
}

/// Both slots say less than the last sync did: one was overwritten since, and
/// what was written to the other was lost.
#[test]
fn a_durable_schema_outlives_the_slot_that_said_so() {
    let (mut machine, mut store) = Machine::create(Format::Extended);
    let dtype = Dtype::parse("|u1").unwrap();
    let schema = Schema::new(Kind::Ragged, dtype, vec![], Codec::Raw, vec![]).unwrap();
    store.writer().unwrap().set_schema(&schema).unwrap();
    append(&mut store, &[1; 600]);
    append(&mut store, &[2; 600]);
    let (meta, chunk) = (machine.inode(FileName::Meta), machine.inode(FileName::Chunk(0)));
    // The newest slot is found, its records and the slot before are not.
    let slots = [8, 16].map(|sector| Piece::Sector(meta, sector));
    for slot in slots {
        let lost = [slot, Piece::Sector(chunk, 0), Piece::Sector(chunk, 1), Piece::Size(chunk)];
        let machine = machine.fails(lost);
        for mut store in [machine.read().unwrap(), machine.take_over()] {
            assert_eq!(store.len(), 0);
            assert!(store.schema().unwrap().is_some(), "the schema is gone");
            assert_eq!(store.reader().verify_structure().unwrap(), []);
        }
    }
}

/// A writer is killed within the write of a slot, and power is lost before the
/// other slot, which was written since the last sync, reached the disk.
#[test]
fn a_durable_schema_outlives_half_a_slot() {
    let (mut machine, mut store) = Machine::create(Format::Extended);
    let dtype = Dtype::parse("|u1").unwrap();
    let schema = Schema::new(Kind::Ragged, dtype, vec![], Codec::Raw, vec![]).unwrap();
    store.writer().unwrap().set_schema(&schema).unwrap();
    append(&mut store, &[1; 600]);
    append(&mut store, &[2; 600]);
    let Some(Change::Write(meta, offset, bytes)) = machine.directory.changes().pop() else {
        panic!("the last change is no write");
    };
    machine.play(1);
    machine.disk.apply(&Change::Write(meta, offset, bytes[..48].into()));
    let other = Piece::Sector(meta, if offset == 4096 { 16 } else { 8 });
    let loss = [(other, 0)].into_iter().collect();
    let machine = Machine::over(Disk::new(&machine.disk.image(&loss)));
    for mut store in [machine.read().unwrap(), machine.take_over()] {
        assert!(store.schema().unwrap().is_some(), "the schema is gone");
    }
}

/// Of two commits the disk holds the first. The writer that finds it so is
/// killed while it says so.
#[test]
fn half_a_slot_of_a_recovery_undoes_nothing() {
    let (mut machine, mut store) = Machine::create(Format::Extended);
    append(&mut store, &[1; 512]);
    append(&mut store, &[2; 512]);
    let chunk = machine.inode(FileName::Chunk(0));
    let mut machine = machine.fails([Piece::Sector(chunk, 1)]);
    assert_eq!(records(&mut machine.read().unwrap()), [vec![1; 512]]);
    drop(machine.take_over());
    let changes = machine.directory.changes();
    let is_slot = |change: &&Change| matches!(change, Change::Write(_, 4096 | 8192, _));
    assert_eq!(changes.iter().filter(is_slot).count(), 2);
    for change in changes {
        if let Change::Write(inode, offset, bytes) = &change {
            let mut half = machine.disk.clone();
            half.apply(&Change::Write(*inode, *offset, bytes[..bytes.len() / 2].into()));
            let mut store = Machine::over(half).read().unwrap();
            assert_eq!(records(&mut store), [vec![1; 512]]);
        }
        machine.disk.apply(&change);
    }
}

/// A writer is killed after it has renamed a new table and before it has
/// synced the directory; another one goes on and syncs.
#[test]
fn a_rename_that_a_killed_writer_left_is_durable_with_the_next_sync() {
    for format in [Format::Classic, Format::Extended] {
        let (mut machine, mut store) = Machine::create(format);
        append(&mut store, b"first");
        append(&mut store, b"second");
        store.delete(&[0]).unwrap();
        assert!(matches!(machine.directory.changes().last(), Some(Change::SyncNames)));
        let mut machine = Machine::over(machine.play(1).clone());
        let mut store = machine.take_over();
        append(&mut store, b"third");
        store.sync().unwrap();
        let machine = machine.fails((0..100).map(Piece::Name));
        let mut store = machine.read().unwrap();
        assert_eq!(records(&mut store), [b"second".to_vec(), b"third".to_vec()]);
    }
}

/// The header counts a record in a chunk that was lost with its name.
#[test]
fn a_classic_store_is_written_to_again_whatever_was_lost() {
    let (mut machine, mut store) = Machine::create(Format::Classic);
    append(&mut store, b"synced");
    store.sync().unwrap();
    store.writer().unwrap().set_chunk_size_max(8);
    append(&mut store, b"not synced");
    let meta = machine.inode(FileName::Meta);
    let chunks = [0, 1].map(|number| machine.inode(FileName::Chunk(number)));
    let names = (0..100).map(Piece::Name);
    let data = chunks.into_iter().flat_map(|chunk| [Piece::Sector(chunk, 0), Piece::Size(chunk)]);
    let machine = machine.fails(names.chain(data).chain([Piece::Size(meta)]));
    let mut store = machine.take_over();
    assert_eq!(store.len(), 2, "the header was found");
    append(&mut store, b"again");
    store.close().unwrap();
    let found = records(&mut machine.read().unwrap());
    assert_eq!((&*found[0], &*found[2]), (&b"synced"[..], &b"again"[..]));
}

/// Trimming cuts a chunk file and grows it again, of which the cut alone would
/// be found; an append follows.
#[test]
fn a_classic_chunk_keeps_its_full_size_after_compaction() {
    let (mut machine, mut store) = Machine::create(Format::Classic);
    append(&mut store, b"kept");
    append(&mut store, b"deleted");
    store.delete(&[1]).unwrap();
    store.compact(&mut |_| {}).unwrap();
    append(&mut store, b"after");
    let chunk = machine.inode(FileName::Chunk(0));
    let machine = machine.loses(&Loss::from([(Piece::Size(chunk), 1)]));
    let mut store = machine.take_over();
    assert_eq!(records(&mut store)[0], b"kept");
    append(&mut store, b"again");
}

/// Adding a dictionary is durable when it returns, and so is what was there.
#[test]
fn a_dictionary_is_never_found_without_the_records_before_it() {
    for format in [Format::Classic, Format::Extended] {
        let (mut machine, mut store) = Machine::create(format);
        append(&mut store, b"before");
        let samples: Vec<String> =
            (0..300).map(|number| format!("sample {number} of {}", number * 7)).collect();
        let sizes: Vec<usize> = samples.iter().map(String::len).collect();
        store.train_dictionary(samples.concat().as_bytes(), &sizes, 600).unwrap();
        let files = machine.play(0).inodes();
        let sectors = (0..files).flat_map(|file| (0..100).map(move |at| Piece::Sector(file, at)));
        let names = (0..100).map(Piece::Name);
        let machine = machine.fails(sectors.chain(names));
        let mut store = machine.read().unwrap();
        assert_eq!(records(&mut store), [b"before".to_vec()]);
        assert_eq!(store.reader().commit().dictionaries, 1);
    }
}

/// The second entry was lost and holds what a discarded batch left there: a
/// place in a chunk that is gone.
#[test]
fn a_damaged_classic_entry_keeps_no_writer_out_and_moves_no_tail() {
    let (machine, mut store) = Machine::create(Format::Classic);
    append(&mut store, b"intact");
    append(&mut store, b"damaged");
    store.close().unwrap();
    let meta = machine.directory.open(FileName::Meta, Access::Write).unwrap();
    // Offset 0, 9 bytes stored, 9 plain, in chunk 10, raw.
    let entry = [0, 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 10, 0, 0, 0];
    meta.write(&entry, Format::Classic.entry_offset(1)).unwrap();
    // As a copy leaves it: chunks cut to their used length.
    let chunk = machine.directory.open(FileName::Chunk(0), Access::Write).unwrap();
    chunk.set_size(13).unwrap();

    let mut store = machine.take_over();
    let tail = store.reader().commit().tail;
    let error = store.compact(&mut |_| {}).unwrap_err();
    assert!(error.to_string().starts_with("10.zr is corrupt"), "{error}");
    assert_eq!(store.reader().commit().tail, tail);
    append(&mut store, b"again");
    store.close().unwrap();
    let mut store = machine.read().unwrap();
    assert_eq!(store.gather(&[0, 2], u64::MAX).unwrap().bytes, b"intactagain");
    assert!(store.gather(&[1], u64::MAX).unwrap_err().is_corruption());
}
