//! Push notifications for offline users: new messages of an account are announced to those of its
//! registered devices that have not received them.
//!
//! ```text
//! entry ─► a mark, before it ─► the inbox ─► due ─┬► a device has it: over
//!   (owing)                         ▲             └► a round: registrations, inbox, what is read,
//!                                   │                texts ─► gateway, hub, services elsewhere
//!                                   │                               ─► over, or again later
//!                                   └── after a start, from the mark on ─────────┘
//! ```
//! No message content waits here: an account with debts has a mark, a row with the time since which
//! notifications are owed, and their contents are read from its inbox each time. The mark is handed
//! to the log before the entry, so a start finds every account with debts. Invariant: a message
//! that counts as unread, and that neither the account has read nor an attentive device has
//! acknowledged, is announced at least once by each way that the account has registered, or is
//! counted with the reason why not.

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

/// Content of a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushDetail {
    /// The sender, and the beginning of the text.
    Full,
    /// The sender.
    Sender,
    /// Only that a message has arrived.
    Nothing,
}

/// Treatment of messages in muted conversations, and of all messages in quiet hours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuietPush {
    /// The message is announced without a sound.
    Low,
    /// The message is not announced; the unread count is still updated if the message counts.
    Nothing,
}

/// Push policy of the operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PushPolicy {
    /// A gateway is configured.
    pub gateway: bool,
    /// Content of notifications.
    pub detail: PushDetail,
    /// Content of notifications to external push services.
    pub services: PushDetail,
    /// Treatment of messages in muted conversations.
    pub muted: QuietPush,
    /// Treatment of messages in quiet hours.
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

/// The way of a registration: gateway, hub and external services fail independently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Gateway = 0,
    Miop = 1,
    Service = 2,
}

/// Number of ways.
const WAYS: usize = Way::ALL.len();

/// Number of ways whose devices show an unread count; these come first.
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

    /// Whether the carrier of the way may be slow.
    fn may_be_slow(self) -> bool {
        self != Way::Miop
    }
}

impl PushPolicy {
    /// Content of notifications by this way.
    fn detail_by(&self, way: Way) -> PushDetail {
        if way == Way::Service { self.services } else { self.detail }
    }
}

/// An account with registered devices.
#[derive(Default)]
struct Registered {
    /// Number of registrations, by way.
    counts: [u8; WAYS],
    /// Hash of each device's route.
    devices: Box<[u64]>,
    /// The unread count that devices were last sent, by way.
    badges: [u32; BADGED],
}

/// Pushes of the accounts of this shard.
pub(crate) struct Pushes {
    accounts: HashMap<TimelineId, Registered>,
    /// Accounts by the hashes of their devices' routes.
    holders: HashMap<u64, Vec<TimelineId>>,
    /// Claims of devices that are registered to other accounts.
    claims: Waits<Claim>,
    owing: HashMap<TimelineId, Owing>,
    /// Accounts with debts, by the time at which they are handled next.
    due: BTreeSet<(Instant, TimelineId)>,
    /// Accounts with a device that has left since the last turn.
    left: Vec<TimelineId>,
    rounds: Waits<Round>,
    posts: Waits<Post>,
    /// Beginnings of messages that were read for rounds since the last turn, or the fault.
    pub(crate) texts: Vec<(u64, Result<Fetched, ChatFault>)>,
    lines: HashMap<TimelineId, Line>,
    /// Time at which a code was last pushed for an account.
    codes: HashMap<TimelineId, Instant>,
    /// No notification goes to the gateway before this time.
    gateway_rests: Instant,
    /// Running rounds by each way, and accounts that wait for one.
    busy: [usize; WAYS],
    queues: [VecDeque<TimelineId>; WAYS],
    rng: Prng,
}

impl Pushes {
    /// No pushes; `seed` is for pauses of uneven length.
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

    /// Restores a row at the start of the shard. False: the row cannot be read.
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

    /// Lets as many waiting accounts continue as each way has room for.
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

    /// Records that a device of an account has left.
    pub(crate) fn leaves(&mut self, inbox: TimelineId) {
        if self.owing.contains_key(&inbox) {
            self.left.push(inbox);
        }
    }

    /// Number of accounts with debts.
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
    /// Makes restored debts due, after all rows have been restored.
    pub(crate) fn pushes_restored(&mut self, now: Now) {
        // An account may have a mark without a registration, when it was removed half-way.
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

    /// Continues with accounts that are due; returns when to be called again.
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
            // All ways together may have `most` rounds for each way.
            if self.pushes.rounds.len() >= WAYS * most as usize || !self.log.may_ask() {
                return None; // the end of any round makes a turn
            }
            self.pushes.disarm(inbox);
            self.begin_push(now, inbox, fx);
        }
        None
    }

    /// The time at which a message of now is announced, together with those that come until then.
    fn push_window(&self, now: Now) -> Instant {
        now.after(millis(self.settings.limits.notifications.window_ms))
    }
}

fn millis(ms: u32) -> std::time::Duration {
    std::time::Duration::from_millis(u64::from(ms))
}
