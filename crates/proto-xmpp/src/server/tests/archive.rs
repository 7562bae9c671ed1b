//! The archive: what is asked of the service, and how its pages are given.

use super::super::*;
use super::harness::*;
use crate::archive::id_text;
use crate::render::stanza_id;
use crate::xml::scan::{CLIENT, Scan};
use model::chat::*;
use std::sync::Arc;

const MAM: &str = "urn:xmpp:mam:2";
const RSM: &str = "http://jabber.org/protocol/rsm";

fn query(id: &str, inner: &str) -> String {
    format!("<iq type='set' id='{id}'><query xmlns='{MAM}' queryid='q{id}'>{inner}</query></iq>")
}

fn last_page(id: &str, most: u16) -> String {
    query(id, &format!("<set xmlns='{RSM}'><max>{most}</max><before/></set>"))
}

/// A query for what was said with somebody.
fn with(id: &str, jid: &str) -> String {
    let field =
        |name: &str, value: &str| format!("<field var='{name}'><value>{value}</value></field>");
    let fields = field("FORM_TYPE", MAM) + &field("with", jid);
    query(id, &format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>"))
}

/// Requests to the archive, with their numbers.
fn asked(side: &mut Side) -> Vec<(u32, ArchiveRange)> {
    let of = |word| match word {
        ChatRequest::Archive { number, range, session } => {
            assert_eq!(session, SESSION);
            (number, *range)
        }
        other => panic!("{other:?}"),
    };
    words(side).into_iter().map(of).collect()
}

/// The only thing that it is asked.
fn number(side: &mut Side) -> u32 {
    let asked = asked(side);
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked[0].0
}

/// A message at a place of a conversation.
fn said(from: &str, to: &str, seq: u64, text: &str) -> Arc<ChatMessage> {
    let mut message = ChatMessage::clone(&message(from, "phone", to, text));
    (message.seq, message.id) = (seq, 100 + seq);
    Arc::new(message)
}

/// The id of a message between Ann and Bob.
fn id_at(seq: u64) -> ArchiveId {
    ArchiveId::of(&said("ann", "bob", seq, ""))
}

fn given(number: u32, messages: &[Arc<ChatMessage>], goes_on: Option<u64>) -> ChatDelivery {
    let goes_on = goes_on.map(id_at);
    let messages = messages.to_vec();
    ChatDelivery::Archive(Box::new(ArchivePage { number, messages, goes_on }))
}

fn failed(number: u32, why: ChatFault) -> ChatDelivery {
    ChatDelivery::Failed { number, why }
}

/// Pieces that a device got: of a message of the archive the query's id and its body, of an answer
/// its content.
fn pieces(mut sent: &str) -> Vec<String> {
    let mut seen = Vec::new();
    while !sent.is_empty() {
        let name = if sent.starts_with("<message ") { "</message>" } else { "</iq>" };
        let is_result = sent.contains("</result>") && name == "</message>";
        let close = if is_result { "</forwarded></result></message>" } else { name };
        let (piece, rest) = sent.split_at(sent.find(close).expect("whole") + close.len());
        let scan = Scan::element(piece.as_bytes()).expect("XML");
        let inner = scan.root().children().next().expect("something");
        let forwarded = inner.children().next();
        let message = forwarded.and_then(|it| it.child("message", CLIENT));
        seen.push(match message {
            Some(message) if inner.is("result", MAM) => {
                let id = inner.attribute("queryid").expect("a query");
                let body = message.child("body", CLIENT).expect("a body").text().into_owned();
                format!("{id} {body}")
            }
            _ => {
                let whole = inner.attribute("complete").map_or("", |_| " whole");
                format!("{}{whole}", inner.name())
            }
        });
        sent = rest;
    }
    seen
}

#[test]
fn a_page_is_its_messages_and_then_its_end() {
    let mut side = bound();
    assert_eq!(says(&mut side, &query("1", "")), "");
    let (number, range) = asked(&mut side).pop().expect("asked");
    assert_eq!(range, ArchiveRange::whole(false, 50));
    let hello = said("bob", "ann", 7, "hello");
    let id = stanza_id(&hello);
    assert_eq!(
        told(&mut side, given(number, &[hello], None)),
        format!(
            "<message from='ann@a.example' to='ann@a.example/desk'><result xmlns='{MAM}' \
             queryid='q1' id='{id}'><forwarded xmlns='urn:xmpp:forward:0'>\
             <delay xmlns='urn:xmpp:delay' stamp='2023-11-14T22:13:20.007Z'/>\
             <message xmlns='jabber:client' from='bob@a.example/phone' to='ann@a.example' \
             type='chat' id='07070707-0707-0707-0707-070707070707'><body>hello</body>\
             <stanza-id xmlns='urn:xmpp:sid:0' id='{id}' by='ann@a.example'/></message>\
             </forwarded></result></message>\
             <iq type='result' id='1' to='ann@a.example/desk'><fin xmlns='{MAM}' complete='true'>\
             <set xmlns='{RSM}'><first>{id}</first><last>{id}</last></set></fin></iq>"
        )
    );
}

#[test]
fn a_message_has_one_id_however_it_comes() {
    let mut side = available();
    says(&mut side, "<iq type='set' id='1'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
    let id_in = |text: &str| {
        let begins = text.find(" id='AAAA").expect("an id of the server") + " id='".len();
        text[begins..begins + 22].to_owned()
    };
    let live = said("bob", "ann", 7, "hello");
    let carbon = said("ann", "bob", 8, "hi");
    let ids = [(13, live.clone()), (14, carbon.clone())]
        .map(|(seq, message)| id_in(&told(&mut side, ChatDelivery::Message { seq, message })));
    words(&mut side);
    says(&mut side, &query("1", ""));
    let number = number(&mut side);
    let page = told(&mut side, given(number, &[live, carbon], None));
    let results: Vec<_> =
        page.match_indices("<result ").map(|(at, _)| id_in(&page[at..])).collect();
    assert_eq!(results, ids);
    let after = format!("<set xmlns='{RSM}'><after>{}</after></set>", ids[1]);
    says(&mut side, &query("2", &after));
    let (_, range) = asked(&mut side).pop().expect("asked");
    assert_eq!(range.after, [id_at(8)]);
}

#[test]
fn own_messages_are_in_it_and_what_says_nothing_is_not() {
    let mut side = available();
    says(&mut side, &last_page("1", 10));
    let (number, range) = asked(&mut side).pop().expect("asked");
    assert_eq!(range, ArchiveRange::whole(true, 10));
    let recalled = |seq| {
        let content = Content { kind: Content::RECALLED, ..Content::default() };
        Arc::new(ChatMessage { content, ..ChatMessage::clone(&said("bob", "ann", seq, "")) })
    };
    let page =
        [recalled(1), said("ann", "bob", 2, "mine"), said("bob", "ann", 3, "his"), recalled(4)];
    let sent = told(&mut side, given(number, &page, Some(1)));
    assert_eq!(pieces(&sent), ["q1 mine", "q1 his", "fin"]);
    let ends = [1, 4].map(|seq| id_text(id_at(seq)));
    let expected = format!("<first>{}</first><last>{}</last>", ends[0], ends[1]);
    assert!(sent.contains(&expected), "it goes on behind all of it: {sent}");
}

#[test]
fn a_filter_by_a_resource_shows_what_was_said_there() {
    let mut side = available();
    says(&mut side, &with("1", "bob@a.example/phone"));
    let (number, range) = asked(&mut side).pop().expect("asked");
    assert_eq!(range.with, Some(address("bob").into()));
    let desk = Arc::new(ChatMessage {
        device: "desk".into(),
        ..ChatMessage::clone(&said("bob", "ann", 3, "there"))
    });
    let page = [said("bob", "ann", 1, "here"), said("ann", "bob", 2, "mine"), desk];
    let sent = told(&mut side, given(number, &page, Some(3)));
    assert_eq!(pieces(&sent), ["q1 here", "fin"]);
    assert!(sent.contains(&format!("<last>{}</last>", stanza_id(&page[2]))), "{sent}");
}

#[test]
fn a_flipped_page_is_the_same_in_reverse() {
    let mut side = available();
    says(&mut side, &query("1", "<flip-page/>"));
    let number = number(&mut side);
    let page = [1, 2, 3].map(|seq| said("bob", "ann", seq, &seq.to_string()));
    let sent = told(&mut side, given(number, &page, None));
    assert_eq!(pieces(&sent), ["q1 3", "q1 2", "q1 1", "fin whole"]);
    let [first, _, last] = page.each_ref().map(|message| stanza_id(message));
    assert!(sent.contains(&format!("<first>{first}</first><last>{last}</last>")), "{sent}");
}

#[test]
fn questions_are_answered_one_after_the_other() {
    let mut side = available();
    let none = with("3", "a.example");
    says(&mut side, &[query("1", ""), query("2", ""), none, query("4", "")].concat());
    let first = number(&mut side);
    let ping = "<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>";
    assert!(says(&mut side, ping).starts_with("<iq type='result' id='p'"), "others do not wait");
    let page = [said("bob", "ann", 1, "one")];
    assert_eq!(pieces(&told(&mut side, given(first, &page, None))), ["q1 one", "fin whole"]);
    let second = number(&mut side);
    assert_ne!(first, second);
    let sent = told(&mut side, failed(second, ChatFault::UnknownMessage));
    assert_eq!(pieces(&sent), ["query", "fin whole"], "nothing is with a domain, at once");
    assert!(sent.starts_with("<iq type='error' id='2' ") && sent.contains("<item-not-found "));
    let fourth = number(&mut side);
    let sent = told(&mut side, failed(fourth, ChatFault::Busy));
    assert!(sent.starts_with("<iq type='error' id='4' ") && sent.contains("<resource-constraint "));
    assert!(words(&mut side).is_empty());
}

#[test]
fn no_more_is_read_than_may_be_unanswered() {
    let mut side = available();
    side.limits.chat.requests_a_session_max = 2;
    let third = query("3", "");
    says(&mut side, &[query("1", ""), query("2", ""), third.clone()].concat());
    assert_eq!(side.untaken().len(), third.len());
    for id in ["q1", "q2", "q3"] {
        let number = number(&mut side);
        let page = [said("bob", "ann", 1, "x")];
        let sent = told(&mut side, given(number, &page, None));
        assert_eq!(pieces(&sent), [format!("{id} x"), "fin whole".into()]);
    }
    assert_eq!((side.untaken().len(), words(&mut side)), (0, Vec::new()));
}

#[test]
fn a_large_page_goes_out_in_parts_and_waits_for_who_does_not_read() {
    let mut side = available();
    says(&mut side, &[last_page("1", 10), query("2", "")].concat());
    let first = number(&mut side);
    let long = "x".repeat(40_000);
    let page = [1, 2, 3, 4].map(|seq| said("bob", "ann", seq, &long));
    let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
    out.set_backlog(1_000, 999);
    side.machine.command(now(), given(first, &page, None).into(), &mut out).expect("it goes on");
    assert!(out.bytes().is_empty() && out.take_tell_drained() && out.words().next().is_none());
    let drained = |side: &mut Side, backlog| {
        let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
        out.set_backlog(backlog, 999);
        side.machine.drained(now(), &mut out).expect("it goes on");
        let sent = String::from_utf8(out.bytes().clone()).expect("UTF-8");
        let asks = out.words().count();
        (pieces(&sent).len(), out.take_tell_drained(), asks)
    };
    assert_eq!(drained(&mut side, 1_000), (0, true, 0));
    assert_eq!(drained(&mut side, 0), (2, true, 0));
    let live = ChatDelivery::Message { seq: 13, message: message("bob", "phone", "ann", "now") };
    assert_eq!(bodies(&told(&mut side, live)), ["now"], "between its parts");
    let (count, _, asks) = drained(&mut side, 0);
    assert_eq!(count, 2);
    assert_eq!(asks, 1, "the inbox is acknowledged as before");
    assert_eq!(drained(&mut side, 0), (1, false, 1), "its end, and the next is asked for");
    side.close(now(), CloseReason::PeerReset);
}

#[test]
fn what_is_not_the_own_archive_is_nobody_s() {
    for (to, condition) in [
        ("bob@a.example", "forbidden"),
        ("nobody.at.all@a.example", "forbidden"),
        ("a.example", "service-unavailable"),
        ("bob@b.example", "remote-server-not-found"),
    ] {
        let mut side = available();
        let query = query("1", "").replace(" id='1'", &format!(" id='1' to='{to}'"));
        let sent = says(&mut side, &query);
        assert!(sent.contains(&format!("<{condition} ")), "{to}: {sent}");
        assert!(words(&mut side).is_empty());
    }
    let mut side = available();
    says(&mut side, &query("1", "").replace(" id='1'", " id='1' to='Ann@a.example'"));
    let number = number(&mut side);
    let sent = told(&mut side, given(number, &[], None));
    assert!(sent.starts_with("<iq type='result' id='1' from='Ann@a.example' "), "{sent}");
}

#[test]
fn the_form_and_the_policy_are_told() {
    let mut side = available();
    let ask = |side: &mut Side, kind: &str, inner: &str| {
        says(side, &format!("<iq type='{kind}' id='1'>{inner}</iq>"))
    };
    let reply =
        |inner: &str| format!("<iq type='result' id='1' to='ann@a.example/desk'>{inner}</iq>");
    let form = ask(&mut side, "get", &format!("<query xmlns='{MAM}'/>"));
    assert_eq!(form, reply(&crate::archive::form()));
    let always = format!("<prefs xmlns='{MAM}' default='always'><always/><never/></prefs>");
    let never = format!("<prefs xmlns='{MAM}' default='never'><always/><never/></prefs>");
    assert_eq!(ask(&mut side, "get", &format!("<prefs xmlns='{MAM}'/>")), reply(&always));
    assert_eq!(ask(&mut side, "set", &never), reply(&always), "it is as it is");
    let set = ask(&mut side, "set", &format!("<metadata xmlns='{MAM}'/>"));
    assert!(set.contains("<bad-request "), "{set}");
    assert!(words(&mut side).is_empty());
}

#[test]
fn where_the_archive_begins_and_ends_is_told() {
    let mut side = available();
    let ask = format!("<iq type='get' id='1'><metadata xmlns='{MAM}'/></iq>");
    says(&mut side, &ask);
    let (number, range) = asked(&mut side).pop().expect("asked");
    assert_eq!(range, ArchiveRange::whole(false, 1));
    assert_eq!(told(&mut side, given(number, &[], Some(5))), "", "groups are in front");
    let (number, range) = asked(&mut side).pop().expect("asked");
    assert_eq!(range, ArchiveRange { after: vec![id_at(5)], ..ArchiveRange::whole(false, 1) });
    let first = said("bob", "ann", 6, "first");
    told(&mut side, given(number, std::slice::from_ref(&first), Some(6)));
    let (number, range) = asked(&mut side).pop().expect("asked");
    assert_eq!(range, ArchiveRange::whole(true, 1));
    let last = said("bob", "ann", 9, "last");
    let sent = told(&mut side, given(number, std::slice::from_ref(&last), Some(9)));
    let inner = crate::archive::metadata(Some(&first), Some(&last));
    assert!(sent.contains(&inner), "{sent}");
    says(&mut side, &ask);
    let (number, _) = asked(&mut side).pop().expect("asked");
    let sent = told(&mut side, given(number, &[], None));
    assert!(sent.contains("<metadata xmlns='urn:xmpp:mam:2'></metadata>"), "{sent}");
    assert!(words(&mut side).is_empty());
}

#[test]
fn a_count_is_not_known_and_a_bad_question_is_counted() {
    let mut side = available();
    let sent = says(&mut side, &query("1", &format!("<set xmlns='{RSM}'><max>0</max></set>")));
    let end = format!("<fin xmlns='{MAM}'><set xmlns='{RSM}'></set></fin>");
    assert!(sent.contains(&end), "{sent}");
    let bad = with("2", "no one");
    let sent = says(&mut side, &bad);
    assert!(sent.contains("<bad-request "), "{sent}");
    let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
    let (link, limits) = (encrypted(), side.limits.clone());
    let mut input = Input::new(bad.as_bytes(), &link, &limits);
    side.machine.receive(now(), &mut input, &mut out).expect("it goes on");
    let counted: Vec<_> = out.counts().collect();
    assert_eq!(counted, [model::counters::ChatCounter::Invalid]);
    assert!(words(&mut side).is_empty());
}

#[test]
fn what_is_given_counts_among_the_stanzas_of_a_stream() {
    let mut side = available();
    says(&mut side, "<enable xmlns='urn:xmpp:sm:3'/>");
    says(&mut side, &query("1", ""));
    let number = number(&mut side);
    let page = [1, 2, 3].map(|seq| said("bob", "ann", seq, "x"));
    told(&mut side, given(number, &page, None));
    says(&mut side, "<a xmlns='urn:xmpp:sm:3' h='4'/>");
    assert_eq!(side.ended, None, "three messages and an end");
    says(&mut side, "<a xmlns='urn:xmpp:sm:3' h='5'/>");
    assert_eq!(side.ended, Some(CloseReason::OutOfOrder));
}
