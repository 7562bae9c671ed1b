//! Shipped plans, and what the command line makes of them.

use super::*;
use crate::scenario::{ALL, Scenario};
use lab::plan::{Pace, What};

const MQTT: &str = "mqtt://10.0.0.1:1883";
const MIOP: &str = "miop://dev:pk@127.0.0.1:7000";

fn of(name: &str, asked: Asked) -> Result<ReadyPlan, String> {
    let scenario = Scenario::named(name).expect("it is shipped");
    ready(name, scenario.text, &asked, true)
}

fn to(url: &str) -> Asked {
    Asked { target: target(url), ..Asked::default() }
}

fn target(url: &str) -> Target {
    Target { url: vec![url.to_owned()], ..Target::default() }
}

#[test]
fn every_shipped_plan_can_be_run_against_mqtt_or_says_that_it_is_for_people_who_talk() {
    let why = of("push-api", to(MQTT)).expect_err("nobody to push by");
    assert!(why.contains("--api"), "{why}");
    for scenario in ALL {
        let mut asked = to(MQTT);
        if scenario.name == "push-api" {
            asked = to(MIOP);
            asked.target.api = Some("http://127.0.0.1:1".to_owned());
        }
        let goes_rounds = scenario.name.starts_with("im-w");
        let ready = ready(scenario.name, scenario.text, &asked, true);
        match &ready {
            Err(why) if goes_rounds => assert!(why.contains("`loops`"), "{why}"),
            Err(why) if scenario.name == "tigase" => assert!(why.contains("scram"), "{why}"),
            ready => assert!(ready.is_ok() && !goes_rounds, "{}: {ready:?}", scenario.name),
        }
    }
}

#[test]
fn over_im_people_talk_and_a_plan_without_accounts_says_so() {
    let im = |name: &str| of(name, to("im://10.0.0.1"));
    let groups = ["im-w3", "im-w4", "im-w5", "im-w5-read"];
    let others = ["im-w1", "im-w2", "im-w6", "im-w7", "im-w8"];
    for name in groups.into_iter().chain(others) {
        assert!(im(name).is_ok(), "{name}: {:?}", im(name));
    }
    assert!(im("link-limit").is_ok());
    let xmpp = |name: &str| of(name, to("xmpp://10.0.0.1"));
    assert!(xmpp("link-limit").is_ok());
    let small = Asked { sets: vec!["Users=20".to_owned()], ..to("xmpp://10.0.0.1") };
    let why = of("tigase", small).expect_err("it has no twenty others");
    assert!(why.contains("contacts = 20"), "{why}");
    let tigase = xmpp("tigase").expect("it can be run");
    let sent = &tigase.plan.stages[1].traffic["users"][0];
    assert_eq!((sent.among, sent.contacts), (Some(15_000), Some(20)));
    for name in ["im-w1", "im-w3", "im-w6"] {
        let why = xmpp(name).expect_err("audits, groups and chatrooms are over IM");
        assert!(why.contains("im://"), "{name}: {why}");
    }
    let why = im("fan-in").expect_err("its topics are no accounts");
    assert!(why.contains("is no account"), "{why}");
    let sets = ["Loop=3", "Window=64", "ReceiveUserCount=7"].map(str::to_owned).to_vec();
    let ready = of("im-w1", Asked { sets, ..to("im://10.0.0.1") }).expect("it can be run");
    let sent = &ready.plan.stages[2].traffic["senders"][0];
    assert_eq!((sent.rounds(200), sent.pace), (Some(200 * 7 * 3), Pace::Window(64)));
    let sets = ["SendUserCount=5", "ReceiveUserCount=7", "GroupCount=4"].map(str::to_owned);
    let ready = of("im-w5", Asked { sets: sets.to_vec(), ..to("im://10.0.0.1") });
    let plan = ready.expect("it can be run").plan;
    let groups = &plan.conversations[0];
    assert_eq!((groups.count, groups.members.values().sum::<u32>()), (4, 12));
    assert_eq!(plan.stages[3].traffic["senders"][0].rounds(5), Some(5 * 4 * 2));
}

#[test]
fn the_shipped_steps_are_what_the_defaults_make() {
    let plan = of("link-limit", to(MQTT)).expect("ready").plan;
    let made = steps(&plan.stages[0], 60_000, 1_020_000).expect("steps");
    assert_eq!(plan.stages, made);
    let asked = Asked { step: Some(300), clients: Some(1_000), ..to(MQTT) };
    let stages = of("link-limit", asked).expect("ready").plan.stages;
    let sizes: Vec<_> = stages.iter().map(|stage| stage.clients["devices"]).collect();
    assert_eq!(sizes, [300, 600, 900, 1_000]);
    assert_eq!(stages[3].name, "step-04");
    for (step, clients) in [(0, 10), (10, 0), (1, 10_000)] {
        let asked = Asked { step: Some(step), clients: Some(clients), ..to(MQTT) };
        assert!(of("link-limit", asked).is_err(), "{step} {clients}");
    }
    let few = Asked { clients: Some(500), ..to(MQTT) };
    let stages = of("link-limit", few).expect("ready").plan.stages;
    assert_eq!(stages.len(), 1, "one step is enough");
}

#[test]
fn the_largest_stage_has_the_clients_that_are_asked_for() {
    let ladder = of("ladder", Asked { clients: Some(10_000), ..to(MQTT) }).expect("ready").plan;
    let sizes: Vec<_> = ladder.stages.iter().map(|stage| stage.clients["devices"]).collect();
    assert_eq!(sizes, [1200, 2400, 3000, 5400, 6000, 7000, 10000, 1000, 2000, 3000, 6000, 10000]);
    let scaled = of("ladder", Asked { scale: Some(0.01), ..to(MQTT) }).expect("ready").plan;
    assert_eq!(scaled.stages, ladder.stages);
    let both = Asked { scale: Some(0.01), clients: Some(5), ..to(MQTT) };
    assert!(of("ladder", both).is_err());
    let stability = Asked {
        clients: Some(1_000),
        hold: Some(Span::from_secs(30)),
        rate: Some(50.0),
        ..to(MQTT)
    };
    let ready = of("stability", stability).expect("ready");
    let last = &ready.plan.stages[2];
    assert_eq!((last.clients["devices"], last.hold), (1_000, Span::from_secs(30)));
    assert_eq!(last.arrive, Arrival::Rate { per_s: 50.0 });
    assert_eq!(last.traffic["devices"][0].among, Some(1_000));
    assert_eq!(last.traffic["devices"][0].pace, Pace::PerS(10.0));
    let drift = ready.notes.iter().any(|note| note.contains("a hold below five minutes"));
    assert!(drift && !last.pass.iter().any(|rule| rule.contains("drift")), "{:?}", ready.notes);
}

#[test]
fn a_shorter_hold_keeps_what_is_broken_in_its_order_and_its_share() {
    let whole = of("exception", to(MQTT)).expect("it fits");
    let hold = Some(Span::from_secs(15));
    let short = of("exception", Asked { hold, ..to(MQTT) }).expect("it fits too");
    let mut faults = 0;
    for (stage, shorter) in whole.plan.stages.iter().zip(&short.plan.stages) {
        for (fault, earlier) in stage.faults.iter().zip(&shorter.faults) {
            let share = |at: Span, hold: Span| at.0.as_secs_f64() / hold.0.as_secs_f64();
            let (before, after) = (share(fault.at, stage.hold), share(earlier.at, shorter.hold));
            assert!((before - after).abs() < 0.001, "{}: {fault:?} {earlier:?}", stage.name);
            assert!(earlier.at.0 + earlier.lasts.0 <= shorter.hold.0, "{}", stage.name);
            assert_eq!(fault.lasts.is_zero(), earlier.lasts.is_zero());
            faults += 1;
        }
    }
    assert!(faults > 2, "there are some to look at");
    assert!(short.notes.iter().any(|note| note.contains("come earlier")), "it is said");
}

#[test]
fn what_was_not_named_is_skipped_with_a_word() {
    let ready = of("exception", Asked { clients: Some(100), ..to(MQTT) }).expect("ready");
    let skipped: Vec<_> = ready.skipped.iter().map(|(name, _)| name.as_str()).collect();
    let all = [
        "redis-paused",
        "redis-killed",
        "redis-flushed",
        "redis-flapping",
        "redis-again-and-again",
        "descriptors-starved",
        "server-paused",
        "server-killed",
    ];
    assert_eq!(skipped, all);
    assert!(ready.skipped[0].1.contains("--redis"), "{:?}", ready.skipped);
    let target = Target {
        pid: Some(7),
        start: vec!["x".to_owned()],
        redis: Some("127.0.0.1:6379".to_owned()),
        redis_pid: Some(8),
        redis_start: vec!["y".to_owned()],
        ..target(MQTT)
    };
    let named = Asked { target, clients: Some(100), ..Asked::default() };
    let ready = of("exception", named).expect("ready");
    assert!(ready.skipped.is_empty());
    assert_eq!(ready.plan.stages.len(), 15);
    let hold = Asked { hold: Some(Span::from_secs(0)), ..to(MQTT) };
    assert!(of("exception", hold).expect_err("no time at all").contains("must be above 0"));
}

#[test]
fn who_cannot_be_asked_about_presence_is_not_judged_by_it() {
    let about = |ready: &ReadyPlan| ready.is_about_presence();
    let left = |ready: &ReadyPlan, why: &str| {
        let note = ready.notes.iter().find(|note| note.contains("presence.differences == 0"));
        note.is_some_and(|note| note.contains(why))
    };
    let alone = of("exception", Asked { clients: Some(100), ..to(MQTT) }).expect("ready");
    assert!(!about(&alone) && left(&alone, "--api"), "{:?}", alone.notes);
    let api = Some("http://127.0.0.1:1".to_owned());
    let target = Target { api, ..target(MQTT) };
    let asked = Asked { target, clients: Some(100), ..Asked::default() };
    let known = of("exception", asked).expect("ready");
    assert!(about(&known) && !left(&known, ""), "{:?}", known.notes);
    let without = known.unaudited("the server has no presence directory");
    assert!(!about(&without) && left(&without, "no presence directory"), "{:?}", without.notes);
}

#[test]
fn a_protocol_without_topics_reports_and_nobody_waits_for_what_cannot_come() {
    let asked = Asked { clients: Some(100), ..to(MIOP) };
    let ready = of("stability", asked).expect("ready");
    let plan = &ready.plan;
    assert_eq!(ready.port_here, Some(7_000), "its process is observed");
    assert_eq!(plan.target.port, None, "and not disturbed");
    assert!(plan.groups[0].subscribe.is_empty() && plan.groups[0].hears.is_empty());
    assert_eq!(plan.stages[0].traffic["devices"][0].what, What::Publish);
    assert!(!plan.stages[0].pass.iter().any(|rule| rule.contains("missing")));
    assert!(ready.notes.iter().any(|note| note.contains("has no topics")), "{:?}", ready.notes);
    let http = Asked { clients: Some(100), ..to("http://127.0.0.1:80/") };
    let plan = of("stability", http).expect("ready").plan;
    assert_eq!(plan.stages[0].traffic["devices"][0].what, What::Request);
}

#[test]
fn ones_own_plan_is_taken_as_it_is() {
    let text = "name = \"own\"\npass = [\"target.process.rss.drift < 1%\"]\n\
                [[group]]\nname = \"a\"\n\
                [[stage]]\nname = \"s\"\nclients = { a = 1 }\nhold = \"1s\"\n";
    let own = ready("own.toml", text, &to(MQTT), false).expect("ready");
    assert_eq!(own.plan.pass.len(), 1);
    assert!(own.notes.is_empty());
    let wrong = text.replace("drift < 1%", "drfit < 1%");
    let why = ready("own.toml", &wrong, &to(MQTT), false).expect_err("no figure");
    assert!(why.starts_with("own.toml:2: pass.1"), "{why}");
}
