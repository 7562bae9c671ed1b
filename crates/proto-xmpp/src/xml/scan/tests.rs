//! Input that is XML for a stream, and input that is not, limit by limit.

use super::*;

fn fault(text: &str) -> Option<StreamFault> {
    Scan::element(text.as_bytes()).err()
}

#[test]
fn elements_are_found_with_their_namespaces_attributes_and_texts() {
    let text = "<iq id='a&amp;b' type=\"set\"><query xmlns='x:y' p:q='1' xmlns:p='z'>\
        <item jid='a'/>t<p:item><deep><deeper a='1'/></deep></p:item>&lt;</query>\
        <other/></iq>";
    let scan = Scan::element(text.as_bytes()).expect("right");
    let iq = scan.root();
    assert!(iq.is("iq", CLIENT) && iq.whole() == text);
    assert_eq!(iq.attribute("id").as_deref(), Some("a&b"));
    assert_eq!((iq.attribute("type").as_deref(), iq.attribute("to")), (Some("set"), None));
    let query = iq.child("query", "x:y").expect("it is there");
    assert_eq!(query.attributes().collect::<Vec<_>>()[1], ("p:q", "1"));
    let items: Vec<_> = query.children().map(|it| (it.name(), it.namespace())).collect();
    assert_eq!(items, [("item", "x:y"), ("item", "z")]);
    assert_eq!(query.text(), "t<");
    assert!(query.children().nth(1).is_some_and(|item| item.has_prefix()));
    assert!(iq.child("other", CLIENT).is_some() && iq.child("other", "x:y").is_none());
    assert_eq!(iq.children().count(), 2);
}

#[test]
fn text_is_what_it_means() {
    let of = |text: &str| {
        let text = format!("<a>{text}</a>");
        Scan::element(text.as_bytes()).map(|scan| scan.root().text().into_owned())
    };
    assert_eq!(of("").as_deref(), Ok(""));
    assert_eq!(of("x &amp; y\r\nz").as_deref(), Ok("x & y\nz"));
    assert_eq!(
        of("1<![CDATA[<b>&amp;]]]]>2<b c='>'>no<d/>no</b>3<e/>").as_deref(),
        Ok("1<b>&amp;]]23")
    );
    assert_eq!(of("<![CDATA[]]>").as_deref(), Ok(""));
}

#[test]
fn what_is_no_xml_is_refused() {
    use StreamFault::*;
    for text in [
        "<a>",
        "<a></b>",
        "<a/>x",
        "<a/><a/>",
        "x<a/>",
        "<a b/>",
        "<a b=c/>",
        "<a b='1' b='2'/>",
        "<a b='1'c='2'/>",
        "<a b='<'/>",
        "<a b='&x;'/>",
        "<a>&x;</a>",
        "<a>]]></a>",
        "<a>\u{1}</a>",
        "<1/>",
        "<a:/>",
        "<:a/>",
        "<a:b:c/>",
        "<a:1/>",
        "<a:-b/>",
        "<a: b='1'/>",
        "<.a/>",
        "<a b='1<'/>",
        "< a/>",
        "<a ='1'/>",
        "<a b='1/>",
        "<a / >",
        "<a xmlns:p='x' xmlns:q='x' p:b='1' q:b='2'/>",
        "<a xmlns:xmlns='x'/>",
        "<a xmlns:xml='x'/>",
        "<a xmlns:b='http://www.w3.org/XML/1998/namespace'/>",
        "<a xmlns:p=''/>",
        "<a></a b>",
        "<a></ a>",
        "",
        "<",
        "<a><![CDATA[\u{2}]]></a>",
    ] {
        assert_eq!(fault(text), Some(NotWellFormed), "{text}");
    }
    assert_eq!(Scan::element(b"<a>\xff</a>").err(), Some(NotWellFormed));
    assert_eq!(Scan::element(b"<a>\xed\xa0\x80</a>").err(), Some(NotWellFormed));
    for text in ["<a><!-- --></a>", "<a><?b?></a>", "<a><!DOCTYPE x></a>"] {
        assert_eq!(fault(text), Some(RestrictedXml), "{text}");
    }
    for text in ["<p:a/>", "<a p:b='1'/>", "<a><b xmlns:p='x'/><p:c/></a>"] {
        assert_eq!(fault(text), Some(BadNamespacePrefix), "{text}");
    }
    assert_eq!(fault("<a xml:lang='en' xmlns:xml='http://www.w3.org/XML/1998/namespace'/>"), None);
}

#[test]
fn each_limit_is_reached_and_not_passed() {
    use StreamFault::PolicyViolation;
    let name = |bytes: usize| format!("<{}/>", "a".repeat(bytes));
    assert_eq!([256, 257].map(|n| fault(&name(n))), [None, Some(PolicyViolation)]);
    let attributes = |count: usize| {
        let all: String = (0..count).map(|n| format!(" a{n}=''")).collect();
        format!("<a{all}/>")
    };
    assert_eq!([64, 65].map(|n| fault(&attributes(n))), [None, Some(PolicyViolation)]);
    let elements = |count: usize| format!("<a>{}</a>", "<b/>".repeat(count - 1));
    assert_eq!([4_096, 4_097].map(|n| fault(&elements(n))), [None, Some(PolicyViolation)]);
    let deep = |depth: usize| "<a>".repeat(depth) + &"</a>".repeat(depth);
    assert_eq!([64, 65].map(|n| fault(&deep(n))), [None, Some(PolicyViolation)]);
}

#[test]
fn headers_are_read_with_their_declarations() {
    let tag = "<stream:stream xmlns='jabber:client' \
        xmlns:stream='http://etherx.jabber.org/streams' to='a'>";
    let of = |front: &str| {
        let text = format!("{front}{tag}");
        Scan::header(text.as_bytes()).map(|scan| scan.root().is("stream", STREAMS))
    };
    for front in [
        "",
        "<?xml version='1.0'?>",
        "<?xml version=\"1.0\" encoding='utf-8' standalone='yes' ?>\n ",
    ] {
        assert_eq!(of(front), Ok(true), "{front}");
    }
    assert_eq!(
        of("<?xml version='1.0' encoding='latin1'?>"),
        Err(StreamFault::UnsupportedEncoding)
    );
    for front in [
        "<?xml?>",
        "<?xml version='1.1'?>",
        "<?xml encoding='utf-8'?>",
        "<?xml version='1.0'x?>",
        "<?xml encoding='utf-8' version='1.0'?>",
        "<?xml version='1.0' version='1.0'?>",
    ] {
        assert_eq!(of(front), Err(StreamFault::NotWellFormed), "{front}");
    }
    let empty = Scan::header(b"<a/>").map(|_| ());
    assert_eq!(empty, Err(StreamFault::NotWellFormed));
}

#[test]
fn so_many_prefixes_are_known_at_once_and_no_more() {
    let of = |count: usize| {
        let declared: Vec<_> = (0..count).map(|at| format!("xmlns:p{at}='u'")).collect();
        let mut tags: Vec<_> = declared.chunks(ATTRIBUTES_MAX).map(|it| it.join(" ")).collect();
        let open: String = tags.iter().map(|it| format!("<a {it}>")).collect();
        let close = "</a>".repeat(tags.len());
        tags.clear();
        let text = format!("<m><b xmlns:gone='u'/>{open}<p0:c/>{close}</m>");
        Scan::element(text.as_bytes()).map(|_| ())
    };
    assert_eq!(of(PREFIXES_MAX), Ok(()));
    assert_eq!(of(PREFIXES_MAX + 1), Err(StreamFault::PolicyViolation));
}

#[test]
fn a_namespace_is_written_as_it_is_meant() {
    let of = |namespace: &str| fault(&format!("<a><delay xmlns={namespace}/></a>"));
    assert_eq!(of("'urn:xmpp:delay'"), None);
    // Else it would be another one here than for whoever is shown it.
    for namespace in [
        "'urn:xmpp:dela&#121;'",
        "'urn:xmpp:dela&#x79;'",
        "'a&amp;b'",
        "'a}b'",
        "'a b'",
        "'é'",
        "'a\tb'",
        "'a\nb'",
        "'a\"b'",
        "\"a'b\"",
    ] {
        assert_eq!(of(namespace), Some(StreamFault::PolicyViolation), "{namespace}");
    }
}

#[test]
fn the_prefix_of_streams_is_that_of_an_outermost_element_alone() {
    let scan = Scan::element(b"<stream:error><a/></stream:error>").expect("right");
    assert!(scan.root().is("error", STREAMS));
    // In a WebSocket nobody declares it around a stanza.
    let prefix = Some(StreamFault::BadNamespacePrefix);
    assert_eq!(fault("<message><stream:x/></message>"), prefix);
    assert_eq!(fault("<message><a stream:x='1'/></message>"), prefix);
    assert_eq!(fault("<message><stream:x xmlns:stream='y'/></message>"), None);
}

#[test]
fn names_are_of_letters_that_every_edition_of_xml_has() {
    for text in ["<a\u{132}/>", "<a><\u{10000}/></a>", "<a><b é='1'/></a>", "<a xmlns:é='b'/>"] {
        assert_eq!(fault(text), Some(StreamFault::PolicyViolation), "{text}");
    }
    assert_eq!(fault("<a><\u{d7}/></a>"), Some(StreamFault::NotWellFormed));
    assert_eq!(fault("<A_b-c.1:D xmlns:A_b-c.1='e'/>"), None);
}

#[test]
fn what_stands_alone_needs_no_header() {
    for (text, is_alone) in [
        ("<stream:x/>", false),
        ("<p:x xmlns:p='urn:x'/>", true),
        ("<x xmlns='urn:x'><stream:y xmlns:stream='urn:y'/></x>", true),
        ("<p:x/>", false),
        ("<x/>", true),
    ] {
        assert_eq!(Scan::alone(text).is_ok(), is_alone, "{text}");
    }
    assert!(Scan::element(b"<stream:x/>").is_ok(), "in a stream");
}
