//! Wishes for a trace: whom or what it follows, how much it shows, how long it goes on.

use crate::fault::Fault;
use crate::feed::topic;
use crate::texts::IpText;
use model::limits::{ApiLimits, TopicLimits};
use model::ports::trace::{PayloadShown, TraceOrder, TraceScope};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::IpAddr;
use std::time::Duration;

/// How long a trace goes on when nothing is said, seconds.
const LASTS_S: u32 = 5 * 60;

/// Longest name of a client or user that is looked for, bytes.
const NAME_BYTES_MAX: usize = 2_048;

/// How much of payloads is shown.
#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TracePayloadShown")]
pub(crate) enum PayloadWish {
    /// Their lengths alone.
    None,
    /// Their first 64 bytes.
    Head,
    /// All of them, up to trace_payload_bytes_max.
    Whole,
}

/// Query of `GET /v1/trace`: one of `client`, `user`, `address` and `topic`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceQuery {
    /// Follow this one: a client identifier of MQTT, a device of MIOP, `name@domain/device` of IM
    /// and XMPP.
    client: Option<String>,
    /// Follow the clients of this user or account, with or without its domain.
    user: Option<String>,
    /// Follow connections from this address.
    #[schemars(with = "Option<IpText>")]
    address: Option<IpAddr>,
    /// Follow messages on topics that match this filter.
    topic: Option<String>,
    /// How much of payloads is shown; head when absent: their first 64 bytes.
    payload: Option<PayloadWish>,
    /// Seconds after which it ends; 300 when absent, and at most trace_s_max.
    duration_s: Option<u32>,
}

impl TraceQuery {
    /// The order, and how long it holds.
    pub(crate) fn order(
        self,
        api: &ApiLimits,
        topics: &TopicLimits,
    ) -> Result<(TraceOrder, Duration), Fault> {
        let most = api.trace_s_max;
        let lasts_s = self.duration_s.unwrap_or(LASTS_S.min(most));
        if !(1..=most).contains(&lasts_s) {
            return Err(Fault::bad(format!("`duration_s` must be 1 to {most}")));
        }
        let payload = match self.payload.unwrap_or(PayloadWish::Head) {
            PayloadWish::None => PayloadShown::Nothing,
            PayloadWish::Head => PayloadShown::Head,
            PayloadWish::Whole => PayloadShown::Whole,
        };
        let scope = match (self.client, self.user, self.address, self.topic) {
            (Some(client), None, None, None) => TraceScope::Client(name("client", client)?),
            (None, Some(user), None, None) => TraceScope::User(name("user", user)?),
            (None, None, Some(address), None) => TraceScope::Address(address),
            (None, None, None, Some(filter)) => match topic::wrong_filter(&filter, topics) {
                Some(why) => return Err(Fault::bad(format!("`topic` {why}"))),
                None => TraceScope::Topic(filter.into()),
            },
            _ => {
                let message = "give exactly one of `client`, `user`, `address` and `topic`";
                return Err(Fault::bad(message));
            }
        };
        Ok((TraceOrder { scope, payload }, Duration::from_secs(lasts_s.into())))
    }
}

fn name(of: &str, text: String) -> Result<Box<str>, Fault> {
    match text.is_empty() || text.len() > NAME_BYTES_MAX {
        true => Err(Fault::bad(format!("`{of}` must have 1 to {NAME_BYTES_MAX} bytes"))),
        false => Ok(text.into()),
    }
}
