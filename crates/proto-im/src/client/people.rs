//! People, as a client says and hears of them (IM 12).

use super::ImEvent;
use crate::codec::WireFault;
use crate::codec::contact::{
    ContactChangedFields, ContactsFields, ContactsPageFields, OrderFields, said_of,
};
use crate::codec::presence::PresenceFields;
use model::chat::{ContactChange, ContactWish, ContactsRange};
use std::sync::Arc;

/// The fields of what is asked of the contacts.
pub(super) fn range_of(number: u32, range: &ContactsRange) -> ContactsFields {
    let ContactsRange { after, since, count } = *range;
    ContactsFields { number, after, since, count: u32::from(count) }
}

/// The fields of a wish.
pub(super) fn wish_of(number: u32, wish: &ContactWish) -> OrderFields<'_> {
    OrderFields::of(number, wish.contact.as_str(), &wish.order)
}

/// A page of contacts, told.
pub(super) fn contacts(page: &ContactsPageFields<'_>) -> Result<ImEvent, WireFault> {
    Ok(ImEvent::Contacts(Box::new(page.page()?)))
}

/// A contact that has changed, told. Whether a list shows it otherwise is for whoever shows one.
pub(super) fn changed(fields: &ContactChangedFields<'_>) -> Result<ImEvent, WireFault> {
    let (contact, said) = (Arc::new(fields.contact.contact()?), said_of(fields.said));
    Ok(ImEvent::Contact(Box::new(ContactChange {
        contact,
        said,
        is_news: true,
        is_block_news: false,
    })))
}

/// How somebody is there, told.
pub(super) fn presence(fields: &PresenceFields<'_>) -> Result<ImEvent, WireFault> {
    Ok(ImEvent::Presence(Box::new(fields.presence()?)))
}
