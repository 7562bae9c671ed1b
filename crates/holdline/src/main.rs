//! The one binary.
//!
//! `serve` is the server, `check` reads a configuration and `config` writes one, `push`, `devices`,
//! `clients`, `retained`, `presence`, `audit` and `user` speak to a running server's API, `pub` and
//! `sub` to any broker, `store` works on a data folder, `wrk` is the load tool; called as `wrk`,
//! the binary is that at once. What each does lives in its room; here words of the command line
//! are turned into calls.

mod client;
mod clients;
mod config;
mod devices;
mod doctor;
mod load;
mod mqtt;
mod observe;
mod presence;
mod push;
mod retained;
mod serve;
mod store;
mod user;
mod watch;

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
        /// Configuration of mosquitto instead: what it cannot have here is told
        #[arg(long, value_name = "FILE", conflicts_with = "config")]
        mosquitto_conf: Option<PathBuf>,
        /// Do not start when something in it would be lost
        #[arg(long, requires = "mosquitto_conf")]
        strict: bool,
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
    /// Write a configuration of this server from another one's
    Config(config::Arguments),
    /// Push a message to devices of a running server
    Push(push::Arguments),
    /// List or look up devices of a running server
    Devices(devices::Arguments),
    /// List, show or kick clients of topics of a running server
    Clients(clients::Arguments),
    /// List, show or clear retained messages of a running server
    Retained(retained::Arguments),
    /// Who is online: by a running server's memory, by the directory, or both side by side
    Presence(presence::Arguments),
    /// Compare a running server's memory with the directory of presence; exit 0, 1 or 2
    Audit(presence::audit::Arguments),
    /// List, show, make or remove users, of a running server or in a password file
    User(user::Arguments),
    /// Publish to an MQTT broker, with the flags of mosquitto_pub
    Pub(Box<mqtt::publish::Arguments>),
    /// Subscribe at an MQTT broker, with the flags of mosquitto_sub
    Sub(Box<mqtt::subscribe::Arguments>),
    /// Check, count, export, import, compact or copy a data folder
    Store(store::Arguments),
    /// Say whether this machine is fit for so many connections, and what to change
    Doctor(doctor::Arguments),
    /// Watch the kernel and a process beside any server, and name the limit that was met
    Observe(observe::Arguments),
    /// Find a server's limits: stages, plans, agents, reports
    Load(load::Arguments),
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
        return code(::wrk::run(words.collect()));
    }
    match Arguments::parse().command {
        Command::Serve { config, mosquitto_conf, strict, data } => {
            let source = match mosquitto_conf {
                Some(file) => serve::Source::Mosquitto { file, strict },
                None => serve::Source::Own(config),
            };
            serve::serve(source, data)
        }
        Command::Check { config } => serve::check(config),
        Command::Config(arguments) => config::config(arguments),
        Command::Clients(arguments) => clients::clients(arguments),
        Command::Retained(arguments) => retained::retained(arguments),
        Command::Presence(arguments) => presence::presence(arguments),
        Command::Audit(arguments) => presence::audit::audit(arguments),
        Command::User(arguments) => user::user(arguments),
        Command::Push(arguments) => push::push(arguments),
        Command::Devices(arguments) => devices::devices(arguments),
        Command::Pub(arguments) => mqtt::publish::publish(*arguments),
        Command::Sub(arguments) => mqtt::subscribe::subscribe(*arguments),
        Command::Doctor(arguments) => doctor::doctor(arguments),
        Command::Observe(arguments) => observe::observe(arguments),
        Command::Store(arguments) => store::store(arguments),
        Command::Load(arguments) => load::load(arguments),
        Command::Wrk { arguments } => code(::wrk::run(arguments)),
    }
}

fn code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

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
