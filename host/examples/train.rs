//! A training run that stops and goes on: `cargo run --example train`.
//!
//! Builds a small dense store in a temporary directory, pulls shuffled batches
//! from it, saves where it stands, is "killed", and resumes, once alone and
//! once on two ranks. Both see exactly the batches that the first run would
//! have seen.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use zrecord_host::{
    Batch, Codec, Column, DenseDataset, Dtype, Kind, Loader, LoaderOptions, LoaderState, Mode,
    OpenOptions, SamplerMode, Schema, Streams,
};

/// 1000 samples of 16 numbers each.
const SAMPLES: usize = 1000;
const FEATURES: usize = 16;

type AnyError = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), AnyError> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("train.zr");
    build(&path)?;

    // A run takes 30 steps, and saves its state as JSON beside its model.
    let loader = Loader::with_transform(streams(&path)?, options(0, 1), mean)?;
    let mut means = Vec::new();
    for _ in 0..30 {
        means.push(loader.next_batch()?);
    }
    let saved = serde_json::to_string_pretty(&loader.state()?)?;
    println!("after 30 steps the mean of a batch is {:.4}; the state:\n{saved}", means[29].0);

    // What it would have seen next.
    let expected: Vec<_> = (&loader).take(20).collect::<Result<_, _>>()?;
    drop(loader);

    // The next run begins with the saved state.
    let state: LoaderState = serde_json::from_str(&saved)?;
    let resumed = Loader::with_transform(streams(&path)?, options(0, 1), mean)?;
    resumed.load_state(&state, true)?;
    for expected in &expected {
        same(&resumed.next_batch()?, expected)?;
    }
    println!("resumed: 20 batches as they would have come");

    // So do two processes with half the batch each.
    let ranks = [
        Loader::with_transform(streams(&path)?, options(0, 2), mean)?,
        Loader::with_transform(streams(&path)?, options(1, 2), mean)?,
    ];
    for rank in &ranks {
        rank.load_state(&state, true)?;
    }
    for (_, indices) in &expected {
        let parts = [ranks[0].next_batch()?.1, ranks[1].next_batch()?.1];
        same(&parts.concat(), indices)?;
    }
    println!("resumed on two ranks: the same records, divided between them");
    Ok(())
}

fn same<T: PartialEq>(batch: &T, expected: &T) -> Result<(), AnyError> {
    if batch == expected { Ok(()) } else { Err("another batch came than before".into()) }
}

/// Writes the store: one record for each sample, each compressed on its own.
fn build(path: &Path) -> Result<(), AnyError> {
    let dtype = Dtype::parse("<f4")?;
    let schema = Schema::new(Kind::Dense, dtype, vec![FEATURES as u64], Codec::Zstd, Vec::new())?;
    let store = OpenOptions::new().mode(Mode::Create).open(path)?;
    store.set_schema(&schema)?;

    let numbers = (0..SAMPLES * FEATURES).map(|number| (number as f32 * 0.01).sin());
    let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
    let starts: Vec<u64> = (0..SAMPLES as u64).map(|sample| sample * schema.row_bytes()).collect();
    store.append(&bytes, &starts, None)?;
    store.close()?;
    Ok(())
}

fn streams(path: &Path) -> Result<Streams, AnyError> {
    Ok(Streams::new().with("x", Arc::new(DenseDataset::open(path)?)))
}

/// Every sample once in each cycle, in a fresh order; 64 of them at a step,
/// on however many ranks.
fn options(rank: u64, world_size: u64) -> LoaderOptions {
    LoaderOptions {
        batch_size: 64 / world_size,
        mode: SamplerMode::Cyclic,
        seed: 7,
        rank,
        world_size,
        ..LoaderOptions::default()
    }
}

/// Stands for what a run does with a batch; here in the loader's workers.
fn mean(batch: Batch) -> Result<(f32, Vec<u64>), AnyError> {
    let Some(Column::Dense { buffer, .. }) = batch.column("x") else {
        return Err("the stream is dense".into());
    };
    let (numbers, _) = buffer.as_chunks();
    let sum: f32 = numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).sum();
    Ok((sum / numbers.len() as f32, batch.indices))
}
