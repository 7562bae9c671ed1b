//! The one binary.
//!
//! `serve` is the server, `check` reads a configuration and `config` writes one, `push`, `status`,
//! `top`, `trace`, `devices`, `device`, `product`, `clients`, `retained`, `presence`, `audit`,
//! `user`, `token`, `ban`, `chat`, `webhook`, `bridge` and `audit-log` speak to a running server's
//! API, `cluster` to NATS, `pub` and `sub` to any broker, `im` to a server of instant messaging,
//! `store` works on a data folder, `wrk` is the load tool; called as `wrk` or `coolpy7_benchmark`,
//! the binary is that program at once. The work of each lives in its crate; here words of the
//! command line are turned into calls.

#[macro_use]
mod out;

mod client;
mod config;
mod doctor;
mod duration;
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
use client::state::{drain, reload, status, top};
use client::{alarms, audit_log, ban, bridge, chat, clients, device, devices, product};
use client::{retained, schedule, segment, talkers, token, trace, user, webhook};
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
#[command(about = "A server for millions of persistent connections, and its load tool")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server
    Serve {
        /// Configuration file; default settings without it
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Use a mosquitto.conf instead; unsupported options are reported
        #[arg(long, value_name = "FILE", conflicts_with = "config")]
        mosquitto_conf: Option<PathBuf>,
        /// Refuse to start if an option of it is unsupported
        #[arg(long, requires = "mosquitto_conf")]
        strict: bool,
        /// Data folder; overrides server.data
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Take over from the server running on this data folder, without refusing a connection
        #[arg(long)]
        take_over: bool,
    },
    /// Check a configuration and print the resulting settings, or its errors
    Check {
        /// Configuration file; default settings without it
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print every key with its meaning, default and allowed values, and check nothing
        #[arg(long, conflicts_with_all = ["config", "quiet"])]
        defaults: bool,
        /// Print errors and warnings only
        #[arg(long)]
        quiet: bool,
    },
    /// Convert another server's configuration
    Config(config::Arguments),
    /// Push a message to devices
    Push(Box<push::Arguments>),
    /// List, show, save, pause, resume or remove schedules: messages that are sent again and again
    Schedule(schedule::Arguments),
    /// List, show, save or remove segments: named expressions over the tags of devices
    Segment(segment::Arguments),
    /// Show a running server's status; exit code 0: ready, 1: not ready, 2: no answer
    Status(status::Arguments),
    /// Read the configuration again; shows what changed and what needs a restart
    Reload(reload::Arguments),
    /// Refuse new clients and close connections; the server goes on running
    Drain(drain::Arguments),
    /// End a drain: accept clients again
    Undrain(drain::UndrainArguments),
    /// Watch a running server live in the terminal
    Top(top::Arguments),
    /// Trace the traffic of a client, a user, an address or a topic, live and decoded
    Trace(trace::Arguments),
    /// List or look up push devices
    Devices(devices::Arguments),
    /// Disconnect, block or unblock a push device; give it to a user
    Device(device::Arguments),
    /// List, show, create or remove products of push devices; create new secrets
    Product(product::Arguments),
    /// List, show or disconnect MQTT and other topic clients
    Clients(clients::Arguments),
    /// List, show or clear retained messages
    Retained(retained::Arguments),
    /// Show who is online: from the server's memory, from the presence directory, or both
    Presence(presence_command::Arguments),
    /// Compare the server's memory with the presence directory; exit code 0, 1 or 2
    Audit(presence_command::audit::Arguments),
    /// Manage users of a running server or of a password file
    User(user::Arguments),
    /// Create, list, show or revoke API tokens
    Token(token::Arguments),
    /// Show alarms: conditions that need an operator; acknowledge one
    Alarms(alarms::Arguments),
    /// Show who makes the load: clients, users, topics, groups or addresses with most traffic
    Talkers(talkers::Arguments),
    /// Ban addresses, networks, clients and users, for a time or permanently
    Ban(ban::Arguments),
    /// Administer chat: accounts, groups, chatrooms, messages
    Chat(chat::Arguments),
    /// Show the audit log: administrative API calls, who made them, and their results
    AuditLog(audit_log::Arguments),
    /// List webhooks; show and redeliver events that they did not accept
    Webhook(webhook::Arguments),
    /// List bridges to other MQTT brokers, and whether they are connected
    Bridge(bridge::Arguments),
    /// Publish to an MQTT broker (options of mosquitto_pub)
    Pub(Box<mqtt::publish::Arguments>),
    /// Subscribe to topics of an MQTT broker (options of mosquitto_sub)
    Sub(Box<mqtt::subscribe::Arguments>),
    /// Instant messaging client: log in, send, chat, read, listen
    Im(Box<im::Arguments>),
    /// Check, inspect, export, import, compact or back up a data folder
    Store(store::Arguments),
    /// Create, join and list a cluster; move the lead; remove nodes
    Cluster(serve::cluster::Arguments),
    /// Check whether this machine can hold a number of connections, and what to change
    Doctor(doctor::Arguments),
    /// Monitor the kernel and the process of any server, and name the limit it reaches
    Observe(observe::Arguments),
    /// Load-test a server and find its limits: stages, plans, agents, reports
    Load(load::Arguments),
    /// Generate shell completions and man pages
    Generate(generate::Arguments),
    /// Load-test a server with the command line of wrk
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
        Command::Check { defaults: true, .. } => serve::print_defaults(),
        Command::Check { config, quiet, .. } => serve::check(config, quiet),
        Command::Config(arguments) => config::config(arguments),
        Command::Clients(arguments) => clients::clients(arguments),
        Command::Retained(arguments) => retained::retained(arguments),
        Command::Presence(arguments) => presence_command::presence(arguments),
        Command::Audit(arguments) => presence_command::audit::audit(arguments),
        Command::User(arguments) => user::user(arguments),
        Command::Token(arguments) => token::token(arguments),
        Command::Alarms(arguments) => alarms::alarms(&arguments),
        Command::Talkers(arguments) => talkers::talkers(&arguments),
        Command::Ban(arguments) => ban::ban(arguments),
        Command::Chat(arguments) => chat::chat(arguments),
        Command::AuditLog(arguments) => audit_log::audit_log(arguments),
        Command::Webhook(arguments) => webhook::webhook(arguments),
        Command::Bridge(arguments) => bridge::bridge(arguments),
        Command::Device(arguments) => device::device(arguments),
        Command::Product(arguments) => product::product(arguments),
        Command::Status(arguments) => status::status(&arguments),
        Command::Reload(arguments) => reload::reload(&arguments),
        Command::Drain(arguments) => drain::drain(&arguments),
        Command::Undrain(arguments) => drain::undrain(&arguments),
        Command::Top(arguments) => top::top(&arguments),
        Command::Trace(arguments) => trace::trace(&arguments),
        Command::Push(arguments) => push::push(*arguments),
        Command::Schedule(arguments) => schedule::schedule(arguments),
        Command::Segment(arguments) => segment::segment(arguments),
        Command::Devices(arguments) => devices::devices(arguments),
        Command::Pub(arguments) => mqtt::publish::publish(*arguments),
        Command::Sub(arguments) => mqtt::subscribe::subscribe(*arguments),
        Command::Im(arguments) => im::im(*arguments),
        Command::Cluster(arguments) => serve::cluster::cluster(arguments),
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
