//! Validation of groups, stages, traffic and faults.
//!
//! This module knows the plan's other parts only by their names. Part of [`check`](super::check):
//! the same words, the same invariant.

use super::{
    At, BODY_BYTES_MAX, BODY_BYTES_MIN, CLIENTS_MAX, FAULTS_MAX, PlanProblem, RATE_MAX, TIME_MAX,
    TRAFFIC_MAX, rules, urls,
};
use lab::order::Cut;
use lab::plan::{
    Arrival, Fault, FaultKind, Group, Network, Pace, Plan, Span, Stage, Traffic, What,
};

const TIME: &str = "a time up to 31 days: write 10ms, 90s, 2m, 2h or 1d";
const ABOVE: &str = "a rate a second above zero and at most 100 million, for example 1000";
const SHARE: &str = "a share from 0 to 1, for example 0.1 for ten in a hundred";
const QOS: &str = "a quality of service: 0, 1 or 2";

pub(super) fn group(at: &At, plan: &Plan, group: &Group) -> Result<(), PlanProblem> {
    urls(&at.key("url"), &group.url)?;
    if let Some(id) = &group.id {
        let fits = id.contains("%i") && id.len() <= 200;
        at.key("id").must(fits, id, "up to 200 characters with %i, the client's number")?;
    }
    let times = [
        ("keep_alive", group.keep_alive),
        ("timeout", group.timeout),
        ("back_after", group.back_after),
        ("back_max", group.back_max),
    ];
    for (key, span) in times {
        at.key(key).must(span <= TIME_MAX, span, TIME)?;
    }
    let keep = group.keep_alive <= Span::from_secs(65_535);
    at.key("keep_alive").must(keep, group.keep_alive, "at most 65535s: protocols carry 16 bits")?;
    at.key("timeout").must(!group.timeout.is_zero(), group.timeout, "above zero")?;
    at.key("subscribe_qos").must(group.subscribe_qos <= 2, group.subscribe_qos, QOS)?;
    at.key("subscribe").must(group.subscribe.len() <= 64, group.subscribe.len(), "at most 64")?;
    if let Some(version) = group.version {
        let need = "3, 4 or 5 (MQTT), 5, 6 or 7 (MIOP); the defaults are 4 and 7";
        at.key("version").must((3..=7).contains(&version), version, need)?;
    }
    if let Some(secret) = &group.secret {
        let hex = secret.len() % 2 == 0 && secret.chars().all(|c| c.is_ascii_hexdigit());
        at.key("secret").must(hex, "(hidden)", "hexadecimal digits, two per byte")?;
    }
    for (sender, share) in &group.hears {
        let at = at.key("hears").key(sender);
        known(&at, plan, sender)?;
        let fits = share.is_finite() && *share > 0.0;
        at.must(fits, share, "receivers of one message in all, above zero")?;
    }
    Ok(())
}

pub(super) fn stage(at: &At, plan: &Plan, stage: &Stage) -> Result<(), PlanProblem> {
    let clients = at.key("clients");
    for group in stage.clients.keys() {
        known(&clients.key(group), plan, group)?;
    }
    let all: u64 = stage.clients.values().map(|count| u64::from(*count)).sum();
    clients.must(all <= CLIENTS_MAX, all, "at most 100 million clients in all groups")?;
    at.key("hold").must(stage.hold <= TIME_MAX, stage.hold, TIME)?;
    let waits = stage.arrive_max <= TIME_MAX && !stage.arrive_max.is_zero();
    at.key("arrive_max").must(waits, stage.arrive_max, TIME)?;
    arrival(&at.key("arrive"), &stage.arrive)?;
    for (group, sent) in &stage.traffic {
        let at = at.key("traffic").key(group);
        known(&at, plan, group)?;
        at.must(sent.len() <= TRAFFIC_MAX, sent.len(), "at most 16 kinds of traffic a group")?;
        for (number, traffic) in sent.iter().enumerate() {
            self::traffic(&at.entry(number, &(number + 1).to_string()), traffic)?;
        }
    }
    let faults = at.key("fault");
    let count = stage.faults.len();
    faults.must(count <= FAULTS_MAX, count, "at most 64 faults a stage")?;
    for (number, fault) in stage.faults.iter().enumerate() {
        self::fault(&faults.entry(number, &(number + 1).to_string()), stage, fault)?;
    }
    rules(&at.key("pass"), &stage.pass)
}

pub(super) fn known(at: &At, plan: &Plan, group: &str) -> Result<(), PlanProblem> {
    if plan.groups.iter().any(|known| known.name == group) {
        return Ok(());
    }
    let names: Vec<_> = plan.groups.iter().map(|group| group.name.as_str()).collect();
    Err(at.wrong("", format!("no group `{group}`; the groups are {}", names.join(", "))))
}

fn rate(at: &At, rate: f64) -> Result<(), PlanProblem> {
    at.must(rate.is_finite() && rate > 0.0 && rate <= RATE_MAX, rate, ABOVE)
}

fn arrival(at: &At, arrival: &Arrival) -> Result<(), PlanProblem> {
    match arrival {
        Arrival::Rate { per_s } | Arrival::Poisson { per_s } => rate(&at.key("per_s"), *per_s),
        Arrival::Burst => Ok(()),
        Arrival::Steps { clients, every } => {
            at.key("clients").must(*clients > 0, clients, "clients per step, at least 1")?;
            let fits = !every.is_zero() && *every <= TIME_MAX;
            at.key("every").must(fits, every, "a time above zero, for example 10s")
        }
        Arrival::Window { open } => {
            at.key("open").must(*open > 0, open, "concurrent connection attempts, at least 1")
        }
    }
}

fn traffic(at: &At, traffic: &Traffic) -> Result<(), PlanProblem> {
    at.key("qos").must(traffic.qos <= 2, traffic.qos, QOS)?;
    let bytes = (BODY_BYTES_MIN..=BODY_BYTES_MAX).contains(&traffic.bytes);
    let need = "16 (the stamp and the number) to 16777216 bytes";
    at.key("bytes").must(bytes, traffic.bytes, need)?;
    if let Some(among) = traffic.among {
        at.key("among").must(among > 0, among, "number of topics to choose from, at least 1")?;
    }
    if let Some(contacts) = traffic.contacts {
        let at = at.key("contacts");
        let fits = contacts > 0 && traffic.among.is_none_or(|among| contacts < among);
        at.must(fits, contacts, "at least 1, and fewer than `among`")?;
        let draws = traffic.among.is_some() && traffic.loops.is_none();
        at.must(draws, contacts, "needs `among`, and no `loops`")?;
    }
    if let Some(loops) = traffic.loops {
        let at = at.key("loops");
        at.must((1..1 << 24).contains(&loops), loops, "rounds, 1 to 16777215")?;
        at.must(traffic.among.is_some(), loops, "`loops` needs `among`")?;
        at.must(traffic.messages.is_none(), loops, "omit `messages` with `loops`")?;
        let all = traffic.rounds(1).unwrap_or(0);
        at.must(all < 1 << 32, loops, "fewer than 4294967296 messages a client")?;
        let closed = matches!(traffic.pace, Pace::Window(_) | Pace::Every(_));
        at.must(closed, loops, "`loops` needs a pace of `window` or `every`")?;
    }
    let pace = at.key("pace");
    match traffic.pace {
        Pace::PerS(per_s) => rate(&pace.key("per_s"), per_s)?,
        Pace::Window(window) => {
            pace.key("window").must(window > 0, window, "unanswered messages, at least 1")?;
        }
        Pace::Every(every) => {
            let fits = !every.is_zero() && every <= TIME_MAX;
            pace.key("every").must(fits, every, "a time above zero, for example 60s")?;
        }
        Pace::Wave { low, high, period } => {
            let pace = pace.key("wave");
            rate(&pace.key("low"), low)?;
            rate(&pace.key("high"), high)?;
            pace.key("high").must(high >= low, high, "at least as much as `low`")?;
            let fits = period >= Span::from_secs(1) && period <= TIME_MAX;
            pace.key("period").must(fits, period, "a time from 1s on, for example 60s")?;
        }
    }
    if traffic.what == What::Push {
        let open = matches!(traffic.pace, Pace::PerS(_) | Pace::Wave { .. });
        let need = "pushes go out at a rate: write pace = { per_s = 100 } or { wave = … }";
        at.key("pace").must(open, "", need)?;
    }
    Ok(())
}

fn fault(at: &At, stage: &Stage, fault: &Fault) -> Result<(), PlanProblem> {
    let begins = fault.at < stage.hold || (fault.at.is_zero() && stage.hold.is_zero());
    let need = format!("before the end of the stage's hold, which is {}", stage.hold);
    at.key("at").must(begins, fault.at, &need)?;
    at.key("for").must(fault.lasts <= TIME_MAX, fault.lasts, TIME)?;
    let again = fault.every.is_zero()
        || fault.every > fault.lasts && fault.every.0.as_millis() >= 100 && fault.every <= TIME_MAX;
    at.key("every").must(again, fault.every, "longer than `for`, and 100ms at least")?;
    let ends = !fault.lasts.is_zero() || matches!(fault.what, FaultKind::RedisFlushed);
    let is_cut = |how| matches!(how, Cut::Farewell | Cut::Close | Cut::Reset);
    let ends = ends || matches!(fault.what, FaultKind::Cut { how, .. } if is_cut(how));
    at.key("every").must(
        fault.every.is_zero() || ends,
        fault.every,
        "a repeated fault needs a `for`",
    )?;
    let share = |key: &str, share: f64| {
        at.key("what").key(key).must((0.0..=1.0).contains(&share), share, SHARE)
    };
    match &fault.what {
        FaultKind::Flap { share_per_s } => share("flap", *share_per_s),
        FaultKind::Cut { share: cut, .. } => share("cut", *cut),
        FaultKind::Network { how, share: part } => {
            share("network", *part)?;
            match how {
                Network::Delay(span) => {
                    at.key("what").key("network").must(*span <= TIME_MAX, span, TIME)
                }
                Network::Throttle(bytes) => {
                    let need = "bytes per second and connection, at least 1";
                    at.key("what").key("network").must(*bytes > 0, bytes, need)
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}
