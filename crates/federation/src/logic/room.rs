//! Room for domains: whose doing it is that one is called, and keys that are being asked about.
//!
//! No sender here, and no source elsewhere, has more than a share of what all need. It knows no
//! stanza and no stream. Invariants: a domain that was reached counts for none; a key is asked
//! about as long as the stream is there that shows it, and no longer than its time.

use crate::route::{DomainRoute, RouteState};
use base::time::Instant;
use model::id::ConnRef;
use model::link::Source;
use proto_xmpp::peer::{DialbackProof, DomainPair};
use std::collections::HashMap;

/// Keys that are asked about at once. A server that shows one more gets the answer that none was
/// available.
const SHOWING_MAX: usize = 1_024;

/// Routes by the domains between which they are.
pub(super) type Routes = HashMap<DomainPair, DomainRoute>;

/// Account or source because of which a domain is called.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum CallOpener {
    /// An account here, by its address.
    Account(Box<str>),
    /// A server elsewhere that shows a key.
    Source(Source),
}

/// How many domains are each one's doing.
#[derive(Default)]
pub(super) struct CallOpeners(HashMap<CallOpener, u32>);

impl CallOpeners {
    /// Whether one may have one more, of so many.
    pub(super) fn take(&mut self, who: &CallOpener, most: u32) -> bool {
        let count = self.0.entry(who.clone()).or_default();
        let is_taken = *count < most;
        *count += u32::from(is_taken);
        is_taken
    }

    /// Counts those that are not reached anew.
    pub(super) fn count(&mut self, routes: &Routes) {
        self.0.clear();
        let open = routes.values().filter(|it| !matches!(it.state, RouteState::Ready(_)));
        for who in open.filter_map(|route| route.opener.as_ref()) {
            *self.0.entry(who.clone()).or_default() += 1;
        }
    }
}

/// Whether there is room for one more route of so many. Domains that were not reached, and that
/// nothing waits for, make room.
pub(super) fn make_room(routes: &mut Routes, most: usize) -> bool {
    if routes.len() >= most {
        routes.retain(|_, route| {
            let has_failed = matches!(route.state, RouteState::Failed(..));
            !has_failed || route.has_any() || !route.proofs.is_empty()
        });
    }
    routes.len() < most
}

/// A stream on which somebody shows a key, until its domain has answered.
pub(super) struct Showing {
    pub(super) conn: ConnRef,
    /// The number of its machine.
    pub(super) number: u64,
    pub(super) source: Source,
    pub(super) proof: DialbackProof,
    pub(super) until: Instant,
    /// The stream ended over which it was asked about, and it was asked about once more.
    pub(super) is_asked_again: bool,
}

/// Whether a source may show one more key, of so many.
pub(super) fn may_show(showing: &[Showing], source: Source, most: u32) -> bool {
    let own = showing.iter().filter(|it| it.source == source).count();
    showing.len() < SHOWING_MAX && own < most as usize
}

/// The stream to a domain is over: whatever that was asked about is asked about over the next one,
/// once. A server that died has its old stream here until somebody writes over that.
pub(super) fn ask_again(showing: &mut [Showing], pair: &DomainPair, route: &mut DomainRoute) {
    for it in showing.iter_mut().filter(|it| it.proof.pair == *pair && !it.is_asked_again) {
        if !route.proofs.contains(&it.proof) {
            it.is_asked_again = true;
            route.proofs.push(it.proof.clone());
        }
    }
}

/// A stream is over: nobody is asked any more about the keys that were shown on it.
pub(super) fn forget_shown(showing: &mut Vec<Showing>, routes: &mut Routes, number: u64) {
    for Showing { proof, .. } in showing.extract_if(.., |it| it.number == number) {
        if let Some(route) = routes.get_mut(&proof.pair) {
            route.proofs.retain(|other| *other != proof);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::slab::Key;
    use base::time::Now;
    use model::id::ShardId;
    use model::limits::FederationLimits;
    use proto_xmpp::fault::StanzaFault;
    use std::net::IpAddr;
    use std::time::Duration;

    fn conn() -> ConnRef {
        ConnRef::new(ShardId(0), Key { slot: 1, generation: 1 })
    }

    fn source(last: u8) -> Source {
        Source::of(IpAddr::from([192, 0, 2, last]))
    }

    fn pair(peer: &str) -> DomainPair {
        DomainPair { own: "a.example".into(), peer: peer.into() }
    }

    fn failed(opener: Option<CallOpener>) -> DomainRoute {
        let until = Now::default().after(Duration::from_secs(30));
        let mut route = DomainRoute::of(opener);
        route.becomes(RouteState::Failed(until, StanzaFault::RemoteServerNotFound));
        route
    }

    fn showing(number: u64, source: Source) -> Showing {
        let (pair, id) = (pair("b.example"), number.to_string().into());
        let proof = DialbackProof { pair, id, key: "k".into() };
        let (conn, until, is_asked_again) = (conn(), Now::default().mono, false);
        Showing { conn, number, source, proof, until, is_asked_again }
    }

    #[test]
    fn domains_that_were_not_reached_make_room_unless_something_waits_for_them() {
        let mut routes = Routes::new();
        (0..4).for_each(|at| _ = routes.insert(pair(&format!("x{at}.example")), failed(None)));
        let waiting = routes.get_mut(&pair("x0.example")).expect("there");
        let until = Now::default().mono;
        let stanza = Box::<[u8]>::from(*b"a").into();
        assert_eq!(waiting.put(until, stanza, &FederationLimits::default()), Ok(()));
        routes
            .get_mut(&pair("x1.example"))
            .expect("there")
            .proofs
            .push(showing(1, source(1)).proof);
        assert!(make_room(&mut routes, 5) && routes.len() == 4, "there is some");
        assert!(make_room(&mut routes, 4) && routes.len() == 2);
        assert!(!make_room(&mut routes, 2), "these wait");
    }

    #[test]
    fn nobody_has_more_than_a_share_of_domains_that_are_not_reached() {
        let (ann, bob) = (CallOpener::Account("ann".into()), CallOpener::Account("bob".into()));
        let (mut openers, mut routes) = (CallOpeners::default(), Routes::new());
        for at in 0..3 {
            assert_eq!(openers.take(&ann, 2), at < 2, "{at}");
            routes.insert(pair(&format!("x{at}.example")), failed(Some(ann.clone())));
        }
        routes.remove(&pair("x2.example"));
        assert!(openers.take(&bob, 2), "another one has his own");
        openers.count(&routes);
        assert!(!openers.take(&ann, 2), "they are not reached");
        routes.get_mut(&pair("x0.example")).expect("there").becomes(RouteState::Ready((conn(), 1)));
        openers.count(&routes);
        assert!(openers.take(&ann, 2) && !openers.take(&ann, 2), "one was reached");
    }

    #[test]
    fn a_source_shows_so_many_keys_and_all_together_so_many() {
        let mut all: Vec<Showing> = (0..3).map(|number| showing(number, source(1))).collect();
        assert!(!may_show(&all, source(1), 3) && may_show(&all, source(2), 3));
        all.extend((3..SHOWING_MAX as u64).map(|number| showing(number, source(2))));
        assert!(!may_show(&all, source(3), 3), "that is all there is");
    }

    #[test]
    fn what_a_stream_was_asked_about_that_ended_is_asked_about_once_more() {
        let mut all: Vec<Showing> = (7..9).map(|number| showing(number, source(1))).collect();
        let (mut route, asked) = (DomainRoute::default(), pair("b.example"));
        route.proofs.push(all[0].proof.clone());
        ask_again(&mut all, &pair("c.example"), &mut route);
        assert_eq!(route.proofs.len(), 1, "another domain's stream");
        ask_again(&mut all, &asked, &mut route);
        assert_eq!(route.proofs.len(), 2, "the first waited to be asked about");
        route.proofs.clear();
        ask_again(&mut all, &asked, &mut route);
        assert_eq!(route.proofs, [all[0].proof.clone()], "the second was asked about twice");
        route.proofs.clear();
        ask_again(&mut all, &asked, &mut route);
        assert!(route.proofs.is_empty());
    }

    #[test]
    fn keys_of_a_stream_that_is_over_are_forgotten_and_no_others() {
        let (mut all, mut routes) = (Vec::new(), Routes::new());
        let mut route = DomainRoute::default();
        for number in [7, 8, 7] {
            let one = showing(number, source(1));
            route.proofs.push(one.proof.clone());
            all.push(one);
        }
        routes.insert(pair("b.example"), route);
        forget_shown(&mut all, &mut routes, 7);
        assert!(all.len() == 1 && all[0].number == 8);
        let proofs = &routes[&pair("b.example")].proofs;
        assert!(proofs.len() == 1 && proofs[0] == all[0].proof);
    }
}
