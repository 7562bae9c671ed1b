//! A seeded run against what a client may count on.
//!
//! Clients come and go, subscribe, publish at every QoS, answer late, and the process dies with any
//! part of what its logs were handed. At the end everybody comes back and drains. Then: what was
//! taken at QoS 1 or 2 while a durable session was subscribed has reached it; what is of QoS 2 on
//! both sides has reached it once; messages of one publisher to one topic came in their order;
//! nothing came that nobody asked for; and the logs are empty.

use crate::harness::{BrokerHarness, Client, connect, durable, message, payload, wish};
use base::prng::Prng;
use broker::routes;
use model::id::ConnRef;
use model::session::*;
use model::topic::{Publication, Qos};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const QOS: [Qos; 3] = [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce];
const TOPICS: [&str; 6] = ["t/0", "t/1", "u", "t/0/x", "c0/x", "c1/x"];
const FILTERS: [&str; 8] = ["t/0", "t/+", "#", "u", "t/#", "c0/x", "c1/#", "c1/+"];

/// A message of a client, until it is over.
struct Out {
    id: u16,
    number: usize,
    released: bool,
}

/// A client with its side of the session.
#[derive(Default)]
struct Sim {
    name: String,
    durable: bool,
    connecting: Option<ConnRef>,
    client: Option<Client>,
    incarnation: u32,
    /// Whether it asked for a clean start and was not answered: it goes on asking for one.
    cleans: bool,
    /// Granted: QoS, and since which step.
    subs: BTreeMap<&'static str, (Qos, usize)>,
    asked: Option<(&'static str, Qos)>,
    ever: BTreeSet<&'static str>,
    out: Vec<Out>,
    last_id: u16,
    /// Of QoS 2, received and not released.
    held: BTreeSet<u16>,
    todo: Vec<(u16, AckStep)>,
    /// Messages that the application got: message, incarnation, QoS.
    got: Vec<(usize, u32, Qos)>,
}

/// A message that was published.
struct Sent {
    publisher: usize,
    topic: &'static str,
    qos: Qos,
    step: usize,
    /// Its publisher sent it again: who subscribed meanwhile gets it late.
    again: bool,
}

struct Run {
    world: BrokerHarness,
    rng: Prng,
    sims: Vec<Sim>,
    sent: Vec<Sent>,
    /// Messages that must arrive: receiver, its incarnation, message.
    owed: Vec<(usize, u32, usize)>,
    step: usize,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Prng::new(seed);
        let world = BrokerHarness::new(1 + rng.below(3) as u16);
        let sim = |n: usize| Sim { name: format!("c{n}"), durable: n % 3 != 2, ..Sim::default() };
        let sims = (0..6).map(sim).collect();
        Run { world, rng, sims, sent: Vec::new(), owed: Vec::new(), step: 0 }
    }

    /// Tells what goes on, when one seed is looked at.
    fn note(&self, what: impl FnOnce() -> String) {
        if std::env::var("BROKER_TRACE").is_ok() {
            eprintln!("{} {}", self.step, what());
        }
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.below(of.len() as u64) as usize]
    }

    fn step(&mut self) {
        self.step += 1;
        self.note(|| "step".into());
        let at = self.rng.below(self.sims.len() as u64) as usize;
        match self.rng.below(100) {
            0..15 => self.come(at),
            15..19 => self.go(at),
            19..30 => self.subscribe(at),
            30..33 => self.unsubscribe(at),
            33..65 => self.publish(at),
            65..85 => self.answer(at, 3),
            85..88 => self.world.pass_ms(50),
            88..92 => self.world.keeps ^= true,
            92..94 => self.world.carries ^= true,
            94..98 => {
                let count = self.rng.below(4) as usize;
                self.world.complete(count, |_| Ok(()));
            }
            98 => self.world.run(),
            _ => {
                if self.rng.one_in(2) {
                    let count = self.rng.below(6) as usize;
                    self.die(count);
                }
            }
        }
        self.absorb();
    }

    fn die(&mut self, count: usize) {
        self.absorb();
        self.note(|| format!("dies after {count}"));
        self.world.crash_after(count);
        for sim in &mut self.sims {
            (sim.client, sim.connecting, sim.asked) = (None, None, None);
            sim.todo.clear();
        }
    }

    fn come(&mut self, at: usize) {
        let clean = self.rng.one_in(12);
        let sim = &mut self.sims[at];
        sim.cleans |= clean;
        let clean = sim.cleans;
        let make = if sim.durable { durable(&sim.name) } else { connect(&sim.name) };
        let make = ConnectRequest { clean_start: clean || !sim.durable, receive_max: 4, ..make };
        // The client closes whatever it had before.
        let name = sim.name.clone();
        sim.client = None;
        sim.todo.clear();
        sim.asked = None;
        let conn = self.world.conn(&sim.name);
        sim.connecting = Some(conn);
        self.note(|| format!("{name} comes, clean: {clean}"));
        self.world.ask(conn, SessionRequest::Connect(Box::new(make)));
    }

    fn go(&mut self, at: usize) {
        let sim = &mut self.sims[at];
        (sim.asked, sim.connecting) = (None, None);
        sim.todo.clear();
        let Some(client) = sim.client.take() else { return };
        self.world.cut(&client);
    }

    fn subscribe(&mut self, at: usize) {
        let (filter, qos) = (self.pick(&FILTERS), self.pick(&QOS));
        let sim = &mut self.sims[at];
        let Some(client) = &sim.client else { return };
        if sim.asked.is_some() {
            return;
        }
        sim.asked = Some((filter, qos));
        sim.subs.remove(filter);
        sim.ever.insert(filter);
        let (session, id) = (client.session, 77);
        let wishes = vec![wish(filter, qos)];
        let packet = SubscribeRequest { session, id, subscription_id: None, wishes };
        let conn = client.conn;
        self.note(|| format!("{at} subscribes {filter} {qos:?}"));
        self.world.ask(conn, SessionRequest::Subscribe(Box::new(packet)));
    }

    fn unsubscribe(&mut self, at: usize) {
        let filter = self.pick(&FILTERS);
        let sim = &mut self.sims[at];
        let Some(client) = &sim.client else { return };
        if sim.asked.is_some_and(|(asked, _)| asked == filter) {
            return;
        }
        sim.subs.remove(filter);
        let packet =
            UnsubscribeRequest { session: client.session, id: 78, filters: vec![filter.into()] };
        let conn = client.conn;
        self.note(|| format!("{at} unsubscribes {filter}"));
        self.world.ask(conn, SessionRequest::Unsubscribe(Box::new(packet)));
    }

    fn publish(&mut self, at: usize) {
        let (topic, qos) = (self.pick(&TOPICS), self.pick(&QOS));
        let (number, step) = (self.sent.len(), self.step);
        let sim = &mut self.sims[at];
        if sim.client.is_none() || sim.out.len() > 20 {
            return;
        }
        self.sent.push(Sent { publisher: at, topic, qos, step, again: false });
        let mut id = 0;
        if qos != Qos::AtMostOnce {
            while id == 0 || sim.out.iter().any(|out| out.id == id) {
                sim.last_id = sim.last_id % 30 + 1;
                id = sim.last_id;
            }
            sim.out.push(Out { id, number, released: false });
        }
        self.say(at, (id, number), false);
    }

    fn say(&mut self, at: usize, (id, number): (u16, usize), again: bool) {
        self.sent[number].again |= again;
        let Sent { topic, qos, .. } = self.sent[number];
        let Some(client) = &self.sims[at].client else { return };
        self.note(|| format!("{at} publishes {number} under {id} to {topic} at {qos:?}, {again}"));
        let message: Arc<Publication> = Arc::new(message(topic, qos, &number.to_string()));
        let (conn, session) = (client.conn, client.session);
        self.world.ask(conn, SessionRequest::Publish { session, id, again, message });
    }

    fn answer(&mut self, at: usize, count: usize) {
        for _ in 0..count {
            let sim = &mut self.sims[at];
            let Some(client) = sim.client.clone() else { return };
            if sim.todo.is_empty() {
                return;
            }
            let (id, step) = sim.todo.remove(0);
            self.world.ack(&client, id, step);
        }
    }

    /// Everybody hears what was said.
    fn absorb(&mut self) {
        for at in 0..self.sims.len() {
            let sim = &self.sims[at];
            let Some(conn) = sim.client.as_ref().map(|client| client.conn).or(sim.connecting)
            else {
                continue;
            };
            for word in self.world.heard(conn) {
                self.hear(at, conn, word);
            }
        }
    }

    fn hear(&mut self, at: usize, conn: ConnRef, word: SessionDelivery) {
        self.note(|| format!("{at} hears {word:?}"));
        let sim = &mut self.sims[at];
        match word {
            SessionDelivery::Connected(connected) => {
                (sim.connecting, sim.cleans) = (None, false);
                let session = connected.session;
                if !connected.present {
                    sim.incarnation += 1;
                    sim.subs.clear();
                    sim.out.clear();
                    sim.held.clear();
                }
                sim.client = Some(Client { conn, session, connected: *connected });
                let again: Vec<_> =
                    sim.out.iter().map(|out| (out.id, out.number, out.released)).collect();
                for (id, number, released) in again {
                    match released {
                        true => self.world.ask(conn, SessionRequest::Release { session, id }),
                        false => self.say(at, (id, number), true),
                    }
                }
            }
            SessionDelivery::Publish(outgoing) => self.receive(at, &outgoing),
            SessionDelivery::Release { id, unknown } => {
                assert!(!unknown, "we answer what we got");
                sim.held.remove(&id);
                sim.todo.push((id, AckStep::Pubcomp));
            }
            SessionDelivery::Taken { id, result, .. } => {
                assert!(result.is_ok(), "the log takes everything");
                let out = sim.out.iter_mut().find(|out| out.id == id).expect("it was sent");
                let (number, qos) = (out.number, self.sent[out.number].qos);
                let first = !out.released;
                out.released = true;
                if qos == Qos::AtLeastOnce {
                    sim.out.retain(|out| out.id != id);
                }
                if first {
                    self.owe(number);
                }
                if let Some(client) = self.sims[at].client.clone()
                    && qos == Qos::ExactlyOnce
                {
                    self.world.release(&client, id);
                }
            }
            SessionDelivery::Completed { id, .. } => sim.out.retain(|out| out.id != id),
            SessionDelivery::Subscribed { results, .. } => {
                let (filter, qos) = sim.asked.take().expect("it was asked for");
                assert_eq!(*results, [Ok(qos)]);
                sim.subs.insert(filter, (qos, self.step));
            }
            SessionDelivery::Unsubscribed { .. } => {}
            SessionDelivery::End(_) => sim.client = None,
            other => panic!("{other:?}"),
        }
    }

    /// A message was taken: whoever was subscribed all the time has to get it.
    fn owe(&mut self, number: usize) {
        let Sent { topic, step, .. } = self.sent[number];
        for (at, sim) in self.sims.iter().enumerate().filter(|(_, sim)| sim.durable) {
            let wants = sim.subs.iter().any(|(filter, &(qos, since))| {
                qos != Qos::AtMostOnce && since < step && routes::matches(filter, topic)
            });
            if wants {
                self.owed.push((at, sim.incarnation, number));
            }
        }
    }

    fn receive(&mut self, at: usize, outgoing: &Outgoing) {
        let number: usize = payload(outgoing).parse().expect("a number");
        let sim = &mut self.sims[at];
        let sent = &self.sent[number];
        assert_eq!(outgoing.message.topic(), sent.topic);
        assert!(outgoing.qos <= sent.qos);
        assert!(sim.ever.iter().any(|filter| routes::matches(filter, sent.topic)), "asked for");
        let step = match outgoing.qos {
            Qos::AtMostOnce => None,
            Qos::AtLeastOnce => Some(AckStep::Puback(false)),
            Qos::ExactlyOnce => Some(AckStep::Pubrec(false)),
        };
        sim.todo.extend(step.map(|step| (outgoing.id, step)));
        let is_new = outgoing.qos != Qos::ExactlyOnce || sim.held.insert(outgoing.id);
        if is_new {
            sim.got.push((number, sim.incarnation, outgoing.qos));
        }
    }

    /// Everybody comes back and drains.
    fn end(&mut self) {
        (self.world.keeps, self.world.carries) = (true, true);
        self.world.pass_s(20);
        self.absorb();
        for at in 0..self.sims.len() {
            if self.sims[at].client.is_none() {
                let sim = &mut self.sims[at];
                let make = if sim.durable { durable(&sim.name) } else { connect(&sim.name) };
                let make = ConnectRequest { clean_start: sim.cleans || !sim.durable, ..make };
                let conn = self.world.conn(&sim.name);
                sim.connecting = Some(conn);
                self.world.ask(conn, SessionRequest::Connect(Box::new(make)));
            }
        }
        self.absorb();
        self.world.pass_s(20);
        self.absorb();
        for _ in 0..2_000 {
            for at in 0..self.sims.len() {
                self.answer(at, 5);
            }
            self.absorb();
        }
        self.world.audit();
    }

    fn judge(&self) {
        for &(at, incarnation, number) in &self.owed {
            let sim = &self.sims[at];
            if sim.incarnation != incarnation {
                continue;
            }
            let here = sim.got.iter().any(|&(n, i, _)| (n, i) == (number, incarnation));
            let drops = Drop::ALL.map(|why| (why.name(), self.world.dropped(why)));
            assert!(here, "{} never got {number}: {drops:?}", sim.name);
        }
        for sim in &self.sims {
            assert!(sim.out.is_empty(), "{}: everything is answered", sim.name);
            let mut last = BTreeMap::new();
            let mut seen = BTreeSet::new();
            for &(number, incarnation, qos) in &sim.got {
                let sent = &self.sent[number];
                let is_new = seen.insert((number, incarnation, Qos::AtMostOnce));
                // Who changes the QoS of a subscription meanwhile may have a copy at each.
                if qos == Qos::ExactlyOnce {
                    let is_new = seen.insert((number, incarnation, Qos::ExactlyOnce));
                    assert!(is_new, "{} got {number} twice", sim.name);
                }
                assert!(is_new || sent.qos != Qos::AtMostOnce, "{} got {number} twice", sim.name);
                if sent.again {
                    continue;
                }
                let line = (incarnation, sent.publisher, sent.topic, qos, sent.qos);
                let last = last.entry(line).or_insert(0);
                let at = (&sim.name, incarnation, sent.publisher, sent.qos, qos);
                assert!(!is_new || number >= *last, "{at:?}: {number} behind {last}");
                *last = number.max(*last);
            }
        }
        let left: usize =
            self.world.nodes.iter().map(|node| node.log.restoration().entries()).sum();
        assert_eq!(left, 0, "what is over leaves the log");
        assert_eq!(self.world.status().queued, 0);
    }
}

fn run(seed: u64, steps: usize) {
    let told = std::panic::catch_unwind(|| {
        let mut run = Run::new(seed);
        for _ in 0..steps {
            run.step();
        }
        run.end();
        run.judge();
        run.owed.len()
    });
    match told {
        Ok(owed) => assert!(owed > 0 || steps < 300, "seed {seed}: nothing was tried"),
        Err(panic) => {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn whatever_happens_promises_are_kept() {
    let (first, count) = match std::env::var("BROKER_SEEDS").ok().as_deref() {
        Some(text) => {
            let (first, count) = text.split_once('+').expect("first+count");
            (first.parse().expect("a seed"), count.parse().expect("a count"))
        }
        None => (0, 60),
    };
    for seed in first..first + count {
        run(seed, 1_000);
    }
}
