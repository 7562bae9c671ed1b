//! A push as platforms get it: its notification, its data, and the time that it may take.
//!
//! A push whose body is a [`PushDocument`] has a notification for the user; the body of any other
//! one is its data. Platforms take some 4 KiB: the data of a longer push is left out, and the
//! application fetches it by connecting. Invariant: every platform gets the push's id, by which the
//! application drops what it already has.

use crate::orders::notification::{NotificationBody, PushDocument};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use model::id::DeviceId;
use model::push::{Priority, Push};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// A push on its way to a platform.
pub(super) struct Message<'a> {
    /// Name of its platform in notifications.
    pub platform: &'a str,
    /// The device's address.
    pub token: &'a str,
    /// The device.
    pub device: &'a DeviceId,
    /// The push.
    pub push: &'a Push,
    /// Unix time, seconds.
    pub now_s: u64,
}

/// A push as the application on a device gets it.
#[derive(Serialize)]
struct Document<'a> {
    id: String,
    product: &'a str,
    device: &'a str,
    #[serde(flatten)]
    content: &'a Content,
    /// Data was left out: the application gets it by connecting.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fetch: bool,
}

/// Content of a push.
#[derive(Serialize, Default)]
pub(super) struct Content {
    /// For the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notification: Option<NotificationBody>,
    /// For the application, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// For the application, bytes that are no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<String>,
}

impl Message<'_> {
    /// Its content.
    pub fn content(&self) -> Content {
        if self.push.notifies
            && let Ok(document) = serde_json::from_slice(&self.push.body)
        {
            let PushDocument { notification, data, data_base64 } = document;
            let notification = Some(notification.on(self.platform));
            return Content { notification, data, data_base64 };
        }
        match std::str::from_utf8(&self.push.body) {
            Ok(text) => Content { data: Some(text.into()), ..Content::default() },
            Err(_) => {
                let data_base64 = Some(STANDARD.encode(&self.push.body));
                Content { data_base64, ..Content::default() }
            }
        }
    }

    /// The content as JSON of at most so many bytes: without the data, or without the notification
    /// as well, if all of it is longer.
    pub fn document(&self, bytes_max: usize) -> String {
        self.fitted(bytes_max, |content, fetch| self.told(&content, fetch))
    }

    /// This content as JSON. `fetch`: something was left out.
    pub fn told(&self, content: &Content, fetch: bool) -> String {
        let (id, product) = (self.push.id.0.to_string(), self.push.product.as_str());
        let document = Document { id, product, device: self.device.as_str(), content, fetch };
        serde_json::to_string(&document).expect("names are text")
    }

    /// The longest text of at most so many bytes: of all content, without the data, or without the
    /// notification as well. `of` makes a text of what is left, and learns whether that is not all.
    pub fn fitted(&self, bytes_max: usize, of: impl Fn(Content, bool) -> String) -> String {
        let notification =
            || Content { notification: self.content().notification, ..Content::default() };
        let ways: [&dyn Fn() -> String; 2] =
            [&|| of(self.content(), false), &|| of(notification(), true)];
        let fits = ways.iter().map(|way| way()).find(|text| text.len() <= bytes_max);
        fits.unwrap_or_else(|| of(Content::default(), true))
    }

    /// Seconds that the platform may keep it.
    pub fn time_to_live_s(&self) -> u64 {
        u64::from(self.push.expire_at).saturating_sub(self.now_s)
    }

    /// A number for what a later message replaces, as [`topic`](Self::topic) is a name for it.
    pub fn number(&self) -> u32 {
        let hash = Sha256::digest(self.topic());
        u32::from_be_bytes([hash[0] & 0x7f, hash[1], hash[2], hash[3]])
    }

    /// Whether it is urgent.
    pub fn is_high(&self) -> bool {
        self.push.priority == Priority::High
    }

    /// A name of 32 characters that a later message replaces: of the collapse key, otherwise of the
    /// push alone, so that a push that is sent twice is shown once.
    pub fn topic(&self) -> String {
        let hash = Sha256::new_with_prefix(self.push.product.as_str());
        let hash = match &self.push.collapse {
            Some(key) => hash.chain_update([0]).chain_update(key.as_bytes()),
            None => hash.chain_update([1]).chain_update(self.push.id.0.to_le_bytes()),
        };
        URL_SAFE_NO_PAD.encode(&hash.finalize()[..24])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::{MessageId, ProductKey};
    use serde_json::{Value, json};

    fn push(body: &[u8], notifies: bool) -> Push {
        Push {
            id: MessageId(1 << 60),
            product: ProductKey::parse("shop").expect("allowed"),
            app_id: 1,
            body: body.into(),
            collapse: None,
            expire_at: 2_000,
            priority: Priority::Normal,
            silent: false,
            notifies,
        }
    }

    fn with<T>(push: &Push, look: impl FnOnce(&Message<'_>) -> T) -> T {
        let device = DeviceId::parse("d").expect("allowed");
        look(&Message { platform: "web", token: "t", device: &device, push, now_s: 1_400 })
    }

    fn document(push: &Push, bytes_max: usize) -> Value {
        let text = with(push, |message| message.document(bytes_max));
        serde_json::from_str(&text).expect("JSON")
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_said_so() {
        let names = json!({"id": "1152921504606846976", "product": "shop", "device": "d"});
        let with_names = |more: Value| {
            let mut all = names.clone();
            let (all_of, more) = (all.as_object_mut().expect("an object"), more);
            all_of.extend(more.as_object().expect("an object").clone());
            all
        };
        let text = push(b"hello", false);
        assert_eq!(document(&text, 4_096), with_names(json!({"data": "hello"})));
        assert_eq!(
            document(&push(b"\xff", false), 4_096),
            with_names(json!({"data_base64": "/w=="}))
        );
        let long = json!({"notification": {"title": "News"}, "data": "x".repeat(200)});
        let both = push(long.to_string().as_bytes(), true);
        assert_eq!(document(&both, 4_096), with_names(long.clone()));
        let shown = json!({"notification": {"title": "News"}, "fetch": true});
        assert_eq!(document(&both, 200), with_names(shown));
        assert_eq!(document(&both, 80), with_names(json!({"fetch": true})));
        // A body that is no document, whatever the push says.
        assert_eq!(document(&push(b"{}", true), 4_096), with_names(json!({"data": "{}"})));
    }

    #[test]
    fn a_platform_shows_what_is_different_for_it() {
        let platforms = json!({"web": {"title": "Web", "badge": 2}, "ios": {"body": "iOS"}});
        let all = json!({"notification": {"title": "News", "body": "b", "platforms": platforms}});
        let shown = json!({"title": "Web", "body": "b", "badge": 2});
        let told = document(&push(all.to_string().as_bytes(), true), 4_096);
        assert_eq!(told["notification"], shown);
        let all = json!({"notification": {"title": "News", "platforms": {"ios": {"body": "b"}}}});
        let told = document(&push(all.to_string().as_bytes(), true), 4_096);
        assert_eq!(told["notification"], json!({"title": "News"}));
    }

    #[test]
    fn a_later_push_of_a_key_has_the_same_topic_and_another_push_has_not() {
        let of = |id, collapse: Option<&str>| {
            let collapse = collapse.map(Box::from);
            let push = Push { id: MessageId(id), collapse, ..push(b"x", false) };
            with(&push, |message| (message.topic(), message.number()))
        };
        assert_eq!((of(1, None), of(1, Some("k"))), (of(1, None), of(2, Some("k"))));
        assert_ne!(of(1, None), of(2, None));
        assert_ne!(of(1, Some("a")), of(1, Some("b")));
        let (topic, number) = of(1, None);
        assert!(topic.len() == 32 && number <= i32::MAX as u32);
    }

    #[test]
    fn a_platform_keeps_a_push_for_what_is_left_of_its_time() {
        assert_eq!(with(&push(b"x", false), |it| it.time_to_live_s()), 600);
    }
}
