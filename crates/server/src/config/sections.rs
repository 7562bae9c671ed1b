//! The server's own sections, each declared once with its keys.
//!
//! A key's meaning, default, range and behaviour at the limit stand in its declaration and nowhere
//! else: `docs/holdline.toml` is printed from it. Rules that relate several keys are in `rules.rs`;
//! sections that are nouns of `model` are declared there, in `limits` and `product.rs`.

use std::net::SocketAddr;
use std::path::PathBuf;

use admin::EVENT_TYPES;
use base::setting::{Hidden, Kind, choice, list, text, whole};
use base::{section, words};
use model::id::ProductKey;
use model::limits::ApiLimits;
use model::ports::users::UserOrder;
use proto_mqtt::codec::{DecodeRules, Sender, Version};

/// Most shards: each has a log, and the names of logs have two digits.
pub(crate) const SHARDS_MAX: u64 = 99;

section! {
    /// `[server]`: the process.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ServerSection {
        /// Folder of all durable data; created if it is missing. Each server needs its own: a
        /// second server on the same folder refuses to start.
        data: PathBuf = "data".into();
        /// Number of shards. Each shard owns its connections and devices. 0: one for each core.
        shards: u16 = 0, whole(0..=SHARDS_MAX, "shards");
        /// Pin each shard to a core of its own. Turn this off if other busy programs share the
        /// cores.
        pin: bool = true;
        /// Let the kernel back memory with huge pages, by its own policy
        /// (/sys/kernel/mm/transparent_hugepage/enabled). Off, pages are small. One used byte keeps
        /// a whole huge page of 2 MiB resident, so with huge pages a server with few connections
        /// needs several times the memory.
        huge_pages: bool = false;
        /// Log level, or levels by part of the program, as in info,net=debug.
        @live log: String = "info".into(), text(
            "a level (error, warn, info, debug, trace) or a list such as info,net=debug",
            is_log_filter,
        );
        /// Format of the log: readable lines, or one JSON object a line.
        log_format: LogFormat = LogFormat::Text;
        /// File descriptors reserved for files, the API and refusals, in addition to those for
        /// connections. If the system grants fewer than the sum, the start fails with a message
        /// that says what to change.
        descriptors_spare: u32 = 64, whole(8..=65_536, "descriptors");
    }
}

words! {
    /// Format of the log.
    pub enum LogFormat {
        /// Readable lines.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

section! {
    /// `[tls]`: the server's certificates, and the authorities it trusts.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct TlsSection {
        /// PEM file of the certificate and its chain; "" disables TLS. A reload reads the files
        /// again. Streams to other servers use new paths after a restart.
        @live certificate: Option<PathBuf> = None;
        /// PEM file of its private key.
        @live key: Option<PathBuf> = None;
        /// PEM files of certificates for other names, each with its chain and private key. A client
        /// that asks (SNI) for one of their names, or for a name that a wildcard covers, gets that
        /// certificate; all others get the one above. Listeners with a certificate of their own
        /// ignore this list. A reload reads the files again.
        @live others: Vec<String> = Vec::new(),
            list(CERTIFICATES_MAX, "paths", |path| !path.is_empty());
        /// PEM file of the authorities that client certificates are verified against.
        @live client_ca: Option<PathBuf> = None;
    }
}

/// Maximum number of additional certificates.
const CERTIFICATES_MAX: usize = 1_024;

fn is_web(url: &str) -> bool {
    let place = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let is_plain = |place: &str| {
        !place.is_empty() && !place.starts_with('/') && !place.contains(['@', '?', '#'])
    };
    url.is_empty() || place.is_some_and(is_plain)
}

/// Maximum number of users in a role.
const ROLES_MAX: usize = 256;

fn is_user_name(name: &str) -> bool {
    (1..=UserOrder::NAME_BYTES_MAX).contains(&name.len()) && name != "*"
}

section! {
    /// `[api]`: the HTTP API.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ApiSection {
        /// Enable the HTTP API.
        enabled: bool = true;
        /// Address that the API listens on. It speaks plain HTTP: to reach it from other machines,
        /// put a TLS proxy in front.
        address: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7080)), ADDRESS;
        /// The first token, with all permissions. "": generated at the first start and stored in
        /// api.token in the data folder; `holdline token reset` replaces it there. Never printed or
        /// logged. `holdline token make` makes tokens with fewer permissions.
        @live token: Hidden = Hidden::default(), TOKEN, secret;
        /// Serve the console, a web page for operators, at / of the API's address. Operators log in
        /// to it with a token.
        console: bool = true;
        /// Users, from the user database or the password file, who may log in to the console with
        /// name and password and see everything, but change nothing.
        @live viewers: Vec<String> = Vec::new(), list(ROLES_MAX, "names of users", is_user_name);
        /// Users who may also disconnect clients, push, publish and trace there.
        @live operators: Vec<String> = Vec::new(), list(ROLES_MAX, "names of users", is_user_name);
        /// Users who may do everything there. A user in several lists has the widest role.
        @live admins: Vec<String> = Vec::new(), list(ROLES_MAX, "names of users", is_user_name);
        /// Post webhooks, and the metrics for otlp_url, through the proxy that HTTP_PROXY,
        /// HTTPS_PROXY or ALL_PROXY names. The proxy can read what is posted to http:// addresses.
        proxy_from_environment: bool = false;
        /// OTLP collector that metrics are pushed to over HTTP, as JSON: its full address, usually
        /// ending in /v1/metrics. "": none.
        otlp_url: String = String::new(), text(
            "\"\", or an http:// or https:// address without user and query",
            is_web,
        );
        /// Time between two exports. A failed export is not repeated: the next one contains the
        /// same totals.
        otlp_interval_s: u32 = 15, whole(1..=3_600, "seconds");
        /// Timeout of an export. The next export waits for it.
        otlp_ms_max: u32 = 5_000, whole(100..=60_000, "milliseconds");
        /// Limits of the API.
        @part limits: ApiLimits;
    }
}

section! {
    /// `[store]`: durable storage, and when data reaches the disk.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct StoreSection {
        /// When stored data is forced to the disk. always: before "stored" is answered. interval:
        /// every fsync_interval_ms; a power failure loses what was written since. never: when a
        /// segment is full, and at shutdown.
        fsync: FsyncSetting = FsyncSetting::Always;
        /// Time between two syncs with fsync = "interval".
        fsync_interval_ms: u32 = 1_000, whole(1..=60_000, "milliseconds");
        /// Bytes of all logs on disk; each shard has an equal share. A sixteenth of a share (256
        /// MiB at most) is reserved for writes that finish or end something. When the rest is used,
        /// old segments are compacted; if nothing can be freed, new data is rejected (store_full)
        /// until something ends. Logins, reads, removals and recalls continue.
        log_bytes_max: u64 = 16 << 30, whole(1 << 22..=1 << 44, "bytes");
        /// Bytes of data, stored before the last checkpoints, whose checksums a start verifies: the
        /// newest first, all logs together. Damaged messages found there are listed, and the server
        /// does not start (see serve_damaged). Older data is verified when it is read. 0: verify
        /// nothing.
        check_bytes: u64 = 256 << 20, whole(0..=1 << 44, "bytes");
        /// Start although damaged messages were found. The server lists them in its log and
        /// continues without them.
        serve_damaged: bool = false;
        /// Percent of a log's share that live data may occupy. Above it, the oldest chat messages
        /// are deleted, with their entries in inboxes, until five percent less is occupied, before
        /// the log is full. 0: delete none, unless [chat] says so.
        gives_way_percent: u32 = 75, whole(0..=95, "percent");
        /// Size of one file of a log, at most a quarter of its share. A full file is closed and the
        /// next one begun.
        segment_bytes: u64 = 64 << 20, whole(1 << 20..=1 << 30, "bytes");
        /// Memory for bodies of recent messages, all logs together. Beyond it, the oldest bodies
        /// are dropped from memory and read from disk when needed.
        hot_bytes: u64 = 64 << 20, whole(0..=1 << 40, "bytes");
        /// Memory for blocks of the logs' indexes, all logs together. Beyond it, the least recently
        /// used blocks are dropped. As much again may be waiting to be written to the index tables.
        cache_bytes: u64 = 64 << 20, whole(1 << 20..=1 << 40, "bytes");
        /// Bytes written to a log before its index is checkpointed. A start replays what was
        /// written after the last checkpoint.
        checkpoint_bytes: u64 = 32 << 20, whole(1 << 20..=1 << 40, "bytes");
        /// Memory for index changes, all logs together. Beyond it, an index is checkpointed,
        /// however little was written.
        index_changes_bytes: u64 = 256 << 20, whole(1 << 20..=1 << 40, "bytes");
        /// Time after which an index is checkpointed, however little was written.
        checkpoint_s: u32 = 30, whole(1..=86_400, "seconds");
        /// Idempotency keys that are remembered, including those of chat messages: about 70 bytes
        /// each on disk. Beyond, the oldest are forgotten: a request repeated with a forgotten key
        /// counts as new. The default log_bytes_max has no room for this many chat messages.
        once_count_max: u32 = 1 << 26, whole(1..=1_000_000_000, "keys");
        /// Memory for the newest keys, all logs together. The others are looked up on disk.
        once_bytes: u64 = 64 << 20, whole(0..=1 << 40, "bytes");
        /// How long keys are remembered. Older ones are forgotten.
        once_age_s_max: u32 = 86_400, whole(1..=30 * 86_400, "seconds");
        /// Reports queued for webhooks. Beyond, the oldest is dropped, and the webhook receives the
        /// number of lost Reports.
        reports_count_max: u32 = 1_000_000, whole(1..=1_000_000_000, "Reports a shard");
        /// How long a Report is queued for a webhook. Older ones are dropped in the same way.
        reports_age_s_max: u32 = 7 * 86_400, whole(1..=365 * 86_400, "seconds");
        /// Messages queued for the archive of [chat]. Beyond, the oldest is dropped for the archive
        /// (its receivers still get it), counted and logged.
        archive_count_max: u32 = 50_000_000, whole(1..=1_000_000_000, "messages a shard");
        /// How long a message is queued for the archive. Older ones are dropped in the same way.
        archive_age_s_max: u32 = 30 * 86_400, whole(1..=365 * 86_400, "seconds");
    }
}

section! {
    /// `[backup]`: scheduled copies of the data folder.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct BackupSection {
        /// Folder for the copies, outside the data folder; "" is none. Each copy is a folder of its
        /// own there, named by its time in UTC. The server's user must be able to write to it. The
        /// Debian package creates /var/backups/holdline for this. A copy on the same disk does not
        /// survive the loss of that disk: move copies to another machine.
        @live folder: Option<PathBuf> = None;
        /// Hours between two copies. The time of the newest copy counts, also across restarts. A
        /// copy that fails is logged (`backup_failed`) and retried after an hour.
        @live every_h: u32 = 24, whole(1..=8_760, "hours");
        /// Number of copies kept: after each new one the oldest beyond this number are removed.
        @live keep: u32 = 7, whole(1..=1_000, "copies");
    }
}

words! {
    /// When written entries are forced to the disk.
    pub enum FsyncSetting {
        /// Before the entries are acknowledged.
        Always = "always",
        /// At regular intervals.
        Interval = "interval",
        /// When a segment is full, and at shutdown.
        Never = "never",
    }
}

section! {
    /// `[[webhook]]`: an address that receives events.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct WebhookSection {
        /// URL that events are posted to, as JSON, with retries.
        @live url: String, text("an http:// or https:// address", is_url), url;
        /// Key that signs the posted events (HMAC-SHA256). "": unsigned. Never printed.
        @live secret: Hidden = Hidden::default(), TOKEN, secret;
        /// Products whose events are posted; [] is all.
        @live products: Vec<String> = Vec::new(),
            list(64, "product keys", |text| ProductKey::parse(text).is_ok());
        /// Types of events that are posted; [] is all except disconnection, message_published, the
        /// chat events and alarms, which must be named.
        @live events: Vec<String> = Vec::new(), choice(&EVENT_TYPES);
        /// Topic filters of the messages that are posted; needs "message_published" in events.
        @live topics: Vec<String> = Vec::new(), list(64, "topic filters", is_filter);
    }
}

const ADDRESS: Kind = text("an IP address and a port, such as \"127.0.0.1:7000\"", |text| {
    text.parse::<SocketAddr>().is_ok()
});
pub(super) const TOKEN: Kind =
    text("16 to 128 letters, digits and signs without spaces, or empty", is_token);

fn is_filter(text: &str) -> bool {
    let rules = DecodeRules::strict(Sender::Client, Version::V5);
    proto_mqtt::codec::name::check_filter(text, &rules).is_ok()
}

pub(super) fn is_short_secret(text: &str) -> bool {
    text.len() <= 1_024
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

fn is_token(text: &str) -> bool {
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
