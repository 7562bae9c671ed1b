//! Lists of contacts: whole, changes since a version, and pages of either.
//!
//! A page has contacts in the order of their versions, so the next page begins behind the last
//! one's version, whatever changes meanwhile. Invariant: a client with a list up to a version,
//! whole or by pages, has each contact as it was then, and no removed one.

use crate::sessions::Requester;
use crate::{Chat, Effects};
use model::chat::ContactsRange;
use model::chat::{CONTACTS_PAGE_MAX, ChatDelivery, Contact, ContactList, ContactsPage};
use model::timeline::TimelineId;
use std::sync::Arc;

impl Chat {
    /// Sends the contacts of an account, or those that changed since a version.
    pub(super) fn list_contacts(
        &mut self,
        inbox: TimelineId,
        wait: Requester,
        after: Option<u64>,
        fx: &mut Effects,
    ) {
        let Some((_, here)) = self.here(inbox, wait) else { return };
        here.follows = true;
        let Some(person) = self.people.known.get(&inbox) else { return };
        let after = after.filter(|after| (person.floor..=person.version).contains(after));
        let all = person.ties.values().map(|tie| &tie.contact);
        let mut contacts: Vec<Arc<Contact>> = match after {
            Some(after) => all.filter(|contact| contact.version > after).cloned().collect(),
            None => all.filter(|contact| !contact.is_gone()).cloned().collect(),
        };
        if after.is_some() {
            contacts.sort_by_key(|contact| contact.version);
        }
        let Requester { conn, session, number } = wait;
        let (version, is_whole) = (person.version, after.is_none());
        let list = ContactList { number, is_whole, version, contacts };
        let list = ChatDelivery::Contacts(Box::new(list));
        self.answer_session((conn, session), list, fx);
    }

    /// Sends a page of contacts, and marks the session as online unless it has sent a presence.
    pub(super) fn page_contacts(
        &mut self,
        inbox: TimelineId,
        wait: Requester,
        range: ContactsRange,
        fx: &mut Effects,
    ) {
        let follows = !self.is_errand(wait.conn);
        if follows {
            let Some((_, here)) = self.here(inbox, wait) else { return };
            here.follows = true;
        }
        let Some(person) = self.people.known.get(&inbox) else { return };
        let page = person.page(wait.number, range);
        let Requester { conn, session, .. } = wait;
        self.answer_session((conn, session), ChatDelivery::ContactsPage(Box::new(page)), fx);
        if follows {
            self.is_here(inbox, wait, fx);
        }
    }
}

impl super::Person {
    /// A page of the account's contacts.
    fn page(&self, number: u32, range: ContactsRange) -> ContactsPage {
        let ContactsRange { after, since, count } = range;
        // Removed contacts are remembered unless the floor has passed their versions.
        let since = since.max(after);
        let is_known = (self.floor..=self.version).contains(&since);
        let is_anew = since == 0 || !is_known;
        let (after, since) = if is_anew { (0, self.version) } else { (after, since) };
        let contacts = self.ties.values().map(|tie| &tie.contact);
        let is_of_it = |contact: &&Arc<Contact>| {
            contact.version > after && (contact.version > since || !contact.is_gone())
        };
        let mut contacts: Vec<&Arc<Contact>> = contacts.filter(is_of_it).collect();
        let count = usize::from(count.min(CONTACTS_PAGE_MAX)).max(1);
        let more = contacts.len() > count;
        if more {
            contacts.select_nth_unstable_by_key(count, |contact| contact.version);
            contacts.truncate(count);
        }
        contacts.sort_unstable_by_key(|contact| contact.version);
        let last = contacts.last().filter(|_| more);
        let upto = last.map_or(self.version, |contact| contact.version);
        let contacts = contacts.into_iter().cloned().collect();
        ContactsPage { number, is_anew, since, contacts, upto, more }
    }
}
