//! Two people who talk: how long it takes until a message is stored and until it is there, and
//! what it costs by its size.
//!
//! Pairs of people who are online say one message after the other, each stored before it is
//! acknowledged. The server with its log has one core, `holdline load` the other. *Latency*: first
//! each sender keeps some unanswered, which shows the highest rate; then fresh servers get modest
//! rates and the largest share of the highest one that tester and server keep, at planned moments.
//! *Sizes*: from 36 bytes to 64 KiB, some unanswered; CPU until the server is at rest.

use super::super::{SERVER_CORE, Scale};
use super::talk::{self, Talked};
use crate::holdline::Setup;
use crate::results::Outcome;
use serde_json::{Value, json};
use std::io;

/// Pairs.
const PAIRS: u32 = 50;
/// Messages without an answer that a sender has where no rate is planned.
const WINDOW: u32 = 8;
/// Messages by which the highest rate is found.
const MESSAGES: u32 = 400_000;
/// Bytes of a message where sizes are not asked: twelve Chinese characters, as Wildfire's.
const BYTES: u32 = 36;
/// Modest rates, messages a second.
const RATES: [u32; 2] = [200, 2_000];
/// Shares of the highest rate that are tried until one is kept, in hundredths.
const SHARES: [u32; 6] = [90, 80, 70, 60, 50, 40];
/// A rate is held for so long, seconds.
const HOLD_S: u32 = 20;
/// Sizes of a message, and how many messages each size is measured by: half a gigabyte at most.
const SIZES: [(u32, u32); 6] = [
    (36, 400_000),
    (256, 400_000),
    (1_024, 200_000),
    (4_096, 100_000),
    (16_384, 30_000),
    (65_536, 8_000),
];

/// Rule that all messages were sent in time.
const UNSENT: &str = "messages.unsent == 0";
/// Rules that depend on the machine. Where the store has no room for now the server says that it is
/// busy, and what is said again comes behind what was said after it.
const OF_THE_MACHINE: [&str; 2] = [UNSENT, "messages.reordered == 0"];

/// Messages to send, and their pace.
#[derive(Clone, Copy)]
enum Pace {
    /// So many messages in all, with some of each sender unanswered.
    Messages(u32),
    /// So many messages a second, for so many seconds.
    Rate(u32, u32),
}

/// Send and delivery latency at modest rates and near the highest.
pub fn latency(scale: Scale) -> io::Result<Outcome> {
    let (messages, hold_s) = (scale.of(MESSAGES), scale.of(HOLD_S));
    let mut outcome = Outcome::new(json!({
        "pairs": PAIRS, "bytes": BYTES, "window": WINDOW, "messages": messages,
        "rates": RATES, "shares_tried": SHARES, "hold_s": hold_s, "server": setup().plan()?,
        "latency": "from the planned moment; stored before it is acknowledged",
        "cores": "the server with its log on one, holdline load on the other",
    }));
    let (highest, _) = talk(Pace::Messages(messages), BYTES, "as fast as may be", &mut outcome)?;
    for rate in RATES {
        talk(Pace::Rate(rate, hold_s), BYTES, &format!("{rate} a second"), &mut outcome)?;
    }
    for share in SHARES {
        let rate = (highest * f64::from(share) / 100.0) as u32;
        let mut tried = Outcome::new(Value::Null);
        let (_, kept) = talk(Pace::Rate(rate, hold_s), BYTES, "near the highest", &mut tried)?;
        // A quick run is for trying it out, also on a machine that keeps no pace.
        if kept || scale.quick && SHARES.last() == Some(&share) {
            outcome.figures.append(&mut tried.figures);
            outcome.figure("near the highest: of it", f64::from(share), "%");
            outcome.detail("near the highest", tried.details["near the highest"].clone());
            return Ok(outcome);
        }
        outcome.detail(&format!("{share} % of the highest, not kept"), tried.details);
    }
    Err(io::Error::other("no share of the highest rate was kept"))
}

/// CPU a message and rate by size.
pub fn sizes(scale: Scale) -> io::Result<Outcome> {
    let mut outcome = Outcome::new(json!({
        "pairs": PAIRS, "window": WINDOW, "server": setup().plan()?,
        "bytes_and_messages": SIZES.map(|(bytes, messages)| (bytes, scale.of(messages))),
        "cpu": "the server's process, its log included, from the first send until it is at rest",
        "cores": "the server with its log on one, holdline load on the other",
    }));
    for (bytes, messages) in SIZES {
        let pace = Pace::Messages(scale.of(messages));
        talk(pace, bytes, &format!("{bytes} bytes"), &mut outcome)?;
    }
    Ok(outcome)
}

fn setup() -> Setup {
    Setup { shards: 1, core: Some(SERVER_CORE), ..Setup::default() }
}

/// Lets the pairs talk and adds figures under `name`: messages a second, and whether the planned
/// rate was kept by both sides.
fn talk(pace: Pace, bytes: u32, name: &str, outcome: &mut Outcome) -> io::Result<(f64, bool)> {
    let server = setup().start()?;
    let talked = talk::written(&server, &plan(pace, bytes))?;
    let kept = match pace {
        Pace::Messages(_) => true,
        Pace::Rate(..) => !talked.is_saturated(),
    };
    let rules = talked.held_but(&OF_THE_MACHINE)?;
    let is_unsent = |rule: &Value| rule["rule"] == UNSENT && rule["held"] != true;
    let all_sent = !rules.iter().any(is_unsent);
    let send = talked.stage("send")?;
    let taken = send.counts.figure("messages.taken");
    let cpu_s = talked.cpu_s("send", "quiet")?;
    let sends = match pace {
        Pace::Messages(_) => taken / talked.sending_s(send),
        Pace::Rate(_, hold_s) => taken / f64::from(hold_s),
    };
    outcome.figure(&format!("{name}: CPU"), 1e6 * cpu_s / taken, "µs a message");
    outcome.figure(&format!("{name}: sends"), sends, "a second");
    for (latency, us) in Talked::latencies(send) {
        outcome.figure(&format!("{name}: {latency}"), us, "µs");
    }
    let told = json!({
        "codes": talked.run.total.codes, "taken": taken, "cpu_s": cpu_s,
        "received": send.counts.figure("messages.received"),
        "the tester of itself": talked.run.saturation, "rules of the machine": rules,
    });
    outcome.detail(name, told);
    Ok((sends, kept && all_sent))
}

/// Each sender talks to one receiver, who is there.
fn plan(pace: Pace, bytes: u32) -> String {
    let (hold, what, rule) = match pace {
        Pace::Messages(all) => (
            "10m".to_owned(),
            format!("messages = {all}\npace = {{ window = {WINDOW} }}"),
            "\"messages.owed == 0\"",
        ),
        Pace::Rate(per_s, hold_s) => (
            format!("{hold_s}s"),
            format!("pace = {{ per_s = {per_s}.0 }}"),
            "\"messages.unsent == 0\"",
        ),
    };
    format!(
        "name = \"pairs\"\npass = [\"accounts == 1\", \"unexplained == 0\"]\n\n\
         [[group]]\nname = \"senders\"\nuser = \"s_%i\"\nid = \"c_s_%i\"\nthreads = 1\n\n\
         [[group]]\nname = \"receivers\"\nuser = \"r_%i\"\nid = \"c_r_%i\"\nthreads = 1\n\n\
         [[stage]]\nname = \"connect\"\nclients = {{ senders = {PAIRS}, receivers = {PAIRS} }}\n\
         hold = \"1s\"\npass = [\"online_share == 1\", \"errors == 0\"]\n\
         stop_on_failure = true\n\n\
         [[stage]]\nname = \"send\"\nhold = \"{hold}\"\n\
         pass = [\"messages.missing == 0\", \"messages.repeated == 0\", \
         \"messages.reordered == 0\", \"messages.changed == 0\", \"errors == 0\", {rule}]\n\n\
         [[stage.traffic.senders]]\nwhat = \"publish\"\ntopic = \"r_%i\"\nbytes = {bytes}\n\
         {what}\n\n\
         [[stage]]\nname = \"quiet\"\nhold = \"4s\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plans_are_plans() {
        for pace in [Pace::Messages(MESSAGES), Pace::Rate(RATES[0], HOLD_S)] {
            assert_eq!(talk::is_plan(&plan(pace, BYTES)).map(|plan| plan.stages.len()), Ok(3));
        }
    }
}
