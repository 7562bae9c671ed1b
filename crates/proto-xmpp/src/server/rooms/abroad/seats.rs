//! Seats: devices of other servers that are in rooms here.
//!
//! Pure bookkeeping, by room and counted by domain. Invariant: the counts are those of the seats.

use super::super::asides::Standing;
use super::super::shows::Shows;
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{GroupRole, MemberShow};
use model::timeline::Seq;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// A device that is in a room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Seat {
    pub account: AccountAddress,
    pub device: Box<str>,
    pub role: GroupRole,
    /// Whether the member is muted, whether or not the room is moderated.
    pub is_muted: bool,
    /// Whether it is a member only while it is there.
    pub is_guest: bool,
    /// The last place of the conversation that it was shown.
    pub place: Seq,
    /// Pace of its own presence.
    pub pace: ShowPace,
}

/// How often a device has said how it is there, and what of that waits.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct ShowPace {
    /// In the minute that began then.
    since: Option<Instant>,
    count: u8,
    /// The last, if that is still to be said.
    waiting: Option<MemberShow>,
}

/// How often a device says in a minute how it is there. Further presence waits, the last of it.
const SHOWS_A_MINUTE: u8 = 10;

const MINUTE: Duration = Duration::from_secs(60);

impl ShowPace {
    /// Sets the presence; returns it if it may be sent now.
    pub(super) fn says(&mut self, now: Now, show: MemberShow) -> Option<MemberShow> {
        self.waiting = Some(show);
        self.take_due(now)
    }

    /// Takes the presence that has waited long enough.
    pub(super) fn take_due(&mut self, now: Now) -> Option<MemberShow> {
        self.waiting.as_ref()?;
        if self.since.is_none_or(|since| now.mono >= since + MINUTE) {
            (self.since, self.count) = (Some(now.mono), 0);
        }
        if self.count >= SHOWS_A_MINUTE {
            return None;
        }
        self.count += 1;
        self.waiting.take()
    }

    /// Whether it has said anything.
    pub(super) fn has_said(&self) -> bool {
        self.since.is_some()
    }
}

/// Account that became a member of a group by entering its room.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Guest {
    pub room: AccountAddress,
    pub account: AccountAddress,
}

/// A room that somebody of another server is in.
#[derive(Default)]
pub(super) struct SeatedRoom {
    pub seats: Vec<Seat>,
    pub is_closed: bool,
    pub is_unlocked: bool,
    /// How its occupants are there, as far as they have said so.
    pub shows: Shows,
}

/// Seats of all rooms.
#[derive(Default)]
pub(super) struct Seats {
    rooms: HashMap<AccountAddress, SeatedRoom>,
    count: usize,
    by_domain: HashMap<Box<str>, usize>,
    /// Rooms that the last one has left, or did not get into.
    emptied: HashSet<AccountAddress>,
}

impl Seats {
    /// Rooms in which nobody is any more, unless somebody has come since.
    pub(super) fn take_emptied(&mut self) -> HashSet<AccountAddress> {
        std::mem::take(&mut self.emptied)
    }

    /// Notes that a device did not enter a room after all.
    pub(super) fn is_missed(&mut self, room: &AccountAddress) {
        self.emptied.insert(room.clone());
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// How many a domain has.
    pub(super) fn of_domain(&self, domain: &str) -> usize {
        self.by_domain.get(domain).copied().unwrap_or(0)
    }

    pub(super) fn room(&self, room: &AccountAddress) -> Option<&SeatedRoom> {
        self.rooms.get(room)
    }

    pub(super) fn room_mut(&mut self, room: &AccountAddress) -> Option<&mut SeatedRoom> {
        self.rooms.get_mut(room)
    }

    /// That of a device.
    pub(super) fn at(&self, room: &AccountAddress, who: (&AccountAddress, &str)) -> Option<&Seat> {
        let is_it = |it: &&Seat| it.account == *who.0 && *it.device == *who.1;
        self.rooms.get(room)?.seats.iter().find(is_it)
    }

    /// A device's role in a room; `None`: it is not in it.
    pub(super) fn standing(
        &self,
        room: &AccountAddress,
        who: (&AccountAddress, &str),
    ) -> Option<Standing> {
        let seat = self.at(room, who)?;
        let is_silent = seat.is_muted || self.rooms.get(room)?.is_closed;
        Some((seat.role, is_silent && seat.role == GroupRole::Member))
    }

    pub(super) fn has_account(&self, room: &AccountAddress, account: &AccountAddress) -> bool {
        let room = self.rooms.get(room);
        room.is_some_and(|it| it.seats.iter().any(|seat| seat.account == *account))
    }

    /// A device is in a room from now on, in which this holds.
    pub(super) fn put(
        &mut self,
        room: &AccountAddress,
        seat: Seat,
        (is_closed, is_unlocked): (bool, bool),
    ) {
        self.take_one(room, (&seat.account, &seat.device));
        self.count += 1;
        *self.by_domain.entry(seat.account.domain().into()).or_default() += 1;
        let it = self.rooms.entry(room.clone()).or_default();
        (it.is_closed, it.is_unlocked) = (is_closed, is_unlocked);
        it.seats.push(seat);
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
        let Some(it) = self.rooms.get_mut(room) else { return Vec::new() };
        let taken: Vec<Seat> = it.seats.extract_if(.., |seat| is_out(seat)).collect();
        if it.seats.is_empty() {
            self.rooms.remove(room);
            self.emptied.insert(room.clone());
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
    pub(super) fn take_shows(&mut self, now: Now) -> Vec<(AccountAddress, Seat, MemberShow)> {
        let mut due = Vec::new();
        for (room, it) in &mut self.rooms {
            for seat in &mut it.seats {
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
