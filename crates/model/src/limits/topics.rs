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
        /// Bytes of a packet, including its fixed header. A larger one closes the connection; MQTT
        /// 5 clients learn the limit in CONNACK. Each packet that arrives or waits to be written
        /// occupies this much memory at most.
        @live packet_bytes_max: u32 = 1024 * 1024, whole(256..=PACKET, "bytes");
        /// Bytes of the first packet (CONNECT), with credentials and will. A larger one closes the
        /// connection.
        @live connect_bytes_max: u32 = 128 * 1024, whole(128..=FRAME, "bytes");
        /// Bytes of a topic name or filter. A longer one is refused.
        @live topic_bytes_max: u16 = 1_024, whole(1..=65_535, "bytes");
        /// Levels of a topic name or filter. One more is refused.
        @live topic_levels_max: u16 = 64, whole(1..=32_768, "levels");
        /// Bytes of the name of a shared subscription, $share/NAME/filter. A longer one is refused
        /// (0x8F).
        @live share_name_bytes_max: u16 = 256, whole(1..=65_535, "bytes");
        /// Bytes of a client identifier. A longer one is refused.
        @live client_id_bytes_max: u16 = 256, whole(1..=CLIENT_ID, "bytes");
        /// Sessions, connected or not. Beyond, clients without a session are refused.
        @live sessions_max: u32 = 4_000_000, whole(1..=1 << 30, "sessions");
        /// How long a session may outlive its connection; 4294967295 is for ever. A longer request
        /// is capped, and MQTT 5 clients are notified. MQTT 3 clients without clean session get
        /// this value.
        @live session_expiry_s_max: u32 = 7 * 24 * 3_600, whole(0..=ANY, "seconds");
        /// How often, in ten seconds, a client identifier may take over its own connection, as two
        /// clients with the same identifier do. Beyond, its CONNACK is delayed. Not counted:
        /// reconnects after a DISCONNECT or a lost connection, and refused clients.
        @live flaps_max: u16 = 10, whole(1..=65_535, "connects");
        /// Delay of that CONNACK.
        @live flap_delay_ms: u32 = 5_000, whole(0..=60_000, "milliseconds");
        /// Unacknowledged deliveries of QoS 1 and 2 to a client. The others wait in its queue.
        @live inflight_max: u16 = 100, whole(1..=65_535, "messages");
        /// Unanswered messages of QoS 1 and 2 from a client. Beyond, an MQTT 5 client is
        /// disconnected unless its listener is lenient, and others are read more slowly.
        @live receive_max: u16 = 1_000, whole(1..=65_535, "messages");
        /// Messages queued for one session. Beyond, the oldest or the new one is dropped
        /// (queue_drops_oldest).
        @live queue_count_max: u32 = 100_000, whole(0..=1 << 30, "messages");
        /// Bytes of these messages, on disk or in memory, and 45 bytes of memory for each. Beyond,
        /// the same.
        @live queue_bytes_max: u32 = 8 * 1024 * 1024, whole(0..=ANY, "bytes");
        /// Memory for the queues of all sessions: queue entries, and messages that are not only in
        /// the log. Beyond, the same.
        @live queues_bytes_max: u64 = 1024 * 1024 * 1024, whole(0..=1 << 44, "bytes");
        /// A full queue drops its oldest message instead of the new one.
        @live queue_drops_oldest: bool = false;
        /// Queue messages of QoS 0 for offline sessions. They are not stored: a restart drops them.
        @live queue_qos0: bool = false;
        /// Bytes queued for a client's socket above which messages of QoS 0 for it are dropped.
        @live qos0_backlog_bytes_max: u32 = 256 * 1024, whole(1_024..=1 << 30, "bytes");
        /// Subscriptions of one session. One more is refused.
        @live subscriptions_a_session_max: u32 = 10_000, whole(1..=1 << 30, "subscriptions");
        /// Subscriptions of all sessions. One more is refused.
        @live subscriptions_max: u64 = 20_000_000, whole(1..=1 << 40, "subscriptions");
        /// Bytes of SUBSCRIBE and UNSUBSCRIBE packets that are too long for one turn and are
        /// continued in the next. One more closes its connection.
        @live subscribes_bytes_max: u64 = 64 * 1024 * 1024, whole(1 << 20..=1 << 44, "bytes");
        /// Bytes of messages with more receivers than one turn serves, and of messages queued
        /// behind them. One more is dropped (QoS 0) or refused as busy.
        @live fan_outs_bytes_max: u64 = 64 * 1024 * 1024, whole(1 << 20..=1 << 44, "bytes");
        /// Messages that one client may publish, with bursts of twice as many; 0: unlimited.
        /// Beyond, it is read more slowly.
        @live publishes_per_s: u32 = 0, whole(0..=100_000_000, "messages a second");
        /// Bytes that one client may publish; 0: unlimited. Beyond, it is read more slowly.
        @live publish_bytes_per_s: u32 = 0, whole(0..=ANY, "bytes a second");
        /// Filters that one client may subscribe to or unsubscribe from, with bursts of twice as
        /// many; 0: unlimited. Beyond, it is read more slowly.
        @live subscribes_per_s: u32 = 1_000, whole(0..=100_000_000, "filters a second");
        /// Retained messages. One more is not retained, and its publisher gets an error code.
        @live retained_max: u32 = 2_000_000, whole(0..=1 << 30, "messages");
        /// Bytes of retained messages. Beyond, the same.
        @live retained_bytes_max: u64 = 2 * 1024 * 1024 * 1024, whole(0..=1 << 44, "bytes");
        /// Bytes of retained messages that the server sends to new subscriptions, of all clients
        /// together, with bursts of twice as many; 0: unlimited. Beyond, they are sent more slowly.
        @live retained_sent_bytes_per_s: u32 = 32 * 1024 * 1024, whole(0..=ANY, "bytes a second");
        /// How long a retained message is kept; 0: for ever.
        @live retained_expiry_s_max: u32 = 0, whole(0..=ANY, "seconds");
        /// Topic aliases that a client may use on a connection; 0: none.
        @live topic_alias_max: u16 = 16, whole(0..=65_535, "aliases");
        /// Topic aliases that the server uses towards a client that allows them; 0: none.
        @live topic_alias_out_max: u16 = 16, whole(0..=65_535, "aliases");
        /// Longest keep-alive; 0: unlimited, and clients may have none. A longer request is capped:
        /// MQTT 5 clients get the new value, and it applies to the others as well.
        @live keep_alive_s_max: u16 = 0, whole(0..=65_535, "seconds");
        /// Shortest keep-alive: an MQTT 5 client that asks for less gets this value (Server Keep
        /// Alive), which limits the load by pings. 0: no minimum. Older clients cannot be notified
        /// and keep their own value.
        @live keep_alive_s_min: u16 = 0, whole(0..=65_535, "seconds");
        /// Random spread of the keep-alives of MQTT 5 clients: up to this much longer, or shorter
        /// where the maximum would be exceeded. Clients that connected together then do not ping
        /// together.
        @live keep_alive_jitter_percent: u8 = 0, whole(0..=50, "percent");
        /// Longest delay of a will. A longer delay is capped.
        @live will_delay_s_max: u32 = 7 * 24 * 3_600, whole(0..=ANY, "seconds");
        /// Wills published in one turn of a shard. The others wait for the next turn.
        @live wills_a_turn_max: u32 = 1_024, whole(1..=1 << 20, "wills");
        /// Delayed messages (published to $delayed/SECONDS/TOPIC) that are stored. One more is
        /// refused.
        @live delayed_max: u32 = 100_000, whole(0..=1 << 30, "messages");
        /// Longest delay of such a message. A longer one is refused.
        @live delay_s_max: u32 = 30 * 24 * 3_600, whole(0..=ANY, "seconds");
        /// Retained messages handed to a connection at once; the next page follows when these are
        /// written.
        @live retained_page: u32 = 64, whole(1..=4_096, "messages");
        /// Bytes of notes on which retained topics new subscribers already received. Beyond,
        /// nothing new is noted: a message may arrive twice, live and retained.
        @live retained_walks_bytes_max: u64 = 64 * 1024 * 1024, whole(1 << 16..=1 << 44, "bytes");
        /// Bytes of messages from other shards on the way to one shard. Beyond, clients that
        /// publish to it are read more slowly, and what still arrives is dropped (QoS 0) or refused
        /// as busy.
        @live peer_messages_bytes_max: u64 = 64 * 1024 * 1024, whole(1 << 20..=1 << 44, "bytes");
        /// Sessions that are checked again in one turn after the access rules changed.
        @live renewals_a_turn: u32 = 256, whole(1..=1 << 20, "sessions");
    }
}
