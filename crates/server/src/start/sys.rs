//! Figures of the server as messages under `$SYS/broker/`.
//!
//! A thread asks the shards for their status every so often and publishes what has changed since,
//! retained, under the names that operators know from mosquitto. It decides nothing: who may read
//! them is a matter of rules. Invariant: it ends as soon as it is told to.

use crate::clock;
use model::counters::{Counter, Counters, ProcessCounter, TopicCounter};
use model::ports::control::{Answer, Command, Control, Status};
use model::ports::topics::TopicCommand;
use model::session::Drop;
use model::topic::Publication;
use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long the shards may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// The thread.
pub(super) struct SysTopics(Mutex<Option<(SyncSender<()>, JoinHandle<()>)>>);

impl SysTopics {
    /// Publishes every `interval_s`; 0: never.
    pub(super) fn start(interval_s: u32, control: Arc<dyn Control>) -> std::io::Result<SysTopics> {
        if interval_s == 0 {
            return Ok(SysTopics(Mutex::new(None)));
        }
        let (stop, told) = mpsc::sync_channel(1);
        let interval = Duration::from_secs(interval_s.into());
        let run = move || {
            let mut page = Page::new(interval_s);
            // Soon for the first time, for whoever subscribes right after the start.
            let mut wait = Duration::from_millis(100);
            while told.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                if let Some(status) = ask(control.as_ref()) {
                    page.publish(&status, control.as_ref());
                }
                wait = interval;
            }
        };
        let thread = Builder::new().name("sys-topics".into()).spawn(run)?;
        Ok(SysTopics(Mutex::new(Some((stop, thread)))))
    }

    /// Ends it.
    pub(super) fn stop(&self) {
        let running = self.0.lock().map(|mut running| running.take()).unwrap_or_default();
        if let Some((stop, thread)) = running {
            drop(stop);
            if thread.join().is_err() {
                tracing::error!("the thread of $SYS topics panicked");
            }
        }
    }
}

fn ask(control: &dyn Control) -> Option<Status> {
    let (sender, answer) = mpsc::sync_channel(1);
    let reply = Box::new(move |answer| {
        // Nobody waits any more when it is late.
        let _ = sender.send(answer);
    });
    control.ask(Command::Status, reply);
    match answer.recv_timeout(ANSWER) {
        Ok(Answer::Status(status)) => Some(*status),
        _ => None,
    }
}

/// What was said last, and what loads are made of.
struct Page {
    interval_s: u32,
    began: std::time::Instant,
    said: BTreeMap<&'static str, String>,
    before: Counters,
    loads: BTreeMap<&'static str, [f64; 3]>,
}

/// Minutes that a load is an average of, with the ends of their topics' names.
const SPANS: [f64; 3] = [1.0, 5.0, 15.0];

/// Loads a minute: what is counted, and the topics of its three averages.
const LOADS: [(Counter, [&str; 3]); 6] = [
    (Counter::Process(ProcessCounter::PacketsIn), LOAD_MESSAGES_IN),
    (Counter::Process(ProcessCounter::PacketsOut), LOAD_MESSAGES_OUT),
    (Counter::Process(ProcessCounter::BytesIn), LOAD_BYTES_IN),
    (Counter::Process(ProcessCounter::BytesOut), LOAD_BYTES_OUT),
    (Counter::Topics(TopicCounter::Publishes), LOAD_PUBLISH_IN),
    (Counter::Topics(TopicCounter::Delivered), LOAD_PUBLISH_OUT),
];

const LOAD_MESSAGES_IN: [&str; 3] =
    ["load/messages/received/1min", "load/messages/received/5min", "load/messages/received/15min"];
const LOAD_MESSAGES_OUT: [&str; 3] =
    ["load/messages/sent/1min", "load/messages/sent/5min", "load/messages/sent/15min"];
const LOAD_BYTES_IN: [&str; 3] =
    ["load/bytes/received/1min", "load/bytes/received/5min", "load/bytes/received/15min"];
const LOAD_BYTES_OUT: [&str; 3] =
    ["load/bytes/sent/1min", "load/bytes/sent/5min", "load/bytes/sent/15min"];
const LOAD_PUBLISH_IN: [&str; 3] =
    ["load/publish/received/1min", "load/publish/received/5min", "load/publish/received/15min"];
const LOAD_PUBLISH_OUT: [&str; 3] =
    ["load/publish/sent/1min", "load/publish/sent/5min", "load/publish/sent/15min"];

impl Page {
    fn new(interval_s: u32) -> Page {
        Page {
            interval_s,
            began: clock::began(),
            said: BTreeMap::new(),
            before: Counters::default(),
            loads: BTreeMap::new(),
        }
    }

    /// Publishes what differs from the last time.
    fn publish(&mut self, status: &Status, control: &dyn Control) {
        for (name, value) in self.lines(status) {
            if self.said.get(name) == Some(&value) {
                continue;
            }
            let topic = format!("$SYS/broker/{name}");
            let mut message = Publication::new(&topic, &[], value.as_bytes());
            message.retain = true;
            let publish = TopicCommand::Publish { message: Arc::new(message), delay_s: 0 };
            control.ask(Command::Topics(publish), Box::new(drop));
            self.said.insert(name, value);
        }
    }

    /// Every topic with its value now.
    fn lines(&mut self, status: &Status) -> Vec<(&'static str, String)> {
        let counters = &status.counters;
        let dropped: u64 = Drop::ALL.iter().map(|why| counters.dropped_of(*why)).sum();
        let away = status.sessions.saturating_sub(status.sessions_online);
        let uptime = clock::since(self.began).as_secs();
        let numbers = [
            ("clients/connected", status.sessions_online),
            ("clients/active", status.sessions_online),
            ("clients/disconnected", away),
            ("clients/inactive", away),
            ("clients/total", status.sessions),
            ("clients/expired", counters.of(TopicCounter::SessionsExpired)),
            ("connections", status.connections),
            ("messages/received", counters.of(ProcessCounter::PacketsIn)),
            ("messages/sent", counters.of(ProcessCounter::PacketsOut)),
            ("messages/stored", status.queued + status.retained),
            ("store/messages/count", status.queued + status.retained),
            ("store/messages/bytes", status.queued_bytes + status.retained_bytes),
            ("publish/messages/received", counters.of(TopicCounter::Publishes)),
            ("publish/messages/sent", counters.of(TopicCounter::Delivered)),
            ("publish/messages/dropped", dropped),
            ("bytes/received", counters.of(ProcessCounter::BytesIn)),
            ("bytes/sent", counters.of(ProcessCounter::BytesOut)),
            ("retained messages/count", status.retained),
            ("subscriptions/count", status.subscriptions),
            ("delayed/count", status.delayed),
        ];
        let mut lines = vec![
            ("version", format!("holdline version {}", env!("CARGO_PKG_VERSION"))),
            ("uptime", format!("{uptime} seconds")),
        ];
        lines.extend(numbers.map(|(name, value)| (name, value.to_string())));
        lines.extend(self.loads(counters));
        lines
    }

    /// Averages a minute, exponentially weighted over one, five and fifteen of them.
    fn loads(&mut self, counters: &Counters) -> Vec<(&'static str, String)> {
        let minutes = f64::from(self.interval_s) / 60.0;
        let mut lines = Vec::new();
        for (counter, names) in LOADS {
            let count = counters.of(counter).saturating_sub(self.before.of(counter));
            let now = count as f64 / minutes;
            let averages = self.loads.entry(names[0]).or_default();
            for ((average, span), name) in averages.iter_mut().zip(SPANS).zip(names) {
                let weight = (-minutes / span).exp();
                *average = *average * weight + now * (1.0 - weight);
                lines.push((name, format!("{average:.2}")));
            }
        }
        self.before = counters.clone();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::MessageId;
    use model::ports::control::Reply;

    /// Answers with what it was told to, and keeps what was published.
    #[derive(Default)]
    struct Notes {
        published: Mutex<Vec<(String, String)>>,
    }

    impl Control for Notes {
        fn ask(&self, command: Command, reply: Reply) {
            let Command::Topics(TopicCommand::Publish { message, .. }) = command else {
                return reply(Answer::Busy);
            };
            assert!(message.retain);
            let payload = String::from_utf8_lossy(message.payload()).into_owned();
            self.published.lock().expect("held").push((message.topic().to_owned(), payload));
            reply(Answer::Busy);
        }

        fn next_id(&self) -> MessageId {
            MessageId(1)
        }
    }

    impl Notes {
        fn taken(&self) -> Vec<(String, String)> {
            std::mem::take(&mut self.published.lock().expect("held"))
        }
    }

    #[test]
    fn what_changed_is_published_under_the_usual_names() {
        let (notes, mut page) = (Notes::default(), Page::new(10));
        let mut status = Status { sessions: 5, sessions_online: 3, ..Status::default() };
        status.counters.count_by(ProcessCounter::BytesIn, 600);
        page.publish(&status, &notes);
        let first = notes.taken();
        let value = |name: &str| {
            let topic = format!("$SYS/broker/{name}");
            first.iter().find(|(found, _)| *found == topic).map(|(_, value)| value.as_str())
        };
        assert_eq!(value("clients/connected"), Some("3"));
        assert_eq!(value("clients/disconnected"), Some("2"));
        assert_eq!(value("bytes/received"), Some("600"));
        assert_eq!(value("uptime"), Some("0 seconds"));
        assert!(value("version").is_some_and(|text| text.starts_with("holdline version")));
        assert!(value("load/bytes/received/1min").is_some_and(|load| load != "0.00"));
        status.subscriptions = 1;
        page.publish(&status, &notes);
        let second = notes.taken();
        let names: Vec<&str> = second.iter().map(|(topic, _)| topic.as_str()).collect();
        assert!(names.contains(&"$SYS/broker/subscriptions/count"));
        assert!(!names.contains(&"$SYS/broker/clients/total"), "it did not change");
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let topics = SysTopics::start(3_600, Arc::new(Notes::default())).expect("a thread");
        topics.stop();
        topics.stop();
    }
}
