//! Rosters, subscriptions and presence: what is asked of the service, and what is said of its
//! answers.

use super::harness::*;
use model::chat::*;
use std::sync::Arc;

const BOB: &str = "bob@a.example";

/// Requests about people, with their numbers.
pub(crate) fn asked(side: &mut Side) -> Vec<(u32, PeopleAsk)> {
    let of = |word| match word {
        ChatRequest::People(asked) => Some((asked.number, asked.ask)),
        _ => None,
    };
    side.take_words_as::<ChatRequest>().into_iter().filter_map(of).collect()
}

pub(crate) fn wish(side: &mut Side) -> (u32, ContactOrder) {
    match asked(side).pop().expect("asked") {
        (number, PeopleAsk::Wish(wish)) => {
            assert_eq!(wish.contact.as_str(), BOB);
            (number, wish.order)
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn bob(change: impl FnOnce(&mut Contact)) -> Arc<Contact> {
    let mut contact = Contact { is_listed: true, version: 9, ..Contact::nobody(address("bob")) };
    change(&mut contact);
    Arc::new(contact)
}

pub(crate) fn list(number: u32, is_whole: bool, contacts: Vec<Arc<Contact>>) -> ChatDelivery {
    ChatDelivery::Contacts(Box::new(ContactList { number, is_whole, version: 9, contacts }))
}

pub(crate) fn changed(
    contact: Arc<Contact>,
    said: Option<SubscriptionVerb>,
    is_news: bool,
) -> ChatDelivery {
    let is_block_news = !is_news && said.is_none();
    ChatDelivery::Contact(Box::new(ContactChange { contact, said, is_news, is_block_news }))
}

/// A device that has asked for its roster.
fn following() -> Side {
    let mut side = available();
    says(&mut side, "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    let (number, _) = asked(&mut side).pop().expect("asked");
    told(&mut side, list(number, true, Vec::new()));
    side
}

#[test]
fn a_roster_is_what_the_service_has_and_by_versions_what_changed() {
    let mut side = available();
    let get = "<iq type='get' id='r'><query xmlns='jabber:iq:roster'VER/></iq>";
    assert_eq!(says(&mut side, &get.replace("VER", " ver=''")), "");
    let (number, ask) = asked(&mut side).pop().expect("asked");
    assert_eq!(ask, PeopleAsk::Contacts { after: None });
    let both = Subscription { to: Half::Pending, from: Half::Subscribed, approved: true };
    let listed = bob(|it| {
        (it.name, it.groups) = ("B & co".into(), ["x".into()].into());
        it.subscription = both;
    });
    let asks = bob(|it| it.is_listed = false);
    let whole = told(&mut side, list(number, true, vec![listed.clone(), asks.clone()]));
    assert_eq!(
        whole,
        "<iq type='result' id='r' to='ann@a.example/desk'><query xmlns='jabber:iq:roster' ver='9'>\
         <item jid='bob@a.example' subscription='from' name='B &amp; co' ask='subscribe' \
         approved='true'><group>x</group></item></query></iq>"
    );
    says(&mut side, &get.replace("VER", " ver='7'"));
    let (number, ask) = asked(&mut side).pop().expect("asked");
    assert_eq!(ask, PeopleAsk::Contacts { after: Some(7) });
    let part = told(&mut side, list(number, false, vec![asks]));
    assert!(part.starts_with("<iq type='result' id='r' to='ann@a.example/desk'></iq><iq"));
    assert!(part.contains("ver='9'><item jid='bob@a.example' subscription='remove'/>"), "{part}");
}

#[test]
fn an_item_is_set_and_removed_and_what_is_none_is_refused() {
    let mut side = following();
    let set = |inner: &str| {
        format!("<iq type='set' id='s'><query xmlns='jabber:iq:roster'>{inner}</query></iq>")
    };
    let item = "<item jid='bob@a.example' name='B'><group>y</group><group>x</group></item>";
    assert_eq!(says(&mut side, &set(item)), "");
    let (number, order) = wish(&mut side);
    let groups = ["y".into(), "x".into()].into();
    assert_eq!(order, ContactOrder::Set { name: "B".into(), groups });
    let done = told(&mut side, ChatDelivery::Done { number });
    assert_eq!(done, "<iq type='result' id='s' to='ann@a.example/desk'></iq>");
    says(&mut side, &set("<item jid='bob@a.example' subscription='remove'/>"));
    let (number, order) = wish(&mut side);
    assert_eq!(order, ContactOrder::Remove);
    let why = ChatFault::Busy;
    assert!(told(&mut side, ChatDelivery::Failed { number, why }).contains("resource-constraint"));
    for (inner, condition) in [
        ("", "bad-request"),
        ("<item name='x'/>", "bad-request"),
        ("<item jid='bob@a.example'/><item jid='eve@a.example'/>", "bad-request"),
        ("<item jid='bob@a.example'><group>x</group><group>x</group></item>", "bad-request"),
        ("<item jid='bob@a.example'><group/></item>", "not-acceptable"),
        ("<item jid='b b@a.example'/>", "jid-malformed"),
        ("<item jid='a.example'/>", "item-not-found"),
        ("<item jid='ann@a.example'/>", "not-allowed"),
    ] {
        let said = says(&mut side, &set(inner));
        assert!(said.contains(condition), "{inner}: {said}");
        assert!(asked(&mut side).is_empty());
    }
}

#[test]
fn subscriptions_are_said_and_told_and_items_pushed_to_whoever_asked() {
    let mut side = following();
    for verb in SubscriptionVerb::ALL {
        let word = verb.word();
        let said = format!(
            "<presence type='{word}' to='bob@a.example/x' id='p'><status>hi</status></presence>"
        );
        assert_eq!(says(&mut side, &said), "");
        let (number, order) = wish(&mut side);
        assert_eq!(order, ContactOrder::Say(verb, "hi".into()));
        assert_eq!(told(&mut side, ChatDelivery::Done { number }), "");
    }
    let asks = bob(|it| (it.is_listed, it.greeting) = (false, "it's me".into()));
    let said = told(&mut side, changed(asks, Some(SubscriptionVerb::Subscribe), false));
    assert_eq!(
        said,
        "<presence type='subscribe' from='bob@a.example' to='ann@a.example'>\
         <status>it's me</status></presence>"
    );
    let is_to = bob(|it| it.subscription.to = Half::Subscribed);
    let said = told(&mut side, changed(is_to.clone(), Some(SubscriptionVerb::Subscribed), true));
    assert!(said.starts_with("<presence type='subscribed' from='bob@a.example'"), "{said}");
    assert!(said.contains("<iq type='set' id='push1' to='ann@a.example/desk'><query"), "{said}");
    assert!(said.contains("subscription='to'"));
    let mut other = available();
    assert_eq!(told(&mut other, changed(is_to, None, true)), "", "it did not ask");
}

#[test]
fn what_of_a_presence_means_nothing_by_itself_is_left_out() {
    let mut side = bound();
    says(
        &mut side,
        "<presence xmlns:p='urn:x'><p:c/><c p:n='1'/><q xmlns:p='urn:y'><p:d/></q></presence>",
    );
    let (_, ask) = asked(&mut side).pop().expect("asked");
    let PeopleAsk::Present(Some(how)) = ask else { panic!("{ask:?}") };
    let extra = String::from_utf8_lossy(&how.extra);
    assert_eq!(extra, "<q xmlns:p='urn:y'><p:d/></q>");
}

#[test]
fn presence_goes_out_whole_and_comes_in_from_whom_it_is() {
    let mut side = bound();
    says(
        &mut side,
        "<presence><show>dnd</show><status>busy</status><priority>-3</priority>\
         <c xmlns='http://jabber.org/protocol/caps' node='n'/></presence>",
    );
    let (_, ask) = asked(&mut side).pop().expect("asked");
    let PeopleAsk::Present(Some(how)) = ask else { panic!("{ask:?}") };
    assert_eq!((how.show, &*how.status, how.priority), (Show::DoNotDisturb, "busy", -3));
    assert!(how.extra.starts_with(b"<c xmlns="));
    let presence = |device: Option<&str>, availability| {
        let (from, device) = (address("bob"), device.map(Into::into));
        ChatDelivery::Presence(Box::new(Presence { from, device, availability }))
    };
    let from = Some(Arc::new(*how));
    let said = told(&mut side, presence(Some("phone"), from.clone()));
    assert_eq!(
        said,
        "<presence from='bob@a.example/phone' to='ann@a.example/desk'><show>dnd</show>\
         <status>busy</status><priority>-3</priority>\
         <c xmlns='http://jabber.org/protocol/caps' node='n'/>\
         <x xmlns='vcard-temp:x:update'><photo/></x></presence>"
    );
    let gone = told(&mut side, presence(Some("phone"), None));
    assert!(gone.starts_with("<presence type='unavailable' from='bob@a.example/phone'"));
    let gone = told(&mut side, presence(None, None));
    assert!(gone.starts_with("<presence type='unavailable' from='bob@a.example' "));
    let (from, device) = (address("ann"), Some("desk".into()));
    let own = Presence { from, device, availability: None };
    assert_eq!(told(&mut side, ChatDelivery::Presence(Box::new(own))), "", "it said so itself");
    says(&mut side, "<presence type='unavailable'/>");
    assert_eq!(asked(&mut side).pop().map(|it| it.1), Some(PeopleAsk::Present(None)));
}
