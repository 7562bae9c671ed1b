//! The limits of push notifications for offline devices: keys of `[push]`.

use crate::chat::{EXCERPT_BYTES_MAX, PUSH_REGISTRATIONS_HARD_MAX};
use base::section;
use base::setting::whole;

const REGISTRATIONS: u64 = PUSH_REGISTRATIONS_HARD_MAX as u64;
const EXCERPT: u64 = EXCERPT_BYTES_MAX as u64;

section! {
    /// The limits of notifications. Counts are for the whole process unless they say otherwise.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct NotificationLimits {
        /// Devices of one account that are registered for notifications. One more is refused
        /// (push_full).
        @live registrations_an_account_max: u8 = 16, whole(1..=REGISTRATIONS, "devices");
        /// Accounts with such devices. A device of one more is refused (push_full).
        @live accounts_max: u32 = 4_000_000, whole(1..=1 << 30, "accounts");
        /// How long a notification waits for more of its account, to be combined with them.
        @live window_ms: u32 = 1_000, whole(0..=600_000, "milliseconds");
        /// How long a notification waits for a connected device that has not acknowledged the
        /// message, or that says its owner is away. After it, the devices that are not connected
        /// are woken.
        @live attended_ms_max: u32 = 20_000, whole(0..=3_600_000, "milliseconds");
        /// Conversations of one account that are notified at once. The others follow.
        @live conversations_at_once_max: u16 = 32, whole(1..=1_024, "conversations");
        /// Bytes of a message's text in a notification. The rest is left out.
        @live text_bytes_max: u16 = 256, whole(0..=EXCERPT, "bytes");
        /// Accounts whose notifications are prepared or sent at once, a shard. The others wait.
        @live accounts_at_once_max: u32 = 256, whole(1..=65_536, "accounts");
        /// Delay before a failed notification is retried. It doubles with each further attempt;
        /// half of each delay is random.
        retry_ms_min: u32 = 1_000, whole(10..=600_000, "milliseconds");
        /// Longest such delay.
        retry_ms_max: u32 = 300_000, whole(10..=86_400_000, "milliseconds");
        /// Maximum age of a message that is notified. After it, the notification is given up and
        /// counted.
        @live age_s_max: u32 = 86_400, whole(1..=2_678_400, "seconds");
        /// Concurrent requests to the gateway, each on a thread of its own.
        requests_max: u16 = 8, whole(1..=256, "requests");
        /// Timeout of one request. After it, the request has failed.
        request_ms_max: u32 = 10_000, whole(10..=600_000, "milliseconds");
        /// Notifications queued for the gateway, and as many for MIOP devices. One more is
        /// postponed.
        waiting_max: u32 = 8_192, whole(1..=1 << 24, "notifications");
        /// Bytes of these. Beyond, they are postponed, too.
        waiting_bytes_max: u64 = 16 * 1024 * 1024, whole(65_536..=1 << 40, "bytes");
        /// How long a push to a MIOP device is stored for it.
        miop_time_to_live_s: u32 = 86_400, whole(1..=2_678_400, "seconds");
    }
}
