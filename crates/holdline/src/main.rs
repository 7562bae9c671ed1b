//! The one binary.
//!
//! `serve` is the server, `check` reads a configuration, `push` and `devices` speak to a running
//! server's API, `store` works on a data folder, `wrk` is the load tool; called as `wrk`, the
//! binary is that at once. What each does lives in its room; here words of the command line are
//! turned into calls.

mod client;
mod devices;
mod push;
mod serve;
mod store;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "holdline", version, about = "Holds connections: a push server and its load tool")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server
    Serve {
        /// Configuration file; without one, the defaults hold
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Data folder, instead of server.data
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Read a configuration and print what it comes to, or what is wrong with it
    Check {
        /// Configuration file; without one, the defaults
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Push a message to devices of a running server
    Push(push::Arguments),
    /// List or look up devices of a running server
    Devices(devices::Arguments),
    /// Check, count, export, import, compact or copy a data folder
    Store(store::Arguments),
    /// Load a server, with the command line of wrk
    #[command(disable_help_flag = true)]
    Wrk {
        /// As for wrk: URL -t THREADS -c CONNECTIONS -d DURATION --latency --timeout SECONDS
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let mut words = std::env::args();
    let name = words.next().unwrap_or_default();
    if name.rsplit('/').next() == Some("wrk") {
        return code(load::wrk::run(words.collect()));
    }
    match Arguments::parse().command {
        Command::Serve { config, data } => serve::serve(config, data),
        Command::Check { config } => serve::check(config),
        Command::Push(arguments) => push::push(arguments),
        Command::Devices(arguments) => devices::devices(arguments),
        Command::Store(arguments) => store::store(arguments),
        Command::Wrk { arguments } => code(load::wrk::run(arguments)),
    }
}

fn code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
