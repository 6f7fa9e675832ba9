//! The host's side of `zrecord:store`, generated from `wit/`.
//!
//! One set of bindings serves both worlds: `record-store` includes `reader`.

wasmtime::component::bindgen!({
    path: "../wit",
    world: "record-store",
    imports: { default: trappable },
    with: {
        "zrecord:store/files.directory": crate::sandbox::lent::LentDirectory,
        "zrecord:store/files.file": crate::sandbox::lent::LentFile,
    },
});

pub(crate) use exports::zrecord::store::{store, store_edit};
pub(crate) use zrecord::store::{files, files_edit};
