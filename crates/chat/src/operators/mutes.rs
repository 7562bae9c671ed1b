//! Mutes: accounts that may say nothing until a time, since an operator says so.
//!
//! Who is muted is known where the account is at home, and stands in a row there; the home is where
//! each of its devices sends from. Invariant: a mute that was answered holds from then on, over
//! restarts too, until its time is over or it is lifted. It does not keep anybody from reading.

use crate::log::{Answered, PendingCall};
use crate::{Chat, Effects};
use base::bytes::ByteReader;
use base::time::Now;
use model::account::{AccountAddress, AccountId};
use model::counters::ProcessCounter;
use model::ports::chat::ChatAnswer;
use model::ports::log::{Call, RowHome, Table, Write};
use std::collections::HashMap;

const VERSION: u8 = 1;

/// Accounts that are at home here and muted, with the Unix seconds until which.
#[derive(Default)]
pub(crate) struct Mutes {
    until: HashMap<AccountAddress, u32>,
    /// Those of whom a change is with the log, and how many: their rows are that one's.
    asked: HashMap<AccountAddress, u32>,
}

/// A mute that is with the log.
pub(crate) struct Muting {
    ask: u64,
    address: AccountAddress,
    until_s: u32,
    /// What the account is otherwise.
    of: (AccountId, u32),
}

impl Mutes {
    /// The log had this when the shard started.
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

    /// The Unix second until which an account may say nothing; zero: it may.
    pub(crate) fn until(&self, now: Now, address: &AccountAddress) -> u32 {
        let until_s = self.until.get(address).copied().unwrap_or_default();
        if until_s > now.unix_s() { until_s } else { 0 }
    }

    /// Nothing is left of an account.
    pub(crate) fn is_erased(&mut self, address: &AccountAddress) {
        self.until.remove(address);
    }

    /// Forgets those whose time is over and of whom nothing is with the log; they come back, for
    /// their rows.
    fn over(&mut self, now: Now) -> Vec<AccountAddress> {
        let Mutes { until, asked } = self;
        let is_over = |address: &AccountAddress, until_s: &mut u32| {
            *until_s <= now.unix_s() && !asked.contains_key(address)
        };
        until.extract_if(is_over).map(|(address, _)| address).collect()
    }
}

impl Chat {
    /// An account that is there is to be muted until a Unix second, or not any more.
    pub(crate) fn mute(
        &mut self,
        now: Now,
        (ask, until_s): (u64, u32),
        (address, of): (&AccountAddress, (AccountId, u32)),
        fx: &mut Effects,
    ) {
        let until_s = if until_s > now.unix_s() { until_s } else { 0 };
        let is_new = until_s > 0 && !self.mutes.until.contains_key(address);
        let most = self.settings.limits.chat.muted_accounts_max as usize;
        if is_new && self.mutes.until.len() >= most {
            for address in self.mutes.over(now) {
                let write = Write::Delete { table: Table::ChatMutes, key: self.row_key(&address) };
                self.log.ask(PendingCall::MuteOver, Call::Write(write), fx);
            }
            if self.mutes.until.len() >= most {
                return fx.answers.push((ask, ChatAnswer::MutesFull));
            }
        }
        if !self.log.may_ask() {
            return fx.answers.push((ask, ChatAnswer::Busy));
        }
        let (table, key) = (Table::ChatMutes, self.row_key(address));
        let write = match until_s {
            0 => Write::Delete { table, key },
            _ => {
                let value = [&[VERSION][..], &until_s.to_le_bytes()].concat().into();
                Write::Put { table, key, value }
            }
        };
        *self.mutes.asked.entry(address.clone()).or_default() += 1;
        let muting = Box::new(Muting { ask, address: address.clone(), until_s, of });
        self.log.ask(PendingCall::Muted(muting), Call::Write(write), fx);
    }

    /// The log has it, or not.
    pub(crate) fn muted(&mut self, muting: Muting, result: Answered, fx: &mut Effects) {
        let Muting { ask, address, until_s, of } = muting;
        if let Some(asked) = self.mutes.asked.get_mut(&address) {
            *asked -= 1;
            if *asked == 0 {
                self.mutes.asked.remove(&address);
            }
        }
        if result.is_err() {
            return fx.answers.push((ask, ChatAnswer::StoreFailed));
        }
        match until_s {
            0 => drop(self.mutes.until.remove(&address)),
            _ => drop(self.mutes.until.insert(address.clone(), until_s)),
        }
        self.look_at_account(ask, &address, of, fx);
    }

    /// The row of a mute whose time is over has gone, or not. Then it is left to the next start:
    /// asked for again it might come behind the row of another mute of the account.
    pub(crate) fn mute_over(&mut self, result: Answered, fx: &mut Effects) {
        if result.is_err() {
            fx.counters.count(ProcessCounter::RemovalsGivenUp);
        }
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
