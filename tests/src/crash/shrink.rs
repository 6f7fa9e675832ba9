//! Making a failure small enough to be understood, and showing it.

use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::campaign::{Build, Counts, Crash, Failure, Point, Recorded};
use super::disk::{Disk, Loss};

/// How many changes before the crash are shown.
const SHOWN: usize = 40;

/// Leaves out operations as long as what remains fails at some point.
pub fn shrink(failure: Failure, build: Build) -> Failure {
    let mut failure = failure;
    let count = super::workload::Workload::draw(failure.point.seed, None, true).operations.len();
    let mut kept: Vec<usize> = failure.point.kept.clone().unwrap_or_else(|| (0..count).collect());
    loop {
        let before = kept.len();
        for at in (0..kept.len()).rev() {
            let mut fewer = kept.clone();
            fewer.remove(at);
            if let Err(smaller) = fails(failure.point.seed, &fewer, build) {
                failure = smaller;
                kept = fewer;
            }
        }
        if kept.len() == before {
            return failure;
        }
    }
}

fn fails(seed: u64, kept: &[usize], build: Build) -> Result<(), Failure> {
    Recorded::new(seed, Some(kept.to_vec()), build)?.crash_everywhere(&mut Counts::default())
}

/// Crashes at one point again.
///
/// # Errors
///
/// The promise that is broken.
pub fn replay(point: &Point, build: Build) -> Result<()> {
    let recorded = match Recorded::new(point.seed, point.kept.clone(), build) {
        Ok(recorded) => recorded,
        Err(failure) => return Err(failure.error),
    };
    let disk = recorded.disk(point.position);
    let (disk, loss) = recorded.found(&disk, point).context("there is no such crash")?;
    recorded.check(&disk, &loss, point, &mut Counts::default())
}

/// A failure as text: how to find it again, what was done, what was lost.
pub fn describe(failure: &Failure, build: Build) -> String {
    let Failure { point, error } = failure;
    let mut text = format!("{error:#}\n\ncargo xtask crash --replay {point}\n");
    let Ok(recorded) = Recorded::new(point.seed, point.kept.clone(), build) else { return text };
    let _ = writeln!(text, "\n{:?}", recorded.settings());
    for operation in &recorded.workload().operations {
        let _ = writeln!(text, "  {operation:?}");
    }
    let first = point.position.saturating_sub(SHOWN);
    let _ = writeln!(text, "\nlog from change {first} to the crash:");
    for (at, change) in recorded.changes().iter().enumerate().take(point.position).skip(first) {
        let _ = writeln!(text, "  {at} {change}");
    }
    if point.crash == Crash::Torn {
        let _ = writeln!(text, "  {} cut: {}", point.position, recorded.changes()[point.position]);
    }
    let disk = recorded.disk(point.position);
    if let Some((disk, loss)) = recorded.found(&disk, point) {
        let loss = smallest_loss(&recorded, &disk, loss, point);
        let _ = writeln!(text, "\nlost (the version that was found instead): {loss:?}");
        let _ = writeln!(text, "found: {}", disk.image(&loss));
    }
    text
}

/// Gives back what was lost as long as it still fails.
fn smallest_loss(recorded: &Recorded, disk: &Disk, loss: Loss, point: &Point) -> Loss {
    let mut loss = loss;
    for piece in loss.keys().copied().collect::<Vec<_>>() {
        let mut less = loss.clone();
        less.remove(&piece);
        if recorded.check(disk, &less, point, &mut Counts::default()).is_err() {
            loss = less;
        }
    }
    loss
}
