//! The server's side of a connection: the seam where MQTT's packets become the model's words.
//!
//! ```text
//!            CONNECT           Connected
//!   Fresh ───────────► Asked ────────────► Bound ─► DISCONNECT, a fault, silence, End: the end
//!              Challenge │ ▲ AUTH
//!                        ▼ │
//! ```
//! While the broker has the CONNECT, further input is left untaken: it is shown again after the
//! answer. State that outlives the connection is the session's and the broker's: identifiers in
//! use, subscriptions, the will. A bound client without terms of its own has no heap: [`Server`] is
//! twelve bytes, so that the record of a connection needs no more than for MIOP's sixteen.

mod alias;
mod answer;
mod connect;
mod delivery;
mod denial;
mod pace;
mod packet;
mod publish;
mod state;

use crate::codec::{FaultSet, PacketFault, Version};
use base::time::Now;
use connect::{Asked, Fresh};
use model::close::CloseReason;
use model::counters::TopicCounter;
use model::id::SessionRef;
use model::link::Link;
use model::machine::{Input, Machine, Outbox, TurnAway};
use model::request::Refusal;
use model::service::{Delivery, Request};
use model::session::{Denial, Denied, SessionDelivery, SessionRequest};
use state::{Marks, Packed, Phase};
use std::time::Duration;

type Out = Outbox<Request>;

/// Profile of a listener: what it sets for its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListenerProfile {
    /// Milliseconds from accept to a CONNECT. Its answer has as long as the limits say.
    pub bind_ms_max: u32,
    /// Let the faults of old devices pass ([`FaultSet::TOLERABLE`]), count them, and read one who
    /// has too much unanswered more slowly.
    pub lenient: bool,
    /// Take no control characters and non-characters in text (MQTT5 1.5.4, MQTT3 1.5.3).
    pub strict_text: bool,
}

impl ListenerProfile {
    /// To the letter of the standard, where it leaves no choice.
    pub const fn strict(bind_ms_max: u32) -> ListenerProfile {
        ListenerProfile { bind_ms_max, lenient: false, strict_text: false }
    }
}

/// One connection's server machine.
pub struct Server(Packed);

const _: () = assert!(size_of::<Server>() <= 12, "an idle connection's machine is 12 bytes");

impl Server {
    /// A machine for a connection that was just accepted.
    pub const fn new(profile: ListenerProfile) -> Server {
        let marks = Marks::of(profile.lenient, profile.strict_text);
        Server(Packed::new(profile.bind_ms_max, marks))
    }

    /// The session that is bound to it, and the version that is spoken, for whoever looks on.
    pub fn spoken(&mut self) -> (Option<SessionRef>, Option<Version>) {
        self.with(|phase| match phase {
            Phase::New { .. } | Phase::Over => (None, None),
            Phase::Fresh(fresh) => (None, fresh.marks.version()),
            Phase::Asked(asked) => (None, asked.marks.version()),
            Phase::Bound(bound) => (Some(bound.session), Some(bound.version())),
        })
    }

    #[cfg(test)]
    fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    /// Works with the phase and puts it back.
    #[inline]
    fn with<T>(&mut self, work: impl FnOnce(&mut Phase) -> T) -> T {
        let mut phase = self.0.take();
        let result = work(&mut phase);
        self.0 = Packed::of(phase);
        result
    }
}

impl Phase {
    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        match self {
            Phase::Fresh(fresh) => {
                if let Some(asked) = fresh.receive(now, input, out)? {
                    *self = Phase::Asked(asked);
                }
                Ok(())
            }
            Phase::Asked(asked) => asked.receive(input, out),
            Phase::Bound(bound) => bound.receive(now, input, out),
            Phase::New { .. } | Phase::Over => Ok(()),
        }
    }

    fn command(
        &mut self,
        now: Now,
        word: SessionDelivery,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        if let Phase::Bound(bound) = self {
            return bound.tell(now, word, out);
        }
        let asked = match std::mem::replace(self, Phase::Over) {
            Phase::Asked(asked) => asked,
            other => {
                // It has gone on without the broker, and says so itself.
                *self = other;
                return Ok(());
            }
        };
        self.answer(asked, word, out)
    }

    /// The broker answers the CONNECT.
    fn answer(
        &mut self,
        mut asked: Box<Asked>,
        word: SessionDelivery,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        match word {
            SessionDelivery::Connected(connected) => {
                let (bound, result) = asked.connected(&connected, out);
                *self = Phase::Bound(bound);
                result
            }
            SessionDelivery::Refused(denied) | SessionDelivery::End(denied) => {
                asked.refused(&denied, out);
                Err(denied.reason)
            }
            SessionDelivery::Challenge { method, data } => {
                asked.challenge(&method, &data, out);
                *self = Phase::Asked(asked);
                Ok(())
            }
            _ => {
                *self = Phase::Asked(asked);
                Err(unexpected("a delivery before Connected"))
            }
        }
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        let due = match self {
            Phase::Fresh(fresh) => fresh.due,
            Phase::Asked(asked) => asked.due,
            Phase::Bound(bound) => {
                bound.woken(now, out);
                return Ok(());
            }
            Phase::New { .. } | Phase::Over => return Ok(()),
        };
        if now.mono < due {
            out.wake(due);
            return Ok(());
        }
        if let Phase::Asked(asked) = self {
            asked.too_late(out);
        }
        Err(CloseReason::BindTimeout)
    }

    fn silent(&mut self, out: &mut Out) -> Result<(), CloseReason> {
        if let Phase::Bound(bound) = self {
            if bound.is_held() {
                return Ok(()); // it is not heard, which is not its fault
            }
            bound.write_silence(out);
        }
        Err(CloseReason::KeepAliveTimeout)
    }

    fn turn_away(&mut self, away: TurnAway<'_>, out: &mut Out) {
        let elsewhere = away.server.and_then(|it| Some((it.denial?, it.address)));
        let why = match (elsewhere, away.why) {
            (Some((denial, _)), _) => denial,
            (None, Refusal::Draining) => Denial::ShuttingDown,
            (None, _) => Denial::Busy,
        };
        let server = elsewhere.map(|(_, address)| address.into());
        let denied = Denied { server, ..Denied::of(why, CloseReason::Busy) };
        match self {
            Phase::Fresh(fresh) => connect::refuse_unheard(fresh.marks, &denied, out),
            Phase::Asked(asked) => asked.refused(&denied, out),
            Phase::Bound(bound) => bound.write_end(&denied, out),
            Phase::New { .. } | Phase::Over => {}
        }
    }

    fn closed(&mut self, reason: CloseReason, out: &mut Out) {
        match self {
            Phase::Asked(_) => out.say(SessionRequest::Gone),
            Phase::Bound(bound) => {
                bound.tell_dropped(out);
                let session = bound.session;
                out.say(SessionRequest::Closed { session, reason });
            }
            Phase::New { .. } | Phase::Fresh(_) | Phase::Over => {}
        }
        *self = Phase::Over;
    }
}

impl Machine for Server {
    type Up = Request;
    type Down = Delivery;

    fn opened(&mut self, now: Now, link: &Link, out: &mut Out) -> Result<(), CloseReason> {
        self.with(|phase| {
            if let Phase::New { bind_ms_max, marks } = *phase {
                let due = now.after(Duration::from_millis(u64::from(bind_ms_max)));
                *phase = Phase::Fresh(Box::new(Fresh { due, marks, peer: link.peer }));
                out.wake(due);
            }
        });
        Ok(())
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        self.with(|phase| phase.receive(now, input, out))
    }

    fn command(&mut self, now: Now, down: Delivery, out: &mut Out) -> Result<(), CloseReason> {
        match down {
            Delivery::Topics(word) => self.with(|phase| phase.command(now, word, out)),
            _ => Err(unexpected("a delivery of the hub")),
        }
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.with(|phase| phase.wake(now, out))
    }

    fn drained(&mut self, _: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.with(|phase| {
            if let Phase::Bound(bound) = phase {
                bound.drained(out);
            }
        });
        Ok(())
    }

    fn silent(&mut self, _: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.with(|phase| phase.silent(out))
    }

    fn turn_away(&mut self, _: Now, away: TurnAway<'_>, out: &mut Out) {
        self.with(|phase| phase.turn_away(away, out));
    }

    fn closed(&mut self, _: Now, reason: CloseReason, out: &mut Out) {
        self.with(|phase| phase.closed(reason, out));
    }
}

/// Why no further packet is taken.
enum End {
    /// The peer's fault, which is sent to it.
    Fault(PacketFault),
    /// Anything else; what is to be said has been said.
    Close(CloseReason),
}

impl From<PacketFault> for End {
    fn from(fault: PacketFault) -> End {
        End::Fault(fault)
    }
}

/// Counts what was let pass.
fn tolerated(faults: FaultSet, out: &mut Out) {
    if faults.is_empty() {
        return;
    }
    for fault in faults.iter() {
        out.count(match fault {
            PacketFault::BridgeBit => TopicCounter::TolerateBridgeBit,
            PacketFault::ClientIdEmpty | PacketFault::ClientIdLong => {
                TopicCounter::TolerateClientId
            }
            PacketFault::HeaderFlags
            | PacketFault::SubscribeBits
            | PacketFault::ConnectFlag
            | PacketFault::WillFlags
            | PacketFault::DupAtQos0 => TopicCounter::TolerateFlags,
            PacketFault::Nul => TopicCounter::TolerateText,
            _ => TopicCounter::TolerateOther,
        });
    }
}

/// The broker said something that it cannot say in this state: a defect, and this connection's end.
fn unexpected(what: &'static str) -> CloseReason {
    base::never!(true, "{what}");
    CloseReason::Internal
}

#[cfg(test)]
pub(crate) mod tests;
