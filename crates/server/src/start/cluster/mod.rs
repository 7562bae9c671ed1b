//! A node of a cluster: it follows until it leads, serves while it leads, and follows again.
//!
//! ```text
//!               ┌──────────── Leave: clients go, logs are closed ───────────┐
//!               ▼                                                           │
//!  folder ─► following: listeners send everybody to the leader ─► Lead ─► leading: a server like
//!               │                                                           │   any other
//!               └─ SIGTERM, or another process takes over ─► end ◄──────────┘
//! ```
//! Replication says what is to be done ([`Turn`]); here it is done. Sockets stay open through all
//! of it. A server that is alone has nothing of this. Invariant: a process serves clients only
//! between `Lead` and `Leave`.

mod elsewhere;
mod following;
mod joined;
mod lead;
mod seat;
pub mod tools;
mod view;

pub(super) use joined::unusable;
pub use lead::Lead;

use super::supervisor::Inherited;
use super::{RunningServer, StartError, failed};
use crate::clock;
use crate::config::Config;
use crate::signals::Caught;
use crate::start::LoadConfig;
use crate::takeover::{Predecessor, Successor, TakeOverEvent};
use following::FollowingServer;
use joined::Joined;
use model::{event, tell};
use replication::{LeaderAddress, LeaveReason, Turn};
use signal_hook::consts::SIGHUP;
use std::time::{Duration, Instant};
use store::data::OpenFolder;

/// How long one waits for the next turn of replication before one looks at signals.
const LOOK: Duration = Duration::from_millis(100);

/// Time that a node that is told to stop while it leads waits for a follower to take over.
const HANDOVER: Duration = Duration::from_secs(5);

/// Time over which the clients of a leader that leaves are let go, at most: until another node
/// leads they wait for the first one as for the last.
const MOVE_MS_MAX: u32 = 500;

/// Time between two looks whether all listeners of a node that follows turn.
const ALIVE: Duration = Duration::from_secs(1);

/// How a node begins, and tells of itself.
pub struct Node<'a> {
    /// Signals, and servers that take over.
    pub caught: &'a Caught,
    /// Reads the configuration again.
    pub load: LoadConfig,
    /// Starts a server that leads.
    pub start: &'a dyn Fn(Config, Inherited, Lead) -> super::Started,
    /// A server serves: for people at the terminal.
    pub welcome: &'a dyn Fn(&RunningServer) -> String,
}

/// Next step of a node that no longer follows.
enum Follows {
    /// The node leads.
    Lead(Box<OpenFolder>),
    /// Another process takes its place.
    Give(Successor),
    /// Its configuration was read again.
    Again(Box<Config>),
    /// The node was to lead and cannot: it follows anew.
    Anew,
}

/// Why a node leads no longer.
enum Leads {
    /// The node follows from now on.
    Leave(LeaveReason, Option<LeaderAddress>),
    /// The node stops, and no follower has taken over.
    Stop,
    /// The node stops, and a follower takes over.
    HandedOver(Option<LeaderAddress>),
    /// Another process takes its place.
    Give(Successor),
}

/// Runs a node until it is told to stop, or another process has taken its place.
pub fn serve(
    node: &Node<'_>,
    mut config: Config,
    (mut inherited, predecessor): (Inherited, Option<Predecessor>),
) -> Result<(), StartError> {
    let mut predecessor = predecessor;
    loop {
        let joined = Joined::begin(&config, inherited.taken_over)?;
        let left = loop {
            let supervisor = inherited.supervisor.clone();
            let shards = (joined.logs, std::mem::take(&mut inherited));
            let following = FollowingServer::start(&config, shards, joined.view())?;
            if let Some(predecessor) = predecessor.take() {
                predecessor.tell_serving();
            }
            let next = follow(node, &config, (&joined, &following))?;
            let Some(next) = next else {
                following.stop();
                joined.closed();
                tell!(event::STOPPED);
                return Ok(());
            };
            let sockets = following.move_off();
            let kept = Inherited { supervisor, sockets, taken_over: true };
            match next {
                Follows::Again(new) => (config, inherited) = (*new, kept),
                Follows::Lead(folder) => {
                    break lead(node, &mut config, (joined, folder), kept)?;
                }
                Follows::Give(successor) => {
                    joined.closed();
                    break give(node, &successor, kept)?;
                }
                Follows::Anew => {
                    joined.closed();
                    break Some(kept);
                }
            }
        };
        match left {
            Some(kept) => inherited = kept,
            None => return Ok(()),
        }
    }
}

/// Follows, until there is something else to do: none if the node is to stop.
fn follow(
    node: &Node<'_>,
    config: &Config,
    (joined, following): (&Joined, &FollowingServer),
) -> Result<Option<Follows>, StartError> {
    let _offer = following.offer_place(config, &node.caught.more())?;
    following.tell_ready();
    tell!(event::NODE_FOLLOWS, node = joined.node.number());
    crate::log::print(&told_to_people(following));
    let mut alive = clock::began();
    loop {
        match node.caught.look() {
            Some(TakeOverEvent::Signal(SIGHUP)) => match (node.load)() {
                Ok(new) => return Ok(Some(Follows::Again(Box::new(new)))),
                Err(error) => tell!(event::CONFIGURATION_REFUSED, %error),
            },
            Some(TakeOverEvent::Signal(_)) => return Ok(None),
            Some(TakeOverEvent::TakeOver(successor)) => return Ok(Some(Follows::Give(successor))),
            Some(TakeOverEvent::Served | TakeOverEvent::Lost) | None => {}
        }
        match joined.replication.turn(LOOK) {
            Some(Turn::Lead(folder)) => return Ok(Some(Follows::Lead(folder))),
            Some(Turn::Follow(leader)) => knows(joined, leader),
            Some(Turn::Notice(notice)) => joined.notice(&notice),
            Some(Turn::Leave { .. }) => return Ok(Some(Follows::Anew)),
            None => {}
        }
        if clock::since(alive) >= ALIVE {
            following.tell_alive();
            alive = clock::began();
        }
    }
}

/// Remembers the leader, or that there is none.
fn knows(joined: &Joined, leader: Option<LeaderAddress>) {
    // A node never sends clients to itself.
    let leader = leader.filter(|leader| leader.node != joined.node);
    if !joined.seat.set(leader.clone()) {
        return;
    }
    let name = leader.as_ref().map_or("nobody", |leader| leader.name.as_str());
    let addresses = leader.as_ref().map_or(String::new(), |leader| leader.addresses.join(" "));
    tell!(event::LEADER_KNOWN, leader = name, addresses);
}

/// Serves as the leader until that is over; the sockets, if the node follows then.
fn lead(
    node: &Node<'_>,
    config: &mut Config,
    (joined, folder): (Joined, Box<OpenFolder>),
    inherited: Inherited,
) -> Result<Option<Inherited>, StartError> {
    let (began, number) = (clock::began(), joined.node.number());
    tell!(event::NODE_LEADS, node = number);
    let supervisor = inherited.supervisor.clone();
    let started = (node.start)(config.clone(), inherited, joined.lead(folder));
    let mut running = started.inspect_err(|error| tell!(event::LEAD_FAILED, %error))?;
    running.offer_place(&node.caught.more());
    running.tell_ready();
    tell!(event::NODE_SERVES, node = number, ms = clock::since(began).as_millis() as u64);
    crate::log::print(&(node.welcome)(&running));
    let next = until_it_is_over(node, &joined, &running);
    *config = running.config();
    let sockets = match &next {
        Leads::Stop => {
            node.caught.end_at_once();
            tell!(event::DRAINING, ms = config.limits.drain_ms);
            running.drain();
            Vec::new()
        }
        Leads::HandedOver(to) => {
            node.caught.end_at_once();
            let ms = config.limits.take_over_ms.min(MOVE_MS_MAX);
            tell!(event::DRAINING, ms);
            running.hand_over(ms, joined.listeners_of(to.as_ref(), config));
            Vec::new()
        }
        Leads::Give(successor) => {
            let (pid, ms) = (successor.pid(), config.limits.take_over_ms);
            tell!(event::SUCCESSION_BEGINS, pid, ms);
            running.move_off()
        }
        Leads::Leave(why, to) => {
            // What a node that is deposed says to clients is worth nothing any more.
            let most = if *why == LeaveReason::Asked { MOVE_MS_MAX } else { 0 };
            let ms = config.limits.take_over_ms.min(most);
            let leader = to.as_ref().map_or("nobody", |leader| leader.name.as_str());
            tell!(event::NODE_LEAVES, node = number, why = reason(*why), leader, ms);
            if *why == LeaveReason::Deposed {
                running.abandon_log();
            }
            running.step_down(ms, joined.listeners_of(to.as_ref(), config))
        }
    };
    running.join();
    joined.closed();
    let again = Inherited { supervisor, sockets, taken_over: true };
    match next {
        Leads::Stop | Leads::HandedOver(_) => {
            tell!(event::STOPPED);
            Ok(None)
        }
        Leads::Give(successor) => give(node, &successor, again),
        Leads::Leave(..) => Ok(Some(again)),
    }
}

/// Serves while the node leads.
fn until_it_is_over(node: &Node<'_>, joined: &Joined, running: &RunningServer) -> Leads {
    let mut stops: Option<Instant> = None;
    loop {
        match node.caught.look() {
            Some(TakeOverEvent::Signal(SIGHUP)) => {
                running.tell_reloading();
                running.reload_file();
                running.tell_ready();
            }
            // A follower takes over first, if one is near; a second signal does not wait for that.
            Some(TakeOverEvent::Signal(_)) if stops.is_none() => {
                joined.replication.leave();
                stops = Some(clock::began());
            }
            Some(TakeOverEvent::Signal(_)) => return Leads::Stop,
            Some(TakeOverEvent::TakeOver(successor)) => return Leads::Give(successor),
            Some(TakeOverEvent::Served | TakeOverEvent::Lost) | None => {}
        }
        if stops.is_some_and(|since| clock::since(since) >= HANDOVER) {
            return Leads::Stop;
        }
        match joined.replication.turn(LOOK) {
            Some(Turn::Leave { to, .. }) if stops.is_some() => return Leads::HandedOver(to),
            Some(Turn::Leave { why, to }) => return Leads::Leave(why, to),
            Some(Turn::Notice(notice)) => joined.notice(&notice),
            Some(Turn::Lead(_) | Turn::Follow(_)) | None => {}
        }
    }
}

/// Another process of this node takes its place; the sockets, if it ends before it serves.
fn give(
    node: &Node<'_>,
    successor: &Successor,
    kept: Inherited,
) -> Result<Option<Inherited>, StartError> {
    successor.closed(node.caught.more()).map_err(failed)?;
    if node.caught.until_it_serves().is_break() {
        return Ok(None);
    }
    tell!(event::SUCCESSION_FAILED, pid = successor.pid());
    Ok(Some(kept))
}

/// The word for why a node leads no longer.
fn reason(why: LeaveReason) -> &'static str {
    match why {
        LeaveReason::Deposed => "deposed",
        LeaveReason::Asked => "asked",
        LeaveReason::LogFailed => "failed",
    }
}

/// Text for a person at the terminal of a node that follows.
fn told_to_people(following: &FollowingServer) -> String {
    let mut text = format!("holdline {} follows\n\n", env!("CARGO_PKG_VERSION"));
    let (listening, api) = following.listening();
    for (name, address) in listening {
        text += &format!("  {name:<8} {address}\n");
    }
    if let Some(address) = api {
        text += &format!("  {:<8} http://{address}\n", "api");
    }
    text + "\n`holdline cluster list` shows who leads.\nStop with Ctrl-C.\n\n"
}
