//! Access tokens of OAuth 2.0 (RFC 6749): asked for once, and used until they end.
//!
//! Invariant: one request for a token is under way at a time; while the token service fails, it is
//! asked once a second at most, and who waited for a request that failed does not ask again.

use super::{Verdict, Whose, body_of, retry_after_ms, words};
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

/// Answer of a token service.
#[derive(Deserialize)]
struct Answer {
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
            Ok(Answer { access_token, expires_in }) => {
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

fn ask(agent: &Agent, url: &str, form: Vec<(&'static str, String)>) -> Result<Answer, Verdict> {
    let failed = |words: String, after_ms| {
        Verdict::Failed(format!("token service: {words}"), Whose::All, after_ms)
    };
    let mut answer =
        agent.post(url).send_form(form).map_err(|error| failed(outward::failure(&error), None))?;
    let (status, after_ms) = (answer.status().as_u16(), retry_after_ms(&answer));
    let told = body_of(&mut answer);
    match status {
        200..=299 => serde_json::from_slice(&told)
            .map_err(|_| failed("its answer has no access_token and expires_in".into(), None)),
        408 | 429 | 500..=599 => Err(failed(words(status, &told), after_ms)),
        _ => {
            let words = format!("token service: {}", words(status, &told));
            Err(Verdict::Denied(words, Whose::All))
        }
    }
}
