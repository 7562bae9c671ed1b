//! The limits of what devices are told that are not connected: keys of `[push]`.

use crate::chat::{EXCERPT_BYTES_MAX, PUSH_REGISTRATIONS_HARD_MAX};
use base::section;
use base::setting::whole;

const REGISTRATIONS: u64 = PUSH_REGISTRATIONS_HARD_MAX as u64;
const EXCERPT: u64 = EXCERPT_BYTES_MAX as u64;

section! {
    /// The limits of notifications. Counts are for the whole process unless they say otherwise.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct NotificationLimits {
        /// Devices of one account that are registered to be woken. One more is refused (push_full).
        registrations_an_account_max: u8 = 16, whole(1..=REGISTRATIONS, "devices");
        /// Accounts with such devices. A device of one more is refused (push_full).
        accounts_max: u32 = 4_000_000, whole(1..=1 << 30, "accounts");
        /// How long a push waits for more of its account, to be told together.
        window_ms: u32 = 1_000, whole(0..=600_000, "milliseconds");
        /// How long a push waits for a device that is connected and has not acknowledged the
        /// message, or says that its owner is away. Then those that are not connected are woken.
        attended_ms_max: u32 = 20_000, whole(0..=3_600_000, "milliseconds");
        /// Conversations of one account that are told of at once. The others come next.
        conversations_at_once_max: u16 = 32, whole(1..=1_024, "conversations");
        /// Bytes of a message's text in a push. The rest is not told.
        text_bytes_max: u16 = 256, whole(0..=EXCERPT, "bytes");
        /// Accounts whose pushes are made or on their way at once, a shard. The others wait.
        accounts_at_once_max: u32 = 256, whole(1..=65_536, "accounts");
        /// Wait after a push that was not taken on. It doubles with each further one; half of each
        /// wait is random.
        retry_ms_min: u32 = 1_000, whole(10..=600_000, "milliseconds");
        /// Longest such wait.
        retry_ms_max: u32 = 300_000, whole(10..=86_400_000, "milliseconds");
        /// How old a message may be that is pushed. What could not be until then is given up, and
        /// counted.
        age_s_max: u32 = 86_400, whole(1..=2_678_400, "seconds");
        /// Requests to the gateway under way, each by a thread of its own.
        requests_max: u16 = 8, whole(1..=256, "requests");
        /// Time for one request. Then it counts as not taken on.
        request_ms_max: u32 = 10_000, whole(10..=600_000, "milliseconds");
        /// Notifications that wait for the gateway, and as many for the hub. One more is put off.
        waiting_max: u32 = 8_192, whole(1..=1 << 24, "notifications");
        /// Their bytes. Beyond, the same.
        waiting_bytes_max: u64 = 16 * 1024 * 1024, whole(65_536..=1 << 40, "bytes");
        /// How long a push may wait at Holdline's own hub for its device.
        miop_time_to_live_s: u32 = 86_400, whole(1..=2_678_400, "seconds");
    }
}
