//! A world of three nodes, their disks, streams and a table, from one seed.
//!
//! Clients write all the time; nodes are killed between any two steps, wiped, paused and cut off in
//! one way or both; NATS is silent, elects, forgets, goes back, is full and is gone; clocks drift.
//! [`judge`] holds the invariants. A failure prints its seed:
//! `CLUSTER_SEED=n cargo test -p cluster -- --ignored one_world` runs it again, and
//! `--nocapture` shows what happens in it.

mod judge;
mod nats;
mod node;
mod tests;
mod weather;

use crate::batch::{LogEnd, StreamBatch, write_record};
use crate::counting::Counted;
use crate::port::{ClosedBy, LogCommand, LogEvent, LogNotice, StreamError, StreamPage};
use crate::replica::Replica;
use crate::rules::Rule;
use crate::wire::beat::{Beat, LogBeat, LogRole};
use crate::wire::message::LogName;
use crate::wire::table::LogEntry;
use base::prng::Prng;
use judge::{Judge, mark};
use model::id::NodeId;
use nats::{SimStream, SimTable, Streams, Waiter};
use node::{AWAY, SimEngine, SimNode};
use std::collections::BTreeMap;
use weather::{Fault, Weather};

const NAME: LogName = LogName { cluster: 0xc1, log: 0 };
const MS: u64 = 1_000;
const NODES: usize = 3;

/// Event at a node.
#[derive(Clone)]
enum Input {
    Log(LogEvent),
    Tick,
    Proved(u64),
    Beat(Vec<u8>),
    AskedCopies { ask: u64, from: usize },
    Left,
    Synced { upto: u64, batch: Option<StreamBatch> },
    CopyIs { ask: u64, log: Vec<StreamBatch> },
    Opened { epoch: u32 },
}

/// Request to NATS.
enum Request {
    Command(LogCommand),
    Prove(u64),
}

enum Item {
    Node { node: usize, boot: u64, input: Input },
    Nats { node: usize, boot: u64, request: Request },
    Copy { to: usize, boot: u64, ask: u64, source: usize },
    Write { node: usize },
    Weather,
}

pub(super) struct World {
    rng: Prng,
    now: u64,
    order: u64,
    items: BTreeMap<(u64, u64), Item>,
    nodes: Vec<SimNode>,
    streams: Streams,
    table: SimTable,
    judge: Judge,
    weather: Weather,
    story: Story,
    is_traced: bool,
}

/// Counts of what happened in a world: worlds in which nothing happens prove nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Story {
    pub(super) releases: u64,
    pub(super) opens: u64,
    pub(super) generations: u32,
    pub(super) written: u64,
    pub(super) losses: u64,
    /// Each [`Fault`] by its number: how often it befell a follower or nobody, and the leader.
    pub(super) faults: [[u64; 2]; Fault::COUNT],
}

impl World {
    pub(super) fn run(seed: u64, is_traced: bool) -> Story {
        let mut world = World::new(seed, is_traced);
        let (end, calm) = (world.weather.end, 100_000 * MS);
        world.go(end);
        world.heal();
        world.go(end + calm);
        world.end()
    }

    fn new(seed: u64, is_traced: bool) -> World {
        let mut rng = Prng::new(seed);
        let nodes = (1..=NODES as u16).map(|it| SimNode::new(it, 990 + rng.below(21))).collect();
        let followers = (1..=NODES as u16).filter_map(NodeId::new).collect();
        let entry = LogEntry { generation: 1, followers, ..LogEntry::default() };
        let weather = Weather::new(&mut rng, seed);
        let mut world = World {
            rng,
            now: 0,
            order: 0,
            items: BTreeMap::new(),
            nodes,
            streams: Streams::from([(1, SimStream::new())]),
            table: SimTable::new(entry),
            judge: Judge::default(),
            weather,
            story: Story::default(),
            is_traced,
        };
        (0..NODES).for_each(|node| world.start(node));
        world.put(50 * MS, Item::Weather);
        world
    }

    fn put(&mut self, after: u64, item: Item) {
        self.order += 1;
        self.items.insert((self.now + after, self.order), item);
    }

    fn go(&mut self, until: u64) {
        while let Some((&(at, order), _)) = self.items.first_key_value() {
            if at >= until {
                break;
            }
            let item = self.items.remove(&(at, order)).expect("there");
            self.now = at;
            self.turn(item);
        }
        self.now = until;
    }

    fn turn(&mut self, item: Item) {
        match item {
            Item::Node { node, boot, input } => self.node(node, boot, input),
            Item::Nats { node, boot, request } => self.nats(node, boot, request),
            Item::Copy { to, boot, ask, source } => self.copy(to, boot, ask, source),
            Item::Write { node } => self.write(node),
            Item::Weather => self.blow(),
        }
    }

    fn start(&mut self, node: usize) {
        self.nodes[node].start();
        self.nodes[node].disturbed = self.now;
        let boot = self.nodes[node].me.boot;
        let after = self.rng.below(100 * MS);
        self.put(after, Item::Node { node, boot, input: Input::Tick });
    }

    fn node(&mut self, node: usize, boot: u64, input: Input) {
        let it = &self.nodes[node];
        if it.me.boot != boot || it.replica.is_none() {
            return;
        }
        if self.now < it.paused_until {
            let after = it.paused_until - self.now;
            return self.put(after, Item::Node { node, boot, input });
        }
        match input {
            Input::Log(event) => self.event(node, event),
            Input::Tick => self.tick(node, boot),
            Input::Proved(ask) => self.nodes[node].proof.proved(ask),
            Input::Beat(bytes) => {
                let now = self.nodes[node].now(self.now);
                let beat = Beat::read(NAME.cluster, &bytes).expect("a beat");
                self.nodes[node].peers.hear(now, beat);
            }
            Input::AskedCopies { ask, from } => {
                let Some(replica) = &self.nodes[node].replica else { return };
                let (state, by) = (replica.beat(), self.nodes[node].me.node);
                let event = LogEvent::CopyState { ask, node: by, state };
                self.bus(node, from, Input::Log(event));
            }
            Input::Left => {
                self.say(node, Some(LogRole::Left));
                self.nodes[node].kill(false);
                self.start(node);
            }
            Input::Synced { upto, batch } => self.synced(node, upto, batch),
            Input::CopyIs { ask, log } => self.copied(node, ask, log),
            Input::Opened { epoch } => {
                let engine = self.nodes[node].engine.as_mut();
                if let Some(engine) = engine.filter(|it| it.epoch == epoch && !it.is_closing) {
                    engine.is_open = true;
                    self.event(node, LogEvent::Opened);
                    self.put(20 * MS, Item::Write { node });
                }
            }
        }
    }

    fn tick(&mut self, node: usize, boot: u64) {
        let now = self.now;
        let it = &mut self.nodes[node];
        let local = it.now(now);
        if let Some(ask) = it.proof.tick(local) {
            self.ask(node, Request::Prove(ask));
        }
        self.watch(node);
        self.event(node, LogEvent::Tick);
        let it = &mut self.nodes[node];
        if now >= it.next_sync {
            it.next_sync = now + 1_000 * MS;
            let upto = it.disk.end().index;
            self.later(node, 3 * MS, Input::Synced { upto, batch: None });
        }
        let it = &mut self.nodes[node];
        if now >= it.next_beat && now >= it.mute_until {
            it.next_beat = now + 1_000 * MS;
            self.say(node, None);
        }
        let it = &self.nodes[node];
        let Some(replica) = &it.replica else { return };
        let next = replica.deadline().map_or(100 * MS, |at| it.until(now, at));
        let next = next.clamp(MS / 2, 100 * MS);
        self.put(next, Item::Node { node, boot, input: Input::Tick });
        let leaders = |it: &&SimNode| now >= it.paused_until && it.leads(now);
        let leaders = self.nodes.iter().filter(leaders).count();
        self.judge.leaders(now / MS, leaders);
    }

    /// A node's beat.
    fn say(&mut self, node: usize, role: Option<LogRole>) {
        let it = &self.nodes[node];
        let Some(replica) = &it.replica else { return };
        let beat = replica.beat();
        let logs = vec![LogBeat { role: role.unwrap_or(beat.role), ..beat }];
        let bytes = Beat { by: it.me, clock: 0, logs }.write(NAME.cluster);
        for other in (0..NODES).filter(|other| *other != node) {
            self.bus(node, other, Input::Beat(bytes.clone()));
        }
    }

    /// The watcher of the table tells of changes, some time later.
    fn watch(&mut self, node: usize) {
        let it = &self.nodes[node];
        let is_cut = self.now < it.cut_in_until || self.weather.is_table_silent(self.now);
        if is_cut || it.seen == self.table.version || self.now < it.next_watch {
            return;
        }
        let lag = self.rng.below(self.weather.watch_lag) + MS;
        let (revision, entry) = (self.table.revision, self.table.entry.clone());
        let it = &mut self.nodes[node];
        (it.seen, it.next_watch) = (self.table.version, self.now + lag);
        self.later(node, lag, Input::Log(LogEvent::Table { revision, entry }));
    }

    fn later(&mut self, node: usize, after: u64, input: Input) {
        let boot = self.nodes[node].me.boot;
        self.put(after, Item::Node { node, boot, input });
    }

    /// From a node to another one over core NATS.
    fn bus(&mut self, from: usize, to: usize, input: Input) {
        let is_cut = self.now < self.nodes[from].cut_out_until
            || self.now < self.nodes[to].cut_in_until
            || self.now < self.weather.nats_until
            || self.rng.one_in(200);
        if !is_cut {
            let after = self.rng.below(4 * MS) + MS / 2;
            self.later(to, after, input);
        }
    }

    fn ask(&mut self, node: usize, request: Request) {
        let is_lost = self.rng.one_in(self.weather.lost_in);
        if self.now >= self.nodes[node].cut_out_until && !is_lost {
            let boot = self.nodes[node].me.boot;
            let is_late = self.rng.one_in(self.weather.late_in);
            let after = if is_late { self.rng.below(4_000 * MS) } else { self.rng.below(2 * MS) };
            self.put(after + MS / 5, Item::Nats { node, boot, request });
        }
    }

    fn answer(&mut self, node: usize, boot: u64, input: Input) {
        let is_lost = self.rng.one_in(self.weather.lost_in);
        if self.now < self.nodes[node].cut_in_until || is_lost {
            return;
        }
        let is_late = self.rng.one_in(self.weather.late_in);
        let after = if is_late { self.rng.below(6_000 * MS) } else { self.rng.below(2 * MS) };
        self.put(after + MS / 5, Item::Node { node, boot, input });
    }

    fn event(&mut self, node: usize, event: LogEvent) {
        let now = self.now;
        self.trace(node, "<", &event);
        if event == LogEvent::Closed {
            self.nodes[node].engine = None;
            // A node that left begins anew; one whose other logs are not led follows.
            if self.rng.one_in(2) {
                let after = self.rng.below(2_000 * MS);
                self.later(node, after, Input::Left);
            }
        }
        let (_, commands) = self.nodes[node].run(now, |replica, view, out| {
            replica.on(view, event, out);
        });
        for command in commands {
            self.carry_out(node, command);
        }
    }

    fn carry_out(&mut self, node: usize, command: LogCommand) {
        let now_ms = self.now / MS;
        self.trace(node, ">", &command);
        match command {
            LogCommand::AskCopies { ask } => {
                for other in (0..NODES).filter(|other| *other != node) {
                    self.bus(node, other, Input::AskedCopies { ask, from: node });
                }
            }
            LogCommand::Append { batch } => self.nodes[node].disk.append(batch),
            LogCommand::Cut { behind } => {
                let it = &mut self.nodes[node];
                assert!(it.engine.is_none(), "an open log is not cut");
                let kept = it.disk.batches.partition_point(|it| it.last_index() <= behind.index);
                self.judge.cut(&it.disk.batches[kept..]);
                it.disk.cut(behind.index);
            }
            LogCommand::Mark { index } => self.nodes[node].disk.mark = index,
            LogCommand::ReadLog { ask, from } => {
                let batches = self.nodes[node].disk.from(from);
                self.later(node, 3 * MS, Input::Log(LogEvent::LogRead { ask, batches }));
            }
            LogCommand::Copy { ask, from, .. } => {
                let boot = self.nodes[node].me.boot;
                let source = usize::from(from.number()) - 1;
                self.befall_source(source);
                self.put(100 * MS, Item::Copy { to: node, boot, ask, source });
            }
            LogCommand::Open { epoch } => {
                let it = &mut self.nodes[node];
                self.judge.open(&it.disk.batches, epoch, it.me);
                let (is_open, is_closing, released) = (false, false, 0);
                it.engine = Some(SimEngine { epoch, is_open, is_closing, released });
                let restores = self.rng.below(1_500 * MS);
                self.later(node, restores, Input::Opened { epoch });
            }
            LogCommand::Close { why } => {
                let engine = self.nodes[node].engine.as_mut().expect("it is open");
                (engine.is_open, engine.is_closing) = (false, true);
                let epoch = engine.epoch;
                let is_due = match why {
                    ClosedBy::Deposed => self.table.epoch_max.max(self.judge.epoch_max()) > epoch,
                    ClosedBy::Asked => self.story.faults[Fault::Promote as usize] != [0; 2],
                    ClosedBy::LogFailed => self.nodes[node].is_disk_failed(),
                };
                assert!(is_due, "invariant 15: node {node} closes at {now_ms} for nothing");
                self.later(node, 5 * MS, Input::Log(LogEvent::Closed));
            }
            LogCommand::Release { index } => {
                let it = &mut self.nodes[node];
                let engine = it.engine.as_mut();
                let engine = engine.expect("invariant 6: a log that is closed answers nobody");
                engine.released = engine.released.max(index);
                it.disk.mark = it.disk.mark.max(index);
                self.judge.release(&it.disk.batches, index);
            }
            LogCommand::Tell(LogNotice::AcknowledgedLost { first, last }) => {
                self.judge.tell_lost(first, last);
            }
            LogCommand::Tell(_) => {}
            LogCommand::Purge { generation, below } => {
                self.judge_purge(generation, below);
                self.ask(node, Request::Command(LogCommand::Purge { generation, below }));
            }
            command => self.ask(node, Request::Command(command)),
        }
    }

    /// A client writes: the batch is on the disk, and some time later synced.
    fn write(&mut self, node: usize) {
        let now = self.now;
        let Some(engine) = self.nodes[node].engine else { return };
        if !engine.is_open {
            return;
        }
        let pause = self.weather.write_every;
        let pause = if self.rng.one_in(5) { self.rng.below(MS) } else { self.rng.below(pause) };
        self.put(pause + MS / 10, Item::Write { node });
        let it = &self.nodes[node];
        let is_full = it.replica.as_ref().is_none_or(Replica::is_full);
        if now < it.paused_until || is_full || now >= self.weather.end {
            return;
        }
        self.story.written += 1;
        let mut records = Vec::new();
        let large = if self.rng.one_in(150) { 300 << 10 } else { 8 };
        for _ in 0..=self.rng.below(2) {
            let mut payload = self.story.written.to_le_bytes().to_vec();
            payload.resize(large, 7);
            write_record(14, &mut records, |out| out.extend_from_slice(&payload));
        }
        let it = &mut self.nodes[node];
        let batch = StreamBatch::of(it.disk.end(), engine.epoch, &records).expect("whole");
        it.disk.append(batch.clone());
        let upto = batch.last_index();
        self.later(node, MS, Input::Synced { upto, batch: Some(batch) });
    }

    fn synced(&mut self, node: usize, upto: u64, batch: Option<StreamBatch>) {
        let it = &mut self.nodes[node];
        if it.is_disk_failed() {
            return;
        }
        let synced = it.disk.batches.partition_point(|batch| batch.last_index() <= upto);
        it.disk.synced = it.disk.synced.max(synced);
        match batch {
            Some(batch) if it.engine.is_some_and(|engine| engine.epoch == batch.epoch()) => {
                self.event(node, LogEvent::Written { batch });
            }
            Some(_) => {}
            None => {
                it.disk.marked = it.disk.mark;
                let index = it.disk.synced_index();
                let disks: Vec<_> = self.nodes.iter().map(|it| &it.disk).collect();
                self.judge.agree(&disks);
                self.event(node, LogEvent::Synced { index });
            }
        }
    }

    /// A node's log, as far as it is acknowledged, is on its way to another one.
    fn copy(&mut self, to: usize, boot: u64, ask: u64, source: usize) {
        let it = &self.nodes[source];
        let Some(replica) = it.replica.as_ref().filter(|_| self.now >= it.paused_until) else {
            return;
        };
        let upto = replica.own().acknowledged();
        let log = it.disk.batches.iter().filter(|batch| batch.last_index() <= upto).cloned();
        let log: Vec<StreamBatch> = log.collect();
        let is_cut = |node: &SimNode| self.now < node.cut_out_until.max(node.cut_in_until);
        if !is_cut(it) && !is_cut(&self.nodes[to]) && self.now >= self.weather.nats_until {
            let after = self.rng.below(400 * MS);
            let input = Input::CopyIs { ask, log };
            self.put(after, Item::Node { node: to, boot, input });
        }
    }

    fn copied(&mut self, node: usize, ask: u64, log: Vec<StreamBatch>) {
        let disk = &mut self.nodes[node].disk;
        let end = log.last().map(StreamBatch::end).unwrap_or_default();
        if end.progress() < disk.end().progress() && Rule::CopyWhatIsFurther.holds() {
            return self.event(node, LogEvent::Copied { ask, log: None });
        }
        let both = disk.batches.iter().zip(&log);
        let same = both.take_while(|(a, b)| a.end().is_same(&b.end())).count();
        let kept = same.checked_sub(1).map_or(0, |at| log[at].last_index());
        let ends = log.iter().map(StreamBatch::end);
        let ends: Vec<LogEnd> = [LogEnd::default()].into_iter().chain(ends).collect();
        let acknowledged = ends[ends.len() - 1].index;
        let own = crate::own_log::OwnLog::new(ends, acknowledged);
        let before = self.nodes[node].replica.as_ref().map(|it| it.own().clone());
        self.event(node, LogEvent::Copied { ask, log: Some((own.clone(), kept)) });
        let after = self.nodes[node].replica.as_ref().map(|it| it.own().clone());
        let is_taken = before != after || after == Some(own);
        if is_taken {
            let disk = &mut self.nodes[node].disk;
            disk.marked = disk.marked.min(acknowledged);
            (disk.synced, disk.mark, disk.batches) = (log.len(), acknowledged, log);
        }
    }

    fn nats(&mut self, node: usize, boot: u64, request: Request) {
        if self.now < self.weather.nats_until {
            return;
        }
        let command = match request {
            Request::Prove(ask) => {
                if !self.weather.is_table_silent(self.now) {
                    self.answer(node, boot, Input::Proved(ask));
                }
                return;
            }
            Request::Command(command) => command,
        };
        match command {
            LogCommand::Claim { ask, revision, entry } => {
                if self.weather.is_table_silent(self.now) {
                    return;
                }
                let revision = self.table.set(self.now, revision, entry);
                self.answer(node, boot, Input::Log(LogEvent::Claimed { ask, revision }));
            }
            LogCommand::Create { generation, ask } => {
                let is_full = self.now < self.weather.full_until;
                let result = if is_full { Err(StreamError::Full) } else { Ok(()) };
                if !is_full {
                    self.streams.entry(generation).or_insert_with(SimStream::new);
                }
                self.answer(node, boot, Input::Log(LogEvent::Created { ask, result }));
            }
            LogCommand::Delete { generation } => drop(self.streams.remove(&generation)),
            command if self.now < self.weather.stream_until => {
                // Some of what comes during an election is carried out behind it.
                if self.rng.one_in(3) {
                    let after = self.weather.stream_until - self.now + self.rng.below(20 * MS);
                    let request = Request::Command(command);
                    self.put(after, Item::Nats { node, boot, request });
                }
            }
            LogCommand::Purge { generation, below } => self.purge(generation, below),
            LogCommand::Publish { generation, number, expected, message } => {
                let result = self.publish(node, generation, Some(expected), message);
                let event = LogEvent::Published { generation, number, result };
                self.answer(node, boot, Input::Log(event));
            }
            LogCommand::Read { generation, ask, from, wait } => {
                self.read(generation, Waiter { node, boot, ask, from }, wait);
            }
            other => unreachable!("not for NATS: {other:?}"),
        }
    }

    fn read(&mut self, generation: u32, waiter: Waiter, wait: bool) {
        let Waiter { node, boot, ask, from } = waiter;
        let stale = if self.rng.one_in(self.weather.stale_in) { 1 + self.rng.below(9) } else { 0 };
        let Some(stream) = self.streams.get_mut(&generation) else {
            let result = Err(StreamError::Gone);
            return self.answer(node, boot, Input::Log(LogEvent::Read { ask, result }));
        };
        if wait && from > stream.last() {
            return stream.waiters.push(waiter);
        }
        let page = stream.page(from, stale);
        self.page(waiter, page);
    }

    fn page(&mut self, waiter: Waiter, page: StreamPage) {
        let Waiter { node, boot, ask, .. } = waiter;
        self.answer(node, boot, Input::Log(LogEvent::Read { ask, result: Ok(page) }));
    }

    fn publish(
        &mut self,
        node: usize,
        generation: u32,
        expected: Option<u64>,
        message: Vec<u8>,
    ) -> Result<u64, StreamError> {
        if self.now < self.weather.full_until {
            return Err(StreamError::Full);
        }
        let stream = self.streams.get_mut(&generation).ok_or(StreamError::Gone)?;
        let sequence = stream.publish(expected, message)?;
        let message = stream.messages.back().expect("just there").clone();
        let behind = stream.oracle.end();
        let counted = stream.oracle.read(sequence, &message);
        let lead_forgotten = stream.lead_forgotten;
        let waiters = std::mem::take(&mut stream.waiters);
        if let Some(counted) = counted {
            self.judge.count(&counted, behind, lead_forgotten);
            self.judge_going_on(node, &counted, generation > 1 && behind.is_none());
        }
        for waiter in waiters {
            let page = self.streams[&generation].page(waiter.from, 0);
            self.page(waiter, page);
        }
        Ok(sequence)
    }

    fn purge(&mut self, generation: u32, below: u64) {
        let Some(stream) = self.streams.get_mut(&generation) else { return };
        let mut starts = stream.oracle.counted.iter().map(|counted| counted.at.first);
        let is_start =
            below <= stream.first || self.weather.forgets() || starts.any(|first| first == below);
        assert!(is_start, "a purge leaves a batch that counts at the beginning");
        stream.purge(below);
    }

    /// Invariant 8: two disks have what a purge removes, as it is decided.
    fn judge_purge(&self, generation: u32, below: u64) {
        let Some(stream) = self.streams.get(&generation) else { return };
        let counted = stream.oracle.counted.iter().map(|counted| counted.at);
        if let Some(gone) = { counted }.rfind(|at| at.last < below) {
            let disks = self.nodes.iter().filter(|it| it.disk.has(&gone.end, self.now / MS));
            assert!(disks.count() >= 2, "invariant 8: one disk has {gone:?}, which is purged");
        }
    }

    /// Invariants 1 and 7: a Lead and a new generation stand behind what was acknowledged, as far
    /// as somebody has it who was there when it was claimed.
    fn judge_going_on(&mut self, node: usize, counted: &Counted, begins: bool) {
        let leads = counted.batches.iter().any(|batch| batch.leader().is_some());
        if !leads && !begins {
            return;
        }
        let claimed = self.table.claimed(self.nodes[node].me.node.number()).unwrap_or(self.now);
        let has_bus = self.weather.nats_until + AWAY <= claimed;
        let there = |(at, it): &(usize, &SimNode)| *at == node || has_bus && it.was_there(claimed);
        let there = self.nodes.iter().enumerate().filter(there);
        let there = there.flat_map(|(_, it)| it.disk.batches.iter().map(mark)).collect();
        let disk = begins.then_some(&self.nodes[node].disk.batches[..]);
        self.judge.go_on(&counted.at.end, disk, &there);
    }

    /// Invariant 14: all nodes run again, and every request was answered.
    fn end(mut self) -> Story {
        let open = self.nodes.iter().filter(|node| node.engine.is_some_and(|it| it.is_open));
        let open: Vec<&SimNode> = open.collect();
        assert_eq!(open.len(), 1, "invariant 14: one node serves at the end");
        let leader = open[0];
        let named = self.table.entry.as_ref().and_then(|entry| entry.leader);
        assert_eq!(named, Some(leader.me), "the table names who serves");
        let pending = leader.disk.end().index - leader.engine.map_or(0, |it| it.released);
        let has_written = leader.disk.batches.last().is_some_and(|it| it.leader().is_none());
        assert!(pending == 0 || !has_written, "invariant 14: {pending} records wait for ever");
        let disks: Vec<&[StreamBatch]> = self.nodes.iter().map(|it| &it.disk.batches[..]).collect();
        self.judge.end(&disks);
        Story {
            releases: self.judge.releases,
            opens: self.judge.opens,
            generations: self.streams.keys().copied().max().unwrap_or(1),
            losses: self.judge.losses,
            ..self.story
        }
    }
}
