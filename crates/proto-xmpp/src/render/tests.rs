//! Stanzas to messages and back: what is kept, what is taken out, what is shown.

use super::*;
use model::account::AccountAddress;

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

fn said_of(stanza: &str) -> Option<StanzaContent> {
    let scan = Scan::element(stanza.as_bytes()).expect("XML");
    said(&scan.root())
}

fn message(said: StanzaContent, device: &str) -> ChatMessage {
    let address = |name| AccountAddress::parse(name, "a.example").expect("right");
    ChatMessage {
        id: 1,
        seq: 1,
        at_ms: 1_700_000_000_007,
        from: address("ann"),
        device: device.into(),
        to: address("bob"),
        client_id: said.client_id.unwrap_or(ClientMessageId([7; 16])),
        content: said.content,
        amended: None,
    }
}

const LIVE: Rendering<'_> =
    Rendering { reader: "bob@a.example/r", delayed_by: None, is_carbon: false, asks: false };

/// A message as written, without the server's own id, which is always there.
fn written(message: &ChatMessage, how: Rendering<'_>) -> Option<String> {
    let mut out = Vec::new();
    let is_written = write(message, how, &mut out);
    assert_eq!(is_written, !out.is_empty());
    let text = is_written.then(|| String::from_utf8(out).expect("UTF-8"))?;
    assert!(Scan::element(text.as_bytes()).is_ok(), "{text}");
    let by = how.reader.split('/').next().expect("a bare JID");
    let id = stanza_id(message);
    let stanza_id = format!("<stanza-id xmlns='urn:xmpp:sid:0' id='{id}' by='{by}'/>");
    assert_eq!(text.matches(&stanza_id).count(), 1, "{text}");
    Some(text.replace(&stanza_id, ""))
}

fn round(stanza: &str) -> String {
    written(&message(said_of(stanza).expect("it says something"), "desk"), LIVE).expect("shown")
}

#[test]
fn a_stanza_with_a_body_alone_is_a_plain_text() {
    let stanza = format!("<message id='{UUID}' type='chat' to='x'><body>a &lt; b</body></message>");
    let said = said_of(&stanza).expect("it says something");
    assert_eq!(said.content, Content::text("a < b"));
    assert_eq!(said.client_id.map(ClientMessageId::text).as_deref(), Some(UUID));
    assert_eq!(
        round(&stanza),
        format!(
            "<message xmlns='jabber:client' from='ann@a.example/desk' to='bob@a.example' \
             type='chat' id='{UUID}'><body>a &lt; b</body></message>"
        )
    );
}

#[test]
fn a_text_in_any_language_is_said_and_shown_in_all_that_it_came_in() {
    let (en, de) = ("<body xml:lang='en'>hi</body>", "<body xml:lang='de'>hallo</body>");
    for (attribute, bodies, text, shown) in [
        ("", de.to_owned(), "hallo", de.to_owned()),
        ("", format!("{en}{de}"), "hi", format!("{en}{de}")),
        (" xml:lang='de'", format!("{en}{de}"), "hallo", format!("{de}{en}")),
        ("", format!("{de}<body>hey</body>{en}"), "hey", format!("<body>hey</body>{de}{en}")),
        ("", format!("<body xml:lang='fr'/><body/>{de}"), "hallo", de.to_owned()),
    ] {
        let stanza = format!("<message id='1' type='chat'{attribute}>{bodies}</message>");
        let said = said_of(&stanza).expect("it says something");
        assert_eq!((&*said.content.text, said.content.counts), (text, true), "{bodies}");
        let live = round(&stanza);
        assert!(live.ends_with(&format!("{attribute}>{shown}</message>")), "{live}");
        let mut abroad = Vec::new();
        assert!(write_out(&message(said.clone(), "desk"), &mut abroad));
        assert!(String::from_utf8_lossy(&abroad).contains(&shown), "{shown}");
        let to = AccountAddress::parse("r@conference.a.example", "a.example").expect("right");
        let in_room = ChatMessage { to, ..message(said, "desk") };
        let how = room::RoomRendering { to: Some("x"), is_delayed: false, is_abroad: false };
        let mut out = Vec::new();
        assert!(room::write_in_room(&in_room, how, &mut out));
        assert!(String::from_utf8_lossy(&out).contains(&format!(">{shown}<stanza-id")), "{shown}");
    }
}

#[test]
fn what_else_is_said_stays_as_it_was() {
    let rest = "<active xmlns='http://jabber.org/protocol/chatstates'/>\
        <body xml:lang='de'>hallo</body><p:x a=\"'&gt;\"><![CDATA[<]]></p:x><thread>t</thread>";
    let stanza = format!(
        "<message id='1' to='x' from='y' xml:lang='en' xmlns:p='q'><body>hi</body>{rest}</message>"
    );
    let said = said_of(&stanza).expect("it says something");
    assert_eq!((said.client_id, said.content.kind), (None, Content::STANZA));
    assert_eq!((&*said.content.text, said.content.counts), ("hi", true));
    assert_eq!(
        round(&stanza),
        format!(
            "<message xmlns='jabber:client' from='ann@a.example/desk' to='bob@a.example' id='1' \
             xml:lang='en' xmlns:p='q'><body>hi</body>{rest}</message>"
        )
    );
}

#[test]
fn ids_that_tell_a_resend_are_those_of_origin_first() {
    let with = |id: &str, origin: &str| {
        let origin = format!("<origin-id xmlns='urn:xmpp:sid:0' id='{origin}'/>");
        let stanza = format!("<message id='{id}' type='chat'><body>x</body>{origin}</message>");
        said_of(&stanza).expect("it says something").client_id.map(ClientMessageId::text)
    };
    let other = "ffffffff-89ab-cdef-0123-456789abcdef";
    assert_eq!(with("1", UUID).as_deref(), Some(UUID));
    assert_eq!(with(other, &UUID.to_uppercase()).as_deref(), Some(UUID));
    assert_eq!(with(other, "x").as_deref(), Some(other));
    let digits = UUID.replace('-', "");
    assert_eq!(with(&digits, "x"), with(UUID, "x"), "as Python writes it");
    for no_uuid in ["", "1", &UUID.replace('-', "0"), &UUID.replace('a', "g"), &digits[1..]] {
        assert_eq!(with(no_uuid, "x"), None, "{no_uuid}");
    }
}

#[test]
fn what_only_a_server_says_is_taken_out_on_both_ways() {
    let forged = "<stanza-id xmlns='urn:xmpp:sid:0' id='1' by='a.example'/>\
        <delay xmlns='urn:xmpp:delay' stamp='1970-01-01T00:00:00Z'/>\
        <occupant-id xmlns='urn:xmpp:occupant-id:0' id='x'/>\
        <x xmlns='http://jabber.org/protocol/muc#user'/>";
    let stanza = format!("<message type='normal'><body>x</body>{forged}</message>");
    let mut said = said_of(&stanza).expect("it says something");
    assert_eq!(&*said.content.extra, b"<message type=\"normal\"></message>");
    said.content.extra = stanza.into_bytes().into();
    let text = written(&message(said, "desk"), LIVE).expect("shown");
    assert!(!text.contains("xmlns='urn") && text.contains("type='normal'"), "{text}");
}

#[test]
fn what_somebody_put_there_is_shown_only_if_it_is_a_message() {
    for extra in [
        "",
        "x",
        "<message>",
        "<message></message><message/>",
        "<iq/>",
        "<message xmlns='x'/>",
        "<message><p:x/></message>",
        "</message><presence/>",
    ] {
        let extra = extra.as_bytes().into();
        let content = Content { kind: Content::STANZA, extra, ..Content::text("hi") };
        let text = written(&message(StanzaContent { client_id: None, content }, "phone"), LIVE);
        let text = text.expect("its text is shown");
        assert!(text.ends_with("'><body>hi</body></message>"), "{text}");
    }
}

#[test]
fn without_a_body_only_what_asks_for_it_is_kept() {
    assert_eq!(said_of("<message><composing xmlns='x'/></message>"), None);
    let kept = said_of("<message><a xmlns='b'/><store xmlns='urn:xmpp:hints'/></message>");
    let kept = kept.expect("it asks for it");
    assert!(!kept.content.counts && kept.content.text.is_empty());
    assert!(written(&message(kept, "d"), LIVE).is_some_and(|text| text.contains("<a xmlns='b'/>")));
    let nothing = Content { kind: 1_000, extra: [1].into(), ..Content::default() };
    assert_eq!(
        written(&message(StanzaContent { client_id: None, content: nothing }, "d"), LIVE),
        None
    );
}

#[test]
fn what_any_protocol_said_is_xml() {
    let content = Content::text("\u{1b}[2J]]> & \u{0}");
    let odd = message(StanzaContent { client_id: None, content }, "a\nb");
    let text = written(&odd, LIVE).expect("shown");
    assert!(text.contains("<body>\u{fffd}[2J]]&gt; &amp; \u{fffd}</body>"), "{text}");
    assert!(text.contains("from='ann@a.example' "), "{text}");
    let odd = message(StanzaContent { client_id: None, content: Content::text("x") }, "it's <me>");
    assert!(written(&odd, LIVE).is_some_and(|text| text.contains("/it&apos;s &lt;me&gt;'")));
}

#[test]
fn what_was_kept_says_since_when_and_ones_own_comes_as_a_carbon() {
    let plain = || message(StanzaContent { client_id: None, content: Content::text("x") }, "desk");
    let late = Rendering { delayed_by: Some("a.example"), ..LIVE };
    let text = written(&plain(), late).expect("shown");
    let delay = "<delay xmlns='urn:xmpp:delay' from='a.example' stamp='2023-11-14T22:13:20.007Z'/>";
    assert!(text.ends_with(&format!("{delay}</message>")), "{text}");
    let carbon = Rendering { reader: "ann@a.example/it's", is_carbon: true, ..LIVE };
    let text = written(&plain(), carbon).expect("shown");
    assert!(text.starts_with(
        "<message from='ann@a.example' to='ann@a.example/it&apos;s' type='chat'>\
         <sent xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'>\
         <message xmlns='jabber:client' from='ann@a.example/desk' to='bob@a.example' type='chat'"
    ));
    let private =
        "<message type='chat'><body>x</body><private xmlns='urn:xmpp:carbons:2'/></message>";
    let private = message(said_of(private).expect("it says something"), "desk");
    assert_eq!(written(&private, carbon), None);
    assert!(written(&private, LIVE).is_some());
}

#[test]
fn what_is_for_one_device_is_shown_to_that_alone() {
    for hint in ["<private xmlns='urn:xmpp:carbons:2'/>", "<no-copy xmlns='urn:xmpp:hints'/>"] {
        let said = said_of(&format!("<message type='chat' id='7'><body>x</body>{hint}</message>"));
        let said = said.expect("it says something");
        let content = for_resource(said.content, "r's");
        assert_eq!(content.name(ClientMessageId([0; 16])), "7");
        let private = message(StanzaContent { content, ..said }, "desk");
        let reader = |reader| Rendering { reader, ..LIVE };
        let shown = written(&private, reader("bob@a.example/r's")).expect("shown");
        assert!(shown.contains("to='bob@a.example/r&apos;s'"), "{shown}");
        assert!(shown.contains("id='7'") && shown.contains(hint), "{shown}");
        assert_eq!(written(&private, LIVE), None);
        assert!(written(&private, reader("bob@a.example")).is_some(), "the archive has it");
        let carbon = Rendering { is_carbon: true, ..reader("ann@a.example/phone") };
        assert_eq!(written(&private, carbon), None);
    }
    // What is not private names its device, too, and is for all.
    for said in [
        "<message type='chat'><body>x</body></message>",
        "<message id='7'><body>x</body></message>",
    ] {
        let said = said_of(said).expect("it says something");
        let content = for_resource(said.content, "r");
        assert_eq!(content.resource(), Some("r"));
        let named = message(StanzaContent { content, ..said }, "desk");
        assert!(is_addressed_to(&named, "r") && !is_addressed_to(&named, "other"));
        let shown = written(&named, LIVE).expect("shown");
        assert!(
            shown.contains(" to='bob@a.example' ") && shown.contains("<body>x</body>"),
            "{shown}"
        );
    }
}

fn file(text: &str, note: &FileNote<'_>) -> ChatMessage {
    let content = Content { kind: Content::FILE, extra: note.write(), ..Content::text(text) };
    message(StanzaContent { client_id: None, content }, "phone")
}

#[test]
fn a_file_of_im_is_its_address_and_out_of_band_data() {
    let note = FileNote { url: "https://a.example/x?a&b", name: "x", ..FileNote::default() };
    let text = written(&file("a <cat>", &note), LIVE).expect("shown");
    let said = "<body>https://a.example/x?a&amp;b</body><x xmlns='jabber:x:oob'>\
                <url>https://a.example/x?a&amp;b</url><desc>a &lt;cat&gt;</desc></x>";
    assert!(text.contains(said), "{text}");
}

#[test]
fn a_file_of_xmpp_is_one_in_im_and_comes_back_as_it_was() {
    let rest = "<x xmlns='jabber:x:oob'><url>https://a.example/my%20cat.png</url></x>\
                <markable xmlns='urn:xmpp:chat-markers:0'/>";
    let stanza = format!(
        "<message id='1' type='chat'><body>https://a.example/my%20cat.png</body>{rest}</message>"
    );
    let content = said_of(&stanza).expect("it says something").content;
    assert_eq!((content.kind, &*content.text), (Content::FILE, "my cat.png"));
    let note = FileNote::parse(&content.extra).expect("a note");
    assert_eq!(
        (note.url, note.name, note.media_type),
        ("https://a.example/my%20cat.png", "my cat.png", "image/png")
    );
    let back = round(&stanza);
    let whole = format!("id='1'><body>https://a.example/my%20cat.png</body>{rest}</message>");
    assert!(back.ends_with(&whole), "{back}");
}

#[test]
fn what_is_no_file_alone_stays_what_it_is() {
    for stanza in [
        "<message><body>see https://a.example/x</body><x xmlns='jabber:x:oob'>\
         <url>https://a.example/x</url></x></message>",
        "<message><body>javascript:x</body><x xmlns='jabber:x:oob'><url>javascript:x</url></x>\
         </message>",
        "<message><body>https://a.example/x</body><x xmlns='jabber:x:oob'/></message>",
    ] {
        let content = said_of(stanza).expect("it says something").content;
        assert_eq!(content.kind, Content::STANZA, "{stanza}");
    }
}

#[test]
fn a_note_that_is_none_leaves_the_text_and_a_bent_stanza_in_one_is_not_shown() {
    let content = Content { kind: Content::FILE, ..Content::text("x") };
    let bare = message(StanzaContent { client_id: None, content }, "phone");
    assert!(written(&bare, LIVE).expect("shown").contains("<body>x</body></message>"));
    for bent in ["<message><y></message>", "<iq><y/></iq>", "</message><message>", "x"] {
        let note = FileNote { url: "https://a.example/x", stanza: bent, ..FileNote::default() };
        let text = written(&file("x", &note), LIVE).expect("shown");
        assert!(text.contains("<url>https://a.example/x</url>"), "{bent}: {text}");
        assert!(!text.contains("<y"), "{bent}: {text}");
    }
}
