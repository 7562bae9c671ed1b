//! Events as the stream and the webhooks send them: a variant each.
//!
//! Invariant: the `type` of an event is its name in the model.

use super::chat;
use super::clients::disconnections::ConnectionEnding;
use super::messages::Message;
use super::pushes;
use crate::feed::Happening;
use crate::feed::alarms::{Alarm, LEVELS};
use crate::texts::{Base64, CloseWord, Decimal, OutcomeWord, QosNumber, RejectionWord, Version};
use base::hex;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::chat::{AbuseReason, ChatMessage, GroupChange, Recall, RoomRule};
use model::ports::events::{self, ChatWhat, ClientWhat, DeviceWhat};
use model::presence::PresenceVersion;
use model::push::PushReport;
use model::session::{Denial, Drop};
use schemars::JsonSchema;
use serde::Serialize;

/// An event.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum AnyEvent {
    Device(DeviceEvent),
    Client(ClientEvent),
    Chat(ChatEvent),
    Server(ServerEvent),
}

impl AnyEvent {
    /// An event in the form of the API, with this id.
    pub(crate) fn new(id: &str, happening: &Happening) -> AnyEvent {
        match happening {
            Happening::Device(event) => AnyEvent::Device(DeviceEvent::new(id, event)),
            Happening::Client(event) => AnyEvent::Client(ClientEvent::new(id, event)),
            Happening::Chat(event) => AnyEvent::Chat(ChatEvent::new(id, event)),
            Happening::Alarm(alarm) => AnyEvent::Server(ServerEvent::new(id, alarm)),
        }
    }
}

/// Fields of every event of a device.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OfDevice {
    /// In the stream: give it as Last-Event-ID to continue after it. In a webhook: a permanent
    /// identifier, by which repetitions can be dropped.
    id: String,
    /// Unix millisecond.
    at_ms: u64,
    /// Key of the device's product.
    product: String,
    /// Name of the device.
    device: String,
    /// Number of the session, 64 bits as text. Ignore an offline with a lower epoch than the last
    /// online.
    #[schemars(with = "Decimal")]
    epoch: String,
}

/// An event of a device.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "DeviceEvent")]
pub(crate) enum DeviceEvent {
    /// A device is online.
    Online {
        #[serde(flatten)]
        of: OfDevice,
        #[serde(flatten)]
        transition: Transition,
        /// `miop5`, `miop6`, `miop7`.
        protocol: &'static str,
        /// Whether an earlier session was resumed.
        resumed: bool,
    },
    /// A device's connection ended.
    Offline {
        #[serde(flatten)]
        of: OfDevice,
        #[serde(flatten)]
        transition: Transition,
        /// How the connection ended.
        #[schemars(with = "CloseWord")]
        reason: &'static str,
    },
    /// A device sent a Report.
    Report {
        #[serde(flatten)]
        of: OfDevice,
        /// The device's number for it.
        seq: u32,
        /// Its body.
        #[schemars(with = "Base64")]
        body_base64: String,
        /// The body as text, if it is UTF-8.
        #[serde(skip_serializing_if = "Option::is_none")]
        body: Option<String>,
    },
    /// A push reached its final state at this device.
    Pushed {
        #[serde(flatten)]
        of: OfDevice,
        /// Id of the push.
        #[schemars(with = "Decimal")]
        push: String,
        /// The result.
        #[schemars(with = "OutcomeWord")]
        outcome: &'static str,
        /// Why it was rejected.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<RejectionWord>")]
        reason: Option<&'static str>,
    },
    /// The device reported that its user opened a push.
    PushOpened {
        #[serde(flatten)]
        of: OfDevice,
        /// Id of the push.
        #[schemars(with = "Decimal")]
        push: String,
    },
    /// The device reported that its user dismissed a push.
    PushDismissed {
        #[serde(flatten)]
        of: OfDevice,
        /// Id of the push.
        #[schemars(with = "Decimal")]
        push: String,
    },
    /// The device's platform no longer knows its token, which was removed.
    DeviceTokenDead {
        #[serde(flatten)]
        of: OfDevice,
        /// Name of the platform.
        platform: String,
    },
}

/// The version of a transition.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Transition {
    /// Sixteen hexadecimal digits, greater than those of all earlier transitions of this device or
    /// client, on any server. Discard events that are not greater than the last one you processed;
    /// compare as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Version>")]
    version: Option<String>,
}

impl Transition {
    /// Events that are not transitions have none.
    fn new(version: PresenceVersion) -> Transition {
        let version = (version != PresenceVersion::default()).then(|| version.to_string());
        Transition { version }
    }
}

impl DeviceEvent {
    pub(crate) fn new(id: &str, event: &events::DeviceEvent) -> DeviceEvent {
        let of = OfDevice {
            id: id.into(),
            at_ms: event.at_ms,
            product: event.product.as_str().into(),
            device: event.device.as_str().into(),
            epoch: event.epoch.to_string(),
        };
        let transition = Transition::new(event.version);
        match &event.what {
            &DeviceWhat::Online { protocol, resumed } => {
                DeviceEvent::Online { of, transition, protocol, resumed }
            }
            DeviceWhat::Offline { reason } => {
                DeviceEvent::Offline { of, transition, reason: reason.name() }
            }
            DeviceWhat::Report { seq, body } => DeviceEvent::Report {
                of,
                seq: *seq,
                body_base64: STANDARD.encode(body),
                body: std::str::from_utf8(body).ok().map(str::to_owned),
            },
            DeviceWhat::Pushed { id, outcome } => DeviceEvent::Pushed {
                of,
                push: id.0.to_string(),
                outcome: outcome.name(),
                reason: pushes::rejection(*outcome),
            },
            DeviceWhat::Reported { id, report: PushReport::Opened } => {
                DeviceEvent::PushOpened { of, push: id.0.to_string() }
            }
            DeviceWhat::Reported { id, report: PushReport::Dismissed } => {
                DeviceEvent::PushDismissed { of, push: id.0.to_string() }
            }
            DeviceWhat::TokenDead { platform } => {
                DeviceEvent::DeviceTokenDead { of, platform: platform.as_ref().into() }
            }
        }
    }
}

/// Fields of every event of an MQTT client.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OfClient {
    /// In the stream: give it as Last-Event-ID to continue after it. In a webhook: a permanent
    /// identifier, by which repetitions can be dropped.
    id: String,
    /// Unix millisecond.
    at_ms: u64,
    /// The client's identifier; empty: the server itself.
    client_id: String,
    /// Its user; null: anonymous.
    user: Option<String>,
}

/// An event of an MQTT client.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ClientEvent {
    /// A client connected.
    ClientConnected {
        #[serde(flatten)]
        of: OfClient,
        #[serde(flatten)]
        transition: Transition,
        /// `mqtt31`, `mqtt311`, `mqtt5`.
        protocol: &'static str,
        /// Its address.
        peer: String,
        /// Whether an earlier session was resumed.
        resumed: bool,
    },
    /// A client's connection ended.
    ClientDisconnected {
        #[serde(flatten)]
        of: OfClient,
        #[serde(flatten)]
        transition: Transition,
        /// How the connection ended.
        #[schemars(with = "CloseWord")]
        reason: &'static str,
    },
    /// A client was refused.
    ClientRefused {
        #[serde(flatten)]
        of: OfClient,
        /// The reason.
        #[schemars(extend("enum" = words(Denial::ALL, Denial::name)))]
        reason: &'static str,
    },
    /// A connection of any protocol ended or was refused.
    Disconnection {
        /// In the stream: give it as Last-Event-ID to go on after it. In a webhook: names the event
        /// for good, so that a repetition can be dropped.
        id: String,
        /// Unix millisecond.
        at_ms: u64,
        #[serde(flatten)]
        ending: ConnectionEnding,
    },
    /// A client's session ended.
    SessionEnded {
        #[serde(flatten)]
        of: OfClient,
    },
    /// A subscription was granted.
    ClientSubscribed {
        #[serde(flatten)]
        of: OfClient,
        /// The topic filter.
        filter: String,
        /// The granted QoS.
        #[schemars(with = "QosNumber")]
        qos: u8,
    },
    /// A client unsubscribed.
    ClientUnsubscribed {
        #[serde(flatten)]
        of: OfClient,
        /// The topic filter.
        filter: String,
    },
    /// A client published a message.
    MessagePublished {
        #[serde(flatten)]
        of: OfClient,
        message: Message,
    },
    /// Messages for a client were dropped.
    MessagesDropped {
        #[serde(flatten)]
        of: OfClient,
        /// The reason.
        #[schemars(extend("enum" = words(&Drop::ALL, Drop::name)))]
        reason: &'static str,
        /// Number of messages.
        count: u64,
    },
}

fn words<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> Vec<&'static str> {
    all.iter().map(|&one| name(one)).collect()
}

impl ClientEvent {
    fn new(id: &str, event: &events::ClientEvent) -> ClientEvent {
        let of = OfClient {
            id: id.into(),
            at_ms: event.at_ms,
            client_id: event.client_id.to_string(),
            user: event.user.as_deref().map(str::to_owned),
        };
        let transition = Transition::new(event.version);
        match &event.what {
            &ClientWhat::Connected { protocol, peer, resumed } => {
                let peer = peer.to_string();
                ClientEvent::ClientConnected { of, transition, protocol, peer, resumed }
            }
            ClientWhat::Disconnected { reason } => {
                ClientEvent::ClientDisconnected { of, transition, reason: reason.name() }
            }
            ClientWhat::Refused { why } => ClientEvent::ClientRefused { of, reason: why.name() },
            ClientWhat::ConnectionEnded(it) => {
                ClientEvent::Disconnection { id: of.id, at_ms: of.at_ms, ending: (&**it).into() }
            }
            ClientWhat::SessionEnded => ClientEvent::SessionEnded { of },
            ClientWhat::Subscribed { filter, qos } => {
                ClientEvent::ClientSubscribed { of, filter: filter.to_string(), qos: *qos as u8 }
            }
            ClientWhat::Unsubscribed { filter } => {
                ClientEvent::ClientUnsubscribed { of, filter: filter.to_string() }
            }
            ClientWhat::Published(message) => {
                ClientEvent::MessagePublished { of, message: Message::from(&**message) }
            }
            ClientWhat::Dropped { why, count } => {
                ClientEvent::MessagesDropped { of, reason: why.name(), count: *count }
            }
        }
    }
}

/// Fields of every chat event.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OfChat {
    /// In the stream: give it as Last-Event-ID to continue after it. In a webhook: a permanent
    /// identifier, by which repetitions can be dropped.
    id: String,
    /// Unix millisecond.
    at_ms: u64,
}

/// A chat event.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "their words are those of the API")]
pub(crate) enum ChatEvent {
    /// A message was stored.
    ChatMessage {
        #[serde(flatten)]
        of: OfChat,
        message: chat::Message,
    },
    /// A message was recalled.
    ChatRecalled {
        #[serde(flatten)]
        of: OfChat,
        message: chat::Message,
        /// Place of the recalled message.
        seq: Option<u64>,
    },
    /// A change of a group was stored, as a message.
    ChatGroupChanged {
        #[serde(flatten)]
        of: OfChat,
        message: chat::Message,
        /// The change.
        verb: Option<&'static str>,
        /// The members it concerns.
        members: Vec<String>,
        /// Changes that were made at once with it, in their order, if there are any.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        further: Vec<FurtherChange>,
    },
    /// An account was created.
    ChatAccountMade {
        #[serde(flatten)]
        of: OfChat,
        /// Its address.
        account: String,
        /// Its number.
        #[schemars(with = "Decimal")]
        number: String,
    },
    /// A message contained a flagged word; it may still be refused.
    ChatFlagged {
        #[serde(flatten)]
        of: OfChat,
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
        /// The sender's id of the message, 32 hexadecimal digits.
        client_id: String,
    },
    /// An account reported another one, or a whole domain.
    ChatAbuseReported {
        #[serde(flatten)]
        of: OfChat,
        /// The account that reports.
        reporter: String,
        /// The reported account; of a whole domain `@` and its name.
        reported: String,
        /// Reason of the report; `other`: one that this server does not know.
        #[schemars(extend("enum" = AbuseReason::ALL.map(AbuseReason::word)))]
        reason: &'static str,
        /// Text of the reporter; may be empty.
        text: String,
        /// The named messages that the reporter received from the reported account.
        messages: Vec<ReportedMessage>,
        /// Number of named messages that are not shown: no such messages, or beyond a limit.
        left_out: u32,
        /// Number of named messages that could not be read now.
        unreadable: u32,
        /// The reporter agrees to the report being forwarded to the reported account's domain.
        forward_to_origin: bool,
        /// The reporter agrees to the report being forwarded to third parties.
        forward_to_third_party: bool,
    },
}

/// A message that was reported, in its present state.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ReportedMessage {
    #[serde(flatten)]
    message: chat::Message,
    /// Whether its sender edited it.
    edited: bool,
}

impl ReportedMessage {
    fn of(message: &ChatMessage) -> ReportedMessage {
        let edited = message.amended.as_ref().is_some_and(|it| it.edited_ms > 0);
        ReportedMessage { message: message.into(), edited }
    }
}

/// A change of a group that was made at once with another one.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FurtherChange {
    /// The change.
    verb: &'static str,
    /// The members it concerns.
    members: Vec<String>,
}

impl FurtherChange {
    fn of(change: &GroupChange) -> FurtherChange {
        let members = change.concerned().iter().map(|it| it.address.to_string());
        FurtherChange { verb: change.verb.word(), members: members.collect() }
    }
}

impl ChatEvent {
    fn new(id: &str, event: &events::ChatEvent) -> ChatEvent {
        let of = OfChat { id: id.into(), at_ms: event.at_ms };
        match &event.what {
            ChatWhat::Stored(message) => {
                ChatEvent::ChatMessage { of, message: (&**message).into() }
            }
            ChatWhat::Recalled(message) => {
                let seq = Recall::of(&message.content).map(|recall| recall.seq);
                ChatEvent::ChatRecalled { of, message: (&**message).into(), seq }
            }
            ChatWhat::GroupChanged(message) => {
                let changes = GroupChange::all_of(&message.content);
                let is_shown = |it: &&GroupChange| !matches!(it.rule(), Some(RoomRule::Key(_)));
                let mut all = changes.iter().filter(is_shown).map(FurtherChange::of);
                let (verb, members) =
                    all.next().map(|it| (Some(it.verb), it.members)).unwrap_or_default();
                // A webhook is no member.
                let shown = GroupChange::without_passwords(&message.content);
                let shown = shown.map(|content| ChatMessage { content, ..(**message).clone() });
                let shown = shown.as_ref().unwrap_or(&**message);
                let (message, further) = (shown.into(), all.collect());
                ChatEvent::ChatGroupChanged { of, message, verb, members, further }
            }
            ChatWhat::AccountMade { account, id } => {
                let (account, number) = (account.to_string(), id.0.to_string());
                ChatEvent::ChatAccountMade { of, account, number }
            }
            ChatWhat::Flagged { from, to, client_id } => ChatEvent::ChatFlagged {
                of,
                from: from.to_string(),
                to: to.to_string(),
                client_id: hex::encode(&client_id.0),
            },
            ChatWhat::AbuseReported(report) => ChatEvent::ChatAbuseReported {
                of,
                reporter: report.reporter.to_string(),
                reported: report.reported.to_string(),
                reason: report.reason.word(),
                text: report.text.to_string(),
                messages: report.messages.iter().map(|it| ReportedMessage::of(it)).collect(),
                left_out: report.left_out,
                unreadable: report.unreadable,
                forward_to_origin: report.consent.origin,
                forward_to_third_party: report.consent.third_party,
            },
        }
    }
}

/// An alarm, in an event.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OfAlarm {
    /// In the stream: give it as Last-Event-ID to continue after it. In a webhook: a permanent
    /// identifier, by which repetitions can be dropped.
    id: String,
    /// Unix millisecond.
    at_ms: u64,
    /// Id of the alarm.
    alarm: u64,
    /// Kind of its condition.
    kind: &'static str,
    /// Severity.
    #[schemars(extend("enum" = LEVELS))]
    level: &'static str,
    /// Which bridge, webhook, log or file; empty where there is only one.
    subject: String,
    /// The condition, as it was last.
    text: String,
}

/// An event of the server.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServerEvent {
    /// A condition that needs an operator began.
    AlarmRaised {
        #[serde(flatten)]
        of: OfAlarm,
    },
    /// The condition of an alarm is over.
    AlarmCleared {
        #[serde(flatten)]
        of: OfAlarm,
    },
}

impl ServerEvent {
    fn new(id: &str, alarm: &Alarm) -> ServerEvent {
        let of = OfAlarm {
            id: id.into(),
            at_ms: alarm.changed_ms(),
            alarm: alarm.id,
            kind: alarm.kind.name,
            level: alarm.level(),
            subject: alarm.subject.clone(),
            text: alarm.text.clone(),
        };
        match alarm.cleared_ms {
            None => ServerEvent::AlarmRaised { of },
            Some(_) => ServerEvent::AlarmCleared { of },
        }
    }
}

/// Events are missing in a stream.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Gap {
    /// At least this many events are missing here; null: unknown.
    pub(crate) lost: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::account::{AccountAddress, AccountId};
    use model::chat::{ChatMessage, ClientMessageId, GroupMember, GroupVerb};
    use model::event;
    use serde_json::Value;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// Fields of every event, in addition to those of its kind.
    const OF_EACH: [&str; 3] = ["id", "type", "at_ms"];

    fn variants(schema: schemars::Schema) -> Vec<Value> {
        schema.get("oneOf").and_then(Value::as_array).expect("a variant each").clone()
    }

    #[test]
    fn each_event_has_the_fields_that_the_vocabulary_says_and_no_others() {
        let devices = variants(schemars::schema_for!(DeviceEvent));
        let clients = variants(schemars::schema_for!(ClientEvent));
        let chat = variants(schemars::schema_for!(ChatEvent));
        let server = variants(schemars::schema_for!(ServerEvent));
        let mut names = Vec::new();
        for variant in devices.into_iter().chain(clients).chain(chat).chain(server) {
            let has = variant["properties"].as_object().expect("an object");
            let name = has["type"]["const"].as_str().expect("its name");
            let kind = event::streamed(name).expect("it is in the vocabulary");
            let has: BTreeSet<_> = has.keys().map(String::as_str).collect();
            let says: BTreeSet<_> = kind.fields.iter().chain(&OF_EACH).copied().collect();
            assert_eq!(has, says, "{name}");
            names.push(kind.name);
        }
        assert_eq!(names, event::STREAMED_NAMES);
    }

    #[test]
    fn a_change_of_several_lines_has_the_first_one_and_the_further_ones() {
        let address = |name| AccountAddress::parse(name, "a.example").expect("right");
        let one = |verb, name| {
            let members = vec![GroupMember { address: address(name), id: AccountId(1) }];
            GroupChange { verb, title: "".into(), members }
        };
        let changes = [one(GroupVerb::Add, "frank"), one(GroupVerb::Promote, "frank")];
        let told_of = |changes: &[GroupChange]| {
            let message = ChatMessage {
                id: 1,
                seq: 1,
                at_ms: 1,
                from: address("ann"),
                device: "desk".into(),
                to: address("lunch@conference.a.example"),
                client_id: ClientMessageId([0; 16]),
                content: GroupChange::content_of(changes),
                amended: None,
            };
            let what = ChatWhat::GroupChanged(Arc::new(message));
            let told = ChatEvent::new("x", &events::ChatEvent { at_ms: 1, what });
            serde_json::to_value(told).expect("JSON")
        };
        let password = GroupChange::of_rule(&RoomRule::Password("hush".into()));
        let told = told_of(&[password]);
        assert_eq!(told["verb"], "set");
        assert_eq!(told["message"]["extra_base64"], "c2V0", "no password");
        for (count, further) in [(1, None), (2, Some(("promote", "frank@a.example")))] {
            let told = told_of(&changes[..count]);
            let key = GroupChange::of_rule(&RoomRule::Key("hush".into()));
            let with_key = [&changes[..count], &[key]].concat();
            assert_eq!(told_of(&with_key), told, "no password");
            assert_eq!(
                (&told["verb"], &told["members"][0]),
                (&"add".into(), &"frank@a.example".into())
            );
            let has = told
                .get("further")
                .map(|it| (it[0]["verb"].as_str(), it[0]["members"][0].as_str()));
            assert_eq!(has, further.map(|(verb, name)| (Some(verb), Some(name))), "{told}");
        }
    }
}
