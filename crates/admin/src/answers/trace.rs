//! Events of a trace, as server-sent events.
//!
//! Invariant: a secret is shown only by its length, and a payload only as far as requested.

use crate::texts::Base64;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::ports::trace::{TraceDirection, TraceEvent, TracePayload, TraceValue};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Traffic of a connection, or an observation of the server about it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TraceEvent")]
pub(crate) struct TracedEvent {
    /// Unix millisecond.
    at_ms: u64,
    /// Number of the connection in this process; 0: none.
    connection: u64,
    /// `miop5`, `mqtt311`, `im`, `xmpp` and so on.
    protocol: &'static str,
    /// `in`: from the client; `out`: from the server; null: not on the wire.
    #[schemars(extend("enum" = ["in", "out", null]))]
    direction: Option<&'static str>,
    /// Name of the packet, frame or stanza. In lower case, observations of the server: `opened`,
    /// `followed` (it was connected before the trace), `refused`, `dropped`, `closed`, `undecoded`;
    /// for a topic `published` and `delivered`.
    kind: String,
    /// Client identifier, or device; null: unknown so far.
    client_id: Option<String>,
    /// User or account; null: none, or unknown so far.
    user: Option<String>,
    /// Address; null: unknown.
    address: Option<String>,
    /// Bytes on the wire, without TLS and WebSocket; 0: not on the wire.
    bytes: u64,
    /// Its fields, by name: numbers, texts, booleans, lists of texts. A secret is `{"redacted":
    /// BYTES}`.
    #[schemars(with = "BTreeMap<String, Value>")]
    fields: Map<String, Value>,
    /// Its payload; null: it has none.
    payload: Option<TracedPayload>,
}

/// A payload, or its beginning.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TracePayload")]
pub(crate) struct TracedPayload {
    /// Bytes of the whole payload.
    bytes: u64,
    /// The part that is shown.
    #[schemars(with = "Base64")]
    shown_base64: String,
    /// The shown part as text, if it is UTF-8; without an incomplete last character.
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<String>,
}

/// Events are missing in a trace.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TraceLeftOut")]
pub(crate) struct TracedLeftOut {
    /// Number of missing events: too many, or too large.
    pub(crate) count: u64,
}

/// A trace has ended.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TraceOver")]
pub(crate) struct TracedEnd {
    /// `time`: the requested time is over; `stopping`: the server is stopping; `session_over`: the
    /// caller's token or session is no longer valid.
    #[schemars(extend("enum" = ["time", "stopping", "session_over"]))]
    pub(crate) reason: &'static str,
}

impl From<TraceEvent> for TracedEvent {
    fn from(event: TraceEvent) -> TracedEvent {
        let fields = event.fields.into_iter();
        TracedEvent {
            at_ms: event.at_ms,
            connection: event.connection,
            protocol: event.protocol,
            direction: event.direction.map(|direction| match direction {
                TraceDirection::In => "in",
                TraceDirection::Out => "out",
            }),
            kind: event.kind,
            client_id: event.client,
            user: event.user,
            address: event.peer.map(|peer| peer.to_string()),
            bytes: event.bytes as u64,
            fields: fields.map(|(name, value)| (name.to_owned(), told(value))).collect(),
            payload: event.payload.map(TracedPayload::from),
        }
    }
}

impl From<TracePayload> for TracedPayload {
    fn from(payload: TracePayload) -> TracedPayload {
        TracedPayload {
            bytes: payload.bytes as u64,
            shown_base64: STANDARD.encode(&payload.shown),
            shown: text(&payload.shown, payload.shown.len() < payload.bytes),
        }
    }
}

fn told(value: TraceValue) -> Value {
    match value {
        TraceValue::Number(number) => json!(number),
        TraceValue::Flag(flag) => json!(flag),
        TraceValue::Text(text) => json!(text),
        TraceValue::List(all) => json!(all),
        TraceValue::Redacted(bytes) => json!({ "redacted": bytes }),
    }
}

/// Bytes as text, if they are UTF-8; without an incomplete last character.
fn text(bytes: &[u8], is_cut: bool) -> Option<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(error) if is_cut && error.error_len().is_none() => {
            let whole = &bytes[..error.valid_up_to()];
            std::str::from_utf8(whole).ok().map(str::to_owned)
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_text_as_far_as_it_was_cut_between_characters() {
        let cut = |bytes: usize, shown: &[u8]| {
            let payload = TracePayload { bytes, shown: shown.into() };
            TracedPayload::from(payload).shown
        };
        assert_eq!(cut(3, "aü".as_bytes()).as_deref(), Some("aü"));
        assert_eq!(cut(3, &"aü".as_bytes()[..2]).as_deref(), Some("a"));
        assert_eq!(cut(2, &"aü".as_bytes()[..2]), None, "all of it, and no text");
        assert_eq!(cut(9, b"a\xff"), None);
        assert_eq!(cut(0, b"").as_deref(), Some(""));
    }

    #[test]
    fn a_secret_is_told_by_its_length() {
        assert_eq!(told(TraceValue::Redacted(7)), json!({ "redacted": 7 }));
        assert_eq!(told(TraceValue::List(vec!["a".into()])), json!(["a"]));
    }
}
