//! The host's side of `zrecord:step`, generated from `wit/step/`.

wasmtime::component::bindgen!({ path: "../wit/step", world: "preprocess" });

pub(super) use exports::zrecord::step::transform;
