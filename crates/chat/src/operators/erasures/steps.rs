//! The steps of an erasure: requests as a device would make them, then the account's rows, its
//! inbox, and its state in memory.
//!
//! Invariants: requests that failed for now are repeated after a pause, and change nothing where
//! they were carried out before; the row of the erasure is deleted after all others.

use super::{AGAIN, key_of};
use crate::Chat;
use crate::amendments::RecallAsked;
use crate::conversations::receipts::privacy;
use crate::envelope::client_id_of;
use crate::inboxes::entry::Entry;
use crate::label::Pointer;
use crate::log::Answered;
use crate::operators::errands::Owed;
use crate::service::flow::Flow;
use crate::sessions::Asker;
use crate::word::ChatWord;
use model::account::{AccountAddress, AccountId, Addressee};
use model::chat::*;
use model::counters::ChatCounter;
use model::id::ShardId;
use model::ports::chat::ErrandWhat;
use model::ports::log::{Call, Done, Page, Pull, ROWS_MAX, Read, RowHome, Table, Write};
use model::timeline::{Seq, TimelineId};
use std::time::Duration;

/// Largest number of inbox entries that are read at once, and their bytes.
const ENTRIES: usize = 64;
const BYTES: usize = 64 * 1024;

/// Largest number of conversations or contacts that are requested at once.
const PAGE: u16 = 32;

/// How often a group is offered to another owner.
const TRIES: u8 = 4;

/// Time in which messages on their way reach their inboxes.
const SETTLES: Duration = Duration::from_secs(10);

/// The flow of an erasure.
struct Eraser {
    flow: Flow,
    inbox: TimelineId,
    address: AccountAddress,
}

/// Erases an account, from the offset on up to which its messages are recalled.
pub(super) async fn erase(flow: Flow, inbox: TimelineId, address: AccountAddress) {
    let mut by = Eraser { flow, inbox, address };
    by.enter().await;
    by.recall_messages().await;
    by.leave_groups().await;
    by.remove_contacts().await;
    by.delete_nodes().await;
    by.step("rows");
    // Messages that were on their way are recalled, too.
    by.pause(SETTLES).await;
    by.recall_messages().await;
    by.delete_rows().await;
    by.delete_account().await;
    by.delete_erasure().await;
}

impl Eraser {
    /// Recalls the account's messages in its inbox, in all conversations.
    async fn recall_messages(&mut self) {
        self.step("messages");
        self.draw_messages().await;
        loop {
            let after = self.flow.state().0.erasures.open[&self.inbox].done;
            let page = self.read_inbox(after).await;
            let places = page.messages.iter().map(|placed| placed.seq);
            let Some(upto) = places.chain(page.damaged.iter().copied()).max() else { return };
            let entries = page.messages.iter().map(|placed| Entry::decode(&placed.message));
            let own: Vec<_> = entries
                .filter_map(|entry| match entry {
                    Some(Entry::Message(pointer, with)) => Some((pointer, with)),
                    _ => None,
                })
                .filter(|(pointer, _)| pointer.relation.own && pointer.recalls.is_none())
                .collect();
            let told = self.recall(own).await;
            let is_new =
                |told: &&ChatDelivery| matches!(told, ChatDelivery::Sent { again: false, .. });
            let (chat, _, fx) = self.flow.state();
            let Some(erasure) = chat.erasures.open.get_mut(&self.inbox) else { return };
            erasure.messages += told.iter().filter(is_new).count() as u64;
            if told.iter().any(fails_for_now) {
                self.pause(AGAIN).await;
                continue;
            }
            erasure.done = upto;
            chat.log.write(erasure.put(self.inbox), fx);
        }
    }

    /// Waits until the account's messages in read groups are copied to its inbox.
    async fn draw_messages(&mut self) {
        loop {
            let key = self.flow.key();
            if self.flow.state().0.has_drawn_all(self.inbox, key) {
                return;
            }
            self.pause(AGAIN).await;
        }
    }

    async fn read_inbox(&mut self, after: Seq) -> Page {
        let (timeline, count_max, bytes_max) = (self.inbox, ENTRIES, BYTES);
        let pull = Pull { timeline, from: after, backwards: false, count_max, bytes_max };
        loop {
            if self.flow.state().0.log.may_ask()
                && let Ok(Done::Page(page)) = self.flow.log(Call::Read(Read::Pull(pull))).await
            {
                return page;
            }
            self.pause(AGAIN).await;
        }
    }

    /// Recalls messages; returns the answers.
    async fn recall(&mut self, messages: Vec<(Pointer, AccountAddress)>) -> Vec<ChatDelivery> {
        let asker = Asker { is_operator: true, ..self.asker() };
        let key = self.flow.key_of_all(messages.len());
        let (chat, _, fx) = self.flow.state();
        for (Pointer { seq, conversation, .. }, with) in &messages {
            let wait = chat.puts_errand(Owed::Flow(key), asker.clone());
            let (seq, with, conversation) = (*seq, with.clone(), Some(*conversation));
            let (asker, reason) = (asker.clone(), Box::default());
            // Between two accounts the other one is notified, too.
            chat.begin_recall(RecallAsked { wait, asker, with, seq, reason, conversation }, fx);
        }
        self.flow.told(messages.len()).await
    }

    /// Leaves all groups.
    async fn leave_groups(&mut self) {
        self.step("groups");
        let (mut before, count, groups) = (Seq::MAX, PAGE, true);
        loop {
            let list = ErrandWhat::Conversations { before, count, groups };
            let ChatDelivery::Conversations(page) = self.ask(list).await else { return };
            for conversation in &page.conversations {
                self.leave_group(&conversation.with).await;
            }
            match page.conversations.last().filter(|_| page.more) {
                Some(last) => before = last.place,
                None => return,
            }
        }
    }

    /// Leaves a group; if the account owns the group, another member gets it first, and without one
    /// the group is dissolved.
    async fn leave_group(&mut self, group: &AccountAddress) {
        // Whoever is made its owner may go before the account does.
        for _ in 0..TRIES {
            let left = self.order(group, GroupVerb::Leave, None).await;
            let ChatDelivery::Failed { why: ChatFault::Forbidden, .. } = left else { return };
            let (version, from, count, banned) = (0, 0, MEMBERS_PAGE_MAX, false);
            let range = MembersRange { group: group.clone().into(), version, from, count, banned };
            let listed = self.ask(ErrandWhat::Members(Box::new(range))).await;
            let ChatDelivery::Members(page) = listed else { return };
            // A group has an owner of its server: an admin before others.
            let ours = page.members.iter().filter(|it| it.member.id != AccountId::FOREIGN);
            let others = ours.filter(|it| it.member.address != self.address);
            match others.max_by_key(|it| it.role) {
                Some(other) => {
                    let other = other.member.address.clone();
                    self.order(group, GroupVerb::AddOwner, Some(&other)).await;
                }
                None => _ = self.order(group, GroupVerb::Dissolve, None).await,
            }
        }
        // Nobody took it in time: it ends, rather than to have an owner that is no account.
        self.order(group, GroupVerb::Dissolve, None).await;
    }

    async fn order(
        &mut self,
        group: &AccountAddress,
        verb: GroupVerb,
        member: Option<&AccountAddress>,
    ) -> ChatDelivery {
        let named = member.map_or("", |it| it.as_str());
        // The id is the same for each repetition.
        let of: [&[u8]; 4] =
            [b"erase", group.as_str().as_bytes(), verb.word().as_bytes(), named.as_bytes()];
        let client_id = client_id_of(self.flow.state().0.settings.home, &of);
        let members = member.map(|it| Addressee::from(it.clone())).into_iter().collect();
        let (group, title) = (Some(group.clone().into()), "".into());
        let order = GroupOrder { group, client_id, verb, title, members };
        self.ask(ErrandWhat::Group(Box::new(order))).await
    }

    async fn remove_contacts(&mut self) {
        self.step("contacts");
        let mut range = ContactsRange { after: 0, since: 0, count: PAGE };
        loop {
            let listed = self.ask(ErrandWhat::Contacts(range)).await;
            let ChatDelivery::ContactsPage(page) = listed else { return };
            let contacts = page.contacts.iter().filter(|contact| !contact.is_gone());
            let wishes = contacts.flat_map(|it| {
                let wish = |order| ContactWish { contact: it.address.clone().into(), order };
                let unblocks = it.is_blocked.then(|| wish(ContactOrder::Unblock));
                unblocks.into_iter().chain([wish(ContactOrder::Remove)])
            });
            let wishes = wishes.map(|wish| ErrandWhat::Contact(Box::new(wish)));
            self.ask_all(wishes.collect()).await;
            if !page.more {
                return;
            }
            range = ContactsRange { after: page.upto, since: page.since, count: PAGE };
        }
    }

    async fn delete_nodes(&mut self) {
        self.step("nodes");
        let listed = self.ask(ErrandWhat::Nodes(Box::new(NodesAsk::Names))).await;
        let ChatDelivery::Nodes(answer) = listed else { return };
        let Ok(NodesFound::Names(names)) = answer.result else { return };
        let deletes = names.into_iter().map(NodesAsk::Delete);
        self.ask_all(deletes.map(|ask| ErrandWhat::Nodes(Box::new(ask))).collect()).await;
    }

    /// Deletes the account's rows, one table after the other.
    async fn delete_rows(&mut self) {
        self.step("rows");
        let (chat, _, fx) = self.flow.state();
        chat.clear_pushes(self.inbox, fx);
        for (table, prefix) in rows_of(chat, self.inbox, &self.address) {
            let read = Read::Rows { table, prefix, after: None, count: ROWS_MAX };
            // The table is read once more when the rows that were read are deleted.
            loop {
                let Ok(Done::Rows(rows)) = self.flow.log(Call::Read(read.clone())).await else {
                    self.pause(AGAIN).await;
                    continue;
                };
                if rows.is_empty() {
                    break;
                }
                let deletes = rows.into_iter().map(|(key, _)| Write::Delete { table, key });
                if !self.write_all(deletes.collect()).await {
                    self.pause(AGAIN).await;
                }
            }
        }
    }

    /// Deletes the account's inbox and its row.
    async fn delete_account(&mut self) {
        loop {
            let (chat, _, fx) = self.flow.state();
            chat.end_all(self.inbox, fx);
            chat.conversations.is_erased(self.inbox);
            chat.receipts.privacy.is_erased(self.inbox);
            chat.mutes.is_erased(&self.address);
            let named = chat.row_key(&self.address);
            let mute = Write::Delete { table: Table::ChatMutes, key: named.clone() };
            let account = Write::Delete { table: Table::ChatAccounts, key: named };
            self.forget_account();
            if self.write_all(vec![mute, Write::Forget(self.inbox), account]).await {
                // The row may have been read before it was deleted.
                return self.forget_account();
            }
            self.pause(AGAIN).await;
        }
    }

    /// Has all shards forget the account's row.
    fn forget_account(&mut self) {
        let (chat, _, fx) = self.flow.state();
        chat.accounts.is_erased(&self.address);
        for shard in (0..chat.settings.shards.max(1)).map(ShardId) {
            if shard != chat.settings.shard {
                let gone = ChatWord::Erased(Box::new(self.address.clone()));
                fx.peer_messages.push((shard, gone));
            }
        }
    }

    /// Deletes the erasure's own row, and finishes the erasure.
    async fn delete_erasure(&mut self) {
        let delete = Write::Delete { table: Table::ChatApart, key: key_of(self.inbox) };
        while self.flow.log(Call::Write(delete.clone())).await.is_err() {
            self.pause(AGAIN).await;
        }
        let (chat, _, fx) = self.flow.state();
        chat.leave_erasing();
        if let Some(erasure) = chat.erasures.take(self.inbox) {
            fx.counters.count(ChatCounter::ErasuresDone);
            fx.counters.count_by(ChatCounter::ErasedMessages, erasure.messages);
        }
    }

    /// Names the step that begins.
    fn step(&mut self, name: &'static str) {
        if let Some(erasure) = self.flow.state().0.erasures.open.get_mut(&self.inbox) {
            erasure.step = name;
        }
    }

    /// Waits for a place among the erasures with open requests.
    async fn enter(&mut self) {
        let key = self.flow.key();
        if !self.flow.state().0.erasures.takes_place(key) {
            self.flow.place().await;
        }
    }

    /// Lets time pass without a place.
    async fn pause(&mut self, time: Duration) {
        self.flow.state().0.leave_erasing();
        self.flow.sleep(time).await;
        self.enter().await;
    }

    /// The account as the one that makes a request.
    fn asker(&self) -> Asker {
        let (inbox, address, device) = (self.inbox, self.address.clone(), Box::default());
        Asker { inbox, address, device, is_operator: false, source: None }
    }

    /// Makes a request on behalf of the account, until the answer is no failure for now.
    async fn ask(&mut self, what: ErrandWhat) -> ChatDelivery {
        self.ask_all(vec![what]).await.swap_remove(0)
    }

    /// Makes requests on behalf of the account, all at once, until no answer is a failure for now.
    async fn ask_all(&mut self, all: Vec<ErrandWhat>) -> Vec<ChatDelivery> {
        loop {
            let told = self.flow.errands(&self.asker(), all.clone()).await;
            if !told.iter().any(fails_for_now) {
                return told;
            }
            self.pause(AGAIN).await;
        }
    }

    /// Makes writes, all at once. False: the log has refused some of them.
    async fn write_all(&mut self, writes: Vec<Write>) -> bool {
        let answers = self.flow.log_all(writes.into_iter().map(Call::Write).collect()).await;
        answers.iter().all(Answered::is_ok)
    }
}

/// Whether a request was refused for a reason for which it may succeed later.
fn fails_for_now(told: &ChatDelivery) -> bool {
    use ChatFault::{Busy, RateLimited, StoreFailed, StoreFull};
    let ChatDelivery::Failed { why, .. } = told else { return false };
    matches!(why, Busy | StoreFull | StoreFailed | RateLimited)
}

/// Tables and key prefixes of an account's rows.
fn rows_of(chat: &Chat, inbox: TimelineId, address: &AccountAddress) -> [(Table, Box<[u8]>); 11] {
    let by_inbox = || RowHome::key_of(inbox, &[]);
    let [reads, adding] = privacy::keys_of(inbox);
    [
        (Table::ChatItems, by_inbox()),
        (Table::ChatNodes, by_inbox()),
        (Table::ChatContacts, by_inbox()),
        (Table::ChatOwing, by_inbox()),
        (Table::ChatPushes, by_inbox()),
        (Table::ChatStates, by_inbox()),
        (Table::MediaUse, by_inbox()),
        (Table::ChatApart, reads),
        (Table::ChatTokens, chat.tokens_key(address, b"")),
        (Table::ChatFollows, by_inbox()),
        (Table::ChatApart, adding),
    ]
}
