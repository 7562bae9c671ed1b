//! Calls by name, against a told resolver and a told clock.

use super::*;
use crate::logic::ConnectionOrigin;
use crate::logic::mute::Mute;
use base::slab::Key;
use model::id::ShardId;
use model::link::{Link, Protocol, WireProfile};

struct Nobody;

impl ShardLogic for Nobody {
    type Machine = Mute;
    type Mail = ();
    const WIRES: &'static [WireProfile] = &[];

    fn machine(&mut self, _: Now, _: &Link, _: ConnectionOrigin) -> Option<Mute> {
        None
    }

    fn word(&mut self, _: Now, _: ConnRef, (): (), _: &mut ShardHandle<Self>) {}

    fn mail(&mut self, _: Now, (): (), _: &mut ShardHandle<Self>) {}

    fn turn(&mut self, _: Now, _: &mut ShardHandle<Self>) -> Option<Instant> {
        None
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, (): (), _: &mut ShardHandle<Self>) {}
}

/// Questions without an answer.
#[derive(Default)]
struct Asked(Vec<(u64, NameQuestion)>);

impl NameResolver for Asked {
    fn ask(&mut self, ticket: u64, question: NameQuestion) {
        self.0.push((ticket, question));
    }
}

struct World {
    dialler: Dialler,
    names: Asked,
    handle: ShardHandle<Nobody>,
    now: Now,
    next: Option<Instant>,
    conns: u32,
    has_services: bool,
    public_only: bool,
}

const TAG: u64 = 4_242;

impl World {
    fn new() -> World {
        World {
            dialler: Dialler::new(DialLimits::default(), 1),
            names: Asked::default(),
            handle: ShardHandle::new(),
            now: Now::new(Instant::from_nanos(1_000_000_000), 0),
            next: None,
            conns: 0,
            has_services: false,
            public_only: false,
        }
    }

    fn call(&mut self, domain: &str, services: &[&'static str], port: Option<u16>) {
        let plain = || ClientLayers::plain(Protocol::Xmpp);
        self.has_services = !services.is_empty();
        let named = NamedCall {
            domain: domain.into(),
            services: services.iter().map(|&service| (service, plain())).collect(),
            host: port.map(|port| (port, plain())),
            from: None,
            public_only: self.public_only,
            tag: TAG,
        };
        self.dialler.call(self.now, named, &mut self.names);
        self.turn();
    }

    fn turn(&mut self) {
        self.next = self.dialler.turn(self.now, &mut self.names, &mut self.handle);
    }

    /// Answers the oldest question, which must be about this name.
    fn answer(&mut self, name: &str, answer: NameAnswer) {
        let (ticket, question) = self.names.0.remove(0);
        assert_eq!(question.name().trim_end_matches('.'), name);
        if let NameQuestion::Addresses(asked) = &question {
            assert_eq!(asked.ends_with('.'), self.has_services, "{asked}: whole or not");
        }
        self.dialler.answered(ticket, answer);
        self.turn();
    }

    /// Takes the calls that were begun, each with a connection.
    fn dialled(&mut self) -> Vec<(String, u64, ConnRef)> {
        let dials = std::mem::take(&mut self.handle.dials);
        let begin = |dial: Dial| {
            self.conns += 1;
            let conn = ConnRef::new(ShardId(0), Key { slot: self.conns, generation: 1 });
            self.dialler.dialling(dial.tag, conn);
            let to = match dial.to {
                DialAddress::Tcp(to) => to.to_string(),
                DialAddress::Unix(path) => path.display().to_string(),
            };
            (to, dial.tag, conn)
        };
        dials.into_iter().map(begin).collect()
    }

    fn closed(&mut self) -> Vec<(ConnRef, CloseReason)> {
        let closes = std::mem::take(&mut self.handle.closes);
        closes.into_iter().map(|(conn, reason, _)| (conn, reason)).collect()
    }

    fn fails(&mut self, tag: u64) {
        let known = (Detail::Nothing, Reached::Connect);
        self.dialler.dial_failed(self.now, tag, CloseReason::ConnectRefused, known);
        self.turn();
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now = Now::new(self.now.after(Duration::from_millis(ms)), 0);
        self.turn();
    }

    /// No call, question, attempt or order is left.
    fn is_clean(&mut self) -> bool {
        self.turn();
        let nothing = self.dialler.calls.is_empty() && self.dialler.owners.is_empty();
        nothing && self.next.is_none() && self.dialled().is_empty() && self.closed().is_empty()
    }
}

fn addresses(all: &[&str]) -> NameAnswer {
    let all = all.iter().map(|text| text.parse().expect("an address"));
    Ok(NameRecords::Addresses(all.collect()))
}

fn places(all: &[(u16, u16, &str)]) -> NameAnswer {
    let record = |&(priority, port, target): &(u16, u16, &str)| ServiceRecord {
        priority,
        weight: 1,
        port,
        target: target.into(),
    };
    Ok(NameRecords::Services(all.iter().map(record).collect()))
}

const REFUSED: CallFault =
    CallFault::Failed(CloseReason::ConnectRefused, Detail::Nothing, Reached::Connect);

#[test]
fn places_of_all_services_are_tried_by_priority_until_one_opens() {
    let mut world = World::new();
    world.call("a.example", &["_s._tcp", "_t._tcp"], Some(5_269));
    world.answer("_s._tcp.a.example", places(&[(20, 2, "late"), (5, 1, "early")]));
    assert!(world.dialled().is_empty(), "the other service has not answered");
    world.answer("_t._tcp.a.example", places(&[(10, 3, "middle")]));
    let mut tried = Vec::new();
    for host in ["early", "middle", "late"] {
        world.answer(host, addresses(&["10.0.0.1"]));
        let [(to, tag, conn)] = &world.dialled()[..] else { panic!("one attempt") };
        tried.push(to.clone());
        if host == "late" {
            world.dialler.connected(*tag);
            assert_eq!(world.dialler.opened(*tag), Some((TAG, *conn)));
        } else {
            world.fails(*tag);
        }
    }
    assert_eq!(tried, ["10.0.0.1:1", "10.0.0.1:3", "10.0.0.1:2"]);
    assert!(world.is_clean() && world.dialler.take_failed().is_empty());
}

#[test]
fn without_records_the_host_itself_is_called_but_not_when_they_were_kept_back() {
    let absent = Err(NameFault::Absent);
    let mut world = World::new();
    world.call("a.example", &["_s._tcp"], Some(5_269));
    world.answer("_s._tcp.a.example", absent.clone());
    world.answer("a.example", addresses(&["10.0.0.1"]));
    assert_eq!(world.dialled()[0].0, "10.0.0.1:5269");

    for (answer, fault) in [
        (Err(NameFault::Failed), CallFault::Name(NameFault::Failed)),
        (Err(NameFault::Busy), CallFault::Name(NameFault::Busy)),
        (places(&[(0, 0, "")]), CallFault::NotOffered),
    ] {
        let mut world = World::new();
        world.call("a.example", &["_s._tcp"], Some(5_269));
        world.answer("_s._tcp.a.example", answer);
        assert_eq!(world.dialler.take_failed(), [(TAG, fault)]);
        assert!(world.is_clean());
    }
    let mut world = World::new();
    world.call("a.example", &["_s._tcp"], None);
    world.answer("_s._tcp.a.example", absent);
    assert_eq!(world.dialler.take_failed(), [(TAG, CallFault::Name(NameFault::Absent))]);
    assert!(world.is_clean());
}

#[test]
fn a_second_address_is_tried_beside_one_that_does_not_answer() {
    let mut world = World::new();
    world.call("a.example", &[], Some(7));
    world.answer("a.example", addresses(&["10.0.0.1", "10.0.0.2", "2001:db8::1"]));
    let first = world.dialled();
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].0, "[2001:db8::1]:7", "IPv6 comes first");
    world.pass_ms(249);
    assert!(world.dialled().is_empty());
    world.pass_ms(1);
    let second = world.dialled();
    assert_eq!((second.len(), second[0].0.as_str()), (1, "10.0.0.1:7"));
    world.pass_ms(300);
    assert!(world.dialled().is_empty(), "there are two");
    world.dialler.connected(second[0].1);
    assert_eq!(world.dialler.opened(second[0].1), Some((TAG, second[0].2)));
    world.turn();
    assert_eq!(world.closed(), [(first[0].2, CloseReason::OwnStop)], "the slower one goes");
    world.fails(first[0].1);
    assert!(world.is_clean() && world.dialler.take_failed().is_empty());
}

#[test]
fn what_somebody_else_names_is_called_at_public_addresses_alone() {
    let of_others = || World { public_only: true, ..World::new() };
    for literal in ["127.0.0.1", "[::1]", "8.8.8.8", "2001:db8::1"] {
        let mut world = of_others();
        world.call(literal, &["_s._tcp"], Some(7));
        assert!(world.dialled().is_empty() && world.names.0.is_empty(), "{literal}");
        assert_eq!(world.dialler.take_failed(), [(TAG, CallFault::NotPublic)], "{literal}");
        assert!(world.is_clean());
    }
    let mut world = of_others();
    world.call("a.example", &[], Some(7));
    world.answer("a.example", addresses(&["10.0.0.1", "fe80::1", "127.0.0.1"]));
    assert!(world.dialled().is_empty());
    assert_eq!(world.dialler.take_failed(), [(TAG, CallFault::NotPublic)]);
    let mut world = of_others();
    world.call("a.example", &["_s._tcp"], Some(7));
    world.answer("_s._tcp.a.example", places(&[(5, 1, "inside"), (9, 2, "outside")]));
    world.answer("inside", addresses(&["192.168.0.1"]));
    world.answer("outside", addresses(&["10.0.0.1", "1.1.1.1"]));
    let dialled = world.dialled();
    assert_eq!(dialled.iter().map(|(to, ..)| &**to).collect::<Vec<_>>(), ["1.1.1.1:2"]);
}

#[test]
fn a_socket_file_is_called_without_a_question() {
    let mut world = World::new();
    let path = Path::new("/run/broker").into();
    world.dialler.call_file(world.now, path, ClientLayers::plain(Protocol::Xmpp), TAG);
    world.turn();
    let dialled = world.dialled();
    assert_eq!((dialled.len(), dialled[0].0.as_str()), (1, "/run/broker"));
    world.dialler.connected(dialled[0].1);
    assert_eq!(world.dialler.opened(dialled[0].1), Some((TAG, dialled[0].2)));
    assert!(world.names.0.is_empty() && world.is_clean());
}

#[test]
fn one_that_fails_makes_way_for_the_next_at_once_and_the_last_one_s_fault_is_told() {
    let mut world = World::new();
    world.call("a.example", &[], Some(7));
    world.answer("a.example", addresses(&["10.0.0.1", "10.0.0.2"]));
    let first = world.dialled();
    world.fails(first[0].1);
    let second = world.dialled();
    assert_eq!(second[0].0, "10.0.0.2:7");
    world.dialler.connected(second[0].1);
    let known = (Detail::Certificate("not for this name"), Reached::Layers);
    world.dialler.dial_failed(world.now, second[0].1, CloseReason::TlsFailed, known);
    world.turn();
    let fault = CallFault::Failed(CloseReason::TlsFailed, known.0, known.1);
    assert_eq!(world.dialler.take_failed(), [(TAG, fault)]);
    assert!(world.is_clean());
}

#[test]
fn while_an_attempt_stands_no_other_begins() {
    let mut world = World::new();
    world.call("a.example", &[], Some(7));
    world.answer("a.example", addresses(&["10.0.0.1", "10.0.0.2"]));
    let first = world.dialled();
    world.dialler.connected(first[0].1);
    world.pass_ms(60_000);
    assert!(world.dialled().is_empty() && world.closed().is_empty());
    world.fails(first[0].1);
    assert_eq!(world.dialled()[0].0, "10.0.0.2:7");
}

#[test]
fn every_phase_has_its_time() {
    let mut world = World::new();
    world.call("a.example", &["_s._tcp"], Some(7));
    world.pass_ms(5_000);
    assert_eq!(world.dialler.take_failed(), [(TAG, CallFault::Name(NameFault::Failed))]);
    let (ticket, _) = world.names.0.remove(0);
    world.dialler.answered(ticket, places(&[(1, 1, "late")]));
    assert!(world.is_clean(), "an answer that comes too late is none");

    let mut world = World::new();
    world.call("10.0.0.1", &["_s._tcp"], Some(7));
    let first = world.dialled();
    assert_eq!(first[0].0, "10.0.0.1:7", "an address is no name");
    assert_eq!(world.next, Some(world.now.after(Duration::from_secs(10))));
    world.pass_ms(10_000);
    assert_eq!(world.closed(), [(first[0].2, CloseReason::ConnectFailed)]);
    world.fails(first[0].1);
    assert_eq!(world.dialler.take_failed(), [(TAG, REFUSED)]);
    assert!(world.is_clean());
}

#[test]
fn calls_and_addresses_have_limits() {
    let mut world = World::new();
    let limits = DialLimits { calls_max: 1, addresses_max: 2, ..DialLimits::default() };
    world.dialler = Dialler::new(limits, 1);
    world.call("a.example", &["_s._tcp"], Some(7));
    world.call("b.example", &[], Some(7));
    assert_eq!(world.dialler.take_failed(), [(TAG, CallFault::Busy)]);
    world.has_services = true;
    world.answer("_s._tcp.a.example", places(&[(1, 1, "one"), (2, 2, "two")]));
    world.answer("one", addresses(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]));
    for _ in 0..2 {
        let [(_, tag, _)] = world.dialled()[..] else { panic!("one attempt") };
        world.fails(tag);
    }
    assert_eq!(world.dialler.take_failed(), [(TAG, REFUSED)]);
    assert!(world.is_clean() && world.names.0.is_empty(), "the second host is not looked up");
}

#[test]
fn a_call_that_is_given_up_leaves_nothing() {
    let mut world = World::new();
    world.call("a.example", &[], Some(7));
    world.dialler.cancel(TAG);
    assert!(world.is_clean());
    let (ticket, _) = world.names.0.remove(0);
    world.dialler.answered(ticket, addresses(&["10.0.0.1"]));
    assert!(world.is_clean());

    world.call("10.0.0.1", &[], Some(7));
    let first = world.dialled();
    world.dialler.cancel(TAG);
    world.turn();
    assert_eq!(world.closed(), [(first[0].2, CloseReason::OwnStop)]);
    assert_eq!(world.dialler.opened(first[0].1), None);
    assert!(world.is_clean() && world.dialler.take_failed().is_empty());
}

#[test]
fn whatever_answers_come_each_call_ends_once() {
    for seed in 0..300 {
        let mut rng = Prng::new(seed);
        let mut world = World::new();
        world.dialler = Dialler::new(DialLimits::default(), seed);
        world.call("a.example", &["_s._tcp", "_t._tcp"], Some(7));
        let mut open = Vec::new();
        let (mut opened, mut failed) = (0, 0);
        for _ in 0..400 {
            open.extend(world.dialled().into_iter().map(|(_, tag, _)| tag));
            let gone = world.closed();
            assert!(gone.len() <= 2);
            if !world.names.0.is_empty() && rng.one_in(2) {
                let at = rng.below(world.names.0.len() as u64) as usize;
                let (ticket, question) = world.names.0.remove(at);
                let answer = match (rng.below(4), question) {
                    (0, _) => Err(NameFault::Failed),
                    (1, _) => Err(NameFault::Absent),
                    (_, NameQuestion::Addresses(_)) => addresses(&["10.0.0.1", "::1"]),
                    (_, NameQuestion::Services(_)) => places(&[(1, 1, "x"), (1, 2, "y")]),
                };
                world.dialler.answered(ticket, answer);
            }
            if !open.is_empty() && rng.one_in(3) {
                let tag = open.remove(rng.below(open.len() as u64) as usize);
                match rng.below(6) {
                    0 => opened += usize::from(world.dialler.opened(tag).is_some()),
                    1 => {
                        world.dialler.connected(tag);
                        open.push(tag);
                    }
                    _ => world.fails(tag),
                }
            }
            world.pass_ms(rng.below(400));
            failed += world.dialler.take_failed().len();
        }
        for tag in open {
            world.fails(tag);
        }
        for _ in 0..100 {
            for (_, tag, _) in world.dialled() {
                world.fails(tag);
            }
            world.pass_ms(20_000);
        }
        failed += world.dialler.take_failed().len();
        assert_eq!(opened + failed, 1, "seed {seed}");
        world.closed();
        assert!(world.dialler.calls() == 0 && world.dialler.owners.is_empty(), "seed {seed}");
    }
}
