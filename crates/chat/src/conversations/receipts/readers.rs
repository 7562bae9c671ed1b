//! Who has read what: a device asks, and the answer is put together from what each reader's home
//! knows.
//!
//! ```text
//! of two:     the other's account ─┐
//! of a group: its home, members   ─┴► positions, a question a shard ─► counted, a page of them
//! ```
//! Invariant: each question is answered once; who is no member of a group, or asks of one that is
//! too large, hears of nobody.

use crate::accounts::FOUND_BYTES;
use crate::conversations::receipts::positions::{PositionsAsked, PositionsTold, ReaderPosition};
use crate::groups::state::GroupState;
use crate::groups::{self, GroupTask};
use crate::send::conversation_of;
use crate::service::flow::Flow;
use crate::sessions::{Asker, Requester};
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::time::{Instant, Now, earliest};
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatFault, READERS_PAGE_MAX, Reader, ReadersPage, ReadersRange};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef, ShardId};
use model::timeline::TimelineId;
use std::collections::HashMap;

/// A question that is not answered.
pub(crate) struct Asking {
    wait: Requester,
    /// The inbox of whoever asks.
    inbox: TimelineId,
    with: AccountAddress,
    range: ReadersRange,
    others: Vec<(AccountAddress, TimelineId)>,
    found: HashMap<TimelineId, ReaderPosition>,
    /// Shards that have not answered.
    left: usize,
}

/// Who has to be asked about a group, as its home hears of it.
#[derive(Debug)]
pub struct ReadersSought {
    /// The asker's own.
    pub(crate) number: u64,
    pub(crate) group: AccountAddress,
    /// The inbox of whoever asks.
    pub(crate) reader: TimelineId,
    /// An operator asks.
    pub(crate) is_operator: bool,
}

/// Others of a group, with their inboxes, as they travel between shards.
pub(crate) type ReadersFound = Result<Box<[(AccountAddress, TimelineId)]>, ChatFault>;

/// A device wants to know how far another account is.
async fn ask_other(
    mut flow: Flow,
    (wait, asker): (Requester, Asker),
    with: AccountAddress,
    range: ReadersRange,
) {
    let other = flow.reach(&asker, &with, FOUND_BYTES).await;
    let (chat, now, fx) = flow.state();
    let other = match other {
        Ok(other) => other,
        Err(fault) => return chat.answer_readers(wait, Err(fault), fx),
    };
    let number = chat.puts_question((wait, asker.inbox), with.clone(), range);
    let others = if other == asker.inbox { vec![] } else { vec![(with, other)] };
    chat.readers_found(now, number, Ok(others.into()), fx);
}

impl Chat {
    /// A device wants to know who has read what.
    pub(crate) fn readers(
        &mut self,
        now: Now,
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
            () if self.receipts.asked.len() >= most => Some(ChatFault::Busy),
            () if with.is_group() && !shares => Some(ChatFault::ReadsPrivate),
            () => None,
        };
        if let Some(fault) = fault {
            return self.answer_readers(wait, Err(fault), fx);
        }
        if !with.is_group() {
            if !self.begin(|flow| ask_other(flow, (wait, asker), with, range)) {
                self.answer_readers(wait, Err(ChatFault::Busy), fx);
            }
            return;
        }
        let (inbox, is_operator) = (asker.inbox, asker.is_operator);
        let conversation = groups::conversation_of(self.settings.home, &with);
        let number = self.puts_question((wait, inbox), with.clone(), range);
        let owner = self.settings.shard_at(conversation);
        let sought = Box::new(ReadersSought { number, group: with, reader: inbox, is_operator });
        if owner == self.settings.shard {
            self.seek_readers(now, owner, sought, fx);
        } else {
            fx.peer_messages.push((owner, ChatWord::SeekReaders(sought)));
        }
    }

    fn puts_question(
        &mut self,
        (wait, inbox): (Requester, TimelineId),
        with: AccountAddress,
        range: ReadersRange,
    ) -> u64 {
        let (others, found) = (Vec::new(), HashMap::new());
        self.receipts.asked.put(Asking { wait, inbox, with, range, others, found, left: 0 })
    }

    /// Some shard wants to know who is in a group that is at home here.
    pub(crate) fn seek_readers(
        &mut self,
        now: Now,
        from: ShardId,
        sought: Box<ReadersSought>,
        fx: &mut Effects,
    ) {
        let conversation = groups::conversation_of(self.settings.home, &sought.group);
        self.for_group(now, conversation, GroupTask::Readers(from, sought), fx);
    }

    /// Whoever sought them is told.
    pub(crate) fn tell_readers(
        &mut self,
        now: Now,
        (to, number): (ShardId, u64),
        result: ReadersFound,
        fx: &mut Effects,
    ) {
        if to == self.settings.shard {
            return self.readers_found(now, number, result, fx);
        }
        fx.peer_messages.push((to, ChatWord::ReadersFound { number, result }));
    }

    /// It is known who is to be asked.
    pub(crate) fn readers_found(
        &mut self,
        now: Now,
        number: u64,
        result: ReadersFound,
        fx: &mut Effects,
    ) {
        let home = self.settings.home;
        let Some(asking) = self.receipts.asked.at_mut(number) else { return };
        let mut others = match result {
            Ok(others) => others.into_vec(),
            Err(fault) => return self.end_question(number, Err(fault), fx),
        };
        others.sort_unstable();
        let is_group = asking.with.is_group();
        let conversation = match (is_group, others.first()) {
            (true, _) => groups::conversation_of(home, &asking.with),
            (false, Some((_, other))) => conversation_of(home, asking.inbox, *other),
            (false, None) => return self.end_question(number, Ok(()), fx),
        };
        asking.others = others;
        let by_shard = self.settings.by_shard(asking.others.iter().map(|(_, inbox)| *inbox));
        asking.left = by_shard.len();
        if by_shard.is_empty() {
            return self.end_question(number, Ok(()), fx);
        }
        for (shard, inboxes) in by_shard {
            let inboxes = inboxes.into();
            let of_delivery = !is_group;
            let asked = Box::new(PositionsAsked { number, conversation, inboxes, of_delivery });
            if shard == self.settings.shard {
                self.positions_asked(now, shard, *asked, fx);
            } else {
                fx.peer_messages.push((shard, ChatWord::Positions(asked)));
            }
        }
    }

    /// A shard has said how far some of them are.
    pub(crate) fn positions_told(&mut self, told: PositionsTold, fx: &mut Effects) {
        let PositionsTold { number, result } = told;
        let Some(asking) = self.receipts.asked.at_mut(number) else { return };
        match result {
            Ok(found) => {
                asking.found.extend(found);
                asking.left = asking.left.saturating_sub(1);
                if asking.left == 0 {
                    self.end_question(number, Ok(()), fx);
                }
            }
            Err(fault) => self.end_question(number, Err(fault), fx),
        }
    }

    fn end_question(&mut self, number: u64, result: Result<(), ChatFault>, fx: &mut Effects) {
        let Some(asking) = self.receipts.asked.take(number) else { return };
        let wait = asking.wait;
        // Whoever asks of a group shares; of two it hears what is delivered in any case.
        let shares = self.is_errand(wait.conn) || self.shares_reads(asking.inbox);
        self.answer_readers(wait, result.map(|()| asking.page(shares)), fx);
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

    /// Whoever waited for too long is told so; when to look again.
    pub(super) fn turn_readers(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let ms_max = self.settings.limits.answer_ms_max;
        let (over, next) = self.receipts.asked.overdue(now, ms_max);
        for asking in over {
            self.answer_readers(asking.wait, Err(ChatFault::Busy), fx);
        }
        // Whoever asked for these has given up by itself.
        let (_, answering) = self.receipts.answering.overdue(now, ms_max);
        earliest([next, answering])
    }
}

impl Asking {
    /// The answer.
    fn page(self, shares: bool) -> ReadersPage {
        let Asking { with, range, others, found, .. } = self;
        let of = |inbox: &TimelineId| {
            let ReaderPosition { read, delivered } = found.get(inbox).copied().unwrap_or_default();
            ReaderPosition { read: if shares { read } else { 0 }, delivered: delivered.max(read) }
        };
        let is_wanted =
            |(_, inbox): &&(_, TimelineId)| range.seq > 0 && of(inbox).read >= range.seq;
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
}

impl GroupState {
    /// The others of a group that is not too large, for a member.
    pub(crate) fn others(&mut self, sought: &ReadersSought, most: usize) -> ReadersFound {
        if !sought.is_operator {
            self.may_list(sought.reader)?; // a channel's subscribers do not know of each other
        } else {
            self.is_there()?;
        }
        if self.len() > most {
            return Err(ChatFault::ReadersUntold);
        }
        // How far members of other servers are nobody tells us.
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
