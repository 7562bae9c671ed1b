//! Options of a run on the command line, and how it is shown.
//!
//! Words here, meaning in `load::scenario::asked`.

use ::load::scenario;
use clap::Args;
use lab::plan::{Span, Target};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Options of a run of a plan.
#[derive(Args)]
pub struct Asked {
    /// Target, e.g. mqtt://10.0.0.1:1883 or miop://host:product@10.0.0.1:7000/; several are used in
    /// turn
    #[arg(value_name = "URL")]
    url: Vec<String>,
    /// Number of clients of the largest stage (link-limit: of the last step)
    #[arg(long, value_name = "N")]
    clients: Option<u32>,
    /// link-limit: clients per step
    #[arg(long, value_name = "N")]
    step: Option<u32>,
    /// Multiply all counts and rates, e.g. 0.01 for a small machine
    #[arg(long, value_name = "FACTOR", conflicts_with = "clients")]
    scale: Option<f64>,
    /// Duration of each stage, e.g. 30s or 2h
    #[arg(long, value_name = "TIME")]
    hold: Option<Span>,
    /// New connections per second, instead of the plan's rate
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Change a setting of the plan: stage.NAME.hold=10s, group.*.keep_alive=30s; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Random seed, to repeat a run exactly
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// PID of the server on this machine, to observe it and to inject faults
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Port that the server listens on, by which its process is found (default for a URL on
    /// loopback: its port)
    #[arg(long, value_name = "PORT", conflicts_with = "pid")]
    port: Option<u16>,
    /// Command that restarts the server, for stages that kill it
    #[arg(long, value_name = "COMMAND")]
    start: Option<String>,
    /// URL of the server's Prometheus metrics
    #[arg(long, value_name = "URL")]
    metrics: Option<String>,
    /// URL of Holdline's HTTP API, for plans that push messages
    #[arg(long, value_name = "URL")]
    api: Option<String>,
    /// Token for metrics and API
    #[arg(long, env = "HOLDLINE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
    /// Address of the server's Redis, for fault injection
    #[arg(long, value_name = "HOST:PORT")]
    redis: Option<String>,
    /// PID of Redis on this machine
    #[arg(long, value_name = "PID")]
    redis_pid: Option<u32>,
    /// Command that restarts Redis
    #[arg(long, value_name = "COMMAND")]
    redis_start: Option<String>,
}

/// How a run is shown and where it is kept.
#[derive(Args, Default)]
pub struct Show {
    /// Folder in which the run's folder is created
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub out: PathBuf,
    /// Print the run as JSON instead of the summary
    #[arg(long)]
    pub json: bool,
    /// Print no progress, and one line at the end
    #[arg(long)]
    pub quiet: bool,
    /// Print progress as lines, even on a terminal
    #[arg(long, conflicts_with = "quiet")]
    pub plain: bool,
    /// HTTP address for the figures and the control of the run while it is running
    #[arg(long, value_name = "ADDR")]
    pub export: Option<SocketAddr>,
    /// Agents that generate the load instead of this machine: HOST:PORT, comma-separated
    #[arg(long, value_name = "AGENTS", value_delimiter = ',')]
    pub agents: Vec<String>,
    /// Token of the agents
    #[arg(long, env = "HOLDLINE_AGENTS_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub agents_token: Option<String>,
    /// Continue when an agent is lost
    #[arg(long)]
    pub go_on_without_agents: bool,
    /// Prints what the server used at several sizes, too.
    #[arg(skip)]
    pub sizes: bool,
}

impl Asked {
    /// These options, for the laboratory.
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
