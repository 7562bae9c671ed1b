//! The last steps of an erasure: the account's rows, its inbox, and its state in memory.
//!
//! Invariant: the row of the erasure is deleted after all others.

use super::key_of;
use super::steps::Step;
use crate::conversations::receipts::privacy;
use crate::log::{Answered, PendingCall};
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::counters::ChatCounter;
use model::id::ShardId;
use model::ports::log::{Call, Done, ROWS_MAX, Read, RowHome, Table, Write};
use model::timeline::TimelineId;

impl Chat {
    /// Table and key prefix of the account's rows, one table for each `at`. `None`: all tables are
    /// done.
    fn rows_of(
        &self,
        inbox: TimelineId,
        address: &AccountAddress,
        at: usize,
    ) -> Option<(Table, Box<[u8]>)> {
        let by_inbox = || RowHome::key_of(inbox, &[]);
        let [reads, adding] = privacy::keys_of(inbox);
        Some(match at {
            0 => (Table::ChatItems, by_inbox()),
            1 => (Table::ChatNodes, by_inbox()),
            2 => (Table::ChatContacts, by_inbox()),
            3 => (Table::ChatOwing, by_inbox()),
            4 => (Table::ChatPushes, by_inbox()),
            5 => (Table::ChatStates, by_inbox()),
            6 => (Table::MediaUse, by_inbox()),
            7 => (Table::ChatApart, reads),
            8 => (Table::ChatTokens, self.tokens_key(address, b"")),
            9 => (Table::ChatFollows, by_inbox()),
            10 => (Table::ChatApart, adding),
            _ => return None,
        })
    }

    /// Reads rows of one table, to delete them.
    pub(super) fn erase_rows(&mut self, inbox: TimelineId, at: usize, fx: &mut Effects) {
        let Some(erasure) = self.erasures.open.get(&inbox) else { return };
        let rows = self.rows_of(inbox, &erasure.address, at);
        let Some(erasure) = self.erasures.open.get_mut(&inbox) else { return };
        let Some((table, prefix)) = rows else {
            erasure.step = Step::Last;
            return;
        };
        erasure.waiting = 1;
        let read = Read::Rows { table, prefix, after: None, count: ROWS_MAX };
        self.log.ask(PendingCall::ErasureRows(inbox, table), Call::Read(read), fx);
    }

    /// Deletes rows of a table that were read, and reads the next.
    pub(crate) fn erasure_rows_read(
        &mut self,
        now: Now,
        (inbox, table): (TimelineId, Table),
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(erasure) = self.erasures.open.get_mut(&inbox) else { return };
        erasure.waiting = 0;
        let Step::Rows { at } = &mut erasure.step else { return };
        let Ok(Done::Rows(rows)) = result else {
            return self.erasure_waits(now, inbox, super::AGAIN);
        };
        // The table is read once more when these rows are deleted.
        if rows.is_empty() {
            *at += 1;
        }
        let deletes = rows.into_iter().map(|(key, _)| Write::Delete { table, key });
        self.erases_all(inbox, deletes.collect(), fx);
    }

    /// Makes the writes and waits for them: while one is refused, the erasure is not over.
    fn erases_all(&mut self, inbox: TimelineId, writes: Vec<Write>, fx: &mut Effects) {
        let Some(erasure) = self.erasures.open.get_mut(&inbox) else { return };
        erasure.waiting = writes.len() as u32;
        for write in writes {
            self.log.ask(PendingCall::ErasureWrote(inbox), Call::Write(write), fx);
        }
    }

    /// Handles the result of one of these writes.
    pub(crate) fn erasure_wrote(&mut self, now: Now, inbox: TimelineId, result: Answered) {
        let Some(erasure) = self.erasures.open.get_mut(&inbox) else { return };
        erasure.waiting = erasure.waiting.saturating_sub(1);
        erasure.has_failed |= result.is_err();
        if erasure.waiting > 0 {
            return;
        }
        match (std::mem::take(&mut erasure.has_failed), &erasure.step) {
            (true, _) => self.erasure_waits(now, inbox, super::AGAIN),
            (false, Step::Last) => erasure.step = Step::Own,
            (false, _) => {}
        }
    }

    /// Deletes the inbox and the account's row.
    pub(super) fn erase_last(&mut self, inbox: TimelineId, fx: &mut Effects) {
        let Some(erasure) = self.erasures.open.get_mut(&inbox) else { return };
        let address = erasure.address.clone();
        self.end_all(inbox, fx);
        self.conversations.is_erased(inbox);
        self.receipts.privacy.is_erased(inbox);
        self.mutes.is_erased(&address);
        self.accounts.is_erased(&address);
        for shard in (0..self.settings.shards.max(1)).map(ShardId) {
            if shard != self.settings.shard {
                let gone = ChatWord::Erased(Box::new(address.clone()));
                fx.peer_messages.push((shard, gone));
            }
        }
        let named = self.row_key(&address);
        let mute = Write::Delete { table: Table::ChatMutes, key: named.clone() };
        let account = Write::Delete { table: Table::ChatAccounts, key: named };
        self.erases_all(inbox, vec![mute, Write::Forget(inbox), account], fx);
    }

    /// Deletes the erasure's own row.
    pub(super) fn erase_own(&mut self, inbox: TimelineId, fx: &mut Effects) {
        if let Some(erasure) = self.erasures.open.get_mut(&inbox) {
            erasure.waiting = 1;
        }
        let write = Write::Delete { table: Table::ChatApart, key: key_of(inbox) };
        self.log.ask(PendingCall::Erased(inbox), Call::Write(write), fx);
    }

    /// Finishes an erasure whose row is deleted.
    pub(crate) fn erased(
        &mut self,
        now: Now,
        inbox: TimelineId,
        result: Answered,
        fx: &mut Effects,
    ) {
        if result.is_err() {
            if let Some(erasure) = self.erasures.open.get_mut(&inbox) {
                erasure.waiting = 0;
            }
            return self.erasure_waits(now, inbox, super::AGAIN);
        }
        if let Some(erasure) = self.erasures.take(inbox) {
            fx.counters.count(ChatCounter::ErasuresDone);
            fx.counters.count_by(ChatCounter::ErasedMessages, erasure.messages);
        }
    }
}
