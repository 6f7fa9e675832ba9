//! The engine and the components that this build embeds: made once a process,
//! shared by all sandboxes.

use std::sync::OnceLock;

use wasmtime::component::{HasSelf, InstancePre, Linker};
use wasmtime::{Config, Engine};

use crate::sandbox::bindings::{files, files_edit};
use crate::sandbox::cache;
use crate::sandbox::failure::SandboxError;
use crate::sandbox::files::State;

/// Which of the two worlds of `zrecord:store` a sandbox has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum World {
    /// It cannot write: what would be needed is not imported.
    Reader,
    RecordStore,
}

impl World {
    /// The component, as `cargo xtask component` has built it.
    fn bytes(self) -> &'static [u8] {
        match self {
            Self::Reader => include_bytes!(env!("ZRECORD_READER_COMPONENT")),
            Self::RecordStore => include_bytes!(env!("ZRECORD_RECORD_STORE_COMPONENT")),
        }
    }

    /// The component, ready to be instantiated.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Setup`], the same for every call.
    pub(crate) fn component(self) -> Result<&'static InstancePre<State>, SandboxError> {
        static READER: OnceLock<Result<InstancePre<State>, SandboxError>> = OnceLock::new();
        static RECORD_STORE: OnceLock<Result<InstancePre<State>, SandboxError>> = OnceLock::new();
        let made = match self {
            Self::Reader => &READER,
            Self::RecordStore => &RECORD_STORE,
        };
        let made = made.get_or_init(|| {
            let engine = engine()?;
            self.prepare(engine).map_err(|error| SandboxError::setup(&error))
        });
        made.as_ref().map_err(Clone::clone)
    }

    fn prepare(self, engine: &Engine) -> wasmtime::Result<InstancePre<State>> {
        let component = cache::component(engine, self.bytes())?;
        let mut linker = Linker::new(engine);
        files::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
        if self == Self::RecordStore {
            files_edit::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
        }
        linker.instantiate_pre(&component)
    }
}

/// The engine of this process.
///
/// # Errors
///
/// [`SandboxError::Setup`], the same for every call.
pub(crate) fn engine() -> Result<&'static Engine, SandboxError> {
    static ENGINE: OnceLock<Result<Engine, SandboxError>> = OnceLock::new();
    let made = ENGINE.get_or_init(|| {
        let mut config = Config::new();
        config.wasm_component_model(true).epoch_interruption(true);
        Engine::new(&config).map_err(|error| SandboxError::setup(&error))
    });
    made.as_ref().map_err(Clone::clone)
}
