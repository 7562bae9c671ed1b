//! Apple Push Notification service: HTTP/2, with tokens that a key signs or a client certificate.

use super::http2::{Endpoint, Http2};
use super::jwt::EcKey;
use super::message::{Content, Message};
use super::{Answer, ApnsIdentity, Gateway, Verdict, Whose, Wire};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, PoisonError};

/// Where messages are posted, unless the operator names another place.
const URL: &str = "https://api.push.apple.com";

/// Longest payload, bytes.
const PAYLOAD_BYTES_MAX: usize = 4_096;

/// How long a signed token is used. Apple takes one for an hour, and a new one after 20 minutes.
const USED_S: u64 = 50 * 60;

/// Apple's service.
pub(super) struct Apns {
    endpoint: Endpoint,
    topic: String,
    signer: Option<Signer>,
    ms_max: u32,
}

/// A key of the team, and the token that it signed last, with the Unix second until which it is
/// used.
struct Signer {
    key: EcKey,
    key_id: String,
    team_id: String,
    signed: Mutex<Option<(String, u64)>>,
}

#[derive(Deserialize)]
struct Fault {
    reason: String,
}

impl Apns {
    /// With the team's key or the app's certificate; an empty URL is Apple's production service.
    pub fn new(
        identity: &ApnsIdentity,
        (topic, url): (&str, &str),
        authorities: Option<&[u8]>,
        ms_max: u32,
    ) -> Result<Apns, String> {
        if topic.is_empty() {
            return Err("set app to the topic, mostly the app's bundle id".into());
        }
        let (signer, certificate) = match identity {
            ApnsIdentity::Token { key, key_id, team_id } => {
                if key_id.is_empty() || team_id.is_empty() {
                    return Err("set key_id and team_id to those of the key in key_file".into());
                }
                let key = EcKey::read(key).map_err(|why| format!("key_file {why}"))?;
                let (key_id, team_id) = (key_id.clone(), team_id.clone());
                (Some(Signer { key, key_id, team_id, signed: Mutex::default() }), None)
            }
            ApnsIdentity::Certificate { certificate, key } => (None, Some((certificate, key))),
        };
        let tls = Arc::new(tls(authorities, certificate)?);
        let endpoint = Endpoint::new(if url.is_empty() { URL } else { url }, tls)?;
        Ok(Apns { endpoint, topic: topic.into(), signer, ms_max })
    }

    fn judged(&self, answer: &Answer) -> Verdict {
        let reason = serde_json::from_slice::<Fault>(&answer.body).map(|fault| fault.reason);
        let (words, after_ms) = (answer.words(), answer.after_ms);
        match (answer.status, reason.as_deref().unwrap_or("")) {
            (200, _) => Verdict::Accepted,
            (410, _) => Verdict::Dead,
            // Apple says so as well of good tokens of its other environment (`url`) or topic.
            (400, "BadDeviceToken" | "DeviceTokenNotForTopic") => {
                Verdict::Denied(words, Whose::ThisToken)
            }
            (400, "BadTopic" | "MissingTopic" | "TopicDisallowed") => {
                Verdict::Denied(words, Whose::All)
            }
            (403, "ExpiredProviderToken") => {
                if let Some(signer) = &self.signer {
                    *signer.signed.lock().unwrap_or_else(PoisonError::into_inner) = None;
                }
                Verdict::Failed(words, Whose::All, after_ms)
            }
            (401 | 403, _) => Verdict::Denied(words, Whose::All),
            (429, "TooManyRequests") => Verdict::Failed(words, Whose::ThisTokenAlone, after_ms),
            (408 | 429 | 500..=599, _) => Verdict::Failed(words, Whose::All, after_ms),
            _ => Verdict::Refused(words),
        }
    }
}

impl Signer {
    /// The value of `authorization`.
    fn signed(&self, now_s: u64) -> Option<String> {
        let mut signed = self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((value, until_s)) = &*signed
            && (now_s..=now_s + USED_S).contains(until_s)
        {
            return Some(value.clone());
        }
        let claims = json!({"iss": self.team_id, "iat": now_s});
        let token = self.key.sign(&json!({"kid": self.key_id}), &claims)?;
        let value = format!("bearer {token}");
        *signed = Some((value.clone(), now_s + USED_S));
        Some(value)
    }
}

impl Gateway for Apns {
    fn kind(&self) -> &'static str {
        "apns"
    }

    fn platform(&self) -> &'static str {
        "ios"
    }

    fn check(&self, token: &str) -> Result<(), String> {
        match token.bytes().all(|b| b.is_ascii_hexdigit()) {
            true => Ok(()),
            false => Err("a token of APNs must be hexadecimal digits".into()),
        }
    }

    fn send(&self, wire: &mut Wire, message: &Message<'_>) -> Verdict {
        let failed = |words| Verdict::Failed(words, Whose::All, None);
        if wire.http2.is_none() {
            match Http2::new() {
                Ok(http2) => wire.http2 = Some(http2),
                Err(words) => return failed(words),
            }
        }
        let Some(http2) = &mut wire.http2 else { return failed("no runtime".into()) };
        let is_shown = message.push.notifies;
        let is_urgent = is_shown && message.is_high();
        let mut headers = vec![
            ("apns-topic", self.topic.clone()),
            ("apns-push-type", if is_shown { "alert" } else { "background" }.into()),
            ("apns-priority", if is_urgent { "10" } else { "5" }.into()),
            ("apns-expiration", message.push.expire_at.to_string()),
            ("apns-collapse-id", message.topic()),
            ("content-type", "application/json".into()),
        ];
        if let Some(signer) = &self.signer {
            let Some(signed) = signer.signed(message.now_s) else {
                return Verdict::Denied("the key cannot sign".into(), Whose::All);
            };
            headers.push(("authorization", signed));
        }
        let path = format!("/3/device/{}", message.token);
        let payload = message.fitted(PAYLOAD_BYTES_MAX, |content, fetch| {
            payload(message, content, fetch).to_string()
        });
        match http2.post(&self.endpoint, (&path, &headers), &payload, self.ms_max) {
            Ok(answer) => self.judged(&answer),
            // The service refuses our certificate while TLS is set up.
            Err(words) if words.contains("received fatal alert") => {
                Verdict::Denied(words, Whose::All)
            }
            Err(words) => failed(words),
        }
    }
}

/// A payload as Apple takes it.
fn payload(message: &Message<'_>, content: Content, fetch: bool) -> Value {
    let mut aps = Map::new();
    let mut all = Map::new();
    super::put(
        &mut all,
        [
            ("id", Some(message.push.id.0.to_string())),
            ("product", Some(message.push.product.as_str().into())),
            ("device", Some(message.device.as_str().into())),
            ("data", content.data),
            ("data_base64", content.data_base64),
        ],
    );
    match content.notification {
        Some(it) => {
            let mut alert = Map::new();
            super::put(&mut alert, [("title", it.title), ("body", it.body)]);
            if !alert.is_empty() {
                aps.insert("alert".into(), Value::Object(alert));
            }
            super::put(&mut aps, [("sound", it.sound), ("category", it.category)]);
            aps.extend(it.badge.map(|badge| ("badge".into(), json!(badge))));
            // An extension of the app fetches the image.
            aps.extend(it.image.as_ref().map(|_| ("mutable-content".into(), json!(1))));
            super::put(&mut all, [("image", it.image), ("link", it.link)]);
        }
        None => drop(aps.insert("content-available".into(), json!(1))),
    }
    if fetch {
        all.insert("fetch".into(), json!(true));
    }
    all.insert("aps".into(), Value::Object(aps));
    Value::Object(all)
}

/// TLS that offers HTTP/2, with our certificate if we have one.
fn tls(
    authorities: Option<&[u8]>,
    certificate: Option<(&Vec<u8>, &Vec<u8>)>,
) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(pem) => {
            for authority in CertificateDer::pem_slice_iter(pem) {
                let authority = authority.map_err(|error| format!("ca_file: {error}"))?;
                roots.add(authority).map_err(|error| format!("ca_file: {error}"))?;
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = match certificate {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>();
            let chain = chain.map_err(|error| format!("certificate_file: {error}"))?;
            let key = PrivateKeyDer::from_pem_slice(key);
            let key = key.map_err(|error| format!("key_file: {error}"))?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| format!("certificate_file and key_file: {error}"))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;

    #[test]
    fn a_token_that_another_environment_may_know_stays() {
        let key = ring::signature::EcdsaKeyPair::generate_pkcs8(
            &ring::signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            &ring::rand::SystemRandom::new(),
        );
        let key = base64::engine::general_purpose::STANDARD.encode(key.expect("a key"));
        let key = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
        let (key_id, team_id) = ("k".into(), "t".into());
        let identity = ApnsIdentity::Token { key: key.into_bytes(), key_id, team_id };
        let apns = Apns::new(&identity, ("app", ""), None, 1_000).expect("good");
        let judged = |status, reason: &str| {
            let body = json!({"reason": reason}).to_string().into_bytes();
            apns.judged(&Answer { status, body, after_ms: None })
        };
        let denied = |verdict| match verdict {
            Verdict::Denied(_, whose) => whose,
            other => panic!("{other:?}"),
        };
        assert_eq!(denied(judged(400, "BadDeviceToken")), Whose::ThisToken);
        assert_eq!(denied(judged(400, "DeviceTokenNotForTopic")), Whose::ThisToken);
        assert_eq!(denied(judged(400, "BadTopic")), Whose::All);
        assert_eq!(judged(410, "Unregistered"), Verdict::Dead);
    }
}
