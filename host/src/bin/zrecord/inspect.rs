//! `zrecord inspect`: what a store is and holds.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use zrecord_host::core::storage::FileName;
use zrecord_host::{Codec, Format, Inspection, Schema, Store};

use crate::report::{ratio, size};
use crate::sandbox;

pub fn run(path: &Path, as_json: bool, sandboxed: bool, out: &mut dyn Write) -> Result<()> {
    let (inspection, leftovers) = match sandboxed {
        true => sandbox::inspect(path)?,
        false => inspect(path)?,
    };
    let leftovers: Vec<String> = leftovers.iter().map(ToString::to_string).collect();
    if as_json {
        writeln!(out, "{:#}", to_json(&inspection, &leftovers))?;
    } else {
        print(path, &inspection, &leftovers, out)?;
    }
    Ok(())
}

fn inspect(path: &Path) -> Result<(Inspection, Vec<FileName>)> {
    let store = Store::open(path)?;
    let inspected = (store.inspect()?, store.leftovers()?);
    store.close()?;
    Ok(inspected)
}

fn to_json(inspection: &Inspection, leftovers: &[String]) -> Value {
    let stats = &inspection.stats;
    let codecs: serde_json::Map<String, Value> = Codec::ALL
        .into_iter()
        .zip(inspection.codecs)
        .map(|(codec, count)| (codec.name().into(), count.into()))
        .collect();
    json!({
        "format": inspection.format.name(),
        "version": inspection.version,
        "id": inspection.id.map(hex),
        "schema": inspection.schema.as_ref().map(|schema| schema_to_json(schema)),
        "records": stats.records,
        "plain_bytes": stats.plain_bytes,
        "stored_bytes": stats.live_bytes,
        "ratio": ratio(stats.plain_bytes, stats.live_bytes),
        "codecs": codecs,
        "dictionaries": stats.dictionaries,
        "chunks": stats.chunks,
        "chunk_bytes": stats.chunk_bytes,
        "reclaimable_bytes": stats.reclaimable,
        "clean": inspection.clean,
        "generation": inspection.generation,
        "stride": inspection.stride,
        "record_len": inspection.lengths.map(|lengths| {
            json!({ "min": lengths.min, "median": lengths.median, "max": lengths.max })
        }),
        "leftovers": leftovers,
    })
}

fn schema_to_json(schema: &Schema) -> Value {
    json!({
        "kind": schema.kind().name(),
        "dtype": schema.dtype().to_string(),
        "item_shape": schema.item_shape(),
        "codec": schema.codec().name(),
    })
}

fn print(
    path: &Path,
    inspection: &Inspection,
    leftovers: &[String],
    out: &mut dyn Write,
) -> Result<()> {
    let stats = &inspection.stats;
    let mut line = |name: &str, value: &str| writeln!(out, "{name:<13}{value}");
    line("store", &path.display().to_string())?;
    line("format", &format!("{}, version {}", inspection.format.name(), inspection.version))?;
    if let Some(id) = inspection.id {
        line("id", &hex(id))?;
    }
    match &inspection.schema {
        Some(schema) => line("schema", &format!("{schema}, codec {}", schema.codec()))?,
        None => line("schema", "none")?,
    }
    line("records", &stats.records.to_string())?;
    if let Some(lengths) = inspection.lengths {
        let text = format!("{} to {}, median {}", lengths.min, lengths.max, lengths.median);
        line("record bytes", &text)?;
    }
    line("plain", &size(stats.plain_bytes))?;
    let ratio = ratio(stats.plain_bytes, stats.live_bytes);
    let ratio = ratio.map_or(String::new(), |ratio| format!(", ratio {ratio:.2}"));
    line("stored", &format!("{}{ratio}", size(stats.live_bytes)))?;
    let codecs: Vec<String> = Codec::ALL
        .into_iter()
        .zip(inspection.codecs)
        .filter(|(_, count)| *count > 0)
        .map(|(codec, count)| format!("{count} {codec}"))
        .collect();
    line("codecs", if codecs.is_empty() { "none".into() } else { codecs.join(", ") }.as_str())?;
    line("dictionaries", &stats.dictionaries.to_string())?;
    line("chunks", &format!("{}, {}", stats.chunks, size(stats.chunk_bytes)))?;
    line("reclaimable", &size(stats.reclaimable))?;
    let clean = match (inspection.format, inspection.clean) {
        (Format::Classic, _) => "unknown, as the format cannot tell",
        (Format::Extended, true) => "closed cleanly",
        (Format::Extended, false) => "not synced",
    };
    line("state", &format!("{clean}, generation {}", inspection.generation))?;
    if !leftovers.is_empty() {
        line("leftovers", &format!("{} (compact removes them)", leftovers.join(", ")))?;
    }
    Ok(())
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
