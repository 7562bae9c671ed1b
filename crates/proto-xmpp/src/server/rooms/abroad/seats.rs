//! Seats: devices of other servers that are in rooms here.
//!
//! Pure bookkeeping, by room and counted by domain. Invariant: the counts are those of the seats.

use super::super::asides::Standing;
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{Occupant, OccupantShow};
use model::timeline::Seq;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A device that is in a room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Seat {
    pub account: AccountAddress,
    pub device: Box<str>,
    /// The occupant that it is.
    pub own: Arc<Occupant>,
    /// Number of the last news of the room.
    pub last: u64,
    /// The last place of the conversation that it was shown.
    pub place: Seq,
    /// The place of the last change of the settings by the device itself, which was shown with its
    /// result.
    pub configured: Seq,
    /// Pace of its own presence.
    pub pace: ShowPace,
}

/// How often a device has said how it is there, or an account has entered; and what of that waits.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct ShowPace {
    /// In the minute that began then.
    since: Option<Instant>,
    count: u8,
    /// The last, if that is still to be said.
    waiting: Option<OccupantShow>,
}

/// How often a device says in a minute how it is there; further presence waits, the last of it. And
/// how often it changes its name, and its account enters one room; beyond it is refused.
pub(super) const SHOWS_A_MINUTE: u8 = 10;

const MINUTE: Duration = Duration::from_secs(60);

impl ShowPace {
    /// Sets the presence; returns it if it may be sent now.
    pub(super) fn says(&mut self, now: Now, show: OccupantShow) -> Option<OccupantShow> {
        self.waiting = Some(show);
        self.take_due(now)
    }

    /// Takes the presence that has waited long enough.
    pub(super) fn take_due(&mut self, now: Now) -> Option<OccupantShow> {
        self.waiting.as_ref()?;
        if self.moves(now) { self.waiting.take() } else { None }
    }

    /// Whether it may enter, change its name or its presence now; if so, it counts.
    pub(super) fn moves(&mut self, now: Now) -> bool {
        if self.is_over(now) {
            (self.since, self.count) = (Some(now.mono), 0);
        }
        let may = self.count < SHOWS_A_MINUTE;
        self.count += u8::from(may);
        may
    }

    /// Whether its minute is over.
    pub(super) fn is_over(&self, now: Now) -> bool {
        self.since.is_none_or(|since| now.mono >= since + MINUTE)
    }
}

/// Seats of all rooms.
#[derive(Default)]
pub(super) struct Seats {
    rooms: HashMap<AccountAddress, Vec<Seat>>,
    count: usize,
    by_domain: HashMap<Box<str>, usize>,
}

impl Seats {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// How many a domain has.
    pub(super) fn of_domain(&self, domain: &str) -> usize {
        self.by_domain.get(domain).copied().unwrap_or(0)
    }

    /// The seats of a room.
    pub(super) fn room(&self, room: &AccountAddress) -> &[Seat] {
        self.rooms.get(room).map_or(&[], |seats| seats)
    }

    pub(super) fn room_mut(&mut self, room: &AccountAddress) -> &mut [Seat] {
        self.rooms.get_mut(room).map_or(&mut [], |seats| seats)
    }

    /// That of a device.
    pub(super) fn at(&self, room: &AccountAddress, who: (&AccountAddress, &str)) -> Option<&Seat> {
        self.room(room).iter().find(|it| it.account == *who.0 && *it.device == *who.1)
    }

    /// A device's standing in a room; `None`: it is not in it.
    pub(super) fn standing(
        &self,
        room: &AccountAddress,
        who: (&AccountAddress, &str),
    ) -> Option<Standing> {
        self.at(room, who).map(|seat| (seat.own.is_moderator(), seat.own.silent))
    }

    /// A device is in a room from now on.
    pub(super) fn put(&mut self, room: &AccountAddress, seat: Seat) {
        self.take_one(room, (&seat.account, &seat.device));
        self.count += 1;
        *self.by_domain.entry(seat.account.domain().into()).or_default() += 1;
        self.rooms.entry(room.clone()).or_default().push(seat);
    }

    /// A device is in it no more.
    pub(super) fn take_one(
        &mut self,
        room: &AccountAddress,
        who: (&AccountAddress, &str),
    ) -> Option<Seat> {
        let mut taken = self.take_from(room, |it| it.account == *who.0 && *it.device == *who.1);
        taken.pop()
    }

    /// Removes seats from a room, and returns them.
    pub(super) fn take_from(
        &mut self,
        room: &AccountAddress,
        is_out: impl Fn(&Seat) -> bool,
    ) -> Vec<Seat> {
        let Some(seats) = self.rooms.get_mut(room) else { return Vec::new() };
        let taken: Vec<Seat> = seats.extract_if(.., |seat| is_out(seat)).collect();
        if seats.is_empty() {
            self.rooms.remove(room);
        }
        self.count -= taken.len();
        for seat in &taken {
            let domain = seat.account.domain();
            if let Some(count) = self.by_domain.get_mut(domain) {
                *count -= 1;
                if *count == 0 {
                    self.by_domain.remove(domain);
                }
            }
        }
        taken
    }

    /// Takes the presence of devices that has waited long enough.
    pub(super) fn take_shows(&mut self, now: Now) -> Vec<(AccountAddress, Seat, OccupantShow)> {
        let mut due = Vec::new();
        for (room, seats) in &mut self.rooms {
            for seat in seats {
                let show = seat.pace.take_due(now);
                due.extend(show.map(|show| (room.clone(), seat.clone(), show)));
            }
        }
        due
    }

    /// Removes all seats of a domain, and returns them with their rooms.
    pub(super) fn take_domain(&mut self, domain: &str) -> Vec<(AccountAddress, Seat)> {
        if self.of_domain(domain) == 0 {
            return Vec::new();
        }
        let rooms: Vec<AccountAddress> = self.rooms.keys().cloned().collect();
        let mut all = Vec::new();
        for room in rooms {
            let taken = self.take_from(&room, |seat| seat.account.domain() == domain);
            all.extend(taken.into_iter().map(|seat| (room.clone(), seat)));
        }
        all
    }
}
