//! The limits of pushes and devices: keys of `[limits]`.

use super::FRAME;
use base::section;
use base::setting::whole;

section! {
    /// The limits of pushes and devices. Counts are for the whole process unless they say
    /// otherwise.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PushLimits {
        /// Binds on one connection (MIOP 5 carries several). One more is refused.
        binds_a_connection_max: u16 = 16, whole(1..=1_024, "Binds");
        /// Devices with a record, online or not. Beyond, Binds are told BUSY and pushes rejected.
        /// Each shard has an even share.
        devices_max: u32 = 4_000_000, whole(1..=1_000_000_000, "devices");
        /// Stored pushes of all devices together, in memory. Beyond, pushes are rejected. Each
        /// shard has an even share.
        offline_bytes_max: u64 = 1024 * 1024 * 1024, whole(0..=1 << 40, "bytes");
        /// Largest body of a push. A larger one is refused by the API. Leaves 1024 bytes of
        /// frame_bytes_max.
        push_bytes_max: u32 = 4 * 1024, whole(1..=FRAME - 1_024, "bytes");
        /// Longest list of devices in one push order. A longer list is refused by the API.
        push_devices_max: u32 = 1_000, whole(1..=1_000_000, "devices");
        /// Tags a device may carry. One more is refused.
        tags_a_device_max: u16 = 32, whole(0..=1_024, "tags");
        /// Push orders to tags and products whose counts and idempotency keys are remembered. The
        /// oldest that is over is forgotten; while none is, one more is refused as busy.
        jobs_max: u32 = 1_024, whole(1..=1_000_000, "push orders");
        /// How long one of them that is over is remembered after it was taken.
        job_age_s_max: u32 = 7 * 24 * 3_600, whole(1..=10 * 365 * 86_400, "seconds");
        /// How long a shard that has taken an order to a tag or a product may be silent about it.
        /// At half of it the shard is asked; at the whole the order is closed without it, and
        /// counted: it has the order on its own disk, and goes on with it.
        order_silence_s_max: u32 = 600, whole(2..=7 * 86_400, "seconds");
        /// How long an offline device without stored pushes is remembered. Then its record is
        /// dropped.
        forget_after_s: u32 = 7 * 24 * 3_600, whole(0..=10 * 365 * 86_400, "seconds");
        /// Deliveries of a fan-out between two looks at the sockets. The rest follow in the next
        /// turn.
        fan_out_slice: u32 = 32, whole(1..=65_536, "deliveries");
    }
}
