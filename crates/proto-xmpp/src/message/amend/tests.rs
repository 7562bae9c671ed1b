//! Amendments in stanzas, read and written.

use super::*;
use model::chat::ClientMessageId;

fn read(inner: &str) -> Option<AmendmentStanza> {
    let stanza = format!("<message xmlns='jabber:client' id='c1' type='chat'>{inner}</message>");
    said(&Scan::element(stanza.as_bytes()).expect("right").root())
}

fn message(to: &str, content: Content) -> ChatMessage {
    let name = |name| AccountAddress::parse(name, "a.example").expect("right");
    ChatMessage {
        id: 9,
        seq: 9,
        at_ms: 0,
        from: name("ann"),
        device: "".into(),
        to: name(to),
        client_id: ClientMessageId([7; 16]),
        content,
        amended: None,
    }
}

fn written(to: &str, content: Content) -> Option<String> {
    let mut out = Vec::new();
    put(&message(to, content), &mut out).then(|| String::from_utf8(out).expect("UTF-8"))
}

const REPLACE: &str = "<body>new</body><replace xmlns='urn:xmpp:message-correct:0' id='a1'/>";

#[test]
fn a_stanza_says_of_which_other_one_it_speaks_and_what() {
    let name = "a1".to_owned();
    let of = |verb| Some(AmendmentStanza { name: name.clone(), verb });
    assert_eq!(read(REPLACE), of(AmendmentVerb::Corrected));
    let reactions = "<reactions xmlns='urn:xmpp:reactions:0' id='a1'><reaction>👍</reaction>\
        <reaction> 🎉 </reaction><other/></reactions>";
    assert_eq!(read(reactions), of(AmendmentVerb::Reacts("👍 🎉".into())));
    let none = "<reactions xmlns='urn:xmpp:reactions:0' id='a1'/>";
    assert_eq!(read(none), of(AmendmentVerb::Reacts("".into())));
    let retract = "<retract xmlns='urn:xmpp:message-retract:1' id='a1'/><body>gone</body>";
    assert_eq!(read(retract), of(AmendmentVerb::Retracted));
}

#[test]
fn a_correction_keeps_the_languages_that_it_came_in() {
    let bodies = "<body xml:lang='en'>new</body><body xml:lang='de'>neu</body>";
    let replace = "<replace xmlns='urn:xmpp:message-correct:0' id='a1'/>";
    let stanza = format!("<message xmlns='jabber:client' id='c1'>{bodies}{replace}</message>");
    let scan = Scan::element(stanza.as_bytes()).expect("right");
    assert_eq!(said(&scan.root()).map(|it| it.verb), Some(AmendmentVerb::Corrected));
    let target = TargetMessage { seq: 1, id: 2, name: "a1".into() };
    let content = correction(&scan.root(), &target, "a1");
    assert_eq!(&*content.text, "new");
    let shown = written("bob", content).expect("it says something");
    let [en, de] = ["<body xml:lang='en'>new</body>", "<body xml:lang='de'>neu</body>"];
    assert!(shown.contains(en) && shown.contains(de), "{shown}");
    assert_eq!(shown.matches("<body").count(), 2, "{shown}");
}

#[test]
fn what_names_nothing_or_says_nothing_is_none() {
    for inner in [
        "<body>hello</body>",
        "<replace xmlns='urn:xmpp:message-correct:0' id='a1'/>",
        "<body>new</body><replace xmlns='urn:xmpp:message-correct:0'/>",
        "<body>new</body><replace xmlns='urn:xmpp:message-correct:0' id=''/>",
        "<reactions xmlns='urn:xmpp:reactions:0'/>",
        "<retract xmlns='urn:xmpp:other' id='a1'/>",
        "<displayed xmlns='urn:xmpp:chat-markers:0' id='a1'/>",
    ] {
        assert_eq!(read(inner), None, "{inner}");
    }
    let many = "<reaction>x</reaction>".repeat(1_000);
    let many = format!("<reactions xmlns='urn:xmpp:reactions:0' id='a1'>{many}</reactions>");
    let AmendmentVerb::Reacts(emoji) = read(&many).expect("one").verb else { panic!("it reacts") };
    assert_eq!(emoji.split(' ').count(), usize::from(EMOJI_HARD_MAX));
}

#[test]
fn a_correction_goes_along_by_its_messages_name_and_comes_back() {
    let stanza = format!(
        "<message xmlns='jabber:client' id='c2' type='chat'>{REPLACE}<x xmlns='urn:x'/></message>"
    );
    let scan = Scan::element(stanza.as_bytes()).expect("right");
    let target = TargetMessage { seq: 5, id: 7, name: "a1".into() };
    let content = correction(&scan.root(), &target, "a1");
    assert_eq!((content.kind, &*content.text), (Content::EDIT, "new"));
    let (read, beside) = TargetMessage::read(&content.extra).expect("a target");
    assert_eq!(read, target);
    let beside = std::str::from_utf8(beside).expect("text");
    assert_eq!(beside, "<message id=\"a1\" type=\"chat\"><x xmlns='urn:x'/></message>");
    let expected = "<body>new</body><replace xmlns='urn:xmpp:message-correct:0' id='a1'/>\
        <x xmlns='urn:x'/>";
    assert_eq!(written("bob", content.clone()).as_deref(), Some(expected));
    let plain = format!("<message xmlns='jabber:client' id='c2'>{REPLACE}</message>");
    let scan = Scan::element(plain.as_bytes()).expect("right");
    assert_eq!(&*correction(&scan.root(), &target, "a1").extra, b"5 7 a1");
    let gone = Content { text: "".into(), ..content };
    assert_eq!(written("bob", gone), None, "of what was called back");
}

#[test]
fn reactions_and_retractions_name_the_message_as_rooms_and_as_people_do() {
    let target = TargetMessage { seq: 5, id: 7, name: "a'1".into() };
    let reacts = reaction("👍 🎉", &target);
    let expected = "<reactions xmlns='urn:xmpp:reactions:0' id='a&apos;1'><reaction>👍</reaction>\
        <reaction>🎉</reaction></reactions><store xmlns='urn:xmpp:hints'/>";
    assert_eq!(written("bob", reacts.clone()).as_deref(), Some(expected));
    let room = "lunch@conference.a.example";
    let id = {
        let room = AccountAddress::parse(room, "").expect("right");
        id_text(ArchiveId::at((7, 5), &room, &room))
    };
    let in_room = written(room, reacts).expect("it is shown");
    assert!(in_room.contains(&format!("id='{id}'")), "{in_room}");
    let recall = Recall { seq: 5, id: 7 }.content("a1");
    let told = written("bob", recall).expect("it is shown");
    assert!(told.contains("<retract xmlns='urn:xmpp:message-retract:1' id='a1'/>"), "{told}");
    let unnamed = Recall { seq: 5, id: 7 }.content("");
    assert_eq!(written("bob", unnamed), None);
    let broken = Content { kind: Content::REACTION, ..Content::text("👍") };
    assert_eq!(written("bob", broken), None);
}

#[test]
fn what_is_written_of_another_message_is_xml_whatever_its_name_and_what_came_beside() {
    let target = |name: &str| TargetMessage { seq: 1, id: 2, name: name.into() };
    let is_xml = |written: &str| {
        let stanza = format!("<message xmlns='jabber:client'>{written}</message>");
        assert!(Scan::element(stanza.as_bytes()).is_ok(), "{written}");
    };
    for name in ["<", "a & b", "it's", "\u{1}", "&amp;"] {
        let extra = target(name).extra(b"");
        for kind in [Content::EDIT, Content::REACTION] {
            let content = Content { kind, extra: extra.clone(), ..Content::text("x") };
            is_xml(&written("bob", content).expect("it says something"));
        }
    }
    // A prefix that only the stanza itself declared goes, what declares its own stays.
    let beside = b"<message xmlns:p='urn:x'><p:x/><y xmlns='urn:y'/></message>";
    let extra = target("a1").extra(beside);
    let content = Content { kind: Content::EDIT, extra, ..Content::text("x") };
    let written = written("bob", content).expect("it says something");
    is_xml(&written);
    assert!(written.contains("<y xmlns='urn:y'/>") && !written.contains("p:x"), "{written}");
}
