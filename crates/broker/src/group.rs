//! Shared groups: who shares a subscription, and who gets the next message (MQTT5 4.8.2).
//!
//! A [`SharedGroup`] lives on the shard that owns it and picks one member for each message: members
//! that are online, in turn, passing over those whose window is full as long as another has room;
//! when all are full, the one with the least before it. Only when none is online a durable one that
//! is away. The caller says which members may have the message. It knows no filter, message or
//! connection; its member is the timeline of a session, which is its name on every node.
//!
//! The invariant: the first `online` members are those with a connection.

use base::index::Index;
use model::timeline::TimelineId;

/// Members of one group. One more is refused.
pub const MEMBERS_MAX: usize = 65_536;

/// The members of one group.
pub struct SharedGroup {
    /// Members: those with a connection, then the others.
    members: Vec<Member>,
    /// How many have a connection.
    online: usize,
    /// The member whose turn it is: a place among those with a connection, and one behind the first
    /// place of the others.
    turn: usize,
    turn_away: usize,
    /// Where a member is, by the hash of its home.
    places: Index,
}

/// 24 bytes.
struct Member {
    session: TimelineId,
    /// Messages sent and not answered.
    load: u32,
    is_durable: bool,
}

const _: () = assert!(size_of::<Member>() == 24);

/// Standing of a session as a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberStanding {
    /// Whether the session has a connection.
    pub online: bool,
    /// Messages wait for it while it is away.
    pub durable: bool,
}

/// The member that gets a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pick {
    /// Session that was picked.
    pub member: TimelineId,
    /// Whether it has a connection.
    pub online: bool,
}

impl Default for SharedGroup {
    fn default() -> Self {
        SharedGroup {
            members: Vec::new(),
            online: 0,
            turn: 0,
            turn_away: 0,
            places: Index::small(),
        }
    }
}

impl SharedGroup {
    /// Adds a member, or changes what is known of it. False: the group has [`MEMBERS_MAX`].
    pub fn join(&mut self, session: TimelineId, standing: MemberStanding) -> bool {
        let place = match self.place(session) {
            Some(place) => place,
            None if self.members.len() >= MEMBERS_MAX => return false,
            None => {
                let place = self.members.len();
                self.members.push(Member { session, load: 0, is_durable: false });
                self.note(place);
                place
            }
        };
        self.members[place].is_durable = standing.durable;
        match (place < self.online, standing.online) {
            (true, false) => self.go_away(place),
            (false, true) => self.come(place),
            _ => {}
        }
        true
    }

    /// Takes a member out. False: it was none.
    pub fn leave(&mut self, session: TimelineId) -> bool {
        let Some(mut place) = self.place(session) else { return false };
        if place < self.online {
            self.go_away(place);
            place = self.online;
        }
        let last = self.members.len() - 1;
        self.swap(place, last);
        self.forget(last);
        self.members.pop();
        true
    }

    /// A member's connection came or went. False: it is none.
    pub fn online(&mut self, session: TimelineId, online: bool) -> bool {
        let Some(place) = self.place(session) else { return false };
        let durable = self.members[place].is_durable;
        self.join(session, MemberStanding { online, durable })
    }

    /// Notes that a member has answered this many messages, or that they went elsewhere.
    pub fn done(&mut self, session: TimelineId, count: u32) {
        if let Some(place) = self.place(session) {
            let load = &mut self.members[place].load;
            *load = load.saturating_sub(count);
        }
    }

    /// Chooses the member that gets the next message, and counts the message. `window` is the
    /// number of unanswered messages above which other members are preferred (`None` for QoS 0,
    /// which is not answered and not counted). `except` had the message and left; it gets it again
    /// only if no other member can.
    pub fn pick(
        &mut self,
        window: Option<u32>,
        except: Option<TimelineId>,
        may: impl Fn(TimelineId) -> bool,
    ) -> Option<Pick> {
        let is_other = |member: &Member| Some(member.session) != except && may(member.session);
        let room = window.unwrap_or(u32::MAX);
        let place = self
            .next_online(|member| member.load < room && is_other(member))
            .or_else(|| self.least(is_other))
            .or_else(|| self.next_away(is_other))
            .or_else(|| except.and_then(|session| self.only(session, &may)))?;
        let online = place < self.online;
        let member = &mut self.members[place];
        if online {
            self.turn = place + 1;
            member.load = member.load.saturating_add(u32::from(window.is_some()));
        } else {
            self.turn_away = place - self.online + 1;
        }
        Some(Pick { member: member.session, online })
    }

    /// Members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether the group has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether a member other than this one is online and may have the message.
    pub fn has_another_online(
        &self,
        session: TimelineId,
        may: impl Fn(TimelineId) -> bool,
    ) -> bool {
        let online = &self.members[..self.online];
        online.iter().any(|member| member.session != session && may(member.session))
    }

    /// Whether no member can get a message.
    pub fn is_deaf(&self) -> bool {
        self.online == 0 && !self.members.iter().any(|member| member.is_durable)
    }

    /// The place of this member, if it is online or keeps queued messages.
    fn only(&self, session: TimelineId, may: &impl Fn(TimelineId) -> bool) -> Option<usize> {
        let place = self.place(session).filter(|_| may(session))?;
        (place < self.online || self.members[place].is_durable).then_some(place)
    }

    /// The first online member in turn that satisfies `is_it`.
    fn next_online(&self, is_it: impl Fn(&Member) -> bool) -> Option<usize> {
        if self.turn < self.online && is_it(&self.members[self.turn]) {
            return Some(self.turn);
        }
        in_turn(self.turn, self.online).find(|&place| is_it(&self.members[place]))
    }

    /// Member with the least load, of those online that satisfy `is_it`.
    fn least(&self, is_it: impl Fn(&Member) -> bool) -> Option<usize> {
        let places = (0..self.online).filter(|&place| is_it(&self.members[place]));
        places.min_by_key(|&place| self.members[place].load)
    }

    /// Durable member without a connection whose turn is next, of those that satisfy `is_it`.
    fn next_away(&self, is_it: impl Fn(&Member) -> bool) -> Option<usize> {
        let places = in_turn(self.turn_away, self.members.len() - self.online);
        let mut places = places.map(|place| place + self.online);
        places.find(|&place| self.members[place].is_durable && is_it(&self.members[place]))
    }

    /// Moves a member that went offline to another place, so that no member loses its turn.
    fn go_away(&mut self, mut place: usize) {
        self.members[place].load = 0; // what it has not answered goes to others, or waits for it
        if place < self.turn {
            self.turn -= 1;
            self.swap(place, self.turn);
            place = self.turn;
        }
        self.online -= 1;
        self.swap(place, self.online);
    }

    /// Moves a member that came online behind the other online ones.
    fn come(&mut self, place: usize) {
        self.swap(place, self.online);
        self.online += 1;
    }

    fn swap(&mut self, one: usize, other: usize) {
        if one == other {
            return;
        }
        [one, other].into_iter().for_each(|place| self.forget(place));
        self.members.swap(one, other);
        [one, other].into_iter().for_each(|place| self.note(place));
    }

    fn place(&self, session: TimelineId) -> Option<usize> {
        let same = |place: u32| self.members[place as usize].session == session;
        self.places.find(session.home_hash(), same).map(|place| place as usize)
    }

    /// Adds the member at a place to the index.
    fn note(&mut self, place: usize) {
        let SharedGroup { members, places, .. } = self;
        let hash = |place: u32| members[place as usize].session.home_hash();
        places.insert(hash(place as u32), place as u32, hash);
    }

    /// Removes the member at a place from the index.
    fn forget(&mut self, place: usize) {
        let hash = self.members[place].session.home_hash();
        let was_in = self.places.remove(hash, place as u32);
        debug_assert!(was_in, "a member is in the index");
    }
}

/// All of `count` places, starting at `first`.
fn in_turn(first: usize, count: usize) -> impl Iterator<Item = usize> {
    let first = first.min(count);
    (first..count).chain(0..first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use base::prng::Prng;
    use model::timeline::Space;
    use std::collections::{BTreeMap, BTreeSet};

    const ONLINE: MemberStanding = MemberStanding { online: true, durable: false };
    const AWAY: MemberStanding = MemberStanding { online: false, durable: true };

    fn who(slot: u32) -> TimelineId {
        TimelineId::of(Space::Sessions, HashKey::new(1, 2), &[&slot.to_le_bytes()])
    }

    fn slots(group: &mut SharedGroup, window: Option<u32>, count: usize) -> Vec<u32> {
        let slot_of = |pick: Pick| (0..64).find(|&slot| who(slot) == pick.member);
        let pick = |_| group.pick(window, None, |_| true).and_then(slot_of).unwrap_or(u32::MAX);
        (0..count).map(pick).collect()
    }

    #[test]
    fn members_that_are_online_take_turns() {
        let mut group = SharedGroup::default();
        assert_eq!(group.pick(None, None, |_| true), None);
        (0..3).for_each(|slot| assert!(group.join(who(slot), ONLINE)));
        assert!(group.join(who(9), AWAY));
        assert_eq!(slots(&mut group, None, 6), [0, 1, 2, 0, 1, 2]);
        assert!(group.leave(who(1)) && !group.leave(who(1)));
        assert_eq!(slots(&mut group, None, 4), [0, 2, 0, 2]);
        assert!(group.online(who(9), true));
        assert_eq!(slots(&mut group, None, 3), [9, 0, 2]);
    }

    #[test]
    fn one_who_leaves_costs_nobody_a_turn() {
        let mut group = SharedGroup::default();
        (0..4).for_each(|slot| assert!(group.join(who(slot), ONLINE)));
        assert_eq!(slots(&mut group, None, 2), [0, 1]);
        assert!(group.leave(who(0)));
        let mut rest = slots(&mut group, None, 3);
        assert_eq!(rest.pop(), Some(1), "the one who had its turn is the last");
        rest.sort_unstable();
        assert_eq!(rest, [2, 3]);
    }

    #[test]
    fn a_full_window_is_passed_over_until_all_are_full() {
        let mut group = SharedGroup::default();
        (0..2).for_each(|slot| assert!(group.join(who(slot), ONLINE)));
        assert_eq!(slots(&mut group, Some(2), 4), [0, 1, 0, 1]);
        group.done(who(1), 1);
        assert_eq!(slots(&mut group, Some(2), 1), [1]);
        group.done(who(0), 2);
        assert_eq!(slots(&mut group, Some(2), 2), [0, 0]);
        group.done(who(1), 1);
        assert_eq!(slots(&mut group, Some(1), 2), [1, 0], "the least load");
        assert!(group.online(who(0), false) && group.online(who(0), true));
        assert_eq!(slots(&mut group, Some(2), 2), [0, 0], "it came back with nothing");
    }

    #[test]
    fn only_when_nobody_is_online_one_that_is_away_gets_it() {
        let mut group = SharedGroup::default();
        group.join(who(1), AWAY);
        group.join(who(2), MemberStanding { online: false, durable: false });
        group.join(who(3), AWAY);
        assert_eq!(slots(&mut group, Some(9), 3), [1, 3, 1]);
        group.join(who(4), ONLINE);
        assert_eq!(slots(&mut group, Some(9), 2), [4, 4]);
        assert_eq!(
            group.pick(None, Some(who(4)), |_| true),
            Some(Pick { member: who(3), online: false })
        );
        for slot in [4, 3, 1] {
            assert!(!group.is_deaf());
            group.leave(who(slot));
        }
        assert!(group.is_deaf() && group.pick(None, None, |_| true).is_none() && group.len() == 1);
    }

    #[test]
    fn who_had_it_gets_it_again_only_if_nobody_else_is_left() {
        let mut group = SharedGroup::default();
        group.join(who(1), ONLINE);
        group.join(who(2), ONLINE);
        for _ in 0..3 {
            let pick = group.pick(Some(1), Some(who(1)), |_| true).expect("two are online");
            assert_eq!(pick.member, who(2));
        }
        group.leave(who(2));
        let pick = group.pick(Some(1), Some(who(1)), |_| true).expect("one is online");
        assert_eq!(pick, Pick { member: who(1), online: true });
    }

    #[test]
    fn who_may_not_have_it_is_passed_over() {
        let mut group = SharedGroup::default();
        (1..=3).for_each(|slot| assert!(group.join(who(slot), ONLINE)));
        group.join(who(4), AWAY);
        for _ in 0..4 {
            let pick = group.pick(Some(1), None, |it| it == who(2)).expect("one may");
            assert_eq!(pick.member, who(2), "a full window is no reason to give it to others");
        }
        let away = group.pick(Some(1), Some(who(2)), |it| it == who(2) || it == who(4));
        assert_eq!(away, Some(Pick { member: who(4), online: false }));
        assert!(!group.has_another_online(who(2), |it| it == who(2) || it == who(4)));
        assert!(group.has_another_online(who(2), |it| it == who(3)));
        assert_eq!(group.pick(None, None, |_| false), None);
    }

    #[test]
    fn whatever_comes_and_goes_the_pick_is_online_if_anybody_is() {
        for seed in 0..20 {
            let (mut rng, mut group) = (Prng::new(seed), SharedGroup::default());
            let mut known = BTreeMap::new();
            for _ in 0..500 {
                let slot = rng.below(12) as u32;
                let standing = MemberStanding { online: rng.one_in(3), durable: rng.one_in(2) };
                match rng.below(4) {
                    0 => assert_eq!(group.leave(who(slot)), known.remove(&slot).is_some()),
                    1 => {
                        assert!(group.join(who(slot), standing));
                        known.insert(slot, standing);
                    }
                    2 => {
                        let was = known.get_mut(&slot);
                        assert_eq!(group.online(who(slot), standing.online), was.is_some());
                        was.into_iter().for_each(|was| was.online = standing.online);
                    }
                    _ => group.done(who(slot), 1),
                }
                let any_online = known.values().any(|standing| standing.online);
                let any = any_online || known.values().any(|standing| standing.durable);
                let places = known.keys().map(|slot| group.place(who(*slot)));
                let places: Option<BTreeSet<usize>> = places.collect();
                assert_eq!(places.map(|places| places.len()), Some(known.len()), "each has one");
                let pick = group.pick(Some(2), None, |_| true);
                assert_eq!(pick.is_some(), any, "seed {seed}");
                assert_eq!(pick.is_some_and(|pick| pick.online), any_online, "seed {seed}");
                assert_eq!((group.len(), group.is_deaf()), (known.len(), !any));
            }
        }
    }
}
