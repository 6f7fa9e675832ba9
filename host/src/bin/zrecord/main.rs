//! The `zrecord` command.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

mod arguments;
mod convert;
mod demo;
mod inspect;
mod repair;
mod report;
mod sandbox;
mod step;
mod verify;
mod view;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    report::log_to_stderr();
    let arguments = Arguments::parse();
    let mut out = io::stdout().lock();
    let result = run(arguments.command, &mut out).and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    match result {
        Ok(code) => code,
        // Whoever was reading has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report::error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, out: &mut dyn Write) -> Result<ExitCode> {
    match command {
        Command::Demo { folder } => demo::run(folder.as_deref(), out)?,
        Command::Inspect { path, json, sandbox } => inspect::run(&path, json, sandbox, out)?,
        Command::Verify { path, json, sandbox } => return verify::run(&path, json, sandbox, out),
        Command::Repair { source, to, json } => return repair::run(&source, &to, json, out),
        Command::Compact { path } => verify::compact(&path, out)?,
        Command::Convert { source, destination, format, sandbox } => {
            convert::run(&source, &destination, format.into(), sandbox, out)?;
        }
        Command::Run(arguments) => step::run(&arguments, out)?,
        Command::View { path, port, no_browser, record } => {
            view::run(&path, port, record, !no_browser, out)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
