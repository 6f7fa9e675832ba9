//! What people are told: progress, warnings and errors on stderr, sizes.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};
use log::{LevelFilter, Log, Metadata, Record};
use zrecord_host::Progress;

/// Prints an error on one line. Those of the library say their cause
/// themselves.
pub fn error(error: &anyhow::Error) {
    let text = match error.downcast_ref::<zrecord_host::Error>() {
        Some(error) => error.to_string(),
        None => format!("{error:#}"),
    };
    eprintln!("zrecord: {}", one_line(&text));
}

/// Prints a remark that changes nothing.
pub fn note(text: &str) {
    eprintln!("zrecord: note: {}", one_line(text));
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Sends warnings of the library to stderr.
pub fn log_to_stderr() {
    static LOGGER: StderrLogger = StderrLogger;
    // Fails when there is a logger, which then does the same.
    if log::set_logger(&LOGGER).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

struct StderrLogger;

impl Log for StderrLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let level = record.level().as_str().to_lowercase();
            eprintln!("zrecord: {level}: {}", one_line(&record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

/// What progress is counted in.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    Bytes,
    Records,
}

/// A bar on stderr, where that is a terminal.
pub struct Bar(Option<ProgressBar>);

impl Bar {
    pub fn new(what: &'static str, unit: Unit) -> Self {
        if !stderr().is_terminal() {
            return Self(None);
        }
        let counts = match unit {
            Unit::Bytes => "{bytes}/{total_bytes} {bytes_per_sec}",
            Unit::Records => "{human_pos}/{human_len} {per_sec}",
        };
        let template = format!("{{msg}} [{{bar:30}}] {counts} {{eta}}");
        let style = ProgressStyle::with_template(&template);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(Some(ProgressBar::new(0).with_style(style).with_message(what)))
    }

    pub fn show(&self, progress: Progress) {
        if let Some(bar) = &self.0 {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// A size for people, and exactly.
pub fn size(bytes: u64) -> String {
    let exact = indicatif::HumanCount(bytes);
    if bytes < 1024 {
        return format!("{exact} bytes");
    }
    format!("{} ({exact} bytes)", indicatif::BinaryBytes(bytes))
}

/// How many times larger plain bytes are than stored ones.
pub fn ratio(plain: u64, stored: u64) -> Option<f64> {
    (stored > 0).then(|| plain as f64 / stored as f64)
}
