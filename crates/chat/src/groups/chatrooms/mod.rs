//! Chatrooms: conversations of the sessions that are in them now.
//!
//! ```text
//!  session ─► its shard: a seat ─► home: may it? ─► Said, once a turn, a letter a shard ─► seats
//! ```
//! A room has a home, by its address, with its row, its last messages and the number of sessions on
//! each shard ([`home`]). Only the shard of a session knows that it is there ([`seats`]), so a room
//! of fifty thousand sessions costs its home one number per shard. No message of a room is in an
//! inbox; the log has messages only if the room keeps them over a restart, and no more than it
//! keeps. Invariant: a session in a room was handed, or was notified that it missed, every message
//! since it joined.

pub(crate) mod handing;
pub(crate) mod hearing;
pub(crate) mod home;
pub(crate) mod listing;
pub(crate) mod orders;
pub(crate) mod row;
pub(crate) mod said;
pub(crate) mod seats;
pub(crate) mod words;

use crate::groups::conversation_of;
use crate::{Chat, ChatWord, Effects};
use base::time::{Instant, Now, earliest};
use home::Homes;
use model::account::AccountAddress;
use model::id::ShardId;
use model::timeline::TimelineId;
use seats::Seats;
use words::ChatroomWord;

/// The chatrooms at home here, and the sessions of this shard that are in chatrooms.
#[derive(Default)]
pub(crate) struct Chatrooms {
    pub(crate) homes: Homes,
    pub(crate) seats: Seats,
    /// The number of orders of sessions of this shard that are under way.
    orders: usize,
}

impl Chatrooms {
    /// The number of rooms at home here, and of sessions of this shard that are in rooms.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.homes.known.len(), self.seats.sessions())
    }
}

impl Chat {
    /// The conversation of a chatroom, and the shard where that is at home.
    pub(crate) fn chatroom_at(&self, room: &AccountAddress) -> (TimelineId, ShardId) {
        let timeline = conversation_of(self.settings.home, room);
        (timeline, self.settings.shard_at(timeline))
    }

    /// Sends a message about a chatroom to a shard, which may be this one.
    pub(crate) fn tell_chatroom(
        &mut self,
        now: Now,
        to: ShardId,
        word: ChatroomWord,
        fx: &mut Effects,
    ) {
        match to == self.settings.shard {
            true => self.chatroom_word(now, to, word, fx),
            false => fx.peer_messages.push((to, ChatWord::Chatroom(Box::new(word)))),
        }
    }

    /// Takes a message of some shard about a chatroom.
    pub(crate) fn chatroom_word(
        &mut self,
        now: Now,
        from: ShardId,
        word: ChatroomWord,
        fx: &mut Effects,
    ) {
        match word {
            ChatroomWord::Said(messages) => self.chatroom_said(now, &messages, fx),
            ChatroomWord::News(news) => self.chatroom_news(&news, fx),
            ChatroomWord::Outs { timeline, outs } => self.chatroom_outs(timeline, &outs, fx),
            ChatroomWord::Here { room, here, heard, outs } => {
                self.chatroom_here(now, from, (&room, here), (heard, outs), fx);
            }
            ChatroomWord::List(asked) => self.list_seats(*asked, fx),
        }
    }
}

impl Chat {
    /// Sends the notices that are due in chatrooms; returns when to continue.
    pub(crate) fn turn_chatrooms(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let first = earliest([
            self.turn_homes(now, fx),
            self.turn_handing(now, fx),
            // The sessions' notices that are due later are due by now.
            self.turn_seats(now, fx),
        ]);
        let Chatrooms { homes, seats, .. } = &self.chatrooms;
        let is_more = !homes.loud.is_empty() || !seats.line.is_empty();
        // Seats of this shard report to homes of this shard, whose turn was before.
        let homes_due = homes.due();
        earliest([first, is_more.then_some(now.mono), homes_due])
    }
}
