//! Requests to JetStream: JSON over NATS, each with a time limit.

use crate::NatsError;
use crate::error::of_answer;
use async_nats::{Client, HeaderMap, Message, RequestError, RequestErrorKind, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

/// Longest wait for an answer. With the default of the library (10 s) a look-up stalls for as long
/// as NATS elects, twice.
pub(crate) const ANSWER: Duration = Duration::from_secs(1);

/// Longest wait for a stream or a consumer to be made, which servers agree on.
pub(crate) const MAKING: Duration = Duration::from_secs(5);

/// Asks JetStream.
pub(crate) async fn ask(
    client: &Client,
    what: &str,
    body: &Value,
    within: Duration,
) -> Result<Value, NatsError> {
    let body = match body.is_null() {
        true => Vec::new(),
        false => body.to_string().into_bytes(),
    };
    let answer = request(client, format!("$JS.API.{what}"), body, within).await?;
    let answer = read(&answer)?;
    match of_answer(&answer) {
        None => Ok(answer),
        Some(error) => Err(error),
    }
}

/// A request and its first answer.
pub(crate) async fn request(
    client: &Client,
    subject: String,
    body: Vec<u8>,
    within: Duration,
) -> Result<Message, NatsError> {
    let asked = client.request(subject, body.into());
    match tokio::time::timeout(within, asked).await {
        Err(_) => Err(NatsError::Silent),
        Ok(Ok(message)) => Ok(message),
        Ok(Err(error)) => Err(of_request(&error)),
    }
}

fn of_request(error: &RequestError) -> NatsError {
    match error.kind() {
        RequestErrorKind::TimedOut | RequestErrorKind::NoResponders => NatsError::Silent,
        _ => NatsError::Other(error.to_string()),
    }
}

/// The JSON of an answer.
pub(crate) fn read(message: &Message) -> Result<Value, NatsError> {
    if message.status == Some(StatusCode::NO_RESPONDERS) {
        return Err(NatsError::Silent);
    }
    serde_json::from_slice(&message.payload)
        .map_err(|error| NatsError::Other(format!("an answer that is no JSON: {error}")))
}

/// The sequence in a PubAck.
pub(crate) fn acknowledged(message: &Message) -> Result<u64, NatsError> {
    let answer = read(message)?;
    if let Some(error) = of_answer(&answer) {
        return Err(error);
    }
    let sequence = answer.get("seq").and_then(Value::as_u64);
    sequence.ok_or_else(|| NatsError::Other("a PubAck without a sequence".into()))
}

/// A number in an answer, 0 if it is not there.
pub(crate) fn number(of: &Value, path: &str) -> u64 {
    of.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// A text in an answer, empty if it is not there.
pub(crate) fn text(of: &Value, path: &str) -> String {
    of.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// No body.
pub(crate) fn nothing() -> Value {
    json!(null)
}

/// A request with headers and its first answer.
pub(crate) async fn request_with_headers(
    client: &Client,
    subject: String,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<Message, NatsError> {
    let asked = client.request_with_headers(subject, headers, body.into());
    match tokio::time::timeout(ANSWER, asked).await {
        Ok(Ok(message)) => Ok(message),
        Ok(Err(error)) => Err(of_request(&error)),
        Err(_) => Err(NatsError::Silent),
    }
}
