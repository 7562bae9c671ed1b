//! `[push]`: `model::limits::NotificationLimits`, and what else holds for devices that are not
//! connected.

use super::access::URL_OR_NONE;
use super::sections::TOKEN;
use base::setting::Hidden;
use base::{section, words};
use chat::{PushDetail, PushPolicy, QuietPush};
use model::limits::NotificationLimits;

section! {
    /// `[push]`: what devices are told that are not connected.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PushSection {
        /// Where notifications for devices of gateways (FCM, APNs and their like) are posted, as
        /// JSON. "": nowhere; then only devices of MIOP are woken, by Holdline itself.
        gateway: String = String::new(), URL_OR_NONE, url;
        /// Signs what is posted (HMAC-SHA256), as webhooks are. "": nothing is signed. Never
        /// printed.
        secret: Hidden = Hidden::default(), TOKEN, secret;
        /// Whether it is posted through the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names.
        proxy_from_environment: bool = false;
        /// How much of a message is told: full (who said it, and how it begins), sender (who said
        /// it), nothing (that something came).
        detail: DetailSetting = DetailSetting::Full;
        /// The same for push services of XMPP elsewhere (XEP-0357), which are told the number of
        /// what is unread in any case.
        services_detail: DetailSetting = DetailSetting::Nothing;
        /// What becomes of messages in conversations that their account has muted: low (told
        /// without a sound), nothing.
        muted: QuietSetting = QuietSetting::Nothing;
        /// What becomes of messages in the hours in which their account wants quiet: the same.
        quiet: QuietSetting = QuietSetting::Low;
        /// What bounds them.
        @part limits: NotificationLimits;
    }
}

words! {
    /// How much of a message is told.
    pub enum DetailSetting {
        /// Who said it, and how it begins.
        Full = "full",
        /// Who said it.
        Sender = "sender",
        /// That something came.
        Nothing = "nothing",
    }
}

words! {
    /// What becomes of what is not to be heard.
    pub enum QuietSetting {
        /// It is told without a sound.
        Low = "low",
        /// It is not told.
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
    /// The chat service's word for it.
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
