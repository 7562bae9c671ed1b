//! Mutes: accounts that an operator has barred from sending until a time.
//!
//! A mute is stored in a row of the account's home shard, where all its devices send from.
//! Invariant: a mute that was answered holds from then on, over restarts too, until its time is
//! over or it is lifted. A muted account may still read.

use super::look_at;
use crate::accounts::AccountRow;
use crate::service::flow::Flow;
use base::bytes::ByteReader;
use base::time::Now;
use model::account::AccountAddress;
use model::counters::ProcessCounter;
use model::ports::chat::ChatAnswer;
use model::ports::log::{Call, RowHome, Table, Write};
use std::collections::HashMap;

const VERSION: u8 = 1;

/// Muted accounts of this shard, with the Unix second at which each mute ends.
#[derive(Default)]
pub(crate) struct Mutes {
    until: HashMap<AccountAddress, u32>,
    /// Accounts with changes at the log, and how many: only those changes touch the rows.
    asked: HashMap<AccountAddress, u32>,
}

impl Mutes {
    /// Restores a mute from its row at the start of the shard.
    pub(crate) fn restore(&mut self, key: &[u8], value: &[u8]) -> bool {
        let name = RowHome::rest(key).and_then(|name| std::str::from_utf8(name).ok());
        let address = name.and_then(|name| AccountAddress::parse(name, "").ok());
        let until_s = ByteReader::of(VERSION, value).and_then(|mut bytes| {
            let until_s = bytes.u32()?;
            bytes.ends(until_s)
        });
        let (Some(address), Some(until_s)) = (address, until_s) else { return false };
        self.until.insert(address, until_s);
        true
    }

    /// The Unix second until which an account may not send; 0: it may.
    pub(crate) fn until(&self, now: Now, address: &AccountAddress) -> u32 {
        let until_s = self.until.get(address).copied().unwrap_or_default();
        if until_s > now.unix_s() { until_s } else { 0 }
    }

    /// Forgets the mute of an erased account.
    pub(crate) fn is_erased(&mut self, address: &AccountAddress) {
        self.until.remove(address);
    }

    /// Forgets mutes that are over and have no change at the log; returns their accounts, whose
    /// rows are to be deleted.
    fn over(&mut self, now: Now) -> Vec<AccountAddress> {
        let Mutes { until, asked } = self;
        let is_over = |address: &AccountAddress, until_s: &mut u32| {
            *until_s <= now.unix_s() && !asked.contains_key(address)
        };
        until.extract_if(is_over).map(|(address, _)| address).collect()
    }
}

/// Mutes an existing account until a Unix second; a time that has passed lifts the mute.
pub(super) async fn mute(
    flow: &mut Flow,
    until_s: u32,
    (address, row): (&AccountAddress, AccountRow),
) -> ChatAnswer {
    let (chat, now, _) = flow.state();
    let until_s = if until_s > now.unix_s() { until_s } else { 0 };
    let is_new = until_s > 0 && !chat.mutes.until.contains_key(address);
    let most = chat.settings.limits.chat.muted_accounts_max as usize;
    if is_new && chat.mutes.until.len() >= most {
        for address in chat.mutes.over(now) {
            chat.begin(|flow| delete_row(flow, address));
        }
        if chat.mutes.until.len() >= most {
            return ChatAnswer::MutesFull;
        }
    }
    if !chat.log.may_ask() {
        return ChatAnswer::Busy;
    }
    let (table, key) = (Table::ChatMutes, chat.row_key(address));
    let write = match until_s {
        0 => Write::Delete { table, key },
        _ => {
            let value = [&[VERSION][..], &until_s.to_le_bytes()].concat().into();
            Write::Put { table, key, value }
        }
    };
    *chat.mutes.asked.entry(address.clone()).or_default() += 1;
    let stored = flow.log(Call::Write(write)).await;
    let mutes = &mut flow.state().0.mutes;
    if let Some(asked) = mutes.asked.get_mut(address) {
        *asked -= 1;
        if *asked == 0 {
            mutes.asked.remove(address);
        }
    }
    if stored.is_err() {
        return ChatAnswer::StoreFailed;
    }
    match until_s {
        0 => drop(mutes.until.remove(address)),
        _ => drop(mutes.until.insert(address.clone(), until_s)),
    }
    look_at(flow, address, row).await
}

/// Deletes the row of a mute that is over. A failure is left to the next start: a repetition might
/// delete the row of a newer mute of the account.
async fn delete_row(mut flow: Flow, address: AccountAddress) {
    let (table, key) = (Table::ChatMutes, flow.state().0.row_key(&address));
    if flow.log(Call::Write(Write::Delete { table, key })).await.is_err() {
        flow.state().2.counters.count(ProcessCounter::RemovalsGivenUp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::time::Instant;

    fn at(unix_s: u64) -> Now {
        Now::new(Instant::default(), unix_s * 1_000)
    }

    #[test]
    fn a_mute_holds_until_its_time_and_what_is_no_row_is_refused() {
        let mut mutes = Mutes::default();
        let ann = AccountAddress::parse("ann", "a.example").expect("right");
        let key = RowHome::at(7).key(&[ann.as_str().as_bytes()]);
        let value = [&[VERSION][..], &100u32.to_le_bytes()].concat();
        assert!(mutes.restore(&key, &value));
        assert_eq!([mutes.until(at(99), &ann), mutes.until(at(100), &ann)], [100, 0]);
        for (key, value) in [(&key[..4], &value[..]), (&key, &value[..4]), (&key, &[9; 5])] {
            assert!(!mutes.restore(key, value));
        }
        assert!(mutes.over(at(99)).is_empty());
        assert_eq!(mutes.over(at(100)), [ann]);
    }
}
