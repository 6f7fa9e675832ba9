//! `cargo xtask test`: set up and pass every test, Rust and Python.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{self, cargo};
use crate::component;
use crate::embeddings;
use crate::fuzz;
use crate::python::Environment;
use crate::steps::Steps;
use crate::targets;
use crate::tree::Tree;
use crate::web;
use crate::wheel::{self, Extent, Profile};

/// The crates whose tests run natively. The wheel is tested from Python, and
/// the component is empty here.
const TESTED: [&str; 4] = ["zrecord-core", "zrecord-host", "zrecord-tests", "xtask"];
/// What a build of everything has. Tests that need one of them are run with
/// both, so that the host is compiled once for all.
const FEATURES: &str = "sandbox,view";
/// The tests that features are for, and those of each package; others do not
/// depend on them.
const FEATURED: [(&str, &str, &[&str]); 2] = [
    (
        "zrecord-host",
        FEATURES,
        &[
            "sandbox",
            "sandbox_limits",
            "sandbox_command",
            "steps",
            "step_command",
            "view",
            "view_command",
        ],
    ),
    (
        "zrecord-tests",
        "sandbox,zrecord-host/view",
        &["conformance", "exports", "hostile", "hostile_component", "written"],
    ),
];
/// The peer, as its own requirements file pins it too.
const PEER: &str = "loaderx==0.9.4";
/// The peer's source package, for its test suite; never committed.
const PEER_SDIST: &str = "loaderx-0.9.4.tar.gz";

/// The whole job; `all` adds the peer's own suite, the slow tests and those
/// with torch.
///
/// # Errors
///
/// At the first step that does not pass.
pub fn run(tree: &Tree, steps: &mut Steps, all: bool) -> Result<()> {
    // With everything the wheel is the one that is used; without, wasmtime is
    // compiled in one profile alone.
    let profile = if all { Profile::Release } else { Profile::Dev };
    let environment = wheel::install_for_development(tree, steps, Extent::Full, profile)?;
    let peer = steps.run("peer environment .venv-loaderx", || {
        Environment::prepare(tree, ".venv-loaderx", "loaderx.txt")
    })?;
    let sdist = steps.run("peer source", || fetch_peer_source(tree, &peer))?;
    steps.run("Rust tests", || rust_tests(tree, all))?;
    steps.run("Rust example", || {
        command::run(cargo(tree).args([
            "run",
            "--quiet",
            "--package",
            "zrecord-host",
            "--example",
            "train",
        ]))
    })?;
    fuzz::test(tree, steps)?;
    targets::check(tree, steps)?;
    if all {
        component::compare_elsewhere(tree, steps)?;
    }
    steps.run("tests of the sandbox and of the view", || feature_tests(tree, &peer, all))?;
    web::test(tree, steps, &environment, FEATURES)?;
    embeddings::test(tree, steps)?;
    steps.run("Python lints and types", || python_types(tree, &environment))?;
    steps.run("Python tests", || {
        let mut pytest = pytest(tree, &environment, all);
        pytest.env("ZRECORD_LOADERX_PYTHON", peer.python());
        pytest.env("ZRECORD_LOADERX_SDIST", &sdist);
        command::run(&mut pytest)
    })?;
    if all { torch_tests(tree, steps) } else { Ok(()) }
}

/// The datasets under the real torch, which is larger than all else together
/// and so has an environment of its own.
fn torch_tests(tree: &Tree, steps: &mut Steps) -> Result<()> {
    let environment = steps.run("torch environment .venv-torch", || {
        Environment::prepare(tree, ".venv-torch", "torch.txt")
    })?;
    steps.run("wheel beside torch", || wheel::install_built(tree, &environment))?;
    steps.run("tests with torch", || {
        let mut pytest = environment.command(tree);
        pytest.current_dir(tree.path("py-host"));
        command::run(pytest.args(["-m", "pytest", "tests/test_torch.py", "-q"]))
    })
}

/// Both codec backends are built in, so that each reads what the other wrote.
fn rust_tests(tree: &Tree, all: bool) -> Result<()> {
    let mut test = cargo(tree);
    test.arg("test");
    for package in TESTED {
        test.args(["--package", package]);
    }
    test.args(["--features", "zrecord-core/ruzstd", "--no-fail-fast"]);
    if all {
        test.env("ZRECORD_SLOW", "1");
    }
    command::run(&mut test)
}

/// What needs the component or the page: the host's sandbox and its inspector,
/// and the component beside the core, which loaderx reads after.
fn feature_tests(tree: &Tree, peer: &Environment, all: bool) -> Result<()> {
    for (package, features, tests) in FEATURED {
        let mut test = cargo(tree);
        test.args(["test", "--package", package, "--features", features, "--no-fail-fast"]);
        // Compiled components are kept in the repository, as all else is.
        test.env("XDG_CACHE_HOME", tree.path("target/cache"));
        test.env("ZRECORD_LOADERX_PYTHON", peer.python());
        if all {
            test.env("ZRECORD_SLOW", "1");
        }
        test.arg("--lib");
        for name in tests {
            test.args(["--test", name]);
        }
        // Those that need loaderx are ignored elsewhere.
        command::run(test.args(["--", "--include-ignored"]))?;
    }
    // Examples in documentation are named by their module.
    let mut examples = cargo(tree);
    examples.args(["test", "--package", "zrecord-host", "--features", FEATURES, "--doc"]);
    command::run(examples.args(["--", "sandbox", "inspector"]))
}

/// The annotations are complete, and the stubs match the native module.
fn python_types(tree: &Tree, environment: &Environment) -> Result<()> {
    let python = || {
        let mut command = environment.command(tree);
        command.current_dir(tree.path("py-host"));
        command.env("MYPY_CACHE_DIR", tree.path("target/mypy"));
        command.env("RUFF_CACHE_DIR", tree.path("target/ruff"));
        command
    };
    // An example outside of the package keeps to the same rules.
    const EMBEDDING: &str = "../guest/embeddings/python";
    let ruff = ["-m", "ruff", "check", "--quiet", "--config", "pyproject.toml", "."];
    command::run(python().args(ruff).arg(EMBEDDING))?;
    command::run(python().args(["-m", "mypy"]))?;
    let files = ["reader.py", "files.py"].map(|file| format!("{EMBEDDING}/{file}"));
    let mut mypy = python();
    mypy.env("MYPYPATH", EMBEDDING).args(["-m", "mypy", "--ignore-missing-imports"]);
    command::run(mypy.args(files))?;
    command::run(python().args(["-m", "mypy.stubtest", "zrecord"]))
}

fn pytest(tree: &Tree, environment: &Environment, all: bool) -> Command {
    let mut command = environment.command(tree);
    command.current_dir(tree.path("py-host"));
    command.args(["-m", "pytest", "tests", "-q"]);
    if all {
        command.env("ZRECORD_SLOW", "1");
    } else {
        command.args(["-m", "not peer and not slow"]);
    }
    // It has an environment of its own.
    command.arg("--ignore=tests/test_torch.py");
    command
}

/// The path of the peer's source package in `.cache`, downloaded once.
fn fetch_peer_source(tree: &Tree, environment: &Environment) -> Result<PathBuf> {
    let folder = tree.path(".cache");
    let archive = folder.join(PEER_SDIST);
    if archive.is_file() {
        println!("  .cache/{PEER_SDIST} is there");
        return Ok(archive);
    }
    std::fs::create_dir_all(&folder).context("cannot create .cache")?;
    command::run(
        environment
            .command(tree)
            .args(["-m", "pip", "download", "--quiet", "--no-deps"])
            .args(["--no-binary", ":all:", "--dest"])
            .arg(&folder)
            .arg(PEER)
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    )?;
    if !archive.is_file() {
        bail!("pip did not leave .cache/{PEER_SDIST}");
    }
    Ok(archive)
}
