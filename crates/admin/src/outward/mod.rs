//! Calls to external services with JSON: how they are sent, signed, and reported when they fail.
//!
//! Webhooks, the push gateway, the collector of metrics, the before-send hook and the service that
//! decides about clients are called like this. It stores nothing: queues, pauses after failures,
//! and the meaning of a status are the callers' part. Invariant: no redirect is followed, because
//! the receiver is the one that the operator named; the environment's proxy is ignored unless the
//! caller permits it; a failure's text contains no URL.

pub(crate) mod redact;

use base::hex;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::time::Duration;
use ureq::config::ConfigBuilder;
use ureq::typestate::{AgentScope, WithBody};
use ureq::{Agent, Body, Proxy, RequestBuilder, http::Response};

/// HTTP client, with this time limit for one call, milliseconds. `proxied`: through the proxy that
/// the environment names, if it names one.
pub fn agent(ms_max: u64, proxied: bool) -> Agent {
    config(ms_max, proxied).build().new_agent()
}

/// As [`agent`], for callers that set more options. An answer of any status is an answer.
pub fn config(ms_max: u64, proxied: bool) -> ConfigBuilder<AgentScope> {
    // Of itself it would take every proxy of the environment, which then sees all that is posted.
    let proxy = if proxied { Proxy::try_from_env() } else { None };
    Agent::config_builder()
        .proxy(proxy)
        .timeout_global(Some(Duration::from_millis(ms_max.max(1))))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
}

/// A request that posts JSON there.
pub fn post(agent: &Agent, url: &str) -> RequestBuilder<WithBody> {
    agent.post(url).header("Content-Type", "application/json")
}

/// Posts this body, signed at this second of Unix time. An empty secret signs nothing.
pub fn post_signed(
    agent: &Agent,
    url: &str,
    (secret, unix_s): (&[u8], u64),
    body: &str,
) -> Result<Response<Body>, ureq::Error> {
    let mut request = post(agent, url);
    if !secret.is_empty() {
        request = request.header("Holdline-Signature", sign(secret, unix_s, body));
    }
    request.send(body)
}

/// Whether what was posted was taken, which 2xx alone says: who answers with a redirect has nothing
/// of it yet.
pub(crate) fn taken(answer: &Response<Body>) -> Result<(), ureq::Error> {
    let status = answer.status();
    if status.is_success() { Ok(()) } else { Err(ureq::Error::StatusCode(status.as_u16())) }
}

/// Error of a request, in words without its URL.
pub fn failure(error: &ureq::Error) -> String {
    match error {
        // The error's text contains the URL.
        ureq::Error::BadUri(_) => "invalid URL".into(),
        ureq::Error::Http(_) => "invalid URL or header".into(),
        other => other.to_string(),
    }
}

/// `t=<Unix seconds>,v1=<HMAC-SHA256 of "<t>.<body>" in hex>`.
pub(crate) fn sign(secret: &[u8], unix_s: u64, body: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    let mac = mac.chain_update(format!("{unix_s}.{body}")).finalize();
    format!("t={unix_s},v1={}", hex::encode(&mac.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_does_not_say_the_url() {
        let error = ureq::get("http://me:s3cret@[bad/?k=s3cret").call().expect_err("no URL");
        assert!(!failure(&error).contains("s3cret"), "{error}");
    }

    #[test]
    fn the_signature_is_that_of_the_documentation() {
        // HMAC-SHA256 of "1.{}" with the key "key", computed elsewhere.
        let expected = "t=1,v1=1ba6b8171186efc613e8bcc0cbdab2748f24984d7c5a84faa2637afa0e40d224";
        assert_eq!(sign(b"key", 1, "{}"), expected);
    }
}
