//! The limits of topics and sessions: keys of `[mqtt]`.

use super::{CLIENT_ID_BYTES_HARD_MAX, FRAME, PACKET_BYTES_HARD_MAX};
use base::section;
use base::setting::whole;

const PACKET: u64 = PACKET_BYTES_HARD_MAX as u64;
const CLIENT_ID: u64 = CLIENT_ID_BYTES_HARD_MAX as u64;
const ANY: u64 = u32::MAX as u64;

section! {
    /// The limits of topics and sessions. Counts are for the whole process unless they say
    /// otherwise.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct TopicLimits {
        /// Bytes of a packet, its fixed header included. A larger one ends the connection; clients
        /// of MQTT 5 are told beforehand. Each one that arrives or waits to be written takes as
        /// much memory.
        packet_bytes_max: u32 = 1024 * 1024, whole(256..=PACKET, "bytes");
        /// Bytes of the first packet, the CONNECT, with credentials and a will. A larger one ends
        /// the connection.
        connect_bytes_max: u32 = 128 * 1024, whole(128..=FRAME, "bytes");
        /// Bytes of a topic name or filter. A longer one is refused.
        topic_bytes_max: u16 = 1_024, whole(1..=65_535, "bytes");
        /// Levels of a topic name or filter. One more is refused.
        topic_levels_max: u16 = 64, whole(1..=32_768, "levels");
        /// Bytes of the name of a shared subscription, $share/NAME/filter. One with a longer name
        /// is refused (0x8F).
        share_name_bytes_max: u16 = 256, whole(1..=65_535, "bytes");
        /// Bytes of a client identifier. A longer one is refused.
        client_id_bytes_max: u16 = 256, whole(1..=CLIENT_ID, "bytes");
        /// Sessions, online or not. Beyond, clients that have none are refused.
        sessions_max: u32 = 4_000_000, whole(1..=1 << 30, "sessions");
        /// How long a session may outlive its connection; 4294967295 is for ever. A longer wish is
        /// cut, and the client told. Clients of MQTT 3 without clean session get this.
        session_expiry_s_max: u32 = 7 * 24 * 3_600, whole(0..=ANY, "seconds");
        /// How often a client identifier may take over its own connection in ten seconds, as two
        /// clients do that have one identifier. Beyond, its CONNACK comes late. Who said farewell,
        /// or lost its connection, before it comes again does not count, nor who is not let in.
        flaps_max: u16 = 10, whole(1..=65_535, "connects");
        /// How late.
        flap_delay_ms: u32 = 5_000, whole(0..=60_000, "milliseconds");
        /// Deliveries of QoS 1 and 2 on the way to a client. The others wait in its queue.
        inflight_max: u16 = 100, whole(1..=65_535, "messages");
        /// Messages of QoS 1 and 2 that a client may have unanswered. Beyond, a client of MQTT 5 is
        /// ended unless its listener is lenient, and others are read more slowly.
        receive_max: u16 = 1_000, whole(1..=65_535, "messages");
        /// Messages that wait for one session. Beyond, the oldest or the new one is dropped; see
        /// queue_drops_oldest.
        queue_count_max: u32 = 100_000, whole(0..=1 << 30, "messages");
        /// Their bytes wherever they are, and 45 of memory for each. Beyond, the same.
        queue_bytes_max: u32 = 8 * 1024 * 1024, whole(0..=ANY, "bytes");
        /// Bytes of memory of all that waits for sessions: places in queues, and messages that are
        /// not in the log alone. Beyond, the same.
        queues_bytes_max: u64 = 1024 * 1024 * 1024, whole(0..=1 << 44, "bytes");
        /// Whether a full queue drops its oldest message and not the new one.
        queue_drops_oldest: bool = false;
        /// Whether messages of QoS 0 wait for sessions that are away. They are not stored: a
        /// restart drops them.
        queue_qos0: bool = false;
        /// Bytes waiting for a client's socket beyond which messages of QoS 0 for it are dropped.
        qos0_backlog_bytes_max: u32 = 256 * 1024, whole(1_024..=1 << 30, "bytes");
        /// Subscriptions of one session. One more is refused.
        subscriptions_a_session_max: u32 = 10_000, whole(1..=1 << 30, "subscriptions");
        /// Subscriptions of all sessions. One more is refused.
        subscriptions_max: u64 = 20_000_000, whole(1..=1 << 40, "subscriptions");
        /// Bytes of SUBSCRIBE and UNSUBSCRIBE packets that are too long for one turn and wait for
        /// the next. One more ends its connection.
        subscribes_bytes_max: u64 = 64 * 1024 * 1024, whole(1 << 20..=1 << 44, "bytes");
        /// Bytes of messages for more receivers than one turn serves, and of those that wait behind
        /// them. One more is dropped (QoS 0) or refused as busy.
        fan_outs_bytes_max: u64 = 64 * 1024 * 1024, whole(1 << 20..=1 << 44, "bytes");
        /// Messages that one client may publish, and twice as many at once; 0 is any. Beyond, it is
        /// read more slowly.
        publishes_per_s: u32 = 0, whole(0..=100_000_000, "messages a second");
        /// Bytes that one client may publish; 0 is any. Beyond, the same.
        publish_bytes_per_s: u32 = 0, whole(0..=ANY, "bytes a second");
        /// Filters that one client may subscribe to or unsubscribe from, and twice as many at once;
        /// 0 is any. Beyond, it is read more slowly.
        subscribes_per_s: u32 = 1_000, whole(0..=100_000_000, "filters a second");
        /// Retained messages. One more is not kept, and its publisher told.
        retained_max: u32 = 2_000_000, whole(0..=1 << 30, "messages");
        /// Their bytes. Beyond, the same.
        retained_bytes_max: u64 = 2 * 1024 * 1024 * 1024, whole(0..=1 << 44, "bytes");
        /// How long a retained message is kept; 0 is for ever.
        retained_expiry_s_max: u32 = 0, whole(0..=ANY, "seconds");
        /// Topic aliases that a client may use on a connection; 0 is none.
        topic_alias_max: u16 = 16, whole(0..=65_535, "aliases");
        /// Topic aliases that the server uses towards a client that allows them; 0 is none.
        topic_alias_out_max: u16 = 16, whole(0..=65_535, "aliases");
        /// Longest silence that a client may wish; 0 is any, and none at all. A longer one is cut:
        /// a client of MQTT 5 is told, the others are held to it.
        keep_alive_s_max: u16 = 0, whole(0..=65_535, "seconds");
        /// Shortest keep-alive: a client of MQTT 5 that wishes for less is told this one (Server
        /// Keep Alive), so that the pings of many do not become the load. 0 is any. Older clients
        /// cannot be told and are held to their own.
        keep_alive_s_min: u16 = 0, whole(0..=65_535, "seconds");
        /// By how much of it the keep-alives of clients of MQTT 5 are spread: up to so much longer,
        /// or shorter where the longest would be passed. Those that came together do not ping
        /// together then.
        keep_alive_jitter_percent: u8 = 0, whole(0..=50, "percent");
        /// How long a will may be delayed. A longer delay is cut.
        will_delay_s_max: u32 = 7 * 24 * 3_600, whole(0..=ANY, "seconds");
        /// Wills that are published in one turn of a shard. The others wait for the next.
        wills_a_turn_max: u32 = 1_024, whole(1..=1 << 20, "wills");
        /// Messages for later (published to $delayed/SECONDS/TOPIC) that wait. One more is refused.
        delayed_max: u32 = 100_000, whole(0..=1 << 30, "messages");
        /// How long one may be delayed. A longer delay is refused.
        delay_s_max: u32 = 30 * 24 * 3_600, whole(0..=ANY, "seconds");
        /// Retained messages handed to a connection at once; the next page follows when these are
        /// written.
        retained_page: u32 = 64, whole(1..=4_096, "messages");
        /// Bytes of what is noted of retained topics that new subscribers were given. Beyond,
        /// nothing new is noted: a message may come twice, live and retained.
        retained_walks_bytes_max: u64 = 64 * 1024 * 1024, whole(1 << 16..=1 << 44, "bytes");
        /// Bytes of messages on their way to one shard from the others. Beyond, those who publish
        /// to it are read more slowly, and what comes all the same is dropped (QoS 0) or refused as
        /// busy.
        peer_messages_bytes_max: u64 = 64 * 1024 * 1024, whole(1 << 20..=1 << 44, "bytes");
        /// Sessions that are looked at in one turn after the rules of access changed.
        renewals_a_turn: u32 = 256, whole(1..=1 << 20, "sessions");
    }
}
