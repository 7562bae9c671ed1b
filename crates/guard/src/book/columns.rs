//! Accounts of the book as rows of a database, whose columns other programs read and write too.
//!
//! Hash, keys and rules are the texts of a row of the log (`mod.rs`), each in a column of its own.
//! It writes nothing. Invariants: what [`UserEntry::columns`] says is read again by
//! [`UserEntry::of_columns`]; what somebody else wrote holds to the rules of names and numbers, or
//! is refused with a sentence that has no secret in it.

use crate::access_control::known::Standing;
use crate::accounts::Account;
use crate::book::{EVERYBODY, UserEntry, read_rules};
use crate::passwords::{self, Kept, StoredHash};
use crate::scram::{KeysByHash, ScramHash, ScramKeys};
use model::ports::databases::accounts::AccountColumns;

/// Numbers of accounts are below: every reader of JSON takes them.
const UID_MAX: u64 = 1 << 53;

impl UserEntry {
    /// The row of this account, with the number that the table gave it: that of [`EVERYBODY`] is
    /// the table's alone.
    pub fn columns(&self, name: &str, uid: u64) -> AccountColumns {
        let Kept { hash, scram } = &self.account.kept;
        let keys = |hash| scram.find(hash).map_or_else(String::new, ScramKeys::text);
        AccountColumns {
            uid,
            name: name.into(),
            epoch: self.epoch,
            is_super: self.account.is_super,
            is_disabled: self.account.is_disabled,
            password: hash.as_ref().map_or_else(String::new, StoredHash::text),
            scram_sha_256: keys(ScramHash::Sha256),
            scram_sha_1: keys(ScramHash::Sha1),
            rules: self.rules_text(),
        }
    }

    /// The account after a change by another program, with an epoch that ends its sessions where
    /// such a change must, whether or not the other program raised it.
    pub fn followed(&self, entry: UserEntry) -> UserEntry {
        if entry.uid != self.uid {
            return entry;
        }
        let least = self.raised(UserEntry { epoch: self.epoch, ..entry.clone() });
        UserEntry { epoch: entry.epoch.max(least.epoch), ..entry }
    }

    /// The account of a row; in words, why it is none.
    pub fn of_columns(row: &AccountColumns) -> Result<UserEntry, &'static str> {
        let is_everybody = row.name == EVERYBODY;
        if !is_everybody && passwords::check_name(&row.name).is_err() {
            return Err("its name is invalid");
        }
        if !(1..UID_MAX).contains(&row.uid) || row.epoch >= UID_MAX {
            return Err("its uid or epoch is not between 1 and 2^53 - 1");
        }
        let mut scram = KeysByHash::default();
        for (hash, text) in
            [(ScramHash::Sha256, &row.scram_sha_256), (ScramHash::Sha1, &row.scram_sha_1)]
        {
            if !text.is_empty() {
                scram.put(ScramKeys::parse(hash, text).ok_or("its SCRAM keys are invalid")?);
            }
        }
        let hash = match row.password.as_str() {
            "" => None,
            text => Some(StoredHash::parse(text).map_err(|_| "its password is not a valid hash")?),
        };
        let standing = Standing { is_ruled: !row.rules.is_empty(), ..Standing::default() };
        let rules = read_rules(standing, row.rules.as_bytes()).ok_or("its rules are invalid")?;
        let (is_super, is_disabled) = (row.is_super, row.is_disabled);
        match is_everybody {
            true => Ok(UserEntry { rules, ..UserEntry::default() }),
            false => Ok(UserEntry {
                uid: row.uid,
                epoch: row.epoch,
                account: Account { kept: Kept { hash, scram }, is_super, is_disabled },
                rules,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passwords::Hashing;
    use model::ports::users::{UserOrder, UserRule};

    fn ann() -> UserEntry {
        let hashing = Hashing { scram_iterations: 4_096, scram_sha_1: true, ..Hashing::default() };
        let rule = UserRule { allow: true, publish: true, read: false, filter: "a/%c/#".into() };
        let order = UserOrder {
            name: "ann".into(),
            password: None,
            is_super: Some(true),
            is_disabled: None,
            rules: Some(vec![rule]),
        };
        let kept = hashing.hash(b"secret", [3; 32]);
        UserEntry::new(7).ordered(&order, Some(kept)).expect("right")
    }

    #[test]
    fn columns_say_all_that_an_account_is() {
        let (entry, bare) = (ann(), UserEntry::new(8));
        for (name, entry) in [("ann", &entry), ("bob", &bare)] {
            let row = entry.columns(name, entry.uid);
            let read = UserEntry::of_columns(&row).expect("a row");
            assert_eq!((read.state(name), &read.row()), (entry.state(name), &entry.row()));
        }
        let row = entry.columns("ann", 7);
        assert!(
            [&row.password, &row.scram_sha_256, &row.scram_sha_1].iter().all(|it| !it.is_empty())
        );
        assert!(!format!("{row:?}").contains(&row.password), "it is not told");
    }

    #[test]
    fn everybody_has_rules_and_no_number() {
        let rules = ann().rules;
        let entry = UserEntry { rules, ..UserEntry::default() };
        let read = UserEntry::of_columns(&entry.columns(EVERYBODY, 5)).expect("a row");
        assert_eq!((read.uid, read.row()), (0, entry.row()));
    }

    #[test]
    fn what_others_wrote_is_looked_at() {
        let row = ann().columns("ann", 7);
        let with = |change: fn(&mut AccountColumns)| {
            let mut row = row.clone();
            change(&mut row);
            UserEntry::of_columns(&row).map(drop)
        };
        let wrong: [fn(&mut AccountColumns); 8] = [
            |row| row.name = "a:b".into(),
            |row| row.name = String::new(),
            |row| row.uid = 0,
            |row| row.uid = UID_MAX,
            |row| row.epoch = UID_MAX,
            |row| row.password = "secret".into(),
            |row| row.scram_sha_256 = "x".into(),
            |row| row.rules = "[[\"allow\"]]".into(),
        ];
        for (at, change) in wrong.into_iter().enumerate() {
            assert!(with(change).is_err(), "{at}");
        }
        assert!(with(|row| row.rules.clear()).is_ok() && with(|row| row.password.clear()).is_ok());
    }
}
