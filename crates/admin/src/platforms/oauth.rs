//! Access tokens of OAuth 2.0 (RFC 6749): asked for once, and used until they end.
//!
//! Invariant: one request for a token is under way at a time; while the token service fails, it is
//! asked once a second at most, and who waited for a request that failed does not ask again.

use super::{Answer, Verdict, Whose};
use crate::outward;
use serde::Deserialize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use ureq::Agent;

/// How long before its end a token is asked for anew.
const RENEWED_S: u64 = 60;

/// How long a failure of the token service answers for it.
const FAULT_HOLDS: Duration = Duration::from_secs(1);

/// Longest time that a token is used, whatever its service says.
const USED_S_MAX: u64 = 24 * 3_600;

/// A token, while there is one.
#[derive(Default)]
pub(super) struct AccessToken(Mutex<Held>);

#[derive(Default)]
struct Held {
    token: Option<(String, u64)>,
    /// Why there is none, and since when.
    fault: Option<(Verdict, Instant)>,
}

/// Token that a token service has issued.
#[derive(Deserialize)]
struct Issued {
    access_token: String,
    expires_in: u64,
}

impl AccessToken {
    /// The token; a new one by this form if there is none.
    pub fn of(
        &self,
        (agent, url): (&Agent, &str),
        now_s: u64,
        form: impl FnOnce() -> Option<Vec<(&'static str, String)>>,
    ) -> Result<String, Verdict> {
        let began = Instant::now();
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((token, until_s)) = &held.token
            && *until_s > now_s
        {
            return Ok(token.clone());
        }
        if let Some((fault, at)) = &held.fault
            && *at + FAULT_HOLDS > began
        {
            return Err(fault.clone());
        }
        let Some(form) = form() else {
            return Err(Verdict::Denied("the key cannot sign".into(), Whose::All));
        };
        let asked = ask(agent, url, form);
        match asked {
            Ok(Issued { access_token, expires_in }) => {
                let used_s = expires_in.min(USED_S_MAX).saturating_sub(RENEWED_S).max(1);
                held.token = Some((access_token.clone(), now_s + used_s));
                Ok(access_token)
            }
            Err(fault) => {
                held.fault = Some((fault.clone(), Instant::now()));
                Err(fault)
            }
        }
    }

    /// Forgets a token that was refused.
    pub fn forget(&self, token: &str) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.token.as_ref().is_some_and(|(own, _)| own == token) {
            held.token = None;
        }
    }
}

fn ask(agent: &Agent, url: &str, form: Vec<(&'static str, String)>) -> Result<Issued, Verdict> {
    let failed = |words: String, after_ms| {
        Verdict::Failed(format!("token service: {words}"), Whose::All, after_ms)
    };
    let answer = agent.post(url).send_form(form).map(Answer::read);
    let answer = answer.map_err(|error| failed(outward::failure(&error), None))?;
    match answer.status {
        200..=299 => serde_json::from_slice(&answer.body)
            .map_err(|_| failed("its answer has no access_token and expires_in".into(), None)),
        408 | 429 | 500..=599 => Err(failed(answer.words(), answer.after_ms)),
        _ => {
            let words = format!("token service: {}", answer.words());
            Err(Verdict::Denied(words, Whose::All))
        }
    }
}
