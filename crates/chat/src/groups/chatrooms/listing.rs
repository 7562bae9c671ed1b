//! Requests to a chatroom that do not change it: to send a message there, and to list its sessions.
//!
//! Only the shards with sessions in the room know which they are: a list is read from one shard to
//! the next. Invariant: only sessions in the room get a list, and operators.

use super::home::Chatroom;
use super::row::{By, ChatroomRow};
use super::seats::LIST_VERSION;
use super::words::{ChatroomWord, PageAsked, Saying};
use crate::groups::members::MembersAsked;
use crate::sessions::{Asker, Requester};
use crate::word::ReplyTo;
use crate::{Chat, Effects};
use base::time::Now;
use model::account::{AccountAddress, AccountId};
use model::chat::{
    ChatFault, ChatroomStatus, GroupMember, MemberStatus, MembersPage, NewMessage, RoomRules,
};

impl Chat {
    /// The message of a device for a chatroom that it is in, for the room's home.
    pub(crate) fn saying(
        &self,
        wait: Requester,
        asker: &Asker,
        (room, message): (AccountAddress, Box<NewMessage>),
    ) -> Result<Box<Saying>, ChatFault> {
        let (timeline, _) = self.chatroom_at(&room);
        let session = self.sessions.bound(wait.conn, wait.session);
        let is_there = session.is_some_and(|session| self.is_seated(session, timeline));
        if !is_there && !self.is_errand(wait.conn) {
            return Err(ChatFault::NotInChatroom);
        }
        let NewMessage { client_id, content, .. } = *message;
        if content.weight() > self.settings.limits.chat.chatroom_message_bytes_max as usize {
            return Err(ChatFault::TooLarge);
        }
        let Asker { inbox, address, device, is_operator, .. } = asker.clone();
        let by = By { address, inbox, is_operator };
        Ok(Box::new(Saying { room, by, device, client_id, content }))
    }

    /// Whether a device may list the sessions in a chatroom: those in it may, and operators.
    pub(crate) fn may_list_chatroom(
        &self,
        wait: Requester,
        asked: &MembersAsked,
    ) -> Result<(), ChatFault> {
        let (timeline, _) = self.chatroom_at(&asked.group);
        let key = self.sessions.bound(wait.conn, wait.session);
        let is_there = key.is_some_and(|key| self.is_seated(key, timeline));
        if asked.is_operator || is_there { Ok(()) } else { Err(ChatFault::NotInChatroom) }
    }

    /// Replies with a page of the sessions on this shard.
    pub(super) fn list_seats(&mut self, asked: PageAsked, fx: &mut Effects) {
        let PageAsked { to, room, row, total, from, skip, count } = asked;
        let (timeline, _) = self.chatroom_at(&room);
        let mut page = page_of(room, &row, (total, from));
        if let Some(hall) = self.chatrooms.seats.rooms.get(&timeline) {
            let keys = hall.seats.keys().skip(skip as usize).take(count.into());
            let members = keys.filter_map(|key| {
                let inbox = self.sessions.slab.at(*key)?.inbox;
                let address = self.sessions.online.get(&inbox)?.address.clone();
                let (role, muted) = (row.role(&address, inbox), row.is_muted(&address));
                let member = GroupMember { address, id: AccountId(0) };
                Some(MemberStatus { member, role, muted, reason: None })
            });
            page.members = members.collect();
        }
        self.tell_listed(to, Ok(Box::new(page)), fx);
    }

    /// Asks the shard where the sessions are for a page of a chatroom that is at home here.
    pub(crate) fn list_chatroom(
        &mut self,
        now: Now,
        to: ReplyTo,
        MembersAsked { group: room, from, count, .. }: &MembersAsked,
        fx: &mut Effects,
    ) {
        let (from, count) = (*from, *count);
        let (timeline, _) = self.chatroom_at(room);
        let home = self.chatrooms.homes.known.get(&timeline);
        let Some((home, row)) = home.and_then(|it| Some((it, it.row.clone()?))) else {
            return self.tell_listed(to, Err(ChatFault::NoChatroom), fx);
        };
        let (total, mut skip) = (home.here(), from);
        let found = home.shards.iter().find(|(_, it)| {
            let is_there = skip < it.here;
            skip -= if is_there { 0 } else { it.here };
            is_there
        });
        let room = room.clone();
        match found.map(|(shard, _)| *shard) {
            Some(shard) => {
                let asked = Box::new(PageAsked { to, room, row, total, from, skip, count });
                self.tell_chatroom(now, shard, ChatroomWord::List(asked), fx);
            }
            None => {
                let page = page_of(room, &row, (total, from));
                self.tell_listed(to, Ok(Box::new(page)), fx);
            }
        }
    }

    /// The chatrooms at home here, behind one of them, in the order of their addresses.
    pub(crate) fn chatrooms_here(
        &self,
        after: Option<&AccountAddress>,
        count: usize,
    ) -> Vec<ChatroomStatus> {
        let all = self.chatrooms.homes.known.values();
        let all = all.filter(|it| after.is_none_or(|after| it.room > *after));
        let of = |it: &Chatroom| {
            let row = it.row.as_ref()?;
            let (owner, banned) = (row.owner.0.clone(), row.banned() as u32);
            Some(ChatroomStatus { room: it.room.clone(), owner, state: it.state(), banned })
        };
        let mut found: Vec<ChatroomStatus> = all.filter_map(of).collect();
        found.sort_unstable_by(|one, other| one.room.cmp(&other.room));
        found.truncate(count);
        found
    }
}

/// A page without members.
fn page_of(room: AccountAddress, row: &ChatroomRow, (total, from): (u32, u32)) -> MembersPage {
    let (title, closed) = (row.title.clone(), row.quiet);
    let (number, version, members) = (0, LIST_VERSION, Vec::new());
    let (description, unlocked) = (Box::default(), true);
    let (public, temporary) = (false, false);
    MembersPage {
        number,
        group: room,
        version,
        title,
        description,
        closed,
        unlocked,
        public,
        temporary,
        protected: false,
        rules: RoomRules::default(),
        occupants: total,
        own: None,
        total,
        from,
        members,
    }
}
