//! Public groups: a row for each at its home, all of them in memory, and lists of them for accounts
//! that look for groups of a domain.
//!
//! ```text
//! Reveal, Rename, Hide, Dissolve ─► row is stored ─► change is stored ─► list in memory
//! PublicGroups ─► each shard: a page of its own ─► all of them, merged ─► PublicGroups
//!
//! key    home │ conversation
//! value  version │ address │ title        texts are behind their lengths
//! ```
//! The row is stored before the change: after a crash between the two the row has a change that was
//! not answered, until the group is read. Invariant: once a change is answered, the list has the
//! group, or not, as the change says, with the group's title; the number of public groups of a
//! shard is limited.

use crate::groups::conversation_of;
use crate::service::flow::Flow;
use crate::sessions::Requester;
use crate::word::{PeerReply, PeerRequest, ReplyTo};
use crate::{Chat, Effects};
use base::bytes::{ByteReader, put_text};
use model::account::AccountAddress;
use model::chat::{
    ChatDelivery, ChatFault, GroupChange, GroupVerb, PUBLIC_PAGE_MAX, PublicGroup, PublicPage,
    PublicRange,
};
use model::id::{ConnRef, SessionRef, ShardId};
use model::ports::log::{RowHome, Table, Write};
use model::timeline::TimelineId;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Included};

/// Maximum of lists under way, per shard. A further one is answered as busy.
const LISTS_MAX: usize = 1_024;

const VERSION: u8 = 1;

/// The domain and the name of a group: the order of lists.
type Place = (Box<str>, Box<str>);

/// The public groups at home here, and the lists that devices here have asked for.
#[derive(Default)]
pub(crate) struct Publics {
    listed: BTreeMap<Place, Entry>,
    places: HashMap<TimelineId, Place>,
    /// The number of lists under way.
    lists: usize,
}

/// A public group.
struct Entry {
    title: Box<str>,
    /// The log is deleting the row: the group is no longer public.
    is_going: bool,
}

impl Publics {
    fn at(&mut self, conversation: TimelineId) -> Option<&mut Entry> {
        self.listed.get_mut(self.places.get(&conversation)?)
    }

    fn put(&mut self, conversation: TimelineId, group: &AccountAddress, title: Box<str>) {
        let place: Place = (group.domain().into(), group.name().into());
        self.listed.insert(place.clone(), Entry { title, is_going: false });
        self.places.insert(conversation, place);
    }

    fn remove(&mut self, conversation: TimelineId) {
        if let Some(place) = self.places.remove(&conversation) {
            self.listed.remove(&place);
        }
    }

    fn address(&self, conversation: TimelineId) -> Option<AccountAddress> {
        let (domain, name) = self.places.get(&conversation)?;
        AccountAddress::parse(name, domain).ok()
    }

    /// The part of a list that is at home here.
    fn page(&self, range: &PublicRange) -> PublicPage {
        let PublicRange { domain, from, backwards, count } = range;
        let begin: Place = (domain.clone(), Box::default());
        // Right behind all names of the domain.
        let end: Place = (format!("{domain}\0").into(), Box::default());
        let place: Option<Place> = from.clone().map(|name| (domain.clone(), name));
        let between = |behind, before| {
            let these = self.listed.range::<Place, _>((behind, Excluded(before)));
            these.filter(|(_, it)| !it.is_going)
        };
        let of = |(place, it): (&Place, &Entry)| {
            let group = AccountAddress::parse(&place.1, &place.0).ok()?;
            Some(PublicGroup { group, title: it.title.clone() })
        };
        let count = usize::from(*count);
        let groups = match (*backwards, &place) {
            (false, place) => {
                let behind = place.as_ref().map_or(Included(&begin), Excluded);
                between(behind, &end).take(count).filter_map(of).collect()
            }
            (true, place) => {
                let before = between(Included(&begin), place.as_ref().unwrap_or(&end));
                let mut groups: Vec<_> = before.rev().take(count).filter_map(of).collect();
                groups.reverse();
                groups
            }
        };
        PublicPage { number: 0, groups }
    }
}

/// Adds a shard's part to a page of a list.
fn join(page: &mut PublicPage, part: PublicPage, range: &PublicRange) {
    page.groups.extend(part.groups);
    // All groups are of one domain, so they are sorted by their names.
    page.groups.sort_unstable_by(|one, other| one.group.name().cmp(other.group.name()));
    let over = page.groups.len().saturating_sub(range.count.into());
    match range.backwards {
        true => drop(page.groups.drain(..over)),
        false => page.groups.truncate(range.count.into()),
    }
}

/// Lists the public groups of a domain for a device, from all shards.
async fn list(mut flow: Flow, wait: Requester, range: PublicRange) {
    flow.state().0.publics.lists += 1;
    let result = gather(&mut flow, range).await;
    let (chat, _, fx) = flow.state();
    chat.publics.lists -= 1;
    chat.answer_public(wait, result, fx);
}

async fn gather(flow: &mut Flow, range: PublicRange) -> Result<PublicPage, ChatFault> {
    let mut page = PublicPage::default();
    for shard in (0..flow.state().0.settings.shards.max(1)).map(ShardId) {
        let request = PeerRequest::PublicGroups(Box::new(range.clone()));
        let reply = flow.request(shard, request).await?;
        let PeerReply::PublicGroups(part) = reply else { return Err(ChatFault::Busy) };
        join(&mut page, *part, &range);
    }
    Ok(page)
}

/// The key of the row of the group with this conversation.
fn key_of(conversation: TimelineId) -> Box<[u8]> {
    RowHome::key_of(conversation, &[])
}

fn put(conversation: TimelineId, group: &AccountAddress, title: &str) -> Write {
    let mut value = vec![VERSION];
    put_text(group.as_str(), &mut value);
    put_text(title, &mut value);
    Write::Put { table: Table::ChatPublic, key: key_of(conversation), value: value.into() }
}

fn delete(conversation: TimelineId) -> Write {
    Write::Delete { table: Table::ChatPublic, key: key_of(conversation) }
}

fn read(key: &[u8], value: &[u8]) -> Option<(TimelineId, AccountAddress, Box<str>)> {
    let (conversation, rest) = RowHome::parts_of(key)?;
    let mut bytes = ByteReader::of(VERSION, value)?;
    let group = AccountAddress::parse(bytes.text()?, "").ok().filter(AccountAddress::is_group)?;
    let title = bytes.text()?.into();
    bytes.ends((conversation, group, title)).filter(|_| rest.is_empty())
}

impl Chat {
    /// Restores a row of the log.
    pub(crate) fn restore_public(&mut self, key: &[u8], value: &[u8]) -> bool {
        let Some((conversation, group, title)) = read(key, value) else { return false };
        self.publics.put(conversation, &group, title);
        true
    }

    /// Whether the shard may have one more public group.
    pub(super) fn may_reveal(&self) -> Result<(), ChatFault> {
        let most = self.settings.limits.chat.public_groups_max as usize;
        if self.publics.listed.len() < most { Ok(()) } else { Err(ChatFault::PublicFull) }
    }

    /// Prepares changes of a group: returns the row to be stored before them, if they affect the
    /// list.
    pub(super) fn public_changes(
        &mut self,
        conversation: TimelineId,
        (group, changes): (&AccountAddress, &[GroupChange]),
    ) -> Option<Write> {
        let known = self.groups.known.get(&conversation);
        let renamed = changes.iter().find(|it| it.verb == GroupVerb::Rename);
        let title = renamed.map(|it| &*it.title);
        let title = title.unwrap_or_else(|| known.map_or("", |it| it.state.title())).to_owned();
        let is_any = |verb| changes.iter().any(|it| it.verb == verb);
        Some(match self.publics.at(conversation) {
            Some(it) if is_any(GroupVerb::Hide) || is_any(GroupVerb::Dissolve) => {
                it.is_going = true;
                delete(conversation)
            }
            _ if is_any(GroupVerb::Reveal) => {
                self.publics.put(conversation, group, title.as_str().into());
                put(conversation, group, &title)
            }
            Some(it) if renamed.is_some() => {
                it.title = title.as_str().into();
                put(conversation, group, &title)
            }
            _ => return None,
        })
    }

    /// Corrects the list to the state of a group, which is known. `group` is its address, where
    /// known.
    pub(super) fn is_public_as_known(
        &mut self,
        conversation: TimelineId,
        group: Option<&AccountAddress>,
        fx: &mut Effects,
    ) {
        let Some(known) = self.groups.known.get(&conversation) else { return };
        let public = known.state.is_public().then(|| known.state.title());
        let write = match (self.publics.at(conversation), public) {
            (Some(it), Some(title)) if it.is_going || *it.title != *title => {
                let title: Box<str> = title.into();
                (it.is_going, it.title) = (false, title.clone());
                let Some(group) = self.publics.address(conversation) else { return };
                put(conversation, &group, &title)
            }
            (None, Some(title)) => {
                let (Some(group), title) = (group, Box::<str>::from(title)) else { return };
                let write = put(conversation, group, &title);
                self.publics.put(conversation, group, title);
                write
            }
            (Some(it), None) => {
                let is_written = it.is_going;
                self.publics.remove(conversation);
                if is_written {
                    return;
                }
                delete(conversation)
            }
            _ => return,
        };
        self.log.write(write, fx);
    }

    /// Takes a device's request for the public groups of a domain.
    pub(crate) fn public_groups(
        &mut self,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        range: PublicRange,
        fx: &mut Effects,
    ) {
        if self.asker(from, session).is_none() {
            return;
        }
        let wait = Requester { conn: from, session, number };
        if range.count > PUBLIC_PAGE_MAX {
            return self.answer_public(wait, Err(ChatFault::Invalid), fx);
        }
        if self.publics.lists >= LISTS_MAX || !self.begin(|flow| list(flow, wait, range)) {
            self.answer_public(wait, Err(ChatFault::Busy), fx);
        }
    }

    /// Replies to a shard with the part of a list that is at home here.
    pub(crate) fn tell_public(&mut self, to: ReplyTo, range: &PublicRange, fx: &mut Effects) {
        let page = Box::new(self.publics.page(range));
        self.reply(to, Ok(PeerReply::PublicGroups(page)), fx);
    }

    fn answer_public(
        &mut self,
        wait: Requester,
        result: Result<PublicPage, ChatFault>,
        fx: &mut Effects,
    ) {
        let Requester { conn, session, number } = wait;
        let answer = match result {
            Ok(page) => ChatDelivery::PublicGroups(Box::new(PublicPage { number, ..page })),
            Err(why) => ChatDelivery::Failed { number, why },
        };
        self.answer_session((conn, session), answer, fx);
    }

    /// Panics when an invariant does not hold.
    pub(crate) fn audit_public(&self) {
        let Publics { listed, places, .. } = &self.publics;
        assert_eq!(listed.len(), places.len(), "each has one place");
        for (conversation, place) in places {
            assert!(listed.contains_key(place), "each place has its group");
            let group = AccountAddress::parse(&place.1, &place.0).expect("it was one");
            assert_eq!(conversation_of(self.settings.home, &group), *conversation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;

    const HOME: HashKey = HashKey::new(1, 2);

    fn group(name: &str, domain: &str) -> AccountAddress {
        AccountAddress::parse(name, &format!("conference.{domain}")).expect("right")
    }

    fn some() -> Publics {
        let mut all = Publics::default();
        for (name, domain) in [("b", "a.example"), ("a", "b.example"), ("d", "a.example")] {
            let group = group(name, domain);
            all.put(conversation_of(HOME, &group), &group, name.to_uppercase().into());
        }
        all
    }

    fn names(all: &Publics, from: Option<&str>, backwards: bool, count: u16) -> String {
        let (domain, from) = ("conference.a.example".into(), from.map(Into::into));
        let page = all.page(&PublicRange { domain, from, backwards, count });
        page.groups.iter().map(|it| it.group.name()).collect()
    }

    #[test]
    fn a_row_is_read_as_it_was_written_and_nothing_else_is_one() {
        let group = group("lobby", "a.example");
        let conversation = conversation_of(HOME, &group);
        let Write::Put { key, value, .. } = put(conversation, &group, "Lobby") else {
            panic!("a put")
        };
        assert_eq!(read(&key, &value), Some((conversation, group, "Lobby".into())));
        for end in 0..value.len() {
            assert_eq!(read(&key, &value[..end]), None, "cut at {end}");
        }
        assert_eq!(read(&key[..9], &value), None);
    }

    #[test]
    fn a_page_is_of_one_domain_and_goes_on_in_both_directions() {
        let mut all = some();
        assert_eq!(names(&all, None, false, 9), "bd");
        assert_eq!(names(&all, None, false, 1), "b");
        assert_eq!(names(&all, Some("b"), false, 9), "d");
        assert_eq!(names(&all, Some("c"), false, 9), "d", "which is none");
        assert_eq!(names(&all, Some("d"), false, 9), "");
        assert_eq!(names(&all, None, true, 1), "d");
        assert_eq!(names(&all, Some("d"), true, 1), "b");
        assert_eq!(names(&all, Some("b"), true, 9), "");
        assert_eq!(names(&all, None, false, 0), "");
        all.remove(conversation_of(HOME, &group("b", "a.example")));
        assert_eq!(names(&all, None, false, 9), "d");
        assert_eq!((all.listed.len(), all.places.len()), (2, 2));
    }

    #[test]
    fn parts_of_shards_become_one_page() {
        let part = |names: &[&str]| {
            let of = |name: &&str| PublicGroup {
                group: group(name, "a.example"),
                title: Box::default(),
            };
            PublicPage { number: 0, groups: names.iter().map(of).collect() }
        };
        for (backwards, expected) in [(false, "abc"), (true, "bcd")] {
            let mut page = PublicPage::default();
            let range = PublicRange { domain: "a".into(), from: None, backwards, count: 3 };
            join(&mut page, part(&["a", "d"]), &range);
            join(&mut page, part(&["b", "c"]), &range);
            let told: String = page.groups.iter().map(|it| it.group.name()).collect();
            assert_eq!(told, expected);
        }
    }
}
