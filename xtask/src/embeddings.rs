//! The component in other runtimes: the programs of `guest/embeddings`, run
//! over stores and compared with the native host by a test of it.

use anyhow::Result;

use crate::command::{self, cargo};
use crate::component;
use crate::node::{self, Package};
use crate::python::Environment;
use crate::steps::Steps;
use crate::tree::Tree;

/// The whole job.
///
/// # Errors
///
/// As [`component::run`] and [`test()`].
pub fn run(tree: &Tree, steps: &mut Steps) -> Result<()> {
    component::run(tree, steps, false)?;
    test(tree, steps)
}

/// Steps of a larger job, which has built the component.
///
/// # Errors
///
/// When something cannot be installed, or a program says anything else than
/// the native host.
pub fn test(tree: &Tree, steps: &mut Steps) -> Result<()> {
    steps.run("wasmtime for Python, .venv-embeddings", || {
        let requirements = tree.path("guest/embeddings/python/requirements.txt");
        Environment::prepare_from(tree, ".venv-embeddings", &requirements)
    })?;
    let package = steps.run("jco for Node", || {
        node::require()?;
        Package::prepare(tree, "guest/embeddings/node")
    })?;
    steps.run("component for Node", || package.run(tree, "transpile"))?;
    steps.run("tests of the embeddings", || {
        let mut test = cargo(tree);
        command::run(test.args(["test", "--package", "zrecord-host", "--test", "embeddings"]))
    })
}
