//! Answers that have to wait until logs, or other shards, have said that they have it.
//!
//! A wait counts what it waits for; the last one that comes makes the answer due. Beside the waits
//! stand what goes on when they are over: messages of QoS 2 that others get when their packet
//! identifier is marked, and what becomes of messages of the server's own. Invariant: a wait is
//! there until all that it counts has come.

use super::queue::Entry;
use crate::durable::entries::Label;
use crate::peer_message::{OldPlace, PeerMessage};
use crate::session::record::Exchange;
use base::never;
use base::slab::{Key, Slab};
use model::id::{SessionRef, ShardId};
use model::ports::log::{APPEND_TIMELINES_MAX, StoreError, Table};
use model::session::{Denial, Routed};
use model::topic::{Publication, Qos};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Waits that a shard may have; beyond, a message is refused as Busy.
pub(crate) const WAITS_MAX: usize = 1 << 20;

/// Origin of a message, which is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// Nobody.
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
    /// Other shards get it when the mark is written: all of them, for whoever
    /// subscribes until the peer message comes gets it too.
    pub defer: Option<Vec<ShardId>>,
    /// A member of another shard has it: the mark is written by itself, so that a repetition after
    /// a crash goes to shared groups again.
    pub mark_alone: bool,
    /// Why it is not taken.
    pub error: Option<Denial>,
    /// A member of a group that went away has it until another one does.
    pub offered: Option<OldPlace>,
    /// Who of a group had it: somebody else shall have it, if there is another.
    pub except: Option<SessionRef>,
    /// Pages that the owner of its topic had given out before it was looked at who is subscribed.
    pub pages: u64,
    /// Appends, by shape.
    pub appends: Vec<SameShape>,
    /// How many sessions they are for.
    pub asked: u64,
    /// Those that are made when the mark is written.
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
        let same = |shape: &&mut SameShape| {
            shape.label == label && shape.to.len() + 1 < APPEND_TIMELINES_MAX
        };
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
    /// What it waited with.
    pub wait: Option<Key>,
    pub result: Result<Routed, Denial>,
}

impl DueAnswer {
    /// One that never waited.
    pub fn at_once(origin: Origin, result: Result<Routed, Denial>) -> DueAnswer {
        DueAnswer { origin, wait: None, result }
    }
}

/// A message of QoS 2 that goes on when its packet identifier is marked as taken.
pub(crate) struct Deferred {
    pub message: Arc<Publication>,
    pub shards: Vec<ShardId>,
    /// And sessions of this shard, when the publisher is one of them.
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

/// One answer that waits.
struct Wait {
    origin: Origin,
    left: u32,
    matched: bool,
    error: Option<Denial>,
}

impl Wait {
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
    deferred: BTreeMap<Exchange, Deferred>,
    afterwards: BTreeMap<Key, After>,
    /// Receipts that this shard owes itself.
    owed: Vec<PeerMessage>,
}

impl Answers {
    pub fn new() -> Answers {
        let (deferred, afterwards) = (BTreeMap::new(), BTreeMap::new());
        Answers { waits: Slab::new(WAITS_MAX), deferred, afterwards, owed: Vec::new() }
    }

    /// Whether another one may wait.
    pub fn has_room(&self) -> bool {
        self.waits.len() < WAITS_MAX
    }

    /// A wait for one thing; `None`: there is no room.
    pub fn open(&mut self, origin: Origin) -> Option<Key> {
        self.waits.insert(Wait { origin, left: 1, matched: false, error: None }).ok()
    }

    /// An answer waits for one more, and with what; `None`: there is no room, and it is an error.
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

    /// A wait waits for so many more.
    pub fn wait_for(&mut self, wait: Key, more: usize) {
        if let Some(open) = self.waits.at_mut(wait) {
            open.left += more as u32;
        }
    }

    /// Whether a wait goes on.
    pub fn is_open(&self, wait: Key) -> bool {
        self.waits.at(wait).is_some()
    }

    /// Somebody wants the message that an answer waits for.
    pub fn note(&mut self, wait: Key, matched: bool, error: Option<Denial>) {
        if let Some(open) = self.waits.at_mut(wait) {
            open.matched |= matched;
            open.error = open.error.or(error);
        }
    }

    /// One of those that a wait waits for has come; the answer, if it was the last.
    pub fn arrived(&mut self, wait: Key, result: Result<(), Denial>) -> Option<DueAnswer> {
        let Some(open) = self.waits.at_mut(wait) else {
            never!(true, "a wait is there until all have come");
            return None;
        };
        open.left -= 1;
        open.error = open.error.or(result.err());
        if open.left > 0 {
            return None;
        }
        let open = self.waits.remove(wait)?;
        Some(DueAnswer { origin: open.origin, wait: Some(wait), result: open.result() })
    }

    /// What has to wait until a packet identifier is marked as taken waits.
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

    /// What waited for a mark.
    pub fn take_deferred(&mut self, mark: Exchange) -> Option<Deferred> {
        self.deferred.remove(&mark)
    }

    /// Whether a message of this publisher waits for its mark.
    pub fn defers(&self, session: Key) -> bool {
        let exchange = |id| Exchange { session, id };
        self.deferred.range(exchange(0)..=exchange(u16::MAX)).next().is_some()
    }

    /// What is done when a wait of the server's own is over.
    pub fn set_after(&mut self, wait: Key, after: After) {
        self.afterwards.insert(wait, after);
    }

    pub fn take_after(&mut self, wait: Key) -> Option<After> {
        self.afterwards.remove(&wait)
    }

    /// A receipt that this shard owes itself, to be given when whoever waits is done asking.
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

/// What a client is told about a refusal of the log.
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
            let due = DueAnswer { origin: Origin::Command(7), wait: Some(wait), result: answer };
            assert_eq!(answers.arrived(wait, results[1]), Some(due));
            assert!(!answers.is_open(wait));
        }
        let told = [StoreError::Busy, StoreError::Failed, StoreError::Full, StoreError::TooLarge];
        let words = [Denial::Busy, Denial::StoreFailed, Denial::StoreFull, Denial::StoreFull];
        assert_eq!(told.map(denial), words);
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
