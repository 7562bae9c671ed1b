//! Looks: the sessions that are in the rooms of groups, and the availability that their owners send
//! there.
//!
//! ```text
//! LookAtGroup ─► begins, ends: noted here only; when the last one ends: home of the group
//!             └► shows: pace of the session ─► home of the group (shows)
//! ```
//! A session looks at a group from its request to enter the room until it has left, or has ended; a
//! detached session that may be resumed goes on. The home of the group keeps no list of them: it
//! asks all shards when it has to know ([`temporary`](super::temporary)). Invariant: a session
//! looks at no more groups than it may be in rooms, and sends no more shows a minute than it may
//! send presence; only its last one waits.

use crate::groups::shows::ShowSaid;
use crate::sessions::Asker;
use crate::{Chat, Effects};
use base::slab::Key;
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{
    AttendanceTold, ChatDelivery, GroupLook, LookAtGroup, MemberShow, STATUS_BYTES_MAX,
};
use model::counters::ChatCounter;
use model::id::ConnRef;
use model::timeline::TimelineId;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// The time in which a session may send so many shows.
const MINUTE: Duration = Duration::from_secs(60);

/// The looks of this shard's sessions.
#[derive(Default)]
pub(crate) struct Looks {
    by_session: HashMap<Key, Vec<Look>>,
    /// The number of sessions that look at a group.
    counts: HashMap<AccountAddress, u32>,
    /// The times at which a session's waiting shows may be sent.
    due: BTreeSet<(Instant, Key)>,
    /// Shows to be taken back for sessions that have ended.
    farewells: Vec<ShowSaid>,
    /// Groups at which no session of this shard looks any more, to be reported to their homes.
    left: BTreeSet<AccountAddress>,
}

/// A session's look at a group.
struct Look {
    group: AccountAddress,
    /// The number of shows that the session has sent there, and since when that counts.
    count: u16,
    since: Instant,
    has_said: bool,
    /// The newest show, if it has not been sent yet.
    waiting: Option<MemberShow>,
}

/// The result of a session's show or look.
enum Paced {
    Goes(Option<MemberShow>),
    /// The show waits, or need not be sent.
    Stays,
    Dropped,
}

impl Look {
    /// Whether one more show may be sent now; if so, it counts.
    fn takes(&mut self, now: Now, most: u16) -> bool {
        if now.mono >= self.since + MINUTE {
            (self.since, self.count) = (now.mono, 0);
        }
        let may = self.count < most;
        self.count += u16::from(may);
        self.has_said |= may;
        may
    }
}

impl Looks {
    /// Whether a session of this shard looks at a group.
    pub(super) fn is_attended(&self, group: &AccountAddress) -> bool {
        self.counts.contains_key(group)
    }

    /// A session's look at a group, which begins now if the session had none; none: it looks at too
    /// many.
    fn at(
        &mut self,
        now: Now,
        (key, group): (Key, &AccountAddress),
        groups_max: u16,
    ) -> Option<&mut Look> {
        let all = self.by_session.entry(key).or_default();
        let at = match all.iter().position(|it| it.group == *group) {
            Some(at) => at,
            None if all.len() >= groups_max.into() => return None,
            None => {
                *self.counts.entry(group.clone()).or_default() += 1;
                all.reserve_exact(1); // most sessions are in few rooms
                let (group, since) = (group.clone(), now.mono);
                all.push(Look { group, count: 0, since, has_said: false, waiting: None });
                all.len() - 1
            }
        };
        all.get_mut(at)
    }

    /// Takes a session's look at a group: `most` shows a minute, and at most `groups_max` groups.
    fn takes(
        &mut self,
        now: Now,
        (key, group): (Key, &AccountAddress),
        look: GroupLook,
        (most, groups_max): (u16, u16),
    ) -> Paced {
        if look == GroupLook::Ends {
            return self.ends(key, group);
        }
        let Some(it) = self.at(now, (key, group), groups_max) else { return Paced::Dropped };
        let GroupLook::Shows(show) = look else { return Paced::Stays };
        if it.takes(now, most) {
            it.waiting = None;
            return Paced::Goes(Some(show));
        }
        it.waiting = Some(show);
        let at = it.since + MINUTE;
        self.due.insert((at, key));
        Paced::Stays
    }

    fn ends(&mut self, key: Key, group: &AccountAddress) -> Paced {
        let Some(all) = self.by_session.get_mut(&key) else { return Paced::Stays };
        let at = all.iter().position(|it| it.group == *group);
        let was = at.map(|at| all.swap_remove(at));
        if all.is_empty() {
            self.by_session.remove(&key);
        }
        let Some(was) = was else { return Paced::Stays };
        self.one_less(&was.group);
        if was.has_said { Paced::Goes(None) } else { Paced::Stays }
    }

    fn one_less(&mut self, group: &AccountAddress) {
        let Some(count) = self.counts.get_mut(group) else { return };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(group);
            self.left.insert(group.clone());
        }
    }

    /// The shows that have waited long enough, with their sessions and groups.
    fn take_due(&mut self, now: Now, most: u16) -> Vec<(Key, AccountAddress, MemberShow)> {
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
    pub(crate) fn leaves(&mut self, key: Key, (by, device): (TimelineId, &str)) {
        for Look { group, has_said, .. } in self.by_session.remove(&key).into_iter().flatten() {
            self.one_less(&group);
            if has_said {
                self.farewells.push(ShowSaid { by, device: device.into(), group, show: None });
            }
        }
    }

    /// Panics when an invariant does not hold.
    pub(crate) fn audit(&self) {
        assert!(self.by_session.values().all(|it| !it.is_empty()), "who looks at none is not kept");
        let all: usize = self.by_session.values().map(Vec::len).sum();
        let counted: u32 = self.counts.values().sum();
        assert_eq!(all, counted as usize);
        assert!(self.counts.values().all(|count| *count > 0));
    }
}

impl Chat {
    /// Takes a device's look at a group, or its end.
    pub(crate) fn looks_at_group(
        &mut self,
        now: Now,
        from: ConnRef,
        looking: LookAtGroup,
        fx: &mut Effects,
    ) {
        let LookAtGroup { session, group, mut look } = looking;
        let Some(asker) = self.asker(from, session) else { return };
        let is_errand = self.is_errand(from);
        if is_errand {
            self.answer_errand(session, ChatDelivery::Done { number: 0 }, fx);
        }
        let group = group.within(asker.address.domain());
        let is_long =
            matches!(&look, GroupLook::Shows(show) if show.status.len() > STATUS_BYTES_MAX);
        // Subscribers of a channel do not know of each other.
        if !group.is_group() || group.is_channel() || is_long {
            return fx.counters.count(ChatCounter::TransientsDropped);
        }
        if let GroupLook::Shows(show) = &mut look {
            fx.counters.count(ChatCounter::Transients);
            if self.mutes.until(now, &asker.address) > 0 {
                show.status = Box::default(); // an operator's mute holds here too
            }
        }
        let limits = &self.settings.limits.chat;
        let most = (limits.presence_changes_a_minute_max, limits.rooms_a_session_max);
        let paced = match (self.sessions.bound(from, session).filter(|_| !is_errand), look) {
            (Some(key), look) => self.looks.takes(now, (key, &group), look, most),
            // The giver of an errand knows itself which sessions look, and keeps the pace.
            (None, GroupLook::Begins) => Paced::Stays,
            (None, GroupLook::Shows(show)) => Paced::Goes(Some(show)),
            (None, GroupLook::Ends) => Paced::Goes(None),
        };
        match paced {
            Paced::Goes(show) => {
                let Asker { inbox: by, device, .. } = asker;
                self.show_goes(now, ShowSaid { by, device, group, show }, fx);
            }
            Paced::Stays => {}
            Paced::Dropped => fx.counters.count(ChatCounter::TransientsDropped),
        }
    }

    /// Sends shows that have waited, and those owed for sessions that have ended; returns when to
    /// look again.
    pub(crate) fn turn_looks(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for said in std::mem::take(&mut self.looks.farewells) {
            self.show_goes(now, said, fx);
        }
        for group in std::mem::take(&mut self.looks.left) {
            if !self.looks.is_attended(&group) {
                self.tell_attendance(now, AttendanceTold::gone(group), fx);
            }
        }
        let most = self.settings.limits.chat.presence_changes_a_minute_max;
        for (key, group, show) in self.looks.take_due(now, most) {
            let Some(session) = self.sessions.slab.at(key) else { continue };
            let (by, device, show) = (session.inbox, session.device.clone(), Some(show));
            self.show_goes(now, ShowSaid { by, device, group, show }, fx);
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

    fn away(status: &str) -> GroupLook {
        GroupLook::Shows(MemberShow { show: Show::Away, status: status.into() })
    }

    fn group(name: &str) -> AccountAddress {
        AccountAddress::parse(name, "conference.a.example").expect("right")
    }

    fn inbox(name: &str) -> TimelineId {
        group(name).inbox(HashKey::new(1, 2), AccountId(1))
    }

    fn word(paced: &Paced) -> &'static str {
        match paced {
            Paced::Goes(_) => "goes",
            Paced::Stays => "stays",
            Paced::Dropped => "dropped",
        }
    }

    #[test]
    fn a_session_says_so_much_in_a_minute_and_the_last_of_what_it_says_beyond_comes_later() {
        let mut looks = Looks::default();
        let lunch = group("lunch");
        let mut says = |s: u64, group: &AccountAddress, look: GroupLook| {
            word(&looks.takes(at(s), (key(1), group), look, (2, 2)))
        };
        assert_eq!(says(0, &lunch, GroupLook::Ends), "stays", "it did not look");
        assert_eq!(says(0, &lunch, away("1")), "goes");
        assert_eq!(says(1, &lunch, away("2")), "goes");
        assert_eq!(says(2, &lunch, away("3")), "stays");
        assert_eq!(says(3, &lunch, away("4")), "stays");
        assert_eq!(says(3, &group("b"), GroupLook::Begins), "stays");
        assert_eq!(says(3, &group("c"), away("1")), "dropped");
        assert!(looks.take_due(at(59), 2).is_empty());
        let due = looks.take_due(at(60), 2);
        let last = MemberShow { show: Show::Away, status: "4".into() };
        assert_eq!(due, [(key(1), lunch.clone(), last)]);
        assert!(looks.take_due(at(200), 2).is_empty() && looks.due.is_empty());
        looks.leaves(key(1), (inbox("ann"), "phone"));
        assert_eq!(looks.farewells.len(), 1, "in the other one it has said nothing");
        looks.audit();
    }

    #[test]
    fn a_group_is_left_by_the_last_session_that_looks_at_it() {
        let mut looks = Looks::default();
        let lunch = group("lunch");
        let mut does = |slot, look| {
            let told = word(&looks.takes(at(0), (key(slot), &lunch), look, (2, 2)));
            looks.audit();
            (told, looks.is_attended(&lunch), looks.left.len())
        };
        assert_eq!(does(1, GroupLook::Begins), ("stays", true, 0));
        assert_eq!(does(1, GroupLook::Begins), ("stays", true, 0), "as it did");
        assert_eq!(does(2, away("1")), ("goes", true, 0));
        assert_eq!(does(1, GroupLook::Ends), ("stays", true, 0), "it has said nothing");
        assert_eq!(does(1, GroupLook::Ends), ("stays", true, 0));
        assert_eq!(does(2, GroupLook::Ends), ("goes", false, 1));
        assert_eq!(does(1, GroupLook::Begins), ("stays", true, 1));
        looks.leaves(key(1), (inbox("ann"), "phone"));
        assert_eq!(
            (looks.is_attended(&lunch), looks.left.len(), looks.farewells.len()),
            (false, 1, 0)
        );
        assert!(looks.by_session.is_empty());
    }
}
