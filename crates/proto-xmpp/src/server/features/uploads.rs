//! Uploads over HTTP (XEP-0363 1.2.0), at the address `upload.` and the domain.
//!
//! Leave to upload is the service's to give; here it is asked for and told. A server without a
//! storage has no such address. Invariant: each question is answered once, with its id.

use crate::claims::Xep;
use crate::fault::StanzaFault;
use crate::forms::{FORMS, field};
use crate::server::Out;
use crate::server::feature::{Answer, DomainService, Feature, Offered, Question};
use crate::server::iq::{DISCO_INFO, DISCO_ITEMS, PING, disco_info};
use crate::server::session::Session;
use crate::stanza::{StanzaReply, put_attribute, timestamp};
use crate::xml::scan::Element;
use crate::xml::text;
use base::time::Now;
use model::chat::{ChatFault, ChatRequest};
use model::media::{UploadSlot, UploadWish};

/// How the address of uploads begins, before the domain.
const UPLOAD_SERVICE: &str = "upload.";
/// The namespace of uploads (XEP-0363 3).
const UPLOAD: &str = "urn:xmpp:http:upload:0";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::complete(
        363,
        ("HTTP File Upload", "1.2.0"),
        "if the server has file storage",
        "media/test_xmpp.py::\
         test_slixmpp_finds_the_service_uploads_and_a_person_of_im_has_a_picture",
    )],
    offered: Offered::WithFiles,
    services: &[DomainService { prefix: UPLOAD_SERVICE, name: "Files", device: Some(answer) }],
    ..Feature::NONE
};

const DAY_MS: u64 = 86_400_000;

/// Headers that a slot may tell (XEP-0363 5); others a client takes by itself from its request.
const HEADERS: [&str; 3] = ["authorization", "cookie", "expires"];

/// A file that the service was asked about.
pub(in crate::server) struct Uploading {
    number: u32,
    id: Option<Box<str>>,
    to: Box<str>,
    bytes_max: u64,
}

/// Answers a question for the address of uploads.
fn answer(session: &mut Session, question: &Question<'_, '_, '_>, out: &mut Out) -> Answer {
    let Question { asked, is_set, about, file_bytes_max, .. } = *question;
    match (asked.name(), asked.namespace(), is_set) {
        ("request", UPLOAD, false) => {
            session.asks_slot((asked, file_bytes_max), about, out);
            Ok(None)
        }
        ("ping", PING, false) => {
            out.beat();
            Ok(Some(String::new()))
        }
        ("query", DISCO_INFO | DISCO_ITEMS, false) if asked.attribute("node").is_some() => {
            Err(StanzaFault::ItemNotFound)
        }
        ("query", DISCO_INFO, false) => Ok(Some(info(file_bytes_max))),
        ("query", DISCO_ITEMS, false) => Ok(Some(format!("<query xmlns='{DISCO_ITEMS}'/>"))),
        _ => Err(StanzaFault::ServiceUnavailable),
    }
}

impl Session {
    fn asks_slot(
        &mut self,
        (asked, bytes_max): (&Element<'_, '_>, u64),
        (id, to): (Option<&str>, Option<&str>),
        out: &mut Out,
    ) {
        let of = |name| asked.attribute(name).unwrap_or_default();
        let media_type = of("content-type");
        // Parameters of a type say nothing of what is taken.
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        let bytes = of("size").parse().unwrap_or_default(); // none makes no sense to the service
        let wish =
            UploadWish { name: (*of("filename")).into(), media_type: media_type.into(), bytes };
        let number = self.numbers(1);
        let (id, to) = (id.map(Box::from), to.unwrap_or_default().into());
        self.busy().uploads.push(Uploading { number, id, to, bytes_max });
        let session = self.session;
        out.say(ChatRequest::Upload { session, number, wish: Box::new(wish) });
    }

    /// A file may be uploaded.
    pub(in crate::server) fn slot(&mut self, number: u32, slot: &UploadSlot, out: &mut Out) {
        let Some(Uploading { id, to, .. }) = self.uploading(number) else {
            base::never!(true, "a slot that nobody asked for");
            return;
        };
        let mut inner = format!("<slot xmlns='{UPLOAD}'><put").into_bytes();
        put_attribute("url", Some(&slot.put_url), &mut inner);
        inner.push(b'>');
        let told = |(name, _): &&(Box<str>, Box<str>)| {
            HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        for (name, value) in slot.headers.iter().filter(told) {
            inner.extend_from_slice(b"<header");
            put_attribute("name", Some(name), &mut inner);
            inner.push(b'>');
            text::put(value, &mut inner);
            inner.extend_from_slice(b"</header>");
        }
        inner.extend_from_slice(b"</put><get");
        put_attribute("url", Some(&slot.get_url), &mut inner);
        inner.extend_from_slice(b"/></slot>");
        self.answers((id.as_deref(), Some(&to)), &String::from_utf8_lossy(&inner), out);
        self.releases(out);
    }

    /// A file may not be uploaded. False: it was another question.
    pub(in crate::server) fn upload_failed(
        &mut self,
        now: Now,
        (number, why): (u32, ChatFault),
        out: &mut Out,
    ) -> bool {
        let Some(Uploading { id, to, bytes_max, .. }) = self.uploading(number) else {
            return false;
        };
        let (fault, told, more) = match why {
            ChatFault::TooLarge => {
                let size = format!("<max-file-size>{bytes_max}</max-file-size>");
                let more = format!("<file-too-large xmlns='{UPLOAD}'>{size}</file-too-large>");
                (StanzaFault::NotAcceptable, "The file is too large.", more)
            }
            ChatFault::TypeRefused => {
                (StanzaFault::NotAcceptable, "Files of this type are not taken.", String::new())
            }
            ChatFault::UploadQuota => {
                let stamp = timestamp((now.wall_ms / DAY_MS + 1) * DAY_MS);
                let more = format!("<retry xmlns='{UPLOAD}' stamp='{stamp}'/>");
                (StanzaFault::ResourceConstraint, "No more may be uploaded today.", more)
            }
            other => (StanzaFault::of(other, false), "", String::new()),
        };
        let from = Some(&*to).filter(|to| !to.is_empty());
        let reply = StanzaReply { name: "iq", from, to: self.jid(), id: id.as_deref() };
        reply.error_whole("", fault, (told, &more), out.bytes());
        self.counts_sent(out);
        self.releases(out);
        true
    }

    fn uploading(&mut self, number: u32) -> Option<Uploading> {
        let uploads = &mut self.busy().uploads;
        let at = uploads.iter().position(|uploading| uploading.number == number)?;
        Some(uploads.remove(at))
    }
}

/// Features of the upload service (XEP-0363 4).
fn info(bytes_max: u64) -> String {
    let most = field("max-file-size", "", &[&bytes_max.to_string()]);
    let fields = field("FORM_TYPE", "hidden", &[UPLOAD]) + &most;
    let form = format!("<x xmlns='{FORMS}' type='result'>{fields}</x>");
    let identity = "<identity category='store' type='file' name='Files'/>";
    disco_info(None, identity, [DISCO_INFO, DISCO_ITEMS, PING, UPLOAD], &form)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::harness::*;
    use crate::xml::scan::Scan;
    use model::chat::*;

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
}
