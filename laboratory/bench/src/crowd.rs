//! Fleets of the laboratory in a process of their own: connections with layers around MIOP.
//!
//! The caller speaks plain TCP only; whatever has TLS or WebSocket is opened by the virtual clients
//! that we ship. As a process it takes `open COUNT WINDOW FIRST` (so many that are not bound, at
//! once) and `flow COUNT PER_S FIRST` (so many a second), and answers `done COUNT`, or `failed` and
//! why; each order is a fleet of its own. [`Crowd`] is the other end.

use crate::caller::sockets;
use crate::caller::speech::HEARTBEAT_S;
use crate::child::Child;
use lab::plan::Arrival;
use load::{Fleet, FleetPlan, HeartbeatMode, Snapshot};
use model::id::ProductKey;
use net::layer::websocket::UpgradeTarget;
use proto_miop::client::Profile;
use proto_miop::codec::Version;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// With the hyphen and eight digits, names of 16 characters.
const PREFIX: &str = "devices";
/// The first device's number: it has eight digits, like all that follow.
pub const FIRST: u32 = 10_000_000;
const PATIENCE: Duration = Duration::from_secs(300);

/// Layers around MIOP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// No layers.
    None,
    /// TLS, whatever certificate is shown; sessions are resumed.
    Tls,
    /// TLS, with a full handshake each.
    TlsAfresh,
    /// WebSocket.
    WebSocket,
}

/// A crowd in a process of its own.
pub struct Crowd(Child);

impl Crowd {
    /// Starts one that calls `to`.
    pub fn start(to: SocketAddr, layer: Layer) -> io::Result<Crowd> {
        Crowd::start_on(to, layer, None)
    }

    /// Starts one that calls `to`, on this core.
    pub fn start_on(to: SocketAddr, layer: Layer, core: Option<usize>) -> io::Result<Crowd> {
        let name = LAYERS.iter().find(|(_, known)| *known == layer).map_or("", |(name, _)| name);
        Ok(Crowd(Child::again(&["crowd", &to.to_string(), name], core)?))
    }

    /// Binds `count` more devices, at most `window` under way at once, from number `first` on.
    pub fn open(&mut self, count: u32, window: u32, first: u32) -> io::Result<()> {
        self.order("open", count, window, first)
    }

    /// Binds `count` more devices, `per_s` of them a second, from number `first` on.
    pub fn flow(&mut self, count: u32, per_s: u32, first: u32) -> io::Result<()> {
        self.order("flow", count, per_s, first)
    }

    fn order(&mut self, how: &str, count: u32, number: u32, first: u32) -> io::Result<()> {
        let answer = self.0.ask(&format!("{how} {count} {number} {first}"))?;
        if answer == format!("done {count}") {
            return Ok(());
        }
        Err(io::Error::other(format!("the crowd {answer}")))
    }
}

/// Anonymous devices of `demo` whose heartbeat is `heartbeat_s`.
pub fn profile(heartbeat_s: u16) -> io::Result<Profile> {
    let product = ProductKey::parse("demo").map_err(|_| io::Error::other("demo is a key"))?;
    let mut profile = Profile::new(Version::V7, product, PREFIX);
    profile.heartbeat.want_s = heartbeat_s;
    Ok(profile)
}

/// All errors, by cause; empty without any.
pub fn errors(seen: &Snapshot) -> Vec<(String, u64)> {
    let ends = seen
        .causes
        .iter()
        .filter(|(_, cause, _)| cause.is_error())
        .map(|(phase, cause, count)| (format!("{}: {}", phase.name(), cause.name()), count));
    let codes = seen.codes.iter().map(|(code, count)| (code.to_owned(), count));
    let odd = [("lost threads", seen.lost_threads), ("unanswered pings", seen.unanswered)];
    let odd = odd.into_iter().filter(|(_, count)| *count > 0);
    ends.chain(codes).chain(odd.map(|(what, count)| (what.to_owned(), count))).collect()
}

/// Layers by their names.
const LAYERS: [(&str, Layer); 4] = [
    ("none", Layer::None),
    ("tls", Layer::Tls),
    ("tls-afresh", Layer::TlsAfresh),
    ("websocket", Layer::WebSocket),
];

/// Runs a crowd: `ADDRESS LAYER`.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let usage = || io::Error::other("ADDRESS none|tls|tls-afresh|websocket");
    let [to, layer] = arguments else { return Err(usage()) };
    let to: SocketAddr = to.parse().map_err(io::Error::other)?;
    let known = LAYERS.iter().find(|(name, _)| name == layer);
    let layer = known.ok_or_else(usage)?.1;
    let mut fleets = Vec::new();
    sockets::obey(|order| {
        let (fleet, count) = obey(to, layer, order)?;
        fleets.push(fleet);
        Ok(count)
    })
}

fn obey(to: SocketAddr, layer: Layer, order: &str) -> io::Result<(Fleet, u64)> {
    let odd = || io::Error::other(format!("no order: {order}"));
    let (how, numbers) = order.split_once(' ').ok_or_else(odd)?;
    let numbers: Option<Vec<u32>> = numbers.split(' ').map(|number| number.parse().ok()).collect();
    let Some([count, number, first]) = numbers.as_deref() else { return Err(odd()) };
    let mut plan = FleetPlan::new(to, *count, Arc::new(profile(HEARTBEAT_S)?));
    plan.arrival = match how {
        "open" => Arrival::Window { open: *number },
        "flow" => Arrival::Rate { per_s: f64::from(*number) },
        _ => return Err(odd()),
    };
    plan.first_number = FIRST + first;
    plan.heartbeat = HeartbeatMode::Never;
    plan.timeout = Duration::from_secs(60);
    match layer {
        Layer::None => {}
        Layer::Tls | Layer::TlsAfresh => {
            let tls = load::trust::towards("localhost", None).map_err(io::Error::other)?;
            let afresh = layer == Layer::TlsAfresh;
            plan.layers.tls = Some(if afresh { Arc::new(tls.afresh()) } else { tls });
        }
        Layer::WebSocket => {
            plan.layers.web_socket =
                Some(UpgradeTarget::open(to.to_string(), "/miop", &proto_miop::WIRE));
        }
    }
    let fleet = Fleet::start(plan).map_err(io::Error::other)?;
    let all = u64::from(*count);
    let over = |seen: &Snapshot| seen.online_now == all || !errors(seen).is_empty();
    fleet.wait(over, PATIENCE);
    let seen = fleet.snapshot();
    if seen.online_now != all {
        let (online, errors) = (seen.online_now, errors(&seen));
        return Err(io::Error::other(format!("{online} of {count} are online; {errors:?}")));
    }
    Ok((fleet, all))
}
