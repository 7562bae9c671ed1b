//! The limits of push services of platforms: keys of `[platform.NAME]`.

use base::section;
use base::setting::whole;

section! {
    /// The limits of a platform.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PlatformLimits {
        /// Requests a second, at most. 0: no limit.
        rate_per_s: u32 = 0, whole(0..=1_000_000, "requests a second");
        /// Concurrent requests, each on a thread of its own. Of several services of Web Push, one
        /// takes at most half of them.
        requests_max: u16 = 8, whole(1..=256, "requests");
        /// Timeout of one request. After it, the request has failed.
        request_ms_max: u32 = 10_000, whole(10..=600_000, "milliseconds");
        /// Pushes queued for the platform. One more is postponed; it stays queued at its device.
        waiting_max: u32 = 8_192, whole(1..=1 << 20, "pushes");
        /// Pause after a failed request. It doubles with each further failure; half of each pause
        /// is random. It is longer if the platform asks for that (Retry-After).
        retry_ms_min: u32 = 1_000, whole(10..=600_000, "milliseconds");
        /// Longest such pause.
        retry_ms_max: u32 = 300_000, whole(10..=86_400_000, "milliseconds");
    }
}
