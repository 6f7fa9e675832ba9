//! The inspector, `web/`: a page over the component, built by esbuild and driven
//! in a headless Chromium.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{self, cargo};
use crate::component;
use crate::node::{self, Package};
use crate::python::Environment;
use crate::steps::Steps;
use crate::system;
use crate::tree::Tree;
use crate::wheel::{self, Extent, Profile};

const FOLDER: &str = "web";
/// Stores that the page is shown, some of them large and sparse.
const STORES: &str = "target/web-stores";
/// The names that the tests look for, too.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The whole job; `in_browser` also opens the page and uses it.
///
/// # Errors
///
/// As [`build`] and [`test()`].
pub fn run(tree: &Tree, steps: &mut Steps, in_browser: bool) -> Result<()> {
    component::run(tree, steps, false)?;
    build(tree, steps)?;
    if !in_browser {
        return Ok(());
    }
    let environment = wheel::install_for_development(tree, steps, Extent::Plain, Profile::Release)?;
    test(tree, steps, &environment, "view")
}

/// Steps of a larger job, which has built the component: the page in `web/dist`.
///
/// # Errors
///
/// When something cannot be installed, does not compile, is too large, or a
/// unit test fails.
pub fn build(tree: &Tree, steps: &mut Steps) -> Result<()> {
    let package = steps.run("packages of the inspector", || {
        node::require()?;
        Package::prepare(tree, FOLDER)
    })?;
    steps.run("component for the browser", || package.run(tree, "transpile"))?;
    steps.run("types of the inspector", || package.run(tree, "check"))?;
    steps.run("inspector", || package.run(tree, "build"))?;
    steps.run("unit tests of the inspector", || package.run(tree, "test"))
}

/// Steps of a larger job, which has built the page and has a Python with the
/// wheel: the page in a browser, beside the native command. That is built with
/// `features`, `view` among them.
///
/// # Errors
///
/// When there is no Chromium, or the page does not do what it should.
pub fn test(
    tree: &Tree,
    steps: &mut Steps,
    environment: &Environment,
    features: &str,
) -> Result<()> {
    steps.run("Chromium", require_browser)?;
    steps.run("command zrecord", || {
        let mut build = cargo(tree);
        build.args(["build", "--package", "zrecord-host", "--bin", "zrecord"]);
        command::run(build.args(["--features", features]))
    })?;
    steps.run("stores for the inspector", || write_stores(tree, environment))?;
    steps
        .run("inspector in a browser", || Package::prepare(tree, FOLDER)?.run(tree, "test:browser"))
}

fn require_browser() -> Result<()> {
    let present =
        || BROWSERS.iter().any(|name| command::succeeds(Command::new(name).arg("--version")));
    if present() || (system::install_with_apt(&["chromium"])? && present()) {
        return Ok(());
    }
    bail!(
        "a Chromium is needed and none of {} is on PATH; install one, for example \
         `apt-get install chromium`, and run this again",
        BROWSERS.join(", ")
    );
}

/// Written anew for every run: what is expected of them is written with them.
fn write_stores(tree: &Tree, environment: &Environment) -> Result<()> {
    let folder = tree.path(STORES);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    command::run(environment.command(tree).arg("web/tests/stores.py").arg(&folder))
}
