//! A plain pull consumer: one replica, in memory, without acknowledgements.
//!
//! The consumer is made anew behind the last message read whenever anything is strange about it:
//! its sequence is not the one wanted, its server is silent, or a message is missing. (The
//! library's ordered consumer began at 1 again when it was made anew before its first message.)
//! Invariant: messages that it gives have rising sequences.

use crate::NatsError;
use crate::api::{MAKING, ask};
use async_nats::{Client, Message, StatusCode, Subscriber};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;

/// Messages that a consumer may send without being asked again.
const PULLED: usize = 64;

/// A request for messages ends after so long, and says so: a sign of life.
const EXPIRES: Duration = Duration::from_secs(4);

/// Silence after which the consumer is taken to be gone.
const SILENCE: Duration = Duration::from_secs(6);

/// A consumer that nobody asks is removed by its server after so long.
const INACTIVE: Duration = Duration::from_secs(15);

/// Where a consumer begins.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a> {
    /// With this sequence.
    At(u64),
    /// With the last message of each of these subjects.
    LastOf(&'a str),
}

pub(crate) struct Consumer {
    stream: String,
    name: String,
    inbox: String,
    subscriber: Subscriber,
    outstanding: usize,
}

/// A message of a stream.
pub(crate) struct Delivered {
    pub(crate) sequence: u64,
    /// How many more the consumer has.
    pub(crate) pending: u64,
    pub(crate) message: Message,
}

/// Report of a consumer.
pub(crate) enum Said {
    Message(Delivered),
    /// No new message; the consumer lives.
    Idle,
}

impl Consumer {
    pub(crate) async fn create(
        client: &Client,
        stream: &str,
        start: Start<'_>,
    ) -> Result<Consumer, NatsError> {
        let inbox = client.new_inbox();
        let name = inbox.rsplit('.').next().unwrap_or(&inbox).to_owned();
        let mut config = json!({
            "name": name, "ack_policy": "none", "replay_policy": "instant", "num_replicas": 1,
            "mem_storage": true, "inactive_threshold": INACTIVE.as_nanos() as u64,
        });
        match start {
            Start::At(sequence) => {
                config["deliver_policy"] = json!("by_start_sequence");
                config["opt_start_seq"] = json!(sequence.max(1));
            }
            Start::LastOf(subjects) => {
                config["deliver_policy"] = json!("last_per_subject");
                config["filter_subject"] = json!(subjects);
            }
        }
        let failed = |error: async_nats::SubscribeError| NatsError::Other(error.to_string());
        let subscriber = client.subscribe(inbox.clone()).await.map_err(failed)?;
        let body = json!({"stream_name": stream, "config": config, "action": "create"});
        ask(client, &format!("CONSUMER.CREATE.{stream}.{name}"), &body, MAKING).await?;
        Ok(Consumer { stream: stream.to_owned(), name, inbox, subscriber, outstanding: 0 })
    }

    pub(crate) fn stream(&self) -> &str {
        &self.stream
    }

    /// The next message, as soon as one comes.
    pub(crate) async fn next(&mut self, client: &Client) -> Result<Said, NatsError> {
        self.refill(client).await?;
        match tokio::time::timeout(SILENCE, self.subscriber.next()).await {
            Ok(Some(message)) => self.take(message),
            Ok(None) | Err(_) => Err(NatsError::Silent),
        }
    }

    /// The next message, if it is there.
    pub(crate) async fn next_now(&mut self, client: &Client) -> Result<Said, NatsError> {
        self.refill(client).await?;
        match self.subscriber.next().now_or_never() {
            Some(Some(message)) => self.take(message),
            Some(None) => Err(NatsError::Silent),
            None => Ok(Said::Idle),
        }
    }

    async fn refill(&mut self, client: &Client) -> Result<(), NatsError> {
        if self.outstanding > PULLED / 2 {
            return Ok(());
        }
        let batch = PULLED - self.outstanding;
        let expires = EXPIRES.as_nanos() as u64;
        let body = json!({"batch": batch, "expires": expires}).to_string().into_bytes();
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", self.stream, self.name);
        self.outstanding += batch;
        let sent = client.publish_with_reply(subject, self.inbox.clone(), body.into()).await;
        sent.map_err(|error| NatsError::Other(error.to_string()))
    }

    fn take(&mut self, message: Message) -> Result<Said, NatsError> {
        match message.status.filter(|status| *status != StatusCode::OK).map(|it| it.as_u16()) {
            None => {}
            Some(100) => return Ok(Said::Idle),
            // The request is over, after its time or because there is nothing.
            Some(404 | 408) => {
                self.outstanding = 0;
                return Ok(Said::Idle);
            }
            // It is gone, or another server has it now.
            Some(_) => return Err(NatsError::Silent),
        }
        let reply = message.reply.as_ref().map(|reply| reply.as_str());
        let Some((sequence, pending)) = reply.and_then(read_place) else {
            return Err(NatsError::Other("a message of a stream without a place".into()));
        };
        self.outstanding = self.outstanding.saturating_sub(1);
        Ok(Said::Message(Delivered { sequence, pending, message }))
    }
}

/// The sequence of a message in its stream, and how many come behind it, from its reply subject:
/// `$JS.ACK.stream.consumer.deliveries.sequence.n.time.pending`, since NATS 2.10 also with domain
/// and account behind `$JS.ACK`, and more at the end.
fn read_place(reply: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
    let skipped = match words.len() {
        7 => 0,
        length if length >= 9 => 2,
        _ => return None,
    };
    Some((words[skipped + 3].parse().ok()?, words[skipped + 6].parse().ok()?))
}

/// The value of a header.
pub(crate) fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message.headers.as_ref()?.get(name).map(|value| value.as_str())
}

/// Bytes in an answer, in base64.
pub(crate) fn decoded(of: &Value, path: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    let text = of.pointer(path)?.as_str()?;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_message_is_in_its_reply_subject() {
        assert_eq!(read_place("$JS.ACK.S.c.1.42.7.1700000000.3"), Some((42, 3)));
        assert_eq!(read_place("$JS.ACK._.hash.S.c.1.42.7.1700000000.3"), Some((42, 3)));
        assert_eq!(read_place("$JS.ACK._.hash.S.c.1.42.7.1700000000.3.token"), Some((42, 3)));
        for wrong in ["", "reply", "$JS.ACK.S.c.1.42.7.17", "$JS.ACK.S.c.1.x.7.1.3"] {
            assert_eq!(read_place(wrong), None, "{wrong}");
        }
    }
}
