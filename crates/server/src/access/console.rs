//! Log-in at the console for users of the book and of the password file, by the same rules as for
//! other clients with a password: a name that is in both is the book's, a password that the book
//! does not have is the file's, and a user that is disabled in either is refused.
//!
//! This module knows no roles. Invariant: the epoch of a user changes as soon as its password does,
//! wherever that is kept.

use super::user_book::UserBook;
use admin::ConsolePeople;
use guard::AccessControl;
use guard::accounts::Account;
use model::ports::users::{UserFault, UserState, Users};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Set in the number that stands for a user of the file: epochs of the book are far below.
const OF_THE_FILE: u64 = 1 << 63;

/// The book and the file, as the console asks them.
pub(super) struct ConsoleDoor {
    pub(super) book: Arc<UserBook>,
    pub(super) access_control: Arc<AccessControl>,
}

/// User who may log in if the password is right.
struct Found {
    number: u64,
    /// The account in the file, where its password counts.
    filed: Option<Account>,
}

impl ConsoleDoor {
    fn find(&self, name: &str) -> Result<Option<Found>, UserFault> {
        let (held, filed) = (self.book.user(name)?, self.access_control.filed(name));
        let is_disabled = held.as_ref().is_some_and(|held| held.is_disabled)
            || filed.as_ref().is_some_and(|filed| filed.is_disabled);
        if is_disabled {
            return Ok(None);
        }
        Ok(match (held, filed) {
            (Some(held), _) if held.has_password => Some(Found { number: held.epoch, filed: None }),
            (held, Some(filed)) if filed.kept.hash.is_some() => {
                Some(Found { number: number(held.as_ref(), &filed), filed: Some(filed) })
            }
            _ => None,
        })
    }
}

/// Credential of a user from its password in the file.
fn number(held: Option<&UserState>, filed: &Account) -> u64 {
    let mut hasher = DefaultHasher::new();
    filed.kept.hash.as_ref().map(|hash| hash.text()).hash(&mut hasher);
    held.map(|held| held.epoch).hash(&mut hasher);
    hasher.finish() | OF_THE_FILE
}

impl ConsolePeople for ConsoleDoor {
    fn check(&self, name: &str, password: &str) -> Result<Option<u64>, UserFault> {
        let found = self.find(name)?;
        let filed = found.as_ref().and_then(|found| found.filed.as_ref()?.kept.hash.as_ref());
        let is_right = match filed {
            Some(hash) => hash.is_of(password.as_bytes()),
            // An unknown name costs the same time.
            None => self.book.check(name, password)?.is_some(),
        };
        Ok(found.filter(|_| is_right).map(|found| found.number))
    }

    fn standing(&self, name: &str) -> Result<Option<u64>, UserFault> {
        Ok(self.find(name)?.map(|found| found.number))
    }
}
