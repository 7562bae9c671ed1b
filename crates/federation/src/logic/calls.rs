//! Calls to other servers: when a domain is called, what becomes of it, and whom its servers are
//! asked about.
//!
//! Invariant: a domain has one call or one stream of ours at a time; who waits for its word about a
//! key hears it, or hears that nobody said it.

use super::room::{ask_again, may_show};
use super::{CallOpener, FederationLogic, Handle, Showing};
use crate::route::{DomainRoute, RouteState};
use base::time::{Instant, Now};
use model::account::ascii_domain;
use model::close::CloseReason;
use model::id::ConnRef;
use model::link::Source;
use model::ports::names::NameFault;
use model::{event, tell};
use net::{CallFault, NamedCall};
use proto_xmpp::fault::StanzaFault;
use proto_xmpp::peer::{DialbackProof, DomainPair, Peer, PeerOrder};
use std::time::Duration;

/// Port of servers, where no record says another (RFC 6120 3.2.2).
const PORT: u16 = 5269;

/// Longest pause between calls of a domain for which something still waits: half a dozen calls in
/// the time that it has unless that is set otherwise.
const PAUSE_MAX: Duration = Duration::from_secs(5);

impl FederationLogic {
    /// A domain is called.
    pub(super) fn call(&mut self, now: Now, pair: &DomainPair) {
        let (tag, domain) = (self.number(), &*pair.peer);
        // The service of rooms shows the certificate of its domain.
        let is_rooms = *pair.own == *self.rooms.service();
        let shown = if is_rooms { &self.parts.profile.domains.own } else { &pair.own };
        let trust = self.parts.trust.as_ref();
        // Names of hosts and of certificates are in A-labels.
        let host = ascii_domain(domain);
        let layers = |is_direct| trust?.layers((shown, host.as_deref()?), is_direct);
        let layers = layers(false).zip(layers(true));
        let Some(((within, direct), named)) = layers.zip(host.as_deref()) else {
            return self.not_reached(now, pair, StanzaFault::RemoteServerNotFound, true);
        };
        let named = match self.parts.section.place_of(domain) {
            Some((host, port)) => NamedCall {
                domain: host.into(),
                services: Vec::new(),
                host: Some((port, within)),
                from: None,
                // Whoever runs this server said where that is.
                public_only: false,
                tag,
            },
            None => NamedCall {
                domain: named.into(),
                services: vec![
                    ("_xmpps-server._tcp", direct),
                    ("_xmpp-server._tcp", within.clone()),
                ],
                host: Some((PORT, within)),
                from: None,
                public_only: self.parts.section.public_only,
                tag,
            },
        };
        self.calls.insert(tag, pair.clone());
        if let Some(route) = self.routes.get_mut(pair) {
            route.becomes(RouteState::Calling(tag));
        }
        self.parts.dialler.call(now, named, &mut *self.parts.names);
    }

    /// A call has come through: the stream begins.
    pub(super) fn called(&mut self, tag: u64) -> Option<Peer> {
        let (tag, conn) = self.parts.dialler.opened(tag)?;
        let pair = self.calls.remove(&tag)?;
        let route = self.routes.get_mut(&pair)?;
        route.becomes(RouteState::Opening((conn, tag)));
        Some(Peer::outgoing(self.parts.profile.clone(), tag, pair))
    }

    /// Goes on with calls, and with keys that are to be asked about; when to come back.
    pub(super) fn turn_calls(&mut self, now: Now, handle: &mut Handle) -> Option<Instant> {
        let next = self.parts.dialler.turn(now, &mut *self.parts.names, handle);
        for (tag, fault) in self.parts.dialler.take_failed() {
            let Some(pair) = self.calls.remove(&tag) else { continue };
            tell!(event::FOREIGN_UNREACHED, peer = &*pair.peer, reason = %fault);
            let (fault, is_its) = why(fault);
            self.not_reached(now, &pair, fault, is_its);
        }
        for route in self.routes.values_mut() {
            let Some((conn, _)) = route.stream() else { continue };
            for proof in route.proofs.drain(..) {
                handle.deliver(conn, PeerOrder::Verify(Box::new(proof)));
            }
        }
        let failed = self.routes.iter().filter(|(_, route)| !route.proofs.is_empty());
        let failed = failed.filter(|(_, it)| matches!(it.state, RouteState::Failed(..)));
        let failed: Vec<DomainPair> = failed.map(|(pair, _)| pair.clone()).collect();
        failed.iter().for_each(|pair| self.unanswered(pair, handle));
        self.send_errors(now, handle);
        next
    }

    /// A domain was not reached: what waits for it is refused, and what comes in a while is, if
    /// it is the domain's fault. For what still has its time it is called again soon.
    fn not_reached(&mut self, now: Now, pair: &DomainPair, fault: StanzaFault, is_its: bool) {
        let pause = Duration::from_millis(self.parts.section.limits.pause_ms.into());
        let Some(route) = self.routes.get_mut(pair) else { return };
        // That a stranger's domain is not there is not remembered: there are as many as he likes.
        let pause = if route.has_any() && is_its { pause } else { Duration::ZERO };
        let over = route.give_up();
        let pause = if route.has_any() { pause.min(PAUSE_MAX) } else { pause };
        route.becomes(RouteState::Failed(now.after(pause), fault));
        over.iter().for_each(|stanza| self.gives_back(now, stanza, fault));
        if *pair.own == *self.rooms.service() {
            self.rooms.lost(now, &pair.peer);
        }
    }

    /// A stream over which something was said is over.
    pub(super) fn stream_ended(
        &mut self,
        now: Now,
        (pair, number): (DomainPair, u64),
        reason: CloseReason,
        handle: &mut Handle,
    ) {
        let Some(route) = self.routes.get_mut(&pair) else { return };
        if route.stream().is_none_or(|(_, other)| other != number) {
            return; // another one has its place
        }
        let waiting_ms_max = self.parts.section.limits.waiting_ms_max;
        let until = now.after(Duration::from_millis(waiting_ms_max.into()));
        let (was, lost) = (route.state, route.interrupted(until));
        route.becomes(RouteState::Idle);
        tell!(event::FOREIGN_STREAM_OVER, peer = &*pair.peer, reason = reason.name());
        let is_component = self.parts.domains.is_component(&pair.peer);
        let given_up = if is_component { route.give_up() } else { Vec::new() };
        for stanza in lost.iter().chain(&given_up) {
            self.gives_back(now, stanza, StanzaFault::RemoteServerTimeout);
        }
        if is_component {
            return;
        }
        match was {
            // It never was one: the server does not take us.
            RouteState::Opening(_) => {
                self.not_reached(now, &pair, StanzaFault::RemoteServerTimeout, true);
                self.unanswered(&pair, handle);
            }
            _ => {
                if let Some(route) = self.routes.get_mut(&pair) {
                    ask_again(&mut self.showing, &pair, route);
                }
                self.goes_on(now, &pair, handle);
            }
        }
    }

    /// Handles a key that a peer presents: asks the servers of its domain.
    pub(super) fn shows(
        &mut self,
        now: Now,
        (conn, number, source): (ConnRef, u64, Source),
        proof: DialbackProof,
        handle: &mut Handle,
    ) {
        let pair = proof.pair.clone();
        let limits = &self.parts.section.limits;
        let until = now.after(Duration::from_millis(limits.begin_ms_max.into()));
        let may_show = may_show(&self.showing, source, limits.keys_a_source_max);
        let opener = CallOpener::Source(source);
        if !may_show || !self.routes.contains_key(&pair) && !self.may_open(Some(&opener)) {
            return handle.deliver(conn, PeerOrder::Shown(pair, None));
        }
        let shown = proof.clone();
        let is_asked_again = false;
        self.showing.push(Showing { conn, number, source, proof: shown, until, is_asked_again });
        let route = self.routes.entry(pair.clone());
        let route = route.or_insert_with(|| DomainRoute::of(Some(opener)));
        // Whoever calls is there: it may be called, whatever became of the last call.
        if let RouteState::Failed(..) = route.state {
            route.becomes(RouteState::Idle);
        }
        route.proofs.push(proof);
        self.goes_on(now, &pair, handle);
    }

    /// The servers of a domain have said whether a key is right.
    pub(super) fn verified(&mut self, proof: &DialbackProof, is_right: bool, handle: &mut Handle) {
        let found = self.showing.iter().position(|it| it.proof == *proof);
        if let Some(Showing { conn, proof, .. }) = found.map(|at| self.showing.remove(at)) {
            handle.deliver(conn, PeerOrder::Shown(proof.pair, Some(is_right)));
        }
    }

    /// Answers all questions about keys of a domain that does not answer: no key is confirmed.
    fn unanswered(&mut self, pair: &DomainPair, handle: &mut Handle) {
        if let Some(route) = self.routes.get_mut(pair) {
            route.proofs.clear();
        }
        for Showing { conn, proof, .. } in self.showing.extract_if(.., |it| it.proof.pair == *pair)
        {
            handle.deliver(conn, PeerOrder::Shown(proof.pair, None));
        }
    }
}

/// The error for senders whose call failed, and whether the fault is the domain's.
fn why(fault: CallFault) -> (StanzaFault, bool) {
    match fault {
        CallFault::Busy => (StanzaFault::ResourceConstraint, false),
        CallFault::Name(NameFault::Absent | NameFault::Malformed)
        | CallFault::NotOffered
        | CallFault::NotPublic => (StanzaFault::RemoteServerNotFound, true),
        _ => (StanzaFault::RemoteServerTimeout, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_too_many_calls_are_under_way_is_not_the_domains_fault() {
        assert_eq!(why(CallFault::Busy), (StanzaFault::ResourceConstraint, false));
        let absent = CallFault::Name(NameFault::Absent);
        assert_eq!(why(absent), (StanzaFault::RemoteServerNotFound, true));
    }
}
