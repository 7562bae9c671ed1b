//! A client and a server talk about people, over a link that splits and merges as the seed says;
//! behind the server is a service that knows one contact and does what it is told.

use model::account::{AccountAddress, AccountId, Addressee};
use model::chat::{ChatDelivery as Down, ChatRequest as Up, *};
use model::id::SessionRef;
use model::link::{Link, Protocol};
use proto_im::client::{Client, ImEvent, ImOrder, Profile};
use proto_im::server::{ImListener, Server};
use std::sync::Arc;
use testkit::pair::{Pair, PairSide};

const SEEDS: u64 = 20;

type Conversation = Pair<Client, Server>;

fn address(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

/// Service that notes the requests it gets.
#[derive(Default)]
struct Service {
    asked: Vec<PeopleAsk>,
}

impl Service {
    fn hear(&mut self, word: Up) -> Down {
        let asked = match word {
            Up::Login(_) => {
                return Down::LoggedIn(Box::new(LoggedIn {
                    session: SessionRef::from_bits(5),
                    account: AccountId(1),
                    address: address("ann"),
                    head: 0,
                    cursor: 0,
                    server_ms: 1,
                    data: None,
                }));
            }
            Up::People(asked) => asked,
            other => panic!("{other:?}"),
        };
        let PeopleRequest { number, ask, .. } = *asked;
        let answer = match &ask {
            PeopleAsk::Page(range) => Down::ContactsPage(Box::new(page(number, range))),
            PeopleAsk::Wish(wish) if wish.order == ContactOrder::Unblock => {
                Down::Failed { number, why: ChatFault::ContactsFull }
            }
            _ => Down::Done { number },
        };
        self.asked.push(ask);
        answer
    }
}

fn page(number: u32, range: &ContactsRange) -> ContactsPage {
    let contacts = (1..=range.count.into()).map(|n| Arc::new(contact(range.after + n))).collect();
    let upto = range.after + u64::from(range.count);
    let (is_anew, since) = (range.after == 0, range.since + 7);
    ContactsPage { number, is_anew, since, contacts, upto, more: range.count == 2 }
}

/// A contact in which each version says something else.
fn contact(version: u64) -> Contact {
    let halves = [Half::None, Half::Pending, Half::Subscribed];
    let half = |n: u64| halves[(n % 3) as usize];
    let (to, from) = (half(version), half(version / 3));
    let groups = (0..version % 3).map(|n| format!("group {n}").into_boxed_str());
    Contact {
        address: address("bob"),
        is_listed: version.is_multiple_of(2),
        name: format!("Bob {version}").into(),
        groups: groups.collect(),
        subscription: Subscription { to, from, approved: version.is_multiple_of(5) },
        greeting: "it is me".into(),
        is_blocked: version.is_multiple_of(7),
        version,
    }
}

/// Goes on until nobody has anything to say.
fn settle(pair: &mut Conversation, service: &mut Service) {
    loop {
        pair.settle();
        let words = pair.b.take_words_as::<Up>();
        if words.is_empty() {
            return;
        }
        for word in words {
            let answer = service.hear(word);
            pair.tell_b(answer);
        }
    }
}

fn logged_in(service: &mut Service, seed: u64) -> Conversation {
    let listener = Arc::new(ImListener { bind_ms_max: 10_000, domain: "a.example".into() });
    let link = || Link::loopback(Protocol::Im);
    let client = Client::new(Arc::new(Profile::new("ann", "phone")));
    let (a, b) = (PairSide::new(client, link()), PairSide::new(Server::new(listener), link()));
    let mut pair = Pair::new(a, b, seed);
    pair.open();
    settle(&mut pair, service);
    assert!(matches!(pair.a.take_words()[..], [ImEvent::LoggedIn(_)]));
    pair
}

#[test]
fn wishes_lists_and_presence_arrive_as_they_were_said() {
    use SubscriptionVerb::{Subscribe, Subscribed, Unsubscribe, Unsubscribed};
    for seed in 0..SEEDS {
        let mut service = Service::default();
        let mut pair = logged_in(&mut service, seed);
        let mut expected = Vec::new();
        let groups = ["work".into(), "chess".into()].into();
        let orders = [
            ContactOrder::Set { name: "Bob".into(), groups },
            ContactOrder::Remove,
            ContactOrder::Befriend("it is me".into()),
            ContactOrder::Say(Subscribe, "it is me".into()),
            ContactOrder::Say(Unsubscribe, "".into()),
            ContactOrder::Say(Subscribed, "".into()),
            ContactOrder::Say(Unsubscribed, "".into()),
            ContactOrder::Block,
            ContactOrder::Unblock,
        ];
        for (number, order) in (1..).zip(orders) {
            let contact = Addressee::parse("bob").expect("right");
            let wish = Box::new(ContactWish { contact, order });
            pair.tell_a(ImOrder::Contact { number, wish: wish.clone() });
            expected.push(PeopleAsk::Wish(wish));
        }
        let (show, status) = (Show::ExtendedAway, "in Rome".into());
        let how = Availability { show, status, ..Availability::default() };
        for (number, how) in [(10, Some(Box::new(how))), (11, None)] {
            pair.tell_a(ImOrder::Present { number, how: how.clone() });
            expected.push(PeopleAsk::Present(how));
        }
        let ranges = [(0, 0, 30), (30, 9, 2)];
        for (number, (after, since, count)) in (12..).zip(ranges) {
            let range = ContactsRange { after, since, count };
            pair.tell_a(ImOrder::Contacts { number, range });
            expected.push(PeopleAsk::Page(range));
        }
        settle(&mut pair, &mut service);
        assert_eq!(service.asked, expected);
        let mut told: Vec<ImEvent> = (1..12).map(|number| ImEvent::Done { number }).collect();
        let (why, word) = (Some(ChatFault::ContactsFull), "contacts_full".into());
        told[8] = ImEvent::Failed { number: 9, why, word };
        for (number, (after, since, count)) in (12..).zip(ranges) {
            let page = page(number, &ContactsRange { after, since, count });
            told.push(ImEvent::Contacts(Box::new(page)));
        }
        assert_eq!(pair.a.take_words(), told);
    }
}

#[test]
fn what_others_say_and_how_they_are_there_is_told() {
    for seed in 0..SEEDS {
        let mut service = Service::default();
        let mut pair = logged_in(&mut service, seed);
        let mut expected = Vec::new();
        let said = SubscriptionVerb::ALL.into_iter().map(Some).chain([None]);
        for (version, said) in (1..).zip(said) {
            let contact = Arc::new(contact(version));
            let change =
                Box::new(ContactChange { contact, said, is_news: true, is_block_news: false });
            pair.tell_b(Down::Contact(change.clone()));
            expected.push(ImEvent::Contact(change));
        }
        let how = |show| Arc::new(Availability { show, status: "x".into(), ..Default::default() });
        for (device, availability) in [
            (Some("desk"), Some(how(Show::Here))),
            (Some("desk"), Some(how(Show::DoNotDisturb))),
            (Some("desk"), None),
            (None, None),
        ] {
            let (from, device) = (address("bob"), device.map(Box::from));
            let presence = Box::new(Presence { from, device, availability });
            pair.tell_b(Down::Presence(presence.clone()));
            expected.push(ImEvent::Presence(presence));
        }
        settle(&mut pair, &mut service);
        assert_eq!(pair.a.take_words(), expected);
    }
}
