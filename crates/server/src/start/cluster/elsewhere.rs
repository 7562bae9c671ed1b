//! A listener of a node that follows: every connection gets the leader's address, or is refused.
//!
//! Machines of all protocols run as on a server, up to the login: that is answered at once, and the
//! connection ends. Nothing is asked of a service, a log or another shard. Invariant: no client is
//! let in, and each that asks is answered once.

use super::seat::LeaderSeat;
use crate::config::Redirect;
use crate::machines::{DoorProfile, ServerMachine, WIRES};
use base::time::{Instant, Now};
use model::chat::{ChatDelivery, ChatRequest, Login, LoginRefused};
use model::close::CloseReason;
use model::id::{ConnRef, ShardId};
use model::link::{Link, WireProfile};
use model::request::{PushDelivery, PushRequest, Refusal, Refused};
use model::service::{Delivery, Request};
use model::session::{Denial, Denied, SessionDelivery, SessionRequest};
use net::{ConnectionOrigin, ShardHandle, ShardLogic};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

/// Shortest time after which a client without an address comes back.
const RETRY_MS: u32 = 1_000;

/// Mail for a listener.
pub(super) enum ElsewhereMail {
    /// Take nobody more, and end.
    Stop,
    /// Asks whether the listener's thread runs; it answers with its number.
    Turns(SyncSender<ShardId>),
}

/// Outcomes of connections to a node that follows.
#[derive(Default)]
pub(super) struct ElsewhereTally {
    /// Connections that got the address of the leader.
    pub(super) redirected: AtomicU64,
    /// Connections that were refused, or that the client ended.
    pub(super) refused: AtomicU64,
}

/// A listener of a node that follows.
pub(super) struct Elsewhere {
    /// Its name: clients are sent to the leader's listener of the same one.
    pub(super) listener: Arc<str>,
    pub(super) redirect: Redirect,
    pub(super) profile: DoorProfile,
    pub(super) seat: Arc<LeaderSeat>,
    pub(super) tally: Arc<ElsewhereTally>,
}

impl ShardLogic for Elsewhere {
    type Machine = ServerMachine;
    type Mail = ElsewhereMail;
    const WIRES: &'static [WireProfile] = &WIRES;

    fn machine(&mut self, _: Now, link: &Link, _: ConnectionOrigin) -> Option<ServerMachine> {
        ServerMachine::new(link, &self.profile)
    }

    fn word(&mut self, _: Now, from: ConnRef, word: Request, handle: &mut ShardHandle<Self>) {
        let address = self.seat.address(&self.listener);
        // Clients that were told at one time do not come back at one time.
        let retry_ms = RETRY_MS + (from.key().pack() % u64::from(RETRY_MS)) as u32;
        match answer(&word, address.as_deref(), (self.redirect, retry_ms)) {
            Told::This(delivery) => handle.deliver(from, delivery),
            Told::Nothing => handle.close(from, CloseReason::NotLeading),
            Told::Over => {}
        }
    }

    fn mail(&mut self, _: Now, mail: ElsewhereMail, handle: &mut ShardHandle<Self>) {
        match mail {
            ElsewhereMail::Stop => handle.drain(0),
            // Nobody waits any more when it is late.
            ElsewhereMail::Turns(to) => drop(to.try_send(ShardId(0))),
        }
    }

    fn turn(&mut self, _: Now, _: &mut ShardHandle<Self>) -> Option<Instant> {
        None
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, _: Delivery, _: &mut ShardHandle<Self>) {}

    fn ended(&mut self, _: Now, _: &ServerMachine, reason: CloseReason, _: &mut ShardHandle<Self>) {
        let count = match reason {
            CloseReason::Redirected => &self.tally.redirected,
            _ => &self.tally.refused,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Answer to a request of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Told {
    /// Its refusal, with the leader's address if it takes one.
    This(Delivery),
    /// Its protocol has no word for it: the connection is closed.
    Nothing,
    /// The connection has ended.
    Over,
}

/// The answer of a node that follows to a client's request. `address`: where the leader's listener
/// is, if it is known.
fn answer(request: &Request, address: Option<&str>, (redirect, retry_ms): (Redirect, u32)) -> Told {
    match request {
        Request::Push(PushRequest::Bind(bind)) => {
            let why = if address.is_some() { Refusal::Redirect } else { Refusal::Busy };
            let addrs = address.map(str::to_owned).into_iter().collect();
            let refused = Refused { retry_after_ms: retry_ms, addrs, ..Refused::of(bind, why) };
            Told::This(PushDelivery::Refused(Box::new(refused)).into())
        }
        Request::Topics(SessionRequest::Connect(connect)) => {
            let denied = denied(address, redirect);
            let denied = Denied { who: Some(connect.client_id.clone()), ..denied };
            Told::This(SessionDelivery::Refused(Box::new(denied)).into())
        }
        Request::Chat(request) => chat(request, address, (redirect, retry_ms)),
        Request::Push(PushRequest::Closed { .. })
        | Request::Topics(SessionRequest::Gone | SessionRequest::Closed { .. }) => Told::Over,
        _ => Told::Nothing,
    }
}

/// The words in which clients of MQTT 5 and XMPP are sent to another server; none: they are not.
pub(super) fn denial(redirect: Redirect) -> Option<Denial> {
    match redirect {
        Redirect::UseAnother => Some(Denial::UseAnother),
        Redirect::Moved => Some(Denial::Moved),
        Redirect::Refuse => None,
    }
}

fn denied(address: Option<&str>, redirect: Redirect) -> Denied {
    match denial(redirect).zip(address) {
        Some((why, address)) => {
            Denied { server: Some(address.into()), ..Denied::of(why, CloseReason::Redirected) }
        }
        None => Denied {
            text: Some("This node follows; another one serves.".into()),
            ..Denied::of(Denial::Unavailable, CloseReason::NotLeading)
        },
    }
}

fn chat(
    request: &ChatRequest,
    address: Option<&str>,
    (redirect, retry_ms): (Redirect, u32),
) -> Told {
    let login: &Login = match request {
        ChatRequest::Login(login) => login,
        ChatRequest::Redeem(redeem) => &redeem.login,
        ChatRequest::Enter(enter) => &enter.login,
        ChatRequest::Gone | ChatRequest::Closed { .. } => return Told::Over,
        _ => return Told::Nothing,
    };
    // IM has a field for the address; in XMPP a client that reaches the leader by a name of both
    // nodes does better to try that again.
    let is_told = login.protocol == "im" || redirect != Redirect::Refuse;
    match address.filter(|_| is_told) {
        None if login.protocol == "xmpp" => Told::Nothing,
        address => {
            let why = if address.is_some() { Denial::UseAnother } else { Denial::Unavailable };
            let refused = LoginRefused {
                why,
                retry_after_ms: retry_ms,
                server: address.map(Box::from),
                who: Some(login.account.as_str().into()),
            };
            Told::This(ChatDelivery::Refused(Box::new(refused)).into())
        }
    }
}

#[cfg(test)]
mod tests;
