//! Bans in force, looked up without a lock.
//!
//! The list is one value that readers load and a writer replaces whole: a lookup costs a hash of
//! the address for each prefix length in the list, of the client and of the user, however many bans
//! exist. It stores nothing and reads no clock. Invariants: a subject has one ban, and an expired
//! ban refuses no client.

pub mod offences;
pub mod sources;

use arc_swap::ArcSwap;
use model::link::network::IpNetwork;
use model::ports::bans::{Ban, BanAct, BanFault, BanSubject, bits_min};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Subject of a connection or a login, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BanQuery<'a> {
    /// Its address.
    pub address: Option<IpAddr>,
    /// Its client identifier or device.
    pub client: Option<&'a str>,
    /// Its user.
    pub user: Option<&'a str>,
}

/// All bans. One serves all shards.
#[derive(Default)]
pub struct BanList {
    held: ArcSwap<Held>,
    /// Rises with each ban that may end connections.
    version: AtomicU64,
}

#[derive(Clone, Default)]
struct Held {
    networks: HashMap<IpNetwork, Arc<Entry>>,
    clients: HashMap<Box<str>, Arc<Entry>>,
    users: HashMap<Box<str>, Arc<Entry>>,
    /// How many networks have a prefix of this many bits.
    lengths: BTreeMap<u8, u32>,
}

/// A ban and what it has done.
struct Entry {
    ban: Ban,
    refused: AtomicU64,
    ended: AtomicU64,
}

impl Entry {
    fn new(ban: Ban) -> Arc<Entry> {
        let (refused, ended) = (ban.refused.into(), ban.ended.into());
        Arc::new(Entry { ban, refused, ended })
    }

    fn holds(&self, now_s: u32) -> bool {
        self.ban.until_s == 0 || now_s < self.ban.until_s
    }

    fn shown(&self) -> Ban {
        let (refused, ended) = (&self.refused, &self.ended);
        let [refused, ended] = [refused, ended].map(|count| count.load(Ordering::Relaxed));
        Ban { refused, ended, ..self.ban.clone() }
    }
}

impl Held {
    fn find(&self, now_s: u32, whom: &BanQuery<'_>) -> Option<&Entry> {
        let of_address = whom.address.and_then(|address| self.find_address(now_s, address));
        let client = || self.clients.get(whom.client?).filter(|entry| entry.holds(now_s));
        let user = || self.users.get(whom.user?).filter(|entry| entry.holds(now_s));
        of_address.or_else(client).or_else(user).map(|entry| &**entry)
    }

    fn find_address(&self, now_s: u32, address: IpAddr) -> Option<&Arc<Entry>> {
        let lengths = self.lengths.range(bits_min(address)..).rev();
        let networks = lengths.map(|(bits, _)| IpNetwork::around(address, *bits));
        let mut found = networks.filter_map(|network| self.networks.get(&network));
        found.find(|entry| entry.holds(now_s))
    }

    fn entry(&self, subject: &BanSubject) -> Option<&Arc<Entry>> {
        match subject {
            BanSubject::Network(network) => self.networks.get(network),
            BanSubject::Client(name) => self.clients.get(name),
            BanSubject::User(name) => self.users.get(name),
        }
    }

    fn put(&mut self, entry: Arc<Entry>) {
        self.remove(&entry.ban.subject.clone());
        match &entry.ban.subject {
            BanSubject::Network(network) => {
                *self.lengths.entry(network.bits()).or_default() += 1;
                self.networks.insert(*network, entry);
            }
            BanSubject::Client(name) => drop(self.clients.insert(name.clone(), entry)),
            BanSubject::User(name) => drop(self.users.insert(name.clone(), entry)),
        }
    }

    fn remove(&mut self, subject: &BanSubject) -> bool {
        match subject {
            BanSubject::Network(network) => {
                let was_there = self.networks.remove(network).is_some();
                if was_there && let Some(count) = self.lengths.get_mut(&network.bits()) {
                    *count -= 1;
                    if *count == 0 {
                        self.lengths.remove(&network.bits());
                    }
                }
                was_there
            }
            BanSubject::Client(name) => self.clients.remove(name).is_some(),
            BanSubject::User(name) => self.users.remove(name).is_some(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.networks.values().chain(self.clients.values()).chain(self.users.values())
    }

    fn len(&self) -> usize {
        self.networks.len() + self.clients.len() + self.users.len()
    }
}

impl BanList {
    /// Whether a client, user or address is banned; if so, the ban counts this act.
    pub fn bans(&self, now_s: u32, whom: &BanQuery<'_>, act: BanAct) -> bool {
        let held = self.held.load();
        let Some(entry) = held.find(now_s, whom) else { return false };
        let count = match act {
            BanAct::Refuses => &entry.refused,
            BanAct::Ends => &entry.ended,
        };
        count.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Rises with each new ban: then connections that are open must be looked at again.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The ban of a subject, if it holds.
    pub fn find(&self, now_s: u32, subject: &BanSubject) -> Option<Ban> {
        let held = self.held.load();
        held.entry(subject).filter(|entry| entry.holds(now_s)).map(|entry| entry.shown())
    }

    /// All that hold, in the order of their subjects.
    pub fn all(&self, now_s: u32) -> Vec<Ban> {
        let held = self.held.load();
        let holding = held.all().filter(|entry| entry.holds(now_s));
        let mut all: Vec<Ban> = holding.map(|entry| entry.shown()).collect();
        all.sort_by(|a, b| a.subject.cmp(&b.subject));
        all
    }

    /// Subjects of expired bans that are still in the list.
    pub fn over(&self, now_s: u32) -> Vec<BanSubject> {
        let held = self.held.load();
        let over = held.all().filter(|entry| !entry.holds(now_s));
        over.map(|entry| entry.ban.subject.clone()).collect()
    }

    /// Whether the list has room for this subject, with at most `most` bans.
    pub fn has_room(&self, subject: &BanSubject, most: u32) -> Result<(), BanFault> {
        let held = self.held.load();
        let has = held.entry(subject).is_some() || held.len() < most as usize;
        has.then_some(()).ok_or(BanFault::Full)
    }

    /// Puts these bans in force, each in place of the one with its subject. Callers must not
    /// overlap.
    pub fn put(&self, bans: impl IntoIterator<Item = Ban>) -> u64 {
        let mut held = Held::clone(&self.held.load());
        bans.into_iter().for_each(|ban| held.put(Entry::new(ban)));
        self.held.store(Arc::new(held));
        self.version.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Lifts the bans of these subjects. Callers must not overlap.
    pub fn remove<'a>(&self, subjects: impl IntoIterator<Item = &'a BanSubject>) {
        let mut held = Held::clone(&self.held.load());
        for subject in subjects {
            held.remove(subject);
        }
        self.held.store(Arc::new(held));
    }

    /// Number of bans, including expired ones that were not removed yet.
    pub fn count(&self) -> usize {
        self.held.load().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ports::bans::BanCause;

    pub(crate) fn ban(kind: &str, value: &str, until_s: u32) -> Ban {
        Ban {
            subject: BanSubject::parse(kind, value).expect("a subject"),
            cause: BanCause::Operator,
            note: "".into(),
            by: "ops".into(),
            made_s: 1,
            until_s,
            refused: 0,
            ended: 0,
        }
    }

    fn from(address: &str) -> BanQuery<'static> {
        BanQuery { address: Some(address.parse().expect("one")), ..BanQuery::default() }
    }

    fn refuses(list: &BanList, now_s: u32, whom: &BanQuery<'_>) -> bool {
        list.bans(now_s, whom, BanAct::Refuses)
    }

    #[test]
    fn networks_of_any_length_ban_their_addresses_until_they_are_over() {
        let list = BanList::default();
        list.put([ban("address", "192.0.2.0/24", 0), ban("address", "192.0.2.7", 50)]);
        list.put([ban("address", "2001:db8::/32", 0)]);
        for (address, at_s, is_banned) in [
            ("192.0.2.7", 49, true),
            ("192.0.2.7", 50, true), // the network goes on
            ("::ffff:192.0.2.9", 50, true),
            ("192.0.3.7", 49, false),
            ("2001:db8:ffff::1", 49, true),
            ("2001:db9::1", 49, false),
        ] {
            assert_eq!(refuses(&list, at_s, &from(address)), is_banned, "{address} {at_s}");
        }
        let network = BanSubject::parse("address", "192.0.2.0/24").expect("one");
        list.remove([&network]);
        assert!(refuses(&list, 49, &from("192.0.2.7")) && !refuses(&list, 50, &from("192.0.2.7")));
        assert_eq!((list.all(50).len(), list.over(50).len(), list.count()), (1, 1, 2));
    }

    #[test]
    fn a_wide_network_leaves_this_machine_alone() {
        let list = BanList::default();
        list.put([ban("address", "0.0.0.0/0", 0), ban("address", "::/0", 0)]);
        assert!(refuses(&list, 1, &from("192.0.2.7")) && refuses(&list, 1, &from("2001:db8::1")));
        assert!(!refuses(&list, 1, &from("127.0.0.1")) && !refuses(&list, 1, &from("::1")));
        list.put([ban("address", "127.0.0.0/8", 0)]);
        assert!(refuses(&list, 1, &from("127.0.0.1")) && !refuses(&list, 1, &from("::1")));
    }

    #[test]
    fn clients_and_users_are_banned_by_name_and_what_is_done_is_counted() {
        let list = BanList::default();
        list.put([ban("client", "c1", 0), ban("user", "ann", 9)]);
        let whom = |client, user| BanQuery { client, user, ..BanQuery::default() };
        assert!(refuses(&list, 1, &whom(Some("c1"), None)));
        assert!(list.bans(1, &whom(Some("c1"), Some("bob")), BanAct::Ends));
        assert!(refuses(&list, 8, &whom(Some("c2"), Some("ann"))));
        assert!(!refuses(&list, 9, &whom(None, Some("ann"))), "it is over");
        assert!(!refuses(&list, 1, &whom(Some("ann"), Some("c1"))), "each of its kind");
        let all = list.all(1).into_iter().map(|ban| (ban.subject.value(), ban.refused, ban.ended));
        assert_eq!(all.collect::<Vec<_>>(), [("c1".into(), 1, 1), ("ann".into(), 1, 0)]);
    }

    #[test]
    fn a_subject_has_one_ban_and_the_list_its_size() {
        let list = BanList::default();
        assert_eq!(list.put([ban("user", "ann", 9)]), 1);
        assert_eq!((list.put([ban("user", "ann", 0)]), list.count()), (2, 1));
        assert_eq!(list.version(), 2);
        let subject = |name: &str| BanSubject::User(name.into());
        assert_eq!(list.find(99, &subject("ann")).map(|ban| ban.until_s), Some(0));
        assert_eq!(list.has_room(&subject("ann"), 1), Ok(()), "it is replaced");
        assert_eq!(list.has_room(&subject("bob"), 1), Err(BanFault::Full));
        assert_eq!(list.has_room(&subject("bob"), 2), Ok(()));
    }

    #[test]
    fn a_lookup_looks_once_for_each_length_of_prefix() {
        let list = BanList::default();
        let bans = (0..10_000u32).map(|number| {
            let address = std::net::Ipv4Addr::from(0x0a00_0000 + number * 256);
            ban("address", &format!("{address}/{}", 24 + number % 2), 0)
        });
        list.put(bans);
        let held = list.held.load();
        assert_eq!((held.networks.len(), held.lengths.len()), (10_000, 2));
        assert!(refuses(&list, 1, &from("10.0.1.9")) && !refuses(&list, 1, &from("10.0.1.200")));
        assert!(!refuses(&list, 1, &from("11.0.0.1")));
    }
}
