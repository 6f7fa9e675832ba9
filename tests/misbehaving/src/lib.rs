//! A step that does what none should. Its configuration says what; without one
//! it hands every record on.
#![cfg(target_family = "wasm")]
#![allow(clippy::panic_in_result_fn, reason = "panicking is what it is for")]

use bindings::exports::zrecord::step::transform::{
    Batch, Guest, GuestStep, Output, Schema, Step, StepError,
};

#[allow(clippy::all, missing_docs, reason = "it is generated")]
mod bindings {
    wit_bindgen::generate!({ world: "preprocess", path: "../../wit/step" });
    use super::Misbehaving;
    export!(Misbehaving);
}

struct Misbehaving;

impl Guest for Misbehaving {
    type Step = Misbehaviour;
}

struct Misbehaviour {
    schema: Option<Schema>,
    what: String,
}

impl GuestStep for Misbehaviour {
    fn open(input: Option<Schema>, config: String) -> Result<Step, StepError> {
        match &*config {
            "refuse" => Err(StepError::Other(Some("not today".into()))),
            "refuse in ugly words" => Err(StepError::Other(Some(ugly(1 << 10)))),
            "refuse without a word" => Err(StepError::Other(None)),
            "loop at once" => endless(),
            _ => Ok(Step::new(Self { schema: input, what: config })),
        }
    }

    fn output_schema(&self) -> Option<Schema> {
        let mut schema = self.schema.clone();
        if let Some(schema) = &mut schema {
            match &*self.what {
                "an impossible dtype" => schema.dtype = "<f3".into(),
                "an impossible shape" => schema.item_shape = vec![u64::MAX, u64::MAX],
                "a wrong dtype" => schema.dtype = "<c16".into(),
                _ => {}
            }
        }
        schema
    }

    fn process(&self, batch: Batch) -> Result<Output, StepError> {
        // All but the first batch are as they should be.
        let is_first = batch.first_index == 0;
        let Batch { bytes, ends, .. } = batch;
        let mut output = Output { bytes, ends, counts: None };
        let count = output.ends.len();
        match &*self.what {
            "loop" => endless(),
            "panic" => panic!("as configured"),
            "take all memory" => return Ok(greedy()),
            "ask for 4 GiB" => ask_for_everything(),
            "recurse" => output.bytes.push(deep(1 << 40)),
            "fail in ugly words" => return Err(StepError::Other(Some(ugly(1 << 12)))),
            "blame record 3 in ugly words" if is_first => {
                return Err(StepError::Record((3, ugly(10))));
            }
            "more words than a call may have" => {
                return Err(StepError::Other(Some(" ".repeat(100 << 20))));
            }
            "more bytes than a call may have" => output.bytes = vec![1; 100 << 20],
            "more ends than a call may have" => output.ends = vec![0; 13 << 20],
            "more counts than a call may have" => output.counts = Some(vec![0; 26 << 20]),
            "a record of 2 MiB" => {
                output.bytes.resize(output.bytes.len() + (2 << 20), 1);
                if let Some(end) = output.ends.last_mut() {
                    *end += 2 << 20;
                }
            }
            "blame record 3" if is_first => return Err(StepError::Record((3, "it is odd".into()))),
            "blame a record that is not there" => {
                return Err(StepError::Record((u32::MAX, "it is odd".into())));
            }
            "fail" => return Err(StepError::Other(Some("out of luck".into()))),
            "too few" => {
                output.ends.pop();
                let end = output.ends.last().copied().unwrap_or(0);
                output.bytes.truncate(usize::try_from(end).unwrap_or(0));
            }
            "too many" => output.ends.push(output.bytes.len() as u64),
            "an end too far" => output.ends.push(output.bytes.len() as u64 + 1),
            "an end past all counting" => output.ends.push(u64::MAX),
            "ends that fall" => output.ends.reverse(),
            "bytes behind the last" => output.bytes.push(0),
            "counts too few" => output.counts = Some(vec![1; count - 1]),
            "counts too large" => output.counts = Some(vec![u32::MAX; count]),
            "drop all" => {
                output = Output { bytes: vec![], ends: vec![], counts: Some(vec![0; count]) }
            }
            "a short record" if !output.bytes.is_empty() => {
                output.bytes.pop();
                if let Some(end) = output.ends.last_mut() {
                    *end -= 1;
                }
            }
            _ => {}
        }
        Ok(output)
    }
}

fn endless() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

/// What no line can hold, and no terminal should be sent.
fn ugly(times: usize) -> String {
    "out of\r\nluck \x1b[2J\u{202e}".repeat(times)
}

/// More than the memory of wasm can ever have, at once.
fn ask_for_everything() {
    let pages = core::arch::wasm32::memory_grow::<0>(1 << 16);
    assert_ne!(pages, usize::MAX, "there is no such memory");
}

/// Calls itself for as long as the stack lasts.
fn deep(left: u64) -> u8 {
    if left == 0 { 0 } else { std::hint::black_box(deep(left - 1)).wrapping_add(1) }
}

/// More than any memory that a step may have.
fn greedy() -> Output {
    let mut bytes = Vec::new();
    loop {
        bytes.resize(bytes.len() + (64 << 20), 1);
    }
}
