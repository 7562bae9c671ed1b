//! A shipped plan made to fit what was named: what cannot be done or known is left out, and said.
//!
//! One's own plans are never changed here. The invariant: each change leaves a word.

use super::ReadyPlan;
use crate::target::{Speech, Url};
use lab::plan::{FaultKind, Plan, Span, Stage, What};

/// Clients below which memory makes no straight line.
const STRAIGHT_CLIENTS_MIN: u64 = 60_000;
/// Hold below which a trend is none.
const TREND_MIN: Span = Span::from_secs(300);

/// Leaves out what cannot be, and puts in the target's words what it says in others.
pub(super) fn fit(ready: &mut ReadyPlan) {
    skip(ready);
    unused(&mut ready.plan);
    speak(ready);
    rules(ready);
}

/// Leaves out stages that break what was not named.
fn skip(ready: &mut ReadyPlan) {
    let target = ready.plan.target.clone();
    let process = target.pid.is_some() || target.port.is_some();
    let lacks = |what: &FaultKind| -> Option<&'static str> {
        match what {
            FaultKind::TargetKilled if !process => Some("no server process: give --pid or --port"),
            FaultKind::TargetKilled if target.start.is_empty() => {
                Some("no command to restart the server: give --start COMMAND")
            }
            FaultKind::TargetPaused | FaultKind::DescriptorsStarved { .. } if !process => {
                Some("no server process: give --pid or --port")
            }
            FaultKind::RedisPaused | FaultKind::RedisKilled | FaultKind::RedisFlushed
                if target.redis.is_none() =>
            {
                Some("no Redis: give --redis HOST:PORT")
            }
            FaultKind::RedisPaused | FaultKind::RedisKilled if target.redis_pid.is_none() => {
                Some("no Redis process: give --redis-pid PID")
            }
            FaultKind::RedisKilled if target.redis_start.is_empty() => {
                Some("no command to restart Redis: give --redis-start COMMAND")
            }
            _ => None,
        }
    };
    let why = |stage: &Stage| stage.faults.iter().find_map(|fault| lacks(&fault.what));
    let stages = std::mem::take(&mut ready.plan.stages);
    for stage in stages {
        match why(&stage) {
            Some(why) => ready.skipped.push((stage.name, why.to_owned())),
            None => ready.plan.stages.push(stage),
        }
    }
}

/// Groups that no stage calls any more are not made.
fn unused(plan: &mut Plan) {
    let stages = &plan.stages;
    plan.groups.retain(|group| {
        stages.iter().any(|stage| {
            stage.clients.contains_key(&group.name) || stage.traffic.contains_key(&group.name)
        })
    });
}

/// Only MQTT has topics: others report or ask instead, and hear nothing of each other.
fn speak(ready: &mut ReadyPlan) {
    let plan = &mut ready.plan;
    let url = plan.target.url.first().and_then(|url| Url::parse(url).ok());
    let has_product = plan.groups.iter().any(|group| group.product.is_some());
    let in_web_socket = if has_product { Speech::Miop } else { Speech::Mqtt };
    let speech = url.map(|url| url.speech(in_web_socket));
    // Who talks has accounts in place of topics: the check says where a plan has none.
    let speech =
        speech.filter(|speech| !matches!(speech, Speech::Mqtt | Speech::Im | Speech::Xmpp));
    let Some(speech) = speech else { return };
    let mut changed = false;
    for group in &mut plan.groups {
        changed |= !group.subscribe.is_empty() || !group.hears.is_empty();
        group.subscribe.clear();
        group.hears.clear();
    }
    for sent in plan.stages.iter_mut().flat_map(|s| s.traffic.values_mut()).flatten() {
        if sent.what == What::Publish {
            changed = true;
            sent.topic = None;
            sent.among = None;
            sent.retain = false;
            if speech != Speech::Miop {
                sent.what = What::Request;
            }
        }
    }
    if changed {
        let instead = if speech == Speech::Miop { "report to the server" } else { "send requests" };
        ready.notes.push(format!(
            "{}:// has no topics: clients {instead} instead of publishing to each other",
            plan.target.url[0].split("://").next().unwrap_or_default()
        ));
        leave_out(ready, "without topics, clients receive no messages of each other", |rule, _| {
            rule.starts_with("messages.missing") || rule.starts_with("delivery.")
        });
    }
}

/// Whether a rule is about presence.
pub(super) fn is_about_presence(rule: &str) -> bool {
    rule.trim_start().starts_with(verdict::presence_figures::PRESENCE)
}

/// Leaves out rules about presence, which nobody can be asked about.
pub(super) fn unaudited(ready: &mut ReadyPlan, why: &str) {
    leave_out(ready, why, |rule, _| is_about_presence(rule));
}

/// Leaves out rules about what cannot be known here.
fn rules(ready: &mut ReadyPlan) {
    if ready.plan.target.api.is_none() {
        unaudited(ready, "presence is not audited: give --api and --token");
    }
    let target = &ready.plan.target;
    if target.pid.is_none() && target.port.is_none() && ready.port_here.is_none() {
        let why = "the server's process is not observed: give --pid or --port if it is here";
        leave_out(ready, why, |rule, _| {
            rule.starts_with("target.") || rule.starts_with("bytes_per_connection")
        });
    }
    let most = ready
        .plan
        .stages
        .iter()
        .map(|stage| stage.clients.values().map(|clients| u64::from(*clients)).sum::<u64>());
    if most.max().unwrap_or(0) < STRAIGHT_CLIENTS_MIN {
        let why = "the fit of memory over clients needs 60,000 clients, and this run has fewer; \
                   its memory is not in question";
        leave_out(ready, why, |rule, _| rule.starts_with("bytes_per_connection.r2"));
    }
    let why = "a hold below five minutes shows no trend";
    leave_out(ready, why, |rule, hold| {
        rule.contains(".drift") && hold.is_some_and(|hold| hold < TREND_MIN)
    });
}

/// Leaves out rules, each with a note; `which` gets the hold of a stage's rule.
fn leave_out(ready: &mut ReadyPlan, why: &str, which: impl Fn(&str, Option<Span>) -> bool) {
    let mut left: Vec<String> = Vec::new();
    let mut keep = |rule: &String, hold: Option<Span>| {
        let out = which(rule, hold);
        if out && !left.contains(rule) {
            left.push(rule.clone());
        }
        !out
    };
    ready.plan.pass.retain(|rule| keep(rule, None));
    for stage in &mut ready.plan.stages {
        let hold = stage.hold;
        stage.pass.retain(|rule| keep(rule, Some(hold)));
    }
    if !left.is_empty() {
        ready.notes.push(format!("rules left out ({why}): {}", left.join(", ")));
    }
}
