//! `zrecord demo`: packs records and reads random batches back.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use zrecord_host::buffer::BufferPool;
use zrecord_host::core::sampler::{Mode as Order, Sampler, SamplerOptions};
use zrecord_host::{Codec, Dtype, Kind, Mode, OpenOptions, RaggedDataset, Schema, Store};

use crate::report::{ratio, size};

const BATCH_SIZE: u64 = 64;
const READING_TIME: Duration = Duration::from_millis(500);
/// This many bytes are packed at a time, and at most so many in all.
const BLOCK_BYTES: usize = 32 << 20;
const FOLDER_BYTES_MAX: u64 = 2 << 30;
const MADE_UP_RECORDS: u64 = 4_000;

pub fn run(folder: Option<&Path>, out: &mut dyn Write) -> Result<()> {
    let place = Place::new()?;
    match folder {
        Some(folder) => writeln!(out, "packing the files of {}", folder.display())?,
        None => writeln!(out, "packing {MADE_UP_RECORDS} made-up records")?,
    }
    writeln!(out, "{:<10}{:>9}{:>14}{:>8}{:>14}", "codec", "records", "stored", "ratio", "read")?;
    for codec in [Codec::Raw, Codec::Zstd] {
        let path = place.0.join(codec.name());
        match folder {
            Some(folder) => pack_folder(&path, codec, folder)?,
            None => pack_made_up(&path, codec)?,
        }
        let dataset = RaggedDataset::open(&path)?;
        let stats = dataset.store().stats()?;
        let rate = read(&dataset)?;
        writeln!(
            out,
            "{:<10}{:>9}{:>14}{:>8.2}{:>9.2} GB/s",
            codec.name(),
            stats.records,
            indicatif::BinaryBytes(stats.live_bytes).to_string(),
            ratio(stats.plain_bytes, stats.live_bytes).unwrap_or(1.0),
            rate / 1e9,
        )?;
        if codec == Codec::Zstd {
            writeln!(
                out,
                "{} of records, in random batches of {BATCH_SIZE}",
                size(stats.plain_bytes)
            )?;
        }
    }
    Ok(())
}

/// A directory for the demonstration, removed when it is over.
struct Place(PathBuf);

impl Place {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("zrecord-demo-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed lies where temporary files do.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Records that are packed a block at a time.
struct Packing {
    store: Store,
    bytes: Vec<u8>,
    offsets: Vec<u64>,
}

impl Packing {
    fn new(path: &Path, codec: Codec) -> Result<Self> {
        let store = OpenOptions::new().mode(Mode::Create).open(path)?;
        let schema = Schema::new(Kind::Ragged, Dtype::parse("|u1")?, vec![], codec, vec![])?;
        store.set_schema(&schema)?;
        Ok(Self { store, bytes: Vec::new(), offsets: Vec::new() })
    }

    fn push(&mut self, record: &[u8]) -> Result<()> {
        self.offsets.push(self.bytes.len() as u64);
        self.bytes.extend_from_slice(record);
        if self.bytes.len() < BLOCK_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<()> {
        self.store.append(&self.bytes, &self.offsets, None)?;
        self.bytes.clear();
        self.offsets.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.flush()?;
        self.store.close()?;
        Ok(())
    }
}

fn pack_folder(path: &Path, codec: Codec, folder: &Path) -> Result<()> {
    let mut packing = Packing::new(path, codec)?;
    let mut total = 0;
    for file in files(folder)? {
        let bytes = fs::read(&file).with_context(|| file.display().to_string())?;
        total += bytes.len() as u64;
        if total > FOLDER_BYTES_MAX {
            break;
        }
        packing.push(&bytes)?;
    }
    if total == 0 {
        bail!("{}: there is no file with any bytes in it", folder.display());
    }
    packing.finish()
}

/// The files in a folder and below, in order; links are not followed.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Lines of words: about as compressible as text is.
fn pack_made_up(path: &Path, codec: Codec) -> Result<()> {
    const WORDS: [&str; 12] = [
        "record ", "store ", "sampler ", "loader ", "chunk ", "batch ", "step ", "seed ",
        "gather ", "append ", "commit ", "sync ",
    ];
    let mut packing = Packing::new(path, codec)?;
    let mut state = 0x5eed_u64;
    let mut record = Vec::new();
    for index in 0..MADE_UP_RECORDS {
        record.clear();
        let len = 4 << 10 << (index % 4);
        while record.len() < len {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(index | 1);
            let word = usize::try_from(state >> 33)? % WORDS.len();
            record.extend_from_slice(WORDS[word].as_bytes());
            record.extend_from_slice(&state.to_le_bytes()[5..]);
        }
        packing.push(&record)?;
    }
    packing.finish()
}

/// Reads random batches for a while; returns bytes per second.
fn read(dataset: &RaggedDataset) -> Result<f64> {
    let length = dataset.len()?;
    let sampler = Sampler::new(SamplerOptions {
        length,
        batch_size: BATCH_SIZE.min(length),
        mode: Order::Cyclic,
        seed: 42,
        rank: 0,
        world_size: 1,
    })?;
    let pool = BufferPool::default();
    let mut indices = vec![0; usize::try_from(sampler.batch_size())?];
    let mut bytes = 0;
    let begun = Instant::now();
    for step in 0.. {
        sampler.fill(step, &mut indices)?;
        bytes += dataset.gather(&indices, &pool)?.values.len();
        if begun.elapsed() >= READING_TIME {
            break;
        }
    }
    Ok(bytes as f64 / begun.elapsed().as_secs_f64())
}
