//! Notifications as JSON, for a push gateway or a device of MIOP; and the answers of a gateway.
//!
//! Invariant: a notification has what `docs/wire/push.md` says, and nothing else of a message.

use model::chat::{Loudness, Notification};
use model::ports::notifications::{NotificationOrder, NotificationTargets, NotificationWhat};
use serde::{Deserialize, Serialize};

/// Version of the body.
const VERSION: u8 = 1;

/// Body of a request, and of a push.
#[derive(Serialize)]
pub(super) struct PushBody<'a> {
    version: u8,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    app: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tokens: &'a [Box<str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(flatten)]
    notification: Option<NotificationBody<'a>>,
}

#[derive(Serialize)]
struct NotificationBody<'a> {
    account: &'a str,
    priority: &'static str,
    badge: u32,
    #[serde(flatten)]
    said: Option<SaidBody<'a>>,
}

#[derive(Serialize)]
struct SaidBody<'a> {
    collapse: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<&'a str>,
    /// A text: more than what a number of JavaScript holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    seq: u64,
    count: u32,
}

impl<'a> PushBody<'a> {
    pub(super) fn of(order: &'a NotificationOrder) -> PushBody<'a> {
        let (app, tokens) = match &order.targets {
            NotificationTargets::Gateway { app, tokens } => (Some(&**app), &tokens[..]),
            NotificationTargets::Miop { .. }
            | NotificationTargets::Service(_)
            | NotificationTargets::Platform(..) => (None, &[][..]),
        };
        let (kind, code, notification) = match &order.what {
            NotificationWhat::Code(code) => ("code", Some(&**code), None),
            // Pushes go to platforms, and not here.
            NotificationWhat::Push(..) => ("push", None, None),
            NotificationWhat::Notification(it) => {
                let kind = if it.said.is_some() { "message" } else { "badge" };
                (kind, None, Some(NotificationBody::of(it)))
            }
        };
        PushBody { version: VERSION, kind, app, tokens, code, notification }
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("names are text")
    }
}

impl<'a> NotificationBody<'a> {
    fn of(it: &'a Notification) -> NotificationBody<'a> {
        let priority = match it.loudness {
            Loudness::High => "high",
            Loudness::Low | Loudness::Badge => "low",
        };
        let said = it.said.as_ref().map(|said| SaidBody {
            collapse: &said.collapse,
            title: said.sender.as_ref().map(|sender| sender.name()),
            body: said.text.as_deref(),
            sender: said.sender.as_ref().map(|sender| sender.as_str()),
            conversation: said.conversation.as_ref().map(|with| with.as_str()),
            id: (said.id != 0).then(|| said.id.to_string()),
            seq: said.seq,
            count: said.count,
        });
        NotificationBody { account: it.account.as_str(), priority, badge: it.badge, said }
    }
}

/// Answer of a gateway.
#[derive(Deserialize)]
pub(super) struct Answer {
    #[serde(default)]
    rejected: Vec<Box<str>>,
}

impl Answer {
    /// Tokens that are gone for good.
    pub(super) fn rejected(bytes: &[u8]) -> Vec<Box<str>> {
        serde_json::from_slice(bytes).map_or(Vec::new(), |answer: Answer| answer.rejected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::account::AccountAddress;
    use model::chat::NotifiedMessage;
    use model::id::{DeviceId, ProductKey};

    fn name(text: &str) -> AccountAddress {
        AccountAddress::parse(text, "a.example").expect("right")
    }

    fn said() -> Notification {
        let said = NotifiedMessage {
            collapse: "c0ffee".into(),
            conversation: Some(name("ann")),
            sender: Some(name("ann")),
            text: Some("\"hello\"".into()),
            id: 1 << 60,
            seq: 7,
            count: 2,
        };
        Notification { account: name("bob"), loudness: Loudness::High, badge: 3, said: Some(said) }
    }

    #[test]
    fn a_gateway_is_told_what_came_and_for_whom() {
        let tokens = vec!["t1".into(), "t2".into()];
        let targets = NotificationTargets::Gateway { app: "chat".into(), tokens };
        let what = NotificationWhat::Notification(said());
        let body = PushBody::of(&NotificationOrder { targets, what }).json();
        assert_eq!(
            body,
            "{\"version\":1,\"type\":\"message\",\"app\":\"chat\",\"tokens\":[\"t1\",\"t2\"],\
             \"account\":\"bob@a.example\",\"priority\":\"high\",\"badge\":3,\
             \"collapse\":\"c0ffee\",\"title\":\"ann\",\"body\":\"\\\"hello\\\"\",\
             \"sender\":\"ann@a.example\",\"conversation\":\"ann@a.example\",\
             \"id\":\"1152921504606846976\",\"seq\":7,\"count\":2}"
        );
    }

    #[test]
    fn what_may_not_be_told_is_not_and_a_device_of_ours_is_told_no_token() {
        let product = ProductKey::parse("shop").expect("allowed");
        let devices = vec![DeviceId::parse("phone").expect("allowed")];
        let targets = NotificationTargets::Miop { product, devices };
        let hidden = said().said.map(|it| NotifiedMessage {
            conversation: None,
            sender: None,
            text: None,
            id: 0,
            ..it
        });
        for (said, badge, text) in [
            (hidden, 3, ",\"badge\":3,\"collapse\":\"c0ffee\",\"seq\":7,\"count\":2}"),
            (None, 0, ",\"badge\":0}"),
        ] {
            let loudness = Loudness::Badge;
            let it = Notification { account: name("bob"), loudness, badge, said };
            let kind = if it.said.is_some() { "message" } else { "badge" };
            let what = NotificationWhat::Notification(it);
            let order = NotificationOrder { targets: targets.clone(), what };
            let head = format!("{{\"version\":1,\"type\":\"{kind}\",\"account\":\"bob@a.example\"");
            assert_eq!(PushBody::of(&order).json(), format!("{head},\"priority\":\"low\"{text}"));
        }
        let order = NotificationOrder { targets, what: NotificationWhat::Code("abcd".into()) };
        let body = PushBody::of(&order).json();
        assert_eq!(body, "{\"version\":1,\"type\":\"code\",\"code\":\"abcd\"}");
    }

    #[test]
    fn an_answer_that_says_nothing_of_tokens_rejects_none() {
        for text in ["", "{}", "ok", "[1]", "{\"rejected\":7}", "{\"rejected\":[1]}"] {
            assert!(Answer::rejected(text.as_bytes()).is_empty(), "{text}");
        }
        let text = "{\"rejected\":[\"t1\"],\"more\":1}";
        assert_eq!(Answer::rejected(text.as_bytes()), [Box::from("t1")]);
    }
}
