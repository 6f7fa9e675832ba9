//! Crashing workloads at every position of their logs.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

use anyhow::{Context, Error, Result, anyhow, bail};
use fastrand::Rng;
use zrecord_core::format::Format;

use super::check::check;
use super::disk::{Disk, Loss};
use super::record::{Change, Sabotage};
use super::workload::{Run, Settings, Workload};

/// How many losses of power are drawn for each position.
const LOSSES: u8 = 3;

/// How everything stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed between two changes.
    Kill,
    /// The process is killed within a write.
    Torn,
    /// Power is lost; the number tells draws apart.
    Power(u8),
}

/// A crash of a workload, by which it is found again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The seed of the workload.
    pub seed: u64,
    /// Which of its operations are run; `None`: all.
    pub kept: Option<Vec<usize>>,
    /// How many changes of its log have happened.
    pub position: usize,
    /// How everything stops then.
    pub crash: Crash,
}

/// What a campaign has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Workloads, each of one format.
    pub workloads: u64,
    /// Of these, in the classic format.
    pub classic: u64,
    /// Positions of their logs.
    pub positions: u64,
    /// Kills between changes and within writes.
    pub kills: u64,
    /// Losses of power.
    pub losses: u64,
    /// Crashes of the work that followed a crash.
    pub again: u64,
}

impl Counts {
    /// Crash points: what a disk was found to hold right after a workload was
    /// cut, each opened and checked.
    pub fn points(&self) -> u64 {
        self.kills + self.losses
    }

    /// Adds the counts of another campaign.
    pub fn add(&mut self, other: &Self) {
        self.workloads += other.workloads;
        self.classic += other.classic;
        self.positions += other.positions;
        self.kills += other.kills;
        self.losses += other.losses;
        self.again += other.again;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} crash points ({} kills, {} losses of power) at {} positions of {} workloads \
             ({} classic); {} crashes of the work that followed",
            self.points(),
            self.kills,
            self.losses,
            self.positions,
            self.workloads,
            self.classic,
            self.again,
        )
    }
}

/// A broken promise and where.
#[derive(Debug)]
pub struct Failure {
    /// Where to find it again.
    pub point: Point,
    /// What is wrong.
    pub error: Error,
}

/// What is tried: the build that ships, or one with something left out.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// The sync that is left out, if one is.
    pub sabotage: Option<Sabotage>,
    /// False when readers trust whatever they find.
    pub recovers: bool,
}

impl Build {
    /// The build that ships.
    pub const SHIPPED: Self = Self { sabotage: None, recovers: true };
}

/// A workload that has been run: its log and its history, to be crashed.
pub struct Recorded {
    seed: u64,
    kept: Option<Vec<usize>>,
    workload: Workload,
    run: Run,
    changes: Vec<Change>,
}

impl Recorded {
    /// Runs the workload of a seed, or some of its operations.
    ///
    /// # Errors
    ///
    /// When the workload fails without any crash.
    pub fn new(seed: u64, kept: Option<Vec<usize>>, build: Build) -> Result<Self, Failure> {
        let mut workload = Workload::draw(seed, build.sabotage, build.recovers);
        if let Some(kept) = &kept {
            workload.operations =
                kept.iter().filter_map(|&at| workload.operations.get(at).cloned()).collect();
        }
        let mut run = Run::new(&workload.settings);
        let outcome = guarded(|| run.apply_all(&workload.operations));
        let changes = run.directory.changes();
        let position = changes.len();
        let recorded = Self { seed, kept, workload, run, changes };
        match outcome {
            Ok(()) => Ok(recorded),
            Err(error) => {
                let error = error.context("without any crash");
                Err(Failure { point: recorded.point(position, Crash::Kill), error })
            }
        }
    }

    fn point(&self, position: usize, crash: Crash) -> Point {
        Point { seed: self.seed, kept: self.kept.clone(), position, crash }
    }

    /// What stays the same through the workload.
    pub fn settings(&self) -> &Settings {
        &self.workload.settings
    }

    /// The workload.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The log.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Crashes at every position.
    ///
    /// # Errors
    ///
    /// At the first broken promise.
    pub fn crash_everywhere(&self, counts: &mut Counts) -> Result<(), Failure> {
        counts.workloads += 1;
        counts.classic += u64::from(self.settings().format == Format::Classic);
        let mut disk = Disk::default();
        for position in 0..=self.changes.len() {
            counts.positions += 1;
            let losses = (0..LOSSES).map(Crash::Power);
            for crash in [Crash::Kill, Crash::Torn].into_iter().chain(losses) {
                let point = self.point(position, crash);
                let Some((disk, loss)) = self.found(&disk, &point) else { continue };
                match crash {
                    Crash::Power(_) => counts.losses += 1,
                    Crash::Kill | Crash::Torn => counts.kills += 1,
                }
                let outcome = self.check(&disk, &loss, &point, counts);
                outcome.map_err(|error| Failure { point, error })?;
            }
            if let Some(change) = self.changes.get(position) {
                disk.apply(change);
            }
        }
        Ok(())
    }

    /// The disk at a position of the log.
    pub fn disk(&self, position: usize) -> Disk {
        let mut disk = Disk::default();
        for change in self.changes.iter().take(position) {
            disk.apply(change);
        }
        disk
    }

    /// The disk at the crash and what the crash takes from it; `None` where
    /// there is no such crash.
    pub fn found(&self, disk: &Disk, point: &Point) -> Option<(Disk, Loss)> {
        let mut rng = point.rng();
        match point.crash {
            Crash::Kill => Some((disk.clone(), Loss::new())),
            Crash::Power(_) => Some((disk.clone(), disk.draw_loss(&mut rng))),
            Crash::Torn => {
                let Some(Change::Write(inode, offset, bytes)) = self.changes.get(point.position)
                else {
                    return None;
                };
                let step = match self.settings().format {
                    Format::Extended => 1,
                    Format::Classic => 4,
                };
                let possible: Vec<usize> = (1..bytes.len())
                    .filter(|&cut| (offset + cut as u64).is_multiple_of(step))
                    .collect();
                let cut = *rng.choice(&possible)?;
                let mut disk = disk.clone();
                disk.apply(&Change::Write(*inode, *offset, bytes[..cut].into()));
                Some((disk, Loss::new()))
            }
        }
    }

    /// Checks what is found after a crash.
    ///
    /// # Errors
    ///
    /// The promise that is broken.
    pub fn check(
        &self,
        disk: &Disk,
        loss: &Loss,
        point: &Point,
        counts: &mut Counts,
    ) -> Result<()> {
        let killed = !matches!(point.crash, Crash::Power(_));
        let torn = point.crash == Crash::Torn;
        let format = self.settings().format;
        let promise = self.run.history.promise(point.position, torn, killed, format);
        let mut rng = point.rng().fork();
        guarded(|| check(disk, loss, &promise, self.settings(), &mut rng, 1, counts))
    }
}

/// A panic is a failure like any other.
fn guarded(work: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(anyhow!("it panicked: {}", text.unwrap_or_default()))
    })
}

/// Crashes the workloads of seeds in turn until `points` are checked.
///
/// # Errors
///
/// At the first broken promise.
pub fn run(
    seeds: impl Iterator<Item = u64>,
    points: u64,
    build: Build,
    counts: &mut Counts,
) -> Result<(), Failure> {
    for seed in seeds {
        if counts.points() >= points {
            break;
        }
        Recorded::new(seed, None, build)?.crash_everywhere(counts)?;
    }
    Ok(())
}

impl Point {
    fn rng(&self) -> Rng {
        let crash = match self.crash {
            Crash::Kill => 0,
            Crash::Torn => 1,
            Crash::Power(number) => 2 + u64::from(number),
        };
        Rng::with_seed(self.seed ^ (self.position as u64) << 40 ^ crash << 32)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.seed)?;
        match &self.kept {
            None => write!(f, "all")?,
            Some(kept) => {
                let kept: Vec<String> = kept.iter().map(usize::to_string).collect();
                write!(f, "{}", kept.join("."))?;
            }
        }
        write!(f, ":{}:", self.position)?;
        match self.crash {
            Crash::Kill => write!(f, "kill"),
            Crash::Torn => write!(f, "torn"),
            Crash::Power(number) => write!(f, "power{number}"),
        }
    }
}

impl FromStr for Point {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let [seed, kept, position, crash] = parts[..] else {
            bail!("`{text}` is no SEED:OPERATIONS:POSITION:CRASH");
        };
        let kept = match kept {
            "all" => None,
            "" => Some(Vec::new()),
            kept => Some(kept.split('.').map(str::parse).collect::<Result<_, _>>()?),
        };
        let crash = match crash {
            "kill" => Crash::Kill,
            "torn" => Crash::Torn,
            crash => {
                let number = crash.strip_prefix("power").context("no kill, torn or powerN")?;
                Crash::Power(number.parse()?)
            }
        };
        Ok(Self { seed: seed.parse()?, kept, position: position.parse()?, crash })
    }
}
