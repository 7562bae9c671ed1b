//! A request as an MQTT message brings it, and the message that answers it (IM 19.2).

use super::json;
use base::time::Instant;
use model::chat::{CHAT_ANSWERS, CHAT_REQUESTS, ChatCall, ChatDelivery, ChatFault};
use model::limits::Limits;
use model::session::{Denial, Outgoing};
use model::topic::{Publication, Qos};
use proto_im::codec::frame::client_bytes_max;
use proto_im::codec::protobuf::{Fields, Sink};
use proto_im::schema::{ImSchema, SchemaLine};
use proto_mqtt::codec::block::{Block, Properties};
use proto_mqtt::codec::fanout::passed_on;
use proto_mqtt::codec::property::Property;
use std::borrow::Cow;
use std::sync::Arc;

/// The content type of a message in JSON.
const JSON: &str = "application/json";

/// Suffix of a request's name that says that the request is in JSON.
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
    /// Its contents, while the device has no session yet.
    pub frame: Option<Box<[u8]>>,
}

/// Why a request is not done: for the device, and for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fault {
    pub why: ChatFault,
    pub reason: String,
    pub denial: Denial,
}

impl Pending {
    /// Bytes that it keeps.
    pub(super) fn bytes(&self) -> usize {
        let correlation = self.reply.correlation.as_ref().map_or(0, |data| data.len());
        self.frame.as_ref().map_or(0, |frame| frame.len()) + self.reply.topic.len() + correlation
    }
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

/// The request that a call names.
fn named(call: &ChatCall) -> Result<&'static SchemaLine, Fault> {
    let topic = call.message.topic();
    let name = topic.strip_prefix(CHAT_REQUESTS).unwrap_or_default();
    let name = name.strip_suffix(JSON_SUFFIX).unwrap_or(name);
    ImSchema::get().request(name).ok_or_else(|| {
        let fault = Fault::of(ChatFault::Invalid, format!("unknown request {name:?}"));
        Fault { denial: Denial::TopicInvalid, ..fault }
    })
}

/// The message that a call brings, in either form.
fn said<'a>(field: &SchemaLine, call: &'a ChatCall, reply: &Reply) -> Result<Cow<'a, [u8]>, Fault> {
    let payload = call.message.payload();
    match reply.is_json {
        true => json::to_message(field.kind, payload)
            .map(Cow::Owned)
            .map_err(|error| Fault::of(ChatFault::Invalid, error)),
        false => Ok(Cow::Borrowed(payload)),
    }
}

/// The device's own number for a request, as far as that can be read.
fn number_of(field: &SchemaLine, request: &[u8]) -> u32 {
    let Some(number) = ImSchema::get().named(field.kind, "number") else { return 0 };
    let (mut fields, mut own) = (Fields::of(request), 0);
    while let Ok(Some((at, value))) = fields.next_field() {
        own = if at == number.number { value.u32().unwrap_or(own) } else { own };
    }
    own
}

/// The request's own number, of a call that is not decoded further.
pub(super) fn own_number(call: &ChatCall, reply: &Reply) -> u32 {
    let number = |field| Some(number_of(field, &said(field, call, reply).ok()?));
    named(call).ok().and_then(number).unwrap_or_default()
}

/// The `ClientFrame` that a call is, and the device's own number for it, or what is wrong with it.
pub(super) fn frame_of(
    call: &ChatCall,
    reply: &Reply,
    limits: &Limits,
) -> Result<(Box<[u8]>, u32), Fault> {
    let field = named(call)?;
    if call.qos == Qos::ExactlyOnce {
        return Err(Fault::of(ChatFault::Invalid, "requests must be sent at QoS 0 or 1"));
    }
    let most = client_bytes_max(limits);
    let too_large = || Fault::of(ChatFault::TooLarge, "the request is larger than allowed");
    // Bytes take a third more in JSON, and texts what is escaped in them.
    let said_max = if reply.is_json { 2 * most } else { most };
    if call.message.payload().len() > said_max {
        return Err(too_large());
    }
    let request = said(field, call, reply)?;
    if request.len() > most {
        return Err(too_large());
    }
    let mut frame = Vec::with_capacity(request.len() + 12);
    frame.tag(field.number, 2);
    frame.varint(request.len() as u64);
    frame.raw(&request);
    Ok((frame.into(), number_of(field, &request)))
}

/// A message to the device, in one form or the other. One that cannot be written as JSON goes as it
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

/// Error in the acknowledgement to the sender of a message; `None`: success.
pub(super) fn denial_of(answer: &ChatDelivery) -> Option<Denial> {
    match answer {
        ChatDelivery::Failed { why, .. } => denial(*why),
        ChatDelivery::Rejected(rejected) => denial(rejected.why),
        _ => None,
    }
}

/// A fault as a reason of MQTT; `None`: it is as if it had been done.
fn denial(why: ChatFault) -> Option<Denial> {
    Some(match why {
        ChatFault::Unchanged => return None,
        ChatFault::Invalid | ChatFault::TooLarge | ChatFault::TypeRefused => Denial::PayloadFormat,
        ChatFault::Busy => Denial::Busy,
        ChatFault::StoreFull => Denial::StoreFull,
        ChatFault::StoreFailed => Denial::StoreFailed,
        ChatFault::RateLimited
        | ChatFault::GroupFull
        | ChatFault::BansFull
        | ChatFault::PublicFull
        | ChatFault::TemporaryFull
        | ChatFault::GroupsFull
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
        | ChatFault::NoSession
        | ChatFault::InvitationNeeded
        | ChatFault::GroupBanned => Denial::NotAuthorized,
        _ => Denial::Unspecified,
    })
}
