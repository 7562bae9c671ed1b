//! Calls to others: the service that decides about clients, and the place of keys.
//!
//! `guard` makes the requests and decodes the answers; this module keeps time-outs, sizes, and how
//! often keys are fetched. A failure is logged once until it works again. Redirects are not
//! followed: who decides about clients is where the operator said.

use super::settings::Settings;
use crate::config::Http;
use admin::outward;
use guard::http::{self, NoVerdict, ServiceVerdict};
use guard::token::Keys;
use model::{event, tell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Shortest time between two fetches of keys, seconds.
pub(super) const FETCH_S_MIN: u32 = 10;

/// Time for a fetch of keys.
const FETCH_MS_MAX: u64 = 10_000;

/// Bytes of a set of keys, at most.
const SET_BYTES_MAX: u64 = 1024 * 1024;

/// Services to call, with their settings.
pub(super) struct Service {
    http: Option<(Http, ureq::Agent)>,
    keys: Option<(String, u32, ureq::Agent)>,
    /// When keys were last fetched, and whether it worked.
    fetched: Mutex<(u32, bool)>,
    service_fails: AtomicBool,
    keys_fail: AtomicBool,
}

impl Service {
    pub(super) fn new(settings: &Settings) -> Service {
        let refresh_s = settings.access.token.jwks_refresh_s.max(FETCH_S_MIN);
        let url = Some(settings.keys_url()).filter(|url| !url.is_empty());
        Service {
            http: settings.http().map(|http| (http.clone(), agent(http.timeout_ms.into()))),
            keys: url.map(|url| (url.to_owned(), refresh_s, agent(FETCH_MS_MAX))),
            fetched: Mutex::default(),
            service_fails: AtomicBool::new(false),
            keys_fail: AtomicBool::new(false),
        }
    }

    /// Asks about a client.
    pub(super) fn ask(&self, question: &str) -> Result<ServiceVerdict, NoVerdict> {
        let Some((http, agent)) = &self.http else {
            return Err(NoVerdict("no service is configured".into()));
        };
        let answered = post(http, agent, question);
        let told = answered.as_ref().err().map(|NoVerdict(words)| words.as_str());
        tell(&self.service_fails, "the service that decides about clients", &http.url, told);
        answered
    }

    /// Seconds until keys are to be fetched again; `None` if no keys are fetched.
    pub(super) fn refresh_s(&self) -> Option<u32> {
        let (_, refresh_s, _) = self.keys.as_ref()?;
        let (at_s, works) = *self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        Some(if works || at_s == 0 { *refresh_s } else { 3 * FETCH_S_MIN })
    }

    /// Fetches keys and hands them over, unless that was done just now. False if there are no new
    /// ones.
    pub(super) fn fetch_keys(&self, now_s: u32, learn: impl FnOnce(Keys)) -> bool {
        let Some((url, _, agent)) = &self.keys else { return false };
        // A second caller waits for the first one's fetch, and then uses its result.
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        if fetched.0 != 0 && now_s.abs_diff(fetched.0) < FETCH_S_MIN {
            return fetched.1;
        }
        let keys = get(agent, url);
        tell(
            &self.keys_fail,
            "the place of the keys of tokens",
            url,
            keys.as_ref().err().map(String::as_str),
        );
        *fetched = (now_s.max(1), keys.is_ok());
        if let Ok(keys) = keys {
            let url = admin::shown_url(url);
            tell!(event::TOKEN_KEYS_FETCHED, url, keys = keys.len());
            learn(keys);
        }
        fetched.1
    }
}

/// Reports once that a service fails, and once that it works again.
fn tell(fails: &AtomicBool, what: &str, url: &str, words: Option<&str>) {
    let before = fails.swap(words.is_some(), Ordering::Relaxed);
    let url = admin::shown_url(url);
    match words {
        Some(words) if !before => tell!(event::ACCESS_SERVICE_AWAY, what, url, words),
        None if before => tell!(event::ACCESS_SERVICE_BACK, what, url),
        _ => {}
    }
}

/// The environment has no say in who is asked.
fn agent(ms_max: u64) -> ureq::Agent {
    outward::agent(ms_max, false)
}

fn post(http: &Http, agent: &ureq::Agent, body: &str) -> Result<ServiceVerdict, NoVerdict> {
    let failed = |error: ureq::Error| NoVerdict(outward::failure(&error));
    let mut request = outward::post(agent, &http.url);
    for (name, value) in http.headers.reveal().iter().filter_map(|text| text.split_once(':')) {
        request = request.header(name, value.trim());
    }
    let mut answer = request.send(body).map_err(failed)?;
    let status = answer.status().as_u16();
    let limited = answer.body_mut().with_config().limit(http::ANSWER_BYTES_MAX as u64);
    http::verdict(status, &limited.read_to_vec().map_err(failed)?)
}

fn get(agent: &ureq::Agent, url: &str) -> Result<Keys, String> {
    let words = |error: ureq::Error| outward::failure(&error);
    let mut answer = agent.get(url).header("Accept", "application/json").call().map_err(words)?;
    if answer.status().as_u16() != 200 {
        return Err(format!("it answered with status {}", answer.status().as_u16()));
    }
    let limited = answer.body_mut().with_config().limit(SET_BYTES_MAX);
    let text = limited.read_to_string().map_err(words)?;
    let mut keys = Keys::default();
    keys.add_set(&text)?;
    Ok(keys)
}
