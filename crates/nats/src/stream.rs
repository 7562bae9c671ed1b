//! Streams: made, removed, purged, published to under an expected last sequence.

use crate::api::{self, ANSWER, MAKING, ask, nothing, number, text};
use crate::{Events, NatsError, NatsEvent, Tag};
use async_nats::{Client, HeaderMap};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Messages that may wait to be written to the connection; a log has 8 on their way at most.
const OUTGOING_MAX: usize = 1_024;

const EXPECTED: &str = "Nats-Expected-Last-Sequence";

/// A stream that is to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamSpec {
    /// Its name.
    pub name: String,
    /// Its only subject.
    pub subject: String,
    /// Servers that have a copy of it.
    pub replicas: u16,
    /// Bytes that it may have; then it takes nothing more.
    pub bytes_max: u64,
}

/// How a stream stands, as its leader tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamState {
    /// The sequence of its first message; of an empty stream, of the next one.
    pub first: u64,
    /// The sequence of its last message.
    pub last: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes that it may have.
    pub bytes_max: u64,
    /// How many copies it is to have.
    pub replicas: u16,
    /// The server that leads it.
    pub leader: String,
    /// The other servers: name, whether they have all, whether they are away, operations behind.
    pub others: Vec<StreamReplica>,
}

/// A further copy of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamReplica {
    /// The server's name.
    pub server: String,
    /// Whether it has everything.
    pub is_current: bool,
    /// Whether it is away.
    pub is_offline: bool,
    /// How many operations it is behind.
    pub lag: u64,
}

/// Makes a stream; one of this name that is there already does too.
pub(crate) async fn create(client: &Client, spec: &StreamSpec) -> Result<(), NatsError> {
    let StreamSpec { name, subject, replicas, bytes_max } = spec;
    let config = json!({
        "name": name, "subjects": [subject], "retention": "limits", "storage": "file",
        "num_replicas": replicas, "discard": "new", "max_bytes": bytes_max, "max_msgs": -1,
        "max_age": 0, "max_msg_size": -1, "max_consumers": -1, "deny_delete": true,
        "allow_direct": false,
    });
    make(client, name, &config).await
}

/// Makes a stream of this configuration.
pub(crate) async fn make(client: &Client, name: &str, config: &Value) -> Result<(), NatsError> {
    match ask(client, &format!("STREAM.CREATE.{name}"), config, MAKING).await {
        Ok(_) => Ok(()),
        // Perhaps it is there with another configuration, or its maker's answer was lost.
        Err(error) => state(client, name).await.map(|_| ()).map_err(|_| error),
    }
}

/// Removes a stream.
pub(crate) async fn delete(client: &Client, name: &str) -> Result<(), NatsError> {
    match ask(client, &format!("STREAM.DELETE.{name}"), &nothing(), MAKING).await {
        Ok(_) | Err(NatsError::Gone) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes all messages before a sequence.
pub(crate) async fn purge(client: &Client, name: &str, below: u64) -> Result<(), NatsError> {
    ask(client, &format!("STREAM.PURGE.{name}"), &json!({"seq": below}), ANSWER).await.map(|_| ())
}

/// State of a stream.
pub(crate) async fn state(client: &Client, name: &str) -> Result<StreamState, NatsError> {
    let info = ask(client, &format!("STREAM.INFO.{name}"), &nothing(), ANSWER).await?;
    let last = number(&info, "/state/last_seq");
    let first = match number(&info, "/state/messages") {
        0 => last + 1,
        _ => number(&info, "/state/first_seq"),
    };
    let others = info.pointer("/cluster/replicas").and_then(Value::as_array);
    let is = |of: &Value, name: &str| of.get(name).and_then(Value::as_bool).unwrap_or(false);
    let other = |of: &Value| StreamReplica {
        server: text(of, "/name"),
        is_current: is(of, "current"),
        is_offline: is(of, "offline"),
        lag: number(of, "/lag"),
    };
    Ok(StreamState {
        first,
        last,
        bytes: number(&info, "/state/bytes"),
        bytes_max: number(&info, "/config/max_bytes"),
        replicas: number(&info, "/config/num_replicas") as u16,
        leader: text(&info, "/cluster/leader"),
        others: others.into_iter().flatten().map(other).collect(),
    })
}

/// The names of the streams that have a subject like this.
pub(crate) async fn names(client: &Client, subject: &str) -> Result<Vec<String>, NatsError> {
    let mut names = Vec::new();
    loop {
        let body = json!({"subject": subject, "offset": names.len()});
        let answer = ask(client, "STREAM.NAMES", &body, ANSWER).await?;
        let page = answer.pointer("/streams").and_then(Value::as_array);
        let page = page.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let before = names.len();
        names.extend(page);
        if names.len() == before || names.len() as u64 >= number(&answer, "/total") {
            return Ok(names);
        }
    }
}

/// A message on its way to a stream.
pub(crate) struct Outgoing {
    pub(crate) tag: Tag,
    pub(crate) subject: String,
    pub(crate) expected: u64,
    pub(crate) message: Vec<u8>,
}

/// Publishes in the order in which messages are given, and tells of PubAcks as they come.
pub(crate) struct Publisher {
    outgoing: mpsc::Sender<Outgoing>,
}

impl Publisher {
    /// Begins, on the runtime on which it is called.
    pub(crate) async fn begin(client: Client, events: Events) -> Result<Publisher, NatsError> {
        let inbox = client.new_inbox();
        let failed = |error: async_nats::SubscribeError| NatsError::Other(error.to_string());
        let mut answers = client.subscribe(format!("{inbox}.>")).await.map_err(failed)?;
        let prefix = format!("{inbox}.");
        let tell = Events::clone(&events);
        tokio::spawn(async move {
            while let Some(message) = answers.next().await {
                let tag = message.subject.as_str().strip_prefix(&prefix).and_then(read_tag);
                let Some(tag) = tag else { continue };
                tell(NatsEvent::Published { tag, result: api::acknowledged(&message) });
            }
        });
        let (outgoing, mut given) = mpsc::channel::<Outgoing>(OUTGOING_MAX);
        tokio::spawn(async move {
            while let Some(Outgoing { tag, subject, expected, message }) = given.recv().await {
                let mut headers = HeaderMap::new();
                headers.insert(EXPECTED, expected.to_string().as_str());
                let [a, b, c, d] = tag;
                let reply = format!("{inbox}.{a}.{b}.{c}.{d}");
                let sent =
                    client.publish_with_reply_and_headers(subject, reply, headers, message.into());
                if sent.await.is_err() {
                    events(NatsEvent::Published { tag, result: Err(NatsError::Silent) });
                }
            }
        });
        Ok(Publisher { outgoing })
    }

    /// Publishes. False: too much waits, and it is not published.
    pub(crate) fn publish(&self, outgoing: Outgoing) -> bool {
        self.outgoing.try_send(outgoing).is_ok()
    }
}

fn read_tag(text: &str) -> Option<Tag> {
    let mut words = text.split('.').map(|word| word.parse().ok());
    let tag = [words.next()??, words.next()??, words.next()??, words.next()??];
    words.next().is_none().then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_four_numbers() {
        assert_eq!(read_tag("1.2.3.18446744073709551615"), Some([1, 2, 3, u64::MAX]));
        for wrong in ["", "1.2.3", "1.2.3.4.5", "1.2.x.4", "1..3.4", "-1.2.3.4"] {
            assert_eq!(read_tag(wrong), None, "{wrong}");
        }
    }
}
