//! Questions about archives: what is taken, what is refused and how.

use super::*;
use crate::xml::scan::Scan;

fn read(inner: &str) -> Result<ArchiveQuery, StanzaFault> {
    read_with("", inner)
}

fn read_with(attributes: &str, inner: &str) -> Result<ArchiveQuery, StanzaFault> {
    let query = format!("<iq><query xmlns='urn:xmpp:mam:2'{attributes}>{inner}</query></iq>");
    let scan = Scan::element(query.as_bytes()).expect("XML");
    ArchiveQuery::read(&scan.root().children().next().expect("it is there"))
}

/// A form with these fields: names and values.
fn form_of(fields: &[(&str, &[&str])]) -> String {
    let ours: (&str, &[&str]) = ("FORM_TYPE", &["urn:xmpp:mam:2"]);
    let field = |(name, values): &(&str, &[&str])| {
        let values: String = values.iter().map(|value| format!("<value>{value}</value>")).collect();
        format!("<field var='{name}'>{values}</field>")
    };
    let fields: String = [ours].iter().chain(fields).map(field).collect();
    format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>")
}

fn set(inner: &str) -> String {
    format!("<set xmlns='http://jabber.org/protocol/rsm'>{inner}</set>")
}

fn range(inner: &str) -> ArchiveRange {
    *read(inner).expect("a question").range.expect("a range")
}

const ONE: ArchiveId = ArchiveId { number: 510_613_618_950_144_001, seq: 7, pair: 0 };
const OTHER: ArchiveId = ArchiveId { number: u64::MAX, seq: 1, pair: 0x80_0001 };

#[test]
fn an_id_is_read_as_it_was_written_and_what_is_none_is_not() {
    for id in [ONE, OTHER, ArchiveId { number: 0, seq: 0, pair: 0 }] {
        let text = id_text(id);
        assert_eq!((text.len(), read_id(&text)), (22, Some(id)));
        for wrong in
            [&text[1..], &format!("{text}A"), &format!("{text}=="), &text.replace('A', "*")]
        {
            assert!(read_id(wrong) != Some(id), "{wrong}");
        }
    }
    assert_ne!(id_text(ONE), id_text(ArchiveId { seq: 8, ..ONE }));
    assert_ne!(id_text(ONE), id_text(ArchiveId { pair: 8, ..ONE }));
    for wrong in ["", "x", "28482-98726-73623", "AAAAAAAAAAAAAAAAAAAAA", "ÄAAAAAAAAAAAAAAAAAAAAA"]
    {
        assert_eq!(read_id(wrong), None, "{wrong}");
    }
    // The last character has bits that are no part of it: they must not be there.
    assert_eq!(read_id("AAAAAAAAAAAAAAAAAAAAAB"), None);
}

#[test]
fn a_question_without_anything_is_for_the_first_page_of_all() {
    let whole = ArchiveRange::whole(false, PAGE_MESSAGES);
    let query = ArchiveQuery {
        range: Some(Box::new(whole.clone())),
        is_whole: false,
        query_id: None,
        device: None,
        speaker: None,
        flips: false,
    };
    assert_eq!(read(""), Ok(query.clone()));
    assert_eq!(read(&form_of(&[])), Ok(query.clone()));
    assert_eq!(read(&set("")), Ok(query.clone()));
    let empty: &[(&str, &[&str])] =
        &[("with", &[""]), ("start", &[]), ("after-id", &[""]), ("ids", &[]), ("end", &[])];
    assert_eq!(read(&form_of(empty)), Ok(query.clone()), "what is left empty is not asked for");
    let named = Some("<f&27>".into());
    assert_eq!(
        read_with(" queryid='&lt;f&amp;27&gt;'", "<flip-page/>"),
        Ok(ArchiveQuery { query_id: named, flips: true, ..query })
    );
    assert_eq!(range(&set("<before/>")), ArchiveRange { backwards: true, ..whole });
}

#[test]
fn all_that_is_asked_for_is_in_the_range() {
    let (one, other) = (id_text(ONE), id_text(OTHER));
    let form = form_of(&[
        ("with", &["Bob@A.example"]),
        ("start", &["2023-11-14T22:13:20.0001Z"]),
        ("end", &["2023-11-14T22:13:20.0079Z"]),
        ("after-id", &[&one]),
        ("before-id", &[&other]),
        ("include-groupchat", &["true"]),
    ]);
    let bob = AccountAddress::parse("bob", "a.example").expect("right");
    let expected = ArchiveRange {
        with: Some(bob.clone().into()),
        after: vec![ONE],
        before: vec![OTHER, ONE],
        named: vec![],
        since_ms: 1_700_000_000_001,
        until_ms: 1_700_000_000_007,
        backwards: true,
        count: 10,
    };
    let paged = form.clone() + &set(&format!("<max> 10 </max><before>{one}</before>"));
    assert_eq!(range(&paged), expected);
    let paged = form + &set(&format!("<max>10</max><after>\n{other}</after><before/>"));
    let (after, before) = (vec![ONE, OTHER], vec![OTHER]);
    assert_eq!(range(&paged), ArchiveRange { after, before, backwards: false, ..expected });
    let named = range(&form_of(&[("ids", &[&one, &other])])).named;
    assert_eq!(named, [ONE, OTHER]);
    let query = read(&form_of(&[("with", &["bob@a.example/Desk"])])).expect("a question");
    assert_eq!(query.device, Some((bob, "Desk".into())));
}

#[test]
fn a_page_is_as_large_as_is_asked_for_within_what_there_may_be() {
    let most = |text: &str| read(&set(&format!("<max>{text}</max>"))).map(|it| it.range);
    for (text, count) in [("1", 1), ("256", 256), ("257", 256), ("99999999999999999999", 256)] {
        assert_eq!(most(text).expect("a question").expect("a range").count, count, "{text}");
    }
    assert_eq!(most("0"), Ok(None), "nothing is counted");
    for text in ["", "x", "-1", "1.5", "+1"] {
        assert_eq!(most(text), Err(StanzaFault::BadRequest), "{text}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_its_own_condition() {
    let (bad, unknown) = (StanzaFault::BadRequest, StanzaFault::ItemNotFound);
    let form = |name: &str, values: &[&str]| form_of(&[(name, values)]);
    let long = format!(" queryid='{}'", "x".repeat(QUERY_ID_BYTES_MAX + 1));
    assert_eq!(read_with(&long, ""), Err(bad));
    assert_eq!(read_with(" node='x'", ""), Err(unknown));
    let id = id_text(ONE);
    let too_many = vec![&*id; ARCHIVE_NAMED_MAX + 1];
    let twice = form_of(&[("with", &["bob@a.example"]), ("with", &["bob@a.example"])]);
    for (question, fault) in [
        (form("with", &["b ob@a.example"]), bad),
        (form("with", &["bob@a.example", "ann@a.example"]), bad),
        (form("start", &["yesterday"]), bad),
        (form("end", &["2023-02-30T00:00:00Z"]), bad),
        (form("include-groupchat", &["perhaps"]), bad),
        (form("FORM_TYPE", &["urn:xmpp:mam:2"]), bad),
        (form("{urn:x}search", &["x"]), StanzaFault::FeatureNotImplemented),
        (form("before-id", &["x"]), unknown),
        (form("after-id", &["x"]), unknown),
        (form("ids", &[&id, "x"]), unknown),
        (form("ids", &too_many), StanzaFault::PolicyViolation),
        (twice, bad),
        (form_of(&[]).replace("submit", "cancel"), bad),
        (form_of(&[]).replace(":mam:2", ":mam:1"), bad),
        (form_of(&[]).replace("FORM_TYPE", "with"), bad),
        (form_of(&[]).replace(" var='FORM_TYPE'", ""), bad),
        ("<x xmlns='jabber:x:data' type='submit'/>".into(), bad),
        (form_of(&[]).repeat(2), bad),
        (set("").repeat(2), bad),
        (set("<max>1</max><max>1</max>"), bad),
        (set("<after>x</after>"), unknown),
        (set("<before>x</before>"), unknown),
        (set("<index>5</index>"), StanzaFault::FeatureNotImplemented),
    ] {
        assert_eq!(read(&question), Err(fault), "{question}");
    }
}

#[test]
fn with_a_domain_itself_nothing_was_ever_said() {
    let form = form_of(&[("with", &["a.example"])]);
    let query = read(&form).expect("a question");
    assert_eq!((query.range, query.is_whole), (None, true));
    let after = set(&format!("<after>{}</after>", id_text(ONE)));
    assert_eq!(read(&(form + &after)), Err(StanzaFault::ItemNotFound));
}

#[test]
fn the_form_has_each_field_that_is_read() {
    let form = form();
    let scan = Scan::element(form.as_bytes()).expect("XML");
    let x = scan.root().child("x", FORMS).expect("a form");
    let names: Vec<_> = x.children().filter_map(|field| field.attribute("var")).collect();
    assert_eq!(names, FIELDS);
    assert!(form.contains("<field type='jid-single' var='with'></field>"), "{form}");
    assert!(!form.contains("required"));
}

#[test]
fn the_end_of_a_page_says_where_it_goes_on() {
    let message = |seq| {
        let address = |name| AccountAddress::parse(name, "a.example").expect("right");
        std::sync::Arc::new(ChatMessage {
            id: 5,
            seq,
            at_ms: 1_700_000_000_007,
            from: address("ann"),
            device: "".into(),
            to: address("bob"),
            client_id: model::chat::ClientMessageId([7; 16]),
            content: model::chat::Content::text("a"),
            amended: None,
        })
    };
    let text = |seq| id_text(ArchiveId::of(&message(seq)));
    let page = |seqs: &[u64], goes_on: Option<u64>| ArchivePage {
        number: 1,
        messages: seqs.iter().map(|seq| message(*seq)).collect(),
        goes_on: goes_on.map(|seq| ArchiveId::of(&message(seq))),
    };
    let ends = |whole: &str, first: &str, last: &str| {
        format!(
            "<fin xmlns='urn:xmpp:mam:2'{whole}><set xmlns='http://jabber.org/protocol/rsm'>\
             <first>{first}</first><last>{last}</last></set></fin>"
        )
    };
    let whole = " complete='true'";
    assert_eq!(fin(&page(&[2, 3, 4], None), false), ends(whole, &text(2), &text(4)));
    assert_eq!(fin(&page(&[2, 3, 4], Some(4)), false), ends("", &text(2), &text(4)));
    assert_eq!(fin(&page(&[2, 3], Some(9)), false), ends("", &text(2), &text(9)));
    assert_eq!(fin(&page(&[2, 3], Some(1)), true), ends("", &text(1), &text(3)));
    assert_eq!(fin(&page(&[], Some(9)), false), ends("", &text(9), &text(9)));
    assert_eq!(fin(&page(&[], Some(9)), true), ends("", &text(9), &text(9)));
    assert_eq!(fin(&page(&[], None), true), fin_of_nothing(true));
    assert!(!fin_of_nothing(true).contains("first") && !fin_of_nothing(false).contains("complete"));
    let ends = metadata(Some(&message(1)), Some(&message(2)));
    assert_eq!(
        ends,
        format!(
            "<metadata xmlns='urn:xmpp:mam:2'><start id='{}' timestamp='2023-11-14T22:13:20.007Z'/>\
             <end id='{}' timestamp='2023-11-14T22:13:20.007Z'/></metadata>",
            text(1),
            text(2)
        )
    );
    assert_eq!(metadata(None, None), "<metadata xmlns='urn:xmpp:mam:2'></metadata>");
}

#[test]
fn what_a_room_has_is_asked_of_the_room_and_by_whom_of_its_occupants() {
    let room = AccountAddress::parse("yard", "conference.a.example").expect("an address");
    let of_room = |with: &str| {
        let inner = form_of(&[("with", &[with])]);
        let query = format!("<iq><query xmlns='urn:xmpp:mam:2'>{inner}</query></iq>");
        let scan = Scan::element(query.as_bytes()).expect("XML");
        let query = scan.root().children().next().expect("it is there");
        ArchiveQuery::of_room(&query, &room)
    };
    let whole = of_room("").expect("a question");
    let asked = whole.range.as_ref().expect("a range");
    assert_eq!(asked.with, Some(room.clone().into()));
    assert_eq!((&whole.speaker, &whole.device), (&None, &None));
    assert_eq!(of_room("yard@conference.a.example"), Ok(whole), "the room itself is all of it");
    for (with, speaker) in [
        ("yard@conference.a.example/ann", "ann@a.example"),
        ("yard@conference.a.example/eve@b.example", "eve@b.example"),
        ("ann@a.example", "ann@a.example"),
    ] {
        let query = of_room(with).expect("a question");
        assert_eq!(query.speaker.as_ref().map(AccountAddress::as_str), Some(speaker));
        assert_eq!(query.device, None, "{with}");
        assert_eq!(query.range.and_then(|it| it.with), Some(room.clone().into()));
    }
    let device = of_room("ann@a.example/phone").expect("a question").device;
    assert_eq!(device.map(|(_, device)| device), Some("phone".into()));
    // In an account's own archive there is nothing of rooms.
    let own = read(&form_of(&[("with", &["yard@conference.a.example"])])).expect("a question");
    assert!(own.range.is_none() && own.is_whole);
}
