//! The host's side of `zrecord:step`, generated from `wit/step/`.

wasmtime::component::bindgen!({
    path: "../wit/step",
    world: "preprocess",
    additional_derives: [PartialEq],
});

pub(super) use exports::zrecord::step::transform;
