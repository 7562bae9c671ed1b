//! An application that orders pushes through the control port and believes the answers.
//!
//! The application keeps every order, every answer and every promise: a device whose outcome was
//! "stored" must see the push, or the push must be over for a reason the application gave (a short
//! time to live, a later push with its collapse key); tags and blocks that were answered are so
//! until they are changed; an order that is repeated under its key is carried out once; a Report
//! that was announced is posted to the webhook. Invariant: an order is answered exactly once.

mod belief;

use crate::disk::Posted;
use crate::virtual_clients::{ClientLogic, lock};
use base::prng::Prng;
use base::time::{Instant, Now};
use belief::Belief;
use model::id::{DeviceId, MessageId, NodeId, ProductKey, ShardId, Tag};
use model::ports::control::{Answer, Command};
use model::ports::events::{DeviceEvent, DeviceWhat};
use model::ports::pushes::{
    DeviceState, PushAnswer, PushCommand, PushCounts, PushOrder, PushTarget,
};
use model::push::{Outcome, Priority, Rejection};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Seconds to live that no world lasts.
const LONG_S: u32 = 6 * 24 * 3_600;
/// Keys for collapsing.
const KEYS: u64 = 3;

/// Terms of an order.
struct Ordered {
    time_to_live_s: u32,
    collapse: Option<Box<str>>,
    /// Ordered of all shards: the parts' counts add up.
    many: bool,
}

/// An order under an idempotency key, and the ids under which it was asked for.
struct Keyed {
    order: PushOrder,
    ids: Vec<MessageId>,
}

/// Change of a device that a question asks for.
enum Change {
    Tags(DeviceId),
    Blocked(DeviceId),
}

/// Answers that have come, by the number of their question.
pub type Answers = Arc<Mutex<Vec<(u64, Answer)>>>;

/// The application.
pub struct Application {
    rng: Prng,
    product: ProductKey,
    devices: Vec<DeviceId>,
    last_id: u64,
    asked: BTreeMap<u64, Option<MessageId>>,
    asks: u64,
    ordered: BTreeMap<MessageId, Ordered>,
    outcomes: BTreeMap<(MessageId, DeviceId), Outcome>,
    /// Ends that were reported as events.
    ends: BTreeSet<(MessageId, DeviceId)>,
    epochs: BTreeMap<DeviceId, (u64, bool)>,
    /// Whether it blocks devices; else it repeats orders.
    blocks: bool,
    changes: BTreeMap<u64, Change>,
    tags: BTreeMap<DeviceId, Belief<Vec<Tag>>>,
    blocked: BTreeMap<DeviceId, Belief<bool>>,
    keyed: Vec<Keyed>,
    /// Pushes to be cancelled, by the question.
    cancels: BTreeMap<u64, MessageId>,
    /// Pushes of which somebody asked that they be cancelled.
    doubted: BTreeSet<MessageId>,
    /// Those that were, as it was answered; and when the first crash after that was.
    cancelled: BTreeMap<MessageId, Option<Instant>>,
    reports: BTreeSet<Posted>,
    answers: Answers,
    told: BTreeMap<&'static str, u64>,
}

/// A question for a shard, or for each of them.
pub struct ApplicationQuestion {
    /// The command.
    pub command: Command,
    /// Its number; see [`Application::answers`].
    pub number: u64,
    /// Shard that is asked; absent: the owner of the only device in it.
    pub to: Option<ShardId>,
}

impl Application {
    /// An application with these devices.
    pub fn new(
        seed: u64,
        product: ProductKey,
        devices: Vec<DeviceId>,
        blocks: bool,
    ) -> Application {
        Application {
            rng: Prng::new(seed),
            product,
            devices,
            last_id: 0,
            asked: BTreeMap::new(),
            asks: 0,
            ordered: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            ends: BTreeSet::new(),
            epochs: BTreeMap::new(),
            blocks,
            changes: BTreeMap::new(),
            tags: BTreeMap::new(),
            blocked: BTreeMap::new(),
            keyed: Vec::new(),
            cancels: BTreeMap::new(),
            doubted: BTreeSet::new(),
            cancelled: BTreeMap::new(),
            reports: BTreeSet::new(),
            answers: Answers::default(),
            told: BTreeMap::new(),
        }
    }

    /// Where answers are put, with the numbers of their questions.
    pub fn answers(&self) -> Answers {
        self.answers.clone()
    }

    /// Number of each outcome and answer.
    pub fn told(&self) -> &BTreeMap<&'static str, u64> {
        &self.told
    }

    /// Orders so far.
    pub fn orders(&self) -> usize {
        self.ordered.len()
    }

    /// Questions without an answer.
    pub fn waiting(&self) -> usize {
        self.asked.len()
    }

    /// The next question to a server with so many shards.
    pub fn next(&mut self, now: Now, shards: u16) -> Vec<ApplicationQuestion> {
        match self.rng.below(12) {
            0 => self.ask_all(shards, None, Command::Status),
            1 => {
                let (product, device) = (self.product.clone(), self.anyone());
                self.ask_owner(
                    None,
                    Command::Push(PushCommand::Kick { product, device, addrs: Vec::new() }),
                )
            }
            2 => {
                let (product, device) = (self.product.clone(), self.anyone());
                let tags = if self.rng.one_in(3) { Vec::new() } else { vec![crowd()] };
                self.changes.insert(self.asks + 1, Change::Tags(device.clone()));
                self.tags.entry(device.clone()).or_default().ask(self.asks + 1, tags.clone());
                self.ask_owner(None, Command::Push(PushCommand::SetTags { product, device, tags }))
            }
            3 => self.ask_all(
                shards,
                None,
                Command::Push(PushCommand::Configure { product: self.product.clone() }),
            ),
            4 if self.rng.one_in(2) => self.cancel(now),
            4 => {
                let ids = self.ordered.keys().next_back().copied();
                let counts = ids.map(|id| {
                    self.ask_all(shards, None, Command::Push(PushCommand::PushCounts(id)))
                });
                counts.unwrap_or_default()
            }
            5 if self.blocks => {
                let (device, blocked) = (self.anyone(), self.rng.one_in(2));
                vec![self.block(device, blocked)]
            }
            5 if !self.keyed.is_empty() => vec![self.repeat(now)],
            _ => self.push(now),
        }
    }

    /// Cancels one of the latest pushes.
    fn cancel(&mut self, now: Now) -> Vec<ApplicationQuestion> {
        let back = self.rng.below(8) as usize;
        let Some(push) = self.ordered.keys().rev().nth(back).copied() else { return Vec::new() };
        let id = self.next_id(now);
        self.doubted.insert(push);
        self.cancels.insert(self.asks + 1, push);
        let cancel = PushCommand::Cancel { id, push, product: None };
        self.ask_owner(None, Command::Push(cancel))
    }

    /// The server died: what was cancelled before comes no more.
    pub fn crashed_at(&mut self, now: Instant) {
        for crash in self.cancelled.values_mut() {
            crash.get_or_insert(now);
        }
    }

    /// Panics at a push that was cancelled and came after a crash. `came_over` is when the latest
    /// connection opened over which a push came.
    pub fn check_cancelled(&self, came_over: impl Fn(MessageId) -> Option<Instant>) {
        for (id, crash) in &self.cancelled {
            let (Some(crash), Some(came_over)) = (crash, came_over(*id)) else { continue };
            assert!(came_over <= *crash, "{id:?} came although it was cancelled before the crash");
        }
    }

    /// Orders that unblock whoever may be blocked; none when nobody is.
    pub fn unblock_all(&mut self) -> Vec<ApplicationQuestion> {
        let blocked = self.blocked.iter().filter(|(_, belief)| !belief.is(&false));
        let devices: Vec<_> = blocked.map(|(device, _)| device.clone()).collect();
        devices.into_iter().map(|device| self.block(device, false)).collect()
    }

    /// Orders a push that will not expire for each of these devices.
    pub fn push_to(&mut self, now: Now, device: &DeviceId, body: &[u8]) -> ApplicationQuestion {
        let mut order = self.order(now, LONG_S, None);
        order.body = body.into();
        order.priority = Priority::Normal;
        order.target = PushTarget::Devices(vec![device.clone()]);
        let id = order.id;
        self.ask_owner(Some(id), Command::Push(PushCommand::Push(order)))
            .pop()
            .expect("one device, one question")
    }

    /// Takes in the answers that have come. Panics at one that nobody waits for, or that promises
    /// what `seen` contradicts.
    pub fn read(&mut self, seen: impl Fn(&DeviceId, MessageId) -> bool) {
        let answers = std::mem::take(&mut *lock(&self.answers));
        for (number, answer) in answers {
            let id = self.asked.remove(&number).expect("an order is answered exactly once");
            self.believe(number, &answer);
            let cancelled = self.cancels.remove(&number);
            if let (Some(push), Answer::Push(PushAnswer::Done(known))) = (cancelled, &answer) {
                *self.told.entry(if *known { "cancelled" } else { "unknown" }).or_default() += 1;
                if *known {
                    self.cancelled.entry(push).or_insert(None);
                }
            }
            match (id, answer) {
                (Some(asked), Answer::Push(PushAnswer::Pushed { id, outcomes, counts })) => {
                    let again = self.is_repeated(asked, id);
                    let earlier = u64::from(again && asked != id);
                    *self.told.entry("earlier").or_default() += earlier;
                    assert!(asked == id || again, "{asked:?} was asked, {id:?} answered");
                    check_counts(id, &counts);
                    for (device, outcome) in outcomes {
                        *self.told.entry(outcome.name()).or_default() += 1;
                        let delivered = outcome == Outcome::Delivered;
                        let true_to_word = !delivered || seen(&device, id);
                        assert!(
                            true_to_word,
                            "{id:?} was delivered to {device}, which never saw it"
                        );
                        let before = self.outcomes.insert((id, device.clone()), outcome);
                        assert!(before.is_none() || again, "one outcome a device and push");
                        let kept = [Some(Outcome::Stored), Some(Outcome::Delivered)];
                        if let Some(first) = before.filter(|_| kept.contains(&before)) {
                            self.outcomes.insert((id, device), first);
                        }
                    }
                }
                (_, Answer::Push(PushAnswer::Counts(Some(counts)))) => {
                    check_counts(MessageId(0), &counts)
                }
                (_, Answer::Busy) => *self.told.entry("busy").or_default() += 1,
                (_, Answer::Push(PushAnswer::StoreFailed)) => {
                    *self.told.entry("store_failed").or_default() += 1
                }
                (_, Answer::Push(PushAnswer::UnknownProduct)) => panic!("the product is known"),
                _ => {}
            }
        }
    }

    /// Takes in events. Panics at an end that was reported twice in one life of the server or that
    /// `seen` contradicts, and at an offline or online that does not follow from the one before.
    pub fn hear(&mut self, events: Vec<DeviceEvent>, seen: impl Fn(&DeviceId, MessageId) -> bool) {
        for event in events {
            *self.told.entry(event.what.name()).or_default() += 1;
            match event.what {
                DeviceWhat::Pushed { id, outcome } => {
                    let short = self.ordered.get(&id).is_none_or(|o| o.time_to_live_s < LONG_S);
                    assert!(short || outcome != Outcome::Expired, "{id:?} expired days early");
                    let true_to_word = outcome != Outcome::Delivered || seen(&event.device, id);
                    assert!(true_to_word, "{id:?} never reached {}", event.device);
                    let new = self.ends.insert((id, event.device.clone()));
                    assert!(new, "the end of {id:?} at {} was told twice", event.device);
                }
                DeviceWhat::Online { .. } => {
                    let before = self.epochs.insert(event.device.clone(), (event.epoch, true));
                    let rises = before.is_none_or(|(epoch, _)| epoch < event.epoch);
                    assert!(rises, "epochs rise: {before:?} then {}", event.epoch);
                    let was_online = before.is_some_and(|(_, online)| online);
                    // A version 5 device may bind anew on the connection it is bound to.
                    let anew = binds_anew(&event.device);
                    assert!(
                        anew || !was_online,
                        "{} is online twice: {before:?} then {}",
                        event.device,
                        event.epoch
                    );
                }
                DeviceWhat::Offline { .. } => {
                    let before = self.epochs.insert(event.device.clone(), (event.epoch, false));
                    let own = before.is_some_and(|(epoch, on)| on && epoch == event.epoch);
                    assert!(own, "an offline of its own online: {before:?} {}", event.epoch);
                }
                DeviceWhat::Report { seq, .. } => {
                    self.reports.insert((event.device.as_str().to_owned(), event.epoch, seq));
                }
                // Simulated devices report nothing about pushes, and have no platforms.
                DeviceWhat::Reported { .. } => panic!("a device reported a push"),
                DeviceWhat::TokenDead { platform } => panic!("a token of {platform} is dead"),
            }
        }
    }

    /// The server is about to die: whatever is under way may have been done or not, and so may
    /// what was refused by a log that had `failed`.
    pub fn dies(&mut self, failed: bool) {
        self.changes.clear();
        self.tags.values_mut().for_each(|belief| belief.doubt(failed));
        self.blocked.values_mut().for_each(|belief| belief.doubt(failed));
    }

    /// The server died: who was online is not known, receipts are forgotten. Sessions go on being
    /// numbered from where they were, unless the log had `failed`.
    pub fn crashed(&mut self, failed: bool) {
        self.ends.clear();
        match failed {
            true => self.epochs.clear(),
            false => self.epochs.values_mut().for_each(|(_, online)| *online = false),
        }
    }

    /// Panics where a device differs from the answers that the application got; believes what it
    /// sees.
    pub fn check_states(&mut self, states: &[DeviceState]) {
        for device in &self.devices {
            let state = states.iter().find(|state| state.device == *device);
            if let Some(belief) = self.tags.get_mut(device) {
                belief.see(device, state.map(|state| state.tags.clone()));
            }
            if let Some(belief) = self.blocked.get_mut(device) {
                belief.see(device, state.map(|state| state.blocked));
            }
        }
    }

    /// Panics at a Report that was announced and not posted.
    pub fn check_reports(&self, posted: &BTreeSet<Posted>) {
        let lost: Vec<_> = self.reports.difference(posted).collect();
        assert!(lost.is_empty(), "Reports were taken and never posted: {lost:?}");
    }

    /// Panics at a promise that was not kept: to be called when everybody came and fetched.
    pub fn check_promises(&self, seen: impl Fn(&DeviceId, MessageId) -> bool) {
        assert_eq!(self.asked.len(), 0, "every question is answered");
        for ((id, device), outcome) in &self.outcomes {
            let Outcome::Stored = outcome else {
                let never = *outcome == Outcome::Rejected(Rejection::Evicted);
                assert!(!never, "nothing is evicted from queues that are wide enough");
                continue;
            };
            let order = &self.ordered[id];
            let over = order.time_to_live_s < LONG_S
                || self.doubted.contains(id)
                || self.replaced(*id, order);
            assert!(over || seen(device, *id), "{id:?} was stored for {device} and never came");
        }
        for Keyed { order, ids } in &self.keyed {
            let PushTarget::Devices(devices) = &order.target else { continue };
            let came = ids.iter().filter(|id| seen(&devices[0], **id)).count();
            assert!(came <= 1, "an order under one key came {came} times: {ids:?}");
        }
    }

    /// Whether another push with its collapse key may have come after it. Orders overtake each
    /// other on the way, so any other may.
    fn replaced(&self, id: MessageId, order: &Ordered) -> bool {
        let mut others = self.ordered.iter().filter(|(other, _)| **other != id);
        order.collapse.is_some() && others.any(|(_, other)| other.collapse == order.collapse)
    }

    /// Handles the answer to a requested change.
    fn believe(&mut self, number: u64, answer: &Answer) {
        match self.changes.remove(&number) {
            Some(Change::Tags(device)) => {
                self.tags.entry(device).or_default().told(number, answer);
            }
            Some(Change::Blocked(device)) => {
                self.blocked.entry(device).or_default().told(number, answer);
            }
            None => {}
        }
    }

    fn block(&mut self, device: DeviceId, blocked: bool) -> ApplicationQuestion {
        self.changes.insert(self.asks + 1, Change::Blocked(device.clone()));
        self.blocked.entry(device.clone()).or_default().ask(self.asks + 1, blocked);
        let product = self.product.clone();
        self.question(None, Command::Push(PushCommand::Block { product, device, blocked }), None)
    }

    /// Asks again for an order under a key, as somebody does who has not heard the answer.
    fn repeat(&mut self, now: Now) -> ApplicationQuestion {
        let id = self.next_id(now);
        let at = self.rng.below(self.keyed.len() as u64) as usize;
        let keyed = &mut self.keyed[at];
        keyed.ids.push(id);
        let order = PushOrder { id, ..keyed.order.clone() };
        let (time_to_live_s, collapse, many) = (order.time_to_live_s, None, false);
        self.ordered.insert(id, Ordered { time_to_live_s, collapse, many });
        self.question(Some(id), Command::Push(PushCommand::Push(order)), None)
    }

    /// Whether both are ids of one order under a key.
    fn is_repeated(&self, one: MessageId, other: MessageId) -> bool {
        self.keyed.iter().any(|keyed| keyed.ids.contains(&one) && keyed.ids.contains(&other))
    }

    fn next_id(&mut self, now: Now) -> MessageId {
        let id = MessageId::after(self.last_id, now.wall_ms, NodeId::ALONE);
        self.last_id = id.0;
        id
    }

    fn anyone(&mut self) -> DeviceId {
        self.devices[self.rng.below(self.devices.len() as u64) as usize].clone()
    }

    fn push(&mut self, now: Now) -> Vec<ApplicationQuestion> {
        let time_to_live_s = [0, 20, LONG_S, LONG_S][self.rng.below(4) as usize];
        let key = self.rng.below(KEYS);
        let collapse = self.rng.one_in(4).then(|| format!("key-{key}").into_boxed_str());
        let mut order = self.order(now, time_to_live_s, collapse);
        let id = order.id;
        let may_repeat = time_to_live_s == LONG_S && order.collapse.is_none() && !self.blocks;
        if let PushTarget::Devices(_) = &order.target
            && may_repeat
            && self.rng.one_in(3)
        {
            order.idempotency_key = Some(format!("key-{}", id.0).into());
            self.keyed.push(Keyed { order: order.clone(), ids: vec![id] });
        }
        if let PushTarget::Devices(devices) = &order.target {
            let one = |device: &DeviceId| PushOrder {
                target: PushTarget::Devices(vec![device.clone()]),
                ..order.clone()
            };
            let orders: Vec<_> = devices.iter().map(one).collect();
            let asked =
                orders.into_iter().map(|order| (Some(id), Command::Push(PushCommand::Push(order))));
            return asked.flat_map(|(id, command)| self.ask_owner(id, command)).collect();
        }
        self.ask_owner(Some(id), Command::Push(PushCommand::Push(order)))
    }

    fn order(&mut self, now: Now, time_to_live_s: u32, collapse: Option<Box<str>>) -> PushOrder {
        let id = self.next_id(now);
        let target = match self.rng.below(6) {
            0 => PushTarget::Tag(crowd()),
            1 => PushTarget::Product,
            _ => PushTarget::Devices(vec![self.anyone()]),
        };
        let many = !matches!(target, PushTarget::Devices(_));
        self.ordered.insert(id, Ordered { time_to_live_s, collapse: collapse.clone(), many });
        let body = vec![0x55; 1 + self.rng.below(1_500) as usize].into_boxed_slice();
        PushOrder {
            collapse,
            time_to_live_s,
            priority: if self.rng.one_in(4) { Priority::High } else { Priority::Normal },
            silent: self.rng.one_in(4),
            wait_ms: self.rng.below(3) as u32 * 2_000,
            receipts: true,
            ..PushOrder::new(id, self.product.clone(), target, body)
        }
    }

    fn ask_owner(&mut self, id: Option<MessageId>, command: Command) -> Vec<ApplicationQuestion> {
        vec![self.question(id, command, None)]
    }

    fn ask_all(
        &mut self,
        shards: u16,
        id: Option<MessageId>,
        command: Command,
    ) -> Vec<ApplicationQuestion> {
        let all = (0..shards).map(|shard| Some(ShardId(shard)));
        all.map(|to| self.question(id, command.clone(), to)).collect()
    }

    fn question(
        &mut self,
        id: Option<MessageId>,
        command: Command,
        to: Option<ShardId>,
    ) -> ApplicationQuestion {
        self.asks += 1;
        self.asked.insert(self.asks, id);
        ApplicationQuestion { command, number: self.asks, to }
    }

    /// Fan-outs that were ordered: their counts can be asked for at the end.
    pub fn fan_outs(&self) -> impl Iterator<Item = MessageId> {
        self.ordered.iter().filter(|(_, ordered)| ordered.many).map(|(id, _)| *id)
    }
}

/// The only tag.
fn crowd() -> Tag {
    Tag::parse("crowd").expect("a name")
}

/// Whether a device speaks version 5, which allows several Binds on one connection.
fn binds_anew(device: &DeviceId) -> bool {
    let number = device.as_str().rsplit('-').next().and_then(|number| number.parse::<u32>().ok());
    number.is_some_and(ClientLogic::speaks_5)
}

/// Panics when a push is not accounted for.
pub fn check_counts(id: MessageId, c: &PushCounts) {
    let sum = c.pending + c.delivered + c.stored + c.expired + c.rejected + c.cancelled;
    assert_eq!(c.matched, sum, "counts of {id:?}: {c:?}");
}
