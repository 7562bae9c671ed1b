//! A table: a bucket of JetStream (`KV_name`) whose values change by compare-and-set.
//!
//! A bucket is a stream with one message a key. One watcher tells of all values, and of each change
//! as it comes; when it is made anew it tells of all of them again.

use crate::api::{self, ANSWER, ask, number, request_with_headers};
use crate::consumer::{Consumer, Delivered, Said, Start, decoded, header};
use crate::stream::{make, state};
use crate::{Events, NatsError, NatsEvent};
use async_nats::{Client, HeaderMap};
use serde_json::json;
use std::time::Duration;

const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
const OPERATION: &str = "KV-Operation";

/// A watcher that failed is made anew after so long.
const PAUSE: Duration = Duration::from_millis(500);

/// A value of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableValue {
    /// Its key.
    pub key: String,
    /// Its revision, by which it can be changed. 0: it was never there.
    pub revision: u64,
    /// The value; `None`: it was removed.
    pub value: Option<Vec<u8>>,
}

fn stream_of(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// Makes a bucket; one that is there does too.
pub(crate) async fn create(client: &Client, bucket: &str, replicas: u16) -> Result<(), NatsError> {
    let name = stream_of(bucket);
    let config = json!({
        "name": name, "subjects": [format!("$KV.{bucket}.>")], "retention": "limits",
        "storage": "file", "num_replicas": replicas, "discard": "new", "max_msgs_per_subject": 1,
        "max_bytes": 16 << 20, "max_msgs": -1, "max_age": 0, "max_msg_size": 1 << 20,
        "deny_delete": true, "allow_rollup_hdrs": true, "allow_direct": false,
    });
    make(client, &name, &config).await
}

/// A value, from the bucket's leader.
pub(crate) async fn get(client: &Client, bucket: &str, key: &str) -> Result<TableValue, NatsError> {
    let body = json!({"last_by_subj": format!("$KV.{bucket}.{key}")});
    let what = format!("STREAM.MSG.GET.{}", stream_of(bucket));
    let none = TableValue { key: key.to_owned(), revision: 0, value: None };
    let answer = match ask(client, &what, &body, ANSWER).await {
        Ok(answer) => answer,
        Err(NatsError::Other(why)) if why.contains("10037") => return Ok(none),
        Err(error) => return Err(error),
    };
    let revision = number(&answer, "/message/seq");
    let headers = decoded(&answer, "/message/hdrs").unwrap_or_default();
    let is_removed = String::from_utf8_lossy(&headers).contains(OPERATION);
    let value = decoded(&answer, "/message/data").unwrap_or_default();
    Ok(TableValue { revision, value: Some(value).filter(|_| !is_removed), ..none })
}

/// Changes a value that has this revision (0: none), or removes it. Its new revision; none if it
/// has another.
pub(crate) async fn set(
    client: &Client,
    bucket: &str,
    change: &TableValue,
) -> Result<Option<u64>, NatsError> {
    let mut headers = HeaderMap::new();
    headers.insert(EXPECTED, change.revision.to_string().as_str());
    if change.value.is_none() {
        headers.insert(OPERATION, "DEL");
    }
    let subject = format!("$KV.{bucket}.{}", change.key);
    let body = change.value.clone().unwrap_or_default();
    let answer = request_with_headers(client, subject, headers, body).await?;
    match api::acknowledged(&answer) {
        Ok(revision) => Ok(Some(revision)),
        Err(NatsError::Refused) => Ok(None),
        Err(error) => Err(error),
    }
}

/// All values.
pub(crate) async fn all(client: &Client, bucket: &str) -> Result<Vec<TableValue>, NatsError> {
    let mut values = Vec::new();
    let mut watcher = Watcher::begin(client, bucket).await?;
    while !watcher.is_whole {
        if let Some(value) = watcher.next(client).await? {
            values.push(value);
        }
    }
    values.retain(|it| it.value.is_some());
    Ok(values)
}

/// Watches for good.
pub(crate) async fn watch(client: Client, bucket: String, events: Events) {
    loop {
        let error = watch_once(&client, &bucket, &events).await;
        if error == NatsError::Gone {
            events(NatsEvent::TableGone);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn watch_once(client: &Client, bucket: &str, events: &Events) -> NatsError {
    let mut watcher = match Watcher::begin(client, bucket).await {
        Ok(watcher) => watcher,
        Err(error) => return error,
    };
    let mut is_told = false;
    loop {
        if watcher.is_whole && !is_told {
            is_told = true;
            events(NatsEvent::TableWhole);
        }
        match watcher.next(client).await {
            Ok(Some(value)) => events(NatsEvent::Table(value)),
            Ok(None) => {}
            Err(error) => return error,
        }
    }
}

/// A consumer of a bucket.
struct Watcher {
    consumer: Consumer,
    prefix: String,
    /// The last revision that there was when it began.
    until: u64,
    /// The last revision that was reported.
    last: u64,
    /// Whether every value that was there at the beginning was reported.
    is_whole: bool,
}

impl Watcher {
    async fn begin(client: &Client, bucket: &str) -> Result<Watcher, NatsError> {
        let stream = stream_of(bucket);
        let there = state(client, &stream).await?;
        let subjects = format!("$KV.{bucket}.>");
        let consumer = Consumer::create(client, &stream, Start::LastOf(&subjects)).await?;
        let (until, is_whole) = (there.last, there.first > there.last);
        Ok(Watcher { consumer, prefix: format!("$KV.{bucket}."), until, last: 0, is_whole })
    }

    async fn next(&mut self, client: &Client) -> Result<Option<TableValue>, NatsError> {
        let Delivered { sequence, message, .. } = match self.consumer.next(client).await? {
            Said::Message(delivered) => delivered,
            Said::Idle => {
                // Its server may have less than the bucket's leader.
                let there = state(client, self.consumer.stream()).await?;
                return match there.last > self.last.max(there.first - 1) {
                    true => Err(NatsError::Silent),
                    false => Ok(None),
                };
            }
        };
        self.last = self.last.max(sequence);
        // The last message of a bucket is the last of its key, so it is delivered.
        self.is_whole |= sequence >= self.until;
        let Some(key) = message.subject.as_str().strip_prefix(&self.prefix) else {
            return Ok(None);
        };
        let is_removed = header(&message, OPERATION).is_some();
        let value = Some(message.payload.to_vec()).filter(|_| !is_removed);
        Ok(Some(TableValue { key: key.to_owned(), revision: sequence, value }))
    }
}
