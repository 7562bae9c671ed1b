//! The node's thread: it runs the machines of all logs and carries out what they want.
//!
//! ```text
//! NATS, the logs' writers, copies ──► inputs ──► machines ──► commands ──► NATS, the folder, Logs
//! ```
//! It gets everything by one channel, and waits for nothing else but its own disk. Commands are
//! carried out in the order in which they were given. Invariant: the folder is followed, led (then
//! the server has it), or neither.

mod beats;
mod carry;
mod copies;
mod events;
mod reach;
mod serving;
mod slot;
mod standing;
mod table;

use crate::clock::Clock;
use crate::names::Names;
use crate::settings::ClusterSettings;
use crate::shared::Shared;
use crate::turn::{ClusterNotice, LeaderAddress, Turn};
use base::time::Instant;
use cluster::batch::LogLeader;
use cluster::node::{ClockSkews, MajorityProof, Namesake, PeerBeats};
use cluster::port::LogCommand;
use copies::{CopyEnd, Given};
use model::id::NodeId;
use nats::{Nats, NatsEvent};
use serving::Serving;
use slot::Slot;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use store::data::{Base, FollowingFolder, Logs};
pub(crate) use table::LEVEL;
use table::Table;

/// Machines are ticked so often, and when they ask for it.
const TICK: Duration = Duration::from_millis(100);

/// The thread waits for so long at least, whatever a machine asks for; inputs end that.
const PAUSE: Duration = Duration::from_micros(500);

/// A tick that is so late means that the thread, or the host, hung.
const HUNG: Duration = Duration::from_secs(2);

/// Beats, syncs, and what else is due each second.
const SECOND: Duration = Duration::from_secs(1);

/// Copies that NATS has of a stream, until the table tells how many.
const REPLICAS: u16 = 3;

/// Inputs that are taken before machines are ticked.
const INPUTS_TOGETHER: usize = 256;

/// Input of the node's thread.
pub(crate) enum Input {
    Nats(NatsEvent),
    /// A log that leads has a batch on its disk.
    Written {
        log: u16,
        bytes: Vec<u8>,
    },
    /// The logs run.
    Opened(Arc<Logs>),
    /// The logs are closed.
    Closed,
    /// A step of a copy that is made here.
    Copy(CopyEnd),
    /// A base of a log that leads is made.
    Based {
        log: u16,
        base: Result<Arc<Base>, String>,
    },
    /// Addresses of another node were tried.
    Reached {
        node: NodeId,
        unreachable: Vec<String>,
    },
    /// The node is to leave, for a follower.
    Leave,
    /// The thread ends.
    End,
}

/// The node's thread.
pub(crate) struct Driver {
    pub(crate) settings: ClusterSettings,
    pub(crate) names: Names,
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Clock,
    pub(crate) nats: Arc<Nats>,
    /// For threads that end with an input, and for the logs of a leader.
    pub(crate) to_self: Sender<Input>,
    pub(crate) me: LogLeader,
    pub(crate) fingerprint: u64,
    pub(crate) folder: Option<FollowingFolder>,
    pub(crate) serving: Serving,
    pub(crate) slots: Vec<Slot>,
    pub(crate) proof: MajorityProof,
    pub(crate) peers: PeerBeats,
    pub(crate) namesake: Namesake,
    pub(crate) has_namesake: bool,
    /// No proof before this time.
    pub(crate) proves_from: Instant,
    pub(crate) heard: HashMap<u16, Instant>,
    pub(crate) skews: ClockSkews,
    pub(crate) reach: reach::Reach,
    /// The data folder.
    pub(crate) data: PathBuf,
    /// Acknowledged records that it lost, and those that no operator has seen.
    pub(crate) lost: u64,
    pub(crate) lost_unseen: u64,
    pub(crate) table: Table,
    pub(crate) given: Vec<Given>,
    pub(crate) commands: VecDeque<(u16, u32, LogCommand)>,
    /// Where copies answer how far they are.
    pub(crate) inbox: String,
    pub(crate) replicas: u16,
    pub(crate) is_connected: bool,
    /// Last complaint of NATS.
    pub(crate) said: String,
    pub(crate) was_isolated: bool,
    pub(crate) told_leader: Option<LeaderAddress>,
    pub(crate) next_second: Instant,
    pub(crate) next_tick: Instant,
    pub(crate) pulse: beats::Pulse,
    /// Whether the thread hangs, as the watchdog sees it, and sends nothing to others.
    pub(crate) is_mute: bool,
    pub(crate) seconds: u64,
    /// The node leaves because another one leads.
    pub(crate) is_deposed: bool,
    /// The server wants to leave for a follower.
    pub(crate) is_to_leave: bool,
    pub(crate) is_over: bool,
}

impl Driver {
    /// The thread of this node, which is `me`, with this folder.
    pub(crate) fn new(
        (settings, names, me): (ClusterSettings, Names, LogLeader),
        (shared, nats, inbox): (Arc<Shared>, Arc<Nats>, String),
        folder: FollowingFolder,
        to_self: Sender<Input>,
    ) -> Driver {
        let data = folder.path().to_owned();
        Driver {
            settings,
            names,
            shared,
            clock: Clock::begin(),
            nats,
            to_self,
            me,
            fingerprint: folder.fingerprint(),
            slots: (0..folder.count()).map(Slot::new).collect(),
            folder: Some(folder),
            serving: Serving::Follows(None),
            proof: MajorityProof::default(),
            peers: PeerBeats::default(),
            namesake: Namesake::default(),
            has_namesake: false,
            proves_from: Instant::default(),
            heard: HashMap::new(),
            skews: ClockSkews::default(),
            reach: reach::Reach::default(),
            data,
            lost: 0,
            lost_unseen: 0,
            table: Table::default(),
            given: Vec::new(),
            commands: VecDeque::new(),
            inbox,
            replicas: REPLICAS,
            is_connected: false,
            said: String::new(),
            was_isolated: false,
            told_leader: None,
            next_second: Instant::default(),
            next_tick: Instant::default(),
            pulse: beats::Pulse::default(),
            is_mute: false,
            seconds: 0,
            is_deposed: false,
            is_to_leave: false,
            is_over: false,
        }
    }

    /// Runs until it is over.
    pub(crate) fn run(mut self, inputs: Receiver<Input>) {
        self.open_all();
        while !self.is_over {
            let wait = self.wake().since(self.clock.now()).max(PAUSE);
            let input = match inputs.recv_timeout(wait) {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let now = self.clock.now();
            if now.since(self.next_tick) >= HUNG {
                self.skews.hung(now);
            }
            input.into_iter().for_each(|input| self.take(input));
            for _ in 0..INPUTS_TOGETHER {
                match inputs.try_recv() {
                    Ok(input) => self.take(input),
                    Err(_) => break,
                }
            }
            self.turn();
        }
    }

    /// When it must turn next, whatever comes.
    fn wake(&self) -> Instant {
        let machines = self.slots.iter().filter_map(Slot::deadline).min();
        self.next_tick.min(machines.unwrap_or(self.next_tick))
    }

    fn turn(&mut self) {
        let now = self.clock.now();
        let is_tick = now >= self.next_tick;
        for log in 0..self.slots.len() as u16 {
            let is_due = self.slots[usize::from(log)].deadline().is_some_and(|at| now >= at);
            if is_tick || is_due {
                self.tick_log(log);
            }
        }
        if is_tick {
            self.next_tick = now + TICK;
            self.prove(now);
            self.renew_lead_proof();
            self.upkeep();
        }
        if now >= self.next_second {
            self.next_second = now + SECOND;
            self.seconds += 1;
            self.second(now);
        }
        self.carry_out_all();
        self.look_at_serving(now);
    }

    fn second(&mut self, now: Instant) {
        self.sync();
        self.begin_again(now);
        self.look_at_logs();
        self.look_for_successor();
        self.repair_table();
        self.carry_out_all();
        self.beat(now);
        self.drop_bases(now);
        self.purge();
        self.ask_states();
        if self.seconds % standing::LOST_EVERY == 1 {
            self.read_lost();
        }
        self.tell_leader(now);
        self.tell_status(now);
    }

    pub(crate) fn notice(&self, notice: ClusterNotice) {
        self.shared.tell(Turn::Notice(notice));
    }

    /// Whether this node leads log 0, or is about to after its Lead counted.
    pub(crate) fn leads_first(&self) -> bool {
        self.slots.first().is_some_and(|slot| slot.is_open)
    }
}
