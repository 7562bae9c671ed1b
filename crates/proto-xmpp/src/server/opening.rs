//! From the first byte to a bound resource: streams, TLS, login (RFC 6120 4 to 7).
//!
//! Each stream begins with the client's header and the server's, and its features: TLS where the
//! listener has a certificate and TLS does not stand, and nothing else then; ways to log in; and
//! behind a login the binding of a resource. Invariant: what a client says is taken in order, and
//! nothing behind what the service has not answered.

use super::features::accounts::{is_private, stream_feature, wants_registration};
use super::inline::{self, Inline};
use super::login::{Login, bindings_of};
use super::session::Session;
use super::stream_management::acks;
use super::stream_management::resumption;
use super::{End, Out, XmppListener, unexpected};
use crate::fault::StreamFault;
use crate::jid;
use crate::stanza::{StanzaReply, kind};
use crate::stream::{self, BIND, FRAMING, LoginOffer, SASL2, SM, TLS};
use crate::xml::counted;
use crate::xml::framer::{Framer, StreamPiece};
use crate::xml::scan::{CLIENT, Element, Scan};
use crate::xml::text;
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatRequest, DEVICE_NAME_BYTES_MAX, Resumed};
use model::close::CloseReason;
use model::counters::ChatCounter;
use model::id::SessionRef;
use model::link::Link;
use model::machine::Input;
use model::ports::users::Registration;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A connection that is not bound to a resource.
pub(super) struct Opening {
    /// When it must be.
    pub(super) due: Instant,
    pub(super) listener: Arc<XmppListener>,
    /// The domain that the stream is for: the first of several, until it says so.
    pub(super) domain: Box<str>,
    /// Address of the client, kept because later input does not name it.
    pub(super) peer: SocketAddr,
    framer: Framer,
    pub(super) stage: Stage,
    /// The server's header of this stream was said.
    is_open: bool,
    /// Nothing is read from the connection for now.
    is_held: bool,
    /// The stream is in a WebSocket.
    pub(super) in_web_socket: bool,
    /// Whether the connection is encrypted, or from this machine.
    is_private: bool,
    /// Accounts that it has asked for.
    pub(super) registrations: u8,
    pub(super) login: Login,
    /// Requests along with the login, if it has some.
    pub(super) inline: Option<Box<Inline>>,
    /// Account that logged in, once the service has granted it.
    pub(super) granted: Option<Granted>,
}

/// Element that the stream waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The client's header.
    Header,
    /// A choice among the features.
    Features,
    /// The handshake.
    Tls,
    /// The first message of a mechanism that was chosen without one (RFC 6120 6.4.2).
    First,
    /// The service's answer to a login.
    Asked,
    /// The client's answer to a challenge.
    Challenged,
    /// The service's answer to a registration with this id.
    Registering(Box<str>),
    /// The service's answer to a binding with this id.
    Binding(Box<str>),
    /// The service's answer to a resumption by a client that has so many stanzas.
    Resuming(u32),
}

/// Client that may bind a resource.
pub(super) struct Granted {
    pub(super) session: SessionRef,
    pub(super) address: AccountAddress,
    pub(super) silence_s: u16,
}

impl Opening {
    pub(super) fn new(now: Now, listener: Arc<XmppListener>, link: &Link) -> Opening {
        Opening {
            due: now.after(Duration::from_millis(u64::from(listener.bind_ms_max))),
            domain: listener.domains.own.clone(),
            listener,
            peer: link.peer,
            framer: Framer::default(),
            stage: Stage::Header,
            is_open: false,
            is_held: false,
            in_web_socket: link.web_socket,
            is_private: is_private(link),
            registrations: 0,
            login: Login::default(),
            inline: None,
            granted: None,
        }
    }

    pub(super) fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), End> {
        self.is_private = is_private(input.link);
        loop {
            match self.stage {
                Stage::Tls => return Ok(()),
                Stage::Asked | Stage::Registering(_) | Stage::Binding(_) | Stage::Resuming(_) => {
                    if !input.rest().is_empty() && !self.is_held {
                        self.is_held = true;
                        out.hold(true);
                    }
                    return Ok(());
                }
                Stage::Header | Stage::Features | Stage::First | Stage::Challenged => {}
            }
            let bytes_max = match self.granted {
                Some(_) => input.limits.chat.stanza_bytes_max,
                None => input.limits.frame_bytes_unbound_max,
            };
            let is_header = self.stage == Stage::Header && !self.in_web_socket;
            let piece = self.framer.next(input.rest(), !is_header, bytes_max as usize)?;
            match piece {
                None => return Ok(()),
                Some(StreamPiece::Space(count)) => _ = input.take(count),
                Some(StreamPiece::Header(count)) => {
                    let scan = Scan::header(input.take(count))?;
                    self.is_for(stream::check(scan.root(), &self.listener.domains)?)?;
                    self.header(input.link, out)?;
                }
                Some(StreamPiece::Element(count)) if self.stage == Stage::Header => {
                    let scan = Scan::element(input.take(count))?;
                    self.is_for(stream::check_open(scan.root(), &self.listener.domains)?)?;
                    self.header(input.link, out)?;
                }
                Some(StreamPiece::Element(count)) => {
                    let scan = Scan::element(&input.rest()[..count])?;
                    if self.in_web_socket && scan.root().is("close", FRAMING) {
                        return Err(End::Farewell);
                    }
                    if !self.element(&scan.root(), (now, input), out)? {
                        return Ok(()); // it is shown again, at its home
                    }
                    counted::of_login(out);
                    input.take(count);
                }
                Some(StreamPiece::Close(count)) => {
                    return Err(closing(input.take(count)));
                }
            }
        }
    }

    /// A stream is for this domain: behind a login that of the account.
    fn is_for(&mut self, domain: Box<str>) -> Result<(), End> {
        let account = self.granted.as_ref().map(|granted| granted.address.domain());
        if account.is_some_and(|account| *account != *domain) {
            return Err(StreamFault::HostUnknown.into());
        }
        self.domain = domain;
        Ok(())
    }

    /// A stream begins (RFC 6120 4.3.1, 4.3.2).
    fn header(&mut self, link: &Link, out: &mut Out) -> Result<(), End> {
        counted::header(out);
        if link.crowded {
            return Err(StreamFault::ResourceConstraint.into());
        }
        self.open(out);
        self.stage = Stage::Features;
        if self.granted.is_some() {
            let capabilities = self.listener.advertised.stream_capabilities(self.has_accounts());
            stream::write_session_features(capabilities, out.bytes());
            return Ok(());
        }
        let offer = self.offer(link);
        stream::write_login_features(&offer, out.bytes());
        Ok(())
    }

    /// Writes the server's header, if that was not done.
    fn open(&mut self, out: &mut Out) {
        if std::mem::replace(&mut self.is_open, true) {
            return;
        }
        let id = out.secrets().number() as u64;
        stream::write_header(&self.domain, id, out.bytes());
    }

    /// Features to offer on such a link. Where TLS may begin it must, and only that is offered.
    fn offer(&self, link: &Link) -> LoginOffer {
        let may_start = link.tls.is_none() && link.may_start_tls;
        let mechanisms =
            if may_start { Vec::new() } else { self.listener.mechanisms(link, &self.domain) };
        let is_bound = mechanisms.iter().any(|mechanism| mechanism.is_bound());
        let bindings = if is_bound { bindings_of(link) } else { Vec::new() };
        let more = inline::offer(&mechanisms, self.listener.fast, link)
            + stream_feature(self.listener.registration, link);
        LoginOffer { tls: may_start, tls_required: may_start, mechanisms, bindings, more }
    }

    /// An element of the first level. False: it is left where it is.
    fn element(
        &mut self,
        element: &Element<'_, '_>,
        (now, input): (Now, &Input<'_>),
        out: &mut Out,
    ) -> Result<bool, End> {
        let is_stanza = element.namespace() == CLIENT
            && matches!(element.name(), "iq" | "message" | "presence");
        if self.granted.is_some() {
            return match is_stanza {
                true => self.bind(element, out).map(|()| true),
                false if element.is("resume", SM) => self.resume(element, out).map(|()| true),
                false if element.is("enable", SM) => {
                    acks::write_failed("unexpected-request", None, out);
                    Ok(true)
                }
                false => Err(StreamFault::UnsupportedStanzaType.into()),
            };
        }
        match element.namespace() {
            TLS if element.name() == "starttls" && self.stage == Stage::Features => {
                self.start_tls(input.link, out).map(|()| true)
            }
            crate::sasl::SASL if self.inline.is_none() => self.sasl(element, (now, input), out),
            SASL2 => self.sasl2(element, (now, input), out),
            // XEP-0198 3: to be had once a resource is bound, which is no fault of the stream.
            SM if matches!(element.name(), "enable" | "resume") => {
                acks::write_failed("unexpected-request", None, out);
                Ok(true)
            }
            _ if is_stanza && self.may_register(element) => {
                self.registers(element, input.link, out).map(|()| true)
            }
            _ if is_stanza => Err(StreamFault::NotAuthorized.into()),
            _ => Err(StreamFault::UnsupportedStanzaType.into()),
        }
    }

    /// Whether who logs in here may change its password, at least.
    pub(super) fn has_accounts(&self) -> bool {
        self.listener.registration != Registration::Off && self.is_private
    }

    /// Whether it is a question about an account, and may be asked now.
    fn may_register(&self, stanza: &Element<'_, '_>) -> bool {
        let is_open = self.listener.registration == Registration::Open;
        is_open && self.stage == Stage::Features && wants_registration(stanza)
    }

    fn start_tls(&mut self, link: &Link, out: &mut Out) -> Result<(), End> {
        if !link.may_start_tls {
            // RFC 6120 5.4.2.2: the failure is the stream's end.
            out.bytes().extend_from_slice(format!("<failure xmlns='{TLS}'/>").as_bytes());
            stream::write_end(out.bytes());
            return Err(End::Close(CloseReason::OutOfOrder));
        }
        out.bytes().extend_from_slice(format!("<proceed xmlns='{TLS}'/>").as_bytes());
        out.start_tls();
        self.stage = Stage::Tls;
        Ok(())
    }

    /// The handshake is over: another stream begins (RFC 6120 5.4.3.3).
    pub(super) fn tls_stands(&mut self, now: Now, out: &mut Out) {
        self.due = now.after(Duration::from_millis(u64::from(self.listener.bind_ms_max)));
        out.wake(self.due);
        self.begin_again();
    }

    fn begin_again(&mut self) {
        (self.stage, self.is_open) = (Stage::Header, false);
        self.framer.reset();
    }

    /// A resource is wanted (RFC 6120 7.6, 7.7). Nothing else is taken before.
    fn bind(&mut self, stanza: &Element<'_, '_>, out: &mut Out) -> Result<(), End> {
        let wanted = stanza.child("bind", BIND);
        let (id, is_set) = (stanza.attribute("id"), kind(stanza) == "set");
        let Some((wanted, id)) = wanted.zip(id).filter(|_| stanza.name() == "iq" && is_set) else {
            return Err(StreamFault::NotAuthorized.into());
        };
        let Some(granted) = &self.granted else { return Ok(()) };
        if id.len() > crate::stanza::ID_BYTES_MAX {
            return Err(StreamFault::PolicyViolation.into());
        }
        let resource = wanted.child("resource", BIND).map(|resource| resource.text());
        let device = resource.filter(|it| jid::is_plain_resource(it, DEVICE_NAME_BYTES_MAX));
        let device = device.map(|device| device.into());
        self.stage = Stage::Binding(id.into());
        out.say(ChatRequest::Bind { session: granted.session, device });
        Ok(())
    }

    /// Asks to resume a stream (XEP-0198 5). If it cannot, it binds anew.
    fn resume(&mut self, resume: &Element<'_, '_>, out: &mut Out) -> Result<(), End> {
        let Some(granted) = &self.granted else { return Ok(()) };
        let has = resumption::read_count(resume)?;
        let previous = resume.attribute("previd").unwrap_or_default();
        let Some(id) = resumption::read_id(previous.trim()) else {
            out.count(ChatCounter::Invalid);
            acks::write_failed("item-not-found", None, out);
            return Ok(());
        };
        self.stage = Stage::Resuming(has);
        out.say(ChatRequest::Resume { session: granted.session, id: Box::new(id) });
        Ok(())
    }

    /// The session that was goes on.
    fn resumed(&mut self, now: Now, it: Resumed, out: &mut Out) -> Result<Box<Session>, End> {
        let (Some(granted), &Stage::Resuming(has)) = (&self.granted, &self.stage) else {
            return Err(End::Close(unexpected("Resumed to nobody")));
        };
        let (mut session, waiting, head) = resumption::taken(it)?;
        let silence_s = granted.silence_s;
        let within = self.inline.take().map(|inline| inline.around_resumed(session.jid()));
        // From here on it is its own that ends.
        self.granted = None;
        session.is_over(silence_s, self.in_web_socket);
        session.is_by(&self.listener, (self.is_private, self.has_accounts()));
        self.release(out);
        if let Err(end) = session.resumes(now, (waiting, head), (has, within), out) {
            let session = session.session;
            out.say(ChatRequest::Closed { session, reason: end.reason() });
            return Err(end);
        }
        Ok(Box::new(session))
    }

    /// The service has something for the connection: with a session it is bound.
    pub(super) fn tell(
        &mut self,
        now: Now,
        word: ChatDelivery,
        out: &mut Out,
    ) -> Result<Option<Box<Session>>, End> {
        match word {
            ChatDelivery::LoggedIn(accepted) => {
                let silence_s = self.login.silence_s;
                out.silence(u32::from(silence_s) * 1_000);
                let (session, address) = (accepted.session, accepted.address);
                self.granted = Some(Granted { session, address, silence_s });
                if self.inline.is_some() {
                    self.goes_inline(accepted.data, out);
                    if self.stage != Stage::Features {
                        return Ok(None); // what it says besides waits for the rest
                    }
                } else {
                    self.login.write_success(accepted.data.as_deref(), out);
                    self.begin_again();
                }
            }
            ChatDelivery::Challenge(data) => {
                self.write_challenge(&data, out);
                self.stage = Stage::Challenged;
            }
            ChatDelivery::Refused(refused) => self.refused(&refused, out)?,
            ChatDelivery::Bound { device } => return self.bound(&device, out).map(Some),
            ChatDelivery::Token(answer) => {
                self.has_token(answer.outcome, out);
                if self.stage != Stage::Features {
                    return Ok(None);
                }
            }
            ChatDelivery::Book { answer, .. } if self.registered(&answer, out) => {}
            ChatDelivery::Resumed(it) => return self.resumed(now, *it, out).map(Some),
            ChatDelivery::NotResumed { handled } if self.inline.is_some() => {
                self.binds_instead(handled, out);
                if self.stage != Stage::Features {
                    return Ok(None);
                }
            }
            ChatDelivery::NotResumed { handled } => {
                self.stage = Stage::Features;
                acks::write_failed("item-not-found", handled, out);
            }
            ChatDelivery::End(end) => {
                return Err(End::Because(StreamFault::of(end.why), end.reason));
            }
            // It is asked for again once the client says that it is there.
            ChatDelivery::Message { .. }
            | ChatDelivery::Event { .. }
            | ChatDelivery::Notify { .. } => return Ok(None),
            // News of the moment are for devices that have a name.
            ChatDelivery::Delivered(_)
            | ChatDelivery::Transient(_)
            | ChatDelivery::RoomNews(_)
            | ChatDelivery::Aside(_)
            | ChatDelivery::Announcement(_)
            | ChatDelivery::ForDevice(..)
            | ChatDelivery::Contact(_)
            | ChatDelivery::Presence(_)
            | ChatDelivery::NodeNews(_)
            | ChatDelivery::Stanza(_) => return Ok(None),
            _ => return Err(End::Close(unexpected("a delivery before Bound"))),
        }
        self.release(out);
        Ok(None)
    }

    fn release(&mut self, out: &mut Out) {
        if std::mem::take(&mut self.is_held) {
            out.hold(false);
        }
    }

    fn bound(&mut self, device: &str, out: &mut Out) -> Result<Box<Session>, End> {
        let (Some(granted), Stage::Binding(id)) = (&self.granted, &self.stage) else {
            return Err(End::Close(unexpected("Bound to nobody")));
        };
        let jid = format!("{}/{device}", granted.address);
        if let Some(inline) = self.inline.take() {
            let mut session = inline.binds((granted, &jid), out);
            session.set(Session::IN_WEB_SOCKET, self.in_web_socket);
            session.is_by(&self.listener, (self.is_private, self.has_accounts()));
            self.release(out);
            return Ok(session);
        }
        let mut inner = format!("<bind xmlns='{BIND}'><jid>").into_bytes();
        text::put(&jid, &mut inner);
        inner.extend_from_slice(b"</jid></bind>");
        let inner = String::from_utf8_lossy(&inner);
        let reply = StanzaReply { name: "iq", from: None, to: &jid, id: Some(id) };
        reply.result(&inner, out.bytes());
        let mut session = Session::new(granted.session, &jid, granted.silence_s);
        session.set(Session::IN_WEB_SOCKET, self.in_web_socket);
        session.is_by(&self.listener, (self.is_private, self.has_accounts()));
        self.release(out);
        Ok(Box::new(session))
    }

    /// Writes why the stream ends (RFC 6120 4.9.1.1), and returns the reason for the connection.
    pub(super) fn end(&mut self, end: End, out: &mut Out) -> CloseReason {
        if !matches!(end, End::Close(_)) && self.stage != Stage::Tls {
            self.open(out);
        }
        match self.stage {
            Stage::Tls => end.reason(),
            _ => end.say(out),
        }
    }

    pub(super) fn closed(&self, reason: CloseReason, out: &mut Out) {
        match (&self.granted, &self.stage) {
            (Some(granted), _) => {
                out.say(ChatRequest::Closed { session: granted.session, reason });
            }
            (None, Stage::Asked | Stage::Challenged) => out.say(ChatRequest::Gone),
            (None, _) => {}
        }
    }
}

/// The end tag of a stream: that of the name it began with.
pub(super) fn closing(tag: &[u8]) -> End {
    let name = tag.strip_prefix(b"</").and_then(|rest| rest.strip_suffix(b">"));
    match name.map(<[u8]>::trim_ascii_end) == Some(b"stream:stream") {
        true => End::Farewell,
        false => StreamFault::NotWellFormed.into(),
    }
}
