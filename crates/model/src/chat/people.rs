//! People: whom an account knows, who sees whom, and who is there.
//!
//! An account's **contacts** are others with what it calls them, how presence goes between the two
//! (RFC 6121 3 and appendix A), and whether it has blocked them. They stand at its home in one
//! order of changes: a device that says how far it has come gets what is newer. **Presence** is
//! what a session says of itself to those who are subscribed; nothing of it is stored.

use super::AbuseReport;
use crate::account::{AccountAddress, Addressee};
use crate::id::SessionRef;
use base::encoding::Encoding;
use std::sync::Arc;

/// Longest name of a contact, bytes.
pub const CONTACT_NAME_BYTES_MAX: usize = 256;

/// Groups that a contact is in.
pub const CONTACT_GROUPS_MAX: usize = 16;

/// Longest name of such a group, bytes.
pub const CONTACT_GROUP_BYTES_MAX: usize = 128;

/// Longest text that goes with a wish to be subscribed, bytes.
pub const GREETING_BYTES_MAX: usize = 256;

/// Longest XML that comes with it, bytes.
pub const GREETING_EXTRA_BYTES_MAX: usize = 1_024;

/// Stands in a greeting between its text and what else XMPP said with the wish, as XML (RFC 6121
/// 3.1.3).
const GREETING_EXTRA: char = '\0';

/// A greeting of a text, and of what else XMPP says with it.
pub fn greeting_of(text: &str, extra: &str) -> Box<str> {
    let text = greeting_parts(text).0;
    match extra.is_empty() {
        true => text.into(),
        false => format!("{text}{GREETING_EXTRA}{extra}").into(),
    }
}

/// The text of a greeting, and what else XMPP said with it.
pub fn greeting_parts(greeting: &str) -> (&str, &str) {
    greeting.split_once(GREETING_EXTRA).unwrap_or((greeting, ""))
}

/// Longest text of a presence, bytes.
pub const STATUS_BYTES_MAX: usize = 512;

/// Most bytes that a presence carries beside its text.
pub const PRESENCE_EXTRA_BYTES_MAX: usize = 2_048;

/// Most contacts of one page.
pub const CONTACTS_PAGE_MAX: u16 = 256;

/// Contacts that an account may have, whatever the configuration says.
pub const CONTACTS_HARD_MAX: u32 = 65_536;

/// One direction of presence between two: whether one of them sees the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug, Encoding)]
#[encoding(None = 0, Pending = 1, Subscribed = 2)]
pub enum Half {
    /// Neither has, nor has asked for, the other's presence.
    #[default]
    None,
    /// Asks, and has no answer.
    Pending,
    /// Does.
    Subscribed,
}

/// How presence goes between an account and a contact: the nine states of RFC 6121 appendix A.1,
/// and pre-approval (3.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Encoding)]
pub struct Subscription {
    /// The account sees the contact, or asks to.
    pub to: Half,
    /// The contact sees the account, or asks to.
    pub from: Half,
    /// Whether a request of the contact is granted at once.
    pub approved: bool,
}

impl Subscription {
    /// The word of RFC 6121 2.1.2.5 for it, as far as a roster says it.
    pub const fn word(self) -> &'static str {
        match (self.to, self.from) {
            (Half::Subscribed, Half::Subscribed) => "both",
            (Half::Subscribed, _) => "to",
            (_, Half::Subscribed) => "from",
            _ => "none",
        }
    }
}

/// Step of a subscription, by the account itself or by a contact (RFC 6121 3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Encoding)]
#[encoding(Subscribe = 0, Unsubscribe = 1, Subscribed = 2, Unsubscribed = 3)]
pub enum SubscriptionVerb {
    /// I want to see you.
    Subscribe,
    /// I want it no longer.
    Unsubscribe,
    /// You may see me, or may when you ask.
    Subscribed,
    /// You may not, or no longer.
    Unsubscribed,
}

impl SubscriptionVerb {
    /// All verbs.
    pub const ALL: [SubscriptionVerb; 4] = [
        SubscriptionVerb::Subscribe,
        SubscriptionVerb::Unsubscribe,
        SubscriptionVerb::Subscribed,
        SubscriptionVerb::Unsubscribed,
    ];

    /// The word in RFC 6121.
    pub const fn word(self) -> &'static str {
        match self {
            SubscriptionVerb::Subscribe => "subscribe",
            SubscriptionVerb::Unsubscribe => "unsubscribe",
            SubscriptionVerb::Subscribed => "subscribed",
            SubscriptionVerb::Unsubscribed => "unsubscribed",
        }
    }
}

/// Contact of an account, with its state: made once, and shared.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct Contact {
    /// Address of the contact.
    pub address: AccountAddress,
    /// Whether the contact is in the account's list. Others are here only because they ask, or are
    /// blocked, or were in it once.
    pub is_listed: bool,
    /// Name that the account gave it, at most [`CONTACT_NAME_BYTES_MAX`].
    pub name: Box<str>,
    /// Groups in which the account has it, each at most [`CONTACT_GROUP_BYTES_MAX`], in order.
    pub groups: Box<[Box<str>]>,
    /// How presence goes.
    pub subscription: Subscription,
    /// Greeting of an unanswered request ([`greeting_parts`]).
    pub greeting: Box<str>,
    /// Whether the contact is blocked: nothing of it reaches the account, nor the other way round.
    pub is_blocked: bool,
    /// Version of the contact's last change.
    pub version: u64,
}

impl Contact {
    /// Contact with an account of which nothing is known.
    pub fn nobody(address: AccountAddress) -> Contact {
        Contact {
            address,
            is_listed: false,
            name: Box::default(),
            groups: Box::default(),
            subscription: Subscription::default(),
            greeting: Box::default(),
            is_blocked: false,
            version: 0,
        }
    }

    /// Whether nothing is left of it: whoever has it removes it.
    pub fn is_gone(&self) -> bool {
        !self.is_listed && !self.is_blocked && self.subscription == Subscription::default()
    }

    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let groups: usize = self.groups.iter().map(|group| 16 + group.len()).sum();
        let texts = self.address.as_str().len() + self.name.len() + self.greeting.len();
        size_of::<Contact>() + groups + texts
    }
}

/// Request of a device about a contact. One that changes nothing is answered as done.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Set = 0, Remove = 1, Say = 2, Befriend = 3, Block = 4, Unblock = 5)]
pub enum ContactOrder {
    /// Puts the contact into the list, by this name and in these groups.
    Set {
        /// The name, perhaps none.
        name: Box<str>,
        /// Groups, each once.
        groups: Box<[Box<str>]>,
    },
    /// Takes the contact out of the list, and ends both directions of the subscription.
    Remove,
    /// Changes a subscription to presence. `Subscribe` carries a text for the contact.
    Say(SubscriptionVerb, Box<str>),
    /// Makes both see each other: asks, and grants what the other asks, now or later. So one wish
    /// and one answer of the same kind make two friends.
    Befriend(Box<str>),
    /// Blocks the contact: nothing of it reaches the account, nor the other way round.
    Block,
    /// Unblocks the contact.
    Unblock,
}

/// An order about somebody.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ContactWish {
    /// The contact.
    pub contact: Addressee,
    /// The order.
    pub order: ContactOrder,
}

/// An account's contacts, or those that changed.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ContactList {
    /// Number of the request.
    pub number: u32,
    /// Whether these are all contacts; else only those that changed, including
    /// [removed](Contact::is_gone) ones.
    pub is_whole: bool,
    /// The version of the list: to be said the next time.
    pub version: u64,
    /// The contacts, in the order of their addresses; of a part, of their changes.
    pub contacts: Vec<Arc<Contact>>,
}

/// Part of an account's contacts, in the order of their changes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Encoding)]
pub struct ContactsRange {
    /// The version up to which the device has them; 0: it has none.
    pub after: u64,
    /// Where a list is gone on with, as its last page said; 0: it is begun.
    pub since: u64,
    /// The most that is wanted, 1 to [`CONTACTS_PAGE_MAX`].
    pub count: u16,
}

/// A page of an account's contacts.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ContactsPage {
    /// Number of the request.
    pub number: u32,
    /// The list begins with this page: what the device had before is not known any more here.
    pub is_anew: bool,
    /// Version that the request for the list's next page must repeat.
    pub since: u64,
    /// Contacts, in the order of their versions, among them such as are
    /// [gone](Contact::is_gone).
    pub contacts: Vec<Arc<Contact>>,
    /// The version up to which this is all.
    pub upto: u64,
    /// Whether more follow behind it.
    pub more: bool,
}

/// A contact has changed.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ContactChange {
    /// The contact after the change; its version is that of the list.
    pub contact: Arc<Contact>,
    /// The step that the contact took, if the change is one. A request that waits for an answer is
    /// delivered again to each session that becomes available.
    pub said: Option<SubscriptionVerb>,
    /// Whether the change is visible in the account's list.
    pub is_news: bool,
    /// Whether the change blocks or unblocks the contact.
    pub is_block_news: bool,
}

/// How somebody is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Encoding)]
#[encoding(Here = 0, Chat = 1, Away = 2, ExtendedAway = 3, DoNotDisturb = 4)]
pub enum Show {
    /// Available.
    #[default]
    Here,
    /// Available, and glad to talk.
    Chat,
    /// Away for a while.
    Away,
    /// Away for long.
    ExtendedAway,
    /// Busy.
    DoNotDisturb,
}

/// A session's own presence: made once, and shared.
#[derive(Clone, PartialEq, Eq, Default, Debug, Encoding)]
pub struct Availability {
    /// Kind of availability.
    pub show: Show,
    /// Status text, at most [`STATUS_BYTES_MAX`] bytes.
    pub status: Box<str>,
    /// Rank of the session among those of its account (RFC 6121 4.7.2.3).
    pub priority: i8,
    /// Opaque bytes beside it, at most [`PRESENCE_EXTRA_BYTES_MAX`].
    pub extra: Box<[u8]>,
    /// The account's badge, from its nodes, if the session wants it shown: the session leaves this
    /// empty and the service fills it in. Empty: no badge.
    pub badge: Option<Box<str>>,
}

impl Availability {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let badge = self.badge.as_ref().map_or(0, |badge| badge.len());
        size_of::<Availability>() + self.status.len() + self.extra.len() + badge
    }
}

/// Presence of an account or of one of its devices changed.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct Presence {
    /// Contact whose presence it is, or the account itself.
    pub from: AccountAddress,
    /// Device of the account; `None`: the account has no device online any more.
    pub device: Option<Box<str>>,
    /// How; none: it went.
    pub availability: Option<Arc<Availability>>,
}

impl Presence {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        size_of::<Presence>() + self.availability.as_ref().map_or(0, |it| it.weight())
    }
}

/// Request of a session about people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeopleRequest {
    /// Session that asks.
    pub session: SessionRef,
    /// Number that the answer repeats.
    pub number: u32,
    /// The request itself.
    pub ask: PeopleAsk,
}

/// Request of a session about people. Answered by [`Contacts`](super::ChatDelivery::Contacts),
/// [`ContactsPage`](super::ChatDelivery::ContactsPage), [`Done`](super::ChatDelivery::Done) or
/// [`Failed`](super::ChatDelivery::Failed).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeopleAsk {
    /// The contacts, or what has changed behind a version. From now on the session gets changes.
    Contacts {
        /// The version that the device has.
        after: Option<u64>,
    },
    /// A part of the contacts. From now on the session gets changes, and unless it has sent
    /// presence, it is available.
    Page(ContactsRange),
    /// A change of a contact. Done when it is stored; a block, when the other's home knows it, too.
    Wish(Box<ContactWish>),
    /// The session is there, like this; none: not any more. From now on it gets the presence of
    /// others.
    Present(Option<Box<Availability>>),
    /// Reports another account to the operator. Done also if there were too many reports of late.
    Report(Box<AbuseReport>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roster_says_which_of_two_see_each_other() {
        use Half::{None, Pending, Subscribed};
        for (to, from, word) in [
            (None, Pending, "none"),
            (Pending, None, "none"),
            (Subscribed, Pending, "to"),
            (Pending, Subscribed, "from"),
            (Subscribed, Subscribed, "both"),
        ] {
            assert_eq!(Subscription { to, from, approved: false }.word(), word);
        }
    }

    #[test]
    fn a_contact_is_gone_when_nothing_is_left_of_it() {
        let address = AccountAddress::parse("ann", "a.example").expect("right");
        let nobody = Contact::nobody(address);
        assert!(nobody.is_gone());
        let approved = Subscription { approved: true, ..Subscription::default() };
        let pending = Subscription { from: Half::Pending, ..Subscription::default() };
        for contact in [
            Contact { is_listed: true, ..nobody.clone() },
            Contact { is_blocked: true, ..nobody.clone() },
            Contact { subscription: approved, ..nobody.clone() },
            Contact { subscription: pending, ..nobody },
        ] {
            assert!(!contact.is_gone(), "{contact:?}");
        }
    }
}
