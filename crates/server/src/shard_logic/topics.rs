//! The broker's side of a logic.
//!
//! What the broker says to other shards in a turn is packed into one shard message for each of
//! them, and goes out when the turn is over. Each shard's [`PeerBacklog`] says how much is on its
//! way to it: a logic whose peer messages pile up at another has its connections read no further
//! until it is less; the same where messages for very many pile up at a broker. Invariant: what was
//! added to an account is taken off it by whoever reads the peer messages.

use super::busy;
use crate::outside::{Outside, Service};
use base::time::{Instant, Now};
use broker::{Broker, Effects, PeerMessage};
use model::event::Counter;
use model::id::{ConnRef, ShardId};
use model::limits::Limits;
use model::ports::access::Admission;
use model::ports::log::Completion;
use model::ports::topics::TopicCommand;
use model::push::Push;
use model::session::{SessionDelivery, SessionRequest};
use model::topic::{Publication, Qos};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Words on their way to one shard beyond which those who send to it are read no further.
const WAITING_MAX: usize = 64 * 1024;

/// Words between brokers that are on their way, to each shard.
#[derive(Clone)]
pub struct PeerBacklog {
    lines: Arc<[Line]>,
    /// Bytes beyond which the same happens: `letters_bytes_max`.
    bytes_max: u64,
}

/// What is on its way to one shard.
#[derive(Default)]
struct Line {
    words: AtomicUsize,
    bytes: AtomicU64,
    /// Its broker hands out more slowly than it is told to.
    behind: AtomicBool,
}

impl Line {
    fn add(&self, words: usize, bytes: u64) {
        self.words.fetch_add(words, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn take(&self, words: usize, bytes: u64) {
        self.words.fetch_sub(words, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn is_long(&self, bytes_max: u64) -> bool {
        self.words.load(Ordering::Relaxed) > WAITING_MAX
            || self.bytes.load(Ordering::Relaxed) > bytes_max
            || self.behind.load(Ordering::Relaxed)
    }
}

impl PeerBacklog {
    /// None, between so many shards.
    pub fn new(shards: u16, limits: &Limits) -> PeerBacklog {
        let bytes_max = limits.topics.letters_bytes_max;
        PeerBacklog { lines: (0..shards).map(|_| Line::default()).collect(), bytes_max }
    }

    fn at(&self, shard: ShardId) -> &Line {
        &self.lines[usize::from(shard.0)]
    }
}

/// What the broker of one shard had to say to that of another in a turn. However it ends, it is
/// taken off the account.
pub struct PeerMessages {
    peer_messages: Vec<PeerMessage>,
    bytes: u64,
    to: ShardId,
    waiting: PeerBacklog,
}

impl Drop for PeerMessages {
    fn drop(&mut self) {
        // What was read has been taken off by then.
        self.waiting.at(self.to).take(self.peer_messages.len(), self.bytes);
    }
}

pub(super) struct Topics {
    pub(super) broker: Broker,
    pub(super) effects: Effects,
    shard: ShardId,
    /// What was said to each shard since the last turn.
    said: Vec<Vec<PeerMessage>>,
    waiting: PeerBacklog,
}

impl Topics {
    pub(super) fn new(broker: Broker, shard: ShardId, waiting: PeerBacklog) -> Topics {
        let said = waiting.lines.iter().map(|_| Vec::new()).collect();
        Topics { broker, effects: Effects::default(), shard, said, waiting }
    }

    pub(super) fn restored(&mut self, now: Now) {
        self.broker.restored(now, &mut self.effects);
    }

    /// Calls that wait to be carried out.
    pub(super) fn calls(&self) -> usize {
        self.effects.calls.len()
    }

    pub(super) fn request(&mut self, now: Now, from: ConnRef, word: SessionRequest) {
        self.broker.request(now, from, word, &mut self.effects);
    }

    pub(super) fn command(&mut self, now: Now, ask: u64, command: TopicCommand) {
        self.broker.command(now, ask, command, &mut self.effects);
    }

    pub(super) fn complete(&mut self, now: Now, completion: Completion) {
        self.broker.complete(now, completion, &mut self.effects);
    }

    pub(super) fn admitted(&mut self, now: Now, number: u64, answer: Admission) {
        self.broker.admitted(now, number, answer, &mut self.effects);
    }

    pub(super) fn undelivered(&mut self, now: Now, to: ConnRef, delivery: SessionDelivery) {
        self.broker.undelivered(now, to, delivery, &mut self.effects);
    }

    pub(super) fn turn(&mut self, now: Now) -> Option<Instant> {
        let next = self.broker.turn(now, &mut self.effects);
        self.waiting.at(self.shard).behind.store(self.broker.is_behind(), Ordering::Relaxed);
        next
    }

    /// What another shard's broker had to say in a turn.
    pub(super) fn peer_messages(&mut self, now: Now, mut bag: PeerMessages) {
        let peer_messages = std::mem::take(&mut bag.peer_messages);
        let bytes = std::mem::take(&mut bag.bytes);
        self.waiting.at(self.shard).take(peer_messages.len(), bytes);
        for peer_message in peer_messages {
            self.broker.peer_message(now, peer_message, &mut self.effects);
        }
    }

    /// A push on the topic of its product: the server's own message.
    pub(super) fn mirror(&mut self, now: Now, topic: &str, push: &Push) {
        let qos = if push.stores() { Qos::AtLeastOnce } else { Qos::AtMostOnce };
        let mut message = Publication::new(topic, &[], &push.body);
        (message.qos, message.expire_at) = (qos, push.expire_at);
        self.say(now, message);
    }

    /// The server's own message.
    pub(super) fn say(&mut self, now: Now, message: Publication) {
        self.broker.publish(now, message, &mut self.effects);
    }

    /// Carries out what is not for connections and not for the API; that may make new effects.
    pub(super) fn carry_out(&mut self, now: Now, outside: &mut impl Outside) {
        for (to, peer_message) in self.effects.peer_messages.drain(..) {
            self.said[usize::from(to.0)].push(peer_message);
        }
        for (number, question) in std::mem::take(&mut self.effects.questions) {
            if let Err(answer) = outside.resolve(number, question) {
                self.broker.admitted(now, number, answer, &mut self.effects);
            }
        }
        if !self.effects.events.is_empty() {
            let dropped = outside.publish_clients(std::mem::take(&mut self.effects.events));
            self.effects.counters.count_by(Counter::EventsDropped, dropped as u64);
        }
        if !self.effects.calls.is_empty() {
            let calls = std::mem::take(&mut self.effects.calls);
            for ticket in outside.call(Service::Broker, calls) {
                self.broker.complete(now, busy(ticket), &mut self.effects);
            }
        }
    }

    /// Sends what was said in this turn.
    pub(super) fn post(&mut self, mut send: impl FnMut(ShardId, PeerMessages)) {
        for (to, peer_messages) in self.said.iter_mut().enumerate() {
            if !peer_messages.is_empty() {
                let (to, peer_messages) = (ShardId(to as u16), std::mem::take(peer_messages));
                let bytes =
                    peer_messages.iter().map(|peer_message| peer_message.weight() as u64).sum();
                self.waiting.at(to).add(peer_messages.len(), bytes);
                send(to, PeerMessages { peer_messages, bytes, to, waiting: self.waiting.clone() });
            }
        }
    }

    /// Whether too much is on its way to some other shard, or waits to be handed out anywhere.
    pub(super) fn congested(&self) -> bool {
        let others = self.waiting.lines.iter().enumerate();
        let mut others = others.filter(|(at, _)| *at != usize::from(self.shard.0));
        self.broker.is_behind() || others.any(|(_, line)| line.is_long(self.waiting.bytes_max))
    }
}
