//! Figures of the server as messages under `$SYS/broker/`.
//!
//! The shards are asked for their status every so often, and what has changed since is published,
//! retained, under the names that operators know from mosquitto. Nothing is decided here: who may
//! read them is a matter of rules.

use super::{ANSWER_LOOK, PeriodicTask};
use crate::clock;
use model::counters::{Counter, Counters, ProcessCounter, TopicCounter};
use model::ports::control::{Answer, Command, Control, Status};
use model::ports::topics::TopicCommand;
use model::session::Drop;
use model::topic::Publication;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

/// How long the shards may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Asks and publishes every `interval_s`. `None`: it is 0, which is never.
pub(in crate::start) fn task(interval_s: u32, control: Arc<dyn Control>) -> Option<PeriodicTask> {
    if interval_s == 0 {
        return None;
    }
    let (mut page, mut asked) = (Page::new(interval_s), None);
    let interval = Duration::from_secs(interval_s.into());
    Some(Box::new(move || {
        let Some((answer, since)) = asked.take() else {
            asked = Some((ask(control.as_ref()), clock::began()));
            return ANSWER_LOOK;
        };
        let status = match Receiver::try_recv(&answer) {
            Err(TryRecvError::Empty) if clock::since(since) < ANSWER => {
                asked = Some((answer, since));
                return ANSWER_LOOK;
            }
            answered => answered,
        };
        if let Ok(Answer::Status(status)) = status {
            page.publish(&status, control.as_ref());
        }
        interval
    }))
}

/// Asks for the status of all shards.
fn ask(control: &dyn Control) -> Receiver<Answer> {
    let (sender, answer) = mpsc::sync_channel(1);
    let reply = Box::new(move |answer| {
        // Nobody waits any more when it is late.
        let _ = sender.send(answer);
    });
    control.ask(Command::Status, reply);
    answer
}

/// Values published last, and the sums for loads.
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
    use std::sync::Mutex;

    /// Answers as the test set it to, and keeps the publications.
    #[derive(Default)]
    struct Notes {
        published: Mutex<Vec<(String, String)>>,
        /// Receiver of the status.
        asked: Mutex<Option<Reply>>,
    }

    impl Control for Notes {
        fn ask(&self, command: Command, reply: Reply) {
            let Command::Topics(TopicCommand::Publish { message, .. }) = command else {
                *self.asked.lock().expect("held") = Some(reply);
                return;
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
    fn it_asks_and_publishes_the_answer_when_it_is_there() {
        let notes = Arc::new(Notes::default());
        assert!(task(0, notes.clone()).is_none());
        let mut task = task(10, notes.clone()).expect("an interval");
        assert_eq!(task(), ANSWER_LOOK, "it has asked");
        assert_eq!((task(), notes.taken().len()), (ANSWER_LOOK, 0), "nobody answered yet");
        let reply = notes.asked.lock().expect("held").take().expect("a question");
        reply(Answer::Status(Box::default()));
        assert_eq!((task(), notes.taken().is_empty()), (Duration::from_secs(10), false));
        // Who is refused asks again the next time.
        assert_eq!(task(), ANSWER_LOOK);
        notes.asked.lock().expect("held").take().expect("a question")(Answer::Busy);
        assert_eq!((task(), notes.taken().len()), (Duration::from_secs(10), 0));
    }
}
