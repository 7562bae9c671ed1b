//! The sections that are the server's own, each a struct and the table of its keys.
//!
//! What a key means, its default, range and answer at the limit stand in its line of the table and
//! nowhere else: `holdline.toml` is printed from here. Rules that join several keys are in
//! `rules.rs`; the sections that become nouns of `model` are in `limits.rs` and `products.rs`.

use std::net::SocketAddr;
use std::path::PathBuf;

use admin::EVENT_TYPES;
use model::limits::{ApiLimits, MS_HARD_MAX};
use proto_mqtt::codec::{DecodeRules, Sender, Version};

use super::key::{Field, Hidden, Key, Kind, Reload, Section, Value, Words, key, words};

const MS_MAX: u64 = MS_HARD_MAX as u64;

/// Most shards: each has a log, and the names of logs have two digits.
pub(crate) const SHARDS_MAX: u64 = 99;

/// `[server]`: the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerSection {
    /// Folder of everything durable.
    pub data: PathBuf,
    /// Shards; 0 is one for each core.
    pub shards: u16,
    /// Whether each shard keeps to one core.
    pub pin: bool,
    /// Filter of the log.
    pub log: String,
    /// Form of the log.
    pub log_format: LogFormat,
    /// Descriptors beyond those for connections.
    pub descriptors_spare: u32,
}

/// Form of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// An object a line.
    Json,
}
words!(LogFormat { Text = "text", Json = "json" });

impl Section for ServerSection {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            data,
            PATH,
            Restart,
            "Folder of everything durable; made if it is missing. One server a folder: a second \
             one refuses to start."
        ),
        key!(
            shards,
            Kind::whole(0, SHARDS_MAX, "shards"),
            Restart,
            "Shards, each a thread that owns its connections and devices. 0 is one for each core."
        ),
        key!(
            pin,
            Kind::Bool,
            Restart,
            "Keep each shard on a core of its own. Turn it off where other busy programs share \
             the cores."
        ),
        key!(
            log,
            Kind::Text {
                what: "a level (error, warn, info, debug, trace) or a list such as info,net=debug",
                fits: is_log_filter
            },
            Live,
            "What is logged: a level, or levels by part of the program as in info,net=debug."
        ),
        key!(
            log_format,
            Kind::Word(LogFormat::WORDS),
            Restart,
            "Lines for people, or one JSON object a line."
        ),
        key!(
            descriptors_spare,
            Kind::whole(8, 65_536, "descriptors"),
            Restart,
            "Descriptors kept for files, the API and refusals, beyond those for connections. If \
             the system grants fewer than all of them together, the start is refused with the \
             remedy."
        ),
    ];

    fn blank(_: &str) -> Result<Self, String> {
        Ok(ServerSection {
            data: "data".into(),
            shards: 0,
            pin: true,
            log: "info".into(),
            log_format: LogFormat::Text,
            descriptors_spare: 64,
        })
    }
}

/// `[tls]`: who the server is, and whom it trusts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsSection {
    /// PEM file of the certificate and its chain. Present exactly if `key` is.
    pub certificate: Option<PathBuf>,
    /// PEM file of its key.
    pub key: Option<PathBuf>,
    /// PEM file of the authorities whose client certificates are believed.
    pub client_ca: Option<PathBuf>,
}

impl Section for TlsSection {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            certificate,
            PATH_OR_NONE,
            Restart,
            "PEM file of the certificate and its chain; \"\" is none, and then no TLS. A reload \
             reads the same files again; other paths need a restart."
        ),
        key!(key, PATH_OR_NONE, Restart, "PEM file of its private key."),
        key!(
            client_ca,
            PATH_OR_NONE,
            Restart,
            "PEM file of the authorities whose client certificates are believed."
        ),
    ];

    fn blank(_: &str) -> Result<Self, String> {
        Ok(TlsSection::default())
    }
}

/// `[api]`: the HTTP API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiSection {
    /// Whether it is served.
    pub enabled: bool,
    /// Address that the API listens on.
    pub address: SocketAddr,
    /// What callers must show; empty: made at the first start and kept in the data folder.
    pub token: Hidden,
    /// Whether webhooks are posted through the proxies of the environment.
    pub proxy_from_environment: bool,
    /// How much of everything.
    pub limits: ApiLimits,
}

impl Section for ApiSection {
    const KEYS: &'static [Key<Self>] = &[
        key!(enabled, Kind::Bool, Restart, "Whether the HTTP API is served."),
        key!(
            address,
            ADDRESS,
            Restart,
            "Where. It speaks plain HTTP: from other machines reach it through a proxy with TLS."
        ),
        key!(
            token,
            Kind::Text {
                what: "16 to 128 letters, digits and signs without spaces, or empty",
                fits: is_token
            },
            Restart,
            "The first token, which may do everything. \"\": made at the first start and kept in \
             the data folder, in api.token. Never printed or logged. Tokens that may do less are \
             made by `holdline token make`."
        )
        .secret(),
        key!(
            proxy_from_environment,
            Kind::Bool,
            Restart,
            "Whether webhooks are posted through the proxy that HTTP_PROXY, HTTPS_PROXY or \
             ALL_PROXY names. It sees what is posted to http:// addresses."
        ),
        key!(
            "connections_max" => limits.connections_max,
            Kind::whole(8, 65_536, "connections"),
            Restart,
            "Connections held. One more takes the place of one that has not shown a token, else \
             of one that has asked nothing for longest; where all are being answered it is told \
             to come back (503)."
        ),
        key!(
            "streams_max" => limits.streams_max,
            Kind::whole(0, 65_536, "streams"),
            Restart,
            "Event streams at once. One more is told to come back (503)."
        ),
        key!(
            "head_ms_max" => limits.head_ms_max,
            Kind::whole(100, MS_MAX, "milliseconds"),
            Restart,
            "Time for the head of a request. Then the connection ends."
        ),
        key!(
            "body_ms_max" => limits.body_ms_max,
            Kind::whole(100, MS_MAX, "milliseconds"),
            Restart,
            "Time for the body of a request. Then it is refused (408)."
        ),
        key!(
            "idle_ms_max" => limits.idle_ms_max,
            Kind::whole(100, MS_MAX, "milliseconds"),
            Restart,
            "Time between two requests of a caller that has shown a token. Then the connection \
             ends."
        ),
        key!(
            "write_ms_max" => limits.write_ms_max,
            Kind::whole(100, MS_MAX, "milliseconds"),
            Restart,
            "Time in which a caller takes nothing of what it is sent. Then the connection ends."
        ),
        key!(
            "bodies_bytes_max" => limits.bodies_bytes_max,
            Kind::whole(1 << 20, 1 << 36, "bytes"),
            Restart,
            "Bodies of all requests that are read or answered; the largest that is allowed alone \
             always fits. Beyond, a request is told to come back (503)."
        ),
        key!(
            "tokens_max" => limits.tokens_max,
            Kind::whole(0, 1_000_000, "tokens"),
            Restart,
            "Tokens, beside the first one. One more is refused."
        ),
        key!(
            "audit_log_bytes_max" => limits.audit_log_bytes_max,
            Kind::whole(64 << 10, 1 << 36, "bytes"),
            Restart,
            "The audit log of calls, in the data folder. The older half makes room."
        ),
    ];

    fn blank(_: &str) -> Result<Self, String> {
        Ok(ApiSection {
            enabled: true,
            address: SocketAddr::from(([127, 0, 0, 1], 7080)),
            token: Hidden::default(),
            proxy_from_environment: false,
            limits: ApiLimits::default(),
        })
    }
}

/// `[store]`: what is durable, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreSection {
    /// When written entries are forced to the disk.
    pub fsync: FsyncSetting,
    /// Milliseconds between two of them, where it goes by time.
    pub fsync_interval_ms: u32,
    /// Bytes of all logs on disk together.
    pub log_bytes_max: u64,
    /// Bytes of one file of a log.
    pub segment_bytes: u64,
    /// Bytes of recent bodies in memory, all logs together.
    pub hot_bytes: u64,
    /// Bytes of blocks of the logs' indexes in memory, all logs together.
    pub cache_bytes: u64,
    /// Bytes written to a log after which its state is brought up to it.
    pub checkpoint_bytes: u64,
    /// Seconds after which the same is done.
    pub checkpoint_s: u32,
    /// Idempotency keys that are remembered.
    pub once_count_max: u32,
    /// Seconds that they are remembered.
    pub once_age_s_max: u32,
    /// Reports that wait for a webhook in a log.
    pub reports_count_max: u32,
    /// Seconds that they wait.
    pub reports_age_s_max: u32,
}

/// When written entries are forced to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FsyncSetting {
    /// Before they are acknowledged.
    Always,
    /// Every so often.
    Interval,
    /// When a segment is full, and at the end.
    Never,
}
words!(FsyncSetting { Always = "always", Interval = "interval", Never = "never" });

impl Section for StoreSection {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            fsync,
            Kind::Word(FsyncSetting::WORDS),
            Restart,
            "When what is stored is forced to the disk. always: before \"stored\" is answered. \
             interval: every fsync_interval_ms; a power cut loses what came since. never: when \
             a segment is full, and at the end."
        ),
        key!(
            fsync_interval_ms,
            Kind::whole(1, 60_000, "milliseconds"),
            Restart,
            "Time between two of them with fsync = \"interval\"."
        ),
        key!(
            log_bytes_max,
            Kind::whole(1 << 22, 1 << 44, "bytes"),
            Restart,
            "Bytes of all logs on disk; each shard has its share. At the limit old segments are \
             compacted; if nothing can be let go, what needs storing is rejected (store_full) \
             until something ends."
        ),
        key!(
            segment_bytes,
            Kind::whole(1 << 20, 1 << 30, "bytes"),
            Restart,
            "One file of a log, at most a quarter of its share. A full one is closed and the next \
             begun."
        ),
        key!(
            hot_bytes,
            Kind::whole(0, 1 << 40, "bytes"),
            Restart,
            "Bodies of recent messages in memory, all logs together. Beyond, the oldest is let go \
             and read from the disk when it is wanted."
        ),
        key!(
            cache_bytes,
            Kind::whole(1 << 20, 1 << 40, "bytes"),
            Restart,
            "Blocks of the logs' indexes in memory, all logs together. Beyond, the longest unused \
             is let go."
        ),
        key!(
            checkpoint_bytes,
            Kind::whole(1 << 20, 1 << 40, "bytes"),
            Restart,
            "What is written to a log before its index is brought up to it. A start reads what \
             came after the last time."
        ),
        key!(
            checkpoint_s,
            Kind::whole(1, 86_400, "seconds"),
            Restart,
            "Time after which the same is done, whatever was written."
        ),
        key!(
            once_count_max,
            Kind::whole(1, 100_000_000, "keys"),
            Restart,
            "Idempotency keys that are remembered. Beyond, the oldest is forgotten: a request \
             repeated with it is a new one."
        ),
        key!(
            once_age_s_max,
            Kind::whole(1, 30 * 86_400, "seconds"),
            Restart,
            "How long they are remembered. Then the same."
        ),
        key!(
            reports_count_max,
            Kind::whole(1, 1_000_000_000, "Reports a shard"),
            Restart,
            "Reports that may wait for a webhook. Beyond, the oldest is dropped and the webhook \
             told how many it lost."
        ),
        key!(
            reports_age_s_max,
            Kind::whole(1, 365 * 86_400, "seconds"),
            Restart,
            "How long a Report may wait for a webhook. Then the same."
        ),
    ];

    fn blank(_: &str) -> Result<Self, String> {
        Ok(StoreSection {
            fsync: FsyncSetting::Always,
            fsync_interval_ms: 1_000,
            log_bytes_max: 16 << 30,
            segment_bytes: 64 << 20,
            hot_bytes: 64 << 20,
            cache_bytes: 64 << 20,
            checkpoint_bytes: 32 << 20,
            checkpoint_s: 30,
            once_count_max: 1 << 18,
            once_age_s_max: 86_400,
            reports_count_max: 1_000_000,
            reports_age_s_max: 7 * 86_400,
        })
    }
}

/// `[[webhook]]`: an address that is told of events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookSection {
    /// Where events are posted.
    pub url: String,
    /// Signs what is posted; empty: nothing is signed.
    pub secret: Hidden,
    /// Keys of the products it hears of; empty: all.
    pub products: Vec<String>,
    /// Names of the events it hears of (`model::event::DeviceWhat::name` and `ClientWhat::name`);
    /// empty: all but messages.
    pub events: Vec<String>,
    /// Filters of the messages it hears of.
    pub topics: Vec<String>,
}

impl Section for WebhookSection {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            url,
            Kind::Text { what: "an http:// or https:// address", fits: is_url },
            Restart,
            "Where events are posted, as JSON, with retries."
        )
        .required()
        .url(),
        key!(
            secret,
            Kind::Text {
                what: "16 to 128 letters, digits and signs without spaces, or empty",
                fits: is_token
            },
            Restart,
            "Signs what is posted (HMAC-SHA256). \"\": nothing is signed. Never printed."
        )
        .secret(),
        key!(
            products,
            Kind::List {
                what: "product keys",
                max: 64,
                fits: |text| model::id::ProductKey::parse(text).is_ok()
            },
            Restart,
            "Products it hears of; [] is all."
        ),
        key!(
            events,
            Kind::List {
                what: "of \"online\", \"offline\", \"report\", \"pushed\", \"client_connected\", \
                       \"client_disconnected\", \"client_refused\", \"session_ended\", \
                       \"client_subscribed\", \"client_unsubscribed\", \"message_published\", \
                       \"messages_dropped\"",
                max: EVENT_TYPES.len(),
                fits: |text| EVENT_TYPES.contains(&text)
            },
            Restart,
            "Events it hears of; [] is all but message_published, which must be named."
        ),
        key!(
            topics,
            Kind::List { what: "topic filters", max: 64, fits: is_filter },
            Restart,
            "Filters of the messages it hears of; needs \"message_published\" in events."
        ),
    ];

    const RELOAD: Reload = Reload::Restart;

    fn blank(_: &str) -> Result<Self, String> {
        Ok(WebhookSection {
            url: String::new(),
            secret: Hidden::default(),
            products: Vec::new(),
            events: Vec::new(),
            topics: Vec::new(),
        })
    }
}

const ADDRESS: Kind = Kind::Text {
    what: "an IP address and a port, such as \"127.0.0.1:7000\"",
    fits: |text| text.parse::<SocketAddr>().is_ok(),
};
const PATH: Kind = Kind::Text { what: "a path", fits: |text| !text.is_empty() && is_path(text) };
pub(super) const PATH_OR_NONE: Kind =
    Kind::Text { what: "a path, or empty for none", fits: is_path };

fn is_filter(text: &str) -> bool {
    let rules = DecodeRules::strict(Sender::Client, Version::V5);
    proto_mqtt::codec::name::check_filter(text, &rules).is_ok()
}

fn is_path(text: &str) -> bool {
    text.len() <= 4_096 && !text.contains('\0')
}

pub(super) fn is_url_path(text: &str) -> bool {
    text.starts_with('/') && text.len() <= 256 && text.bytes().all(|b| b.is_ascii_graphic())
}

pub(super) fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && text.len() <= 2_048
        && text.bytes().all(|b| b.is_ascii_graphic())
}

pub(super) fn is_token(text: &str) -> bool {
    text.is_empty()
        || (16..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

fn is_log_filter(text: &str) -> bool {
    let level = |level: &str| ["off", "error", "warn", "info", "debug", "trace"].contains(&level);
    let part = |part: &str| {
        let name = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b':';
        match part.split_once('=') {
            Some((target, of)) => !target.is_empty() && target.bytes().all(name) && level(of),
            None => level(part),
        }
    };
    text.len() <= 256 && text.split(',').all(part)
}
