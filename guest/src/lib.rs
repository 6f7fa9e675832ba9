//! The component: Zrecord's core behind a WIT interface, for any component
//! runtime.
//!
//! This crate is a shell around [`zrecord_core`]: the generated bindings of the
//! package `zrecord:store` in `wit/`, and conversions. Formats, codecs,
//! samplers and every decision live in the core, where native code uses the
//! very same text.
//!
//! | file | holds |
//! | --- | --- |
//! | [`files`] | the imported `files` and `files-edit` as core's storage |
//! | [`store`] | the exported interface `store` |
//! | [`edit`] | the exported interface `store-edit` |
//! | [`codec`], [`sampler`] | the exported interfaces of these names |
//! | [`error`], [`schema`] | what crosses the border in several of them |
//!
//! One cargo feature chooses the world: without it `reader`, which imports
//! nothing that writes; with `edit` `record-store`. `cargo xtask component`
//! builds both.
//!
//! Nothing here panics: a panic is a trap that says nothing and ends the
//! instance. What a caller or a store asks for is refused by an error instead.
//!
//! On a native target this crate is empty: a native linker would reject the
//! symbols that bindings export.
#![cfg(target_family = "wasm")]

mod codec;
#[cfg(feature = "edit")]
mod edit;
mod error;
mod files;
mod sampler;
mod schema;
mod store;

#[cfg(not(feature = "edit"))]
mod bindings {
    wit_bindgen::generate!({ path: "../wit", world: "reader", generate_all });
}

#[cfg(feature = "edit")]
mod bindings {
    wit_bindgen::generate!({ path: "../wit", world: "record-store", generate_all });
}

/// What the world exports.
struct Component;

bindings::export!(Component with_types_in bindings);
