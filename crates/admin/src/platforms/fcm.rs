//! Firebase Cloud Messaging, HTTP v1, with a service account.
//!
//! A token signed by the account's key is exchanged for an access token, which is used until it
//! ends.

use super::jwt::RsaKey;
use super::message::{Content, Message};
use super::oauth::AccessToken;
use super::{Gateway, Verdict, Whose, Wire, address, post, words};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Where messages are posted, unless the operator names another place.
const URL: &str = "https://fcm.googleapis.com";

/// Right to send messages.
const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";

/// How an account asks for an access token (RFC 7523 2.1).
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Longest message, bytes.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// Longest time to live that the service takes: four weeks.
const TTL_S_MAX: u64 = 28 * 86_400;

/// How long a signed token is valid.
const SIGNED_S: u64 = 3_600;

/// Firebase.
pub(super) struct Fcm {
    account: Account,
    key: RsaKey,
    url: String,
    access: AccessToken,
}

/// The file of a service account.
#[derive(Deserialize)]
struct Account {
    project_id: String,
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
    token_uri: String,
}

/// Answer to a message that was not accepted.
#[derive(Deserialize)]
struct Fault {
    error: FaultBody,
}

#[derive(Deserialize)]
struct FaultBody {
    #[serde(default)]
    details: Vec<FaultDetail>,
}

#[derive(Deserialize)]
struct FaultDetail {
    #[serde(default, rename = "errorCode")]
    code: String,
}

impl Fcm {
    /// With the file of a service account; an empty `url` is Firebase's own.
    pub fn new(file: &[u8], url: &str) -> Result<Fcm, String> {
        let account: Account = serde_json::from_slice(file)
            .map_err(|error| format!("key_file is not that of a service account: {error}"))?;
        super::encrypted("key_file: token_uri", &account.token_uri)?;
        let key = RsaKey::read(account.private_key.as_bytes())
            .map_err(|why| format!("key_file: private_key {why}"))?;
        let url = address(url, URL);
        let url = format!("{url}/v1/projects/{}/messages:send", account.project_id);
        Ok(Fcm { account, key, url, access: AccessToken::default() })
    }

    fn access(&self, wire: &Wire, now_s: u64) -> Result<String, Verdict> {
        let Account { client_email, token_uri, private_key_id, .. } = &self.account;
        let form = || {
            let more = private_key_id.as_ref().map_or(json!({}), |id| json!({"kid": id}));
            let claims = json!({"iss": client_email, "scope": SCOPE, "aud": token_uri,
                "iat": now_s, "exp": now_s + SIGNED_S});
            let signed = self.key.sign(&more, &claims)?;
            Some(vec![("grant_type", GRANT.into()), ("assertion", signed)])
        };
        self.access.of((&wire.agent, token_uri), now_s, form)
    }
}

impl Gateway for Fcm {
    fn kind(&self) -> &'static str {
        "fcm"
    }

    fn platform(&self) -> &'static str {
        "android"
    }

    fn send(&self, wire: &mut Wire, message: &Message<'_>) -> Verdict {
        let access = match self.access(wire, message.now_s) {
            Ok(access) => access,
            Err(verdict) => return verdict,
        };
        let body = message.fitted(MESSAGE_BYTES_MAX, |content, fetch| {
            json!({"message": told(message, content, fetch)}).to_string()
        });
        let answer = match post(wire, &self.url, &access, body) {
            Ok(answer) => answer,
            Err(verdict) => return verdict,
        };
        let verdict = judged(answer.status, &answer.body, answer.after_ms);
        if answer.status == 401 && matches!(verdict, Verdict::Denied(_, Whose::All)) {
            self.access.forget(&access);
        }
        verdict
    }
}

/// The meaning of an answer.
fn judged(status: u16, told: &[u8], after_ms: Option<u64>) -> Verdict {
    let fault = serde_json::from_slice::<Fault>(told).map(|fault| fault.error.details);
    let is = |code: &str| {
        fault.as_ref().is_ok_and(|details| details.iter().any(|detail| detail.code == code))
    };
    let words = words(status, told);
    match status {
        200..=299 => Verdict::Accepted,
        404 if is("UNREGISTERED") => Verdict::Dead,
        // The project has no key for the token's kind: that of Apple's devices or of browsers.
        401 if is("THIRD_PARTY_AUTH_ERROR") => Verdict::Denied(words, Whose::ThisToken),
        // The token belongs to another project than the account.
        403 if is("SENDER_ID_MISMATCH") => Verdict::Denied(words, Whose::ThisToken),
        // The project is unknown, or the account may not send for it.
        401 | 403 | 404 => Verdict::Denied(words, Whose::All),
        // The limit may be that of one device.
        429 => Verdict::Failed(words, Whose::ThisToken, after_ms),
        408 | 500..=599 => Verdict::Failed(words, Whose::All, after_ms),
        _ => Verdict::Refused(words),
    }
}

/// A message as Firebase takes it. What is for the app are texts.
fn told(message: &Message<'_>, content: Content, fetch: bool) -> Value {
    let mut android = json!({
        "priority": if message.is_high() { "HIGH" } else { "NORMAL" },
        "ttl": format!("{}s", message.time_to_live_s().min(TTL_S_MAX)),
    });
    if let Some(key) = &message.push.collapse {
        android["collapse_key"] = json!(&**key);
    }
    let mut told = json!({"token": message.token, "data": data(message, &content, fetch)});
    if let Some(it) = content.notification {
        let mut shown = Map::new();
        super::put(&mut shown, [("title", it.title), ("body", it.body), ("image", it.image)]);
        let mut own = Map::new();
        super::put(&mut own, [("sound", it.sound), ("channel_id", it.category)]);
        own.insert("tag".into(), json!(message.topic()));
        own.extend(it.badge.map(|badge| ("notification_count".into(), json!(badge))));
        told["notification"] = Value::Object(shown);
        android["notification"] = Value::Object(own);
    }
    told["android"] = android;
    told
}

fn data(message: &Message<'_>, content: &Content, fetch: bool) -> Value {
    let mut data = Map::new();
    let link = content.notification.as_ref().and_then(|it| it.link.clone());
    super::put(
        &mut data,
        [
            ("id", Some(message.push.id.0.to_string())),
            ("product", Some(message.push.product.as_str().into())),
            ("device", Some(message.device.as_str().into())),
            ("data", content.data.clone()),
            ("data_base64", content.data_base64.clone()),
            ("link", link),
            ("fetch", fetch.then(|| "true".into())),
        ],
    );
    Value::Object(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_lives_as_long_as_the_service_takes() {
        let device = model::id::DeviceId::parse("d").expect("a name");
        let push = crate::platforms::samples::push();
        let message =
            Message { platform: "android", token: "t", device: &device, push: &push, now_s: 1 };
        assert_eq!(told(&message, Content::default(), false)["android"]["ttl"], "2419200s");
    }

    #[test]
    fn an_answer_about_one_device_holds_for_that_device() {
        let told = |code: &str| json!({"error": {"details": [{"errorCode": code}]}}).to_string();
        let whose = |status, code| match judged(status, told(code).as_bytes(), Some(5_000)) {
            Verdict::Failed(_, whose, after_ms) => (false, whose, after_ms),
            Verdict::Denied(_, whose) => (true, whose, None),
            other => panic!("{other:?}"),
        };
        let (all, this) = (Whose::All, Whose::ThisToken);
        assert_eq!(whose(429, "QUOTA_EXCEEDED"), (false, this, Some(5_000)));
        assert_eq!(whose(503, "UNAVAILABLE"), (false, all, Some(5_000)));
        assert_eq!(whose(401, "THIRD_PARTY_AUTH_ERROR"), (true, this, None));
        assert_eq!(whose(403, "SENDER_ID_MISMATCH"), (true, this, None));
        assert_eq!(whose(401, ""), (true, all, None));
        assert_eq!(whose(404, ""), (true, all, None));
        assert_eq!(judged(404, told("UNREGISTERED").as_bytes(), None), Verdict::Dead);
        assert_eq!(judged(200, b"{}", None), Verdict::Accepted);
        assert!(matches!(judged(400, b"", None), Verdict::Refused(_)));
    }
}
