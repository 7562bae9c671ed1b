//! A device and other domains: what is handed on as it is, what is stored, and what comes back.

use super::harness::*;
use crate::server::XmppListener;
use model::account::AccountAddress;
use model::chat::foreign::{ForeignDomains, ForeignStanza};
use model::chat::{ChatDelivery, ChatRequest, HandingOn, PeopleAsk, Presence};
use std::sync::Arc;

/// Bound, where others serve their domains.
pub(crate) fn bound_elsewhere() -> Side {
    bound_among(domains(true))
}

/// Bound, where these domains are whose they are.
pub(crate) fn bound_among(domains: Arc<ForeignDomains>) -> Side {
    let listener = XmppListener {
        bind_ms_max: 10_000,
        registration: model::ports::users::Registration::Password,
        domains,
        scram_sha_256: true,
        scram_sha_1: false,
        plain: true,
        certificates: true,
        guests: false,
        fast: true,
        advertised: Arc::default(),
    };
    let mut side = at(listener, encrypted());
    says(&mut side, HEADER);
    says(&mut side, &auth("PLAIN", "\0ann\0secret"));
    told(&mut side, yes());
    says(&mut side, HEADER);
    says(&mut side, BIND);
    told(&mut side, ChatDelivery::Bound { device: "desk".into() });
    side.take_words();
    side
}

/// A stanza that is handed on: its domain, its text, and whom its presence informs.
fn handed(side: &mut Side, stanza: &str) -> (String, String, Option<(String, bool)>) {
    assert_eq!(says(side, stanza), "", "{stanza}");
    let words: Vec<ChatRequest> = side.take_words_as();
    let [ChatRequest::HandOn(on)] = &words[..] else { panic!("{stanza}: {words:?}") };
    let HandingOn { stanza: ForeignStanza { domain, xml }, directed, .. } = &**on;
    let xml = String::from_utf8(xml.to_vec()).expect("UTF-8");
    let directed = directed.as_ref().map(|(whom, is)| (whom.to_string(), *is));
    (domain.to_string(), xml, directed)
}

#[test]
fn what_is_not_kept_is_handed_on_in_the_name_of_the_device() {
    let mut side = bound_elsewhere();
    let from = "from='ann@a.example/desk'";
    let (domain, xml, directed) = handed(
        &mut side,
        "<iq xmlns='jabber:client' type='get' id='7' to='bob@B.example./x'><q xmlns='y'/></iq>",
    );
    assert_eq!((&*domain, directed), ("b.example", None));
    assert_eq!(
        xml,
        format!("<iq type='get' id='7' to='bob@B.example./x' {from}><q xmlns='y'/></iq>")
    );
    for stanza in [
        "<iq type='result' id='1' to='b.example'/>",
        "<iq type='error' id='1' to='b.example'/>",
        "<message type='groupchat' to='r@b.example'><body>x</body></message>",
        "<message type='headline' to='r@b.example'><body>x</body></message>",
        "<message type='error' to='r@b.example/x'/>",
        "<message to='bob@b.example'><active xmlns='http://jabber.org/protocol/chatstates'/>\
         </message>",
        "<message to='#irc%x@b.example'><body>x</body></message>",
        "<message to='b.example'><body>x</body></message>",
        "<message to='r@b.example/n'><body>x</body>\
         <x xmlns='http://jabber.org/protocol/muc#user'/></message>",
        "<presence type='error' to='r@b.example/n'/>",
        "<iq type='get' id='1' to='a.example'>\
         <query xmlns='http://jabber.org/protocol/disco#items'/></iq>",
    ] {
        let (_, xml, directed) = handed(&mut side, stanza);
        assert!(xml.contains(from) && directed.is_none(), "{xml}");
    }
    for (kind, is_there) in [("", true), (" type='unavailable'", false)] {
        let stanza = format!("<presence{kind} to='r@b.example/n'><x xmlns='z'/></presence>");
        let (_, xml, directed) = handed(&mut side, &stanza);
        assert_eq!(directed, Some(("r@b.example/n".into(), is_there)));
        assert!(xml.contains("<x xmlns='z'/>"), "{xml}");
    }
}

#[test]
fn a_receipt_goes_on_even_if_it_asks_to_be_stored_and_moves_the_own_cursor() {
    for receipt in [
        "<received xmlns='urn:xmpp:receipts' id='7'/>",
        "<displayed xmlns='urn:xmpp:chat-markers:0' id='7'/>",
    ] {
        let mut side = bound_elsewhere();
        let store = "<store xmlns='urn:xmpp:hints'/>";
        says(
            &mut side,
            &format!("<message to='bob@b.example' type='chat'>{receipt}{store}</message>"),
        );
        let words: Vec<ChatRequest> = side.take_words_as();
        let is_on = |word: &ChatRequest| matches!(word, ChatRequest::HandOn(_));
        assert_eq!(words.iter().filter(|word| is_on(word)).count(), 1, "{words:?}");
        let looks = words.iter().any(|word| matches!(word, ChatRequest::History { .. }));
        assert_eq!(looks, receipt.starts_with("<displayed"));
    }
}

#[test]
fn whom_a_stanza_is_for_is_told_as_far_as_that_may_be_blocked() {
    let mut side = bound_elsewhere();
    for (to, whom) in [
        ("bob@b.example/x", "bob@b.example"),
        ("r@conference.b.example/n", "r@conference.b.example"),
        ("B.example", "@b.example"),
        ("#odd name@b.example/x", "@b.example"),
    ] {
        says(&mut side, &format!("<presence to='{to}'/>"));
        let words: Vec<ChatRequest> = side.take_words_as();
        let [ChatRequest::HandOn(on)] = &words[..] else { panic!("{to}: {words:?}") };
        assert_eq!(on.to.as_ref().map(|it| it.as_str()), Some(whom), "{to}");
    }
}

#[test]
fn what_would_be_said_of_somebody_who_is_blocked_goes_along_where_it_is_answered() {
    let mut side = bound_elsewhere();
    for (stanza, is_answered) in [
        ("<iq type='get' id='7' to='bob@b.example/x'><q xmlns='y'/></iq>", true),
        ("<iq type='result' id='7' to='bob@b.example/x'/>", false),
        ("<message type='headline' id='7' to='bob@b.example'><body>x</body></message>", true),
        ("<presence to='bob@b.example/x'/>", false),
    ] {
        says(&mut side, stanza);
        let words: Vec<ChatRequest> = side.take_words_as();
        let [ChatRequest::HandOn(on)] = &words[..] else { panic!("{stanza}: {words:?}") };
        assert_eq!(on.to.as_ref().map(|it| it.as_str()), Some("bob@b.example"));
        let refusal = on.refusal.as_ref().map(|it| String::from_utf8_lossy(it));
        assert_eq!(refusal.is_some(), is_answered, "{stanza}");
        assert!(
            refusal.is_none_or(|it| it.contains("<blocked xmlns='urn:xmpp:blocking:errors'/>")
                && it.contains("id='7' from='bob@b.example"))
        );
    }
}

#[test]
fn what_is_said_to_people_elsewhere_is_stored_and_wishes_are_the_services() {
    let mut side = bound_elsewhere();
    says(&mut side, "<message to='bob@b.example/x' type='chat'><body>hi</body></message>");
    says(&mut side, "<presence to='bob@b.example' type='subscribe'/>");
    let words: Vec<ChatRequest> = side.take_words_as();
    assert!(
        matches!(&words[..], [ChatRequest::Send { message, .. }, ChatRequest::People(_)]
            if message.to.as_str() == "bob@b.example"),
        "{words:?}"
    );
}

#[test]
fn what_is_for_a_service_of_this_domain_is_handed_on_to_nobody() {
    let mut side = bound_elsewhere();
    for service in ["conference", "live", "upload"] {
        let to = format!("to='x@{service}.a.example/n'");
        says(&mut side, &format!("<iq type='get' id='7' {to}><q xmlns='y'/></iq>"));
        says(&mut side, &format!("<message type='groupchat' {to}><body>x</body></message>"));
        says(&mut side, &format!("<presence {to}><x xmlns='z'/></presence>"));
    }
    let words: Vec<ChatRequest> = side.take_words_as();
    assert!(!words.iter().any(|word| matches!(word, ChatRequest::HandOn(_))), "{words:?}");
}

#[test]
fn a_stanza_from_elsewhere_is_shown_as_it_is() {
    let mut side = bound_elsewhere();
    let xml: Arc<[u8]> = b"<message from='r@b.example/n' to='ann@a.example/desk'/>"[..].into();
    let said = told(&mut side, ChatDelivery::Stanza(xml.clone()));
    assert_eq!(said.as_bytes(), &*xml);
}

#[test]
fn where_nobody_is_reached_nothing_is_handed_on() {
    let mut side = bound();
    for stanza in [
        "<iq type='get' id='7' to='b.example'><q xmlns='y'/></iq>",
        "<message type='groupchat' to='r@b.example'><body>x</body></message>",
        "<presence to='r@b.example/n'/>",
    ] {
        assert!(says(&mut side, stanza).contains("<remote-server-not-found"), "{stanza}");
    }
    assert!(side.take_words().is_empty());
}

#[test]
fn a_domain_of_somebody_else_is_a_contact_and_one_of_ours_is_none() {
    let mut side = bound_elsewhere();
    let wished = |side: &mut Side| match side.take_words_as::<ChatRequest>().pop() {
        Some(ChatRequest::People(asked)) => match asked.ask {
            PeopleAsk::Wish(wish) => (asked.number, wish.contact.as_str().to_owned()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let set = |jid: &str| {
        let item = format!("<item jid='{jid}'/>");
        format!("<iq type='set' id='r'><query xmlns='jabber:iq:roster'>{item}</query></iq>")
    };
    assert_eq!(says(&mut side, &set("IRC.example")), "");
    let (number, contact) = wished(&mut side);
    assert_eq!(contact, "@irc.example");
    assert!(told(&mut side, ChatDelivery::Done { number }).contains("type='result'"));
    assert_eq!(says(&mut side, "<presence type='subscribe' to='irc.example'/>"), "");
    assert_eq!(wished(&mut side).1, "@irc.example");
    for ours in ["a.example", "m.example", "conference.a.example", "conference.b.example"] {
        assert!(says(&mut side, &set(ours)).contains("item-not-found"), "{ours}");
    }
    let block = |jid: &str| {
        let item = format!("<item jid='{jid}'/>");
        format!("<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'>{item}</block></iq>")
    };
    for others in ["irc.example", "conference.b.example"] {
        assert_eq!(says(&mut side, &block(others)), "", "{others}");
        assert_eq!(wished(&mut side).1, format!("@{others}"));
    }
    for ours in ["a.example", "m.example", "conference.a.example"] {
        assert!(says(&mut side, &block(ours)).contains("not-allowed"), "{ours}");
    }
    let from = AccountAddress::of_domain("irc.example").expect("right");
    let presence = |device: Option<&str>, is_there: bool| {
        let availability = is_there.then(Arc::default);
        let (from, device) = (from.clone(), device.map(Box::from));
        ChatDelivery::Presence(Box::new(Presence { from, device, availability }))
    };
    for (told_of, expected) in [
        (presence(Some(""), true), "<presence from='irc.example'"),
        (presence(Some("x"), true), "<presence from='irc.example/x'"),
        (presence(None, false), "<presence type='unavailable' from='irc.example'"),
    ] {
        let shown = told(&mut side, told_of);
        assert!(shown.starts_with(expected), "{shown}");
    }
}
