//! Uploads under way: how many, and how many of each account.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Those of a folder.
#[derive(Debug)]
pub(crate) struct Uploads {
    most: usize,
    most_an_account: usize,
    open: Mutex<HashMap<u64, usize>>,
}

/// Why one more may not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// There are as many as there may be.
    All,
    /// Its account has as many.
    Account,
}

impl Uploads {
    pub(crate) fn new(most: usize, most_an_account: usize) -> Arc<Uploads> {
        Arc::new(Uploads { most, most_an_account, open: Mutex::default() })
    }

    /// One more of this account, until what it is given is dropped.
    pub(crate) fn take(self: &Arc<Uploads>, account: u64) -> Result<UploadSeat, Refused> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.values().sum::<usize>() >= self.most {
            return Err(Refused::All);
        }
        let count = open.entry(account).or_default();
        if *count >= self.most_an_account {
            return Err(Refused::Account);
        }
        *count += 1;
        Ok(UploadSeat { uploads: self.clone(), account })
    }
}

/// An upload under way.
#[derive(Debug)]
pub(crate) struct UploadSeat {
    uploads: Arc<Uploads>,
    account: u64,
}

impl Drop for UploadSeat {
    fn drop(&mut self) {
        let mut open = self.uploads.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_and_so_many_of_one_account() {
        let uploads = Uploads::new(3, 2);
        let one = [1, 1].map(|account| uploads.take(account).expect("there is room"));
        assert_eq!(uploads.take(1).err(), Some(Refused::Account));
        let other = uploads.take(2).expect("there is room");
        assert_eq!(uploads.take(2).err(), Some(Refused::All));
        drop(one);
        assert!(uploads.take(1).is_ok());
        drop(other);
        assert!(uploads.open.lock().expect("nobody failed").is_empty(), "nobody is remembered");
    }
}
