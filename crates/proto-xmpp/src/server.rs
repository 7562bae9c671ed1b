//! The server's side of a connection: the seam where XMPP's stanzas become the model's words.
//!
//! ```text
//!          header           starttls            auth             yes
//!   Header ──────► Features ────────► (TLS) ─┐   ──────► Asked ───────► Header ─► Features
//!                    ▲  ▲                    │             │ ▲                       │ bind
//!                    │  └────────────────────┘   challenge ▼ │ response              ▼
//!                    └───── no, a few times ────────────── Named                  Session
//! ```
//! Everything up to a session is [`Opening`](opening::Opening), in a box that goes with it. While
//! the service has a login, further input is left untaken: it is shown again after the answer. So
//! it is while a device has as many messages unanswered as it may. A bound device at rest has one
//! box of 64 bytes and its JID here; [`Server`] itself is twelve bytes.

mod archive;
mod busy;
mod feature;
mod features;
mod foreign;
mod handing;
mod inbox;
mod inline;
mod iq;
mod login;
mod messages;
mod nodes;
mod opening;
mod quiet;
pub(crate) mod receipts;
mod rooms;
pub use rooms::abroad;
mod session;
mod state;
mod stream_management;
mod web_socket;

pub(crate) use feature::claims;
pub use features::{Advertised, ExternalService, ServerContact, ServiceCredentials};
pub(crate) use features::{
    greeting, put_greeting, put_presence, put_show, read_availability, read_show,
};
pub(crate) use handing::sets_own_lists;
pub(crate) use iq::DISCO_INFO;
pub use iq::answer_for_domain;
pub(crate) use messages::echo::echo;
pub(crate) use nodes::moved;
pub use nodes::{BOOKMARKS, NodesQuestion};
pub(crate) use web_socket::put_standalone;

use crate::fault::StreamFault;
use crate::stream::{self, SM};
use crate::xml::counted;
use base::time::Now;
use model::chat::ChatDelivery;
use model::chat::foreign::ForeignDomains;
use model::close::CloseReason;
use model::id::SessionRef;
use model::link::{Link, StartTlsRefusal};
use model::machine::{Input, Machine, Outbox, TurnAway};
use model::ports::users::Registration;
use model::request::Refusal;
use model::service::{Delivery, Request};
use opening::{Opening, Stage};
use state::{Packed, Phase};
use std::sync::Arc;

type Out = Outbox<Request>;

/// Profile of a listener: what it sets for its connections of XMPP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XmppListener {
    /// Milliseconds from accept to a bound resource, TLS in between not counted.
    pub bind_ms_max: u32,
    /// The domains that are served, and those of others.
    pub domains: Arc<ForeignDomains>,
    /// Changes to accounts that clients may make.
    pub registration: Registration,
    /// SCRAM with SHA-256 is offered.
    pub scram_sha_256: bool,
    /// SCRAM with SHA-1 is offered.
    pub scram_sha_1: bool,
    /// PLAIN is offered, where TLS stands.
    pub plain: bool,
    /// EXTERNAL is offered, to whoever has shown a certificate that names an account.
    pub certificates: bool,
    /// ANONYMOUS is offered.
    pub guests: bool,
    /// Devices come back by tokens (XEP-0484) that stand for passwords of the book: where these
    /// are taken.
    pub fast: bool,
    /// Features and contacts that the server advertises.
    pub advertised: Arc<Advertised>,
}

/// One connection's server machine.
pub struct Server(Packed);

const _: () = assert!(size_of::<Server>() <= 12, "an idle connection's machine is 12 bytes");

impl Server {
    /// A machine for a connection that was just accepted.
    pub const fn new(listener: Arc<XmppListener>) -> Server {
        Server(Packed::new(listener))
    }

    /// The session that it has, for whoever looks on.
    pub fn session(&mut self) -> Option<SessionRef> {
        let phase = self.0.take();
        let session = match &phase {
            Phase::Session(session) => Some(session.session),
            _ => None,
        };
        self.0 = Packed::of(phase);
        session
    }

    /// Works with the phase and puts it back.
    fn with<T>(&mut self, out: &mut Out, work: impl FnOnce(&mut Phase, &mut Out) -> T) -> T {
        let mut phase = self.0.take();
        let result = work(&mut phase, out);
        if phase.is_in_web_socket() && !out.wire_is_empty() {
            web_socket::frame(out);
        }
        counted::sent(out);
        self.0 = Packed::of(phase);
        result
    }
}

impl Phase {
    fn is_in_web_socket(&self) -> bool {
        match self {
            Phase::Opening(opening) => opening.in_web_socket,
            Phase::Session(session) => session.has(session::Session::IN_WEB_SOCKET),
            Phase::New(_) | Phase::Over => false,
        }
    }

    fn opened(&mut self, now: Now, link: &Link, out: &mut Out) {
        let Phase::New(listener) = std::mem::replace(self, Phase::Over) else { return };
        let opening = Opening::new(now, listener, link);
        out.wake(opening.due);
        *self = Phase::Opening(Box::new(opening));
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        match self {
            Phase::Opening(opening) => {
                let result = opening.receive(now, input, out);
                result.map_err(|end| opening.end(end, out))
            }
            Phase::Session(session) => session.receive(now, input, out).map_err(|end| end.say(out)),
            Phase::New(_) | Phase::Over => Ok(()),
        }
    }

    fn command(&mut self, now: Now, word: ChatDelivery, out: &mut Out) -> Result<(), CloseReason> {
        match self {
            Phase::Opening(opening) => match opening.tell(now, word, out) {
                Ok(None) => Ok(()),
                Ok(Some(session)) => {
                    *self = Phase::Session(session);
                    Ok(())
                }
                Err(end) => Err(opening.end(end, out)),
            },
            Phase::Session(session) => session.tell(now, word, out).map_err(|end| end.say(out)),
            Phase::New(_) | Phase::Over => Ok(()),
        }
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        match self {
            // The handshake has a time of its own, and another begins behind it.
            Phase::Opening(opening) if opening.stage == Stage::Tls => Ok(()),
            Phase::Opening(opening) if now.mono < opening.due => {
                out.wake(opening.due);
                Ok(())
            }
            Phase::Opening(opening) => {
                let late = End::Because(StreamFault::ConnectionTimeout, CloseReason::BindTimeout);
                Err(opening.end(late, out))
            }
            Phase::Session(session) => {
                session.woken(now, out);
                Ok(())
            }
            Phase::New(_) | Phase::Over => Ok(()),
        }
    }

    fn turn_away(&mut self, away: TurnAway<'_>, out: &mut Out) {
        let end = match (away.server.filter(|it| it.denial.is_some()), away.why) {
            (Some(server), _) => End::SeeOther(server.address.into()),
            (None, Refusal::Draining) => {
                End::Because(StreamFault::SystemShutdown, CloseReason::Draining)
            }
            (None, _) => End::Because(StreamFault::ResourceConstraint, CloseReason::Busy),
        };
        match self {
            Phase::Opening(opening) => _ = opening.end(end, out),
            Phase::Session(_) => _ = end.say(out),
            Phase::New(_) | Phase::Over => {}
        }
    }

    fn closed(&mut self, reason: CloseReason, out: &mut Out) {
        match std::mem::replace(self, Phase::Over) {
            Phase::Opening(opening) => opening.closed(reason, out),
            Phase::Session(session) => session.ends(reason, out),
            Phase::New(_) | Phase::Over => {}
        }
    }
}

impl Machine for Server {
    type Up = Request;
    type Down = Delivery;

    fn opened(&mut self, now: Now, link: &Link, out: &mut Out) -> Result<(), CloseReason> {
        self.with(out, |phase, out| phase.opened(now, link, out));
        Ok(())
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        self.with(out, |phase, out| phase.receive(now, input, out))
    }

    fn command(&mut self, now: Now, down: Delivery, out: &mut Out) -> Result<(), CloseReason> {
        match down {
            Delivery::Chat(word) => self.with(out, |phase, out| phase.command(now, word, out)),
            _ => Err(unexpected("a delivery of another service")),
        }
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.with(out, |phase, out| phase.wake(now, out))
    }

    fn drained(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.with(out, |phase, out| {
            if let Phase::Session(session) = phase {
                session.drained(now, out);
            }
        });
        Ok(())
    }

    fn tls_started(
        &mut self,
        now: Now,
        link: Result<&Link, StartTlsRefusal>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        self.with(out, |phase, out| match (phase, link) {
            (Phase::Opening(opening), Ok(_)) => {
                opening.tls_stands(now, out);
                Ok(())
            }
            _ => Err(CloseReason::TlsFailed),
        })
    }

    fn silent(&mut self, _: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.with(out, |phase, out| match phase {
            Phase::Session(session) => session.silent(out).map_err(|end| end.say(out)),
            // Whoever is not bound has a time for that.
            _ => Ok(()),
        })
    }

    fn turn_away(&mut self, _: Now, away: TurnAway<'_>, out: &mut Out) {
        self.with(out, |phase, out| phase.turn_away(away, out));
    }

    fn closed(&mut self, _: Now, reason: CloseReason, out: &mut Out) {
        self.with(out, |phase, out| phase.closed(reason, out));
    }
}

/// Why no further stanza is taken.
#[derive(Debug)]
enum End {
    /// A fault that is counted by its own reason.
    Fault(StreamFault),
    /// A fault that is counted by another.
    Because(StreamFault, CloseReason),
    /// The client is to use this server instead (RFC 6120 4.9.3.19).
    SeeOther(Box<str>),
    /// The client has acknowledged more than it was sent (XEP-0198 6): so many, of so many.
    TooManyHandled(u32, u32),
    /// The client has closed its stream.
    Farewell,
    /// Anything else; what is to be said has been said.
    Close(CloseReason),
}

impl From<StreamFault> for End {
    fn from(fault: StreamFault) -> End {
        End::Fault(fault)
    }
}

impl End {
    /// How the connection ends.
    const fn reason(&self) -> CloseReason {
        match self {
            End::Fault(fault) => fault.close_reason(),
            End::TooManyHandled(..) => StreamFault::UndefinedCondition.close_reason(),
            End::Because(_, reason) | End::Close(reason) => *reason,
            End::SeeOther(_) => CloseReason::Redirected,
            End::Farewell => CloseReason::Unbound,
        }
    }

    /// Closes the stream in its own words (RFC 6120 4.4, 4.9); how the connection ends.
    fn say(self, out: &mut Out) -> CloseReason {
        match self {
            End::Fault(fault) | End::Because(fault, _) => {
                stream::write_fault(fault, "", out.bytes());
            }
            End::SeeOther(ref server) => stream::write_see_other(server, out.bytes()),
            End::TooManyHandled(handled, sent) => {
                let more = format!(
                    "<handled-count-too-high xmlns='{SM}' h='{handled}' send-count='{sent}'/>"
                );
                stream::write_fault_whole(
                    StreamFault::UndefinedCondition,
                    ("", &more),
                    out.bytes(),
                );
            }
            End::Farewell => stream::write_end(out.bytes()),
            End::Close(_) => {}
        }
        self.reason()
    }
}

/// The service said something that it cannot say in this state: a defect, and this connection's
/// end.
fn unexpected(what: &'static str) -> CloseReason {
    base::never!(true, "{what}");
    CloseReason::Internal
}

#[cfg(test)]
pub(crate) mod tests;
