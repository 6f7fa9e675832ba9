//! How far a run is, and whether it goes on.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use zrecord_core::writer::Progress;

use crate::error::{Error, Result};
use crate::sandbox::failure::SandboxError;
use crate::sandbox::step::failure::StepError;

/// How often at least a run looks whether it goes on.
pub(super) const INTERVAL: Duration = Duration::from_millis(50);

/// Tells the caller's thread how far the run is, and asks whether to go on.
pub(super) struct Watch<'a> {
    progress: &'a mut dyn FnMut(Progress),
    stop: Arc<AtomicBool>,
    /// The step's file, which errors name.
    step: &'a Path,
    total: u64,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        progress: &'a mut dyn FnMut(Progress),
        stop: &Arc<AtomicBool>,
        step: &'a Path,
        total: u64,
    ) -> Self {
        Self { progress, stop: Arc::clone(stop), step, total }
    }

    /// How many records go in.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// # Errors
    ///
    /// `Stopped`.
    pub(super) fn say(&mut self, done: u64) -> Result<()> {
        (self.progress)(Progress { done, total: self.total });
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Error::step(self.step)(StepError::Stopped)),
            false => Ok(()),
        }
    }

    /// Has work done that may take long and ends soon after the stop, before
    /// the first record; watches meanwhile.
    ///
    /// # Errors
    ///
    /// `Stopped`; `Setup` if there is no thread for it; those of the work.
    pub(super) fn over<T: Send>(
        &mut self,
        work: impl FnOnce() -> Result<T, StepError> + Send,
    ) -> Result<T> {
        thread::scope(|scope| {
            let (done, outcome) = mpsc::channel();
            let named = thread::Builder::new().name("zrecord-step".into());
            // If nobody waits any more, the run was stopped.
            let working = named.spawn_scoped(scope, move || drop(done.send(work())));
            let working = working.map_err(|error| {
                let reason = error.to_string();
                Error::step(self.step)(StepError::Setup(SandboxError::Setup { reason }))
            })?;
            loop {
                match outcome.recv_timeout(INTERVAL) {
                    Ok(outcome) => return outcome.map_err(Error::step(self.step)),
                    Err(RecvTimeoutError::Timeout) => self.say(0)?,
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            match working.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("it sends before it ends"),
            }
        })
    }
}
