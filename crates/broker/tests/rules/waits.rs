//! Messages that wait in the log and those that come meanwhile, with answers of the log in any
//! order that its port allows.
//!
//! Writes are carried out and answered in their order. A read is carried out behind the writes
//! that were asked for before it, as late as it likes, and answered as late as it likes: it may
//! show what nobody was told, and what has left since. Meanwhile clients come, take some of what
//! they are told, answer some of it, and are cut off; the process dies with any part of what the
//! log was handed. In the end all is read and answered. Then every message that was taken has come,
//! at QoS 2 once, at QoS 1 again only with DUP (but after a kill), to a lone client in its order,
//! and the log is empty.

use crate::harness::{BrokerHarness, Client, connect, durable, limits, message, payload};
use base::prng::Prng;
use model::id::ConnRef;
use model::ports::log::{Call, Done, StoreError, Ticket, Write};
use model::session::*;
use model::topic::Qos;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The log's side: what was asked of it, and how far that is.
#[derive(Default)]
struct SlowLog {
    asked: VecDeque<(Ticket, Call)>,
    /// Reads behind whose writes it has come.
    reads: Vec<(Ticket, Call)>,
    written: VecDeque<(Ticket, Result<Done, StoreError>)>,
    read: Vec<(Ticket, Result<Done, StoreError>)>,
}

/// A subscriber.
#[derive(Default)]
struct Reader {
    name: String,
    connecting: Option<ConnRef>,
    client: Option<Client>,
    /// Of QoS 2, received and not released.
    held: BTreeSet<u16>,
    /// Numbers in the order in which they came first.
    got: Vec<u32>,
    /// Numbers that came since the last start.
    known: BTreeSet<u32>,
}

struct Run {
    world: BrokerHarness,
    log: SlowLog,
    rng: Prng,
    readers: Vec<Reader>,
    source: Option<Client>,
    /// Messages that are not answered, by packet identifier.
    open: BTreeMap<u16, u32>,
    last_id: u16,
    sent: Vec<Qos>,
    /// Messages that the broker took.
    owed: BTreeSet<u32>,
}

impl Run {
    fn new(seed: u64, readers: usize) -> Run {
        let mut world = BrokerHarness::with(1, |settings| {
            let mut limits = limits();
            limits.topics.receive_max = u16::MAX;
            settings.limits = Arc::new(limits);
        });
        let names = (0..readers).map(|n| format!("reader-{n}"));
        let readers = names.map(|name| Reader { name, ..Reader::default() });
        let readers: Vec<_> = readers.collect();
        let filter = if readers.len() > 1 { "$share/g/t" } else { "t" };
        for reader in &readers {
            let client = world.client(durable(&reader.name));
            world.subscribe(&client, filter, Qos::ExactlyOnce);
            world.cut(&client);
        }
        world.keeps = false;
        let (log, rng) = (SlowLog::default(), Prng::new(seed));
        let (source, open, last_id) = (None, BTreeMap::new(), 0);
        let (sent, owed) = (Vec::new(), BTreeSet::new());
        Run { world, log, rng, readers, source, open, last_id, sent, owed }
    }

    /// Tells what goes on, when one seed is looked at.
    fn note(&self, what: impl FnOnce() -> String) {
        if std::env::var("BROKER_TRACE").is_ok() {
            eprintln!("{}", what());
        }
    }

    fn step(&mut self) {
        let at = self.rng.below(self.readers.len() as u64) as usize;
        match self.rng.below(100) {
            0..20 => {
                let many = if self.rng.one_in(12) { 200 } else { 3 };
                let count = self.rng.below(many) + 1;
                (0..count).for_each(|_| self.publish());
            }
            20..27 => self.come(at),
            27..32 => self.go(at),
            32..60 => {
                let count = self.rng.below(12) as usize;
                self.take(at, count);
            }
            60..75 => {
                let count = self.rng.below(12);
                (0..count).for_each(|_| self.carry_out(true));
            }
            75..80 => self.carry_out_read(),
            80..90 => {
                let count = self.rng.below(12);
                (0..count).for_each(|_| self.answer_write());
            }
            90..95 => self.answer_read(),
            95..98 => self.world.pass_ms(60),
            _ if self.rng.one_in(4) => self.die(),
            _ => self.settle(),
        }
        self.gather();
    }

    fn publish(&mut self) {
        let Some(source) = self.source.clone() else {
            let source = self.world.conn("source");
            let word = SessionRequest::Connect(Box::new(connect("source")));
            self.world.ask(source, word);
            match self.world.heard(source).pop() {
                Some(SessionDelivery::Connected(connected)) => {
                    let (conn, session) = (source, connected.session);
                    self.source = Some(Client { conn, session, connected: *connected });
                }
                other => panic!("{other:?}"),
            }
            return;
        };
        let qos = if self.rng.one_in(2) { Qos::AtLeastOnce } else { Qos::ExactlyOnce };
        self.last_id = self.last_id % 60_000 + 1;
        let number = self.sent.len() as u32;
        self.sent.push(qos);
        self.open.insert(self.last_id, number);
        self.world.send(&source, self.last_id, message("t", qos, &number.to_string()));
    }

    fn come(&mut self, at: usize) {
        let name = self.readers[at].name.clone();
        let conn = self.world.conn(&name);
        let reader = &mut self.readers[at];
        (reader.client, reader.connecting) = (None, Some(conn));
        let wish = ConnectRequest { receive_max: 6, ..durable(&name) };
        self.note(|| format!("{name} comes"));
        self.world.ask(conn, SessionRequest::Connect(Box::new(wish)));
        if self.readers.len() > 1 {
            // That it is there is not waited for: what is sent to it before that is written, by an
            // append that was asked for earlier, may be another member's after a kill.
            self.gather();
            (0..self.log.asked.len()).for_each(|_| self.carry_out(false));
        }
    }

    fn go(&mut self, at: usize) {
        let reader = &mut self.readers[at];
        reader.connecting = None;
        let Some(client) = reader.client.take() else { return };
        self.world.cut(&client);
        self.note(|| format!("{} goes", self.readers[at].name));
    }

    /// A reader takes so much of what it was told, and what is behind that is lost if it goes.
    fn take(&mut self, at: usize, count: usize) {
        let reader = &self.readers[at];
        let conn = reader.client.as_ref().map(|client| client.conn).or(reader.connecting);
        let Some(conn) = conn else { return };
        let mut words = VecDeque::from(self.world.heard(conn));
        let answers = self.rng.below(3);
        for _ in 0..count {
            let Some(word) = words.pop_front() else { return };
            let is_answered = answers > 0 || self.rng.one_in(2);
            self.hear(at, conn, word, is_answered);
            words.extend(self.world.heard(conn));
        }
        self.world.unhear(conn, words.into());
    }

    fn hear(&mut self, at: usize, conn: ConnRef, word: SessionDelivery, is_answered: bool) {
        self.note(|| format!("{} hears {word:?}, answers: {is_answered}", self.readers[at].name));
        let is_alone = self.readers.len() == 1;
        let reader = &mut self.readers[at];
        match word {
            SessionDelivery::Connected(connected) => {
                assert!(connected.present, "its session outlives everything");
                let session = connected.session;
                reader.connecting = None;
                reader.client = Some(Client { conn, session, connected: *connected });
            }
            SessionDelivery::Publish(outgoing) => {
                let number: u32 = payload(&outgoing).parse().expect("a number");
                let is_twice = outgoing.qos == Qos::ExactlyOnce;
                // From another member of its group it comes back as a new one.
                let is_new = reader.known.insert(number) || !is_alone && !is_twice;
                assert!(is_new || outgoing.again, "{number} came again without DUP");
                let has = reader.got.contains(&number);
                if is_twice && reader.held.insert(outgoing.id) {
                    assert!(!has, "{number} came twice");
                }
                if !has {
                    reader.got.push(number);
                }
                let step = match is_twice {
                    true => AckStep::Pubrec(false),
                    false => AckStep::Puback(false),
                };
                if let Some(client) = reader.client.clone().filter(|_| is_answered) {
                    self.world.ack(&client, outgoing.id, step);
                }
            }
            SessionDelivery::Release { id, unknown } => {
                assert!(!unknown, "it answers what it got");
                reader.held.remove(&id);
                if let Some(client) = reader.client.clone().filter(|_| is_answered) {
                    self.world.ack(&client, id, AckStep::Pubcomp);
                }
            }
            SessionDelivery::End(_) => reader.client = None,
            other => panic!("{other:?}"),
        }
    }

    /// Passes the broker's calls to the log, and its answers to the publisher.
    fn gather(&mut self) {
        self.log.asked.extend(self.world.nodes[0].fx.calls.drain(..));
        let Some(source) = self.source.clone() else { return };
        for word in self.world.heard(source.conn) {
            let SessionDelivery::Taken { id, qos, result } = word else { continue };
            let number = self.open.remove(&id).expect("it was sent");
            self.note(|| format!("{number} is taken: {result:?}"));
            if result.is_ok() {
                self.owed.insert(number);
            }
            if qos == Qos::ExactlyOnce && result.is_ok() {
                self.world.release(&source, id);
            }
        }
        self.log.asked.extend(self.world.nodes[0].fx.calls.drain(..));
    }

    /// The log carries out what is next of what it was asked, or has no room for it.
    fn carry_out(&mut self, may_refuse: bool) {
        let Some((ticket, call)) = self.log.asked.pop_front() else { return };
        if let Call::Read(_) = call {
            return self.log.reads.push((ticket, call));
        }
        // Of a message that went to another member the old place is known as long as the new one.
        let is_alone = self.readers.len() == 1;
        let may_refuse = may_refuse && is_alone && !matches!(call, Call::Write(Write::Put { .. }));
        let result = match may_refuse && self.rng.one_in(40) {
            true => Err(StoreError::Busy),
            false => self.world.nodes[0].log.answer(&call),
        };
        self.note(|| format!("log: {call:?} {result:?}"));
        self.log.written.push_back((ticket, result));
    }

    fn carry_out_read(&mut self) {
        if self.log.reads.is_empty() {
            return;
        }
        let at = self.rng.below(self.log.reads.len() as u64) as usize;
        let (ticket, call) = self.log.reads.remove(at);
        let result = match self.rng.one_in(20) {
            true => Err(StoreError::Busy),
            false => self.world.nodes[0].log.answer(&call),
        };
        self.note(|| format!("log: {call:?} {result:?}"));
        self.log.read.push((ticket, result));
    }

    fn answer_write(&mut self) {
        if let Some(completion) = self.log.written.pop_front() {
            self.complete(completion);
        }
    }

    fn answer_read(&mut self) {
        if !self.log.read.is_empty() {
            let at = self.rng.below(self.log.read.len() as u64) as usize;
            let completion = self.log.read.remove(at);
            self.complete(completion);
        }
    }

    fn complete(&mut self, completion: (Ticket, Result<Done, StoreError>)) {
        self.note(|| format!("answers {completion:?}"));
        let node = &mut self.world.nodes[0];
        node.broker.complete(self.world.now, completion, &mut node.fx);
        self.world.run();
        self.gather();
    }

    /// The log does all that it was asked, and is asked what follows from it.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.gather();
            self.carry_out(false);
            self.carry_out_read();
            self.answer_write();
            self.answer_read();
            let SlowLog { asked, reads, written, read } = &self.log;
            if asked.is_empty() && reads.is_empty() && written.is_empty() && read.is_empty() {
                break;
            }
        }
        self.world.audit();
    }

    fn die(&mut self) {
        let count = self.rng.below(self.log.asked.len() as u64 + 1);
        self.note(|| format!("dies after {count}"));
        (0..count).for_each(|_| self.carry_out(false));
        self.log = SlowLog::default();
        self.world.crash();
        (self.source, self.open) = (None, BTreeMap::new());
        for reader in &mut self.readers {
            (reader.client, reader.connecting) = (None, None);
            reader.known.clear();
        }
        if self.readers.len() > 1 {
            // The old place of a message goes before its new one is an old one too.
            self.settle();
            self.world.pass_s(1);
            self.settle();
        }
    }

    /// Everybody is there and answers, until all is quiet.
    fn end(&mut self) {
        self.settle();
        for at in 0..self.readers.len() {
            // What was told and not answered over this connection is told again over the next.
            self.come(at);
        }
        let mut is_quiet = false;
        for _ in 0..5_000 {
            if std::mem::replace(&mut is_quiet, true) && self.world.status().queued == 0 {
                break;
            }
            self.settle();
            for at in 0..self.readers.len() {
                let conn = self.readers[at].client.as_ref().map(|client| client.conn);
                let Some(conn) = conn.or(self.readers[at].connecting) else { continue };
                for word in self.world.heard(conn) {
                    is_quiet = false;
                    self.hear(at, conn, word, true);
                }
            }
            self.world.pass_ms(60);
        }
        self.settle();
        self.world.pass_s(3);
        self.settle();
    }

    fn judge(&self) {
        let refused: BTreeSet<u32> =
            (0..self.sent.len() as u32).filter(|n| !self.owed.contains(n)).collect();
        let mut all: Vec<u32> = self.readers.iter().flat_map(|reader| reader.got.clone()).collect();
        if let [one] = &self.readers[..] {
            assert!(one.got.windows(2).all(|pair| pair[0] < pair[1]), "in order: {:?}", one.got);
        }
        all.sort_unstable();
        for pair in all.windows(2).filter(|pair| pair[0] == pair[1]) {
            let qos = self.sent[pair[0] as usize];
            assert_eq!(qos, Qos::AtLeastOnce, "{} came to two", pair[0]);
        }
        let lost: Vec<_> = self.owed.iter().filter(|number| !all.contains(number)).collect();
        assert!(lost.is_empty(), "{lost:?} never came; {refused:?} were not taken");
        assert_eq!(self.world.status().queued, 0);
        assert_eq!(self.world.nodes[0].log.restoration().entries(), 0, "the log is empty");
    }
}

fn run(seed: u64, readers: usize, steps: usize) {
    let told = std::panic::catch_unwind(|| {
        let mut run = Run::new(seed, readers);
        (0..steps).for_each(|_| run.step());
        run.end();
        run.judge();
        run.owed.len()
    });
    match told {
        Ok(owed) => assert!(owed > 0 || steps < 300, "seed {seed}: nothing was tried"),
        Err(panic) => {
            eprintln!("seed {seed}, {readers} readers");
            std::panic::resume_unwind(panic);
        }
    }
}

fn seeds() -> std::ops::Range<u64> {
    match std::env::var("BROKER_SEEDS").ok().as_deref() {
        Some(text) => {
            let (first, count) = text.split_once('+').expect("first+count");
            let first: u64 = first.parse().expect("a seed");
            first..first + count.parse::<u64>().expect("a count")
        }
        None => 0..60,
    }
}

#[test]
fn whenever_the_log_answers_each_message_comes_once_and_in_order() {
    seeds().for_each(|seed| run(seed, 1, 400));
}

#[test]
fn whenever_the_log_answers_what_a_group_gets_comes_to_one_of_it() {
    seeds().for_each(|seed| run(seed, 2, 400));
}
