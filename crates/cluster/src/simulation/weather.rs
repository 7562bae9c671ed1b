//! Faults of a world, and their times.

use super::node::SimNode;
use super::{Item, MS, NAME, NODES, World};
use crate::batch::{LogEnd, LogLeader, StreamBatch, write_record};
use crate::port::LogEvent;
use crate::wire::message::messages_of;
use crate::wire::table::LogEntry;
use base::prng::Prng;
use model::id::NodeId;

/// Kinds of worlds, by their seeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Climate {
    /// Nodes die, hang and are cut off; NATS is silent; nothing is forgotten.
    Crashes,
    /// As `Crashes`, and disks are wiped, the table goes back, and strangers write to the stream.
    Wipes,
    /// Streams forget and vanish while nodes are well, or as all lose their power together.
    Forgets,
    /// Streams forget while nodes die and hang: what only they have may be lost, and is reported.
    Loses,
}

/// Faults, as the table of failures in `docs/cluster.md` names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// A process is killed; its disk has what it wrote.
    Kill,
    /// A machine loses its power; its disk has what was synced.
    PowerCut,
    /// A node hangs, and goes on later.
    Hang,
    /// A node does not reach NATS, in one direction or both.
    CutOff,
    /// The beats of a node get lost.
    BeatsLost,
    /// Writes of a node do not get to its disk any more, until it is restarted.
    DiskFails,
    /// A disk is empty after a restart.
    DiskWiped,
    /// A copy's source lost its disk since its last beat.
    SourceWiped,
    /// An operator wants another node to lead.
    Promote,
    /// A stream elects another leader: nobody answers for it.
    StreamElects,
    /// The table does not answer.
    TableSilent,
    /// All of NATS is away.
    NatsAway,
    /// A stream takes nothing more.
    StreamFull,
    /// A stream loses its end.
    StreamForgets,
    /// A stream loses its end while its leader dies or hangs.
    StreamForgetsLeader,
    /// A stream is gone.
    StreamGone,
    /// A stream loses its end as all nodes lose their power.
    PowerCutOfAll,
    /// The table has older values.
    TableGoesBack,
    /// A stranger writes to a stream.
    Stranger,
}

impl Fault {
    pub(super) const COUNT: usize = Fault::Stranger as usize + 1;
}

pub(super) struct Weather {
    pub(super) climate: Climate,
    pub(super) end: u64,
    pub(super) write_every: u64,
    pub(super) watch_lag: u64,
    pub(super) lost_in: u64,
    pub(super) late_in: u64,
    pub(super) stale_in: u64,
    pub(super) nats_until: u64,
    pub(super) stream_until: u64,
    pub(super) table_until: u64,
    pub(super) full_until: u64,
    every: u64,
    restarts: Vec<(u64, usize)>,
}

impl Weather {
    pub(super) fn new(rng: &mut Prng, seed: u64) -> Weather {
        let climates = [Climate::Crashes, Climate::Wipes, Climate::Forgets, Climate::Loses];
        Weather {
            climate: climates[seed as usize % 4],
            end: 60_000 * MS,
            write_every: (20 + rng.below(200)) * MS,
            watch_lag: (10 + rng.below(1_500)) * MS,
            lost_in: 50 + rng.below(2_000),
            late_in: if rng.one_in(8) { 5 + rng.below(20) } else { 50 + rng.below(1_000) },
            stale_in: 20 + rng.below(1_000),
            nats_until: 0,
            stream_until: 0,
            table_until: 0,
            full_until: 0,
            every: (1 + rng.below(8)) * 1_000 * MS,
            restarts: Vec::new(),
        }
    }

    pub(super) fn forgets(&self) -> bool {
        matches!(self.climate, Climate::Forgets | Climate::Loses)
    }

    pub(super) fn is_table_silent(&self, now: u64) -> bool {
        now < self.table_until.max(self.nats_until)
    }
}

/// A message of a stranger in the stream: noise, or a batch of a node that runs on an old copy of
/// its disk.
fn strange(noise: u64, end: LogEnd) -> Vec<u8> {
    let by = LogLeader { node: NodeId::new(1).expect("a node"), boot: 0 };
    let mut record = Vec::new();
    write_record(14, &mut record, |out| out.extend_from_slice(&noise.to_le_bytes()));
    let (at, epoch) = match noise % 3 {
        0 => return noise.to_le_bytes().to_vec(),
        1 => (LogEnd { chain: end.chain ^ 1, ..end }, end.epoch),
        _ => (end, end.epoch - 1),
    };
    let batch = StreamBatch::of(at, epoch, &record).expect("whole");
    messages_of(NAME, by, &[batch]).remove(0)
}

impl World {
    pub(super) fn blow(&mut self) {
        let now = self.now;
        self.put(50 * MS, Item::Weather);
        let due = self.weather.restarts.iter().position(|(at, _)| *at <= now);
        if let Some(at) = due {
            let (_, node) = self.weather.restarts.swap_remove(at);
            self.start(node);
        }
        if now < self.weather.end && self.rng.below(self.weather.every) < 50 * MS {
            let node = self.rng.below(NODES as u64) as usize;
            let leader = self.nodes.iter().position(|it| it.engine.is_some());
            // Half of what befalls nodes befalls the leader.
            let node = leader.filter(|_| self.rng.one_in(2)).unwrap_or(node);
            match self.weather.climate {
                Climate::Forgets if self.rng.one_in(3) => self.befall_stream(),
                Climate::Loses if self.rng.one_in(4) => self.befall_stream(),
                Climate::Forgets => self.befall_nats(),
                Climate::Wipes if self.rng.one_in(4) => self.befall_table(node),
                _ if self.rng.one_in(8) => self.promote(node),
                _ if self.rng.one_in(3) => self.befall_nats(),
                _ => self.befall_node(node),
            }
        }
    }

    fn befalls(&mut self, node: usize, fault: Fault) {
        self.trace(node, "!", &fault);
        let is_leader = self.nodes[node].engine.is_some();
        self.story.faults[fault as usize][usize::from(is_leader)] += 1;
    }

    fn span(&mut self, ms_max: u64) -> u64 {
        let ms_max = if self.rng.one_in(2) { ms_max } else { ms_max / 5 };
        self.now + self.rng.below(ms_max * MS)
    }

    fn befall_node(&mut self, node: usize) {
        self.nodes[node].disturbed = self.now;
        match self.rng.below(7) {
            0 => self.kill(node, Fault::Kill),
            1 => self.kill(node, Fault::PowerCut),
            2 => self.hang(node),
            3 | 4 => self.cut_off(node),
            5 => self.fail_disk(node),
            _ => {
                self.befalls(node, Fault::BeatsLost);
                self.nodes[node].mute_until = self.span(25_000);
            }
        }
    }

    fn hang(&mut self, node: usize) {
        self.befalls(node, Fault::Hang);
        let until = self.span(25_000).min(self.weather.end);
        let it = &mut self.nodes[node];
        it.paused_until = it.paused_until.max(until);
    }

    fn cut_off(&mut self, node: usize) {
        self.befalls(node, Fault::CutOff);
        let until = self.span(45_000);
        let ways = self.rng.below(4);
        let it = &mut self.nodes[node];
        if ways != 0 {
            it.cut_out_until = until;
        }
        if ways != 1 {
            it.cut_in_until = until;
        }
    }

    /// Has writes of a node not get to the disk any more, until a restart.
    fn fail_disk(&mut self, node: usize) {
        let it = &mut self.nodes[node];
        if it.replica.is_some() && it.failed != it.me.boot {
            it.failed = it.me.boot;
            self.befalls(node, Fault::DiskFails);
            self.event(node, LogEvent::LogFailed);
            let until = self.span(20_000);
            self.weather.restarts.push((until, node));
        }
    }

    /// A node dies by this fault, and comes back.
    fn kill(&mut self, node: usize, fault: Fault) {
        let until = self.span(20_000);
        self.kill_until(node, fault, until);
    }

    fn kill_until(&mut self, node: usize, fault: Fault, until: u64) {
        if self.nodes[node].replica.is_none() {
            return;
        }
        self.befalls(node, fault);
        self.nodes[node].disturbed = self.now;
        let is_power_cut = matches!(fault, Fault::PowerCut | Fault::PowerCutOfAll);
        if is_power_cut {
            self.judge.unmark(self.nodes[node].disk.unmarked());
        }
        self.nodes[node].kill(is_power_cut);
        self.weather.restarts.push((until, node));
    }

    /// An operator wants this node to lead.
    fn promote(&mut self, node: usize) {
        self.befalls(node, Fault::Promote);
        let (wanted, revision) = (Some(self.nodes[node].me.node), self.table.revision);
        if let Some(entry) = self.table.entry.clone().filter(|entry| entry.leader.is_some()) {
            self.table.set(self.now, revision, LogEntry { wanted, ..entry });
        }
    }

    fn befall_nats(&mut self) {
        let fault = match self.rng.below(8) {
            0..=3 => Fault::StreamElects,
            4 | 5 => Fault::TableSilent,
            6 => Fault::StreamFull,
            _ => Fault::NatsAway,
        };
        self.befalls(0, fault);
        match fault {
            Fault::StreamElects => self.weather.stream_until = self.span(9_000),
            Fault::TableSilent => self.weather.table_until = self.span(9_000),
            Fault::StreamFull => self.weather.full_until = self.span(6_000),
            _ => self.weather.nats_until = self.span(30_000),
        }
    }

    /// Causes a fault of the table, the stream or the disk: an older value, a stranger's message,
    /// or a wipe.
    fn befall_table(&mut self, node: usize) {
        match self.rng.below(3) {
            0 => {
                self.befalls(node, Fault::TableGoesBack);
                let changes = 1 + self.rng.below(3) as usize;
                self.table.go_back(changes);
            }
            1 => {
                let newest = self.streams.iter().next_back();
                let noise = self.rng.draw();
                if let Some((generation, stream)) = newest
                    && let Some(end) = stream.oracle.end()
                {
                    let (generation, message) = (*generation, strange(noise, end));
                    self.befalls(node, Fault::Stranger);
                    let _ = self.publish(node, generation, None, message);
                }
            }
            _ => {
                let until = self.span(20_000);
                self.wipe(node, Fault::DiskWiped, until);
            }
        }
    }

    /// A copy was asked for: its source may lose its disk, and be back before it is asked.
    pub(super) fn befall_source(&mut self, source: usize) {
        if self.weather.climate == Climate::Wipes && self.rng.one_in(4) {
            self.wipe(source, Fault::SourceWiped, self.now);
        }
    }

    /// A disk is wiped, if another one has what the stream does not have any more.
    fn wipe(&mut self, node: usize, fault: Fault, until: u64) {
        let first = self.streams.values().next_back().map_or(0, |it| it.first_index());
        let reaches =
            |batch: &StreamBatch| batch.last_index() + 1 >= first && self.judge.has_counted(batch);
        let has = |it: &SimNode| first <= 1 || it.disk.durable().iter().any(reaches);
        let mut others = self.nodes.iter().enumerate().filter(|(at, _)| *at != node);
        let is_worth_it = !self.nodes[node].disk.batches.is_empty();
        if is_worth_it && others.any(|(_, it)| has(it)) {
            self.kill_until(node, fault, until);
            self.nodes[node].wipe(self.now / MS);
        }
    }

    fn befall_stream(&mut self) {
        let leader = self.nodes.iter().position(|it| it.engine.is_some()).unwrap_or(0);
        let with = self.rng.below(6);
        let is_removed = self.rng.one_in(5);
        let fault = match self.weather.climate {
            Climate::Forgets if with == 0 => Fault::PowerCutOfAll,
            Climate::Loses if with < 2 => Fault::StreamForgetsLeader,
            _ if is_removed => Fault::StreamGone,
            _ => Fault::StreamForgets,
        };
        self.befalls(leader, fault);
        match fault {
            Fault::PowerCutOfAll => (0..NODES).for_each(|node| self.kill(node, fault)),
            Fault::StreamForgetsLeader => self.befall_node(leader),
            _ => {}
        }
        let Some(mut newest) = self.streams.last_entry() else { return };
        let count = newest.get().messages.len() as u64;
        let few = if self.rng.one_in(2) { 5 } else { 60 };
        let forgotten = if is_removed { count } else { 1 + self.rng.below(count.clamp(1, few)) };
        let forgotten = newest.get_mut().forget(forgotten);
        self.judge.forget(forgotten.iter());
        if is_removed {
            newest.remove();
        }
        self.weather.stream_until = self.span(4_000);
    }

    /// Ends all faults.
    pub(super) fn heal(&mut self) {
        let now = self.now;
        for it in &mut self.nodes {
            for until in [&mut it.cut_in_until, &mut it.cut_out_until, &mut it.mute_until] {
                *until = now.min(*until);
            }
        }
        let weather = &mut self.weather;
        weather.nats_until = now.min(weather.nats_until);
        (weather.stream_until, weather.table_until, weather.full_until) = (0, 0, 0);
        (weather.lost_in, weather.late_in) = (weather.lost_in.max(50), weather.late_in.max(50));
        weather.end = now;
        weather.restarts.iter_mut().for_each(|(at, _)| *at = now);
    }
}
