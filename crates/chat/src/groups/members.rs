//! Lists of members: a device asks, and the group's home answers from what it knows.
//!
//! ```text
//! Members ─► home of the group ─► its state (read once) ─► a member? ─► a page of it ─► Members
//! ```
//! Invariant: a page is of the group as it is when it is answered, whatever was asked for; nobody
//! but a member has one. Knows nothing of who is online.

use crate::groups::state::GroupState;
use crate::groups::{GroupTask, conversation_of};
use crate::sessions::Requester;
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatFault, MEMBERS_PAGE_MAX, MembersPage, MembersRange};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef, ShardId};
use model::timeline::TimelineId;

/// Lists that may be waited for, a shard. One more is answered as busy.
const LISTINGS_MAX: usize = 16_384;

/// What is wanted of the members of a group, as its home hears of it.
#[derive(Debug)]
pub struct MembersAsked {
    /// The asker's own.
    pub(crate) number: u64,
    pub(crate) group: AccountAddress,
    /// The inbox of whoever asks.
    pub(crate) reader: TimelineId,
    /// An operator asks.
    pub(crate) is_operator: bool,
    /// Who is banned is asked, instead.
    pub(crate) banned: bool,
    pub(crate) version: u64,
    pub(crate) from: u32,
    pub(crate) count: u16,
}

/// A page as it travels between shards.
pub(crate) type Listed = Result<Box<MembersPage>, ChatFault>;

impl Chat {
    /// A device wants to know who is in a group.
    pub(crate) fn members(
        &mut self,
        now: Now,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        range: MembersRange,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        let group = range.group.within(asker.address.domain());
        if group.is_chatroom()
            && (1..=MEMBERS_PAGE_MAX).contains(&range.count)
            && self.listings.len() < LISTINGS_MAX
        {
            let number = self.listings.put(wait);
            return self.chatroom_members(now, (wait, number), (&group, &range), fx);
        }
        if !group.is_group() || !(1..=MEMBERS_PAGE_MAX).contains(&range.count) {
            return self.answer_members(wait, Err(ChatFault::Invalid), fx);
        }
        if self.listings.len() >= LISTINGS_MAX {
            return self.answer_members(wait, Err(ChatFault::Busy), fx);
        }
        let owner = self.settings.shard_at(conversation_of(self.settings.home, &group));
        let (number, reader) = (self.listings.put(wait), asker.inbox);
        let is_operator = asker.is_operator;
        let MembersRange { version, from, count, banned, .. } = range;
        let asked = Box::new(MembersAsked {
            number,
            group,
            reader,
            is_operator,
            banned,
            version,
            from,
            count,
        });
        if owner == self.settings.shard {
            self.list(now, owner, asked, fx);
        } else {
            fx.peer_messages.push((owner, ChatWord::List(asked)));
        }
    }

    /// Some shard wants a page of the members of a group that is at home here.
    pub(crate) fn list(
        &mut self,
        now: Now,
        from: ShardId,
        asked: Box<MembersAsked>,
        fx: &mut Effects,
    ) {
        if asked.group.is_chatroom() {
            let MembersAsked { number, group, from: behind, count, .. } = *asked;
            return self.list_chatroom(now, (from, number), (&group, behind, count), fx);
        }
        let conversation = conversation_of(self.settings.home, &asked.group);
        self.for_group(now, conversation, GroupTask::List(from, asked), fx);
    }

    pub(crate) fn tell_listed(
        &mut self,
        (to, number): (ShardId, u64),
        result: Listed,
        fx: &mut Effects,
    ) {
        if to == self.settings.shard {
            return self.listed(number, result, fx);
        }
        fx.peer_messages.push((to, ChatWord::Listed { number, result }));
    }

    /// The group's home has answered.
    pub(crate) fn listed(&mut self, number: u64, result: Listed, fx: &mut Effects) {
        if let Some(wait) = self.listings.take(number) {
            self.answer_members(wait, result, fx);
        }
    }

    fn answer_members(&mut self, wait: Requester, result: Listed, fx: &mut Effects) {
        let Requester { conn, session, number } = wait;
        let answer = match result {
            Ok(mut page) => {
                fx.counters.count_by(ChatCounter::MembersRead, page.members.len() as u64);
                page.number = number;
                ChatDelivery::Members(page)
            }
            Err(why) => ChatDelivery::Failed { number, why },
        };
        self.answer_session((conn, session), answer, fx);
    }

    /// Whoever waited for too long is told so; when to look again.
    pub(crate) fn turn_listings(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let (over, next) = self.listings.overdue(now, self.settings.limits.answer_ms_max);
        for wait in over {
            self.answer_members(wait, Err(ChatFault::Busy), fx);
        }
        next
    }
}

impl GroupState {
    /// The page that a member asks for.
    pub(crate) fn page(&mut self, asked: &MembersAsked) -> Listed {
        let is_shown = match (asked.is_operator, asked.banned) {
            (true, _) => self.is_there().map(|()| true)?,
            (false, true) => self.may_list_banned(asked.reader).map(|()| true)?,
            // What a group is that anybody may join, or find, is told to anybody, and not who is
            // in it.
            (false, false)
                if (self.is_unlocked() || self.is_public() || self.is_invited(asked.reader))
                    && self.member(asked.reader).is_err() =>
            {
                false
            }
            (false, false) => self.may_list(asked.reader).map(|()| true)?,
        };
        let is_present = asked.version == self.last_id;
        let total = if asked.banned { self.banned_len() } else { self.len() } as u32;
        let from = if is_present { asked.from.min(total) } else { 0 };
        let (first, count) = (from as usize, asked.count.into());
        let members = match asked.banned {
            true => self.some_banned(first, count),
            false if is_shown => self.some(first, count),
            false => Vec::new(),
        };
        let is_part = from == 0 && !members.is_empty() && members.len() < total as usize;
        let own = self.status_of(asked.reader).filter(|_| is_part && !asked.banned);
        let own = own.filter(|own| members.iter().all(|it| it.member != own.member));
        Ok(Box::new(MembersPage {
            number: 0,
            group: asked.group.clone(),
            version: self.last_id,
            title: self.title().into(),
            description: self.description().into(),
            closed: self.is_closed(),
            unlocked: self.is_unlocked(),
            public: self.is_public(),
            temporary: self.is_temporary(),
            total,
            from,
            members,
            own: own.map(Box::new),
        }))
    }
}

impl MembersAsked {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<MembersAsked>() + self.group.as_str().len()
    }
}
