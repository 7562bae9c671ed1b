//! The lies: what each server does, what the report must count, and what it must say.

use crate::broker::{Broker, Lie as Told};
use crate::lab_::{Around, run, untimed};
use lab::cause::Cause;
use lab::plan::{FaultKind, Target};
use lab::run::{Counts, Run};
use lab::timing::Timing;
use load::fault::{ActiveFault, FaultRunner};
use load::proxy::Proxy;
use load::run::parts::{Broken, FaultInjector};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::faulty::{ConnectionFate, FateStep, Faulty, FaultyAnswer, HeldPort};

/// A lie.
pub struct Lie {
    /// `A server that …`.
    pub name: &'static str,
    /// Figures that the report must have.
    pub figures: &'static [(&'static str, f64)],
    pub causes: &'static [(Cause, u64)],
    /// How a finding must begin, whose doing it is, and what its evidence must have.
    pub says: Option<&'static str>,
    pub side: &'static str,
    pub shows: &'static str,
    /// Rules that cannot be known.
    pub unknown: &'static [&'static str],
    /// Runs it.
    pub run: Box<dyn Fn() -> Run + Send + Sync>,
}

impl Lie {
    pub fn of(name: &'static str, run: impl Fn() -> Run + Send + Sync + 'static) -> Lie {
        let (figures, causes): (&[_], &[_]) = (&[], &[]);
        let (says, side, shows, run) = (None, "", "", Box::new(run));
        Lie { name, figures, causes, says, side, shows, unknown: &[], run }
    }

    pub fn counts(self, figures: &'static [(&'static str, f64)]) -> Lie {
        Lie { figures, ..self }
    }

    pub fn ends(self, causes: &'static [(Cause, u64)]) -> Lie {
        Lie { causes, ..self }
    }

    pub fn says(self, side: &'static str, says: &'static str, shows: &'static str) -> Lie {
        Lie { says: Some(says), side, shows, ..self }
    }

    pub fn unknown(self, unknown: &'static [&'static str]) -> Lie {
        Lie { unknown, ..self }
    }
}

/// Messages of a run, sent as fast as they can be: no moment of a plan comes too late for a slow
/// machine. Of these twenty are lied about, and the last is not.
pub const MESSAGES: u64 = 205;

/// Four clients, or as many, whose messages go to any one of them, and that subscribe to their own
/// topic unless `keys` say to what.
fn among(told: Told, clients: u64, keys: &str, traffic: &str) -> Run {
    let broker = Broker::start(told, Duration::ZERO);
    let (own, each) = match keys.contains("subscribe = ") {
        true => ("", 2),
        false => ("subscribe = [\"t/%i\"]\n", 1),
    };
    let plan = plan_of(clients, &format!("{own}{keys}"), traffic, 1_000);
    let around = Around { filters: each * clients, ..Around::of(Some(&broker), MESSAGES) };
    run(&plan, &format!("mqtt://{}", broker.address()), around)
}

/// So many clients of which each has so many messages on their way.
fn plan_of(clients: u64, keys: &str, traffic: &str, window: u64) -> String {
    format!(
        r#"
[[group]]
name = "g"
threads = 2
{keys}
[[stage]]
name = "hold"
clients = {{ g = {clients} }}
arrive = {{ shape = "burst" }}
hold = "1h"
pass = ["messages.missing == 0", "messages.repeated == 0", "messages.reordered == 0"]
[[stage.traffic.g]]
what = "publish"
topic = "t/%i"
messages = {MESSAGES}
pace = {{ window = {window} }}
{traffic}
"#
    )
}

/// Subscriptions and messages at this QoS.
fn at_qos(told: Told, qos: u8) -> Run {
    among(told, 4, &format!("subscribe_qos = {qos}"), &format!("among = 4\nqos = {qos}"))
}

/// Keys of clients that come back at once to the session that is kept for them.
const KEPT: &str = "keep_session = true\nsubscribe_qos = 1\nback_after = \"1ms\"";
/// A plan that cuts all clients.
const CUT: &str =
    "\n[[stage.fault]]\nat = \"0s\"\nwhat = { cut = { share = 1.0, how = \"reset\" } }\n";

/// Four clients with sessions that are kept are cut once, and come back.
fn cut(told: Told, filters_after: u64) -> Run {
    let broker = Broker::start(told, Duration::ZERO);
    let plan = held(&format!("{KEPT}\nsubscribe = [\"t/%i\"]")) + CUT;
    let is_broken = Arc::new(AtomicBool::new(false));
    let around = Around::of(Some(&broker), 0);
    let around = Around { filters: 4, filters_after, ends: 4, is_broken, ..around };
    run(&plan, &format!("mqtt://{}", broker.address()), around)
}

/// The same while one of them after the other sends what it may.
fn cut_while_sending(told: Told) -> Run {
    let broker = Broker::start(told, Duration::ZERO);
    let traffic = "among = 4\nqos = 1\n".to_owned() + CUT;
    let plan = plan_of(4, &format!("subscribe = [\"t/%i\"]\n{KEPT}"), &traffic, 1);
    // Of what was on its way when the plan cut nobody knows whether it arrived: no rule holds.
    let plan: String = plan
        .lines()
        .filter(|line| !line.starts_with("pass ="))
        .fold(String::new(), |plan, line| plan + line + "\n");
    let is_broken = Arc::new(AtomicBool::new(false));
    let around = Around::of(Some(&broker), MESSAGES);
    let around = Around { filters: 4, ends: 4, resumes: true, is_broken, ..around };
    run(&plan, &format!("mqtt://{}", broker.address()), around)
}

fn drawn(told: Told) -> Run {
    among(told, 4, "", "among = 4")
}

fn acknowledged(told: Told, qos: u8) -> Run {
    let keys = if matches!(told, Told::AckWith(_)) { "version = 5" } else { "" };
    among(told, 4, keys, &format!("among = 4\nqos = {qos}"))
}

fn rows(told: Told) -> Run {
    among(told, 1, "", "")
}

fn shared(told: Told) -> Run {
    let broker = Broker::start(told, Duration::ZERO);
    let plan = format!(
        r#"
[[group]]
name = "workers"
threads = 2
subscribe = ["$share/w/s/#"]
[[group]]
name = "devices"
threads = 1
[[stage]]
name = "hold"
clients = {{ workers = 3, devices = 2 }}
arrive = {{ shape = "burst" }}
hold = "1h"
pass = ["messages.missing == 0", "messages.repeated == 0"]
[[stage.traffic.devices]]
what = "publish"
topic = "s/%i"
messages = {MESSAGES}
pace = {{ window = 1_000 }}
"#
    );
    let around = Around { filters: 3, ..Around::of(Some(&broker), MESSAGES) };
    run(&plan, &format!("mqtt://{}", broker.address()), around)
}

/// Time after which an answer counts as lost, where that is the lie.
const TIMES_OUT: &str = "timeout = \"2s\"";

/// Clients of a server that sends them nothing but this: four of them, that stay away.
fn held(keys: &str) -> String {
    let timeout = if keys.contains("timeout") { "" } else { "timeout = \"600s\"" };
    format!(
        r#"
[[group]]
name = "g"
threads = 1
{timeout}
{keys}
[[stage]]
name = "hold"
clients = {{ g = 4 }}
arrive = {{ shape = "burst" }}
hold = "1s"
"#
    )
}

/// Four clients call this broker, of which so many end.
fn called(told: Told, keys: &str, ends: u64) -> Run {
    let broker = Broker::start(told, Duration::ZERO);
    let filters = if keys.contains("subscribe") { 4 } else { 0 };
    let around = Around { filters, ends, ..Around::of(Some(&broker), 0) };
    run(&held(keys), &format!("mqtt://{}", broker.address()), around)
}

/// Four clients call a server whose connections all go through these steps, and end.
fn fated(keys: &str, steps: impl Into<Vec<FateStep>>) -> Run {
    let server = Faulty::start(vec![ConnectionFate::new("lies", steps)]);
    let around = Around { ends: 4, ..Around::of(None, 0) };
    run(&held(keys), &format!("mqtt://{}", server.address()), around)
}

fn say(bytes: &[u8]) -> FateStep {
    FateStep::Say(bytes.to_vec())
}

const HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
                      Connection: close\r\nContent-Length: 15\r\n\r\n400 Bad Request";
const CONNACK: [u8; 4] = [0x20, 2, 0, 0];

fn dead() -> Run {
    let port = HeldPort::closed();
    // They would come again and again.
    let plan = held("back_after = \"10ms\"");
    run(&plan, &format!("mqtt://{}", port.address()), Around::of(None, 0))
}

fn full() -> Run {
    let port = HeldPort::full(0);
    let around = Around { ends: 4, ..Around::of(None, 0) };
    run(&held(TIMES_OUT), &format!("mqtt://{}", port.address()), around)
}

const LATE: Duration = Duration::from_secs(3);

fn late_connack() -> Run {
    let broker = Broker::start(Told::None, LATE);
    let around = Around { touch: late_ones, ..Around::of(Some(&broker), 0) };
    run(&held(""), &format!("mqtt://{}", broker.address()), around)
}

/// Answers that were not kept back took a millisecond, on whatever machine. (What was kept back may
/// have taken a little less than that: the laboratory reads its clock before it reads what came.)
fn late_ones(_: u64, counts: &mut Counts) {
    let binds = std::mem::take(&mut counts.timings);
    for (us, count) in binds.of(Timing::Bind).raw.iter() {
        let us = if us >= LATE.as_micros() as u64 / 2 { us } else { 1_000 };
        (0..count).for_each(|_| counts.timings.at(Timing::Bind).note(us));
    }
}

/// Clients come in 20 steps a second apart, or none, and the target's machine shows this.
fn watched(shown: crate::lab_::Shown, touch: crate::lab_::Touch, hold: &str) -> Run {
    let broker = Broker::start(Told::None, Duration::ZERO);
    let plan = held("").replace("hold = \"1s\"", &format!("hold = \"{hold}\""));
    let around = Around { shown, touch, ..Around::of(Some(&broker), 0) };
    run(&plan, &format!("mqtt://{}", broker.address()), around)
}

/// As many clients as there are seconds, times a hundred, up to two thousand: the plan's four from
/// the beginning, so that it need not wait for them.
fn growing(ms: u64, counts: &mut Counts) {
    untimed(ms, counts);
    counts.online = (ms / 10).clamp(4, 2_000);
}

/// Every fifth second one answer takes 640 ms, else none takes more than 2.
fn stalls(ms: u64, counts: &mut Counts) {
    untimed(ms, counts);
    for second in 1..=ms / 1_000 {
        let us = if second % 5 == 0 { 640_000 } else { 2_000 };
        counts.timings.at(Timing::Heartbeat).note(us);
    }
}

/// Fifty times in each second this was timed: so long, or as long as `last` says the last time.
fn fifty(timing: Timing, us: u64, last: u64) -> impl Fn(u64, &mut Counts) {
    move |ms, counts| {
        untimed(ms, counts);
        let times = counts.timings.at(timing);
        for _ in 0..ms / 1_000 {
            (0..49).for_each(|_| times.note(us));
            times.note(last);
        }
    }
}

fn fiftieth_late(ms: u64, counts: &mut Counts) {
    fifty(Timing::Delivery, 2_000, 2_000_000)(ms, counts);
}

fn acknowledged_late(ms: u64, counts: &mut Counts) {
    fifty(Timing::Publish, 3_000_000, 3_000_000)(ms, counts);
}

fn pong_late(ms: u64, counts: &mut Counts) {
    fifty(Timing::Heartbeat, 1_500_000, 1_500_000)(ms, counts);
}

/// Each second takes ten milliseconds longer than the one before.
fn later_and_later(ms: u64, counts: &mut Counts) {
    untimed(ms, counts);
    for second in 1..=ms / 1_000 {
        counts.timings.at(Timing::Publish).note(2_000 + 10_000 * second);
    }
}

/// Breaks the network by a real proxy, and waits until it has.
struct Hand(FaultRunner, Option<ActiveFault>, Arc<AtomicBool>);

impl FaultInjector for Hand {
    fn begin(&mut self, what: &FaultKind) -> Result<String, String> {
        let (standing, words) = self.0.begin(what)?;
        self.1 = Some(standing);
        self.2.store(true, Ordering::SeqCst);
        Ok(words)
    }

    fn end(&mut self, _what: &FaultKind) -> Option<Result<String, String>> {
        self.1.take().map(|standing| self.0.end(standing))
    }

    fn broken(&mut self) -> Broken {
        let counts = self.0.proxy().and_then(|proxy| proxy.counts().ok()).unwrap_or_default();
        Broken { resets: counts.reset + counts.refused, closed: counts.truncated }
    }
}

/// The plan's own proxy does this to all connections of an honest server.
fn broken_by_us(how: &str, ends: u64) -> Run {
    let still: FaultyAnswer = Arc::new(|heard: &mut Vec<u8>| {
        heard.clear();
        Vec::new()
    });
    let serves = [FateStep::Hear, say(&CONNACK), FateStep::Serve(still)];
    let server = Faulty::start(vec![ConnectionFate::new("serves", serves)]);
    let any = ([127, 0, 0, 1], 0).into();
    let proxy = Proxy::start(any, vec![server.address()]).expect("a free port");
    let url = format!("mqtt://{}", proxy.address());
    let faults = FaultRunner::new(&Target::default(), Some(proxy));
    let held = held("");
    let fault = format!("network = {{ how = \"{how}\", share = 1.0 }}");
    let plan = format!("{held}\n[[stage.fault]]\nat = \"0s\"\nwhat = {{ {fault} }}\n");
    let is_broken = Arc::new(AtomicBool::new(false));
    let breaker: Option<Box<dyn FaultInjector>> =
        Some(Box::new(Hand(faults, None, is_broken.clone())));
    run(&plan, &url, Around { ends, breaker, is_broken, ..Around::of(None, 0) })
}

const MISSING: &str = "messages.missing";
const REPEATED: &str = "messages.repeated";

/// All of them.
pub fn lies() -> Vec<Lie> {
    let mut all = honest();
    all.extend(of_messages());
    all.extend(of_answers());
    all.extend(of_flags());
    all.extend(crate::chats::lies());
    all.extend(crate::xmpp::lies());
    all.extend(of_sessions());
    all.extend(of_kept_sessions());
    all.extend(of_times());
    all.extend(of_machines());
    all
}

fn honest() -> Vec<Lie> {
    let clean = &[
        (MISSING, 0.0),
        (REPEATED, 0.0),
        ("messages.reordered", 0.0),
        ("messages.changed", 0.0),
        ("messages.unjudged", 0.0),
        ("messages.untracked", 0.0),
        ("messages.received", 205.0),
    ];
    vec![
        Lie::of("works correctly", || drawn(Told::None)).counts(clean),
        Lie::of("works correctly at QoS 2", || acknowledged(Told::None, 2)).counts(clean),
        Lie::of("works correctly with a shared subscription", || shared(Told::None)).counts(clean),
    ]
}

fn of_messages() -> Vec<Lie> {
    vec![
        Lie::of("drops every tenth message", || drawn(Told::Drop))
            .counts(&[(MISSING, 20.0), (REPEATED, 0.0)])
            .says("target", "20 messages did not arrive.", "20 of 205 (9.76 %)"),
        Lie::of("delivers every tenth message twice", || drawn(Told::Repeat))
            .counts(&[(MISSING, 0.0), (REPEATED, 20.0)])
            .says("target", "20 messages arrived more than once.", "20 of 225 (8.89 %)"),
        Lie::of("drops ten messages and delivers ten others twice", || drawn(Told::DropAndRepeat))
            .counts(&[(MISSING, 10.0), (REPEATED, 10.0)])
            .says("target", "10 messages did not arrive.", "10 in stage `hold`"),
        Lie::of("delivers every tenth message after the next one", || {
            among(Told::Swap, 1, "", "among = 1")
        })
        .counts(&[("messages.reordered", 20.0), (REPEATED, 0.0), (MISSING, 0.0)])
        .says("target", "20 messages arrived out of order", "20 of 205 (9.76 %)"),
        Lie::of("changes the last byte of message bodies", || drawn(Told::Flip))
            .counts(&[("messages.changed", 20.0), (MISSING, 0.0)])
            .says("target", "20 messages arrived with a changed body", "20 of 205"),
        Lie::of("changes the number in message bodies", || drawn(Told::FlipNumber))
            .counts(&[("messages.changed", 20.0)])
            .says("target", "20 messages arrived with a changed body", "20 of 205"),
        Lie::of("truncates message bodies", || drawn(Told::Shorten))
            .counts(&[("messages.changed", 20.0)])
            .says("target", "20 messages arrived with a changed body", "20 of 205"),
        Lie::of("appends a byte to message bodies", || drawn(Told::Lengthen))
            .counts(&[("messages.changed", 20.0)])
            .says("target", "20 messages arrived with a changed body", "20 of 205"),
        Lie::of("delivers empty message bodies", || drawn(Told::Empty))
            .counts(&[("messages.foreign", 20.0), (MISSING, 20.0)])
            .says("target", "20 messages arrived that no client of this run sent", "20 of 205"),
        Lie::of("delivers messages that no client sent", || drawn(Told::Invent))
            .counts(&[("messages.foreign", 20.0), (MISSING, 0.0)])
            .says("target", "20 messages arrived that no client of this run sent", "20 of 225"),
        Lie::of("delivers to the wrong client", || drawn(Told::Astray))
            .counts(&[("messages.astray", 20.0), (MISSING, 20.0)])
            .says("target", "20 messages reached clients that had not subscribed", "20 of 205"),
        Lie::of("also delivers to another client", || drawn(Told::Spill))
            .counts(&[("messages.astray", 20.0), (MISSING, 0.0)])
            .says("target", "20 messages reached clients that had not subscribed", "20 of 225"),
        Lie::of("delivers a message to two members of a shared subscription", || {
            shared(Told::ShareTwice)
        })
        .counts(&[(REPEATED, 20.0), (MISSING, 0.0)])
        .says("target", "20 messages arrived more than once.", "20 of 225 (8.89 %)"),
        Lie::of("drops messages for a shared subscription", || shared(Told::Drop))
            .counts(&[(MISSING, 20.0)])
            .says("target", "20 messages did not arrive.", "20 of 205"),
        Lie::of("drops messages on a topic with one sender", || rows(Told::Drop))
            .counts(&[(MISSING, 20.0), (REPEATED, 0.0)])
            .says("target", "20 messages did not arrive.", "20 of 205"),
        Lie::of("delivers messages on a topic with one sender twice", || rows(Told::Repeat))
            .counts(&[(MISSING, 0.0), (REPEATED, 20.0)])
            .says("target", "20 messages arrived more than once.", "20 of 225"),
        Lie::of("reorders messages of one sender", || rows(Told::Swap))
            .counts(&[("messages.reordered", 20.0), (MISSING, 0.0)])
            .says("target", "20 messages arrived out of order", "20 of 205"),
        Lie::of("delivers messages twice that are too short for a number", || {
            among(Told::Repeat, 4, "", "among = 4\nbytes = 16")
        })
        .counts(&[("messages.unjudged", 225.0)])
        .says("", "Rule `messages.repeated == 0` of stage `hold` had no value", "225 mess")
        .unknown(&[
            "messages.repeated == 0",
            "messages.reordered == 0",
            "messages.missing == 0",
        ]),
    ]
}

fn of_flags() -> Vec<Lie> {
    let two = "subscribe = [\"t/%i\", \"u/%i\"]";
    vec![
        Lie::of("works correctly with subscriptions of QoS 1 and 2", || at_qos(Told::None, 2))
            .counts(&[("messages.other_qos", 0.0), ("messages.early_dup", 0.0), (MISSING, 0.0)]),
        Lie::of("delivers every tenth message at QoS 0 instead of 1", || at_qos(Told::LowerQos, 1))
            .counts(&[("messages.other_qos", 20.0), (MISSING, 0.0)])
            .says("target", "20 messages arrived at another QoS", "20 of 205 (9.76 %)"),
        Lie::of("delivers every tenth message at QoS 1 instead of 2", || at_qos(Told::LowerQos, 2))
            .counts(&[("messages.other_qos", 20.0), (MISSING, 0.0)])
            .says("target", "20 messages arrived at another QoS", "20 of 205 (9.76 %)"),
        Lie::of("grants QoS 0 for a subscription at QoS 1 (SUBACK)", || {
            called(Told::LowerGrant, "subscribe = [\"t/%i\"]\nsubscribe_qos = 1", 0)
        })
        .counts(&[("subscriptions.lowered", 2.0), ("subscriptions.granted", 4.0)])
        .says("target", "2 subscriptions were granted at a lower QoS", "2 of 4 (50 %)"),
        Lie::of("delivers messages under another topic of the same client", move || {
            among(Told::OtherTopic, 4, two, "among = 4")
        })
        .counts(&[("messages.other_topic", 20.0), (MISSING, 0.0)])
        .says("target", "20 messages arrived under another topic", "20 of 205 (9.76 %)"),
        Lie::of("sets RETAIN on live messages", || drawn(Told::Retain))
            .counts(&[("messages.retained_live", 20.0), (MISSING, 0.0)])
            .says("target", "20 messages arrived with RETAIN", "20 of 205 (9.76 %)"),
        Lie::of("sets DUP on a first delivery", || at_qos(Told::Dup, 1))
            .counts(&[("messages.early_dup", 20.0), (REPEATED, 0.0), (MISSING, 0.0)])
            .says("target", "20 messages arrived with DUP", "20 of 205 (9.76 %)"),
    ]
}

fn of_kept_sessions() -> Vec<Lie> {
    vec![
        Lie::of("works correctly with persistent sessions while the plan cuts connections", || {
            cut_while_sending(Told::None)
        })
        .counts(&[("sessions.lost", 0.0), ("messages.early_dup", 0.0), (MISSING, 0.0)]),
        Lie::of("loses sessions that it should have kept", || cut(Told::Forget, 8))
            .counts(&[("sessions.lost", 4.0), ("resumed", 0.0)])
            .says("target", "4 returning clients had lost their session", "4 of 4 (100 %)"),
        Lie::of("drops messages of persistent sessions while the plan cuts connections", || {
            cut_while_sending(Told::AckAndDrop)
        })
        .says(
            "target",
            "messages did not arrive",
            "were for sessions that the server keeps",
        ),
    ]
}

fn of_times() -> Vec<Lie> {
    let flat: crate::lab_::Shown = |_| vec![("target.process.rss", 5e7)];
    let busy: crate::lab_::Shown =
        |ms| vec![("target.process.rss", 5e7), ("tester.psi.cpu_s", 0.6 * ms as f64 / 1_000.0)];
    vec![
        Lie::of("delivers every fiftieth message two seconds late", move || {
            watched(flat, fiftieth_late, "60s")
        })
        .says("target", "messages came later than", "(2 %)"),
        Lie::of("acknowledges three seconds late", move || watched(flat, acknowledged_late, "60s"))
            .says("target", "acknowledgements of messages (PUBACK, PUBCOMP) came later", "(100 %)"),
        Lie::of("acknowledges more and more slowly", move || watched(flat, later_and_later, "60s"))
            .says("target", "Answers (publish) became steadily slower", "R2 1.00"),
        Lie::of("answers PINGREQ after 1.5 seconds", move || watched(flat, pong_late, "60s")).says(
            "target",
            "answers to a heartbeat (PINGRESP) came later than",
            "(100 %)",
        ),
        Lie::of("works correctly, but stalls together with the tester's machine", move || {
            watched(busy, stalls, "60s")
        }),
    ]
}

fn of_answers() -> Vec<Lie> {
    vec![
        Lie::of("never acknowledges every tenth message (QoS 1)", || acknowledged(Told::NoAck, 1))
            .counts(&[("messages.unanswered", 20.0), ("messages.taken", 185.0), (MISSING, 0.0)])
            .says("target", "20 messages were never acknowledged.", "20 of 205 (9.76 %)"),
        Lie::of("never acknowledges every tenth message (QoS 2)", || acknowledged(Told::NoAck, 2))
            .counts(&[("messages.unanswered", 20.0), ("messages.taken", 185.0)])
            .says("target", "20 messages were never acknowledged.", "20 of 205"),
        Lie::of("sends no PUBCOMP", || acknowledged(Told::NoComp, 2))
            .counts(&[("messages.unanswered", 20.0), ("messages.taken", 185.0), (MISSING, 0.0)])
            .says("target", "20 messages were never acknowledged.", "20 of 205"),
        Lie::of("acknowledges messages that it drops", || acknowledged(Told::AckAndDrop, 1))
            .counts(&[("messages.taken", 205.0), (MISSING, 20.0)])
            .says("target", "20 messages did not arrive.", "20 of 205"),
        Lie::of("refuses messages: quota exceeded (PUBACK 0x97)", || {
            acknowledged(Told::AckWith(0x97), 1)
        })
        .counts(&[("messages.refused", 20.0), (MISSING, 0.0)])
        .says("target", "20 messages were refused", "20 x not taken 151"),
        Lie::of("refuses every second subscription (SUBACK 0x80)", || {
            called(Told::SubackWith(0x80), "subscribe = [\"t/%i\"]", 0)
        })
        .counts(&[("subscriptions.refused", 2.0), ("subscriptions.granted", 2.0)])
        .says("target", "2 subscriptions were refused", "2 x subscription refused 128"),
        Lie::of("refuses every second subscription (SUBACK 0x87 of MQTT 5)", || {
            called(Told::SubackWith(0x87), "version = 5\nsubscribe = [\"t/%i\"]", 0)
        })
        .counts(&[("subscriptions.refused", 2.0)])
        .says("target", "2 subscriptions were refused", "2 x subscription refused 135"),
        Lie::of("does not answer SUBSCRIBE", || drawn(Told::NoSuback))
            .counts(&[("subscriptions.unanswered", 4.0), (MISSING, 205.0)])
            .says("target", "4 subscriptions had no answer.", "4 of 4 (100 %)"),
        Lie::of("does not answer PINGREQ", || {
            called(Told::NoPong, &format!("keep_alive = \"1s\"\n{TIMES_OUT}"), 4)
        })
        .ends(&[(Cause::HeartbeatLost, 4)])
        .says("target", "4 x heartbeat_lost", "4 in phase online"),
    ]
}

fn of_sessions() -> Vec<Lie> {
    let hears = |then: &[FateStep]| [&[FateStep::Hear, say(&CONNACK)], then].concat();
    let (clean, half, reset) = (
        hears(&[FateStep::Close]),
        hears(&[say(&[0x30, 10, 0, 1, b't']), FateStep::Close]),
        hears(&[FateStep::Reset]),
    );
    vec![
        Lie::of("refuses every second login (CONNACK 5 of MQTT 3.1.1)", || {
            called(Told::ConnackWith(5), "", 2)
        })
        .ends(&[(Cause::BindRefused, 2)])
        .says("target", "The server refused clients", "2 x refused 5 (not authorised)"),
        Lie::of("refuses clients: server busy (CONNACK 0x89 of MQTT 5)", || {
            called(Told::ConnackWith(0x89), "version = 5", 2)
        })
        .ends(&[(Cause::BindRefused, 2)])
        .says(
            "target",
            "The server refused connections or messages: it is full",
            "2 x refused 137 (server busy)",
        ),
        Lie::of("does not answer CONNECT", || fated(TIMES_OUT, [FateStep::Hear, FateStep::Hold]))
            .ends(&[(Cause::BindTimedOut, 4)])
            .says("target", "4 x bind_timed_out", "4 in phase bind"),
        Lie::of("answers one CONNECT late", late_connack).says(
            "target",
            "1 answers to a Bind (CONNACK) came later than",
            "1 of 4 (25 %)",
        ),
        Lie::of("answers a CONNECT with a PINGRESP", || {
            fated("", [FateStep::Hear, say(&[0xd0, 0]), FateStep::Hold])
        })
        .ends(&[(Cause::ProtocolViolation, 4)])
        .says("target", "4 x protocol_violation", "4 in phase bind"),
        Lie::of("speaks HTTP on the port of MQTT", || {
            fated("", [FateStep::Hear, say(HTTP), FateStep::Close])
        })
        .ends(&[(Cause::ProtocolViolation, 4)])
        .says("target", "4 x protocol_violation", "4 in phase bind"),
        Lie::of("closes connections before it answers", || {
            fated("", [FateStep::Hear, FateStep::Close])
        })
        .ends(&[(Cause::ClosedClean, 4)])
        .says("target", "4 x closed_clean", "4 in phase bind"),
        Lie::of("closes connections without DISCONNECT", move || fated("", clean.clone()))
            .ends(&[(Cause::ClosedClean, 4)])
            .says("target", "4 x closed_clean", "4 in phase online"),
        Lie::of("closes connections in the middle of a packet", move || fated("", half.clone()))
            .ends(&[(Cause::ClosedMidFrame, 4)])
            .says("target", "4 x closed_mid_frame", "4 in phase online"),
        Lie::of("resets connections on loopback", move || fated("", reset.clone()))
            .ends(&[(Cause::Reset, 4)])
            .says("target", "4 x reset", "4 in phase online"),
        Lie::of("disconnects clients: session taken over (DISCONNECT 0x8e)", || {
            let blurt = Told::Blurt(&[0xe0, 2, 0x8e, 0]);
            called(blurt, "version = 5\nsubscribe = [\"t/%i\"]", 4)
        })
        .ends(&[(Cause::Kicked, 4)])
        .says(
            "target",
            "The server refused clients",
            "4 x kicked 142 (session taken over",
        ),
    ]
}

fn of_machines() -> Vec<Lie> {
    let flat: crate::lab_::Shown = |_| vec![("target.process.rss", 5e7)];
    let leak: crate::lab_::Shown = |ms| vec![("target.process.rss", 5e7 + 300.0 * ms as f64)];
    let fds: crate::lab_::Shown = |ms| vec![("target.process.fds", 100.0 + ms as f64 / 1_000.0)];
    let costs: crate::lab_::Shown =
        |ms| vec![("target.process.rss", 5e7 + 204.8 * ms.min(20_000) as f64)];
    vec![
        Lie::of("does not run", dead).says("target", "Nobody answers at mqtt://", "none of "),
        Lie::of("accepts no connections, so that its backlog fills", full)
            .ends(&[(Cause::SynTimedOut, 3), (Cause::BindTimedOut, 1)])
            .says("target", "3 x syn_timed_out", "3 in phase connect"),
        Lie::of("uses 2 KiB of memory for each client", move || watched(costs, growing, "30s"))
            .says(
                "target",
                "Each client adds 2 KiB to the memory of the server's process.",
                "R2 1.0000",
            ),
        Lie::of("reuses memory, so that its resident memory does not change", move || {
            watched(flat, growing, "30s")
        })
        .says("target", "The memory per client is unknown", "0 B wh"),
        Lie::of("uses more and more memory for the same clients", move || {
            watched(leak, untimed, "60s")
        })
        .says(
            "target",
            "The server's memory grew while the number of clients did not",
            "MiB",
        ),
        Lie::of("stalls for a moment every five seconds", move || watched(flat, stalls, "60s"))
            .says("target", "The server stalls about every 5 s.", "(heartbeat) took up to 64"),
        Lie::of("leaks file descriptors", move || watched(fds, untimed, "60s")).says(
            "target",
            "The server's open descriptors grew while the number of clients did not",
            "descriptors (+",
        ),
        Lie::of("works correctly while the plan resets its connections", || {
            broken_by_us("reset", 4)
        })
        .ends(&[(Cause::PlannedFault, 4), (Cause::Reset, 0)]),
        Lie::of("works correctly while the plan closes its connections", || {
            broken_by_us("truncate", 0)
        })
        .ends(&[(Cause::ClosedClean, 0), (Cause::ClosedMidFrame, 0)]),
    ]
}
