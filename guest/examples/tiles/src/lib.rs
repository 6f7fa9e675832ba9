//! Tiles of photographs become what a model trains on: halved, or more, by
//! averaging squares of pixels, normalised channel by channel, as `float32`.
//!
//! A row of the input is `(height, width, channels)` of `uint8`, a row of the
//! output `(height / factor, width / factor, channels)` of `float32`.
//!
//! ```json
//! {"factor": 2, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
//! ```
//!
//! `mean` and `std` are of values from 0 to 1 and have one number for each
//! channel; without them 0 is taken from a value, and it is divided by 1.
#![cfg(target_family = "wasm")]

use serde::Deserialize;

use bindings::exports::zrecord::step::transform::{
    Batch, Guest, GuestStep, Output, Schema, Step, StepError,
};

#[allow(clippy::all, missing_docs, reason = "it is generated")]
mod bindings {
    wit_bindgen::generate!({ world: "preprocess", path: "../../../wit/step" });
    use super::Tiles;
    export!(Tiles);
}

struct Tiles;

impl Guest for Tiles {
    type Step = Downsample;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default = "two")]
    factor: usize,
    mean: Option<Vec<f32>>,
    std: Option<Vec<f32>>,
}

fn two() -> usize {
    2
}

struct Downsample {
    height: usize,
    width: usize,
    channels: usize,
    factor: usize,
    /// By channel: what a mean of a square, from 0 to 255, is multiplied by,
    /// and what is added then.
    scales: Vec<(f32, f32)>,
}

impl GuestStep for Downsample {
    fn open(input: Option<Schema>, config: String) -> Result<Step, StepError> {
        Self::prepare(input, &config)
            .map(Step::new)
            .map_err(|reason| StepError::Other(Some(reason)))
    }

    fn output_schema(&self) -> Option<Schema> {
        let shape = [self.height / self.factor, self.width / self.factor, self.channels];
        Some(Schema {
            dense: true,
            dtype: "<f4".into(),
            item_shape: shape.map(|size| size as u64).to_vec(),
            metadata: Vec::new(),
        })
    }

    fn process(&self, batch: Batch) -> Result<Output, StepError> {
        let len = self.height * self.width * self.channels;
        let count = batch.ends.len();
        let row = len / (self.factor * self.factor) * size_of::<f32>();
        let mut output = Output {
            bytes: Vec::with_capacity(count * row),
            ends: Vec::with_capacity(count),
            counts: None,
        };
        for (position, tile) in records(&batch) {
            if tile.len() != len {
                let reason = format!("it has {} bytes, a tile has {len}", tile.len());
                return Err(StepError::Record((position, reason)));
            }
            self.downsample(tile, &mut output.bytes);
            output.ends.push(output.bytes.len() as u64);
        }
        Ok(output)
    }
}

impl Downsample {
    fn prepare(input: Option<Schema>, config: &str) -> Result<Self, String> {
        let input = input.ok_or("the input store has no schema, so there are no tiles in it")?;
        if !input.dense || input.dtype != "|u1" {
            return Err(format!("tiles are dense rows of |u1, not {}", input.dtype));
        }
        let [height, width, channels] = sizes(&input.item_shape)?;
        let config = if config.is_empty() { "{}" } else { config };
        let Config { factor, mean, std } =
            serde_json::from_str(config).map_err(|error| format!("the configuration: {error}"))?;
        if factor == 0 || height % factor != 0 || width % factor != 0 {
            return Err(format!("factor {factor} does not divide {height} and {width}"));
        }
        let mean = mean.unwrap_or_else(|| vec![0.0; channels]);
        let std = std.unwrap_or_else(|| vec![1.0; channels]);
        if mean.len() != channels || std.len() != channels {
            return Err(format!("mean and std need {channels} numbers, one for each channel"));
        }
        if std.iter().any(|std| std.is_nan() || *std <= 0.0) {
            return Err("std: every number must be above 0".into());
        }
        let scale = |(mean, std): (f32, &f32)| (1.0 / (255.0 * std), -mean / std);
        let scales = mean.into_iter().zip(&std).map(scale).collect();
        Ok(Self { height, width, channels, factor, scales })
    }

    /// Appends the row of one tile.
    fn downsample(&self, tile: &[u8], row: &mut Vec<u8>) {
        let Self { width, channels, factor, .. } = *self;
        let area = (factor * factor) as f32;
        for top in (0..self.height).step_by(factor) {
            for left in (0..width).step_by(factor) {
                for (channel, (scale, shift)) in self.scales.iter().enumerate() {
                    let mut sum = 0_u32;
                    for y in top..top + factor {
                        for x in left..left + factor {
                            sum += u32::from(tile[(y * width + x) * channels + channel]);
                        }
                    }
                    let value = sum as f32 / area * scale + shift;
                    row.extend_from_slice(&value.to_le_bytes());
                }
            }
        }
    }
}

fn sizes(shape: &[u64]) -> Result<[usize; 3], String> {
    let wrong = || format!("a tile has the shape (height, width, channels), not {shape:?}");
    let sizes: Vec<usize> = shape
        .iter()
        .map(|size| usize::try_from(*size))
        .collect::<Result<_, _>>()
        .map_err(|_| wrong())?;
    sizes.try_into().map_err(|_| wrong())
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
