//! Answers that wait until logs or other shards have stored the message.
//!
//! A wait counts the parts that it needs; the last one to arrive makes the answer due. Beside the
//! waits are the actions that follow them: messages of QoS 2 that are routed when their packet
//! identifier is marked, and the results of the server's own messages. A wait that takes too long
//! is given up, and later parts are ignored. Invariant: a wait exists until all counted parts have
//! arrived, or its time is over.

use super::queue::Entry;
use crate::durable::entries::Label;
use crate::peer_message::{OldPlace, PeerMessage};
use crate::session::record::Exchange;
use base::never;
use base::rounds::Rounds;
use base::slab::{Key, Slab};
use base::time::{Instant, Now};
use model::id::ShardId;
use model::latency::Began;
use model::ports::log::{APPEND_SLICE, StoreError, Table};
use model::session::{Denial, Routed};
use model::timeline::TimelineId;
use model::topic::{Publication, Qos};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Waits that a shard may have; beyond, a message is refused as Busy.
pub(crate) const WAITS_MAX: usize = 1 << 20;

/// Most waits that one turn checks for their deadline.
const LOOKS_A_TURN: u32 = 4_096;

/// Origin of a message, which is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The server itself: no answer is sent.
    Server,
    /// The publisher: session and packet identifier, QoS.
    Client(Exchange, Qos),
    /// A command.
    Command(u64),
    /// The broker of another shard, under its number.
    Shard(ShardId, u64),
    /// A subscriber who joins a group: the answer that waits, and which of its results.
    Joining(Key, u32),
}

impl Origin {
    /// Another shard that wants a receipt under a number; 0: it wants none.
    pub fn of_shard(from: ShardId, receipt: u64) -> Origin {
        if receipt == 0 { Origin::Server } else { Origin::Shard(from, receipt) }
    }
}

/// Sessions that get a message in the same shape.
pub(crate) struct SameShape {
    pub label: Label,
    pub to: Vec<Key>,
}

/// An answer that may have to wait, while it is found out for what.
pub(crate) struct PendingAnswer {
    pub origin: Origin,
    pub wait: Option<Key>,
    /// The packet identifier that is to be marked as taken with the message.
    pub mark: Option<Exchange>,
    /// Makes a repetition harmless; 0: it is none.
    pub once: u128,
    /// Other shards that get the message when the mark is written: all of them, since an account
    /// that subscribes before the peer message comes gets it too.
    pub defer: Option<Vec<ShardId>>,
    /// A member of another shard has it: the mark is written by itself, so that a repetition after
    /// a crash goes to shared groups again.
    pub mark_alone: bool,
    /// Why it is not taken.
    pub error: Option<Denial>,
    /// A member of a group that went away has it until another one does.
    pub offered: Option<OldPlace>,
    /// Member of a group that had the message: another member is preferred, if there is one.
    pub except: Option<TimelineId>,
    /// Pages that the owner of its topic had given out before it was looked at who is subscribed.
    pub pages: u64,
    /// Appends, by shape.
    pub appends: Vec<SameShape>,
    /// How many sessions they are for.
    pub asked: u64,
    /// Appends that are made when the mark is written.
    pub deferred: Vec<SameShape>,
}

impl PendingAnswer {
    pub fn of(origin: Origin) -> PendingAnswer {
        PendingAnswer {
            origin,
            wait: None,
            mark: None,
            once: 0,
            defer: None,
            mark_alone: false,
            error: None,
            offered: None,
            except: None,
            pages: u64::MAX,
            appends: Vec::new(),
            asked: 0,
            deferred: Vec::new(),
        }
    }

    /// The message stands in a session's timeline, too, under this label.
    pub fn append(&mut self, label: Label, session: Key) {
        self.asked += 1;
        let same =
            |shape: &&mut SameShape| shape.label == label && shape.to.len() + 1 < APPEND_SLICE;
        match self.appends.iter_mut().find(same) {
            Some(shape) => shape.to.push(session),
            None => self.appends.push(SameShape { label, to: vec![session] }),
        }
    }
}

/// An answer that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DueAnswer {
    pub origin: Origin,
    /// Key of the wait that has ended.
    pub wait: Option<Key>,
    pub result: Result<Routed, Denial>,
    /// When it began to wait.
    pub began: Option<Began>,
}

impl DueAnswer {
    /// An answer that never waited.
    pub fn at_once(origin: Origin, result: Result<Routed, Denial>) -> DueAnswer {
        DueAnswer { origin, wait: None, result, began: None }
    }
}

/// A message of QoS 2 that goes on when its packet identifier is marked as taken.
pub(crate) struct Deferred {
    pub message: Arc<Publication>,
    pub shards: Vec<ShardId>,
    /// Appends for sessions of this shard, when the publisher is one of them.
    pub appends: Vec<SameShape>,
    pub wait: Key,
}

/// Action deferred until a message of the server's own is durable.
pub(crate) enum After {
    /// This row goes.
    Row(Table, Box<[u8]>),
    /// The session loses what it gave back; nobody could take it: it has it again.
    Moved(Key, Box<Entry>),
}

/// An answer that waits.
struct Wait {
    origin: Origin,
    left: u32,
    /// Stamp by which its age is known.
    stamp: u32,
    began: Began,
    matched: bool,
    error: Option<Denial>,
}

impl Wait {
    fn due(&self, wait: Key) -> DueAnswer {
        let (origin, result, began) = (self.origin, self.result(), Some(self.began));
        DueAnswer { origin, wait: Some(wait), result, began }
    }

    fn result(&self) -> Result<Routed, Denial> {
        match (self.error, self.matched) {
            (Some(why), _) => Err(why),
            (None, true) => Ok(Routed::Matched),
            (None, false) => Ok(Routed::NoSubscriber),
        }
    }
}

/// The answers of a shard that wait.
pub(crate) struct Answers {
    waits: Slab<Wait>,
    /// When what is looked at now came.
    came: Began,
    deferred: BTreeMap<Exchange, Deferred>,
    afterwards: BTreeMap<Key, After>,
    /// Receipts that this shard owes itself.
    owed: Vec<PeerMessage>,
    rounds: Rounds,
    /// How far a look at all waits has come.
    looked: u32,
    /// Waits that were given up.
    given_up: u64,
    /// Waits for nothing but a proof that this node leads, in the order of their messages.
    unproved: Vec<Key>,
}

impl Answers {
    pub fn new() -> Answers {
        Answers {
            waits: Slab::new(WAITS_MAX),
            came: Began::default(),
            deferred: BTreeMap::new(),
            afterwards: BTreeMap::new(),
            owed: Vec::new(),
            rounds: Rounds::default(),
            looked: 0,
            given_up: 0,
            unproved: Vec::new(),
        }
    }

    /// Notes the time at which something arrived: waits that are opened for it begin now.
    pub fn came(&mut self, now: Now) {
        self.came = Began::at(now);
    }

    /// Whether another one may wait.
    pub fn has_room(&self) -> bool {
        self.waits.len() < WAITS_MAX
    }

    /// Opens a wait for one part; `None` if there is no room.
    pub fn open(&mut self, origin: Origin) -> Option<Key> {
        let stamp = self.rounds.stamp();
        let began = self.came;
        self.waits.insert(Wait { origin, left: 1, stamp, began, matched: false, error: None }).ok()
    }

    /// Adds one part to an answer's wait, and returns the wait; `None` if there is no room, which
    /// is an error for the answer.
    pub fn one_more(&mut self, pending: &mut PendingAnswer) -> Option<Key> {
        match pending.wait {
            Some(wait) => self.waits.at_mut(wait)?.left += 1,
            None => {
                pending.wait = self.open(pending.origin);
                pending.error = pending.wait.map_or(Some(Denial::Quota), |_| pending.error);
            }
        }
        pending.wait
    }

    /// Adds parts to a wait.
    pub fn wait_for(&mut self, wait: Key, more: usize) {
        if let Some(open) = self.waits.at_mut(wait) {
            open.left += more as u32;
        }
    }

    /// Whether a wait goes on.
    pub fn is_open(&self, wait: Key) -> bool {
        self.waits.at(wait).is_some()
    }

    /// Notes whether anybody wants the message that an answer waits for, and an error.
    pub fn note(&mut self, wait: Key, matched: bool, error: Option<Denial>) {
        if let Some(open) = self.waits.at_mut(wait) {
            open.matched |= matched;
            open.error = open.error.or(error);
        }
    }

    /// Notes that a part of a wait has arrived; returns the answer, if it was the last.
    pub fn arrived(&mut self, wait: Key, result: Result<(), Denial>) -> Option<DueAnswer> {
        let Some(open) = self.waits.at_mut(wait) else {
            never!(self.given_up == 0, "a wait is there until all have come");
            return None;
        };
        open.left -= 1;
        open.error = open.error.or(result.err());
        if open.left > 0 {
            return None;
        }
        Some(self.waits.remove(wait)?.due(wait))
    }

    /// Looks at some of the waits, if it is time; those that may take this long and took longer.
    /// When to look again.
    pub fn overdue(&mut self, now: Now, ms_max: u32) -> (Vec<Key>, Option<Instant>) {
        if self.waits.is_empty() {
            self.looked = 0;
            self.rounds.rest();
            return (Vec::new(), None);
        }
        if let Some(ends) = self.rounds.ends(now, ms_max) {
            return (Vec::new(), Some(ends));
        }
        let slots = self.waits.slots();
        let upto = slots.min(self.looked + LOOKS_A_TURN);
        let tenants = (self.looked..upto).filter_map(|slot| self.waits.tenant(slot));
        let over = tenants.filter(|(_, wait)| self.rounds.is_over(wait.stamp));
        let over = over.map(|(key, _)| key).filter(|key| !self.is_held(*key)).collect();
        self.looked = upto;
        if upto < slots {
            return (over, Some(now.mono));
        }
        self.looked = 0;
        (over, Some(self.rounds.next(now, ms_max)))
    }

    /// Whether a wait has no deadline: a member of a group has given back a message of QoS 2 and it
    /// is unknown whether the other member took it, so a deadline could give it to both.
    fn is_held(&self, wait: Key) -> bool {
        let is_twice = |entry: &Entry| entry.qos == Qos::ExactlyOnce;
        matches!(self.afterwards.get(&wait), Some(After::Moved(_, entry)) if is_twice(entry))
    }

    /// Makes a wait end only when it is proved that this node leads.
    pub fn await_proof(&mut self, wait: Key) {
        self.unproved.push(wait);
    }

    /// Whether any wait is for a proof alone.
    pub fn is_unproved(&self) -> bool {
        !self.unproved.is_empty()
    }

    /// Forgets waits for a proof that were given up.
    pub fn drop_given_up(&mut self) {
        self.unproved.retain(|wait| self.waits.at(*wait).is_some());
    }

    /// Takes the waits for a proof.
    pub fn take_unproved(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.unproved)
    }

    /// The origin of the message that a wait is for, while it is there.
    pub fn origin(&self, wait: Key) -> Option<Origin> {
        self.waits.at(wait).map(|wait| wait.origin)
    }

    /// Ends a wait at its deadline: the answer without the missing parts.
    pub fn give_up(&mut self, wait: Key) -> Option<DueAnswer> {
        let mut open = self.waits.remove(wait)?;
        self.given_up += 1;
        open.error = open.error.or(Some(Denial::Busy));
        Some(open.due(wait))
    }

    /// Holds back the peer messages and appends that must wait until a packet identifier is marked
    /// as taken.
    pub fn defer(
        &mut self,
        mark: Exchange,
        message: &Arc<Publication>,
        pending: &mut PendingAnswer,
    ) {
        let shards = pending.defer.take().unwrap_or_default();
        let appends = std::mem::take(&mut pending.deferred);
        let waits = (0..shards.len() + appends.len()).filter_map(|_| self.one_more(pending));
        if let Some(wait) = waits.last() {
            let message = message.clone();
            self.deferred.insert(mark, Deferred { message, shards, appends, wait });
        }
    }

    /// Takes the peer messages and appends that waited for a mark.
    pub fn take_deferred(&mut self, mark: Exchange) -> Option<Deferred> {
        self.deferred.remove(&mark)
    }

    /// Whether a message of this publisher waits for its mark.
    pub fn defers(&self, session: Key) -> bool {
        let exchange = |id| Exchange { session, id };
        self.deferred.range(exchange(0)..=exchange(u16::MAX)).next().is_some()
    }

    /// Sets the action for the end of a wait of the server's own.
    pub fn set_after(&mut self, wait: Key, after: After) {
        self.afterwards.insert(wait, after);
    }

    pub fn take_after(&mut self, wait: Key) -> Option<After> {
        self.afterwards.remove(&wait)
    }

    /// Notes a receipt from this shard to itself, to be given when its requester has asked all
    /// others.
    pub fn owe(&mut self, number: u64, result: Result<bool, Denial>) {
        self.owed.push(PeerMessage::Receipt { number, result });
    }

    pub fn take_owed(&mut self) -> Vec<PeerMessage> {
        std::mem::take(&mut self.owed)
    }

    /// Panics when an invariant does not hold.
    pub fn audit(&self) {
        assert!(self.waits.iter().all(|(_, wait)| wait.left > 0), "a wait waits for something");
    }
}

/// Reason code for a client whose message the log refused.
pub(crate) fn denial(error: StoreError) -> Denial {
    match error {
        StoreError::Busy => Denial::Busy,
        StoreError::Failed => Denial::StoreFailed,
        _ => Denial::StoreFull,
    }
}

/// The number under which a wait is receipted; never 0.
pub(crate) fn receipt_of(wait: Key) -> u64 {
    wait.pack() + 1
}

/// The wait of a receipt.
pub(crate) fn wait_of(receipt: u64) -> Key {
    Key::unpack(receipt.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_answers_wait() {
        let mut answers = Answers::new();
        (1..WAITS_MAX).for_each(|_| assert!(answers.open(Origin::Server).is_some()));
        assert!(answers.has_room());
        let mut pending = PendingAnswer::of(Origin::Server);
        assert!(answers.one_more(&mut pending).is_some() && !answers.has_room());
        assert!(answers.one_more(&mut pending).is_some(), "one that waits may wait for more");
        assert_eq!(pending.error, None);
        let mut other = PendingAnswer::of(Origin::Server);
        assert_eq!((answers.one_more(&mut other), other.error), (None, Some(Denial::Quota)));
    }

    #[test]
    fn a_receipt_is_never_0_and_leads_back_to_its_wait() {
        for key in [Key { slot: 0, generation: 0 }, Key { slot: u32::MAX, generation: 3 }] {
            assert!(receipt_of(key) != 0);
            assert_eq!(wait_of(receipt_of(key)), key);
        }
    }

    #[test]
    fn an_answer_is_due_when_all_have_come_and_is_what_became_of_all() {
        for (matched, results, answer) in [
            (true, [Ok(()), Ok(())], Ok(Routed::Matched)),
            (false, [Ok(()), Ok(())], Ok(Routed::NoSubscriber)),
            (true, [Err(Denial::Busy), Ok(())], Err(Denial::Busy)),
            (true, [Err(Denial::Busy), Err(Denial::Quota)], Err(Denial::Busy)),
        ] {
            let mut answers = Answers::new();
            let wait = answers.open(Origin::Command(7)).expect("room");
            answers.wait_for(wait, 1);
            answers.note(wait, matched, None);
            assert_eq!(answers.arrived(wait, results[0]), None);
            let began = Some(Began::default());
            let origin = Origin::Command(7);
            let due = DueAnswer { origin, wait: Some(wait), result: answer, began };
            assert_eq!(answers.arrived(wait, results[1]), Some(due));
            assert!(!answers.is_open(wait));
        }
        let told = [StoreError::Busy, StoreError::Failed, StoreError::Full, StoreError::TooLarge];
        let words = [Denial::Busy, Denial::StoreFailed, Denial::StoreFull, Denial::StoreFull];
        assert_eq!(told.map(denial), words);
    }

    #[test]
    fn what_takes_too_long_is_given_up_and_may_come_later() {
        let mut answers = Answers::new();
        let now = |ms| Now::new(Now::default().after(std::time::Duration::from_millis(ms)), 0);
        assert_eq!(answers.overdue(now(0), 1_000), (Vec::new(), None), "nothing waits");
        let mut waits = Vec::new();
        (0..LOOKS_A_TURN + 5).for_each(|_| waits.extend(answers.open(Origin::Server)));
        let entry = |qos| {
            let message = Arc::new(Publication::new("t", &[], b"x"));
            Box::new(Entry::of(&message, qos, false, None))
        };
        answers.set_after(waits[1], After::Moved(waits[1], entry(Qos::ExactlyOnce)));
        answers.set_after(waits[2], After::Moved(waits[2], entry(Qos::AtLeastOnce)));
        let (mut over, mut ms) = (Vec::new(), 0);
        while over.len() + 1 < waits.len() && ms < 10_000 {
            let (some, next) = answers.overdue(now(ms), 1_000);
            assert!(some.len() <= LOOKS_A_TURN as usize && next.is_some());
            over.extend(some);
            ms += 10;
        }
        assert!((1_000..1_600).contains(&ms), "{ms}");
        waits.remove(1);
        assert_eq!(over, waits, "all but the one that two would have");
        answers.note(over[0], true, None);
        let due = answers.give_up(over[0]).expect("it waits");
        let (origin, wait, result) = (Origin::Server, Some(over[0]), Err(Denial::Busy));
        assert_eq!(due, DueAnswer { origin, wait, result, began: due.began });
        assert_eq!((answers.give_up(over[0]), answers.arrived(over[0], Ok(()))), (None, None));
        assert_eq!(
            answers.arrived(over[1], Ok(())).map(|due| due.result),
            Some(Ok(Routed::NoSubscriber))
        );
    }

    #[test]
    fn what_waits_for_a_mark_is_found_by_its_publisher() {
        let (mut answers, message) = (Answers::new(), Arc::new(Publication::new("t", &[], b"x")));
        let session = |slot| Key { slot, generation: 0 };
        let mark = Exchange { session: session(1), id: 7 };
        let mut pending = PendingAnswer::of(Origin::Server);
        answers.defer(mark, &message, &mut pending);
        assert!(!answers.defers(session(1)), "nothing waits");
        pending.defer = Some(vec![ShardId(1), ShardId(2)]);
        answers.defer(mark, &message, &mut pending);
        assert_eq!([0, 1, 2].map(|slot| answers.defers(session(slot))), [false, true, false]);
        let deferred = answers.take_deferred(mark).expect("it waits");
        assert_eq!(pending.wait, Some(deferred.wait));
        assert_eq!(answers.arrived(deferred.wait, Ok(())), None, "for both of them");
        assert!(answers.arrived(deferred.wait, Ok(())).is_some() && !answers.defers(session(1)));
    }
}
