//! Replies and mentions, read and written.

use super::*;
use crate::render::said;
use crate::xml::scan::Scan;
use model::chat::{ClientMessageId, TargetMessage};

const FALLBACK_OF_7: &str = "<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'>\
    <body start='0' end='7'/></fallback>";

fn read(inner: &str) -> (Content, Option<String>) {
    let stanza = format!("<message xmlns='jabber:client' type='chat'>{inner}</message>");
    let scan = Scan::element(stanza.as_bytes()).expect("right");
    (said(&scan.root()).expect("it says something").content, reply_of(&scan.root()))
}

fn name(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

fn written(to: &AccountAddress, content: Content) -> String {
    let message = ChatMessage {
        id: 9,
        seq: 9,
        at_ms: 0,
        from: name("ann"),
        device: "".into(),
        to: to.clone(),
        client_id: ClientMessageId([7; 16]),
        content,
        amended: None,
    };
    let mut out = Vec::new();
    put(&message, &mut out);
    String::from_utf8(out).expect("UTF-8")
}

fn quoting(text: &str, quoted: &str, id: &str) -> Content {
    let target = TargetMessage { seq: 1, id: 2, name: id.into() };
    let quote = Quote { target, from: Some(name("bob")), text: quoted.into() };
    Content { quote: Some(Box::new(quote)), ..Content::text(text) }
}

#[test]
fn a_reply_is_a_text_without_what_stands_there_for_others() {
    let reply = "<reply xmlns='urn:xmpp:reply:0' to='bob@a.example' id='a1'/>";
    let (content, id) = read(&format!("<body>&gt; 今天 &amp;\nyes</body>{reply}{FALLBACK_OF_7}"));
    assert_eq!((content, id.as_deref()), (Content::text("yes"), Some("a1")));
    let (content, id) = read(&format!("<body>yes</body>{reply}"));
    assert_eq!((&*content.text, content.kind, id.is_some()), ("yes", Content::TEXT, true));
    let (content, id) = read(&format!("<body>&gt; hello\nyes</body>{FALLBACK_OF_7}"));
    assert_eq!((&*content.text, id), ("> hello\nyes", None), "nothing says what it replies to");
}

#[test]
fn what_no_text_has_is_not_cut_out_of_it() {
    let reply = "<reply xmlns='urn:xmpp:reply:0' id='a1'/>";
    for range in ["start='3' end='2'", "start='0' end='99'", "start='-1' end='2'", "end='2'", ""] {
        let fallback = format!(
            "<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'>\
             <body {range}/></fallback>"
        );
        assert_eq!(&*read(&format!("<body>hello</body>{reply}{fallback}")).0.text, "hello");
    }
    let other = FALLBACK_OF_7.replace("reply", "other");
    let (content, _) = read(&format!("<body>hello you</body>{reply}{other}"));
    assert_eq!((&*content.text, content.kind), ("hello you", Content::STANZA), "it is not of that");
}

#[test]
fn a_reply_is_written_for_those_who_know_them_and_for_those_who_do_not() {
    let content = quoting("yes", "one\ntwo é", "it's");
    assert_eq!(body_of(&content, "yes"), "> one\n> two é\nyes");
    let to_bob = written(&name("bob"), content.clone());
    assert_eq!(
        to_bob,
        "<reply xmlns='urn:xmpp:reply:0' id='it&apos;s' to='bob@a.example'/>\
         <fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'>\
         <body start='0' end='14'/></fallback>"
    );
    let body = body_of(&content, "yes").replace('>', "&gt;");
    assert_eq!(read(&format!("<body>{body}</body>{to_bob}")).0, Content::text("yes"));
    let later = quoting("yes", "", "a1");
    assert_eq!(body_of(&later, "yes"), "yes", "its text is stored nowhere");
    assert!(!written(&name("bob"), later).contains("fallback"));
    assert_eq!(written(&name("bob"), quoting("yes", "", "")), "", "nobody knows it by an id");
    let group = AccountAddress::of_group(7, "a.example").expect("right");
    let in_room = written(&group, quoting("yes", "", ""));
    assert!(in_room.contains("id='") && !in_room.contains("to="), "{in_room}");
}

#[test]
fn people_are_mentioned_by_their_addresses_and_in_rooms_by_name() {
    let mention = |uri: &str| {
        format!("<reference xmlns='urn:xmpp:reference:0' type='mention' uri='{uri}' begin='0'/>")
    };
    let group = AccountAddress::of_group(7, "a.example").expect("right");
    let all = [format!("xmpp:{group}/Bob"), format!("xmpp:{group}/eve@b.example")];
    let all = [&["xmpp:ann@a.example".to_owned()][..], &all].concat();
    let inner: String = all.iter().map(|uri| mention(uri)).collect();
    let (content, _) = read(&format!("<body>all of you</body>{inner}"));
    let mentions = content.mentions.clone().expect("somebody");
    let names: Vec<&str> = mentions.accounts.iter().map(Addressee::as_str).collect();
    assert_eq!(names, ["ann@a.example", "bob@a.example", "eve@b.example"]);
    assert_eq!((content.kind, content.extra.len(), mentions.everybody), (Content::TEXT, 0, false));
    let (content, _) = read(&format!("<body>x</body>{}", mention(&format!("xmpp:{group}"))));
    assert!(content.mentions.as_deref().is_some_and(|it| it.everybody));
    let told = written(&group, content);
    assert_eq!(told.matches(&format!("uri='xmpp:{group}'")).count(), 1, "{told}");
    let one =
        Content { mentions: Mentions::of(vec![name("bob").into()], true), ..Content::text("x") };
    assert_eq!(written(&name("bob"), one).matches("<reference").count(), 1, "two are no room");
}

#[test]
fn a_reference_to_nobody_is_kept_as_it_came() {
    for (kind, uri) in [
        ("data", "xmpp:ann@a.example"),
        ("mention", "https://a.example"),
        ("mention", "xmpp:a.example"),
        ("mention", "xmpp:"),
    ] {
        let it = format!("<reference xmlns='urn:xmpp:reference:0' type='{kind}' uri='{uri}'/>");
        let (content, _) = read(&format!("<body>x</body>{it}"));
        assert_eq!((content.kind, content.mentions.clone()), (Content::STANZA, None), "{uri}");
        assert!(String::from_utf8_lossy(&content.extra).contains(&it), "{uri}");
    }
}
