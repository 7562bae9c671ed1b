//! Xiaomi Mi Push, HTTP API version 3, to one registration id.
//!
//! The app's secret is sent with each message. The service answers faults with status 200 and a
//! code of its own.

use super::message::{Content, Message};
use super::{Answer, Gateway, Verdict, Whose, Wire, address, unanswered};
use serde::Deserialize;

/// Where messages are posted, unless the operator names another place.
const URL: &str = "https://api.xmpush.xiaomi.com";

/// Longest payload, bytes.
const PAYLOAD_BYTES_MAX: usize = 4_096;

/// Longest title and text, characters.
const TITLE_CHARS_MAX: usize = 50;
const TEXT_CHARS_MAX: usize = 128;

/// Longest time to live that the service takes: two weeks.
const TTL_S_MAX: u64 = 14 * 86_400;

/// Xiaomi's service.
pub(super) struct Xiaomi {
    package: String,
    authorization: String,
    url: String,
}

#[derive(Deserialize)]
struct Outcome {
    code: i64,
}

impl Xiaomi {
    /// With an app's package and secret; an empty URL is Xiaomi's own.
    pub fn new(package: &str, secret: &str, url: &str) -> Result<Xiaomi, String> {
        if package.is_empty() || secret.is_empty() {
            return Err(
                "set app to the app's package, and secret_file to a file with its secret".into()
            );
        }
        let url = address(url, URL);
        Ok(Xiaomi {
            package: package.into(),
            authorization: format!("key={secret}"),
            url: format!("{url}/v3/message/regid"),
        })
    }

    fn form(&self, message: &Message<'_>) -> Vec<(&'static str, String)> {
        let payload =
            message.fitted(PAYLOAD_BYTES_MAX, |content, fetch| message.told(&content, fetch));
        let mut form = vec![
            ("registration_id", message.token.to_owned()),
            ("restricted_package_name", self.package.clone()),
            ("payload", payload),
            ("time_to_live", (message.time_to_live_s().min(TTL_S_MAX) * 1_000).to_string()),
        ];
        let Content { notification: Some(it), .. } = message.content() else {
            form.push(("pass_through", "1".into()));
            return form;
        };
        let cut = |text: Option<String>, max| -> String {
            text.unwrap_or_default().chars().take(max).collect()
        };
        let link = it.link.clone();
        form.push(("pass_through", "0".into()));
        form.push(("title", cut(it.title, TITLE_CHARS_MAX)));
        form.push(("description", cut(it.body, TEXT_CHARS_MAX)));
        form.push(("notify_type", if message.push.silent { "0" } else { "-1" }.into()));
        // A later notification with the same number replaces it.
        form.push(("notify_id", message.number().to_string()));
        form.extend(it.category.map(|category| ("extra.channel_id", category)));
        form.push(("extra.notify_effect", if link.is_some() { "3" } else { "1" }.into()));
        form.extend(link.map(|link| ("extra.web_uri", link)));
        form
    }
}

impl Gateway for Xiaomi {
    fn kind(&self) -> &'static str {
        "xiaomi"
    }

    fn check(&self, token: &str) -> Result<(), String> {
        // A comma separates several devices.
        match token.contains(',') {
            true => Err("a token of Xiaomi is one registration id, without commas".into()),
            false => super::plain(token),
        }
    }

    fn send(&self, wire: &mut Wire, message: &Message<'_>) -> Verdict {
        let request = wire.agent.post(&self.url).header("Authorization", &self.authorization);
        let answer = match request.send_form(self.form(message)) {
            Ok(answer) => Answer::read(answer),
            Err(error) => return unanswered(&error),
        };
        let code = serde_json::from_slice::<Outcome>(&answer.body).map_or(-1, |it| it.code);
        let (words, after_ms) = (answer.words(), answer.after_ms);
        match (answer.status, code) {
            (200, 0) => Verdict::Accepted,
            (200, 20301) => Verdict::Dead,
            (200, 10004 | 21301 | 22000..=22009) | (401 | 403, _) => {
                Verdict::Denied(words, Whose::All)
            }
            (200, 10001..=10003 | 10009 | 10022..=10024 | 200_001 | 200_002)
            | (408 | 429 | 500..=599, _) => Verdict::Failed(words, Whose::All, after_ms),
            _ => Verdict::Refused(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platforms::samples::push;
    use model::id::DeviceId;

    #[test]
    fn one_token_is_one_device_and_a_push_lives_as_long_as_the_service_takes() {
        let xiaomi = Xiaomi::new("app.example", "secret", "").expect("good");
        assert_eq!(xiaomi.check("abc+/="), Ok(()));
        assert!(xiaomi.check("a,b").is_err());
        let (push, device) = (push(), DeviceId::parse("d").expect("a name"));
        let message =
            Message { platform: "xiaomi", token: "t", device: &device, push: &push, now_s: 1 };
        let form = xiaomi.form(&message);
        assert!(form.contains(&("time_to_live", "1209600000".into())), "{form:?}");
    }
}
