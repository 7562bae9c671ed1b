//! Two engines, of which one leads and the other follows, over simulated files: the law of the log
//! held against both as one store.
//!
//! The batches that the leader ships go into a stream, which acknowledges them; the follower reads
//! the stream. A start is a change of leader, or not; a crash loses batches that were not shipped,
//! or are not yet in the stream. Nothing is answered before it is acknowledged. Invariant: whoever
//! leads has everything that was answered, and after the whole stream both logs are equal, byte for
//! byte.

use crate::simulated::{Held, Powered, make_folder};
use crate::{TIDY_S, few_bytes, seeds, settings, steps};
use base::prng::Prng;
use model::id::NodeId;
use model::ports::files::FileSystem;
use model::ports::log::{Call, Done, StoreError, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use store::engine::{Engine, Planned, State, UpkeepTask};
use store::log::{FollowError, LogBatch, Origin, Ship};
use testkit::files::FaultyFiles;
use testkit::log::{CallAnswer, KilledWork, LogOptions, Restoration, Subject, random};

const FOLDER: &str = "/data/log-00";

/// Batches as they were shipped, and the index of the last record of each.
type Shipped = Vec<(u64, Vec<u8>)>;

struct Outbox(Arc<Mutex<Shipped>>);

impl Ship for Outbox {
    fn ship(&mut self, batch: &LogBatch<'_>) {
        assert_eq!(LogBatch::read(batch.bytes), Ok(*batch));
        self.0.lock().expect("nobody panics with it").push((batch.last, batch.bytes.to_vec()));
    }
}

struct Node {
    number: u16,
    options: LogOptions,
    files: FaultyFiles,
    state: Arc<Powered>,
    engine: Option<Engine>,
    upkeep_task: Option<UpkeepTask>,
    boot: u64,
}

impl Node {
    fn new(seed: u64, number: u16, options: &LogOptions) -> Node {
        let files = FaultyFiles::new(seed * 2 + u64::from(number));
        make_folder(&files, FOLDER);
        let (state, options) = (Powered::new(&files), options.clone());
        let (engine, upkeep_task) = (None, None);
        Node { number, options, files, state, engine, upkeep_task, boot: 0 }
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("it is open")
    }

    fn open(&mut self, keep: Option<u64>) -> Result<(), String> {
        (self.engine, self.upkeep_task) = (None, None);
        self.boot += 1;
        let files: Arc<dyn FileSystem> = Arc::new(self.files.clone());
        let state: Arc<dyn State> = Arc::new(Held(Arc::clone(&self.state)));
        let mut settings = settings(&self.options);
        let node = NodeId::new(self.number + 1).expect("small");
        settings.log.origin = Origin { node, boot: self.boot };
        let opened = Engine::open_to_follow(files, Path::new(FOLDER), settings, state, keep);
        self.engine = Some(opened.map_err(|error| error.to_string())?.0);
        Ok(())
    }

    fn lose_power(&mut self, prng: &mut Prng) {
        (self.engine, self.upkeep_task) = (None, None);
        self.files.crash();
        self.state.state.crash(prng);
        self.state = self.state.reopened(&self.files);
    }

    fn kill(&mut self) {
        (self.engine, self.upkeep_task) = (None, None);
        self.files.kill();
        self.state = self.state.reopened(&self.files);
    }

    /// A step of an upkeep task, which waits until what it tells state is acknowledged.
    fn stir(&mut self, now_s: u32) -> bool {
        if self.files.is_off() {
            return false;
        }
        if self.upkeep_task.is_none() {
            self.upkeep_task = self.engine().upkeep_task(now_s);
        }
        let acknowledged = self.engine().acknowledged().index;
        match self.upkeep_task.take_if(|task| task.awaits() <= acknowledged) {
            None => false,
            Some(upkeep_task) => {
                let finished = upkeep_task.run();
                self.engine().finished(now_s, finished);
                true
            }
        }
    }

    /// Follows the stream from a little before its own end, or opens anew what went astray.
    fn catch_up(&mut self, now_s: u32, stream: &Shipped, prng: &mut Prng) -> Result<(), String> {
        for _ in 0..3 {
            let known = self.engine().acknowledged().index;
            let first = stream.partition_point(|(last, _)| *last <= known);
            let first = first.saturating_sub(prng.below(4) as usize);
            let mut fork = None;
            for (_, bytes) in &stream[first..] {
                match self.engine().follow(now_s, bytes) {
                    Ok(_) => {}
                    Err(FollowError::Fork { acknowledged, .. }) => {
                        fork = Some(acknowledged);
                        break;
                    }
                    Err(error) => return Err(error.to_string()),
                }
                if prng.one_in(4) {
                    self.stir(now_s);
                }
                if prng.one_in(10) {
                    let _ = self.engine().sync();
                }
            }
            let Some(acknowledged) = fork else { return Ok(()) };
            self.kill();
            self.open(Some(acknowledged))?;
        }
        Err("it forks again and again".into())
    }

    /// Segments by number, without what batches say of stable storage.
    fn segments(&self) -> Vec<(String, Vec<u8>)> {
        let mut names = self.files.names(Path::new(FOLDER)).expect("it is there");
        names.retain(|name| name.ends_with(".log"));
        names.sort();
        let read = |name: String| {
            let bytes = self.files.read(&Path::new(FOLDER).join(&name)).expect("it is there");
            (name, plain(bytes))
        };
        names.into_iter().map(read).collect()
    }
}

/// The records of a segment, of batches all but `committed` and the checksum over that.
fn plain(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while at + 9 <= bytes.len() && bytes[at + 8] != 0 {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
        if bytes[at + 8] == 2 {
            bytes[at + 4..at + 8].fill(0);
            bytes[at + 9 + 20..at + 9 + 28].fill(0);
        }
        at += 9 + length;
    }
    bytes.truncate(at);
    bytes
}

struct Copied {
    options: LogOptions,
    nodes: [Node; 2],
    leader: usize,
    stream: Shipped,
    outbox: Arc<Mutex<Shipped>>,
    now_s: u32,
    restored: Restoration,
    prng: Prng,
    changes: u32,
    cuts: u32,
}

impl Copied {
    fn new(seed: u64, options: LogOptions) -> Copied {
        let nodes = [0, 1].map(|number| Node::new(seed, number, &options));
        let mut made = Copied {
            now_s: options.now_s,
            options,
            nodes,
            leader: 0,
            stream: Vec::new(),
            outbox: Arc::default(),
            restored: Restoration::default(),
            prng: Prng::new(seed ^ 0x636f_7069),
            changes: 0,
            cuts: 0,
        };
        made.begin(0, None);
        made
    }

    fn leader(&mut self) -> &mut Node {
        &mut self.nodes[self.leader]
    }

    /// Puts the first `count` shipped batches into the stream, which acknowledges them.
    fn publish(&mut self, count: usize) {
        let outbox = std::mem::take(&mut *self.outbox.lock().expect("nobody panics with it"));
        let mut shipped = outbox.into_iter();
        self.stream.extend(shipped.by_ref().take(count));
        let Some((last, _)) = self.stream.last() else { return };
        let last = *last;
        if let Some(engine) = &mut self.nodes[self.leader].engine {
            engine.note_acknowledged(last);
        }
        let mut outbox = self.outbox.lock().expect("nobody panics with it");
        *outbox = shipped.chain(outbox.drain(..)).collect();
    }

    /// A node leads from here on, the other one follows; both are closed. With a crash of the new
    /// leader in the middle of it, if that is wanted.
    fn begin(&mut self, leader: usize, crash_at: Option<u32>) {
        self.leader = leader;
        self.changes += 1;
        if let Some(point) = crash_at {
            let files = &self.nodes[leader].files;
            files.crash_at(files.points() + u64::from(point));
            let _ = self.try_lead();
            let some = self.prng.below(4) as usize;
            self.publish(some);
            self.nodes[leader].lose_power(&mut self.prng);
        }
        self.try_lead().expect("it leads");
        self.publish(usize::MAX);
        let now_s = self.now_s;
        let engine = self.nodes[leader].engine();
        assert_eq!(engine.awaited(), 0);
        assert!(engine.checkpoint_now(now_s));
        self.restored =
            Restoration::collect(|each| engine.restore(each).expect("state can be read"));
        let other = &mut self.nodes[1 - leader];
        other.open(None).expect("it opens");
        let (stream, prng) = (&self.stream, &mut self.prng);
        other.catch_up(now_s, stream, prng).expect("it follows");
    }

    fn try_lead(&mut self) -> Result<(), String> {
        self.outbox.lock().expect("nobody panics with it").clear();
        let (now_s, node) = (self.now_s, &mut self.nodes[self.leader]);
        node.open(None)?;
        node.catch_up(now_s, &self.stream, &mut self.prng)?;
        if node.engine().awaited() > 0 {
            self.cuts += 1; // what nobody else has is shipped again
        }
        let ship = Box::new(Outbox(Arc::clone(&self.outbox)));
        let node = &mut self.nodes[self.leader];
        node.engine().lead(0, ship).map(|_| ()).map_err(|error| format!("{error:?}"))
    }

    /// Something happens to the follower.
    fn disturb(&mut self) {
        let follower = 1 - self.leader;
        let (now_s, prng) = (self.now_s, &mut self.prng);
        let node = &mut self.nodes[follower];
        let crashes = prng.one_in(8);
        if crashes {
            node.files.crash_at(node.files.points() + prng.below(30));
        }
        let caught = node.catch_up(now_s, &self.stream, prng);
        if crashes {
            match prng.one_in(3) && !node.files.is_off() {
                true => {
                    node.files.crash_at(u64::MAX);
                    node.kill();
                }
                false => node.lose_power(prng),
            }
            node.open(None).expect("it opens after a crash");
            return node.catch_up(now_s, &self.stream, prng).expect("it follows again");
        }
        caught.expect("it follows");
        node.stir(now_s);
    }

    /// Calls as they come: what is answered is acknowledged. `None` from where the leader died.
    fn carry(&mut self, calls: Vec<Call>, dies: bool) -> Vec<CallAnswer> {
        let mut answers: Vec<CallAnswer> = calls.iter().map(|_| None).collect();
        let mut waiting: Vec<(usize, u64, Result<Done, StoreError>)> = Vec::new();
        let (mut batch, mut places): (Vec<Write>, Vec<usize>) = (Vec::new(), Vec::new());
        let now_s = self.now_s;
        let mut calls = calls.into_iter().enumerate().peekable();
        while let Some((n, call)) = calls.next() {
            let read = match call {
                Call::Write(write) => {
                    batch.push(write);
                    places.push(n);
                    None
                }
                Call::Read(read) => Some(read),
            };
            if read.is_some() || calls.peek().is_none() || self.prng.one_in(6) {
                let node = self.leader();
                if !batch.is_empty() && !node.files.is_off() {
                    let all = node.engine().commit(now_s, &std::mem::take(&mut batch));
                    let index = node.engine().position().index;
                    let is_off = node.files.is_off();
                    let done = std::mem::take(&mut places).into_iter().zip(all);
                    waiting.extend(done.filter(|_| !is_off).map(|(n, it)| (n, index, it)));
                }
            }
            let node = self.leader();
            if let Some(read) = read.filter(|_| !node.files.is_off()) {
                let plan: Planned = node.engine().plan(read);
                let (index, answer) = (node.engine().position().index, plan.finish());
                if !node.files.is_off() {
                    waiting.push((n, index, answer));
                }
            }
            if self.prng.one_in(3) {
                let count = self.prng.below(3) as usize;
                self.publish(count);
            }
            // Retention may drop something while all is tidied alone.
            if self.options.retention.is_empty() && self.prng.one_in(3) {
                self.leader().stir(now_s);
            }
        }
        let most = if dies { self.prng.below(3) as usize } else { usize::MAX };
        self.publish(most);
        let acknowledged = self.stream.last().map_or(0, |(last, _)| *last);
        for (n, _, answer) in waiting.into_iter().filter(|(_, index, _)| *index <= acknowledged) {
            answers[n] = Some(answer);
        }
        answers
    }

    /// Every node's upkeep that is due now and in the seconds until everything has its turn.
    fn maintain(&mut self, now_s: u32) {
        self.now_s = self.now_s.max(now_s);
        for _ in 0..TIDY_S {
            let now_s = self.now_s;
            while self.leader().stir(now_s) || self.leader().upkeep_task.is_some() {
                if self.leader().files.is_off() {
                    return;
                }
                self.publish(usize::MAX);
            }
            self.publish(usize::MAX);
            let (stream, prng) = (&self.stream, &mut self.prng);
            let follower = &mut self.nodes[1 - self.leader];
            follower.catch_up(now_s, stream, prng).expect("it follows");
            while follower.stir(now_s) {}
            self.now_s += 1;
        }
    }

    /// Both have the same, in the log and in what is derived from it.
    fn compare(&mut self) {
        self.publish(usize::MAX);
        let (now_s, stream, prng) = (self.now_s, &self.stream, &mut self.prng);
        self.nodes[1 - self.leader].catch_up(now_s, stream, prng).expect("it follows");
        let ends = [0, 1].map(|n| self.nodes[n].engine().position());
        assert_eq!(ends[0], ends[1]);
        let [one, other] = [0, 1].map(|n| self.nodes[n].segments());
        let mut equal = 0;
        for (name, bytes) in &one {
            if let Some((_, theirs)) = other.iter().find(|(there, _)| there == name) {
                assert!(bytes == theirs, "{name} differs");
                equal += 1;
            }
        }
        assert!(equal > 0, "the last segment is in both");
        for node in &mut self.nodes {
            let verified = node.engine().verify(true).expect("state can be read");
            assert_eq!(verified.told, Vec::<String>::new(), "node {}", node.number);
        }
    }
}

impl Subject for Copied {
    fn options(&self) -> &LogOptions {
        &self.options
    }

    fn now_s(&self) -> u32 {
        self.now_s
    }

    fn call(&mut self, calls: Vec<Call>) -> Vec<Result<Done, StoreError>> {
        let answers = self.carry(calls, false);
        self.disturb();
        answers.into_iter().map(|answer| answer.expect("the leader lives")).collect()
    }

    fn restart(&mut self) {
        self.compare();
        self.nodes.iter_mut().for_each(Node::kill);
        let leader = self.prng.below(2) as usize;
        self.begin(leader, None);
        self.compare();
    }

    fn crash(&mut self, work: KilledWork, point: u32) -> Vec<CallAnswer> {
        let files = self.leader().files.clone();
        files.crash_at(files.points() + u64::from(point));
        let mut answers = Vec::new();
        match work {
            KilledWork::Calls(calls) => answers = self.carry(calls, true),
            KilledWork::Tidy(now_s) => self.maintain(now_s),
            KilledWork::Nothing | KilledWork::Restart | KilledWork::Recovery => {}
        }
        for node in &mut self.nodes {
            let power = self.prng.one_in(2) || node.files.is_off();
            node.files.crash_at(u64::MAX);
            match power {
                true => node.lose_power(&mut self.prng),
                false => node.kill(),
            }
        }
        let crash_at = self.prng.one_in(2).then_some(point % 40);
        let leader = self.prng.below(2) as usize;
        self.begin(leader, crash_at);
        answers
    }

    fn tidy(&mut self, now_s: u32) {
        self.maintain(now_s);
        self.compare();
    }

    fn restored(&self) -> Restoration {
        self.restored.clone()
    }
}

#[test]
fn a_leader_and_its_follower_keep_the_law_through_changes_of_leader() {
    let mut cuts = 0;
    for seed in seeds(12) {
        let mut subject = Copied::new(seed, few_bytes(seed));
        random(seed, steps(200), &mut subject, true);
        assert!(subject.changes > 3, "seed {seed}");
        cuts += subject.cuts;
    }
    assert!(cuts > 0, "no leader ever had what nobody else had");
}

#[test]
fn what_retention_drops_a_follower_drops_too() {
    use model::timeline::Space;
    use testkit::log::Retention;
    for seed in seeds(6) {
        let count = Retention { count_max: Some(1 + seed % 7), ..Retention::default() };
        let bytes_max = Some(500 + seed * 997 % 20_000);
        let read = Retention { acknowledged: true, bytes_max, ..Retention::default() };
        let retention = [(Space::Pushes, count), (Space::Reports, read)].into();
        let mut subject = Copied::new(seed, LogOptions { retention, ..few_bytes(seed) });
        random(seed, steps(120), &mut subject, false);
    }
}
