//! Chatrooms: conversations of those who are there now.
//!
//! ```text
//!  session ─► its shard: a seat ─► home: may it? ─► Said, once a turn, a letter a shard ─► seats
//! ```
//! A room has a home, by its address: its row, its last messages and how many are there on which
//! shard ([`home`]). Who exactly is there only the shard of a session knows ([`seats`]), so that a
//! room of fifty thousand costs its home a number a shard. Nothing of what is said is in any inbox;
//! it is in the log only where the room keeps its messages over a restart, and no more of it than
//! those that it keeps. Invariant: a session in a room was handed, or was told that it missed, all
//! that was said since it joined.

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

/// Chatrooms at home here, and sessions of this shard that are in any.
#[derive(Default)]
pub(crate) struct Chatrooms {
    pub(crate) homes: Homes,
    pub(crate) seats: Seats,
    /// Orders of sessions of this shard that are under way.
    orders: usize,
}

impl Chatrooms {
    /// Rooms at home here, and sessions of this shard that are in any.
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

    /// A word for a shard, perhaps this one.
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

    /// Some shard says something of a chatroom.
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
    /// Tells what is due in chatrooms; when to come back.
    pub(crate) fn turn_chatrooms(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let first = earliest([
            self.turn_homes(now, fx),
            self.turn_handing(now, fx),
            // What the others have to be told later is due by now.
            self.turn_seats(now, fx),
        ]);
        let Chatrooms { homes, seats, .. } = &self.chatrooms;
        let is_more = !homes.loud.is_empty() || !seats.line.is_empty();
        // Seats on this shard say who is there to homes on it, whose turn was before theirs.
        let homes_due = homes.due();
        earliest([first, is_more.then_some(now.mono), homes_due])
    }
}
