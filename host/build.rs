//! Finds what features embed: `sandbox` the components, `view` the page. Without
//! either there is nothing to do.

use std::env;
use std::path::{Path, PathBuf};

/// What a feature embeds.
struct Embedded {
    /// As cargo tells of it.
    feature: &'static str,
    /// Below the root of the repository.
    folder: &'static str,
    /// The variable of the environment that names another folder.
    elsewhere: &'static str,
    /// Each file, and the variable that tells the crate its place.
    files: &'static [(&'static str, &'static str)],
    /// What makes them.
    job: &'static str,
}

const ALL: [Embedded; 2] = [
    Embedded {
        feature: "sandbox",
        folder: "target/component",
        elsewhere: "ZRECORD_COMPONENTS",
        files: &[
            ("reader.wasm", "ZRECORD_READER_COMPONENT"),
            ("record-store.wasm", "ZRECORD_RECORD_STORE_COMPONENT"),
        ],
        job: "cargo xtask component",
    },
    Embedded {
        feature: "view",
        folder: "web/dist",
        elsewhere: "ZRECORD_PAGES",
        files: &[("zrecord-view.html", "ZRECORD_INSPECTOR")],
        job: "cargo xtask web",
    },
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if env::var_os("CARGO_FEATURE_SANDBOX").is_some() {
        // Bindings are made of it.
        println!("cargo::rerun-if-changed={}", root.join("wit").display());
    }
    for embedded in &ALL {
        println!("cargo::rerun-if-env-changed={}", embedded.elsewhere);
        let variable = format!("CARGO_FEATURE_{}", embedded.feature.to_uppercase());
        if env::var_os(variable).is_some() {
            embedded.find(&root);
        }
    }
}

impl Embedded {
    fn find(&self, root: &Path) {
        let elsewhere = env::var_os(self.elsewhere).map(PathBuf::from);
        let folder = elsewhere.unwrap_or_else(|| root.join(self.folder));
        for (name, variable) in self.files {
            let path = folder.join(name);
            println!("cargo::rerun-if-changed={}", path.display());
            if !path.is_file() {
                println!(
                    "cargo::error={} is missing, which the feature `{}` embeds: run `{}`",
                    path.display(),
                    self.feature,
                    self.job
                );
                return;
            }
            println!("cargo::rustc-env={variable}={}", path.display());
        }
    }
}
