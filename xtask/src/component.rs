//! `cargo xtask component`: both worlds of the component, built, encoded and
//! held to what they promise.
//!
//! | world | imports |
//! | --- | --- |
//! | `reader` | `files`: it cannot write, since nothing that writes is there |
//! | `record-store` | `files` and `files-edit` |
//!
//! Whoever embeds a component builds it through here first: cargo knows when it
//! is stale, and a fresh one costs a moment. The bytes do not depend on the
//! folder or the machine: see [`flags`].

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use wit_component::{ComponentEncoder, DecodedWasm};

use crate::command::{self, cargo};
use crate::steps::Steps;
use crate::targets;
use crate::tree::Tree;

/// Where components are put, below the root.
const FOLDER: &str = "target/component";
/// Where they are compiled: with flags of their own, which would make cargo
/// throw away everything in a folder that it shares with other builds.
const BUILD_FOLDER: &str = "target/component-build";
/// Where they are compiled once more, from a copy of the sources.
const ELSEWHERE: &str = "target/component-elsewhere";

/// A world of the package `zrecord:store`.
pub struct World {
    pub name: &'static str,
    /// The cargo feature that chooses it.
    feature: Option<&'static str>,
    imports: &'static [&'static str],
    exports: &'static [&'static str],
    /// Pages ship it, so it must stay small.
    size_max: Option<usize>,
}

pub const WORLDS: [World; 2] = [
    World {
        name: "reader",
        feature: None,
        imports: &["files"],
        exports: &["codec", "sampler", "store"],
        size_max: Some(400 << 10),
    },
    World {
        name: "record-store",
        feature: Some("edit"),
        imports: &["files", "files-edit"],
        exports: &["codec", "sampler", "store", "store-edit"],
        size_max: None,
    },
];

/// Steps of `zrecord:step`: the examples, and one for the tests.
pub const STEPS: [&str; 3] = ["misbehaving", "text", "tiles"];

/// The whole job; `elsewhere` builds the worlds a second time, and compares.
///
/// # Errors
///
/// When a world or a step does not compile, or a world is not what it promises.
pub fn run(tree: &Tree, steps: &mut Steps, elsewhere: bool) -> Result<()> {
    steps.run(&format!("target {}", targets::WASM), || targets::install(&[targets::WASM]))?;
    for world in &WORLDS {
        steps.run(&format!("component {}", world.name), || build(tree, world).map(drop))?;
    }
    steps.run("steps of preprocessing", || {
        STEPS.iter().try_for_each(|step| build_step(tree, step))
    })?;
    if elsewhere { compare_elsewhere(tree, steps) } else { Ok(()) }
}

/// Builds a step, as its users do: the module alone, which `zrecord run` makes
/// a component.
fn build_step(tree: &Tree, name: &str) -> Result<()> {
    let package = format!("zrecord-step-{name}");
    let module = compile(tree, &package, None, &roots(tree)?)?;
    let bytes = fs::read(&module).with_context(|| format!("cannot read {}", module.display()))?;
    write_if_changed(&tree.path(FOLDER).join(format!("steps/{name}.wasm")), &bytes)
}

/// Builds both worlds from a copy of the sources in another folder, and
/// compares the bytes.
///
/// # Errors
///
/// When one does not compile, or they differ.
pub fn compare_elsewhere(tree: &Tree, steps: &mut Steps) -> Result<()> {
    let copy = Tree::at(tree.path(ELSEWHERE).join("tree"));
    steps.run("copy of the sources", || copy_sources(tree.root(), copy.root()))?;
    for world in &WORLDS {
        steps.run(&format!("component {} from elsewhere", world.name), || {
            let (here, there) = (build(tree, world)?, build(&copy, world)?);
            ensure!(
                fs::read(&here)? == fs::read(&there)?,
                "{} and {} differ: the build depends on where it is",
                here.display(),
                there.display()
            );
            Ok(())
        })?;
    }
    Ok(())
}

/// Builds a world if it is stale, and returns the path of the component.
fn build(tree: &Tree, world: &World) -> Result<PathBuf> {
    let roots = roots(tree)?;
    let module = compile(tree, "zrecord-guest", world.feature, &roots)?;
    let bytes = fs::read(&module).with_context(|| format!("cannot read {}", module.display()))?;
    let component = ComponentEncoder::default()
        .module(&bytes)
        .and_then(|encoder| encoder.validate(true).encode())
        .with_context(|| format!("{} cannot be made a component", module.display()))?;
    check_interfaces(world, &component)?;
    check_paths(&component, &roots)?;
    let size = component.len();
    println!("  {}: {} KiB ({size} bytes)", world.name, size.div_ceil(1 << 10));
    if let Some(size_max) = world.size_max {
        ensure!(size <= size_max, "{} has {size} bytes, the limit is {size_max}", world.name);
    }
    let path = tree.path(FOLDER).join(format!("{}.wasm", world.name));
    write_if_changed(&path, &component)?;
    Ok(path)
}

/// Compiles a package; returns the path of the module.
fn compile(
    tree: &Tree,
    package: &str,
    feature: Option<&str>,
    roots: &[(PathBuf, &str)],
) -> Result<PathBuf> {
    let mut build = cargo(tree);
    build.args(["build", "--quiet", "--package", package, "--profile", "component"]);
    build.args(["--target", targets::WASM, "--target-dir"]).arg(tree.path(BUILD_FOLDER));
    if let Some(feature) = feature {
        build.args(["--features", feature]);
    }
    command::run(build.env("CARGO_ENCODED_RUSTFLAGS", flags(roots)))?;
    let folder = tree.path(BUILD_FOLDER).join(targets::WASM).join("component");
    Ok(folder.join(format!("{}.wasm", package.replace('-', "_"))))
}

/// Folders of this machine whose paths rustc would write into the code, as
/// where a panic is, and what it is to write instead. Later ones win.
fn roots(tree: &Tree) -> Result<Vec<(PathBuf, &'static str)>> {
    let sysroot = command::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let registry = cargo_home()?.join("registry/src");
    let mut roots = vec![(registry.clone(), "/registry")];
    // A mirror of the registry has a folder of another name. It is there: the
    // build of this program has filled it.
    if let Ok(entries) = fs::read_dir(&registry) {
        roots.extend(entries.flatten().map(|entry| (entry.path(), "/registry")));
    }
    roots.sort();
    roots.push((tree.root().to_path_buf(), "/zrecord"));
    roots.push((sysroot.into(), "/rust"));
    Ok(roots)
}

fn cargo_home() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let default = || std::env::home_dir().map(|home| home.join(".cargo"));
    home.or_else(default).context("there is neither CARGO_HOME nor a home folder")
}

/// Vectors of 128 bits, which every runtime and browser of note has had since
/// 2023: checksums are twice as fast by them.
const VECTORS: &str = "-Ctarget-feature=+simd128";

/// The flags of the compiler, as `CARGO_ENCODED_RUSTFLAGS` has them: those by
/// which it forgets these folders. Those of the user, who may have set some
/// for native code, have no say in what is shipped.
fn flags(roots: &[(PathBuf, &str)]) -> OsString {
    let mut flags = OsString::from(VECTORS);
    for (root, name) in roots {
        flags.push("\x1f--remap-path-prefix=");
        flags.push(root);
        flags.push("=");
        flags.push(name);
    }
    flags
}

/// A component must not tell, or depend on, where it was built.
fn check_paths(component: &[u8], roots: &[(PathBuf, &str)]) -> Result<()> {
    for (root, _) in roots {
        let path = root.as_os_str().as_encoded_bytes();
        let holds = component.windows(path.len()).any(|window| window == path);
        ensure!(!holds, "the component holds the path {}", root.display());
    }
    Ok(())
}

/// Exactly the interfaces of the world: one import more is one thing more that
/// the component can do, and that every host must have.
fn check_interfaces(world: &World, component: &[u8]) -> Result<()> {
    let DecodedWasm::Component(resolve, id) = wit_component::decode(component)? else {
        bail!("{} is no component", world.name);
    };
    let found = &resolve.worlds[id];
    let names = |keys: Vec<String>| keys.into_iter().collect::<BTreeSet<_>>();
    let imports = found.imports.keys().map(|key| resolve.name_world_key(key)).collect();
    let exports = found.exports.keys().map(|key| resolve.name_world_key(key)).collect();
    for (what, expected, found) in
        [("import", world.imports, names(imports)), ("export", world.exports, names(exports))]
    {
        let expected: BTreeSet<_> = expected.iter().map(|name| versioned(name)).collect();
        ensure!(
            expected == found,
            "the {what}s of {} are {found:?}, expected {expected:?}",
            world.name
        );
    }
    Ok(())
}

/// The full name of an interface of the package.
fn versioned(interface: &str) -> String {
    format!("zrecord:store/{interface}@0.1.0")
}

/// Whoever embeds a component is rebuilt when its file changes.
fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|existing| existing == bytes) {
        return Ok(());
    }
    let folder = path.parent().context("a component lies in a folder")?;
    fs::create_dir_all(folder)?;
    // Beside and then over it, so that nobody reads a part.
    let new = path.with_extension("wasm.new");
    fs::write(&new, bytes).and_then(|()| fs::rename(&new, path))?;
    Ok(())
}

/// Copies what cargo needs of the repository: nothing hidden, nothing built.
fn copy_sources(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let skipped = name.as_encoded_bytes().starts_with(b".")
            || ["target", "dist", "node_modules", "generated"]
                .iter()
                .any(|skipped| name == *skipped);
        let kind = entry.file_type()?;
        if skipped {
            continue;
        } else if kind.is_dir() {
            copy_sources(&entry.path(), &to.join(name))?;
        } else if kind.is_file() {
            // Written anew only if it changed, or cargo would build all again.
            write_if_changed(&to.join(name), &fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_name_every_folder_and_spaces_do_not_part_them() {
        let roots = [(PathBuf::from("/a b"), "/one"), (PathBuf::from("/c"), "/two")];
        let expected = "-Ctarget-feature=+simd128\x1f--remap-path-prefix=/a b=/one\x1f--remap-path-prefix=/c=/two";
        assert_eq!(flags(&roots), expected);
    }

    #[test]
    fn a_path_in_a_component_is_found() {
        let roots = [(PathBuf::from("/home/somebody"), "/zrecord")];
        assert!(check_paths(b"at /zrecord/guest", &roots).is_ok());
        let error = check_paths(b"at /home/somebody/guest", &roots).unwrap_err();
        assert!(error.to_string().contains("/home/somebody"));
    }

    /// An empty component exports nothing, and is noticed.
    #[test]
    fn a_component_without_its_exports_is_refused() {
        let empty = b"\0asm\x0d\0\x01\0";
        let error = check_interfaces(&WORLDS[0], empty).unwrap_err();
        assert!(format!("{error:#}").contains("the imports of reader are {}"), "{error:#}");
    }

    #[test]
    fn sources_are_copied_without_what_was_built() {
        let folder = std::env::temp_dir().join(format!("zrecord-copy-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        for name in ["src/lib.rs", "target/a", ".git/a"] {
            write_if_changed(&from.join(name), name.as_bytes()).unwrap();
        }
        copy_sources(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("src/lib.rs")).unwrap(), b"src/lib.rs");
        assert!(!to.join("target").exists() && !to.join(".git").exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
