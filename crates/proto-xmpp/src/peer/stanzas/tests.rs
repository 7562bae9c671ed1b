//! Stanzas between domains: what is read of them, and how words are written.

use super::*;
use crate::xml::scan::Scan;
use base::hash::HashKey;
use model::chat::foreign::{QueuePlace, QueuedMessage};
use model::chat::{ChatMessage, Content, Show};
use model::timeline::{Space, TimelineId};
use std::sync::Arc;

const MADE: ClientMessageId = ClientMessageId([7; 16]);

fn address(text: &str) -> AccountAddress {
    AccountAddress::parse(text, "").expect("right")
}

fn read_of(stanza: &str) -> Result<StanzaPurpose, StanzaFault> {
    let scan = Scan::of_peer(stanza.as_bytes()).expect("XML");
    read(&scan.root(), MADE)
}

fn arrives(stanza: &str) -> (String, ArrivalWhat) {
    match read_of(stanza) {
        Ok(StanzaPurpose::Arrival(ForeignArrival { home, what })) => (home.to_string(), what),
        other => panic!("{stanza}: {other:?}"),
    }
}

/// Device that a stanza is for, and the stanza as it is shown.
fn shown_of(stanza: &str) -> (Option<String>, String) {
    match arrives(stanza).1 {
        ArrivalWhat::Stanza { device, xml, .. } => {
            (device.map(String::from), String::from_utf8(xml.to_vec()).expect("UTF-8"))
        }
        other => panic!("{stanza}: {other:?}"),
    }
}

#[test]
fn what_is_said_is_said_at_the_home_of_the_sender() {
    for from in ["bob@b.example/phone", "Bob@B.example./phone"] {
        let (home, what) = arrives(&format!(
            "<message xmlns='jabber:server' from='{from}' to='ann@a.example/desk' id='x'>\
             <body>hi</body></message>"
        ));
        assert_eq!(home, "bob@b.example");
        let ArrivalWhat::Send { device, message } = what else { panic!("{what:?}") };
        assert_eq!(
            (&*device, message.to.as_str(), message.client_id),
            ("phone", "ann@a.example", MADE)
        );
        assert_eq!(&*message.content.text, "hi");
    }
    let id = "0123e567-e89b-82d3-a456-426614174000";
    let (_, what) = arrives(&format!(
        "<message from='bob@b.example' to='ann@a.example' type='chat' id='{id}'><body>hi</body>\
         </message>"
    ));
    let ArrivalWhat::Send { message, .. } = what else { panic!("{what:?}") };
    assert_eq!(message.content, Content::text("hi"));
    assert_ne!(message.client_id, MADE, "it is its own");
}

#[test]
fn what_is_not_to_be_kept_is_shown_to_devices_as_it_is() {
    let state = "<composing xmlns='http://jabber.org/protocol/chatstates'/>";
    let (device, xml) = shown_of(&format!(
        "<message from='bob@b.example/x' to='ann@a.example/desk' type='chat'>{state}</message>"
    ));
    assert_eq!(device.as_deref(), Some("desk"));
    let expected = format!(
        "<message from='bob@b.example/x' to='ann@a.example/desk' type='chat'>{state}</message>"
    );
    assert_eq!(xml, expected);
    let private = "<x xmlns='http://jabber.org/protocol/muc#user'/>";
    for stanza in [
        "<message from='r@c.example/n' to='ann@a.example/desk' type='groupchat'><body>x</body>\
         </message>",
        "<message from='b.example' to='ann@a.example/desk'><body>x</body></message>",
        "<message from='#irc%x@b.example' to='ann@a.example/desk'><body>x</body></message>",
        "<message from='b@b.example' to='ann@a.example/desk' type='error'/>",
        "<presence from='r@c.example/n' to='ann@a.example/desk'/>",
        "<presence from='r@c.example/n' to='ann@a.example/desk' type='unavailable'/>",
        "<iq type='get' id='1' from='b@b.example/x' to='ann@a.example/desk'/>",
        "<iq type='result' id='1' from='b@b.example/x' to='ann@a.example/desk'/>",
        &format!(
            "<message from='r@c.example/n' to='ann@a.example/desk' type='chat'>{private}\
            <body>x</body></message>"
        ),
    ] {
        assert_eq!(shown_of(stanza).0.as_deref(), Some("desk"), "{stanza}");
    }
    let headline = "<message from='b.example' to='ann@a.example' type='headline'><body>x</body>\
        </message>";
    assert_eq!(shown_of(headline).0, None, "all devices");
}

#[test]
fn a_domain_itself_speaks_of_subscriptions_and_is_there() {
    let gateway = AccountAddress::of_domain("irc.example").expect("right");
    let (home, what) =
        arrives("<presence from='IRC.example' to='ann@a.example' type='subscribed'/>");
    assert_eq!(home, "@irc.example");
    assert!(matches!(what, ArrivalWhat::Wish(wish) if wish.contact.as_str() == "ann@a.example"));
    for (resource, kind, expected) in [
        ("", "", Some("")),
        ("/x", "", Some("x")),
        ("/x", "type='unavailable'", Some("x")),
        ("", "type='unavailable'", None),
    ] {
        let (home, what) =
            arrives(&format!("<presence from='irc.example{resource}' to='ann@a.example' {kind}/>"));
        assert_eq!(home, "ann@a.example");
        let ArrivalWhat::Presence { from, device, availability } = what else { panic!("{what:?}") };
        assert_eq!((&from, device.as_deref()), (&gateway, expected));
        assert_eq!(availability.is_some(), kind.is_empty());
    }
    let mut out = Vec::new();
    let (from, verb) = (address("ann@a.example"), SubscriptionVerb::Subscribe);
    let word = ForeignWord::Subscription { from, to: gateway, verb, greeting: Box::default() };
    assert!(write(&word, &mut out));
    let expected = "<presence type='subscribe' from='ann@a.example' to='irc.example'></presence>";
    assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
}

#[test]
fn what_stands_for_something_on_the_stream_between_servers_alone_is_not_shown() {
    let (_, xml) = shown_of(
        "<iq stream:x='1' db:y='2' xml:lang='de' xmlns:z='urn:z' type='get' id='1' \
         from='b@b.example/x' to='ann@a.example/desk'><z:q/></iq>",
    );
    assert!(!xml.contains("stream:") && !xml.contains("db:"), "{xml}");
    assert!(Scan::element(xml.as_bytes()).is_ok() && xml.contains("xml:lang='de'"), "{xml}");
    let inner = "<iq type='get' id='1' from='b@b.example/x' to='ann@a.example/desk'><db:q/></iq>";
    assert!(Scan::of_peer(inner.as_bytes()).is_err(), "a prefix that no client knows");
}

#[test]
fn ids_in_the_name_of_this_domain_are_not_shown() {
    let (_, xml) = shown_of(
        "<message from='r@c.example/n' to='ann@a.example/desk' type='groupchat'>\
         <stanza-id xmlns='urn:xmpp:sid:0' id='1' by='ann@a.example'/>\
         <stanza-id xmlns='urn:xmpp:sid:0' id='2'/>\
         <stanza-id xmlns='urn:xmpp:sid:0' id='3' by='r@c.example'/></message>",
    );
    assert!(xml.contains("id='3'") && !xml.contains("id='1'") && !xml.contains("id='2'"), "{xml}");
}

#[test]
fn presence_is_for_who_sees_it_and_wishes_for_the_home_of_who_has_them() {
    let (home, what) = arrives(
        "<presence from='bob@b.example/x' to='ann@a.example'><show>away</show>\
         <status>out</status><priority>3</priority><c xmlns='http://jabber.org/protocol/caps'/>\
         </presence>",
    );
    let ArrivalWhat::Presence { from, device, availability: Some(how) } = what else {
        panic!("{what:?}")
    };
    assert_eq!(
        (&*home, from.as_str(), device.as_deref()),
        ("ann@a.example", "bob@b.example", Some("x"))
    );
    assert_eq!((how.show, &*how.status, how.priority), (Show::Away, "out", 3));
    assert_eq!(
        (&*how.extra, how.badge),
        (&b"<c xmlns='http://jabber.org/protocol/caps'/>"[..], None)
    );
    let (_, what) =
        arrives("<presence from='bob@b.example' to='ann@a.example' type='unavailable'/>");
    assert!(matches!(what, ArrivalWhat::Presence { device: None, availability: None, .. }));
    let (home, what) = arrives("<presence from='bob@b.example' to='ann@a.example' type='probe'/>");
    assert!(home == "ann@a.example" && matches!(what, ArrivalWhat::Probe { .. }));
    for verb in SubscriptionVerb::ALL {
        let (home, what) = arrives(&format!(
            "<presence from='bob@b.example/x' to='ann@a.example' type='{}'/>",
            verb.word()
        ));
        let ArrivalWhat::Wish(wish) = what else { panic!("{what:?}") };
        assert_eq!((&*home, wish.contact.as_str()), ("bob@b.example", "ann@a.example"));
        assert_eq!(wish.order, ContactOrder::Say(verb, "".into()));
    }
    let long = "ü".repeat(4_000);
    let (_, what) = arrives(&format!(
        "<presence from='bob@b.example/x' to='ann@a.example'><status>{long}</status>\
         <x xmlns='y'>{long}</x></presence>"
    ));
    let ArrivalWhat::Presence { availability: Some(how), .. } = what else { panic!("{what:?}") };
    assert!(how.status.len() <= STATUS_BYTES_MAX && how.extra.is_empty(), "within bounds");
}

#[test]
fn what_has_no_place_here_is_refused_or_passed_over() {
    use StanzaFault::*;
    for (stanza, expected) in [
        ("<message from='b@b.example' to='@a.example'/>", Err(JidMalformed)),
        ("<message from='b@b.example' to='a.example'><body/></message>", Err(ServiceUnavailable)),
        (
            "<message from='b@b.example' to='ann@a.example' type='groupchat'/>",
            Err(ServiceUnavailable),
        ),
        (
            "<message from='b@b.example' to='ann@a.example' type='error'/>",
            Ok(StanzaPurpose::Nothing),
        ),
        (
            "<iq type='get' id='1' from='b@b.example' to='ann@a.example'/>",
            Ok(StanzaPurpose::Question),
        ),
        ("<iq type='get' id='1' from='b@b.example' to='a.example'/>", Ok(StanzaPurpose::Question)),
        (
            "<iq type='result' id='1' from='b@b.example' to='a.example'/>",
            Ok(StanzaPurpose::Nothing),
        ),
        (
            "<presence from='b@b.example' to='ann@a.example' type='error'/>",
            Ok(StanzaPurpose::Nothing),
        ),
        ("<presence from='conference.b.example' to='ann@a.example'/>", Ok(StanzaPurpose::Nothing)),
        ("<presence from='b@b.example' to='a.example'/>", Ok(StanzaPurpose::Nothing)),
    ] {
        assert_eq!(format!("{:?}", read_of(stanza)), format!("{expected:?}"), "{stanza}");
    }
    let long = format!("<iq id='{}' to='ann@a.example' type='get'/>", "x".repeat(2_000));
    assert!(matches!(read_of(&long), Err(BadRequest)));
}

#[test]
fn what_is_shown_says_whose_it_is_as_far_as_that_may_be_blocked() {
    for (from, expected) in [
        ("bob@b.example/x", "bob@b.example"),
        ("r@conference.b.example/n", "r@conference.b.example"),
        ("b.example/x", "@b.example"),
        ("conference.b.example", "@conference.b.example"),
        ("#odd name@b.example/x", "@b.example"),
    ] {
        let stanza = format!("<iq type='get' id='1' from='{from}' to='ann@a.example/desk'/>");
        let ArrivalWhat::Stanza { from: whose, .. } = arrives(&stanza).1 else { panic!("{from}") };
        assert_eq!(whose.as_ref().map(|it| it.as_str()), Some(expected), "{from}");
    }
}

#[test]
fn a_question_about_what_somebody_publishes_goes_to_the_home_of_who_asks() {
    let asks = |from: &str, inner: &str| {
        read_of(&format!("<iq type='get' id='1' from='{from}' to='ann@a.example'>{inner}</iq>"))
    };
    let vcard = "<vCard xmlns='vcard-temp'/>";
    match asks("bob@b.example/x", vcard) {
        Ok(StanzaPurpose::Nodes(
            ForeignArrival { home, what: ArrivalWhat::Nodes { of, .. } },
            _,
        )) => {
            assert_eq!((home.as_str(), of.as_str()), ("bob@b.example", "ann@a.example"));
        }
        other => panic!("{other:?}"),
    }
    for (from, inner) in [
        ("b.example", vcard),
        ("bob@b.example", "<ping xmlns='urn:xmpp:ping'/>"),
        ("bob@b.example", ""),
    ] {
        let asked = asks(from, inner);
        assert!(matches!(asked, Ok(StanzaPurpose::Question)), "{from} {inner} {asked:?}");
    }
}

#[test]
fn errors_answer_what_may_be_answered_and_nothing_else() {
    let refused = |stanza: &str| {
        let scan = Scan::of_peer(stanza.as_bytes()).expect("XML");
        let mut out = Vec::new();
        let is = refuse(&scan.root(), StanzaFault::RemoteServerTimeout, &mut out);
        is.then(|| String::from_utf8(out).expect("UTF-8"))
    };
    let said =
        refused("<message from='a@x/1' to='b@y' id='7' type='chat'><body>x</body></message>");
    assert_eq!(
        said.as_deref(),
        Some(
            "<message type='error' id='7' from='b@y' to='a@x/1'><body>x</body><error type='wait'>\
             <remote-server-timeout xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
        )
    );
    assert!(refused("<iq from='a@x' to='b@y' id='1' type='get'/>").is_some());
    assert!(refused("<presence from='a@x/1' to='r@y/n'/>").is_some());
    for kind in ["error", "result", "unavailable", "probe", "subscribe", "unsubscribed"] {
        assert_eq!(refused(&format!("<presence from='a@x' to='b@y' type='{kind}'/>")), None);
    }
    assert_eq!(refused("<message to='b@y'><body>x</body></message>"), None, "nobody to tell");
}

#[test]
fn words_are_written_as_stanzas_with_their_addresses() {
    let (ann, bob) = (address("ann@a.example"), address("bob@b.example"));
    let written = |word: ForeignWord| {
        let mut out = Vec::new();
        let is = write(&word, &mut out);
        is.then(|| String::from_utf8(out).expect("UTF-8"))
    };
    let message = |content| ChatMessage {
        id: 1,
        seq: 2,
        at_ms: 3,
        from: ann.clone(),
        device: "desk".into(),
        to: bob.clone(),
        client_id: ClientMessageId([0x11; 16]),
        content,
        amended: None,
    };
    let queue = TimelineId::of(Space::SendQueue, HashKey::new(1, 2), &[b"a"]);
    let queued = |content| {
        let (message, place) = (Arc::new(message(content)), QueuePlace { queue, seq: 1 });
        ForeignWord::Message(QueuedMessage { message, place, is_again: false })
    };
    let said = written(queued(Content::text("a < b")));
    assert_eq!(
        said.as_deref(),
        Some(
            "<message from='ann@a.example/desk' to='bob@b.example' type='chat' \
             id='11111111-1111-1111-1111-111111111111'><body>a &lt; b</body></message>"
        )
    );
    let recall = model::chat::Recall { seq: 1, id: 1 }.content("b1");
    let recall = written(queued(recall)).expect("it is shown");
    assert!(recall.contains("<retract xmlns='urn:xmpp:message-retract:1' id='b1'/>"), "{recall}");
    let (from, to) = (ann.clone(), bob.clone());
    let verb = SubscriptionVerb::Subscribe;
    let wish = ForeignWord::Subscription { from, to, verb, greeting: "it's me".into() };
    assert_eq!(
        written(wish).as_deref(),
        Some(
            "<presence type='subscribe' from='ann@a.example' to='bob@b.example'>\
             <status>it's me</status></presence>"
        )
    );
    let presence = |availability| ForeignWord::Presence {
        from: ann.clone(),
        device: Some("desk".into()),
        availability,
        to: bob.clone(),
    };
    let how = Availability { show: Show::Away, ..Availability::default() };
    let away = written(presence(Some(Arc::new(how)))).expect("it is one");
    assert!(away.starts_with("<presence from='ann@a.example/desk' to='bob@b.example'><show>away"));
    assert_eq!(
        written(presence(None)).as_deref(),
        Some(
            "<presence type='unavailable' from='ann@a.example/desk' to='bob@b.example'></presence>"
        )
    );
    let (to, domain) = ("r@c.example/it's".into(), "c.example".into());
    let gone = ForeignWord::Gone { from: ann, device: "desk".into(), to, domain };
    assert!(written(gone).is_some_and(|it| it.contains("to='r@c.example/it&apos;s'")));
}
