//! What the machine allows, as one more contender of `cargo xtask bench`:
//! records copied, decoded, read or encoded by all cores and nothing around it.
//!
//! One JSON request a line on standard input, one JSON answer a line on
//! standard output; the benchmark asks in turn with its other contenders. All
//! times are taken here, so that the pipe counts for nobody.

mod crew;
mod encoding;
mod recipe;
mod sources;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};
use zrecord_host::{Buffer, Codec, Format, Mode, OpenOptions, pool};

use crate::encoding::Encoding;
use crate::recipe::Recipe;
use crate::sources::{Frames, Limit};

type AnyError = Box<dyn Error + Send + Sync>;

/// A question of the benchmark.
#[derive(Deserialize)]
#[serde(tag = "request", rename_all = "lowercase")]
enum Request {
    /// Makes a limit ready under a name.
    Open {
        name: String,
        kind: Kind,
        /// A store, or for `read` a file.
        path: PathBuf,
        record_bytes: usize,
        batch: usize,
        /// Where the records begin in the file.
        #[serde(default)]
        offset: u64,
        /// All cores unless given.
        #[serde(default)]
        threads: Option<usize>,
    },
    /// Encodes the records of a file, keeps the frames under a name as `Open`
    /// does, and says how many bytes they have.
    Frames {
        name: String,
        recipe: Recipe,
        path: PathBuf,
        offset: u64,
        record_bytes: usize,
        batch: usize,
        threads: usize,
    },
    /// Writes the records of one batch into a file, to be compared.
    Answer {
        name: String,
        batch: Vec<u64>,
        to: PathBuf,
    },
    /// Takes the time of each batch, one after the other.
    Time {
        name: String,
        batches: Vec<Vec<u64>>,
    },
    Close {
        name: String,
    },
    /// Encodes all records of a file, and says how long it took.
    Encode {
        path: PathBuf,
        offset: u64,
        record_bytes: usize,
        level: i32,
        dictionary: Option<PathBuf>,
    },
    /// Makes a raw store whose chunks hold so many bytes at most.
    Chunked {
        path: PathBuf,
        record_bytes: usize,
        records: usize,
        chunk_bytes: u64,
    },
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Records copied out of the mapping of a raw store.
    Copy,
    /// Stored frames decoded by libzstd, contexts reused.
    Decode,
    /// Records read by position.
    Read,
}

/// A limit that is open, and the warm memory that it fills.
struct Opened {
    limit: Box<dyn Limit>,
    dst: Buffer,
}

fn main() -> Result<(), AnyError> {
    let mut opened = BTreeMap::new();
    for line in io::stdin().lock().lines() {
        let answer = serde_json::from_str(&line?)
            .map_err(AnyError::from)
            .and_then(|request| answer(&mut opened, request));
        let answer = answer.unwrap_or_else(|error| json!({"error": error.to_string()}));
        println!("{answer}");
        io::stdout().flush()?;
    }
    Ok(())
}

fn answer(opened: &mut BTreeMap<String, Opened>, request: Request) -> Result<Value, AnyError> {
    match request {
        Request::Open { name, kind, path, record_bytes, batch, offset, threads } => {
            let threads = pool::thread_count(threads)?;
            let limit: Box<dyn Limit> = match kind {
                Kind::Copy => Box::new(sources::Mapped::open(&path, record_bytes, threads)?),
                Kind::Decode => Box::new(sources::Frames::open(&path, record_bytes, threads)?),
                Kind::Read => {
                    Box::new(sources::Positions::open(&path, offset, record_bytes, threads)?)
                }
            };
            let dst = Buffer::zeroed(batch * record_bytes)?;
            opened.insert(name, Opened { limit, dst });
            Ok(json!({"threads": threads}))
        }
        Request::Frames { name, recipe, path, offset, record_bytes, batch, threads } => {
            let rows = encoding::rows_of(&path, offset)?;
            let (frames, dictionary) = recipe.encode(&rows, record_bytes)?;
            let stored: usize = frames.iter().map(|frame| frame.bytes.len()).sum();
            let dictionaries = dictionary.into_iter().collect();
            let limit = Box::new(Frames::new(frames, dictionaries, record_bytes, threads));
            let dst = Buffer::zeroed(batch * record_bytes)?;
            opened.insert(name, Opened { limit, dst });
            Ok(json!({"stored": stored}))
        }
        Request::Answer { name, batch, to } => {
            let Opened { limit, dst } = find(opened, &name)?;
            dst.fill(0);
            limit.time(std::slice::from_ref(&batch), dst)?;
            std::fs::write(to, &**dst)?;
            Ok(json!({}))
        }
        Request::Time { name, batches } => {
            let Opened { limit, dst } = find(opened, &name)?;
            Ok(json!({"ns": limit.time(&batches, dst)?}))
        }
        Request::Close { name } => {
            opened.remove(&name);
            Ok(json!({}))
        }
        Request::Encode { path, offset, record_bytes, level, dictionary } => {
            let work = Encoding::new(&path, offset, record_bytes, level, dictionary.as_deref())?;
            let (ns, stored) = work.time(pool::thread_count(None)?)?;
            Ok(json!({"ns": ns, "stored": stored}))
        }
        Request::Chunked { path, record_bytes, records, chunk_bytes } => {
            let rows = vec![0x5a; record_bytes * records];
            let offsets: Vec<u64> = (0..records).map(|at| (at * record_bytes) as u64).collect();
            let options = OpenOptions::new().mode(Mode::Create).format(Format::Extended);
            let store = options.codec(Codec::Raw).chunk_size_max(chunk_bytes).open(&path)?;
            store.append(&rows, &offsets, None)?;
            store.close()?;
            Ok(json!({}))
        }
    }
}

fn find<'a>(
    opened: &'a mut BTreeMap<String, Opened>,
    name: &str,
) -> Result<&'a mut Opened, AnyError> {
    opened.get_mut(name).ok_or_else(|| format!("{name} is not open").into())
}
