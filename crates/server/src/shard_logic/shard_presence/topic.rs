//! Transitions as messages on topics of MQTT.
//!
//! A pattern names the topic of each principal: `%p` stands for its product (`-` for a client of
//! MQTT), `%d` for its id. The message is retained, so that who subscribes learns how it stands,
//! and goes at QoS 1. Invariant: a topic that would not be a legal one, or the server's own, is
//! none: nothing is said there.

use model::id::{DeviceId, ProductKey};
use model::presence::{NodeName, OnlineState, PresenceVersion, Principal, Transition};
use model::topic::{Publication, Qos};
use proto_mqtt::codec::name::{check_name, is_reserved};
use proto_mqtt::codec::{self, DecodeRules, Sender};
use serde_json::{Value, json};

/// Longest pattern, and longest topic made of one, bytes.
const BYTES_MAX: usize = 1_024;

/// Placeholder for a product where there is none.
const NO_PRODUCT: &str = "-";

/// Topic that transitions are published on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventTopic {
    pattern: Box<str>,
    /// The server that says it.
    node: Box<str>,
}

impl EventTopic {
    /// A pattern with both `%p` and `%d`, so that no two principals share a topic.
    pub fn parse(text: &str) -> Option<EventTopic> {
        let topic = EventTopic { pattern: text.into(), node: Box::default() };
        let both = text.contains("%p") && text.contains("%d");
        let plain = !text.replace("%p", "").replace("%d", "").contains('%');
        (both && plain && topic.fill("p", "d").is_some()).then_some(topic)
    }

    /// The topic with this server as the sender.
    #[must_use]
    pub fn of(self, node: &NodeName) -> EventTopic {
        EventTopic { node: node.as_str().into(), ..self }
    }

    /// The message that says it, unless its topic would not be a legal one.
    pub fn message(&self, transition: &Transition) -> Option<Publication> {
        let Transition { who, user, state, version, .. } = transition;
        let (product, id) = match who {
            Principal::Device(product, device) => (Some(product.as_str()), device.as_str()),
            Principal::Client(id) => (None, &**id),
        };
        let topic = self.fill(product.unwrap_or(NO_PRODUCT), id)?;
        let mut told = json!({
            "type": if state.is_online() { "online" } else { "offline" },
            "at_ms": version.unix_ms(),
            "version": version.to_string(),
            "node": self.node,
        });
        match product {
            Some(product) => {
                told["product"] = json!(product);
                told["device"] = json!(id);
            }
            None => told["client_id"] = json!(id),
        }
        if let Some(user) = user {
            told["user"] = json!(&**user);
        }
        match state {
            OnlineState::Online(protocol) => told["protocol"] = json!(protocol),
            OnlineState::Offline(reason) => told["reason"] = json!(reason.name()),
        }
        let mut message = Publication::new(&topic, &[], told.to_string().as_bytes());
        (message.qos, message.retain) = (Qos::AtLeastOnce, true);
        Some(message)
    }

    /// A filter that all its topics match: an id may have levels of its own.
    pub fn filter(&self) -> Box<str> {
        let levels = self.pattern.split('/').take_while(|level| !level.contains('%'));
        levels.chain(["#"]).collect::<Vec<_>>().join("/").into()
    }

    /// Principal online by this message, with its version, if this server could have made it.
    pub fn online_in(&self, message: &Publication) -> Option<(Principal, PresenceVersion)> {
        let told: Value = serde_json::from_slice(message.payload()).ok()?;
        let text = |key: &str| told.get(key).and_then(Value::as_str);
        if text("type") != Some("online") || text("node") != Some(&self.node) {
            return None;
        }
        let (product, id, who) = match (text("product"), text("device"), text("client_id")) {
            (Some(product), Some(id), _) => {
                let key = ProductKey::parse(product).ok()?;
                (product, id, Principal::Device(key, DeviceId::parse(id).ok()?))
            }
            (_, _, Some(id)) => (NO_PRODUCT, id, Principal::Client(id.into())),
            _ => return None,
        };
        let version = u64::from_str_radix(text("version")?, 16).ok()?;
        (self.fill(product, id)? == message.topic()).then_some((who, PresenceVersion(version)))
    }

    fn fill(&self, product: &str, id: &str) -> Option<String> {
        // An id may have a %p in it: what is filled in last is not looked at again.
        let parts = self.pattern.split("%d").map(|part| part.replace("%p", product));
        let topic = parts.collect::<Vec<_>>().join(id);
        let legal =
            check_name(&topic, &DecodeRules::strict(Sender::Client, codec::Version::V5)).is_ok();
        let legal = legal && topic.len() <= BYTES_MAX && !topic.chars().any(char::is_control);
        (legal && !is_reserved(&topic)).then_some(topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::close::CloseReason;
    use model::id::MessageId;

    fn pattern(text: &str) -> EventTopic {
        let node = NodeName::parse("n-1").expect("allowed");
        EventTopic::parse(text).expect("a pattern").of(&node)
    }

    fn transition(who: &str, state: OnlineState) -> Transition {
        Transition {
            who: Principal::parse(who).expect("a key"),
            user: Some("bob".into()),
            state,
            protocol: "miop7",
            peer: None,
            version: PresenceVersion(5 << 22),
        }
    }

    #[test]
    fn a_pattern_names_product_and_device_and_is_a_topic() {
        let wrong = [
            "",
            "presence",
            "presence/%p",
            "presence/%d",
            "presence/%p/%d/%x",
            "a/+/%p/%d",
            "a/#/%p%d",
            "$SYS/%p/%d",
            "a\u{1}/%p/%d",
        ];
        for text in wrong {
            assert_eq!(EventTopic::parse(text), None, "{text:?}");
        }
        assert_eq!(EventTopic::parse(&format!("{}/%p/%d", "x".repeat(1_024))), None);
        pattern("presence/%p/%d");
    }

    #[test]
    fn a_transition_is_a_retained_message_of_json() {
        let of = pattern("presence/%p/%d");
        let message =
            of.message(&transition("demo#d-1", OnlineState::Online("miop7"))).expect("legal");
        assert_eq!((message.topic(), message.retain), ("presence/demo/d-1", true));
        assert_eq!(message.qos, Qos::AtLeastOnce);
        let told: serde_json::Value = serde_json::from_slice(message.payload()).expect("JSON");
        let at_ms = PresenceVersion(5 << 22).unix_ms();
        assert_eq!(at_ms, MessageId::EPOCH_MS + 5);
        assert_eq!(
            told,
            json!({
                "type": "online", "product": "demo", "device": "d-1", "user": "bob",
                "protocol": "miop7", "at_ms": at_ms, "version": "0000000001400000", "node": "n-1",
            })
        );
        let gone = transition("#c 1", OnlineState::Offline(CloseReason::PeerClosed));
        let message = of.message(&gone).expect("legal");
        assert_eq!(message.topic(), "presence/-/c 1");
        let told: serde_json::Value = serde_json::from_slice(message.payload()).expect("JSON");
        assert_eq!(told["client_id"], "c 1");
        assert_eq!(told["reason"], CloseReason::PeerClosed.name());
    }

    #[test]
    fn only_what_this_server_said_to_be_online_is_known_again() {
        let of = pattern("a/%p/%d");
        assert_eq!(&*of.filter(), "a/#");
        assert_eq!(&*pattern("%p/%d").filter(), "#");
        let online = transition("#c/1", OnlineState::Online("mqtt5"));
        let message = of.message(&online).expect("legal");
        let who = Principal::Client("c/1".into());
        assert_eq!(of.online_in(&message), Some((who, online.version)));
        let gone = transition("demo#d", OnlineState::Offline(CloseReason::PeerClosed));
        assert_eq!(of.online_in(&of.message(&gone).expect("legal")), None);
        let other = of.clone().of(&NodeName::parse("n-2").expect("allowed"));
        assert_eq!(other.online_in(&message), None, "another server said it");
        let elsewhere = Publication::new("a/-/other", &[], message.payload());
        assert_eq!(of.online_in(&elsewhere), None);
        assert_eq!(of.online_in(&Publication::new("a/-/c/1", &[], b"{")), None);
    }

    #[test]
    fn who_makes_no_legal_topic_is_not_told_of() {
        let first = pattern("%d/of/%p");
        for id in ["#a+b", "#a#b", "#$SYS", "#a\u{7}"] {
            assert_eq!(
                first.message(&transition(id, OnlineState::Online("mqtt5"))),
                None,
                "{id:?}"
            );
        }
        let told = first.message(&transition("#%p", OnlineState::Online("mqtt5"))).expect("legal");
        assert_eq!(told.topic(), "%p/of/-");
        let long = format!("#{}", "x".repeat(2_000));
        assert_eq!(first.message(&transition(&long, OnlineState::Online("mqtt5"))), None);
    }
}
