//! Handing: messages of chatrooms go to the sessions there, a limited number in a turn.
//!
//! ```text
//!  heard ─► waits ─► a round: some messages, seat after seat ─┬► handed
//!             │      (a turn ends in the middle of it)        └► missed, and counted
//!             └ too many wait: the oldest are left out, moderators' last; seats that have not had
//!               them miss them
//! ```
//! A thousand messages for five thousand sessions are seconds of a core: the shard's other work,
//! answers and writes above all, goes on in between. A seat is handed several messages at once,
//! because they are one write then, and no more than a connection takes that reads. Invariant: a
//! seat's `had` passes each number once, and each number that it passes was handed or counted as
//! missed.

use super::seats::{Hall, Seat};
use crate::{Chat, Effects};
use base::slab::Key;
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatroomMessage, ChatroomMissed};
use model::counters::ChatCounter;
use model::timeline::{Seq, TimelineId};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// Approximate maximum of messages that a shard hands to sessions in chatrooms in one turn: some
/// milliseconds.
const HANDED_A_TURN: usize = 8_192;
/// Maximum of messages that a seat is handed at once, and of their bytes, but always one message.
const ROUND_MESSAGES_MAX: usize = 64;
const ROUND_BYTES_MAX: usize = 16 * 1024;

/// The messages of a room that not all of its sessions have yet.
#[derive(Default)]
pub(super) struct Untold {
    /// The messages, in the order of their numbers; some numbers may be lost.
    messages: VecDeque<Arc<ChatroomMessage>>,
    bytes: usize,
    /// The last number that all seats have passed.
    handed: Seq,
    /// The last number of the round under way.
    upto: Seq,
    /// The seat whose turn it is in the round under way; `None`: no round is.
    next: Option<Key>,
    /// The room is in line for a turn.
    in_line: bool,
}

/// The result of a round: messages handed, messages missed, and bytes that wait no more.
#[derive(Default)]
struct Handed {
    delivered: u64,
    missed: u64,
    freed: usize,
}

impl Untold {
    /// The bytes of the messages that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a message that waits; returns its bytes.
    fn waits(&mut self, message: Arc<ChatroomMessage>) -> usize {
        let bytes = message.weight();
        self.bytes += bytes;
        self.messages.push_back(message);
        bytes
    }

    /// Removes a message that waits; returns its bytes.
    fn drops(&mut self, at: usize) -> usize {
        let bytes = self.messages.remove(at).map_or(0, |it| it.weight());
        self.bytes -= bytes;
        bytes
    }

    /// Removes the oldest message that is not important, or else the oldest; returns its bytes.
    fn leaves_out(&mut self) -> usize {
        let at = self.messages.iter().position(|it| !it.important);
        self.drops(at.unwrap_or(0))
    }

    /// Removes all messages, because the room has no session here; returns their bytes.
    pub(super) fn forgets(&mut self, heard: Seq) -> usize {
        let (bytes, in_line) = (self.bytes, self.in_line);
        *self = Untold { handed: heard, in_line, ..Untold::default() };
        bytes
    }

    /// Begins a round: up to the last number of which the shard knows, or fewer.
    fn begins(&mut self, heard: Seq) {
        let mut bytes = 0;
        let fits = |it: &&Arc<ChatroomMessage>| {
            bytes += it.weight();
            bytes <= ROUND_BYTES_MAX
        };
        let count = self.messages.iter().take(ROUND_MESSAGES_MAX).take_while(fits).count().max(1);
        let is_all = count >= self.messages.len();
        self.upto = if is_all { heard } else { self.messages[count - 1].message.seq };
    }

    /// Ends the round; returns the bytes that wait no more.
    fn ends(&mut self) -> usize {
        (self.handed, self.next) = (self.upto, None);
        let mut freed = 0;
        while self.messages.front().is_some_and(|it| it.message.seq <= self.upto) {
            freed += self.drops(0);
        }
        freed
    }
}

impl Seat {
    /// Passes a seat over messages up to a number; returns how many of them it has not had.
    fn passes(&mut self, seq: Seq) -> u32 {
        let missed = u32::try_from(seq.saturating_sub(self.had)).unwrap_or(u32::MAX);
        self.had = self.had.max(seq);
        missed
    }

    /// Counts messages up to a number as missed that a seat has not had; returns how many. The
    /// session is notified if it is connected and reads, and otherwise keeps the count.
    fn misses(
        &mut self,
        seq: Seq,
        (room, timeline): (&AccountAddress, TimelineId),
        fx: &mut Effects,
    ) -> u64 {
        let missed = self.passes(seq);
        if missed > 0 && (self.away || self.behind) {
            (self.missed, self.behind) = (self.missed.saturating_add(missed), true);
        } else if missed > 0 {
            let missed = ChatroomMissed { room: room.clone(), timeline, missed };
            fx.deliveries.push((self.conn, ChatDelivery::ChatroomMissed(missed.into())));
        }
        missed.into()
    }
}

impl Hall {
    /// Passes a seat over all messages that wait for it; returns how many it misses by that.
    pub(super) fn gives_up(&mut self, key: Key) -> u32 {
        let Some(seat) = self.seats.get_mut(&key) else { return 0 };
        let missed = seat.passes(self.heard);
        if missed > 0 {
            self.skips(key, missed);
        }
        missed
    }

    fn is_told(&self) -> bool {
        self.seats.is_empty() || self.untold.handed >= self.heard
    }

    /// Continues the round under way, or begins one, until so many messages were handed.
    fn goes_round(&mut self, timeline: TimelineId, left: &mut usize, fx: &mut Effects) -> Handed {
        let Hall { room, seats, untold, behind, heard, .. } = self;
        let from = untold.next.map_or(Bound::Unbounded, Bound::Included);
        if untold.next.is_none() {
            untold.begins(*heard);
        }
        let upto = untold.upto;
        let count = untold.messages.partition_point(|it| it.message.seq <= upto);
        let mut handed = Handed::default();
        for (key, seat) in seats.range_mut((from, Bound::Unbounded)) {
            if *left == 0 {
                untold.next = Some(*key);
                return handed;
            }
            let first = untold.messages.partition_point(|it| it.message.seq <= seat.had);
            let (was_behind, before) = (seat.behind, fx.deliveries.len());
            for message in untold.messages.range(first.min(count)..count) {
                let seq = message.message.seq;
                handed.missed += seat.misses(seq - 1, (room, timeline), fx);
                // A seat that is behind is handed important messages all the same, and may take
                // them.
                if seat.away || seat.behind && !message.important {
                    handed.missed += seat.misses(seq, (room, timeline), fx);
                    continue;
                }
                seat.had = seq;
                handed.delivered += 1;
                fx.deliveries.push((seat.conn, ChatDelivery::ChatroomSaid(message.clone())));
            }
            handed.missed += seat.misses(upto, (room, timeline), fx);
            *behind += u32::from(seat.behind && !was_behind);
            *left = left.saturating_sub(1 + fx.deliveries.len() - before);
        }
        handed.freed = untold.ends();
        handed
    }
}

impl Chat {
    /// Queues new messages of a room; with too many, the oldest are left out.
    pub(super) fn waits_in_hall(&mut self, timeline: TimelineId, new: &[Arc<ChatroomMessage>]) {
        let limits = &self.settings.limits.chat;
        let (count_max, bytes_max) =
            (limits.chatroom_waiting_max as usize, limits.chatrooms_waiting_bytes_max as usize);
        let seats = &mut self.chatrooms.seats;
        let Some(hall) = seats.rooms.get_mut(&timeline) else { return };
        for message in new {
            hall.heard = message.message.seq;
            if hall.seats.is_empty() {
                continue;
            }
            seats.untold_bytes += hall.untold.waits(message.clone());
            while hall.untold.messages.len() > count_max
                || seats.untold_bytes > bytes_max && hall.untold.messages.len() > 1
            {
                seats.untold_bytes -= hall.untold.leaves_out();
            }
        }
        self.stands_in_line(timeline);
    }

    /// Puts a room in line whose sessions have not got all messages.
    pub(super) fn stands_in_line(&mut self, timeline: TimelineId) {
        let seats = &mut self.chatrooms.seats;
        let Some(hall) = seats.rooms.get_mut(&timeline) else { return };
        if hall.seats.is_empty() {
            seats.untold_bytes -= hall.untold.forgets(hall.heard);
        }
        if !hall.is_told() && !std::mem::replace(&mut hall.untold.in_line, true) {
            seats.line.push_back(timeline);
        }
    }

    /// Gives rooms their turns; returns when to continue.
    pub(super) fn turn_handing(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let mut left = HANDED_A_TURN;
        while left > 0
            && let Some(timeline) = self.chatrooms.seats.line.pop_front()
        {
            let seats = &mut self.chatrooms.seats;
            let Some(hall) = seats.rooms.get_mut(&timeline) else { continue };
            if !std::mem::take(&mut hall.untold.in_line) {
                continue; // another room of this name, whose sessions have no messages yet
            }
            let before = hall.behind;
            let handed = hall.goes_round(timeline, &mut left, fx);
            let is_behind = hall.behind > before;
            seats.untold_bytes -= handed.freed;
            fx.counters.count_by(ChatCounter::ChatroomDelivered, handed.delivered);
            fx.counters.count_by(ChatCounter::ChatroomMissed, handed.missed);
            self.stands_in_line(timeline);
            if is_behind {
                self.hall_is_due(timeline);
            }
        }
        (!self.chatrooms.seats.line.is_empty()).then_some(now.mono)
    }
}
