//! One instantiated component, and the calls into it.

use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::{InstancePre, Resource};
use zrecord_core::storage::Access;

use crate::directory::FsDirectory;
use crate::sandbox::bindings::{store, store_edit};
use crate::sandbox::engine::{self, World};
use crate::sandbox::failure::{Failure, SandboxError};
use crate::sandbox::files::State;
use crate::sandbox::lent::LentDirectory;
use crate::sandbox::limits::Limits;
use crate::sandbox::ticker::{self, Ticker};
use crate::sandbox::wire;

/// The memory and the resources of one component.
pub(crate) type Wasm = Store<State>;

/// What a call into a component comes to: the outer failure is the runtime's.
pub(crate) type Called<T> = wasmtime::Result<Result<T, store::Error>>;

/// A component with memory of its own. What happens in it harms no other.
pub(crate) struct Instance {
    store: Wasm,
    reading: store::Guest,
    editing: Option<store_edit::Guest>,
    limits: Limits,
    /// What has ended it.
    ended: Option<SandboxError>,
    _ticker: Arc<Ticker>,
}

impl Instance {
    /// Instantiates the component of a world.
    pub(crate) fn new(world: World, limits: Limits) -> Result<Self, Failure> {
        limits.check()?;
        let component = world.component()?;
        let engine = engine::engine()?;
        let setup = |error: std::io::Error| SandboxError::Setup { reason: error.to_string() };
        let ticker = Ticker::share(engine).map_err(setup)?;
        let mut store = Store::new(engine, State::new(&limits));
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(limits.hostcall_fuel());
        store.set_epoch_deadline(ticker::ticks(limits.time));
        let made = Self::instantiate(component, &mut store, world);
        let (reading, editing) = made.map_err(|error| {
            let refusal = store.data().limiter.refusal();
            refusal.unwrap_or_else(|| SandboxError::setup(&error))
        })?;
        Ok(Self { store, reading, editing, limits, ended: None, _ticker: ticker })
    }

    fn instantiate(
        component: &InstancePre<State>,
        store: &mut Wasm,
        world: World,
    ) -> wasmtime::Result<(store::Guest, Option<store_edit::Guest>)> {
        let reading = store::GuestIndices::new(component)?;
        let instance = component.instantiate(&mut *store)?;
        let reading = reading.load(&mut *store, &instance)?;
        let editing = match world {
            World::Reader => None,
            World::RecordStore => {
                let editing = store_edit::GuestIndices::new(component)?;
                Some(editing.load(&mut *store, &instance)?)
            }
        };
        Ok((reading, editing))
    }

    /// What it may use.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether a trap or a limit has ended it, so that no call can follow.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Lends a directory.
    pub(crate) fn lend(
        &mut self,
        directory: FsDirectory,
        access: Access,
    ) -> Result<Resource<LentDirectory>, Failure> {
        let lent = self.store.data_mut().lend(directory, access);
        lent.map_err(|error| SandboxError::of_trap(&error, &self.limits).into())
    }

    /// Calls a function of the interface `store`, within the limits. A trap
    /// ends the instance.
    pub(crate) fn read<T>(
        &mut self,
        call: impl FnOnce(&mut Wasm, &store::Guest) -> Called<T>,
    ) -> Result<T, Failure> {
        self.begin_call()?;
        let called = call(&mut self.store, &self.reading);
        self.end_call(called)
    }

    /// Calls a function of the interface `store-edit`, as [`read`](Self::read).
    pub(crate) fn edit<T>(
        &mut self,
        call: impl FnOnce(&mut Wasm, &store_edit::Guest) -> Called<T>,
    ) -> Result<T, Failure> {
        self.begin_call()?;
        let Some(editing) = &self.editing else {
            return Err(zrecord_core::Error::ReadOnly.into());
        };
        let called = call(&mut self.store, editing);
        self.end_call(called)
    }

    fn begin_call(&mut self) -> Result<(), Failure> {
        if let Some(cause) = &self.ended {
            return Err(SandboxError::Ended { cause: Box::new(cause.clone()) }.into());
        }
        self.store.data_mut().limiter.begin_call();
        self.store.set_epoch_deadline(ticker::ticks(self.limits.time));
        Ok(())
    }

    fn end_call<T>(&mut self, called: Called<T>) -> Result<T, Failure> {
        let refusal = self.store.data().limiter.refusal();
        match called {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(match refusal {
                Some(refusal) => refusal.into(),
                None => wire::failure(error, self.limits.call_bytes),
            }),
            Err(trap) => {
                let trapped = || SandboxError::of_trap(&trap, &self.limits);
                let cause = refusal.unwrap_or_else(trapped);
                self.ended = Some(cause.clone());
                Err(cause.into())
            }
        }
    }
}
