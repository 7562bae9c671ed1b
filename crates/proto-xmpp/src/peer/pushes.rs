//! Pushes by services elsewhere (XEP-0357 7): what such a service is published, and its answer.
//!
//! ```text
//! <iq type='set'> <pubsub> <publish node='NODE'> <item> <notification> a form: what came
//!                          <publish-options> what the device gave for the service
//! result: taken │ error that may pass: failing │ any other: the device is gone
//! ```
//! The domain says it, in the name of no account. Invariant: a service gets no more of a message
//! than the notification has.

use crate::forms::{FORMS, field};
use crate::stanza::{STANZA_ERRORS, StanzaReply, kind};
use crate::xml::scan::{CLIENT, Element};
use crate::xml::text::escaped;
use model::chat::{Notification, PushService};
use model::ports::notifications::Notified;

/// The namespace of pushes.
pub(crate) const PUSH: &str = "urn:xmpp:push:0";

/// Form type of a push's summary; and that of its publish options.
const SUMMARY: &str = "urn:xmpp:push:summary";
const PUBLISH_OPTIONS: &str = "http://jabber.org/protocol/pubsub#publish-options";

const PUBSUB: &str = "http://jabber.org/protocol/pubsub";

/// Conditions of errors that may pass, whatever type they say they are of.
const PASSING: [&str; 6] = [
    "internal-server-error",
    "recipient-unavailable",
    "remote-server-not-found",
    "remote-server-timeout",
    "resource-constraint",
    "service-unavailable",
];

/// Writes the stanza for a service; `id` is given back with the answer.
pub fn write(it: &Notification, service: &PushService, id: &str, out: &mut Vec<u8>) {
    let said = it.said.as_ref();
    let mut form = typed(SUMMARY);
    form += &field("message-count", "", &[&it.badge.to_string()]);
    if let Some(sender) = said.and_then(|said| said.sender.as_ref()) {
        form += &field("last-message-sender", "", &[sender.as_str()]);
    }
    if let Some(text) = said.and_then(|said| said.text.as_ref()).filter(|it| !it.is_empty()) {
        form += &field("last-message-body", "", &[text]);
    }
    let mut inner = format!(
        "<pubsub xmlns='{PUBSUB}'><publish node='{}'><item><notification xmlns='{PUSH}'>\
         <x xmlns='{FORMS}' type='submit'>{form}</x></notification></item></publish>",
        escaped(&service.node)
    );
    if !service.options.is_empty() {
        let mut options = typed(PUBLISH_OPTIONS);
        for of_one in service.options.chunk_by(|one, next| one.0 == next.0) {
            let values: Vec<&str> = of_one.iter().map(|(_, value)| &**value).collect();
            options += &field(&escaped(&of_one[0].0), "", &values);
        }
        inner += &format!(
            "<publish-options><x xmlns='{FORMS}' type='submit'>{options}</x></publish-options>"
        );
    }
    inner += "</pubsub>";
    let from = Some(it.account.domain());
    let iq = StanzaReply { name: "iq", from, to: &service.address, id: Some(id) };
    iq.put("set", &inner, out);
}

/// Field that names a form's type.
fn typed(kind: &str) -> String {
    field("FORM_TYPE", "hidden", &[kind])
}

/// Meaning of a service's answer for a device that has this node there; `None`: it is no answer.
pub fn read(answer: &Element<'_, '_>, node: &str) -> Option<Notified> {
    match &*kind(answer) {
        "result" => Some(Notified::Taken { gone: Vec::new() }),
        "error" => {
            let error = answer.child("error", CLIENT);
            let may_pass = error.is_none_or(|error| {
                let is_one = |it: &&str| error.child(it, STANZA_ERRORS).is_some();
                kind(&error) == "wait" || PASSING.iter().any(is_one)
            });
            Some(match may_pass {
                true => Notified::Failing,
                false => Notified::Taken { gone: vec![node.into()] },
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::scan::Scan;
    use model::account::AccountAddress;
    use model::chat::{Loudness, NotifiedMessage};

    fn notification(sender: Option<&str>, text: Option<&str>) -> Notification {
        let address = |text: &str| AccountAddress::parse(text, "a.example").expect("right");
        let said = NotifiedMessage {
            collapse: "c".into(),
            conversation: sender.map(address),
            sender: sender.map(address),
            text: text.map(Box::from),
            id: 7,
            seq: 1,
            count: 2,
        };
        let (account, loudness) = (address("ann"), Loudness::High);
        Notification { account, loudness, badge: 3, said: Some(said) }
    }

    fn written(it: &Notification, options: &[(&str, &str)]) -> String {
        let options = options.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let service = PushService::new("push.example", "n<1>", options.collect());
        let mut out = Vec::new();
        write(it, &service.expect("allowed"), "id", &mut out);
        assert!(Scan::of_peer(&out).is_ok());
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_service_is_told_that_something_came_and_by_leave_of_whom_and_what() {
        let quiet = written(&notification(None, None), &[]);
        assert_eq!(
            quiet,
            "<iq type='set' id='id' from='a.example' to='push.example'>\
             <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='n&lt;1&gt;'><item>\
             <notification xmlns='urn:xmpp:push:0'><x xmlns='jabber:x:data' type='submit'>\
             <field var='FORM_TYPE' type='hidden'><value>urn:xmpp:push:summary</value></field>\
             <field var='message-count'><value>3</value></field></x></notification></item>\
             </publish></pubsub></iq>"
        );
        let options = [("secret", "s&"), ("list", "1"), ("list", "2")];
        let full = written(&notification(Some("bob"), Some("hi <b>")), &options);
        for part in [
            "<field var='last-message-sender'><value>bob@a.example</value></field>",
            "<field var='last-message-body'><value>hi &lt;b&gt;</value></field>",
            "</publish><publish-options><x xmlns='jabber:x:data' type='submit'>\
             <field var='FORM_TYPE' type='hidden'>\
             <value>http://jabber.org/protocol/pubsub#publish-options</value></field>\
             <field var='secret'><value>s&amp;</value></field>\
             <field var='list'><value>1</value><value>2</value></field></x></publish-options>",
        ] {
            assert!(full.contains(part), "{part}\n{full}");
        }
    }

    #[test]
    fn an_error_that_may_pass_is_told_from_one_that_ends_the_registration() {
        let of = |kind: &str, inner: &str| {
            let xml = format!("<iq type='{kind}' id='1'>{inner}</iq>");
            let scan = Scan::of_peer(xml.as_bytes()).expect("XML");
            read(&scan.root(), "n")
        };
        let gone = |node: Option<&str>| {
            Some(Notified::Taken { gone: node.into_iter().map(Box::from).collect() })
        };
        let error = |kind: &str, condition: &str| {
            let inner =
                format!("<error type='{kind}'><{condition} xmlns='{STANZA_ERRORS}'/></error>");
            of("error", &inner)
        };
        assert_eq!(of("result", ""), gone(None));
        for condition in ["item-not-found", "forbidden", "not-allowed", "feature-not-implemented"] {
            assert_eq!(error("cancel", condition), gone(Some("n")), "{condition}");
        }
        for (kind, condition) in [
            ("cancel", "service-unavailable"),
            ("cancel", "remote-server-not-found"),
            ("wait", "policy-violation"),
        ] {
            assert_eq!(error(kind, condition), Some(Notified::Failing), "{condition}");
        }
        assert_eq!(of("error", ""), Some(Notified::Failing), "nobody says why");
        assert_eq!(of("set", ""), None);
    }
}
