//! A process that works on a store until it is killed.
//!
//! `storm` does what a [`Workload`] says and acknowledges each operation by a
//! line on its standard output, `boast` acknowledges each before it is done,
//! which its checker must notice; `obey` reads commands from its standard input
//! and answers each with a line.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use zrecord_host::core::Error as CoreError;
use zrecord_host::{Codec, Error, Format, Mode, OpenOptions, Store, Successor, convert};
use zrecord_tests::worker::{CHUNK_SIZE_MAX, beside};
use zrecord_tests::workload::{Operation, Workload, other, pack, record};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().context("an argument is missing");
    match &*next()? {
        job @ ("storm" | "boast") => {
            let boasts = job == "boast";
            let path = PathBuf::from(next()?);
            let format = format_named(&next()?)?;
            let mut number = || -> Result<u64> { Ok(next()?.parse()?) };
            storm(&path, format, Workload::new(number()?, number()?, number()?), boasts)
        }
        "obey" => obey(Path::new(&next()?)),
        job => bail!("there is no job {job}"),
    }
}

fn format_named(name: &str) -> Result<Format> {
    match name {
        "classic" => Ok(Format::Classic),
        "extended" => Ok(Format::Extended),
        other => bail!("there is no format {other}"),
    }
}

fn say(line: &str) -> Result<()> {
    // In one write, so that a kill leaves whole lines.
    Ok(io::stdout().write_all(format!("{line}\n").as_bytes())?)
}

/// Changes the store until somebody kills this process.
fn storm(path: &Path, format: Format, workload: Workload, boasts: bool) -> Result<()> {
    let options =
        OpenOptions::new().format(format).level(1).threads(2).chunk_size_max(CHUNK_SIZE_MAX);
    say("ready")?;
    let mut store = options.clone().mode(Mode::Append).open(path)?;
    store.lock_writer()?;
    say("open")?;
    for operation in workload {
        if boasts {
            say("done")?;
        }
        let answer = match &operation {
            Operation::Append { numbers, codec } => append(&store, numbers, *codec)?,
            Operation::Stage { numbers } => stage(&store, numbers)?,
            Operation::Delete { indices } => store.delete(indices).map(|()| "done")?,
            Operation::Compact => store.compact(&mut |_| {}).map(|_| "done")?,
            Operation::Train => train(&store)?,
            Operation::Sync => store.sync().map(|()| "done")?,
            Operation::Reopen => {
                store.close()?;
                store = options.clone().mode(Mode::Append).open(path)?;
                "done"
            }
            Operation::Convert => converted(path, other(format))?,
            Operation::Replace { numbers } => {
                store.close()?;
                replace(path, &options, numbers)?;
                store = options.clone().mode(Mode::Append).open(path)?;
                "done"
            }
        };
        if !boasts {
            say(answer)?;
        }
    }
    Ok(())
}

fn append(store: &Store, numbers: &[u64], codec: Codec) -> Result<&'static str> {
    let codec = match codec {
        Codec::ZstdDict if !store.has_dictionary() => Codec::Zstd,
        codec => codec,
    };
    let (src, offsets) = pack(numbers);
    store.append(&src, &offsets, Some(codec))?;
    Ok("done")
}

fn stage(store: &Store, numbers: &[u64]) -> Result<&'static str> {
    for part in numbers.chunks(numbers.len().div_ceil(2)) {
        let (src, offsets) = pack(part);
        store.stage(&src, &offsets, None)?;
    }
    store.commit_staged()?;
    Ok("done")
}

fn train(store: &Store) -> Result<&'static str> {
    let samples: Vec<Vec<u8>> =
        (0..100_u64).map(|n| format!("word {} of sample {n}", n * 31).repeat(2).into()).collect();
    let sizes: Vec<usize> = samples.iter().map(Vec::len).collect();
    match store.train_dictionary(&samples.concat(), &sizes, 1_024) {
        Ok(_) => Ok("done"),
        Err(error) => refused(error),
    }
}

fn converted(path: &Path, format: Format) -> Result<&'static str> {
    match convert(path, beside(path), format, &mut |_| {}) {
        Ok(()) => Ok("done"),
        Err(error) => refused(error),
    }
}

/// What a workload may ask for in vain; everything else is a failure.
fn refused(error: Error) -> Result<&'static str> {
    match error.core() {
        Some(CoreError::Unsupported { .. } | CoreError::AlreadyExists | CoreError::Full { .. }) => {
            Ok("refused")
        }
        _ => Err(error.into()),
    }
}

fn replace(path: &Path, options: &OpenOptions, numbers: &[u64]) -> Result<()> {
    let successor = Successor::begin(path, true)?;
    let store = options.clone().mode(Mode::Create).open(successor.path())?;
    let (src, offsets) = pack(numbers);
    store.append(&src, &offsets, None)?;
    store.close()?;
    successor.publish()?;
    Ok(())
}

/// Does what it is told.
fn obey(path: &Path) -> Result<()> {
    let mut store = None;
    let mut view = None;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = command(path, &words, &mut store, &mut view);
        say(&match answer {
            Ok(answer) => format!("ok {answer}"),
            Err(error) => match error.downcast_ref::<Error>().and_then(Error::core) {
                Some(CoreError::Busy { .. }) => format!("busy {error}"),
                _ => format!("error {error:#}"),
            },
        })?;
    }
    Ok(())
}

fn command(
    path: &Path,
    words: &[&str],
    store: &mut Option<Store>,
    view: &mut Option<zrecord_host::View>,
) -> Result<String> {
    let open = || store.as_ref().context("no store is open");
    let number = |at: usize| -> Result<u64> { Ok(words.get(at).context("a number")?.parse()?) };
    Ok(match words {
        ["open", mode, options @ ..] => {
            let mode = if *mode == "read" { Mode::Read } else { Mode::Append };
            let options = OpenOptions::new()
                .mode(mode)
                .codec(Codec::Raw)
                .format(format_named(options.first().copied().unwrap_or("extended"))?)
                .lock(!options.contains(&"unlocked"));
            *store = Some(options.open(path)?);
            String::new()
        }
        ["append", _] => {
            let bytes = record(number(1)?);
            open()?.append(&bytes, &[0], Some(Codec::Raw))?.to_string()
        }
        ["read", _] => {
            let len = open()?.lengths(&[number(1)?])?[0];
            let mut bytes = vec![0; usize::try_from(len)?];
            open()?.gather(&[number(1)?], &mut bytes, &[0])?;
            let known = u64::from_le_bytes(bytes[..8].try_into()?);
            if bytes != record(known) {
                bail!("record {} is none that was written", words[1]);
            }
            known.to_string()
        }
        ["len"] => open()?.len()?.to_string(),
        ["lock"] => open()?.lock_writer().map(|()| String::new())?,
        ["delete", _] => open()?.delete(&[number(1)?]).map(|()| String::new())?,
        ["compact"] => open()?.compact(&mut |_| {}).map(|_| String::new())?,
        ["sync"] => open()?.sync().map(|()| String::new())?,
        ["view"] => {
            let taken = open()?.view(0, 1)?;
            *view = Some(taken);
            String::new()
        }
        ["drop-view"] => {
            *view = None;
            String::new()
        }
        ["close"] => store.take().context("no store is open")?.close().map(|()| String::new())?,
        _ => bail!("there is no command {words:?}"),
    })
}
