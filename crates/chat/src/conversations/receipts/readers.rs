//! Readers of a message: a device asks, and the answer is composed of what each reader's home
//! knows.
//!
//! ```text
//! of two:     the other's account ─┐
//! of a group: its home, members   ─┴► positions, a question a shard ─► counted, a page of them
//! ```
//! Invariant: each question is answered once; an account that is no member of a group, or asks
//! about one that is too large, gets nothing of others.

use crate::accounts::FOUND_BYTES;
use crate::conversations::receipts::positions::{PositionsAsked, ReaderPosition};
use crate::groups;
use crate::groups::state::GroupState;
use crate::send::conversation_of;
use crate::service::flow::Flow;
use crate::sessions::{Asker, Requester};
use crate::word::{PeerReply, PeerRequest, ReplyTo};
use crate::{Chat, Effects};
use base::encoding::Encoding;
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatFault, READERS_PAGE_MAX, Reader, ReadersPage, ReadersRange};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef};
use model::timeline::TimelineId;
use std::collections::HashMap;

/// A question for the other members of a group, for its home.
#[derive(Debug, Encoding)]
pub struct ReadersSought {
    pub(crate) group: AccountAddress,
    /// The inbox of the asker.
    pub(crate) reader: TimelineId,
    /// The asker is an operator.
    pub(crate) is_operator: bool,
}

/// Other members or the partner, with their inboxes.
pub(crate) type Others = Vec<(AccountAddress, TimelineId)>;

/// Answers a device's question for the readers of a message.
async fn ask(
    mut flow: Flow,
    (wait, asker): (Requester, Asker),
    with: AccountAddress,
    range: ReadersRange,
) {
    flow.state().0.receipts.asked += 1;
    let page = page_of(&mut flow, (wait, &asker), with, range).await;
    let (chat, _, fx) = flow.state();
    chat.receipts.asked -= 1;
    chat.answer_readers(wait, page, fx);
}

async fn page_of(
    flow: &mut Flow,
    (wait, asker): (Requester, &Asker),
    with: AccountAddress,
    range: ReadersRange,
) -> Result<ReadersPage, ChatFault> {
    let home = flow.state().0.settings.home;
    let is_group = with.is_group();
    let (mut others, conversation) = if is_group {
        let conversation = groups::conversation_of(home, &with);
        (others_in(flow, asker, (&with, conversation)).await?, conversation)
    } else {
        let other = flow.reach(asker, &with, FOUND_BYTES).await?;
        let others = if other == asker.inbox { vec![] } else { vec![(with.clone(), other)] };
        (others, conversation_of(home, asker.inbox, other))
    };
    others.sort_unstable();
    let inboxes = others.iter().map(|(_, inbox)| *inbox);
    let by_shard = flow.state().0.settings.by_shard(inboxes);
    let mut found = HashMap::new();
    for (shard, inboxes) in by_shard {
        let (inboxes, of_delivery) = (inboxes.into(), !is_group);
        let asked = Box::new(PositionsAsked { conversation, inboxes, of_delivery });
        let reply = flow.request(shard, PeerRequest::Positions(asked)).await?;
        let PeerReply::Positions(some) = reply else { return Err(ChatFault::Busy) };
        found.extend(some);
    }
    let (chat, _, _) = flow.state();
    // An asker about a group shares; of two accounts the asker gets the delivered position in any
    // case.
    let shares = chat.is_errand(wait.conn) || chat.shares_reads(asker.inbox);
    Ok(page(with, range, (others, found), shares))
}

/// The other members of a group, from its home.
async fn others_in(
    flow: &mut Flow,
    asker: &Asker,
    (group, conversation): (&AccountAddress, TimelineId),
) -> Result<Others, ChatFault> {
    let home = flow.state().0.settings.shard_at(conversation);
    let (reader, is_operator) = (asker.inbox, asker.is_operator);
    let sought = Box::new(ReadersSought { group: group.clone(), reader, is_operator });
    match flow.request(home, PeerRequest::Readers(sought)).await? {
        PeerReply::Readers(others) => Ok(others),
        _ => Err(ChatFault::Busy),
    }
}

/// Replies to a shard with the other members of a group that is at home here.
pub(crate) async fn tell_others(mut flow: Flow, to: ReplyTo, sought: Box<ReadersSought>) {
    let others = others_here(&mut flow, &sought).await;
    let (chat, _, fx) = flow.state();
    chat.reply(to, others.map(PeerReply::Readers), fx);
}

async fn others_here(flow: &mut Flow, sought: &ReadersSought) -> Result<Others, ChatFault> {
    let conversation = groups::conversation_of(flow.state().0.settings.home, &sought.group);
    flow.group(conversation, sought.weight()).await?;
    let (chat, _, _) = flow.state();
    let most = chat.settings.limits.chat.readers_members_max as usize;
    chat.groups.state(conversation)?.others(sought, most)
}

impl Chat {
    /// Takes a device's question for the readers of a message.
    pub(crate) fn readers(
        &mut self,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        range: ReadersRange,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        let with = range.with.within(asker.address.domain());
        let shares = asker.is_operator || self.shares_reads(asker.inbox);
        let most = self.settings.limits.chat.readers_asked_max as usize;
        let fault = match () {
            () if !(1..=READERS_PAGE_MAX).contains(&range.count) => Some(ChatFault::Invalid),
            () if self.receipts.asked >= most => Some(ChatFault::Busy),
            () if with.is_group() && !shares => Some(ChatFault::ReadsPrivate),
            () if !self.begin(|flow| ask(flow, (wait, asker), with, range)) => {
                Some(ChatFault::Busy)
            }
            () => None,
        };
        if let Some(fault) = fault {
            self.answer_readers(wait, Err(fault), fx);
        }
    }

    fn answer_readers(
        &mut self,
        wait: Requester,
        result: Result<ReadersPage, ChatFault>,
        fx: &mut Effects,
    ) {
        let Requester { conn, session, number } = wait;
        let answer = match result {
            Ok(page) => {
                fx.counters.count(ChatCounter::ReadersAsked);
                ChatDelivery::Readers(Box::new(ReadersPage { number, ..page }))
            }
            Err(why) => ChatDelivery::Failed { number, why },
        };
        self.answer_session((conn, session), answer, fx);
    }
}

/// The page with these other accounts and their positions.
fn page(
    with: AccountAddress,
    range: ReadersRange,
    (others, found): (Others, HashMap<TimelineId, ReaderPosition>),
    shares: bool,
) -> ReadersPage {
    let of = |inbox: &TimelineId| {
        let ReaderPosition { read, delivered } = found.get(inbox).copied().unwrap_or_default();
        ReaderPosition { read: if shares { read } else { 0 }, delivered: delivered.max(read) }
    };
    let is_wanted = |(_, inbox): &&(_, TimelineId)| range.seq > 0 && of(inbox).read >= range.seq;
    let read = others.iter().filter(is_wanted).count() as u32;
    let total = others.len() as u32;
    let from = range.from.min(total);
    let is_group = with.is_group();
    let these = others.iter().skip(from as usize).take(range.count.into());
    let readers = these.map(|(account, inbox)| {
        let ReaderPosition { read, delivered } = of(inbox);
        let delivered = if is_group { 0 } else { delivered };
        Reader { account: account.clone(), read, delivered }
    });
    let readers = readers.collect();
    ReadersPage { number: 0, with, seq: range.seq, total, read, from, readers }
}

impl GroupState {
    /// The others of a group that is not too large, for a member.
    fn others(&mut self, sought: &ReadersSought, most: usize) -> Result<Others, ChatFault> {
        if !sought.is_operator {
            self.may_list(sought.reader)?; // a channel's subscribers do not know of each other
        } else {
            self.is_there()?;
        }
        if self.len() > most {
            return Err(ChatFault::ReadersUntold);
        }
        // Positions of members on other servers are not known.
        let all = self.with_inboxes();
        Ok(all.filter(|(_, inbox)| *inbox != sought.reader).collect())
    }
}

impl ReadersSought {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<ReadersSought>() + self.group.as_str().len()
    }
}
