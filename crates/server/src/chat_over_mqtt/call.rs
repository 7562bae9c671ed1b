//! A request as an MQTT message brings it, and the message that answers it (IM 19.2).

use super::json;
use base::time::Instant;
use model::chat::{CHAT_ANSWERS, CHAT_REQUESTS, ChatCall, ChatDelivery, ChatFault};
use model::limits::Limits;
use model::session::{Denial, Outgoing};
use model::topic::{Publication, Qos};
use proto_im::codec::frame::client_bytes_max;
use proto_im::codec::protobuf::Sink;
use proto_im::schema::Schema;
use proto_mqtt::codec::block::{Block, Properties};
use proto_mqtt::codec::fanout::passed_on;
use proto_mqtt::codec::property::Property;
use std::sync::Arc;

/// The content type of a message in JSON.
const JSON: &str = "application/json";

/// Behind the name of a request, it says that it is in JSON.
const JSON_SUFFIX: &str = "/json";

/// Where and how a request is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reply {
    topic: Box<str>,
    correlation: Option<Box<[u8]>>,
    is_json: bool,
}

/// A request that is not answered.
pub(super) struct Pending {
    /// The device's own number for it.
    pub own: u32,
    /// The packet identifier of its message; 0 at QoS 0.
    pub id: u16,
    pub qos: Qos,
    pub reply: Reply,
    /// When it is given up.
    pub due: Instant,
    /// What stands in it, while the device has no session yet.
    pub frame: Option<Box<[u8]>>,
}

/// Why a request is not done: for the device, and for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fault {
    pub why: ChatFault,
    pub reason: String,
    pub denial: Denial,
}

impl Fault {
    pub(super) fn of(why: ChatFault, reason: impl Into<String>) -> Fault {
        let denial = denial(why).unwrap_or(Denial::Unspecified);
        Fault { why, reason: reason.into(), denial }
    }
}

impl Reply {
    /// Where the sender of a message wants its answer: at the topic that it names, or at its own.
    pub(super) fn to(call: &ChatCall) -> Reply {
        let mut reply = Reply {
            topic: default_topic(&call.client_id),
            correlation: None,
            is_json: call.message.topic().ends_with(JSON_SUFFIX),
        };
        for property in Properties::of_message(call.message.properties()).iter() {
            match property {
                Property::ResponseTopic(topic) => reply.topic = topic.into(),
                Property::CorrelationData(data) => reply.correlation = Some(data.into()),
                Property::ContentType(kind) => reply.is_json |= kind == JSON,
                _ => {}
            }
        }
        reply
    }

    /// The message that has this `ServerFrame`.
    pub(super) fn message(&self, frame: &[u8]) -> Outgoing {
        outgoing(&self.topic, self.is_json, self.correlation.as_deref(), frame)
    }
}

/// Bytes of an identifier from which on it does not stand in a topic.
const CLIENT_ID_BYTES_MAX: usize = 1_024;

/// The topic of answers that name none. An identifier may have what no topic name has.
fn default_topic(client_id: &str) -> Box<str> {
    match client_id.contains(['+', '#']) || client_id.len() > CLIENT_ID_BYTES_MAX {
        true => CHAT_ANSWERS.into(),
        false => format!("{CHAT_ANSWERS}/{client_id}").into(),
    }
}

/// The `ClientFrame` that a call is, or what is wrong with it.
pub(super) fn frame_of(
    call: &ChatCall,
    reply: &Reply,
    limits: &Limits,
) -> Result<Box<[u8]>, Fault> {
    if call.qos == Qos::ExactlyOnce {
        return Err(Fault::of(ChatFault::Invalid, "requests are sent at QoS 0 or 1"));
    }
    let topic = call.message.topic();
    let name = topic.strip_prefix(CHAT_REQUESTS).unwrap_or_default();
    let name = name.strip_suffix(JSON_SUFFIX).unwrap_or(name);
    let Some(field) = Schema::get().request(name) else {
        let fault = Fault::of(ChatFault::Invalid, format!("there is no request {name:?}"));
        return Err(Fault { denial: Denial::TopicInvalid, ..fault });
    };
    let payload = call.message.payload();
    if payload.len() > client_bytes_max(limits) {
        return Err(Fault::of(ChatFault::TooLarge, "the request is larger than allowed"));
    }
    let said;
    let request = match reply.is_json {
        true => {
            said = json::to_message(field.kind, payload)
                .map_err(|error| Fault::of(ChatFault::Invalid, error))?;
            &said[..]
        }
        false => payload,
    };
    let mut frame = Vec::with_capacity(request.len() + 12);
    frame.tag(field.number, 2);
    frame.varint(request.len() as u64);
    frame.raw(request);
    Ok(frame.into())
}

/// A message to the device, in one form or the other. One that cannot be told in JSON goes as it
/// is: the server has written it.
pub(super) fn outgoing(
    topic: &str,
    is_json: bool,
    correlation: Option<&[u8]>,
    frame: &[u8],
) -> Outgoing {
    let mut block = Block::default();
    let json = is_json.then(|| json::of_message("ServerFrame", frame).ok()).flatten();
    let kind = json.as_ref().map(|_| [Property::PayloadFormat(1), Property::ContentType(JSON)]);
    let correlation = correlation.map(Property::CorrelationData);
    for property in kind.into_iter().flatten().chain(correlation) {
        let _ = block.push(property); // none is longer than its sender could say it
    }
    let payload = json.as_deref().unwrap_or(frame);
    let message = Publication::new(topic, &passed_on(block.properties()), payload);
    Outgoing {
        message: Arc::new(message),
        id: 0,
        qos: Qos::AtMostOnce,
        again: false,
        retain: false,
        shared: false,
        subscription_ids: None,
    }
}

/// What the sender of a message is told with its acknowledgement; `None`: it is done.
pub(super) fn denial_of(answer: &ChatDelivery) -> Option<Denial> {
    match answer {
        ChatDelivery::Failed { why, .. } => denial(*why),
        ChatDelivery::Rejected(rejected) => denial(rejected.why),
        _ => None,
    }
}

/// A fault as a reason of MQTT; `None`: it is as if it had been done.
pub(super) fn denial(why: ChatFault) -> Option<Denial> {
    Some(match why {
        ChatFault::Unchanged => return None,
        ChatFault::Invalid | ChatFault::TooLarge | ChatFault::TypeRefused => Denial::PayloadFormat,
        ChatFault::Busy => Denial::Busy,
        ChatFault::StoreFull => Denial::StoreFull,
        ChatFault::StoreFailed => Denial::StoreFailed,
        ChatFault::RateLimited
        | ChatFault::GroupFull
        | ChatFault::ContactsFull
        | ChatFault::PushFull
        | ChatFault::UploadQuota => Denial::Quota,
        ChatFault::NotMember
        | ChatFault::Forbidden
        | ChatFault::Muted
        | ChatFault::Blocked
        | ChatFault::Silenced
        | ChatFault::Rejected
        | ChatFault::BadCode
        | ChatFault::NoSession => Denial::NotAuthorized,
        _ => Denial::Unspecified,
    })
}
