//! The steps of a job: named, timed, stopped at the first failure.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// What a job has done so far.
pub struct Steps {
    started: Instant,
    done: Vec<(String, Duration)>,
}

impl Steps {
    pub fn new() -> Self {
        Self { started: Instant::now(), done: Vec::new() }
    }

    /// Do one step: its name is printed before, its duration after.
    ///
    /// # Errors
    ///
    /// Those of `work`, under the name of the step.
    pub fn run<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("==> {name}");
        flush();
        let started = Instant::now();
        let value = work().with_context(|| name.to_owned())?;
        let duration = started.elapsed();
        println!("==> {name}: ok, {}", seconds(duration));
        flush();
        self.done.push((name.to_owned(), duration));
        Ok(value)
    }

    /// The closing lines of a job.
    pub fn summarise(&self, error: Option<&anyhow::Error>) {
        println!();
        for (name, duration) in &self.done {
            println!("{:>9}  {name}", seconds(*duration));
        }
        println!("{:>9}  in all", seconds(self.started.elapsed()));
        flush();
        if let Some(error) = error {
            eprintln!("\nfailed: {error:#}");
        }
    }
}

/// A duration in seconds, the unit of every table of this program.
fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Our lines must not come after those of the programs that they announce.
fn flush() {
    // A closed output is noticed by the next print.
    let _ = std::io::stdout().flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_named_and_not_counted_as_done() {
        let mut steps = Steps::new();
        steps.run("first", || Ok(())).unwrap();
        let error = steps.run("second", || -> Result<()> { anyhow::bail!("no luck") }).unwrap_err();
        assert_eq!(format!("{error:#}"), "second: no luck");
        assert_eq!(steps.done.len(), 1);
    }
}
