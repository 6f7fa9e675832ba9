//! Machine code of a component, made by an earlier run.
//!
//! Loading it is the one operation of the sandbox that rests on trust: its
//! bytes run as they are. The invariant that [`Artifact`] stands for, and that
//! only the cache can claim: they are what wasmtime serialised, in a file that
//! nobody but this user can have written.

use wasmtime::component::Component;
use wasmtime::{Engine, Result};

/// What [`Component::serialize`] gave, whole and unchanged.
pub(super) struct Artifact(Vec<u8>);

impl Artifact {
    /// Claims that `bytes` come from [`Component::serialize`]: whoever calls
    /// this has checked who wrote them, and that all of them are there.
    pub(super) fn vouched_for(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The component.
    ///
    /// # Errors
    ///
    /// When another version or configuration of wasmtime has made it.
    pub(super) fn load(&self, engine: &Engine) -> Result<Component> {
        // SAFETY: the bytes are a serialised component, unmodified, by the
        // invariant of this type; wasmtime compares version and configuration
        // itself.
        unsafe { Component::deserialize(engine, &self.0) }
    }
}
