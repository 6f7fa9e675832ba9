//! The user's file, and what becomes of it before anything in it runs.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wasmparser::{Parser, Payload};
use wasmtime::component::{Component, InstancePre, Linker};
use wit_component::ComponentEncoder;

use crate::sandbox::cache;
use crate::sandbox::engine;
use crate::sandbox::step::bindings::transform;
use crate::sandbox::step::failure::StepError;
use crate::sandbox::step::instance::State;

/// Larger files are refused before they are read.
const SIZE_MAX: u64 = 256 << 20;

/// A step, compiled.
pub(super) struct Program {
    instance: InstancePre<State>,
    exports: transform::GuestIndices,
    /// Tells it from every other one.
    hash: [u8; 32],
    path: PathBuf,
}

impl Program {
    /// Reads, checks and compiles the file at `path`.
    ///
    /// # Errors
    ///
    /// `File`, `Invalid`, `Imports`, `World`, `Setup`.
    pub(super) fn load(path: &Path) -> Result<Self, StepError> {
        let bytes = read(path)?;
        let hash = Sha256::digest(&bytes).into();
        let component = component(bytes)?;
        refuse_imports(component_imports(&component)?)?;
        let engine = engine::engine().map_err(StepError::Setup)?;
        let invalid = |error: wasmtime::Error| StepError::Invalid { reason: format!("{error:#}") };
        let compiled = cache::component(engine, &component).map_err(invalid)?;
        let (instance, exports) = exports(&compiled, engine)?;
        Ok(Self { instance, exports, hash, path: path.to_owned() })
    }

    pub(super) fn instance(&self) -> &InstancePre<State> {
        &self.instance
    }

    pub(super) fn exports(&self) -> &transform::GuestIndices {
        &self.exports
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn hash(&self) -> &[u8; 32] {
        &self.hash
    }
}

fn read(path: &Path) -> Result<Vec<u8>, StepError> {
    let failed = |error: std::io::Error| StepError::File {
        reason: error.to_string(),
        os_error: error.raw_os_error(),
    };
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut bytes = Vec::new();
    file.take(SIZE_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if size.max(bytes.len() as u64) > SIZE_MAX {
        return Err(StepError::Invalid { reason: format!("it has more than {SIZE_MAX} bytes") });
    }
    Ok(bytes)
}

/// The file as a component: a core module is made one by the metadata that
/// the generated bindings have left in it.
fn component(bytes: Vec<u8>) -> Result<Vec<u8>, StepError> {
    if Parser::is_component(&bytes) {
        return Ok(bytes);
    }
    if !Parser::is_core_wasm(&bytes) {
        let reason = "it does not begin as WebAssembly does".into();
        return Err(StepError::Invalid { reason });
    }
    // What the encoder would say of them is harder to understand.
    refuse_imports(wasi_modules(&bytes)?)?;
    let encode = || ComponentEncoder::default().validate(true).module(&bytes)?.encode();
    encode().map_err(|error| StepError::Invalid { reason: format!("{error:#}") })
}

/// The imports of a core module that are WASI's. Those of the contract itself,
/// which handle its resources, become part of the component.
fn wasi_modules(bytes: &[u8]) -> Result<Vec<String>, StepError> {
    let mut names = Vec::new();
    each_payload(bytes, &mut |payload| {
        if let Payload::ImportSection(section) = payload {
            for import in section.into_imports() {
                let module = import?.module;
                if module.starts_with("wasi") && !names.iter().any(|name| name == module) {
                    names.push(module.to_owned());
                }
            }
        }
        Ok(())
    })?;
    Ok(names)
}

/// What a component, as a whole, imports.
fn component_imports(bytes: &[u8]) -> Result<Vec<String>, StepError> {
    let mut names = Vec::new();
    let mut depth = 0_u32;
    each_payload(bytes, &mut |payload| {
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    names.push(import?.name.name.to_owned());
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(names)
}

fn each_payload(
    bytes: &[u8],
    look: &mut dyn FnMut(Payload<'_>) -> Result<(), wasmparser::BinaryReaderError>,
) -> Result<(), StepError> {
    let mut each = || Parser::new(0).parse_all(bytes).try_for_each(|payload| look(payload?));
    each().map_err(|error| StepError::Invalid { reason: error.to_string() })
}

fn refuse_imports(names: Vec<String>) -> Result<(), StepError> {
    if names.is_empty() { Ok(()) } else { Err(StepError::Imports { names }) }
}

fn exports(
    component: &Component,
    engine: &wasmtime::Engine,
) -> Result<(InstancePre<State>, transform::GuestIndices), StepError> {
    let instance = Linker::new(engine)
        .instantiate_pre(component)
        .map_err(|error| StepError::Invalid { reason: format!("{error:#}") })?;
    let exports = transform::GuestIndices::new(&instance)
        .map_err(|error| StepError::World { reason: format!("{error:#}") })?;
    Ok((instance, exports))
}
