//! Push services of platforms: pushes for devices that are away.
//!
//! ```text
//! offer ─► the platform's queue ─► one of its threads ─► a request ─► accepted, dead, refused
//!   │ it rests, or is full                                └► no answer, 429, 5xx: it rests
//!   └─────────► later                                         and all that waits is put off
//! ```
//! Each platform has a queue and threads of its own ([`queue`]), so one that hangs delays no other.
//! How a request looks and what an answer means is the part of its [`Gateway`]; [`message`] is what
//! they all send. Nothing is stored here: a push that no platform accepted is queued at its device,
//! and is offered again. Invariant: every accepted order is answered once.

mod apns;
mod fcm;
mod http2;
mod huawei;
mod jwt;
mod message;
mod oauth;
mod queue;
#[cfg(test)]
mod samples;
mod web_push;
mod xiaomi;

use crate::fault::Fault;
use crate::outward;
use crate::push_gateway::NotifiedReply;
use crate::webhook::WallClock;
use message::Message;
use model::limits::PlatformLimits;
use model::ports::notifications::{NotificationOrder, NotificationTargets, Notified};
use model::push::PlatformToken;
use queue::Platform;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::sync::Arc;
use ureq::http::{HeaderMap, Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};
pub use web_push::WEB_PUSH_ENDPOINTS;

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Bytes of an answer that a line of the log shows.
const SHOWN_BYTES_MAX: usize = 200;

/// Settings of a platform.
#[derive(Clone)]
pub struct PlatformSettings {
    /// Its name in the configuration.
    pub name: Box<str>,
    /// The service, and what it takes to be let in.
    pub service: PlatformService,
    /// Authorities of the service's certificate, PEM; absent: the usual ones.
    pub authorities: Option<Vec<u8>>,
    /// Through the proxy that the environment names.
    pub proxied: bool,
    /// The limits in force.
    pub limits: PlatformLimits,
}

/// A push service, and what it takes to be let in.
#[derive(Clone)]
pub enum PlatformService {
    /// Web Push (RFC 8030) with VAPID (RFC 8292).
    WebPush {
        /// The private key, PEM (PKCS #8).
        key: Vec<u8>,
        /// Contact of the operator: a `mailto:` or `https:` URI.
        subject: String,
        /// Origins of push services that subscriptions may name; `*.` stands for any subdomain.
        endpoints: Vec<String>,
    },
    /// Firebase Cloud Messaging, HTTP v1.
    Fcm {
        /// File of a service account, JSON.
        account: Vec<u8>,
        /// Where messages are posted; empty: Firebase.
        url: String,
    },
    /// Apple Push Notification service, over HTTP/2.
    Apns {
        /// How we are let in.
        identity: ApnsIdentity,
        /// The app's topic, mostly its bundle id.
        topic: String,
        /// Where messages are posted; empty: Apple's production service.
        url: String,
    },
    /// Huawei Push Kit.
    Huawei {
        /// The app's id.
        app: String,
        /// The app's secret.
        secret: String,
        /// Where messages are posted; empty: Huawei.
        url: String,
        /// Where access tokens are asked for; empty: Huawei.
        token_url: String,
    },
    /// Xiaomi Mi Push.
    Xiaomi {
        /// The app's package.
        package: String,
        /// The app's secret.
        secret: String,
        /// Where messages are posted; empty: Xiaomi.
        url: String,
    },
}

/// How Apple lets us in.
#[derive(Clone)]
pub enum ApnsIdentity {
    /// By tokens that a key of the team signs.
    Token {
        /// The private key, PEM (PKCS #8).
        key: Vec<u8>,
        /// The key's id.
        key_id: String,
        /// The team's id.
        team_id: String,
    },
    /// By a client certificate of the app.
    Certificate {
        /// Certificate with its chain, PEM.
        certificate: Vec<u8>,
        /// Its private key, PEM.
        key: Vec<u8>,
    },
}

/// Status of a platform.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct PlatformStatus {
    /// Its name in the configuration.
    pub name: String,
    /// Its kind, as in the configuration.
    pub kind: &'static str,
    /// Of Web Push, the public key that browsers subscribe with (`applicationServerKey`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// `ready`, `resting` (all its services are paused after a failure) or `denied` (it refuses our
    /// credentials).
    #[schemars(extend("enum" = ["ready", "resting", "denied"]))]
    pub state: &'static str,
    /// Why the last request failed; in state `denied`, how the platform refused our credentials;
    /// null after an accepted one.
    pub last_fault: Option<String>,
    /// Pushes queued for it.
    pub waiting: u64,
    /// Requests in progress.
    pub requests: u64,
    /// Pushes since the start, by outcome.
    pub outcomes: PlatformOutcomes,
}

/// Pushes to a platform since the start, by outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct PlatformOutcomes {
    /// Accepted.
    pub accepted: u64,
    /// The platform no longer knows the device: its token was removed.
    pub dead: u64,
    /// Refused for good.
    pub refused: u64,
    /// Not answered, or answered that they are to be sent again.
    pub failed: u64,
    /// The platform refused our credentials, for all pushes or for one device.
    pub denied: u64,
    /// Put off without a request: the platform was paused, its queue full, or the push withdrawn.
    pub postponed: u64,
}

impl PlatformOutcomes {
    /// Each with its word.
    pub(crate) fn all(&self) -> [(&'static str, u64); 6] {
        let PlatformOutcomes { accepted, dead, refused, failed, denied, postponed } = *self;
        [
            ("accepted", accepted),
            ("dead", dead),
            ("refused", refused),
            ("failed", failed),
            ("denied", denied),
            ("postponed", postponed),
        ]
    }
}

/// How a platform's pushes are sent.
trait Gateway: Send + Sync {
    /// The word in the configuration.
    fn kind(&self) -> &'static str;

    /// The word in `platforms` of a notification.
    fn platform(&self) -> &'static str {
        self.kind()
    }

    /// The public key that subscribers need.
    fn public_key(&self) -> Option<String> {
        None
    }

    /// Which of the platform's services takes pushes for this token: they fail independently.
    fn service<'a>(&'a self, _token: &'a str) -> &'a str {
        ""
    }

    /// How many services there may be.
    fn services(&self) -> usize {
        1
    }

    /// Whether a token has the right form; an error says what is wrong.
    fn check(&self, token: &str) -> Result<(), String> {
        plain(token)
    }

    /// Sends a push, and waits for the answer.
    fn send(&self, wire: &mut Wire, message: &Message<'_>) -> Verdict;
}

/// Clients of one thread.
struct Wire {
    agent: Agent,
    /// Made when it is first used.
    http2: Option<http2::Http2>,
}

/// Result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// The platform accepted the push.
    Accepted,
    /// The platform does not know the device any more.
    Dead,
    /// The platform never accepts this push.
    Refused(String),
    /// The service does not answer or has no room, for all pushes or for this token, with how long
    /// it asks to rest, milliseconds.
    Failed(String, Whose, Option<u64>),
    /// The service refuses our credentials, for all pushes or for this token.
    Denied(String, Whose),
}

/// For which pushes something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// All pushes.
    All,
    /// Pushes to this token; all pushes, after the same answer to several tokens in a row.
    ThisToken,
    /// Pushes to this token, even after the same answer to other tokens.
    ThisTokenAlone,
}

/// Answer of a service.
struct Answer {
    status: u16,
    /// As far as it was read.
    body: Vec<u8>,
    /// How long the service asks to rest, milliseconds.
    after_ms: Option<u64>,
}

impl Answer {
    fn new(status: StatusCode, headers: &HeaderMap, body: Vec<u8>) -> Answer {
        let after = headers.get("Retry-After").and_then(|it| it.to_str().ok());
        let after_s = after.and_then(|text| text.trim().parse::<u32>().ok());
        Answer {
            status: status.as_u16(),
            body,
            after_ms: after_s.map(|seconds| u64::from(seconds) * 1_000),
        }
    }

    /// Reads the rest of an answer.
    fn read(mut answer: Response<Body>) -> Answer {
        let limited = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX as u64);
        let body = limited.read_to_vec().unwrap_or_default();
        Answer::new(answer.status(), answer.headers(), body)
    }

    /// Status and body, for the log.
    fn words(&self) -> String {
        words(self.status, &self.body)
    }
}

/// The platforms of the configuration.
pub struct Platforms {
    all: Vec<Arc<Platform>>,
}

impl Platforms {
    /// Platforms that nothing is sent to yet; an error says what to change.
    pub fn new(
        settings: Vec<PlatformSettings>,
        wall_ms: &WallClock,
        seed: u64,
    ) -> Result<Arc<Platforms>, String> {
        let of = |(at, settings): (usize, PlatformSettings)| {
            let gateway = gateway(&settings)?;
            let agent = agent(&settings)?;
            let around = (wall_ms.clone(), seed.wrapping_add(at as u64));
            Ok(Arc::new(Platform::new(settings, (gateway, agent), around)))
        };
        let all = settings.into_iter().enumerate().map(of).collect::<Result<_, String>>()?;
        Ok(Arc::new(Platforms { all }))
    }

    /// Whether a platform's settings are usable; an error says what to change.
    pub fn check_settings(settings: &PlatformSettings) -> Result<(), String> {
        gateway(settings).and_then(|_| agent(settings)).map(drop)
    }

    /// Starts the threads.
    pub fn begin(&self) -> std::io::Result<()> {
        self.all.iter().try_for_each(Platform::begin)
    }

    /// Takes nothing more, and puts off what waits.
    pub fn close(&self) {
        self.all.iter().for_each(|platform| platform.close());
    }

    /// Ends; requests in progress end within their time.
    pub fn end(&self) {
        self.close();
        self.all.iter().for_each(|platform| platform.join());
    }

    /// Takes an order; or says at once why not.
    pub fn offer(
        &self,
        order: Box<NotificationOrder>,
        reply: NotifiedReply,
    ) -> Result<(), Notified> {
        let NotificationTargets::Platform(token, _) = &order.targets else {
            return Err(Notified::Refused);
        };
        match self.named(&token.platform) {
            Some(platform) => platform.offer(order, reply),
            None => Err(Notified::Failing),
        }
    }

    /// Refuses the name of no platform, with a fault that names those that exist.
    pub(crate) fn knows(&self, name: &str) -> Result<(), Fault> {
        self.known(name).map(|_| ())
    }

    fn known(&self, name: &str) -> Result<&Arc<Platform>, Fault> {
        self.named(name).ok_or_else(|| {
            let names: Vec<_> = self.all.iter().map(|it| it.name()).collect();
            Fault::unknown_platform(match names.is_empty() {
                true => "no platform is configured: add a section [platform.NAME]".into(),
                false => format!("`platform` must be one of: {}", names.join(", ")),
            })
        })
    }

    /// Whether a token belongs to one of the platforms; otherwise a fault with the reason.
    pub(crate) fn check(&self, token: &PlatformToken) -> Result<(), Fault> {
        let platform = self.known(&token.platform)?;
        match token.is_allowed() {
            true => platform.gateway().check(&token.token).map_err(Fault::bad),
            false => {
                let max = PlatformToken::TOKEN_BYTES_MAX;
                Err(Fault::bad(format!("the token must have 1 to {max} bytes")))
            }
        }
    }

    /// Status of all platforms.
    pub fn statuses(&self) -> Vec<PlatformStatus> {
        self.all.iter().map(|platform| platform.status()).collect()
    }

    fn named(&self, name: &str) -> Option<&Arc<Platform>> {
        self.all.iter().find(|platform| platform.name() == name)
    }
}

/// Refuses an address to which secrets would travel in clear text.
fn encrypted(key: &str, url: &str) -> Result<(), String> {
    if !url.starts_with("http://") {
        return Ok(());
    }
    let uri = url.parse::<ureq::http::Uri>().ok();
    let host = uri.as_ref().and_then(|uri| uri.host()).unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback()) {
        true => Ok(()),
        false => Err(format!(
            "{key} {} must begin with https://: secrets are sent there (http:// is allowed for \
             127.0.0.1, [::1] and localhost)",
            base::text::quoted(url)
        )),
    }
}

fn gateway(settings: &PlatformSettings) -> Result<Box<dyn Gateway>, String> {
    match &settings.service {
        PlatformService::WebPush { endpoints, .. } => {
            endpoints.iter().try_for_each(|it| encrypted("endpoints:", it))?;
        }
        PlatformService::Huawei { url, token_url, .. } => {
            encrypted("url", url)?;
            encrypted("token_url", token_url)?;
        }
        PlatformService::Fcm { url, .. }
        | PlatformService::Apns { url, .. }
        | PlatformService::Xiaomi { url, .. } => encrypted("url", url)?,
    }
    Ok(match &settings.service {
        PlatformService::WebPush { key, subject, endpoints } => {
            Box::new(web_push::WebPush::new(key, subject, endpoints)?)
        }
        PlatformService::Fcm { account, url } => Box::new(fcm::Fcm::new(account, url)?),
        PlatformService::Apns { identity, topic, url } => {
            let authorities = settings.authorities.as_deref();
            let ms_max = settings.limits.request_ms_max;
            Box::new(apns::Apns::new(identity, (topic, url), authorities, ms_max)?)
        }
        PlatformService::Huawei { app, secret, url, token_url } => {
            Box::new(huawei::Huawei::new(app, secret, (url, token_url))?)
        }
        PlatformService::Xiaomi { package, secret, url } => {
            Box::new(xiaomi::Xiaomi::new(package, secret, url)?)
        }
    })
}

fn agent(settings: &PlatformSettings) -> Result<Agent, String> {
    let config = outward::config(settings.limits.request_ms_max.into(), settings.proxied);
    let Some(pem) = &settings.authorities else { return Ok(config.build().new_agent()) };
    let certificate = Certificate::from_pem(pem).map_err(|error| format!("ca_file: {error}"))?;
    let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[certificate])).build();
    Ok(config.tls_config(tls).build().new_agent())
}

/// Checks a token that is one word.
fn plain(token: &str) -> Result<(), String> {
    match token.bytes().all(|b| b.is_ascii_graphic()) {
        true => Ok(()),
        false => Err("the token must be visible ASCII characters".into()),
    }
}

/// Puts the texts that there are into an object.
fn put<const N: usize>(object: &mut Map<String, Value>, texts: [(&str, Option<String>); N]) {
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text?)));
    object.extend(texts.map(|(name, text)| (name.into(), Value::String(text))));
}

/// An answer, in words for the log.
fn words(status: u16, body: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES_MAX)]);
    match shown.trim() {
        "" => format!("status {status}"),
        shown => format!("status {status}: {}", base::text::quoted(shown)),
    }
}

/// The address that the operator names, or the platform's own.
fn address<'a>(url: &'a str, own: &'a str) -> &'a str {
    if url.is_empty() { own } else { url.trim_end_matches('/') }
}

/// Posts JSON with an access token.
fn post(wire: &Wire, url: &str, access: &str, body: String) -> Result<Answer, Verdict> {
    let request =
        outward::post(&wire.agent, url).header("Authorization", format!("Bearer {access}"));
    request.send(body).map(Answer::read).map_err(|error| unanswered(&error))
}

/// The meaning of a request without an answer.
fn unanswered(error: &ureq::Error) -> Verdict {
    Verdict::Failed(outward::failure(error), Whose::All, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_over_https_or_stay_on_this_machine() {
        for good in
            ["", "https://a.example", "http://127.0.0.1:80/x", "http://[::1]:9", "http://localhost"]
        {
            assert_eq!(encrypted("url", good), Ok(()), "{good}");
        }
        for bad in
            ["http://a.example", "http://127.0.0.1.a.example", "http://*.a.example", "http://<"]
        {
            assert!(encrypted("url", bad).is_err_and(|why| why.contains("https://")), "{bad}");
        }
    }
}
