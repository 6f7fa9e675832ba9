//! The store that a run writes.

use std::path::{Path, PathBuf};

use zrecord_core::Error as CoreError;

use crate::error::{Error, Result};
use crate::sandbox::step::failure::StepError;
use crate::sandbox::step::job::{Job, Processed};
use crate::sandbox::step::{StepOptions, StepReport, output_options};
use crate::store::Store;

/// A new store beside the place that it will take.
pub(super) struct Output {
    store: Store,
    /// The place, which errors name.
    place: PathBuf,
    /// The step's file.
    step: PathBuf,
}

impl Output {
    /// Creates it, with the schema that the step has declared.
    pub(super) fn create(
        path: &Path,
        place: &Path,
        job: &Job,
        options: &StepOptions,
        id: [u8; 16],
    ) -> Result<Self> {
        let opened = output_options(options, job.codec(), id).open(path);
        let store = opened.map_err(|error| error.renamed(place))?;
        let output = Self { store, place: place.to_owned(), step: job.step().to_owned() };
        if let Some(schema) = job.output_schema() {
            output.named(output.store.set_schema(schema))?;
        }
        Ok(output)
    }

    /// Appends what became of a batch.
    pub(super) fn append(&self, processed: &Processed, report: &mut StepReport) -> Result<()> {
        let appended = self.store.append(&processed.bytes, &processed.offsets, None);
        appended.map_err(|error| match error {
            Error::Store { source: CoreError::SchemaMismatch { reason }, .. } => {
                let Processed { first, last, .. } = *processed;
                let reason = format!("its outputs are not what it has declared: {reason}");
                Error::step(&self.step)(StepError::Batch { first, last, reason })
            }
            error => error.renamed(&self.place),
        })?;
        report.inputs += processed.inputs;
        report.dropped += processed.dropped;
        report.outputs += processed.offsets.len() as u64;
        Ok(())
    }

    pub(super) fn close(self) -> Result<()> {
        self.named(self.store.close())
    }

    /// Errors name the place, not the directory that is to take it.
    fn named<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| error.renamed(&self.place))
    }
}
