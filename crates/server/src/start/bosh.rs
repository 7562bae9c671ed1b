//! BOSH: the listeners that carry XMPP in requests of HTTP, and the thread behind them.
//!
//! A session that begins there is given to one shard after the other; once it is known whose it is,
//! it moves as every connection does. Invariant: whoever asks by its path finds the same thread,
//! whatever shard took the connection.

use super::storage::media::incoming;
use super::{StartError, doors, failed};
use crate::clock;
use crate::config::{Config, ListenSection, ListenerProtocol, WEB_SOCKET_PATHS, WebSocketAt};
use crate::start::ServerOutside;
use crate::switchboard::Mailboxes;
use bosh::{BoshBounds, BoshDoor, BoshListener, BoshOutcome, BoshSettings, Caller, StreamGiver};
use model::link::Protocol;
use net::layer::ListenerSetup;
use net::layer::handing::{HandedPaths, HandedStream, StreamTaker};
use net::shard::{GivenConnection, ShardMessage};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The path of host-meta (XEP-0156), in both forms.
const HOST_META: &str = "/.well-known/host-meta";

/// BOSH of a server: its thread begins with the first listener that has XMPP for browsers.
pub(super) struct Bosh {
    door: OnceLock<BoshDoor>,
    boxes: Mailboxes<ServerOutside>,
}

impl Bosh {
    /// Makes the server of BOSH, which is not started.
    pub(super) fn new(boxes: &Mailboxes<ServerOutside>) -> Bosh {
        Bosh { door: OnceLock::new(), boxes: boxes.clone() }
    }

    /// Has the listener of this number hand on what belongs to BOSH. The result is BOSH's view of
    /// the listener, for [`serve`](Self::serve).
    pub(super) fn furnish(
        &self,
        config: &Config,
        (number, listener): (u8, &ListenSection),
        door: &mut ListenerSetup,
    ) -> Result<BoshListener, StartError> {
        let its = BoshListener {
            path: listener.bosh.as_str().into(),
            web_socket: web_socket(listener).map(Box::from),
            origins: listener.web_socket_origins.clone(),
            keeps_alone: door.files.is_empty() && door.handed.is_empty(),
        };
        if its.path.is_empty() && its.web_socket.is_none() {
            return Ok(its);
        }
        let into = match self.door.get() {
            Some(into) => into.clone(),
            None => {
                let begun = begin(config, &self.boxes)?;
                self.door.get_or_init(|| begun).clone()
            }
        };
        let taker = Arc::new(Taker { door: number, into });
        for prefix in [&*its.path, HOST_META].into_iter().filter(|it| !it.is_empty()) {
            door.handed.push(HandedPaths { prefix: prefix.into(), taker: taker.clone() });
        }
        Ok(its)
    }

    /// Serves BOSH at the listener of this number.
    pub(super) fn serve(&self, number: u8, listener: BoshListener) {
        if let Some(door) = self.door.get() {
            door.set_listener(number, listener);
        }
    }

    /// Sets other limits.
    pub(super) fn set_limits(&self, config: &Config) {
        if let Some(door) = self.door.get() {
            door.set_bounds(bounds(config));
        }
    }

    /// Its metrics; none before it has begun.
    pub(super) fn readings(&self) -> Vec<admin::MetricReading> {
        self.door.get().map(readings).unwrap_or_default()
    }
}

/// Starts the thread.
fn begin(config: &Config, boxes: &Mailboxes<ServerOutside>) -> Result<BoshDoor, StartError> {
    let settings = BoshSettings {
        bounds: bounds(config),
        giver: Arc::new(Giver { boxes: boxes.clone(), next: AtomicUsize::new(0) }),
        now_us: clock::monotonic_us,
        random: |bytes| {
            getrandom::fill(bytes).expect("the system gave random bytes at the start");
        },
    };
    BoshDoor::start(settings).map_err(failed)
}

/// Its bounds.
fn bounds(config: &Config) -> BoshBounds {
    let limits = &config.limits;
    BoshBounds {
        limits: config.bosh.clone(),
        stanza_bytes_max: limits.chat.stanza_bytes_max,
        // Some of those that may be whole before a login.
        unproven_bytes_max: limits.frame_bytes_unbound_max.saturating_mul(4),
        out_bytes_max: limits.out_bytes_max.saturating_mul(2),
        request_ms_max: limits.frame_ms_max,
    }
}

/// Whether a listener has BOSH, so that sessions take descriptors.
pub(super) fn is_served(config: &Config) -> bool {
    let mut served = config.listen.iter().filter(|listener| doors::served(config, listener));
    served.any(|listener| !listener.bosh.is_empty())
}

/// The path at which a listener has XMPP in WebSockets, if it is known.
fn web_socket(listener: &ListenSection) -> Option<&str> {
    let [others @ .., usual] = WEB_SOCKET_PATHS;
    let carries = [ListenerProtocol::Any, ListenerProtocol::Http, ListenerProtocol::Xmpp];
    if !carries.contains(&listener.protocol) {
        return None;
    }
    match &listener.web_socket {
        WebSocketAt::Off => None,
        WebSocketAt::Usual => Some(usual),
        WebSocketAt::Path(path) if path == "*" => Some(usual),
        WebSocketAt::Path(path) if others.contains(&path.as_str()) => None,
        WebSocketAt::Path(path) => Some(path.as_str()).filter(|path| is_plain(path)),
    }
}

/// Whether a path can stand in an address within XML as it is.
fn is_plain(path: &str) -> bool {
    path.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~/".contains(&b))
}

/// Its metrics.
fn readings(door: &BoshDoor) -> Vec<admin::MetricReading> {
    let reading = |name, help, value| admin::MetricReading { name, help, value };
    let sessions = reading("bosh_sessions", "Sessions of BOSH.", door.sessions());
    let outcomes = BoshOutcome::ALL.iter();
    let counted = outcomes.map(|it| reading(it.name(), it.help(), door.tally().of(*it)));
    [sessions].into_iter().chain(counted).collect()
}

/// Takes what the shards hand over.
struct Taker {
    door: u8,
    into: BoshDoor,
}

impl StreamTaker for Taker {
    fn has_room(&self, peer: SocketAddr) -> bool {
        self.into.has_room(peer)
    }

    fn take(&self, stream: HandedStream) -> bool {
        let (peer, encrypted) = (stream.peer, stream.tls.is_some());
        let caller = Caller { door: self.door, peer, encrypted };
        self.into.take(incoming(stream), caller)
    }
}

/// Gives sessions to shards.
struct Giver {
    boxes: Mailboxes<ServerOutside>,
    next: AtomicUsize,
}

impl StreamGiver for Giver {
    fn give(&self, socket: OwnedFd, caller: Caller) -> bool {
        let Caller { door, peer, encrypted } = caller;
        let mailbox = &self.boxes[self.next.fetch_add(1, Ordering::Relaxed) % self.boxes.len()];
        let protocol = Protocol::Xmpp;
        let given = GivenConnection { socket, peer, protocol, encrypted, door };
        let has_room = mailbox.put(ShardMessage::Given(Box::new(given))).is_ok();
        mailbox.ring();
        has_room
    }
}
