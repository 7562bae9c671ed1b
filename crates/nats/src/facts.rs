//! Facts about NATS, for `holdline doctor` and for operations.

use crate::NatsError;
use crate::api::{ANSWER, ask, nothing, number, read, request, text};
use crate::stream::{StreamState, state};
use async_nats::Client;
use serde_json::Value;

/// Facts about NATS.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NatsFacts {
    /// The version of the server that is connected.
    pub version: String,
    /// Whether that server has JetStream.
    pub has_jetstream: bool,
    /// The name of its NATS cluster; none for a server alone.
    pub cluster: Option<String>,
    /// When it puts what it acknowledged on its disk. Only the system account may ask.
    pub sync: NatsSync,
    /// Bytes that the account may store; none: no limit, or JetStream does not answer.
    pub storage_bytes_max: Option<u64>,
    /// Bytes that it stores.
    pub storage_bytes: u64,
    /// The streams that were asked for.
    pub streams: Vec<(String, Result<StreamState, NatsError>)>,
}

/// When a server puts what it acknowledged on its disk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum NatsSync {
    /// The server does not tell: the account is not the system account.
    #[default]
    Unknown,
    /// Before the acknowledgement.
    Always,
    /// So many seconds after the acknowledgement.
    Seconds(u64),
}

impl NatsFacts {
    /// Whether the version is so high.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        let mut words = self.version.trim_start_matches('v').split(['.', '-']);
        let mut word = || words.next().and_then(|word| word.parse::<u32>().ok()).unwrap_or(0);
        (word(), word()) >= (major, minor)
    }
}

pub(crate) async fn facts(client: &Client, streams: &[String]) -> Result<NatsFacts, NatsError> {
    let info = client.server_info();
    let account = ask(client, "INFO", &nothing(), ANSWER).await;
    let mut facts = NatsFacts {
        version: info.version.clone(),
        has_jetstream: info.jetstream,
        cluster: info.cluster.clone(),
        sync: sync(client).await,
        ..NatsFacts::default()
    };
    match account {
        Ok(account) => {
            facts.has_jetstream = true;
            facts.storage_bytes = number(&account, "/storage");
            let limit = account.pointer("/limits/max_storage").and_then(Value::as_i64);
            facts.storage_bytes_max = limit.and_then(|limit| u64::try_from(limit).ok());
        }
        Err(NatsError::Other(_)) => facts.has_jetstream = false,
        Err(_) => {}
    }
    for name in streams {
        let state = state(client, name).await;
        facts.streams.push((name.clone(), state));
    }
    Ok(facts)
}

/// The first server that answers to the system account's question.
async fn sync(client: &Client) -> NatsSync {
    let asked = request(client, "$SYS.REQ.SERVER.PING.JSZ".into(), Vec::new(), ANSWER).await;
    let Ok(answer) = asked.and_then(|message| read(&message)) else { return NatsSync::Unknown };
    match answer.pointer("/data/config/sync_always").and_then(Value::as_bool) {
        Some(true) => NatsSync::Always,
        _ => match number(&answer, "/data/config/sync_interval") {
            0 if text(&answer, "/server/ver").is_empty() => NatsSync::Unknown,
            nanos => NatsSync::Seconds(nanos / 1_000_000_000),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let of = |version: &str| NatsFacts { version: version.into(), ..NatsFacts::default() };
        for enough in ["2.15.0", "2.15.3-RC.1", "2.20.0", "v3.0.0"] {
            assert!(of(enough).is_at_least(2, 15), "{enough}");
        }
        for old in ["2.14.9", "2.9.0", "1.99.0", "", "abc"] {
            assert!(!of(old).is_at_least(2, 15), "{old}");
        }
    }
}
