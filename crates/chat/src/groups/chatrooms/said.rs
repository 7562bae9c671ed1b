//! Messages of a chatroom, at its home: accepted or refused, numbered, kept for a while,
//! distributed.
//! ```text
//! Say ─► may it? too loud? ─┬──────────────────► numbered ─► kept (so many), told (once a turn)
//!                           └ kept in the log ─► stored ──┘
//! ```
//! A room takes a limited number of messages a second: by a bucket, whose last fourth is for its
//! moderators. Invariant: numbers rise by one, in the order in which sessions get the messages; a
//! message that was refused has none.

use super::row::ChatroomRow;
use super::words::{ChatroomWord, Saying};
use crate::accounts::fault_of;
use crate::envelope::{self, Sender, time_of};
use crate::log::{Answered, PendingCall};
use crate::service::flow::Flow;
use crate::word::{ReplyTo, StoredMessage};
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{ChatFault, ChatMessage, ChatroomMessage, ClientMessageId, Content, NewMessage};
use model::counters::ChatCounter;
use model::limits::ChatLimits;
use model::ports::events::ChatEvent;
use model::ports::log::{Append, Call, Done, OnceKey, Pull, Read, Write};
use model::timeline::{Message, Seq, TimelineId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Maximum bytes of messages that a room keeps in memory, but always the last one.
const KEPT_BYTES_MAX: usize = 64 * 1024;

const SECOND_NS: u64 = 1_000_000_000;

/// The last messages of a chatroom.
#[derive(Default)]
pub(super) struct Ring {
    kept: VecDeque<Arc<ChatroomMessage>>,
    kept_bytes: usize,
    /// Messages that were accepted, but not sent to the shards yet.
    untold: Vec<Arc<ChatroomMessage>>,
    /// The number of the last message.
    last: Seq,
    /// The time at which the bucket is full again, if no further message comes.
    full_at: Instant,
}

/// A message that the log is to keep.
struct Keeping {
    timeline: TimelineId,
    to: ReplyTo,
    important: bool,
    message: ChatMessage,
}

impl Ring {
    /// The number of the last message that was sent to the shards.
    pub(super) fn told(&self) -> Seq {
        self.last - self.untold.len() as u64
    }

    pub(super) fn is_told(&self) -> bool {
        self.untold.is_empty()
    }

    /// The last messages, at most so many, the oldest first.
    pub(super) fn last(&self, count: u16) -> Vec<Arc<ChatroomMessage>> {
        let skip = self.kept.len().saturating_sub(count.into());
        self.kept.iter().skip(skip).cloned().collect()
    }

    /// The message that an account has sent with this id, if it is among the last.
    fn find(&self, from: &AccountAddress, id: ClientMessageId) -> Option<&ChatMessage> {
        let mut all = self.kept.iter().rev().map(|it| &it.message);
        all.find(|it| it.client_id == id && it.from == *from)
    }

    /// Takes a message from the bucket; false: the room has too many messages now.
    fn takes(&mut self, now: Now, limits: &ChatLimits, important: bool) -> bool {
        let step_ns = SECOND_NS / u64::from(limits.chatroom_messages_per_s.max(1));
        let burst = u64::from(limits.chatroom_messages_burst);
        let burst = if important { burst } else { (burst - burst / 4).max(1) };
        let next = self.full_at.max(now.mono) + Duration::from_nanos(step_ns);
        let latest = now.mono + Duration::from_nanos(step_ns.saturating_mul(burst));
        let may = next <= latest;
        if may {
            self.full_at = next;
        }
        may
    }

    /// Adds the last message. Returns whether it is the first that waits to be sent to the shards.
    fn says(&mut self, message: Arc<ChatroomMessage>, keeps: u16) -> bool {
        self.last = message.message.seq;
        self.keeps(message.clone(), keeps);
        self.untold.push(message);
        self.untold.len() == 1
    }

    fn keeps(&mut self, message: Arc<ChatroomMessage>, keeps: u16) {
        self.kept_bytes += message.weight();
        self.kept.push_back(message);
        let is_too_much = |it: &Ring| {
            it.kept.len() > usize::from(keeps)
                || it.kept_bytes > KEPT_BYTES_MAX && it.kept.len() > 1
        };
        while is_too_much(self)
            && let Some(oldest) = self.kept.pop_front()
        {
            self.kept_bytes -= oldest.weight();
        }
    }
}

/// Stores a message, and then distributes it.
async fn keep(mut flow: Flow, keeping: Keeping) {
    let (chat, now, _) = flow.state();
    let (timeline, it) = (keeping.timeline, &keeping.message);
    let sender = Sender { address: &it.from, device: &it.device };
    let (to, client_id) = (it.to.clone().into(), it.client_id);
    let new = NewMessage { to, client_id, content: it.content.clone() };
    let body = envelope::encode(sender, &it.to, &new);
    let own = chat.settings.home.of(&[it.from.as_str().as_bytes(), &client_id.0]);
    let once = Some(OnceKey::at_home(timeline.home_hash(), own));
    let (id, at_s, label) = (it.id, now.unix_s(), Box::default());
    let message = Arc::new(Message { id, at_s, label, body });
    let append = Append { message, to: vec![timeline], once, heard: None, ends: false };
    let stored = flow.log(Call::Write(Write::Append(append))).await;
    let (chat, _, fx) = flow.state();
    chat.chatroom_kept(keeping, stored, fx);
}

impl Chat {
    /// Takes a message for a chatroom of this shard.
    pub(super) fn say_here(
        &mut self,
        now: Now,
        (timeline, to): (TimelineId, ReplyTo),
        row: &ChatroomRow,
        saying: Saying,
        fx: &mut Effects,
    ) {
        let limits = self.settings.limits.clone();
        let Some(home) = self.chatrooms.homes.known.get_mut(&timeline) else { return };
        let judged = row.may_speak(&saying.by).and_then(|important| {
            if let Some(first) = home.ring.find(&saying.by.address, saying.client_id) {
                return again(first, &saying.content).map(|stored| (important, Some(stored)));
            }
            match home.ring.takes(now, &limits.chat, important) {
                true => Ok((important, None)),
                false => Err(ChatFault::RateLimited),
            }
        });
        let important = match judged {
            Ok((important, None)) => important,
            Ok((_, Some(stored))) => return self.tell_stored(to, Ok(stored), fx),
            Err(fault) => {
                if fault == ChatFault::RateLimited {
                    fx.counters.count(ChatCounter::ChatroomDropped);
                }
                return self.reply(to, Err(fault), fx);
            }
        };
        let seq = home.ring.last + 1;
        let Saying { room, by, device, client_id, content, .. } = saying;
        let id = self.next_id(now);
        let message = ChatMessage {
            id,
            seq,
            at_ms: time_of(id),
            from: by.address,
            device,
            to: room,
            client_id,
            content,
            amended: None,
        };
        let keeping = Keeping { timeline, to, important, message };
        match row.is_kept() {
            true => self.keep_said(keeping, fx),
            false => self.is_said(keeping, row.keeps, fx),
        }
    }

    /// Stores a message of a room that keeps its messages over a restart; it is distributed when
    /// the log has it.
    fn keep_said(&mut self, keeping: Keeping, fx: &mut Effects) {
        let to = keeping.to;
        if !self.log.may_ask() || !self.begin(|flow| keep(flow, keeping)) {
            self.reply(to, Err(ChatFault::Busy), fx);
        }
    }

    /// Takes the log's result for a message.
    fn chatroom_kept(&mut self, mut keeping: Keeping, result: Answered, fx: &mut Effects) {
        let to = keeping.to;
        let home = self.chatrooms.homes.known.get(&keeping.timeline);
        let keeps = home.and_then(|it| it.row.as_ref()).map_or(0, |row| row.keeps);
        match result {
            Ok(Done::Appended(done)) if done.new && !done.seqs.is_empty() => {
                keeping.message.seq = done.seqs[0];
                let (timeline, seq) = (keeping.timeline, done.seqs[0]);
                self.is_said(keeping, keeps, fx);
                let keeps = u64::from(keeps.max(1));
                if seq.is_multiple_of(keeps) && seq > keeps {
                    let seqs = (seq.saturating_sub(2 * keeps) + 1..=seq - keeps).collect();
                    self.log.write(Write::Remove { timeline, seqs }, fx);
                }
            }
            Ok(Done::Appended(done)) if !done.seqs.is_empty() => {
                let stored = StoredMessage { id: done.id, seq: done.seqs[0], again: true };
                self.tell_stored(to, Ok(stored), fx);
            }
            Ok(_) => self.reply(to, Err(ChatFault::StoreFailed), fx),
            Err(error) => self.reply(to, Err(fault_of(error)), fx),
        }
    }

    /// Keeps a message that has its number as long as the room does, and queues it for the shards.
    fn is_said(&mut self, keeping: Keeping, keeps: u16, fx: &mut Effects) {
        let Keeping { timeline, to, important, message } = keeping;
        let stored = StoredMessage { id: message.id, seq: message.seq, again: false };
        let frame = self.frame_of(timeline, message.id);
        if fx.events_wanted {
            fx.tell(ChatEvent::of_message(&Arc::new(message.clone())));
        }
        let message = Arc::new(ChatroomMessage { timeline, frame, important, message });
        if let Some(home) = self.chatrooms.homes.known.get_mut(&timeline)
            && home.ring.says(message, keeps)
        {
            self.chatrooms.homes.loud.push(timeline);
        }
        fx.counters.count(ChatCounter::ChatroomSaid);
        self.tell_stored(to, Ok(stored), fx);
    }

    /// Names a message among all that are sent to connections: two shards may give the same number.
    fn frame_of(&self, timeline: TimelineId, id: u64) -> u64 {
        self.settings.home.of(&[b"chatroom", &timeline.to_bytes(), &id.to_be_bytes()])
    }

    /// Sends the waiting messages to the shards, in one message for each.
    pub(super) fn flush_chatroom(&mut self, now: Now, timeline: TimelineId, fx: &mut Effects) {
        let Some(home) = self.chatrooms.homes.known.get_mut(&timeline) else { return };
        if home.ring.is_told() {
            return;
        }
        let said: Arc<[_]> = std::mem::take(&mut home.ring.untold).into();
        for shard in home.shards() {
            self.tell_chatroom(now, shard, ChatroomWord::Said(said.clone()), fx);
        }
    }

    /// Asks the log for the last messages of a chatroom.
    pub(super) fn read_chatroom(&mut self, timeline: TimelineId, fx: &mut Effects) {
        let home = self.chatrooms.homes.known.get(&timeline);
        let keeps = home.and_then(|it| it.row.as_ref()).map_or(1, |row| row.keeps);
        let (count_max, bytes_max) = (keeps.into(), KEPT_BYTES_MAX);
        let pull = Pull { timeline, from: Seq::MAX, backwards: true, count_max, bytes_max };
        self.log.ask(PendingCall::ChatroomRead(timeline), Call::Read(Read::Pull(pull)), fx);
    }

    /// Takes the last messages of a chatroom, as the log has them.
    pub(crate) fn chatroom_read(
        &mut self,
        now: Now,
        timeline: TimelineId,
        result: Answered,
        fx: &mut Effects,
    ) {
        let mut last = 0;
        let read = match result {
            Ok(Done::Page(page)) if page.messages.is_empty() => {
                // Numbers continue behind those of a closed room of this name.
                let read = Read::Standing { timeline, reader: self.settings.any_reader() };
                return self.log.ask(PendingCall::ChatroomRead(timeline), Call::Read(read), fx);
            }
            Ok(Done::Page(page)) => Ok(page.messages),
            Ok(Done::Standing(status)) => {
                last = status.last;
                Ok(Vec::new())
            }
            Ok(_) => Err(ChatFault::StoreFailed),
            Err(error) => Err(fault_of(error)),
        };
        let messages = match read {
            Ok(messages) => messages,
            Err(fault) => {
                let home = self.chatrooms.homes.known.get_mut(&timeline);
                home.into_iter().for_each(|it| it.step = super::home::Step::Unread);
                return self.give_chatroom_up(timeline, fault, fx);
            }
        };
        // A message that cannot be decoded is left out; numbers continue behind it all the same.
        let last = messages.first().map_or(last, |placed| placed.seq);
        let decoded = messages.iter().rev().filter_map(|placed| {
            let message = envelope::decode(placed.message.id, placed.seq, &placed.message.body)?;
            let frame = self.frame_of(timeline, message.id);
            Some(Arc::new(ChatroomMessage { timeline, frame, important: false, message }))
        });
        let decoded: Vec<Arc<ChatroomMessage>> = decoded.collect();
        let last_id = decoded.last().map_or(0, |it| it.message.id);
        self.last_id = self.last_id.max(last_id);
        if let Some(home) = self.chatrooms.homes.known.get_mut(&timeline) {
            let keeps = home.row.as_ref().map_or(0, |row| row.keeps);
            decoded.into_iter().for_each(|message| home.ring.keeps(message, keeps));
            home.ring.last = last;
            home.step = super::home::Step::Ready;
        }
        self.advance_chatroom(now, timeline, fx);
    }
}

/// The answer to a retry: the first answer, if the content is the same.
fn again(first: &ChatMessage, content: &Content) -> Result<StoredMessage, ChatFault> {
    match first.content == *content {
        true => Ok(StoredMessage { id: first.id, seq: first.seq, again: true }),
        false => Err(ChatFault::Conflict),
    }
}
