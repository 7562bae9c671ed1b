//! The limits of pushes and devices: keys of `[limits]`.

use super::FRAME;
use crate::audience::DeviceList;
use base::section;
use base::setting::whole;

const NAMES: u64 = DeviceList::NAMES_MAX as u64;

section! {
    /// The limits of pushes and devices. Counts are for the whole process unless they say
    /// otherwise.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PushLimits {
        /// Binds on one connection (MIOP 5 allows several). One more is refused.
        @live binds_a_connection_max: u16 = 16, whole(1..=1_024, "Binds");
        /// Devices with a record, online or not. Beyond, Binds get BUSY and pushes are rejected.
        /// Each shard has an equal share.
        @live devices_max: u32 = 4_000_000, whole(1..=1_000_000_000, "devices");
        /// Memory for stored pushes of all devices together. Beyond, pushes are rejected. Each
        /// shard has an equal share.
        @live offline_bytes_max: u64 = 1024 * 1024 * 1024, whole(0..=1 << 40, "bytes");
        /// Largest body of a push. The API refuses a larger one. At least 1024 bytes less than
        /// frame_bytes_max.
        @live push_bytes_max: u32 = 4 * 1024, whole(1..=FRAME - 1_024, "bytes");
        /// Longest list of devices in one push order. The API refuses a longer one.
        @live push_devices_max: u32 = 1_000, whole(1..=1_000_000, "devices");
        /// Longest list of devices in the audience of a push. The API refuses a longer one.
        @live audience_devices_max: u32 = 1_000_000, whole(1..=NAMES, "devices");
        /// Memory for the lists of devices of all pushes that are open or scheduled. Beyond, a push
        /// with a list is refused (`lists_full`) until one of the others is finished or cancelled.
        /// Each shard has them in its log, too, and after a restart its own devices' names once
        /// more in memory.
        @live lists_bytes_max: u64 = 128 * 1024 * 1024, whole(0..=192 << 20, "bytes");
        /// Saved segments of a product. One more is refused (`too_many_segments`).
        @live segments_a_product_max: u32 = 256, whole(0..=4_096, "segments");
        /// Schedules of a product. One more is refused (`too_many_schedules`).
        @live schedules_a_product_max: u32 = 256, whole(0..=4_096, "schedules");
        /// Devices of one user of a product. One more is refused (`too_many_devices`). Each shard
        /// counts its own devices.
        @live devices_a_user_max: u16 = 64, whole(1..=4_096, "devices a shard");
        /// Tags of a device. One more is refused.
        @live tags_a_device_max: u16 = 32, whole(0..=1_024, "tags");
        /// Push orders to tags and products whose counts and idempotency keys are remembered. The
        /// oldest finished one is forgotten; while none is finished, one more is refused as busy.
        @live jobs_max: u32 = 1_024, whole(1..=1_000_000, "push orders");
        /// How long a finished order is remembered, counted from when it was accepted.
        @live job_age_s_max: u32 = 7 * 24 * 3_600, whole(1..=10 * 365 * 86_400, "seconds");
        /// Tracked pushes that are remembered, beside those orders. The oldest finished one is
        /// forgotten; while none is finished, one more is refused as busy. Every shard has each in
        /// memory.
        @live tracked_max: u32 = 65_536, whole(1..=10_000_000, "push orders");
        /// Stored outcomes of tracked pushes at their devices. Beyond, the oldest
        /// finished tracked pushes are forgotten; while none is finished, further devices are
        /// counted without a line, and further reports are not counted. Each shard has an equal
        /// share.
        @live outcomes_bytes_max: u64 = 256 * 1024 * 1024, whole(0..=1 << 40, "bytes");
        /// Push orders that wait for their time (`send_at_ms`). One more is refused
        /// (`too_many_scheduled`).
        @live scheduled_max: u32 = 1_024, whole(0..=1_000_000, "push orders");
        /// How far ahead a push may be scheduled. The API refuses a later time.
        @live schedule_s_max: u32 = 30 * 86_400, whole(1..=10 * 365 * 86_400, "seconds");
        /// How long a shard may be silent about an order to a tag or a product that it accepted.
        /// After half of it the shard is asked; after all of it the order is closed without that
        /// shard, and counted. The shard has the order on its own disk and still finishes it.
        @live order_silence_s_max: u32 = 600, whole(2..=7 * 86_400, "seconds");
        /// How long an offline device without stored pushes is remembered. After it, its record is
        /// deleted.
        forget_after_s: u32 = 7 * 24 * 3_600, whole(0..=10 * 365 * 86_400, "seconds");
        /// Deliveries of a fan-out between two polls of the sockets. The rest follow in the next
        /// turn.
        @live fan_out_slice: u32 = 32, whole(1..=65_536, "deliveries");
    }
}
