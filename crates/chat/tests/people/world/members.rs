//! Lists of members: devices request them, and each page must show the group at its version.

use super::{Device, World};
use base::prng::Prng;
use model::account::AccountAddress;
use model::chat::{
    ChatFault, ChatMessage, ChatRequest, GroupChange, GroupRole, GroupVerb, MembersPage,
    MembersRange,
};
use std::collections::{BTreeMap, BTreeSet};

/// A past state of a group, computed anew from its messages.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct Then {
    pub(super) members: BTreeMap<AccountAddress, (GroupRole, bool)>,
    /// Invited accounts.
    pub(super) invited: BTreeSet<AccountAddress>,
    title: Box<str>,
    closed: bool,
    public: bool,
    unlocked: bool,
}

impl Then {
    /// Applies a message of the group, which may change it.
    pub(super) fn hears(&mut self, message: &ChatMessage) {
        let Some(change) = GroupChange::of(&message.content) else { return };
        let GroupChange { verb, title, members } = change;
        match verb {
            GroupVerb::Close | GroupVerb::Open => self.closed = verb == GroupVerb::Close,
            GroupVerb::Reveal | GroupVerb::Hide => self.public = verb == GroupVerb::Reveal,
            GroupVerb::Lock | GroupVerb::Unlock => self.unlocked = verb == GroupVerb::Unlock,
            GroupVerb::Rename => self.title = title.clone(),
            GroupVerb::Dissolve => {
                self.members.clear();
                self.invited.clear();
                (self.public, self.unlocked) = (false, false);
            }
            _ => {}
        }
        for (at, one) in members.into_iter().enumerate() {
            self.happens(verb, at == 0, one.address);
        }
        if verb == GroupVerb::Create {
            (self.title, self.closed) = (title, false);
        }
    }

    fn happens(&mut self, verb: GroupVerb, is_first: bool, who: AccountAddress) {
        use GroupRole::{Admin, Member, Owner};
        let muted = self.members.get(&who).is_some_and(|(_, muted)| *muted);
        let role = self.members.get(&who).map(|(role, _)| *role);
        if verb == GroupVerb::Invite {
            self.invited.insert(who);
            return;
        }
        if verb.makes_members() || verb.ends_membership() {
            self.invited.remove(&who);
        }
        let now = match verb {
            GroupVerb::Unban => return,
            GroupVerb::Create if is_first => (Owner, false),
            GroupVerb::Create | GroupVerb::Add | GroupVerb::Join => (Member, false),
            GroupVerb::Promote => (Admin, false),
            GroupVerb::Demote => (Member, muted),
            GroupVerb::AddOwner => (Owner, false),
            GroupVerb::RemoveOwner => (Admin, muted),
            GroupVerb::HandOver => {
                self.members.values_mut().filter(|it| it.0 == Owner).for_each(|it| it.0 = Admin);
                (Owner, false)
            }
            GroupVerb::Mute | GroupVerb::Unmute => {
                (role.expect("a member"), verb == GroupVerb::Mute)
            }
            _ => {
                self.members.remove(&who);
                return;
            }
        };
        self.members.insert(who, now);
    }

    /// The title of the group, if the group is public.
    pub(super) fn title_if_public(&self) -> Option<&str> {
        self.public.then_some(&*self.title)
    }

    /// Checks a page that this account got.
    pub(super) fn check(&self, who: &AccountAddress, page: &MembersPage) {
        // Any account gets the description of a public or open group, but not its members.
        let is_stranger = !self.members.contains_key(who);
        let is_open = self.public || self.unlocked || self.invited.contains(who);
        let may_hear = is_open && page.members.is_empty();
        assert!(!is_stranger || may_hear, "{who} was told of {page:?}");
        assert_eq!((&page.title, page.closed), (&self.title, self.closed), "{page:?}");
        assert_eq!(page.public, self.public, "{page:?}");
        assert_eq!(page.total as usize, self.members.len(), "{page:?}");
        assert!(page.from as usize + page.members.len() <= self.members.len(), "{page:?}");
        for it in &page.members {
            let then = self.members.get(&it.member.address);
            assert_eq!(then, Some(&(it.role, it.muted)), "{page:?}");
        }
    }
}

impl Device {
    /// Requests members of a group, from a version that it got before or from none.
    pub(super) fn lists(&mut self, rng: &mut Prng, group: AccountAddress) -> Option<ChatRequest> {
        let known: Vec<u64> =
            self.pages.iter().filter(|page| page.group == group).map(|page| page.version).collect();
        let at = rng.below(known.len().max(1) as u64) as usize;
        let version = known.get(at).filter(|_| !rng.one_in(4)).copied().unwrap_or(0);
        let (from, count) = (rng.below(4) as u32, 1 + rng.below(3) as u16);
        self.lists_so(MembersRange { group: group.into(), version, from, count, banned: false })
    }

    pub(super) fn lists_so(&mut self, range: MembersRange) -> Option<ChatRequest> {
        let session = self.session?;
        let number = self.number();
        self.listing.insert(number, range.clone());
        Some(ChatRequest::Members { session, number, range: Box::new(range) })
    }

    pub(super) fn listed(&mut self, page: MembersPage) {
        let range = self.listing.remove(&page.number).expect("it asked");
        assert_eq!(page.group, range.group.within("a.example"));
        assert!(page.members.len() <= usize::from(range.count));
        let goes_on = page.version == range.version;
        self.begun_anew += usize::from(!goes_on && range.version != 0);
        assert_eq!(page.from, if goes_on { range.from.min(page.total) } else { 0 });
        if !range.banned {
            self.pages.push(page);
        } else {
            self.banned.push(page);
        }
    }
}

impl World {
    /// Number of pages of members, and of those with another version than requested.
    pub fn pages(&self) -> [usize; 2] {
        let of = |device: &Device| [device.pages.len(), device.begun_anew];
        self.devices.iter().map(of).fold([0; 2], |sum, it| [sum[0] + it[0], sum[1] + it[1]])
    }

    /// Makes a device's request for a page of members; returns the answer, when everything is at
    /// rest.
    pub fn lists(
        &mut self,
        at: usize,
        group: &AccountAddress,
        (version, from, count): (u64, u32, u16),
    ) -> Result<MembersPage, ChatFault> {
        let group = group.clone().into();
        self.lists_so(at, MembersRange { group, version, from, count, banned: false })
    }

    /// Makes this request; returns the answer, when everything is at rest.
    pub fn lists_so(&mut self, at: usize, range: MembersRange) -> Result<MembersPage, ChatFault> {
        let banned = range.banned;
        let request = self.devices[at].lists_so(range).expect("it is here");
        let told = |device: &Device| device.pages.len() + device.banned.len();
        let before = told(&self.devices[at]);
        self.ask(at, request);
        self.rest();
        if let Some(fault) = self.devices[at].failed.take() {
            return Err(fault);
        }
        let device = &self.devices[at];
        assert_eq!(told(device), before + 1, "one answer");
        let all = if banned { &device.banned } else { &device.pages };
        Ok(all.last().cloned().expect("one"))
    }
}
