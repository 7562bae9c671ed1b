//! The logic of the shard of other domains: routes, their streams, and what passes over them.
//!
//! The logic joins the parts: words that go out become stanzas in routes ([`crate::route`]), routes
//! call their domains, streams that are ready take the queued stanzas; stanzas that come in go to
//! the desk ([`crate::desk`]), and refused ones go back to their sender. Invariant: the sender of a
//! refused stanza gets one error, wherever it is.

mod calls;
mod room;

pub(crate) use room::CallOpener;

use crate::counted::CountedStreams;
use crate::departures::Departures;
use crate::desk::{ArrivalDesk, Judged};
use crate::pushes::{PushDesk, PushReply};
use crate::rooms::RoomsDesk;
use crate::route::{DomainRoute, OutgoingStanza, RouteState};
use crate::settings::FederationSection;
use crate::trust::PeerTrust;
use crate::{FederationMail, PeerDoor, WayOut, weight_of};
use base::time::{Instant, Now};
use model::chat::foreign::{ForeignDomains, ForeignWord};
use model::close::CloseReason;
use model::id::ConnRef;
use model::limits::{FederationLimits, Limits};
use model::link::{Link, WireProfile};
use model::ports::names::NameResolver;
use model::ports::notifications::NotificationOrder;
use model::{event, tell};
use net::Dialler;
use net::logic::{ConnectionOrigin, ShardHandle, ShardLogic};
use proto_xmpp::fault::StanzaFault;
use proto_xmpp::jid;
use proto_xmpp::peer::stanzas;
use proto_xmpp::peer::{
    DomainPair, PEER_WIRE, Peer, PeerOrder, PeerProfile, PeerWord, StreamPlace,
};
use proto_xmpp::server::abroad::{AbroadWord, RoomsAbroad};
use proto_xmpp::server::{Advertised, answer_for_domain};
use proto_xmpp::stanza::StanzaReply;
use proto_xmpp::xml::scan::Scan;
use room::{CallOpeners, Routes, Showing, forget_shown, make_room};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How often routes are gone over.
const SWEEP: Duration = Duration::from_millis(500);

/// Longest time that farewells take.
const FAREWELL_TIME: Duration = Duration::from_secs(1);

type Handle = ShardHandle<FederationLogic>;

/// Parts of the logic.
pub(crate) struct FederationParts {
    pub profile: Arc<PeerProfile>,
    pub section: FederationSection,
    pub domains: Arc<ForeignDomains>,
    pub takes_files: bool,
    pub advertised: Arc<Advertised>,
    /// Kind of each listener, by its number.
    pub kinds: Vec<Option<PeerDoor>>,
    pub way: WayOut,
    pub desk: ArrivalDesk,
    pub rooms: RoomsDesk,
    pub departures: Departures,
    pub dialler: Dialler,
    pub names: Box<dyn NameResolver + Send>,
    pub trust: Option<PeerTrust>,
}

/// The logic of the shard of other domains.
pub struct FederationLogic {
    parts: FederationParts,
    /// Rooms here, for occupants of other servers.
    rooms: RoomsAbroad,
    routes: Routes,
    /// Accounts and servers that caused domains to be called, with their counts.
    openers: CallOpeners,
    /// Domains that are being called, by the calls' numbers.
    calls: HashMap<u64, DomainPair>,
    /// Streams on which somebody shows a key, until its domain has answered.
    showing: Vec<Showing>,
    /// Streams of other servers that get acknowledgements for their stanzas.
    counted: CountedStreams,
    /// Notifications for push services of other domains.
    pushes: PushDesk,
    /// Refused stanzas on their way back.
    errors: VecDeque<Box<[u8]>>,
    last: u64,
    sweeps_at: Instant,
    /// When the shard ends, farewells said or not.
    ends_at: Option<Instant>,
}

impl FederationLogic {
    pub(crate) fn new(parts: FederationParts) -> FederationLogic {
        let (routes, openers, calls, showing, counted, errors) = Default::default();
        let sweeps_at = Instant::default();
        let limits = &parts.section.limits;
        let rooms = RoomsAbroad::new(&parts.profile.domains.own, limits, parts.rooms.seed);
        let pushes = PushDesk::new(limits, parts.rooms.seed);
        FederationLogic {
            parts,
            rooms,
            routes,
            openers,
            calls,
            showing,
            counted,
            pushes,
            errors,
            last: 0,
            sweeps_at,
            ends_at: None,
        }
    }

    /// Sets other limits. Streams that are open keep what they began with.
    fn configure(&mut self, limits: FederationLimits, of_process: Limits, handle: &mut Handle) {
        self.parts.profile = Arc::new(PeerProfile {
            begin_ms_max: limits.begin_ms_max,
            idle_s_max: limits.idle_s_max,
            stream_bytes_per_s: limits.stream_bytes_per_s,
            acknowledged_ms_max: limits.acknowledged_ms_max,
            ..PeerProfile::clone(&self.parts.profile)
        });
        self.parts.desk.set_limits(&limits);
        self.rooms.set_limits(&limits);
        self.pushes.set_limits(&limits);
        handle.set_limits(Arc::new(crate::net_limits(&limits, of_process)));
        self.parts.section.limits = limits;
    }

    fn is_own(&self, domain: &str) -> bool {
        self.parts.domains.is_own(domain)
    }

    /// Domains of a stanza that is for `domain`: from its sender's. Components hear all of ours
    /// over one stream.
    fn pair(&self, domain: &str, xml: &[u8]) -> DomainPair {
        let PeerProfile { domains, .. } = &*self.parts.profile;
        let from = if domains.is_component(domain) { None } else { domain_in(xml, "from") };
        let own = from.filter(|from| self.parts.profile.is_ours(from));
        DomainPair { own: own.unwrap_or(domains.own.clone()), peer: domain.into() }
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A word of an account goes out, or one of a group to whoever looks at its room.
    fn goes_out(&mut self, now: Now, word: &ForeignWord, handle: &mut Handle) {
        match word {
            ForeignWord::Room(word) => self.rooms.said(now, word),
            ForeignWord::RoomNews(news, to) => self.rooms.news(now, news, to),
            ForeignWord::Aside(word) => self.rooms.aside(word),
            _ => {
                let (place, is_again) = match word {
                    ForeignWord::Message(queued) => (Some(queued.place), queued.is_again),
                    _ => (None, false),
                };
                let mut xml = Vec::new();
                match stanzas::write(word, &mut xml) {
                    true => {
                        let stanza = OutgoingStanza { xml: xml.into(), place, is_again };
                        self.send(now, word.domain(), stanza, handle);
                    }
                    // XMPP has nothing for it.
                    false => self.parts.departures.put(place),
                }
                return;
            }
        }
        self.rooms_go_on(now, handle);
    }

    /// Sends a notification to a push service.
    fn pushes(
        &mut self,
        now: Now,
        (order, reply): (NotificationOrder, PushReply),
        handle: &mut Handle,
    ) {
        self.parts.way.taken(order.weight() as u64);
        let Some(xml) = self.pushes.take(now, order, reply) else { return };
        match domain_for(&xml) {
            Some(domain) => self.send(now, &domain, xml.into(), handle),
            None => self.refuse(&xml, StanzaFault::JidMalformed),
        }
        self.send_errors(now, handle);
    }

    /// A stanza is for a domain.
    fn send(&mut self, now: Now, domain: &str, stanza: OutgoingStanza, handle: &mut Handle) {
        if self.is_own(domain) {
            self.parts.departures.put(stanza.place);
            return self.takes(now, (stanza.xml, None), handle);
        }
        let pair = self.pair(domain, &stanza.xml);
        match self.queue(now, (&pair, true), stanza) {
            Ok(()) => self.goes_on(now, &pair, handle),
            Err((stanza, fault)) => self.gives_back(now, &stanza, fault),
        }
    }

    /// A stanza does not go out: its sender gets the error. Of a server that stops nobody hears, so
    /// what is stored stays where it is, and goes out after the next start. Of what that has found
    /// the device may have another name by now.
    fn gives_back(&mut self, now: Now, stanza: &OutgoingStanza, fault: StanzaFault) {
        if stanza.place.is_some() && self.ends_at.is_some() {
            return;
        }
        match refusal(&stanza.xml, fault) {
            Some(xml) if stanza.is_again => self.parts.desk.comes_back(now, xml),
            refusal => self.errors.extend(refusal),
        }
        self.parts.departures.put(stanza.place);
    }

    /// Carries out the orders of rooms for occupants of other servers, until there are no more.
    fn rooms_go_on(&mut self, now: Now, handle: &mut Handle) {
        loop {
            let wanted = self.rooms.take_out();
            if wanted.is_empty() {
                break;
            }
            for word in wanted {
                match word {
                    AbroadWord::Ask { number, account, device, what } => {
                        self.parts.rooms.ask((number, account), device, what);
                    }
                    AbroadWord::Stanza { domain, xml } => {
                        self.send(now, &domain, xml.into(), handle);
                    }
                }
            }
            self.send_errors(now, handle);
        }
        let refused = self.rooms.take_refused();
        self.parts.way.refused(refused.dropped);
        self.parts.way.made_no_sense(refused.invalid);
    }

    /// A stanza waits for its domain; or it comes back, with why it may not. `is_own`: it is what
    /// an account here says, and no answer.
    fn queue(
        &mut self,
        now: Now,
        (pair, is_own): (&DomainPair, bool),
        stanza: OutgoingStanza,
    ) -> Result<(), (OutgoingStanza, StanzaFault)> {
        let (domain, is_again) = (&*pair.peer, stanza.is_again);
        let is_component = self.parts.domains.is_component(domain);
        let is_denied = !is_component && !self.parts.profile.may_be(domain);
        if is_denied && !is_again {
            return Err((stanza, StanzaFault::RemoteServerNotFound));
        }
        let mut opener = None;
        if !self.routes.contains_key(pair) {
            opener = if is_own { account_of(&stanza.xml).map(CallOpener::Account) } else { None };
            // No share bounds those that there were before a start.
            let all = self.parts.section.limits.domains_max as usize;
            let may_open = match is_again {
                true => make_room(&mut self.routes, all),
                false => self.may_open(opener.as_ref()),
            };
            if !may_open {
                self.parts.way.refused(1);
                return Err((stanza, StanzaFault::ResourceConstraint));
            }
        }
        let limits = &self.parts.section.limits;
        let until = now.after(Duration::from_millis(limits.waiting_ms_max.into()));
        let route = self.routes.entry(pair.clone());
        let route = route.or_insert_with(|| DomainRoute::of(opener));
        match route.state {
            // Since the start it is not spoken with any more, nor called.
            _ if is_denied => {
                route.becomes(RouteState::Failed(until, StanzaFault::RemoteServerNotFound));
            }
            _ if is_again => {}
            RouteState::Failed(until, fault) if until > now.mono => return Err((stanza, fault)),
            RouteState::Idle if is_component => {
                return Err((stanza, StanzaFault::ServiceUnavailable));
            }
            _ => {}
        }
        route.put(until, stanza, limits).map_err(|stanza| {
            self.parts.way.refused(1);
            (stanza, StanzaFault::ResourceConstraint)
        })
    }

    /// Whether there may be one route more, which is this one's doing. Answers to others, which
    /// are nobody's here, leave half of all room to accounts.
    fn may_open(&mut self, opener: Option<&CallOpener>) -> bool {
        let limits = &self.parts.section.limits;
        let all = limits.domains_max as usize;
        let (share, most) = match opener {
            Some(CallOpener::Account(_)) => (limits.domains_an_account_max, all),
            Some(CallOpener::Source(_)) => (limits.keys_a_source_max, all),
            None => (0, all.div_ceil(2)),
        };
        let is_its = opener.is_none_or(|who| self.openers.take(who, share));
        is_its && make_room(&mut self.routes, most)
    }

    /// A route goes on, as far as it can: its domain is called, or what waits is written.
    fn goes_on(&mut self, now: Now, pair: &DomainPair, handle: &mut Handle) {
        let Some(route) = self.routes.get_mut(pair) else { return };
        if let Some((conn, xml, count)) = route.take() {
            handle.deliver(conn, PeerOrder::Write(xml, count));
        }
        let is_wanted = route.has_any() || !route.proofs.is_empty();
        let may_call = match route.state {
            RouteState::Idle => true,
            RouteState::Failed(until, _) => until <= now.mono,
            _ => false,
        };
        let may_call = may_call && self.ends_at.is_none();
        if is_wanted && may_call && !self.parts.domains.is_component(&pair.peer) {
            self.call(now, pair);
        }
    }

    /// A stanza is for this domain: it is taken in, answered or refused.
    fn takes(
        &mut self,
        now: Now,
        (xml, place): (Box<[u8]>, Option<StreamPlace>),
        handle: &mut Handle,
    ) {
        if self.pushes.is_answer(&xml) {
            return self.counted.are_taken(place);
        }
        let judged = self.parts.desk.take(now, xml, place);
        self.judged(now, judged, handle);
    }

    fn judged(&mut self, now: Now, judged: Judged, handle: &mut Handle) {
        match judged {
            Judged::Nothing => {}
            Judged::Refused(xml, fault) => self.refuse(&xml, fault),
            Judged::Question(xml) => self.answers(now, &xml),
            Judged::Answered(xml) => self.errors.push_back(xml),
        }
        self.send_errors(now, handle);
    }

    /// A question to the domain, or in the name of an account that is not there, is answered.
    fn answers(&mut self, now: Now, xml: &[u8]) {
        let Ok(scan) = Scan::of_peer(xml) else { return };
        let iq = scan.root();
        let (from, to) = (iq.attribute("from"), iq.attribute("to"));
        let (Some(from), Some(to), Some(id)) = (from, to, iq.attribute("id")) else { return };
        let is_domain = jid::domain(&to).is_some();
        let FederationParts { takes_files, domains, advertised, .. } = &self.parts;
        let about = (now, *takes_files, &**domains, &**advertised);
        let mut children = iq.children();
        let answer = match (children.next(), children.next(), is_domain) {
            (Some(asked), None, true) => answer_for_domain(&iq, &asked, about),
            (Some(_), None, false) => Err(StanzaFault::ServiceUnavailable),
            _ => Err(StanzaFault::BadRequest),
        };
        let reply = StanzaReply { name: "iq", from: Some(&to), to: &from, id: Some(&id) };
        let mut out = Vec::new();
        match answer {
            Ok(inner) => reply.result(&inner, &mut out),
            Err(fault) => reply.error(fault, "", &mut out),
        }
        self.errors.push_back(out.into());
    }

    /// Sends the sender of a stanza the error, if stanzas of its kind get one.
    fn refuse(&mut self, xml: &[u8], fault: StanzaFault) {
        self.errors.extend(refusal(xml, fault));
    }

    /// Errors, and answers of this domain, go to whom they are for. Nothing is said of one that
    /// does not get there.
    fn send_errors(&mut self, now: Now, handle: &mut Handle) {
        while let Some(xml) = self.errors.pop_front() {
            match domain_for(&xml) {
                Some(domain) if self.is_own(&domain) && self.pushes.is_answer(&xml) => {}
                Some(domain) if self.is_own(&domain) => {
                    self.parts.desk.take(now, xml, None);
                }
                Some(domain) if *domain == *self.rooms.service() => self.rooms.bounced(now, &xml),
                Some(domain) => {
                    let pair = self.pair(&domain, &xml);
                    if self.queue(now, (&pair, false), xml.into()).is_ok() {
                        self.goes_on(now, &pair, handle);
                    }
                }
                None => {}
            }
        }
    }

    /// A stanza came from a domain that was shown.
    fn comes(
        &mut self,
        now: Now,
        (xml, place): (Box<[u8]>, Option<StreamPlace>),
        handle: &mut Handle,
    ) {
        let to = domain_for(&xml);
        if to.as_ref().is_some_and(|to| self.is_own(to)) {
            return self.takes(now, (xml, place), handle);
        }
        self.counted.are_taken(place);
        let Some(to) = to else { return };
        if *to == *self.rooms.service() {
            self.rooms.takes(now, &xml);
            return self.rooms_go_on(now, handle);
        }
        if self.parts.domains.is_component(&to) {
            return self.send(now, &to, xml.into(), handle);
        }
        // Nobody speaks to other servers by this one but its own accounts.
        self.refuse(&xml, StanzaFault::RemoteServerNotFound);
        self.send_errors(now, handle);
    }

    /// Goes over all routes: what waited too long is refused, what is over is forgotten.
    fn sweep(&mut self, now: Now, handle: &mut Handle) {
        if now.mono < self.sweeps_at {
            return;
        }
        self.sweeps_at = now.after(SWEEP);
        self.parts.desk.sweep(now.mono);
        self.pushes.sweep(now.mono);
        let mut over = Vec::new();
        self.routes.retain(|_, route| {
            let fault = route.fault();
            over.extend(route.overdue(now.mono).into_iter().map(|it| (it, fault)));
            !route.is_over(now.mono)
        });
        self.openers.count(&self.routes);
        over.iter().for_each(|(it, fault)| self.gives_back(now, it, *fault));
        let due = self.routes.iter().filter(|(_, route)| route.is_due(now.mono));
        let due: Vec<DomainPair> = due.map(|(pair, _)| pair.clone()).collect();
        due.iter().for_each(|pair| self.goes_on(now, pair, handle));
        self.parts.departures.sweep();
        let late = self.showing.extract_if(.., |it| it.until <= now.mono);
        for Showing { conn, proof, .. } in late {
            handle.deliver(conn, PeerOrder::Shown(proof.pair, None));
        }
        self.send_errors(now, handle);
        self.rooms.sweep(now);
        self.rooms_go_on(now, handle);
    }

    fn stop(&mut self, now: Now, handle: &mut Handle) {
        self.ends_at = Some(now.after(FAREWELL_TIME));
        self.calls.keys().for_each(|tag| self.parts.dialler.cancel(*tag));
        self.says_farewell(handle);
    }

    /// Streams end over which nothing is under way.
    fn says_farewell(&mut self, handle: &mut Handle) {
        for route in self.routes.values().filter(|route| route.is_settled()) {
            if let Some((conn, _)) = route.stream() {
                handle.deliver(conn, PeerOrder::End);
            }
        }
    }
}

/// The error stanza for the sender of a refused stanza; `None`: stanzas of this kind get no error.
fn refusal(xml: &[u8], fault: StanzaFault) -> Option<Box<[u8]>> {
    let scan = Scan::of_peer(xml).ok()?;
    let mut out = Vec::new();
    stanzas::refuse(&scan.root(), fault, &mut out).then(|| out.into())
}

/// The account that says a stanza.
fn account_of(xml: &[u8]) -> Option<Box<str>> {
    let scan = Scan::of_peer(xml).ok()?;
    let from = scan.root().attribute("from")?;
    Some(from.split('/').next().unwrap_or_default().into())
}

/// The domain that a stanza is for.
fn domain_for(xml: &[u8]) -> Option<Box<str>> {
    domain_in(xml, "to")
}

/// The domain of an address that a stanza names so.
fn domain_in(xml: &[u8], name: &str) -> Option<Box<str>> {
    let scan = Scan::of_peer(xml).ok()?;
    jid::domain_of(&scan.root().attribute(name)?)
}

impl ShardLogic for FederationLogic {
    type Machine = Peer;
    type Mail = FederationMail;
    const WIRES: &'static [WireProfile] = &[PEER_WIRE];

    fn machine(&mut self, _: Now, _: &Link, how: ConnectionOrigin) -> Option<Peer> {
        match how {
            ConnectionOrigin::Accepted(door) => {
                let kind = self.parts.kinds.get(usize::from(door)).copied().flatten()?;
                let (profile, number) = (self.parts.profile.clone(), self.number());
                Some(match kind {
                    PeerDoor::Server => Peer::incoming(profile, number),
                    PeerDoor::Component => Peer::component(profile, number),
                })
            }
            ConnectionOrigin::Dialled(tag) => self.called(tag),
        }
    }

    fn word(&mut self, now: Now, from: ConnRef, word: PeerWord, handle: &mut Handle) {
        match word {
            PeerWord::Component(domain, number) => {
                let pair = self.pair(&domain, &[]);
                let route = self.routes.entry(pair.clone()).or_default();
                if let Some((before, _)) = route.stream() {
                    handle.deliver(before, PeerOrder::End);
                }
                let lost = route.interrupted(now.mono);
                route.becomes(RouteState::Ready((from, number)));
                tell!(event::COMPONENT_CAME, peer = &*domain);
                let fault = StanzaFault::RemoteServerTimeout;
                lost.iter().for_each(|it| self.gives_back(now, it, fault));
                self.goes_on(now, &pair, handle);
            }
            PeerWord::Stanza { xml, place, .. } => {
                let most = self.parts.section.limits.taking_max as usize;
                if place.is_some_and(|place| !self.counted.comes((from, place), most)) {
                    handle.deliver(from, PeerOrder::End);
                }
                self.comes(now, (xml, place), handle);
            }
            PeerWord::Counts(pair, since) => {
                let there = self.routes.get_mut(&pair).map(|route| route.counts(since));
                self.parts.departures.put(there.into_iter().flatten());
            }
            PeerWord::Acknowledged(pair, upto) => {
                let there = self.routes.get_mut(&pair).map(|route| route.acknowledged(upto));
                self.parts.departures.put(there.into_iter().flatten());
            }
            PeerWord::Shows { proof, number, source } => {
                self.shows(now, (from, number, source), *proof, handle);
            }
            PeerWord::Verified(proof, is_right) => self.verified(&proof, is_right, handle),
            PeerWord::Ready(pair) => {
                let Some(route) = self.routes.get_mut(&pair) else { return };
                if let RouteState::Opening(stream) = route.state {
                    route.becomes(RouteState::Ready(stream));
                    tell!(event::FOREIGN_STREAM_OPEN, peer = &*pair.peer);
                }
                self.goes_on(now, &pair, handle);
            }
            PeerWord::Drained(pair) => {
                let there = self.routes.get_mut(&pair).map(DomainRoute::drained);
                self.parts.departures.put(there.into_iter().flatten());
                self.goes_on(now, &pair, handle);
            }
        }
    }

    fn mail(&mut self, now: Now, mail: FederationMail, handle: &mut Handle) {
        match mail {
            FederationMail::Out(words) => {
                self.parts.way.taken(weight_of(&words));
                words.iter().for_each(|word| self.goes_out(now, word, handle));
                self.send_errors(now, handle);
            }
            FederationMail::Push(order, reply) => self.pushes(now, (*order, reply), handle),
            FederationMail::Names(ticket, answer) => self.parts.dialler.answered(ticket, answer),
            FederationMail::Taken(taken) => {
                let judged = self.parts.desk.taken(taken);
                self.judged(now, judged, handle);
            }
            FederationMail::Asked(number, answer) => {
                self.rooms.answered(now, number, crate::rooms::told(&answer));
                self.rooms_go_on(now, handle);
            }
            FederationMail::Configure(both) => {
                let (limits, of_process) = *both;
                self.configure(limits, of_process, handle);
            }
            FederationMail::Listeners(changes) => {
                for (change, kind) in changes {
                    let (at, kinds) = (usize::from(change.door), &mut self.parts.kinds);
                    kinds.resize(kinds.len().max(at + 1), None);
                    kinds[at] = kind;
                    handle.change_listener(change);
                }
            }
            FederationMail::NotLeft(queue, seqs) => {
                self.parts.departures.come_back(queue, &seqs);
            }
            FederationMail::Stop => self.stop(now, handle),
        }
    }

    fn turn(&mut self, now: Now, handle: &mut Handle) -> Option<Instant> {
        let next_call = self.turn_calls(now, handle);
        self.rooms_go_on(now, handle);
        self.sweep(now, handle);
        self.counted.are_taken(self.parts.desk.take_placed());
        for (conn, upto) in self.counted.take_news() {
            handle.deliver(conn, PeerOrder::Taken(upto));
        }
        self.parts.departures.tell();
        if let Some(ends_at) = self.ends_at {
            self.says_farewell(handle);
            let is_quiet = self.routes.values().all(|route| route.stream().is_none());
            // Other servers are told at the end what is taken of what they have said.
            let is_over = is_quiet && self.parts.desk.is_idle() || ends_at <= now.mono;
            if is_over {
                handle.drain(0);
            }
            return (!is_over).then_some(ends_at);
        }
        let FederationParts { desk, departures, .. } = &self.parts;
        let desks =
            [desk.is_idle(), departures.is_idle(), self.rooms.is_idle(), self.pushes.is_idle()];
        let is_idle = self.routes.is_empty() && desks.iter().all(|is_idle| *is_idle);
        let has_any = !is_idle || !self.showing.is_empty();
        [next_call, has_any.then_some(self.sweeps_at)].into_iter().flatten().min()
    }

    /// Does nothing: a stanza that was to be written on a stream that is gone is still queued on
    /// its route.
    fn undelivered(&mut self, _: Now, _: ConnRef, _: PeerOrder, _: &mut Handle) {}

    fn ended(&mut self, now: Now, peer: &Peer, reason: CloseReason, handle: &mut Handle) {
        let Some(pair) = peer.pair() else {
            self.counted.ended(peer.number());
            return forget_shown(&mut self.showing, &mut self.routes, peer.number());
        };
        self.stream_ended(now, (pair, peer.number()), reason, handle);
        self.send_errors(now, handle);
        self.rooms_go_on(now, handle);
    }

    fn dialling(&mut self, _: Now, tag: u64, conn: ConnRef) {
        self.parts.dialler.dialling(tag, conn);
    }

    fn connected(&mut self, _: Now, tag: u64) {
        self.parts.dialler.connected(tag);
    }

    fn dial_failed(&mut self, now: Now, tag: u64, reason: CloseReason, handle: &mut Handle) {
        let known = (handle.detail(), handle.reached());
        self.parts.dialler.dial_failed(now, tag, reason, known);
    }
}
