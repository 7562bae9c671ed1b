//! What a run is asked for on the command line, and how it is shown.
//!
//! Words here, meaning in `load::scenario::asked`.

use ::load::scenario;
use clap::Args;
use lab::plan::{Span, Target};
use std::net::SocketAddr;
use std::path::PathBuf;

/// What a plan is run with.
#[derive(Args)]
pub struct Asked {
    /// Whom to call, e.g. mqtt://10.0.0.1:1883 or miop://host:product@10.0.0.1:7000/; several are
    /// taken in turn
    #[arg(value_name = "URL")]
    url: Vec<String>,
    /// Clients of the largest stage (link-limit: of the last step)
    #[arg(long, value_name = "N")]
    clients: Option<u32>,
    /// link-limit: clients a step
    #[arg(long, value_name = "N")]
    step: Option<u32>,
    /// Multiplies all counts and rates, e.g. 0.01 for a small machine
    #[arg(long, value_name = "FACTOR", conflicts_with = "clients")]
    scale: Option<f64>,
    /// How long stages are held, e.g. 30s or 2h
    #[arg(long, value_name = "TIME")]
    hold: Option<Span>,
    /// Clients that come a second, in place of how the plan has them come
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Changes a key of the plan: stage.NAME.hold=10s, group.*.keep_alive=30s; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Seeds all that is random, so that a run can be repeated
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The server's process on this machine, to be observed and disturbed
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// The same, by a port it listens on (for a URL on loopback: that of the URL)
    #[arg(long, value_name = "PORT", conflicts_with = "pid")]
    port: Option<u16>,
    /// The command that starts the server again, for stages that kill it
    #[arg(long, value_name = "COMMAND")]
    start: Option<String>,
    /// The server's own metrics, a page in Prometheus' text format
    #[arg(long, value_name = "URL")]
    metrics: Option<String>,
    /// Holdline's HTTP API, for plans that push by it
    #[arg(long, value_name = "URL")]
    api: Option<String>,
    /// The token for both
    #[arg(long, env = "HOLDLINE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
    /// The server's Redis, to be disturbed
    #[arg(long, value_name = "HOST:PORT")]
    redis: Option<String>,
    /// Its process on this machine
    #[arg(long, value_name = "PID")]
    redis_pid: Option<u32>,
    /// The command that starts it again
    #[arg(long, value_name = "COMMAND")]
    redis_start: Option<String>,
}

/// How a run is shown and where it is kept.
#[derive(Args, Default)]
pub struct Show {
    /// Folder for the run's folder
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub out: PathBuf,
    /// Prints the run as JSON in place of the summary
    #[arg(long)]
    pub json: bool,
    /// Prints nothing on the way, and a line at the end
    #[arg(long)]
    pub quiet: bool,
    /// Prints lines on the way, even on a terminal
    #[arg(long, conflicts_with = "quiet")]
    pub plain: bool,
    /// Serves the run's figures and its control over HTTP at this address while it goes on
    #[arg(long, value_name = "ADDR")]
    pub export: Option<SocketAddr>,
    /// Agents that make the load in place of this machine, HOST:PORT, separated by commas
    #[arg(long, value_name = "AGENTS", value_delimiter = ',')]
    pub agents: Vec<String>,
    /// The agents' token
    #[arg(long, env = "HOLDLINE_AGENTS_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub agents_token: Option<String>,
    /// Goes on when an agent is lost
    #[arg(long)]
    pub go_on_without_agents: bool,
    /// Prints what the server used at several sizes, too.
    #[arg(skip)]
    pub sizes: bool,
}

impl Asked {
    /// The same, for the laboratory.
    pub fn asked(&self) -> scenario::Asked {
        scenario::Asked {
            target: Target {
                url: self.url.clone(),
                pid: self.pid,
                port: self.port,
                metrics: self.metrics.clone(),
                api: self.api.clone(),
                token: self.token.clone(),
                start: words(&self.start),
                redis: self.redis.clone(),
                redis_pid: self.redis_pid,
                redis_start: words(&self.redis_start),
            },
            clients: self.clients,
            step: self.step,
            scale: self.scale,
            hold: self.hold,
            rate: self.rate,
            seed: self.seed,
            sets: self.sets.clone(),
        }
    }
}

/// A command's words. Nothing is quoted: a command that needs that is a script.
fn words(command: &Option<String>) -> Vec<String> {
    command.iter().flat_map(|command| command.split_whitespace()).map(str::to_owned).collect()
}
