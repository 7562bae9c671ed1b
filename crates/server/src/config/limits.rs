//! `[limits]`: every field of `model::limits::Limits`, under its own name, but for those of topics.
//!
//! The defaults are the model's, but for `connections_max`; ranges and answers stand here. A test
//! holds the two lists against each other, so that a limit cannot be added to one of them alone.
//! Shards and hubs are built with their limits, so none of these follows a reload.

use model::limits::{FRAME_BYTES_HARD_MAX, Limits, MS_HARD_MAX};

use super::key::{Field, Key, Kind, Reload, Section, key};

const MS: u64 = MS_HARD_MAX as u64;
const FRAME: u64 = FRAME_BYTES_HARD_MAX as u64;

impl Section for Limits {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            connections_max,
            Kind::whole(0, 100_000_000, "connections"),
            Restart,
            "Connections held. One more is told BUSY and closed. 0: as many as the process may \
             have descriptors for, and at most a million."
        ),
        key!(
            crowd_max,
            Kind::whole(0, 65_536, "connections"),
            Restart,
            "Connections beyond connections_max that are let in to be told BUSY. One more is reset."
        ),
        key!(
            binds_per_s,
            Kind::whole(1, 10_000_000, "Binds a second"),
            Restart,
            "Binds admitted a second, all shards together. One more is told BUSY with a time to \
             come back."
        ),
        key!(
            accepts_per_turn,
            Kind::whole(1, 65_536, "connections"),
            Restart,
            "Connections taken from a listener in one turn of a shard. The rest wait in its \
             backlog."
        ),
        key!(
            bind_ms_max,
            Kind::whole(100, MS, "milliseconds"),
            Restart,
            "Time from accept to a Bind. Then the connection ends."
        ),
        key!(
            frame_bytes_unbound_max,
            Kind::whole(256, FRAME, "bytes"),
            Restart,
            "Largest frame before its connection is bound. A larger one ends the connection."
        ),
        key!(
            frame_bytes_max,
            Kind::whole(2_048, FRAME, "bytes"),
            Restart,
            "Largest frame afterwards. A larger one ends the connection."
        ),
        key!(
            binds_a_connection_max,
            Kind::whole(1, 1_024, "Binds"),
            Restart,
            "Binds on one connection (MIOP 5 carries several). One more is refused."
        ),
        key!(
            connections_a_source_max,
            Kind::whole(0, 100_000_000, "connections"),
            Restart,
            "Connections of one source: an IPv4 address, or a /64 of IPv6. One more is told BUSY \
             and closed. 0: half of connections_max. Who is of this machine is not counted; \
             behind a proxy the address counts that its header tells."
        ),
        key!(
            partial_bytes_max,
            Kind::whole(65_536, 1 << 40, "bytes"),
            Restart,
            "What all connections together may hold of frames that have begun and are not whole; \
             never less than two packets of [mqtt] packet_bytes_max. Beyond, the connections that \
             hold much for long end."
        ),
        key!(
            frame_ms_max,
            Kind::whole(1_000, MS, "milliseconds"),
            Restart,
            "Time in which a frame that has begun must be whole, or have grown by 4096 bytes. \
             Then the connection ends."
        ),
        key!(
            out_bytes_max,
            Kind::whole(2_048, 1 << 30, "bytes"),
            Restart,
            "What may wait to be written to one connection. Beyond, the reader is too slow: it \
             ends."
        ),
        key!(
            out_frames_max,
            Kind::whole(1, 1_000_000, "frames"),
            Restart,
            "Frames that may wait to be written to one connection. Beyond, the same."
        ),
        key!(
            tcp_user_timeout_ms,
            Kind::whole(1_000, MS, "milliseconds"),
            Restart,
            "How long sent bytes may stay unacknowledged by the peer's kernel. Then the \
             connection ends."
        ),
        key!(
            mailbox_letters_max,
            Kind::whole(64, 1 << 24, "letters"),
            Restart,
            "Letters that may wait in the mailbox of a shard. Beyond, the sender is told to \
             slow down."
        ),
        key!(
            devices_max,
            Kind::whole(1, 1_000_000_000, "devices"),
            Restart,
            "Devices with a record, online or not. Beyond, Binds are told BUSY and pushes \
             rejected. Each shard has an even share."
        ),
        key!(
            offline_bytes_max,
            Kind::whole(0, 1 << 40, "bytes"),
            Restart,
            "Stored pushes of all devices together, in memory. Beyond, pushes are rejected. Each \
             shard has an even share."
        ),
        key!(
            push_bytes_max,
            Kind::whole(1, FRAME - 1_024, "bytes"),
            Restart,
            "Largest body of a push. A larger one is refused by the API. Leaves 1024 bytes of \
             frame_bytes_max."
        ),
        key!(
            push_devices_max,
            Kind::whole(1, 1_000_000, "devices"),
            Restart,
            "Longest list of devices in one push order. A longer list is refused by the API."
        ),
        key!(
            tags_a_device_max,
            Kind::whole(0, 1_024, "tags"),
            Restart,
            "Tags a device may carry. One more is refused."
        ),
        key!(
            jobs_max,
            Kind::whole(1, 1_000_000, "push orders"),
            Restart,
            "Push orders to tags and products whose counts and idempotency keys are remembered. \
             The oldest that is over is forgotten; while none is, one more is refused as busy."
        ),
        key!(
            job_age_s_max,
            Kind::whole(1, 10 * 365 * 86_400, "seconds"),
            Restart,
            "How long one of them that is over is remembered after it was taken."
        ),
        key!(
            forget_after_s,
            Kind::whole(0, 10 * 365 * 86_400, "seconds"),
            Restart,
            "How long an offline device without stored pushes is remembered. Then its record is \
             dropped."
        ),
        key!(
            events_waiting_max,
            Kind::whole(1, 1 << 24, "events"),
            Restart,
            "Events that may wait for a subscriber. Beyond, they are dropped and the gap is \
             told and counted."
        ),
        key!(
            fan_out_slice,
            Kind::whole(1, 65_536, "deliveries"),
            Restart,
            "Deliveries of a fan-out between two looks at the sockets. The rest follow in the \
             next turn."
        ),
        key!(
            retry_jitter_ms,
            Kind::whole(0, MS, "milliseconds"),
            Restart,
            "Up to this much is added at random to a time to come back, so that nobody returns \
             in step."
        ),
        key!(
            memory_max,
            Kind::whole(0, 1 << 50, "bytes"),
            Restart,
            "Memory of the process (resident, without files). At 85 % of it new connections are \
             told BUSY, at 92 % messages of QoS 0 are dropped too, at 97 % nothing more is queued \
             for those who are away, nor retained, and pushes are rejected. 0: three quarters of \
             what the machine or its control group gives."
        ),
        key!(
            drain_ms,
            Kind::whole(0, MS, "milliseconds"),
            Restart,
            "Time over which a drain lets its connections go. Whoever is left is closed."
        ),
    ];

    fn blank(_: &str) -> Result<Self, String> {
        // The model has no descriptors to count: 0 lets the roof settle it at the start.
        Ok(Limits { connections_max: 0, ..Limits::default() })
    }
}
