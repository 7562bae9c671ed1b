//! `[push]`: `model::limits::NotificationLimits`, and the other settings of push notifications.

use super::access::URL_OR_NONE;
use super::sections::TOKEN;
use base::setting::Hidden;
use base::{section, words};
use chat::{PushDetail, PushPolicy, QuietPush};
use model::limits::NotificationLimits;

section! {
    /// `[push]`: push notifications for offline devices of accounts.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PushSection {
        /// URL that notifications for devices behind push gateways (FCM, APNs and others) are
        /// posted to, as JSON. "": none; then only MIOP devices are woken, by Holdline itself.
        gateway: String = String::new(), URL_OR_NONE, url;
        /// Key that signs these requests (HMAC-SHA256), as with webhooks. "": unsigned. Never
        /// printed.
        secret: Hidden = Hidden::default(), TOKEN, secret;
        /// Post through the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names.
        proxy_from_environment: bool = false;
        /// Content of a notification: full (sender and beginning of the message), sender (the
        /// sender only), nothing (only that a message arrived).
        detail: DetailSetting = DetailSetting::Full;
        /// The same for XMPP push services (XEP-0357), which always receive the number of unread
        /// messages.
        services_detail: DetailSetting = DetailSetting::Nothing;
        /// Notifications for conversations that the account has muted: low (without a sound) or
        /// nothing.
        muted: QuietSetting = QuietSetting::Nothing;
        /// Notifications in the account's quiet hours: low (without a sound) or nothing.
        quiet: QuietSetting = QuietSetting::Low;
        /// Limits of notifications.
        @part limits: NotificationLimits;
    }
}

words! {
    /// Content of a notification.
    pub enum DetailSetting {
        /// Sender, and beginning of the message.
        Full = "full",
        /// The sender only.
        Sender = "sender",
        /// Only that a message arrived.
        Nothing = "nothing",
    }
}

words! {
    /// Treatment of notifications that should not disturb.
    pub enum QuietSetting {
        /// Sent without a sound.
        Low = "low",
        /// Notifications are not sent.
        Nothing = "nothing",
    }
}

impl DetailSetting {
    fn word(self) -> PushDetail {
        match self {
            DetailSetting::Full => PushDetail::Full,
            DetailSetting::Sender => PushDetail::Sender,
            DetailSetting::Nothing => PushDetail::Nothing,
        }
    }
}

impl QuietSetting {
    fn word(self) -> QuietPush {
        match self {
            QuietSetting::Low => QuietPush::Low,
            QuietSetting::Nothing => QuietPush::Nothing,
        }
    }
}

impl PushSection {
    /// The chat service's type for it.
    pub fn policy(&self) -> PushPolicy {
        PushPolicy {
            gateway: !self.gateway.is_empty(),
            detail: self.detail.word(),
            services: self.services_detail.word(),
            muted: self.muted.word(),
            quiet: self.quiet.word(),
        }
    }
}
