//! The clock by which calls into components are interrupted: a thread that
//! lives as long as there are sandboxes.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wasmtime::Engine;

use crate::process;

/// How often the epoch advances, and so how exactly a limit on time is kept.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Advances the epoch of the engine while it lives.
pub(crate) struct Ticker {
    /// A forked child has no such thread, and must not wait for it.
    process: u32,
    /// Dropped to stop it.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

static RUNNING: Mutex<Weak<Ticker>> = Mutex::new(Weak::new());

impl Ticker {
    /// The ticker of this process, which is started if there is none.
    ///
    /// # Errors
    ///
    /// Those of starting a thread.
    pub(crate) fn share(engine: &Engine) -> std::io::Result<Arc<Self>> {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ticker) = running.upgrade()
            && ticker.process == process::id()
        {
            return Ok(ticker);
        }
        let ticker = Arc::new(Self::start(engine.clone())?);
        *running = Arc::downgrade(&ticker);
        Ok(ticker)
    }

    fn start(engine: Engine) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let tick = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                engine.increment_epoch();
            }
        };
        let thread = thread::Builder::new().name("zrecord-epoch".into()).spawn(tick)?;
        Ok(Self { process: process::id(), stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if self.process != process::id() {
            return;
        }
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It does not panic, and nothing depends on it if it did.
            let _ = thread.join();
        }
    }
}

/// How many ticks a call may take: the first may come at once.
pub(crate) fn ticks(time: Duration) -> u64 {
    let ticks = time.as_nanos().div_ceil(TICK.as_nanos()).saturating_add(1);
    // Half of what there is: wasmtime adds it to the current epoch.
    u64::try_from(ticks).unwrap_or(u64::MAX).min(u64::MAX / 2)
}
