//! One step at work, with memory of its own.

use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::ResourceAny;

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
    /// Makes the step ready for records of `input`.
    ///
    /// # Errors
    ///
    /// `Refused`, `Setup`, `World`.
    pub(super) fn open(
        program: &Program,
        limits: Limits,
        input: Option<&transform::Schema>,
        config: &str,
    ) -> Result<Self, StepError> {
        let engine = engine::engine().map_err(StepError::Setup)?;
        let ticker = Ticker::share(engine)
            .map_err(|error| StepError::Setup(SandboxError::Setup { reason: error.to_string() }))?;
        let mut store = Store::new(engine, State { limiter: Limiter::new(&limits) });
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(limits.hostcall_fuel());
        store.set_epoch_deadline(ticker::ticks(limits.time));
        let made = program.instance().instantiate(&mut store);
        let stopped = |error: &wasmtime::Error, store: &Store<State>| {
            StepError::Setup(stop(error, store, &limits))
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
    /// `Setup`.
    pub(super) fn output_schema(&mut self) -> Result<Option<transform::Schema>, StepError> {
        self.begin_call();
        let called = self.exports.step().call_output_schema(&mut self.store, self.step);
        called.map_err(|error| StepError::Setup(stop(&error, &self.store, &self.limits)))
    }

    /// Processes a batch, whose first record has the index `first`. An
    /// instance that was stopped is not to be used again.
    ///
    /// # Errors
    ///
    /// `Record`, `Batch`, `Sandbox`.
    pub(super) fn process(
        &mut self,
        batch: &transform::Batch,
    ) -> Result<transform::Output, StepError> {
        let first = batch.first_index;
        let last = first + (batch.ends.len() as u64).saturating_sub(1);
        self.begin_call();
        let called: Called<_> = self.exports.step().call_process(&mut self.store, self.step, batch);
        let answer = called.map_err(|error| {
            let source = stop(&error, &self.store, &self.limits);
            StepError::Sandbox { first, last, source }
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
        self.store.data_mut().limiter.begin_call();
        self.store.set_epoch_deadline(ticker::ticks(self.limits.time));
    }
}

/// What stopped an instance.
fn stop(error: &wasmtime::Error, store: &Store<State>, limits: &Limits) -> SandboxError {
    let refusal = store.data().limiter.refusal();
    refusal.unwrap_or_else(|| SandboxError::of_trap(error, limits))
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
