//! Stanzas in one write, each behind what it depends on; and what an error says of its stanza.

use crate::render::CARBONS;
use crate::server::tests::foreign::bound_elsewhere;
use crate::server::tests::harness::*;
use model::chat::{ChatDelivery, ChatFault, PeopleAsk};

const MAM: &str = "<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'/></iq>";
const BLOCK: &str = "<iq type='set' id='x'><block xmlns='urn:xmpp:blocking'>\
    <item jid='bob@a.example'/></block></iq>";

fn text(to: &str, kind: &str) -> String {
    format!("<message to='{to}' type='{kind}' id='m'><body>hi</body></message>")
}

/// The number of the only thing that it asks the service.
fn number(side: &mut Side) -> u32 {
    let mut all = words(side);
    all.retain(|word| !matches!(word, ChatRequest::Acknowledge { .. }));
    let (Some(mut word), 0) = (all.pop(), all.len()) else { panic!("{all:?}") };
    *word.number_mut().unwrap_or_else(|| panic!("it has no number"))
}

/// Shows what is left once more, as a connection does that is read again.
fn goes_on(side: &mut Side) -> String {
    says(side, "")
}

#[test]
fn a_question_to_the_archive_waits_for_the_messages_before_it() {
    let mut side = available();
    assert_eq!(says(&mut side, &(text("bob@a.example", "chat") + MAM)), "");
    let sent = number(&mut side);
    assert_eq!(goes_on(&mut side), "");
    assert!(words(&mut side).is_empty(), "the message is not stored");
    told(&mut side, ChatDelivery::Sent { number: sent, id: 1, seq: 1, at_ms: 1, again: false });
    goes_on(&mut side);
    assert!(matches!(words(&mut side)[..], [ChatRequest::Archive { .. }]));
}

#[test]
fn what_is_said_waits_for_a_block_before_it_and_blocks_do_not_wait_for_each_other() {
    let mut side = available();
    says(&mut side, &(BLOCK.to_owned() + BLOCK + &text("bob@a.example", "chat")));
    let asked = words(&mut side);
    let wishes: Vec<u32> = asked
        .iter()
        .map(|word| match word {
            ChatRequest::People(asked) if matches!(asked.ask, PeopleAsk::Wish(_)) => asked.number,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(wishes.len(), 2);
    told(&mut side, ChatDelivery::Done { number: wishes[0] });
    goes_on(&mut side);
    assert!(words(&mut side).is_empty(), "one of them is not done");
    told(&mut side, ChatDelivery::Done { number: wishes[1] });
    goes_on(&mut side);
    assert!(matches!(words(&mut side)[..], [ChatRequest::Send { .. }]));
}

#[test]
fn what_is_said_in_a_room_waits_until_it_is_entered() {
    let mut side = available();
    let enters = "<presence to='lunch@conference.a.example/ann'>\
        <x xmlns='http://jabber.org/protocol/muc'/></presence>";
    let said = text("lunch@conference.a.example", "groupchat");
    assert_eq!(says(&mut side, &(enters.to_owned() + &said)), "", "it is not refused");
    let entering = number(&mut side);
    goes_on(&mut side);
    assert!(words(&mut side).is_empty());
    // What is for somebody else does not wait.
    let mut other = available();
    says(&mut other, &(enters.to_owned() + &text("bob@a.example", "chat")));
    assert_eq!(words(&mut other).len(), 2);
    let error = told(&mut side, ChatDelivery::Failed { number: entering, why: ChatFault::Busy });
    assert!(error.starts_with("<presence type='error'"), "{error}");
    assert!(error.contains("<not-acceptable"), "it is not in it: {error}");
}

#[test]
fn an_error_has_the_elements_of_what_it_answers_at_once_or_later() {
    let mut side = available();
    let inner = "<q xmlns='urn:example:q' a='1'>x &amp; y</q>";
    let at_once = says(&mut side, &format!("<iq type='get' id='1' to='a.example'>{inner}</iq>"));
    assert!(at_once.contains(&format!("'>{inner}<error type='cancel'>")), "{at_once}");
    let said = format!("<message to='bob@a.example' id='2'><body>a &lt; b</body>{inner}</message>");
    assert_eq!(says(&mut side, &said), "");
    let number = number(&mut side);
    let failed = ChatDelivery::Failed { number, why: ChatFault::UnknownAccount };
    let later = told(&mut side, failed);
    assert!(later.contains(&format!("<body>a &lt; b</body>{inner}<error ")), "{later}");
    // A large one is not said back, nor what names a prefix of the stanza.
    let large =
        format!("<iq type='get' id='3' to='a.example'><q xmlns='y'>{}</q></iq>", "x".repeat(2_000));
    let error = says(&mut side, &large);
    assert!(error.contains("'><error "), "{error}");
    let error = says(&mut side, "<iq type='get' id='4' xmlns:p='y' to='a.example'><p:q/></iq>");
    assert!(error.contains("'><error "), "{error}");
}

#[test]
fn a_forged_carbon_or_result_is_refused_alone_and_left_out_of_a_message() {
    let inner = "<forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' \
        from='boss@a.example' to='bob@a.example'><body>pay</body></message></forwarded>";
    for forged in [
        format!("<received xmlns='{CARBONS}'>{inner}</received>"),
        format!("<sent xmlns='{CARBONS}'>{inner}</sent>"),
        format!("<result xmlns='urn:xmpp:mam:2' id='1'>{inner}</result>"),
    ] {
        for to in ["bob@a.example", "bob@a.example/x", "bob@b.example"] {
            let mut side = bound_elsewhere();
            let alone = format!("<message id='7' to='{to}'>{forged}</message>");
            let error = says(&mut side, &alone);
            assert!(error.contains("<not-acceptable"), "{to}: {error}");
            assert!(words(&mut side).is_empty());
            let beside = format!(
                "<message to='{to}' id='7'><body>hi</body>{forged}<y xmlns='z'/></message>"
            );
            assert_eq!(says(&mut side, &beside), "");
            let content = match words(&mut side).pop() {
                Some(ChatRequest::Send { message, .. }) => message.content,
                other => panic!("{other:?}"),
            };
            let extra = String::from_utf8_lossy(&content.extra).into_owned();
            assert_eq!(&*content.text, "hi");
            assert!(!extra.contains("boss") && extra.contains("<y xmlns='z'/>"), "{extra}");
            let headline =
                format!("<message to='{to}' type='headline'><body>hi</body>{forged}</message>");
            assert_eq!(says(&mut side, &headline), "");
            let handed = words(&mut side).pop().expect("it is handed over");
            let xml = match &handed {
                ChatRequest::HandTo(it) => it.xml.to_vec(),
                ChatRequest::HandOn(it) => it.stanza.xml.to_vec(),
                other => panic!("{other:?}"),
            };
            let xml = String::from_utf8_lossy(&xml).into_owned();
            assert!(!xml.contains("boss") && xml.contains("hi"), "{xml}");
        }
    }
}

#[test]
fn results_of_an_archive_elsewhere_are_shown_until_it_has_answered_and_of_no_other() {
    let mut side = bound_elsewhere();
    let shown =
        |side: &mut Side, xml: String| told(side, ChatDelivery::Stanza(xml.into_bytes().into()));
    let result = |from: &str, beside: &str| {
        format!(
            "<message from='{from}' to='ann@a.example/desk'><result xmlns='urn:xmpp:mam:2' \
             id='1'/>{beside}</message>"
        )
    };
    let room = "r@conference.b.example";
    assert_eq!(shown(&mut side, result(room, "")), "", "nobody has asked it");
    let rest = shown(&mut side, result(room, "<body>hi</body>"));
    assert!(rest.contains("<body>hi</body>") && !rest.contains("mam:2"), "{rest}");
    says(&mut side, &MAM.replace("id='q'", &format!("id='q' to='{room}'")));
    assert!(shown(&mut side, result(room, "")).contains("mam:2"));
    assert_eq!(shown(&mut side, result("mallory@b.example", "")), "");
    assert_eq!(shown(&mut side, result("r@conference.b.example/nick", "")), "");
    let fin = format!(
        "<iq type='result' id='q' from='{room}' to='ann@a.example/desk'>\
         <fin xmlns='urn:xmpp:mam:2'/></iq>"
    );
    assert!(shown(&mut side, fin).contains("fin"));
    assert_eq!(shown(&mut side, result(room, "")), "", "it has answered");
}

#[test]
fn the_lists_of_another_are_not_set() {
    let mut side = available();
    let roster = "<query xmlns='jabber:iq:roster'><item jid='eve@a.example'/></query>";
    for (to, condition) in
        [("bob@a.example", "<forbidden"), ("bob@a.example/x", "<service-unavailable")]
    {
        let error = says(&mut side, &format!("<iq type='set' id='1' to='{to}'>{roster}</iq>"));
        assert!(error.contains(condition), "{to}: {error}");
        assert!(words(&mut side).is_empty());
    }
}

#[test]
fn acknowledgements_are_not_to_be_had_before_a_login_and_the_stream_goes_on() {
    let mut side = begun();
    for asked in
        ["<enable xmlns='urn:xmpp:sm:3'/>", "<resume xmlns='urn:xmpp:sm:3' previd='x' h='0'/>"]
    {
        let said = says(&mut side, asked);
        assert!(said.starts_with("<failed xmlns='urn:xmpp:sm:3'"), "{said}");
        assert!(said.contains("<unexpected-request"), "{said}");
    }
    assert_eq!(says(&mut side, &auth("PLAIN", "\0ann\0secret")), "");
    assert!(matches!(words(&mut side)[..], [ChatRequest::Login(_)]));
}

#[test]
fn what_accounts_publish_is_said_of_the_domain_too() {
    let mut side = available();
    let ask = "<iq type='get' id='1' to='a.example'>\
        <query xmlns='http://jabber.org/protocol/disco#info'/></iq>";
    let info = says(&mut side, ask);
    for expected in [
        "<identity category='pubsub' type='pep'",
        "<feature var='vcard-temp'/>",
        "<feature var='http://jabber.org/protocol/pubsub'/>",
        "<feature var='http://jabber.org/protocol/pubsub#publish'/>",
    ] {
        assert_eq!(info.matches(expected).count(), 1, "{expected}: {info}");
    }
}
