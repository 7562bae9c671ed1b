//! Uploads under way: how many, how many of each source, and how many of each account.

use model::limits::seats::{NoSeat, SourceSeat, SourceSeats};
use model::link::Source;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Uploads to a folder that are under way.
#[derive(Debug)]
pub(crate) struct Uploads {
    seats: Arc<SourceSeats>,
    most_an_account: AtomicUsize,
    open: Mutex<HashMap<u64, usize>>,
}

/// Why one more may not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// The uploads reached a limit, of all or of one source.
    Room(NoSeat),
    /// Its account has as many.
    Account,
}

impl Uploads {
    pub(crate) fn new(seats: Arc<SourceSeats>, most_an_account: usize) -> Arc<Uploads> {
        let most_an_account = AtomicUsize::new(most_an_account);
        Arc::new(Uploads { seats, most_an_account, open: Mutex::default() })
    }

    /// Sets the most uploads in all, of one source, and of one account.
    pub(crate) fn set_max(&self, (most, of_source): (u32, u32), of_account: usize) {
        self.seats.set_max(most, of_source);
        self.most_an_account.store(of_account, Ordering::Relaxed);
    }

    /// One more of this account, until what it is given is dropped.
    pub(crate) fn take(
        self: &Arc<Uploads>,
        account: u64,
        source: Source,
    ) -> Result<UploadSeat, Refused> {
        let seat = self.seats.take(source).map_err(Refused::Room)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(account).or_default();
        if *count >= self.most_an_account.load(Ordering::Relaxed) {
            return Err(Refused::Account);
        }
        *count += 1;
        Ok(UploadSeat { uploads: self.clone(), account, _seat: seat })
    }
}

/// An upload under way.
#[derive(Debug)]
pub(crate) struct UploadSeat {
    uploads: Arc<Uploads>,
    account: u64,
    _seat: SourceSeat,
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
        let uploads = Uploads::new(SourceSeats::new(4, 3), 2);
        let [near, far] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(|it| Source::of(it.into()));
        let one = [1, 1].map(|account| uploads.take(account, near).expect("there is room"));
        assert_eq!(uploads.take(1, near).err(), Some(Refused::Account));
        let other = [(2, near), (2, far)].map(|(it, from)| uploads.take(it, from).expect("room"));
        assert_eq!(uploads.take(3, near).err(), Some(Refused::Room(NoSeat::SourceFull)));
        assert_eq!(uploads.take(3, far).err(), Some(Refused::Room(NoSeat::Full)));
        drop(one);
        assert!(uploads.take(1, near).is_ok());
        drop(other);
        assert!(uploads.open.lock().expect("nobody failed").is_empty(), "nobody is remembered");
    }

    #[test]
    fn other_limits_hold_from_then_on() {
        let uploads = Uploads::new(SourceSeats::new(4, 4), 2);
        let source = Source::of("10.0.0.1".parse().expect("an address"));
        let _two = [(); 2].map(|()| uploads.take(7, source).expect("room"));
        assert_eq!(uploads.take(7, source).err(), Some(Refused::Account));
        uploads.set_max((4, 4), 3);
        let _third = uploads.take(7, source).expect("one more of its account");
        uploads.set_max((2, 2), 9);
        assert_eq!(uploads.take(8, source).err(), Some(Refused::Room(NoSeat::SourceFull)));
    }
}
