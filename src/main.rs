//! The command line: what was typed, done by the library, and its error as an exit code.
//!
//! Exit codes: 0 done, 1 the proof or an input is invalid, 2 usage (a file that does not exist among them),
//! 3 the machine failed.

mod cli;
mod commands;
mod terminal;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use cli::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_max_level(arguments.log)
        .with_writer(std::io::stderr)
        .without_time()
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let terminal = Arc::new(terminal::Terminal::new(arguments.quiet));
    let done = match &arguments.command {
        Command::Prove(options) => commands::prove::run(options, &terminal),
        Command::Batch(options) => commands::batch::run(options, &terminal),
        Command::Bench(options) => commands::bench::run(options, &terminal),
        Command::Compare(options) => commands::compare::run(options, &terminal),
        Command::Plan(options) => commands::plan::run(options, &terminal),
        Command::Verify(options) => commands::verify::run(options, &terminal),
        Command::Setup(options) => commands::setup::run(options, &terminal),
        Command::Convert(options) => commands::convert::run(options, &terminal),
        Command::ExportVk(options) => commands::export_vk::run(options, &terminal),
        Command::Inspect(options) => commands::inspect::run(options, &terminal),
        Command::Devices => commands::devices::run(),
        Command::Doctor => commands::doctor::run(),
        #[cfg(feature = "cuda")]
        Command::Kernels { command } => commands::kernels::run(command, &terminal),
        Command::Simulate(options) => commands::simulate::run(options, &terminal),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
