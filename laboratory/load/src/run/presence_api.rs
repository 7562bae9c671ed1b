//! Audits of presence by Holdline's HTTP API: memory and directory are compared by the server
//! itself, and it says what it found.
//!
//! This module knows the API and no plan. The question is asked on a thread of its own, for an
//! audit takes as long as differences may need to settle. The invariant: each audit that was begun
//! gives one answer.

use super::parts::{Audited, Auditor};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

/// Longest time that a question about how things stand may take.
const STANDING_MAX: Duration = Duration::from_secs(10);
/// Longest time that an audit may take, beside the settle time.
const AUDIT_MAX: Duration = Duration::from_secs(90);
/// Differences that are reported one by one.
const TOLD: u32 = 10;
/// Letters of an unexpected answer that are reported, at most.
const WORDS_MAX: usize = 200;

/// The part of a target that knows who is online.
#[derive(Clone)]
pub struct PresenceApi {
    base: String,
    token: Option<String>,
}

/// How its directory stands.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct DirectoryLag {
    /// `none`, or what it is.
    #[serde(alias = "kind")]
    pub directory: String,
    /// Age of the oldest change that it has not taken, milliseconds.
    pub lag_ms: u64,
}

/// The answer to an audit, as far as it is looked at.
#[derive(Deserialize)]
struct Answer {
    online: u64,
    differing: u64,
    persistent: BTreeMap<String, u64>,
    differences: Vec<Difference>,
    took_ms: u64,
}

#[derive(Deserialize)]
struct Difference {
    key: String,
    kind: String,
}

impl PresenceApi {
    /// The one behind the API at this URL.
    pub fn new(base: &str, token: Option<String>) -> PresenceApi {
        PresenceApi { base: base.trim_end_matches('/').to_owned(), token }
    }

    /// How the target's directory stands.
    pub fn standing(&self) -> Result<DirectoryLag, String> {
        self.ask("/v1/presence/status", None, STANDING_MAX)
    }

    /// Why presence cannot be audited; `None`: it can.
    pub fn why_not(&self) -> Option<String> {
        match self.standing() {
            Ok(standing) if standing.directory == "none" => {
                Some("the server has no presence directory".to_owned())
            }
            Ok(_) => None,
            Err(why) => Some(format!("the API did not report the presence status: {why}")),
        }
    }

    /// Has memory and directory compared.
    fn audit(&self, settle_ms: u32) -> Result<Audited, String> {
        let lag_ms = self.standing()?.lag_ms;
        let order = json!({ "settle_ms": settle_ms, "repair": false, "told_max": TOLD });
        let patience = AUDIT_MAX + Duration::from_millis(settle_ms.into());
        let answer: Answer = self.ask("/v1/presence/audit", Some(order), patience)?;
        let told = answer.differences.into_iter().map(|one| (one.key, one.kind));
        Ok(Audited {
            online: answer.online,
            differing: answer.differing,
            persistent: answer.persistent,
            first: told.collect(),
            took_ms: answer.took_ms,
            lag_ms,
        })
    }

    /// The answer to a request: a POST where there is a body.
    fn ask<T: for<'a> Deserialize<'a>>(
        &self,
        path: &str,
        body: Option<Value>,
        patience: Duration,
    ) -> Result<T, String> {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(patience))
            .http_status_as_error(false)
            .proxy(None); // one of the environment would see the token
        let agent = config.build().new_agent();
        let url = format!("{}{path}", self.base);
        let authorization = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let answer = match body {
            None => {
                let mut request = agent.get(&url);
                if let Some(authorization) = authorization {
                    request = request.header("Authorization", authorization);
                }
                request.call()
            }
            Some(body) => {
                let mut request = agent.post(&url);
                if let Some(authorization) = authorization {
                    request = request.header("Authorization", authorization);
                }
                request.send_json(&body)
            }
        };
        let mut answer = answer.map_err(|error| format!("{path}: {error}"))?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().read_to_string();
        let text = text.map_err(|error| format!("{path}: {error}"))?;
        let words = || text.chars().take(WORDS_MAX).collect::<String>();
        match status {
            200..=299 => serde_json::from_str(&text)
                .map_err(|error| format!("{path}: {error} in `{}`", words().escape_debug())),
            _ => Err(format!("{path}: {status} `{}`", words().escape_debug())),
        }
    }
}

/// Audits of a presence API, one at a time.
pub struct Audits {
    presence_api: PresenceApi,
    under_way: Option<Receiver<Result<Audited, String>>>,
}

impl Audits {
    /// Audits by this API.
    pub fn of(presence_api: PresenceApi) -> Audits {
        Audits { presence_api, under_way: None }
    }
}

impl Auditor for Audits {
    fn begin(&mut self, settle_ms: u32) {
        let (tell, told) = sync_channel(1);
        let presence_api = self.presence_api.clone();
        let thread = std::thread::Builder::new().name("audit".to_owned());
        // Where there is no thread nobody tells, which is the answer.
        let _ = thread.spawn(move || tell.send(presence_api.audit(settle_ms)));
        self.under_way = Some(told);
    }

    fn take(&mut self) -> Option<Result<Audited, String>> {
        let told = match self.under_way.as_ref().map(Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => return None,
            Some(Ok(answer)) => answer,
            Some(Err(TryRecvError::Disconnected)) => Err("its thread has ended".to_owned()),
            None => Err("no audit was started".to_owned()),
        };
        self.under_way = None;
        Some(told)
    }
}

#[cfg(test)]
mod tests;
