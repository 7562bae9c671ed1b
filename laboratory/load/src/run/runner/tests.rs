//! The runner under a told clock, with a load generator that exists on paper.

use super::*;
use crate::run::parts::{
    Audited, Auditor, Blind, FaultInjector, Founder, Pushless, RunClock, WantedConversations,
};
use crate::run::{RunTick, StagePart, Watch, file};
use lab::cause::{Cause, Phase};
use lab::generator::{LoadGenerator, Look};
use lab::order::Cut;
use lab::order::OnlookerRequest;
use lab::plan::FaultKind;
use lab::run::Balance;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

type Clock = Rc<Cell<u64>>;

struct Told {
    clock: Clock,
    interrupt_at: u64,
}

impl RunClock for Told {
    fn now_ms(&mut self) -> u64 {
        self.clock.get()
    }

    fn unix_ms(&mut self) -> u64 {
        1_790_000_000_000
    }

    fn rest_until(&mut self, at_ms: u64) {
        assert!(at_ms <= self.clock.get() + 1_000, "nobody waits longer than to the next look");
        self.clock.set(self.clock.get().max(at_ms));
    }

    fn is_interrupted(&mut self) -> bool {
        self.clock.get() >= self.interrupt_at
    }
}

/// A load generator on paper: ten clients a look come, `refused` of a group are refused, and who
/// sends sends a message a look.
#[derive(Default)]
struct Paper {
    clock: Clock,
    orders: Rc<RefCell<Vec<(u64, String)>>>,
    wanted: BTreeMap<String, u64>,
    sending: BTreeMap<String, bool>,
    look: Look,
    refuse: u64,
    refuse_order_above: Option<u32>,
    saturated: bool,
    hear_half: bool,
    /// Number of messages that a sender sends at once, and milliseconds until their answers.
    burst: Option<(u64, u64)>,
    said_at: Option<u64>,
    /// Nobody answers its calls.
    dead: bool,
    /// Five clients of `a` are reset then.
    reset_at: Option<u64>,
}

impl LoadGenerator for Paper {
    fn order(&mut self, order: &Order) -> Result<(), String> {
        let word = match order {
            Order::Found { group, .. } => format!("found {}", group.name),
            Order::Arrive { group, clients, .. } => {
                if self.refuse_order_above.is_some_and(|most| *clients > most) {
                    return Err("only so many descriptors".to_owned());
                }
                self.wanted.insert(group.clone(), u64::from(*clients));
                format!("arrive {group} {clients}")
            }
            Order::Traffic { group, traffic } => {
                self.sending.insert(group.clone(), !traffic.is_empty());
                let to: Vec<_> = traffic.iter().flat_map(|sent| &sent.addresses).collect();
                let to = if to.is_empty() { String::new() } else { format!(" to {to:?}") };
                format!("traffic {group} {}{to}", traffic.len())
            }
            Order::Cut { share, how, .. } => format!("cut {share} {how:?}"),
            Order::Flap { share_per_s, .. } => format!("flap {share_per_s}"),
            Order::Stop => "stop".to_owned(),
        };
        self.orders.borrow_mut().push((self.clock.get(), word));
        Ok(())
    }

    fn look(&mut self) -> Look {
        for (group, wanted) in &self.wanted {
            let counts = self.look.groups.entry(group.clone()).or_default();
            counts.planned = *wanted;
            if counts.online > *wanted {
                counts.open = *wanted;
                counts.causes.count(Phase::Online, Cause::Farewell);
                (counts.online + 1..*wanted).for_each(|_| {});
                let left = counts.online - wanted;
                (1..left).for_each(|_| counts.causes.count(Phase::Online, Cause::Farewell));
                counts.online = *wanted;
            }
            if self.dead {
                counts.attempts += 1;
                counts.causes.count(Phase::Connect, Cause::Refused);
                continue;
            }
            if self.reset_at.is_some_and(|at| at <= self.clock.get()) {
                self.reset_at = None;
                (0..5).for_each(|_| counts.causes.count(Phase::Online, Cause::Reset));
                (counts.online, counts.open) = (counts.online - 5, counts.open - 5);
            }
            let ended = counts.causes.errors();
            for _ in 0..10.min(wanted.saturating_sub(counts.online + ended)) {
                counts.attempts += 1;
                if counts.causes.errors() < self.refuse {
                    counts.causes.count(Phase::Bind, Cause::BindRefused);
                } else {
                    (counts.online, counts.open) = (counts.online + 1, counts.open + 1);
                    counts.bound += 1;
                }
            }
            if let Some((count, later)) = self.burst {
                let now = self.clock.get();
                let said = self.said_at.get_or_insert(u64::MAX);
                if self.sending.get(group) == Some(&true) && *said == u64::MAX {
                    *said = now;
                    counts.raise("messages.sent", count as f64);
                }
                let is_answered = *said != u64::MAX && now >= *said + later;
                if is_answered && counts.figure("messages.taken") < 1.0 {
                    counts.raise("messages.taken", count as f64);
                }
                let (total, open) = (count, if is_answered { 0 } else { count });
                let parts = vec![("open".to_owned(), open), ("taken".to_owned(), total - open)];
                counts.accounts = vec![Balance { what: "messages".to_owned(), total, parts }];
            } else if self.sending.get(group) == Some(&true) {
                counts.raise("messages.sent", 1.0);
                counts.raise("messages.taken", 1.0);
                if self.hear_half {
                    counts.raise("messages.received", 0.5);
                }
            }
        }
        self.look.saturation =
            if self.saturated { vec!["a thread is busy".to_owned()] } else { Vec::new() };
        self.look.clone()
    }
}

struct Hand(Rc<RefCell<Vec<(u64, String)>>>, Clock);

impl FaultInjector for Hand {
    fn begin(&mut self, what: &FaultKind) -> Result<String, String> {
        self.0.borrow_mut().push((self.1.get(), format!("begin {what:?}")));
        match what {
            FaultKind::RedisPaused => Err("no redis was named".to_owned()),
            _ => Ok("it is broken".to_owned()),
        }
    }

    fn end(&mut self, what: &FaultKind) -> Option<Result<String, String>> {
        self.0.borrow_mut().push((self.1.get(), format!("end {what:?}")));
        Some(Ok("it is whole".to_owned()))
    }
}

/// A presence API that takes its time to answer, each time the same; 0: it never does.
struct Slow {
    clock: Clock,
    takes_ms: u64,
    answer: Result<Audited, String>,
    begun: Option<u64>,
}

impl Auditor for Slow {
    fn begin(&mut self, settle_ms: u32) {
        assert!(settle_ms > 0);
        self.begun = Some(self.clock.get());
    }

    fn take(&mut self) -> Option<Result<Audited, String>> {
        let begun = self.begun.expect("nobody takes what was not begun");
        let ready = self.takes_ms > 0 && self.clock.get() >= begun + self.takes_ms;
        ready.then(|| self.answer.clone())
    }
}

/// Makes conversations in 700 ms, but for those called `full`; `never` are waited for.
struct Founds {
    clock: Clock,
    begun: Option<(u64, WantedConversations)>,
}

impl Founder for Founds {
    fn begin(&mut self, wanted: WantedConversations) {
        self.begun = Some((self.clock.get(), wanted));
    }

    fn take(&mut self) -> Option<Result<Vec<String>, String>> {
        let (since, wanted) = self.begun.as_ref().expect("nobody takes what was not begun");
        let is_ready = self.clock.get() >= since + 700 && wanted.name != "never";
        is_ready.then(|| match wanted.name.as_str() {
            "full" => Err("group_full".to_owned()),
            name => Ok((0..wanted.count).map(|number| format!("{name}{number}")).collect()),
        })
    }
}

#[derive(Default)]
struct Eyewitness {
    wishes: Vec<(u64, OnlookerRequest)>,
    ticks: Vec<RunTick>,
    done: bool,
}

impl Watch for Eyewitness {
    fn tick(&mut self, tick: &RunTick) {
        self.ticks.push(tick.clone());
    }

    fn wishes(&mut self) -> Vec<OnlookerRequest> {
        let at = self.ticks.last().map_or(0, |tick| tick.at_ms);
        let due = self.wishes.iter().position(|(when, _)| *when <= at);
        due.map(|place| self.wishes.remove(place).1).into_iter().collect()
    }

    fn done(&mut self, _run: &Run) {
        self.done = true;
    }
}

/// A run of `stages` with ten clients a look; what it left, the orders, and what was shown.
struct Made {
    run: Result<Run, String>,
    orders: Vec<(u64, String)>,
    ticks: Vec<RunTick>,
}

fn made(stages: &str, change: impl FnOnce(&mut Paper, &mut Eyewitness, &mut Told)) -> Made {
    audited(stages, 0, Err("nobody asks".to_owned()), change)
}

/// The same with a presence API that gives this answer after so long.
fn audited(
    stages: &str,
    takes_ms: u64,
    answer: Result<Audited, String>,
    change: impl FnOnce(&mut Paper, &mut Eyewitness, &mut Told),
) -> Made {
    let text = format!(
        "name = \"t\"\npass = [\"accounts == 1\"]\n[target]\nurl = [\"mqtt://127.0.0.1:1\"]\n\
         [[group]]\nname = \"a\"\n[[group]]\nname = \"b\"\n{stages}"
    );
    let plan = file::read("t.toml", &text, &[]).expect("a plan");
    let clock = Clock::default();
    clock.set(77_000);
    let mut generator = Paper { clock: clock.clone(), ..Paper::default() };
    let mut world = Told { clock: clock.clone(), interrupt_at: u64::MAX };
    let mut watch = Eyewitness::default();
    change(&mut generator, &mut watch, &mut world);
    let orders = generator.orders.clone();
    let run = super::run(
        &plan,
        Before { seed: 5, ..Before::default() },
        Parts {
            generator: &mut generator,
            clock: &mut world,
            eyes: &mut Blind,
            breaker: &mut Hand(orders.clone(), clock.clone()),
            pushes: &mut Pushless,
            auditor: &mut Slow { clock: clock.clone(), takes_ms, answer, begun: None },
            founder: &mut Founds { clock, begun: None },
            watch: &mut watch,
        },
    );
    assert_eq!(watch.done, run.is_ok());
    let orders = orders.borrow().iter().map(|(at, word)| (at - 77_000, word.clone())).collect();
    Made { run, orders, ticks: watch.ticks }
}

fn at(orders: &[(u64, String)], word: &str) -> Vec<u64> {
    orders.iter().filter(|(_, known)| known == word).map(|(at, _)| *at).collect()
}

const TWO: &str = r#"
[[stage]]
name = "small"
clients = { a = 20 }
hold = "3s"
pass = ["online == 20", "errors == 0"]
[[stage]]
name = "large"
clients = { a = 50, b = 10 }
hold = "2s"
traffic = { a = [{ what = "publish", topic = "t", pace = { per_s = 10 } }] }
pass = ["online == 60", "messages.lost == 0"]
"#;

#[test]
fn stages_come_in_order_are_held_and_are_judged() {
    let made = made(TWO, |_, _, _| {});
    let run = made.run.expect("it could be run");
    assert_eq!(run.stages.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["small", "large"]);
    let [small, large] = &run.stages[..] else { panic!("two stages") };
    assert_eq!((small.clients, large.clients), (20, 60));
    assert_eq!(small.to_ms - small.arrived_ms, 3_000);
    assert!(small.arrived_ms - small.from_ms <= 200, "two looks are enough");
    assert_eq!((small.counts.attempts, large.counts.attempts), (20, 40));
    let held: Vec<_> = run.stages.iter().flat_map(|s| &s.checks).map(|c| c.held).collect();
    assert_eq!(held, [Some(true); 4]);
    assert!(run.finished && run.skipped.is_empty() && run.format == FORMAT && run.seed == 5);
    let words: Vec<_> = made.orders.iter().map(|(_, word)| word.as_str()).collect();
    let all = [
        "found a",
        "found b",
        "arrive a 20",
        "arrive a 50",
        "arrive b 10",
        "traffic a 1",
        "traffic a 0",
        "stop",
    ];
    assert_eq!(words, all);
    assert!(at(&made.orders, "traffic a 1")[0] >= large.arrived_ms, "traffic waits for clients");
    let rows = run.series.times_ms();
    assert_eq!(rows[0], 0);
    assert!(rows.windows(2).all(|pair| pair[1] - pair[0] <= 1_000), "{rows:?}");
    assert_eq!(run.series.values("clients.online").last(), Some(&Some(60.0)));
    assert_eq!(run.total.online, 60);
    assert!(made.ticks.iter().any(|tick| tick.part == StagePart::Holding && tick.stage == 1));
}

#[test]
fn faults_happen_at_their_times_and_are_over_before_the_stage_is() {
    let stage = r#"
[[stage]]
name = "bad"
clients = { a = 10 }
hold = "20s"
[[stage.fault]]
at = "2s"
for = "3500ms"
what = { flap = { share_per_s = 0.1 } }
[[stage.fault]]
at = "4250ms"
what = { cut = { share = 0.5, how = "freeze" } }
[[stage.fault]]
at = "6s"
for = "1s"
what = "target_paused"
[[stage.fault]]
at = "8s"
what = "redis_paused"
"#;
    let made = made(stage, |_, _, _| {});
    let run = made.run.expect("it could be run");
    let begun = run.stages[0].arrived_ms;
    let times = |word: &str| at(&made.orders, word).iter().map(|at| at - begun).collect::<Vec<_>>();
    assert_eq!(times("flap 0.1"), [2_000]);
    assert_eq!(times("flap 0"), [5_500]);
    assert_eq!(times("cut 0.5 Freeze"), [4_250]);
    assert_eq!(times("cut 1 Thaw"), [20_000], "until the stage's end");
    assert_eq!(times("begin TargetPaused"), [6_000]);
    assert_eq!(times("end TargetPaused"), [7_000]);
    assert_eq!(times("end RedisPaused"), [0_u64; 0], "what was not broken is not mended");
    let skipped = run.notes.iter().find(|note| note.text.starts_with("skipped")).expect("noted");
    assert_eq!(skipped.text, "skipped: Redis paused: no redis was named");
    assert_eq!(skipped.at_ms - begun, 8_000);
}

#[test]
fn a_stage_that_does_not_pass_may_end_the_run() {
    let stages = TWO.replace("hold = \"3s\"", "hold = \"3s\"\nstop_on_failure = true");
    let made = made(&stages, |generator, _, _| generator.refuse = 3);
    let run = made.run.expect("it could be run");
    assert_eq!(run.stages.len(), 1);
    assert_eq!(run.skipped, [("large".to_owned(), "stage small failed".to_owned())]);
    assert_eq!(run.stages[0].checks[1].value, Some(3.0));
    assert!(run.finished && !run.passed());
    assert_eq!(made.orders.last().map(|(_, word)| word.as_str()), Some("stop"));
}

#[test]
fn clients_that_do_not_come_back_are_not_waited_for_and_others_are() {
    let stage = "[[stage]]\nname = \"x\"\nclients = { a = 20 }\narrive_max = \"30s\"\n";
    let ended = made(stage, |generator, _, _| generator.refuse = 5).run.expect("it could be run");
    assert!(ended.stages[0].arrived_ms < 1_000, "all had their turn");
    let waiting = made(stage, |generator, _, _| {
        // One is under way and never gets there.
        generator.refuse = 5;
        let counts = Counts { attempts: 1, open: 1, ..Counts::default() };
        generator.look.groups.insert("a".to_owned(), counts);
    });
    let run = waiting.run.expect("it could be run");
    assert!(run.stages[0].arrived_ms >= 30_000, "{}", run.stages[0].arrived_ms);
    let noted = run.notes.iter().any(|note| note.text.contains("15 of 20 clients were online"));
    assert!(noted, "{:?}", run.notes);
}

#[test]
fn an_interrupted_run_is_judged_and_says_so() {
    let made = made(TWO, |_, _, world| world.interrupt_at = 77_000 + 1_500);
    let run = made.run.expect("what was measured is kept");
    assert!(!run.finished && !run.passed());
    assert_eq!(run.stages.len(), 1);
    assert_eq!(run.stages[0].checks.len(), 2);
    assert_eq!(run.skipped, [("large".to_owned(), "the run was interrupted".to_owned())]);
    assert!(run.took_ms <= 2_000, "{}", run.took_ms);
}

#[test]
fn an_order_that_cannot_be_carried_out_ends_the_run_with_its_reason() {
    let first = made(TWO, |generator, _, _| generator.refuse_order_above = Some(5));
    assert!(first.run.expect_err("nothing ran").contains("only so many descriptors"));
    let second = made(TWO, |generator, _, _| generator.refuse_order_above = Some(30));
    let run = second.run.expect("the first stage ran");
    assert!(!run.finished && run.stages.len() == 1);
    assert!(run.skipped[0].1.contains("only so many descriptors"), "{:?}", run.skipped);
}

#[test]
fn a_tester_that_is_saturated_all_the_time_makes_the_run_invalid() {
    let run = made(TWO, |generator, _, _| generator.saturated = true).run.expect("it could be run");
    assert!(run.saturation.iter().any(|why| why.contains("a thread is busy")), "{run:?}");
    assert!(!run.passed());
}

#[test]
fn what_somebody_wishes_is_done_and_noted() {
    let made = made(TWO, |_, watch, _| {
        watch.wishes = vec![
            (1_000, OnlookerRequest::Add { group: String::new(), clients: 7 }),
            (1_000, OnlookerRequest::Cut { share: 0.1, how: Cut::Reset }),
            (2_000, OnlookerRequest::Pause),
            (5_000, OnlookerRequest::Pause),
            (6_000, OnlookerRequest::Rate { group: "a".to_owned(), factor: 2.0 }),
            (7_000, OnlookerRequest::Quit { now: false }),
        ];
    });
    let run = made.run.expect("it could be run");
    assert!(made.orders.iter().any(|(_, word)| word == "arrive a 27"), "{:?}", made.orders);
    assert!(made.orders.iter().any(|(_, word)| word == "cut 0.1 Reset"), "{:?}", made.orders);
    let small = &run.stages[0];
    let held = small.to_ms - small.arrived_ms;
    assert!((4_900..=5_200).contains(&held), "two seconds of pause are not held: {held}");
    assert!(!run.finished);
    let noted = |text: &str| run.notes.iter().any(|note| note.text.contains(text));
    for text in ["7 more clients of a", "10.0 % of all links Reset", "paused", "ended by hand"] {
        assert!(noted(text), "{text}: {:?}", run.notes);
    }
}

#[test]
fn counted_messages_end_a_stage_when_they_have_been_sent() {
    let stages = r#"
[[stage]]
name = "count"
clients = { a = 10 }
hold = "60s"
traffic = { a = [{ what = "publish", topic = "t", messages = 30, pace = { window = 1 } }] }
"#;
    let run = made(stages, |_, _, _| {}).run.expect("it could be run");
    let held = run.stages[0].to_ms - run.stages[0].arrived_ms;
    assert!((3_000..10_000).contains(&held), "{held}");
    assert!(run.notes.iter().any(|note| note.text == "a has sent all its messages"));
}

#[test]
fn messages_that_are_sent_at_once_are_waited_for_before_any_is_answered() {
    let stages = r#"
[[stage]]
name = "count"
clients = { a = 10 }
hold = "60s"
traffic = { a = [{ what = "publish", topic = "t", messages = 30, pace = { window = 64 } }] }
pass = ["messages.owed == 0"]
"#;
    let run =
        made(stages, |paper, _, _| paper.burst = Some((30, 700))).run.expect("it could be run");
    let stage = &run.stages[0];
    assert_eq!(stage.checks[0].held, Some(true), "{:?}", stage.checks);
    assert!((700..10_000).contains(&(stage.to_ms - stage.arrived_ms)));
}

/// Two groups of two, made and sent to.
const TALK: &str = r#"
[[conversation]]
name = "g"
count = 2
owner = "a"
members = { a = 2 }
[[stage]]
name = "make"
clients = { a = 10 }
makes = ["g"]
hold = "1s"
[[stage]]
name = "send"
hold = "60s"
traffic = { a = [{ what = "publish", topic = "g", among = 2, loops = 3, pace = { window = 1 } }] }
"#;

#[test]
fn conversations_are_made_before_the_hold_and_their_addresses_go_to_who_sends() {
    let made = made(TALK, |_, _, _| {});
    let run = made.run.expect("it could be run");
    let make = &run.stages[0];
    let took = make.to_ms - make.arrived_ms;
    assert!((1_700..2_200).contains(&took), "they are waited for: {took}");
    assert_eq!(at(&made.orders, "traffic a 1 to [\"g0\", \"g1\"]").len(), 1, "{:?}", made.orders);
    assert_eq!(at(&made.orders, "traffic a 1").len(), 0);
    assert!(run.notes.iter().any(|note| note.text == "g: 2 conversations of 2 created"));
    assert!(run.notes.iter().any(|note| note.text == "a has sent all its messages"));
}

#[test]
fn conversations_that_cannot_be_made_end_the_run_before_anybody_sends() {
    for (name, why, least_ms) in
        [("full", "group_full", 700), ("never", "not all were created in time", 600_000)]
    {
        let made = made(&TALK.replace("\"g\"", &format!("\"{name}\"")), |_, _, _| {});
        let run = made.run.expect("it could be run");
        assert!(!run.finished && run.took_ms >= least_ms, "{}", run.took_ms);
        let told = format!("{name}: not created: {why}");
        assert!(run.notes.iter().any(|note| note.text == told), "{:?}", run.notes);
        assert_eq!(run.skipped.len(), 1, "{:?}", run.skipped);
        assert!(made.orders.iter().all(|(_, word)| !word.starts_with("traffic a 1")));
    }
}

#[test]
fn a_target_where_nobody_listens_ends_the_run_early_and_is_named() {
    let stages = TWO.replace("clients = { a = 20 }", "clients = { a = 20 }\narrive_max = \"1h\"");
    let run = made(&stages, |generator, _, _| generator.dead = true).run.expect("it could be run");
    assert!(!run.finished && run.took_ms <= 4_000, "{}", run.took_ms);
    let what = "Nobody answers at mqtt://127.0.0.1:1: no process listens on that port.";
    assert_eq!((run.findings[0].what.as_str(), run.findings[0].side.as_str()), (what, "target"));
    assert_eq!(run.skipped.len(), 1, "{:?}", run.skipped);
}

#[test]
fn ends_that_the_plan_made_are_told_from_those_that_it_did_not() {
    let stage = r#"
[[stage]]
name = "killed"
clients = { a = 20 }
hold = "90s"
pass = ["errors == 0"]
[[stage.fault]]
at = "2s"
for = "1s"
what = "WHAT"
"#;
    for (what, reset_ms, planned) in [
        ("target_killed", 1_000, 0),
        ("target_killed", 3_500, 5),
        ("target_paused", 4_000, 5),
        // A server has had the time to be whole again.
        ("target_paused", 85_000, 0),
        // No link breaks for a Redis.
        ("redis_flushed", 3_500, 0),
    ] {
        let stage = stage.replace("WHAT", what);
        let run = made(&stage, |generator, _, _| generator.reset_at = Some(77_000 + reset_ms));
        let run = run.run.expect("it could be run");
        let ends = [Cause::PlannedFault, Cause::Reset].map(|cause| run.total.causes.all_of(cause));
        assert_eq!(ends, [planned, 5 - planned], "{what} {reset_ms}");
        assert_eq!(run.stages[0].checks[0].held, Some(planned == 5), "{what} {reset_ms}");
    }
}

#[test]
fn what_was_sent_and_not_heard_is_missing_once() {
    let stages = r#"
hears = { b = 1 }
[[stage]]
name = "one"
clients = { b = 10 }
hold = "5s"
pass = ["messages.missing > 0"]
traffic = { b = [{ what = "publish", topic = "t", pace = { window = 1 } }] }
[[stage]]
name = "two"
traffic = { b = [] }
hold = "1s"
pass = ["messages.missing == 0"]
"#;
    let run =
        made(stages, |generator, _, _| generator.hear_half = true).run.expect("it could be run");
    let [one, two] = &run.stages[..] else { panic!("two stages") };
    let (sent, missing) =
        (one.counts.figure("messages.sent"), run.total.figure("messages.missing"));
    assert_eq!(missing, (sent / 2.0).round(), "{:?}", run.notes);
    assert_eq!((one.checks[0].held, two.checks[0].held), (Some(true), Some(true)));
}

#[test]
fn all_clients_leave_before_those_of_a_stage_that_wants_them_anew() {
    let stages = TWO.replace("clients = { a = 50, b = 10 }", "clients = { a = 20 }\nanew = true");
    let made = made(&stages, |_, _, _| {});
    let run = made.run.expect("it could be run");
    assert_eq!(at(&made.orders, "arrive a 0").len(), 1);
    assert_eq!(run.stages[1].counts.attempts, 20);
    assert_eq!(run.stages[1].counts.online, 20);
}

const ASKED: &str = r#"
[[stage]]
name = "one"
clients = { a = 20 }
hold = "1s"
pass = ["presence.differences == 0", "presence.differing == 5", "presence.lag_ms < 100"]
[[stage]]
name = "two"
hold = "1s"
pass = ["errors == 0"]
"#;

fn found(persistent: &[(&str, u64)]) -> Audited {
    Audited {
        online: 20,
        differing: 5,
        persistent: persistent.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect(),
        first: persistent.iter().map(|(kind, _)| ("p#a".repeat(40), (*kind).to_owned())).collect(),
        took_ms: 9,
        lag_ms: 41,
    }
}

#[test]
fn a_stage_that_is_judged_by_presence_is_audited_at_its_end_and_no_other() {
    let made = audited(ASKED, 2_500, Ok(found(&[])), |_, _, _| {});
    let run = made.run.expect("it could be run");
    let [one, two] = &run.stages[..] else { panic!("two stages") };
    assert!(one.checks.iter().all(|check| check.held == Some(true)), "{:?}", one.checks);
    assert!((3_500..4_000).contains(&(one.to_ms - one.arrived_ms)), "the answer was waited for");
    assert!(two.to_ms - two.arrived_ms < 1_500, "nobody was asked");
    let name = verdict::presence_figures::AUDITS;
    assert_eq!((one.counts.figure(name), two.counts.figure(name)), (1.0, 0.0));
    assert_eq!(run.total.figure(name), 1.0);
    assert!(
        made.ticks.iter().any(|tick| tick.part == StagePart::Settling && tick.at_ms < one.to_ms)
    );
    assert!(run.findings.iter().all(|finding| !finding.what.contains("directory")));
}

#[test]
fn differences_that_last_fail_the_stage_and_are_told_by_key_and_kind() {
    let answer = Ok(found(&[("missing", 1), ("stale", 2)]));
    let run = audited(ASKED, 10, answer, |_, _, _| {}).run.expect("it could be run");
    let check = &run.stages[0].checks[0];
    assert_eq!((check.value, check.held), (Some(3.0), Some(false)));
    let told = run.findings.iter().find(|finding| finding.what.contains("directory"));
    let evidence = &told.expect("it is a finding").evidence;
    assert!(evidence.contains("stage `one` 3 (1 missing, 2 stale): p#ap#a"), "{evidence}");
    assert!(evidence.contains("… missing, p#a") && evidence.len() < 300, "{evidence}");
}

#[test]
fn an_audit_without_an_answer_is_no_pass() {
    for (takes_ms, why) in [(10, "the API is gone"), (0, "no answer in time")] {
        let answer = Err("the API is gone".to_owned());
        let run = audited(ASKED, takes_ms, answer, |_, _, _| {}).run.expect("it could be run");
        assert!(run.stages[0].checks.iter().all(|check| check.held.is_none()));
        let noted = run.notes.iter().any(|note| note.text.contains(why));
        assert!(noted && run.finished && !run.passed(), "{:?}", run.notes);
        assert_eq!(run.stages.len(), 2, "the run goes on");
    }
}
