//! The queue of messages to foreign accounts in this shard's log, from which they are sent to other
//! servers.
//!
//! ```text
//! a parcel ─► appended here ─► the parcel is done ─► handed out ─► taken, or refused ─► removed
//!                                                      ▲ │ no room
//!             a start: what it finds ─► a page is read ┘ ◄┘
//! ```
//! A message is removed from its outbox when it is in this queue, and from this queue when the
//! federation service has reported that it is delivered, or that its sender was notified of the
//! failure. Of messages that wait only the offset is in memory. Invariants: while any message waits
//! to be read, all new ones wait behind it, so messages go out in the order of the queue; a message
//! that a start finds both here and in an outbox goes out once.

use crate::envelope::{self, Sender};
use crate::log::{Answered, PendingCall, Removals};
use crate::outbox::timeline_here;
use crate::service::flow::Flow;
use crate::{Chat, Effects};
use base::bytes::ByteReader;
use base::hash::HashKey;
use base::time::{Instant, Now};
use model::chat::foreign::{ForeignWord, QueuePlace, QueuedMessage};
use model::chat::{ChatMessage, NewMessage};
use model::counters::ChatCounter;
use model::id::ShardId;
use model::ports::calls::RETRY_PAUSE;
use model::ports::chat::ChatAnswer;
use model::ports::log::{Call, Done, Page, Pull, Read};
use model::timeline::{Message, Placed, Seq, Space, TimelineId};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

const VERSION: u8 = 1;

/// Messages that may wait to be read from the log. Beyond, parcels are refused and repeated later.
const UNSENT_MAX: usize = 65_536;

/// Size of a page of the queue, messages and bytes.
const READ_COUNT_MAX: usize = 64;
const READ_BYTES_MAX: usize = 256 * 1024;

/// A message, by its conversation and its offset there.
type Said = (TimelineId, Seq);

/// Messages of a shard for other servers.
pub(crate) struct SendQueue {
    queue: TimelineId,
    /// Messages in the queue, those of queues of an earlier start included.
    len: u64,
    /// Messages to be read and sent, in this order.
    unsent: BTreeSet<QueuePlace>,
    /// A page is being read, of the messages that waited up to this place.
    reading: Option<QueuePlace>,
    /// No page is read before this time, since there was no room or a read failed.
    due: Instant,
    /// Messages that the start found here: shards may find the same in their outboxes.
    found: HashSet<Said>,
    /// Messages to be removed from the log.
    over: Removals,
}

impl SendQueue {
    /// An empty queue of this shard, in a process with this many shards.
    pub(crate) fn new(key: HashKey, shard: ShardId, shards: u16) -> SendQueue {
        let queue = timeline_here(Space::SendQueue, key, shard, shards);
        let (len, unsent, reading, due, found, over) = Default::default();
        SendQueue { queue, len, unsent, reading, due, found, over }
    }

    /// Restores a message of a queue at the start of the shard. False: its label cannot be read.
    pub(crate) fn restore(&mut self, place: QueuePlace, label: &[u8]) -> bool {
        let said = said_of(label);
        self.found.extend(said);
        self.len += 1;
        self.unsent.insert(place) && said.is_some()
    }

    /// Whether the start has found this message here.
    pub(crate) fn has(&self, said: Said) -> bool {
        self.found.contains(&said)
    }

    /// Messages for other servers that are not delivered.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Messages whose removal has not yet been requested from the log.
    pub(crate) fn unsettled(&self) -> usize {
        self.over.len()
    }

    /// Removes messages from the queue.
    fn leave(&mut self, queue: TimelineId, seqs: &[Seq]) {
        // A removal may be reported twice.
        self.len = self.len.saturating_sub(seqs.len() as u64);
        self.over.put(queue, seqs);
    }

    /// The messages to be sent from the first page of those that waited up to a place. Messages
    /// that cannot be read are removed.
    fn takes_page(&mut self, upto: QueuePlace, page: Page) -> Vec<QueuedMessage> {
        let (mut messages, queue) = (Vec::new(), upto.queue);
        let last = page.messages.last().map(|placed| placed.seq);
        let last = last.max(page.damaged.last().copied()).filter(|_| page.more);
        for Placed { seq, message } in page.messages {
            let place = QueuePlace { queue, seq };
            // A message that was already sent does not wait.
            if !self.unsent.remove(&place) {
                continue;
            }
            match decode(&message) {
                Some(message) => {
                    let message = Arc::new(message);
                    messages.push(QueuedMessage { message, place, is_again: true });
                }
                None => self.leave(queue, &[seq]),
            }
        }
        // These were damaged, or removed.
        while let Some(first) = self.unsent.first().copied()
            && first <= upto
            && first.queue == queue
            && last.is_none_or(|last| first.seq <= last)
        {
            self.unsent.remove(&first);
            self.leave(queue, &[first.seq]);
        }
        messages
    }
}

impl Chat {
    /// Begins to append a parcel's message for a foreign account to the queue.
    pub(crate) fn queue_up(
        &mut self,
        parcel: (ShardId, u64),
        conversation: TimelineId,
        message: Arc<ChatMessage>,
    ) {
        let is_full = self.send_queue.unsent.len() >= UNSENT_MAX;
        if is_full || !self.begin(|flow| queue(flow, parcel, conversation, message)) {
            self.parcel_done(parcel, false);
        }
    }

    fn hands_out(&mut self, queued: QueuedMessage, fx: &mut Effects) {
        fx.counters.count(ChatCounter::ForeignSent);
        fx.foreign.push(ForeignWord::Message(queued));
    }

    /// Returns messages to the queue that the federation service had no room for, in their order.
    pub(crate) fn come_back(&mut self, now: Now, words: Vec<ForeignWord>, fx: &mut Effects) {
        for word in words {
            match word {
                ForeignWord::Message(queued) => {
                    self.send_queue.unsent.insert(queued.place);
                    self.send_queue.due = now.after(RETRY_PAUSE);
                }
                _ => fx.counters.count(ChatCounter::ForeignDropped),
            }
        }
    }

    /// Removes messages that were delivered, or refused.
    pub(crate) fn left_queue(
        &mut self,
        ask: u64,
        (queue, seqs): (TimelineId, &[Seq]),
        fx: &mut Effects,
    ) {
        self.send_queue.leave(queue, seqs);
        fx.answers.push((ask, ChatAnswer::Reached(true)));
    }

    /// Removes finished messages from the log, and reads waiting ones; returns when to be called
    /// again.
    pub(crate) fn turn_queue(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.log.remove(&mut self.send_queue.over, fx);
        let unsent = &self.send_queue.unsent;
        let first = *unsent.first().filter(|_| self.send_queue.reading.is_none())?;
        if now.mono < self.send_queue.due {
            return Some(self.send_queue.due);
        }
        if !self.log.may_ask() {
            return Some(now.after(RETRY_PAUSE));
        }
        let end = QueuePlace { seq: Seq::MAX, ..first };
        self.send_queue.reading = unsent.range(..=end).next_back().copied();
        let pull = Pull {
            timeline: first.queue,
            from: first.seq - 1,
            backwards: false,
            count_max: READ_COUNT_MAX,
            bytes_max: READ_BYTES_MAX,
        };
        self.log.ask(PendingCall::QueueRead, Call::Read(Read::Pull(pull)), fx);
        None
    }

    /// Handles a page of waiting messages.
    pub(crate) fn queue_read(&mut self, now: Now, result: Answered, fx: &mut Effects) {
        let Some(upto) = self.send_queue.reading.take() else { return };
        let Ok(Done::Page(page)) = result else {
            self.send_queue.due = now.after(RETRY_PAUSE);
            return;
        };
        for queued in self.send_queue.takes_page(upto, page) {
            match self.settings.is_foreign(&queued.message.to) {
                true => self.hands_out(queued, fx),
                // Since the start the domain has become local, or unserved.
                false => {
                    fx.counters.count(ChatCounter::ForeignDropped);
                    self.send_queue.leave(queued.place.queue, &[queued.place.seq]);
                }
            }
        }
    }
}

/// Appends a parcel's message to the queue.
async fn queue(
    mut flow: Flow,
    parcel: (ShardId, u64),
    conversation: TimelineId,
    message: Arc<ChatMessage>,
) {
    let (label, body) = encode(conversation, &message);
    let (chat, now, _) = flow.state();
    let queue = chat.send_queue.queue;
    let stored = Message { id: message.id, at_s: now.unix_s(), label, body };
    let places = flow.append_entry(stored, vec![queue]).await;
    let (chat, _, fx) = flow.state();
    chat.parcel_done(parcel, places.is_some());
    let Some(seq) = places.and_then(|places| places.first().copied()) else { return };
    chat.send_queue.len += 1;
    let place = QueuePlace { queue, seq };
    if chat.send_queue.unsent.is_empty() {
        return chat.hands_out(QueuedMessage { message, place, is_again: false }, fx);
    }
    chat.send_queue.unsent.insert(place);
}

/// Label and body of a message in a queue.
///
/// ```text
/// label: conversation 16 | offset there u64
/// body:  version u8 | offset in its conversation u64 | text of its quote u32 bytes | envelope
/// ```
/// Numbers are little-endian.
fn encode(conversation: TimelineId, message: &ChatMessage) -> (Box<[u8]>, Box<[u8]>) {
    let ChatMessage { seq, from: address, device, to, client_id, content, .. } = message;
    let label = [&conversation.to_bytes()[..], &seq.to_le_bytes()].concat();
    let mut body = vec![VERSION];
    body.extend_from_slice(&seq.to_le_bytes());
    let quoted = content.quote.as_ref().map_or("", |quote| &quote.text);
    body.extend_from_slice(&(quoted.len() as u32).to_le_bytes());
    body.extend_from_slice(quoted.as_bytes());
    let (client_id, content) = (*client_id, content.clone());
    let said = NewMessage { to: to.clone().into(), client_id, content };
    body.extend_from_slice(&envelope::encode(Sender { address, device }, to, &said));
    (label.into(), body.into())
}

fn decode(stored: &Message) -> Option<ChatMessage> {
    let mut bytes = ByteReader::of(VERSION, &stored.body)?;
    let (seq, length) = (bytes.u64()?, bytes.u32()? as usize);
    let quoted = std::str::from_utf8(bytes.take(length)?).ok()?;
    let mut message = envelope::decode(stored.id, seq, bytes.rest())?;
    if let Some(quote) = &mut message.content.quote {
        quote.text = quoted.into();
    }
    Some(message)
}

/// Decodes the label of a message.
fn said_of(label: &[u8]) -> Option<Said> {
    let (conversation, seq) = label.split_first_chunk::<16>()?;
    let seq = Seq::from_le_bytes(seq.try_into().ok()?);
    Some((TimelineId::from_bytes(*conversation)?, seq))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::account::AccountAddress;
    use model::chat::{ClientMessageId, Content, Quote, TargetMessage};

    #[test]
    fn a_message_comes_out_of_the_queue_as_it_went_in() {
        let address = |text: &str| AccountAddress::parse(text, "a.example").expect("right");
        let target = TargetMessage { seq: 3, id: 4, name: "other".into() };
        let quote = Quote { target, from: Some(address("bob@b.example")), text: "what?".into() };
        let content = Content { quote: Some(Box::new(quote)), ..Content::text("that") };
        for content in [Content::text("hello"), content] {
            let message = ChatMessage {
                id: 9 << 22,
                seq: 7,
                at_ms: envelope::time_of(9 << 22),
                from: address("ann"),
                device: "desk".into(),
                to: address("bob@b.example"),
                client_id: ClientMessageId([7; 16]),
                content,
                amended: None,
            };
            let conversation = TimelineId::of(Space::Conversation, HashKey::new(1, 2), &[b"ab"]);
            let (label, body) = encode(conversation, &message);
            assert_eq!(said_of(&label), Some((conversation, 7)));
            assert!(label.len() <= Message::LABEL_BYTES_MAX && said_of(&label[1..]).is_none());
            let stored = Message { id: message.id, at_s: 1, label, body };
            assert_eq!(decode(&stored), Some(message));
            for end in 0..stored.body.len() {
                let cut = Message { body: stored.body[..end].into(), ..stored.clone() };
                assert!(decode(&cut).is_none(), "cut at {end}");
            }
        }
    }
}
