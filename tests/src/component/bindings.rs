//! The contract as its host sees it, generated from `wit/`.
//!
//! One set of bindings serves both worlds: `record-store` includes `reader`.

wasmtime::component::bindgen!({
    path: "../wit",
    world: "record-store",
    imports: { default: trappable },
    additional_derives: [PartialEq],
    with: {
        "zrecord:store/files.directory": crate::component::files::LentDirectory,
        "zrecord:store/files.file": crate::component::files::LentFile,
    },
});

pub use exports::zrecord::store::{codec, sampler, store, store_edit};
pub use zrecord::store::{files, files_edit};
