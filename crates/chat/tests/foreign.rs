//! Accounts of other domains: messages to and from them, and ties, which work as between local
//! accounts.

mod house;

use chat::Settings;
use house::{House, plain};
use model::account::{AccountAddress, Addressee};
use model::chat::foreign::*;
use model::chat::*;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::{ChatLimits, Limits};
use model::ports::chat::{ChatAnswer, ChatCommand};
use model::ports::events::{ChatEvent, ChatWhat};
use model::ports::log::StoreError;
use model::service::Service;
use std::sync::Arc;

type Device = (ConnRef, SessionRef);

fn address(text: &str) -> AccountAddress {
    AccountAddress::parse(text, "a.example").expect("right")
}

fn settings(federates: bool) -> Settings {
    let limits = ChatLimits { directed_a_session_max: 2, ..ChatLimits::default() };
    let limits = Arc::new(Limits { chat: limits, ..Limits::default() });
    let domains =
        ForeignDomains { own: "a.example".into(), federates, ..ForeignDomains::default() };
    Settings { limits, foreign: Arc::new(domains), ..plain::settings(ShardId(0), 1) }
}

impl House {
    fn new() -> House {
        House::of(settings(true))
    }

    /// A device of this account, which follows its contacts and is available.
    fn device(&mut self, name: &str, resource: &str) -> Device {
        let conn = self.conn(ShardId(0));
        let login = plain::login(address(name), "");
        let told = self.ask(conn, ChatRequest::Login(Box::new(login)));
        let [(_, ChatDelivery::LoggedIn(logged_in))] = &told[..] else { panic!("{told:?}") };
        let session = logged_in.session;
        self.ask(conn, ChatRequest::Bind { session, device: Some(resource.into()) });
        let device = (conn, session);
        self.people(device, PeopleAsk::Contacts { after: None });
        self.people(device, PeopleAsk::Present(Some(Box::default())));
        self.fx.foreign.clear();
        device
    }

    fn people(&mut self, (conn, session): Device, ask: PeopleAsk) -> Vec<ChatDelivery> {
        let asked = PeopleRequest { session, number: 9, ask };
        let told = self.ask(conn, ChatRequest::People(Box::new(asked)));
        told.into_iter().map(|(_, it)| it).collect()
    }

    fn wishes(&mut self, device: Device, contact: &str, order: ContactOrder) -> Vec<ChatDelivery> {
        let contact = Addressee::from(address(contact));
        self.people(device, PeopleAsk::Wish(Box::new(ContactWish { contact, order })))
    }

    fn say(&mut self, (conn, session): Device, to: &str) -> Vec<ChatDelivery> {
        let message = Box::new(message(to));
        let told = self.ask(conn, ChatRequest::Send { session, number: 1, message });
        told.into_iter().map(|(_, it)| it).collect()
    }

    /// An arrival from another server: its answer, and the deliveries to devices.
    fn comes(&mut self, home: &str, what: ArrivalWhat) -> (ChatAnswer, Vec<ChatDelivery>) {
        let arrival = Box::new(ForeignArrival { home: address(home), what });
        Service::command(&mut self.chat, self.now, 7, ChatCommand::Foreign(arrival), &mut self.fx);
        let told = self.rest().into_iter().map(|(_, it)| it).collect();
        let (7, answer) = self.fx.answers.pop().expect("an answer") else { panic!("its number") };
        assert!(self.fx.answers.is_empty(), "one");
        (answer, told)
    }

    fn says(&mut self, from: &str, verb: SubscriptionVerb) -> (ChatAnswer, Vec<ChatDelivery>) {
        let (contact, order) = (address("ann").into(), ContactOrder::Say(verb, "hi".into()));
        self.comes(from, ArrivalWhat::Wish(Box::new(ContactWish { contact, order })))
    }

    fn goes_out(&mut self) -> Vec<ForeignWord> {
        std::mem::take(&mut self.fx.foreign)
    }
}

fn message(to: &str) -> NewMessage {
    let client_id = ClientMessageId(*b"0123456789abcdef");
    NewMessage { to: address(to).into(), client_id, content: Content::text("hello") }
}

fn said() -> ArrivalWhat {
    ArrivalWhat::Send { device: "phone".into(), message: Box::new(message("ann")) }
}

fn verbs(words: &[ForeignWord]) -> Vec<SubscriptionVerb> {
    let verb = |word: &ForeignWord| match word {
        ForeignWord::Subscription { verb, .. } => Some(*verb),
        _ => None,
    };
    words.iter().filter_map(verb).collect()
}

const BOB: &str = "bob@b.example";

#[test]
fn what_is_said_to_a_foreign_account_is_stored_here_and_goes_out_once() {
    let mut house = House::new();
    let ann = house.device("ann", "desk");
    let told = house.say(ann, BOB);
    assert!(
        told.iter().any(|it| matches!(it, ChatDelivery::Sent { again: false, .. })),
        "{told:?}"
    );
    let words = house.goes_out();
    let [ForeignWord::Message(QueuedMessage { message, .. })] = &words[..] else {
        panic!("{words:?}")
    };
    assert_eq!((message.to.as_str(), &*message.device), (BOB, "desk"));
    let again = house.say(ann, BOB);
    assert!(again.iter().any(|it| matches!(it, ChatDelivery::Sent { again: true, .. })));
    assert_eq!(house.goes_out(), [], "once");
    let (conn, session) = ann;
    let range =
        HistoryRange { with: Addressee::from(address(BOB)), from: 0, backwards: false, count: 9 };
    let range = Box::new(range);
    let told = house.ask(conn, ChatRequest::History { session, number: 3, range });
    let [(_, ChatDelivery::History(page))] = &told[..] else { panic!("{told:?}") };
    assert_eq!(page.messages.len(), 1);
}

#[test]
fn what_a_foreign_account_says_is_in_the_inbox_of_whom_it_is_for_unless_that_has_blocked_it() {
    let mut house = House::new();
    let ann = house.device("ann", "desk");
    let (answer, told) = house.comes(BOB, said());
    assert!(
        matches!(&answer, ChatAnswer::Told(Some(it)) if matches!(**it, ChatDelivery::Sent { .. }))
    );
    let [ChatDelivery::Message { message, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!((message.from.as_str(), &*message.device), (BOB, "phone"));
    assert_eq!(house.goes_out(), [], "it is not told what it said itself");
    house.wishes(ann, BOB, ContactOrder::Block);
    let (answer, told) = house.comes(BOB, said());
    let ChatAnswer::Told(Some(failed)) = answer else { panic!("{answer:?}") };
    let why = ChatFault::UnknownAccount;
    assert_eq!((*failed, told), (ChatDelivery::Failed { number: 0, why }, vec![]));
    let xml: Arc<[u8]> = b"<message/>"[..].into();
    let from = Some(address(BOB));
    let stanza = ArrivalWhat::Stanza { from, device: Some("desk".into()), xml };
    assert_eq!(house.comes("ann", stanza), (ChatAnswer::Reached(false), vec![]));
}

#[test]
fn nobody_speaks_for_a_domain_that_is_ours() {
    let mut house = House::new();
    house.device("ann", "desk");
    house.device("bob", "desk");
    let (answer, told) = house.comes("bob@a.example", said());
    assert_eq!((answer, told), (ChatAnswer::Reached(false), vec![]));
    let mut alone = House::of(settings(false));
    let ann = alone.device("ann", "desk");
    let (answer, _) = alone.comes(BOB, said());
    assert_eq!(answer, ChatAnswer::Reached(false), "nobody is foreign");
    alone.say(ann, BOB);
    assert_eq!(alone.goes_out(), []);
}

#[test]
fn a_foreign_account_and_one_of_ours_see_each_other_as_any_two_do() {
    use SubscriptionVerb::*;
    let mut house = House::new();
    let ann = house.device("ann", "desk");
    house.wishes(ann, BOB, ContactOrder::Say(Subscribe, "it is me".into()));
    let words = house.goes_out();
    let [ForeignWord::Subscription { verb: Subscribe, greeting, .. }] = &words[..] else {
        panic!("{words:?}")
    };
    assert_eq!(&**greeting, "it is me");
    let from = address(BOB);
    let here = |availability| ArrivalWhat::Presence {
        from: from.clone(),
        device: Some("phone".into()),
        availability,
    };
    let (answer, told) = house.comes("ann", here(Some(Box::default())));
    assert_eq!((answer, told), (ChatAnswer::Reached(false), vec![]), "she does not see him yet");
    let (_, told) = house.says(BOB, Subscribed);
    assert!(
        told.iter()
            .any(|it| matches!(it, ChatDelivery::Contact(it) if it.said == Some(Subscribed)))
    );
    let is_probe = |it: &ForeignWord| matches!(it, ForeignWord::Probe { .. });
    assert!(house.goes_out().iter().any(is_probe), "he is asked how he is there");
    let (answer, told) = house.comes("ann", here(Some(Box::default())));
    assert_eq!(answer, ChatAnswer::Reached(true));
    assert!(matches!(&told[..], [ChatDelivery::Presence(it)] if it.availability.is_some()));
    // He requests to see her, too.
    let (_, told) = house.says(BOB, Subscribe);
    assert!(
        told.iter().any(|it| matches!(it, ChatDelivery::Contact(it) if it.said == Some(Subscribe)))
    );
    let (_, _) = house.comes("ann", ArrivalWhat::Probe { from: from.clone() });
    assert_eq!(house.goes_out(), [], "he does not see her yet");
    house.wishes(ann, BOB, ContactOrder::Say(Subscribed, "".into()));
    let words = house.goes_out();
    assert_eq!(verbs(&words), [Subscribed]);
    let is_there =
        |it: &ForeignWord| matches!(it, ForeignWord::Presence { availability: Some(_), .. });
    assert_eq!(words.iter().position(is_there), Some(1), "behind the answer: {words:?}");
    house.comes("ann", ArrivalWhat::Probe { from });
    assert!(house.goes_out().iter().all(is_there));
    house.people(ann, PeopleAsk::Present(None));
    let words = house.goes_out();
    assert!(matches!(&words[..], [ForeignWord::Presence { availability: None, .. }]), "{words:?}");
    // His server has lost his subscription, and requests it again.
    house.says(BOB, Subscribe);
    assert_eq!(verbs(&house.goes_out()), [Subscribed]);
    house.wishes(ann, BOB, ContactOrder::Remove);
    assert_eq!(verbs(&house.goes_out()), [Unsubscribe, Unsubscribed]);
}

#[test]
fn a_domain_itself_is_a_contact_as_an_account_is() {
    let mut house = House::new();
    let ann = house.device("ann", "desk");
    let gateway = AccountAddress::of_domain("irc.example").expect("right");
    let wishes = |house: &mut House, order| {
        let contact = Addressee::from(gateway.clone());
        house.people(ann, PeopleAsk::Wish(Box::new(ContactWish { contact, order })))
    };
    let comes = |house: &mut House, what| {
        let home = match &what {
            ArrivalWhat::Wish(_) => gateway.clone(),
            _ => address("ann"),
        };
        let command = ChatCommand::Foreign(Box::new(ForeignArrival { home, what }));
        Service::command(&mut house.chat, house.now, 7, command, &mut house.fx);
        let told: Vec<_> = house.rest().into_iter().map(|(_, it)| it).collect();
        house.fx.answers.clear();
        told
    };
    let say = |verb| ContactOrder::Say(verb, Box::default());
    let says = |verb| {
        let contact = address("ann").into();
        ArrivalWhat::Wish(Box::new(ContactWish { contact, order: say(verb) }))
    };
    wishes(&mut house, ContactOrder::Set { name: "IRC".into(), groups: Box::default() });
    wishes(&mut house, say(SubscriptionVerb::Subscribe));
    let out = house.goes_out();
    let is_to = |word: &ForeignWord| match word {
        ForeignWord::Subscription { to, verb, .. } => {
            *to == gateway && *verb == SubscriptionVerb::Subscribe
        }
        _ => false,
    };
    assert!(out.iter().any(is_to) && out[0].domain() == "irc.example", "{out:?}");
    comes(&mut house, says(SubscriptionVerb::Subscribed));
    comes(&mut house, says(SubscriptionVerb::Subscribe));
    wishes(&mut house, say(SubscriptionVerb::Subscribed));
    let listed = |house: &mut House| {
        let told = house.people(ann, PeopleAsk::Contacts { after: None });
        let [ChatDelivery::Contacts(list)] = &told[..] else { panic!("{told:?}") };
        let of = |it: &Arc<Contact>| (it.address.to_string(), it.subscription.word());
        list.contacts.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(listed(&mut house), [("@irc.example".to_owned(), "both")]);
    let here = ArrivalWhat::Presence {
        from: gateway.clone(),
        device: Some(Box::default()),
        availability: Some(Box::default()),
    };
    let told = comes(&mut house, here);
    let [ChatDelivery::Presence(presence)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((&presence.from, presence.device.as_deref()), (&gateway, Some("")));
    house.goes_out();
    house.people(ann, PeopleAsk::Present(None));
    let gone =
        |word: &ForeignWord| matches!(word, ForeignWord::Presence { to, .. } if *to == gateway);
    assert!(house.goes_out().iter().any(gone), "it is told that nobody is there");
}

#[test]
fn who_was_told_elsewhere_that_a_device_is_there_is_told_that_it_is_gone() {
    let mut house = House::new();
    let (conn, session) = house.device("ann", "desk");
    let goes = |house: &mut House, to: &str, is_there: bool| {
        let stanza = ForeignStanza { domain: "c.example".into(), xml: b"<presence/>"[..].into() };
        let directed = Some((to.into(), is_there));
        let on = HandingOn { session, to: None, stanza, directed, refusal: None };
        house.ask(conn, ChatRequest::HandOn(Box::new(on)));
        house.goes_out()
    };
    let is_gone = |words: &[ForeignWord]| -> Vec<String> {
        let gone = words.iter().filter_map(|word| match word {
            ForeignWord::Gone { to, device, .. } if &**device == "desk" => Some(to.to_string()),
            _ => None,
        });
        gone.collect()
    };
    assert_eq!(is_gone(&goes(&mut house, "r@c.example/1", true)), [""; 0]);
    goes(&mut house, "r@c.example/2", true);
    goes(&mut house, "r@c.example/1", false);
    goes(&mut house, "r@c.example/3", true);
    let words = goes(&mut house, "r@c.example/4", true);
    assert_eq!(is_gone(&words), ["r@c.example/2"], "there were too many");
    let reason = model::close::CloseReason::PeerClosed;
    house.ask(conn, ChatRequest::Closed { session, reason });
    assert_eq!(is_gone(&house.goes_out()), ["r@c.example/3", "r@c.example/4"]);
}

#[test]
fn nothing_is_handed_on_to_whom_one_has_blocked() {
    let mut house = House::new();
    let (conn, session) = house.device("ann", "desk");
    let hands = |house: &mut House, to: &str| {
        let stanza = ForeignStanza { domain: "b.example".into(), xml: b"<iq/>"[..].into() };
        let refusal = Some(b"<no/>"[..].into());
        let to = Some(address(to));
        let on = HandingOn { session, to, stanza, directed: None, refusal };
        let told = house.ask(conn, ChatRequest::HandOn(Box::new(on)));
        (told, house.goes_out().len())
    };
    house.wishes((conn, session), BOB, ContactOrder::Block);
    house.goes_out();
    let refused = ChatDelivery::Stanza(b"<no/>"[..].into());
    assert_eq!(hands(&mut house, BOB), (vec![(conn, refused)], 0));
    assert_eq!(hands(&mut house, "eve@b.example"), (vec![], 1));
}

#[test]
fn stanzas_reach_the_device_that_they_are_for_and_no_group_has_a_foreign_member() {
    let mut house = House::new();
    let (conn, session) = house.device("ann", "desk");
    let xml: Arc<[u8]> = b"<iq/>"[..].into();
    let stanza = |device: Option<&str>| ArrivalWhat::Stanza {
        from: None,
        device: device.map(Box::from),
        xml: xml.clone(),
    };
    for device in [Some("desk"), None] {
        let (answer, told) = house.comes("ann", stanza(device));
        assert_eq!(answer, ChatAnswer::Reached(true));
        assert_eq!(told, [ChatDelivery::Stanza(xml.clone())]);
    }
    for (account, device) in [("ann", "phone"), ("eve", "desk")] {
        let (answer, told) = house.comes(account, stanza(Some(device)));
        assert_eq!((answer, told), (ChatAnswer::Reached(false), vec![]));
    }
    let members = vec![Addressee::from(address(BOB))];
    let order = Box::new(GroupOrder {
        group: None,
        verb: GroupVerb::Create,
        client_id: ClientMessageId([3; 16]),
        title: "team".into(),
        members,
    });
    let told = house.ask(conn, ChatRequest::Group { session, number: 5, order });
    let failed = ChatDelivery::Failed { number: 5, why: ChatFault::UnknownAccount };
    assert_eq!(told, [(conn, failed)]);
}

#[test]
fn a_foreign_domain_stores_so_many_bytes_a_second_under_however_many_names() {
    let plain = settings(true);
    let chat = ChatLimits {
        bytes_a_domain_per_s: 64 << 10,
        bytes_a_domain_burst: 128 << 10,
        ..plain.limits.chat.clone()
    };
    let limits = Arc::new(Limits { chat, ..Limits::default() });
    let mut house = House::of(Settings { limits, ..plain });
    house.device("ann", "desk");
    let mut says = |name: &str| {
        let content = Content::text(&"x".repeat(60 << 10));
        let message = Box::new(NewMessage { content, ..message("ann") });
        let what = ArrivalWhat::Send { device: "phone".into(), message };
        match house.comes(name, what).0 {
            ChatAnswer::Told(Some(told)) => match *told {
                ChatDelivery::Sent { .. } => None,
                ChatDelivery::Rejected(it) => Some(it.why),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(says("made-up-1@b.example"), None);
    assert_eq!(says("made-up-2@b.example"), None);
    assert_eq!(says("made-up-3@b.example"), Some(ChatFault::RateLimited));
    assert_eq!(says("made-up-1@c.example"), None, "another domain pays nothing for it");
}

#[test]
fn a_foreign_domain_takes_no_more_than_its_share_of_the_log_under_however_many_names() {
    let plain = settings(true);
    let chat = ChatLimits {
        share_a_domain_percent: 10,
        share_an_account_percent: 50,
        bytes_a_domain_per_s: 0,
        ..plain.limits.chat.clone()
    };
    let limits = Arc::new(Limits { chat, ..Limits::default() });
    let mut house = House::of(Settings { limits, log_bytes: 1 << 20, ..plain });
    house.device("ann", "desk");
    let mut says = |name: &str| {
        let content = Content::text(&"x".repeat(50 << 10));
        let message = Box::new(NewMessage { content, ..message("ann") });
        let what = ArrivalWhat::Send { device: "phone".into(), message };
        match house.comes(name, what).0 {
            ChatAnswer::Told(Some(told)) => match *told {
                ChatDelivery::Sent { .. } => None,
                other => panic!("{other:?}"),
            },
            ChatAnswer::StoreFailed => Some(ChatFault::StoreFull),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((says("made-up-1@b.example"), says("made-up-2@b.example")), (None, None));
    assert_eq!(says("made-up-3@b.example"), Some(ChatFault::StoreFull));
    assert_eq!(says("made-up-1@c.example"), None, "another domain has its own");
}

#[test]
fn an_account_of_another_domain_is_reported_with_what_it_said() {
    let mut house = House::new();
    let ann = house.device("ann", "desk");
    house.fx.events_wanted = true;
    house.comes(BOB, said());
    let (conn, session) = ann;
    let range = Box::new(ArchiveRange::whole(false, 9));
    let told = house.ask(conn, ChatRequest::Archive { session, number: 8, range });
    let Some((_, ChatDelivery::Archive(page))) = told.into_iter().next_back() else {
        panic!("its archive")
    };
    let named = page.messages.iter().map(|it| ArchiveId::of(it)).collect();
    let (of, text) = (Addressee::from(address(BOB)), "".into());
    let (reason, consent) = (AbuseReason::Abuse, ForwardConsent::default());
    let report = Box::new(AbuseReport { of, reason, text, named, unread: 0, consent });
    for (fails, texts, unreadable) in
        [(None, &["hello"][..], 0), (Some(StoreError::Failed), &[], 1)]
    {
        house.fx.events.clear();
        house.fails = fails;
        let told = house.people(ann, PeopleAsk::Report(report.clone()));
        assert_eq!(told, [ChatDelivery::Done { number: 9 }]);
        let events = std::mem::take(&mut house.fx.events);
        let [ChatEvent { what: ChatWhat::AbuseReported(it), .. }] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!((it.reported.as_str(), it.left_out, it.unreadable), (BOB, 0, unreadable));
        assert_eq!(it.messages.iter().map(|it| &*it.content.text).collect::<Vec<_>>(), texts);
    }
}
