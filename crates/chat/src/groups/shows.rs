//! Shows: the availability of members in groups, as their devices send it that look at the group
//! (XEP-0045 7.7). The home of a group keeps it and distributes it.
//!
//! ```text
//! pace of the session ─► home of the group: of a member, and new? ─► kept there
//!    devices of XMPP, members of other servers ◄── all members, of a small group
//! ```
//! An account is a member whether a device of it is there or not; its availability is separate, and
//! is not stored. The newest device that sent one counts, until that device has left. For a large
//! group none is kept, and only the sender gets its own. A show that a full mailbox lost is unknown
//! to the shard. Invariant: no more shows are kept than the limit says.

use crate::groups::{self, GroupTask};
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::hash::HashKey;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::foreign::{ForeignWord, ShownWord};
use model::chat::{
    ChatDelivery, GroupChange, GroupRole, GroupVerb, MemberShow, MemberShown, MembersPage,
};
use model::counters::ChatCounter;
use model::timeline::{Space, TimelineId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A member of a group: the group's conversation, and the member's inbox.
type Place = (TimelineId, TimelineId);

/// The availability of members.
#[derive(Default)]
pub(crate) struct Shows {
    /// The shows of members of groups that are at home here.
    known: BTreeMap<Place, Known>,
    /// The same, in the order in which they arrived.
    order: BTreeMap<u64, Place>,
    last: u64,
}

/// The availability of a member, and the device that sent it.
struct Known {
    number: u64,
    device: Box<str>,
    show: Arc<MemberShow>,
}

/// A member's availability, on its way to the home of the group.
#[derive(Debug)]
pub struct ShowSaid {
    /// The inbox of the sender.
    pub(crate) by: TimelineId,
    pub(crate) device: Box<str>,
    pub(crate) group: AccountAddress,
    pub(crate) show: Option<MemberShow>,
}

impl ShowSaid {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let show = self.show.as_ref().map_or(0, MemberShow::weight);
        size_of::<ShowSaid>() + self.group.as_str().len() + self.device.len() + show
    }
}

impl Shows {
    /// Takes a member's availability from a device. Returns whether it is new.
    fn takes(
        &mut self,
        place: Place,
        (device, show): (&str, Option<&MemberShow>),
        most: usize,
    ) -> bool {
        let known = self.known.get_mut(&place);
        let Some(show) = show.filter(|it| !it.is_plain()) else {
            // Only the device that sent a show takes it back; any device may send a plain one.
            let is_its = known.is_some_and(|it| show.is_some() || *it.device == *device);
            return is_its && self.forget(place);
        };
        if let Some(known) = known
            && *known.show == *show
        {
            known.device = device.into();
            return false;
        }
        self.forget(place);
        self.last += 1;
        let number = self.last;
        let known = Known { number, device: device.into(), show: Arc::new(show.clone()) };
        self.known.insert(place, known);
        self.order.insert(number, place);
        while self.known.len() > most
            && let Some((_, first)) = self.order.pop_first()
        {
            self.known.remove(&first);
        }
        true
    }

    /// Forgets the availability of a member. False: none was known.
    fn forget(&mut self, place: Place) -> bool {
        let known = self.known.remove(&place);
        known.as_ref().map(|it| self.order.remove(&it.number));
        known.is_some()
    }

    /// Fills the known availability into a page of members.
    pub(crate) fn fill(&self, home: HashKey, conversation: TimelineId, page: &mut MembersPage) {
        if self.known.is_empty() {
            return;
        }
        for it in page.members.iter_mut().chain(page.own.as_deref_mut()) {
            let inbox = it.member.address.inbox(home, it.member.id);
            it.show = self.known.get(&(conversation, inbox)).map(|known| known.show.clone());
        }
    }

    /// Forgets the availability of accounts that are no longer members after a change.
    pub(crate) fn is_changed(
        &mut self,
        home: HashKey,
        conversation: TimelineId,
        change: &GroupChange,
    ) {
        if !change.verb.ends_membership() {
            return;
        }
        let of_group = change.verb == GroupVerb::Dissolve;
        for member in change.concerned() {
            self.forget((conversation, member.address.inbox(home, member.id)));
        }
        let all = self.known.keys().filter(|(of, _)| of_group && *of == conversation);
        for place in all.copied().collect::<Vec<_>>() {
            self.forget(place);
        }
    }

    pub(crate) fn audit(&self) {
        assert_eq!(self.known.len(), self.order.len());
        for (number, place) in &self.order {
            assert_eq!(self.known.get(place).map(|it| it.number), Some(*number));
        }
    }
}

impl Chat {
    /// Sends a show to the home of the group, which may be here.
    pub(crate) fn show_goes(&mut self, now: Now, said: ShowSaid, fx: &mut Effects) {
        let conversation = groups::conversation_of(self.settings.home, &said.group);
        let owner = self.settings.shard_at(conversation);
        if owner == self.settings.shard {
            self.for_group(now, conversation, GroupTask::Show(Box::new(said)), fx);
        } else {
            fx.peer_messages.push((owner, ChatWord::ShowSaid(Box::new(said))));
        }
    }

    /// Takes a member's availability in a group that is at home here.
    pub(super) fn shows_in_group(
        &mut self,
        conversation: TimelineId,
        said: ShowSaid,
        fx: &mut Effects,
    ) {
        let limits = &self.settings.limits.chat;
        let (known_max, members_max) =
            (limits.member_shows_known_max as usize, limits.transient_members_max as usize);
        let Some(group) = self.groups.known.get_mut(&conversation) else { return };
        let ShowSaid { by, device, group: address, mut show } = said;
        let Some(mut status) = group.state.status_of(by) else {
            // A former member takes back its show, which is already forgotten.
            let dropped = u64::from(show.is_some());
            return fx.counters.count_by(ChatCounter::TransientsDropped, dropped);
        };
        let closed = group.state.is_closed();
        if let Some(show) = &mut show
            && (status.muted || closed)
            && status.role == GroupRole::Member
        {
            show.status = Box::default(); // a status would be a message
        }
        let is_small = group.state.len() <= members_max;
        let is_new = match is_small {
            true => self.shows.takes((conversation, by), (&device, show.as_ref()), known_max),
            false => show.is_some(),
        };
        if !is_new {
            return;
        }
        let (own, all) = ([by], group.state.inboxes());
        let foreign = match is_small {
            true => group.state.foreign().all,
            false if by.space() == Space::Foreign => [status.member.address.clone()].into(),
            false => [].into(),
        };
        status.show = show.filter(|it| !it.is_plain()).map(Arc::new);
        let shown = Arc::new(MemberShown { group: address, closed, status });
        if !foreign.is_empty() {
            let word = ShownWord { shown: shown.clone(), to: foreign };
            fx.foreign.push(ForeignWord::Shown(Box::new(word)));
        }
        let to = if is_small { &all[..] } else { &own };
        self.tell_bound(to.iter().copied(), &ChatDelivery::MemberShown(shown), fx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::account::AccountId;
    use model::chat::Show;

    fn away(status: &str) -> MemberShow {
        MemberShow { show: Show::Away, status: status.into() }
    }

    fn place(name: &str) -> Place {
        let home = HashKey::new(1, 2);
        let address = |it| AccountAddress::parse(it, "a.example").expect("right");
        let group = address("lunch@conference.a.example");
        (groups::conversation_of(home, &group), address(name).inbox(home, AccountId(1)))
    }

    #[test]
    fn the_newest_device_counts_until_it_is_there_no_more_and_the_oldest_is_forgotten() {
        let mut shows = Shows::default();
        let (ann, bob, carol) = (place("ann"), place("bob"), place("carol"));
        assert!(shows.takes(ann, ("desk", Some(&away("1"))), 2));
        assert!(!shows.takes(ann, ("phone", Some(&away("1"))), 2), "nothing new");
        assert!(!shows.takes(ann, ("desk", None), 2), "the phone has said it last");
        assert!(shows.takes(ann, ("phone", None), 2) && shows.known.is_empty());
        assert!(shows.takes(ann, ("desk", Some(&away("1"))), 2));
        assert!(shows.takes(ann, ("phone", Some(&MemberShow::default())), 2), "it is back");
        assert!(!shows.takes(ann, ("phone", Some(&MemberShow::default())), 2));
        for who in [ann, bob, carol] {
            assert!(shows.takes(who, ("desk", Some(&away("x"))), 2));
            shows.audit();
        }
        assert!(!shows.known.contains_key(&ann) && shows.known.len() == 2);
    }
}
