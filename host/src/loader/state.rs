//! Where a loader stopped, and whether another may go on from there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use zrecord_core::sampler::Mode as SamplerMode;

/// The version of [`LoaderState`] that this crate writes and reads.
pub const STATE_VERSION: u32 = 1;

/// Where a loader stands: everything that decides which records come next.
///
/// It is the same on all ranks and says nothing of rank, world size or
/// workers, so a run may resume on any number of ranks that divides the same
/// global batch. It counts delivered batches, not prefetched ones. As JSON:
///
/// ```json
/// {"version": 1, "seed": 42, "step": 1000, "global_batch": 256, "length": 50000,
///  "mode": "cyclic", "streams": {"image": {"id": "0f1e…", "generation": 0}}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderState {
    /// [`STATE_VERSION`].
    pub version: u32,
    /// The sampler's seed.
    pub seed: u64,
    /// How many batches were delivered, which is the step that comes next.
    pub step: u64,
    /// Batch size times world size: the records of one step on all ranks.
    pub global_batch: u64,
    /// The records that are drawn from.
    pub length: u64,
    /// How records are drawn.
    #[serde(with = "mode")]
    pub mode: SamplerMode,
    /// The data, by the streams' names.
    pub streams: BTreeMap<String, StreamState>,
}

/// What a stream is known by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum StreamState {
    /// An extended store, which has an id of its own.
    Extended {
        /// The id in hexadecimal.
        id: String,
        /// How often its records were renumbered.
        generation: u64,
    },
    /// A classic store, which has none: what can be compared.
    Classic {
        /// `dense` or `ragged`.
        kind: String,
        /// NumPy's `dtype.str`.
        dtype: String,
        /// The shape of an item.
        item_shape: Vec<u64>,
        /// The records that are drawn from.
        length: u64,
    },
    /// Anything else with a length.
    Other {
        /// What it is, such as `python`.
        kind: String,
        /// The records that are drawn from.
        length: u64,
    },
}

impl StreamState {
    /// The state of the extended store with this id.
    pub fn extended(id: [u8; 16], generation: u64) -> Self {
        let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::Extended { id, generation }
    }

    /// The same data, of which `drawn` records are drawn from.
    pub(super) fn with_length(mut self, drawn: u64) -> Self {
        match &mut self {
            Self::Extended { .. } => {}
            Self::Classic { length, .. } | Self::Other { length, .. } => *length = drawn,
        }
        self
    }
}

impl fmt::Display for StreamState {
    /// What identifies it: without the length, which is compared on its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Extended { id, generation } => write!(f, "store {id}, generation {generation}"),
            Self::Classic { kind, dtype, item_shape, .. } => {
                write!(f, "a classic store of {kind} {dtype} {item_shape:?}")
            }
            Self::Other { kind, .. } => write!(f, "a stream of kind {kind:?}"),
        }
    }
}

/// Why a loader cannot go on from a saved state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The state was saved by a newer release, or is none.
    #[error("the state has version {got}; this release reads version {STATE_VERSION}")]
    Version {
        /// The version it has.
        got: u32,
    },
    /// Going on would silently change which records come next.
    #[error(
        "the state was saved by another loader: {}; load it with strict off to go on anyway",
        list(differences)
    )]
    Differs {
        /// All there are.
        differences: Vec<Difference>,
    },
}

/// One way in which a loader differs from the one that saved a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What differs: a field of the state, or `stream "name"`.
    pub what: String,
    /// What was saved.
    pub saved: String,
    /// What this loader has.
    pub current: String,
}

impl Difference {
    fn new(what: impl Into<String>, saved: impl ToString, current: impl ToString) -> Self {
        Self { what: what.into(), saved: saved.to_string(), current: current.to_string() }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was {}, is {}", self.what, self.saved, self.current)
    }
}

fn list(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// How to go on from a saved state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumption {
    /// The step that comes next.
    pub step: u64,
    /// The records to draw from.
    pub length: u64,
    /// What the user should know.
    pub warnings: Vec<String>,
}

impl LoaderState {
    /// How a loader whose own state is `current`, and whose streams have
    /// `available` records now, goes on from `self`.
    ///
    /// Streams that have grown are drawn from up to the saved length, with a
    /// warning. With `strict` off, every other difference is a warning as well:
    /// then the loader keeps its own seed, mode and batch, takes the saved step
    /// as it is, and the saved length if there is that much.
    ///
    /// # Errors
    ///
    /// [`StateError::Version`] and, with `strict`, [`StateError::Differs`].
    pub fn check(
        &self,
        current: &Self,
        available: u64,
        strict: bool,
    ) -> Result<Resumption, StateError> {
        if self.version != STATE_VERSION {
            return Err(StateError::Version { got: self.version });
        }
        let differences = self.differences(current, available);
        if strict && !differences.is_empty() {
            return Err(StateError::Differs { differences });
        }
        let mut warnings: Vec<_> = differences.iter().map(ToString::to_string).collect();
        if available > self.length {
            warnings.push(format!(
                "the streams have grown from {} to {available} records; the ones added are not \
                 drawn from by a resumed loader",
                self.length
            ));
        }
        let length = if self.length <= available { self.length } else { current.length };
        Ok(Resumption { step: self.step, length, warnings })
    }

    fn differences(&self, current: &Self, available: u64) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut compare = |what, saved: u64, own: u64| {
            if saved != own {
                differences.push(Difference::new(what, saved, own));
            }
        };
        compare("seed", self.seed, current.seed);
        compare("global_batch", self.global_batch, current.global_batch);
        compare("length", self.length, self.length.min(available));
        if self.mode != current.mode {
            differences.push(Difference::new("mode", self.mode, current.mode));
        }
        let names: BTreeSet<_> = self.streams.keys().chain(current.streams.keys()).collect();
        for name in names {
            let (saved, own) = (self.streams.get(name), current.streams.get(name));
            let same = |stream: &StreamState| stream.clone().with_length(0);
            if saved.map(same) != own.map(same) {
                let text = |stream: Option<&StreamState>| {
                    stream.map_or_else(|| "absent".into(), ToString::to_string)
                };
                let what = format!("stream {name:?}");
                differences.push(Difference::new(what, text(saved), text(own)));
            }
        }
        differences
    }
}

/// A sampler mode by its name.
mod mode {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    use super::SamplerMode;

    pub(super) fn serialize<S: Serializer>(mode: &SamplerMode, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(mode.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SamplerMode, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
