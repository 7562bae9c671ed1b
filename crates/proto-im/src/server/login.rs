//! From the first byte to LoggedIn (IM 1.1, 3).
//!
//! A Login is read where it arrives, to find the shard of its account, and again there. Input
//! behind it is left untaken until the service has answered; while the client has a challenge to
//! answer, only Proceed and Goodbye are taken.

use super::session::Session;
use super::{End, ImListener, Out, tokens};
use crate::codec::client_frame::{ClientFrame, LoginFields};
use crate::codec::server_frame::{EndFields, LoggedInFields, ServerFrame};
use crate::codec::{EndReason, WireFault, frame};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{ChatRequest, DEVICE_NAME_BYTES_MAX, LoggedIn, Login, LoginRefused};
use model::close::CloseReason;
use model::limits::Limits;
use model::link::Link;
use model::machine::Input;
use model::session::Denial;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Shortest silence that a device may wish, seconds: a shorter one would be traffic.
const SILENCE_S_MIN: u32 = 5;

/// No Login has been taken.
pub(super) struct Fresh {
    /// When it must have come.
    pub(super) due: Instant,
    listener: Arc<ImListener>,
    /// Address of the client, kept because later input does not name it.
    peer: SocketAddr,
    /// The preface has come.
    is_prefaced: bool,
    /// The Login asked for its home.
    is_homed: bool,
}

/// The Login was taken, and its answer is due.
pub(super) struct Asked {
    /// When the answer must have been given.
    pub(super) due: Instant,
    /// The client must answer a challenge before the service does.
    is_challenged: bool,
    is_held: bool,
    /// The server's terms, for the answer.
    terms: LoggedInFields<'static>,
}

impl Fresh {
    pub(super) fn new(due: Instant, listener: Arc<ImListener>, peer: SocketAddr) -> Fresh {
        Fresh { due, listener, peer, is_prefaced: false, is_homed: false }
    }

    /// Takes a Login if one has come, and asks the service.
    pub(super) fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<Option<Box<Asked>>, End> {
        if !self.is_prefaced {
            if !frame::preface(input.rest())? {
                return Ok(None);
            }
            input.take(frame::PREFACE.len());
            self.is_prefaced = true;
        }
        let bytes_max = input.limits.frame_bytes_unbound_max as usize;
        let Some((bytes, length)) = frame::split(input.rest(), bytes_max)? else {
            return Ok(None);
        };
        let login = match ClientFrame::read(bytes)? {
            ClientFrame::Login(login) => login,
            ClientFrame::Goodbye => return Err(End::Close(CloseReason::Unbound)),
            _ => return Err(WireFault::OutOfOrder.into()),
        };
        let account = AccountAddress::parse(login.name, &self.listener.domain);
        let is_device = (1..=DEVICE_NAME_BYTES_MAX).contains(&login.device.len());
        let (Ok(account), true) = (account, is_device) else {
            write_refused(EndReason::NameInvalid, 0, "", out);
            return Err(End::Close(CloseReason::AuthFailed));
        };
        if !self.is_homed {
            self.is_homed = true;
            out.home(&account.home_parts());
            return Ok(None);
        }
        input.take(length);
        let mac = (login.method == tokens::METHOD).then(|| tokens::mac_of(&login, &account));
        let words = words(&login, account, self.peer, input.link);
        let request = match mac {
            None => ChatRequest::Login(words),
            Some(Some(mac)) => tokens::redeeming(*words, mac),
            Some(None) => {
                write_refused(EndReason::BadCredentials, 0, "", out);
                return Err(End::Close(CloseReason::AuthFailed));
            }
        };
        let asked = Asked::of(now, &login, input);
        out.wake(asked.due);
        out.say(request);
        Ok(Some(Box::new(asked)))
    }
}

impl Asked {
    fn of(now: Now, login: &LoginFields<'_>, input: &Input<'_>) -> Asked {
        let longest = u32::from(input.limits.chat.silence_s_max);
        let wish = if login.silence_s == 0 { longest } else { login.silence_s };
        Asked {
            due: now.after(Duration::from_millis(u64::from(input.limits.bind_ms_max))),
            is_challenged: false,
            is_held: false,
            terms: terms(input.limits, wish.max(SILENCE_S_MIN).min(longest)),
        }
    }

    /// Holds back what comes while the service thinks; takes the answer to a challenge.
    pub(super) fn receive(&mut self, input: &mut Input<'_>, out: &mut Out) -> Result<(), End> {
        if !self.is_challenged {
            if !input.rest().is_empty() && !self.is_held {
                self.is_held = true;
                out.hold(true);
            }
            return Ok(());
        }
        let bytes_max = input.limits.frame_bytes_unbound_max as usize;
        let Some((bytes, length)) = frame::split(input.rest(), bytes_max)? else { return Ok(()) };
        match ClientFrame::read(bytes)? {
            ClientFrame::Proceed(data) => {
                self.is_challenged = false;
                out.say(ChatRequest::Proceed(data.into()));
                input.take(length);
                Ok(())
            }
            ClientFrame::Goodbye => Err(End::Close(CloseReason::Unbound)),
            _ => Err(WireFault::OutOfOrder.into()),
        }
    }

    /// The client must say more (IM 3.2).
    pub(super) fn challenge(&mut self, data: &[u8], out: &mut Out) {
        self.is_challenged = true;
        self.release(out);
        ServerFrame::Challenge(data).write(out.bytes());
    }

    /// The device has its session, and what waited for it may come (IM 3.3).
    pub(super) fn accepted(&mut self, accepted: &LoggedIn, out: &mut Out) -> Session {
        self.release(out);
        let data = accepted.data.as_deref().unwrap_or_default();
        let fields = LoggedInFields { data, ..logged_in(accepted, self.terms) };
        ServerFrame::LoggedIn(fields).write(out.bytes());
        out.silence(self.terms.silence_s * 1_500);
        Session::new(accepted.session)
    }

    fn release(&mut self, out: &mut Out) {
        if std::mem::take(&mut self.is_held) {
            out.hold(false);
        }
    }
}

/// The server's terms for a device that may be silent for so long.
pub(super) fn terms(limits: &Limits, silence_s: u32) -> LoggedInFields<'static> {
    let chat = &limits.chat;
    LoggedInFields {
        silence_s,
        page_messages_max: u32::from(chat.page_messages_max),
        text_bytes_max: chat.text_bytes_max,
        extra_bytes_max: chat.extra_bytes_max,
        requests_max: u32::from(chat.requests_a_session_max),
        file_bytes_max: limits.media.file_bytes_max,
        ..LoggedInFields::default()
    }
}

/// The answer to a device that has its session, on these terms.
pub(super) fn logged_in<'a>(
    accepted: &'a LoggedIn,
    terms: LoggedInFields<'a>,
) -> LoggedInFields<'a> {
    let &LoggedIn { head, cursor, server_ms, .. } = accepted;
    LoggedInFields { account: accepted.address.as_str(), head, cursor, server_ms, ..terms }
}

/// The service does not let it in; how the connection ends.
pub(super) fn refuse(refused: &LoginRefused, out: &mut Out) -> CloseReason {
    let server = refused.server.as_deref().unwrap_or_default();
    let reason = EndReason::from(refused.why);
    let (retry_after_ms, word) = (refused.retry_after_ms, reason.name());
    let fields = EndFields { reason: reason.number(), word, retry_after_ms, server };
    ServerFrame::Refused(fields).write(out.bytes());
    match refused.why {
        Denial::Busy | Denial::Rate | Denial::Unavailable => CloseReason::Busy,
        Denial::Full => CloseReason::Full,
        Denial::Quota | Denial::StoreFull | Denial::StoreFailed => CloseReason::Quota,
        Denial::ShuttingDown => CloseReason::Draining,
        Denial::UseAnother | Denial::Moved => CloseReason::Redirected,
        Denial::Banned => CloseReason::Banned,
        _ => CloseReason::AuthFailed,
    }
}

/// Appends a Refused (IM 3.4); `server`: the one to use instead, or empty.
pub(super) fn write_refused(reason: EndReason, retry_after_ms: u32, server: &str, out: &mut Out) {
    let (reason, word) = (reason.number(), reason.name());
    let refused = EndFields { reason, word, retry_after_ms, server };
    ServerFrame::Refused(refused).write(out.bytes());
}

/// A Login in the service's words.
fn words(
    login: &LoginFields<'_>,
    account: AccountAddress,
    peer: SocketAddr,
    link: &Link,
) -> Box<Login> {
    let some = |bytes: &[u8]| (!bytes.is_empty()).then(|| bytes.into());
    let method = (!login.method.is_empty()).then(|| (login.method.into(), login.data.into()));
    Box::new(Login {
        protocol: "im",
        account,
        device: login.device.into(),
        binds: false,
        password: some(login.password),
        method,
        certificate: link.tls.as_ref().and_then(|tls| tls.identity.clone()),
        bindings: None,
        peer,
        near: link.near,
        door: link.door,
        tls: link.tls.is_some(),
        crowded: link.crowded,
    })
}
