//! What the command line may say.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand, ValueEnum};
use zrecord_host::{Codec, Format, Preset};

/// Records of a training set, in one directory: look inside, check, compact
/// and convert.
#[derive(Debug, Parser)]
#[command(name = "zrecord", version, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Pack a folder's files, or made-up data, and read random batches back.
    Demo {
        /// A folder whose files become records; nothing is written to it.
        folder: Option<PathBuf>,
    },
    /// Say what a store is and holds, without reading its chunks.
    ///
    /// The keys of the JSON form are stable: format, version, id, schema
    /// {kind, dtype, item_shape, codec} or null, records, plain_bytes,
    /// stored_bytes, ratio or null, codecs {raw, zstd, zstd_dict},
    /// dictionaries, chunks, chunk_bytes, reclaimable_bytes, clean,
    /// generation, stride, record_len {min, median, max} or null, leftovers.
    /// Sizes are in bytes.
    Inspect {
        /// The directory of the store.
        path: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// Parse and decode inside the WebAssembly sandbox: for a store that
        /// need not be trusted.
        #[arg(long)]
        sandbox: bool,
    },
    /// Read everything and list what is wrong, a fault a line; exit with 1 if
    /// there is anything.
    ///
    /// A store that is too damaged to be opened is read as far as it goes. The
    /// keys of the JSON form are stable: faults [{file, offset or null, index
    /// or null, reason}], intact, format or null, records, unrecovered,
    /// leftovers.
    Verify {
        /// The directory of the store.
        path: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// Parse and decode inside the WebAssembly sandbox: for a store that
        /// need not be trusted.
        #[arg(long)]
        sandbox: bool,
    },
    /// Save every intact record of a damaged store into a new one, and list
    /// what was lost; exit with 1 if anything was.
    ///
    /// The new store has the format of the old one, which is only read. Where
    /// records are lost, those behind them get lower indices. The keys of the
    /// JSON form are stable: format, counted, saved, lost [{first, last, file,
    /// reason}], schema ("none", "kept" or "lost"), dictionaries {kept, lost},
    /// faults as in verify, of all that is no record.
    Repair {
        /// The directory of the damaged store.
        source: PathBuf,
        /// The directory to make.
        #[arg(long)]
        to: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Give the bytes of deleted records back to the file system.
    Compact {
        /// The directory of the store.
        path: PathBuf,
    },
    /// Rewrite a store in the other format; stored frames stay as they are.
    Convert {
        /// The directory of the store.
        source: PathBuf,
        /// The directory to make.
        destination: PathBuf,
        /// The format of the new store.
        #[arg(long, value_enum)]
        format: FormatName,
        /// Parse and decode inside the WebAssembly sandbox: for a store that
        /// need not be trusted.
        #[arg(long)]
        sandbox: bool,
    },
    /// Make the records of a new store out of those of another by a step of
    /// preprocessing, in a WebAssembly sandbox.
    ///
    /// The step is what `cargo build --target wasm32-unknown-unknown` leaves,
    /// or a component. It can touch nothing but the records it is given. The
    /// output is the same to the byte whatever the number of instances; after
    /// an error there is none.
    Run(RunArguments),
    /// Show a store in the browser: its records, how they are packed, and
    /// whether they are intact.
    ///
    /// Serves a page and the files of this one store on 127.0.0.1 until Ctrl-C,
    /// to whoever has the token of the address that is printed. The page does
    /// the rest; nothing is written and nothing leaves the machine.
    View {
        /// The directory of the store.
        path: PathBuf,
        /// The port to listen on (default: one that is free).
        #[arg(long, default_value_t = 0, hide_default_value = true)]
        port: u16,
        /// Print the address, and open no browser.
        #[arg(long)]
        no_browser: bool,
        /// The record to show first.
        #[arg(long, value_name = "INDEX", default_value_t = 0, hide_default_value = true)]
        record: u64,
    },
}

/// Those of `run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The file of the step.
    pub step: PathBuf,
    /// The store that is read.
    #[arg(long)]
    pub from: PathBuf,
    /// The store to make.
    #[arg(long)]
    pub to: PathBuf,
    /// What the step is configured by, JSON by custom; `@FILE` reads it from a
    /// file.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub config: String,
    /// How many instances work at once (default: one for each processor).
    #[arg(long)]
    pub instances: Option<NonZeroUsize>,
    #[command(flatten)]
    pub limits: LimitArguments,
    /// The codec of the new store (default: that of the other).
    #[arg(long, value_enum)]
    pub codec: Option<CodecName>,
    /// The zstd level of the new store.
    #[arg(long)]
    pub level: Option<i32>,
    /// What the frames of the new store are made for, beside their size.
    #[arg(long, value_enum)]
    pub preset: Option<PresetName>,
    /// The share of its bytes, from 0 to below 1, that a record must save to
    /// be stored compressed.
    #[arg(long)]
    pub min_saving: Option<f64>,
    /// The format of the new store (default: extended).
    #[arg(long, value_enum)]
    pub format: Option<FormatName>,
}

/// What an instance may use.
#[derive(Clone, Copy, Debug, Args)]
pub struct LimitArguments {
    /// The memory of one instance.
    #[arg(long, default_value = "1GiB")]
    pub memory: ByteSize,
    /// The time of one call, by the clock.
    #[arg(long, default_value = "60s")]
    pub time: humantime::Duration,
}

/// What new records are compressed by.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CodecName {
    /// Not at all.
    Raw,
    /// Each on its own.
    Zstd,
}

/// What zstd frames are made for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PresetName {
    /// Fast decoding, for a few per cent more bytes.
    Decode,
}

impl From<PresetName> for Preset {
    fn from(name: PresetName) -> Self {
        match name {
            PresetName::Decode => Self::Decode,
        }
    }
}

impl From<CodecName> for Codec {
    fn from(name: CodecName) -> Self {
        match name {
            CodecName::Raw => Self::Raw,
            CodecName::Zstd => Self::Zstd,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum FormatName {
    /// What loaderx 0.9 reads and writes.
    Classic,
    /// With checksums; the default of new stores.
    Extended,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Classic => Self::Classic,
            FormatName::Extended => Self::Extended,
        }
    }
}
