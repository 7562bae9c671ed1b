//! Looks: the sessions of this shard that are in rooms of groups, or about to be.
//!
//! ```text
//! Enter ─► begin ─► home of the group ─► enters (its name there), or fails
//! Show  ─► pace of the session ─► home of the group
//! Leave, end of the session ─► home of the group
//! ```
//! A detached session that may be resumed stays. Invariant: a session is in no more rooms than it
//! may be, and sends no more shows a minute than it may send presence; only its last one waits.

use crate::groups::occupants::SeatAt;
use crate::groups::rooms::{SeatSaid, SeatsLeft};
use crate::{Chat, Effects};
use base::slab::Key;
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{Content, OccupantShow, nick_of};
use model::id::{ConnRef, SessionRef, ShardId};
use model::timeline::TimelineId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// The time in which a session may send so many shows.
const MINUTE: Duration = Duration::from_secs(60);

/// The looks of this shard's sessions.
#[derive(Default)]
pub(crate) struct Looks {
    by_session: HashMap<Key, Vec<Look>>,
    /// The times at which a session's waiting shows may be sent.
    due: BTreeSet<(Instant, Key)>,
    /// Leaves of sessions that have ended, to be reported to the homes of the groups: of each room
    /// together.
    left: BTreeMap<AccountAddress, Vec<(TimelineId, SeatAt)>>,
}

/// A session's look at a group.
struct Look {
    group: AccountAddress,
    /// The session's name in the room; none: it is entering.
    nick: Option<Box<str>>,
    /// The session has left, or could not enter. Its look is kept until it enters a room later than
    /// a minute after `since`, so that leaving does not let it enter sooner.
    is_over: bool,
    /// How often the session has entered, changed its name or sent a show there, and since when
    /// that counts.
    count: u16,
    since: Instant,
    /// The newest show, if it has not been sent yet.
    waiting: Option<OccupantShow>,
}

impl Look {
    /// Whether one more show may be sent now; if so, it counts.
    fn takes(&mut self, now: Now, most: u16) -> bool {
        if now.mono >= self.since + MINUTE {
            (self.since, self.count) = (now.mono, 0);
        }
        let may = self.count < most;
        self.count += u16::from(may);
        may
    }
}

impl Looks {
    fn at(&mut self, key: Key, group: &AccountAddress) -> Option<&mut Look> {
        let all = self.by_session.get_mut(&key)?;
        all.iter_mut().find(|it| it.group == *group && !it.is_over)
    }

    /// The name of a session in a room that it is in, or is entering.
    pub(crate) fn nick(&self, key: Key, group: &AccountAddress) -> Option<Box<str>> {
        let all = self.by_session.get(&key)?;
        let it = all.iter().find(|it| it.group == *group && !it.is_over)?;
        Some(it.nick.clone().unwrap_or_default())
    }

    /// Begins a session's look at a group. False: it looks at too many.
    pub(crate) fn begin(
        &mut self,
        now: Now,
        (key, group): (Key, &AccountAddress),
        groups_max: u16,
    ) -> bool {
        let all = self.by_session.entry(key).or_default();
        all.retain(|it| !it.is_over || now.mono < it.since + MINUTE);
        let groups_max = usize::from(groups_max);
        let has_room = all.iter().filter(|it| !it.is_over).count() < groups_max;
        // It leaves no more rooms in a minute than it may be in.
        let has_place = has_room && all.len() < 2 * groups_max;
        let may = if let Some(it) = all.iter_mut().find(|it| it.group == *group) {
            it.is_over &= !has_room;
            !it.is_over
        } else if has_place {
            all.reserve_exact(1); // most sessions are in few rooms
            let (group, since) = (group.clone(), now.mono);
            let (nick, waiting, is_over, count) = (None, None, false, 0);
            all.push(Look { group, nick, is_over, count, since, waiting });
            true
        } else {
            false
        };
        if all.is_empty() {
            self.by_session.remove(&key);
        }
        may
    }

    /// Whether a session may enter a room or change its name there now; if so, it counts.
    pub(crate) fn moves(
        &mut self,
        now: Now,
        (key, group): (Key, &AccountAddress),
        most: u16,
    ) -> bool {
        self.at(key, group).is_none_or(|it| it.takes(now, most))
    }

    /// Notes the name by which a session is in a room. False: it looks there no more.
    pub(crate) fn enters(&mut self, key: Key, group: &AccountAddress, nick: Box<str>) -> bool {
        let it = self.at(key, group);
        it.map(|it| it.nick = Some(nick)).is_some()
    }

    /// Ends the look of a session that could not enter; one that was in the room before is. True:
    /// it was not.
    pub(crate) fn fails(&mut self, key: Key, group: &AccountAddress) -> bool {
        let was_entering = self.at(key, group).is_some_and(|it| it.nick.is_none());
        if was_entering {
            self.end(key, group);
        }
        was_entering
    }

    /// Takes a session's show; returns it if it may be sent now.
    pub(crate) fn says(
        &mut self,
        now: Now,
        (key, group): (Key, &AccountAddress),
        show: OccupantShow,
        most: u16,
    ) -> Option<OccupantShow> {
        let it = self.at(key, group)?;
        if it.takes(now, most) {
            it.waiting = None;
            return Some(show);
        }
        it.waiting = Some(show);
        let at = it.since + MINUTE;
        self.due.insert((at, key));
        None
    }

    /// Ends a session's look at a group.
    pub(crate) fn end(&mut self, key: Key, group: &AccountAddress) {
        if let Some(it) = self.at(key, group) {
            (it.is_over, it.nick, it.waiting) = (true, None, None);
        }
    }

    /// The shows that have waited long enough, with their sessions and groups.
    fn take_due(&mut self, now: Now, most: u16) -> Vec<(Key, AccountAddress, OccupantShow)> {
        let mut all = Vec::new();
        while let Some(&(at, key)) = self.due.first().filter(|(at, _)| *at <= now.mono) {
            self.due.remove(&(at, key));
            for it in self.by_session.get_mut(&key).into_iter().flatten() {
                if it.waiting.is_some() && it.takes(now, most) {
                    all.extend(it.waiting.take().map(|show| (key, it.group.clone(), show)));
                }
            }
        }
        all
    }

    /// Ends the looks of a session that has ended.
    pub(crate) fn leaves(&mut self, key: Key, (by, shard): (TimelineId, ShardId)) {
        let all = self.by_session.remove(&key).into_iter().flatten();
        for Look { group, .. } in all.filter(|it| !it.is_over) {
            let at = (Some(SessionRef::new(shard, key)), Box::default());
            self.left.entry(group).or_default().push((by, at));
        }
    }

    /// Panics when an invariant does not hold.
    pub(crate) fn audit(&self) {
        assert!(self.by_session.values().all(|it| !it.is_empty()), "who looks at none is not kept");
    }
}

impl Chat {
    /// The name that a session has chosen in a room that it is in; none: that of its account.
    pub(crate) fn nick_in(
        &self,
        from: ConnRef,
        session: SessionRef,
        (group, account): (&AccountAddress, &AccountAddress),
    ) -> Option<Box<str>> {
        let key = self.sessions.bound(from, session)?;
        let nick = self.looks.nick(key, group)?;
        Some(nick).filter(|nick| !nick.is_empty() && **nick != *nick_of(group, account))
    }

    /// Adds the name that the sender of a message has chosen in a room, if it is in it.
    pub(crate) fn names_sender(
        &self,
        (from, session): (ConnRef, SessionRef),
        (to, account): (&AccountAddress, &AccountAddress),
        content: &mut Content,
    ) {
        if to.is_group()
            && let Some(nick) = self.nick_in(from, session, (to, account))
        {
            content.nick = Some(nick);
        }
    }

    /// Sends shows that have waited, and leaves of sessions that have ended; returns when to look
    /// again.
    pub(crate) fn turn_looks(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        // That a server which stops disconnects its clients ends no group.
        if !self.temporaries.is_stopping() {
            for (group, all) in std::mem::take(&mut self.looks.left) {
                self.leaves_go(now, SeatsLeft { group, all }, fx);
            }
        }
        let most = self.settings.limits.chat.presence_changes_a_minute_max;
        for (key, group, show) in self.looks.take_due(now, most) {
            let Some(session) = self.sessions.slab.at(key) else { continue };
            let at = (Some(SessionRef::new(self.settings.shard, key)), session.device.clone());
            let by = session.inbox;
            self.seat_goes(now, SeatSaid { by, at, group, show }, fx);
        }
        self.looks.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::account::AccountId;
    use model::chat::Show;

    fn at(s: u64) -> Now {
        Now::new(Instant::default() + Duration::from_secs(s), 0)
    }

    fn key(slot: u32) -> Key {
        Key { slot, generation: 1 }
    }

    fn away(status: &str) -> OccupantShow {
        OccupantShow { show: Show::Away, status: status.into(), ..OccupantShow::default() }
    }

    fn group(name: &str) -> AccountAddress {
        AccountAddress::parse(name, "conference.a.example").expect("right")
    }

    #[test]
    fn a_session_says_so_much_in_a_minute_and_the_last_of_what_it_says_beyond_comes_later() {
        let mut looks = Looks::default();
        let lunch = group("lunch");
        assert!(looks.begin(at(0), (key(1), &lunch), 2));
        let mut says =
            |s: u64, text: &str| looks.says(at(s), (key(1), &lunch), away(text), 2).is_some();
        assert!(says(0, "1") && says(1, "2") && !says(2, "3") && !says(3, "4"));
        assert!(looks.take_due(at(59), 2).is_empty());
        let due = looks.take_due(at(60), 2);
        assert_eq!(due, [(key(1), lunch.clone(), away("4"))]);
        assert!(looks.take_due(at(200), 2).is_empty() && looks.due.is_empty());
        assert!(looks.says(at(200), (key(2), &lunch), away("1"), 2).is_none(), "it is not there");
    }

    #[test]
    fn a_session_that_leaves_a_room_enters_it_no_sooner_again() {
        let mut looks = Looks::default();
        let (lunch, tea) = (group("lunch"), group("tea"));
        for s in 0..2 {
            assert!(looks.begin(at(s), (key(1), &lunch), 1));
            assert!(looks.moves(at(s), (key(1), &lunch), 2));
            looks.end(key(1), &lunch);
        }
        assert!(looks.begin(at(59), (key(1), &lunch), 1));
        assert!(!looks.moves(at(59), (key(1), &lunch), 2));
        looks.fails(key(1), &lunch);
        assert!(looks.begin(at(59), (key(1), &tea), 1), "it is in no room");
        looks.end(key(1), &tea);
        assert!(!looks.begin(at(59), (key(1), &group("more")), 1), "too many were left");
        assert!(looks.begin(at(60), (key(1), &lunch), 1));
        assert!(looks.moves(at(60), (key(1), &lunch), 2));
        looks.audit();
    }

    #[test]
    fn a_session_is_in_so_many_rooms_and_leaves_them_with_its_end() {
        let mut looks = Looks::default();
        let (lunch, tea) = (group("lunch"), group("tea"));
        assert!(looks.begin(at(0), (key(1), &lunch), 1) && looks.begin(at(0), (key(1), &lunch), 1));
        assert!(!looks.begin(at(0), (key(1), &tea), 1) && !looks.begin(at(0), (key(2), &tea), 0));
        looks.audit();
        looks.fails(key(1), &lunch);
        assert_eq!(looks.nick(key(1), &lunch), None, "it was not in it");
        assert!(!looks.enters(key(1), &lunch, "Ann".into()), "it has left");
        assert!(looks.begin(at(0), (key(1), &lunch), 1));
        assert!(looks.enters(key(1), &lunch, "Ann".into()));
        looks.fails(key(1), &lunch);
        assert_eq!(looks.nick(key(1), &lunch).as_deref(), Some("Ann"), "it is in it still");
        let inbox = group("ann").inbox(HashKey::new(1, 2), AccountId(1));
        looks.leaves(key(1), (inbox, ShardId(0)));
        assert_eq!((looks.left.len(), looks.by_session.len()), (1, 0));
        looks.audit();
    }
}
