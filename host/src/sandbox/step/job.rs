//! The batches of a run, and the instances that process them.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use zrecord_core::Error as CoreError;
use zrecord_core::codec::Codec;
use zrecord_core::dtype::Dtype;
use zrecord_core::schema::{Kind, Schema, decode_metadata, encode_metadata};

use crate::error::{Error, Result};
use crate::sandbox::limits::Limits;
use crate::sandbox::step::StepOptions;
use crate::sandbox::step::bindings::transform;
use crate::sandbox::step::failure::{BatchError, StepError};
use crate::sandbox::step::instance::Instance;
use crate::sandbox::step::program::Program;
use crate::sandbox::step::watch::Watch;
use crate::store::Store;

/// A batch has about this many bytes of records, or so many records. Part of
/// what makes the output the same everywhere.
const BATCH_BYTES: u64 = 1 << 20;
const BATCH_RECORDS: usize = 1 << 12;
/// How many lengths are looked at together.
const LENGTHS_AT_ONCE: u64 = 1 << 16;

/// A run, as its workers share it.
pub(super) struct Job {
    program: Program,
    input: Store,
    /// Where each batch begins, and where the last one ends.
    bounds: Vec<u64>,
    input_schema: Option<transform::Schema>,
    /// What every instance has to say its outputs are.
    declared: Option<transform::Schema>,
    output_schema: Option<Schema>,
    codec: Codec,
    config: String,
    limits: Limits,
    stop: Arc<AtomicBool>,
    /// Instances that no worker uses at the time.
    idle: Mutex<Vec<Instance>>,
}

/// What became of a batch.
pub(super) struct Processed {
    /// How many records went in.
    pub(super) inputs: u64,
    /// How many of them made none.
    pub(super) dropped: u64,
    pub(super) bytes: Vec<u8>,
    /// Where each output begins in `bytes`.
    pub(super) offsets: Vec<u64>,
    /// The index of the first input, and of the last.
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Job {
    /// Opens the step for the input, and cuts the input into batches.
    pub(super) fn prepare(
        program: Program,
        input: Store,
        options: &StepOptions,
        watch: &mut Watch<'_>,
    ) -> Result<Self> {
        let path = program.path().to_owned();
        let step = |error| Error::step(&path)(error);
        let input_schema = input.read_schema()?.map(|schema| to_step(&schema));
        let codec = options.codec.unwrap_or(match input.codec() {
            Codec::ZstdDict => Codec::Zstd,
            codec => codec,
        });
        let StepOptions { config, limits, stop, .. } = options.clone();
        let (first, declared) = watch.over(|| {
            let input = input_schema.as_ref();
            let mut first = Instance::open(&program, limits, input, &config, &stop)?;
            let declared = first.output_schema()?;
            Ok((first, declared))
        })?;
        let output_schema = declared.as_ref().map(|schema| from_step(schema, codec));
        let output_schema = output_schema.transpose().map_err(step)?;
        let bounds = bounds(&input, watch, limits.call_bytes)?;
        let idle = Mutex::new(vec![first]);
        Ok(Self {
            program,
            input,
            bounds,
            input_schema,
            declared,
            output_schema,
            codec,
            config,
            limits,
            stop,
            idle,
        })
    }

    pub(super) fn batches(&self) -> u64 {
        self.bounds.len() as u64 - 1
    }

    /// How many records go in.
    pub(super) fn length(&self) -> u64 {
        self.bounds.last().copied().unwrap_or(0)
    }

    /// The step's file, which errors name.
    pub(super) fn step(&self) -> &Path {
        self.program.path()
    }

    pub(super) fn output_schema(&self) -> Option<&Schema> {
        self.output_schema.as_ref()
    }

    pub(super) fn codec(&self) -> Codec {
        self.codec
    }

    /// The id of the output: it follows from everything that the output
    /// follows from. A classic input has no id, so it is read for it.
    ///
    /// # Errors
    ///
    /// Those of reading; `Stopped`.
    pub(super) fn output_id(
        &self,
        options: &StepOptions,
        watch: &mut Watch<'_>,
    ) -> Result<[u8; 16]> {
        let mut hash = Sha256::new_with_prefix(b"zrecord run");
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(self.program.hash());
        add(self.config.as_bytes());
        let StepOptions { format, level, preset, min_saving, .. } = options;
        add(format!("{format:?} {} {level:?} {preset:?} {min_saving:?}", self.codec).as_bytes());
        add(&self.length().to_le_bytes());
        match self.input.id() {
            Some(id) => {
                add(&id);
                add(&self.input.generation().to_le_bytes());
            }
            None => {
                for batch in 0..self.batches() {
                    watch.say(0)?;
                    let batch = self.read(batch)?;
                    add(&batch.bytes);
                    batch.ends.iter().for_each(|end| add(&end.to_le_bytes()));
                }
            }
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hash.finalize()[..16]);
        Ok(id)
    }

    /// Reads a batch and has it processed; called by many threads at once.
    pub(super) fn process(&self, batch: u64) -> Result<Processed, BatchError> {
        let batch = self.read(batch)?;
        let mut instance = match self.idle().pop() {
            Some(instance) => instance,
            None => self.another()?,
        };
        let output = instance.process(&batch)?;
        // One that failed is not used again.
        self.idle().push(instance);
        Ok(check(&batch, output)?)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Instance>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn another(&self) -> Result<Instance, StepError> {
        let Self { program, limits, input_schema, config, stop, .. } = self;
        let mut instance = Instance::open(program, *limits, input_schema.as_ref(), config, stop)?;
        if instance.output_schema()? != self.declared {
            let reason = "its instances do not agree on what they make".into();
            return Err(StepError::Refused { reason });
        }
        Ok(instance)
    }

    fn read(&self, batch: u64) -> Result<transform::Batch> {
        let batch = usize::try_from(batch).unwrap_or(usize::MAX);
        let (first, end) = (self.bounds[batch], self.bounds[batch + 1]);
        let indices: Vec<u64> = (first..end).collect();
        let lengths = self.input.lengths(&indices)?;
        let mut size = 0_u64;
        let mut ends = Vec::with_capacity(lengths.len());
        let mut offsets = Vec::with_capacity(lengths.len());
        for len in lengths {
            offsets.push(size);
            size += u64::from(len);
            ends.push(size);
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        self.input.gather(&indices, &mut bytes, &offsets)?;
        Ok(transform::Batch { first_index: first, bytes, ends })
    }
}

/// Where batches begin, by the lengths of records.
fn bounds(input: &Store, watch: &mut Watch<'_>, call_bytes: u64) -> Result<Vec<u64>> {
    let length = watch.total();
    let mut bounds = vec![0];
    let (mut bytes, mut records) = (0_u64, 0);
    let mut first = 0;
    while first < length {
        watch.say(0)?;
        let end = length.min(first + LENGTHS_AT_ONCE);
        let indices: Vec<u64> = (first..end).collect();
        for (index, len) in (first..).zip(input.lengths(&indices)?) {
            let len = u64::from(len);
            if len > call_bytes {
                let error = CoreError::TooLarge { index, len, limit: call_bytes };
                return Err(Error::store(input.path())(error));
            }
            if records > 0 && (records == BATCH_RECORDS || bytes + len > BATCH_BYTES) {
                bounds.push(index);
                (bytes, records) = (0, 0);
            }
            bytes += len;
            records += 1;
        }
        first = end;
    }
    if length > 0 {
        bounds.push(length);
    }
    Ok(bounds)
}

/// Checks that an answer adds up.
fn check(batch: &transform::Batch, output: transform::Output) -> Result<Processed, StepError> {
    let transform::Output { bytes, ends, counts } = output;
    let inputs = batch.ends.len();
    let first = batch.first_index;
    let last = first + (inputs as u64).saturating_sub(1);
    let wrong = |reason: String| Err(StepError::Batch { first, last, reason });
    let mut offsets = Vec::with_capacity(ends.len());
    let mut start = 0;
    for &end in &ends {
        if end < start {
            return wrong(format!("an output ends at {end}, the one before at {start}"));
        }
        offsets.push(start);
        start = end;
    }
    if start != bytes.len() as u64 {
        return wrong(format!("the last output ends at {start}, there are {} bytes", bytes.len()));
    }
    let dropped = match counts {
        None if ends.len() == inputs => 0,
        None => {
            let count = ends.len();
            return wrong(format!("{count} outputs for {inputs} inputs, and no counts of them"));
        }
        Some(counts) => {
            let sum: u64 = counts.iter().map(|count| u64::from(*count)).sum();
            if counts.len() != inputs {
                return wrong(format!("{} counts for {inputs} inputs", counts.len()));
            }
            if sum != ends.len() as u64 {
                return wrong(format!("counts add up to {sum}, there are {} outputs", ends.len()));
            }
            counts.iter().filter(|count| **count == 0).count()
        }
    };
    Ok(Processed { inputs: inputs as u64, dropped: dropped as u64, bytes, offsets, first, last })
}

fn to_step(schema: &Schema) -> transform::Schema {
    transform::Schema {
        dense: schema.kind() == Kind::Dense,
        dtype: schema.dtype().to_string(),
        item_shape: schema.item_shape().to_vec(),
        metadata: encode_metadata(schema.metadata()),
    }
}

fn from_step(schema: &transform::Schema, codec: Codec) -> Result<Schema, StepError> {
    let refused = |reason: String| StepError::Refused { reason: format!("its output: {reason}") };
    let kind = if schema.dense { Kind::Dense } else { Kind::Ragged };
    let dtype = Dtype::parse(&schema.dtype).map_err(|error| refused(error.to_string()))?;
    let metadata = decode_metadata(&schema.metadata).map_err(|error| refused(error.to_string()))?;
    Schema::new(kind, dtype, schema.item_shape.clone(), codec, metadata)
        .map_err(|error| refused(error.to_string()))
}
