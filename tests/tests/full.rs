//! Disks that are full and files that may not grow: every operation says so,
//! leaves the store as it was, and works once there is room again.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zrecord_host::core::Error as CoreError;
use zrecord_host::{
    Codec, Dtype, Error, Format, Io, Kind, Mode, OpenOptions, Schema, Store, convert,
};
use zrecord_tests::alone::{alone, mount, mounting};
use zrecord_tests::workload::{self, other, pack, record};

const FORMATS: [Format; 2] = [Format::Classic, Format::Extended];
const DISK_SIZE: u64 = 3 << 20;

/// What keeps files from growing.
enum Pressure {
    /// A disk, filled by a file of ours.
    Disk { ballast: PathBuf },
    /// `RLIMIT_FSIZE`.
    Limit,
}

impl Pressure {
    /// Leaves room for so many bytes: on the disk, or in each file.
    fn apply(&self, room: u64) {
        match self {
            Self::Disk { ballast } => {
                let mut file = File::create(ballast).unwrap();
                let block = [1; 4_096];
                let mut size = 0;
                while file.write_all(&block).is_ok() {
                    size += 4_096;
                }
                file.set_len(u64::saturating_sub(size, room)).unwrap();
            }
            Self::Limit => limit(Some(room)),
        }
    }

    fn release(&self) {
        match self {
            Self::Disk { ballast } => fs::remove_file(ballast).unwrap(),
            Self::Limit => limit(None),
        }
    }

    /// How much room is tried, from none on.
    fn rooms(&self) -> Vec<u64> {
        match self {
            // Page by page at first, then faster.
            Self::Disk { .. } => (0..60)
                .map(|step: u64| (step + step.saturating_sub(16).pow(2) / 4) * 4_096)
                .collect(),
            Self::Limit => {
                let mut rooms = vec![0, 1, 15, 16, 100, 4_095, 4_096, 4_191, 4_192, 8_287, 8_288];
                rooms.extend((0..20).map(|step| 12_288 + step * step * 600));
                rooms.extend((18..34).map(|bits| 1 << bits));
                rooms
            }
        }
    }

    /// Whether a sync may fail at its last step. It overwrites a slot in the
    /// header, which takes no room; but a limit may lie before the header's end.
    fn may_poison(&self, room: u64) -> bool {
        matches!(self, Self::Limit) && room < 12_288
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Disk { .. } => ErrorKind::StorageFull,
            Self::Limit => ErrorKind::FileTooLarge,
        }
    }

    /// It must say that there was no room, and in which file.
    fn check_error(&self, operation: &str, error: &Error) {
        let source = error.io_error().unwrap_or_else(|| panic!("{operation}: {error}"));
        assert_eq!(source.kind(), self.kind(), "{operation}: {error}");
        let text = error.to_string();
        assert!(text.contains(".zr") || text.contains("schema.msgpack"), "{operation}: {text}");
    }
}

fn limit(room: Option<u64>) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: room.or(maximum), maximum }).unwrap();
}

/// What is tried under pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Append(Codec),
    Stage,
    Sync,
    Delete,
    Compact,
    Train,
    SetSchema,
    Convert,
    Create,
}

use Operation::{Append, Compact, Convert, Create, Delete, SetSchema, Stage, Sync, Train};

const OPERATIONS: [Operation; 10] = [
    Append(Codec::Raw),
    Append(Codec::Zstd),
    Stage,
    Sync,
    Delete,
    Compact,
    Train,
    SetSchema,
    Convert,
    Create,
];

/// A store, and the numbers of its records.
struct Subject {
    path: PathBuf,
    format: Format,
    store: Store,
    model: Vec<u64>,
    next: u64,
}

impl Subject {
    fn new(path: PathBuf, format: Format, operation: Operation) -> Self {
        let store = open(&path, format);
        let mut subject = Self { path, format, store, model: Vec::new(), next: 1 };
        if operation != SetSchema {
            let numbers = subject.numbers(80);
            subject.append(&numbers, Codec::Raw).unwrap();
            subject.model = numbers;
        }
        if operation == Compact {
            subject.delete().unwrap();
        }
        // Something that is not synced, where the operation goes on from it.
        if operation != SetSchema {
            let numbers = subject.numbers(1);
            subject.append(&numbers, Codec::Raw).unwrap();
            subject.model.extend(numbers);
        }
        subject
    }

    fn numbers(&mut self, count: u64) -> Vec<u64> {
        let first = self.next;
        self.next += count;
        (first..self.next).collect()
    }

    fn append(&self, numbers: &[u64], codec: Codec) -> Result<(), Error> {
        let (src, offsets) = pack(numbers);
        self.store.append(&src, &offsets, Some(codec)).map(|_| ())
    }

    fn delete(&mut self) -> Result<(), Error> {
        self.store.delete(&[0, 7, 12])?;
        for index in [12, 7, 0] {
            self.model.swap_remove(index);
        }
        Ok(())
    }

    fn target(&self) -> PathBuf {
        self.path.with_extension("target")
    }

    fn run(&mut self, operation: Operation) -> Result<(), Error> {
        match operation {
            Append(codec) => {
                let numbers = self.numbers(60);
                self.append(&numbers, codec)?;
                self.model.extend(numbers);
                Ok(())
            }
            Stage => {
                let numbers = self.numbers(60);
                for half in numbers.chunks(30) {
                    let (src, offsets) = pack(half);
                    let staged = self.store.stage(&src, &offsets, Some(Codec::Raw));
                    if let Err(error) = staged {
                        self.store.discard_staged()?;
                        return Err(error);
                    }
                }
                if let Err(error) = self.store.commit_staged() {
                    self.store.discard_staged()?;
                    return Err(error);
                }
                self.model.extend(numbers);
                Ok(())
            }
            Sync => self.store.sync(),
            Delete => self.delete(),
            Compact => self.store.compact(&mut |_| {}).map(|_| ()),
            Train => {
                let samples: Vec<Vec<u8>> =
                    (0..400).map(|n| record(n)[..60.min(record(n).len())].to_vec()).collect();
                let sizes: Vec<usize> = samples.iter().map(Vec::len).collect();
                self.store.train_dictionary(&samples.concat(), &sizes, 6_000).map(|_| ())
            }
            SetSchema => {
                let dtype = Dtype::parse("|u1").unwrap();
                let schema = Schema::new(Kind::Ragged, dtype, vec![], Codec::Raw, vec![]);
                self.store.set_schema(&schema.unwrap())
            }
            Convert => convert(&self.path, self.target(), other(self.format), &mut |_| {}),
            Create => {
                let store = OpenOptions::new().mode(Mode::Create).format(self.format);
                store.open(self.target())?.close()
            }
        }
    }

    /// Everything is there, for this handle and for another.
    fn check(&self, when: &str) {
        let other = Store::open(&self.path).unwrap_or_else(|error| panic!("{when}: {error}"));
        for store in [&self.store, &other] {
            assert_eq!(numbers(store), self.model, "{when}");
        }
        assert_eq!(other.verify(&mut |_| {}).unwrap(), [], "{when}");
        let target = Store::open(self.target());
        assert!(target.is_err_and(|error| error.is_not_found()), "{when}: there is a target");
        let beside = fs::read_dir(self.path.parent().unwrap()).unwrap();
        for entry in beside {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.starts_with('.'), "{when}: {name} was left behind");
        }
    }

    /// With room again, the same handle goes on, unless a sync has failed.
    fn go_on(&mut self, operation: Operation, may_poison: bool, when: &str) {
        let number = self.numbers(1);
        match self.append(&number, Codec::Raw) {
            Ok(()) => self.model.extend(number),
            Err(error) => {
                let is_poisoned = matches!(error.core(), Some(CoreError::Poisoned));
                assert!(is_poisoned && may_poison, "{when}: {error}");
                // Closing says it as well.
                let error = self.store.close().unwrap_err();
                assert!(matches!(error.core(), Some(CoreError::Poisoned)), "{when}: {error}");
                self.store = open(&self.path, self.format);
                self.append(&number, Codec::Raw).unwrap();
                self.model.extend(number);
            }
        }
        self.check(when);
        if operation == SetSchema {
            // Which only an empty store takes.
            self.store.delete(&[0]).unwrap();
            self.model.clear();
        }
    }
}

fn open(path: &Path, format: Format) -> Store {
    OpenOptions::new().mode(Mode::Append).format(format).level(1).open(path).unwrap()
}

/// The numbers of all records, each compared with what was written.
fn numbers(store: &Store) -> Vec<u64> {
    workload::numbers(store).unwrap()
}

/// A directory in memory, where there is such a file system: syncs take no
/// time there.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Tries every operation with ever more room until it works; says how often
/// one failed.
fn press(pressure: &Pressure, folder: &Path) -> u64 {
    let mut failures = 0;
    for format in FORMATS {
        for operation in OPERATIONS {
            let place = folder.join("subject");
            fs::create_dir(&place).unwrap();
            let mut subject = Subject::new(place.join("store.zr"), format, operation);
            let mut worked = false;
            for room in pressure.rooms() {
                let when = format!("{operation:?}, {} format, room {room}", format.name());
                pressure.apply(room);
                let result = subject.run(operation);
                if let Err(error) = &result {
                    pressure.check_error(&when, error);
                    subject.check(&when);
                    failures += 1;
                }
                pressure.release();
                worked = result.is_ok();
                if worked {
                    break;
                }
                subject.go_on(operation, pressure.may_poison(room), &when);
            }
            assert!(worked, "{operation:?}, {} format: never worked", format.name());
            assert_eq!(numbers(&subject.store), subject.model, "{operation:?}");
            subject.store.close().unwrap();
            drop(subject);
            fs::remove_dir_all(&place).unwrap();
        }
    }
    println!("{failures} operations failed for want of room, and changed nothing");
    failures
}

#[test]
fn on_a_full_disk_every_operation_fails_cleanly_and_works_later() {
    let launcher = match mounting() {
        Ok(launcher) => launcher,
        Err(reason) => return eprintln!("not run: {reason}"),
    };
    alone("on_a_full_disk_every_operation_fails_cleanly_and_works_later", launcher, || {
        let folder = tempfile::tempdir().unwrap();
        mount(&format!("size={DISK_SIZE}"), folder.path());
        let pressure = Pressure::Disk { ballast: folder.path().join("ballast") };
        assert!(press(&pressure, folder.path()) > 50);
    });
}

#[test]
fn at_a_file_size_limit_every_operation_fails_cleanly_and_works_later() {
    alone("at_a_file_size_limit_every_operation_fails_cleanly_and_works_later", &[], || {
        let folder = folder();
        assert!(press(&Pressure::Limit, folder.path()) > 50);
    });
}

#[test]
fn a_store_on_a_full_disk_is_read_from_maps() {
    let launcher = match mounting() {
        Ok(launcher) => launcher,
        Err(reason) => return eprintln!("not run: {reason}"),
    };
    alone("a_store_on_a_full_disk_is_read_from_maps", launcher, || {
        let folder = tempfile::tempdir().unwrap();
        mount(&format!("size={DISK_SIZE}"), folder.path());
        for format in FORMATS {
            let subject = Subject::new(folder.path().join(format.name()), format, Delete);
            let pressure = Pressure::Disk { ballast: folder.path().join("ballast") };
            pressure.apply(0);
            for io in [Io::Map, Io::Pread] {
                let store = OpenOptions::new().io(io).open(&subject.path).unwrap();
                assert_eq!(numbers(&store), subject.model);
                assert_eq!(store.verify(&mut |_| {}).unwrap(), []);
            }
            pressure.release();
        }
    });
}

/// Large enough to be packed in parts, of which the first find room.
#[test]
fn an_append_that_finds_no_room_half_way_leaves_the_store_as_it_was() {
    alone("an_append_that_finds_no_room_half_way_leaves_the_store_as_it_was", &[], || {
        const RECORD_LEN: usize = 64 << 10;
        const ROOM: u64 = 3 << 20;
        let folder = folder();
        // It does not shrink, so that zstd writes as much as it is given.
        let many: Vec<u8> = (1..=128).flat_map(|seed| noise(seed, RECORD_LEN)).collect();
        let offsets: Vec<u64> = (0..many.len()).step_by(RECORD_LEN).map(|at| at as u64).collect();
        for (format, codec) in
            FORMATS.into_iter().flat_map(|format| [Codec::Raw, Codec::Zstd].map(|c| (format, c)))
        {
            for threads in [1, 3] {
                let path = folder.path().join(format!("{}{codec:?}{threads}", format.name()));
                let options = OpenOptions::new().mode(Mode::Append).format(format).codec(codec);
                let store = options.min_saving(0.0).threads(threads).open(&path).unwrap();
                store.append(b"onetwo", &[0, 3], None).unwrap();
                let stats = store.stats().unwrap();
                limit(Some(ROOM));
                let error = store.append(&many, &offsets, None).unwrap_err();
                limit(None);
                Pressure::Limit.check_error("append", &error);
                assert_eq!(store.stats().unwrap().records, stats.records);
                if format == Format::Extended {
                    assert_eq!(store.stats().unwrap(), stats, "what was written is cut off");
                }
                assert_eq!(store.verify(&mut |_| {}).unwrap(), []);
                assert_eq!(store.append(&many, &offsets, None).unwrap(), 2);
                let mut found = vec![0; many.len()];
                let indices: Vec<u64> = (2..).take(offsets.len()).collect();
                store.gather(&indices, &mut found, &offsets).unwrap();
                assert!(found == many, "{format:?}, {codec:?}");
                store.close().unwrap();
            }
        }
    });
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| next()).collect()
}
