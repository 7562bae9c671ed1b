//! Port to everything outside a shard: its log, the event feed, access control's slow answers, and
//! the replicator to the directory.

use base::time::{Instant, Now};
use model::chat::foreign::{ForeignRefused, ForeignWord};
use model::ports::bans::BanAct;
use model::ports::log::{Call, Completion, Ticket};
use model::ports::presence::directory::{Batch, DirectoryError};
use model::ports::requests::{PortReply, PortRequest};
use model::pressure::Pressure;
use model::service::{Event, ServiceKind};
use std::net::{IpAddr, SocketAddr};

/// The log and the feed, as one shard sees them. Implemented by the real ones (`start`) and by
/// the simulated world.
pub trait Outside {
    /// Hands a service's calls to the shard's log. Completions come by mail. The tickets that come
    /// back are those of calls that were not taken, because too much waits: there will be no
    /// completion for them.
    fn call(&mut self, service: ServiceKind, calls: Vec<(Ticket, Call)>) -> Vec<Ticket>;

    /// The log has completed these, and the service gets them next.
    fn completed(&mut self, service: ServiceKind, completions: &[Completion]);

    /// Whether events of this service have listeners.
    fn events_wanted(&self, service: ServiceKind) -> bool;

    /// Whether published messages have listeners.
    fn messages_wanted(&self) -> bool;

    /// Publishes events; returns how many were dropped.
    fn publish(&mut self, events: Vec<Event>) -> usize;

    /// How short memory is.
    fn pressure(&self) -> Pressure {
        Pressure::Calm
    }

    /// While memory is short: has the allocator give back what this thread has freed. When it is to
    /// be called again, whatever else happens.
    fn give_back(&mut self, _now: Now) -> Option<Instant> {
        None
    }

    /// Threads that run shards now.
    fn threads(&self) -> u32 {
        1
    }

    /// Hands a service's request to its port; the reply comes by mail. An error is the reply: the
    /// request was not taken, and no mail will come. An outside without ports takes none.
    fn ask_port(
        &mut self,
        _service: ServiceKind,
        _number: u64,
        request: PortRequest,
    ) -> Result<(), PortReply> {
        Err(request.without_port())
    }

    /// Whether an address, or a MIOP device, is banned. A ban that applies is counted.
    fn is_banned(&self, _: Now, _: Option<IpAddr>, _device: Option<&str>, _: BanAct) -> bool {
        false
    }

    /// Rises with each new ban.
    fn bans_version(&self) -> u64 {
        0
    }

    /// The shard has asked about all its connections since that was the version.
    fn asked_again(&self, _version: u64) {}

    /// The proof of a device was wrong.
    fn login_failed(&self, _: Now, _peer: SocketAddr, _protocol: &str, _device: &str) {}

    /// A client or device is gone, and not because the server wanted it.
    fn left(&mut self, _: Now, _who: &str) {}

    /// Hands over what is for other domains; what was refused before, and those that find no room.
    fn go_out(&mut self, words: Vec<ForeignWord>) -> (ForeignRefused, Vec<ForeignWord>) {
        (ForeignRefused::default(), words)
    }

    /// Hands over what is to be written to the directory. The result comes by mail; an error: it
    /// was not taken.
    fn copy(&mut self, batches: Vec<Batch>) -> Result<(), DirectoryError>;

    /// Whether a history of transitions is kept.
    fn keeps_history(&self) -> bool {
        false
    }

    /// Takes lines of the history; what has no room now is left there.
    fn remember(&mut self, lines: &mut String) {
        lines.clear();
    }
}
