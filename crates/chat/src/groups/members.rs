//! Lists of members: a device asks, and the group's home answers from its state.
//!
//! ```text
//! Members ─► home of the group ─► its state (read once) ─► a member? ─► a page of it ─► Members
//! ```
//! Invariant: a page has the group's state at the answer, whatever was asked for; only members get
//! one. This file knows nothing of who is online.

use crate::groups::conversation_of;
use crate::groups::state::GroupState;
use crate::service::flow::Flow;
use crate::sessions::{Asker, Requester};
use crate::word::{PeerReply, PeerRequest, ReplyTo};
use crate::{Chat, Effects};
use base::encoding::Encoding;
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatFault, MEMBERS_PAGE_MAX, MembersPage, MembersRange};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef};
use model::timeline::TimelineId;

/// Maximum of lists under way, per shard. A further one is answered as busy.
const LISTINGS_MAX: usize = 16_384;

/// A question for the members of a group, for its home.
#[derive(Debug, Encoding)]
pub struct MembersAsked {
    pub(crate) group: AccountAddress,
    /// The inbox of the asker.
    pub(crate) reader: TimelineId,
    /// The asker is an operator.
    pub(crate) is_operator: bool,
    /// The list of banned accounts is wanted instead.
    pub(crate) banned: bool,
    pub(crate) version: u64,
    pub(crate) from: u32,
    pub(crate) count: u16,
}

/// A page, or why it is refused.
pub(crate) type Listed = Result<Box<MembersPage>, ChatFault>;

/// Lists the members of a group, or the sessions in a chatroom, for a device.
async fn members(mut flow: Flow, wait: Requester, asked: Box<MembersAsked>) {
    flow.state().0.listings += 1;
    let result = page_of(&mut flow, wait, asked).await;
    let (chat, _, fx) = flow.state();
    chat.listings -= 1;
    chat.answer_members(wait, result, fx);
}

async fn page_of(flow: &mut Flow, wait: Requester, asked: Box<MembersAsked>) -> Listed {
    let (chat, _, _) = flow.state();
    if asked.group.is_chatroom() {
        chat.may_list_chatroom(wait, &asked)?;
    }
    let home = chat.settings.shard_at(conversation_of(chat.settings.home, &asked.group));
    match flow.request(home, PeerRequest::Members(asked)).await? {
        PeerReply::Members(page) => Ok(page),
        _ => Err(ChatFault::Busy),
    }
}

/// Replies to a shard with a page of the members of a group that is at home here.
pub(crate) async fn list(mut flow: Flow, to: ReplyTo, asked: Box<MembersAsked>) {
    let page = page_here(&mut flow, &asked).await;
    let (chat, _, fx) = flow.state();
    chat.tell_listed(to, page, fx);
}

async fn page_here(flow: &mut Flow, asked: &MembersAsked) -> Listed {
    let home = flow.state().0.settings.home;
    let conversation = conversation_of(home, &asked.group);
    flow.group(conversation, 0).await?;
    let (chat, _, _) = flow.state();
    let mut page = chat.groups.state(conversation)?.page(asked)?;
    page.occupants = chat.occupants.len_of(conversation) as u32;
    Ok(page)
}

impl Chat {
    /// Takes a device's request for the members of a group.
    pub(crate) fn members(
        &mut self,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        range: MembersRange,
        fx: &mut Effects,
    ) {
        let Some(Asker { inbox: reader, address, is_operator, .. }) = self.asker(from, session)
        else {
            return;
        };
        let wait = Requester { conn: from, session, number };
        let group = range.group.within(address.domain());
        let is_one = group.is_group() || group.is_chatroom();
        if !is_one || !(1..=MEMBERS_PAGE_MAX).contains(&range.count) {
            return self.answer_members(wait, Err(ChatFault::Invalid), fx);
        }
        let MembersRange { version, from, count, banned, .. } = range;
        let asked = MembersAsked { group, reader, is_operator, banned, version, from, count };
        let asked = Box::new(asked);
        if self.listings >= LISTINGS_MAX || !self.begin(|flow| members(flow, wait, asked)) {
            self.answer_members(wait, Err(ChatFault::Busy), fx);
        }
    }

    /// Replies with a page to the flow that asked for it.
    pub(crate) fn tell_listed(&mut self, to: ReplyTo, result: Listed, fx: &mut Effects) {
        self.reply(to, result.map(PeerReply::Members), fx);
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
}

impl GroupState {
    /// The page for a member's question.
    pub(crate) fn page(&mut self, asked: &MembersAsked) -> Listed {
        let is_shown = match (asked.is_operator, asked.banned) {
            (true, _) => self.is_there().map(|()| true)?,
            (false, true) => self.may_list_banned(asked.reader).map(|()| true)?,
            // The settings of a group that any account may join, or find, are public; its members
            // are not.
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
        let is_owner = self.member(asked.reader).is_ok_and(|it| it.is_owner());
        let mut rules = self.rules().clone();
        if !is_owner {
            rules.password = Box::default();
        }
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
            protected: !self.rules().password.is_empty(),
            rules,
            occupants: 0,
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
