//! Messages on topics: retained messages, and results of publishing.
//!
//! This module does not know the broker.

use super::{ErrorBody, ErrorWords};
use crate::orders::properties;
use crate::texts::{Base64, Pair, QosNumber};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::topic::Publication;
use schemars::JsonSchema;
use serde::Serialize;

/// A published message: the payload, also as text if it is text, and its properties.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Message {
    /// Topic name.
    topic: String,
    /// As published.
    #[schemars(with = "QosNumber")]
    qos: u8,
    /// As published.
    retain: bool,
    /// Unix second at which it arrived.
    at_s: u32,
    /// Unix second at which it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_at_s: Option<u32>,
    /// The payload.
    #[schemars(with = "Base64")]
    payload_base64: String,
    /// The payload as text, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    /// True: the payload is marked as text. Otherwise absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    payload_is_utf8: bool,
    /// Content type of the payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    /// Response topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_topic: Option<String>,
    /// Correlation data of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Base64>")]
    correlation_data_base64: Option<String>,
    /// Pairs of name and value, in order; names may repeat.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Pair>")]
    user_properties: Vec<(String, String)>,
}

impl From<&Publication> for Message {
    fn from(message: &Publication) -> Message {
        let properties = properties::decode(message.properties());
        Message {
            topic: message.topic().into(),
            qos: message.qos as u8,
            retain: message.retain,
            at_s: message.at_s,
            expire_at_s: (message.expire_at != 0).then_some(message.expire_at),
            payload_base64: STANDARD.encode(message.payload()),
            payload: std::str::from_utf8(message.payload()).ok().map(str::to_owned),
            payload_is_utf8: properties.is_utf8,
            content_type: properties.content_type,
            response_topic: properties.response_topic,
            correlation_data_base64: properties.correlation_data.map(|data| STANDARD.encode(data)),
            user_properties: properties.user_properties,
        }
    }
}

/// A page of retained messages.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MessagePage {
    /// The page, by topic.
    pub(crate) messages: Vec<Message>,
    /// The next query's `after`; null at the end.
    pub(crate) next: Option<String>,
}

/// The result of a message, or of each of a list.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum PublishAnswer {
    One(Published),
    List(PublishResults),
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Published {
    /// Whether a subscription matched, as far as is known.
    pub(crate) matched: bool,
}

/// The results of a list.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PublishResults {
    /// In the order of the list.
    pub(crate) results: Vec<PublishResult>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum PublishResult {
    Published(Published),
    Refused(ErrorBody),
}

impl From<Result<Published, ErrorWords>> for PublishResult {
    fn from(published: Result<Published, ErrorWords>) -> PublishResult {
        match published {
            Ok(published) => PublishResult::Published(published),
            Err(error) => PublishResult::Refused(ErrorBody { error }),
        }
    }
}
