//! Blocks of another server's domain, on one to four shards: nothing passes to or from its
//! accounts, whatever their home here, until the domain is unblocked.

mod house;
#[path = "house/town.rs"]
mod town;

use chat::Settings;
use house::plain;
use model::account::{AccountAddress, Addressee};
use model::chat::foreign::*;
use model::chat::*;
use model::id::ShardId;
use model::limits::{ChatLimits, Limits};
use model::ports::chat::{ChatAnswer, ChatCommand};
use model::ports::log::StoreError;
use model::service::Service;
use std::sync::Arc;
use town::{Device, Town};

const DOMAIN: &str = "@b.example";

/// An account, by its bare name if it is local, or a domain.
fn address(text: &str) -> AccountAddress {
    let text = if text.contains('@') { text.into() } else { format!("{text}@a.example") };
    AccountAddress::of_contact(&text).expect("right")
}

/// Settings with which an account that is not in use is forgotten at once.
fn settings(shard: u16, shards: u16) -> Settings {
    let chat = ChatLimits { contacts_known_max: 1, ..ChatLimits::default() };
    let limits = Arc::new(Limits { chat, ..Limits::default() });
    let domains = ForeignDomains {
        own: "a.example".into(),
        components: ["irc.a.example".into()].into(),
        federates: true,
        ..ForeignDomains::default()
    };
    Settings { limits, foreign: Arc::new(domains), ..plain::settings(ShardId(shard), shards) }
}

/// Deliveries to devices, and words to other servers.
type Passed = (Vec<ChatDelivery>, Vec<ForeignWord>);

impl Town {
    fn new(shards: u16) -> Town {
        Town::of(shards, settings)
    }

    fn device(&mut self, name: &str) -> Device {
        let device = self.device_of(address(name), "desk");
        self.goes_out();
        device
    }

    fn goes_out(&mut self) -> Vec<ForeignWord> {
        self.0.iter_mut().flat_map(|house| std::mem::take(&mut house.fx.foreign)).collect()
    }

    fn wishes(&mut self, device: Device, contact: &str, order: ContactOrder) -> Passed {
        let contact = Addressee::from(address(contact));
        let told = self.people(device, PeopleAsk::Wish(Box::new(ContactWish { contact, order })));
        (told.into_iter().map(|(_, it)| it).collect(), self.goes_out())
    }

    fn says(&mut self, device: Device, to: &str) -> Vec<ChatDelivery> {
        let message = Box::new(message(to, 1));
        let request = ChatRequest::Send { session: device.session, number: 1, message };
        self.ask(device, request).into_iter().map(|(_, it)| it).collect()
    }

    /// An arrival from another server; its answer has the number of the command.
    fn comes(&mut self, ask: u64, home: &str, what: ArrivalWhat) {
        let arrival = Box::new(ForeignArrival { home: address(home), what });
        let command = ChatCommand::Foreign(arrival);
        let shard = self.home(&command.account().expect("about one"));
        let house = &mut self.0[shard];
        Service::command(&mut house.chat, house.now, ask, command, &mut house.fx);
    }

    /// An arrival, and all that follows: its one answer, and the deliveries to devices.
    fn hears(&mut self, home: &str, what: ArrivalWhat) -> (ChatAnswer, Vec<ChatDelivery>) {
        self.comes(7, home, what);
        let (mut answers, told) = self.settles();
        let (Some((7, answer)), true) = (answers.pop(), answers.is_empty()) else { panic!("one") };
        (answer, told)
    }

    /// Lets everything come to rest: answers to commands, and deliveries to devices.
    fn settles(&mut self) -> (Vec<(u64, ChatAnswer)>, Vec<ChatDelivery>) {
        let told = self.0.iter_mut().flat_map(|house| house.rest()).collect();
        let told = self.rest(told);
        let answers = self.0.iter_mut().flat_map(|house| std::mem::take(&mut house.fx.answers));
        (answers.collect(), told.into_iter().map(|(_, it)| it).collect())
    }

    /// Ends a device's session, and drops its account from memory.
    fn forgets(&mut self, device: Device) {
        let (session, reason) = (device.session, model::close::CloseReason::PeerClosed);
        self.ask(device, ChatRequest::Closed { session, reason });
        let mut others = (0..).map(|n| address(&format!("other{n}")));
        let neighbour = others.find(|it| self.home(it) == device.shard).expect("one");
        self.device_of(neighbour, "desk");
    }
}

fn message(to: &str, n: u8) -> NewMessage {
    let (to, client_id) = (address(to).into(), ClientMessageId([n; 16]));
    NewMessage { to, client_id, content: Content::text(&format!("hello {n}")) }
}

fn said(n: u8) -> ArrivalWhat {
    ArrivalWhat::Send { device: "phone".into(), message: Box::new(message("ann", n)) }
}

fn wish(verb: SubscriptionVerb) -> ArrivalWhat {
    let (contact, order) = (address("ann").into(), ContactOrder::Say(verb, "hi".into()));
    ArrivalWhat::Wish(Box::new(ContactWish { contact, order }))
}

fn stanza(from: &str) -> ArrivalWhat {
    let (from, device) = (Some(address(from)), Some("desk".into()));
    ArrivalWhat::Stanza { from, device, xml: b"<iq/>"[..].into() }
}

fn say(verb: SubscriptionVerb) -> ContactOrder {
    ContactOrder::Say(verb, Box::default())
}

/// The answer to a message for an account that does not exist.
fn nobody() -> ChatAnswer {
    let why = ChatFault::UnknownAccount;
    ChatAnswer::Told(Some(Box::new(ChatDelivery::Failed { number: 0, why })))
}

fn is_sent(answer: &ChatAnswer) -> bool {
    matches!(answer, ChatAnswer::Told(Some(it)) if matches!(**it, ChatDelivery::Sent { .. }))
}

fn is_message(told: &ChatDelivery) -> bool {
    matches!(told, ChatDelivery::Message { .. })
}

fn is_wish(told: &ChatDelivery) -> bool {
    matches!(told, ChatDelivery::Contact(it) if it.said == Some(SubscriptionVerb::Subscribe))
}

const BOB: &str = "bob@b.example";

#[test]
fn nothing_of_anybody_of_a_blocked_domain_is_heard_until_it_is_blocked_no_longer() {
    for shards in 1..=4 {
        let mut town = Town::new(shards);
        let (ann, carol) = (town.device("ann"), town.device("carol"));
        let (told, out) = town.wishes(ann, DOMAIN, ContactOrder::Block);
        let is_shown = |it: &ChatDelivery| match it {
            ChatDelivery::Contact(it) => it.contact.is_blocked && it.is_block_news,
            _ => false,
        };
        assert!(told.iter().any(is_shown) && told.contains(&ChatDelivery::Done { number: 9 }));
        assert_eq!(out, [], "and nobody else is told");
        for from in [BOB, "eve@b.example", "x@b.example"] {
            assert_eq!(town.hears(from, said(1)), (nobody(), vec![]), "{from}");
            let (_, told) = town.hears(from, wish(SubscriptionVerb::Subscribe));
            assert_eq!((told, town.goes_out()), (vec![], vec![]), "{from}");
        }
        for from in [BOB, "1@b.example", DOMAIN] {
            let (answer, told) = town.hears("ann", stanza(from));
            assert_eq!((answer, told), (ChatAnswer::Reached(false), vec![]), "{from}");
        }
        let ask = || Box::new(NodesAsk::LastThere);
        let asks = || ArrivalWhat::Nodes { of: address("ann"), ask: ask() };
        assert_eq!(town.hears(BOB, asks()).0, not_told(NodesFault::UnknownAccount));
        // Other accounts still get her messages and she theirs, and those of senders outside the
        // domain.
        let (answer, told) = town.hears("bob@c.example", said(1));
        assert!(is_sent(&answer) && told.iter().any(is_message), "{answer:?}");
        let (_, told) = town.hears("ann", stanza("1@conference.b.example"));
        assert_eq!(told.len(), 1);
        let to_carol =
            |n| ArrivalWhat::Send { device: "".into(), message: Box::new(message("carol", n)) };
        let (answer, told) = town.hears(BOB, to_carol(2));
        assert!(is_sent(&answer) && told.iter().any(is_message), "{shards}");
        assert!(town.says(carol, BOB).iter().any(|it| matches!(it, ChatDelivery::Sent { .. })));
        town.goes_out();
        town.wishes(ann, DOMAIN, ContactOrder::Unblock);
        let (answer, told) = town.hears(BOB, said(1));
        assert!(is_sent(&answer) && told.iter().any(is_message), "{shards}");
        let (_, told) = town.hears(BOB, wish(SubscriptionVerb::Subscribe));
        assert!(told.iter().any(is_wish), "{shards}");
        assert_eq!(town.hears("ann", stanza(DOMAIN)).1.len(), 1);
        assert_eq!(town.hears(BOB, asks()).0, not_told(NodesFault::NotSubscribed));
    }
}

/// The answer to a query for her last activity by an account that may not know it.
fn not_told(why: NodesFault) -> ChatAnswer {
    let answer = NodesAnswer { number: 0, result: Err(why) };
    ChatAnswer::Told(Some(Box::new(ChatDelivery::Nodes(Box::new(answer)))))
}

#[test]
fn nothing_is_said_to_anybody_of_a_blocked_domain() {
    for shards in 1..=4 {
        let mut town = Town::new(shards);
        let ann = town.device("ann");
        let hands = |town: &mut Town, to: &str| {
            let stanza = ForeignStanza { domain: "b.example".into(), xml: b"<iq/>"[..].into() };
            let (to, refusal) = (Some(address(to)), Some(b"<no/>"[..].into()));
            let directed = Some(("r@b.example/ann".into(), true));
            let on = HandingOn { session: ann.session, to, stanza, directed, refusal };
            (town.ask(ann, ChatRequest::HandOn(Box::new(on))), town.goes_out())
        };
        assert_eq!(hands(&mut town, DOMAIN).1.len(), 1);
        // Receivers of her directed presence learn that she is gone.
        let (_, out) = town.wishes(ann, DOMAIN, ContactOrder::Block);
        assert!(
            matches!(&out[..], [ForeignWord::Gone { to, .. }] if &**to == "r@b.example/ann"),
            "{out:?}"
        );
        let why = ChatFault::Blocked;
        for to in [BOB, "eve@b.example"] {
            assert_eq!(town.says(ann, to), [ChatDelivery::Failed { number: 1, why }], "{to}");
            let order = say(SubscriptionVerb::Subscribe);
            let failed = ChatDelivery::Failed { number: 9, why };
            assert_eq!(town.wishes(ann, to, order), (vec![failed], vec![]), "{to}");
        }
        for to in [BOB, "1@b.example", DOMAIN] {
            let refused = ChatDelivery::Stanza(b"<no/>"[..].into());
            assert_eq!(hands(&mut town, to), (vec![(ann.conn, refused)], vec![]), "{to}");
        }
        town.wishes(ann, DOMAIN, ContactOrder::Unblock);
        assert!(town.says(ann, BOB).iter().any(|it| matches!(it, ChatDelivery::Sent { .. })));
        town.goes_out();
        assert_eq!(hands(&mut town, DOMAIN).1.len(), 1);
    }
}

/// Ann and these accounts of other servers, who see each other's presence.
fn friends(shards: u16, others: &[&str]) -> (Town, Device) {
    use SubscriptionVerb::{Subscribe, Subscribed};
    let mut town = Town::new(shards);
    let ann = town.device("ann");
    for other in others {
        town.wishes(ann, other, say(Subscribe));
        town.hears(other, wish(Subscribed));
        town.hears(other, wish(Subscribe));
        town.wishes(ann, other, say(Subscribed));
    }
    (town, ann)
}

/// An available presence from another server.
fn shows(from: &str) -> ArrivalWhat {
    let (from, availability) = (address(from), Some(Box::default()));
    ArrivalWhat::Presence { from, device: Some("phone".into()), availability }
}

/// Accounts that a device was told are gone.
fn gone(told: &[ChatDelivery]) -> Vec<String> {
    let gone = told.iter().filter_map(|it| match it {
        ChatDelivery::Presence(it) if it.availability.is_none() => Some(it.from.to_string()),
        _ => None,
    });
    gone.collect()
}

/// Accounts on other servers that are told that Ann is gone or available, and those that are
/// probed.
fn told(out: &[ForeignWord]) -> Vec<String> {
    let told = out.iter().map(|word| match word {
        ForeignWord::Presence { to, availability: None, .. } => format!("gone: {to}"),
        ForeignWord::Presence { to, .. } => format!("there: {to}"),
        ForeignWord::Probe { to, .. } => format!("asked: {to}"),
        other => panic!("{other:?}"),
    });
    let mut told: Vec<_> = told.collect();
    told.sort();
    told
}

#[test]
fn whoever_sees_whom_is_told_that_it_is_gone_and_how_it_is_when_it_may_know_again() {
    for shards in 1..=4 {
        let eve = "eve@b.example";
        let (mut town, ann) = friends(shards, &[BOB, eve, DOMAIN, "bob@c.example"]);
        assert_eq!(town.hears("ann", shows(BOB)).1.len(), 1);
        town.wishes(ann, eve, ContactOrder::Block);
        let (told_here, out) = town.wishes(ann, DOMAIN, ContactOrder::Block);
        let mut hidden = gone(&told_here);
        hidden.sort();
        assert_eq!(hidden, [DOMAIN, BOB], "she was told of eve before");
        assert_eq!(told(&out), [format!("gone: {DOMAIN}"), format!("gone: {BOB}")]);
        for from in [BOB, DOMAIN] {
            let (_, shown) = town.hears("ann", shows(from));
            let (_, probed) = town.hears("ann", ArrivalWhat::Probe { from: address(from) });
            assert_eq!((shown, probed, town.goes_out()), (vec![], vec![], vec![]), "{from}");
        }
        let away = Availability { show: Show::Away, ..Availability::default() };
        town.people(ann, PeopleAsk::Present(Some(Box::new(away))));
        assert_eq!(told(&town.goes_out()), ["there: bob@c.example"]);
        let (_, out) = town.wishes(ann, eve, ContactOrder::Unblock);
        assert_eq!(told(&out), [""; 0], "all of the domain are blocked");
        let (_, out) = town.wishes(ann, DOMAIN, ContactOrder::Unblock);
        let expected = ["asked", "there"].map(|word| [DOMAIN, BOB, eve].map(|who| (word, who)));
        let expected = expected.concat().into_iter().map(|(word, who)| format!("{word}: {who}"));
        assert_eq!(told(&out), expected.collect::<Vec<_>>(), "{shards}");
        assert_eq!(town.hears("ann", shows(BOB)).1.len(), 1);
    }
}

#[test]
fn an_account_of_another_server_that_is_blocked_is_told_that_one_is_gone() {
    for shards in 1..=4 {
        let (mut town, ann) = friends(shards, &[BOB]);
        let (_, out) = town.wishes(ann, BOB, ContactOrder::Block);
        assert_eq!(told(&out), [format!("gone: {BOB}")]);
        let (_, out) = town.wishes(ann, BOB, ContactOrder::Unblock);
        assert_eq!(told(&out), [format!("asked: {BOB}"), format!("there: {BOB}")]);
    }
}

#[test]
fn what_somebody_of_a_blocked_domain_takes_back_is_gone() {
    for shards in 1..=4 {
        let (mut town, ann) = friends(shards, &[BOB]);
        town.wishes(ann, DOMAIN, ContactOrder::Block);
        let (_, told) = town.hears(BOB, wish(SubscriptionVerb::Unsubscribe));
        let said = |it: &ChatDelivery| matches!(it, ChatDelivery::Contact(it) if it.said.is_some());
        assert!(!told.iter().any(said), "{told:?}");
        let (_, out) = town.wishes(ann, DOMAIN, ContactOrder::Unblock);
        assert_eq!(self::told(&out), [format!("asked: {BOB}")], "he sees her no more");
    }
}

#[test]
fn a_block_holds_for_who_is_not_here_and_is_read_again() {
    for shards in 1..=4 {
        let mut town = Town::new(shards);
        let ann = town.device("ann");
        town.wishes(ann, DOMAIN, ContactOrder::Block);
        town.forgets(ann);
        assert_eq!(town.hears(BOB, said(1)), (nobody(), vec![]), "{shards}");
        let (answer, _) = town.hears("bob@c.example", said(1));
        assert!(is_sent(&answer));
        let ann = town.device("ann");
        let listed = town.people(ann, PeopleAsk::Contacts { after: None });
        let [(_, ChatDelivery::Contacts(list))] = &listed[..] else { panic!("{listed:?}") };
        let blocked = list.contacts.iter().filter(|it| it.is_blocked);
        assert_eq!(blocked.map(|it| it.address.as_str()).collect::<Vec<_>>(), [DOMAIN]);
        town.wishes(ann, DOMAIN, ContactOrder::Unblock);
        assert!(is_sent(&town.hears(BOB, said(1)).0), "{shards}");
    }
}

#[test]
fn what_comes_while_her_rows_are_read_stays_in_its_order_and_comes_once() {
    for shards in 1..=4 {
        let mut town = Town::new(shards);
        let ann = town.device("ann");
        town.forgets(ann);
        for n in 1..=9 {
            town.comes(u64::from(n), BOB, said(n));
        }
        let (mut answers, _) = town.settles();
        answers.sort_by_key(|(ask, _)| *ask);
        assert_eq!(answers.iter().map(|it| it.0).collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
        assert!(answers.iter().all(|(_, answer)| is_sent(answer)), "{answers:?}");
        let ann = town.device("ann");
        let (session, number) = (ann.session, 3);
        let told = town.ask(ann, ChatRequest::Pull { session, number, after: 0, count: 99 });
        let [(_, ChatDelivery::Page(page))] = &told[..] else { panic!("{told:?}") };
        let texts: Vec<_> =
            page.messages.iter().map(|(_, it)| it.content.text.to_string()).collect();
        let expected: Vec<_> = (1..=9).map(|n| format!("hello {n}")).collect();
        assert_eq!(texts, expected, "{shards}");
    }
}

#[test]
fn what_cannot_be_looked_at_is_refused_once_and_not_done() {
    for shards in 1..=4 {
        let mut town = Town::new(shards);
        let ann = town.device("ann");
        town.wishes(ann, DOMAIN, ContactOrder::Block);
        town.forgets(ann);
        for (fails, refusal) in
            [(StoreError::Busy, ChatAnswer::Busy), (StoreError::Failed, ChatAnswer::StoreFailed)]
        {
            town.0[ann.shard].fails = Some(fails);
            assert_eq!(town.hears("bob@c.example", said(1)), (refusal, vec![]), "{shards}");
            town.0[ann.shard].fails = None;
        }
        assert!(is_sent(&town.hears("bob@c.example", said(1)).0));
        assert_eq!(town.hears(BOB, said(1)), (nobody(), vec![]));
    }
}

#[test]
fn a_word_that_is_lost_between_shards_is_answered_in_time() {
    let mut town = Town::new(4);
    town.device("ann");
    let shard = town.home(&address("ann"));
    let far = (0..).map(|n| format!("b{n}@b.example"));
    let bob = far.into_iter().find(|it| town.home(&address(it)) != shard).expect("one");
    town.comes(7, &bob, said(1));
    let house = &mut town.0[shard];
    house.rest();
    assert_eq!(std::mem::take(&mut house.fx.peer_messages).len(), 1);
    for _ in 0..4 {
        let most = u64::from(Limits::default().answer_ms_max) * 2;
        let mono = house.now.after(std::time::Duration::from_millis(most));
        house.now = base::time::Now::new(mono, house.now.wall_ms + most);
        house.rest();
    }
    assert_eq!(std::mem::take(&mut house.fx.answers), [(7, ChatAnswer::Busy)]);
}

#[test]
fn domains_of_ours_are_not_blocked_and_services_of_others_are() {
    let mut town = Town::new(1);
    let ann = town.device("ann");
    let failed = |why| vec![ChatDelivery::Failed { number: 9, why }];
    for ours in ["@a.example", "@conference.a.example", "@live.a.example"] {
        let (told, _) = town.wishes(ann, ours, ContactOrder::Block);
        assert_eq!(told, failed(ChatFault::Invalid), "{ours}");
        let (told, _) = town.wishes(ann, ours, ContactOrder::Unblock);
        assert_eq!(told, [ChatDelivery::Done { number: 9 }], "what it was once is undone");
    }
    for others in ["@conference.b.example", "@irc.a.example", "@c.example"] {
        let (told, _) = town.wishes(ann, others, ContactOrder::Block);
        assert!(told.contains(&ChatDelivery::Done { number: 9 }), "{others}: {told:?}");
    }
    let set = ContactOrder::Set { name: "x".into(), groups: Box::default() };
    let (told, _) = town.wishes(ann, "@conference.b.example", set);
    assert_eq!(told, failed(ChatFault::Invalid), "a service of rooms is no contact");
    let (_, shown) = town.hears("ann", stanza("1@conference.b.example"));
    assert_eq!(shown, []);
}
