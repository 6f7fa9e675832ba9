//! `zrecord._native`: the native half of the Python package `zrecord`.
//!
//! It turns Python's arguments into slices, calls `zrecord-host` once per
//! batch without the GIL, and wraps what comes back in NumPy arrays that own
//! it. What needs no speed is Python's: checks of arguments, index forms,
//! dtypes, states. `unsafe` is in `array` and `attach` alone.
#![deny(unsafe_code)]

use pyo3::prelude::*;

mod arguments;
mod array;
mod attach;
mod batch;
mod destination;
mod engine;
mod errors;
mod handle;
mod held;
#[cfg(feature = "view")]
mod inspector;
mod layout;
mod left;
mod progress;
mod reader;
mod records;
mod sampler;
#[cfg(feature = "sandbox")]
mod sandbox;
mod shelf;
mod source;
mod store;
mod successor;
mod value;
mod view;

/// The smallest dictionary that converters ask for, in bytes.
const DICT_MIN: u64 = 8 << 10;
/// The largest one.
const DICT_MAX: u64 = 1 << 20;

/// The native half of the package `zrecord`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::build_info;
    #[pymodule_export]
    use crate::attach::{after_fork, before_fork};
    #[pymodule_export]
    use crate::engine::Engine;
    #[cfg(feature = "view")]
    #[pymodule_export]
    use crate::inspector::Inspector;
    #[pymodule_export]
    use crate::layout::Layout;
    #[pymodule_export]
    use crate::left::join_left;
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::sampler::Sampler;
    #[cfg(feature = "sandbox")]
    #[pymodule_export]
    use crate::sandbox::{Sandbox, run_step};
    #[pymodule_export]
    use crate::source::Source;
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::successor::Successor;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Made now: a fork that came while a thread makes it would leave the
        // child waiting for that thread.
        let _made = zrecord_host::BufferPool::shared();
        module.add("DICT_MIN", super::DICT_MIN)?;
        module.add("DICT_MAX", super::DICT_MAX)
    }
}

/// What was built: `version`, and `profile`, by which a benchmark can refuse a
/// debug build.
#[pyfunction]
fn build_info() -> std::collections::BTreeMap<&'static str, &'static str> {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    [("version", env!("CARGO_PKG_VERSION")), ("profile", profile)].into()
}
