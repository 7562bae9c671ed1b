//! Alarms: conditions that need an operator, active and past.
//!
//! An alarm has a kind and, if several of this kind can be active, a subject. While its condition
//! holds it is active; afterwards it is past. It does not know the server, who is notified, or
//! where alarms are stored. Invariant: at most [`ACTIVE_MAX`] active alarms, and [`PAST_MAX`] past
//! ones.

use model::event::{self, EventKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Active alarms. Conditions beyond raise none.
const ACTIVE_MAX: usize = 256;

/// Past alarms that are kept. The oldest make room.
const PAST_MAX: usize = 1_000;

/// Looks in what is called the last minute.
const LOOKS: usize = 6;

/// The words for severities.
pub(crate) const LEVELS: [&str; 2] = ["critical", "warning"];

/// Kind of a condition.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Kind {
    /// The word for it.
    pub(crate) name: &'static str,
    /// Whether something is lost or refused while it holds.
    pub(crate) is_critical: bool,
}

macro_rules! kinds {
    ($($kind:ident $name:literal $is_critical:literal;)+) => {
        $(pub(crate) static $kind: Kind = Kind { name: $name, is_critical: $is_critical };)+

        /// Every kind, the worst first.
        pub(crate) const ALL: &[&Kind] = &[$(&$kind),+];
    };
}

kinds! {
    LOG_FAILED "log_failed" true;
    LOG_FULL "log_full" true;
    STORE_WRITE_FAILED "store_write_failed" true;
    MESSAGES_DROPPED "messages_dropped" true;
    CERTIFICATE_EXPIRED "certificate_expired" true;
    STORE_ALMOST_FULL "store_almost_full" true;
    STREAM_FULL "stream_full" true;
    ISOLATED "isolated" true;
    ACKNOWLEDGED_LOST "acknowledged_lost" true;
    PLATFORM_DENIED "platform_denied" true;
    DRAINING "draining" false;
    STORE_FILLING "store_filling" false;
    SLOW_DISCONNECTED "slow_disconnected" false;
    SLOW_CLIENTS "slow_clients" false;
    MEMORY_PRESSURE "memory_pressure" false;
    CONNECTIONS_REFUSED "connections_refused" false;
    DIRECTORY_DOWN "directory_down" false;
    BRIDGE_DOWN "bridge_down" false;
    WEBHOOK_FAILING "webhook_failing" false;
    ARCHIVE_DOWN "archive_down" false;
    ACCOUNTS_DATABASE_DOWN "accounts_database_down" false;
    LDAP_DOWN "ldap_down" false;
    EVENT_STREAM_DOWN "event_stream_down" false;
    CERTIFICATE_EXPIRING "certificate_expiring" false;
    BACKUP_OLD "backup_old" false;
    FOLLOWERS "followers" false;
    FOLLOWER_FULL "follower_full" false;
    FOLLOWER_BEHIND "follower_behind" false;
    NATS_DOWN "nats_down" false;
    NODE_UNREACHABLE "node_unreachable" false;
    CLOCK_DIFFERS "clock_differs" false;
    INTERNAL_ERROR "internal_error" false;
}

/// A condition that holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Condition {
    pub(crate) kind: &'static Kind,
    /// Empty where there is only one.
    pub(crate) subject: String,
    pub(crate) text: String,
}

/// An alarm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Alarm {
    pub(crate) id: u64,
    pub(crate) kind: &'static Kind,
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) raised_ms: u64,
    pub(crate) cleared_ms: Option<u64>,
    pub(crate) acknowledged: Option<(u64, String)>,
}

impl Alarm {
    /// The word for its severity.
    pub(crate) fn level(&self) -> &'static str {
        if self.kind.is_critical { LEVELS[0] } else { LEVELS[1] }
    }

    /// Unix millisecond at which it was raised, or cleared since.
    pub(crate) fn changed_ms(&self) -> u64 {
        self.cleared_ms.unwrap_or(self.raised_ms)
    }

    /// The event that it is for applications.
    pub(crate) fn event(&self) -> EventKind {
        if self.cleared_ms.is_none() { event::ALARM_RAISED } else { event::ALARM_CLEARED }
    }
}

/// All alarms.
#[derive(Default)]
pub(crate) struct Book {
    active: BTreeMap<(&'static Kind, String), Alarm>,
    past: VecDeque<Alarm>,
    /// The id of the newest one.
    last: u64,
    /// Alarms that were raised since the start.
    raised: u64,
    /// Sums at the last looks, by kind and subject.
    sums: VecDeque<Growth>,
}

/// Sums, or what they grew by, by kind and subject.
pub(crate) type Growth = BTreeMap<(&'static Kind, String), u64>;

impl Book {
    /// A book with the alarms of earlier starts, whose last conditions ended at `now_ms` at the
    /// latest. If they hold still, they raise other alarms.
    pub(crate) fn of(mut alarms: Vec<Alarm>, now_ms: u64) -> Book {
        alarms.sort_by_key(Alarm::changed_ms);
        for alarm in &mut alarms {
            alarm.cleared_ms.get_or_insert(now_ms);
        }
        alarms.drain(..alarms.len().saturating_sub(PAST_MAX));
        let last = alarms.iter().map(|alarm| alarm.id).max().unwrap_or(0);
        Book { past: alarms.into(), last, ..Book::default() }
    }

    /// All of them, the past ones first.
    pub(crate) fn all(&self) -> Vec<Alarm> {
        self.past.iter().chain(self.active.values()).cloned().collect()
    }

    /// Updates the alarms: these conditions hold now, and no others. Returns the alarms that are
    /// raised by it, and those that are cleared.
    pub(crate) fn see(&mut self, now_ms: u64, found: Vec<Condition>) -> Vec<Alarm> {
        let key = |it: &Condition| (it.kind, it.subject.clone());
        let held: BTreeSet<_> = found.iter().map(key).collect();
        let over: Vec<_> = self.active.keys().filter(|key| !held.contains(key)).cloned().collect();
        let over = over.iter().filter_map(|key| self.active.remove(key));
        let mut changed: Vec<_> =
            over.map(|alarm| Alarm { cleared_ms: Some(now_ms), ..alarm }).collect();
        self.past.extend(changed.iter().cloned());
        self.past.drain(..self.past.len().saturating_sub(PAST_MAX));
        for condition in found {
            let key = key(&condition);
            let Condition { kind, subject, text } = condition;
            if let Some(alarm) = self.active.get_mut(&key) {
                alarm.text = text;
            } else if self.active.len() < ACTIVE_MAX {
                (self.last, self.raised) = (self.last + 1, self.raised + 1);
                let (id, raised_ms) = (self.last, now_ms);
                let (cleared_ms, acknowledged) = (None, None);
                let alarm = Alarm { id, kind, subject, text, raised_ms, cleared_ms, acknowledged };
                changed.push(alarm.clone());
                self.active.insert(key, alarm);
            }
        }
        changed
    }

    /// Growth of these sums in the last minute.
    pub(crate) fn grown(&mut self, sums: Growth) -> Growth {
        if self.sums.is_empty() {
            self.sums.push_back(Growth::new()); // all counts begin at zero
        }
        let oldest = &self.sums[0];
        let grown = |(key, sum): (&(&'static Kind, String), &u64)| {
            (key.clone(), sum.saturating_sub(oldest.get(key).copied().unwrap_or(0)))
        };
        let growth = sums.iter().map(grown).collect();
        self.sums.push_back(sums);
        if self.sums.len() > LOOKS {
            self.sums.pop_front();
        }
        growth
    }

    /// The active ones, the worst first.
    pub(crate) fn active(&self) -> Vec<Alarm> {
        let place = |kind: &Kind| ALL.iter().position(|one| one.name == kind.name);
        let mut active: Vec<_> = self.active.values().cloned().collect();
        active.sort_by_key(|alarm| place(alarm.kind));
        active
    }

    /// Raised or past alarms, the newest first.
    pub(crate) fn list(&self, is_active: Option<bool>, count: usize) -> Vec<Alarm> {
        let active = self.active.values().filter(|_| is_active != Some(false));
        let past = self.past.iter().filter(|_| is_active != Some(true));
        let mut all: Vec<&Alarm> = active.chain(past).collect();
        all.sort_by_key(|alarm| std::cmp::Reverse(alarm.id));
        all.into_iter().take(count).cloned().collect()
    }

    /// The first acknowledgement holds.
    pub(crate) fn acknowledge(&mut self, id: u64, now_ms: u64, by: &str) -> Option<Alarm> {
        let mut all = self.active.values_mut().chain(self.past.iter_mut());
        let alarm = all.find(|alarm| alarm.id == id)?;
        alarm.acknowledged.get_or_insert_with(|| (now_ms, by.to_owned()));
        Some(alarm.clone())
    }

    /// How many are active, how many of them are critical, and how many were raised.
    pub(crate) fn counts(&self) -> [u64; 3] {
        let critical = self.active.keys().filter(|(kind, _)| kind.is_critical).count();
        [self.active.len() as u64, critical as u64, self.raised]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Filter;
    use crate::feed::Feed;
    use model::limits::Limits;

    fn condition(kind: &'static Kind, subject: &str, text: &str) -> Condition {
        Condition { kind, subject: subject.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn an_alarm_is_raised_once_and_past_when_its_condition_is_over() {
        let mut book = Book::default();
        let both = vec![condition(&BRIDGE_DOWN, "a", "x"), condition(&BRIDGE_DOWN, "b", "x")];
        let rows = |list: Vec<Alarm>| {
            let row = |it: Alarm| (it.id, it.subject, it.text, it.raised_ms, it.cleared_ms);
            list.into_iter().map(row).collect::<Vec<_>>()
        };
        let row = |id, subject: &str, text: &str, raised_ms, cleared_ms| {
            (id, subject.to_owned(), text.to_owned(), raised_ms, cleared_ms)
        };
        let raised = rows(book.see(10, both.clone()));
        assert_eq!(raised, [row(1, "a", "x", 10, None), row(2, "b", "x", 10, None)]);
        assert_eq!(book.see(15, both), [], "they are known");
        let cleared = rows(book.see(20, vec![condition(&BRIDGE_DOWN, "a", "y")]));
        let (a, b) = (row(1, "a", "y", 10, None), row(2, "b", "x", 10, Some(20)));
        assert_eq!(cleared, std::slice::from_ref(&b));
        assert_eq!(rows(book.list(None, 9)), [b.clone(), a.clone()]);
        assert_eq!(rows(book.list(Some(true), 9)), [a]);
        assert_eq!(rows(book.list(Some(false), 9)), [b]);
        let again = rows(book.see(30, vec![condition(&BRIDGE_DOWN, "b", "x")]));
        assert_eq!(again, [row(1, "a", "y", 10, Some(30)), row(3, "b", "x", 30, None)]);
        assert_eq!(book.counts(), [1, 0, 3]);
    }

    #[test]
    fn the_worst_active_alarm_comes_first() {
        let mut book = Book::default();
        let kinds = [&INTERNAL_ERROR, &LOG_FULL, &SLOW_CLIENTS, &LOG_FAILED];
        book.see(10, kinds.map(|kind| condition(kind, "", "x")).into());
        let names: Vec<_> = book.active().iter().map(|it| it.kind.name).collect();
        assert_eq!(names, ["log_failed", "log_full", "slow_clients", "internal_error"]);
        assert_eq!(book.counts(), [4, 2, 4]);
        assert!(ALL.is_sorted_by_key(|kind| !kind.is_critical), "critical ones come first");
    }

    #[test]
    fn an_acknowledgement_stays_with_the_first_who_gave_it() {
        let mut book = Book::default();
        book.see(10, vec![condition(&LOG_FULL, "0", "x")]);
        let by = |alarm: Option<Alarm>| alarm.and_then(|it| it.acknowledged);
        assert_eq!(by(book.acknowledge(1, 15, "ann")), Some((15, "ann".to_owned())));
        assert_eq!(by(book.acknowledge(1, 16, "bob")), Some((15, "ann".to_owned())));
        book.see(20, Vec::new());
        assert_eq!(by(book.list(Some(false), 1).pop()), Some((15, "ann".to_owned())));
        assert_eq!(book.acknowledge(7, 16, "bob"), None);
    }

    #[test]
    fn a_count_that_grew_is_an_alarm_for_a_minute_from_the_first_look_on() {
        let mut book = Book::default();
        let mut grown = |sum: u64| {
            let key = || (&MESSAGES_DROPPED, String::new());
            book.grown([(key(), sum)].into())[&key()]
        };
        assert_eq!([grown(50), grown(50), grown(57)], [50, 50, 57]);
        assert_eq!([grown(57), grown(57), grown(57)], [57, 57, 57]);
        assert_eq!([grown(57), grown(57), grown(57)], [7, 7, 0]);
    }

    #[test]
    fn alarms_are_bounded() {
        let mut book = Book::default();
        let many = |count: usize| {
            (0..count).map(|at| condition(&BRIDGE_DOWN, &at.to_string(), "x")).collect()
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
    fn an_alarm_that_is_raised_or_cleared_reaches_readers_that_name_its_type() {
        let feed = Feed::new(&Limits::default());
        let filter = |types: &str| {
            let types = types.split(',').filter(|name| !name.is_empty());
            Filter::new(None, types, Vec::new()).expect("known types")
        };
        let named = filter("alarm_raised,alarm_cleared");
        assert!(!filter("").wish().alarms, "they must be named");
        let reader = feed.reader(named.wish(), None);
        let mut book = Book::default();
        feed.publish_alarms(book.see(10, vec![condition(&LOG_FULL, "0", "x")]));
        feed.publish_alarms(book.see(20, Vec::new()));
        let taken = reader.take(9).expect("it is open").happenings;
        let told = taken.iter().map(|(_, happening)| {
            assert!(named.wants(happening));
            (happening.name(), happening.at_ms())
        });
        assert_eq!(told.collect::<Vec<_>>(), [("alarm_raised", 10), ("alarm_cleared", 20)]);
    }

    #[test]
    fn the_console_and_the_documentation_name_every_kind_of_alarm() {
        let console = include_str!("../../../../clients/console/alarms.js");
        let page = include_str!("../../../../docs/api.md");
        for kind in ALL {
            assert!(console.contains(&format!("{}: t(", kind.name)), "the console: {}", kind.name);
            assert!(page.contains(&format!("`{}`", kind.name)), "docs/api.md: {}", kind.name);
        }
    }
}
