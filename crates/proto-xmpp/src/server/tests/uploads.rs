//! Uploads over HTTP: what is found, asked and told (XEP-0363).

use super::harness::*;
use crate::xml::scan::Scan;
use model::chat::*;
use model::media::{UploadSlot, UploadWish};

const INFO: &str = "http://jabber.org/protocol/disco#info";

fn get(to: &str, inner: &str) -> String {
    format!("<iq type='get' id='u' to='{to}'>{inner}</iq>")
}

fn request(attributes: &str) -> String {
    get("upload.a.example", &format!("<request xmlns='urn:xmpp:http:upload:0' {attributes}/>"))
}

/// The upload request to the service, and its number.
fn asked(side: &mut Side) -> (u32, UploadWish) {
    match words(side).pop().expect("asked") {
        ChatRequest::Upload { number, wish, .. } => (number, *wish),
        other => panic!("{other:?}"),
    }
}

fn slot() -> ChatDelivery {
    ChatDelivery::Upload {
        number: 0,
        slot: Box::new(UploadSlot {
            put_url: "https://a.example/put?a&b".into(),
            headers: vec![
                ("Content-Type".into(), "image/png".into()),
                ("Authorization".into(), "Basic <x>".into()),
            ],
            get_url: "https://a.example/get".into(),
            put_until_s: 1,
            get_until_s: 2,
        }),
    }
}

#[test]
fn the_address_of_uploads_is_found_and_says_how_large_a_file_may_be() {
    let mut side = available();
    let items = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    let found = says(&mut side, &get("a.example", items));
    assert!(found.contains("<item jid='upload.a.example' name='Files'/>"), "{found}");
    let info = says(&mut side, &get("upload.a.example", &format!("<query xmlns='{INFO}'/>")));
    for part in [
        "from='upload.a.example'",
        "<identity category='store' type='file'",
        "<feature var='urn:xmpp:http:upload:0'/>",
        "<field var='max-file-size'><value>33554432</value></field>",
    ] {
        assert!(info.contains(part), "{part}: {info}");
    }
    let ping = says(&mut side, &get("upload.a.example", "<ping xmlns='urn:xmpp:ping'/>"));
    assert!(ping.contains("type='result'"), "{ping}");
    let other = says(&mut side, &get("upload.a.example", "<query xmlns='jabber:iq:version'/>"));
    assert!(other.contains("<service-unavailable"), "{other}");
}

#[test]
fn without_a_storage_there_is_no_such_address() {
    let mut side = available();
    side.limits.media.file_bytes_max = 0;
    let items = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    assert!(!says(&mut side, &get("a.example", items)).contains("upload."));
    let refused = says(&mut side, &request("filename='x' size='1'"));
    assert!(refused.contains("<remote-server-not-found"), "{refused}");
    assert!(words(&mut side).is_empty());
}

#[test]
fn a_slot_is_asked_for_and_told_with_the_headers_that_may_be_told() {
    let mut side = available();
    let wish = "filename='my cat.png' size='48213' content-type='image/png; a=b'";
    assert_eq!(says(&mut side, &request(wish)), "", "the service answers");
    let (number, wish) = asked(&mut side);
    let expected =
        UploadWish { name: "my cat.png".into(), media_type: "image/png".into(), bytes: 48_213 };
    assert_eq!(wish, expected);
    let ChatDelivery::Upload { slot, .. } = slot() else { unreachable!("it is one") };
    let said = told(&mut side, ChatDelivery::Upload { number, slot });
    assert_eq!(
        said,
        "<iq type='result' id='u' from='upload.a.example' to='ann@a.example/desk'>\
         <slot xmlns='urn:xmpp:http:upload:0'><put url='https://a.example/put?a&amp;b'>\
         <header name='Authorization'>Basic &lt;x&gt;</header></put>\
         <get url='https://a.example/get'/></slot></iq>"
    );
    assert!(Scan::element(said.as_bytes()).is_ok());
}

#[test]
fn each_refusal_has_its_own_words() {
    let mut side = available();
    for (why, condition, more) in [
        (
            ChatFault::TooLarge,
            "<error type='modify'><not-acceptable",
            "<file-too-large xmlns='urn:xmpp:http:upload:0'>\
             <max-file-size>33554432</max-file-size></file-too-large>",
        ),
        (
            ChatFault::UploadQuota,
            "<error type='wait'><resource-constraint",
            "<retry xmlns='urn:xmpp:http:upload:0' stamp='",
        ),
        (ChatFault::TypeRefused, "<error type='modify'><not-acceptable", "type are not taken"),
        (ChatFault::Invalid, "<error type='modify'><bad-request", ""),
        (ChatFault::Busy, "<error type='wait'><resource-constraint", ""),
    ] {
        says(&mut side, &request("filename='x' size='1'"));
        let (number, _) = asked(&mut side);
        let said = told(&mut side, ChatDelivery::Failed { number, why });
        assert!(said.contains(condition) && said.contains(more), "{why:?}: {said}");
        assert!(said.contains(" id='u' from='upload.a.example'"), "{said}");
        assert!(Scan::element(said.as_bytes()).is_ok(), "{said}");
    }
}

#[test]
fn a_size_that_is_none_is_the_services_to_refuse_and_a_set_is_no_question() {
    let mut side = available();
    for size in ["", "x", "-1", "99999999999999999999999"] {
        says(&mut side, &request(&format!("filename='x' size='{size}'")));
        assert_eq!(asked(&mut side).1.bytes, 0, "{size}");
    }
    let set = request("filename='x' size='1'").replace("'get'", "'set'");
    assert!(says(&mut side, &set).contains("<service-unavailable"));
    assert!(words(&mut side).is_empty());
}

#[test]
fn questions_about_files_count_with_what_is_not_answered() {
    let mut side = available();
    side.limits.chat.requests_a_session_max = 2;
    let three = request("filename='x' size='1'").repeat(3);
    says(&mut side, &three);
    assert_eq!(words(&mut side).len(), 2, "the third waits");
}
