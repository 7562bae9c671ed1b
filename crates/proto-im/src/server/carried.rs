//! Frames that travel one by one in messages of another protocol (IM 19).
//!
//! Frames and answers are the same as on a connection of their own: this is the same session,
//! without the stream around it. The carrier matches answers to requests by numbers of its own; the
//! device gets its own number back. Nothing is kept of a request here.

use super::session::{self, Session};
use super::{Out, login};
use crate::codec::client_frame::ClientFrame;
use crate::codec::server_frame::{FailedFields, ServerFrame};
use crate::codec::{WireFault, frame};
use model::chat::{ChatDelivery, ChatFault, LoggedIn};
use model::close::CloseReason;
use model::id::SessionRef;
use model::limits::Limits;
use model::timeline::Seq;

/// A device that has its session, whose frames another protocol carries.
pub struct CarriedSession(Session);

/// Result of a frame of the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CarriedFrame {
    /// The request is with the service, under the carrier's number; the device's own is this.
    Asked(u32),
    /// The frame is answered by this frame.
    Answered(Box<[u8]>),
    /// The frame was carried out, and has no answer.
    Taken,
}

impl CarriedSession {
    /// The session is this one.
    pub const fn new(session: SessionRef) -> CarriedSession {
        CarriedSession(Session::new(session))
    }

    /// The session.
    pub const fn session(&self) -> SessionRef {
        self.0.session
    }

    /// Takes what stands in a `ClientFrame`, and asks the service by this number.
    pub fn ask(
        &mut self,
        frame: &[u8],
        number: u32,
        out: &mut Out,
    ) -> Result<CarriedFrame, WireFault> {
        let request = ClientFrame::read(frame)?;
        if matches!(
            request,
            ClientFrame::Login(_)
                | ClientFrame::Proceed(_)
                | ClientFrame::Ping
                | ClientFrame::Goodbye
        ) {
            return Err(WireFault::OutOfOrder);
        }
        let (words, bytes) = (out.look_at_words().len(), out.bytes().len());
        self.0.take(&request, out).map_err(|_| WireFault::OutOfOrder)?;
        let answer = cut(bytes, out);
        if out.look_at_words().len() == words {
            return Ok(answer.map_or(CarriedFrame::Taken, CarriedFrame::Answered));
        }
        let asked = out.last_word().and_then(|word| match word {
            model::service::Request::Chat(asked) => asked.number_mut(),
            _ => None,
        });
        let own = asked.map(|asked| std::mem::replace(asked, number));
        Ok(own.map_or(CarriedFrame::Taken, CarriedFrame::Asked))
    }

    /// The service has something for the device: the `ServerFrame` that says it.
    pub fn tell(&mut self, word: ChatDelivery, out: &mut Out) -> Result<Box<[u8]>, CloseReason> {
        let bytes = out.bytes().len();
        self.0.tell(word, out)?;
        Ok(cut(bytes, out).unwrap_or_default())
    }
}

/// Takes back the frame that was written behind so many bytes, without its length.
fn cut(bytes: usize, out: &mut Out) -> Option<Box<[u8]>> {
    let written = out.bytes().split_off(bytes);
    unframed(&written)
}

fn unframed(written: &[u8]) -> Option<Box<[u8]>> {
    let (frame, _) = frame::split(written, written.len()).ok()??;
    Some(frame.into())
}

fn written(frame: &ServerFrame<'_>) -> Box<[u8]> {
    let mut bytes = Vec::new();
    frame.write(&mut bytes);
    unframed(&bytes).unwrap_or_default()
}

/// The `ServerFrame` that says why a request was not done, to the device's own number.
pub fn failed(number: u32, why: ChatFault, reason: &str) -> Box<[u8]> {
    written(&ServerFrame::Failed(FailedFields { reason, ..session::failed(number, why) }))
}

/// The `ServerFrame` that says that there is more in the inbox.
pub fn notify(head: Seq) -> Box<[u8]> {
    written(&ServerFrame::Notify(head))
}

/// The `ServerFrame` that says on which terms the device has its session. How long it may be silent
/// is the carrier's to agree on.
pub fn logged_in(accepted: &LoggedIn, limits: &Limits) -> Box<[u8]> {
    written(&ServerFrame::LoggedIn(login::logged_in(accepted, login::terms(limits, 0))))
}
