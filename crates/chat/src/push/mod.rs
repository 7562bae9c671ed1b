//! Push of those who are away: what came for an account whose devices do not have it is told to
//! those of them that are registered to be woken.
//!
//! ```text
//! entry ─► a mark, before it ─► the inbox ─► due ─┬► a device has it: over
//!   (owing)                         ▲             └► a round: registrations, inbox, what is read,
//!                                   │                texts ─► gateway, hub, services elsewhere
//!                                   │                               ─► over, or again later
//!                                   └── after a start, from the mark on ─────────┘
//! ```
//! Nothing of a message waits here: an account that owes has a mark, a row that says since when,
//! and what is to be told is read from its inbox each time. The mark is handed to the log before
//! the entry is, so a start finds every account that owes. Invariant: a message that counts and
//! that nobody has read, nor an attentive device has acknowledged, is told at least once by each
//! way that the account has registered, or is counted with the reason why not.

mod owing;
mod rounds;
mod rows;
mod telling;
mod wishes;
mod yields;

use crate::waits::Waits;
use crate::word::Fetched;
use crate::{Chat, Effects};
use base::hash::HashKey;
use base::prng::Prng;
use base::time::{Instant, Now};
use model::chat::{ChatFault, PushRoute};
use model::timeline::TimelineId;
use owing::Owing;
use rounds::Round;
use rows::{Kind, Mark};
use std::collections::{BTreeSet, HashMap, VecDeque};
use telling::Post;
use wishes::Line;
use yields::Claim;

/// How much of a message is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushDetail {
    /// Who said it, and how it begins.
    Full,
    /// Who said it.
    Sender,
    /// That something came.
    Nothing,
}

/// What becomes of a message in a conversation that is muted, and of any in quiet hours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuietPush {
    /// It is pushed without a sound.
    Low,
    /// It is not pushed; the number of what is unread is, where it counts.
    Nothing,
}

/// Policy of pushes: what the operator chose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PushPolicy {
    /// There is a gateway.
    pub gateway: bool,
    /// How much is told.
    pub detail: PushDetail,
    /// How much services elsewhere are told.
    pub services: PushDetail,
    /// What is muted.
    pub muted: QuietPush,
    /// What comes in quiet hours.
    pub quiet: QuietPush,
}

impl Default for PushPolicy {
    fn default() -> PushPolicy {
        PushPolicy {
            gateway: false,
            detail: PushDetail::Full,
            services: PushDetail::Nothing,
            muted: QuietPush::Nothing,
            quiet: QuietPush::Low,
        }
    }
}

/// Way of a registration: gateway, hub and services elsewhere fail each by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Gateway = 0,
    Miop = 1,
    Service = 2,
}

/// How many ways there are.
const WAYS: usize = Way::ALL.len();

/// The first so many of them have devices that show a number of what is unread.
const BADGED: usize = 2;

impl Way {
    const ALL: [Way; 3] = [Way::Gateway, Way::Miop, Way::Service];

    fn of(route: &PushRoute) -> Way {
        match route {
            PushRoute::Gateway { .. } => Way::Gateway,
            PushRoute::Miop { .. } => Way::Miop,
            PushRoute::Service(_) => Way::Service,
        }
    }

    /// Whether whoever carries it may be slow.
    fn may_be_slow(self) -> bool {
        self != Way::Miop
    }
}

impl PushPolicy {
    /// How much is told by a way.
    fn detail_by(&self, way: Way) -> PushDetail {
        if way == Way::Service { self.services } else { self.detail }
    }
}

/// An account with devices that are registered.
#[derive(Default)]
struct Registered {
    /// How many, by way.
    counts: [u8; WAYS],
    /// What names each device.
    devices: Box<[u64]>,
    /// What they were told last is unread.
    badges: [u32; BADGED],
}

/// Pushes of the accounts of this shard.
pub(crate) struct Pushes {
    accounts: HashMap<TimelineId, Registered>,
    /// Accounts by what names their devices.
    holders: HashMap<u64, Vec<TimelineId>>,
    /// Devices that are being taken from other accounts.
    claims: Waits<Claim>,
    owing: HashMap<TimelineId, Owing>,
    /// Accounts that owe, by when they are looked at.
    due: BTreeSet<(Instant, TimelineId)>,
    /// Accounts of which a device left since the last turn.
    left: Vec<TimelineId>,
    rounds: Waits<Round>,
    posts: Waits<Post>,
    /// Beginnings of messages that were read for rounds since the last turn, or why not.
    pub(crate) texts: Vec<(u64, Result<Fetched, ChatFault>)>,
    lines: HashMap<TimelineId, Line>,
    /// When a code was pushed for an account.
    codes: HashMap<TimelineId, Instant>,
    /// Nothing goes to the gateway before.
    gateway_rests: Instant,
    /// Rounds that go on by each way, and accounts that wait for one.
    busy: [usize; WAYS],
    queues: [VecDeque<TimelineId>; WAYS],
    rng: Prng,
}

impl Pushes {
    /// None; `seed` is for waits of uneven length.
    pub(crate) fn new(seed: u64) -> Pushes {
        Pushes {
            accounts: HashMap::new(),
            holders: HashMap::new(),
            claims: Waits::default(),
            owing: HashMap::new(),
            due: BTreeSet::new(),
            left: Vec::new(),
            rounds: Waits::default(),
            posts: Waits::default(),
            texts: Vec::new(),
            lines: HashMap::new(),
            codes: HashMap::new(),
            gateway_rests: Instant::default(),
            busy: [0; WAYS],
            queues: Default::default(),
            rng: Prng::new(seed),
        }
    }

    /// A row that the log kept. False: it cannot be read.
    pub(crate) fn restore(&mut self, home: HashKey, key: &[u8], value: &[u8]) -> bool {
        let Some((inbox, kind, name)) = rows::names(key) else { return false };
        match kind {
            Kind::Registration => {
                let Some((_, it)) = rows::registration(name, value) else { return false };
                let counts = &mut self.accounts.entry(inbox).or_default().counts;
                let count = &mut counts[Way::of(&it.route) as usize];
                *count = count.saturating_add(1);
                self.holds(inbox, yields::name_of(home, &it.route));
            }
            Kind::Mark => {
                let Some(mark) = Mark::decode(value) else { return false };
                self.accounts.entry(inbox).or_default().badges = mark.badges;
                if mark.since_s != 0 {
                    self.owing.insert(inbox, Owing::restored(mark));
                }
            }
            Kind::Quiet => {}
        }
        true
    }

    /// As many accounts go on as there is room for by each way.
    fn next_in_line(&mut self, now: Now, most: usize) {
        for at in 0..WAYS {
            for _ in self.busy[at]..most {
                let Some(inbox) = self.queues[at].pop_front() else { break };
                if let Some(owing) = self.owing.get_mut(&inbox).filter(|it| it.is_in_line[at]) {
                    owing.is_in_line[at] = false;
                    self.arm(inbox, now.mono);
                }
            }
        }
    }

    /// A device of an account has left.
    pub(crate) fn leaves(&mut self, inbox: TimelineId) {
        if self.owing.contains_key(&inbox) {
            self.left.push(inbox);
        }
    }

    /// Accounts that have something to tell.
    pub(crate) fn owing(&self) -> usize {
        self.owing.len()
    }

    pub(crate) fn audit(&self) {
        for (inbox, owing) in &self.owing {
            let is_due = owing.due.is_some_and(|at| self.due.contains(&(at, *inbox)));
            assert_eq!(owing.due.is_some(), is_due, "what is due is in its line");
        }
        assert!(self.due.iter().all(|(_, inbox)| self.owing.contains_key(inbox)));
        let most = |it: &Registered| it.counts.iter().any(|count| *count > 0);
        assert!(self.accounts.values().all(most), "it has a device");
        for (inbox, device) in self
            .accounts
            .iter()
            .flat_map(|(inbox, it)| it.devices.iter().map(move |device| (inbox, device)))
        {
            assert!(self.holders[device].contains(inbox), "what it has is known by its name");
        }
        let held: usize = self.holders.values().map(Vec::len).sum();
        let had: usize = self.accounts.values().map(|it| it.devices.len()).sum();
        assert_eq!(held, had, "and nothing else");
    }
}

impl Chat {
    /// All rows have been given: what is owed is due.
    pub(crate) fn pushes_restored(&mut self, now: Now) {
        // Marks of accounts without a registration: of one that was given up half-way.
        let pushes = &mut self.pushes;
        pushes.accounts.retain(|_, it| it.counts != [0; WAYS]);
        pushes.owing.retain(|inbox, _| pushes.accounts.contains_key(inbox));
        let all: Vec<TimelineId> = pushes.owing.keys().copied().collect();
        for inbox in all {
            if let Some(owing) = self.pushes.owing.get_mut(&inbox) {
                owing.first_at = now.mono;
            }
            let at = self.push_window(now);
            self.pushes.arm(inbox, at);
        }
    }

    /// Goes on with what is due; when to come back.
    pub(crate) fn turn_pushes(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for (number, result) in std::mem::take(&mut self.pushes.texts) {
            self.push_texts_read(now, number, result, fx);
        }
        for inbox in std::mem::take(&mut self.pushes.left) {
            let at = self.push_window(now);
            self.pushes.arm(inbox, at);
        }
        let most = self.settings.limits.notifications.accounts_at_once_max;
        self.pushes.next_in_line(now, most as usize);
        while let Some(&(at, inbox)) = self.pushes.due.first() {
            if at > now.mono {
                return Some(at);
            }
            // As many again as by each way that may be slow.
            if self.pushes.rounds.len() >= WAYS * most as usize || !self.log.may_ask() {
                return None; // whatever ends makes a turn
            }
            self.pushes.disarm(inbox);
            self.begin_push(now, inbox, fx);
        }
        None
    }

    /// When what came now is told, together with what comes until then.
    fn push_window(&self, now: Now) -> Instant {
        now.after(millis(self.settings.limits.notifications.window_ms))
    }
}

fn millis(ms: u32) -> std::time::Duration {
    std::time::Duration::from_millis(u64::from(ms))
}
