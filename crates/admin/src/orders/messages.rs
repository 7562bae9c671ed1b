//! Orders of applications about topics: messages to publish, subscriptions, pages of clients and of
//! retained messages.
//!
//! Like all orders: unknown fields are errors, and a value that leaves this file is within every
//! limit that can be known without asking the shards. Invariant: a message made here fits a
//! packet.

use super::properties::{Properties, encode};
use crate::fault::Fault;
use crate::feed::topic;
use crate::texts::{
    Base64, ClientName, IpText, KnownFilter, PageLimit, Pair, Place, QosNumber, RetainedTopic,
    TopicFilter, TopicName,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::limits::{Limits, TopicLimits};
use model::ports::topics::TopicCommand;
use model::topic::{Publication, Qos, RetainHandling, SubscriptionOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;

/// Messages in one list.
pub(crate) const MESSAGES_MAX: usize = 1_000;

/// Bytes of a packet around topic, properties and payload, at most.
const PACKET_BYTES: usize = 16;

/// Longest text or data of a property, bytes: its length has 16 bits.
const PROPERTY_BYTES_MAX: usize = u16::MAX as usize;

/// A message to publish.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Publication")]
pub(crate) struct PublishBody {
    /// Topic name, without wildcards.
    #[schemars(with = "TopicName")]
    topic: String,
    /// The payload as text. Neither this nor the next: no payload, which clears a retained message.
    payload: Option<String>,
    /// The payload as bytes.
    #[schemars(with = "Option<Base64>")]
    payload_base64: Option<String>,
    /// How often it is delivered.
    #[serde(default)]
    #[schemars(with = "QosNumber")]
    qos: u8,
    /// Keep it for later subscribers.
    #[serde(default)]
    retain: bool,
    /// Seconds after which it is delivered no more; absent: none.
    expiry_s: Option<u32>,
    /// Seconds to wait before it is published.
    #[serde(default)]
    delay_s: u32,
    /// The payload says of itself that it is text.
    #[serde(default)]
    payload_is_utf8: bool,
    /// Media type of the payload.
    content_type: Option<String>,
    /// Where an answer goes.
    #[schemars(with = "Option<TopicName>")]
    response_topic: Option<String>,
    /// Data that the response must repeat, as text.
    correlation_data: Option<String>,
    /// Data that the response must repeat, as bytes.
    #[schemars(with = "Option<Base64>")]
    correlation_data_base64: Option<String>,
    /// Pairs of name and value, in order; a name may come again.
    #[serde(default)]
    #[schemars(with = "Vec<Pair>")]
    user_properties: Vec<(String, String)>,
}

/// A message, or a list of them.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "PublishOrder")]
#[expect(dead_code, reason = "only described: a list is told from a message by its first byte")]
pub(crate) enum PublishOrder {
    One(PublishBody),
    /// Published in this order; 1 to 1000.
    List(#[schemars(length(min = 1, max = MESSAGES_MAX))] Vec<PublishBody>),
}

impl PublishBody {
    /// Topic, as the caller wrote it.
    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    /// The order, at this Unix second; `place` stands before the names of fields that are wrong.
    pub(crate) fn order(
        self,
        limits: &Limits,
        now_s: u64,
        place: &str,
    ) -> Result<TopicCommand, Fault> {
        let topics = &limits.topics;
        if let Some(why) = topic::wrong_name(&self.topic, topics) {
            return Err(wrong(place, "topic", why));
        }
        let qos = qos(self.qos, &format!("{place}qos"))?;
        if self.delay_s > topics.delay_s_max {
            return Err(wrong(place, "delay_s", format!("must be at most {}", topics.delay_s_max)));
        }
        let (delay_s, retain, name) = (self.delay_s, self.retain, self.topic.clone());
        let expire_at = self.expiry_s.map_or(0, |expiry_s| {
            let at = now_s + u64::from(delay_s) + u64::from(expiry_s);
            u32::try_from(at).unwrap_or(u32::MAX)
        });
        let (properties, payload) = self.contents(topics, place)?;
        let length = name.len() + properties.len() + payload.len() + PACKET_BYTES;
        if length > topics.packet_bytes_max as usize {
            let max = topics.packet_bytes_max;
            return Err(Fault::too_large(format!(
                "the message makes a packet of {length} bytes; the maximum is {max}"
            )));
        }
        let mut message = Publication::new(&name, &properties, &payload);
        message.at_s = u32::try_from(now_s).unwrap_or(u32::MAX);
        (message.expire_at, message.qos, message.retain) = (expire_at, qos, retain);
        Ok(TopicCommand::Publish { message: Arc::new(message), delay_s })
    }

    /// The properties, as they go on to every receiver, and the payload.
    fn contents(self, limits: &TopicLimits, place: &str) -> Result<(Vec<u8>, Vec<u8>), Fault> {
        let both = |name: &str| format!("{place}{name}");
        let payload = bytes(self.payload, self.payload_base64, &both("payload"))?;
        if self.payload_is_utf8 && std::str::from_utf8(&payload).is_err() {
            let why = "is true, but the payload is not UTF-8".into();
            return Err(wrong(place, "payload_is_utf8", why));
        }
        let response = self.response_topic.as_ref();
        if let Some(why) = response.and_then(|name| topic::wrong_name(name, limits)) {
            return Err(wrong(place, "response_topic", why));
        }
        let (text, base64) = (self.correlation_data, self.correlation_data_base64);
        let has_data = text.is_some() || base64.is_some();
        let data = bytes(text, base64, &both("correlation_data"))?;
        let properties = Properties {
            is_utf8: self.payload_is_utf8,
            content_type: self.content_type,
            response_topic: self.response_topic,
            correlation_data: has_data.then_some(data),
            user_properties: self.user_properties,
        };
        if let Some(name) = too_long(&properties) {
            return Err(wrong(
                place,
                name,
                format!("must have at most {PROPERTY_BYTES_MAX} bytes"),
            ));
        }
        Ok((encode(&properties), payload))
    }
}

fn wrong(place: &str, field: &str, why: String) -> Fault {
    Fault::bad(format!("`{place}{field}` {why}"))
}

/// The property that has a text or data that is too long, if one has.
fn too_long(properties: &Properties) -> Option<&'static str> {
    let long = |length: usize| length > PROPERTY_BYTES_MAX;
    let text = |text: &Option<String>| text.as_ref().is_some_and(|text| long(text.len()));
    let data = properties.correlation_data.as_ref().is_some_and(|data| long(data.len()));
    let mut pairs = properties.user_properties.iter();
    let pair = pairs.any(|(name, value)| long(name.len()) || long(value.len()));
    let found = [
        (text(&properties.content_type), "content_type"),
        (data, "correlation_data"),
        (pair, "user_properties"),
    ];
    found.into_iter().find_map(|(wrong, name)| wrong.then_some(name))
}

/// A field that comes as text or, under its name with `_base64`, as bytes; neither: no bytes.
fn bytes(text: Option<String>, base64: Option<String>, name: &str) -> Result<Vec<u8>, Fault> {
    match (text, base64) {
        (None, None) => Ok(Vec::new()),
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(text)) => STANDARD
            .decode(text)
            .map_err(|error| Fault::bad(format!("`{name}_base64` is not base64: {error}"))),
        (Some(_), Some(_)) => {
            Err(Fault::bad(format!("give `{name}` or `{name}_base64`, not both")))
        }
    }
}

fn qos(number: u8, name: &str) -> Result<Qos, Fault> {
    Qos::of(number).ok_or_else(|| Fault::bad(format!("`{name}` must be 0, 1 or 2")))
}

/// A subscription that is wished for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SubscribeOrder")]
pub(crate) struct SubscribeBody {
    /// Topic filter; `$share/GROUP/…` and `$exclusive/…` as for clients.
    #[schemars(with = "TopicFilter")]
    filter: String,
    /// The highest QoS.
    #[serde(default)]
    #[schemars(with = "QosNumber")]
    qos: u8,
    /// Whether messages that the client published itself are left out.
    #[serde(default)]
    no_local: bool,
    /// Messages keep their retain flag.
    #[serde(default)]
    retain_as_published: bool,
    /// When retained messages are sent.
    #[schemars(extend("enum" = RETAIN_HANDLING.map(|(word, _)| word), "default" = "send"))]
    retain_handling: Option<String>,
}

/// The words for `retain_handling`.
pub(crate) const RETAIN_HANDLING: [(&str, RetainHandling); 3] = [
    ("send", RetainHandling::Send),
    ("send_if_new", RetainHandling::SendIfNew),
    ("do_not_send", RetainHandling::DoNotSend),
];

impl SubscribeBody {
    pub(crate) fn wish(self, limits: &TopicLimits) -> Result<SubscriptionOptions, Fault> {
        let filter = filter(&self.filter, limits)?;
        let handling = self.retain_handling.as_deref().unwrap_or("send");
        let handling = RETAIN_HANDLING.into_iter().find(|(word, _)| *word == handling);
        let (_, retain_handling) = handling.ok_or_else(|| {
            Fault::bad("`retain_handling` must be `send`, `send_if_new` or `do_not_send`")
        })?;
        Ok(SubscriptionOptions {
            filter,
            qos: qos(self.qos, "qos")?,
            no_local: self.no_local,
            retain_as_published: self.retain_as_published,
            retain_handling,
        })
    }
}

/// A checked filter, of a field or parameter with this name.
pub(crate) fn filter(text: &str, limits: &TopicLimits) -> Result<Box<str>, Fault> {
    match topic::wrong_filter(text, limits) {
        Some(why) => Err(Fault::bad(format!("`filter` {why}"))),
        None => Ok(text.into()),
    }
}

/// A filter of a subscription that is there, or one to look with: whatever a client may have sent.
pub(crate) fn known_filter(text: &str, limits: &TopicLimits) -> Result<Box<str>, Fault> {
    match topic::impossible_filter(text, limits) {
        Some(why) => Err(Fault::bad(format!("`filter` {why}"))),
        None => Ok(text.into()),
    }
}

/// A client identifier, as far as there may be one (MQTT5 1.5.4: any text without U+0000).
pub(crate) fn client(text: String, limits: &TopicLimits) -> Result<Box<str>, Fault> {
    let max = limits.client_id_bytes_max;
    if text.is_empty() || text.len() > usize::from(max) || text.contains('\0') {
        let why = format!("a client identifier must have 1 to {max} bytes and no U+0000");
        return Err(Fault::bad(why));
    }
    Ok(text.into())
}

/// A name of a topic that something may be retained on.
pub(crate) fn known_name(text: String, limits: &TopicLimits) -> Result<Box<str>, Fault> {
    match topic::impossible_name(&text, limits) {
        Some(why) => Err(Fault::bad(format!("the topic {why}"))),
        None => Ok(text.into()),
    }
}

/// Query of `GET /v1/clients`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientsQuery {
    /// Only those with a connection (or without).
    pub(crate) online: Option<bool>,
    /// Only of this user.
    pub(crate) user: Option<String>,
    /// Only those whose identifier begins so.
    pub(crate) prefix: Option<String>,
    /// Only those that are online from this address.
    #[schemars(with = "Option<IpText>")]
    pub(crate) address: Option<IpAddr>,
    /// Only those for whom so many messages wait, at least.
    pub(crate) queued_min: Option<u32>,
    /// Only those who lost so many messages since their session began, at least.
    pub(crate) dropped_min: Option<u64>,
    /// Where the last page ended: its `next`.
    #[schemars(with = "Option<Place>")]
    pub(crate) after: Option<u64>,
    /// Entries on the page.
    #[schemars(with = "Option<PageLimit>")]
    pub(crate) limit: Option<u32>,
}

/// Query of `/v1/client` and `/v1/client/subscriptions`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientQuery {
    /// The client identifier, any text that one may have.
    #[schemars(with = "ClientName")]
    pub(crate) client_id: String,
}

/// Query of `DELETE /v1/client`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedKickQuery {
    /// The client identifier, any text that one may have.
    #[schemars(with = "ClientName")]
    pub(crate) client_id: String,
    /// The session too: subscriptions and what waits are forgotten.
    #[serde(default)]
    pub(crate) session: bool,
}

/// Query of `DELETE /v1/client/subscriptions`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedUnsubscribeQuery {
    /// The client identifier, any text that one may have.
    #[schemars(with = "ClientName")]
    pub(crate) client_id: String,
    /// Its topic filter.
    #[schemars(with = "KnownFilter")]
    pub(crate) filter: String,
}

/// Query of `/v1/retained_message`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopicQuery {
    /// The topic, any text that one may have.
    #[schemars(with = "RetainedTopic")]
    pub(crate) topic: String,
}

/// Query of `DELETE /v1/clients/{client}`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KickQuery {
    /// The session too: subscriptions and what waits are forgotten.
    #[serde(default)]
    pub(crate) session: bool,
}

/// Query of `DELETE /v1/clients/{client}/subscriptions`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnsubscribeQuery {
    /// Its topic filter.
    #[schemars(with = "KnownFilter")]
    pub(crate) filter: String,
}

/// Query of `GET /v1/retained`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetainedQuery {
    /// Only those on topics that match.
    #[schemars(with = "Option<KnownFilter>", extend("default" = "#"))]
    pub(crate) filter: Option<String>,
    /// Where the last page ended: its `next`.
    pub(crate) after: Option<String>,
    /// Entries on the page.
    #[schemars(with = "Option<PageLimit>")]
    pub(crate) limit: Option<u32>,
}
