//! Calls by name: from a domain to a connection whose protocol begins.
//!
//! ```text
//! services ──records──► places, by priority ──addresses──► attempts, two at most ──► opened
//!     └─none: the host itself ─┘     └──────── the next when one fails ───────┘
//! ```
//! It is a part that a shard's logic has. The logic passes on reports of calls
//! ([`ShardLogic::dialling`] and its like), of answers, and of its turns; connections, layers and
//! counters are the shard's as those of any connection. It knows no resolver and no clock.
//!
//! Invariant: each call ends once, by [`opened`](Dialler::opened) or in
//! [`take_failed`](Dialler::take_failed), and leaves no attempt behind.

mod fault;
mod public;
mod route;

pub use fault::CallFault;

use crate::detail::{Detail, Reached};
use crate::layer::ClientLayers;
use crate::logic::{Dial, DialAddress, ShardHandle, ShardLogic};
use base::prng::Prng;
use base::time::{Instant, Now, earliest};
use model::close::CloseReason;
use model::id::ConnRef;
use model::limits::DialLimits;
use model::ports::names::{
    NameAnswer, NameFault, NameQuestion, NameRecords, NameResolver, ServiceRecord,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Attempts of one call at once.
const ATTEMPTS_AT_ONCE: usize = 2;

/// A call to somebody by name.
#[derive(Clone)]
pub struct NamedCall {
    /// The domain, in ASCII (RFC 5890), or an address.
    pub domain: Box<str>,
    /// Services to look for under it (`_xmpp-server._tcp`), each with what goes around its
    /// protocol. All their places are tried in one order (XEP-0368 5). TLS believes certificates of
    /// the domain, whatever host a record names (RFC 6125 6.2.1): that is in the layers.
    pub services: Vec<(&'static str, ClientLayers)>,
    /// Port and layers of the domain's own host, where no service has a record, or none is asked.
    pub host: Option<(u16, ClientLayers)>,
    /// Local address; `None`: the kernel chooses.
    pub from: Option<IpAddr>,
    /// Whether the name comes from outside: it must not be an address, and only public addresses of
    /// it are called. Else anybody could have this server call what only this server reaches.
    pub public_only: bool,
    /// Given back with the connection or the fault.
    pub tag: u64,
}

/// Place where a call may go: a host and its port.
struct Place {
    host: Box<str>,
    port: u16,
    layers: ClientLayers,
}

struct Attempt {
    tag: u64,
    conn: Option<ConnRef>,
    /// When TCP must stand; absent once it does, or once it was given up.
    until: Option<Instant>,
    stands: bool,
}

struct Call {
    named: NamedCall,
    /// Look-ups of services that are not answered, with their place in the list.
    asked: Vec<(u64, usize)>,
    found: Vec<(ServiceRecord, ClientLayers)>,
    places: VecDeque<Place>,
    /// The host whose addresses are asked.
    looks_up: Option<(u64, Place)>,
    /// When what was asked must be answered.
    answer_until: Instant,
    addresses: VecDeque<(DialAddress, ClientLayers)>,
    attempts: Vec<Attempt>,
    tried: usize,
    /// When a second attempt may begin beside the first.
    next_at: Instant,
    fault: Option<CallFault>,
}

/// Calls by name of one shard's logic.
pub struct Dialler {
    limits: DialLimits,
    rng: Prng,
    calls: BTreeMap<u64, Call>,
    /// Which call a look-up's ticket, or an attempt's tag, belongs to.
    owners: BTreeMap<u64, u64>,
    last_number: u64,
    /// Attempts that are not needed any more.
    losers: Vec<ConnRef>,
    failed: Vec<(u64, CallFault)>,
    next: Option<Instant>,
    is_changed: bool,
}

impl Dialler {
    /// One without calls. `seed` draws among places of equal priority.
    pub fn new(limits: DialLimits, seed: u64) -> Dialler {
        Dialler {
            limits,
            rng: Prng::new(seed),
            calls: BTreeMap::new(),
            owners: BTreeMap::new(),
            last_number: 0,
            losers: Vec::new(),
            failed: Vec::new(),
            next: None,
            is_changed: false,
        }
    }

    /// Calls under way.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Begins a call.
    pub fn call(&mut self, now: Now, named: NamedCall, names: &mut dyn NameResolver) {
        let Some((id, mut call)) = self.begin(now, named) else { return };
        let literal = call.named.domain.trim_start_matches('[').trim_end_matches(']').parse();
        match (literal, call.named.host.clone()) {
            // It has nothing to try, so it ends in its first turn.
            (Ok(_), _) if call.named.public_only => {
                call.fault = Some(CallFault::NotPublic);
            }
            (Ok(address), Some((port, layers))) => {
                call.addresses.push_back((SocketAddr::new(address, port).into(), layers));
            }
            _ if call.named.services.is_empty() => call.fall_back(),
            _ => {
                for (at, (service, _)) in call.named.services.clone().into_iter().enumerate() {
                    let ticket = self.number();
                    self.owners.insert(ticket, id);
                    call.asked.push((ticket, at));
                    let name = format!("{service}.{}", call.named.domain);
                    names.ask(ticket, NameQuestion::Services(name.into()));
                }
            }
        }
        self.calls.insert(id, call);
        self.is_changed = true;
    }

    /// Begins a call to whoever listens at a socket file.
    pub fn call_file(&mut self, now: Now, path: Arc<Path>, layers: ClientLayers, tag: u64) {
        let (domain, services, public_only) = ("".into(), Vec::new(), false);
        let named = NamedCall { domain, services, host: None, from: None, public_only, tag };
        let Some((id, mut call)) = self.begin(now, named) else { return };
        call.addresses.push_back((DialAddress::Unix(path), layers));
        self.calls.insert(id, call);
        self.is_changed = true;
    }

    /// A call that has not asked for anything yet, unless there is no room for it.
    fn begin(&mut self, now: Now, named: NamedCall) -> Option<(u64, Call)> {
        if self.calls.len() >= self.limits.calls_max {
            self.failed.push((named.tag, CallFault::Busy));
            return None;
        }
        let call = Call {
            asked: Vec::new(),
            found: Vec::new(),
            places: VecDeque::new(),
            looks_up: None,
            answer_until: now.after(ms(self.limits.resolve_ms_max)),
            addresses: VecDeque::new(),
            attempts: Vec::new(),
            tried: 0,
            next_at: now.mono,
            fault: None,
            named,
        };
        Some((self.number(), call))
    }

    /// Gives a call up: whoever made it hears no more of it.
    pub fn cancel(&mut self, tag: u64) {
        let found = self.calls.iter().find(|(_, call)| call.named.tag == tag);
        if let Some(id) = found.map(|(id, _)| *id) {
            self.end(id);
        }
    }

    /// A look-up was answered.
    pub fn answered(&mut self, ticket: u64, answer: NameAnswer) {
        let Some(id) = self.owners.remove(&ticket) else { return };
        let Some(call) = self.calls.get_mut(&id) else { return };
        self.is_changed = true;
        if let Some(at) = call.asked.iter().position(|(asked, _)| *asked == ticket) {
            let (_, service) = call.asked.remove(at);
            call.services_found(service, answer);
            if call.asked.is_empty() {
                call.choose(&mut self.rng);
            }
        } else if let Some((_, place)) = call.looks_up.take_if(|(asked, _)| *asked == ticket) {
            call.addresses_found(place, answer);
        }
    }

    /// An attempt has a connection ([`ShardLogic::dialling`]).
    pub fn dialling(&mut self, tag: u64, conn: ConnRef) {
        match self.attempt(tag) {
            Some(attempt) => attempt.conn = Some(conn),
            None => self.losers.push(conn),
        }
    }

    /// An attempt stands as far as TCP ([`ShardLogic::connected`]).
    pub fn connected(&mut self, tag: u64) {
        if let Some(attempt) = self.attempt(tag) {
            (attempt.stands, attempt.until) = (true, None);
        }
    }

    /// The protocol begins on an attempt ([`ShardLogic::machine`]): its call is over. Gives the tag
    /// of the call and the connection; `None`: another attempt was faster, and this one is not
    /// wanted.
    pub fn opened(&mut self, tag: u64) -> Option<(u64, ConnRef)> {
        let id = self.owners.remove(&tag)?;
        let call = self.calls.get_mut(&id)?;
        let at = call.attempts.iter().position(|attempt| attempt.tag == tag)?;
        let conn = call.attempts.swap_remove(at).conn?;
        let whose = call.named.tag;
        self.end(id);
        Some((whose, conn))
    }

    /// An attempt failed before its protocol began ([`ShardLogic::dial_failed`]), with what more is
    /// known of it ([`ShardHandle::detail`], [`ShardHandle::reached`]).
    pub fn dial_failed(
        &mut self,
        now: Now,
        tag: u64,
        reason: CloseReason,
        (detail, reached): (Detail, Reached),
    ) {
        let Some(id) = self.owners.remove(&tag) else { return };
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.attempts.retain(|attempt| attempt.tag != tag);
        call.fault = Some(CallFault::Failed(reason, detail, reached));
        call.next_at = now.mono;
        self.is_changed = true;
    }

    /// Goes on with all calls that can. Returns when there is more to do at the latest. To be
    /// called in each turn of the logic.
    pub fn turn<H: ShardLogic>(
        &mut self,
        now: Now,
        names: &mut dyn NameResolver,
        handle: &mut ShardHandle<H>,
    ) -> Option<Instant> {
        let mut dials = Vec::new();
        if self.is_changed || self.next.is_some_and(|next| next <= now.mono) {
            self.is_changed = false;
            self.next = None;
            let ids: Vec<u64> = self.calls.keys().copied().collect();
            ids.into_iter().for_each(|id| self.go_on(now, id, names, &mut dials));
            for late in self.overdue(now) {
                handle.close(late, CloseReason::ConnectFailed);
            }
        }
        for loser in self.losers.drain(..) {
            handle.close(loser, CloseReason::OwnStop);
        }
        dials.into_iter().for_each(|dial| handle.dial(dial));
        self.next
    }

    /// Takes the calls that have failed, by their tags.
    pub fn take_failed(&mut self) -> Vec<(u64, CallFault)> {
        std::mem::take(&mut self.failed)
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn attempt(&mut self, tag: u64) -> Option<&mut Attempt> {
        let id = self.owners.get(&tag)?;
        self.calls.get_mut(id)?.attempts.iter_mut().find(|attempt| attempt.tag == tag)
    }

    /// A call is over: nothing of it stays.
    fn end(&mut self, id: u64) {
        let Some(call) = self.calls.remove(&id) else { return };
        self.is_changed = true;
        let tags = call.attempts.iter().map(|attempt| attempt.tag);
        let tickets = call.asked.iter().map(|(ticket, _)| *ticket);
        let looks_up = call.looks_up.iter().map(|(ticket, _)| *ticket);
        for number in tags.chain(tickets).chain(looks_up) {
            self.owners.remove(&number);
        }
        self.losers.extend(call.attempts.iter().filter_map(|attempt| attempt.conn));
    }

    fn go_on(&mut self, now: Now, id: u64, names: &mut dyn NameResolver, dials: &mut Vec<Dial>) {
        let limits = self.limits;
        let (ticket, tag) = (self.number(), self.number());
        let Some(call) = self.calls.get_mut(&id) else { return };
        if call.answer_until <= now.mono {
            for ticket in call.give_up_look_ups(&mut self.rng) {
                self.owners.remove(&ticket);
            }
        }
        let left = limits.addresses_max.saturating_sub(call.tried);
        call.addresses.truncate(left);
        if call.wants_addresses(left)
            && let Some(place) = call.places.pop_front()
        {
            names.ask(ticket, NameQuestion::Addresses(place.host.clone()));
            call.looks_up = Some((ticket, place));
            call.answer_until = now.after(ms(limits.resolve_ms_max));
            self.owners.insert(ticket, id);
        }
        if call.may_try(now)
            && let Some((to, layers)) = call.addresses.pop_front()
        {
            let until = Some(now.after(ms(limits.connect_ms_max)));
            call.attempts.push(Attempt { tag, conn: None, until, stands: false });
            call.tried += 1;
            call.next_at = now.after(ms(limits.attempt_delay_ms));
            self.owners.insert(tag, id);
            dials.push(Dial { to, from: call.named.from, layers, tag });
        }
        if call.is_over() {
            let fault = call.fault.unwrap_or(CallFault::Name(NameFault::Absent));
            self.failed.push((call.named.tag, fault));
            return self.end(id);
        }
        self.next = earliest([self.next, call.next(now)]);
    }

    /// Attempts whose TCP does not come to stand in time.
    fn overdue(&mut self, now: Now) -> Vec<ConnRef> {
        let attempts = self.calls.values_mut().flat_map(|call| &mut call.attempts);
        let late = attempts.filter(|attempt| attempt.until.is_some_and(|until| until <= now.mono));
        late.filter_map(|attempt| {
            attempt.until = None;
            attempt.conn
        })
        .collect()
    }
}

impl Call {
    /// No service has a record: the domain's own host is called.
    fn fall_back(&mut self) {
        if let Some((port, layers)) = self.named.host.clone() {
            let domain = &self.named.domain;
            let host = if self.named.services.is_empty() { domain.clone() } else { whole(domain) };
            self.places.push_back(Place { host, port, layers });
        }
    }

    fn services_found(&mut self, service: usize, answer: NameAnswer) {
        let layers = &self.named.services[service].1;
        match answer {
            Ok(NameRecords::Services(records)) => {
                let each = records.iter().map(|record| (record.clone(), layers.clone()));
                self.found.extend(each);
            }
            Ok(NameRecords::Addresses(_)) => self.fault = Some(CallFault::Name(NameFault::Failed)),
            Err(NameFault::Absent) => {}
            Err(fault) => self.fault = Some(CallFault::Name(fault)),
        }
    }

    /// All services have answered: their places stand in one order. Where none has a record the
    /// host itself is called, but not where somebody may only have kept the records back.
    fn choose(&mut self, rng: &mut Prng) {
        let found = std::mem::take(&mut self.found);
        let is_refused = found.iter().any(|(record, _)| record.target.is_empty());
        let offered: Vec<_> =
            found.into_iter().filter(|(record, _)| !record.target.is_empty()).collect();
        if offered.is_empty() && is_refused {
            self.fault = Some(CallFault::NotOffered);
        } else if offered.is_empty() && self.fault.is_none() {
            self.fall_back();
        }
        for (record, layers) in route::order(offered, rng) {
            let ServiceRecord { target, port, .. } = record;
            self.places.push_back(Place { host: whole(&target), port, layers });
        }
    }

    fn addresses_found(&mut self, place: Place, answer: NameAnswer) {
        match answer {
            Ok(NameRecords::Addresses(addresses)) => {
                let (public_only, before) = (self.named.public_only, self.addresses.len());
                for address in route::interleave(&addresses) {
                    if public_only && !public::is_public(address) {
                        continue;
                    }
                    let to = SocketAddr::new(address, place.port);
                    self.addresses.push_back((to.into(), place.layers.clone()));
                }
                if self.addresses.len() == before {
                    self.fault = Some(CallFault::NotPublic);
                }
            }
            Ok(NameRecords::Services(_)) => self.fault = Some(CallFault::Name(NameFault::Failed)),
            Err(fault) => self.fault = Some(CallFault::Name(fault)),
        }
    }

    /// Look-ups that were not answered in time are over. Gives their tickets.
    fn give_up_look_ups(&mut self, rng: &mut Prng) -> Vec<u64> {
        let services = std::mem::take(&mut self.asked);
        let host = self.looks_up.take();
        if services.is_empty() && host.is_none() {
            return Vec::new();
        }
        self.fault = Some(CallFault::Name(NameFault::Failed));
        if !services.is_empty() {
            self.choose(rng);
        }
        services
            .into_iter()
            .map(|(ticket, _)| ticket)
            .chain(host.map(|(ticket, _)| ticket))
            .collect()
    }

    fn stands(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.stands)
    }

    fn wants_addresses(&self, left: usize) -> bool {
        left > 0
            && self.asked.is_empty()
            && self.looks_up.is_none()
            && self.addresses.is_empty()
            && !self.stands()
    }

    fn may_try(&self, now: Now) -> bool {
        let room = self.attempts.len() < ATTEMPTS_AT_ONCE && !self.stands();
        room && (self.attempts.is_empty() || self.next_at <= now.mono)
    }

    fn is_over(&self) -> bool {
        let none_left = self.addresses.is_empty() && self.attempts.is_empty();
        none_left && self.asked.is_empty() && self.looks_up.is_none()
    }

    /// When there is more to do with it at the latest.
    fn next(&self, now: Now) -> Option<Instant> {
        let waits = !self.asked.is_empty() || self.looks_up.is_some();
        let answer = waits.then_some(self.answer_until);
        let room = self.attempts.len() < ATTEMPTS_AT_ONCE && !self.stands();
        let more = (room && !self.addresses.is_empty()).then_some(self.next_at.max(now.mono));
        let connects = self.attempts.iter().filter_map(|attempt| attempt.until).min();
        earliest([answer, more, connects])
    }
}

/// A name to which nothing is added.
fn whole(name: &str) -> Box<str> {
    format!("{}.", name.trim_end_matches('.')).into()
}

const fn ms(ms: u32) -> Duration {
    Duration::from_millis(ms as u64)
}

#[cfg(test)]
mod tests;
