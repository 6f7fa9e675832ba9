//! Text records are cut into pieces of bounded length, and what is too short
//! to learn from is dropped.
//!
//! Works on ragged stores of `uint8` (bytes of text) and `uint16` (tokens). A
//! piece ends behind the last separator that fits into `max_len`, or at
//! `max_len` where there is none.
//!
//! ```json
//! {"max_len": 1024, "min_len": 16, "separator": 10}
//! ```
//!
//! Lengths are in items; 10 is a line feed, as a byte and as a token of the
//! demonstration's source texts.
#![cfg(target_family = "wasm")]

use serde::Deserialize;

use bindings::exports::zrecord::step::transform::{
    Batch, Guest, GuestStep, Output, Schema, Step, StepError,
};

#[allow(clippy::all, missing_docs, reason = "it is generated")]
mod bindings {
    wit_bindgen::generate!({ world: "preprocess", path: "../../../wit/step" });
    use super::Text;
    export!(Text);
}

struct Text;

impl Guest for Text {
    type Step = Split;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    max_len: usize,
    min_len: usize,
    separator: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self { max_len: 1024, min_len: 16, separator: 10 }
    }
}

struct Split {
    config: Config,
    input: Schema,
    item_size: usize,
}

impl GuestStep for Split {
    fn open(input: Option<Schema>, config: String) -> Result<Step, StepError> {
        Self::prepare(input, &config)
            .map(Step::new)
            .map_err(|reason| StepError::Other(Some(reason)))
    }

    fn output_schema(&self) -> Option<Schema> {
        Some(self.input.clone())
    }

    fn process(&self, batch: Batch) -> Result<Output, StepError> {
        let mut output = Output { bytes: Vec::new(), ends: Vec::new(), counts: None };
        let mut counts = Vec::with_capacity(batch.ends.len());
        for (position, text) in records(&batch) {
            if !text.len().is_multiple_of(self.item_size) {
                let reason = format!("it has {} bytes, no whole number of items", text.len());
                return Err(StepError::Record((position, reason)));
            }
            counts.push(self.split(text, &mut output));
        }
        output.counts = Some(counts);
        Ok(output)
    }
}

impl Split {
    fn prepare(input: Option<Schema>, config: &str) -> Result<Self, String> {
        let input = input.ok_or("the input store has no schema, so there is no text in it")?;
        let item_size = match (input.dense, &*input.dtype) {
            (false, "|u1") => 1,
            (false, "<u2") => 2,
            (dense, dtype) => {
                let kind = if dense { "dense" } else { "ragged" };
                return Err(format!("text is ragged |u1 or <u2, not {kind} {dtype}"));
            }
        };
        if !input.item_shape.is_empty() {
            return Err("text is one-dimensional; the rows of this store have a shape".into());
        }
        let config = if config.is_empty() { "{}" } else { config };
        let config: Config =
            serde_json::from_str(config).map_err(|error| format!("the configuration: {error}"))?;
        if config.max_len == 0 || config.min_len > config.max_len {
            return Err("max_len must be at least 1 and at least min_len".into());
        }
        Ok(Self { config, input, item_size })
    }

    /// Appends the pieces of one text; returns how many there are.
    fn split(&self, mut text: &[u8], output: &mut Output) -> u32 {
        let mut count = 0;
        while !text.is_empty() {
            let (piece, rest) = text.split_at(self.piece_len(text) * self.item_size);
            text = rest;
            if piece.len() >= self.config.min_len * self.item_size {
                output.bytes.extend_from_slice(piece);
                output.ends.push(output.bytes.len() as u64);
                count += 1;
            }
        }
        count
    }

    /// How many items the next piece has, at least one.
    fn piece_len(&self, text: &[u8]) -> usize {
        let items = text.len() / self.item_size;
        if items <= self.config.max_len {
            return items;
        }
        let is_separator = |item: &[u8]| match *item {
            [byte] => u16::from(byte) == self.config.separator,
            [low, high] => u16::from_le_bytes([low, high]) == self.config.separator,
            _ => false,
        };
        let mut fitting = text.chunks_exact(self.item_size).take(self.config.max_len);
        let last = fitting.rposition(is_separator);
        last.map_or(self.config.max_len, |position| position + 1)
    }
}

/// The records of a batch, with their positions. The host has checked that
/// they lie in its bytes, which fit the memory.
fn records(batch: &Batch) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = batch.bytes.as_slice();
    let mut start = 0;
    (0..).zip(batch.ends.iter().map(move |end| {
        let (record, behind) = rest.split_at(usize::try_from(end - start).unwrap_or(rest.len()));
        (rest, start) = (behind, *end);
        record
    }))
}
