//! Sessions of the shard: their records, whose they are, and who of them is online.
//!
//! The index holds slot numbers by the hash of a session's home, which its client identifier and
//! its timeline have in common; the names are compared in the records. Invariant: a slot is in
//! the index exactly while a record lives in it; one that was taken out is found by nothing. Every
//! record holds its principal, and is counted as online exactly while its client is.

use super::allowed::Allowed;
use super::chat_calls::is_of_chat;
use super::principals::{Principal, Principals};
use super::record::{More, Session};
use super::shares::{ShareTerms, Shares};
use crate::durable::entries::home_hash;
use crate::rewrite::Names;
use base::hash::HashKey;
use base::index::Index;
use base::slab::{Key, Slab};
use base::time::Now;
use model::close::CloseReason;
use model::id::ConnRef;
use model::ports::access::{Act, Grant, Reach};
use model::presence::{PresenceVersion, VersionClock};
use model::timeline::TimelineId;

/// The sessions of one shard.
pub(crate) struct Sessions {
    /// The key of homes.
    home: HashKey,
    slab: Slab<Session>,
    index: Index,
    /// Slots whose records were taken out and that are not free.
    graves: usize,
    /// Names of protocols by number.
    protocols: Vec<&'static str>,
    principals: Principals,
    allowed: Allowed,
    versions: VersionClock,
    online: u64,
}

impl Sessions {
    /// Holds at most `sessions_max`. `hash_key` is the process's, `home` the key of homes.
    pub fn new(hash_key: HashKey, home: HashKey, sessions_max: usize) -> Sessions {
        Sessions {
            home,
            slab: Slab::new(sessions_max),
            index: Index::default(),
            graves: 0,
            protocols: vec![""],
            principals: Principals::default(),
            allowed: Allowed::new(hash_key),
            versions: VersionClock::default(),
            online: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.slab.len() - self.graves
    }

    /// Room for so many from now on.
    pub fn set_max(&mut self, sessions_max: usize) {
        self.slab.set_cap(sessions_max);
    }

    /// Whether there may be no more.
    pub fn is_full(&self) -> bool {
        self.len() >= self.slab.cap()
    }

    /// Number of sessions whose clients are connected, and have been answered.
    pub fn count_online(&self) -> u64 {
        self.online
    }

    /// Slots ever used.
    pub fn slots(&self) -> u32 {
        self.slab.slots()
    }

    pub fn find(&self, id: &str) -> Option<Key> {
        let same = |slot| self.slab.tenant(slot).is_some_and(|(_, session)| session.id() == id);
        let slot = self.index.find(turned(home_hash(self.home, id)), same)?;
        self.slab.tenant(slot).map(|(key, _)| key)
    }

    /// The session that is this member of a group, and what it wants of it.
    pub fn member_of(&self, group: &str, member: TimelineId) -> Option<(Key, ShareTerms)> {
        let is_it = |(_, session): (Key, &Session)| session.member() == Some(member);
        let same = |slot| self.slab.tenant(slot).is_some_and(is_it);
        let slot = self.index.find(turned(member.home_hash()), same)?;
        let (key, session) = self.slab.tenant(slot)?;
        Some((key, session.more.as_ref()?.shares.get(group)?.terms()))
    }

    /// A new record for an identifier that has none, everybody's; `None`: there is no room.
    pub fn insert(&mut self, id: &str) -> Option<Key> {
        let key = self.slab.insert(Session::new(id)).ok()?;
        self.principals.hold_everybody();
        let Sessions { home, slab, index, .. } = self;
        let hash = |slot| match slab.tenant(slot) {
            Some((_, session)) => turned(home_hash(*home, session.id())),
            None => 0,
        };
        index.insert(hash(key.slot), key.slot, hash);
        Some(key)
    }

    /// Takes a record out. Its slot, which subscriptions may name still, is nobody else's before
    /// [`Sessions::free`].
    pub fn bury(&mut self, key: Key) -> Option<Session> {
        let record = self.slab.at_mut(key).filter(|session| !session.is_grave())?;
        let session = std::mem::replace(record, Session::grave());
        let was_in = self.index.remove(turned(home_hash(self.home, session.id())), key.slot);
        debug_assert!(was_in, "a record is in the index");
        self.graves += 1;
        self.online -= u64::from(session.online().is_some());
        self.let_go(session.principal());
        Some(session)
    }

    /// Frees a slot that nothing refers to any more.
    pub fn free(&mut self, key: Key) {
        if self.slab.remove(key).is_some() {
            self.graves -= 1;
        }
    }

    pub fn at(&self, key: Key) -> Option<&Session> {
        self.slab.at(key).filter(|session| !session.is_grave())
    }

    pub fn at_mut(&mut self, key: Key) -> Option<&mut Session> {
        self.slab.at_mut(key).filter(|session| !session.is_grave())
    }

    /// State that only a busy session has, if this one is busy.
    pub fn more(&self, key: Key) -> Option<&More> {
        self.at(key)?.more.as_deref()
    }

    pub fn more_mut(&mut self, key: Key) -> Option<&mut More> {
        self.at_mut(key)?.more.as_deref_mut()
    }

    /// A busy session, with the groups that it shares.
    pub fn sharing(&self, key: Key) -> Option<(&Session, &Shares)> {
        let session = self.at(key)?;
        Some((session, &session.more.as_ref()?.shares))
    }

    /// Frees what a session does not need.
    pub fn rest(&mut self, key: Key) {
        if let Some(session) = self.at_mut(key) {
            session.rest();
        }
    }

    /// The connection that a session is bound to.
    pub fn conn(&self, key: Key) -> Option<ConnRef> {
        self.at(key)?.conn()
    }

    /// The connection over which a session may be sent something.
    pub fn online(&self, key: Key) -> Option<ConnRef> {
        self.at(key)?.online()
    }

    /// The session in a slot, if there is one.
    pub fn tenant(&self, slot: u32) -> Option<(Key, &Session)> {
        self.slab.tenant(slot).filter(|(_, session)| !session.is_grave())
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, &Session)> {
        self.slab.iter().filter(|(_, session)| !session.is_grave())
    }

    /// The number of a protocol's name.
    pub fn protocol(&mut self, name: &'static str) -> u8 {
        let known = self.protocols.iter().position(|&other| other == name);
        let at = known.unwrap_or_else(|| {
            self.protocols.push(name);
            self.protocols.len() - 1
        });
        u8::try_from(at).unwrap_or(0)
    }

    /// The name with this number.
    pub fn protocol_name(&self, number: u8) -> &'static str {
        self.protocols.get(usize::from(number)).copied().unwrap_or("")
    }

    /// The principal of a session.
    pub fn principal(&self, session: &Session) -> &Principal {
        self.principals.at(session.principal())
    }

    /// The names of a session's client.
    pub fn names<'s>(&'s self, session: &'s Session) -> Names<'s> {
        Names { client: session.id(), user: self.principal(session).user.as_deref() }
    }

    /// Whether a session may do this by the rules that hold now.
    pub fn may(&self, session: &Session, act: Act, topic: &str) -> bool {
        self.principal(session).may(session.id(), act, topic)
    }

    /// How far a filter reaches for a session.
    pub fn reach(&self, session: &Session, filter: &str) -> Reach {
        match is_of_chat(filter) {
            // Rules are about topics that clients publish to: what is granted there is its own.
            true => Reach::All,
            false => self.principal(session).reach(session.id(), filter),
        }
    }

    /// Whether a session may publish to a topic; that it may is remembered for a while.
    pub fn may_publish(&mut self, key: Key, topic: &str) -> bool {
        let Some(session) = self.at(key) else { return false };
        let number = session.principal();
        if self.principal(session).rules.is_none() || self.allowed.has(key, number, topic) {
            return true;
        }
        let may = self.may(session, Act::Publish, topic);
        if may {
            self.allowed.put(key, number, topic);
        }
        may
    }

    /// A session is this principal's from now on; whether it was another's.
    pub fn grant(&mut self, key: Key, grant: &Grant) -> bool {
        let number = self.principals.hold(grant);
        let Some(session) = self.at_mut(key) else { return self.let_go(number) };
        let before = session.set_principal(number);
        self.let_go(before);
        before != number
    }

    /// Rules may have changed: what publishers were allowed is asked anew.
    pub fn forget_allowed(&mut self) {
        self.allowed.clear();
    }

    fn let_go(&mut self, principal: u32) -> bool {
        // The number may be somebody else's from now on.
        let is_free = self.principals.let_go(principal);
        if is_free {
            self.allowed.clear();
        }
        is_free
    }

    /// How many sessions are somebody's, as their principals count them.
    pub fn holders(&self) -> u64 {
        self.principals.holders()
    }

    /// A version above all that were given or seen.
    pub fn next_version(&mut self, now: Now) -> PresenceVersion {
        self.versions.next(now.wall_ms)
    }

    /// A version of another clock was seen: those given here are above it from now on.
    pub fn observe(&mut self, seen: PresenceVersion) {
        self.versions.observe(seen);
    }

    /// The last version that was given or seen.
    pub fn last_version(&self) -> PresenceVersion {
        self.versions.last()
    }

    /// Marks a session's client as connected, and informed of it.
    pub fn go_online(&mut self, now: Now, key: Key) {
        let version = self.next_version(now);
        if let Some(session) = self.at_mut(key) {
            session.welcome();
            session.transit(version, None);
            self.online += 1;
        }
    }

    /// A client that was online is so no more.
    pub fn go_offline(&mut self, key: Key, version: PresenceVersion, reason: CloseReason) {
        if let Some(session) = self.at_mut(key) {
            session.transit(version, Some(reason));
            self.online -= 1;
        }
    }
}

/// Where a home stands in the index. All homes of a shard begin alike, and the index tells by how
/// a hash begins, ends, and by what is in its middle: the slot is turned to where none of these is.
fn turned(home_hash: u64) -> u64 {
    home_hash.rotate_right(25)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::entries::timeline_of;
    use crate::session::shares::Share;
    use base::hash::Slot;

    #[test]
    fn a_member_is_found_by_its_timeline_while_it_shares() {
        let home = HashKey::new(1, 2);
        let mut sessions = Sessions::new(HashKey::new(3, 4), home, 10);
        let member = timeline_of(home, "a");
        let key = sessions.insert("a").expect("room");
        assert!(
            sessions.find("a") == Some(key) && sessions.member_of("$share/g/t", member).is_none()
        );
        let filter = Box::from("$share/g/t");
        let share = Share { filter, number: 1, options: 0, subscription_id: None };
        sessions.at_mut(key).expect("it is there").more().shares.set(member, share);
        let terms = ShareTerms { number: 1, options: 0, subscription_id: None };
        assert_eq!(sessions.member_of("$share/g/t", member), Some((key, terms)));
        assert_eq!(sessions.member_of("$share/h/t", member), None);
        assert_eq!(sessions.member_of("$share/g/t", timeline_of(home, "b")), None);
        sessions.bury(key).expect("it was there");
        assert_eq!(sessions.member_of("$share/g/t", member), None);
    }

    #[test]
    fn what_all_of_a_shard_have_in_common_is_nothing_that_the_index_looks_at() {
        let slot = turned(u64::MAX << (64 - Slot::BITS));
        let looked_at = 0x7f << 57 | 0xff << 40 | ((1 << 25) - 1);
        assert_eq!((slot.count_ones(), slot & looked_at), (Slot::BITS, 0));
    }
}
