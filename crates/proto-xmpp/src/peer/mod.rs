//! Streams with other servers and with components, as pure machines.
//!
//! [`incoming`] is a stream that another server has begun: by dialback (XEP-0220) or its
//! certificate (XEP-0178) it shows that it is of a domain, and what it says then is of that domain.
//! [`outgoing`] is one that is begun here, to say something and to ask whether somebody is who it
//! says. [`component`] is one of a service of its own domain beside this server (XEP-0114). They
//! know no account and no other stream: what has to be asked elsewhere they say as a [`PeerWord`],
//! and hear as a [`PeerOrder`]. Invariant: a stanza is handed up only if its sender's domain has
//! been shown on that stream.

mod certificate;
pub mod component;
mod counting;
pub mod dialback;
pub mod incoming;
pub mod outgoing;
mod pace;
pub mod pushes;
pub mod stanzas;
mod wire;

use crate::fault::StreamFault;
use crate::stream;
use crate::xml::framer::{Framer, StreamPiece};
use crate::xml::scan::{Element, Scan};
use base::time::{Instant, Now};
use component::ComponentStream;
use dialback::DialbackSecret;
use incoming::IncomingStream;
use model::chat::foreign::ForeignDomains;
use model::close::CloseReason;
use model::link::{Link, Protocol, Source, StartTlsRefusal, WireProfile};
use model::machine::{Input, Machine, Outbox, TurnAway};
use outgoing::OutgoingStream;
use pace::ReadPace;
use std::sync::Arc;
use std::time::Duration;

/// Profile of these streams for the transport.
pub const PEER_WIRE: WireProfile = WireProfile {
    protocol: Protocol::Xmpp,
    begins: |bytes| bytes[0] == b'<',
    begins_alone: |bytes| bytes[0].is_ascii_whitespace(),
    alpn: &["xmpp-server"],
    subprotocols: &[],
    frames: crate::WIRE.frames,
    asks_tls: true,
    text_messages: false,
};

/// Settings that all of these streams share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerProfile {
    /// Our domain of rooms, which other servers speak with by itself.
    pub rooms: Box<str>,
    /// Components by their domains, with their secrets.
    pub components: Vec<(Box<str>, ComponentSecret)>,
    /// Which domains are whose.
    pub domains: Arc<ForeignDomains>,
    /// Servers of which domains are spoken with.
    pub peers: PeerDomains,
    /// Of the keys of dialback.
    pub secret: DialbackSecret,
    /// Whether stanzas are exchanged with a server only within TLS.
    pub requires_tls: bool,
    /// A server is who its certificate says, and nobody without one.
    pub requires_certificates: bool,
    /// Domains of ours of which there is a certificate to show.
    pub certified: Box<[Box<str>]>,
    /// Milliseconds until a stream must be of a domain.
    pub begin_ms_max: u32,
    /// Seconds after which a stream ends on which nothing is said.
    pub idle_s_max: u32,
    /// Milliseconds until another server that counts must have said that it has what was said.
    pub acknowledged_ms_max: u32,
    /// Bytes a second that are read of a stream of another server or a component; 0: any.
    pub stream_bytes_per_s: u32,
}

/// Domains whose servers are spoken with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerDomains {
    /// Domains that are allowed; none: all.
    pub allow: Box<[Box<str>]>,
    /// Domains that are denied.
    pub deny: Box<[Box<str>]>,
}

impl PeerDomains {
    /// Whether a domain is among them.
    pub fn has(&self, domain: &str) -> bool {
        let is_in = |list: &[Box<str>]| list.iter().any(|it| **it == *domain);
        !is_in(&self.deny) && (self.allow.is_empty() || is_in(&self.allow))
    }
}

impl PeerProfile {
    /// Whether a server may be of a domain, however it shows that: one that is spoken with, and
    /// that is neither ours nor a component's.
    pub fn may_be(&self, domain: &str) -> bool {
        let domains = &self.domains;
        domains.is_foreign(domain) && !domains.is_component(domain) && self.peers.has(domain)
    }

    /// Whether a domain is one that is served here.
    pub fn is_ours(&self, domain: &str) -> bool {
        self.domains.is_own(domain) || *domain == *self.rooms
    }
}

/// Two domains between which something is said.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DomainPair {
    /// One that is served here.
    pub own: Box<str>,
    /// One that is served elsewhere.
    pub peer: Box<str>,
}

/// The secret that a component shares with this server. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ComponentSecret(pub Box<str>);

impl std::fmt::Debug for ComponentSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ComponentSecret(…)")
    }
}

/// Message of a stream to its driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerWord {
    /// The component of this domain is there, on the stream with this number.
    Component(Box<str>, u64),
    /// A stanza of a domain that was shown.
    Stanza {
        /// That domain.
        from: Box<str>,
        /// The stanza.
        xml: Box<[u8]>,
        /// Its place, if the other server gets acknowledgements ([`PeerOrder::Taken`]).
        place: Option<StreamPlace>,
    },
    /// The peer presents a key as proof of its domain, to be verified. Answered by
    /// [`PeerOrder::Shown`].
    Shows {
        /// The key.
        proof: Box<DialbackProof>,
        /// The number of the stream.
        number: u64,
        /// Source of the connection.
        source: Source,
    },
    /// The stream to a domain is ours to say something on, in the name of one of ours.
    Ready(DomainPair),
    /// Whether somebody, who showed a key elsewhere, is of the domain of this stream.
    Verified(Box<DialbackProof>, bool),
    /// All that was written between these has been taken by the transport.
    Drained(DomainPair),
    /// The other server counts what it has from this stanza of the stream on, of all; none: it does
    /// not.
    Counts(DomainPair, Option<u64>),
    /// The other server has this number of stanzas, of all.
    Acknowledged(DomainPair, u64),
}

/// Where a stanza stands that another server counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPlace {
    /// The number of the stream.
    pub stream: u64,
    /// The stanza's, from 1 on.
    pub seq: u64,
}

/// A key of dialback and what it is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DialbackProof {
    /// The domain that somebody says to be of, and that of ours to which it says so.
    pub pair: DomainPair,
    /// The id of the stream on which it says so.
    pub id: Box<str>,
    /// The key.
    pub key: Box<str>,
}

/// Order to a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerOrder {
    /// Stanzas to write, and their number.
    Write(Box<[u8]>, u32),
    /// All that came over the stream up to this place is taken.
    Taken(u64),
    /// Answer to a shown key: it is the domain's, or not; `None`: the domain could not be asked.
    Shown(DomainPair, Option<bool>),
    /// Ask whether a key is right.
    Verify(Box<DialbackProof>),
    /// End the stream.
    End,
}

type Out = Outbox<PeerWord>;

/// Why a stream ends.
enum PeerEnd {
    /// A fault, which is sent to the peer.
    Fault(StreamFault),
    /// The peer's farewell, or an end that needs no word.
    Quiet(CloseReason),
}

impl From<StreamFault> for PeerEnd {
    fn from(fault: StreamFault) -> PeerEnd {
        PeerEnd::Fault(fault)
    }
}

/// A stream with a server or a component.
pub struct Peer {
    profile: Arc<PeerProfile>,
    framer: Framer,
    /// The header of the peer's present stream was read.
    is_open: bool,
    /// TLS is being begun.
    is_waiting: bool,
    /// When it must be of a domain; none: it is.
    due: Option<Instant>,
    /// Number by which its owner tells it from others.
    number: u64,
    pace: ReadPace,
    kind: Kind,
}

enum Kind {
    Component(ComponentStream),
    Incoming(IncomingStream),
    Outgoing(OutgoingStream),
}

/// Parts around a kind of stream that it may read.
struct Around<'a> {
    profile: &'a PeerProfile,
    now: Now,
    link: &'a Link,
}

impl Peer {
    fn of(profile: Arc<PeerProfile>, number: u64, kind: Kind) -> Peer {
        let (framer, pace) = (Framer::default(), ReadPace::default());
        Peer { profile, framer, is_open: false, is_waiting: false, due: None, number, pace, kind }
    }

    /// A stream that a component begins.
    pub fn component(profile: Arc<PeerProfile>, number: u64) -> Peer {
        Peer::of(profile, number, Kind::Component(ComponentStream::default()))
    }

    /// A stream that another server begins.
    pub fn incoming(profile: Arc<PeerProfile>, number: u64) -> Peer {
        Peer::of(profile, number, Kind::Incoming(IncomingStream::new(number)))
    }

    /// A stream that is begun here, from a domain of ours to another.
    pub fn outgoing(profile: Arc<PeerProfile>, number: u64, pair: DomainPair) -> Peer {
        Peer::of(profile, number, Kind::Outgoing(OutgoingStream::new(pair)))
    }

    /// The number that it was made with.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Domains between which stanzas are sent over it; `None`: a stream to read from. A component
    /// gets all of ours, as the first of them.
    pub fn pair(&self) -> Option<DomainPair> {
        match &self.kind {
            Kind::Component(it) => {
                let own = self.profile.domains.own.clone();
                it.domain().map(|peer| DomainPair { own, peer: peer.into() })
            }
            Kind::Incoming(_) => None,
            Kind::Outgoing(it) => Some(it.pair().clone()),
        }
    }

    fn is_shown(&self) -> bool {
        match &self.kind {
            Kind::Component(it) => it.is_shown(),
            Kind::Incoming(it) => it.is_shown(),
            Kind::Outgoing(it) => it.is_ready(),
        }
    }

    fn pieces(&mut self, now: Now, input: &mut Input<'_>, out: &mut Out) -> Result<(), PeerEnd> {
        let bytes_max = match self.is_shown() {
            true => input.limits.chat.stanza_bytes_max,
            false => input.limits.frame_bytes_unbound_max,
        };
        while !self.is_waiting && !self.pace.is_held() {
            let piece = self.framer.next(input.rest(), self.is_open, bytes_max as usize)?;
            let around = Around { profile: &self.profile, now, link: input.link };
            match piece {
                None => return Ok(()),
                Some(StreamPiece::Space(count)) => _ = input.take(count),
                Some(StreamPiece::Header(count)) => {
                    let scan = Scan::header(input.take(count))?;
                    self.is_open = true;
                    match &mut self.kind {
                        Kind::Component(it) => it.header(&scan.root(), &around, out)?,
                        Kind::Incoming(it) => it.header(&scan.root(), &around, out)?,
                        Kind::Outgoing(it) => it.header(&scan.root(), &around, out)?,
                    }
                }
                Some(StreamPiece::Element(count)) => {
                    let scan = Scan::of_peer(input.take(count))?;
                    self.element(&scan.root(), (now, input.link), out)?;
                    self.paces(now, count, out);
                }
                Some(StreamPiece::Close(count)) => {
                    input.take(count);
                    self.says_farewell(out);
                    return Err(PeerEnd::Quiet(CloseReason::Unbound));
                }
            }
        }
        Ok(())
    }

    fn element(
        &mut self,
        element: &Element<'_, '_>,
        (now, link): (Now, &Link),
        out: &mut Out,
    ) -> Result<(), PeerEnd> {
        if element.is("error", crate::xml::scan::STREAMS) {
            self.says_farewell(out);
            return Err(PeerEnd::Quiet(CloseReason::Unbound));
        }
        let around = Around { profile: &self.profile, now, link };
        let next = match &mut self.kind {
            Kind::Component(it) => it.element(element, (&around, self.number), out)?,
            Kind::Incoming(it) => it.element(element, &around, out)?,
            Kind::Outgoing(it) => it.element(element, &around, out)?,
        };
        match next {
            Next::Goes => {}
            Next::Tls => {
                out.start_tls();
                (self.is_waiting, self.is_open) = (true, false);
            }
            Next::Anew => self.is_open = false,
        }
        self.settles(out);
        Ok(())
    }

    /// A server or a component that sends faster than it may is not read for a while.
    fn paces(&mut self, now: Now, bytes: usize, out: &mut Out) {
        if matches!(self.kind, Kind::Outgoing(_)) || !self.is_shown() {
            return;
        }
        if let Some(at) = self.pace.reads(now, bytes, self.profile.stream_bytes_per_s) {
            out.hold(true);
            out.wake(at);
        }
    }

    /// Once it is of a domain, it ends when nothing is said on it.
    fn settles(&mut self, out: &mut Out) {
        if self.due.is_some() && self.is_shown() {
            self.due = None;
            out.silence(self.profile.idle_s_max.saturating_mul(1_000));
        }
    }

    /// Writes the last acknowledgement of an incoming stream.
    fn says_last(&self, out: &mut Out) {
        if let Kind::Incoming(it) = &self.kind {
            it.ends(out);
        }
    }

    fn says_farewell(&self, out: &mut Out) {
        self.says_last(out);
        stream::write_end(out.bytes());
    }

    fn end(&self, end: PeerEnd, out: &mut Out) -> CloseReason {
        match end {
            PeerEnd::Fault(fault) => {
                if let Kind::Incoming(incoming) = &self.kind {
                    incoming.open_to_end(&self.profile, out);
                }
                stream::write_fault(fault, "", out.bytes());
                fault.close_reason()
            }
            PeerEnd::Quiet(reason) => reason,
        }
    }
}

/// How a stream goes on behind an element.
enum Next {
    Goes,
    /// TLS begins.
    Tls,
    /// With another header.
    Anew,
}

impl Machine for Peer {
    type Up = PeerWord;
    type Down = PeerOrder;

    fn opened(&mut self, now: Now, link: &Link, out: &mut Out) -> Result<(), CloseReason> {
        let due = now.after(Duration::from_millis(u64::from(self.profile.begin_ms_max)));
        self.due = Some(due);
        out.wake(due);
        let around = Around { profile: &self.profile, now, link };
        match &mut self.kind {
            Kind::Component(it) => it.opened(&around, out),
            Kind::Incoming(it) => it.opened(&around, out),
            Kind::Outgoing(it) => it.opened(&around, out),
        }
        Ok(())
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        self.pieces(now, input, out).map_err(|end| self.end(end, out))
    }

    fn command(&mut self, now: Now, order: PeerOrder, out: &mut Out) -> Result<(), CloseReason> {
        match (order, &mut self.kind) {
            (PeerOrder::Write(bytes, count), kind) => {
                out.bytes().extend_from_slice(&bytes);
                if let Kind::Outgoing(it) = kind {
                    it.says(count, (now, &self.profile), out);
                }
                out.tell_drained();
            }
            (PeerOrder::Taken(upto), Kind::Incoming(it)) => it.is_taken(upto, out),
            (PeerOrder::Shown(pair, is_right), Kind::Incoming(it)) => {
                it.answer(&pair, is_right, out);
                self.settles(out);
            }
            (PeerOrder::Verify(proof), Kind::Outgoing(it)) => {
                it.verify(*proof, (now, &self.profile), out);
            }
            (PeerOrder::End, _) => {
                self.says_farewell(out);
                return Err(CloseReason::OwnStop);
            }
            (PeerOrder::Shown(..) | PeerOrder::Verify(_) | PeerOrder::Taken(_), _) => {
                base::never!(true, "an order for another kind of stream");
            }
        }
        Ok(())
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        match self.due {
            Some(due) if now.mono >= due => {
                let end = PeerEnd::Fault(StreamFault::ConnectionTimeout);
                self.end(end, out);
                Err(CloseReason::BindTimeout)
            }
            Some(due) => {
                out.wake(due);
                Ok(())
            }
            None => {
                if self.pace.resumes(now) {
                    out.hold(false);
                }
                let Kind::Outgoing(it) = &mut self.kind else { return Ok(()) };
                let passes = it.passes(now, out);
                passes.map_err(|end| self.end(end, out))
            }
        }
    }

    fn drained(&mut self, _: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.pair().into_iter().for_each(|pair| out.say(PeerWord::Drained(pair)));
        Ok(())
    }

    fn tls_started(
        &mut self,
        now: Now,
        link: Result<&Link, StartTlsRefusal>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        let link = link.map_err(|_| CloseReason::TlsFailed)?;
        self.is_waiting = false;
        let around = Around { profile: &self.profile, now, link };
        if let Kind::Outgoing(it) = &mut self.kind {
            it.opened(&around, out);
        }
        Ok(())
    }

    fn silent(&mut self, _: Now, out: &mut Out) -> Result<(), CloseReason> {
        match &mut self.kind {
            Kind::Component(_) => return Ok(()), // it may have nothing to say
            Kind::Incoming(_) => {}
            Kind::Outgoing(it) => {
                if let Some(ms) = it.goes_on(self.profile.idle_s_max) {
                    out.silence(ms);
                    return Ok(());
                }
            }
        }
        self.says_farewell(out);
        Err(CloseReason::KeepAliveTimeout)
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, out: &mut Out) {
        self.says_last(out);
        self.end(PeerEnd::Fault(StreamFault::SystemShutdown), out);
    }

    fn closed(&mut self, _: Now, _: CloseReason, _: &mut Out) {}
}

#[cfg(test)]
mod tests;
