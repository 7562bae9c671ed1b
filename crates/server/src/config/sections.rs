//! The sections that are the server's own, each declared once with its keys.
//!
//! A key's meaning, default, range and answer at the limit stand in its declaration and nowhere
//! else: `holdline.toml` is printed from it. Rules that join several keys are in `rules.rs`;
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
        /// Folder of everything durable; made if it is missing. One server a folder: a second one
        /// refuses to start.
        data: PathBuf = "data".into();
        /// Shards, each the owner of its connections and devices. 0 is one for each core.
        shards: u16 = 0, whole(0..=SHARDS_MAX, "shards");
        /// Keep each shard on a core of its own. Turn it off where other busy programs share the
        /// cores.
        pin: bool = true;
        /// Let the kernel give memory in huge pages by its own policy
        /// (/sys/kernel/mm/transparent_hugepage/enabled). Without it pages are small: of a huge one
        /// 2 MiB are resident for a byte in it, and a server with few connections needs a multiple
        /// of its memory.
        huge_pages: bool = false;
        /// What is logged: a level, or levels by part of the program as in info,net=debug.
        @live log: String = "info".into(), text(
            "a level (error, warn, info, debug, trace) or a list such as info,net=debug",
            is_log_filter,
        );
        /// Lines for people, or one JSON object a line.
        log_format: LogFormat = LogFormat::Text;
        /// Descriptors kept for files, the API and refusals, beyond those for connections. If the
        /// system grants fewer than all of them together, the start is refused with the remedy.
        descriptors_spare: u32 = 64, whole(8..=65_536, "descriptors");
    }
}

words! {
    /// Form of the log.
    pub enum LogFormat {
        /// Lines for people.
        Text = "text",
        /// An object a line.
        Json = "json",
    }
}

section! {
    /// `[tls]`: who the server is, and whom it trusts.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct TlsSection {
        /// PEM file of the certificate and its chain; "" is none, and then no TLS. A reload reads
        /// the same files again; other paths need a restart.
        certificate: Option<PathBuf> = None;
        /// PEM file of its private key.
        key: Option<PathBuf> = None;
        /// PEM files of certificates for other names, each with its chain and its private key. A
        /// client that asks for one of their names (SNI), or for one that a wildcard covers, is
        /// shown that one; anybody else is shown the one above. Not at listeners with a
        /// certificate of their own. A reload reads the same files again.
        others: Vec<String> = Vec::new(), list(CERTIFICATES_MAX, "paths", |path| !path.is_empty());
        /// PEM file of the authorities whose client certificates are believed.
        client_ca: Option<PathBuf> = None;
    }
}

/// Certificates beside the usual one, at most.
const CERTIFICATES_MAX: usize = 1_024;

fn is_web(url: &str) -> bool {
    let place = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let is_plain = |place: &str| {
        !place.is_empty() && !place.starts_with('/') && !place.contains(['@', '?', '#'])
    };
    url.is_empty() || place.is_some_and(is_plain)
}

/// Users of a role, at most.
const ROLES_MAX: usize = 256;

fn is_user_name(name: &str) -> bool {
    (1..=UserOrder::NAME_BYTES_MAX).contains(&name.len()) && name != "*"
}

section! {
    /// `[api]`: the HTTP API.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ApiSection {
        /// Whether the HTTP API is served.
        enabled: bool = true;
        /// Where. It speaks plain HTTP: from other machines reach it through a proxy with TLS.
        address: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7080)), ADDRESS;
        /// The first token, which may do everything. "": made at the first start and kept in the
        /// data folder, in api.token. Never printed or logged. Tokens that may do less are made by
        /// `holdline token make`.
        token: Hidden = Hidden::default(), TOKEN, secret;
        /// Whether the console, a page for operators in a browser, is given at / of the API's
        /// address. Who logs in there shows a token.
        console: bool = true;
        /// Users, of the book or of the password file, who may log in to the console by name and
        /// password, look at everything there and change nothing.
        @live viewers: Vec<String> = Vec::new(), list(ROLES_MAX, "names of users", is_user_name);
        /// Those who may end, push, publish and trace there, too.
        @live operators: Vec<String> = Vec::new(), list(ROLES_MAX, "names of users", is_user_name);
        /// Those who may do everything there. Who stands in several lists may most.
        @live admins: Vec<String> = Vec::new(), list(ROLES_MAX, "names of users", is_user_name);
        /// Whether webhooks and the metrics of otlp_url are posted through the proxy that
        /// HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names. It sees what is posted to http:// addresses.
        proxy_from_environment: bool = false;
        /// Collector that metrics are pushed to by OTLP over HTTP, as JSON: its whole address,
        /// mostly with /v1/metrics at the end. "": none.
        otlp_url: String = String::new(), text(
            "\"\", or an http:// or https:// address without user and query",
            is_web,
        );
        /// Time between two exports. One that the collector does not take is not sent again: the
        /// next one says all that it would have.
        otlp_interval_s: u32 = 15, whole(1..=3_600, "seconds");
        /// Time that an export may take. The next one waits for it.
        otlp_ms_max: u32 = 5_000, whole(100..=60_000, "milliseconds");
        /// How much of everything.
        @part limits: ApiLimits;
    }
}

section! {
    /// `[store]`: what is durable, and when.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct StoreSection {
        /// When what is stored is forced to the disk. always: before "stored" is answered.
        /// interval: every fsync_interval_ms; a power cut loses what came since. never: when a
        /// segment is full, and at the end.
        fsync: FsyncSetting = FsyncSetting::Always;
        /// Time between two of them with fsync = "interval".
        fsync_interval_ms: u32 = 1_000, whole(1..=60_000, "milliseconds");
        /// Bytes of all logs on disk; each shard has its share. A sixteenth of a share (256 MiB at
        /// most) is kept for what finishes or ends something. When the rest is used, old segments
        /// are compacted; if nothing can be let go, what needs storing is rejected (store_full)
        /// until something ends; logins, reads, removals and recalls go on.
        log_bytes_max: u64 = 16 << 30, whole(1 << 22..=1 << 44, "bytes");
        /// Bytes of what was stored before the last checkpoints whose checksums a start looks at,
        /// the newest first, all logs together. Messages that are damaged there are named, and the
        /// server does not start (serve_damaged). What is older is looked at when it is read. 0:
        /// nothing.
        check_bytes: u64 = 256 << 20, whole(0..=1 << 44, "bytes");
        /// The server starts although a start has found messages that are damaged; it names them
        /// in its log, and goes on without them.
        serve_damaged: bool = false;
        /// Percent of a log's share that may be taken by what is not over. Beyond, the oldest
        /// messages of chat go, and what inboxes have of them, until five percent less are: before
        /// a log is full. 0: none go unless [chat] says so.
        gives_way_percent: u32 = 75, whole(0..=95, "percent");
        /// One file of a log, at most a quarter of its share. A full one is closed and the next
        /// begun.
        segment_bytes: u64 = 64 << 20, whole(1 << 20..=1 << 30, "bytes");
        /// Bodies of recent messages in memory, all logs together. Beyond, the oldest is let go and
        /// read from the disk when it is wanted.
        hot_bytes: u64 = 64 << 20, whole(0..=1 << 40, "bytes");
        /// Blocks of the logs' indexes in memory, all logs together. Beyond, the longest unused is
        /// let go. As much again may wait to be written to the indexes' tables.
        cache_bytes: u64 = 64 << 20, whole(1 << 20..=1 << 40, "bytes");
        /// What is written to a log before its index is brought up to it. A start reads what came
        /// after the last time.
        checkpoint_bytes: u64 = 32 << 20, whole(1 << 20..=1 << 40, "bytes");
        /// Changes of the indexes in memory, all logs together. Beyond, an index is brought up to
        /// its log, however little was written.
        index_changes_bytes: u64 = 256 << 20, whole(1 << 20..=1 << 40, "bytes");
        /// Time after which the same is done, whatever was written.
        checkpoint_s: u32 = 30, whole(1..=86_400, "seconds");
        /// Idempotency keys that are remembered, those of chat's messages among them: on the disk,
        /// about 70 bytes each. Beyond, the oldest are forgotten: a request repeated with one of
        /// them is a new one. So many messages of chat do not fit into the default log_bytes_max.
        once_count_max: u32 = 1 << 26, whole(1..=1_000_000_000, "keys");
        /// Memory for the newest of them, all logs together. The others are looked up on the disk.
        once_bytes: u64 = 64 << 20, whole(0..=1 << 40, "bytes");
        /// How long they are remembered. Then the same.
        once_age_s_max: u32 = 86_400, whole(1..=30 * 86_400, "seconds");
        /// Reports that may wait for a webhook. Beyond, the oldest is dropped and the webhook told
        /// how many it lost.
        reports_count_max: u32 = 1_000_000, whole(1..=1_000_000_000, "Reports a shard");
        /// How long a Report may wait for a webhook. Then the same.
        reports_age_s_max: u32 = 7 * 86_400, whole(1..=365 * 86_400, "seconds");
        /// Messages that may wait for the archive of [chat]. Beyond, the oldest is dropped for it
        /// (not for those who talk), counted and told.
        archive_count_max: u32 = 50_000_000, whole(1..=1_000_000_000, "messages a shard");
        /// How long a message may wait for it. Then the same.
        archive_age_s_max: u32 = 30 * 86_400, whole(1..=365 * 86_400, "seconds");
    }
}

words! {
    /// When written entries are forced to the disk.
    pub enum FsyncSetting {
        /// Before they are acknowledged.
        Always = "always",
        /// Every so often.
        Interval = "interval",
        /// When a segment is full, and at the end.
        Never = "never",
    }
}

section! {
    /// `[[webhook]]`: an address that is told of events.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct WebhookSection {
        /// Where events are posted, as JSON, with retries.
        url: String, text("an http:// or https:// address", is_url), url;
        /// Signs what is posted (HMAC-SHA256). "": nothing is signed. Never printed.
        secret: Hidden = Hidden::default(), TOKEN, secret;
        /// Products it hears of; [] is all.
        products: Vec<String> = Vec::new(),
            list(64, "product keys", |text| ProductKey::parse(text).is_ok());
        /// Events it hears of; [] is all but message_published and those of chat, which must be
        /// named.
        events: Vec<String> = Vec::new(), choice(&EVENT_TYPES);
        /// Filters of the messages it hears of; needs "message_published" in events.
        topics: Vec<String> = Vec::new(), list(64, "topic filters", is_filter);
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
