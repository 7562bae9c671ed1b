//! The list of the rooms of a service (XEP-0045 6.3), in pages (XEP-0059): those that the account
//! is in, and those that are public.
//!
//! ```text
//! Conversations (pages) ─► rooms that the account is in ┐
//!                             PublicGroups ─► public ones ┴► a page, by names ─► titles ─► told
//! ```
//! A place in the list is the address of a room, which need not be there any more; a client that
//! goes on by one gets the others in the same order. Of what the account is in the titles are asked
//! for one by one. Invariant: a room is listed once, whether the account is in it or it is public.

use super::listing::name_of;
use super::walk::Walk;
use super::{RoomAnswer, RoomRequest, Step, fault_of};
use crate::archive::{Paging, RSM, at_most_one};
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::server::iq::DISCO_ITEMS;
use crate::xml::scan::Element;
use crate::xml::text::escaped;
use model::account::AccountAddress;
use model::chat::{
    CHANNEL_SERVICE, ChatFault, ConversationsPage, PAGE_MESSAGES_MAX, PUBLIC_PAGE_MAX, PublicPage,
    PublicRange,
};
use model::timeline::Seq;
use std::collections::BTreeMap;

/// Rooms of an account that are listed.
const ROOMS_LISTED_MAX: usize = 256;

/// Request for the rooms of a service.
pub(super) struct Items {
    range: PublicRange,
    /// A part of the list is wanted, and not all of it.
    is_part: bool,
    stage: Stage,
    /// Rooms of the account that were seen.
    seen: usize,
    /// The page has as many as are wanted: there may be more.
    is_full: bool,
    /// Rooms of the page, by name, with their titles where known.
    rooms: BTreeMap<Box<str>, (AccountAddress, Option<Box<str>>)>,
}

/// Stage of the list.
enum Stage {
    /// Conversations of the account before a place.
    Own(Seq),
    Public,
    /// The title of a room is being read.
    Title(Walk),
}

impl Items {
    /// The list that a `query` to a service asks for; `has_rooms`: of an account that may be in
    /// some.
    pub(super) fn of(
        service: &str,
        query: &Element<'_, '_>,
        has_rooms: bool,
    ) -> Result<Items, StanzaFault> {
        let set = at_most_one(query, ("set", RSM))?;
        let paging = set.as_ref().map(Paging::read).transpose()?.unwrap_or_default();
        let before = paging.before.as_deref().filter(|it| !it.is_empty());
        let from = match (paging.after.as_deref(), before) {
            (Some(_), Some(_)) => return Err(StanzaFault::BadRequest),
            (after, before) => after.or(before).map(|it| name_at(service, it)).transpose()?,
        };
        let backwards = paging.before.is_some() && paging.after.is_none();
        let count = paging.most.unwrap_or(PUBLIC_PAGE_MAX).min(PUBLIC_PAGE_MAX);
        let range = PublicRange { domain: service.into(), from, backwards, count };
        let stage = if has_rooms { Stage::Own(Seq::MAX) } else { Stage::Public };
        let (is_part, rooms) = (set.is_some(), BTreeMap::new());
        Ok(Items { range, is_part, stage, seen: 0, is_full: false, rooms })
    }

    fn of_channels(&self) -> bool {
        self.range.domain.starts_with(CHANNEL_SERVICE)
    }

    pub(super) fn request(&self) -> RoomRequest {
        match &self.stage {
            Stage::Own(before) => {
                RoomRequest::Conversations { before: *before, count: PAGE_MESSAGES_MAX }
            }
            Stage::Public => RoomRequest::Public(self.range.clone()),
            Stage::Title(walk) => walk.request(),
        }
    }

    pub(super) fn take(&mut self, answer: RoomAnswer<'_>) -> Step {
        match (&self.stage, answer) {
            (Stage::Own(_), RoomAnswer::Conversations(page)) => self.takes_own(page),
            (Stage::Public, RoomAnswer::Public(page)) => self.takes_public(page),
            (Stage::Title(_), RoomAnswer::Members(page)) => self.is_titled(Some(&page.title)),
            // What a channel is called whoever subscribes is not told by its list.
            (Stage::Title(_), RoomAnswer::Failed(ChatFault::Forbidden)) if self.of_channels() => {
                self.is_titled(Some(""))
            }
            (Stage::Title(_), RoomAnswer::Failed(ChatFault::NotMember)) => self.is_titled(None),
            (_, RoomAnswer::Failed(why)) => Step::Refused(fault_of(why)),
            _ => Step::Refused(StanzaFault::ResourceConstraint),
        }
    }

    /// Some of the rooms that the account is in; the newest are enough.
    fn takes_own(&mut self, page: &ConversationsPage) -> Step {
        let groups = page.conversations.iter().map(|it| &it.with);
        let groups = groups.filter(|it| *it.domain() == *self.range.domain);
        let PublicRange { from, backwards, .. } = &self.range;
        for group in groups.take(ROOMS_LISTED_MAX - self.seen) {
            let is_behind = |from: &str| match backwards {
                true => group.name() < from,
                false => group.name() > from,
            };
            self.seen += 1;
            if from.as_deref().is_none_or(is_behind) {
                self.rooms.insert(group.name().into(), (group.clone(), None));
            }
        }
        let last = page.conversations.last().filter(|_| page.more);
        match last.filter(|_| self.seen < ROOMS_LISTED_MAX) {
            Some(last) => {
                self.stage = Stage::Own(last.place);
                Step::Ask
            }
            // No channel is public.
            None if self.of_channels() => self.takes_public(&PublicPage::default()),
            None => {
                self.stage = Stage::Public;
                Step::Ask
            }
        }
    }

    /// The public ones; of both what has room is the page.
    fn takes_public(&mut self, page: &PublicPage) -> Step {
        for it in &page.groups {
            let title = Some(it.title.clone());
            self.rooms.insert(it.group.name().into(), (it.group.clone(), title));
        }
        while self.rooms.len() > usize::from(self.range.count) {
            match self.range.backwards {
                true => self.rooms.pop_first(),
                false => self.rooms.pop_last(),
            };
        }
        self.is_full = self.rooms.len() >= usize::from(self.range.count);
        self.next()
    }

    /// The room that was asked for has this title; none: the account is in it no more.
    fn is_titled(&mut self, title: Option<&str>) -> Step {
        if let Stage::Title(walk) = &self.stage {
            match (self.rooms.get_mut(walk.room.name()), title) {
                (Some((_, known)), Some(title)) => *known = Some(title.into()),
                (Some(_), None) => _ = self.rooms.remove(walk.room.name()),
                (None, _) => {}
            }
        }
        self.next()
    }

    /// The next title is asked for, if one is missing.
    fn next(&mut self) -> Step {
        match self.rooms.values().find(|(_, title)| title.is_none()) {
            Some((room, _)) => {
                self.stage = Stage::Title(Walk::glance(room.clone()));
                Step::Ask
            }
            None => Step::Done,
        }
    }

    pub(super) fn result(&self) -> String {
        let item = |(room, title): &(AccountAddress, Option<Box<str>>)| {
            let name = escaped(name_of(room, title.as_deref().unwrap_or_default()));
            format!("<item jid='{room}' name='{name}'/>")
        };
        let items: String = self.rooms.values().map(item).collect();
        let set = if self.is_part || self.is_full { self.set() } else { String::new() };
        format!("<query xmlns='{DISCO_ITEMS}'>{items}{set}</query>")
    }

    /// Which part this is (XEP-0059 2.2).
    fn set(&self) -> String {
        let mut all = self.rooms.values().map(|(room, _)| room);
        let first = all.next();
        let ends = first.map(|first| (first, all.next_back().unwrap_or(first)));
        let ends = ends.map(|(first, last)| format!("<first>{first}</first><last>{last}</last>"));
        format!("<set xmlns='{RSM}'>{}</set>", ends.unwrap_or_default())
    }
}

/// The name of the room at a place of a list.
fn name_at(service: &str, place: &str) -> Result<Box<str>, StanzaFault> {
    let room = Jid::parse(place).and_then(|jid| jid.account);
    let room = room.filter(|it| *it.domain() == *service).ok_or(StanzaFault::ItemNotFound)?;
    Ok(room.name().into())
}
