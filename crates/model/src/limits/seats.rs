//! Seats of one kind, with a share for each source: a total, and a maximum for one source.
//!
//! One source alone can never take all of what everybody needs. This module knows neither what a
//! seat is for nor how a refusal is answered. Invariant: a seat is counted until it is dropped, and
//! a source without seats is not remembered.

use crate::link::Source;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All seats of a kind.
#[derive(Debug)]
pub struct SourceSeats {
    taken: Mutex<Taken>,
}

#[derive(Default, Debug)]
struct Taken {
    most: u32,
    share: u32,
    all: u32,
    of_sources: BTreeMap<Source, u32>,
}

/// Why no seat is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoSeat {
    /// All are taken.
    Full,
    /// The source has used up its share.
    SourceFull,
}

/// The share of a source as configured: zero is half of all.
pub fn share_of(configured: u32, most: u32) -> u32 {
    match configured {
        0 => most.div_ceil(2),
        share => share,
    }
}

impl SourceSeats {
    /// A total, and a maximum for one source ([`share_of`]).
    pub fn new(most: u32, share: u32) -> Arc<SourceSeats> {
        let taken = Taken { most, share: share_of(share, most), ..Taken::default() };
        Arc::new(SourceSeats { taken: Mutex::new(taken) })
    }

    /// Another total and maximum from now on. Seats beyond them stay until they are dropped.
    pub fn set_max(&self, most: u32, share: u32) {
        let mut taken = self.lock();
        (taken.most, taken.share) = (most, share_of(share, most));
    }

    /// Takes a seat, until it is dropped.
    pub fn take(self: &Arc<SourceSeats>, source: Source) -> Result<SourceSeat, NoSeat> {
        let mut seat = SourceSeat { seats: self.clone(), source, count: 0 };
        seat.grow(1)?;
        Ok(seat)
    }

    /// Whether a seat would be given now.
    pub fn check(&self, source: Source) -> Result<(), NoSeat> {
        self.lock().look(source, 1)
    }

    /// How many seats are taken.
    pub fn taken(&self) -> u32 {
        self.lock().all
    }

    /// Locks the seats. Nothing panics half way through a change of them.
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn look(&self, source: Source, more: u32) -> Result<(), NoSeat> {
        let own = self.of_sources.get(&source).copied().unwrap_or(0);
        if own.saturating_add(more) > self.share {
            return Err(NoSeat::SourceFull);
        }
        match self.all.saturating_add(more) > self.most {
            true => Err(NoSeat::Full),
            false => Ok(()),
        }
    }
}

/// One seat, or several for something that grows.
#[derive(Debug)]
pub struct SourceSeat {
    seats: Arc<SourceSeats>,
    source: Source,
    count: u32,
}

impl SourceSeat {
    /// How many seats it is.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Takes this many more: all of them or none.
    pub fn grow(&mut self, more: u32) -> Result<(), NoSeat> {
        let mut taken = self.seats.lock();
        taken.look(self.source, more)?;
        taken.all += more;
        *taken.of_sources.entry(self.source).or_default() += more;
        self.count += more;
        Ok(())
    }
}

impl Drop for SourceSeat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        taken.all -= self.count;
        if let Some(own) = taken.of_sources.get_mut(&self.source) {
            *own -= self.count;
            if *own == 0 {
                taken.of_sources.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::of(text.parse().expect("an address"))
    }

    #[test]
    fn one_source_takes_its_share_and_others_the_rest() {
        let seats = SourceSeats::new(5, 0);
        let crowd: Vec<_> =
            (0..9).map(|host| seats.take(source(&format!("2001:db8::{host}")))).collect();
        assert_eq!(crowd.iter().filter(|seat| seat.is_ok()).count(), 3, "a /64 is one source");
        assert_eq!(crowd[3].as_ref().err(), Some(&NoSeat::SourceFull));
        let others = ["10.0.0.1", "10.0.0.2"].map(|it| seats.take(source(it)).expect("room"));
        assert_eq!(seats.check(source("10.0.0.3")), Err(NoSeat::Full));
        assert_eq!(seats.taken(), 5);
        drop(crowd);
        assert_eq!((seats.taken(), seats.check(source("2001:db8::1"))), (2, Ok(())));
        drop(others);
        assert!(seats.lock().of_sources.is_empty(), "nobody is remembered");
    }

    #[test]
    fn what_grows_takes_all_that_it_needs_or_nothing_more() {
        let seats = SourceSeats::new(10, 6);
        let mut one = seats.take(source("10.0.0.1")).expect("room");
        assert_eq!((one.grow(5), one.grow(1)), (Ok(()), Err(NoSeat::SourceFull)));
        let mut other = seats.take(source("10.0.0.2")).expect("room");
        assert_eq!((other.grow(4), other.grow(3)), (Err(NoSeat::Full), Ok(())));
        assert_eq!((one.count(), other.count(), seats.taken()), (6, 4, 10));
        drop((one, other));
        assert_eq!(seats.taken(), 0);
    }

    #[test]
    fn a_share_is_what_is_configured_or_half_of_all() {
        assert_eq!(
            [(0, 1), (0, 4), (0, 5), (2, 4)].map(|(it, most)| share_of(it, most)),
            [1, 2, 3, 2]
        );
    }

    #[test]
    fn a_lower_maximum_holds_for_newcomers_and_a_higher_one_at_once() {
        let seats = SourceSeats::new(4, 4);
        let (a, b) = (source("10.0.0.1"), source("10.0.0.2"));
        let held: Vec<_> = (0..3).map(|_| seats.take(a).expect("room")).collect();
        seats.set_max(2, 1);
        assert_eq!((seats.taken(), seats.check(a)), (3, Err(NoSeat::SourceFull)));
        assert_eq!(seats.check(b), Err(NoSeat::Full), "those that are here stay");
        drop(held);
        let _one = seats.take(b).expect("room again");
        assert_eq!(seats.check(b), Err(NoSeat::SourceFull));
        seats.set_max(9, 0);
        assert_eq!(seats.check(b), Ok(()), "half of nine, rounded up");
    }
}
