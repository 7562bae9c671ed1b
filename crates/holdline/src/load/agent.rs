//! `holdline load agent`: this machine makes a part of another one's load, or watches a server.
//!
//! The agent runs until it is ended, and works for one coordinator at a time. The load crate does
//! the work; this module has its command line.

use clap::Args;
use load::agent::{AgentListener, OwnMachine, serve};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;

/// Kind of agent.
#[derive(Args)]
pub struct Arguments {
    /// Address to listen on for a coordinator
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7700")]
    listen: String,
    /// Name in reports; the host name by default
    #[arg(long)]
    name: Option<String>,
    /// Token that the coordinator must present; required beyond loopback
    #[arg(long, env = "HOLDLINE_AGENTS_TOKEN", hide_env_values = true, default_value = "")]
    token: String,
    /// Generate no load, observe this server process instead
    #[arg(long, value_name = "PID")]
    observe_pid: Option<u32>,
    /// Generate no load, observe the server that listens on this port instead
    #[arg(long, value_name = "PORT", conflicts_with = "observe_pid")]
    observe_port: Option<u16>,
    /// URL of the observed server's Prometheus metrics
    #[arg(long, value_name = "URL")]
    observe_metrics: Option<String>,
}

/// Serves coordinators until the process is ended.
pub fn agent(arguments: Arguments) -> ExitCode {
    match start(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            note!("{why}");
            ExitCode::from(2)
        }
    }
}

fn start(arguments: Arguments) -> Result<(), String> {
    let Arguments { listen, name, token, observe_pid, observe_port, observe_metrics } = arguments;
    let at = address(&listen)?;
    let own = if observe_pid.is_some() || observe_port.is_some() || observe_metrics.is_some() {
        let target = lab::plan::Target {
            pid: observe_pid,
            port: observe_port,
            metrics: observe_metrics,
            ..Default::default()
        };
        OwnMachine::observing(&target, |line| note!("{line}"))?
    } else {
        OwnMachine::loading(
            |seed| Box::new(load::local::LocalGenerator::new(seed)),
            |line| note!("{line}"),
        )
    };
    let name = name.unwrap_or_else(|| observe::environment().host);
    let seat = AgentListener::take(at, &name, &token, own.loads())?;
    let addr = seat.listener.local_addr().map_err(|error| error.to_string())?;
    let work = if own.loads() { "generates load" } else { "only observes" };
    note!("agent {} listening on {addr}: {work}", seat.name);
    serve(seat, Arc::new(own))
}

fn address(listen: &str) -> Result<SocketAddr, String> {
    let found = listen.to_socket_addrs().map_err(|error| format!("{listen}: {error}"))?.next();
    found.ok_or_else(|| format!("{listen}: the name does not resolve to an address"))
}
