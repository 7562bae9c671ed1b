//! Notifications in pushes, and addresses of devices at their platforms.

use crate::fault::Fault;
use model::push::PlatformToken;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest text of a field of a notification, bytes.
const TEXT_BYTES_MAX: usize = 2_048;

/// Declares a struct with the fields of a notification, and what else it has.
macro_rules! notification {
    ($(#[$about:meta])* struct $name:ident { $($more:tt)* }) => {
        #[derive(Clone, Serialize, Deserialize, JsonSchema, Default)]
        $(#[$about])*
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            /// The title.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(length(max = TEXT_BYTES_MAX))]
            pub(crate) title: Option<String>,
            /// The text.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(length(max = TEXT_BYTES_MAX))]
            pub(crate) body: Option<String>,
            /// The number on the app's icon.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(crate) badge: Option<u32>,
            /// Name of a sound of the app, or `default`.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(length(max = TEXT_BYTES_MAX))]
            pub(crate) sound: Option<String>,
            /// URL of an image.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(length(max = TEXT_BYTES_MAX))]
            pub(crate) image: Option<String>,
            /// URL that a tap opens.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(length(max = TEXT_BYTES_MAX))]
            pub(crate) link: Option<String>,
            /// Category, by which the app chooses actions; on Android the channel.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(length(max = TEXT_BYTES_MAX))]
            pub(crate) category: Option<String>,
            $($more)*
        }

        impl $name {
            /// Checks that no text is too long; `of` is the name of the notification in the fault.
            fn check_texts(&self, of: &str) -> Result<(), Fault> {
                let texts = [
                    ("title", &self.title),
                    ("body", &self.body),
                    ("sound", &self.sound),
                    ("image", &self.image),
                    ("link", &self.link),
                    ("category", &self.category),
                ];
                let is_long = |text: &str| text.len() > TEXT_BYTES_MAX;
                match texts.iter().find(|(_, text)| text.as_deref().is_some_and(is_long)) {
                    Some((name, _)) => Err(Fault::bad(format!(
                        "`{of}.{name}` must have at most {TEXT_BYTES_MAX} bytes"
                    ))),
                    None => Ok(()),
                }
            }
        }
    };
}

notification! {
    /// Content of a push that is shown to the user of a device. The device decides how; platforms
    /// show it while the app does not run.
    #[schemars(rename = "Notification")]
    struct NotificationBody {
        /// Fields that differ by platform.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) platforms: Option<Box<PlatformNotifications>>,
    }
}

notification! {
    /// Fields that replace those of a notification; the others stay.
    struct NotificationPart {}
}

/// Fields of a notification that differ by platform. A device that gets the push over its own
/// connection gets all of it.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlatformNotifications {
    /// Through Firebase Cloud Messaging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) android: Option<NotificationPart>,
    /// Through Apple's service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ios: Option<NotificationPart>,
    /// Through Web Push.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) web: Option<NotificationPart>,
    /// Through Huawei Push Kit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) huawei: Option<NotificationPart>,
    /// Through Xiaomi Mi Push.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) xiaomi: Option<NotificationPart>,
}

impl PlatformNotifications {
    /// Each platform's name and part.
    pub(crate) fn all(&mut self) -> [(&'static str, &mut Option<NotificationPart>); 5] {
        let PlatformNotifications { android, ios, web, huawei, xiaomi } = self;
        [("android", android), ("ios", ios), ("web", web), ("huawei", huawei), ("xiaomi", xiaomi)]
    }
}

/// The body of a push with a notification.
#[derive(Serialize, Deserialize)]
pub(crate) struct PushDocument {
    /// For the user.
    pub(crate) notification: NotificationBody,
    /// For the app, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<String>,
    /// For the app, bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data_base64: Option<String>,
}

impl NotificationBody {
    /// The notification as a platform shows it.
    pub(crate) fn on(mut self, platform: &str) -> NotificationBody {
        let Some(mut platforms) = self.platforms.take() else { return self };
        let part = platforms.all().into_iter().find(|(name, _)| *name == platform);
        let Some(part) = part.and_then(|(_, part)| part.take()) else { return self };
        NotificationBody {
            title: part.title.or(self.title),
            body: part.body.or(self.body),
            badge: part.badge.or(self.badge),
            sound: part.sound.or(self.sound),
            image: part.image.or(self.image),
            link: part.link.or(self.link),
            category: part.category.or(self.category),
            platforms: None,
        }
    }

    /// Checks that it says something, and nothing too long.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        self.check_texts("notification")?;
        let mut platforms = self.platforms.clone().unwrap_or_default();
        for (platform, part) in platforms.all() {
            if let Some(part) = part {
                part.check_texts(&format!("notification.platforms.{platform}"))?;
            }
        }
        match self.title.is_none() && self.body.is_none() && self.badge.is_none() {
            true => Err(Fault::bad("`notification` needs `title`, `body` or `badge`")),
            false => Ok(()),
        }
    }
}

/// Address of a device at its platform: one of `token` and `subscription`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PlatformOrder")]
pub(crate) struct PlatformBody {
    /// Name of the platform: a section `[platform.NAME]` of the configuration.
    #[schemars(length(min = 1, max = PlatformToken::PLATFORM_BYTES_MAX))]
    pub(crate) platform: String,
    /// The token that the platform gave the app.
    #[schemars(length(min = 1, max = PlatformToken::TOKEN_BYTES_MAX))]
    token: Option<String>,
    /// Of Web Push: the subscription as the browser's `toJSON()` gives it.
    subscription: Option<SubscriptionBody>,
}

/// A Web Push subscription.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WebPushSubscription")]
struct SubscriptionBody {
    /// URL of the browser's push service.
    endpoint: String,
    /// Keys of the browser.
    keys: SubscriptionKeys,
    /// Not used: the push service says when the subscription has ended.
    #[serde(default, rename = "expirationTime")]
    #[schemars(with = "f64")]
    _expiration_time: Option<Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SubscriptionKeys {
    /// Public key, base64url.
    p256dh: String,
    /// Authentication secret, base64url.
    auth: String,
}

impl PlatformBody {
    /// The address.
    pub(crate) fn token(self) -> Result<PlatformToken, Fault> {
        let token = match (self.token, self.subscription) {
            (Some(token), None) => token,
            (None, Some(SubscriptionBody { endpoint, keys, .. })) => {
                format!("{endpoint} {} {}", keys.p256dh, keys.auth)
            }
            _ => return Err(Fault::bad("give either `token` or `subscription`")),
        };
        if token.is_empty() || token.contains(|c: char| c.is_control()) {
            return Err(Fault::bad("a token must be visible characters"));
        }
        Ok(PlatformToken { platform: self.platform.into(), token: token.into() })
    }
}
