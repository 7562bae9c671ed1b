//! Each crate's own start: configuration's words become the crate's.

use super::bosh::Bosh;
use super::live::Live;
use super::notices::Notices;
use super::periodic::certificates;
use super::storage::Storage;
use super::storage::archives;
use super::storage::backlog;
use super::storage::backups::Backups;
use super::{ServerOutside, StartError};
use crate::access::{DatabaseCounts, Entrance, LdapCounts};
use crate::archive::Archive;
use crate::clock;
use crate::config::{self, Config};
use crate::switchboard::Switchboard;
use crate::trace::{TraceDesk, TraceTally};
use admin::Feed;
use base::hash::HashKey;
use ldap::LdapFaultKind;
use media::{MediaDoor, TransferOutcome};
use model::ports::presence::queries::PresenceQueries;
use model::timeline::TimelineId;
use model::{event, tell};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::data::LogSizes;

/// Milliseconds between comments on a quiet event stream.
const STREAM_HEARTBEAT_MS: u64 = 15_000;

/// Parts that the API is joined to.
pub(super) struct Parts {
    pub(super) switchboard: Switchboard<ServerOutside>,
    pub(super) feed: Arc<Feed>,
    pub(super) storage: Arc<Storage>,
    pub(super) entrance: Arc<Entrance>,
    pub(super) queries: Arc<dyn PresenceQueries>,
    /// Figures of the stream of events, where there is one.
    pub(super) stream: Option<admin::Readings>,
    /// Notifies devices that are not connected.
    pub(super) notices: Notices,
    /// For who looks at the configuration, reloads it, or drains the server.
    pub(super) live: Arc<Live>,
    /// The archive of messages, where there is one.
    pub(super) archive: Option<Arc<Archive>>,
    /// The folder of files, where there is one.
    pub(super) media: Option<MediaDoor>,
    /// XMPP in requests of HTTP, where it is.
    pub(super) bosh: Arc<Bosh>,
    /// Scheduled backups.
    pub(super) backups: Arc<Backups>,
    /// The cluster, and its figures.
    pub(super) cluster: (admin::ClusterReading, admin::Readings),
}

/// Starts the HTTP API at its listener, with its first token.
pub(super) fn start_api(
    config: &Config,
    (token, listener): (String, TcpListener),
    webhooks: Vec<admin::Webhook>,
    parts: Parts,
) -> Result<admin::RunningApi, StartError> {
    let Parts { switchboard, feed, storage, entrance, queries, .. } = parts;
    let Parts { stream, notices, live, media, bosh, archive, backups, cluster, .. } = parts;
    let (cluster, of_cluster) = cluster;
    let (listeners, orders) = (live.listeners.clone(), live_orders(&live));
    let (statuses, platforms) = (orders.bridges.clone(), notices.platforms.clone());
    let (accounts, asked) = (entrance.clone(), switchboard.clone());
    let (read, looked, copied) = (storage.clone(), storage.clone(), storage.clone());
    let desk = trace_desk(&live, asked.clone());
    let tally = desk.tally().clone();
    let settings = admin::Settings {
        token,
        tokens: entrance.token_rows(),
        audit_log: Some(config.server.data.join("audit-log")),
        alarms: Some(config.server.data.join("alarms")),
        api: config.api.limits.clone(),
        proxy_from_environment: config.api.proxy_from_environment,
        limits: config.limits.clone(),
        version: env!("CARGO_PKG_VERSION"),
        webhooks,
        backlog: Some(storage.backlog.clone()),
        console: config.api.console,
        chat_domain: config.chat.domain.clone(),
        roles: roles(config),
        people: entrance.console_people(),
        users: entrance.users(),
        bans: entrance.bans(),
        presence: queries,
        dead_letters: Some(dead_letters(config)),
        retry: retry(config),
        wall_ms: Arc::new(clock::wall_ms),
        random: Arc::new(random),
        readings: Arc::new(move || {
            let of_stream = stream.as_ref().map_or(Vec::new(), |readings| readings());
            let of_bridges = bridge_readings(&statuses());
            let of_traces = trace_readings(&tally);
            let of_logs = readings(&read.sizes()).into_iter();
            let of_push = notices.gateway.readings();
            let of_media = media.as_ref().map_or(Vec::new(), media_readings);
            let of_accounts = account_readings(accounts.database_counts());
            let of_ldap = ldap_readings(accounts.ldap_counts());
            let of_archive = archive.iter().flat_map(|it| archives::readings(it.counts()));
            let of_bosh = bosh.readings();
            let of_push = of_push.into_iter().chain(of_accounts).chain(of_archive).chain(of_bosh);
            let of_push = of_push.chain(of_ldap).chain(backups.readings()).chain(of_cluster());
            let others = of_bridges.into_iter().chain(of_traces).chain(of_push).chain(of_media);
            of_logs.chain(of_stream).chain(others).collect()
        }),
        readiness: readiness(asked, looked, cluster.clone()),
        cluster,
        bridges: orders.bridges,
        platforms,
        certificates: Arc::new(move || certificates::statuses(&listeners.tls())),
        log: Arc::new(crate::log::recent::lines),
        log_events: Arc::new(crate::log::recent::told),
        configuration: orders.configuration,
        reload: orders.reload,
        preview: orders.preview,
        drain: orders.drain,
        backup: Arc::new(move |to| copied.backup(to)),
        traces: Arc::new(desk),
        otlp: otlp(config),
        heartbeat_ms: STREAM_HEARTBEAT_MS,
    };
    admin::start(settings, vec![listener], Arc::new(switchboard), feed)
        .map_err(|error| StartError(format!("api: {error}")))
}

/// Whether the server takes everything, when it is asked.
fn readiness(
    shards: Switchboard<ServerOutside>,
    storage: Arc<Storage>,
    cluster: admin::ClusterReading,
) -> admin::Readies {
    Arc::new(move || {
        let cluster = cluster();
        admin::Readiness {
            draining: shards.is_draining(),
            isolated: cluster.as_ref().is_some_and(|cluster| cluster.isolated),
            stream_full: cluster.is_some_and(|cluster| cluster.full),
            logs: storage.sizes().iter().map(health).collect(),
        }
    })
}

/// Begins traces, within the limits that are in force then.
fn trace_desk(live: &Live, switchboard: Switchboard<ServerOutside>) -> TraceDesk<ServerOutside> {
    let shown = live.shown.clone();
    TraceDesk::new(switchboard, Box::new(move || shown.in_force().api.limits))
}

/// Orders of the API to a server that changes while it runs.
struct LiveOrders {
    bridges: admin::BridgeStatuses,
    configuration: admin::Configurations,
    reload: admin::ReloadOrder,
    preview: admin::ReloadPreviews,
    drain: admin::DrainSwitch,
}

fn live_orders(live: &Arc<Live>) -> LiveOrders {
    let [statuses, shown, reloaded, previewed, drained] = [(); 5].map(|()| live.clone());
    LiveOrders {
        bridges: Arc::new(move || statuses.bridge_status()),
        configuration: Arc::new(move || shown.shown.show()),
        reload: Arc::new(move || reloaded.reload_file()),
        preview: Arc::new(move || previewed.preview_file()),
        drain: Arc::new(move |draining| drained.drain(draining)),
    }
}

fn retry(config: &Config) -> admin::WebhookRetry {
    admin::WebhookRetry {
        report_age_ms_max: u64::from(config.store.reports_age_s_max) * 1_000,
        ..admin::WebhookRetry::default()
    }
}

fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system gave random bytes at the start");
}

/// Where what webhooks give up is kept.
fn dead_letters(config: &Config) -> admin::DeadLetterSettings {
    admin::DeadLetterSettings::in_folder(config.server.data.join("dead-letters"))
}

/// Roles of users at the console.
pub(super) fn roles(config: &Config) -> admin::Roles {
    admin::Roles::of(&config.api.viewers, &config.api.operators, &config.api.admins)
}

/// The collector that metrics are pushed to, if there is one.
fn otlp(config: &Config) -> Option<admin::OtlpSettings> {
    let api = Some(&config.api).filter(|api| !api.otlp_url.is_empty())?;
    Some(admin::OtlpSettings {
        url: api.otlp_url.clone(),
        interval_ms: api.otlp_interval_s * 1_000,
        timeout_ms: api.otlp_ms_max,
    })
}

/// The webhooks of the configuration, as the API numbers them.
pub(super) fn webhooks(config: &Config) -> Vec<admin::Webhook> {
    config.webhooks.iter().flat_map(split).collect()
}

/// Where the Reports for each webhook wait; absent for one that wants none.
pub(super) fn report_timelines(
    home: HashKey,
    webhooks: &[admin::Webhook],
) -> Vec<Option<TimelineId>> {
    let wants = |hook: &admin::Webhook| {
        hook.types.is_empty() || hook.types.iter().any(|name| name == "report")
    };
    let timeline = |hook: &admin::Webhook| {
        wants(hook).then(|| backlog::timeline(home, &hook.url, hook.product.as_ref()))
    };
    webhooks.iter().map(timeline).collect()
}

/// One webhook of the configuration may name several products; the API's has one or all.
fn split(hook: &config::WebhookSection) -> Vec<admin::Webhook> {
    let with = |product| admin::Webhook {
        url: hook.url.clone(),
        secret: hook.secret.reveal().as_bytes().to_vec(),
        product,
        types: hook.events.clone(),
        topics: hook.topics.clone(),
    };
    if hook.products.is_empty() {
        return vec![with(None)];
    }
    let products = hook.products.iter().filter_map(|key| model::id::ProductKey::parse(key).ok());
    products.map(|key| with(Some(key))).collect()
}

fn health(log: &LogSizes) -> admin::LogHealth {
    match (log.engine.failed, log.engine.full) {
        (true, _) => admin::LogHealth::Failed,
        (false, true) => admin::LogHealth::Full,
        (false, false) => admin::LogHealth::Good,
    }
}

fn readings(logs: &[LogSizes]) -> Vec<admin::MetricReading> {
    let sum = |of: fn(&LogSizes) -> u64| logs.iter().map(of).sum::<u64>();
    let reading = |name, help, value| admin::MetricReading { name, help, value };
    let changed = logs.iter().filter_map(|log| log.engine.changed_s).min();
    let behind_s = changed.map_or(0, |since| clock::unix_s().saturating_sub(since)).into();
    let store = |name, help, of: fn(&LogSizes) -> u64| reading(name, help, sum(of));
    vec![
        store("store_log_bytes", "Bytes of the logs.", |log| log.engine.log_bytes),
        store("store_live_bytes", "Bytes of live data in the logs.", |log| log.engine.live_bytes),
        reading(
            "store_used_percent",
            "Use of the fullest log, in percent of its limit.",
            logs.iter().map(|log| log.engine.used_percent).max().unwrap_or_default(),
        ),
        store("store_segments", "Segments of the logs.", |log| log.engine.segments),
        store("store_calls_waiting", "Calls queued for the logs.", |log| log.calls_waiting),
        store("store_hot_bytes", "Message bodies cached in memory.", |log| log.engine.hot_bytes),
        store("store_cache_bytes", "Index blocks cached in memory.", |log| log.state.cached),
        store("store_unwritten_bytes", "Rows not yet written to the index tables.", |log| {
            log.state.unwritten
        }),
        store("store_heads", "Timelines in memory.", |log| log.engine.heads_resident),
        store("store_changed", "Timelines that changed since the last checkpoint.", |log| {
            log.engine.timelines_changed
        }),
        store("store_behind_bytes", "Bytes written since the last checkpoint.", |log| {
            log.engine.bytes_since_checkpoint
        }),
        reading("store_behind_seconds", "Age of the oldest change since its checkpoint.", behind_s),
        store("store_hot_hits", "Reads of message bodies answered from memory.", |log| {
            log.engine.hot_hits
        }),
        store("store_full", "Logs that are full.", |log| u64::from(log.engine.full)),
        store("store_failed", "Failed logs, which refuse writes until a restart.", |log| {
            u64::from(log.engine.failed)
        }),
        store("store_dropped_total", "Messages deleted by retention.", |log| log.engine.dropped),
        store(
            "store_gave_way_total",
            "Messages deleted because a log was near its limit.",
            |log| log.engine.gave_way,
        ),
        store("store_once_keys", "Idempotency keys remembered.", |log| log.engine.once),
        reading("log_lines_lost_total", "Log lines lost: output failed.", crate::log::lost()),
        reading(
            "impossible_total",
            "Violated internal assumptions (defects).",
            base::never::seen(),
        ),
    ]
}

/// Results of requests for files, and bytes of all files.
fn media_readings(door: &MediaDoor) -> Vec<admin::MetricReading> {
    let reading = |name, help, value| admin::MetricReading { name, help, value };
    let bytes = reading("media_folder_bytes", "Bytes of files in the media folder.", door.bytes());
    let of = |&it: &TransferOutcome| reading(it.name(), it.help(), door.tally().of(it));
    [bytes].into_iter().chain(TransferOutcome::ALL.iter().map(of)).collect()
}

/// How the database of accounts stands, where one keeps them.
fn account_readings(counts: Option<DatabaseCounts>) -> Vec<admin::MetricReading> {
    let Some(counts) = counts else { return Vec::new() };
    let reading = |name, help, value| admin::MetricReading { name, help, value };
    vec![
        reading("accounts_database_up", "1 if the accounts database is available.", counts.up),
        reading("accounts_database_whole", "1 if the whole database has been read.", counts.whole),
        reading("accounts_database_loaded", "Accounts read by the last full load.", counts.loaded),
        reading("accounts_database_changes_total", "Changes seen in the database.", counts.news),
        reading("accounts_database_faults_total", "Failed calls to the database.", counts.faults),
        reading("accounts_database_rows_wrong_total", "Invalid rows.", counts.wrong),
        reading(
            "accounts_database_refused_total",
            "Account changes refused: database unavailable.",
            counts.refused,
        ),
    ]
}

/// How the LDAP server stands, where there is one.
fn ldap_readings(counts: Option<LdapCounts>) -> Vec<admin::MetricReading> {
    let Some(counts) = counts else { return Vec::new() };
    let reading = |name, help, value| admin::MetricReading { name, help, value };
    let of_fault = |(kind, count)| {
        let (name, help) = match kind {
            LdapFaultKind::Unreachable => {
                ("access_ldap_unreachable_total", "LDAP: no connection, or it ended.")
            }
            LdapFaultKind::Timeout => ("access_ldap_timeout_total", "LDAP: no answer in time."),
            LdapFaultKind::Tls => {
                ("access_ldap_tls_total", "LDAP: TLS failed, such as by an unknown certificate.")
            }
            LdapFaultKind::Credentials => {
                ("access_ldap_credentials_total", "LDAP: bind_dn or its password refused.")
            }
            LdapFaultKind::Nonsense => {
                ("access_ldap_nonsense_total", "LDAP: answers not understood.")
            }
            LdapFaultKind::Refused => ("access_ldap_refused_total", "LDAP: requests refused."),
            LdapFaultKind::Ambiguous => {
                ("access_ldap_ambiguous_total", "LDAP: the filter matched several entries.")
            }
            LdapFaultKind::Unnamed => {
                ("access_ldap_unnamed_total", "LDAP: entries without a usable name.")
            }
        };
        reading(name, help, count)
    };
    let faults = counts.faults.map(of_fault);
    let up = "1 if the LDAP server answered the last time.";
    let asked = "Logins that the LDAP server was asked about.";
    [
        reading("access_ldap_up", up, counts.up),
        reading("access_ldap_asked_total", asked, counts.asked),
    ]
    .into_iter()
    .chain(faults)
    .collect()
}

fn trace_readings(tally: &TraceTally) -> Vec<admin::MetricReading> {
    let reading = |name, help, value| admin::MetricReading { name, help, value };
    let (events, left_out) = (&tally.events, &tally.left_out);
    vec![
        reading("traces", "Running traces.", tally.running.load(Ordering::Relaxed).into()),
        reading("trace_events_total", "Events sent to traces.", events.load(Ordering::Relaxed)),
        reading(
            "trace_events_left_out_total",
            "Events left out of traces (reported in the trace).",
            left_out.load(Ordering::Relaxed),
        ),
    ]
}

fn bridge_readings(bridges: &[admin::BridgeStatus]) -> Vec<admin::MetricReading> {
    let sum = |of: fn(&admin::BridgeStatus) -> u64| bridges.iter().map(of).sum();
    let reading = |name, help, of| admin::MetricReading { name, help, value: sum(of) };
    if bridges.is_empty() {
        return Vec::new();
    }
    vec![
        reading("bridges", "Enabled bridges.", |_| 1),
        reading("bridges_online", "Bridges that are connected.", |it| it.is_online.into()),
        reading("bridge_connects_total", "Connections to remote brokers.", |it| it.connects),
        reading("bridge_messages_out_total", "Messages sent to remote brokers.", |it| it.out),
        reading("bridge_messages_in_total", "Messages received from remote brokers.", |it| {
            it.received
        }),
        reading(
            "bridge_messages_refused_total",
            "Messages that a bridge did not \
                                                  forward.",
            |it| it.refused,
        ),
    ]
}

/// Puts this thread on one of the cores the process may use.
pub(super) fn pin(shard: u16) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    let Some(&core) = cores.get(usize::from(shard) % cores.len().max(1)) else { return };
    let mut one = CpuSet::new();
    one.set(core);
    if let Err(error) = sched_setaffinity(None, &one) {
        tell!(event::THREAD_UNPINNED, shard, core, %error);
    }
}
