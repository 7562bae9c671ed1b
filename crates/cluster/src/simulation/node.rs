//! A node of the world: a process that may die, and a disk that stays.

use crate::batch::{LogEnd, LogLeader, StreamBatch};
use crate::node::{MajorityProof, PeerBeats};
use crate::own_log::OwnLog;
use crate::port::LogCommand;
use crate::replica::{NodeView, Replica};
use base::time::Instant;
use model::id::NodeId;

use super::{MS, NAME};

/// Time after which others may take a disturbed node for gone: six seconds without a beat, and the
/// time of a claim.
pub(super) const AWAY: u64 = 8_000 * MS;

/// A disk: what is written, what of it is synced, and the mark.
#[derive(Default)]
pub(super) struct SimDisk {
    pub(super) batches: Vec<StreamBatch>,
    pub(super) synced: usize,
    pub(super) mark: u64,
    /// The mark as a power cut leaves it.
    pub(super) marked: u64,
    /// Batches that were synced when the disk was wiped, and when that was.
    before: Vec<StreamBatch>,
    wiped_ms: Option<u64>,
}

impl SimDisk {
    pub(super) fn end(&self) -> LogEnd {
        self.batches.last().map(StreamBatch::end).unwrap_or_default()
    }

    /// The end of the last batch that ends at this index or before it.
    pub(super) fn end_at(&self, index: u64) -> LogEnd {
        let count = self.batches.partition_point(|batch| batch.last_index() <= index);
        count.checked_sub(1).map(|at| self.batches[at].end()).unwrap_or_default()
    }

    pub(super) fn synced_index(&self) -> u64 {
        self.synced.checked_sub(1).map_or(0, |at| self.batches[at].last_index())
    }

    /// Synced content.
    pub(super) fn durable(&self) -> &[StreamBatch] {
        &self.batches[..self.synced]
    }

    /// Batches that were known to be acknowledged, and no longer are after a power cut.
    pub(super) fn unmarked(&self) -> impl Iterator<Item = &StreamBatch> {
        let marks = self.marked + 1..=self.mark;
        self.batches.iter().filter(move |batch| marks.contains(&batch.last_index()))
    }

    /// Whether it has this batch for good, or had until a moment ago, which others cannot know.
    pub(super) fn has(&self, end: &LogEnd, now_ms: u64) -> bool {
        let lately = self.wiped_ms.is_some_and(|at| now_ms - at < 8_000);
        let before = if lately { &self.before[..] } else { &[] };
        self.durable().iter().chain(before).any(|batch| batch.end().is_same(end))
    }

    pub(super) fn append(&mut self, batch: StreamBatch) {
        let end = self.end();
        assert!(batch.follows(&end), "a batch {:?} behind {end:?}", batch.end());
        self.batches.push(batch);
    }

    pub(super) fn cut(&mut self, behind: u64) {
        self.batches.retain(|batch| batch.last_index() <= behind);
        self.synced = self.synced.min(self.batches.len());
        (self.mark, self.marked) = (self.mark.min(behind), self.marked.min(behind));
    }

    pub(super) fn from(&self, index: u64) -> Vec<StreamBatch> {
        let later = self.batches.iter().filter(|batch| batch.first_index() >= index);
        later.cloned().collect()
    }

    fn own(&self) -> OwnLog {
        let ends = self.batches.iter().map(StreamBatch::end);
        OwnLog::new([LogEnd::default()].into_iter().chain(ends), self.mark)
    }
}

/// The engine that serves the log, between Open and Close.
#[derive(Clone, Copy)]
pub(super) struct SimEngine {
    pub(super) epoch: u32,
    pub(super) is_open: bool,
    /// Whether nothing is written any more; a write under way is reported before the engine has
    /// closed.
    pub(super) is_closing: bool,
    pub(super) released: u64,
}

pub(super) struct SimNode {
    pub(super) me: LogLeader,
    /// Replica; `None` while the process does not run.
    pub(super) replica: Option<Replica>,
    pub(super) proof: MajorityProof,
    pub(super) peers: PeerBeats,
    pub(super) disk: SimDisk,
    pub(super) engine: Option<SimEngine>,
    /// The node's clock runs so many thousandths of the true one.
    pub(super) rate: u64,
    pub(super) paused_until: u64,
    /// Requests to NATS, and what comes from there, get lost until then.
    pub(super) cut_out_until: u64,
    pub(super) cut_in_until: u64,
    /// Its beats get lost until then.
    pub(super) mute_until: u64,
    pub(super) seen: u64,
    pub(super) next_watch: u64,
    pub(super) next_beat: u64,
    pub(super) next_sync: u64,
    /// When anything of it was disturbed last.
    pub(super) disturbed: u64,
    /// The start whose disk failed.
    pub(super) failed: u64,
}

impl SimNode {
    pub(super) fn new(number: u16, rate: u64) -> SimNode {
        let node = NodeId::new(number).expect("a node");
        SimNode {
            me: LogLeader { node, boot: 0 },
            replica: None,
            proof: MajorityProof::default(),
            peers: PeerBeats::default(),
            disk: SimDisk::default(),
            engine: None,
            rate,
            paused_until: 0,
            cut_out_until: 0,
            cut_in_until: 0,
            mute_until: 0,
            seen: 0,
            next_watch: 0,
            next_beat: 0,
            next_sync: 0,
            disturbed: 0,
            failed: 0,
        }
    }

    pub(super) fn start(&mut self) {
        self.me.boot += 1;
        self.disk.synced = self.disk.batches.len();
        self.replica = Some(Replica::new(NAME, self.me, self.disk.own()));
        (self.proof, self.peers) = (MajorityProof::default(), PeerBeats::default());
        (self.engine, self.seen) = (None, 0);
    }

    /// The process dies. A power cut also takes what is not synced.
    pub(super) fn kill(&mut self, is_power_cut: bool) {
        (self.replica, self.engine) = (None, None);
        if is_power_cut {
            self.disk.batches.truncate(self.disk.synced);
            self.disk.mark = self.disk.marked.min(self.disk.end().index);
        }
    }

    pub(super) fn wipe(&mut self, now_ms: u64) {
        let (before, wiped_ms) = (self.disk.durable().to_vec(), Some(now_ms));
        self.disk = SimDisk { before, wiped_ms, ..SimDisk::default() };
    }

    /// Whether its disk takes nothing more until a restart.
    pub(super) fn is_disk_failed(&self) -> bool {
        self.failed == self.me.boot
    }

    /// Whether it ran and reached everybody for a while before this time.
    pub(super) fn was_there(&self, now: u64) -> bool {
        let until = self.paused_until.max(self.cut_in_until).max(self.cut_out_until);
        let until = until.max(self.mute_until).max(self.disturbed);
        self.replica.is_some() && until + AWAY <= now
    }

    /// The node's own clock.
    pub(super) fn now(&self, now_us: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 * u64::from(self.me.node.number()) + now_us * self.rate)
    }

    /// How much of the true time it is to a moment of the node's clock, microseconds.
    pub(super) fn until(&self, now_us: u64, at: Instant) -> u64 {
        at.since(self.now(now_us)).as_nanos() as u64 / self.rate + 1
    }

    pub(super) fn run<T>(
        &mut self,
        now_us: u64,
        run: impl FnOnce(&mut Replica, &NodeView<'_>, &mut Vec<LogCommand>) -> T,
    ) -> (Option<T>, Vec<LogCommand>) {
        let now = self.now(now_us);
        let (proof, peers) = (&self.proof, &self.peers);
        let view = NodeView { now, proof, peers, copies_min: 1 };
        let mut out = Vec::new();
        let ran = self.replica.as_mut().map(|replica| run(replica, &view, &mut out));
        (ran, out)
    }

    pub(super) fn leads(&self, now_us: u64) -> bool {
        let (proof, peers) = (&self.proof, &self.peers);
        let view = NodeView { now: self.now(now_us), proof, peers, copies_min: 1 };
        self.replica.as_ref().is_some_and(|replica| replica.leads(&view))
    }
}
