//! Killing a worker at random moments and checking what it leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use zrecord_host::{Format, Mode, OpenOptions, Store, Successor, convert};

use crate::worker::{CHUNK_SIZE_MAX, Worker, beside};
use crate::workload::{Operation, Random, Workload, numbers, other};

/// A new store is begun after so many rounds, so that creation is killed too.
const ROUNDS_PER_STORE: u64 = 12;
/// A worker is killed behind one of so many lines that it says: the first two
/// are about opening, the others acknowledge operations.
const LINES_MAX: u64 = 8;
/// And up to `2^this` microseconds later, most often much sooner, since what
/// begins then may take ten microseconds or ten milliseconds.
const DELAY_BITS: u64 = 13;

/// What the kills of a run have met.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many workers were killed.
    pub kills: u64,
    /// During what, and how often that was found done, or as before.
    pub during: BTreeMap<&'static str, [u64; 2]>,
    /// How many operations were acknowledged.
    pub acknowledged: u64,
    /// How many records were compared.
    pub records: u64,
    /// How often a store was found unclean.
    pub recovered: u64,
    /// How many killed runs left a directory beside the store's place.
    pub leftovers: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} kills, {} operations acknowledged, {} records compared, {} stores found unclean, \
             {} directories left beside the place and removed by a later run",
            self.kills, self.acknowledged, self.records, self.recovered, self.leftovers
        )?;
        for (name, [before, after]) in &self.during {
            writeln!(f, "  killed during {name}: {before} found as before, {after} found done")?;
        }
        Ok(())
    }
}

/// What must be found: one of two states, told by the numbers of records.
struct Expected {
    before: Option<Vec<u64>>,
    after: Option<Vec<u64>>,
    during: &'static str,
}

/// A store that is worked on and killed again and again.
struct Run {
    program: String,
    job: String,
    format: Format,
    random: Random,
    folder: PathBuf,
    path: PathBuf,
    /// The numbers of the records that are there; `None`: there is no store.
    model: Option<Vec<u64>>,
    /// Directories that killed runs have left, and that were counted.
    left: BTreeSet<OsString>,
    tally: Tally,
}

/// Kills `rounds` workers at their `job` over stores of `format` in `folder`.
///
/// # Errors
///
/// The first promise that is broken, with the round.
pub fn run(
    worker: [&str; 2],
    folder: &Path,
    format: Format,
    rounds: u64,
    seed: u64,
) -> Result<Tally> {
    let [program, job] = worker.map(str::to_owned);
    let mut run = Run {
        program,
        job,
        format,
        random: Random::new(seed),
        folder: folder.into(),
        path: folder.join("store"),
        model: None,
        left: BTreeSet::new(),
        tally: Tally::default(),
    };
    for round in 0..rounds {
        run.round(round).with_context(|| {
            format!("round {round} of seed {seed}, {} format, in {folder:?}", format.name())
        })?;
    }
    Ok(run.tally)
}

impl Run {
    fn round(&mut self, round: u64) -> Result<()> {
        if round.is_multiple_of(ROUNDS_PER_STORE) {
            self.begin_store(round)?;
        }
        let length = self.model.as_ref().map_or(0, |model| model.len() as u64);
        let (seed, next_number) = (self.random.draw(), (round + 1) << 32);
        let arguments = [
            self.job.clone(),
            self.path.display().to_string(),
            self.format.name().into(),
            seed.to_string(),
            length.to_string(),
            next_number.to_string(),
        ];
        let lines = self.kill_one(&arguments)?;
        let workload = Workload::new(seed, length, next_number);
        let (expected, converted) = self.replay(workload, &lines)?;
        let found = self.check_reading(&expected)?;
        let is_after = found == expected.after && expected.before != expected.after;
        self.tally.during.entry(expected.during).or_default()[usize::from(is_after)] += 1;
        self.model = found;
        self.check_converted(&expected, converted)?;
        let left = self.leftovers()?;
        self.tally.leftovers += left.difference(&self.left).count() as u64;
        self.left = left;
        // Otherwise the next worker recovers, and may be killed at it.
        if self.random.below(2) == 0 {
            self.check_writing()?;
        }
        Ok(())
    }

    fn begin_store(&mut self, round: u64) -> Result<()> {
        if self.path.exists() {
            self.check_writing()?;
            fs::remove_dir_all(&self.path)?;
        }
        self.path = self.folder.join(format!("store-{round}"));
        self.model = None;
        Ok(())
    }

    /// Starts a worker and kills it at some moment; what it has said.
    fn kill_one(&mut self, arguments: &[String]) -> Result<Vec<String>> {
        let mut worker = Worker::start(&self.program, arguments)?;
        let mut lines = Vec::new();
        let is_new = self.model.is_none();
        let behind = self.random.below(if is_new { 2 } else { LINES_MAX });
        for _ in 0..=behind {
            lines.push(worker.answer()?);
        }
        let delay_max = 1 << self.random.below(DELAY_BITS + 1);
        thread::sleep(Duration::from_micros(self.random.below(delay_max)));
        let (status, rest) = worker.kill()?;
        lines.extend(rest);
        let first = lines.remove(0);
        ensure!(first == "ready", "it said {first}");
        ensure!(status.code().is_none(), "the worker ended by itself: {status}");
        self.tally.kills += 1;
        Ok(lines)
    }

    /// What the acknowledged operations have made of the store, and what the
    /// one under way would; and the last conversion that was acknowledged.
    fn replay(
        &mut self,
        mut workload: Workload,
        lines: &[String],
    ) -> Result<(Expected, Option<Vec<u64>>)> {
        let Some((opened, answers)) = lines.split_first() else {
            let during = if self.model.is_some() { "open and recovery" } else { "creation" };
            let before = self.model.clone();
            let after = before.clone().or(Some(Vec::new()));
            return Ok((Expected { before, after, during }, None));
        };
        ensure!(opened == "open", "it said {opened}");
        let mut model = self.model.clone().unwrap_or_default();
        let mut converted = None;
        for answer in answers {
            let operation = workload.next().context("workloads are endless")?;
            ensure!(answer == "done" || answer == "refused", "it said {answer}");
            if operation == Operation::Convert && answer == "done" {
                converted = Some(model.clone());
            }
            operation.apply(&mut model);
            self.tally.acknowledged += 1;
        }
        let under_way = workload.next().context("workloads are endless")?;
        let mut after = model.clone();
        under_way.apply(&mut after);
        let during = under_way.name();
        Ok((Expected { before: Some(model), after: Some(after), during }, converted))
    }

    /// Reads everything without writing; says what was found.
    fn check_reading(&mut self, expected: &Expected) -> Result<Option<Vec<u64>>> {
        let before = files(&self.path)?;
        let store = match Store::open(&self.path) {
            Ok(store) => store,
            Err(error) if error.is_not_found() && expected.before.is_none() => return Ok(None),
            Err(error) => bail!("opening what a killed {} left: {error}", expected.during),
        };
        let found = self.numbers(&store)?;
        let known = [&expected.before, &expected.after];
        if !known.into_iter().flatten().any(|numbers| *numbers == found) {
            bail!(
                "a killed {} left {found:?}; before it there was {:?}, after it there is {:?}",
                expected.during,
                expected.before,
                expected.after
            );
        }
        let faults = store.verify(&mut |_| {})?;
        ensure!(faults.is_empty(), "a killed {} left faults: {faults:?}", expected.during);
        self.tally.recovered += u64::from(!store.inspect()?.clean);
        store.close()?;
        ensure!(files(&self.path)? == before, "a reader has changed the store");
        Ok(Some(found))
    }

    fn numbers(&mut self, store: &Store) -> Result<Vec<u64>> {
        let numbers = numbers(store)?;
        self.tally.records += numbers.len() as u64;
        Ok(numbers)
    }

    /// A conversion is there wholly or not at all.
    fn check_converted(&mut self, expected: &Expected, done: Option<Vec<u64>>) -> Result<()> {
        let path = beside(&self.path);
        if !path.exists() {
            ensure!(done.is_none(), "a conversion that was done is not there");
            return Ok(());
        }
        let whole = match done {
            Some(numbers) => numbers,
            None if expected.during == "convert" => expected.before.clone().unwrap_or_default(),
            None => bail!("there is a conversion that nobody made"),
        };
        let store = Store::open(&path)?;
        ensure!(store.format() == other(self.format), "a conversion of the wrong format");
        ensure!(self.numbers(&store)? == whole, "a conversion holds something else");
        ensure!(store.verify(&mut |_| {})?.is_empty(), "a conversion has faults");
        store.close()?;
        Ok(fs::remove_dir_all(&path)?)
    }

    /// The directories that killed runs have left beside the store.
    fn leftovers(&self) -> Result<BTreeSet<OsString>> {
        let names = fs::read_dir(&self.folder)?.map(|entry| Ok(entry?.file_name()));
        let mut names: BTreeSet<OsString> = names.collect::<Result<_>>()?;
        names.retain(|name| name.to_string_lossy().starts_with('.'));
        Ok(names)
    }

    /// The next writer recovers, cleans up and goes on.
    fn check_writing(&mut self) -> Result<()> {
        let Some(model) = self.model.clone() else { return Ok(()) };
        let options = OpenOptions::new().mode(Mode::Append).threads(2);
        let store = options.chunk_size_max(CHUNK_SIZE_MAX).open(&self.path)?;
        store.lock_writer()?;
        ensure!(self.numbers(&store)? == model, "a writer finds something else than a reader");
        store.compact(&mut |_| {})?;
        ensure!(self.numbers(&store)? == model, "compacting has changed the records");
        ensure!(store.verify(&mut |_| {})?.is_empty(), "faults after compacting");
        ensure!(store.leftovers()?.is_empty(), "compacting has not removed every leftover");
        ensure!(store.stats()?.reclaimable == 0, "compacting has left dead bytes");
        store.close()?;
        let converted = beside(&self.path);
        if convert(&self.path, &converted, other(self.format), &mut |_| {}).is_ok() {
            fs::remove_dir_all(&converted)?;
        }
        // What remains is of runs that would have replaced the store itself,
        // and of conversions where this one was refused before it began.
        drop(Successor::begin(&self.path, true)?);
        drop(Successor::begin(&converted, false)?);
        ensure!(self.leftovers()?.is_empty(), "the next run has not removed what killed ones left");
        Ok(())
    }
}

/// What is in a directory: names, sizes, and when each was changed.
fn files(path: &Path) -> Result<BTreeMap<PathBuf, (u64, SystemTime)>> {
    let mut files = BTreeMap::new();
    if path.exists() {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            files.insert(entry.path(), (metadata.len(), metadata.modified()?));
        }
    }
    Ok(files)
}
