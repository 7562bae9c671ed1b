//! Runs that never were, but could have been: made in code, the same every time.
//!
//! `link_limit` meets a full accept queue at 420,000 clients; `ladder` calls up larger and larger
//! crowds at once, with messages and two agents; `saturated` cannot be trusted; `monstrous` is as
//! large as a run can be, and its texts are as bad as texts can be.

#![allow(dead_code, unused_imports, reason = "each test takes what it needs")]

mod harness;
mod monstrous;
mod poisoned;

pub use monstrous::{EVIL, monstrous};
pub use poisoned::poisoned;

use harness::{RunHarness, spread};
use lab::cause::{Cause, Phase};
use lab::host::{Environment, Fitness, HostRow};
use lab::run::{Agent, Balance, CheckResult, Counts, Finding, Gravity, Note, Run, StageRun};
use lab::series::{Column, FigureKind, Reading, Unit};
use lab::timing::Timing;

pub fn link_limit() -> Run {
    let mut world = RunHarness::new(7, 60_000);
    for step in 1..=8_u32 {
        let met = step == 8;
        world.stage(&format!("{}k", step * 60), step * 60_000, if met { 0.0 } else { 1_000.0 });
        for second in 0..120 {
            let calls = if second < 60 { 1_000 } else { 0 };
            // The accept queue is full from 420,000 on: nobody takes them out.
            let through = if met { calls / 50 } else { calls };
            world.second(calls, through, if met && second < 60 { 8.0 } else { 1.0 });
        }
        for (timing, p50, tail) in [
            (Timing::Connect, 180.0, 1.0),
            (Timing::Bind, 900.0 + f64::from(step) * 120.0, 1.2),
            (Timing::Ready, 1_200.0 + f64::from(step) * 130.0, 1.2),
            (Timing::Heartbeat, 400.0 + f64::from(step) * 40.0, 1.1),
        ] {
            let count = if met { 1_200 } else { 60_000 };
            world.timed(timing, count, p50, if met { tail * 1.6 } else { tail });
        }
    }
    let mut run = world.run("link-limit-20261120-201500", "Steps of 60,000 until the first limit.");
    run.command = "holdline load link-limit --target mqtt://10.0.0.7:1883 --step 60k".to_owned();
    run.plan = LINK_LIMIT.to_owned();
    run.findings = limits();
    run.notes = vec![
        Note { at_ms: 300_000, text: "Somebody pressed `p`: paused for 0 s.".to_owned() },
        Note { at_ms: 846_000, text: "The first SYN timed out.".to_owned() },
    ];
    let last = run.stages.len() - 1;
    run.stages[last].checks[0] =
        CheckResult { rule: "errors == 0".to_owned(), value: Some(58_800.0), held: Some(false) };
    run.checks = vec![
        CheckResult { rule: "unexplained == 0".to_owned(), value: Some(0.0), held: Some(true) },
        CheckResult {
            rule: "bytes_per_connection.r2 > 0.999".to_owned(),
            value: Some(0.99997),
            held: Some(true),
        },
        CheckResult { rule: "redis.lag.max < 50ms".to_owned(), value: None, held: None },
    ];
    run
}

fn limits() -> Vec<Finding> {
    let queue = [
        "The server's accept queue overflowed: no connection came through any more.",
        "ListenOverflows +58,734 and ListenDrops +58,734 between 14:05 and 15:05, while the \
         fullest listener had 4,096 of 4,096 waiting and the process used 0.9 of 8 cores.",
        "Raise the listen backlog of the server and `sysctl -w net.core.somaxconn=65535`.",
    ];
    let descriptors = [
        "The server has hardly any descriptors left.",
        "process.fds 420,012 of 420,032 (RLIMIT_NOFILE) from 14:00 on.",
        "LimitNOFILE=1100000 in the unit, then restart.",
    ];
    let firewall = [
        "The firewall of the tester follows every connection.",
        "conntrack.count rose to 421,200 of 1,048,576.",
        "",
    ];
    vec![
        finding(Gravity::Limit, "target", (845_000, 905_000), queue),
        finding(Gravity::Warning, "target", (840_000, 960_000), descriptors),
        finding(Gravity::Note, "tester", (0, 960_000), firewall),
    ]
}

pub fn ladder() -> Run {
    let mut world = RunHarness::new(11, 50_000);
    for (step, thousands) in [120, 240, 300, 540, 600, 700, 1_000_u32].into_iter().enumerate() {
        let clients = thousands * 1_000;
        world.stage(&format!("ladder {thousands}k"), clients, 2_000.0);
        world.all_leave();
        let seconds = clients / 20_000;
        for second in 0..seconds + 60 {
            let calls = if second < seconds { 20_000 } else { 0 };
            world.second(calls, calls, 1.0 + step as f64 * 0.2);
            world.messages(2_000);
        }
        let slower = 1.0 + step as f64 * 0.35;
        world.timed(Timing::Connect, u64::from(clients), 210.0 * slower, 1.3);
        world.timed(Timing::Layers, u64::from(clients), 2_400.0 * slower, 0.8);
        world.timed(Timing::Bind, u64::from(clients), 2_100.0 * slower, 1.7);
        world.timed(Timing::Ready, u64::from(clients), 2_600.0 * slower, 1.7);
        world.timed(Timing::Publish, 120_000, 700.0, 1.0);
        world.timed(Timing::Delivery, 240_000, 1_100.0, 1.3);
    }
    let mut run = world.run("ladder-20261120-211000", "Crowds of growing size, all at once.");
    run.command = "holdline load ladder --target miops://10.0.0.7:443".to_owned();
    run.total.codes.insert("BindRefused 135 BUSY".to_owned(), 412);
    for count in 0..412_u32 {
        run.total.causes.count(Phase::Bind, Cause::BindRefused);
        run.total.attempts += 1;
        if count % 4 == 0 {
            run.total.causes.count(Phase::Online, Cause::ClosedClean);
            run.total.attempts += 1;
        }
    }
    let ends: u64 = run.total.causes.sum();
    run.total.accounts =
        vec![account("attempts", &[("open", run.total.attempts - ends), ("ended", ends)])];
    run.agents = ["agent-1", "agent-2"].map(agent).to_vec();
    run.agents[1].lost_ms = Some(440_000);
    run.notes = vec![
        Note { at_ms: 440_000, text: "agent-2 was lost: no word for 3 s.".to_owned() },
        Note { at_ms: 500_000, text: "Redis is stopped for 10s.".to_owned() },
    ];
    run.findings = vec![finding(
        Gravity::Warning,
        "tester",
        (440_000, 440_000),
        [
            "An agent was lost, and 500,000 clients with it.",
            "agent-2 was silent from 7:20 on.",
            "See its log; its clients count as `agent_lost`.",
        ],
    )];
    run.summary = "The server took every crowd up to a million clients at once, and bound all of \
                   them within 63 s.\n\nIt answered BUSY to 412 calls, which all came through at \
                   their second try. No counter shows a limit."
        .to_owned();
    run
}

pub fn saturated() -> Run {
    let mut world = RunHarness::new(3, 20_000);
    world.stage("all at once", 20_000, 4_000.0);
    for second in 0..45 {
        world.second(if second < 10 { 2_000 } else { 0 }, if second < 12 { 1_600 } else { 0 }, 4.0);
    }
    world.timed(Timing::Connect, 16_000, 9_000.0, 1.9);
    world.timed(Timing::Bind, 16_000, 40_000.0, 2.1);
    let mut run = world.run("burst-20261120-220000", "Everybody at once.");
    run.saturation = vec![
        "A thread of the tester was busy 99 % of the time between 0:02 and 0:11.".to_owned(),
        "A loop of the tester turned for 412 ms: times are late by as much.".to_owned(),
    ];
    run.finished = false;
    run
}

/// One row, nothing else: the smallest run there is.
pub fn tiny() -> Run {
    let mut world = RunHarness::new(1, 10);
    world.stage("only", 10, 10.0);
    world.second(10, 10, 1.0);
    world.run("tiny", "")
}

/// Ten seconds with something of everything, short enough to be looked through word by word.
pub fn small() -> Run {
    let mut world = RunHarness::new(5, 600);
    for (name, clients, through, load) in [("calm", 300, 100, 1.0), ("storm", 600, 60, 6.0)] {
        world.stage(name, clients, 900.0 * load);
        for second in 0..5 {
            let calls = if second < 3 { 100 } else { 0 };
            world.second(calls, if second < 3 { through } else { 0 }, load);
            world.messages(20);
        }
        for (timing, p50) in
            [(Timing::Connect, 200.0), (Timing::Bind, 900.0), (Timing::Delivery, 1_500.0)]
        {
            world.timed(timing, 60_000, p50 * load, 1.1);
        }
    }
    let mut run = world.run("small-20261120-221500", "Something of everything.");
    run.command = "holdline load ladder --target mqtt://10.0.0.7:1883".to_owned();
    run.plan = LINK_LIMIT.to_owned();
    run.findings = limits();
    for (nth, finding) in run.findings.iter_mut().enumerate() {
        (finding.from_ms, finding.to_ms) = (6_000 - 1_000 * nth as u64, 8_000);
    }
    run.agents = ["agent-1", "agent-2"].map(agent).to_vec();
    run.agents[1].lost_ms = Some(9_000);
    run.notes = vec![Note { at_ms: 7_000, text: "Redis is stopped for 1s.".to_owned() }];
    run.skipped = vec![("calamity".to_owned(), "the stage before did not pass".to_owned())];
    run.total.codes.insert("BindRefused 135 BUSY".to_owned(), 12);
    run.stages[1].checks[0] =
        CheckResult { rule: "errors == 0".to_owned(), value: Some(120.0), held: Some(false) };
    run.checks =
        vec![CheckResult { rule: "redis.lag.max < 50ms".to_owned(), value: None, held: None }];
    for (at_ms, value) in [(11_000, 2.0), (12_000, 9.0)] {
        let mut reading = Reading::default();
        for (name, unit, kind) in [
            ("redis.lag", Unit::Micros, FigureKind::Peak),
            ("redis.depth", Unit::Count, FigureKind::Gauge),
            ("redis.writes", Unit::Count, FigureKind::Total),
            ("server.sessions", Unit::Count, FigureKind::Gauge),
            ("server.store.bytes", Unit::Bytes, FigureKind::Total),
            ("tester.thread.load-0.busy", Unit::Share, FigureKind::Peak),
            ("tester.turn_us_max", Unit::Micros, FigureKind::Peak),
            ("agent-1.busiest", Unit::Share, FigureKind::Peak),
            ("agent-2.busiest", Unit::Share, FigureKind::Peak),
        ] {
            reading.set(Column { name: name.into(), unit, kind }, value * 0.1);
        }
        run.series.push(at_ms, 1, &reading);
    }
    run
}

fn finding(
    gravity: Gravity,
    side: &str,
    (from_ms, to_ms): (u64, u64),
    texts: [&str; 3],
) -> Finding {
    let [what, evidence, remedy] = texts.map(str::to_owned);
    Finding { gravity, side: side.to_owned(), what, evidence, remedy, from_ms, to_ms }
}

pub fn account(what: &str, parts: &[(&str, u64)]) -> Balance {
    let total = parts.iter().map(|(_, count)| count).sum();
    let parts = parts.iter().map(|(part, count)| ((*part).to_owned(), *count)).collect();
    Balance { what: what.to_owned(), total, parts }
}

fn agent(name: &str) -> Agent {
    Agent {
        name: name.to_owned(),
        environment: environment(name),
        offset_us: if name.ends_with('2') { -1_240 } else { 0 },
        offset_error_us: 85,
        clients: 500_000,
        lost_ms: None,
        cpu_s: 1_804.2,
        busiest: 0.71,
        turn_us_max: 5_320,
    }
}

pub fn environment(host: &str) -> Environment {
    Environment {
        host: host.to_owned(),
        cpu: "AMD EPYC 7763".to_owned(),
        cores: 16,
        memory_bytes: 64 << 30,
        kernel: "6.18.2".to_owned(),
        around: "virtual machine (KVM)".to_owned(),
        version: "holdline 0.5.0 (bd86992)".to_owned(),
    }
}

pub fn doctor() -> Vec<(String, HostRow)> {
    let row = |item: &str, value: &str, need: &str, fitness: Fitness, remedy: &str| HostRow {
        item: item.to_owned(),
        value: value.to_owned(),
        need: need.to_owned(),
        fitness,
        symptom: "connections wait or are dropped; ListenOverflows, ListenDrops".to_owned(),
        remedy: remedy.to_owned(),
        root: !remedy.is_empty(),
        connections_max: None,
    };
    let somaxconn = "sysctl -w net.core.somaxconn=65535";
    vec![
        ("target".to_owned(), row("net.core.somaxconn", "4096", "65535", Fitness::Weak, somaxconn)),
        (
            "target".to_owned(),
            row("RLIMIT_NOFILE", "420032", "528000", Fitness::Bad, "LimitNOFILE=1100000"),
        ),
        ("tester".to_owned(), row("RLIMIT_NOFILE", "1048576", "528000", Fitness::Good, "")),
        ("tester".to_owned(), row("nf_conntrack_max", "1048576", "960000", Fitness::Good, "")),
        ("tester".to_owned(), row("thash_entries", "", "262144", Fitness::Unknown, "")),
    ]
}

/// A stage with what was counted in it.
pub fn stage(name: &str, from_ms: u64, clients: u64) -> StageRun {
    StageRun {
        name: name.to_owned(),
        from_ms,
        clients,
        counts: Counts::default(),
        ..StageRun::default()
    }
}

pub fn note_spread(counts: &mut Counts, timing: Timing, times: u64, p50: f64, tail: f64) {
    for (us, count) in spread(times, p50, tail) {
        counts.timings.at(timing).raw.note_times(us, count);
        let late = if us as f64 > p50 * 8.0 { us * 3 } else { us };
        counts.timings.at(timing).corrected.note_times(late, count);
    }
}

const LINK_LIMIT: &str = r#"name = "link-limit"
about = "Steps of 60,000 until the first limit."

[target]
url = ["mqtt://10.0.0.7:1883"]
metrics = "http://10.0.0.7:9100/metrics"

[[group]]
name = "devices"
keep_alive = "60s"

[[stage]]
name = "60k"
clients = { devices = 60000 }
arrive = { shape = "rate", per_s = 1000 }
hold = "60s"
pass = ["errors == 0", "bind.p99 < 500ms"]
"#;
