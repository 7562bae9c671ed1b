//! Answers to questions, of a device and of another domain, compared with those in `golden/`.
//!
//! A result is compared byte for byte, an error by its condition, a request to the service by its
//! name. Questions that nobody takes are left out of the files, but those of three namespaces,
//! of which each error is compared, with its type.
//! `GOLDEN_WRITE=1 cargo test -p proto-xmpp disco` writes the files anew: a difference is a change
//! of what other software sees.

use super::harness::*;
use crate::fault::StanzaFault;
use crate::server::{
    Advertised, ExternalService, ServerContact, ServiceCredentials, XmppListener, answer_for_domain,
};
use crate::xml::scan::Scan;
use model::chat::ChatDelivery;
use model::chat::foreign::ForeignDomains;
use model::ports::users::Registration;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Names, namespaces and attributes of what is asked.
const QUESTIONS: &[(&str, &str, &str)] = &[
    ("query", "http://jabber.org/protocol/disco#info", ""),
    ("query", "http://jabber.org/protocol/disco#info", " node='x'"),
    (
        "query",
        "http://jabber.org/protocol/disco#info",
        " node='http://jabber.org/protocol/commands'",
    ),
    (
        "query",
        "http://jabber.org/protocol/disco#info",
        " node='http://jabber.org/protocol/admin#add-user'",
    ),
    ("query", "http://jabber.org/protocol/disco#items", ""),
    ("query", "http://jabber.org/protocol/disco#items", " node='x'"),
    (
        "query",
        "http://jabber.org/protocol/disco#items",
        " node='http://jabber.org/protocol/commands'",
    ),
    ("other", "http://jabber.org/protocol/disco#info", ""),
    ("ping", "urn:xmpp:ping", ""),
    ("other", "urn:xmpp:ping", ""),
    ("query", "jabber:iq:version", ""),
    ("other", "jabber:iq:version", ""),
    ("time", "urn:xmpp:time", ""),
    ("other", "urn:xmpp:time", ""),
    ("enable", "urn:xmpp:carbons:2", ""),
    ("disable", "urn:xmpp:carbons:2", ""),
    ("other", "urn:xmpp:carbons:2", ""),
    ("session", "urn:ietf:params:xml:ns:xmpp-session", ""),
    ("other", "urn:ietf:params:xml:ns:xmpp-session", ""),
    ("query", "jabber:iq:roster", ""),
    ("other", "jabber:iq:roster", ""),
    ("blocklist", "urn:xmpp:blocking", ""),
    ("block", "urn:xmpp:blocking", ""),
    ("unblock", "urn:xmpp:blocking", ""),
    ("other", "urn:xmpp:blocking", ""),
    ("enable", "urn:xmpp:push:0", ""),
    ("disable", "urn:xmpp:push:0", " jid='push.a.example'"),
    ("other", "urn:xmpp:push:0", ""),
    ("query", "urn:xmpp:mam:2", ""),
    ("metadata", "urn:xmpp:mam:2", ""),
    ("prefs", "urn:xmpp:mam:2", ""),
    ("other", "urn:xmpp:mam:2", ""),
    ("pubsub", "http://jabber.org/protocol/pubsub", ""),
    ("other", "http://jabber.org/protocol/pubsub", ""),
    ("pubsub", "http://jabber.org/protocol/pubsub#owner", ""),
    ("other", "http://jabber.org/protocol/pubsub#owner", ""),
    ("vCard", "vcard-temp", ""),
    ("other", "vcard-temp", ""),
    ("query", "jabber:iq:private", ""),
    ("other", "jabber:iq:private", ""),
    ("query", "jabber:iq:last", ""),
    ("other", "jabber:iq:last", ""),
    ("services", "urn:xmpp:extdisco:2", ""),
    ("credentials", "urn:xmpp:extdisco:2", ""),
    ("other", "urn:xmpp:extdisco:2", ""),
    ("query", "jabber:iq:register", ""),
    ("other", "jabber:iq:register", ""),
    ("command", "http://jabber.org/protocol/commands", " node='x'"),
    (
        "command",
        "http://jabber.org/protocol/commands",
        " node='http://jabber.org/protocol/admin#add-user'",
    ),
    ("other", "http://jabber.org/protocol/commands", ""),
    ("request", "urn:xmpp:http:upload:0", " filename='x' size='1'"),
    ("other", "urn:xmpp:http:upload:0", ""),
    ("query", "urn:x-nobody", ""),
];

/// Addresses of whom is asked.
const ADDRESSES: [&str; 6] =
    ["", "a.example", "m.example", "ann@a.example", "bob@a.example", "upload.a.example"];

/// A server with all that an operator can advertise, or with none of it.
fn advertised(is_full: bool) -> Advertised {
    if !is_full {
        return Advertised::default();
    }
    let addresses = vec!["mailto:abuse@a.example".into()];
    let service = ExternalService {
        kind: "stun".into(),
        host: "stun.a.example".into(),
        port: Some(3_478),
        transport: "udp",
        credentials: ServiceCredentials::Open,
    };
    Advertised::new(vec![ServerContact { role: "abuse", addresses }], vec![service])
}

/// A bound device of such a server, and the stream's features before and behind the login.
fn bound_at(is_full: bool) -> (Side, String) {
    let registration = if is_full { Registration::Open } else { Registration::Off };
    let advertised = Arc::new(advertised(is_full));
    let mut side = at(XmppListener { registration, advertised, ..listener() }, encrypted());
    if !is_full {
        side.limits.media.file_bytes_max = 0;
    }
    let mut features = says(&mut side, HEADER);
    says(&mut side, &auth("PLAIN", "\0ann\0secret"));
    told(&mut side, yes());
    features += "\nbehind the login: ";
    features += &says(&mut side, HEADER);
    says(&mut side, BIND);
    told(&mut side, ChatDelivery::Bound { device: "desk".into() });
    side.take_words();
    (side, features)
}

/// Requests to the service, by their names.
fn asked(side: &mut Side) -> String {
    let name = |word: &ChatRequest| {
        let text = format!("{word:?}");
        text.split(|it: char| !it.is_alphanumeric()).next().unwrap_or_default().to_owned()
    };
    words(side).iter().map(name).collect::<Vec<_>>().join(" ")
}

/// Errors that answer a question which nobody takes.
const UNANSWERED: [&str; 2] = ["service-unavailable", "remote-server-not-found"];

/// Namespaces of questions whose errors are all kept, with their types, at each address.
const ALL_ERRORS: [&str; 3] =
    ["urn:xmpp:ping", "http://jabber.org/protocol/disco#info", "urn:x-nobody"];

/// An answer in short, with the type of an error to `ALL_ERRORS`; none: nobody takes the question.
fn short(said: &str, namespace: &str) -> Option<String> {
    if !said.contains(" type='error'") {
        return Some(said.to_owned());
    }
    let at = said.find("<error type=")?;
    let condition = said[at..].split('<').nth(2)?.split(' ').next()?;
    if ALL_ERRORS.contains(&namespace) {
        return Some(format!("{} {condition}", said[at..].split('\'').nth(1)?));
    }
    Some(condition.to_owned()).filter(|it| !UNANSWERED.contains(&it.as_str()))
}

fn compare(name: &str, text: &str) {
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/server/tests/golden").join(name);
    if std::env::var_os("GOLDEN_WRITE").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    let kept = std::fs::read_to_string(&path).expect("it is kept");
    for (line, kept) in text.lines().zip(kept.lines()) {
        assert_eq!(line, kept, "{name}");
    }
    assert_eq!(text, kept, "{name}");
}

#[test]
fn each_question_of_a_device_is_answered_as_it_is_kept() {
    let mut text = String::new();
    for is_full in [false, true] {
        let which = if is_full { "full" } else { "bare" };
        let _ = writeln!(text, "{which}: {}", bound_at(is_full).1);
        for to in ADDRESSES {
            for (name, namespace, attributes) in QUESTIONS {
                for kind in ["get", "set"] {
                    let to_whom = match to {
                        "" => String::new(),
                        to => format!(" to='{to}'"),
                    };
                    let iq = format!(
                        "<iq type='{kind}' id='q'{to_whom}>\
                         <{name} xmlns='{namespace}'{attributes}/></iq>"
                    );
                    let mut side = bound_at(is_full).0;
                    let said = says(&mut side, &iq);
                    let Some(said) = short(&said, namespace) else { continue };
                    let said = said + &asked(&mut side);
                    let _ = writeln!(
                        text,
                        "{which} {kind}{to_whom} {name} {namespace}{attributes}: {said}"
                    );
                }
            }
        }
    }
    compare("device.txt", &text);
}

#[test]
fn each_question_of_another_domain_is_answered_as_it_is_kept() {
    let mut text = String::new();
    let components = ["gate.a.example".into()].into();
    let domains = ForeignDomains { own: "a.example".into(), components, ..Default::default() };
    for is_full in [false, true] {
        let which = if is_full { "full" } else { "bare" };
        for (name, namespace, attributes) in QUESTIONS {
            for kind in ["get", "set"] {
                let iq = format!(
                    "<iq type='{kind}' id='q' to='a.example'>\
                     <{name} xmlns='{namespace}'{attributes}/></iq>"
                );
                let scan = Scan::element(iq.as_bytes()).expect("XML");
                let asked = scan.root().children().next().expect("a question");
                let about = (now(), is_full, &domains, &advertised(is_full));
                let answer = answer_for_domain(&scan.root(), &asked, about);
                if answer == Err(StanzaFault::ServiceUnavailable) {
                    continue;
                }
                let _ = writeln!(text, "{which} {kind} {name} {namespace}{attributes}: {answer:?}");
            }
        }
    }
    compare("domain.txt", &text);
}
