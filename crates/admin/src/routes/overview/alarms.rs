//! Which alarms are raised, by a look at the server every ten seconds; and the routes of alarms.
//!
//! An alarm that is raised or cleared is an event for listeners, and a line in the log. It knows no
//! shard. Invariant: a look raises and clears alarms, and nothing else does.

use super::super::operations::readings;
use super::super::{Asked, Part, asked, page, part};
use crate::answers::edge::cluster::ClusterView;
use crate::answers::overview::alarms::{AlarmList, AlarmShown};
use crate::api::{Api, Shared};
use crate::fault::Fault;
use crate::feed::alarm_file::AlarmFile;
use crate::feed::alarms::{self, Alarm, Book, Condition, Growth, Kind};
use crate::guard::Caller;
use crate::texts::{AlarmStateName, PageLimit};
use crate::{LogHealth, MetricReading};
use axum::extract::State;
use axum::{Extension, Json};
use model::close::CloseReason;
use model::counters::{Counters, ProcessCounter};
use model::ports::control::Status;
use model::ports::presence::queries::Circuit;
use model::pressure::Pressure;
use model::session::Drop;
use model::{event, tell};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Used share of the fullest log from which on an alarm is raised.
const STORE_PERCENT: u64 = 70;

/// Used share from which on it is critical.
const STORE_CRITICAL_PERCENT: u64 = 90;

/// Intervals after which the newest scheduled backup is too old.
const BACKUP_INTERVALS: u64 = 2;

/// Records that a follower lacks from which on an alarm is raised: it is not close any more, and is
/// not promoted.
const BEHIND: u64 = 10_000;

/// Reasons for which a message is dropped that was to be delivered.
const LOSSES: [&str; 5] = ["queue_bytes", "queue_count", "slow_reader", "store_full", "busy"];

/// A sum over the shards whose growth is a condition.
struct Counted {
    kind: &'static Kind,
    text: &'static str,
    sum: fn(&Counters) -> u64,
}

const COUNTED: [Counted; 4] = [
    Counted {
        kind: &alarms::MESSAGES_DROPPED,
        text: "messages dropped in the last minute",
        sum: |counters| {
            let losses = Drop::ALL.iter().filter(|why| LOSSES.contains(&why.name()));
            losses.map(|&why| counters.dropped_of(why)).sum()
        },
    },
    Counted {
        kind: &alarms::SLOW_DISCONNECTED,
        text: "clients disconnected as slow in the last minute",
        sum: |counters| counters.closed_of(CloseReason::SlowConsumer),
    },
    Counted {
        kind: &alarms::STORE_WRITE_FAILED,
        text: "failed writes to the store in the last minute",
        sum: |counters| counters.of(ProcessCounter::StoreFailures),
    },
    Counted {
        kind: &alarms::CONNECTIONS_REFUSED,
        text: "connections refused for lack of room in the last minute",
        sum: |counters| {
            counters.of(ProcessCounter::AcceptFailed)
                + counters.closed_of(CloseReason::Full)
                + counters.closed_of(CloseReason::NoDescriptor)
        },
    },
];

/// All alarms, with the file that stores them.
pub(crate) struct Alarms {
    book: Mutex<Book>,
    /// Where they outlive a restart.
    file: Option<Mutex<AlarmFile>>,
}

impl Alarms {
    /// Reads the alarms of this file, if it exists.
    pub(crate) fn open(path: Option<&Path>, now_ms: u64) -> Alarms {
        let opened = path.map(|path| AlarmFile::open(path.to_owned()));
        let (file, kept) = opened.map_or((None, Vec::new()), |(file, kept)| (Some(file), kept));
        Alarms { book: Mutex::new(Book::of(kept, now_ms)), file: file.map(Mutex::new) }
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes them as they are. Blocks.
    fn save(&self) {
        let Some(file) = &self.file else { return };
        // The file is locked first, so that an earlier state is never written after a later one.
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.book().all();
        file.write(&all);
    }
}

/// Looks at the cluster that this node follows.
pub(crate) fn look_at_cluster(alarms: &Alarms, now_ms: u64, cluster: Option<&ClusterView>) {
    let found = cluster.into_iter().flat_map(of_cluster).collect();
    alarms.book().see(now_ms, found).iter().for_each(log);
}

/// Writes them on a thread that may wait.
async fn save(api: Arc<Shared>) {
    // The task fails only when the process ends.
    let _ = tokio::task::spawn_blocking(move || api.alarms.save()).await;
}

/// Looks at the server, with its status as it is now.
pub(super) async fn look(api: &Arc<Shared>, status: &Status) {
    let growth = api.alarms.book().grown(sums(api, status));
    let mut found = of_shards(status, &growth);
    of_store(api, &mut found);
    of_others(api, &growth, &mut found);
    found.extend((api.settings.cluster)().iter().flat_map(of_cluster));
    let changed = api.alarms.book().see((api.settings.wall_ms)(), found);
    changed.iter().for_each(log);
    let is_new = !changed.is_empty();
    api.feed.publish_alarms(changed);
    if is_new {
        save(Arc::clone(api)).await;
    }
}

/// The line of the log about an alarm that was raised or cleared.
fn log(alarm: &Alarm) {
    let (kind, level) = (alarm.kind.name, alarm.level());
    let Alarm { id, subject, text, .. } = alarm;
    match alarm.cleared_ms {
        None => tell!(event::ALARM_BEGAN, alarm = id, kind, level, subject, text),
        Some(_) => tell!(event::ALARM_ENDED, alarm = id, kind, level, subject, text),
    }
}

/// The active ones, as the overview shows them.
pub(crate) fn shown(alarms: &Alarms) -> Vec<AlarmShown> {
    alarms.book().active().iter().map(AlarmShown::from).collect()
}

/// How many there are.
pub(crate) fn figures(alarms: &Alarms) -> [MetricReading; 3] {
    let reading = |name, help, value| MetricReading { name, help, value };
    let [active, critical, raised] = alarms.book().counts();
    [
        reading("alarms_active", "Active alarms.", active),
        reading("alarms_critical", "Active alarms of level critical.", critical),
        reading("alarms_raised_total", "Alarms raised since the start.", raised),
    ]
}

/// Sums that only grow, and raise an alarm when they do.
fn sums(api: &Shared, status: &Status) -> Growth {
    let of_shards = COUNTED.iter().map(|it| ((it.kind, String::new()), (it.sum)(&status.counters)));
    let hooks = api.webhooks.all();
    // By URL and product, because a reload gives webhooks other numbers.
    let hooks = hooks.iter().map(|hook| {
        let failures = hook.tally.failures.load(Ordering::Relaxed);
        ((&alarms::WEBHOOK_FAILING, hook.settings().hook.shown()), failures)
    });
    of_shards.chain(hooks).collect()
}

fn one(kind: &'static Kind, text: String) -> Condition {
    Condition { kind, subject: String::new(), text }
}

/// Conditions that the shards report.
fn of_shards(status: &Status, growth: &Growth) -> Vec<Condition> {
    let counted = COUNTED.iter().filter_map(|it| {
        let by = growth.get(&(it.kind, String::new())).filter(|&&by| by > 0)?;
        Some(one(it.kind, format!("{by} {}", it.text)))
    });
    let slow = (status.slow_clients > 0)
        .then(|| one(&alarms::SLOW_CLIENTS, format!("slow clients: {}", status.slow_clients)));
    let pressure = (status.pressure != Pressure::Calm).then(|| {
        one(&alarms::MEMORY_PRESSURE, format!("memory pressure: {}", status.pressure.name()))
    });
    counted.chain(slow).chain(pressure).collect()
}

/// How the logs are, and whether the server drains.
fn of_store(api: &Shared, found: &mut Vec<Condition>) {
    let readiness = (api.settings.readiness)();
    if readiness.draining {
        let text = "the server is draining: it refuses new clients";
        found.push(one(&alarms::DRAINING, text.to_owned()));
    }
    for (number, log) in readiness.logs.iter().enumerate() {
        let (kind, text) = match log {
            LogHealth::Good => continue,
            LogHealth::Full => {
                (&alarms::LOG_FULL, format!("log {number} is full: new data is refused"))
            }
            LogHealth::Failed => {
                (&alarms::LOG_FAILED, format!("log {number} has failed: nothing is stored"))
            }
        };
        found.push(Condition { kind, subject: number.to_string(), text });
    }
    let all = readings(api);
    let value = |name| all.iter().find(|reading| reading.name == name).map(|it| it.value);
    if let Some(percent) = value("store_used_percent").filter(|&used| used >= STORE_PERCENT) {
        let kind = match percent {
            STORE_CRITICAL_PERCENT.. => &alarms::STORE_ALMOST_FULL,
            _ => &alarms::STORE_FILLING,
        };
        found.push(one(kind, format!("the fullest log is {percent} % full")));
    }
    let archive = "the message archive is disconnected";
    let accounts = "the account database is disconnected";
    for (kind, name, text) in [
        (&alarms::ARCHIVE_DOWN, "archive_up", archive),
        (&alarms::ACCOUNTS_DATABASE_DOWN, "accounts_database_up", accounts),
        (&alarms::LDAP_DOWN, "access_ldap_up", "the LDAP server is unavailable"),
    ] {
        if value(name) == Some(0) {
            found.push(one(kind, text.to_owned()));
        }
    }
    let [newest_s, every_s, failures] =
        ["backup_newest_timestamp_seconds", "backup_interval_seconds", "backup_failures_total"]
            .map(value);
    if let (Some(newest_s), Some(every_s)) = (newest_s, every_s) {
        let now_s = (api.settings.wall_ms)() / 1_000;
        let text = old_backup(now_s, newest_s, every_s, failures.unwrap_or(0));
        found.extend(text.map(|text| one(&alarms::BACKUP_OLD, text)));
    }
    if value("events_stream_away").is_some_and(|away| away > 0) {
        found.push(one(&alarms::EVENT_STREAM_DOWN, "the event stream is disconnected".into()));
    }
    if let Some(count) = value("impossible_total").filter(|&count| count > 0) {
        let text = format!("internal errors: {count}, the last at {}", base::never::last());
        found.push(one(&alarms::INTERNAL_ERROR, text));
    }
}

/// A text if the newest scheduled backup is too old. `None` if it is not, or the first one is in
/// progress.
fn old_backup(now_s: u64, newest_s: u64, every_s: u64, failures: u64) -> Option<String> {
    let hours = |seconds: u64| seconds / 3_600;
    let age_s = now_s.saturating_sub(newest_s);
    match newest_s {
        0 if failures == 0 => None,
        0 => Some("no scheduled backup has succeeded".to_owned()),
        _ if age_s <= BACKUP_INTERVALS * every_s => None,
        _ => Some(format!(
            "the newest scheduled backup is {} hours old; one is due every {} hours",
            hours(age_s),
            hours(every_s)
        )),
    }
}

/// Bridges, webhooks, certificates and the directory.
fn of_others(api: &Shared, growth: &Growth, found: &mut Vec<Condition>) {
    let mut add = |kind, subject: String, text| found.push(Condition { kind, subject, text });
    for bridge in (api.settings.bridges)().into_iter().filter(|bridge| !bridge.is_online) {
        let why = bridge.last_fault.map_or_else(String::new, |fault| format!(": {fault}"));
        add(&alarms::BRIDGE_DOWN, bridge.name, format!("the bridge is disconnected{why}"));
    }
    let denied = api.settings.platforms.statuses().into_iter().filter(|it| it.state == "denied");
    for platform in denied {
        let why = platform.last_fault.map_or_else(String::new, |fault| format!(": {fault}"));
        let text = format!(
            "the push platform refuses the credentials of [platform.{}]{why}; replace the key or \
             certificate and restart",
            platform.name
        );
        add(&alarms::PLATFORM_DENIED, platform.name, text);
    }
    let failing =
        growth.iter().filter(|((kind, _), by)| *kind == &alarms::WEBHOOK_FAILING && **by > 0);
    for ((kind, subject), by) in failing {
        let text = format!("{by} failed requests to the webhook in the last minute");
        add(kind, subject.clone(), text);
    }
    for it in (api.settings.certificates)().into_iter().filter(|it| it.state != "valid") {
        let (kind, text) = match it.state == "expired" {
            true => (&alarms::CERTIFICATE_EXPIRED, format!("the {} has expired", it.kind)),
            false => {
                let text = format!("the {} expires in {} days", it.kind, it.days_left);
                (&alarms::CERTIFICATE_EXPIRING, text)
            }
        };
        add(kind, it.file, text);
    }
    let directory = api.settings.presence.standing();
    if directory.circuit != Circuit::Closed {
        let why = directory.fault.map_or_else(String::new, |(fault, _)| format!(": {fault}"));
        let text = format!("the presence directory does not answer{why}");
        add(&alarms::DIRECTORY_DOWN, String::new(), text);
    }
}

/// The cluster that this node leads or follows.
fn of_cluster(cluster: &ClusterView) -> Vec<Condition> {
    let mut found = Vec::new();
    if cluster.full {
        let text = "NATS has no room for a log: new data is refused until there is room";
        found.push(one(&alarms::STREAM_FULL, text.to_owned()));
    }
    if cluster.isolated {
        let text = "no majority of the NATS servers answers: nothing is acknowledged";
        found.push(one(&alarms::ISOLATED, text.to_owned()));
    }
    if cluster.lost_unseen > 0 {
        let text = format!(
            "acknowledged records that logs went on without: {}; holdline cluster lost lists them",
            cluster.lost_unseen
        );
        found.push(one(&alarms::ACKNOWLEDGED_LOST, text));
    }
    if !cluster.leads {
        of_follower(cluster, &mut found);
    }
    if cluster.leads && cluster.followers < cluster.followers_wanted {
        let (there, wanted) = (cluster.followers, cluster.followers_wanted);
        let away = cluster.away();
        let away = if away.is_empty() { away } else { format!("; away: {away}") };
        let text = format!("{there} of {wanted} followers are close behind{away}");
        found.push(one(&alarms::FOLLOWERS, text));
    }
    for node in cluster.nodes.iter().filter(|node| !node.unreachable.is_empty()) {
        let addresses = node.unreachable.join(" ");
        let text = format!("node {} cannot connect to {} at {addresses}", cluster.node, node.name);
        let subject = node.node.to_string();
        found.push(Condition { kind: &alarms::NODE_UNREACHABLE, subject, text });
    }
    if cluster.clocks_differ {
        let text = format!("the clocks of two nodes differ by {} s", cluster.clock_skew_s);
        found.push(one(&alarms::CLOCK_DIFFERS, text));
    }
    found
}

/// Conditions in which a node that follows could not take over.
fn of_follower(cluster: &ClusterView, found: &mut Vec<Condition>) {
    if !cluster.connected {
        let text = "NATS is disconnected: this node copies nothing";
        found.push(one(&alarms::NATS_DOWN, text.to_owned()));
    }
    for log in &cluster.logs {
        let (kind, text) = match log {
            _ if log.disk_full => {
                (&alarms::FOLLOWER_FULL, format!("the disk has no room for log {}", log.log))
            }
            _ if log.lag >= BEHIND => {
                let text = format!("log {} lacks {} records of the leader's", log.log, log.lag);
                (&alarms::FOLLOWER_BEHIND, text)
            }
            _ if log.role == "absent" => {
                (&alarms::FOLLOWER_BEHIND, format!("log {} is not copied yet", log.log))
            }
            _ => continue,
        };
        found.push(Condition { kind, subject: log.log.to_string(), text });
    }
}

/// Query of `/v1/alarms`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AlarmsQuery {
    /// Only these; all without it.
    #[schemars(with = "Option<AlarmStateName>")]
    state: Option<String>,
    /// Alarms in the answer.
    #[schemars(with = "Option<PageLimit>")]
    limit: Option<u32>,
}

/// `GET /v1/alarms`
pub(crate) async fn list(
    State(api): Api,
    query: Asked<AlarmsQuery>,
) -> Result<Json<AlarmList>, Fault> {
    Ok(Json(listed(&api.alarms, query)?))
}

/// The alarms that are asked for.
pub(crate) fn listed(alarms: &Alarms, query: Asked<AlarmsQuery>) -> Result<AlarmList, Fault> {
    let query = asked(query)?;
    let is_active = match query.state.as_deref() {
        None => None,
        Some("active") => Some(true),
        Some("past") => Some(false),
        Some(_) => return Err(Fault::bad("`state` must be active or past")),
    };
    let count = page(query.limit)? as usize;
    let book = alarms.book();
    let alarms = book.list(is_active, count).iter().map(AlarmShown::from).collect();
    Ok(AlarmList { alarms, active: book.counts()[0] })
}

/// `POST /v1/alarms/{alarm}/acknowledge`
pub(crate) async fn acknowledge(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    path: Part,
) -> Result<Json<AlarmShown>, Fault> {
    let id = part(path)?.parse().map_err(|_| Fault::bad("the id of an alarm is a number"))?;
    let now_ms = (api.settings.wall_ms)();
    let alarm = api.alarms.book().acknowledge(id, now_ms, &caller.0.name);
    let alarm = alarm.ok_or(Fault::unknown("alarm"))?;
    save(api).await;
    Ok(Json(AlarmShown::from(&alarm)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::edge::cluster::{ClusterLog, ClusterNode};

    #[test]
    fn a_cluster_that_is_not_as_it_should_be_raises_alarms() {
        let node = |number, heard_ms, unreachable: &[&str]| ClusterNode {
            node: number,
            name: format!("n{number}"),
            heard_ms,
            unreachable: unreachable.iter().map(|it| (*it).to_owned()).collect(),
            ..ClusterNode::default()
        };
        let well = ClusterView {
            node: 1,
            leads: true,
            followers: 1,
            followers_wanted: 1,
            nodes: vec![node(1, Some(0), &[]), node(2, Some(700), &[])],
            ..ClusterView::default()
        };
        assert_eq!(of_cluster(&well), []);
        let mut ill = well.clone();
        (ill.followers, ill.nodes[1]) = (0, node(2, Some(90_000), &["mqtt=10.0.0.2:1883"]));
        (ill.full, ill.isolated, ill.lost_unseen) = (true, true, 7);
        (ill.clock_skew_s, ill.clocks_differ) = (300, true);
        let found = of_cluster(&ill);
        let kinds: Vec<_> = found.iter().map(|it| it.kind.name).collect();
        let all = [
            "stream_full",
            "isolated",
            "acknowledged_lost",
            "followers",
            "node_unreachable",
            "clock_differs",
        ];
        assert_eq!(kinds, all);
        assert_eq!(
            found[3].text,
            "0 of 1 followers are close behind; away: n2 (2), silent for 90 s"
        );
        assert_eq!(found[4].text, "node 1 cannot connect to n2 at mqtt=10.0.0.2:1883");
        let follows = ClusterView { leads: false, connected: true, followers: 0, ..well };
        assert_eq!(of_cluster(&follows), [], "a node that follows does not count followers");
        let log = |log, role: &str, lag, disk_full| {
            let role = role.to_owned();
            ClusterLog { log, role, lag, disk_full, ..ClusterLog::default() }
        };
        let logs = vec![
            log(0, "following", BEHIND - 1, false),
            log(1, "following", BEHIND, false),
            log(2, "absent", 7, true),
            log(3, "absent", 0, false),
        ];
        let found = of_cluster(&ClusterView { connected: false, logs, ..follows });
        let told: Vec<_> = found.iter().map(|it| (it.kind.name, &*it.subject)).collect();
        let all = [
            ("nats_down", ""),
            ("follower_behind", "1"),
            ("follower_full", "2"),
            ("follower_behind", "3"),
        ];
        assert_eq!(told, all);
    }

    #[test]
    fn a_backup_is_old_after_two_intervals_and_the_first_one_is_waited_for() {
        let at = |now_s, newest_s, failures| old_backup(now_s, newest_s, 86_400, failures);
        assert_eq!((at(1_000_000, 0, 0), at(86_400 * 3, 86_400, 9)), (None, None));
        assert_eq!(at(9, 0, 1).as_deref(), Some("no scheduled backup has succeeded"));
        let old = "the newest scheduled backup is 49 hours old; one is due every 24 hours";
        assert_eq!(at(86_400 * 3 + 3_600, 86_400, 0).as_deref(), Some(old));
        assert_eq!(at(5, 86_400, 0), None, "a clock that was set back");
    }

    #[test]
    fn slow_clients_and_memory_are_conditions() {
        let status = Status { slow_clients: 2, pressure: Pressure::Qos0, ..Status::default() };
        let growth = [((&alarms::MESSAGES_DROPPED, String::new()), 5)].into();
        let found = of_shards(&status, &growth);
        let kinds: Vec<_> = found.iter().map(|it| (it.kind.name, it.text.as_str())).collect();
        let wanted = [
            ("messages_dropped", "5 messages dropped in the last minute"),
            ("slow_clients", "slow clients: 2"),
            ("memory_pressure", "memory pressure: qos0"),
        ];
        assert_eq!(kinds, wanted);
        assert_eq!(of_shards(&Status::default(), &Growth::default()), []);
    }
}
