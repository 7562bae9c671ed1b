//! Reputation of sources: recent failures, and successful logins.
//!
//! A source is an address of IPv4 or a /64 of IPv6. Failures are counted by source and leak away;
//! successes are remembered by source and client, so that known clients may log in when others of
//! their source fail, and are served first when many wait. It reads no clock and calls no service.
//! Invariants: it never holds more than `sources_max` of each; clients of this machine are never
//! delayed; it admits no client by itself.

use crate::cache::{Cache, mac};
use model::link::Source;
use model::ports::access::{Admission, Question};
use model::session::Denial;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Seconds in which as many failures leak away as there may be.
const LEAK_S: u32 = 60;

/// Failures of one client at one source, however well it is known: a password that was changed is
/// tried a few times.
const OWN_FAILURES_MAX: u32 = 10;

/// How long a successful login counts as recent, seconds: a week.
const LATELY_S: u32 = 7 * 24 * 3_600;

/// Limits of what is remembered of sources, and of how much may fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceLimits {
    /// Failures a minute of one source; 0: any. Beyond, those of it that are not known are refused
    /// without a look.
    pub failures_max: u32,
    /// Sources that are remembered, and as many clients. Beyond, the oldest are forgotten.
    pub sources_max: u32,
}

impl Default for SourceLimits {
    fn default() -> Self {
        SourceLimits { failures_max: 300, sources_max: 100_000 }
    }
}

/// How well a client is known: the best known are served first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Known {
    /// The client, and where it comes from.
    Both,
    /// Either the source or the client is known.
    One,
    /// Neither is known.
    Neither,
}

impl Known {
    /// All, the best first.
    pub const ALL: [Known; 3] = [Known::Both, Known::One, Known::Neither];
}

/// Memory of sources and their failures. One serves all shards.
pub struct Sources {
    seed: [u8; 32],
    table: Mutex<Table>,
}

struct Table {
    limits: SourceLimits,
    good: Cache<(), Name>,
    failures: Cache<Failures, Name>,
}

/// Failures that have not leaked away.
#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    at_s: u32,
}

/// Key under which a source or client is remembered. A keyed hash of half the length that lets
/// somebody in: who has that of another by chance is looked at a little earlier, or later. In
/// four-byte words, so that a table has it beside its second without a gap.
type Name = [u32; 2];

/// Keys under which a source and a client are remembered.
struct Names {
    source: Name,
    client: Name,
    both: Name,
}

impl Sources {
    /// Makes an empty reputation; `seed` is random and new.
    pub fn new(limits: SourceLimits, seed: [u8; 32]) -> Sources {
        let table = Table { limits, good: Cache::new(), failures: Cache::new() };
        Sources { seed, table: Mutex::new(table) }
    }

    /// New limits; what is known stays.
    pub fn replace(&self, limits: SourceLimits) {
        self.table().limits = limits;
    }

    /// Whether somebody may try: its source has not failed too often, or it is known there and has
    /// not failed itself.
    pub fn may_try(&self, now_s: u32, question: &Question) -> bool {
        let names = self.names(question);
        let table = self.table();
        let most = table.limits.failures_max;
        if question.near || most == 0 || table.failed(now_s, &names.source, most) < most {
            return true;
        }
        table.is_good(now_s, &names.both)
            && table.failed(now_s, &names.both, OWN_FAILURES_MAX) < OWN_FAILURES_MAX
    }

    /// How well the client is known.
    pub fn known(&self, now_s: u32, question: &Question) -> Known {
        let names = self.names(question);
        let table = self.table();
        match (table.is_good(now_s, &names.source), table.is_good(now_s, &names.client)) {
            (true, true) => Known::Both,
            (false, false) => Known::Neither,
            _ => Known::One,
        }
    }

    /// Notes the answer to a client's attempt to log in.
    pub fn answered(&self, now_s: u32, question: &Question, admission: &Admission) {
        let failed = matches!(admission, Admission::Refused(Denial::BadCredentials));
        let good = matches!(admission, Admission::Granted(grant, _) if grant.user.is_some());
        if !good && (!failed || question.near) {
            return;
        }
        let names = self.names(question);
        let mut table = self.table();
        if failed {
            let most = table.limits.failures_max;
            table.fail(now_s, names.source, most);
            table.fail(now_s, names.both, OWN_FAILURES_MAX);
            return;
        }
        let (most, until_s) = (table.limits.sources_max, now_s.saturating_add(LATELY_S));
        for name in [names.source, names.client, names.both] {
            table.good.put(most, name, until_s, ());
        }
    }

    fn names(&self, question: &Question) -> Names {
        let source = Source::of(question.peer.ip()).bytes();
        let user = question.user.as_deref().unwrap_or_default().as_bytes();
        let length = (user.len() as u64).to_be_bytes();
        let id = question.client_id.as_bytes();
        Names {
            source: self.key(&[b"source", &source]),
            client: self.key(&[b"client", &length, user, id]),
            both: self.key(&[b"both", &source, &length, user, id]),
        }
    }

    fn key(&self, parts: &[&[u8]]) -> Name {
        let mac = mac(&self.seed, parts);
        [0, 4].map(|at| u32::from_ne_bytes(*mac[at..].first_chunk().expect("it has 32 bytes")))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn is_good(&self, now_s: u32, name: &Name) -> bool {
        self.good.find(now_s, name).is_some()
    }

    /// Failures that have not leaked away, where `most` do so in [`LEAK_S`].
    fn failed(&self, now_s: u32, name: &Name, most: u32) -> u32 {
        let Some(failures) = self.failures.find(now_s, name) else { return 0 };
        let age_s = u64::from(now_s.saturating_sub(failures.at_s));
        let leaked = age_s * u64::from(most) / u64::from(LEAK_S);
        failures.count.saturating_sub(u32::try_from(leaked).unwrap_or(u32::MAX))
    }

    fn fail(&mut self, now_s: u32, name: Name, most: u32) {
        // Never more than there may be: whoever goes on failing is not shut out for longer.
        let count = (self.failed(now_s, &name, most) + 1).min(most);
        let (until_s, kept) = (now_s.saturating_add(LEAK_S + 1), self.limits.sources_max);
        self.failures.put(kept, name, until_s, Failures { count, at_s: now_s });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ports::access::Grant;

    const LIMITS: SourceLimits = SourceLimits { failures_max: 60, sources_max: 1_000 };

    fn from(peer: &str, client_id: &str) -> Question {
        Question {
            client_id: client_id.into(),
            user: Some("ann".into()),
            password: Some((*b"x").into()),
            certificate: None,
            method: None,
            dialogue: None,
            bindings: None,
            peer: peer.parse().expect("an address"),
            near: false,
            door: 0,
            tls: false,
            protocol: "mqtt5",
        }
    }

    fn good() -> Admission {
        Admission::Granted(Grant { user: Some("ann".into()), ..Grant::OPEN }, None)
    }

    fn bad() -> Admission {
        Admission::Refused(Denial::BadCredentials)
    }

    #[test]
    fn a_source_that_failed_too_often_is_refused_until_it_leaked_away() {
        let sources = Sources::new(LIMITS, [1; 32]);
        for number in 0..60 {
            let question = from("10.0.0.1:1", &format!("d{number}"));
            assert!(sources.may_try(100, &question), "{number}");
            sources.answered(100, &question, &bad());
        }
        let (same, other) = (from("10.0.0.1:9", "new"), from("10.0.0.2:1", "new"));
        assert!(!sources.may_try(100, &same) && sources.may_try(100, &other));
        assert!(sources.may_try(101, &same), "one a second leaks away");
        let near = Question { near: true, ..same.clone() };
        assert!(sources.may_try(100, &near));
        // One who is not served, for whatever other reason, has not failed.
        for answer in [Admission::Refused(Denial::Unavailable), Admission::Later] {
            (0..99).for_each(|_| sources.answered(100, &other, &answer));
        }
        assert!(sources.may_try(100, &other));
        sources.replace(SourceLimits { failures_max: 0, ..LIMITS });
        assert!(sources.may_try(100, &same), "0 is any");
    }

    #[test]
    fn networks_of_ipv6_are_one_source() {
        let sources = Sources::new(LIMITS, [1; 32]);
        for number in 0..60 {
            let peer = format!("[2001:db8:0:1::{number:x}]:1");
            sources.answered(100, &from(&peer, "d"), &bad());
        }
        assert!(!sources.may_try(100, &from("[2001:db8:0:1:ffff::]:1", "x")));
        assert!(sources.may_try(100, &from("[2001:db8:0:2::1]:1", "x")));
    }

    #[test]
    fn whoever_was_here_goes_on_where_others_fail_until_it_fails_itself() {
        let sources = Sources::new(LIMITS, [1; 32]);
        let own = from("10.0.0.1:1", "own");
        sources.answered(100, &own, &good());
        (0..60).for_each(|_| sources.answered(100, &from("10.0.0.1:2", "other"), &bad()));
        assert!(!sources.may_try(100, &from("10.0.0.1:2", "fresh")));
        assert!(sources.may_try(100, &own));
        assert!(!sources.may_try(100, &Question { user: Some("eve".into()), ..own.clone() }));
        for _ in 0..10 {
            assert!(sources.may_try(100, &own));
            sources.answered(100, &own, &bad());
        }
        assert!(!sources.may_try(100, &own), "who guesses its password");
    }

    #[test]
    fn who_is_known_by_both_comes_first() {
        let sources = Sources::new(LIMITS, [1; 32]);
        sources.answered(100, &from("10.0.0.1:1", "own"), &good());
        for (peer, client, known) in [
            ("10.0.0.1:5", "own", Known::Both),
            ("10.0.0.1:5", "new", Known::One),
            ("10.0.0.2:5", "own", Known::One),
            ("10.0.0.2:5", "new", Known::Neither),
        ] {
            assert_eq!(sources.known(200, &from(peer, client)), known, "{peer} {client}");
        }
        assert_eq!(sources.known(100 + LATELY_S, &from("10.0.0.1:5", "own")), Known::Neither);
        let nameless = Admission::Granted(Grant::OPEN, None);
        sources.answered(100, &from("10.0.0.9:1", "x"), &nameless);
        assert_eq!(
            sources.known(100, &from("10.0.0.9:1", "x")),
            Known::Neither,
            "it showed nothing"
        );
        assert!(Known::ALL.is_sorted());
    }

    #[test]
    fn the_table_has_its_size() {
        let sources = Sources::new(SourceLimits { sources_max: 100, ..LIMITS }, [1; 32]);
        for number in 0..5_000u32 {
            let peer = format!("{}:1", std::net::Ipv4Addr::from(number));
            let question = from(&peer, "d");
            let answer = if number % 2 == 0 { good() } else { bad() };
            sources.answered(100, &question, &answer);
            let table = sources.table();
            assert!(table.good.len() <= 102 && table.failures.len() <= 102, "{number}");
        }
    }
}
