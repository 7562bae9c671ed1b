//! Logins by SASL (RFC 6120 6).
//!
//! The first message that says who somebody is is read where it arrives, to find the shard of the
//! account, and again there. A login that fails may be tried again, [`TRIES_MAX`] in all, as
//! somebody else too. Whether a proof is right is for the service to say.

use super::opening::{Opening, Stage};
use super::{End, Out, XmppListener};
use crate::external;
use crate::fault::StreamFault;
use crate::jid;
use crate::sasl::{self, Mechanism, SASL, SaslFailure, TRIES_MAX};
use crate::stream::SASL2;
use crate::xml::scan::Element;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{self, ChatRequest, LoginRefused};
use model::close::CloseReason;
use model::link::Link;
use model::machine::Input;
use model::ports::access::{ANONYMOUS, EXTERNAL};
use model::session::Denial;
use std::time::Duration;

/// The binding of TLS 1.3 (RFC 9266). Clients that know another one of TLS 1.2, which is not had
/// here, would take a login that may be bound for one that must be by theirs: it is offered where
/// this one is.
const EXPORTER: &str = "tls-exporter";

/// Channel bindings that a login over such a link may use.
pub(super) fn bindings_of(link: &Link) -> Vec<&'static str> {
    let bindings = link.tls.as_ref().and_then(|tls| tls.bindings.as_deref());
    let exporter = bindings.and_then(|it| it.exporter.as_ref()).map(|_| EXPORTER);
    let end_point = bindings.and_then(|it| it.end_point.as_ref()).map(|_| "tls-server-end-point");
    exporter.into_iter().chain(end_point).collect()
}

/// How far a login has come.
#[derive(Default)]
pub(super) struct Login {
    mechanism: Option<Mechanism>,
    /// Whether the connection has asked for the account's home shard.
    is_homed: bool,
    /// The name of a guest, until it is at home.
    guest: Option<AccountAddress>,
    /// Logins that failed.
    failed: u8,
    /// Longest silence of whoever is let in, seconds.
    pub(super) silence_s: u16,
}

impl XmppListener {
    /// Ways to log in over such a link, to a domain.
    pub(super) fn mechanisms(&self, link: &Link, domain: &str) -> Vec<Mechanism> {
        let is_bound = bindings_of(link).contains(&EXPORTER);
        let is_offered = |mechanism: &Mechanism| {
            let is_held = match mechanism {
                Mechanism::External => {
                    self.certificates && !external::accounts_of(link, domain).is_empty()
                }
                Mechanism::ScramSha256Plus | Mechanism::ScramSha256 => self.scram_sha_256,
                Mechanism::ScramSha1Plus | Mechanism::ScramSha1 => self.scram_sha_1,
                Mechanism::Plain => self.plain && link.tls.is_some(),
                Mechanism::Anonymous => self.guests,
            };
            is_held && (is_bound || !mechanism.is_bound())
        };
        sasl::MECHANISMS.into_iter().filter(is_offered).collect()
    }
}

impl Login {
    pub(super) fn write_success(&self, data: Option<&[u8]>, out: &mut Out) {
        let data = data.map(sasl::encoded).unwrap_or_default();
        let success = format!("<success xmlns='{SASL}'>{data}</success>");
        out.bytes().extend_from_slice(success.as_bytes());
    }
}

impl Opening {
    /// The namespace of the words in which this login is spoken of.
    fn sasl_namespace(&self) -> &'static str {
        if self.inline.is_some() { SASL2 } else { SASL }
    }

    pub(super) fn write_challenge(&self, data: &[u8], out: &mut Out) {
        // An empty challenge is an empty element (RFC 6120 6.4.3).
        let data = if data.is_empty() { String::new() } else { sasl::encoded(data) };
        let namespace = self.sasl_namespace();
        let challenge = format!("<challenge xmlns='{namespace}'>{data}</challenge>");
        out.bytes().extend_from_slice(challenge.as_bytes());
    }

    fn write_failure(&self, failure: SaslFailure, out: &mut Out) {
        let name = failure.name();
        let failure = match self.inline.is_some() {
            true => format!("<failure xmlns='{SASL2}'><{name} xmlns='{SASL}'/></failure>"),
            false => format!("<failure xmlns='{SASL}'><{name}/></failure>"),
        };
        out.bytes().extend_from_slice(failure.as_bytes());
    }

    /// An element of SASL. False: it is left where it is.
    pub(super) fn sasl(
        &mut self,
        element: &Element<'_, '_>,
        (now, input): (Now, &Input<'_>),
        out: &mut Out,
    ) -> Result<bool, End> {
        let result = match (element.name(), &self.stage) {
            ("auth", Stage::Features) => self.auth(element, (now, input), out),
            ("response", Stage::First) => match sasl::decoded(&element.text()) {
                Ok(data) => self.first(&data, (now, input), out),
                Err(failure) => Err(failure),
            },
            ("response", Stage::Challenged) => match sasl::decoded(&element.text()) {
                Ok(data) => {
                    self.stage = Stage::Asked;
                    out.say(ChatRequest::Proceed(data.into()));
                    Ok(true)
                }
                Err(failure) => Err(failure),
            },
            ("abort", Stage::First | Stage::Challenged) => Err(SaslFailure::Aborted),
            _ => Err(SaslFailure::MalformedRequest),
        };
        result.or_else(|failure| self.fails(failure, out).map(|()| true))
    }

    fn auth(
        &mut self,
        element: &Element<'_, '_>,
        (now, input): (Now, &Input<'_>),
        out: &mut Out,
    ) -> Result<bool, SaslFailure> {
        let name = element.attribute("mechanism").unwrap_or_default();
        self.begins((&name, &element.text()), (now, input), out)
    }

    /// A login begins, by a mechanism, perhaps with its first message.
    pub(super) fn begins(
        &mut self,
        (name, data): (&str, &str),
        (now, input): (Now, &Input<'_>),
        out: &mut Out,
    ) -> Result<bool, SaslFailure> {
        if input.link.tls.is_none() && input.link.may_start_tls {
            return Err(SaslFailure::EncryptionRequired);
        }
        let offered = self.listener.mechanisms(input.link, &self.domain);
        let mechanism = Mechanism::of(name).filter(|mechanism| offered.contains(mechanism));
        let mechanism = mechanism.ok_or(SaslFailure::InvalidMechanism)?;
        self.login.mechanism = Some(mechanism);
        if data.is_empty() {
            self.stage = Stage::First;
            self.write_challenge(&[], out);
            return Ok(true);
        }
        self.first(&sasl::decoded(data)?, (now, input), out)
    }

    /// The message that says who it is: it goes where that account is at home.
    fn first(
        &mut self,
        message: &[u8],
        (now, input): (Now, &Input<'_>),
        out: &mut Out,
    ) -> Result<bool, SaslFailure> {
        let mechanism = self.login.mechanism.ok_or(SaslFailure::InvalidMechanism)?;
        let domain = &self.domain;
        let (account, password, method) = match mechanism {
            Mechanism::External => {
                let account = external::account(message, input.link, domain)?;
                return Ok(self.is_certified(account, (now, input), out));
            }
            Mechanism::Anonymous => return Ok(self.is_guest((now, input), out)),
            Mechanism::Plain => {
                let (account, password) = sasl::plain(message, domain)?;
                (account, Some(password.into()), None)
            }
            Mechanism::ScramSha256Plus
            | Mechanism::ScramSha256
            | Mechanism::ScramSha1Plus
            | Mechanism::ScramSha1 => {
                let account = sasl::scram(message, domain)?;
                (account, None, Some((mechanism.name().into(), message.into())))
            }
        };
        if !self.is_at_home(&account, (now, input), out) {
            return Ok(false);
        }
        let login = chat::Login { password, method, ..self.words(account, input.link) };
        out.say(ChatRequest::Login(Box::new(login)));
        Ok(true)
    }

    /// Its certificate says who it is. False: it goes where that one is at home.
    fn is_certified(
        &mut self,
        account: AccountAddress,
        (now, input): (Now, &Input<'_>),
        out: &mut Out,
    ) -> bool {
        if !self.is_at_home(&account, (now, input), out) {
            return false;
        }
        let is_first = *account.domain() == *self.listener.domains.own;
        let user = if is_first { account.name() } else { account.as_str() }.into();
        let method = Some((EXTERNAL.into(), Box::default()));
        let words = self.words(account, input.link);
        let login = chat::Login { certificate: Some(user), method, ..words };
        out.say(ChatRequest::Login(Box::new(login)));
        true
    }

    /// Logs in as a guest under a random name; the client's message is ignored. False: the
    /// connection moves to the home shard of that name first.
    fn is_guest(&mut self, (now, input): (Now, &Input<'_>), out: &mut Out) -> bool {
        let guest = match self.login.guest.take() {
            Some(guest) => guest,
            None => {
                let name = format!("guest-{:032x}", out.secrets().number());
                match jid::account(&name, &self.domain) {
                    Some(guest) => guest,
                    None => return true,
                }
            }
        };
        if !self.is_at_home(&guest, (now, input), out) {
            self.login.guest = Some(guest);
            return false;
        }
        let method = Some((ANONYMOUS.into(), Box::default()));
        let login = chat::Login { method, ..self.words(guest, input.link) };
        out.say(ChatRequest::Login(Box::new(login)));
        true
    }

    /// Whether this is where an account is at home; it waits for an answer then. Else it goes
    /// there.
    pub(super) fn is_at_home(
        &mut self,
        account: &AccountAddress,
        (now, input): (Now, &Input<'_>),
        out: &mut Out,
    ) -> bool {
        if !std::mem::replace(&mut self.login.is_homed, true) {
            out.home(&account.home_parts());
            return false;
        }
        self.stage = Stage::Asked;
        self.login.silence_s = input.limits.chat.silence_s_max;
        self.due = now.after(Duration::from_millis(u64::from(self.listener.bind_ms_max)));
        out.wake(self.due);
        true
    }

    /// A login in the service's words, without its proof.
    pub(super) fn words(&self, account: AccountAddress, link: &Link) -> chat::Login {
        let is_bound = bindings_of(link).contains(&EXPORTER);
        chat::Login {
            protocol: "xmpp",
            account,
            device: Box::default(),
            binds: true,
            password: None,
            method: None,
            certificate: None,
            bindings: link.tls.as_ref().and_then(|tls| tls.bindings.clone()).filter(|_| is_bound),
            peer: self.peer,
            near: link.near,
            door: link.door,
            tls: link.tls.is_some(),
            crowded: link.crowded,
        }
    }

    /// The service does not let somebody in, for now or at all.
    pub(super) fn refused(&mut self, refused: &LoginRefused, out: &mut Out) -> Result<(), End> {
        self.stage = Stage::Features; // the service knows nothing of it any more
        let failure = SaslFailure::of(refused.why);
        let reason = match refused.why {
            Denial::Busy | Denial::Rate | Denial::Unavailable => CloseReason::Busy,
            Denial::Full => CloseReason::Full,
            Denial::Quota | Denial::StoreFull | Denial::StoreFailed => CloseReason::Quota,
            Denial::ShuttingDown => CloseReason::Draining,
            Denial::UseAnother | Denial::Moved => CloseReason::Redirected,
            Denial::Banned => CloseReason::Banned,
            _ => return self.fails(failure, out),
        };
        self.write_failure(failure, out);
        match &refused.server {
            Some(server) if reason == CloseReason::Redirected => Err(End::SeeOther(server.clone())),
            _ => Err(End::Because(StreamFault::of(refused.why), reason)),
        }
    }

    /// A login failed. Another may be tried (RFC 6120 6.4.5).
    pub(super) fn fails(&mut self, failure: SaslFailure, out: &mut Out) -> Result<(), End> {
        if self.stage == Stage::Challenged {
            out.say(ChatRequest::Gone);
        }
        self.stage = Stage::Features;
        (self.login.mechanism, self.login.is_homed) = (None, false);
        self.login.failed += 1;
        self.write_failure(failure, out);
        self.inline = None;
        match self.login.failed < TRIES_MAX {
            true => Ok(()),
            false => Err(End::Because(StreamFault::PolicyViolation, CloseReason::AuthFailed)),
        }
    }
}
