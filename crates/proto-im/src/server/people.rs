//! People, at the seam: contacts, wishes about them, and presence become the model's words (IM 12).
//!
//! A device that asks for none of it gets none of it: that is the service's to know, as are the
//! limits of texts. Requests that are invalid by themselves are answered here, and counted.

use super::Out;
use super::pages::fitting;
use super::session::{Session, refuse, write_failed};
use crate::codec::contact::{
    ContactChangedFields, ContactFields, ContactsFields, ContactsPageFields, OrderFields,
};
use crate::codec::presence::{OFFLINE, PresenceFields, SetPresenceFields, show_of};
use crate::codec::server_frame::ServerFrame;
use model::account::Addressee;
use model::chat::{
    Availability, CONTACTS_PAGE_MAX, ChatFault, ChatRequest, ContactChange, ContactWish,
    ContactsPage, ContactsRange, PeopleAsk, PeopleRequest, Presence,
};

impl Session {
    /// The device wants a part of the contacts.
    pub(super) fn contacts(&mut self, fields: &ContactsFields, out: &mut Out) {
        let ContactsFields { number, after, since, count } = *fields;
        let count = count.min(u32::from(CONTACTS_PAGE_MAX)) as u16;
        self.ask_people(number, PeopleAsk::Page(ContactsRange { after, since, count }), out);
    }

    /// The device wants something of a contact.
    pub(super) fn contact(&mut self, fields: &OrderFields<'_>, out: &mut Out) {
        let (Ok(contact), Some(order)) = (Addressee::of_contact(fields.contact), fields.order())
        else {
            return refuse(fields.number, out);
        };
        let wish = Box::new(ContactWish { contact, order });
        self.ask_people(fields.number, PeopleAsk::Wish(wish), out);
    }

    /// The device is there so, or is not to be seen.
    pub(super) fn presence(&mut self, fields: &SetPresenceFields<'_>, out: &mut Out) {
        let availability = match (show_of(fields.show), fields.show) {
            (Some(show), _) => {
                let status = fields.status.into();
                Some(Box::new(Availability { show, status, ..Availability::default() }))
            }
            (None, OFFLINE) => None,
            (None, _) => return refuse(fields.number, out),
        };
        self.ask_people(fields.number, PeopleAsk::Present(availability), out);
    }

    fn ask_people(&mut self, number: u32, ask: PeopleAsk, out: &mut Out) {
        let asked = PeopleRequest { session: self.session, number, ask };
        self.ask(ChatRequest::People(Box::new(asked)), out);
    }
}

/// A page ends with what brings it beyond its bytes; where it does not go out, the device asks
/// again (IM 12.2).
pub(super) fn write_contacts(page: &ContactsPage, out: &mut Out) {
    if out.backlog() > out.backlog_max() {
        return write_failed(page.number, ChatFault::Busy, out);
    }
    let fitting = fitting(page.contacts.iter().map(|contact| contact.weight()));
    let (contacts, rest) = page.contacts.split_at(fitting);
    let last = contacts.last().filter(|_| !rest.is_empty());
    let fields = ContactsPageFields {
        number: page.number,
        anew: page.is_anew,
        since: page.since,
        upto: last.map_or(page.upto, |contact| contact.version),
        contacts: contacts.iter().map(|contact| ContactFields::of(contact)).collect(),
        more: page.more || !rest.is_empty(),
    };
    ServerFrame::Contacts(fields).write(out.bytes());
}

pub(super) fn write_contact(change: &ContactChange, out: &mut Out) {
    ServerFrame::Contact(ContactChangedFields::of(change)).write(out.bytes());
}

pub(super) fn write_presence(presence: &Presence, out: &mut Out) {
    ServerFrame::Presence(PresenceFields::of(presence)).write(out.bytes());
}
