//! One step at work, with memory of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wasmtime::component::ResourceAny;
use wasmtime::{Store, UpdateDeadline};

use crate::sandbox::engine;
use crate::sandbox::failure::SandboxError;
use crate::sandbox::limits::{Limiter, Limits};
use crate::sandbox::step::bindings::transform;
use crate::sandbox::step::failure::StepError;
use crate::sandbox::step::program::Program;
use crate::sandbox::ticker::{self, Ticker};

/// What belongs to one instance. A step has no resource of the host.
pub(super) struct State {
    limiter: Limiter,
    /// How many ticks the call may still take.
    ticks: u64,
    stop: Arc<AtomicBool>,
}

impl State {
    /// Asked at every tick of the clock.
    fn goes_on(&mut self) -> UpdateDeadline {
        self.ticks = self.ticks.saturating_sub(1);
        match self.ticks == 0 || self.stop.load(Ordering::Relaxed) {
            true => UpdateDeadline::Interrupt,
            false => UpdateDeadline::Continue(1),
        }
    }
}

/// A step that was opened.
pub(super) struct Instance {
    store: Store<State>,
    exports: transform::Guest,
    step: ResourceAny,
    limits: Limits,
    _ticker: Arc<Ticker>,
}

/// What an answer of the step comes to: the outer failure is the runtime's.
type Called<T> = wasmtime::Result<Result<T, transform::StepError>>;

impl Instance {
    /// Makes the step ready for records of `input`. Calls into it end soon
    /// after `stop` is set.
    ///
    /// # Errors
    ///
    /// `Refused`, `Setup`, `World`, `Stopped`.
    pub(super) fn open(
        program: &Program,
        limits: Limits,
        input: Option<&transform::Schema>,
        config: &str,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, StepError> {
        let engine = engine::engine().map_err(StepError::Setup)?;
        let ticker = Ticker::share(engine)
            .map_err(|error| StepError::Setup(SandboxError::Setup { reason: error.to_string() }))?;
        let ticks = ticker::ticks(limits.time);
        let state = State { limiter: Limiter::new(&limits), ticks, stop: Arc::clone(stop) };
        let mut store = Store::new(engine, state);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(limits.hostcall_fuel());
        store.epoch_deadline_callback(|mut store| Ok(store.data_mut().goes_on()));
        store.set_epoch_deadline(1);
        let made = program.instance().instantiate(&mut store);
        let stopped = |error: &wasmtime::Error, store: &Store<State>| {
            ended(error, store, &limits, StepError::Setup)
        };
        let instance = made.map_err(|error| stopped(&error, &store))?;
        let exports = program
            .exports()
            .load(&mut store, &instance)
            .map_err(|error| StepError::World { reason: format!("{error:#}") })?;
        let opened = exports.step().call_open(&mut store, input, config);
        let step = opened.map_err(|error| stopped(&error, &store))?.map_err(refusal)?;
        Ok(Self { store, exports, step, limits, _ticker: ticker })
    }

    /// What the bytes of the outputs mean.
    ///
    /// # Errors
    ///
    /// `Setup`, `Stopped`.
    pub(super) fn output_schema(&mut self) -> Result<Option<transform::Schema>, StepError> {
        self.begin_call();
        let called = self.exports.step().call_output_schema(&mut self.store, self.step);
        called.map_err(|error| ended(&error, &self.store, &self.limits, StepError::Setup))
    }

    /// Processes a batch, whose first record has the index `first`. An
    /// instance that was stopped is not to be used again.
    ///
    /// # Errors
    ///
    /// `Record`, `Batch`, `Sandbox`, `Stopped`.
    pub(super) fn process(
        &mut self,
        batch: &transform::Batch,
    ) -> Result<transform::Output, StepError> {
        let first = batch.first_index;
        let last = first + (batch.ends.len() as u64).saturating_sub(1);
        self.begin_call();
        let called: Called<_> = self.exports.step().call_process(&mut self.store, self.step, batch);
        let answer = called.map_err(|error| {
            let blame = |source| StepError::Sandbox { first, last, source };
            ended(&error, &self.store, &self.limits, blame)
        })?;
        answer.map_err(|error| match error {
            transform::StepError::Record((position, reason))
                if (position as usize) < batch.ends.len() =>
            {
                StepError::Record { index: first + u64::from(position), reason }
            }
            transform::StepError::Record((position, reason)) => {
                let reason = format!("it blames a record {position} that is not there: {reason}");
                StepError::Batch { first, last, reason }
            }
            transform::StepError::Other(reason) => {
                StepError::Batch { first, last, reason: words(reason) }
            }
        })
    }

    fn begin_call(&mut self) {
        let ticks = ticker::ticks(self.limits.time);
        let state = self.store.data_mut();
        state.limiter.begin_call();
        state.ticks = ticks;
        self.store.set_epoch_deadline(1);
    }
}

/// What ended an instance: somebody outside, or what it did, of which `blame`
/// makes an error.
fn ended(
    error: &wasmtime::Error,
    store: &Store<State>,
    limits: &Limits,
    blame: impl FnOnce(SandboxError) -> StepError,
) -> StepError {
    if store.data().stop.load(Ordering::Relaxed) {
        return StepError::Stopped;
    }
    let refusal = store.data().limiter.refusal();
    blame(refusal.unwrap_or_else(|| SandboxError::of_trap(error, limits)))
}

fn refusal(error: transform::StepError) -> StepError {
    let reason = match error {
        transform::StepError::Record((_, reason)) => reason,
        transform::StepError::Other(reason) => words(reason),
    };
    StepError::Refused { reason }
}

fn words(reason: Option<String>) -> String {
    reason.unwrap_or_else(|| "it does not say why".into())
}
