//! Occupants: who is in the rooms of groups that are at home here, under which names.
//!
//! ```text
//! accounts: inbox ─► occupants of it ─► seats: a session here, or a device of another server
//! nicks:    key of a name ─► inbox
//! ```
//! Pure, and in memory only: occupants end with their sessions. An occupant has the role that its
//! account has as a member, or none; chat updates it when that changes. Invariant: a name is one
//! account's; an occupant has a seat; the counts are those of the seats.

use crate::groups::nicks::key_of;
use model::account::AccountAddress;
use model::chat::{
    ChatFault, GroupRole, Occupant, OccupantName, OccupantShow, ROLES_LISTED_MAX, RoomRole,
};
use model::id::{SessionRef, ShardId};
use model::timeline::TimelineId;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A device that is in a room: a session here; none: a device of another server, by its name.
pub(crate) type SeatAt = (Option<SessionRef>, Box<str>);

/// Whether both are one device.
fn is_same(one: &SeatAt, other: &SeatAt) -> bool {
    one.0 == other.0 && (one.0.is_some() || one.1 == other.1)
}

/// A seat: the device, and how its owner is there.
struct Seat {
    at: SeatAt,
    show: OccupantShow,
}

/// An occupant, with the form of its name that is compared, and its seats in the order in which
/// they said how they are there.
struct Seated {
    shown: Arc<Occupant>,
    key: Box<str>,
    seats: Vec<Seat>,
}

const _: () = assert!(size_of::<Seated>() <= 48, "of each occupant, beside what is shown of it");
const _: () = assert!(size_of::<Occupant>() <= 104 && size_of::<Seat>() <= 64);

/// The standing of an account in a group: its role as a member, and whether it may say nothing.
pub(crate) type Standing = (Option<GroupRole>, bool);

/// The limits of rooms, in seats.
#[derive(Clone, Copy)]
pub(crate) struct SeatsMax {
    /// Of one room.
    pub a_room: usize,
    /// Of one room by its rules, in occupants.
    pub occupants: usize,
    /// Of all rooms of the shard.
    pub all: usize,
}

/// The devices that are told something.
#[derive(Clone)]
pub(crate) struct Hearers {
    pub here: Arc<[(ShardId, Arc<[Sitter]>)]>,
    pub abroad: Arc<[(AccountAddress, Box<str>)]>,
}

/// A session in a room, and the inbox of its account.
pub(crate) type Sitter = (TimelineId, SessionRef);

/// A room that somebody is in.
pub(crate) struct Room {
    pub group: AccountAddress,
    accounts: HashMap<TimelineId, Vec<Seated>>,
    nicks: BTreeMap<Box<str>, TimelineId>,
    pub seats: usize,
    /// Roles that moderators have given to accounts below admins, while these are here.
    roles: HashMap<TimelineId, RoomRole>,
    /// The number of the last news.
    pub last: u64,
    /// The account that makes the room, until its first settings.
    pub maker: Option<TimelineId>,
    /// Whether the room is too large for everybody to be told of everybody.
    is_large: bool,
    /// All seats, and those of accounts that are no members; until something changes.
    all: Option<Hearers>,
    strangers: Option<Hearers>,
}

/// All rooms that somebody is in, by their conversations.
#[derive(Default)]
pub(crate) struct Occupants {
    rooms: HashMap<TimelineId, Room>,
    seats: usize,
}

/// A device that enters a room.
pub(crate) struct Newcomer {
    pub inbox: TimelineId,
    pub account: AccountAddress,
    pub nick: Box<str>,
    pub at: SeatAt,
    pub show: OccupantShow,
    pub standing: Standing,
}

/// An occupant's role as a member, whether it may say nothing, and whether it moderates: of one
/// below the admins, a moderator may have decided that.
fn heard((role, silent): Standing, given: Option<&RoomRole>) -> (Option<GroupRole>, bool, bool) {
    match given.filter(|_| role <= Some(GroupRole::Member)) {
        Some(RoomRole::Moderator) => (role, false, true),
        Some(RoomRole::Participant) => (role, false, false),
        Some(RoomRole::Visitor | RoomRole::None) => (role, true, false),
        None => (role, silent, false),
    }
}

fn hearers<'a>(all: impl Iterator<Item = (TimelineId, &'a Seated)>) -> Hearers {
    let (mut here, mut abroad) = (BTreeMap::<ShardId, Vec<Sitter>>::new(), Vec::new());
    for (inbox, it) in all {
        for Seat { at: (session, device), .. } in &it.seats {
            match session {
                Some(session) => {
                    here.entry(session.shard()).or_default().push((inbox, *session));
                }
                None => abroad.push((it.shown.account.clone(), device.clone())),
            }
        }
    }
    let here = here.into_iter().map(|(shard, all)| (shard, all.into()));
    Hearers { here: here.collect(), abroad: abroad.into() }
}

fn seated(
    accounts: &HashMap<TimelineId, Vec<Seated>>,
) -> impl Iterator<Item = (TimelineId, &Seated)> {
    accounts.iter().flat_map(|(inbox, all)| all.iter().map(|it| (*inbox, it)))
}

impl Seated {
    /// Shows the occupant as its newest seat has it. True: that is something new.
    fn show(&mut self) -> bool {
        let Some(newest) = self.seats.last() else { return false };
        let (device, show) = (&newest.at.1, &newest.show);
        let is_new = self.shown.show != *show;
        if is_new || self.shown.device != *device {
            let (device, show) = (device.clone(), show.clone());
            self.shown = Arc::new(Occupant { device, show, ..(*self.shown).clone() });
        }
        is_new
    }
}

impl Room {
    /// The occupant with a name, and its inbox.
    pub(crate) fn named(&self, nick: &str) -> Option<(TimelineId, Arc<Occupant>)> {
        let key = key_of(nick)?;
        let inbox = *self.nicks.get(&key)?;
        let it = self.accounts.get(&inbox)?.iter().find(|it| it.key == key)?;
        Some((inbox, it.shown.clone()))
    }

    /// The occupant that a request names, and its inbox.
    pub(crate) fn found(&self, whom: &OccupantName) -> Option<(TimelineId, Arc<Occupant>)> {
        let of = |(inbox, it): (TimelineId, &Seated)| (inbox, it.shown.clone());
        match whom {
            OccupantName::Nick(nick) => self.named(nick),
            OccupantName::Account(account) => {
                let is_it = |(_, it): &(TimelineId, &Seated)| it.shown.account == *account;
                seated(&self.accounts).find(is_it).map(of)
            }
        }
    }

    /// The occupants with a role, in the order of their names; one more than may be listed.
    pub(crate) fn with_role(&self, role: RoomRole) -> Box<[Arc<Occupant>]> {
        let all = self.nicks.keys().filter_map(|key| self.named(key)).map(|(_, it)| it);
        all.filter(|it| it.room_role() == role).take(ROLES_LISTED_MAX + 1).collect()
    }

    /// The accounts below admins that moderate the room, with their inboxes.
    pub(crate) fn moderators(&self) -> Vec<(TimelineId, AccountAddress)> {
        let is_one = |(_, role): &(&TimelineId, &RoomRole)| **role == RoomRole::Moderator;
        let inboxes = self.roles.iter().filter(is_one).map(|(inbox, _)| *inbox);
        let account =
            |inbox| Some((inbox, self.accounts.get(&inbox)?.first()?.shown.account.clone()));
        inboxes.filter_map(account).collect()
    }

    /// The occupants of an account.
    pub(crate) fn of(&self, inbox: TimelineId) -> Vec<Arc<Occupant>> {
        let all = self.accounts.get(&inbox).into_iter().flatten();
        all.map(|it| it.shown.clone()).collect()
    }

    /// The accounts that are in the room.
    pub(crate) fn accounts(&self) -> Vec<TimelineId> {
        self.accounts.keys().copied().collect()
    }

    /// The other occupants than this one: so many of them, moderators first if they are more.
    pub(crate) fn others(&self, own: &Occupant, most: usize) -> Vec<Arc<Occupant>> {
        let own = key_of(&own.nick).unwrap_or_default();
        let all = self.nicks.keys().filter(|key| **key != own);
        let all = all.filter_map(|key| self.named(key)).map(|(_, it)| it);
        if self.nicks.len() <= most {
            return all.collect();
        }
        let is_moderator = |it: &Arc<Occupant>| it.is_moderator();
        let (mut first, rest): (Vec<_>, Vec<_>) = all.partition(is_moderator);
        first.extend(rest);
        first.truncate(most);
        first
    }

    /// The seats of an account.
    pub(crate) fn own(&self, inbox: TimelineId) -> Hearers {
        hearers(self.accounts.get(&inbox).into_iter().flatten().map(|it| (inbox, it)))
    }

    /// The seats of the occupant with a name, and the inbox of its account.
    pub(crate) fn seats_named(&self, nick: &str) -> Option<(TimelineId, Hearers)> {
        let (key, (inbox, _)) = (key_of(nick)?, self.named(nick)?);
        let it = self.accounts.get(&inbox)?.iter().find(|it| it.key == key)?;
        Some((inbox, hearers([(inbox, it)].into_iter())))
    }

    /// The seat of the occupant with a name that has said last how it is there.
    pub(crate) fn newest_seat(&self, nick: &str) -> Option<(TimelineId, SeatAt)> {
        let (key, (inbox, _)) = (key_of(nick)?, self.named(nick)?);
        let it = self.accounts.get(&inbox)?.iter().find(|it| it.key == key)?;
        Some((inbox, it.seats.last()?.at.clone()))
    }

    /// One seat, if it is in the room.
    pub(crate) fn seat(&self, inbox: TimelineId, at: &SeatAt) -> Option<Hearers> {
        let mut all = self.accounts.get(&inbox)?.iter();
        let it = all.find(|it| it.seats.iter().any(|seat| is_same(&seat.at, at)))?;
        let here = at.0.map(|it| (it.shard(), [(inbox, it)].into()));
        let abroad = Some((it.shown.account.clone(), at.1.clone())).filter(|_| at.0.is_none());
        Some(Hearers { here: here.into_iter().collect(), abroad: abroad.into_iter().collect() })
    }

    /// All seats.
    pub(crate) fn all(&mut self) -> Hearers {
        let all = seated(&self.accounts);
        self.all.get_or_insert_with(|| hearers(all)).clone()
    }

    /// The seats of accounts that are no members: they have no inbox with the group.
    pub(crate) fn strangers(&mut self) -> Hearers {
        let all = seated(&self.accounts).filter(|(_, it)| it.shown.role.is_none());
        self.strangers.get_or_insert_with(|| hearers(all)).clone()
    }

    /// Takes the number of the next news; none: the room is too large for everybody to be told. It
    /// is large with more seats than `most`, until it has half as many; then its devices, which
    /// were not told who left, miss a number, and so enter anew.
    pub(crate) fn next_number(&mut self, most: usize) -> Option<u64> {
        let was_large = self.is_large;
        self.is_large = self.seats > if was_large { most / 2 } else { most };
        if self.is_large {
            return None;
        }
        self.last += 1 + u64::from(was_large);
        Some(self.last)
    }

    fn has_changed(&mut self) {
        (self.all, self.strangers) = (None, None);
    }

    /// The occupant that a device is part of.
    fn seated(&mut self, inbox: TimelineId, at: &SeatAt) -> Option<&mut Seated> {
        let all = self.accounts.get_mut(&inbox)?;
        all.iter_mut().find(|it| it.seats.iter().any(|seat| is_same(&seat.at, at)))
    }

    /// The occupant that a device is.
    pub(crate) fn at(&mut self, inbox: TimelineId, at: &SeatAt) -> Option<Arc<Occupant>> {
        self.seated(inbox, at).map(|it| it.shown.clone())
    }

    /// Sets how a device is there; returns the occupant if it is otherwise now.
    pub(crate) fn shows(
        &mut self,
        inbox: TimelineId,
        at: &SeatAt,
        show: OccupantShow,
    ) -> Option<Arc<Occupant>> {
        let it = self.seated(inbox, at)?;
        let place = it.seats.iter().position(|seat| is_same(&seat.at, at))?;
        let seat = it.seats.remove(place);
        it.seats.push(Seat { show, ..seat });
        it.show().then(|| it.shown.clone())
    }

    /// Gives the occupant of a device another name; returns the former one, and the occupant. With
    /// the name of another occupant of its account it is that one from now on.
    pub(crate) fn renames(
        &mut self,
        inbox: TimelineId,
        at: &SeatAt,
        nick: &str,
    ) -> Result<(Box<str>, Arc<Occupant>), ChatFault> {
        let key = key_of(nick).ok_or(ChatFault::Invalid)?;
        let it = self.seated(inbox, at).ok_or(ChatFault::NotMember)?;
        let (before, former) = (it.key.clone(), it.shown.nick.clone());
        match self.nicks.get(&key) {
            Some(owner) if *owner != inbox => return Err(ChatFault::Conflict),
            Some(_) if key != before => {
                let all = self.accounts.get_mut(&inbox).ok_or(ChatFault::NotMember)?;
                let moved: Vec<_> = all.extract_if(.., |it| it.key == before).collect();
                let into = all.iter_mut().find(|it| it.key == key);
                let into = into.ok_or(ChatFault::Conflict)?;
                into.seats.extend(moved.into_iter().flat_map(|it| it.seats));
                into.show();
                let shown = into.shown.clone();
                self.nicks.remove(&before);
                return Ok((former, shown));
            }
            _ => {}
        }
        let it = self.seated(inbox, at).ok_or(ChatFault::NotMember)?;
        let nick = nick.trim();
        it.shown = Arc::new(Occupant { nick: nick.into(), ..(*it.shown).clone() });
        let renamed = it.shown.clone();
        it.key.clone_from(&key);
        self.nicks.remove(&before);
        self.nicks.insert(key, inbox);
        Ok((former, renamed))
    }

    /// Gives an account below the admins a role until it leaves; none: what its standing gives it.
    pub(crate) fn sets_role(&mut self, inbox: TimelineId, role: Option<RoomRole>) {
        match role {
            Some(role) => _ = self.roles.insert(inbox, role),
            None => _ = self.roles.remove(&inbox),
        }
    }

    /// Sets the standing of an account; returns its occupants that are otherwise now.
    pub(crate) fn stands(&mut self, inbox: TimelineId, of: Standing) -> Vec<Arc<Occupant>> {
        if of.0 > Some(GroupRole::Member) {
            self.roles.remove(&inbox); // it has a higher one, and none of it when it loses that
        }
        let of = heard(of, self.roles.get(&inbox));
        let (role, silent, moderates) = of;
        let all = self.accounts.get_mut(&inbox).into_iter().flatten();
        let mut changed = Vec::new();
        for it in all.filter(|it| (it.shown.role, it.shown.silent, it.shown.moderates) != of) {
            it.shown = Arc::new(Occupant { role, silent, moderates, ..(*it.shown).clone() });
            changed.push(it.shown.clone());
        }
        if !changed.is_empty() {
            self.has_changed();
        }
        changed
    }
}

impl Occupants {
    pub(crate) fn room(&mut self, conversation: TimelineId) -> Option<&mut Room> {
        self.rooms.get_mut(&conversation)
    }

    /// Whether the maker of a room is in it and has not sent its settings.
    pub(crate) fn is_being_made(&self, conversation: TimelineId) -> bool {
        self.rooms
            .get(&conversation)
            .is_some_and(|room| room.maker.is_some_and(|maker| room.accounts.contains_key(&maker)))
    }

    /// The number of devices in a room.
    pub(crate) fn seats_of(&self, conversation: TimelineId) -> usize {
        self.rooms.get(&conversation).map_or(0, |room| room.seats)
    }

    /// The number of occupants of a room.
    pub(crate) fn len_of(&self, conversation: TimelineId) -> usize {
        self.rooms.get(&conversation).map_or(0, |room| room.nicks.len())
    }

    /// The occupant that an account is in a room, if it is in it.
    pub(crate) fn one_of(
        &self,
        conversation: TimelineId,
        inbox: TimelineId,
    ) -> Option<&Arc<Occupant>> {
        self.rooms.get(&conversation)?.accounts.get(&inbox)?.first().map(|it| &it.shown)
    }

    /// The occupant that a device of an account is, or one that its other devices are.
    pub(crate) fn one_by(
        &self,
        conversation: TimelineId,
        inbox: TimelineId,
        device: &str,
    ) -> Option<&Arc<Occupant>> {
        let all = self.rooms.get(&conversation)?.accounts.get(&inbox)?;
        let is_it = |it: &&Seated| it.seats.iter().any(|seat| *seat.at.1 == *device);
        all.iter().find(is_it).or(all.first()).map(|it| &it.shown)
    }

    /// Whether an account moderates a room that it is in.
    pub(crate) fn moderates(&self, conversation: TimelineId, inbox: TimelineId) -> bool {
        self.one_of(conversation, inbox).is_some_and(|it| it.is_moderator())
    }

    /// Puts a device into a room. Returns the devices that are told, the occupant that it is, and
    /// whether that one is new, or otherwise than before.
    pub(crate) fn enter(
        &mut self,
        (conversation, group): (TimelineId, &AccountAddress),
        newcomer: Newcomer,
        most: SeatsMax,
    ) -> Result<(Hearers, Arc<Occupant>, bool), ChatFault> {
        let Newcomer { inbox, account, nick, at, show, standing: (role, silent) } = newcomer;
        let key = key_of(&nick).ok_or(ChatFault::Invalid)?;
        let is_admin = role > Some(GroupRole::Member);
        let (mut was, mut given) = (None, None);
        if let Some(room) = self.rooms.get_mut(&conversation) {
            if room.nicks.get(&key).is_some_and(|owner| *owner != inbox) {
                return Err(ChatFault::Conflict);
            }
            was = room.at(inbox, &at);
            given = room.roles.get(&inbox).copied();
            let is_full = room.seats >= most.a_room
                || room.nicks.len() >= most.occupants && !room.nicks.contains_key(&key);
            if is_full && !is_admin && was.is_none() {
                return Err(ChatFault::ChatroomFull);
            }
        }
        if self.seats >= most.all && was.is_none() {
            return Err(ChatFault::ChatroomFull);
        }
        if was.is_some() {
            self.leave((conversation, inbox), &at);
        }
        let room = self.rooms.entry(conversation).or_insert_with(|| Room {
            group: group.clone(),
            accounts: HashMap::new(),
            nicks: BTreeMap::new(),
            seats: 0,
            roles: HashMap::new(),
            last: 0,
            maker: None,
            is_large: false,
            all: None,
            strangers: None,
        });
        let told = room.all();
        room.nicks.insert(key.clone(), inbox);
        room.sets_role(inbox, given); // a device that enters anew was in the room all the time
        room.seats += 1;
        room.has_changed();
        self.seats += 1;
        let all = room.accounts.entry(inbox).or_default();
        let seat = Seat { at, show };
        if let Some(it) = all.iter_mut().find(|it| it.key == key) {
            it.seats.push(seat);
            let is_new = it.show();
            return Ok((told, it.shown.clone(), is_new));
        }
        let (role, silent, moderates) = heard((role, silent), room.roles.get(&inbox));
        let (device, show, nick) = (seat.at.1.clone(), seat.show.clone(), nick.trim().into());
        let shown = Arc::new(Occupant { nick, account, device, role, silent, moderates, show });
        all.push(Seated { shown: shown.clone(), key, seats: vec![seat] });
        let is_new = was.is_none_or(|was| *was != *shown);
        Ok((told, shown, is_new))
    }

    /// Takes a device out of a room. Returns its occupant, and whether that is there still, and
    /// otherwise than before; none: the device was not in the room.
    pub(crate) fn leave(
        &mut self,
        (conversation, inbox): (TimelineId, TimelineId),
        at: &SeatAt,
    ) -> Option<(Arc<Occupant>, Option<bool>)> {
        let room = self.rooms.get_mut(&conversation)?;
        let it = room.seated(inbox, at)?;
        it.seats.retain(|seat| !is_same(&seat.at, at));
        let is_new = it.show();
        let rest = (!it.seats.is_empty()).then_some(is_new);
        let (shown, key) = (it.shown.clone(), it.key.clone());
        self.seats -= 1;
        room.seats -= 1;
        room.has_changed();
        if rest.is_none() {
            room.nicks.remove(&key);
            if let Some(all) = room.accounts.get_mut(&inbox) {
                all.retain(|it| !it.seats.is_empty());
                if all.is_empty() {
                    room.roles.remove(&inbox);
                    room.accounts.remove(&inbox);
                }
            }
        }
        self.forget_if_empty(conversation);
        Some((shown, rest))
    }

    /// Takes all devices of an account out of a room; returns its occupants. A room that nobody is
    /// in then is forgotten.
    pub(crate) fn remove(
        &mut self,
        conversation: TimelineId,
        inbox: TimelineId,
    ) -> Vec<Arc<Occupant>> {
        let Some(room) = self.rooms.get_mut(&conversation) else { return Vec::new() };
        room.roles.remove(&inbox);
        let all = room.accounts.remove(&inbox).unwrap_or_default();
        let seats: usize = all.iter().map(|it| it.seats.len()).sum();
        room.seats -= seats;
        self.seats -= seats;
        all.iter().for_each(|it| _ = room.nicks.remove(&it.key));
        let shown: Vec<_> = all.into_iter().map(|it| it.shown).collect();
        room.has_changed();
        self.forget_if_empty(conversation);
        shown
    }

    fn forget_if_empty(&mut self, conversation: TimelineId) {
        if self.seats_of(conversation) == 0 {
            self.rooms.remove(&conversation);
        }
    }

    /// Panics when an invariant does not hold.
    pub(crate) fn audit(&self) {
        let mut all = 0;
        for room in self.rooms.values() {
            let seated_here: Vec<_> = room.accounts.values().flatten().collect();
            let seats: usize = seated_here.iter().map(|it| it.seats.len()).sum();
            assert!(seats > 0 && seats == room.seats, "a room has somebody in it");
            assert!(seated_here.iter().all(|it| !it.seats.is_empty()), "an occupant has a seat");
            assert_eq!(seated_here.len(), room.nicks.len(), "each has one name");
            assert!(room.roles.keys().all(|inbox| room.accounts.contains_key(inbox)));
            for (inbox, it) in seated(&room.accounts) {
                assert_eq!(room.nicks.get(&it.key), Some(&inbox));
                assert_eq!(key_of(&it.shown.nick).as_ref(), Some(&it.key));
            }
            all += seats;
        }
        assert_eq!(all, self.seats);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use base::slab::Key;
    use model::account::AccountId;
    use model::chat::Show;

    const HOME: HashKey = HashKey::new(1, 2);
    const MOST: SeatsMax = SeatsMax { a_room: 3, occupants: 3, all: 4 };

    fn address(name: &str) -> AccountAddress {
        AccountAddress::parse(name, "a.example").expect("right")
    }

    fn lunch() -> (TimelineId, AccountAddress) {
        let group = address("lunch@conference.a.example");
        (crate::groups::conversation_of(HOME, &group), group)
    }

    fn inbox(name: &str) -> TimelineId {
        address(name).inbox(HOME, AccountId(1))
    }

    fn at(slot: u32) -> SeatAt {
        let key = Key { slot, generation: 1 };
        (Some(SessionRef::new(ShardId(0), key)), format!("d{slot}").into())
    }

    fn away(status: &str) -> OccupantShow {
        OccupantShow { show: Show::Away, status: status.into(), ..OccupantShow::default() }
    }

    impl Occupants {
        fn comes(&mut self, name: &str, nick: &str, slot: u32, role: Option<GroupRole>) -> String {
            let (account, inbox, at) = (address(name), inbox(name), at(slot));
            let (nick, show, standing) = (nick.into(), away(nick), (role, false));
            let newcomer = Newcomer { inbox, account, nick, at, show, standing };
            let (conversation, group) = lunch();
            let told = self.enter((conversation, &group), newcomer, MOST);
            self.audit();
            match told {
                Ok((told, it, is_new)) => {
                    let told: usize = told.here.iter().map(|(_, all)| all.len()).sum();
                    format!("{} {told} {}", it.nick, if is_new { "new" } else { "known" })
                }
                Err(fault) => fault.name().into(),
            }
        }
    }

    #[test]
    fn a_name_is_one_accounts_whose_devices_share_it() {
        let (mut all, (lunch, _)) = (Occupants::default(), lunch());
        assert_eq!(all.comes("ann", "Hatter", 1, None), "Hatter 0 new");
        assert_eq!(all.comes("bob", " hatter ", 2, None), "conflict");
        assert_eq!(all.comes("bob", "", 2, None), "invalid");
        assert_eq!(all.comes("bob", "Dormouse", 2, None), "Dormouse 1 new");
        assert_eq!(all.comes("ann", "hatter", 3, None), "Hatter 2 new", "of another mood");
        let room = all.room(lunch).expect("there");
        assert_eq!(
            (room.seats, room.named("HATTER").expect("there").1.show.status.as_ref()),
            (3, "hatter")
        );
        assert_eq!(room.renames(inbox("bob"), &at(2), "Hatter").err(), Some(ChatFault::Conflict));
        let (before, now) = room.renames(inbox("bob"), &at(2), "March Hare").expect("free");
        assert_eq!((&*before, &*now.nick), ("Dormouse", "March Hare"));
        assert!(room.named("dormouse").is_none());
        let left = all.leave((lunch, inbox("ann")), &at(3)).expect("it was there");
        assert_eq!(
            (&*left.0.show.status, left.1),
            ("Hatter", Some(true)),
            "the other device is there"
        );
        assert!(all.leave((lunch, inbox("ann")), &at(3)).is_none());
        assert_eq!(all.leave((lunch, inbox("ann")), &at(1)).expect("it was there").1, None);
        assert_eq!(all.comes("carol", "Hatter", 4, None), "Hatter 1 new", "the name is free");
        assert_eq!(all.remove(lunch, inbox("bob")).len(), 1);
        all.audit();
        assert_eq!(all.remove(lunch, inbox("carol")).len(), 1);
        assert!(all.rooms.is_empty() && all.seats == 0);
    }

    #[test]
    fn an_account_with_two_names_does_something_by_that_of_its_device() {
        let (mut all, (lunch, _)) = (Occupants::default(), lunch());
        assert_eq!(all.comes("ann", "Alice", 1, None), "Alice 0 new");
        assert_eq!(all.comes("ann", "Hatter", 2, None), "Hatter 1 new");
        let nick = |device| all.one_by(lunch, inbox("ann"), device).map(|it| it.nick.to_string());
        assert_eq!(
            ["d1", "d2", "d3"].map(|it| nick(it).expect("there")),
            ["Alice", "Hatter", "Alice"]
        );
    }

    #[test]
    fn a_room_is_full_for_all_but_moderators_and_a_shard_for_everybody() {
        let mut all = Occupants::default();
        for slot in 0..3 {
            assert!(
                all.comes(&format!("p{slot}"), &format!("P{slot}"), slot, None).ends_with("new")
            );
        }
        assert_eq!(all.comes("ann", "ann", 8, Some(GroupRole::Member)), "chatroom_full");
        assert_eq!(all.comes("p1", "P1", 1, None), "P1 2 known", "it enters anew");
        assert_eq!(all.comes("ann", "ann", 8, Some(GroupRole::Admin)), "ann 3 new");
        assert_eq!(all.comes("bob", "bob", 9, Some(GroupRole::Owner)), "chatroom_full");
        let room = all.room(lunch().0).expect("there");
        let own = room.named("P0").expect("there").1;
        let shown: Vec<_> = room.others(&own, 2).iter().map(|it| it.nick.to_string()).collect();
        assert_eq!(shown, ["ann", "P1"], "moderators first");
        let changed = room.stands(inbox("p1"), (Some(GroupRole::Member), true));
        assert!(changed.len() == 1 && changed[0].silent);
        assert!(room.stands(inbox("p1"), (Some(GroupRole::Member), true)).is_empty());
        let count = |of: Hearers| of.here.iter().map(|(_, all)| all.len()).sum::<usize>();
        assert_eq!(
            (count(room.all()), count(room.strangers()), count(room.own(inbox("p1")))),
            (4, 2, 1)
        );
    }
}
