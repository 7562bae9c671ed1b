//! Clients that are connecting: being authenticated, delayed by the pace, or admitted but not
//! answered yet.
//!
//! All of it is found by the connection, and ends with it. It knows no session's state and decides
//! nothing. Invariant: an identifier that the server assigned is here until its client has a
//! session or is refused.

use crate::rewrite::Names;
use base::hash::HashKey;
use base::pace::AdmissionPace;
use base::prng::Prng;
use base::slab::Key;
use base::time::Now;
use model::id::ConnRef;
use model::machine::SecretSource;
use model::ports::access::Grant;
use model::session::{ConnectRequest, Connected};
use std::collections::{BTreeMap, BTreeSet};

/// Questions that may be out, a shard. One more is refused as Busy.
pub(crate) const ASKING_MAX: usize = 65_536;

/// Connects that may wait because they come too often, a shard. One more is refused as Busy.
const LATE_MAX: usize = 16_384;

/// Seconds over which the connections of a client are counted.
const FLAP_S: u32 = 10;

/// How identifiers begin that the broker gives.
const ASSIGNED: &str = "auto-";

/// Owner of a question.
pub(crate) enum Asker {
    /// A client that connects.
    Connect(Box<ConnectRequest>),
    /// A client that proves itself again.
    Session(Key),
}

/// A question that is out, or waits for the client's next step.
pub(crate) struct Asking {
    pub conn: ConnRef,
    pub asker: Asker,
    pub method: Option<Box<str>>,
    pub dialogue: Option<Box<[u8]>>,
    pub steps: u8,
}

/// The last word of an exchange: method and data.
pub(crate) type LastWord = Option<(Box<str>, Box<[u8]>)>;

/// Client that has shown who it is.
pub(crate) struct Proven {
    pub connect: ConnectRequest,
    pub method: LastWord,
    pub grant: Grant,
    /// Of the rules by which it was let in.
    pub version: u64,
    /// A session that was in the log was ended for it.
    pub ends_durable: bool,
}

impl Proven {
    pub fn names(&self) -> Names<'_> {
        Names { client: &self.connect.client_id, user: self.grant.user.as_deref() }
    }
}

/// A client that is let in, before its welcome is sent.
pub(crate) struct Welcome {
    pub key: Key,
    pub conn: ConnRef,
    pub connected: Connected,
}

/// Items that wait under a number, one for each connection.
struct Numbered<T> {
    open: BTreeMap<u64, (ConnRef, T)>,
    of: BTreeMap<ConnRef, u64>,
    last: u64,
}

impl<T> Numbered<T> {
    fn new() -> Numbered<T> {
        Numbered { open: BTreeMap::new(), of: BTreeMap::new(), last: 0 }
    }

    fn put(&mut self, conn: ConnRef, waits: T) -> u64 {
        self.last += 1;
        self.of.insert(conn, self.last);
        self.open.insert(self.last, (conn, waits));
        self.last
    }

    fn take(&mut self, number: u64) -> Option<(ConnRef, T)> {
        let taken = self.open.remove(&number)?;
        self.of.remove(&taken.0);
        Some(taken)
    }

    fn take_of(&mut self, conn: ConnRef) -> Option<(ConnRef, T)> {
        let number = *self.of.get(&conn)?;
        self.take(number)
    }
}

/// Admissions of a shard.
pub(crate) struct Admissions {
    hash_key: HashKey,
    pace: AdmissionPace,
    askings: Numbered<Asking>,
    late: Numbered<Box<Proven>>,
    welcomes: BTreeMap<ConnRef, Key>,
    /// Identifiers that were given and are not in use yet.
    assigned: BTreeSet<Box<str>>,
    /// Draws those identifiers. They are secret: a client that guesses one takes the session over.
    secrets: SecretSource,
    /// How often each client took its own connection over in this window of time, by hash.
    flaps: BTreeMap<u64, u16>,
    flap_window: u32,
    rng: Prng,
    closed: bool,
}

impl Admissions {
    /// An empty store that admits this many clients a second. `seed` and `secrets` are the source
    /// of randomness.
    pub fn new(
        hash_key: HashKey,
        (seed, secrets): (u64, [u8; 32]),
        connects_per_s: u32,
    ) -> Admissions {
        Admissions {
            hash_key,
            pace: AdmissionPace::new(connects_per_s),
            askings: Numbered::new(),
            late: Numbered::new(),
            welcomes: BTreeMap::new(),
            assigned: BTreeSet::new(),
            secrets: SecretSource::new(secrets),
            flaps: BTreeMap::new(),
            flap_window: 0,
            rng: Prng::new(seed),
            closed: false,
        }
    }

    /// Whether the pace admits a client now; if so, it is counted.
    pub fn is_in_pace(&mut self, now: Now) -> bool {
        self.pace.admit(now).is_ok()
    }

    /// An identifier for a client that has none, such as fits.
    pub fn assign(&mut self, fits: impl Fn(&str) -> bool) -> Box<str> {
        loop {
            let number = self.secrets.number() as u64;
            let id = format!("{ASSIGNED}{number:016x}").into_boxed_str();
            if fits(&id) {
                self.assigned.insert(id.clone());
                return id;
            }
        }
    }

    /// For what clients are given apart from others.
    pub fn rng(&mut self) -> &mut Prng {
        &mut self.rng
    }

    /// Refuses all clients from now on, or admits them again.
    pub fn set_closed(&mut self, closed: bool) {
        self.closed = closed;
    }

    /// Sets how many clients are admitted a second.
    pub fn set_rate(&mut self, connects_per_s: u32) {
        self.pace.set_rate(connects_per_s);
    }

    pub fn are_closed(&self) -> bool {
        self.closed
    }

    /// Whether the server assigned an identifier, so that no client chose it.
    pub fn has_assigned(&self, client_id: &str) -> bool {
        self.assigned.contains(client_id)
    }

    /// A client has its session, or is turned away; whether its identifier was given.
    pub fn take_assigned(&mut self, client_id: &str) -> bool {
        self.assigned.remove(client_id)
    }

    /// Counts that a client takes its own connection over: whether it does more often than so.
    pub fn flaps(&mut self, now: Now, names: Names<'_>, most: u16) -> bool {
        let window = now.secs() / FLAP_S;
        if self.flap_window != window {
            (self.flap_window, self.flaps) = (window, BTreeMap::new());
        }
        let hash =
            self.hash_key.of(&[names.client.as_bytes(), names.user.unwrap_or_default().as_bytes()]);
        let count = self.flaps.entry(hash).or_insert(0);
        *count = count.saturating_add(1);
        *count > most
    }

    /// Whether another question may be out.
    pub fn may_ask(&self) -> bool {
        self.askings.open.len() < ASKING_MAX
    }

    /// A question is out: its number.
    pub fn put_asking(&mut self, asking: Asking) -> u64 {
        self.askings.put(asking.conn, asking)
    }

    /// The question with a number is answered.
    pub fn take_asking(&mut self, number: u64) -> Option<Asking> {
        self.askings.take(number).map(|(_, asking)| asking)
    }

    /// Takes the open question of a connection: it continues, or is abandoned.
    pub fn take_asking_of(&mut self, conn: ConnRef) -> Option<Asking> {
        self.askings.take_of(conn).map(|(_, asking)| asking)
    }

    /// A connection ended while a question about it was out, or its client had the next word.
    pub fn forget_asking(&mut self, conn: ConnRef) {
        if let Some(Asking { asker: Asker::Connect(connect), .. }) = self.take_asking_of(conn) {
            self.take_assigned(&connect.client_id);
        }
    }

    /// A client comes too often, and waits: its number; `None`: too many do.
    pub fn put_late(&mut self, conn: ConnRef, proven: Box<Proven>) -> Result<u64, Box<Proven>> {
        match self.late.open.len() < LATE_MAX {
            true => Ok(self.late.put(conn, proven)),
            false => Err(proven),
        }
    }

    /// Takes a client whose delay is over.
    pub fn take_late(&mut self, number: u64) -> Option<(ConnRef, Box<Proven>)> {
        self.late.take(number)
    }

    /// Notes an admitted client, which is answered when the log has its rows.
    pub fn expect_welcome(&mut self, welcome: &Welcome) {
        self.welcomes.insert(welcome.conn, welcome.key);
    }

    /// Forgets a welcome that was sent, or whose connection is gone; returns its session.
    pub fn end_welcome(&mut self, conn: ConnRef) -> Option<Key> {
        self.welcomes.remove(&conn)
    }

    /// A connection went before it was answered; the session that it was let in to.
    pub fn forget(&mut self, conn: ConnRef) -> Option<Key> {
        self.forget_asking(conn);
        self.late.take_of(conn);
        self.end_welcome(conn)
    }

    /// Panics when an invariant does not hold. `conn_of`: to what a session is bound.
    pub fn audit(&self, conn_of: impl Fn(Key) -> Option<ConnRef>) {
        let mut coming = 0;
        for (conn, asking) in self.askings.open.values() {
            match asking.asker {
                Asker::Connect(_) => coming += 1,
                Asker::Session(key) => {
                    assert_eq!(conn_of(key), Some(*conn), "who is asked about is here");
                }
            }
        }
        assert!(self.assigned.len() <= coming, "an identifier is given to who may come in");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::made::{NOW, conn};
    use base::time::Instant;

    fn admissions() -> Admissions {
        Admissions::new(HashKey::new(1, 2), (1, [1; 32]), 1_000)
    }

    #[test]
    fn a_client_that_comes_more_often_than_it_may_is_told_by_name_and_window() {
        let mut admissions = admissions();
        let mut flaps = |now, client, user| admissions.flaps(now, Names { client, user }, 2);
        assert_eq!([(); 3].map(|()| flaps(NOW, "a", None)), [false, false, true]);
        assert!(!flaps(NOW, "a", Some("u")) && !flaps(NOW, "b", None), "others are others");
        let window = u64::from(FLAP_S) * 1_000_000_000;
        let later = Now::new(Instant::from_nanos(window + 1_000_000_000), NOW.wall_ms);
        assert!(!flaps(later, "a", None), "another window");
    }

    #[test]
    fn given_identifiers_do_not_follow_from_the_seed_of_jitter() {
        let given = |seed, key| {
            let mut admissions = Admissions::new(HashKey::new(1, 2), (seed, [key; 32]), 1_000);
            [(); 2].map(|()| admissions.assign(|_| true))
        };
        let [first, second] = given(1, 1);
        assert!(first != second && first.len() == ASSIGNED.len() + 16, "{first} {second}");
        assert_eq!(given(2, 1), given(1, 1));
        assert_ne!(given(1, 2), given(1, 1));
    }

    #[test]
    fn what_waits_for_a_connection_goes_with_it() {
        let mut admissions = admissions();
        let asking = |slot| {
            let asker = Asker::Session(Key { slot: 0, generation: 0 });
            Asking { conn: conn(slot), asker, method: None, dialogue: None, steps: 0 }
        };
        let numbers = [1, 2].map(|slot| admissions.put_asking(asking(slot)));
        assert_eq!(admissions.forget(conn(1)), None);
        assert!(admissions.take_asking(numbers[0]).is_none());
        assert!(admissions.take_asking_of(conn(2)).is_some_and(|it| it.conn == conn(2)));
        assert!(admissions.take_asking(numbers[1]).is_none(), "it was taken");
    }
}
