//! Web Push: RFC 8030, encrypted by RFC 8291, signed by RFC 8292 (VAPID).
//!
//! A token is a subscription: endpoint, public key and authentication secret, with spaces between
//! them. The endpoint comes from a browser, so it may only name a service that the operator
//! allows. Invariant: what is sent to an endpoint can be read by the subscription's browser alone.

use super::jwt::EcKey;
use super::message::Message;
use super::{Answer, Gateway, Verdict, Whose, Wire, unanswered, words};
use crate::outward;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Push services of the browsers.
pub const WEB_PUSH_ENDPOINTS: [&str; 4] = [
    "https://fcm.googleapis.com",
    "https://updates.push.services.mozilla.com",
    "https://*.notify.windows.com",
    "https://*.push.apple.com",
];

/// Size of the only record, bytes; services take bodies of 4096 bytes (RFC 8030 7.2).
const RECORD_BYTES: usize = 4_096;

/// Salt, record size, key length, and a public key (RFC 8188 2.1).
const HEAD_BYTES: usize = 16 + 4 + 1 + POINT_BYTES;

/// An uncompressed point of P-256.
const POINT_BYTES: usize = 65;

/// Length of the authentication secret.
const SECRET_BYTES: usize = 16;

/// Longest plaintext: a record without its head, its tag and the byte that ends the text.
const TEXT_BYTES_MAX: usize = RECORD_BYTES - HEAD_BYTES - 16 - 1;

/// How long a signed token is valid; RFC 8292 2 allows a day.
const SIGNED_S: u64 = 12 * 3_600;

/// How long before its end a token is signed anew.
const RENEWED_S: u64 = 3_600;

/// How long a subscription rests whose host cannot be reached although the service has others,
/// milliseconds.
const UNREACHABLE_REST_MS: u64 = 300_000;

/// Most signed tokens that are remembered, one for each service.
const SIGNED_MAX: usize = 64;

/// The web's push services.
pub(super) struct WebPush {
    key: EcKey,
    public: String,
    subject: String,
    endpoints: Vec<Box<str>>,
    /// By origin, the value of `Authorization` and the Unix second at which it ends.
    signed: Mutex<BTreeMap<Box<str>, (String, u64)>>,
}

/// A browser's subscription.
struct Subscription<'a> {
    endpoint: &'a str,
    public: [u8; POINT_BYTES],
    secret: [u8; SECRET_BYTES],
}

impl WebPush {
    /// With a key, and the operator's contact.
    pub fn new(pem: &[u8], subject: &str, endpoints: &[String]) -> Result<WebPush, String> {
        let key = EcKey::read(pem).map_err(|why| format!("key_file {why}"))?;
        if !subject.starts_with("mailto:") && !subject.starts_with("https://") {
            return Err(
                "subject must be a mailto: or https: URI at which services reach you".into()
            );
        }
        Ok(WebPush {
            public: URL_SAFE_NO_PAD.encode(key.public()),
            key,
            subject: subject.into(),
            endpoints: endpoints.iter().map(|it| it.as_str().into()).collect(),
            signed: Mutex::default(),
        })
    }

    /// The entry of the operator's list that allows an origin.
    fn entry(&self, origin: &str) -> Option<&str> {
        let allows = |allowed: &&str| match allowed.split_once("*.") {
            Some((scheme, domain)) => {
                origin.strip_prefix(scheme).and_then(|host| host.strip_suffix(domain)).is_some_and(
                    |sub| sub.len() > 1 && sub.ends_with('.') && !sub.contains(['@', ':']),
                )
            }
            None => *allowed == origin,
        };
        self.endpoints.iter().map(|it| &**it).find(allows)
    }

    /// Meaning of a request to this origin that got no answer. Anybody may invent a subdomain: one
    /// that cannot be reached says nothing about the service.
    fn unanswered(&self, origin: &str, error: &ureq::Error) -> Verdict {
        let is_invented = self.entry(origin).is_some_and(|entry| entry.contains("*."));
        let words = outward::failure(error);
        match error {
            ureq::Error::Http(_) | ureq::Error::BadUri(_) => Verdict::Dead,
            ureq::Error::BodyExceedsLimit(_) => Verdict::Refused(words),
            ureq::Error::Timeout(_) => unanswered(error),
            _ if is_invented => {
                Verdict::Failed(words, Whose::ThisTokenAlone, Some(UNREACHABLE_REST_MS))
            }
            _ => unanswered(error),
        }
    }

    /// The value of `Authorization` for a service.
    fn signed(&self, origin: &str, now_s: u64) -> Option<String> {
        let mut signed = self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((value, until_s)) = signed.get(origin)
            // Later, if the clock has been set back: services refuse that.
            && (now_s + RENEWED_S..=now_s + SIGNED_S).contains(until_s)
        {
            return Some(value.clone());
        }
        let until_s = now_s + SIGNED_S;
        let claims = json!({"aud": origin, "exp": until_s, "sub": self.subject});
        let token = self.key.sign(&json!({}), &claims)?;
        let value = format!("vapid t={token}, k={}", self.public);
        if signed.len() >= SIGNED_MAX {
            signed.clear();
        }
        signed.insert(origin.into(), (value.clone(), until_s));
        Some(value)
    }
}

impl Gateway for WebPush {
    fn kind(&self) -> &'static str {
        "webpush"
    }

    fn platform(&self) -> &'static str {
        "web"
    }

    fn public_key(&self) -> Option<String> {
        Some(self.public.clone())
    }

    fn service<'a>(&'a self, token: &'a str) -> &'a str {
        self.entry(origin(token.split(' ').next().unwrap_or_default())).unwrap_or_default()
    }

    fn services(&self) -> usize {
        self.endpoints.len()
    }

    fn check(&self, token: &str) -> Result<(), String> {
        let subscription = subscription(token)?;
        let origin = origin(subscription.endpoint);
        match self.entry(origin) {
            Some(_) => Ok(()),
            None => Err(format!(
                "the push service {} is not among `endpoints` of the platform",
                base::text::quoted(origin)
            )),
        }
    }

    fn send(&self, wire: &mut Wire, message: &Message<'_>) -> Verdict {
        // Another configuration may have allowed it.
        if let Err(why) = self.check(message.token) {
            return Verdict::Refused(why);
        }
        let Ok(subscription) = subscription(message.token) else { return Verdict::Dead };
        let text = message.document(TEXT_BYTES_MAX);
        let body = encrypt(&subscription, text.as_bytes());
        let signed = self.signed(origin(subscription.endpoint), message.now_s);
        let (Some(body), Some(signed)) = (body, signed) else {
            return Verdict::Refused("the subscription's public key is no point of P-256".into());
        };
        let sent = wire
            .agent
            .post(subscription.endpoint)
            .header("Authorization", signed)
            .header("Content-Encoding", "aes128gcm")
            .header("Content-Type", "application/octet-stream")
            .header("TTL", message.time_to_live_s().to_string())
            .header("Topic", message.topic())
            .header("Urgency", urgency(message))
            .send(&body[..]);
        let answer = match sent {
            Ok(answer) => Answer::read(answer),
            Err(error) => return self.unanswered(origin(subscription.endpoint), &error),
        };
        judged(answer.status, &answer.body, answer.after_ms)
    }
}

/// The meaning of an answer.
fn judged(status: u16, told: &[u8], after_ms: Option<u64>) -> Verdict {
    let words = words(status, told);
    match status {
        200..=299 => Verdict::Accepted,
        404 | 410 => Verdict::Dead,
        // The subscription may have been made with another key than ours.
        401 | 403 => Verdict::Denied(words, Whose::ThisToken),
        // The limit is that of the subscription (RFC 8030 8.4).
        429 => Verdict::Failed(words, Whose::ThisToken, after_ms),
        408 | 500..=599 => Verdict::Failed(words, Whose::All, after_ms),
        _ => Verdict::Refused(words),
    }
}

fn urgency(message: &Message<'_>) -> &'static str {
    match (message.is_high(), message.push.silent) {
        (true, _) => "high",
        (false, true) => "low",
        (false, false) => "normal",
    }
}

/// The scheme, host and port of a URL.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    &url[..end]
}

fn subscription(token: &str) -> Result<Subscription<'_>, String> {
    let parts: Vec<&str> = token.split(' ').collect();
    let [endpoint, public, secret] = parts[..] else {
        return Err("a Web Push token is a subscription: give `subscription` with `endpoint` and \
                    `keys`"
            .into());
    };
    // What is no URI for the client cannot be sent to.
    let uri = endpoint.parse::<ureq::http::Uri>().ok().and_then(|uri| uri.into_parts().authority);
    if uri.is_none_or(|authority| authority.as_str().contains('@')) {
        return Err("`endpoint` must be a URL without a user".into());
    }
    let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
    let public = decoded(public).and_then(|bytes| <[u8; POINT_BYTES]>::try_from(bytes).ok());
    let secret = decoded(secret).and_then(|bytes| <[u8; SECRET_BYTES]>::try_from(bytes).ok());
    let public = public.filter(|bytes| bytes[0] == 4);
    let public = public.ok_or("`p256dh` must be an uncompressed point of P-256 in base64url")?;
    let secret = secret.ok_or("`auth` must be 16 bytes in base64url")?;
    Ok(Subscription { endpoint, public, secret })
}

/// Encrypts a text for a subscription; `None` if its key is no point of the curve.
fn encrypt(subscription: &Subscription<'_>, text: &[u8]) -> Option<Vec<u8>> {
    let random = SystemRandom::new();
    let mut salt = [0; 16];
    random.fill(&mut salt).ok()?;
    let own = EphemeralPrivateKey::generate(&ECDH_P256, &random).ok()?;
    let public = own.compute_public_key().ok()?;
    let public: [u8; POINT_BYTES] = public.as_ref().try_into().ok()?;
    let theirs = UnparsedPublicKey::new(&ECDH_P256, subscription.public);
    agree_ephemeral(own, &theirs, |shared| seal(subscription, (&salt, &public), shared, text))
        .ok()?
}

/// The body of a message (RFC 8291 4), from the salt, our public key and the shared secret.
fn seal(
    subscription: &Subscription<'_>,
    (salt, public): (&[u8; 16], &[u8; POINT_BYTES]),
    shared: &[u8],
    text: &[u8],
) -> Option<Vec<u8>> {
    let secret = Salt::new(HKDF_SHA256, &subscription.secret).extract(shared);
    let info: [&[u8]; 3] = [b"WebPush: info\0", &subscription.public, public];
    let input: [u8; 32] = expanded(&secret, &info)?;
    let secret = Salt::new(HKDF_SHA256, salt).extract(&input);
    let key: [u8; 16] = expanded(&secret, &[b"Content-Encoding: aes128gcm\0"])?;
    let nonce: [u8; 12] = expanded(&secret, &[b"Content-Encoding: nonce\0"])?;
    let mut out = Vec::with_capacity(HEAD_BYTES + text.len() + 17);
    out.extend_from_slice(salt);
    out.extend_from_slice(&(RECORD_BYTES as u32).to_be_bytes());
    out.push(POINT_BYTES as u8);
    out.extend_from_slice(public);
    let mut sealed = [text, &[2]].concat();
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).ok()?);
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::empty(), &mut sealed).ok()?;
    out.extend_from_slice(&sealed);
    Some(out)
}

/// Length of a derived key.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expanded<const N: usize>(secret: &ring::hkdf::Prk, info: &[&[u8]]) -> Option<[u8; N]> {
    let mut out = [0; N];
    secret.expand(info, Length(N)).and_then(|key| key.fill(&mut out)).ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        URL_SAFE_NO_PAD.decode(text).expect("base64").try_into().expect("the length")
    }

    const PUBLIC: &str = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8p\
                          ZGH6SRpkNtoIAiw4";
    const SECRET: &str = "BTBZMqHH6r4Tts7J_aSIgg";

    #[test]
    fn the_example_of_the_specification_is_sealed_as_it_says() {
        // RFC 8291 5 and appendix A.
        let subscription =
            Subscription { endpoint: "https://x", public: bytes(PUBLIC), secret: bytes(SECRET) };
        let salt = bytes("DGv6ra1nlYgDCS1FRnbzlw");
        let public = bytes(
            "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl\
             7A8",
        );
        let shared: [u8; 32] = bytes("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs");
        let text = b"When I grow up, I want to be a watermelon";
        let sealed = seal(&subscription, (&salt, &public), &shared, text).expect("sealed");
        let expected = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDl\
                        l6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2K\
                        s3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";
        assert_eq!(URL_SAFE_NO_PAD.encode(&sealed), expected);
        assert_eq!(encrypt(&subscription, text).map(|it| it.len()), Some(sealed.len()));
    }

    /// The browsers' services, with a new key, and that key.
    fn browsers() -> (WebPush, String) {
        let key = ring::signature::EcdsaKeyPair::generate_pkcs8(
            &ring::signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            &SystemRandom::new(),
        );
        let key = base64::engine::general_purpose::STANDARD.encode(key.expect("a key"));
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
        let endpoints: Vec<String> = WEB_PUSH_ENDPOINTS.map(String::from).into();
        let push = WebPush::new(pem.as_bytes(), "mailto:a@b.example", &endpoints).expect("good");
        (push, pem)
    }

    #[test]
    fn a_service_that_the_operator_does_not_allow_is_refused() {
        let (push, pem) = browsers();
        let check = |endpoint: &str| push.check(&format!("{endpoint} {PUBLIC} {SECRET}"));
        for good in
            ["https://fcm.googleapis.com/fcm/send/x", "https://wns2-a.notify.windows.com/w/"]
        {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "http://fcm.googleapis.com/fcm/send/x",
            "https://fcm.googleapis.com:8080/x",
            "https://fcm.googleapis.com@127.0.0.1/x",
            "https://127.0.0.1/x",
            "https://notify.windows.com/x",
            "https://.notify.windows.com/x",
            "https://evil@a.notify.windows.com/x",
            "https://evilnotify.windows.com/x",
            "https://127.0.0.1/.notify.windows.com",
            "https://127.0.0.1#.notify.windows.com",
            "https://fcm.googleapis.com/fcm/send/<",
            "https://fcm.googleapis.com/`",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(push.check("https://fcm.googleapis.com/x").is_err());
        assert!(push.check(&format!("https://fcm.googleapis.com/x {SECRET} {PUBLIC}")).is_err());
        assert!(WebPush::new(b"x", "mailto:a@b", &[]).is_err_and(|why| why.contains("openssl")));
        assert!(WebPush::new(pem.as_bytes(), "a@b", &[]).is_err());
        let signed = push.signed("https://a", 1_000).expect("signed");
        assert_eq!(push.signed("https://a", 2_000), Some(signed.clone()), "it is remembered");
        assert_ne!(push.signed("https://a", 1_000 + SIGNED_S - 5), Some(signed));
        let later = push.signed("https://a", 900_000).expect("signed");
        assert_ne!(push.signed("https://a", 1_000), Some(later), "the clock has been set back");
    }

    #[test]
    fn a_restored_token_that_is_no_url_fails_alone() {
        let (push, _) = browsers();
        let token = format!("https://fcm.googleapis.com/fcm/send/< {PUBLIC} {SECRET}");
        let sample = crate::platforms::samples::push();
        let device = model::id::DeviceId::parse("d").expect("a name");
        let message =
            Message { platform: "web", token: &token, device: &device, push: &sample, now_s: 1 };
        let mut wire = Wire { agent: outward::agent(1_000, false), http2: None };
        let verdict = push.send(&mut wire, &message);
        assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
        let error = wire.agent.post("https://a.example/<").send(&[][..]).expect_err("no URL");
        assert_eq!(push.unanswered("https://fcm.googleapis.com", &error), Verdict::Dead);
    }

    #[test]
    fn the_operators_entry_names_the_service_and_an_invented_host_fails_alone() {
        let (push, _) = browsers();
        let invented = "https://x1.y.notify.windows.com";
        let token = |origin: &str| format!("{origin}/w {PUBLIC} {SECRET}");
        assert_eq!(push.service(&token(invented)), "https://*.notify.windows.com");
        assert_eq!(push.service(&token(WEB_PUSH_ENDPOINTS[0])), WEB_PUSH_ENDPOINTS[0]);
        assert_eq!(push.service(&token("https://other.example")), "");
        let whose = |origin: &str, error| match push.unanswered(origin, &error) {
            Verdict::Failed(_, whose, _) => whose,
            other => panic!("{other:?}"),
        };
        let gone = || ureq::Error::Io(std::io::ErrorKind::NotFound.into());
        assert_eq!(whose(invented, gone()), Whose::ThisTokenAlone);
        assert_eq!(whose(invented, ureq::Error::HostNotFound), Whose::ThisTokenAlone);
        assert_eq!(whose(WEB_PUSH_ENDPOINTS[0], gone()), Whose::All);
        let hangs = ureq::Error::Timeout(ureq::Timeout::Global);
        assert_eq!(whose(invented, hangs), Whose::All);
    }

    #[test]
    fn each_answer_has_its_meaning() {
        let failed = |whose| Verdict::Failed("status 0".into(), whose, Some(5_000));
        for (status, expected) in [
            (201, Verdict::Accepted),
            (404, Verdict::Dead),
            (410, Verdict::Dead),
            (403, Verdict::Denied("status 0".into(), Whose::ThisToken)),
            (429, failed(Whose::ThisToken)),
            (503, failed(Whose::All)),
            (400, Verdict::Refused("status 0".into())),
        ] {
            let verdict = match judged(status, b"", Some(5_000)) {
                Verdict::Failed(_, whose, ms) => Verdict::Failed("status 0".into(), whose, ms),
                Verdict::Denied(_, whose) => Verdict::Denied("status 0".into(), whose),
                Verdict::Refused(_) => Verdict::Refused("status 0".into()),
                other => other,
            };
            assert_eq!(verdict, expected, "{status}");
        }
    }
}
