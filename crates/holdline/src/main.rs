//! The one binary.
//!
//! `serve` is the server, `check` reads a configuration and `config` writes one, `push`, `status`,
//! `top`, `trace`, `devices`, `clients`, `retained`, `presence`, `audit`, `user`, `token` and
//! `audit-log` speak to a running server's API, `pub` and `sub` to any broker, `im` to a server of
//! instant messaging, `store` works on a data folder, `wrk` is the load tool; called as `wrk` or
//! `coolpy7_benchmark`, the binary is that program at once. What each does lives in its crate; here
//! words of the command line are turned into calls.

#[macro_use]
mod out;

mod client;
mod config;
mod doctor;
mod generate;
mod im;
mod load;
mod mqtt;
mod observe;
mod presence_command;
mod push;
mod serve;
mod store;

use clap::{CommandFactory, Parser, Subcommand};
use client::{audit_log, chat, clients, devices, retained, status, token, top, trace, user};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The version, and of which commit, where whoever built it told that (`make` does).
const VERSION: &str = match option_env!("HOLDLINE_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

#[derive(Parser)]
#[command(name = "holdline", version = VERSION)]
#[command(about = "Holds connections: a push server and its load tool")]
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
        /// Configuration of mosquitto instead: what it cannot have here is told
        #[arg(long, value_name = "FILE", conflicts_with = "config")]
        mosquitto_conf: Option<PathBuf>,
        /// Do not start when something in it would be lost
        #[arg(long, requires = "mosquitto_conf")]
        strict: bool,
        /// Data folder, instead of server.data
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Take the place of the server that runs on this data folder: nobody who calls is refused
        #[arg(long)]
        take_over: bool,
    },
    /// Read a configuration and print what it comes to, or what is wrong with it
    Check {
        /// Configuration file; without one, the defaults
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print only what is wrong
        #[arg(long)]
        quiet: bool,
    },
    /// Write a configuration of this server from another one's
    Config(config::Arguments),
    /// Push a message to devices of a running server
    Push(push::Arguments),
    /// Say how a running server is; exit 0 when it takes everything, 1 when not, 2 without answer
    Status(status::Arguments),
    /// Watch a running server live on the terminal
    Top(top::Arguments),
    /// Follow a client, a user, an address or a topic of a running server, live and decoded
    Trace(trace::Arguments),
    /// List or look up devices of a running server
    Devices(devices::Arguments),
    /// List, show or kick clients of topics of a running server
    Clients(clients::Arguments),
    /// List, show or clear retained messages of a running server
    Retained(retained::Arguments),
    /// Who is online: by a running server's memory, by the directory, or both side by side
    Presence(presence_command::Arguments),
    /// Compare a running server's memory with the directory of presence; exit 0, 1 or 2
    Audit(presence_command::audit::Arguments),
    /// List, show, make or remove users, of a running server or in a password file
    User(user::Arguments),
    /// Make, list, show or revoke tokens of a running server's API
    Token(token::Arguments),
    /// Accounts and groups of chat of a running server: mute, say, read, change, call back
    Chat(chat::Arguments),
    /// Who called what of a running server's API, and what came of it
    AuditLog(audit_log::Arguments),
    /// Publish to an MQTT broker, with the flags of mosquitto_pub
    Pub(Box<mqtt::publish::Arguments>),
    /// Subscribe at an MQTT broker, with the flags of mosquitto_sub
    Sub(Box<mqtt::subscribe::Arguments>),
    /// Talk by instant messaging: log in, send, chat, read, listen
    Im(Box<im::Arguments>),
    /// Check, count, export, import, compact or copy a data folder
    Store(store::Arguments),
    /// Say whether this machine is fit for so many connections, and what to change
    Doctor(doctor::Arguments),
    /// Watch the kernel and a process beside any server, and name the limit that was met
    Observe(observe::Arguments),
    /// Find a server's limits: stages, plans, agents, reports
    Load(load::Arguments),
    /// Make completions for a shell, and man pages
    Generate(generate::Arguments),
    /// Load a server, with the command line of wrk
    #[command(disable_help_flag = true)]
    Wrk {
        /// As for wrk: URL -t THREADS -c CONNECTIONS -d DURATION --latency --timeout SECONDS
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    server::start::pages::let_be_huge(false);
    outlive_file_limit();
    out::settle(run())
}

/// A file that may grow no more (`ulimit -f`) is an error of the write, `EFBIG`, as on a full disk:
/// the signal that comes with it must not end the process.
fn outlive_file_limit() {
    // Without it writes have the kernel's default answer; that is no reason not to start.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

fn run() -> ExitCode {
    let mut words = std::env::args();
    let name = words.next().unwrap_or_default();
    match name.rsplit('/').next() {
        Some("wrk") => return code(::wrk::run(words.collect(), &LANES)),
        Some("coolpy7_benchmark") => {
            let words: Vec<String> = words.collect();
            return load::finish(load::coolpy7(&words));
        }
        _ => {}
    }
    match Arguments::parse().command {
        Command::Serve { config, mosquitto_conf, strict, data, take_over } => {
            let source = match mosquitto_conf {
                Some(file) => serve::Source::Mosquitto { file, strict },
                None => serve::Source::Own(config),
            };
            serve::serve(source, data, take_over)
        }
        Command::Check { config, quiet } => serve::check(config, quiet),
        Command::Config(arguments) => config::config(arguments),
        Command::Clients(arguments) => clients::clients(arguments),
        Command::Retained(arguments) => retained::retained(arguments),
        Command::Presence(arguments) => presence_command::presence(arguments),
        Command::Audit(arguments) => presence_command::audit::audit(arguments),
        Command::User(arguments) => user::user(arguments),
        Command::Token(arguments) => token::token(arguments),
        Command::Chat(arguments) => chat::chat(arguments),
        Command::AuditLog(arguments) => audit_log::audit_log(arguments),
        Command::Status(arguments) => status::status(&arguments),
        Command::Top(arguments) => top::top(&arguments),
        Command::Trace(arguments) => trace::trace(&arguments),
        Command::Push(arguments) => push::push(arguments),
        Command::Devices(arguments) => devices::devices(arguments),
        Command::Pub(arguments) => mqtt::publish::publish(*arguments),
        Command::Sub(arguments) => mqtt::subscribe::subscribe(*arguments),
        Command::Im(arguments) => im::im(*arguments),
        Command::Doctor(arguments) => doctor::doctor(arguments),
        Command::Observe(arguments) => observe::observe(arguments),
        Command::Store(arguments) => store::store(arguments),
        Command::Load(arguments) => load::load(arguments),
        Command::Generate(arguments) => generate::generate(&arguments, Arguments::command()),
        Command::Wrk { arguments } => code(::wrk::run(arguments, &LANES)),
    }
}

/// Where wrk prints.
const LANES: ::wrk::Lanes = ::wrk::Lanes { out: out::print, err: out::note };

fn code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn presence_takes_devices_or_a_word_of_its_own() {
        let parsed = |words: &str| {
            let words = words.split(' ');
            Arguments::try_parse_from(words).map(|arguments| match arguments.command {
                Command::Presence(arguments) => {
                    let (devices, other) = arguments.asked();
                    (devices.to_vec(), other)
                }
                _ => panic!("presence was asked for"),
            })
        };
        let devices = |words: &str| parsed(words).expect("sound").0;
        assert_eq!(devices("holdline presence --product shop a b"), ["a", "b"]);
        assert_eq!(devices("holdline presence shop#a --both --url u"), ["shop#a"]);
        assert!(parsed("holdline presence --url u status").expect("sound").1);
        assert!(parsed("holdline presence status --api u --json").expect("sound").1);
        assert!(parsed("holdline presence a --stored --both").is_err());
    }
}
