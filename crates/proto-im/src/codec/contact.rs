//! Contacts: orders and lists of them, as both directions have them (IM 12.1 to 12.3).
//!
//! A contact is said whole whenever something of it changes. Of the groups of an order one more is
//! kept than is allowed, so that an order with too many is refused.

use super::WireFault;
use super::group::contact_address;
use super::protobuf::{Body, Sink, Value};
use model::chat::{
    CONTACT_GROUPS_MAX, Contact, ContactChange, ContactOrder, ContactsPage, Half, Subscription,
    SubscriptionVerb, greeting_of, greeting_parts,
};
use std::sync::Arc;

/// `Contacts`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ContactsFields {
    /// Number that the answer repeats.
    pub number: u32,
    /// The version up to which it has them; 0: it has none.
    pub after: u64,
    /// Place at which to go on, as the last page said; 0: from the beginning.
    pub since: u64,
    /// The most it wants.
    pub count: u32,
}

/// `ContactOrder`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OrderFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// The contact, perhaps without a domain.
    pub contact: &'a str,
    /// The verb's number.
    pub verb: u32,
    /// Name of the contact, for verbs that set one.
    pub name: &'a str,
    /// Groups to list the contact in, for verbs that set them; at most one more than may be.
    pub groups: Vec<&'a str>,
    /// Text of the request, for verbs that have one.
    pub greeting: &'a str,
}

/// `ContactsPage`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ContactsPageFields<'a> {
    /// Number of the request.
    pub number: u32,
    /// The list begins here.
    pub anew: bool,
    /// To be said with the next page.
    pub since: u64,
    /// The version up to which this is all.
    pub upto: u64,
    /// Contacts.
    pub contacts: Vec<ContactFields<'a>>,
    /// Whether more follow.
    pub more: bool,
}

/// `Contact`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ContactFields<'a> {
    /// Full address of the contact.
    pub address: &'a str,
    /// Whether the contact is in the account's list.
    pub listed: bool,
    /// The account's name for the contact.
    pub name: &'a str,
    /// Groups in which the account lists the contact.
    pub groups: Vec<&'a str>,
    /// The number of the half in which the account sees it.
    pub sees: u32,
    /// That in which it sees the account.
    pub seen: u32,
    /// Whether a request of the contact is granted at once.
    pub approved: bool,
    /// Text of the contact's own request.
    pub greeting: &'a str,
    /// The account has blocked it.
    pub blocked: bool,
    /// Of the last change.
    pub version: u64,
}

/// `ContactChanged`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ContactChangedFields<'a> {
    /// As it is now.
    pub contact: ContactFields<'a>,
    /// The number of the verb that the contact said; 0: none.
    pub said: u32,
}

impl ContactsFields {
    pub(super) fn read(value: Value<'_>) -> Result<ContactsFields, WireFault> {
        let mut it = ContactsFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.after = value.u64()?,
                3 => it.since = value.u64()?,
                4 => it.count = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ContactsFields {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.u64(2, self.after);
        sink.u64(3, self.since);
        sink.u32(4, self.count);
    }
}

impl<'a> OrderFields<'a> {
    /// Of an order about somebody.
    pub fn of(number: u32, contact: &'a str, order: &'a ContactOrder) -> OrderFields<'a> {
        let it =
            OrderFields { number, contact, verb: verb_number(order), ..OrderFields::default() };
        match order {
            ContactOrder::Set { name, groups } => {
                OrderFields { name, groups: groups.iter().map(|group| &**group).collect(), ..it }
            }
            ContactOrder::Befriend(greeting) | ContactOrder::Say(_, greeting) => {
                OrderFields { greeting, ..it }
            }
            ContactOrder::Remove | ContactOrder::Block | ContactOrder::Unblock => it,
        }
    }

    /// The order; `None`: it makes no sense.
    pub fn order(&self) -> Option<ContactOrder> {
        let greeting = || greeting_of(self.greeting, "");
        Some(match self.verb {
            1 if self.groups.iter().any(|group| group.is_empty()) => return None,
            1 => {
                let groups = self.groups.iter().map(|group| Box::from(*group)).collect();
                ContactOrder::Set { name: self.name.into(), groups }
            }
            2 => ContactOrder::Remove,
            3 => ContactOrder::Befriend(greeting()),
            8 => ContactOrder::Block,
            9 => ContactOrder::Unblock,
            number => match said_of(number)? {
                SubscriptionVerb::Subscribe => {
                    ContactOrder::Say(SubscriptionVerb::Subscribe, greeting())
                }
                verb => ContactOrder::Say(verb, Box::default()),
            },
        })
    }

    pub(super) fn read(value: Value<'a>) -> Result<OrderFields<'a>, WireFault> {
        let mut it = OrderFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.contact = value.text()?,
                3 => it.verb = value.u32()?,
                4 => it.name = value.text()?,
                5 => {
                    let group = value.text()?;
                    if it.groups.len() <= CONTACT_GROUPS_MAX {
                        it.groups.push(group);
                    }
                }
                6 => it.greeting = value.text()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for OrderFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.contact);
        sink.u32(3, self.verb);
        sink.text(4, self.name);
        self.groups.iter().for_each(|group| sink.each_text(5, group));
        sink.text(6, self.greeting);
    }
}

impl<'a> ContactsPageFields<'a> {
    /// The page, if it can be one.
    pub fn page(&self) -> Result<ContactsPage, WireFault> {
        let ContactsPageFields { number, anew, since, upto, more, .. } = *self;
        let contacts = self.contacts.iter().map(|one| one.contact().map(Arc::new));
        let contacts = contacts.collect::<Result<_, _>>()?;
        Ok(ContactsPage { number, is_anew: anew, since, contacts, upto, more })
    }

    pub(super) fn read(value: Value<'a>) -> Result<ContactsPageFields<'a>, WireFault> {
        let mut it = ContactsPageFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.anew = value.bool()?,
                3 => it.since = value.u64()?,
                4 => it.upto = value.u64()?,
                5 => it.contacts.push(ContactFields::read(value)?),
                6 => it.more = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ContactsPageFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.bool(2, self.anew);
        sink.u64(3, self.since);
        sink.u64(4, self.upto);
        self.contacts.iter().for_each(|one| sink.body(5, one));
        sink.bool(6, self.more);
    }
}

impl<'a> ContactFields<'a> {
    /// Of a contact.
    pub fn of(it: &'a Contact) -> ContactFields<'a> {
        let Subscription { to, from, approved } = it.subscription;
        ContactFields {
            address: it.address.as_str(),
            listed: it.is_listed,
            name: &it.name,
            groups: it.groups.iter().map(|group| &**group).collect(),
            sees: half_number(to),
            seen: half_number(from),
            approved,
            greeting: greeting_parts(&it.greeting).0,
            blocked: it.is_blocked,
            version: it.version,
        }
    }

    /// The contact, if it can be one.
    pub fn contact(&self) -> Result<Contact, WireFault> {
        let (to, from) = (half_of(self.sees), half_of(self.seen));
        Ok(Contact {
            address: contact_address(self.address)?,
            is_listed: self.listed,
            name: self.name.into(),
            groups: self.groups.iter().map(|group| Box::from(*group)).collect(),
            subscription: Subscription { to, from, approved: self.approved },
            greeting: self.greeting.into(),
            is_blocked: self.blocked,
            version: self.version,
        })
    }

    fn read(value: Value<'a>) -> Result<ContactFields<'a>, WireFault> {
        let mut it = ContactFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.address = value.text()?,
                2 => it.listed = value.bool()?,
                3 => it.name = value.text()?,
                4 => it.groups.push(value.text()?),
                5 => it.sees = value.u32()?,
                6 => it.seen = value.u32()?,
                7 => it.approved = value.bool()?,
                8 => it.greeting = value.text()?,
                9 => it.blocked = value.bool()?,
                10 => it.version = value.u64()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ContactFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.address);
        sink.bool(2, self.listed);
        sink.text(3, self.name);
        self.groups.iter().for_each(|group| sink.each_text(4, group));
        sink.u32(5, self.sees);
        sink.u32(6, self.seen);
        sink.bool(7, self.approved);
        sink.text(8, self.greeting);
        sink.bool(9, self.blocked);
        sink.u64(10, self.version);
    }
}

impl<'a> ContactChangedFields<'a> {
    /// Of a change.
    pub fn of(change: &'a ContactChange) -> ContactChangedFields<'a> {
        let contact = ContactFields::of(&change.contact);
        ContactChangedFields { contact, said: change.said.map_or(0, said_number) }
    }

    pub(super) fn read(value: Value<'a>) -> Result<ContactChangedFields<'a>, WireFault> {
        let mut it = ContactChangedFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.contact = ContactFields::read(value)?,
                2 => it.said = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ContactChangedFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.body(1, &self.contact);
        sink.u32(2, self.said);
    }
}

/// The words of verbs about contacts, by their numbers from 1 on (IM 8.7).
pub const CONTACT_VERBS: [&str; 9] =
    ["set", "remove", "befriend", "request", "cancel", "accept", "refuse", "block", "unblock"];

/// The number of a verb about a contact on the wire (IM 8.7).
pub const fn verb_number(order: &ContactOrder) -> u32 {
    match order {
        ContactOrder::Set { .. } => 1,
        ContactOrder::Remove => 2,
        ContactOrder::Befriend(_) => 3,
        ContactOrder::Say(verb, _) => said_number(*verb),
        ContactOrder::Block => 8,
        ContactOrder::Unblock => 9,
    }
}

/// Number of a verb about a subscription, as in `ContactOrder`.
pub const fn said_number(verb: SubscriptionVerb) -> u32 {
    match verb {
        SubscriptionVerb::Subscribe => 4,
        SubscriptionVerb::Unsubscribe => 5,
        SubscriptionVerb::Subscribed => 6,
        SubscriptionVerb::Unsubscribed => 7,
    }
}

/// Subscription step of this number; `None`: the number has none.
pub fn said_of(number: u32) -> Option<SubscriptionVerb> {
    SubscriptionVerb::ALL.into_iter().find(|verb| said_number(*verb) == number)
}

/// The words of halves, by their numbers (IM 8.8).
pub const HALVES: [&str; 3] = ["none", "pending", "subscribed"];

/// The number of a half on the wire (IM 8.8).
pub const fn half_number(half: Half) -> u32 {
    match half {
        Half::None => 0,
        Half::Pending => 1,
        Half::Subscribed => 2,
    }
}

/// The half with this number; one that a later version added is none.
pub const fn half_of(number: u32) -> Half {
    match number {
        1 => Half::Pending,
        2 => Half::Subscribed,
        _ => Half::None,
    }
}
