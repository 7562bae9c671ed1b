//! wrk's command line and output, for long connections.
//!
//! `wrk miop://HOST:pk@127.0.0.1:7000/ -t 2 -c 10000 --latency -d 30s --timeout 15` opens ten
//! thousand devices `HOST-0` to `HOST-9999` of product `pk`. A device's first request is its Bind.
//! Then, as wrk does without a script, it sends the next request, a heartbeat, as soon as the last
//! was answered: ten thousand devices ping as fast as the server answers. With `-R` the heartbeats
//! keep a total rate and latency counts from their planned times. Unlike wrk, a device whose
//! connection ended waits before it comes back, and requests that are never answered are counted.
//! Scripts (`-s`) are refused, not ignored.

mod arguments;
mod block;
mod target;
mod units;

pub use arguments::{Arguments, Wish, parse};
pub use block::{Run, print};
pub use target::{Scheme, Target};

use crate::fleet::{Fleet, check_descriptors};
use crate::plan::{FleetPlan, Heartbeat, Reconnect, Think};
use crate::{effort, trust};
use model::id::DeviceId;
use model::link::Protocol;
use net::layer::ClientLayers;
use proto_miop::client::{Name, Profile, Prove};
use proto_miop::codec::Version;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Calls and Binds under way at once. Binds queue behind the heartbeats of those who are bound
/// already, so that fewer would make ten thousand wait.
const WINDOW: u32 = 1_024;
/// First and longest wait of a device before it comes back.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Runs wrk with these arguments (without the program's name): prints to standard output, errors
/// to standard error. Returns the exit code: 0, or 1 when nothing could be run.
pub fn run(args: Vec<String>) -> i32 {
    match parse(&args) {
        Ok(Wish::Help) => {
            println!("{}", arguments::USAGE);
            0
        }
        Ok(Wish::Version) => {
            println!("wrk (holdline {})", env!("CARGO_PKG_VERSION"));
            0
        }
        Ok(Wish::Run(arguments)) => match measure(&arguments) {
            Ok(()) => 0,
            Err(message) => {
                eprintln!("wrk: {message}");
                1
            }
        },
        Err(message) => {
            eprintln!("wrk: {message}\n\n{}", arguments::USAGE);
            1
        }
    }
}

fn measure(arguments: &Arguments) -> Result<(), String> {
    let limit = net::descriptors::raise();
    check_descriptors(u64::from(arguments.connections), limit)
        .map_err(|message| format!("-c {}: {message}", arguments.connections))?;
    let plan = plan(arguments)?;
    if !arguments.headers.is_empty() {
        eprintln!("wrk: -H has no meaning for MIOP and is left out");
    }
    print!("{}", block::opening(arguments));
    let before = effort::of_this_process();
    let fleet = Fleet::start(plan)?;
    fleet.wait(|seen| seen.is_over(), arguments.duration);
    let seen = fleet.snapshot();
    let cpu = effort::of_this_process().saturating_sub(before);
    let stopped = fleet.stop();
    let run = Run { arguments, seen: &seen, stopped: &stopped, cpu };
    print!("{}", print(&run));
    Ok(())
}

/// The plan that the arguments ask for.
fn plan(arguments: &Arguments) -> Result<FleetPlan, String> {
    let target = &arguments.target;
    let last = format!("{}-{}", target.prefix, arguments.connections - 1);
    DeviceId::parse(&last).map_err(|wrong| format!("the device id `{last}` {wrong}"))?;
    let to = resolve(&target.host, target.port)?;
    let mut plan = FleetPlan::new(to, arguments.connections, Arc::new(profile(target)?));
    plan.threads = arguments.threads;
    plan.window = WINDOW.max(u32::from(arguments.threads));
    plan.layers = layers(target)?;
    plan.timeout = arguments.timeout;
    plan.reconnect = Reconnect::Backoff { base: BACKOFF.0, max: BACKOFF.1 };
    plan.heartbeat = match arguments.rate {
        Some(rate) => Heartbeat::Rate(rate),
        None => Heartbeat::ClosedLoop(Think::Fixed(Duration::ZERO)),
    };
    // Bounded even if whoever waits for it goes away.
    plan.stop_after = Some(arguments.duration + Duration::from_secs(60));
    Ok(plan)
}

fn profile(target: &Target) -> Result<Profile, String> {
    let version = match target.version {
        5 => Version::V5,
        6 => Version::V6,
        _ => Version::V7,
    };
    let mut profile = Profile::new(version, target.product.clone(), &target.prefix);
    profile.name = Name::Numbered(target.prefix.clone());
    profile.heartbeat.want_s = target.keep_s;
    if let Some(secret) = &target.secret {
        profile.prove = Prove::Secret { key_id: target.key_id, bytes: secret.clone() };
    }
    getrandom::fill(&mut profile.nonce_seed)
        .map_err(|error| format!("no random numbers for nonces: {error}"))?;
    Ok(profile)
}

fn layers(target: &Target) -> Result<ClientLayers, String> {
    let tls = match (&target.authority, target.scheme.is_encrypted()) {
        (_, false) => None,
        (Some(path), true) => Some(trust::authority(&target.host, path.as_ref())?),
        (None, true) => Some(trust::anybody(&target.host)?),
    };
    let web_socket = target.scheme.is_web_socket().then(|| {
        let host = format!("{}:{}", target.host, target.port);
        Arc::new((host, target.path.clone()))
    });
    Ok(ClientLayers { tls, web_socket, protocol: Protocol::Miop })
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = (bare, port)
        .to_socket_addrs()
        .map_err(|error| format!("unable to resolve {host}:{port}: {error}"))?;
    found.next().ok_or_else(|| format!("unable to resolve {host}:{port}: it has no address"))
}

#[cfg(test)]
mod tests;
