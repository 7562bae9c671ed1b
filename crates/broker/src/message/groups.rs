//! The shared groups that a shard owns, found by number and by `$share/group/filter`.
//!
//! A group is open while it has members, and its filter stands in the table exactly so long. The
//! group ([`SharedGroup`]) chooses the next member; this module checks which members may read the
//! message.

use super::subscriptions::Subscriptions;
use crate::group::{MemberStanding, SharedGroup};
use crate::peer_message::RestrictedMember;
use base::hash::HashKey;
use model::ports::access::Act;
use model::session::Drop;
use model::timeline::TimelineId;
use model::topic::{Publication, Qos};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// In front of the filter of a shared subscription: group, and the filter.
pub(crate) const SHARE: &str = "$share/";

/// Members that are looked at for one message, whether they may read it.
const LOOKS_MAX: u32 = 16_384;

/// A session as a member of a group.
pub(crate) struct Membership {
    pub member: TimelineId,
    pub standing: MemberStanding,
    /// Topics that the member may read, if not all.
    pub reader: Option<Arc<RestrictedMember>>,
}

/// The groups that a shard owns.
#[derive(Default)]
pub(crate) struct Groups {
    open: Vec<Option<(Arc<str>, SharedGroup)>>,
    readers: Readers,
    free: Vec<u32>,
    numbers: BTreeMap<Arc<str>, u32>,
}

/// Members that may not read all that their groups are sent.
#[derive(Default)]
struct Readers(BTreeMap<(u32, TimelineId), Arc<RestrictedMember>>);

impl Readers {
    fn set(&mut self, who: (u32, TimelineId), reader: Option<Arc<RestrictedMember>>) {
        match reader {
            Some(reader) => _ = self.0.insert(who, reader),
            None => _ = self.0.remove(&who),
        }
    }

    /// Whether a member may read what is published to a topic.
    fn may(&self, who: (u32, TimelineId), topic: &str) -> bool {
        let reader = if self.0.is_empty() { None } else { self.0.get(&who) };
        reader.is_none_or(|reader| reader.principal.may(&reader.client, Act::Read, topic))
    }
}

impl Groups {
    /// Members of all of them.
    pub fn members(&self) -> u64 {
        self.open.iter().flatten().map(|(_, group)| group.len() as u64).sum()
    }

    /// The number of a group, if it has members.
    pub fn number(&self, group: &str) -> Option<u32> {
        self.numbers.get(group).copied()
    }

    /// Adds a session to a group, which is created for the first; false if there is no room.
    pub fn join(
        &mut self,
        group: &Arc<str>,
        membership: Membership,
        subscriptions: &mut Subscriptions,
    ) -> bool {
        let Membership { member, standing, reader } = membership;
        let number = self.number(group).or_else(|| self.open_group(group, subscriptions));
        let Some(number) = number else { return false };
        let Some((_, members)) = self.at(number) else { return false };
        if !members.join(member, standing) {
            return false;
        }
        self.readers.set((number, member), reader);
        true
    }

    /// Removes a session from its group; the group ends with its last member.
    pub fn leave(
        &mut self,
        group: &Arc<str>,
        member: TimelineId,
        subscriptions: &mut Subscriptions,
    ) {
        let Some(number) = self.number(group) else { return };
        self.readers.set((number, member), None);
        let Some((_, members)) = self.at(number) else { return };
        members.leave(member);
        if !members.is_empty() {
            return;
        }
        if let Some(plain) = shared_filter(group) {
            subscriptions.let_go_group(plain, number);
        }
        self.open[number as usize] = None;
        self.numbers.remove(group);
        self.free.push(number);
    }

    /// Notes that a member has finished this many messages.
    pub fn done(&mut self, group: &str, member: TimelineId, count: u32) {
        let number = self.number(group);
        if let Some((_, members)) = number.and_then(|number| self.at(number)) {
            members.done(member, count);
        }
    }

    /// A group in which another member is online and may read this topic.
    pub fn with_another(&self, group: &str, member: TimelineId, topic: &str) -> Option<u32> {
        let number = self.number(group)?;
        let (_, members) = self.open.get(number as usize)?.as_ref()?;
        let may = |who| self.readers.may((number, who), topic);
        members.has_another_online(member, may).then_some(number)
    }

    /// Chooses the member that gets a message, but not `except` if another one can; or the reason
    /// why none does. `None` if the group does not exist. `window`: see [`SharedGroup::pick`].
    pub fn pick(
        &mut self,
        number: u32,
        message: &Publication,
        window: u32,
        except: Option<TimelineId>,
    ) -> Option<Result<(Arc<str>, TimelineId), Drop>> {
        let Groups { open, readers, .. } = self;
        let (group, members) = open.get_mut(number as usize)?.as_mut()?;
        let window = (message.qos != Qos::AtMostOnce).then_some(window);
        let looks = Cell::new(0);
        let may = |who| {
            looks.set(looks.get() + 1);
            looks.get() <= LOOKS_MAX && readers.may((number, who), message.topic())
        };
        let picked = match readers.0.is_empty() {
            true => members.pick(window, except, |_| true),
            false => members.pick(window, except, may),
        };
        Some(match picked {
            Some(pick) => Ok((group.clone(), pick.member)),
            None if members.is_deaf() => Err(Drop::NoMember),
            None => Err(Drop::NoReader),
        })
    }

    fn at(&mut self, number: u32) -> Option<&mut (Arc<str>, SharedGroup)> {
        self.open.get_mut(number as usize)?.as_mut()
    }

    fn open_group(&mut self, group: &Arc<str>, subscriptions: &mut Subscriptions) -> Option<u32> {
        let plain = shared_filter(group)?;
        let number = self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            (self.open.len() - 1) as u32
        });
        if subscriptions.hold_group(plain, number).is_err() {
            self.free.push(number);
            return None;
        }
        self.open[number as usize] = Some((group.clone(), SharedGroup::default()));
        self.numbers.insert(group.clone(), number);
        Some(number)
    }
}

/// The filter of `$share/group/filter`.
pub(crate) fn shared_filter(filter: &str) -> Option<&str> {
    let (group, plain) = filter.strip_prefix(SHARE)?.split_once('/')?;
    (!group.is_empty() && !plain.is_empty()).then_some(plain)
}

/// Number of a shared subscription, which marks its messages in a queue; never 0.
pub(crate) fn share_of(group: &str) -> u32 {
    let hash = HashKey::new(0x7368, 0x6172).of(&[group.as_bytes()]);
    (hash as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::made::broker;
    use model::timeline::Space;

    #[test]
    fn a_group_is_open_while_it_has_members() {
        let mut subscriptions = Subscriptions::new(&broker(|_| {}).settings, 9);
        let (mut groups, group) = (Groups::default(), Arc::from("$share/g/t"));
        let who = |slot| TimelineId::of(Space::Sessions, HashKey::new(1, 2), &[&[slot]]);
        let mut join = |groups: &mut Groups, slot, group: &Arc<str>| {
            let standing = MemberStanding { online: true, durable: false };
            let membership = Membership { member: who(slot), standing, reader: None };
            groups.join(group, membership, &mut subscriptions)
        };
        assert!(!join(&mut groups, 1, &Arc::from("$share/g")), "that is no group");
        assert!(join(&mut groups, 1, &group) && join(&mut groups, 2, &group));
        assert_eq!((groups.members(), groups.number(&group)), (2, Some(0)));
        let message = Publication::new("t", &[], b"x");
        let picked = groups.pick(0, &message, 9, Some(who(1)));
        assert_eq!(picked, Some(Ok((group.clone(), who(2)))));
        assert_eq!(groups.with_another(&group, who(1), "t"), Some(0));
        for slot in [1, 2, 2] {
            groups.leave(&group, who(slot), &mut subscriptions);
        }
        assert_eq!((groups.members(), groups.number(&group)), (0, None));
        assert_eq!(groups.pick(0, &message, 9, None), None);
    }
}
