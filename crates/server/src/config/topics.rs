//! `[mqtt]`: every field of `model::limits::TopicLimits` under its own name, and what else holds
//! for topics and sessions; `[[mqtt.rewrite]]` and `[[mqtt.auto_subscribe]]`.
//!
//! The defaults are the model's; ranges and answers stand here. A test holds the two lists against
//! each other. Whether filters are well formed is asked of the broker's own tables.

use broker::rewrite::{AutoSubscribe, AutoSubscribes, RewriteRule, Rewrites};
use model::limits::{
    CLIENT_ID_BYTES_HARD_MAX, FRAME_BYTES_HARD_MAX, PACKET_BYTES_HARD_MAX, TopicLimits,
};
use model::topic::{Qos, RetainHandling};

use super::key::{Field, Key, Kind, Reload, Section, key};

const FRAME: u64 = FRAME_BYTES_HARD_MAX as u64;
const PACKET: u64 = PACKET_BYTES_HARD_MAX as u64;

/// `[mqtt]`: topics and sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MqttSection {
    /// What bounds them.
    pub limits: TopicLimits,
    /// Whether control characters and non-characters in text end a connection.
    pub strict_text: bool,
    /// Seconds between two publications of what the server counts; 0: none.
    pub sys_interval_s: u32,
    /// Topics that are taken for others, the first that matches.
    pub rewrites: Vec<Rewrite>,
    /// Subscriptions that every client gets.
    pub auto_subscribes: Vec<AutoSubscribeSection>,
}

impl Section for MqttSection {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            "packet_bytes_max" => limits.packet_bytes_max,
            Kind::whole(256, PACKET, "bytes"),
            Restart,
            "Bytes of a packet, its fixed header included. A larger one ends the connection; \
             clients of MQTT 5 are told beforehand. Each one that arrives or waits to be written \
             takes as much memory."
        ),
        key!(
            "connect_bytes_max" => limits.connect_bytes_max,
            Kind::whole(128, FRAME, "bytes"),
            Restart,
            "Bytes of the first packet, the CONNECT, with credentials and a will. A larger \
             one ends the connection."
        ),
        key!(
            "topic_bytes_max" => limits.topic_bytes_max,
            Kind::whole(1, 65_535, "bytes"),
            Restart,
            "Bytes of a topic name or filter. A longer one is refused."
        ),
        key!(
            "topic_levels_max" => limits.topic_levels_max,
            Kind::whole(1, 32_768, "levels"),
            Restart,
            "Levels of a topic name or filter. One more is refused."
        ),
        key!(
            "share_name_bytes_max" => limits.share_name_bytes_max,
            Kind::whole(1, 65_535, "bytes"),
            Restart,
            "Bytes of the name of a shared subscription, $share/NAME/filter. One with a longer \
             name is refused (0x8F)."
        ),
        key!(
            "client_id_bytes_max" => limits.client_id_bytes_max,
            Kind::whole(1, CLIENT_ID_BYTES_HARD_MAX as u64, "bytes"),
            Restart,
            "Bytes of a client identifier. A longer one is refused."
        ),
        key!(
            "sessions_max" => limits.sessions_max,
            Kind::whole(1, 1 << 30, "sessions"),
            Restart,
            "Sessions, online or not. Beyond, clients that have none are refused."
        ),
        key!(
            "session_expiry_s_max" => limits.session_expiry_s_max,
            Kind::whole(0, u32::MAX as u64, "seconds"),
            Restart,
            "How long a session may outlive its connection; 4294967295 is for ever. A longer \
             wish is cut, and the client told. Clients of MQTT 3 without clean session get \
             this."
        ),
        key!(
            "flaps_max" => limits.flaps_max,
            Kind::whole(1, 65_535, "connects"),
            Restart,
            "Connections that a client identifier may begin in ten seconds. Beyond, its \
             CONNACK comes late. Only those that were let in count: nobody else can delay it."
        ),
        key!(
            "flap_delay_ms" => limits.flap_delay_ms,
            Kind::whole(0, 60_000, "milliseconds"),
            Restart,
            "How late."
        ),
        key!(
            "inflight_max" => limits.inflight_max,
            Kind::whole(1, 65_535, "messages"),
            Restart,
            "Deliveries of QoS 1 and 2 on the way to a client. The others wait in its queue."
        ),
        key!(
            "receive_max" => limits.receive_max,
            Kind::whole(1, 65_535, "messages"),
            Restart,
            "Messages of QoS 1 and 2 that a client may have unanswered. Beyond, a client of \
             MQTT 5 is ended unless its listener is lenient, and others are read more slowly."
        ),
        key!(
            "queue_count_max" => limits.queue_count_max,
            Kind::whole(0, 1 << 30, "messages"),
            Restart,
            "Messages that wait for one session. Beyond, the oldest or the new one is \
             dropped; see queue_drops_oldest."
        ),
        key!(
            "queue_bytes_max" => limits.queue_bytes_max,
            Kind::whole(0, u32::MAX as u64, "bytes"),
            Restart,
            "Their bytes wherever they are, and 45 of memory for each. Beyond, the same."
        ),
        key!(
            "queues_bytes_max" => limits.queues_bytes_max,
            Kind::whole(0, 1 << 44, "bytes"),
            Restart,
            "Bytes of memory of all that waits for sessions: places in queues, and messages that \
             are not in the log alone. Beyond, the same."
        ),
        key!(
            "queue_drops_oldest" => limits.queue_drops_oldest,
            Kind::Bool,
            Restart,
            "Whether a full queue drops its oldest message and not the new one."
        ),
        key!(
            "queue_qos0" => limits.queue_qos0,
            Kind::Bool,
            Restart,
            "Whether messages of QoS 0 wait for sessions that are away. They are not stored: \
             a restart drops them."
        ),
        key!(
            "qos0_backlog_bytes_max" => limits.qos0_backlog_bytes_max,
            Kind::whole(1_024, 1 << 30, "bytes"),
            Restart,
            "Bytes waiting for a client's socket beyond which messages of QoS 0 for it are \
             dropped."
        ),
        key!(
            "subscriptions_a_session_max" => limits.subscriptions_a_session_max,
            Kind::whole(1, 1 << 30, "subscriptions"),
            Restart,
            "Subscriptions of one session. One more is refused."
        ),
        key!(
            "subscriptions_max" => limits.subscriptions_max,
            Kind::whole(1, 1 << 40, "subscriptions"),
            Restart,
            "Subscriptions of all sessions. One more is refused."
        ),
        key!(
            "subscribes_bytes_max" => limits.subscribes_bytes_max,
            Kind::whole(1 << 20, 1 << 44, "bytes"),
            Restart,
            "Bytes of SUBSCRIBE and UNSUBSCRIBE packets that are too long for one turn and \
             wait for the next. One more ends its connection."
        ),
        key!(
            "fan_outs_bytes_max" => limits.fan_outs_bytes_max,
            Kind::whole(1 << 20, 1 << 44, "bytes"),
            Restart,
            "Bytes of messages for more receivers than one turn serves, and of those that wait \
             behind them. One more is dropped (QoS 0) or refused as busy."
        ),
        key!(
            "publishes_per_s" => limits.publishes_per_s,
            Kind::whole(0, 100_000_000, "messages a second"),
            Restart,
            "Messages that one client may publish, and twice as many at once; 0 is any. \
             Beyond, it is read more slowly."
        ),
        key!(
            "publish_bytes_per_s" => limits.publish_bytes_per_s,
            Kind::whole(0, u32::MAX as u64, "bytes a second"),
            Restart,
            "Bytes that one client may publish; 0 is any. Beyond, the same."
        ),
        key!(
            "retained_max" => limits.retained_max,
            Kind::whole(0, 1 << 30, "messages"),
            Restart,
            "Retained messages. One more is not kept, and its publisher told."
        ),
        key!(
            "retained_bytes_max" => limits.retained_bytes_max,
            Kind::whole(0, 1 << 44, "bytes"),
            Restart,
            "Their bytes. Beyond, the same."
        ),
        key!(
            "retained_expiry_s_max" => limits.retained_expiry_s_max,
            Kind::whole(0, u32::MAX as u64, "seconds"),
            Restart,
            "How long a retained message is kept; 0 is for ever."
        ),
        key!(
            "topic_alias_max" => limits.topic_alias_max,
            Kind::whole(0, 65_535, "aliases"),
            Restart,
            "Topic aliases that a client may use on a connection; 0 is none."
        ),
        key!(
            "topic_alias_out_max" => limits.topic_alias_out_max,
            Kind::whole(0, 65_535, "aliases"),
            Restart,
            "Topic aliases that the server uses towards a client that allows them; 0 is none."
        ),
        key!(
            "keep_alive_s_max" => limits.keep_alive_s_max,
            Kind::whole(0, 65_535, "seconds"),
            Restart,
            "Longest silence that a client may wish; 0 is any, and none at all. A longer one \
             is cut: a client of MQTT 5 is told, the others are held to it."
        ),
        key!(
            "keep_alive_s_min" => limits.keep_alive_s_min,
            Kind::whole(0, 65_535, "seconds"),
            Restart,
            "Shortest keep-alive: a client of MQTT 5 that wishes for less is told this one \
             (Server Keep Alive), so that the pings of many do not become the load. 0 is any. \
             Older clients cannot be told and are held to their own."
        ),
        key!(
            "keep_alive_jitter_percent" => limits.keep_alive_jitter_percent,
            Kind::whole(0, 50, "percent"),
            Restart,
            "By how much of it the keep-alives of clients of MQTT 5 are spread: up to so much \
             longer, or shorter where the longest would be passed. Those that came together do \
             not ping together then."
        ),
        key!(
            "will_delay_s_max" => limits.will_delay_s_max,
            Kind::whole(0, u32::MAX as u64, "seconds"),
            Restart,
            "How long a will may be delayed. A longer delay is cut."
        ),
        key!(
            "wills_a_turn_max" => limits.wills_a_turn_max,
            Kind::whole(1, 1 << 20, "wills"),
            Restart,
            "Wills that are published in one turn of a shard. The others wait for the next."
        ),
        key!(
            "delayed_max" => limits.delayed_max,
            Kind::whole(0, 1 << 30, "messages"),
            Restart,
            "Messages for later (published to $delayed/SECONDS/TOPIC) that wait. One more is \
             refused."
        ),
        key!(
            "delay_s_max" => limits.delay_s_max,
            Kind::whole(0, u32::MAX as u64, "seconds"),
            Restart,
            "How long one may be delayed. A longer delay is refused."
        ),
        key!(
            "retained_page" => limits.retained_page,
            Kind::whole(1, 4_096, "messages"),
            Restart,
            "Retained messages handed to a connection at once; the next page follows when \
             these are written."
        ),
        key!(
            "retained_walks_bytes_max" => limits.retained_walks_bytes_max,
            Kind::whole(1 << 16, 1 << 44, "bytes"),
            Restart,
            "Bytes of what is noted of retained topics that new subscribers were given. Beyond, \
             nothing new is noted: a message may come twice, live and retained."
        ),
        key!(
            "letters_bytes_max" => limits.letters_bytes_max,
            Kind::whole(1 << 20, 1 << 44, "bytes"),
            Restart,
            "Bytes of messages on their way to one shard from the others. Beyond, those who \
             publish to it are read more slowly, and what comes all the same is dropped (QoS \
             0) or refused as busy."
        ),
        key!(
            "renewals_a_turn" => limits.renewals_a_turn,
            Kind::whole(1, 1 << 20, "sessions"),
            Restart,
            "Sessions that are looked at in one turn after the rules of access changed."
        ),
        key!(
            strict_text,
            Kind::Bool,
            Restart,
            "Whether control characters and non-characters in a client's text end its connection \
             (MQTT5 1.5.4 leaves it to the server). Ill-formed UTF-8 always does."
        ),
        key!(
            sys_interval_s,
            Kind::whole(0, 86_400, "seconds"),
            Restart,
            "Time between two publications of what the server counts, retained under \
             $SYS/broker/; 0 is never."
        ),
    ];

    fn blank(_: &str) -> Result<Self, String> {
        Ok(MqttSection {
            limits: TopicLimits::default(),
            strict_text: false,
            sys_interval_s: 10,
            rewrites: Vec::new(),
            auto_subscribes: Vec::new(),
        })
    }
}

/// `[[mqtt.rewrite]]`: topics that are taken for others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rewrite {
    /// Which topics.
    pub filter: String,
    /// For which.
    pub to: String,
    /// When messages are published.
    pub publish: bool,
    /// When somebody subscribes.
    pub subscribe: bool,
}

impl Rewrite {
    /// The broker's word for it.
    pub fn rule(&self) -> RewriteRule {
        let Rewrite { filter, to, publish, subscribe } = self.clone();
        RewriteRule { filter, to, publish, subscribe }
    }

    /// What is wrong with it, in the broker's words.
    pub(super) fn fault(&self) -> Option<String> {
        Rewrites::new(vec![self.rule()]).err()
    }
}

impl Section for Rewrite {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            filter,
            TEXT,
            Restart,
            "Topics that are taken for others: a filter. Of several rules the first that matches \
             holds, once."
        )
        .required(),
        key!(
            to,
            TEXT,
            Restart,
            "What they are taken for: $1, $2 and so on stand for what the filter's wildcards \
             matched, %c for the client identifier, %u for the user."
        )
        .required(),
        key!(publish, Kind::Bool, Restart, "Whether it holds for what is published."),
        key!(subscribe, Kind::Bool, Restart, "Whether it holds for subscriptions."),
    ];
    const RELOAD: Reload = Reload::Restart;

    fn blank(_: &str) -> Result<Self, String> {
        let (filter, to) = (String::new(), String::new());
        Ok(Rewrite { filter, to, publish: true, subscribe: true })
    }
}

/// `[[mqtt.auto_subscribe]]`: a subscription that every client gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AutoSubscribeSection {
    /// Its filter.
    pub filter: String,
    /// Its QoS.
    pub qos: u32,
    /// Nothing that the client published itself.
    pub no_local: bool,
    /// Messages keep the retain flag they were published with.
    pub retain_as_published: bool,
    /// When retained messages are sent: the standard's number.
    pub retain_handling: u32,
}

impl AutoSubscribeSection {
    /// The broker's word for it.
    pub fn wish(&self) -> AutoSubscribe {
        AutoSubscribe {
            filter: self.filter.clone(),
            qos: Qos::of(self.qos as u8).unwrap_or_default(),
            no_local: self.no_local,
            retain_as_published: self.retain_as_published,
            retain_handling: match self.retain_handling {
                0 => RetainHandling::Send,
                1 => RetainHandling::SendIfNew,
                _ => RetainHandling::DoNotSend,
            },
        }
    }

    /// What is wrong with it, in the broker's words.
    pub(super) fn fault(&self) -> Option<String> {
        AutoSubscribes::new(vec![self.wish()]).err()
    }
}

impl Section for AutoSubscribeSection {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            filter,
            TEXT,
            Restart,
            "What every client is subscribed to when its session begins; %c stands for its \
             identifier, %u for its user."
        )
        .required(),
        key!(qos, Kind::whole(0, 2, "QoS"), Restart, "The highest QoS of its messages."),
        key!(no_local, Kind::Bool, Restart, "Nothing that the client published itself."),
        key!(
            retain_as_published,
            Kind::Bool,
            Restart,
            "Messages keep the retain flag they were published with."
        ),
        key!(
            retain_handling,
            Kind::whole(0, 2, "as MQTT 5 numbers it"),
            Restart,
            "Retained messages: 0, sent whenever it is subscribed; 1, only if it was not there; \
             2, not sent."
        ),
    ];
    const RELOAD: Reload = Reload::Restart;

    fn blank(_: &str) -> Result<Self, String> {
        Ok(AutoSubscribeSection {
            filter: String::new(),
            qos: 0,
            no_local: false,
            retain_as_published: false,
            retain_handling: 0,
        })
    }
}

const TEXT: Kind = Kind::Text {
    what: "a text of 1 to 1024 bytes",
    fits: |text| !text.is_empty() && text.len() <= 1_024 && !text.contains('\0'),
};
