//! The Python wheel, built by maturin.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::command;
use crate::component;
use crate::python::Environment;
use crate::steps::Steps;
use crate::system;
use crate::tree::Tree;
use crate::web;

/// Where finished wheels go.
const FOLDER: &str = "dist";

/// What a wheel has besides the store, the sampler and the loader.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Nothing: it is built in a minute or two.
    Plain,
    /// The sandbox, for which wasmtime is compiled, and the inspector, with the
    /// components and the page that they embed.
    Full,
}

/// How a wheel is compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// With the checks of the tests, and what they compile anyhow: wasmtime is
    /// compiled once for both.
    Dev,
    /// As it is used.
    Release,
}

/// The development environment, `.venv`, with the wheel installed.
///
/// # Errors
///
/// When a tool is missing or the build fails.
pub fn install_for_development(
    tree: &Tree,
    steps: &mut Steps,
    extent: Extent,
    profile: Profile,
) -> Result<Environment> {
    steps.run("C compiler", system::require_c_compiler)?;
    let environment =
        steps.run("Python environment .venv", || Environment::prepare(tree, ".venv", "dev.txt"))?;
    install(tree, steps, &environment, extent, profile)?;
    Ok(environment)
}

/// Build the wheel and install it into an environment that holds maturin.
///
/// # Errors
///
/// When the build or the installation fails.
pub fn install(
    tree: &Tree,
    steps: &mut Steps,
    environment: &Environment,
    extent: Extent,
    profile: Profile,
) -> Result<()> {
    build_embedded(tree, steps, extent)?;
    let name = match profile {
        Profile::Dev => "wheel, dev profile",
        Profile::Release => "wheel, release profile",
    };
    steps.run(name, || {
        let wheel = build(tree, environment, extent, profile)?;
        command::run(
            environment.pip_install(tree).args(["--no-deps", "--force-reinstall"]).arg(wheel),
        )
    })
}

/// Build the wheel with everything, and say where it is.
///
/// # Errors
///
/// When a tool is missing or the build fails.
pub fn build_for_distribution(tree: &Tree, steps: &mut Steps) -> Result<()> {
    steps.run("C compiler", system::require_c_compiler)?;
    let environment =
        steps.run("Python environment .venv", || Environment::prepare(tree, ".venv", "dev.txt"))?;
    build_embedded(tree, steps, Extent::Full)?;
    steps.run("wheel, release profile", || {
        let wheel = build(tree, &environment, Extent::Full, Profile::Release)?;
        let size = std::fs::metadata(&wheel)?.len();
        println!("  {}, {:.1} MB", wheel.display(), size as f64 / 1e6);
        Ok(())
    })
}

/// Install the wheel that was built last into an environment that cannot build.
///
/// # Errors
///
/// When there is not exactly one wheel in `dist`, or it cannot be installed.
pub fn install_built(tree: &Tree, environment: &Environment) -> Result<()> {
    let wheel = the_wheel(tree)?;
    command::run(environment.pip_install(tree).args(["--no-deps", "--force-reinstall"]).arg(wheel))
}

/// What the wheel embeds is built first, always: a stale component or page
/// would be tested in the place of the sources'.
fn build_embedded(tree: &Tree, steps: &mut Steps, extent: Extent) -> Result<()> {
    match extent {
        Extent::Plain => Ok(()),
        Extent::Full => {
            component::run(tree, steps, false)?;
            web::build(tree, steps)
        }
    }
}

/// The path of the one wheel in `dist`, newly built.
fn build(
    tree: &Tree,
    environment: &Environment,
    extent: Extent,
    profile: Profile,
) -> Result<PathBuf> {
    for old in wheels(tree)? {
        std::fs::remove_file(&old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    let mut maturin = environment.command(tree);
    maturin.args(["-m", "maturin", "build"]);
    if profile == Profile::Release {
        maturin.arg("--release");
    }
    maturin.args(["--manifest-path", "py-host/Cargo.toml", "--out", FOLDER]);
    if extent == Extent::Full {
        maturin.args(["--features", "sandbox,view"]);
    }
    command::run(maturin.arg("--interpreter").arg(environment.python()))?;
    the_wheel(tree)
}

fn the_wheel(tree: &Tree) -> Result<PathBuf> {
    let mut built = wheels(tree)?;
    match (built.pop(), built.pop()) {
        (Some(wheel), None) => Ok(wheel),
        _ => bail!("there is not exactly one wheel in {FOLDER}"),
    }
}

fn wheels(tree: &Tree) -> Result<Vec<PathBuf>> {
    let folder = tree.path(FOLDER);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let mut wheels = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            wheels.push(path);
        }
    }
    Ok(wheels)
}
