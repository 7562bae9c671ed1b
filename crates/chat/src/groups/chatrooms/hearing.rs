//! Input of shards about chatrooms: messages, news and accounts that are to leave; and messages
//! that sessions miss.
//!
//! This file knows of homes only the messages that they send. Invariant: a message that arrives
//! waits for its turn ([`handing`](super::handing)), and a seat that is behind is notified when its
//! pause is over.

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
    /// Counts messages that a seat was not sent, and marks the seat as behind.
    pub(super) fn skips(&mut self, key: Key, missed: u32) {
        let Some(seat) = self.seats.get_mut(&key) else { return };
        seat.missed = seat.missed.saturating_add(missed);
        self.behind += u32::from(!seat.behind);
        seat.behind = true;
    }

    /// Records that the room has messages up to a place. Those that did not arrive here are lost,
    /// and are counted as missed when their turn comes.
    pub(super) fn hears_up_to(&mut self, seq: Seq) {
        self.heard = self.heard.max(seq);
    }
}

impl Chat {
    /// Counts messages that a session's protocol machine, or a connection that is gone, did not
    /// take; `is_again`: they were counted before, and it was the notice of them that was not
    /// taken.
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

    /// Takes new messages of a room, for the sessions there.
    pub(super) fn chatroom_said(
        &mut self,
        now: Now,
        messages: &[Arc<ChatroomMessage>],
        fx: &mut Effects,
    ) {
        let Some(first) = messages.first() else { return };
        let timeline = first.timeline;
        let Some(hall) = self.chatrooms.seats.rooms.get_mut(&timeline) else {
            // The home counts sessions on this shard that have gone: the notice of that was lost.
            return self.tell_home(now, timeline, (first.message.to.clone(), 0, 0, 0), fx);
        };
        let new = messages.iter().position(|it| it.message.seq > hall.heard);
        self.waits_in_hall(timeline, &messages[new.unwrap_or(messages.len())..]);
    }

    /// Takes the new state of a room, or the number of its sessions.
    pub(super) fn chatroom_news(&mut self, news: &Arc<ChatroomNews>, fx: &mut Effects) {
        let ChatroomWhat::State(state) = &news.what else { return };
        let timeline = news.timeline;
        let Some(hall) = self.chatrooms.seats.rooms.get_mut(&timeline) else { return };
        hall.hears_up_to(state.head);
        let is_new = hall.news.as_ref().is_none_or(|before| before.what != news.what);
        hall.news = Some(news.clone());
        let to = hall.seats.values().filter(|seat| is_new && !seat.behind);
        let told = to.map(|seat| (seat.conn, ChatDelivery::ChatroomNews(news.clone())));
        fx.deliveries.extend(told);
        self.stands_in_line(timeline);
        self.hall_is_due(timeline);
    }

    /// Takes accounts that are to leave a room.
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
            let Some(conn) = session.map(|session| session.conn) else { continue };
            self.tell_of_missed(key, timeline, fx);
            let what = ChatroomWhat::Out(why);
            let news = Arc::new(ChatroomNews { room: room.clone(), timeline, what });
            fx.deliveries.push((conn, ChatDelivery::ChatroomNews(news)));
            self.unseat(key, timeline);
        }
        let seats = &mut self.chatrooms.seats;
        let is_closed = new.iter().any(|out| out.account.is_none());
        if let Some(hall) = seats.rooms.get_mut(&timeline)
            && is_closed
            && hall.seats.is_empty()
        {
            // A room of this name that is made anew may also begin its numbers anew.
            seats.untold_bytes -= hall.untold.forgets(0);
            (hall.heard, hall.outs, hall.news) = (0, 0, None);
        }
        self.hall_is_due(timeline);
    }

    /// Counts the messages that did not reach a seat as missed, before the seat is left.
    pub(super) fn tell_of_missed(&mut self, key: Key, timeline: TimelineId, fx: &mut Effects) {
        let Some(hall) = self.chatrooms.seats.rooms.get_mut(&timeline) else { return };
        let new = hall.gives_up(key);
        fx.counters.count_by(ChatCounter::ChatroomMissed, new.into());
        let Some(seat) = hall.seats.get_mut(&key) else { return };
        let missed = std::mem::take(&mut seat.missed);
        if missed > 0 {
            let missed = ChatroomMissed { room: hall.room.clone(), timeline, missed };
            fx.deliveries.push((seat.conn, ChatDelivery::ChatroomMissed(missed.into())));
        }
    }

    pub(super) fn tell_of_hall(&mut self, now: Now, timeline: TimelineId, fx: &mut Effects) {
        let Some(hall) = self.chatrooms.seats.rooms.get_mut(&timeline) else { return };
        (hall.told, hall.told_at) = (hall.here(), now.mono);
        let word = (hall.room.clone(), hall.here(), hall.heard, hall.outs);
        if hall.here() == 0 {
            let hall = self.chatrooms.seats.rooms.remove(&timeline);
            self.chatrooms.seats.untold_bytes -= hall.map_or(0, |it| it.untold.bytes());
            self.chatrooms.seats.line.retain(|it| *it != timeline);
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
