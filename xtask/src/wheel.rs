//! The Python wheel: built by maturin, always in the release profile.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::command;
use crate::python::Environment;
use crate::steps::Steps;
use crate::system;
use crate::tree::Tree;

/// Where finished wheels go.
const FOLDER: &str = "dist";

/// The development environment, `.venv`, with the wheel installed.
///
/// # Errors
///
/// When a tool is missing or the build fails.
pub fn install_for_development(tree: &Tree, steps: &mut Steps) -> Result<Environment> {
    steps.run("C compiler", system::require_c_compiler)?;
    let environment =
        steps.run("Python environment .venv", || Environment::prepare(tree, ".venv", "dev.txt"))?;
    install(tree, steps, &environment)?;
    Ok(environment)
}

/// Build the wheel and install it into an environment that holds maturin.
///
/// # Errors
///
/// When the build or the installation fails.
pub fn install(tree: &Tree, steps: &mut Steps, environment: &Environment) -> Result<()> {
    steps.run("wheel, release profile", || {
        let wheel = build(tree, environment)?;
        command::run(
            environment.pip_install(tree).args(["--no-deps", "--force-reinstall"]).arg(wheel),
        )
    })
}

/// Build the wheel and say where it is.
///
/// # Errors
///
/// When a tool is missing or the build fails.
pub fn build_for_distribution(tree: &Tree, steps: &mut Steps) -> Result<()> {
    steps.run("C compiler", system::require_c_compiler)?;
    let environment =
        steps.run("Python environment .venv", || Environment::prepare(tree, ".venv", "dev.txt"))?;
    steps.run("wheel, release profile", || {
        let wheel = build(tree, &environment)?;
        println!("  {}", wheel.display());
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

/// The path of the one wheel in `dist`, newly built.
fn build(tree: &Tree, environment: &Environment) -> Result<PathBuf> {
    for old in wheels(tree)? {
        std::fs::remove_file(&old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    command::run(
        environment
            .command(tree)
            .args(["-m", "maturin", "build", "--release"])
            .args(["--manifest-path", "py-host/Cargo.toml", "--out", FOLDER])
            .arg("--interpreter")
            .arg(environment.python()),
    )?;
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
