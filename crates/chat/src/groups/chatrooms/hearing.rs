//! What sessions in chatrooms hear: what is said, news, that they are shown out; what they miss.
//!
//! Knows nothing of homes but what they say. Invariant: of each message that is heard of, each seat
//! is handed it, or its number is one higher.

use super::seats::{Hall, Seat};
use super::words::Leaving;
use crate::{Chat, Effects};
use base::slab::Key;
use base::time::Now;
use model::chat::{ChatDelivery, ChatroomMessage, ChatroomMissed, ChatroomNews, ChatroomWhat};
use model::counters::ChatCounter;
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

impl Hall {
    /// A seat was not sent so many messages.
    pub(super) fn skips(&mut self, key: Key, missed: u32) {
        let Some(seat) = self.seats.get_mut(&key) else { return };
        seat.missed = seat.missed.saturating_add(missed);
        self.behind += u32::from(!seat.behind);
        seat.behind = true;
    }

    /// Up to here messages have been said that were never heard of: a letter was lost.
    pub(super) fn hears_up_to(&mut self, seq: Seq) -> u64 {
        let gap = seq.saturating_sub(self.heard);
        self.heard = self.heard.max(seq);
        let missed = u32::try_from(gap).unwrap_or(u32::MAX);
        if missed > 0 {
            let keys: Vec<Key> = self.seats.keys().copied().collect();
            keys.iter().for_each(|key| self.skips(*key, missed));
        }
        gap * self.seats.len() as u64
    }
}

impl Chat {
    /// A machine, or a connection that is gone, did not take messages for a session; or did not
    /// take the word of so many.
    pub(crate) fn skips_in_chatroom(
        &mut self,
        key: Key,
        (timeline, missed, is_again): (TimelineId, u32, bool),
        fx: &mut Effects,
    ) {
        if let Some(hall) = self.chatrooms.seats.rooms.get_mut(&timeline)
            && hall.seats.contains_key(&key)
        {
            hall.skips(key, missed);
            let new = if is_again { 0 } else { missed };
            fx.counters.count_by(ChatCounter::ChatroomSkipped, new.into());
            self.hall_is_due(timeline);
        }
    }

    /// Whoever is in a room hears what was said there.
    pub(super) fn chatroom_said(
        &mut self,
        now: Now,
        messages: &[Arc<ChatroomMessage>],
        fx: &mut Effects,
    ) {
        let Some(first) = messages.first() else { return };
        let timeline = first.timeline;
        let Some(hall) = self.chatrooms.seats.rooms.get_mut(&timeline) else {
            // The home thinks that somebody is here: a word to it was lost.
            return self.tell_home(now, timeline, (first.message.to.clone(), 0, 0, 0), fx);
        };
        let mut missed = hall.hears_up_to(first.message.seq - 1);
        let new = messages.iter().position(|it| it.message.seq > hall.heard);
        let new = &messages[new.unwrap_or(messages.len())..];
        let Some(last) = new.last() else { return };
        hall.heard = last.message.seq;
        let mut delivered = 0;
        for seat in hall.seats.values_mut() {
            for message in new {
                // One that is behind is handed what is important all the same, and may take it.
                if seat.away || seat.behind && !message.important {
                    hall.behind += u32::from(!seat.behind);
                    (seat.missed, seat.behind) = (seat.missed.saturating_add(1), true);
                    missed += 1;
                    continue;
                }
                let told = ChatDelivery::ChatroomSaid(message.clone());
                fx.deliveries.push((seat.conn, told));
                delivered += 1;
            }
        }
        let is_behind = hall.behind > 0;
        fx.counters.count_by(ChatCounter::ChatroomDelivered, delivered);
        fx.counters.count_by(ChatCounter::ChatroomMissed, missed);
        if is_behind {
            self.hall_is_due(timeline);
        }
    }

    /// A room is otherwise, or how many are there.
    pub(super) fn chatroom_news(&mut self, news: &Arc<ChatroomNews>, fx: &mut Effects) {
        let ChatroomWhat::State(state) = &news.what else { return };
        let timeline = news.timeline;
        let Some(hall) = self.chatrooms.seats.rooms.get_mut(&timeline) else { return };
        let lost = hall.hears_up_to(state.head);
        let is_new = hall.news.as_ref().is_none_or(|before| before.what != news.what);
        hall.news = Some(news.clone());
        let to = hall.seats.values().filter(|seat| is_new && !seat.behind);
        let told = to.map(|seat| (seat.conn, ChatDelivery::ChatroomNews(news.clone())));
        fx.deliveries.extend(told);
        fx.counters.count_by(ChatCounter::ChatroomMissed, lost);
        self.hall_is_due(timeline);
    }

    /// Accounts are to leave a room.
    pub(super) fn chatroom_outs(
        &mut self,
        timeline: TimelineId,
        outs: &[Leaving],
        fx: &mut Effects,
    ) {
        let Some(hall) = self.chatrooms.seats.rooms.get_mut(&timeline) else { return };
        let heard = hall.outs;
        let new: Vec<&Leaving> = outs.iter().filter(|out| out.number > heard).collect();
        let Some(last) = new.last() else { return };
        hall.outs = if last.number == u64::MAX { heard } else { last.number };
        let room = hall.room.clone();
        let keys: Vec<Key> = hall.seats.keys().copied().collect();
        for key in keys {
            let session = self.sessions.slab.at(key);
            let online = session.and_then(|it| self.sessions.online.get(&it.inbox));
            let Some(address) = online.map(|online| &online.address) else { continue };
            let is_it = |out: &&&Leaving| out.account.as_ref().is_none_or(|one| one == address);
            let Some(why) = new.iter().find(is_it).map(|out| out.why) else { continue };
            let conn = session.map(|session| session.conn);
            let what = ChatroomWhat::Out(why);
            let news = Arc::new(ChatroomNews { room: room.clone(), timeline, what });
            fx.deliveries.extend(conn.map(|conn| (conn, ChatDelivery::ChatroomNews(news))));
            self.unseat(key, timeline);
        }
        self.hall_is_due(timeline);
    }

    pub(super) fn tell_of_hall(&mut self, now: Now, timeline: TimelineId, fx: &mut Effects) {
        let Some(hall) = self.chatrooms.seats.rooms.get_mut(&timeline) else { return };
        (hall.told, hall.told_at) = (hall.here(), now.mono);
        let word = (hall.room.clone(), hall.here(), hall.heard, hall.outs);
        if hall.here() == 0 {
            self.chatrooms.seats.rooms.remove(&timeline);
            return self.tell_home(now, timeline, word, fx);
        }
        if hall.behind > 0 {
            let (room, news) = (hall.room.clone(), hall.news.clone());
            let is_told = |seat: &&mut Seat| seat.behind && !seat.away;
            for seat in hall.seats.values_mut().filter(is_told) {
                (seat.behind, hall.behind) = (false, hall.behind - 1);
                let missed = std::mem::take(&mut seat.missed);
                let told = Box::new(ChatroomMissed { room: room.clone(), timeline, missed });
                if missed > 0 {
                    fx.deliveries.push((seat.conn, ChatDelivery::ChatroomMissed(told)));
                }
                let news = news.clone().map(ChatDelivery::ChatroomNews);
                fx.deliveries.extend(news.map(|news| (seat.conn, news)));
            }
        }
        self.tell_home(now, timeline, word, fx);
        self.hall_is_due(timeline);
    }
}
