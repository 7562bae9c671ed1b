//! Alarms: conditions that want an operator, raised and cleared by a look every ten seconds.
//!
//! An alarm is of a kind and, where there are several of these, of a subject. While its condition
//! holds there is one, whatever else happens; then it is past. It knows no shard. Invariant: at
//! most [`ACTIVE_MAX`] active ones and [`PAST_MAX`] past ones, in memory.

use super::super::operations::readings;
use super::super::{Asked, Part, asked, page, part};
use crate::LogHealth;
use crate::answers::overview::alarms::{AlarmList, AlarmShown};
use crate::api::{Api, Shared};
use crate::fault::Fault;
use crate::guard::Caller;
use crate::texts::{AlarmStateName, PageLimit};
use axum::extract::State;
use axum::{Extension, Json};
use model::close::CloseReason;
use model::counters::ProcessCounter;
use model::ports::control::Status;
use model::ports::presence::queries::Circuit;
use model::pressure::Pressure;
use model::session::Drop;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// Alarms at once. Conditions beyond raise none.
const ACTIVE_MAX: usize = 256;

/// Past alarms that are kept. The oldest make room.
const PAST_MAX: usize = 1_000;

/// Looks in what is called the last minute.
const LOOKS: usize = 6;

/// Used share of the fullest log from which on an alarm is raised.
const STORE_PERCENT: u64 = 70;

/// Reasons for which a message is dropped that was to be delivered.
const LOSSES: [&str; 5] = ["queue_bytes", "queue_count", "slow_reader", "store_full", "busy"];

/// A condition that holds.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Condition {
    kind: &'static str,
    is_critical: bool,
    subject: String,
    text: String,
}

/// An alarm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Alarm {
    pub(crate) id: u64,
    pub(crate) kind: &'static str,
    pub(crate) is_critical: bool,
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) raised_ms: u64,
    pub(crate) cleared_ms: Option<u64>,
    pub(crate) acknowledged: Option<(u64, String)>,
}

/// All alarms.
#[derive(Default)]
pub(crate) struct Alarms(Mutex<Book>);

#[derive(Default)]
struct Book {
    active: BTreeMap<(&'static str, String), Alarm>,
    past: VecDeque<Alarm>,
    next: u64,
    /// Sums at the last looks, by kind and subject.
    sums: VecDeque<BTreeMap<(&'static str, String), u64>>,
}

impl Book {
    /// These conditions hold now, and no others.
    fn see(&mut self, now_ms: u64, found: Vec<Condition>) {
        let key = |it: &Condition| (it.kind, it.subject.clone());
        let held: Vec<_> = found.iter().map(key).collect();
        let over: Vec<_> = self.active.keys().filter(|key| !held.contains(key)).cloned().collect();
        for alarm in over.iter().filter_map(|key| self.active.remove(key)).collect::<Vec<_>>() {
            if self.past.len() >= PAST_MAX {
                self.past.pop_front();
            }
            self.past.push_back(Alarm { cleared_ms: Some(now_ms), ..alarm });
        }
        for condition in found {
            let key = key(&condition);
            let Condition { kind, is_critical, subject, text } = condition;
            if let Some(alarm) = self.active.get_mut(&key) {
                (alarm.text, alarm.is_critical) = (text, is_critical);
            } else if self.active.len() < ACTIVE_MAX {
                self.next += 1;
                let (id, raised_ms) = (self.next, now_ms);
                let (cleared_ms, acknowledged) = Default::default();
                let alarm = Alarm {
                    id,
                    kind,
                    is_critical,
                    subject,
                    text,
                    raised_ms,
                    cleared_ms,
                    acknowledged,
                };
                self.active.insert(key, alarm);
            }
        }
    }

    /// What these sums grew by in the last minute.
    fn grown(&mut self, sums: BTreeMap<(&'static str, String), u64>) -> Growth {
        let oldest = self.sums.front();
        let grown = |(key, sum): (&(&'static str, String), &u64)| {
            // What is not known of then is as it is now.
            let before = oldest.and_then(|oldest| oldest.get(key)).unwrap_or(sum);
            (key.clone(), sum.saturating_sub(*before))
        };
        let growth = sums.iter().map(grown).collect();
        self.sums.push_back(sums);
        if self.sums.len() > LOOKS {
            self.sums.pop_front();
        }
        growth
    }

    /// Those that are wanted, the newest first.
    fn list(&self, is_active: Option<bool>, count: usize) -> Vec<Alarm> {
        let active = self.active.values().filter(|_| is_active != Some(false));
        let past = self.past.iter().filter(|_| is_active != Some(true));
        let mut all: Vec<&Alarm> = active.chain(past).collect();
        all.sort_by_key(|alarm| std::cmp::Reverse(alarm.id));
        all.into_iter().take(count).cloned().collect()
    }

    fn acknowledge(&mut self, id: u64, now_ms: u64, by: &str) -> Option<Alarm> {
        let mut all = self.active.values_mut().chain(self.past.iter_mut());
        let alarm = all.find(|alarm| alarm.id == id)?;
        alarm.acknowledged.get_or_insert_with(|| (now_ms, by.to_owned()));
        Some(alarm.clone())
    }
}

type Growth = BTreeMap<(&'static str, String), u64>;

/// Looks at the server, with its status as it is now.
pub(super) fn look(api: &Shared, status: &Status) {
    let mut book = api.alarms.0.lock().unwrap_or_else(PoisonError::into_inner);
    let growth = book.grown(sums(api, status));
    let mut found = of_shards(status, &growth);
    of_store(api, &mut found);
    of_others(api, &growth, &mut found);
    book.see((api.settings.wall_ms)(), found);
}

/// What only grows, and is a reason for an alarm when it does.
fn sums(api: &Shared, status: &Status) -> Growth {
    let counters = &status.counters;
    let losses = Drop::ALL.iter().filter(|why| LOSSES.contains(&why.name()));
    let refused = counters.of(ProcessCounter::AcceptFailed)
        + counters.closed_of(CloseReason::Full)
        + counters.closed_of(CloseReason::NoDescriptor);
    let of_shards = [
        ("messages_dropped", losses.map(|&why| counters.dropped_of(why)).sum()),
        ("slow_disconnected", counters.closed_of(CloseReason::SlowConsumer)),
        ("store_write_failed", counters.of(ProcessCounter::StoreFailures)),
        ("connections_refused", refused),
    ];
    let hooks = api.webhooks.iter().enumerate();
    let hooks = hooks.map(|(number, hook)| {
        (("webhook_failing", number.to_string()), hook.tally.failures.load(Ordering::Relaxed))
    });
    of_shards.into_iter().map(|(kind, sum)| ((kind, String::new()), sum)).chain(hooks).collect()
}

fn one(kind: &'static str, is_critical: bool, text: String) -> Condition {
    Condition { kind, is_critical, subject: String::new(), text }
}

/// What the shards report.
fn of_shards(status: &Status, growth: &Growth) -> Vec<Condition> {
    let grown = |kind| growth.get(&(kind, String::new())).copied().filter(|&by| by > 0);
    let counted = [
        ("messages_dropped", true, "messages dropped in the last minute"),
        ("slow_disconnected", false, "clients disconnected as slow in the last minute"),
        ("store_write_failed", true, "failed writes to the store in the last minute"),
        ("connections_refused", false, "connections refused for lack of room in the last minute"),
    ];
    let counted = counted.into_iter().filter_map(|(kind, is_critical, text)| {
        grown(kind).map(|by| one(kind, is_critical, format!("{by} {text}")))
    });
    let slow = (status.slow_clients > 0)
        .then(|| one("slow_clients", false, format!("{} slow clients", status.slow_clients)));
    let pressure = (status.pressure != Pressure::Calm).then(|| {
        one("memory_pressure", false, format!("memory pressure: {}", status.pressure.name()))
    });
    counted.chain(slow).chain(pressure).collect()
}

/// How the logs are.
fn of_store(api: &Shared, found: &mut Vec<Condition>) {
    for (number, log) in (api.settings.readiness)().logs.iter().enumerate() {
        let (kind, text) = match log {
            LogHealth::Good => continue,
            LogHealth::Full => ("log_full", format!("log {number} is full: new data is refused")),
            LogHealth::Failed => {
                ("log_failed", format!("log {number} has failed: nothing is stored"))
            }
        };
        found.push(Condition { kind, is_critical: true, subject: number.to_string(), text });
    }
    let all = readings(api);
    let value = |name| all.iter().find(|reading| reading.name == name).map(|it| it.value);
    if let Some(percent) = value("store_used_percent").filter(|&used| used >= STORE_PERCENT) {
        let text = format!("the fullest log is {percent} % full");
        found.push(one("store_filling", percent >= 90, text));
    }
    for (kind, name, text) in [
        ("archive_down", "archive_up", "the message archive is not reachable"),
        ("accounts_database_down", "accounts_database_up", "the account database is not reachable"),
    ] {
        if value(name) == Some(0) {
            found.push(one(kind, false, text.to_owned()));
        }
    }
    if value("events_stream_away").is_some_and(|away| away > 0) {
        found.push(one("event_stream_down", false, "the event stream is not reachable".into()));
    }
    if let Some(count) = value("impossible_total").filter(|&count| count > 0) {
        let text = format!("{count} internal errors: the log has the details");
        found.push(one("internal_error", false, text));
    }
}

/// Bridges, webhooks, certificates and the directory.
fn of_others(api: &Shared, growth: &Growth, found: &mut Vec<Condition>) {
    let mut add = |kind, is_critical, subject: String, text| {
        found.push(Condition { kind, is_critical, subject, text });
    };
    for bridge in (api.settings.bridges)().into_iter().filter(|bridge| !bridge.is_online) {
        let why = bridge.last_fault.map_or_else(String::new, |fault| format!(": {fault}"));
        add("bridge_down", false, bridge.name, format!("the bridge is disconnected{why}"));
    }
    for ((kind, subject), by) in growth.iter().filter(|((_, subject), _)| !subject.is_empty()) {
        if *by > 0 {
            let text = format!("{by} failed requests to the webhook in the last minute");
            add(kind, false, subject.clone(), text);
        }
    }
    for it in (api.settings.certificates)().into_iter().filter(|it| it.state != "valid") {
        let is_expired = it.state == "expired";
        let kind = if is_expired { "certificate_expired" } else { "certificate_expiring" };
        let text = match is_expired {
            true => format!("the {} has expired", it.kind),
            false => format!("the {} expires in {} days", it.kind, it.days_left),
        };
        add(kind, is_expired, it.file, text);
    }
    let directory = api.settings.presence.standing();
    if directory.circuit != Circuit::Closed {
        let why = directory.fault.map_or_else(String::new, |(fault, _)| format!(": {fault}"));
        let text = format!("the presence directory does not answer{why}");
        add("directory_down", false, String::new(), text);
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
    let query = asked(query)?;
    let is_active = match query.state.as_deref() {
        None => None,
        Some("active") => Some(true),
        Some("past") => Some(false),
        Some(_) => return Err(Fault::bad("`state` must be active or past")),
    };
    let count = page(query.limit)? as usize;
    let book = api.alarms.0.lock().unwrap_or_else(PoisonError::into_inner);
    let alarms = book.list(is_active, count).iter().map(AlarmShown::from).collect();
    Ok(Json(AlarmList { alarms, active: book.active.len() as u64 }))
}

/// `POST /v1/alarms/{alarm}/acknowledge`
pub(crate) async fn acknowledge(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    path: Part,
) -> Result<Json<AlarmShown>, Fault> {
    let id = part(path)?.parse().map_err(|_| Fault::bad("the id of an alarm is a number"))?;
    let now_ms = (api.settings.wall_ms)();
    let mut book = api.alarms.0.lock().unwrap_or_else(PoisonError::into_inner);
    let alarm = book.acknowledge(id, now_ms, &caller.0.name);
    alarm.map(|alarm| Json(AlarmShown::from(&alarm))).ok_or(Fault::unknown("alarm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &'static str, subject: &str, text: &str) -> Condition {
        let (subject, text) = (subject.to_owned(), text.to_owned());
        Condition { kind, is_critical: false, subject, text }
    }

    #[test]
    fn an_alarm_is_raised_once_and_past_when_its_condition_is_over() {
        let mut book = Book::default();
        book.see(10, vec![condition("bridge_down", "a", "x"), condition("bridge_down", "b", "x")]);
        book.see(20, vec![condition("bridge_down", "a", "y")]);
        let shown = |list: Vec<Alarm>| {
            let row = |it: Alarm| (it.id, it.subject, it.text, it.raised_ms, it.cleared_ms);
            list.into_iter().map(row).collect::<Vec<_>>()
        };
        let a = (1, "a".to_owned(), "y".to_owned(), 10, None);
        let b = (2, "b".to_owned(), "x".to_owned(), 10, Some(20));
        assert_eq!(shown(book.list(None, 9)), [b.clone(), a.clone()]);
        assert_eq!(shown(book.list(Some(true), 9)), [a]);
        assert_eq!(shown(book.list(Some(false), 9)), [b]);
        book.see(30, vec![condition("bridge_down", "b", "x")]);
        assert_eq!(book.active[&("bridge_down", "b".to_owned())].id, 3, "it is another one");
    }

    #[test]
    fn an_acknowledgement_stays_with_the_first_who_gave_it() {
        let mut book = Book::default();
        book.see(10, vec![condition("log_full", "0", "x")]);
        let by = |alarm: Option<Alarm>| alarm.and_then(|it| it.acknowledged);
        assert_eq!(by(book.acknowledge(1, 15, "ann")), Some((15, "ann".to_owned())));
        assert_eq!(by(book.acknowledge(1, 16, "bob")), Some((15, "ann".to_owned())));
        book.see(20, Vec::new());
        assert_eq!(by(book.list(Some(false), 1).pop()), Some((15, "ann".to_owned())));
        assert_eq!(book.acknowledge(7, 16, "bob"), None);
    }

    #[test]
    fn what_is_counted_is_an_alarm_for_a_minute_and_never_at_the_first_look() {
        let mut book = Book::default();
        let mut grown = |sum: u64| {
            let key = || ("messages_dropped", String::new());
            book.grown([(key(), sum)].into())[&key()]
        };
        assert_eq!([grown(50), grown(50), grown(57)], [0, 0, 7]);
        assert_eq!([grown(57), grown(57), grown(57), grown(57)], [7, 7, 7, 7]);
        assert_eq!([grown(57), grown(57)], [7, 0]);
    }

    #[test]
    fn alarms_are_bounded() {
        let mut book = Book::default();
        let many = |count: usize| {
            (0..count).map(|at| condition("bridge_down", &at.to_string(), "x")).collect()
        };
        book.see(1, many(ACTIVE_MAX + 9));
        assert_eq!(book.active.len(), ACTIVE_MAX);
        for _ in 0..9 {
            book.see(2, Vec::new());
            book.see(3, many(ACTIVE_MAX));
        }
        assert_eq!((book.active.len(), book.past.len()), (ACTIVE_MAX, PAST_MAX));
    }

    #[test]
    fn slow_clients_and_memory_are_conditions() {
        let status = Status { slow_clients: 2, pressure: Pressure::Qos0, ..Status::default() };
        let growth = [(("messages_dropped", String::new()), 5)].into();
        let found = of_shards(&status, &growth);
        let kinds: Vec<_> = found.iter().map(|it| (it.kind, it.is_critical)).collect();
        let wanted =
            [("messages_dropped", true), ("slow_clients", false), ("memory_pressure", false)];
        assert_eq!(kinds, wanted);
        assert_eq!(of_shards(&Status::default(), &Growth::default()), []);
    }
}
