//! Rooms: devices enter the rooms of groups, and are told who is there and what happens.
//!
//! ```text
//! Enter, Rename, SetRoles, Find ─► home of the group: may it? ─► its occupants ─► answered
//! Show, Leave, end of a session ─► home of the group ─┐
//! change of the group, stored ────────────────────────┼─► news ─► all seats, by their shards
//! message of the group, stored ─► seats of accounts that have no inbox with it
//! ```
//! An account needs not be a member to be in an open room: there it reads and speaks while it is in
//! it. News are numbered in each room; messages have their places in the conversation. A device
//! that misses one notices the gap. The shard of a session that is in no room any more says so
//! again whenever something comes for it. Invariants: a seat is given only by the home, behind all
//! earlier changes of the group; news of a room reach each shard in their order.

use crate::groups::nicks::key_of;
use crate::groups::occupants::{Hearers, Newcomer, SeatAt, SeatsMax, Sitter};
use crate::groups::state::Abroad;
use crate::groups::{GroupTask, conversation_of};
use crate::service::flow::Flow;
use crate::sessions::detached::weight_of;
use crate::sessions::{Asker, Requester};
use crate::word::{ChatWord, PeerReply, PeerRequest, ReplyTo};
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::slab::Key;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::foreign::{ForeignWord, RoomWord};
use model::chat::{
    ChatDelivery, ChatFault, ChatMessage, Entry, GroupChange, GroupRole, GroupVerb, OccupancyAsk,
    OccupancyRequest, Occupant, OccupantName, OccupantShow, RELAYED_BYTES_MAX, RoleItem, RoomActor,
    RoomEntered, RoomEvent, RoomExit, RoomNews, Transient, nick_of,
};
use model::counters::ChatCounter;
use model::id::ConnRef;
use model::timeline::TimelineId;
use std::sync::Arc;

/// A request about a room, for the home of its group.
#[derive(Debug, Encoding)]
pub struct RoomAsked {
    /// The inbox of the asker.
    pub(crate) by: TimelineId,
    pub(crate) address: AccountAddress,
    pub(crate) at: SeatAt,
    pub(crate) group: AccountAddress,
    /// Whether an operator has muted the account.
    pub(crate) muted: bool,
    pub(crate) ask: OccupancyAsk,
}

/// How a device is in a room, for the home of its group.
#[derive(Debug, Encoding)]
pub struct SeatSaid {
    /// The inbox of the device's account.
    pub(crate) by: TimelineId,
    pub(crate) at: SeatAt,
    pub(crate) group: AccountAddress,
    pub(crate) show: OccupantShow,
}

/// Wrong passwords for a room in a minute: of an account, or of all accounts of another domain.
pub(crate) const GUESSES_A_MINUTE_MAX: u64 = 10;

/// Devices that are in a room no more, with the inboxes of their accounts; for the home of its
/// group.
#[derive(Debug, Encoding)]
pub struct SeatsLeft {
    pub(crate) group: AccountAddress,
    pub(crate) all: Vec<(TimelineId, SeatAt)>,
}

/// A delivery for sessions of a shard that are in a room.
#[derive(Debug, Encoding)]
pub struct SeatsTold {
    to: Arc<[Sitter]>,
    group: AccountAddress,
    delivery: ChatDelivery,
}

impl RoomAsked {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let said = match &self.ask {
            OccupancyAsk::Whisper { nick, content } => nick.len() + content.weight(),
            OccupancyAsk::SetRoles(items) => items.iter().map(weight_of_item).sum(),
            OccupancyAsk::Relay { nick, relayed } => nick.len() + relayed.weight(),
            OccupancyAsk::Answer(relayed) => relayed.weight(),
            OccupancyAsk::Rename(nick) | OccupancyAsk::Find(nick) => nick.len(),
            OccupancyAsk::Enter(entry) => {
                let password = entry.password.as_ref().map_or(0, |it| it.len());
                size_of::<Entry>() + entry.nick.len() + password + entry.show.weight()
            }
            _ => 512,
        };
        size_of::<RoomAsked>() + self.address.as_str().len() + self.group.as_str().len() + said
    }
}

fn weight_of_item(item: &RoleItem) -> usize {
    let whom = match &item.whom {
        OccupantName::Nick(nick) => nick.len(),
        OccupantName::Account(account) => account.as_str().len(),
    };
    size_of::<RoleItem>() + whom + item.reason.len()
}

impl SeatSaid {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let texts = self.group.as_str().len() + self.at.1.len() + self.show.weight();
        size_of::<SeatSaid>() + texts
    }
}

impl SeatsLeft {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let devices: usize = self.all.iter().map(|(_, at)| at.1.len()).sum();
        size_of::<SeatsLeft>() + self.group.as_str().len() + size_of_val(&*self.all) + devices
    }
}

impl SeatsTold {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let delivery = weight_of(&self.delivery) as usize;
        size_of::<SeatsTold>() + self.group.as_str().len() + size_of_val(&*self.to) + delivery
    }
}

/// Makes a device's request about a room at the home of its group.
async fn ask(mut flow: Flow, wait: Requester, key: Option<Key>, asked: Box<RoomAsked>) {
    let (group, all) = (asked.group.clone(), vec![(asked.by, asked.at.clone())]);
    let (chat, _, _) = flow.state();
    let home = chat.settings.shard_at(conversation_of(chat.settings.home, &group));
    let result = flow.request(home, PeerRequest::Room(asked)).await;
    let (chat, now, fx) = flow.state();
    let told = chat.room_told(now, (key, wait.number), SeatsLeft { group, all }, result, fx);
    chat.answer_session((wait.conn, wait.session), told, fx);
}

/// Carries out a request about a room of a group that is at home here.
pub(crate) async fn ask_here(mut flow: Flow, to: ReplyTo, asked: Box<RoomAsked>) {
    let result = asked_here(&mut flow, *asked).await;
    let (chat, _, fx) = flow.state();
    chat.reply(to, result, fx);
}

async fn asked_here(flow: &mut Flow, asked: RoomAsked) -> Result<PeerReply, ChatFault> {
    let home = flow.state().0.settings.home;
    let conversation = conversation_of(home, &asked.group);
    flow.group(conversation, asked.weight()).await?;
    let (chat, now, fx) = flow.state();
    match &asked.ask {
        OccupancyAsk::Enter(_) => {
            chat.enters_room(now, conversation, asked, fx).map(|it| PeerReply::Room(Box::new(it)))
        }
        OccupancyAsk::Rename(nick) => {
            if chat.groups.state(conversation)?.reserves(&asked.group, nick, &asked.address) {
                return Err(ChatFault::Conflict);
            }
            let who = (asked.by, &asked.at, asked.muted);
            let nick = chat.renames_in_room(conversation, who, nick, fx)?;
            Ok(PeerReply::Renamed(nick))
        }
        OccupancyAsk::SetRoles(items) => {
            let by = (asked.by, &asked.address, &*asked.at.1);
            chat.sets_roles(now, conversation, by, items, fx)
        }
        OccupancyAsk::List(role) => chat.lists_roles(conversation, asked.by, *role),
        OccupancyAsk::Whisper { nick, content } => {
            chat.whispers_in_room(conversation, &asked, (nick, content), fx)
        }
        OccupancyAsk::Relay { nick, relayed } => {
            chat.relays_in_room(now, conversation, &asked, (nick, relayed), fx)
        }
        OccupancyAsk::Answer(relayed) => {
            chat.answers_in_room(now, conversation, &asked, relayed, fx)
        }
        OccupancyAsk::Find(nick) => chat.finds_in_room(conversation, asked.by, nick),
        OccupancyAsk::Show(_) | OccupancyAsk::Leave | OccupancyAsk::Change { .. } => {
            Err(ChatFault::Invalid)
        }
    }
}

impl Chat {
    /// Takes a device's request about a room.
    pub(crate) fn room(
        &mut self,
        now: Now,
        from: ConnRef,
        asked: OccupancyRequest,
        fx: &mut Effects,
    ) {
        let OccupancyRequest { session, number, group, mut ask } = asked;
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        let is_errand = self.is_errand(from);
        if let OccupancyAsk::Change { client_id, change } = ask {
            let group = group.within(asker.address.domain());
            return self.changes_group((wait, asker), (group, client_id, change), fx);
        }
        let group = group.within(asker.address.domain());
        if let OccupancyAsk::Whisper { content, .. } = &mut ask
            && let Err(why) = self.may_whisper(now, (&asker, &group), content, fx)
        {
            return self.answer_session((from, session), ChatDelivery::Failed { number, why }, fx);
        }
        let Asker { inbox: by, address, device, .. } = asker;
        let key = self.sessions.bound(from, session).filter(|_| !is_errand);
        let at: SeatAt = (key.map(|_| session), device);
        let muted = self.mutes.until(now, &address) > 0;
        let show = match &mut ask {
            OccupancyAsk::Enter(entry) => Some(&mut entry.show),
            OccupancyAsk::Show(show) => Some(show),
            _ => None,
        };
        let is_long = show.as_ref().is_some_and(|it| it.is_long());
        if let Some(show) = show.filter(|_| muted) {
            *show = std::mem::take(show).silenced(); // an operator's mute holds here too
        }
        let is_long = is_long
            || matches!(&ask, OccupancyAsk::Relay { relayed, .. } | OccupancyAsk::Answer(relayed)
                if relayed.xml.len() > RELAYED_BYTES_MAX);
        // Subscribers of a channel do not know of each other.
        let is_wrong = !group.is_group() || group.is_channel() || is_long;
        if matches!(ask, OccupancyAsk::Show(_) | OccupancyAsk::Leave) {
            if is_errand {
                self.answer_errand(session, ChatDelivery::Done { number: 0 }, fx);
            }
            if is_wrong {
                return fx.counters.count(ChatCounter::TransientsDropped);
            }
            return self.seat_says(now, (key, by), (at, group, ask), fx);
        }
        let most = self.settings.limits.chat.rooms_a_session_max;
        let is_entering = matches!(ask, OccupancyAsk::Enter(_));
        let has_place =
            key.is_none_or(|key| !is_entering || self.looks.begin(now, (key, &group), most));
        let is_move = is_entering || matches!(ask, OccupancyAsk::Rename(_));
        let most = self.settings.limits.chat.presence_changes_a_minute_max;
        if let Some(key) = key.filter(|_| has_place && is_move)
            && !self.looks.moves(now, (key, &group), most)
        {
            self.looks.fails(key, &group);
            let why = ChatFault::RateLimited;
            return self.answer_session((from, session), ChatDelivery::Failed { number, why }, fx);
        }
        let asked = Box::new(RoomAsked { by, address, at, group, muted, ask });
        let may = !is_wrong && has_place;
        if !may || !self.begin(|flow| self::ask(flow, wait, key, asked)) {
            let why = if may { ChatFault::Busy } else { ChatFault::Invalid };
            self.answer_session((from, session), ChatDelivery::Failed { number, why }, fx);
        }
    }

    /// Takes how a session is in a room, at its pace, or that it leaves.
    fn seat_says(
        &mut self,
        now: Now,
        (key, by): (Option<Key>, TimelineId),
        (at, group, ask): (SeatAt, AccountAddress, OccupancyAsk),
        fx: &mut Effects,
    ) {
        let show = match (ask, key) {
            (OccupancyAsk::Show(show), Some(key)) => {
                fx.counters.count(ChatCounter::Transients);
                let most = self.settings.limits.chat.presence_changes_a_minute_max;
                let Some(show) = self.looks.says(now, (key, &group), show, most) else { return };
                show
            }
            // The giver of an errand keeps the pace itself.
            (OccupancyAsk::Show(show), None) => show,
            (_, key) => {
                if let Some(key) = key {
                    self.looks.end(key, &group);
                }
                return self.leaves_go(now, SeatsLeft { group, all: vec![(by, at)] }, fx);
            }
        };
        self.seat_goes(now, SeatSaid { by, at, group, show }, fx);
    }

    /// Takes the answer of a room's home for a device of this shard; returns what the device is
    /// told. `leaving`: the word by which it would leave.
    fn room_told(
        &mut self,
        now: Now,
        (key, number): (Option<Key>, u32),
        leaving: SeatsLeft,
        result: Result<PeerReply, ChatFault>,
        fx: &mut Effects,
    ) -> ChatDelivery {
        let group = leaving.group.clone();
        match result {
            Ok(PeerReply::Room(mut entered)) => {
                let nick = entered.own.nick.clone();
                // The session may have ended meanwhile, or left.
                if key.is_some_and(|key| !self.looks.enters(key, &group, nick)) {
                    self.leaves_go(now, leaving, fx);
                    return ChatDelivery::Failed { number, why: ChatFault::NotMember };
                }
                entered.number = number;
                ChatDelivery::RoomEntered(entered)
            }
            Ok(PeerReply::Occupant(occupant)) => ChatDelivery::Occupant { number, occupant },
            Ok(PeerReply::Occupants(occupants)) => ChatDelivery::Occupants { number, occupants },
            Ok(PeerReply::Renamed(nick)) => {
                key.map(|key| self.looks.enters(key, &group, nick));
                ChatDelivery::Done { number }
            }
            Ok(_) => ChatDelivery::Done { number },
            Err(why) => {
                // Without an answer in time the home may have given it a seat.
                if key.is_some_and(|key| self.looks.fails(key, &group)) && why == ChatFault::Busy {
                    self.leaves_go(now, leaving, fx);
                }
                ChatDelivery::Failed { number, why }
            }
        }
    }

    /// Sends how a device is in a room to the home of the group, which may be here.
    pub(crate) fn seat_goes(&mut self, now: Now, said: SeatSaid, fx: &mut Effects) {
        let conversation = conversation_of(self.settings.home, &said.group);
        let owner = self.settings.shard_at(conversation);
        if owner == self.settings.shard {
            self.for_group(now, conversation, GroupTask::Seat(Box::new(said)), fx);
        } else {
            fx.peer_messages.push((owner, ChatWord::SeatSaid(Box::new(said))));
        }
    }

    /// Sends to the home of a group, which may be here, that devices are in its room no more.
    pub(crate) fn leaves_go(&mut self, now: Now, left: SeatsLeft, fx: &mut Effects) {
        let conversation = conversation_of(self.settings.home, &left.group);
        let owner = self.settings.shard_at(conversation);
        if owner == self.settings.shard {
            self.leave_room(now, conversation, &left.all, fx);
        } else {
            fx.peer_messages.push((owner, ChatWord::SeatsLeft(Box::new(left))));
        }
    }

    /// Gives a device a seat in the room of a group that a flow has entered.
    fn enters_room(
        &mut self,
        now: Now,
        conversation: TimelineId,
        asked: RoomAsked,
        fx: &mut Effects,
    ) -> Result<RoomEntered, ChatFault> {
        let RoomAsked { by: inbox, address: account, at, group, muted, ask } = asked;
        let OccupancyAsk::Enter(entry) = ask else { return Err(ChatFault::Invalid) };
        let Entry { nick, mut show, password, makes } = *entry;
        let state = self.groups.state(conversation)?;
        let is_guess = password.is_some() && !state.rules().password.is_empty();
        let is_foreign = self.settings.is_foreign(&account);
        let by = if is_foreign { account.domain() } else { account.as_str() };
        let guesser = self.settings.home.of(&[group.as_str().as_bytes(), b" ", by.as_bytes()]);
        if is_guess && self.guesses.take(now, guesser, 1).is_err() {
            return Err(ChatFault::RateLimited);
        }
        let standing = state.may_enter(inbox, (&account, password.as_deref()));
        if is_guess && standing != Err(ChatFault::BadPassword) {
            self.guesses.give(guesser, 1);
        }
        let standing = match standing {
            // Others than its members do not find a room that is being made (10.1.1).
            Err(ChatFault::NotMember) if self.occupants.is_being_made(conversation) => {
                return Err(ChatFault::UnknownAccount);
            }
            standing => standing?,
        };
        if state.reserves(&group, &nick, &account) {
            return Err(ChatFault::Conflict);
        }
        let is_silent = self.occupants.one_of(conversation, inbox).map(|it| it.silent);
        if is_silent.unwrap_or(standing.1) {
            show = show.silenced(); // a status would be a message
        }
        let (title, titled_by) = (state.title().into(), state.titled_by());
        let occupants_max = state.rules().occupants_max as usize;
        // A device that enters by another name than it has takes that name.
        let room = self.occupants.room(conversation);
        let was = room.and_then(|room| room.at(inbox, &at));
        if was.is_some_and(|was| key_of(&was.nick) != key_of(&nick)) {
            self.renames_in_room(conversation, (inbox, &at, muted), &nick, fx)?;
        }
        let limits = &self.settings.limits.chat;
        let shown_max = limits.room_presences_max as usize;
        let most = SeatsMax {
            a_room: limits.room_devices_max as usize,
            occupants: if occupants_max == 0 { usize::MAX } else { occupants_max },
            all: limits.room_devices_known_max as usize,
        };
        let newcomer = Newcomer { inbox, account, nick, at, show, standing };
        let (told, own, is_new) = self.occupants.enter((conversation, &group), newcomer, most)?;
        let room = self.occupants.room(conversation).ok_or(ChatFault::StoreFailed)?;
        if makes && own.role == Some(GroupRole::Owner) && room.seats == 1 {
            room.maker = Some(inbox);
        }
        let number = if is_new { room.next_number(shown_max) } else { None };
        let last = room.last;
        let others = room.others(&own, shown_max);
        if let Some(number) = number {
            let event = RoomEvent::Is(own.clone(), None);
            self.tell_room(RoomNews { group: group.clone(), number, event }, &told, fx);
        }
        Ok(RoomEntered { number: 0, group, last, own, others, title, titled_by })
    }

    /// Gives the occupant of a device another name, unless it may not say anything: a name is heard
    /// by everybody.
    fn renames_in_room(
        &mut self,
        conversation: TimelineId,
        (by, at, muted): (TimelineId, &SeatAt, bool),
        nick: &str,
        fx: &mut Effects,
    ) -> Result<Box<str>, ChatFault> {
        let room = self.occupants.room(conversation).ok_or(ChatFault::NotMember)?;
        if muted || room.at(by, at).is_some_and(|it| it.silent) {
            return Err(ChatFault::Forbidden);
        }
        let (before, occupant) = room.renames(by, at, nick)?;
        let now_is = occupant.nick.clone();
        if before != now_is {
            self.news(conversation, by, RoomEvent::Renamed(before, occupant), fx);
        }
        Ok(now_is)
    }

    /// Takes how a device is in the room of a group that is at home here.
    pub(super) fn seat_in_group(
        &mut self,
        conversation: TimelineId,
        said: SeatSaid,
        fx: &mut Effects,
    ) {
        let SeatSaid { by, at, show, .. } = said;
        let Some(room) = self.occupants.room(conversation) else { return };
        let is_silent = room.at(by, &at).is_some_and(|it| it.silent);
        let show = if is_silent { show.silenced() } else { show };
        if let Some(occupant) = room.shows(by, &at, show) {
            self.news(conversation, by, RoomEvent::Is(occupant, None), fx);
        }
    }

    /// Takes devices out of the room of a group that is at home here. That needs no state of the
    /// group, and nothing refuses it. All are out before anybody hears of it.
    fn leave_room(
        &mut self,
        now: Now,
        conversation: TimelineId,
        all: &[(TimelineId, SeatAt)],
        fx: &mut Effects,
    ) {
        let leaves = all.iter().filter_map(|(by, at)| {
            let left = self.occupants.leave((conversation, *by), at);
            left.map(|(occupant, rest)| (*by, occupant, rest))
        });
        let left: Vec<_> = leaves.collect();
        if left.is_empty() {
            return;
        }
        for (by, occupant, rest) in left {
            match rest {
                Some(true) => self.news(conversation, by, RoomEvent::Is(occupant, None), fx),
                Some(false) => {}
                None => {
                    let event = RoomEvent::Gone(occupant, RoomExit::Left);
                    self.news(conversation, by, event, fx);
                }
            }
        }
        self.is_left(now, conversation);
    }

    /// Tells a room what has happened to an occupant of this account; in a large room only its own
    /// devices.
    fn news(
        &mut self,
        conversation: TimelineId,
        inbox: TimelineId,
        event: RoomEvent,
        fx: &mut Effects,
    ) {
        let Some((to, number)) = self.audience_of(conversation, inbox) else { return };
        let Some(room) = self.occupants.room(conversation) else { return };
        let group = room.group.clone();
        self.tell_room(RoomNews { group, number, event }, &to, fx);
    }

    /// The devices that are told of an occupant of this account, and the number of those news.
    fn audience_of(
        &mut self,
        conversation: TimelineId,
        inbox: TimelineId,
    ) -> Option<(Hearers, u64)> {
        let most = self.settings.limits.chat.room_presences_max as usize;
        let room = self.occupants.room(conversation)?;
        match room.next_number(most) {
            Some(number) => Some((room.all(), number)),
            None => Some((room.own(inbox), 0)),
        }
    }

    /// Shows all devices of an account out of a room.
    pub(super) fn shows_out(
        &mut self,
        now: Now,
        (conversation, inbox): (TimelineId, TimelineId),
        how: &RoomExit,
        fx: &mut Effects,
    ) {
        let Some(room) = self.occupants.room(conversation) else { return };
        let (group, all) = (room.group.clone(), room.of(inbox));
        let told: Vec<_> =
            (0..all.len()).filter_map(|_| self.audience_of(conversation, inbox)).collect();
        self.occupants.remove(conversation, inbox);
        for (occupant, (to, number)) in all.into_iter().zip(told) {
            let event = RoomEvent::Gone(occupant, how.clone());
            self.tell_room(RoomNews { group: group.clone(), number, event }, &to, fx);
        }
        self.is_left(now, conversation);
    }

    /// A temporary group ends when nobody is in its room any more.
    fn is_left(&mut self, now: Now, conversation: TimelineId) {
        if self.occupants.seats_of(conversation) == 0 {
            self.temporaries.leave(now, conversation);
        }
    }

    /// The name in a room of an account that does something there by a device: that of the device's
    /// occupant, of another one of the account, or the name that it would have.
    pub(super) fn nick_there(
        &self,
        (conversation, inbox): (TimelineId, TimelineId),
        (group, account, device): (&AccountAddress, &AccountAddress, &str),
    ) -> Box<str> {
        let occupant = self.occupants.one_by(conversation, inbox, device);
        let nick = occupant.map(|it| it.nick.clone());
        nick.unwrap_or_else(|| nick_of(group, account).into())
    }

    /// Follows a change of a group in its room: roles change, or occupants are shown out.
    pub(super) fn room_changes(
        &mut self,
        now: Now,
        conversation: TimelineId,
        ((by, nick), change): ((&AccountAddress, &str), &GroupChange),
        fx: &mut Effects,
    ) {
        let home = self.settings.home;
        let Some(room) = self.occupants.room(conversation) else { return };
        let named = change.concerned().iter().map(|one| one.address.inbox(home, one.id));
        let (named, everybody): (Vec<_>, _) = (named.collect(), room.accounts());
        let actor = || {
            let reason = change.reason().into();
            Box::new(RoomActor { by: by.clone(), nick: nick.into(), reason })
        };
        let Some(known) = self.groups.known.get(&conversation) else { return };
        let is_unlocked = known.state.is_unlocked();
        let is_stranger = |inbox: &TimelineId| known.state.member(*inbox).is_err();
        let (who, exit) = match change.verb {
            GroupVerb::Create
            | GroupVerb::Rename
            | GroupVerb::Describe
            | GroupVerb::Reveal
            | GroupVerb::Hide
            | GroupVerb::Persist
            | GroupVerb::Unpersist
            | GroupVerb::Unban
            | GroupVerb::Unlock
            | GroupVerb::Set
            | GroupVerb::Invite => return,
            GroupVerb::Dissolve => {
                let venue = change.venue().cloned();
                (everybody, Some(RoomExit::Dissolved(change.reason().into(), venue)))
            }
            GroupVerb::Ban => (named, Some(RoomExit::Banned(actor()))),
            GroupVerb::Leave => (named, Some(RoomExit::Left)),
            // In an open room it is a visitor from now on (9.4).
            GroupVerb::Remove if is_unlocked => (named, None),
            GroupVerb::Remove => (named, Some(RoomExit::Removed(actor()))),
            GroupVerb::Lock => {
                let strangers = everybody.into_iter().filter(is_stranger).collect();
                (strangers, Some(RoomExit::Locked(actor())))
            }
            GroupVerb::Close | GroupVerb::Open | GroupVerb::HandOver => (everybody, None),
            GroupVerb::Add
            | GroupVerb::Join
            | GroupVerb::Promote
            | GroupVerb::Demote
            | GroupVerb::AddOwner
            | GroupVerb::RemoveOwner
            | GroupVerb::Mute
            | GroupVerb::Unmute => (named, None),
        };
        for inbox in who {
            // The group has decided it now.
            if matches!(change.verb, GroupVerb::Mute | GroupVerb::Unmute)
                && let Some(room) = self.occupants.room(conversation)
            {
                room.sets_role(inbox, None);
            }
            match &exit {
                Some(how) => self.shows_out(now, (conversation, inbox), how, fx),
                None => self.stands_otherwise(conversation, inbox, &actor(), fx),
            }
        }
    }

    pub(super) fn stands_otherwise(
        &mut self,
        conversation: TimelineId,
        inbox: TimelineId,
        actor: &RoomActor,
        fx: &mut Effects,
    ) {
        let Some(known) = self.groups.known.get(&conversation) else { return };
        let standing = known.state.standing(inbox);
        let Some(room) = self.occupants.room(conversation) else { return };
        for occupant in room.stands(inbox, standing) {
            let event = RoomEvent::Is(occupant, Some(Box::new(actor.clone())));
            self.news(conversation, inbox, event, fx);
        }
    }

    /// Hands a stored message of a group to its room: to devices whose accounts have no inbox with
    /// the group, and to other servers.
    pub(crate) fn room_hears(
        &mut self,
        conversation: TimelineId,
        message: &Arc<ChatMessage>,
        Abroad { all: to }: Abroad,
        fx: &mut Effects,
    ) {
        let room = self.occupants.room(conversation);
        let strangers = room.map(|room| (room.strangers(), room.all()));
        let is_abroad = strangers.as_ref().is_some_and(|(_, all)| !all.abroad.is_empty());
        if !to.is_empty() || is_abroad {
            let abroad = strangers.as_ref().map_or(0, |(_, all)| all.abroad.len());
            fx.counters.count_by(ChatCounter::ForeignSent, to.len().max(abroad) as u64);
            let word = RoomWord { message: message.clone(), to };
            fx.foreign.push(ForeignWord::Room(Box::new(word)));
        }
        if let Some((strangers, _)) = strangers.filter(|(it, _)| !it.here.is_empty()) {
            let (group, event) = (message.to.clone(), RoomEvent::Said(message.clone()));
            let news = Arc::new(RoomNews { group: group.clone(), number: 0, event });
            self.tell_seats(&group, &strangers, &ChatDelivery::RoomNews(news), fx);
        }
    }

    /// Delivers a transient of a group to devices in its room whose accounts have no inbox with it.
    pub(crate) fn transient_to_strangers(
        &mut self,
        (conversation, by): (TimelineId, TimelineId),
        transient: &Arc<Transient>,
        fx: &mut Effects,
    ) {
        let Some(room) = self.occupants.room(conversation) else { return };
        let mut to = room.strangers();
        to.here = to
            .here
            .iter()
            .map(|(shard, all)| {
                (*shard, all.iter().copied().filter(|(inbox, _)| *inbox != by).collect())
            })
            .collect();
        self.tell_seats(&transient.to, &to, &ChatDelivery::Transient(transient.clone()), fx);
    }

    /// Whether an account may say something in a group of this shard: as a member, or in its room.
    pub(crate) fn may_speak(
        &self,
        conversation: TimelineId,
        by: TimelineId,
    ) -> Result<(), ChatFault> {
        let group = self.groups.known.get(&conversation).ok_or(ChatFault::StoreFailed)?;
        // In the room a moderator may have decided it.
        match self.occupants.one_of(conversation, by) {
            Some(it) if it.silent => Err(ChatFault::Muted),
            Some(_) => Ok(()),
            None => group.state.may_speak(by),
        }
    }

    /// The number of the first message of a group of this shard that an account may read: as a
    /// member, or in its open room.
    pub(crate) fn reads_since(
        &self,
        conversation: TimelineId,
        reader: TimelineId,
    ) -> Result<u64, ChatFault> {
        let group = self.groups.known.get(&conversation).ok_or(ChatFault::StoreFailed)?;
        let of_visitor = || {
            let is_in = self.occupants.one_of(conversation, reader).is_some();
            group.state.unlocked_since().filter(|_| is_in)
        };
        let since = group.state.member(reader).map(|it| it.since);
        since.or_else(|fault| of_visitor().ok_or(fault))
    }

    pub(super) fn tell_room(&mut self, news: RoomNews, to: &Hearers, fx: &mut Effects) {
        let (group, news) = (news.group.clone(), Arc::new(news));
        if !to.abroad.is_empty() {
            fx.foreign.push(ForeignWord::RoomNews(news.clone(), to.abroad.clone()));
        }
        self.tell_seats(&group, to, &ChatDelivery::RoomNews(news), fx);
    }

    /// Sends a delivery to the sessions in a room, at their shards.
    fn tell_seats(
        &mut self,
        group: &AccountAddress,
        to: &Hearers,
        delivery: &ChatDelivery,
        fx: &mut Effects,
    ) {
        for (shard, to) in to.here.iter() {
            let (to, delivery, group) = (to.clone(), delivery.clone(), group.clone());
            let told = SeatsTold { to, group, delivery };
            if *shard == self.settings.shard {
                self.seats_told(&told, fx);
            } else {
                fx.peer_messages.push((*shard, ChatWord::SeatsTold(Box::new(told))));
            }
        }
    }

    /// Delivers news of a room to sessions of this shard. Those that are not in the room leave it
    /// once more, all by one word.
    pub(crate) fn seats_told(&mut self, told: &SeatsTold, fx: &mut Effects) {
        let SeatsTold { to, group, delivery } = told;
        let event = match delivery {
            ChatDelivery::RoomNews(news) => Some(&news.event),
            _ => None,
        };
        let mut left: Vec<(TimelineId, SeatAt)> = Vec::new();
        for &(by, session) in to.iter() {
            let key = session.key();
            let found = self.sessions.slab.at(key).filter(|it| it.inbox == by);
            let Some(nick) = self.looks.nick(key, group).filter(|_| found.is_some()) else {
                left.push((by, (Some(session), Box::default())));
                continue;
            };
            let is_own = |it: &Occupant| self.is_account(by, &it.account);
            match event {
                Some(RoomEvent::Gone(it, _)) if it.nick == nick && is_own(it) => {
                    self.looks.end(key, group);
                }
                // Another device of the occupant may have asked for that.
                Some(RoomEvent::Renamed(before, it)) if *before == nick && is_own(it) => {
                    self.looks.enters(key, group, it.nick.clone());
                }
                _ => {}
            }
            let is_from = match event {
                Some(RoomEvent::Whispered(it, _) | RoomEvent::Relayed(it, _)) => Some(it),
                _ => None,
            };
            if let Some(it) = is_from
                && self.people.blocks(by, &it.account)
            {
                fx.counters.count(ChatCounter::TransientsDropped);
                continue;
            }
            if let Some(session) = self.sessions.slab.at(key) {
                fx.counters.count(ChatCounter::TransientsDelivered);
                fx.deliveries.push((session.conn, delivery.clone()));
            }
        }
        // At once: behind a later request to enter, it would end what that began. Here it is on its
        // way already.
        let owner = self.settings.shard_at(conversation_of(self.settings.home, group));
        if !left.is_empty() && owner != self.settings.shard {
            let left = SeatsLeft { group: group.clone(), all: left };
            fx.peer_messages.push((owner, ChatWord::SeatsLeft(Box::new(left))));
        }
    }

    fn is_account(&self, inbox: TimelineId, account: &AccountAddress) -> bool {
        self.sessions.online.get(&inbox).is_some_and(|it| it.address == *account)
    }
}
