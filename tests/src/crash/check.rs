//! Opening what a crash left and holding it against what was promised.
//!
//! | after | is there |
//! | --- | --- |
//! | a kill | the state of the last call that returned, or the one that the call under way leads to |
//! | a loss of power, extended | one of the states since the last that was made durable |
//! | a loss of power, classic | as many records as one of them had; those that were durable are intact, the others may be damaged |
//!
//! A reader recovers in memory and writes nothing. A writer sees the same as
//! the reader; a second writer has nothing more to recover. Then the store is
//! appended to, changed at random, compacted, verified, closed and opened
//! again, always holding what the model holds; nothing is left over. And that
//! continued work, recovery included, is crashed in its turn.

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::error::Error;
use zrecord_core::storage::FileName;
use zrecord_core::store::Store;

use super::campaign::Counts;
use super::disk::{Disk, Loss};
use super::model::{History, Observed, Promise};
use super::record::{Change, RecordingDirectory};
use super::workload::{Operation, Run, Settings};

/// How often a crash may follow upon a crash.
const DEPTH_MAX: usize = 3;

/// Checks what is found on a disk that has lost `loss` against what was
/// promised, and goes on from there.
///
/// # Errors
///
/// The promise that is broken.
pub fn check(
    disk: &Disk,
    loss: &Loss,
    promise: &Promise<'_>,
    settings: &Settings,
    rng: &mut Rng,
    depth: usize,
    counts: &mut Counts,
) -> Result<()> {
    // A kill loses nothing, but leaves what it found as durable as it was.
    let mut disk = match promise.killed {
        true => disk.clone(),
        false => Disk::new(&disk.image(loss)),
    };
    let directory = RecordingDirectory::over(&disk, settings.sabotage);
    let history = read(&directory, promise, settings)?;
    let mut run = Run::over(directory, history, settings);
    go_on(&mut run, rng)?;
    if depth >= DEPTH_MAX || rng.u8(..3) > 0 {
        return Ok(());
    }
    let changes = run.directory.changes();
    let at = rng.usize(..=changes.len());
    for change in &changes[..at] {
        disk.apply(change);
    }
    let killed = rng.bool();
    let loss = if killed { Loss::new() } else { disk.draw_loss(rng) };
    let promise = run.history.promise(at, false, killed, settings.format);
    counts.again += 1;
    check(&disk, &loss, &promise, settings, rng, depth + 1, counts).with_context(|| {
        let what = if killed { "a kill" } else { "a loss of power" };
        let log: Vec<String> = changes[..at].iter().map(Change::to_string).collect();
        format!("after {what} in the work that followed, which was: {}", log.join("; "))
    })
}

/// Reads the store as a handle does that cannot write: what was found, and what
/// led to it.
fn read(
    directory: &RecordingDirectory,
    promise: &Promise<'_>,
    settings: &Settings,
) -> Result<History> {
    let opened = Store::<_, Libzstd>::open(directory.clone(), settings.recovers);
    let mut store = match opened {
        Ok(store) => store,
        Err(Error::Io { file: FileName::Meta, source })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            ensure!(promise.states.iter().any(Option::is_none), "the store is gone");
            return Ok(History::new(vec![None]));
        }
        Err(error) => return Err(error).context("opening for reading"),
    };
    let observed = Observed::read(&mut store).context("reading")?;
    ensure!(directory.position() == 0, "a reader has written: {:?}", directory.changes());
    let Some((at, state)) = observed.find(promise) else {
        let expected = promise.states.iter().map(|state| match state {
            Some(state) => observed.difference(state),
            None => "a store where none was".into(),
        });
        bail!("found is no promised state: {}", expected.collect::<Vec<_>>().join("; or "));
    };
    let mut states = Vec::new();
    if promise.killed {
        states.extend(promise.before.iter().chain(&promise.states[..at]).cloned());
    }
    states.push(Some(state));
    Ok(History::new(states))
}

/// Takes the store over and works on.
fn go_on(run: &mut Run, rng: &mut Rng) -> Result<()> {
    let mut operations = vec![Operation::draw_append(rng), Operation::Compact];
    for _ in 0..rng.usize(..3) {
        operations.insert(rng.usize(..=operations.len()), Operation::draw(rng));
    }
    if run.history.state().is_some() {
        // Recovering once more finds nothing to do.
        operations.insert(0, Operation::Reopen { cleanly: false });
    }
    run.apply_all(&operations).context("going on")?;
    run.compact().context("compacting at the end")?;
    run.check().context("at the end")?;
    run.close().context("closing")?;
    run.apply_all(&[]).context("after closing")
}
