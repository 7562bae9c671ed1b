//! The lies of a server of instant messaging: what it does, what the report must count, and say.

use crate::chat::{Chat, Lie as Told};
use crate::lab_::{Around, run};
use crate::list::{Lie, MESSAGES};
use lab::cause::Cause;
use lab::run::Run;

/// One who speaks to so many in turn, all messages in all; then everybody's inbox is audited.
fn rounds(told: Told, receivers: u64, keys: &str) -> Run {
    let server = Chat::start(told);
    let loops = MESSAGES / receivers;
    let plan = format!(
        r#"
[[group]]
name = "senders"
user = "u%i"
threads = 1
{keys}
[[group]]
name = "receivers"
user = "r%i"
threads = 2
[[group]]
name = "auditors"
user = "r%i"
audits = true
threads = 2
[[stage]]
name = "hold"
clients = {{ senders = 1, receivers = {receivers} }}
arrive = {{ shape = "burst" }}
hold = "1h"
pass = [
    "messages.owed == 0",
    "messages.missing == 0",
    "messages.repeated == 0",
    "messages.reordered == 0",
    "messages.tail_ms <= 1000",
]
[[stage.traffic.senders]]
what = "publish"
topic = "r%i"
among = {receivers}
loops = {loops}
pace = {{ window = 1_000 }}
[[stage]]
name = "audit"
clients = {{ senders = 0, receivers = 0, auditors = {receivers} }}
arrive = {{ shape = "burst" }}
hold = "1h"
pass = [
    "audit.missing == 0",
    "audit.unacknowledged == 0",
    "audit.differs == 0",
    "audit.repeated == 0",
    "audit.reordered == 0",
    "audit.changed == 0",
]
"#
    );
    let around = Around::of(Some(&server), MESSAGES);
    run(&plan, &format!("im://{}", server.address()), around)
}

/// One who speaks to so many groups of four others in turn; then all five inboxes are audited.
fn groups(told: Told, count: u64) -> Run {
    let server = Chat::start(told);
    let loops = MESSAGES / count;
    let plan = format!(
        r#"
[[group]]
name = "senders"
user = "u%i"
threads = 1
lite = true
[[group]]
name = "receivers"
user = "r%i"
threads = 2
[[group]]
name = "auditors"
user = "r%i"
audits = true
threads = 2
[[group]]
name = "own-auditors"
user = "u%i"
audits = true
threads = 1
[[conversation]]
name = "all"
count = {count}
owner = "senders"
members = {{ senders = 1, receivers = 4 }}
[[stage]]
name = "hold"
clients = {{ senders = 1, receivers = 4 }}
makes = ["all"]
arrive = {{ shape = "burst" }}
hold = "1h"
pass = ["messages.owed == 0", "messages.missing == 0", "messages.reordered == 0"]
[[stage.traffic.senders]]
what = "publish"
topic = "all"
among = {count}
loops = {loops}
pace = {{ window = 1_000 }}
[[stage]]
name = "audit"
clients = {{ senders = 0, receivers = 0, auditors = 4, own-auditors = 1 }}
arrive = {{ shape = "burst" }}
hold = "1h"
pass = ["audit.missing == 0", "audit.unacknowledged == 0", "audit.differs == 0"]
"#
    );
    let around = Around::of(Some(&server), MESSAGES);
    run(&plan, &format!("im://{}", server.address()), around)
}

/// To five in turn: each tenth is for the last of them.
fn five(told: Told) -> Run {
    rounds(told, 5, "")
}

/// Four that log in, of whom every second one is not let in.
fn refused(reason: u32) -> Run {
    let server = Chat::start(Told::Refuse(reason));
    let plan = "[[group]]\nname = \"g\"\nthreads = 1\ntimeout = \"600s\"\n[[stage]]\n\
                name = \"hold\"\nclients = { g = 4 }\narrive = { shape = \"burst\" }\n\
                hold = \"1s\"\n";
    let around = Around { ends: 2, ..Around::of(Some(&server), 0) };
    run(plan, &format!("im://{}", server.address()), around)
}

const MISSING: (&str, f64) = ("messages.missing", 0.0);
const REPEATED: (&str, f64) = ("messages.repeated", 0.0);
const AUDITED: (&str, f64) = ("audit.made", 1.0);
const MISSED: &str = "20 acknowledged messages are missing in inboxes";

/// All of them.
pub fn lies() -> Vec<Lie> {
    let mut all = of_conversations();
    all.extend(of_groups());
    all.extend(of_answers());
    all
}

fn of_conversations() -> Vec<Lie> {
    vec![
        Lie::of("works correctly with conversations (IM)", || five(Told::None)).counts(&[
            ("messages.taken", 205.0),
            ("messages.received", 410.0),
            ("messages.owed", 0.0),
            ("messages.unjudged", 0.0),
            ("messages.pulled", 205.0),
            MISSING,
            REPEATED,
            AUDITED,
            ("audit.missing", 0.0),
            ("audit.unacknowledged", 0.0),
            ("audit.differs", 0.0),
        ]),
        Lie::of("acknowledges messages that it drops (IM)", || five(Told::Drop))
            .counts(&[("messages.missing", 20.0), ("audit.missing", 20.0), AUDITED])
            .says("target", MISSED, "20 of 205"),
        Lie::of("delivers messages without storing them (IM)", || five(Told::Forget))
            .counts(&[("audit.missing", 20.0), MISSING])
            .says("target", MISSED, "20 of 205"),
        Lie::of("delivers messages twice (IM)", || five(Told::Repeat))
            .counts(&[("messages.repeated", 20.0), ("audit.repeated", 0.0), MISSING])
            .says("target", "20 messages arrived more than once", "20 of 430"),
        Lie::of("stores messages twice in an inbox (IM)", || five(Told::StoreTwice))
            .counts(&[("messages.repeated", 40.0), ("audit.repeated", 20.0), MISSING])
            .says("target", "20 messages are duplicated in an inbox", "20 of 205"),
        Lie::of("reorders messages of a conversation (IM)", || rounds(Told::Swap, 1, ""))
            .counts(&[("messages.reordered", 40.0), ("audit.reordered", 20.0), MISSING, REPEATED])
            .says("target", "20 messages are out of order in an inbox", "20 of 205"),
        Lie::of("changes message bodies (IM)", || five(Told::Change))
            .counts(&[("messages.changed", 40.0), ("audit.changed", 20.0), ("audit.missing", 20.0)])
            .says("target", "40 messages arrived with a changed body", "40 of 410"),
        Lie::of("stores messages in the wrong inbox (IM)", || five(Told::Astray))
            .counts(&[("messages.astray", 40.0), ("messages.missing", 20.0)])
            .says("target", MISSED, "20 of 205"),
    ]
}

/// Lies about groups: a message to a group stands in five inboxes, 1,025 entries in all.
fn of_groups() -> Vec<Lie> {
    vec![
        Lie::of("works correctly with groups (IM)", || groups(Told::None, 5)).counts(&[
            ("messages.taken", 205.0),
            ("messages.received", 820.0 + 1_025.0),
            ("messages.pulled", 1_025.0),
            ("messages.unjudged", 0.0),
            ("messages.astray", 0.0),
            ("audit.expected", 1_025.0),
            ("audit.entries", 1_025.0),
            ("audit.missing", 0.0),
            ("audit.unacknowledged", 0.0),
            ("audit.differs", 0.0),
            MISSING,
            REPEATED,
            AUDITED,
        ]),
        Lie::of("does not store group messages for one member (IM)", || groups(Told::Drop, 5))
            .counts(&[("messages.missing", 20.0), ("audit.missing", 20.0), REPEATED, AUDITED])
            .says("target", MISSED, "20 of 1,025"),
        Lie::of("does not store group messages for their sender (IM)", || groups(Told::KeepOwn, 5))
            .counts(&[("audit.missing", 20.0), MISSING, REPEATED, AUDITED])
            .says("target", MISSED, "20 of 1,025"),
        Lie::of("stores group messages twice in one inbox (IM)", || groups(Told::StoreTwice, 5))
            .counts(&[("messages.repeated", 40.0), ("audit.repeated", 20.0), MISSING])
            .says("target", "20 messages are duplicated in an inbox", "20 of 1,025"),
        Lie::of("reorders group messages in one inbox (IM)", || groups(Told::Swap, 1))
            .counts(&[("messages.reordered", 40.0), ("audit.reordered", 20.0), MISSING, REPEATED])
            .says("target", "20 messages are out of order in an inbox", "20 of 1,025"),
    ]
}

fn of_answers() -> Vec<Lie> {
    vec![
        Lie::of("stores messages without acknowledging them (IM)", || five(Told::NoSent))
            .counts(&[("messages.unanswered", 20.0), ("messages.owed", 20.0), MISSING])
            .says("target", "20 messages were never acknowledged.", "20 of 205")
            .unknown(&["audit.missing == 0", "audit.unacknowledged == 0"]),
        Lie::of("refuses messages: no such account (Failed 1 of IM)", || five(Told::Fail(1)))
            .counts(&[("messages.refused", 20.0), ("audit.missing", 0.0), MISSING])
            .says("target", "20 messages were refused", "20 x not taken 1"),
        Lie::of("refuses messages at first: busy (Failed 5 of IM)", || five(Told::Busy))
            .counts(&[("messages.taken", 205.0), ("messages.refused", 0.0), MISSING, REPEATED])
            .says(
                "target",
                "The server refused connections or messages: it is full",
                "20 x not taken 5 (busy)",
            ),
        Lie::of("refuses every second login (Refused 1 of IM)", || refused(1))
            .ends(&[(Cause::BindRefused, 2)])
            .says(
                "target",
                "The server refused clients",
                "2 x refused 1 (wrong name, password, token",
            ),
    ]
}
