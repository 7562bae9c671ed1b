//! Contacts and presence: their words in the schema and the document, and sizes.

use super::DOCUMENT;
use super::schema;
use crate::codec::client_frame::ClientFrame;
use crate::codec::contact::*;
use crate::codec::frame::{self, SERVER_BYTES_MAX, split};
use crate::codec::presence::*;
use crate::codec::protobuf::Body;
use crate::codec::server_frame::ServerFrame;
use model::account::{AccountAddress, Addressee};
use model::chat::*;
use model::limits::Limits;

/// Words by their numbers, as the schema has them.
fn numbered(prefix: &str, first: u32, words: &[&str]) -> Vec<(u32, String)> {
    let word = |word: &&str| format!("{prefix}_{}", word.to_uppercase());
    (first..).zip(words.iter().map(word)).collect()
}

/// One order of each verb, in the order of their numbers.
fn orders() -> Vec<ContactOrder> {
    use SubscriptionVerb::{Subscribe, Subscribed, Unsubscribe, Unsubscribed};
    let groups = ["work".into(), "chess".into()].into();
    vec![
        ContactOrder::Set { name: "Bob".into(), groups },
        ContactOrder::Remove,
        ContactOrder::Befriend("it is me".into()),
        ContactOrder::Say(Subscribe, "it is me".into()),
        ContactOrder::Say(Unsubscribe, "".into()),
        ContactOrder::Say(Subscribed, "".into()),
        ContactOrder::Say(Unsubscribed, "".into()),
        ContactOrder::Block,
        ContactOrder::Unblock,
    ]
}

#[test]
fn words_of_people_are_those_of_the_schema_and_of_the_document() {
    let unspecified = ["unspecified"].as_slice();
    let with_none = |words: &[&str]| [unspecified, words].concat().join(" ");
    for (of, prefix, words) in [
        ("ContactVerb", "CONTACT_VERB", with_none(&CONTACT_VERBS)),
        ("Half", "HALF", HALVES.join(" ")),
        ("Show", "SHOW", with_none(&SHOWS)),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(schema::words(of), numbered(prefix, 0, &words));
        for (number, word) in words.iter().enumerate().filter(|(_, word)| **word != "unspecified") {
            let row = format!("| {number} | `{word}` | ");
            assert!(DOCUMENT.contains(&row), "{row}");
        }
    }
}

#[test]
fn each_number_of_people_means_one_thing_and_what_a_later_version_adds_means_little() {
    for (number, order) in (1..).zip(orders()) {
        assert_eq!(verb_number(&order), number);
        assert_eq!(OrderFields::of(7, "bob", &order).order(), Some(order));
    }
    for number in [0, 10, u32::MAX] {
        assert_eq!(OrderFields { verb: number, ..OrderFields::default() }.order(), None);
        assert_eq!((said_of(number), show_of(number)), (None, None));
        assert_eq!(half_of(number.max(3)), Half::None);
    }
    for half in [Half::None, Half::Pending, Half::Subscribed] {
        assert_eq!(half_of(half_number(half)), half);
    }
    for number in 1..OFFLINE {
        assert_eq!(show_of(number).map(show_number), Some(number));
    }
    assert_eq!((show_of(OFFLINE), SHOWS.len()), (None, OFFLINE as usize));
    let unknown = PresenceFields { from: "ann@a.example", device: "d", show: 99, status: "x" };
    let presence = unknown.presence().expect("right");
    let how = presence.availability.expect("it is there, somehow");
    assert_eq!((how.show, &*how.status), (Show::Here, "x"));
    let nowhere = PresenceFields { device: "", ..unknown }.presence().expect("right");
    assert_eq!((nowhere.device, nowhere.availability), (None, None));
}

#[test]
fn the_largest_order_about_a_contact_and_the_largest_contact_fit_into_frames() {
    let labels = [63, 63, 63, 61].map(|bytes| "d".repeat(bytes));
    let address = format!("{}@{}", "n".repeat(64), labels.join("."));
    let text = |bytes: usize| "x".repeat(bytes).into_boxed_str();
    let group = text(CONTACT_GROUP_BYTES_MAX);
    let groups: Vec<Box<str>> = vec![group.clone(); CONTACT_GROUPS_MAX];
    let fields = OrderFields {
        number: u32::MAX,
        contact: &address,
        verb: u32::MAX,
        name: &text(CONTACT_NAME_BYTES_MAX),
        groups: vec![&group; CONTACT_GROUPS_MAX + 50],
        greeting: &text(GREETING_BYTES_MAX),
    };
    let mut limits = Limits::default();
    (limits.chat.text_bytes_max, limits.chat.extra_bytes_max) = (256, 0);
    let mut written = Vec::new();
    ClientFrame::Contact(fields).write(&mut written);
    assert!(written.len() <= frame::client_bytes_max(&limits), "{}", written.len());
    let (read, _) = split(&written, 1 << 20).expect("a frame").expect("a whole one");
    let Ok(ClientFrame::Contact(read)) = ClientFrame::read(read) else { panic!("an order") };
    assert_eq!(read.groups.len(), CONTACT_GROUPS_MAX + 1, "one too many is enough");
    let contact = Contact {
        is_listed: true,
        name: text(CONTACT_NAME_BYTES_MAX),
        groups: groups.into(),
        greeting: text(GREETING_BYTES_MAX),
        is_blocked: true,
        version: u64::MAX,
        ..Contact::nobody(AccountAddress::parse(&address, "").expect("right"))
    };
    let one = ContactFields::of(&contact);
    assert!(one.size() + 5 <= contact.weight(), "a page is cut by what it weighs");
    let page = ContactsPageFields { contacts: vec![one; 3], ..ContactsPageFields::default() };
    assert!(frame::PAGE_BYTES_MAX + ServerFrame::Contacts(page).size() < SERVER_BYTES_MAX);
    let wish = Addressee::parse(&address).expect("right");
    assert_eq!(OrderFields::of(1, wish.as_str(), &ContactOrder::Block).contact, address);
}
