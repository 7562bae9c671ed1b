//! Huawei Push Kit, REST API version 1.
//!
//! The app's id and secret are exchanged for an access token. A service answers most faults with
//! status 200 and a code of its own.

use super::message::{Content, Message};
use super::oauth::AccessToken;
use super::{Gateway, Verdict, Whose, Wire, address, post};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Where messages are posted, unless the operator names another place.
const URL: &str = "https://push-api.cloud.huawei.com";

/// Where access tokens are asked for.
const TOKEN_URL: &str = "https://oauth-login.cloud.huawei.com/oauth2/v3/token";

/// Longest message without its token, bytes.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// Longest time to live that the service takes: 15 days.
const TTL_S_MAX: u64 = 15 * 86_400;

/// Huawei's service.
pub(super) struct Huawei {
    app: String,
    secret: String,
    url: String,
    token_url: String,
    access: AccessToken,
}

#[derive(Deserialize)]
struct Outcome {
    code: String,
}

impl Huawei {
    /// With an app's id and secret; empty URLs are Huawei's own.
    pub fn new(app: &str, secret: &str, (url, token_url): (&str, &str)) -> Result<Huawei, String> {
        if app.is_empty() || secret.is_empty() {
            return Err("set app to the app's id, and secret_file to a file with its secret".into());
        }
        let url = address(url, URL);
        let token_url = if token_url.is_empty() { TOKEN_URL } else { token_url };
        Ok(Huawei {
            url: format!("{url}/v1/{app}/messages:send"),
            app: app.into(),
            secret: secret.into(),
            token_url: token_url.into(),
            access: AccessToken::default(),
        })
    }
}

impl Gateway for Huawei {
    fn kind(&self) -> &'static str {
        "huawei"
    }

    fn send(&self, wire: &mut Wire, message: &Message<'_>) -> Verdict {
        let form = || {
            Some(vec![
                ("grant_type", "client_credentials".into()),
                ("client_id", self.app.clone()),
                ("client_secret", self.secret.clone()),
            ])
        };
        let access = match self.access.of((&wire.agent, &self.token_url), message.now_s, form) {
            Ok(access) => access,
            Err(verdict) => return verdict,
        };
        let body = message.fitted(MESSAGE_BYTES_MAX, |content, fetch| {
            let message = told(message, content, fetch);
            json!({"validate_only": false, "message": message}).to_string()
        });
        let answer = match post(wire, &self.url, &access, body) {
            Ok(answer) => answer,
            Err(verdict) => return verdict,
        };
        let told = serde_json::from_slice::<Outcome>(&answer.body);
        let code = told.map_or(String::new(), |it| it.code);
        let (words, after_ms) = (answer.words(), answer.after_ms);
        match (answer.status, &*code) {
            (200, "80000000") => Verdict::Accepted,
            // The only token was not valid.
            (200, "80100000" | "80300007") => Verdict::Dead,
            (200 | 401, "80200001" | "80200003") => {
                self.access.forget(&access);
                // An access token that has ended is no fault of the credentials.
                match &*code {
                    "80200003" => Verdict::Failed(words, Whose::All, after_ms),
                    _ => Verdict::Denied(words, Whose::All),
                }
            }
            (200, "80300002") | (401 | 403 | 404, _) => Verdict::Denied(words, Whose::All),
            (200, code) if code.starts_with("81") => Verdict::Failed(words, Whose::All, after_ms),
            (408 | 429 | 500..=599, _) => Verdict::Failed(words, Whose::All, after_ms),
            _ => Verdict::Refused(words),
        }
    }
}

/// A message as Huawei takes it.
fn told(message: &Message<'_>, content: Content, fetch: bool) -> Value {
    let mut android = json!({
        "urgency": if message.is_high() { "HIGH" } else { "NORMAL" },
        "ttl": format!("{}s", message.time_to_live_s().min(TTL_S_MAX)),
    });
    let data = message.told(&content, fetch);
    if let Some(it) = content.notification {
        let action = match it.link {
            Some(link) => json!({"type": 2, "url": link}),
            None => json!({"type": 3}),
        };
        let mut shown = Map::new();
        super::put(&mut shown, [("title", it.title), ("body", it.body), ("image", it.image)]);
        super::put(&mut shown, [("sound", it.sound), ("channel_id", it.category)]);
        shown.insert("tag".into(), json!(message.topic()));
        shown.insert("click_action".into(), action);
        shown.extend(it.badge.map(|badge| ("badge".into(), json!({"set_num": badge}))));
        android["notification"] = Value::Object(shown);
    }
    json!({"data": data, "android": android, "token": [message.token]})
}
