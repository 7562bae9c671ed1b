//! Every limit that is not a product's own: name, unit, default, and what happens at it.
//!
//! Set from configuration; the relations between them are checked where they are set
//! ([`Limits::check`]). A limit that is a constant of a format stands with the format.

mod api;

pub use api::ApiLimits;

/// The limits of one process. Counts are for the whole process unless they say "a shard".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections held. One more is told BUSY and closed.
    pub connections_max: u32,
    /// Connections beyond `connections_max` that are let in to be told BUSY. One more is reset.
    pub crowd_max: u32,
    /// Binds admitted a second. One more is told BUSY with a time to come back.
    pub binds_per_s: u32,
    /// Connections taken from a listener in one turn of a shard. The rest wait in its backlog.
    pub accepts_per_turn: u32,
    /// Milliseconds from accept to a Bind. Then the connection ends.
    pub bind_ms_max: u32,
    /// Bytes of a frame before its connection is bound. A larger one ends the connection.
    pub frame_bytes_unbound_max: u32,
    /// Bytes of a frame afterwards. A larger one ends the connection.
    pub frame_bytes_max: u32,
    /// Binds on one connection (MIOP 5 carries several). One more is refused.
    pub binds_a_connection_max: u16,
    /// Connections of one source (an IPv4 address, a /64 of IPv6); 0: half of `connections_max`.
    /// One more is told BUSY. This machine is no source.
    pub connections_a_source_max: u32,
    /// Bytes of frames that have begun and are not whole, of all connections; never less than two
    /// packets of `packet_bytes_max`. Beyond, those that hold much for long end.
    pub partial_bytes_max: u64,
    /// Milliseconds in which a frame that has begun must be whole, or have grown by 4096 bytes.
    /// Then the connection ends.
    pub frame_ms_max: u32,
    /// Bytes waiting to be written to one connection. Beyond, the reader is too slow: it ends.
    pub out_bytes_max: u32,
    /// Frames waiting to be written to one connection. Beyond, the same.
    pub out_frames_max: u32,
    /// Milliseconds that sent bytes may stay unacknowledged by the peer's kernel.
    pub tcp_user_timeout_ms: u32,
    /// Messages waiting in the mailbox of a shard. Beyond, the sender is told to slow down.
    pub mailbox_letters_max: u32,
    /// Devices with a record, online or not. Beyond, Binds are told BUSY and pushes rejected.
    pub devices_max: u32,
    /// Stored pushes of all devices, bytes in memory. Beyond, pushes are rejected.
    pub offline_bytes_max: u64,
    /// Bytes of a push's body. A larger one is refused by the API.
    pub push_bytes_max: u32,
    /// Devices in one push order's list. A longer list is refused by the API.
    pub push_devices_max: u32,
    /// Tags a device may carry. One more is refused.
    pub tags_a_device_max: u16,
    /// Push orders to tags and products whose counts and idempotency keys are remembered. The
    /// oldest that is over is forgotten; while none is, one more is told Busy.
    pub jobs_max: u32,
    /// Seconds an order that is over is remembered after it was taken. Then it is forgotten.
    pub job_age_s_max: u32,
    /// Seconds an offline device without stored pushes is remembered.
    pub forget_after_s: u32,
    /// Events waiting for a subscriber. Beyond, they are dropped and the gap is told and counted.
    pub events_waiting_max: u32,
    /// Deliveries of a fan-out between two looks at the sockets.
    pub fan_out_slice: u32,
    /// Milliseconds added at random to a time to come back, so that nobody returns in step.
    pub retry_jitter_ms: u32,
    /// Bytes of memory of the process; 0: three quarters of what there is. Before them new
    /// connections, then messages of QoS 0, then what is stored for those who are away is refused.
    pub memory_max: u64,
    /// Milliseconds over which a drain lets its connections go.
    pub drain_ms: u32,
    /// Those of topics and sessions.
    pub topics: TopicLimits,
}

/// The limits of topics and sessions. Counts are for the whole process unless they say otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicLimits {
    /// Bytes of a packet, fixed header included. A larger one ends the connection.
    pub packet_bytes_max: u32,
    /// Bytes of the first packet, the CONNECT: identifiers, credentials and a will. A larger one
    /// ends the connection, as does one above `packet_bytes_max`.
    pub connect_bytes_max: u32,
    /// Bytes of a topic name or filter. A longer one is refused.
    pub topic_bytes_max: u16,
    /// Levels of a topic name or filter. One more is refused.
    pub topic_levels_max: u16,
    /// Bytes of the name of a shared subscription, `$share/NAME/filter`. One with a longer name is
    /// refused.
    pub share_name_bytes_max: u16,
    /// Bytes of a client identifier. A longer one is refused.
    pub client_id_bytes_max: u16,
    /// Sessions, online or not. Beyond, clients without one are refused.
    pub sessions_max: u32,
    /// Seconds a session outlives its connection. A longer wish is cut, and the client told.
    pub session_expiry_s_max: u32,
    /// Connections that a client identifier may begin in ten seconds, once it has shown who it is.
    /// Beyond, it is answered late.
    pub flaps_max: u16,
    /// Milliseconds by which it is answered late.
    pub flap_delay_ms: u32,
    /// Deliveries of QoS 1 and 2 on the way to a client. The others wait in its queue.
    pub inflight_max: u16,
    /// Publications of QoS 1 and 2 that a client may have unanswered. Beyond, a client of MQTT 5
    /// ends (MQTT5 3.3.4-9) unless its listener is lenient, and others are read more slowly.
    pub receive_max: u16,
    /// Messages that wait for one session. Beyond, the policy drops one.
    pub queue_count_max: u32,
    /// Their bytes wherever they are, and 45 of memory for each. Beyond, the same.
    pub queue_bytes_max: u32,
    /// Bytes of memory of all that waits for sessions: places in queues, and messages that are not
    /// in the log alone. Beyond, the same.
    pub queues_bytes_max: u64,
    /// Whether a full queue drops its oldest message and not the new one.
    pub queue_drops_oldest: bool,
    /// Whether messages of QoS 0 wait for sessions that are away.
    pub queue_qos0: bool,
    /// Bytes waiting for a socket beyond which messages of QoS 0 are dropped.
    pub qos0_backlog_bytes_max: u32,
    /// Subscriptions of one session. One more is refused.
    pub subscriptions_a_session_max: u32,
    /// Subscriptions. One more is refused.
    pub subscriptions_max: u64,
    /// Bytes of SUBSCRIBE and UNSUBSCRIBE packets that are too long for one turn and wait for the
    /// next. One more ends its connection.
    pub subscribes_bytes_max: u64,
    /// Bytes of messages for more receivers than one turn serves, and of those that wait behind
    /// them. One more is dropped at QoS 0, and else refused as Busy.
    pub fan_outs_bytes_max: u64,
    /// Messages a second that one client may publish, and twice as many at once; 0: any. Beyond, it
    /// is read more slowly.
    pub publishes_per_s: u32,
    /// Bytes a second that one client may publish; 0: any. Beyond, the same.
    pub publish_bytes_per_s: u32,
    /// Retained messages. One more is not kept, and its publisher told.
    pub retained_max: u32,
    /// Their bytes. Beyond, the same.
    pub retained_bytes_max: u64,
    /// Seconds a retained message is kept; 0: for ever.
    pub retained_expiry_s_max: u32,
    /// Topic aliases that a client may use on a connection; 0: none.
    pub topic_alias_max: u16,
    /// Topic aliases that the server uses towards a client that allows them; 0: none.
    pub topic_alias_out_max: u16,
    /// Longest silence that a client may wish, seconds; 0: any, and none. A longer one is cut: a
    /// client of MQTT 5 is told, the others are held to it.
    pub keep_alive_s_max: u16,
    /// Shortest silence that a client of MQTT 5 is told to keep when it wishes for less; 0: any.
    /// Older clients cannot be told, and are held to their own.
    pub keep_alive_s_min: u16,
    /// Percent of its keep-alive by which that of a client of MQTT 5 may differ from others', so
    /// that those that came together do not ping together; 0: none.
    pub keep_alive_jitter_percent: u8,
    /// Seconds a will may be delayed. A longer delay is cut.
    pub will_delay_s_max: u32,
    /// Wills that are published in one turn of a shard. The others wait for the next.
    pub wills_a_turn_max: u32,
    /// Publications for later that wait. One more is refused.
    pub delayed_max: u32,
    /// Seconds a publication may be delayed. A longer delay is refused.
    pub delay_s_max: u32,
    /// Retained messages in one page of a walk over them; a page is asked for when the last one
    /// has been written to the socket.
    pub retained_page: u32,
    /// Bytes of what is noted of retained topics that new subscribers were given. Beyond, nothing
    /// new is noted: a message may come twice, live and retained.
    pub retained_walks_bytes_max: u64,
    /// Bytes of messages on their way to one shard from the others. Beyond, those who publish to it
    /// are read more slowly, QoS 0 is dropped and the rest refused as Busy.
    pub letters_bytes_max: u64,
    /// Sessions that a lookup into the rules of access may renew in one turn.
    pub renewals_a_turn: u32,
}

impl Default for TopicLimits {
    fn default() -> Self {
        TopicLimits {
            packet_bytes_max: 1024 * 1024,
            connect_bytes_max: 128 * 1024,
            topic_bytes_max: 1_024,
            topic_levels_max: 64,
            share_name_bytes_max: 256,
            client_id_bytes_max: 256,
            sessions_max: 4_000_000,
            session_expiry_s_max: 7 * 24 * 3_600,
            flaps_max: 10,
            flap_delay_ms: 5_000,
            inflight_max: 100,
            receive_max: 1_000,
            queue_count_max: 100_000,
            queue_bytes_max: 8 * 1024 * 1024,
            queues_bytes_max: 1024 * 1024 * 1024,
            queue_drops_oldest: false,
            queue_qos0: false,
            qos0_backlog_bytes_max: 256 * 1024,
            subscriptions_a_session_max: 10_000,
            subscriptions_max: 20_000_000,
            subscribes_bytes_max: 64 * 1024 * 1024,
            fan_outs_bytes_max: 64 * 1024 * 1024,
            publishes_per_s: 0,
            publish_bytes_per_s: 0,
            retained_max: 2_000_000,
            retained_bytes_max: 2 * 1024 * 1024 * 1024,
            retained_expiry_s_max: 0,
            topic_alias_max: 16,
            topic_alias_out_max: 16,
            keep_alive_s_max: 0,
            keep_alive_s_min: 0,
            keep_alive_jitter_percent: 0,
            will_delay_s_max: 7 * 24 * 3_600,
            wills_a_turn_max: 1_024,
            delayed_max: 100_000,
            delay_s_max: 30 * 24 * 3_600,
            retained_page: 64,
            retained_walks_bytes_max: 64 * 1024 * 1024,
            letters_bytes_max: 64 * 1024 * 1024,
            renewals_a_turn: 256,
        }
    }
}

/// Longest client identifier that any configuration may allow: it is part of a row's key.
pub const CLIENT_ID_BYTES_HARD_MAX: u16 = 480;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 1_000_000,
            crowd_max: 256,
            binds_per_s: 20_000,
            accepts_per_turn: 64,
            bind_ms_max: 10_000,
            frame_bytes_unbound_max: 4 * 1024,
            frame_bytes_max: 64 * 1024,
            binds_a_connection_max: 16,
            connections_a_source_max: 0,
            partial_bytes_max: 256 * 1024 * 1024,
            frame_ms_max: 30_000,
            out_bytes_max: 1024 * 1024,
            out_frames_max: 4_096,
            tcp_user_timeout_ms: 30_000,
            mailbox_letters_max: 65_536,
            devices_max: 4_000_000,
            offline_bytes_max: 1024 * 1024 * 1024,
            push_bytes_max: 4 * 1024,
            push_devices_max: 1_000,
            tags_a_device_max: 32,
            jobs_max: 1_024,
            job_age_s_max: 7 * 24 * 3_600,
            forget_after_s: 7 * 24 * 3_600,
            events_waiting_max: 65_536,
            fan_out_slice: 32,
            retry_jitter_ms: 5_000,
            memory_max: 0,
            drain_ms: 10_000,
            topics: TopicLimits::default(),
        }
    }
}

/// The largest frame any configuration may allow: what classic clients can hold (5 MiB static
/// buffer of the version 5 client) is more, what one read of a shard should carry is this.
pub const FRAME_BYTES_HARD_MAX: u32 = 1024 * 1024;

/// The largest packet of MQTT any configuration may allow: the longest length that it can say.
pub const PACKET_BYTES_HARD_MAX: u32 = 268_435_455;

/// Longest time before any limit of milliseconds, one day.
pub const MS_HARD_MAX: u32 = 24 * 3_600 * 1000;

impl Limits {
    /// Connections that one source may have.
    pub fn source_max(&self) -> u32 {
        match self.connections_a_source_max {
            0 => (self.connections_max / 2).max(1),
            most => most,
        }
    }

    /// Bytes of frames that are not whole: room for two at least.
    pub fn partial_max(&self) -> u64 {
        self.partial_bytes_max.max(2 * u64::from(self.topics.packet_bytes_max))
    }

    /// The first relation that does not hold, in words.
    pub fn check(&self) -> Result<(), &'static str> {
        let rules = [
            (
                self.frame_bytes_unbound_max <= self.frame_bytes_max,
                "frame_bytes_unbound_max must not be above frame_bytes_max",
            ),
            (
                self.frame_bytes_max <= FRAME_BYTES_HARD_MAX,
                "frame_bytes_max must not be above 1048576",
            ),
            (
                self.push_bytes_max + 1_024 <= self.frame_bytes_max,
                "push_bytes_max must leave 1024 bytes of frame_bytes_max for the frame itself",
            ),
            (
                self.out_bytes_max >= self.frame_bytes_max,
                "out_bytes_max must hold at least one frame of frame_bytes_max",
            ),
            (self.out_frames_max > 0, "out_frames_max must be at least 1"),
            (self.fan_out_slice > 0, "fan_out_slice must be at least 1"),
            (self.accepts_per_turn > 0, "accepts_per_turn must be at least 1"),
            (self.binds_a_connection_max > 0, "binds_a_connection_max must be at least 1"),
            (
                self.topics.packet_bytes_max <= PACKET_BYTES_HARD_MAX,
                "packet_bytes_max must not be above 268435455",
            ),
            (
                self.topics.client_id_bytes_max <= CLIENT_ID_BYTES_HARD_MAX,
                "client_id_bytes_max must not be above 480",
            ),
            (
                self.topics.connect_bytes_max <= self.topics.packet_bytes_max,
                "connect_bytes_max must not be above packet_bytes_max",
            ),
            (
                self.topics.keep_alive_s_max == 0
                    || self.topics.keep_alive_s_min <= self.topics.keep_alive_s_max,
                "keep_alive_s_min must not be above keep_alive_s_max",
            ),
            (
                self.topics.keep_alive_jitter_percent <= 50,
                "keep_alive_jitter_percent must not be above 50",
            ),
            (self.topics.inflight_max > 0, "inflight_max must be at least 1"),
            (self.topics.receive_max > 0, "receive_max must be at least 1"),
            (self.topics.retained_page > 0, "retained_page must be at least 1"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, rule)| Err(rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_agree_with_each_other() {
        assert_eq!(Limits::default().check(), Ok(()));
    }

    #[test]
    fn a_broken_relation_is_named() {
        let limits = Limits { out_bytes_max: 100, ..Limits::default() };
        assert!(limits.check().is_err_and(|rule| rule.starts_with("out_bytes_max")));
    }

    /// Every relation, by one edit that still holds it and one that is just beyond.
    #[test]
    fn every_relation_holds_up_to_its_limit() {
        type Edit = fn(&mut Limits, bool);
        let relations: &[(&str, Edit)] = &[
            ("frame_bytes_unbound_max", |l, beyond| {
                l.frame_bytes_unbound_max = l.frame_bytes_max + u32::from(beyond);
            }),
            ("frame_bytes_max", |l, beyond| {
                l.frame_bytes_max = FRAME_BYTES_HARD_MAX + u32::from(beyond);
                l.out_bytes_max = u32::MAX;
            }),
            ("push_bytes_max", |l, beyond| {
                l.push_bytes_max = l.frame_bytes_max - 1_024 + u32::from(beyond);
            }),
            ("out_bytes_max", |l, beyond| {
                l.out_bytes_max = l.frame_bytes_max - u32::from(beyond);
            }),
            ("out_frames_max", |l, beyond| l.out_frames_max = u32::from(!beyond)),
            ("fan_out_slice", |l, beyond| l.fan_out_slice = u32::from(!beyond)),
            ("accepts_per_turn", |l, beyond| l.accepts_per_turn = u32::from(!beyond)),
            ("binds_a_connection_max", |l, beyond| l.binds_a_connection_max = u16::from(!beyond)),
            ("packet_bytes_max", |l, beyond| {
                l.topics.packet_bytes_max = PACKET_BYTES_HARD_MAX + u32::from(beyond);
            }),
            ("client_id_bytes_max", |l, beyond| {
                l.topics.client_id_bytes_max = CLIENT_ID_BYTES_HARD_MAX + u16::from(beyond);
            }),
            ("connect_bytes_max", |l, beyond| {
                l.topics.connect_bytes_max = l.topics.packet_bytes_max + u32::from(beyond);
            }),
            ("keep_alive_s_min", |l, beyond| {
                l.topics.keep_alive_s_max = 60;
                l.topics.keep_alive_s_min = 60 + u16::from(beyond);
            }),
            ("keep_alive_jitter_percent", |l, beyond| {
                l.topics.keep_alive_jitter_percent = 50 + u8::from(beyond);
            }),
            ("inflight_max", |l, beyond| l.topics.inflight_max = u16::from(!beyond)),
            ("receive_max", |l, beyond| l.topics.receive_max = u16::from(!beyond)),
            ("retained_page", |l, beyond| l.topics.retained_page = u32::from(!beyond)),
        ];
        for (name, edit) in relations {
            let (mut at, mut beyond) = (Limits::default(), Limits::default());
            edit(&mut at, false);
            edit(&mut beyond, true);
            assert_eq!(at.check(), Ok(()), "{name} at its limit");
            assert!(beyond.check().is_err_and(|rule| rule.starts_with(name)), "{name} beyond");
        }
        let mut limits = Limits::default();
        limits.topics.keep_alive_s_min = 60;
        assert_eq!(limits.check(), Ok(()), "no longest silence, so none is too short for it");
    }

    #[test]
    fn what_is_derived_has_room_for_something() {
        let of = |connections_max, connections_a_source_max| {
            let limits = Limits { connections_max, connections_a_source_max, ..Limits::default() };
            limits.source_max()
        };
        assert_eq!([of(100, 0), of(1, 0), of(100, 7), of(100, 100)], [50, 1, 7, 100]);
        let mut limits = Limits { partial_bytes_max: 1_000, ..Limits::default() };
        limits.topics.packet_bytes_max = 500;
        assert_eq!(limits.partial_max(), 1_000);
        limits.topics.packet_bytes_max = 501;
        assert_eq!(limits.partial_max(), 1_002);
    }
}
