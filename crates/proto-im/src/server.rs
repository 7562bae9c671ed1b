//! The server's side of a connection: the seam where IM's frames become the model's words.
//!
//! ```text
//!           preface, Login           LoggedIn
//!   Fresh ─────────────────► Asked ───────────► Session ─► Goodbye, a fault, silence, End: the end
//!                  Challenge  │ ▲ Proceed
//!                             ▼ │
//! ```
//! While the service has the login, further input is left untaken: it is shown again after the
//! answer. So it is while a device has as many requests unanswered as it may. The service knows
//! what a device has read, and what waits for it. A logged-in device owns no heap here: [`Server`]
//! is twelve bytes, so that the record of a connection needs no more than for MIOP's sixteen.

pub mod carried;
mod chatrooms;
mod conversations;
mod counted;
mod groups;
mod login;
mod pages;
mod people;
mod pushes;
mod receipts;
mod session;
mod state;
mod tokens;
mod uploads;
mod words;

use crate::codec::server_frame::{EndFields, ServerFrame};
use crate::codec::{EndReason, WireFault};
use base::time::Now;
use login::Fresh;
use model::chat::{ChatDelivery, ChatRequest};
use model::close::CloseReason;
use model::id::SessionRef;
use model::link::Link;
use model::machine::{Input, Machine, Outbox, TurnAway};
use model::request::Refusal;
use model::service::{Delivery, Request};
use state::{Packed, Phase};
use std::sync::Arc;
use std::time::Duration;

type Out = Outbox<Request>;

/// Profile of a listener: what it sets for its connections of IM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImListener {
    /// Milliseconds from accept to a Login. Its answer has as long as the limits say.
    pub bind_ms_max: u32,
    /// The domain of accounts that log in without one.
    pub domain: Box<str>,
}

/// One connection's server machine.
pub struct Server(Packed);

const _: () = assert!(size_of::<Server>() <= 12, "an idle connection's machine is 12 bytes");

impl Server {
    /// A machine for a connection that was just accepted.
    pub const fn new(listener: Arc<ImListener>) -> Server {
        Server(Packed::new(listener))
    }

    /// The session that it has, for whoever looks on.
    pub fn session(&mut self) -> Option<SessionRef> {
        self.with(|phase| match phase {
            Phase::Session(session) => Some(session.session),
            _ => None,
        })
    }

    #[cfg(test)]
    fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    /// Works with the phase and puts it back.
    fn with<T>(&mut self, work: impl FnOnce(&mut Phase) -> T) -> T {
        let mut phase = self.0.take();
        let result = work(&mut phase);
        self.0 = Packed::of(phase);
        result
    }
}

impl Phase {
    fn opened(&mut self, now: Now, link: &Link, out: &mut Out) {
        let Phase::New(listener) = std::mem::replace(self, Phase::Over) else { return };
        let due = now.after(Duration::from_millis(u64::from(listener.bind_ms_max)));
        *self = Phase::Fresh(Box::new(Fresh::new(due, listener, link.peer)));
        out.wake(due);
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        let result = match self {
            Phase::Fresh(fresh) => match fresh.receive(now, input, out) {
                Ok(None) => Ok(()),
                Ok(Some(asked)) => {
                    *self = Phase::Asked(asked);
                    Ok(())
                }
                Err(end) => Err(end),
            },
            Phase::Asked(asked) => asked.receive(input, out),
            Phase::Session(session) => session.receive(input, out),
            Phase::New(_) | Phase::Over => Ok(()),
        };
        result.map_err(|end| end.say(out))
    }

    fn command(&mut self, now: Now, word: ChatDelivery, out: &mut Out) -> Result<(), CloseReason> {
        if let Phase::Session(session) = self {
            let is_over_rate = word.is_over_rate();
            session.tell(word, out)?;
            if is_over_rate {
                session.slows(now, out);
            }
            return Ok(());
        }
        let mut asked = match std::mem::replace(self, Phase::Over) {
            Phase::Asked(asked) => asked,
            other => {
                // It has gone on without the service, and says so itself.
                *self = other;
                return Ok(());
            }
        };
        match word {
            ChatDelivery::LoggedIn(accepted) => {
                *self = Phase::Session(asked.accepted(&accepted, out));
                Ok(())
            }
            ChatDelivery::Challenge(data) => {
                asked.challenge(&data, out);
                *self = Phase::Asked(asked);
                Ok(())
            }
            ChatDelivery::Refused(refused) => Err(login::refuse(&refused, out)),
            ChatDelivery::End(end) => {
                write_end(end.why.into(), 0, out);
                Err(end.reason)
            }
            _ => {
                *self = Phase::Asked(asked);
                Err(unexpected("a delivery before LoggedIn"))
            }
        }
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        let due = match self {
            Phase::Fresh(fresh) => fresh.due,
            Phase::Asked(asked) => asked.due,
            Phase::Session(session) => {
                session.woken(out);
                return Ok(());
            }
            Phase::New(_) | Phase::Over => return Ok(()),
        };
        if now.mono < due {
            out.wake(due);
            return Ok(());
        }
        write_end(EndReason::LoginTimeout, 0, out);
        Err(CloseReason::BindTimeout)
    }

    fn silent(&self, out: &mut Out) -> Result<(), CloseReason> {
        if matches!(self, Phase::Session(session) if session.is_held()) {
            return Ok(()); // it is not heard, which is not its fault
        }
        write_end(EndReason::Silence, 0, out);
        Err(CloseReason::KeepAliveTimeout)
    }

    fn turn_away(&self, away: TurnAway<'_>, out: &mut Out) {
        let server = away.server.map_or("", |it| it.address);
        let reason = match away.why {
            _ if !server.is_empty() => EndReason::UseAnother,
            Refusal::Draining => EndReason::ShuttingDown,
            _ => EndReason::Busy,
        };
        match self {
            Phase::Fresh(_) | Phase::Asked(_) => {
                login::write_refused(reason, away.retry_after_ms, server, out);
            }
            Phase::Session(_) => write_end_to(reason, away.retry_after_ms, server, out),
            Phase::New(_) | Phase::Over => {}
        }
    }

    fn closed(&mut self, reason: CloseReason, out: &mut Out) {
        match self {
            Phase::Asked(_) => out.say(ChatRequest::Gone),
            Phase::Session(session) => {
                out.say(ChatRequest::Closed { session: session.session, reason });
            }
            Phase::New(_) | Phase::Fresh(_) | Phase::Over => {}
        }
        *self = Phase::Over;
    }
}

impl Machine for Server {
    type Up = Request;
    type Down = Delivery;

    fn opened(&mut self, now: Now, link: &Link, out: &mut Out) -> Result<(), CloseReason> {
        self.with(|phase| phase.opened(now, link, out));
        Ok(())
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        let before = input.rest();
        let result = self.with(|phase| phase.receive(now, input, out));
        counted::taken(before, input, out);
        counted::sent(out);
        result
    }

    fn command(&mut self, now: Now, down: Delivery, out: &mut Out) -> Result<(), CloseReason> {
        let Delivery::Chat(word) = down else {
            return Err(unexpected("a delivery of another service"));
        };
        let result = self.with(|phase| phase.command(now, word, out));
        counted::sent(out);
        result
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        let result = self.with(|phase| phase.wake(now, out));
        counted::sent(out);
        result
    }

    fn silent(&mut self, _: Now, out: &mut Out) -> Result<(), CloseReason> {
        let result = self.with(|phase| phase.silent(out));
        counted::sent(out);
        result
    }

    fn turn_away(&mut self, _: Now, away: TurnAway<'_>, out: &mut Out) {
        self.with(|phase| phase.turn_away(away, out));
        counted::sent(out);
    }

    fn closed(&mut self, _: Now, reason: CloseReason, out: &mut Out) {
        self.with(|phase| phase.closed(reason, out));
    }
}

/// Why no further frame is taken.
enum End {
    /// The peer's fault, which is sent to it.
    Fault(WireFault),
    /// Anything else; what is to be said has been said.
    Close(CloseReason),
}

impl From<WireFault> for End {
    fn from(fault: WireFault) -> End {
        End::Fault(fault)
    }
}

impl End {
    /// Tells a peer its fault (IM 7.3); how the connection ends.
    fn say(self, out: &mut Out) -> CloseReason {
        match self {
            End::Fault(fault) => {
                let reason = fault.end_reason().number();
                let end = EndFields { reason, word: fault.name(), ..EndFields::default() };
                ServerFrame::End(end).write(out.bytes());
                fault.close_reason()
            }
            End::Close(reason) => reason,
        }
    }
}

fn write_end(reason: EndReason, retry_after_ms: u32, out: &mut Out) {
    write_end_to(reason, retry_after_ms, "", out);
}

/// Writes the end of the connection, with the server to use instead.
fn write_end_to(reason: EndReason, retry_after_ms: u32, server: &str, out: &mut Out) {
    let (reason, word) = (reason.number(), reason.name());
    let end = EndFields { reason, word, retry_after_ms, server };
    ServerFrame::End(end).write(out.bytes());
}

/// The service said something that it cannot say in this state: a defect, and this connection's
/// end.
fn unexpected(what: &'static str) -> CloseReason {
    base::never!(true, "{what}");
    CloseReason::Internal
}

#[cfg(test)]
pub(crate) mod tests;
