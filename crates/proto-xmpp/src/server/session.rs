//! A bound device: its stanzas (RFC 6120 8, RFC 6121 4, 5).
//!
//! A device at rest costs this record of 64 bytes and its JID. Anything in progress (an incomplete
//! stanza, messages without an answer, an inbox that is behind) stands in [`Busy`], which goes when
//! nothing of it is left. Invariant: a message that was not stored is answered by an error with its
//! id; one that was is not answered.

use super::busy::Busy;
use super::feature;
use super::features;
use super::inbox::Reading;
use super::messages::told_of;
use super::opening::closing;
use super::stream_management::acks::Acks;
use super::{End, Out, XmppListener};
use crate::fault::{StanzaFault, StreamFault};
use crate::jid::{JID_BYTES_MAX, Jid};
use crate::render;
use crate::stanza::{ID_BYTES_MAX, StanzaReply, kind};
use crate::stream::FRAMING;
use crate::xml::counted;
use crate::xml::framer::StreamPiece;
use crate::xml::scan::{CLIENT, Element, Scan};
use base::time::Now;
use model::chat::foreign::ForeignDomains;
use model::chat::{ChatDelivery, REFUSED_PAUSE, SendRejected};
use model::close::CloseReason;
use model::id::SessionRef;
use model::limits::{ChatLimits, Limits};
use model::machine::Input;
use model::timeline::Seq;
use std::sync::Arc;

/// How long a device may take to answer a ping after its silence, milliseconds.
const PONG_MS: u32 = 30_000;

/// From here on numbers are those of questions of people and archives, below of messages.
const PEOPLE: u32 = 1 << 31;

/// A bound device.
pub(super) struct Session {
    /// Its full JID.
    jid: Box<str>,
    /// The session's record.
    pub(super) session: SessionRef,
    /// All of the inbox up to here was written, or is no stanza.
    pub(super) place: Seq,
    pub(super) busy: Option<Box<Busy>>,
    /// Acknowledgements, if the client wants them.
    pub(super) acks: Option<Box<Acks>>,
    /// Settings of its listener; `None`: its own domain is the only one.
    pub(super) listener: Option<Arc<XmppListener>>,
    /// Names that were made up for messages.
    pub(super) named: u32,
    silence_s: u16,
    /// See the constants of [`Session`].
    flags: u16,
}

const _: () = assert!(size_of::<Session>() <= 64, "what is kept of a device at rest");

impl Session {
    /// The device wants messages: it has sent presence, with a priority that is not negative.
    pub(super) const AVAILABLE: u16 = 1;
    /// The device wants copies of what others of its account send (XEP-0280).
    pub(super) const CARBONS: u16 = 2;
    /// The device was pinged.
    pub(super) const PINGED: u16 = 4;
    /// Nothing is read from the connection for now.
    pub(super) const HELD: u16 = 8;
    /// Its inbox is being read for it.
    pub(super) const READING: u16 = 16;
    /// The device's driver reports when everything is written.
    pub(super) const DRAINING: u16 = 32;

    /// Its stream is in a WebSocket.
    pub(super) const IN_WEB_SOCKET: u16 = 64;

    /// The device has asked for the roster, and gets its changes.
    pub(super) const FOLLOWS: u16 = 128;
    /// The device has asked for the block list, and gets its changes.
    pub(super) const BLOCKS: u16 = 256;
    /// The device has sent available presence, with whatever priority.
    pub(super) const THERE: u16 = 512;
    /// The end of a room's conversation is being read: what is placed meanwhile comes behind it.
    pub(super) const ENTERING: u16 = 1_024;
    /// The device is inactive: nobody looks at it (XEP-0352).
    pub(super) const INACTIVE: u16 = 2_048;
    /// The device exceeded its rate, and is not read for a while.
    pub(super) const SLOWED: u16 = 1 << 12;
    /// The device may at least change its account's password here.
    pub(super) const ACCOUNTS: u16 = 1 << 14;
    /// Its connection is encrypted, or of this machine.
    pub(super) const PRIVATE: u16 = 1 << 15;

    pub(super) fn new(session: SessionRef, jid: &str, silence_s: u16) -> Session {
        Session {
            jid: jid.into(),
            session,
            place: 0,
            busy: None,
            acks: None,
            listener: None,
            named: 0,
            silence_s,
            flags: 0,
        }
    }

    /// Sets the listener by which it came, whether its connection is private, and whether it may
    /// change its password.
    pub(super) fn is_by(
        &mut self,
        listener: &Arc<XmppListener>,
        (is_private, accounts): (bool, bool),
    ) {
        self.listener = Some(listener.clone());
        self.set(Session::PRIVATE, is_private);
        self.set(Session::ACCOUNTS, accounts);
    }

    /// Moves the session to another connection.
    pub(super) fn is_over(&mut self, silence_s: u16, in_web_socket: bool) {
        self.silence_s = silence_s;
        self.set(Session::IN_WEB_SOCKET, in_web_socket);
    }

    /// Its full JID.
    pub(super) fn jid(&self) -> &str {
        &self.jid
    }

    /// Its account.
    pub(super) fn account(&self) -> &str {
        self.jid.split_once('/').map_or(&self.jid, |(bare, _)| bare)
    }

    /// The name of the device.
    pub(super) fn resource(&self) -> &str {
        self.jid.split_once('/').map_or("", |(_, resource)| resource)
    }

    /// The domain of its account.
    pub(super) fn domain(&self) -> &str {
        self.account().split_once('@').map_or("", |(_, domain)| domain)
    }

    pub(super) const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn set(&mut self, flag: u16, on: bool) {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
    }

    pub(super) fn busy(&mut self) -> &mut Busy {
        self.busy.get_or_insert_default()
    }

    /// Gives back what is only needed while something is under way.
    pub(super) fn rest(&mut self) {
        let is_reading = self.has(Session::READING);
        let place = self.place;
        self.busy.take_if(|busy| {
            if busy.waiting() == 0 {
                busy.echoes.clear();
            }
            busy.rooms.take_if(|rooms| rooms.is_empty());
            let has_none = busy.rooms.is_none() && busy.quiet.is_empty() && busy.awaited.is_empty();
            let has_none = has_none && busy.archives_elsewhere.is_empty();
            let has_none = has_none && busy.addressed.is_empty();
            let has_none = has_none && busy.commands.is_empty();
            let is_at_rest = busy.waiting() == 0 && busy.head <= place && has_none;
            !is_reading && busy.framer.is_between() && is_at_rest
        });
    }

    pub(super) fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), End> {
        if self.has(Session::PINGED) {
            self.set(Session::PINGED, false);
            out.silence(u32::from(self.silence_s) * 1_000);
        }
        let bytes_max = input.limits.chat.stanza_bytes_max as usize;
        let requests_max = usize::from(input.limits.chat.requests_a_session_max);
        self.marks(out);
        let limits = input.limits;
        while !input.rest().is_empty() {
            let is_resuming = self.is_resuming();
            let busy = self.busy();
            if is_resuming || busy.waiting() >= requests_max {
                self.hold(out);
                break;
            }
            match busy.framer.next(input.rest(), true, bytes_max)? {
                None => break,
                Some(StreamPiece::Space(count)) => _ = input.take(count),
                Some(StreamPiece::Element(count)) => {
                    let scan = Scan::element(&input.rest()[..count])?;
                    if self.comes_behind(&scan.root()) {
                        self.hold(out);
                        break; // it is shown again
                    }
                    self.stanza(now, limits, scan.root(), out)?;
                    input.take(count);
                }
                Some(StreamPiece::Close(count)) => return Err(closing(input.take(count))),
                Some(StreamPiece::Header(_)) => return Err(StreamFault::BadFormat.into()),
            }
        }
        self.settles(now, out);
        self.rest();
        Ok(())
    }

    fn hold(&mut self, out: &mut Out) {
        if !self.has(Session::HELD) {
            self.set(Session::HELD, true);
            out.hold(true);
        }
    }

    fn stanza(
        &mut self,
        now: Now,
        limits: &Limits,
        stanza: Element<'_, '_>,
        out: &mut Out,
    ) -> Result<(), End> {
        counted::element(&stanza, out);
        if stanza.namespace() != CLIENT {
            if self.has(Session::IN_WEB_SOCKET) && stanza.is("close", FRAMING) {
                return Err(End::Farewell);
            }
            return match feature::elements(stanza.namespace()) {
                Some(it) => (it.take)(self, &limits.chat, &stanza, out),
                None => Err(StreamFault::UnsupportedStanzaType.into()),
            };
        }
        if let Some(from) = stanza.attribute("from")
            && !self.is_own(&from)
        {
            return Err(StreamFault::InvalidFrom.into());
        }
        self.counts_received();
        self.keeps_for_echo(&stanza);
        match stanza.name() {
            "message" => self.message(now, &stanza, out),
            "presence" => {
                self.presence(now, &limits.chat, &stanza, out);
            }
            "iq" => self.iq(now, limits.media.file_bytes_max, &stanza, out),
            _ => return Err(StreamFault::UnsupportedStanzaType.into()),
        }
        Ok(())
    }

    /// Whether this is its own address, full or bare (RFC 6120 8.1.2.1).
    pub(super) fn is_own(&self, from: &str) -> bool {
        let Some(jid) = Jid::parse(from) else { return false };
        let is_account = jid.account.is_some_and(|account| account.as_str() == self.account());
        is_account && jid.resource.is_none_or(|resource| *resource == *self.resource())
    }

    /// Which domains are whose.
    pub(super) fn domains(&self) -> Option<&ForeignDomains> {
        self.listener.as_ref().map(|listener| &*listener.domains)
    }

    /// Whether a domain is served here: its own, or one beside that.
    pub(super) fn is_here(&self, domain: &str) -> bool {
        *domain == *self.domain() || self.domains().is_some_and(|it| it.is_own(domain))
    }

    /// Whether others serve their domains, and are spoken with.
    pub(super) fn federates(&self) -> bool {
        self.domains().is_some_and(|domains| domains.is_any())
    }

    /// Whether an address is at a service: the domain begins with its name, before one that is
    /// served here.
    pub(super) fn is_at(&self, jid: &Jid, service: &str) -> bool {
        jid.domain.strip_prefix(service).is_some_and(|rest| self.is_here(rest))
    }

    /// Why nobody is reached at a domain.
    pub(super) fn nobody_at(&self, domain: &str) -> StanzaFault {
        match self.is_here(domain) {
            true => StanzaFault::ServiceUnavailable,
            false => StanzaFault::RemoteServerNotFound,
        }
    }

    /// Answers a stanza by an error: its id, and to whom it was.
    pub(super) fn refuse(
        &mut self,
        name: &str,
        (id, to): (Option<&str>, Option<&str>),
        fault: StanzaFault,
        out: &mut Out,
    ) {
        self.refuse_saying(name, (id, to), (fault, ""), out);
    }

    /// Refuses a stanza with a text for people.
    pub(super) fn refuse_saying(
        &mut self,
        name: &str,
        (id, to): (Option<&str>, Option<&str>),
        (fault, told): (StanzaFault, &str),
        out: &mut Out,
    ) {
        // What is too long for an address is not said back, six times as long when it is escaped.
        let from = to.filter(|to| to.len() <= JID_BYTES_MAX);
        let echo = self.echo_of(name, id);
        let reply = StanzaReply { name, from, to: &self.jid, id };
        reply.error_whole(&echo, fault, (told, ""), out.bytes());
        self.counts_sent(out);
    }

    /// The device says whether it is there (RFC 6121 4.2, 4.5), or something of a subscription (3).
    fn presence(
        &mut self,
        now: Now,
        limits: &ChatLimits,
        presence: &Element<'_, '_>,
        out: &mut Out,
    ) {
        let (id, to) = (presence.attribute("id"), presence.attribute("to"));
        let kind = kind(presence);
        if self.tells_elsewhere(presence, out) || matches!(&*kind, "error" | "probe") {
            return; // homes ask each other themselves
        }
        if matches!(&*kind, "" | "unavailable")
            && let Some(jid) = to.as_deref().and_then(Jid::parse)
            && self.is_of_rooms(&jid)
        {
            return self.presence_in_room(now, (&jid, limits), presence, out);
        }
        if matches!(&*kind, "" | "unavailable")
            && let Some(jid) = to.as_deref().and_then(Jid::parse)
            && self.is_live(&jid)
        {
            return self.presence_in_live(&jid, presence, out);
        }
        if let Some(verb) = features::says(presence) {
            return self.says_of(presence, verb, out);
        }
        if let Some(to) = to.as_deref() {
            let jid = Jid::parse(to);
            let says = jid.as_ref().filter(|_| matches!(&*kind, "" | "unavailable"));
            if says.is_some_and(|jid| self.directs(presence, jid, out)) {
                return;
            }
            let fault = match (jid, &*kind) {
                (_, "unavailable") => return,
                (None, _) => StanzaFault::JidMalformed,
                (Some(jid), "") => self.nobody_at(&jid.domain),
                (Some(_), _) => StanzaFault::FeatureNotImplemented,
            };
            return self.refuse("presence", (id.as_deref(), Some(to)), fault, out);
        }
        match &*kind {
            "" => self.is_there(presence, out),
            "unavailable" => {
                self.set(Session::AVAILABLE, false);
                // It is told of nobody any more.
                self.busy().quiet.clear();
                self.busy().quiet_rooms.clear();
                self.leaves_rooms(out);
                self.says_presence(presence, false, out);
            }
            _ => {
                let about = (id.as_deref(), to.as_deref());
                self.refuse("presence", about, StanzaFault::BadRequest, out);
            }
        }
    }

    fn is_there(&mut self, presence: &Element<'_, '_>, out: &mut Out) {
        let priority = presence.child("priority", CLIENT).map(|it| it.text().trim().parse::<i8>());
        let wants = !matches!(priority, Some(Ok(..0)));
        // Its own presence is told to whoever of the account is there (RFC 6121 4.2.2).
        let mut echo = Vec::new();
        for child in presence.children() {
            echo.extend_from_slice(child.whole().as_bytes());
        }
        let id = presence.attribute("id");
        let head = StanzaReply {
            name: "presence",
            from: Some(&self.jid),
            to: &self.jid,
            id: id.as_deref().filter(|id| id.len() <= ID_BYTES_MAX),
        };
        head.open("", out.bytes());
        render::put_prefixes(presence, out.bytes());
        out.bytes().append(&mut echo);
        head.close(out.bytes());
        self.counts_sent(out);
        let was = self.has(Session::AVAILABLE);
        self.set(Session::AVAILABLE, wants);
        if !wants {
            self.leaves_rooms(out); // nothing of its inbox comes any more
        }
        self.says_presence(presence, true, out);
        self.says_profile(presence, out);
        if wants && !was {
            self.read_inbox(out);
        }
    }

    /// A message was not taken, or an order to a room.
    fn rejected(&mut self, now: Now, rejected: &SendRejected, out: &mut Out) {
        if !self.room_failed(now, (rejected.number, rejected.why), out) {
            let told = told_of(rejected);
            self.answered(rejected.number, Some((rejected.why, &told)), out);
        }
    }

    /// The service has something for the device.
    pub(super) fn tell(&mut self, now: Now, word: ChatDelivery, out: &mut Out) -> Result<(), End> {
        self.marks(out);
        let is_over_rate = word.is_over_rate();
        match word {
            ChatDelivery::Sent { .. } if self.room_told(now, &word, out) => {}
            ChatDelivery::Sent { number, seq, again, .. } => {
                self.is_stored(number, seq);
                if again {
                    self.was_said(now, (number, seq), out);
                }
                self.answered(number, None, out);
            }
            ChatDelivery::Failed { number, why } => match number {
                Reading::NUMBER => self.reading_failed(now, out),
                number if self.people_done(number, Some(why), out) => {}
                number if self.archive_failed(number, why, out) => {}
                number if self.marked(number, out) => {}
                number if self.upload_failed(now, (number, why), out) => {}
                number if self.room_failed(now, (number, why), out) => {}
                number if self.live_done(number, Some(why), out) => {}
                number => self.answered(number, Some((why, "")), out),
            },
            ChatDelivery::Rejected(rejected) => self.rejected(now, &rejected, out),
            ChatDelivery::Book { number, answer } => self.book_told((number, *answer), out),
            ChatDelivery::Upload { number, slot } => self.slot(number, &slot, out),
            ChatDelivery::Done { .. } if self.room_told(now, &word, out) => {}
            ChatDelivery::Done { number } => self.done(number, out),
            ChatDelivery::ChatroomJoined(joined) => self.live_joined(now, &joined, out),
            ChatDelivery::ChatroomSaid(said) => self.live_said(&said, out),
            ChatDelivery::ChatroomMissed(missed) => self.live_missed(&missed, out),
            ChatDelivery::ChatroomNews(news) => self.live_news(&news, out),
            // The code that was pushed to the device is wanted.
            ChatDelivery::PushCode { number } => {
                self.people_done(number, Some(model::chat::ChatFault::BadCode), out);
            }
            ChatDelivery::Contacts(list) => self.contacts(&list, out),
            ChatDelivery::Contact(change) => self.contact_changed(&change, out),
            ChatDelivery::Presence(presence) => self.hears_of(*presence, out),
            ChatDelivery::Nodes(answer) => self.nodes_told(*answer, out),
            ChatDelivery::NodeNews(news) => self.node_news(&news, out),
            ChatDelivery::Stanza(xml) => self.hears_from_elsewhere(&xml, out),
            ChatDelivery::ProfileWanted { profile } => self.asks_profile(&profile, out),
            ChatDelivery::Standing { cursor, head, .. } => self.standing(cursor, head, out),
            ChatDelivery::Page(page) => self.page(&page, out),
            ChatDelivery::Archive(page) => self.archive_page(*page, out),
            ChatDelivery::Message { seq, message } => self.delivered(seq, Some(&message), out),
            ChatDelivery::Event { seq, event } => {
                self.delivered(seq, None, out);
                self.happens(&event, out);
            }
            ChatDelivery::Transient(transient) => self.write_transient(&transient, out),
            ChatDelivery::ForDevice(seq, message) => self.addressed(seq, &message, out),
            ChatDelivery::Announcement(it) => self.write_announcement(&it, out),
            ChatDelivery::RoomNews(news) => self.room_news(now, news, out),
            ChatDelivery::Aside(aside) => self.write_aside(&aside, out),
            ChatDelivery::Notify { head } => self.notified(head, out),
            ChatDelivery::End(end) => {
                return Err(End::Because(StreamFault::of(end.why), end.reason));
            }
            ChatDelivery::Yield => return Err(StreamFault::Conflict.into()),
            ChatDelivery::History(page) if self.finds(&page, out) => {}
            word if self.receipt_told(&word, out) || self.room_told(now, &word, out) => {}
            _ => return Err(End::Close(super::unexpected("an answer that nobody asked for"))),
        }
        self.settles(now, out);
        self.rest();
        if is_over_rate {
            self.slows(now, out);
        }
        Ok(())
    }

    /// Handles `Done`: a stanza has reached a device, or a request about a chatroom or people was
    /// carried out.
    fn done(&mut self, number: u32, out: &mut Out) {
        if self.has_sent(number) {
            self.answered(number, None, out);
        } else if !self.live_done(number, None, out) {
            self.people_done(number, None, out);
        }
    }

    /// Stops reading a device that exceeds its rate, for a while.
    fn slows(&mut self, now: Now, out: &mut Out) {
        self.hold(out);
        self.set(Session::SLOWED, true);
        // The last of this call: it replaces what was asked for before, which a wake arms anew.
        out.wake(now.after(REFUSED_PAUSE));
    }

    /// A time has come.
    pub(super) fn woken(&mut self, now: Now, out: &mut Out) {
        self.marks(out);
        if self.has(Session::SLOWED) {
            self.set(Session::SLOWED, false);
            self.releases(out);
        }
        self.pull_again(out);
        self.settles(now, out);
    }

    /// Drops what came in parts: none of it will be whole.
    pub(super) fn stops_hearing(&mut self) {
        if let Some(busy) = &mut self.busy {
            busy.framer.reset();
        }
    }

    /// Reads the stream again, once an answer has made room for requests.
    pub(super) fn releases(&mut self, out: &mut Out) {
        if self.has(Session::HELD) && !self.has(Session::SLOWED) {
            self.set(Session::HELD, false);
            out.hold(false);
        }
    }

    /// Draws so many numbers for requests about people or archives, and returns the first.
    pub(super) fn numbers(&mut self, count: u32) -> u32 {
        let busy = self.busy();
        let first = PEOPLE + busy.asked;
        busy.asked = (busy.asked + count) % (PEOPLE / 2);
        first
    }

    /// A number for what the server itself asks.
    pub(super) fn name_one(&mut self) -> u32 {
        self.named = self.named.wrapping_add(1);
        self.named
    }

    /// Handles a long silence: asks the client once whether it is there.
    pub(super) fn silent(&mut self, out: &mut Out) -> Result<(), End> {
        if self.has(Session::HELD) {
            return Ok(()); // it is not heard, which is not its fault
        }
        if self.has(Session::PINGED) {
            let fault = StreamFault::ConnectionTimeout;
            return Err(End::Because(fault, CloseReason::KeepAliveTimeout));
        }
        self.set(Session::PINGED, true);
        self.marks(out);
        self.write_ping(out);
        out.silence(u32::from(self.silence_s) * 1_000 + PONG_MS);
        Ok(())
    }
}
