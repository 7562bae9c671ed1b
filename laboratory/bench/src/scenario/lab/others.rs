//! The published tests of others: `WuKongIM`'s two, with groups, and goim's, with one room.
//!
//! As `research/im.md` 1.2 and 8 have them. *W11*: a hundred groups of a hundred, of whom one is
//! online and sends, each message stored before it is acknowledged; theirs sends twenty million,
//! ours so many that twenty million entries of members' inboxes are audited. Sixteen people share
//! the groups, for a plan has no more kinds of conversations. *W12*: one group of ten thousand,
//! half of whom are online, 40 messages a second. *W13*: one room, 40 messages a second; theirs had
//! a million there, ours has as many as a process may have descriptors, and 36 bytes a message
//! instead of 10, which is what it takes to tell a copy from a loss. Where the tester cannot
//! receive so much on one core, the rate is halved until it can, and told.

use super::super::{SERVER_CORE, Scale};
use super::talk::{self, Talked};
use crate::holdline::Setup;
use crate::results::Outcome;
use serde_json::json;
use std::io;

/// People of W11 who are online and send, and the groups that each of them is in.
const SENDERS: u32 = 16;
const GROUPS: u32 = 100;
const MEMBERS: u32 = 100;
/// Messages of W11: a hundred times as many entries.
const SENDS: u32 = 200_000;
const WINDOW: u32 = 64;
/// The group of W12, and who of it is online.
const LARGE: u32 = 10_000;
const ONLINE: u32 = 5_000;
/// Senders of a large group, or of a room.
const SPEAKERS: u32 = 4;
/// Members of the room of W13: below a process's 20,000 descriptors.
const ROOM: u32 = 15_000;
/// Messages a second of W12 and W13, and those that are tried when they are too many.
const RATES: [u32; 5] = [40, 20, 10, 5, 2];
/// A rate is held for so long, seconds.
const HOLD_S: u32 = 30;
/// Bytes of a message.
const BYTES: u32 = 36;
/// Rates that each reports, divided by its cores.
const W11_A_CORE: f64 = 2_500.0;
const W12_A_CORE: f64 = 12_500.0;
const W13_A_CORE: f64 = 1_700_000.0;
/// Rules whose end depends on the machine: they are reported with the figures.
const OF_THE_MACHINE: [&str; 3] =
    ["cpu_limited == 1", "target.process.cpu.last < 0.1", "messages.tail_ms <= 1000"];

const STORED: &str = "[\"messages.owed == 0\", \"messages.missing == 0\", \
    \"messages.repeated == 0\", \"messages.reordered == 0\", \"messages.changed == 0\", \
    \"messages.tail_ms <= 1000\", \"errors == 0\", \"cpu_limited == 1\"]";
const HEARD: &str = "[\"messages.owed == 0\", \"messages.missing == 0\", \
    \"messages.repeated == 0\", \"messages.reordered == 0\", \"messages.changed == 0\", \
    \"errors == 0\"]";
const AUDITED: &str = "[\"audit.missing == 0\", \"audit.unacknowledged == 0\", \
    \"audit.differs == 0\", \"audit.repeated == 0\", \"audit.reordered == 0\", \
    \"audit.changed == 0\", \"errors == 0\"]";
const COME: &str = "pass = [\"online_share == 1\", \"errors == 0\"]\nstop_on_failure = true";

/// A hundred groups of a hundred, one of each online.
pub fn w11(scale: Scale) -> io::Result<Outcome> {
    let sends = scale.of(SENDS);
    let server = setup(MEMBERS).start()?;
    let mut outcome = Outcome::new(json!({
        "groups": GROUPS, "members": MEMBERS, "online": SENDERS, "sends": sends,
        "window": WINDOW, "bytes": BYTES, "server": server.plan(),
        "theirs": "WuKongIM 2.1.2: 40,000 sends a second, 400 to 600 ms, on 16 cores",
        "cores": "the server with its log on one, holdline load on the other",
    }));
    let talked = talk::written(&server, &groups(sends))?;
    let of_the_machine = talked.held_but(&OF_THE_MACHINE)?;
    let send = talked.stage("send")?;
    let cpu_s = talked.cpu_s("send", "quiet")?;
    let taken = send.counts.figure("messages.taken");
    let entries = talked.stage("audit")?.counts.figure("audit.entries");
    outcome.figure("sends a second a core", taken / cpu_s, "a second");
    outcome.figure("against WuKongIM's", taken / cpu_s / W11_A_CORE, "times");
    outcome.figure("distributions a second a core", entries / cpu_s, "a second");
    outcome.figure("CPU", 1e6 * cpu_s / taken, "µs a send");
    outcome.figure("sends", taken / talked.sending_s(send), "a second");
    for (name, us) in Talked::latencies(send).filter(|(name, _)| name.starts_with("ack")) {
        outcome.figure(&name, us, "µs");
    }
    outcome.detail("rules of the machine", of_the_machine);
    outcome.detail("the tester of itself", talked.run.saturation.clone());
    let notes = talked.run.notes.iter().map(|note| note.text.clone());
    outcome.detail("audit", notes.collect::<Vec<_>>());
    Ok(outcome)
}

/// One group of ten thousand, half of whom are online.
pub fn w12(scale: Scale) -> io::Result<Outcome> {
    let (members, online) = (scale.of(LARGE), scale.of(ONLINE));
    let mut outcome = Outcome::new(json!({
        "members": members, "online": online, "bytes": BYTES, "rates_tried": RATES,
        "hold_s": scale.of(HOLD_S), "server": setup(members).plan()?,
        "theirs": "WuKongIM 2.1.2: 200,000 deliveries a second on 16 cores",
        "cores": "the server with its log on one, holdline load on the other",
    }));
    let plan = |rate| large_group((members, online), rate, scale.of(HOLD_S));
    ladder(&setup(members), &plan, W12_A_CORE, &mut outcome)?;
    Ok(outcome)
}

/// One room.
pub fn w13(scale: Scale) -> io::Result<Outcome> {
    let members = scale.of(ROOM);
    let mut outcome = Outcome::new(json!({
        "members": members, "bytes": BYTES, "rates_tried": RATES,
        "hold_s": scale.of(HOLD_S), "server": setup(MEMBERS).plan()?,
        "theirs": "goim 2: a million in the room, 10 bytes, 35.9 million deliveries a second by 20 \
                   to 23 busy threads",
        "cores": "the server on one, holdline load on the other",
    }));
    let plan = |rate| room(members, rate, scale.of(HOLD_S));
    ladder(&setup(MEMBERS), &plan, W13_A_CORE, &mut outcome)?;
    Ok(outcome)
}

fn setup(group_members: u32) -> Setup {
    Setup { shards: 1, core: Some(SERVER_CORE), group_members, ..Setup::default() }
}

/// The first rate that the tester keeps, and what a delivery costs there.
fn ladder(
    setup: &Setup,
    plan: &dyn Fn(u32) -> String,
    theirs: f64,
    outcome: &mut Outcome,
) -> io::Result<()> {
    for rate in RATES {
        let server = setup.start()?;
        let talked = talk::written(&server, &plan(rate))?;
        outcome.detail(&format!("{rate} a second: of itself"), talked.run.saturation.clone());
        if talked.is_saturated() {
            continue;
        }
        let of_the_machine = talked.held_but(&OF_THE_MACHINE)?;
        let send = talked.stage("send")?;
        let cpu_s = talked.cpu_s("send", "quiet")?;
        let of = |name: &str| send.counts.figure(name);
        let (received, skipped) = (of("messages.received"), of("messages.skipped"));
        outcome.figure("deliveries a second a core", received / cpu_s, "a second");
        outcome.figure("against theirs", received / cpu_s / theirs, "times");
        outcome.figure("CPU", 1e9 * cpu_s / received, "ns a delivery");
        outcome.figure("messages a second", f64::from(rate), "a second");
        outcome.figure("left out, and told", 100.0 * skipped / (received + skipped), "%");
        for (name, us) in Talked::latencies(send) {
            outcome.figure(&name, us, "µs");
        }
        outcome.detail("rules of the machine", of_the_machine);
        let told = json!({ "received": received, "cpu_s": cpu_s, "skipped": skipped });
        outcome.detail("messages", told);
        return Ok(());
    }
    Err(io::Error::other("the tester keeps none of the rates"))
}

fn head(name: &str) -> String {
    format!("name = \"{name}\"\npass = [\"accounts == 1\", \"unexplained == 0\"]\n\n")
}

/// Sixteen people who each own a part of the groups, and 99 more members of each who are away. A
/// message is known by its sender's number, so that each has one of its own.
fn groups(sends: u32) -> String {
    let away = MEMBERS - 1;
    let mut text = head("w11");
    let (mut makes, mut come, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    let mut traffic = String::new();
    for sender in 0..SENDERS {
        let count = GROUPS * (sender + 1) / SENDERS - GROUPS * sender / SENDERS;
        let all = sends * (sender + 1) / SENDERS - sends * sender / SENDERS;
        text += &format!(
            "[[group]]\nname = \"s{sender}\"\nuser = \"s_%i\"\nid = \"c_s_%i\"\n\
             first = {sender}\nthreads = 1\nlite = true\n\n\
             [[conversation]]\nname = \"g{sender}\"\ncount = {count}\nowner = \"s{sender}\"\n\
             members = {{ s{sender} = 1, away = {away} }}\n\n"
        );
        traffic += &format!(
            "[[stage.traffic.s{sender}]]\nwhat = \"publish\"\ntopic = \"g{sender}\"\n\
             among = {count}\nloops = {}\nbytes = {BYTES}\npace = {{ window = {WINDOW} }}\n\n",
            (all / count).max(1)
        );
        makes.push(format!("\"g{sender}\""));
        come.push(format!("s{sender} = 1"));
        gone.push(format!("s{sender} = 0"));
    }
    let (makes, come, gone) = (makes.join(", "), come.join(", "), gone.join(", "));
    text += &format!(
        "[[group]]\nname = \"away\"\nuser = \"away_%i\"\nid = \"c_away_%i\"\n\n\
         [[group]]\nname = \"auditors\"\nuser = \"away_%i\"\nid = \"audit_away_%i\"\n\
         audits = true\n\n\
         [[stage]]\nname = \"accounts\"\nclients = {{ away = {away} }}\n{COME}\n\n\
         [[stage]]\nname = \"connect\"\nclients = {{ away = 0, {come} }}\nhold = \"1s\"\n{COME}\n\n\
         [[stage]]\nname = \"groups\"\nmakes = [{makes}]\nhold = \"3s\"\n{COME}\n\n\
         [[stage]]\nname = \"send\"\nhold = \"2h\"\npass = {STORED}\n\n{traffic}\
         [[stage]]\nname = \"quiet\"\nhold = \"4s\"\npass = [\"target.process.cpu.last < 0.1\"]\n\n\
         [[stage]]\nname = \"audit\"\nclients = {{ {gone}, auditors = {away} }}\n\
         arrive = {{ shape = \"window\", open = 16 }}\nhold = \"2h\"\npass = {AUDITED}\n"
    );
    text
}

/// One group, of whom a part is online and four of those speak.
fn large_group((members, online): (u32, u32), rate: u32, hold_s: u32) -> String {
    let (others, there) = (members - SPEAKERS, online - SPEAKERS);
    head("w12")
        + &format!(
            "[[group]]\nname = \"speakers\"\nuser = \"u_%i\"\nid = \"c_u_%i\"\nthreads = 1\n\
             lite = true\n\n\
             [[group]]\nname = \"members\"\nuser = \"m_%i\"\nid = \"c_m_%i\"\nthreads = 1\n\n\
             [[conversation]]\nname = \"group\"\nowner = \"speakers\"\n\
             members = {{ speakers = {SPEAKERS}, members = {others} }}\n\n\
             [[stage]]\nname = \"accounts\"\nclients = {{ members = {others} }}\n\
             arrive = {{ shape = \"window\", open = 100 }}\n{COME}\n\n\
             [[stage]]\nname = \"connect\"\n\
             clients = {{ speakers = {SPEAKERS}, members = {there} }}\nhold = \"1s\"\n{COME}\n\n\
             [[stage]]\nname = \"groups\"\nmakes = [\"group\"]\nhold = \"5s\"\n{COME}\n\n"
        )
        + &said("group", rate, hold_s)
}

/// Stages of a plan in which speakers send at this rate together, and then a quiet one.
fn said(topic: &str, rate: u32, hold_s: u32) -> String {
    let (every_ms, loops) = (1_000 * SPEAKERS / rate, (hold_s * rate / SPEAKERS).max(1));
    format!(
        "[[stage]]\nname = \"send\"\nhold = \"10m\"\npass = {HEARD}\n\n\
         [[stage.traffic.speakers]]\nwhat = \"publish\"\ntopic = \"{topic}\"\namong = 1\n\
         bytes = {BYTES}\nloops = {loops}\npace = {{ every = \"{every_ms}ms\" }}\n\n\
         [[stage]]\nname = \"quiet\"\nhold = \"5s\"\n\
         pass = [\"target.process.cpu.last < 0.1\"]\n"
    )
}

/// One chatroom, in which everybody is who is there, and four speak.
fn room(members: u32, rate: u32, hold_s: u32) -> String {
    let others = members - SPEAKERS;
    head("w13")
        + &format!(
            "[[group]]\nname = \"speakers\"\nuser = \"u_%i\"\nid = \"c_u_%i\"\nthreads = 1\n\
             lite = true\nsubscribe = [\"room-0\"]\n\n\
             [[group]]\nname = \"members\"\nuser = \"m_%i\"\nid = \"c_m_%i\"\nthreads = 1\n\
             subscribe = [\"room-0\"]\n\n\
             [[conversation]]\nname = \"room\"\nroom = true\nowner = \"speakers\"\n\
             members = {{ speakers = {SPEAKERS}, members = {others} }}\n\n\
             [[stage]]\nname = \"room\"\nmakes = [\"room\"]\nhold = \"1s\"\n\
             pass = [\"errors == 0\"]\nstop_on_failure = true\n\n\
             [[stage]]\nname = \"connect\"\n\
             clients = {{ speakers = {SPEAKERS}, members = {others} }}\n\
             arrive = {{ shape = \"window\", open = 100 }}\nhold = \"3s\"\n{COME}\n\n"
        )
        + &said("room", rate, hold_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plans_are_plans() {
        let stages = |plan: &str| talk::is_plan(plan).map(|plan| plan.stages.len());
        assert_eq!(stages(&groups(SENDS)), Ok(6));
        assert_eq!(stages(&large_group((LARGE, ONLINE), 40, HOLD_S)), Ok(5));
        assert_eq!(stages(&room(ROOM, 40, HOLD_S)), Ok(4));
    }

    #[test]
    fn the_groups_are_a_hundred_of_a_hundred() {
        let plan = talk::is_plan(&groups(SENDS)).expect("a plan");
        let all: u32 = plan.conversations.iter().map(|known| known.count).sum();
        let of_each = |members: u32| {
            plan.conversations.iter().all(|known| known.members.values().sum::<u32>() == members)
        };
        assert!(all == GROUPS && of_each(MEMBERS), "{all}");
    }
}
