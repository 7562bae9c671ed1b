//! Contacts, wishes and presence at the seam: what makes no sense first.

use super::super::*;
use super::harness::*;
use crate::codec::contact::{CONTACT_VERBS, ContactsFields, OrderFields};
use crate::codec::frame::{PAGE_BYTES_MAX, SERVER_BYTES_MAX};
use crate::codec::presence::SetPresenceFields;
use base::hash::HashKey;
use model::account::{AccountAddress, Addressee};
use model::chat::*;
use model::counters::{ChatCounter, Counter};
use std::sync::Arc;

fn bob() -> AccountAddress {
    AccountAddress::parse("bob", "a.example").expect("right")
}

fn order(verb: u32) -> OrderFields<'static> {
    let groups = vec!["work"];
    OrderFields { number: 7, contact: "bob", verb, name: "Bob", groups, greeting: "it is me" }
}

fn presence(show: u32) -> SetPresenceFields<'static> {
    SetPresenceFields { number: 7, show, status: "at lunch" }
}

#[test]
fn what_makes_no_sense_of_people_fails_is_counted_once_and_the_session_goes_on() {
    let bad = [
        ClientFrame::Contact(order(0)),
        ClientFrame::Contact(order(10)),
        ClientFrame::Contact(order(u32::MAX)),
        ClientFrame::Contact(OrderFields { contact: "", ..order(1) }),
        ClientFrame::Contact(OrderFields { contact: "Bob", ..order(4) }),
        ClientFrame::Contact(OrderFields { contact: "bob@", ..order(8) }),
        ClientFrame::Contact(OrderFields { contact: "@", ..order(8) }),
        ClientFrame::Contact(OrderFields { contact: "@B.example", ..order(8) }),
        ClientFrame::Contact(OrderFields { groups: vec!["work", ""], ..order(1) }),
        ClientFrame::Presence(presence(0)),
        ClientFrame::Presence(presence(7)),
        ClientFrame::Presence(presence(u32::MAX)),
    ];
    for frame in &bad {
        let expected = vec!["failed { number: 7 fault: FAULT_INVALID word: \"invalid\" }".into()];
        let counted = vec![Counter::from(ChatCounter::Invalid)];
        assert_eq!(said(frame), (expected, counted, 0), "{frame:?}");
    }
}

/// The session's request for a frame.
fn asked(frame: &ClientFrame<'_>) -> PeopleAsk {
    let mut side = in_session();
    assert!(side.hear(now(), &client(frame)).is_empty());
    let mut words = side.take_words_as::<ChatRequest>();
    let Some(ChatRequest::People(asked)) = words.pop() else { panic!("{frame:?}") };
    let PeopleRequest { session, number, ask } = *asked;
    assert_eq!((session, number, words.len()), (SESSION, 7, 0));
    ask
}

#[test]
fn what_is_wanted_of_people_is_said_in_the_models_words() {
    use SubscriptionVerb::{Subscribe, Subscribed, Unsubscribe, Unsubscribed};
    let say = |verb, greeting: &str| ContactOrder::Say(verb, greeting.into());
    let orders = [
        ContactOrder::Set { name: "Bob".into(), groups: ["work".into()].into() },
        ContactOrder::Remove,
        ContactOrder::Befriend("it is me".into()),
        say(Subscribe, "it is me"),
        say(Unsubscribe, ""),
        say(Subscribed, ""),
        say(Unsubscribed, ""),
        ContactOrder::Block,
        ContactOrder::Unblock,
    ];
    assert_eq!(orders.len(), CONTACT_VERBS.len());
    for (verb, expected) in (1..).zip(orders) {
        let contact = Addressee::parse("bob").expect("right");
        let wish = Box::new(ContactWish { contact, order: expected });
        assert_eq!(asked(&ClientFrame::Contact(order(verb))), PeopleAsk::Wish(wish));
    }
    let spam = AccountAddress::of_domain("spam.example").expect("right");
    let wish = ContactWish { contact: spam.into(), order: ContactOrder::Block };
    let block = OrderFields { contact: "@spam.example", ..order(8) };
    assert_eq!(asked(&ClientFrame::Contact(block)), PeopleAsk::Wish(Box::new(wish)));
    for (count, expected) in [(0, 0), (3, 3), (u32::MAX, CONTACTS_PAGE_MAX)] {
        let fields = ContactsFields { number: 7, after: 5, since: 6, count };
        let range = ContactsRange { after: 5, since: 6, count: expected };
        assert_eq!(asked(&ClientFrame::Contacts(fields)), PeopleAsk::Page(range));
    }
    let shows = [Show::Here, Show::Chat, Show::Away, Show::ExtendedAway, Show::DoNotDisturb];
    for (number, show) in (1..).zip(shows) {
        let status = "at lunch".into();
        let how = Availability { show, status, ..Availability::default() };
        let ask = PeopleAsk::Present(Some(Box::new(how)));
        assert_eq!(asked(&ClientFrame::Presence(presence(number))), ask);
    }
    assert_eq!(asked(&ClientFrame::Presence(presence(6))), PeopleAsk::Present(None));
}

fn contact(version: u64, name: usize) -> Arc<Contact> {
    let (to, from) = (Half::Subscribed, Half::Pending);
    Arc::new(Contact {
        is_listed: true,
        name: "n".repeat(name).into(),
        groups: ["work".into()].into(),
        subscription: Subscription { to, from, approved: true },
        greeting: "it is me".into(),
        is_blocked: true,
        version,
        ..Contact::nobody(bob())
    })
}

const ONE: &str = "address: \"bob@a.example\" listed: true name: \"n\" groups: \"work\" \
                   sees: HALF_SUBSCRIBED seen: HALF_PENDING approved: true greeting: \"it is me\" \
                   blocked: true version: 5";

#[test]
fn answers_are_told_and_what_nobody_asked_for_lets_no_request_in() {
    let mut side = in_session();
    side.limits.chat.requests_a_session_max = 2;
    side.hear(now(), &client(&ClientFrame::Contact(order(2))).repeat(9));
    assert_eq!(side.take_words().len(), 2);
    let change = |said| {
        let contact = contact(5, 1);
        ChatDelivery::Contact(Box::new(ContactChange {
            contact,
            said,
            is_news: false,
            is_block_news: false,
        }))
    };
    let told = |device: Option<&str>, how: Option<Show>| {
        let how = how.map(|show| Availability { show, status: "x".into(), ..Default::default() });
        let (device, availability) = (device.map(Box::from), how.map(Arc::new));
        let presence = Presence { from: bob(), device, availability };
        ChatDelivery::Presence(Box::new(presence))
    };
    let contacts = vec![contact(5, 1)];
    let page = ContactsPage { number: 7, is_anew: true, since: 9, contacts, upto: 6, more: true };
    let from = "presence { from: \"bob@a.example\"";
    for (word, expected, next) in [
        (change(None), format!("contact {{ contact {{ {ONE} }} }}"), 0),
        (
            change(Some(SubscriptionVerb::Subscribed)),
            format!("contact {{ contact {{ {ONE} }} said: CONTACT_VERB_ACCEPT }}"),
            0,
        ),
        (
            told(Some("desk"), Some(Show::DoNotDisturb)),
            format!("{from} device: \"desk\" show: SHOW_BUSY status: \"x\" }}"),
            0,
        ),
        (told(Some("desk"), None), format!("{from} device: \"desk\" show: SHOW_OFFLINE }}"), 0),
        (told(None, None), format!("{from} show: SHOW_OFFLINE }}"), 0),
        (ChatDelivery::Done { number: 7 }, "done { number: 7 }".to_owned(), 1),
        (
            ChatDelivery::ContactsPage(Box::new(page)),
            format!(
                "contacts {{ number: 7 anew: true since: 9 upto: 6 contacts {{ {ONE} }} \
                 more: true }}"
            ),
            1,
        ),
    ] {
        assert_eq!(frames(&side.tell(now(), word)), [expected]);
        assert_eq!(side.take_words().len(), next);
    }
}

#[test]
fn a_page_of_contacts_ends_where_its_bytes_do_and_goes_on_behind_its_last() {
    let mut side = in_session();
    side.hear(now(), &client(&ClientFrame::Contacts(ContactsFields::default())).repeat(2));
    let page = |count: u64| {
        let contacts = (1..=count).map(|version| contact(version, 8 * 1024)).collect();
        ContactsPage { number: 7, is_anew: false, since: 9, contacts, upto: 900, more: false }
    };
    let sent = side.tell(now(), ChatDelivery::ContactsPage(Box::new(page(200))));
    assert!(sent.len() <= SERVER_BYTES_MAX && sent.len() > PAGE_BYTES_MAX - 8 * 1024);
    let said = frames(&sent).remove(0);
    let count = said.matches("contacts {").count() - 1;
    assert!((20..40).contains(&count), "{count}");
    let begins = format!("contacts {{ number: 7 since: 9 upto: {count} contacts {{");
    assert!(said.starts_with(&begins) && said.ends_with(" more: true }"));
    let sent = side.tell(now(), ChatDelivery::ContactsPage(Box::new(page(9))));
    let said = frames(&sent).remove(0);
    assert!(said.contains(" upto: 900 ") && !said.contains("more"));
    side.hear(now(), &client(&ClientFrame::Contacts(ContactsFields::default())));
    let mut out = Out::new(HashKey::new(1, 2), [0; 32]);
    out.set_backlog(101, 100);
    let word = Delivery::Chat(ChatDelivery::ContactsPage(Box::new(page(1))));
    assert_eq!(side.machine.command(now(), word, &mut out), Ok(()));
    assert_eq!(frames(out.bytes()), ["failed { number: 7 fault: FAULT_BUSY word: \"busy\" }"]);
}
