//! Finds the components that the feature `sandbox` embeds. Without the feature
//! there is nothing to do.

use std::env;
use std::path::{Path, PathBuf};

/// Where to look instead of `target/component`.
const FOLDER: &str = "ZRECORD_COMPONENTS";

/// Each component, and the variable that tells the crate its place.
const COMPONENTS: [(&str, &str); 2] = [
    ("reader.wasm", "ZRECORD_READER_COMPONENT"),
    ("record-store.wasm", "ZRECORD_RECORD_STORE_COMPONENT"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={FOLDER}");
    if env::var_os("CARGO_FEATURE_SANDBOX").is_none() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = env::var_os(FOLDER).map_or_else(|| root.join("target/component"), PathBuf::from);
    println!("cargo::rerun-if-changed={}", root.join("wit").display());
    for (name, variable) in COMPONENTS {
        let path = folder.join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        if !path.is_file() {
            println!(
                "cargo::error={} is missing, which the feature `sandbox` embeds: run `cargo xtask component`",
                path.display()
            );
            return;
        }
        println!("cargo::rustc-env={variable}={}", path.display());
    }
}
