//! Seconds of a run, one after the other, with the figures that both hosts would have told.

use super::{account, doctor, environment, note_spread, stage};
use lab::cause::{Cause, Phase};
use lab::run::{CheckResult, FIGURES, FORMAT, Run};
use lab::series::{Column, FigureKind, Reading, Unit};
use lab::timing::Timing;
use std::borrow::Cow;
use std::collections::BTreeMap;

pub struct RunHarness {
    run: Run,
    at_ms: u64,
    online: u64,
    planned: u64,
    seed: u64,
    totals: BTreeMap<String, f64>,
    spread_now: f64,
}

/// A distribution of so many times around `p50` with a long tail: values and how often.
pub fn spread(times: u64, p50: f64, tail: f64) -> Vec<(u64, u64)> {
    let steps = 400_u64;
    let at = |step: u64| {
        let share = (step as f64 + 0.5) / steps as f64;
        // A logistic distribution of the logarithm: heavy on the right, as waiting is.
        let power = (share / (1.0 - share)).ln() * 0.32 * tail;
        ((p50 * power.exp()) as u64).max(1)
    };
    let mut out: Vec<(u64, u64)> = (0..steps).map(|step| (at(step), times / steps)).collect();
    out.push(((p50 * 60.0 * tail) as u64, times / 5_000));
    out.push(((p50 * 400.0 * tail) as u64, 3));
    out
}

impl RunHarness {
    pub fn new(seed: u64, _clients: u32) -> RunHarness {
        let run = Run {
            format: FORMAT,
            target: vec!["mqtt://10.0.0.7:1883".to_owned()],
            began_unix_ms: 1_795_205_700_000,
            seed,
            finished: true,
            environment: environment("tester-1"),
            doctor: doctor(),
            ..Run::default()
        };
        let (totals, spread_now) = (BTreeMap::new(), 1.0);
        RunHarness { run, at_ms: 0, online: 0, planned: 0, seed, totals, spread_now }
    }

    pub fn stage(&mut self, name: &str, clients: u32, bind_us: f64) {
        self.planned = u64::from(clients);
        let mut stage = stage(name, self.at_ms, self.planned);
        stage.checks = vec![
            CheckResult { rule: "errors == 0".to_owned(), value: Some(0.0), held: Some(true) },
            CheckResult {
                rule: "bind.p99 < 500ms".to_owned(),
                value: Some(bind_us * 12.0),
                held: Some(true),
            },
        ];
        self.run.stages.push(stage);
    }

    pub fn all_leave(&mut self) {
        for _ in 0..self.online {
            self.run.total.causes.count(Phase::Online, Cause::Farewell);
        }
        self.online = 0;
    }

    pub fn messages(&mut self, sent: u64) {
        self.raise("messages.sent", sent as f64);
        self.raise("messages.taken", sent as f64);
        self.raise("messages.received", sent as f64 * 2.0);
        self.raise("messages.bytes", sent as f64 * 256.0);
    }

    pub fn timed(&mut self, timing: Timing, times: u64, p50: f64, tail: f64) {
        let at = self.run.stages.len() - 1;
        note_spread(&mut self.run.stages[at].counts, timing, times, p50, tail);
        note_spread(&mut self.run.total, timing, times, p50, tail);
    }

    /// A second in which so many called and so many came through; `load` makes everything slower.
    pub fn second(&mut self, calls: u64, through: u64, load: f64) {
        self.at_ms += 1_000;
        self.spread_now = load;
        self.online += through;
        let failed = calls - through.min(calls);
        let place = self.run.stages.len() - 1;
        for _ in 0..failed {
            let (phase, cause) = match self.at_ms / 1_000 % 5 {
                0 => (Phase::Bind, Cause::BindTimedOut),
                _ => (Phase::Connect, Cause::SynTimedOut),
            };
            self.run.total.causes.count(phase, cause);
            self.run.stages[place].counts.causes.count(phase, cause);
            *self.totals.entry(format!("ended.{}", cause.name())).or_default() += 1.0;
        }
        self.run.total.attempts += calls;
        self.run.total.bound += through;
        for (name, by) in [
            ("attempts", calls as f64),
            ("bound", through as f64),
            ("errors", failed as f64),
            ("established", through as f64),
            ("heartbeats.sent", self.online as f64 / 60.0),
            ("heartbeats.answered", (self.online as f64 / 60.0 - 0.4 * (load - 1.0)).max(0.0)),
            ("heartbeats.late", 0.4 * (load - 1.0)),
            ("bytes.in", self.online as f64 * 2.0),
            ("bytes.out", self.online as f64 * 2.4 + calls as f64 * 90.0),
        ] {
            self.raise(name, by);
        }
        let mut reading = self.clients(calls);
        reading.extend(self.machine("target", 8, load));
        reading.extend(self.machine("tester", 16, load * 0.6));
        self.run.series.push(self.at_ms, place as u16, &reading);
        let stage = &mut self.run.stages[place];
        stage.to_ms = self.at_ms;
        stage.counts.online = self.online;
        stage.counts.attempts += calls;
        if calls > 0 {
            stage.arrived_ms = self.at_ms;
        }
    }

    pub fn run(mut self, name: &str, about: &str) -> Run {
        let run = &mut self.run;
        (run.name, run.about) = (name.to_owned(), about.to_owned());
        run.took_ms = self.at_ms;
        let total = &mut run.total;
        (total.planned, total.online, total.open) = (self.planned, self.online, self.online);
        for (name, _) in FIGURES {
            if let Some(value) = self.totals.get(*name) {
                total.raise(name, value.round());
            }
        }
        total.attempts = total.open + total.causes.sum();
        let ended = total.causes.sum();
        total.accounts = vec![
            account("attempts", &[("open", total.open), ("ended", ended)]),
            account(
                "heartbeats sent",
                &[("answered", 1_204_300), ("late", 310), ("under way", 12)],
            ),
        ];
        self.run
    }

    fn raise(&mut self, name: &str, by: f64) {
        *self.totals.entry(name.to_owned()).or_default() += by;
    }

    /// A number between 0 and 1, another each time.
    fn random(&mut self) -> f64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
        (self.seed >> 33) as f64 / f64::from(1_u32 << 31)
    }

    fn clients(&mut self, calls: u64) -> Reading {
        let mut reading = Reading::default();
        let mut set = |name: &str, kind: FigureKind, unit: Unit, value: f64| {
            let name = Cow::Owned(format!("clients.{name}"));
            reading.set(Column { name, unit, kind }, value);
        };
        set("online", FigureKind::Gauge, Unit::Count, self.online as f64);
        set("open", FigureKind::Gauge, Unit::Count, self.online as f64 + calls as f64 / 3.0);
        set("planned", FigureKind::Gauge, Unit::Count, self.planned as f64);
        for (name, value) in &self.totals {
            set(name, FigureKind::Total, Unit::Count, *value);
        }
        let load = self.spread_now;
        let shapes = [("connect", 190.0, 6.0), ("bind", 1_400.0, 9.0), ("heartbeat", 600.0, 4.0)];
        for (name, p50, tail) in shapes {
            if calls == 0 && name != "heartbeat" {
                continue;
            }
            let (a, b, c) = (self.random(), self.random(), self.random());
            let half = p50 * load * (0.9 + 0.2 * a);
            let most = half * tail * (0.8 + 0.6 * b) * load;
            let all = most * (1.5 + 6.0 * c * c * c);
            for (point, us) in
                [("p50", half), ("p99", most), ("max", all), ("raw_p99", most / (1.0 + load * 0.3))]
            {
                set(&format!("{name}.{point}"), FigureKind::Peak, Unit::Micros, us.round());
            }
        }
        reading
    }

    fn machine(&mut self, owner: &'static str, cores: u32, load: f64) -> Reading {
        let (online, kib) = (self.online as f64, 1_024.0);
        let mut reading = Reading::default();
        let mut set = |name: String, kind: FigureKind, unit: Unit, value: f64| {
            reading.set(Column { name: Cow::Owned(format!("{owner}.{name}")), unit, kind }, value);
        };
        let mut busy = 0.0;
        for core in 0..cores {
            let share = (0.08
                + 0.3 * load.min(2.5) * self.random() / (1.0 + f64::from(core) * 0.1))
                .min(1.0);
            busy += share;
            set(format!("cpu.core.{core}"), FigureKind::Peak, Unit::Share, share);
        }
        let gauge = FigureKind::Gauge;
        set("cpu.cores".into(), gauge, Unit::Count, f64::from(cores));
        set("cpu.busy".into(), gauge, Unit::Share, busy);
        set("cpu.softirq".into(), gauge, Unit::Share, busy * 0.2);
        set("process.cpu".into(), gauge, Unit::Share, busy * 0.6);
        set("cpu.busiest".into(), FigureKind::Peak, Unit::Share, (0.3 + 0.07 * load).min(1.0));
        set("process.rss".into(), FigureKind::Peak, Unit::Bytes, 42e6 + online * 1_130.0);
        set("memory.slab".into(), gauge, Unit::Bytes, 300e6 + online * 4.1 * kib);
        set("memory.sockets".into(), gauge, Unit::Bytes, 4e6 + online * 12.0);
        set("memory.total".into(), gauge, Unit::Bytes, 64.0 * kib * kib * kib);
        set("memory.used".into(), FigureKind::Peak, Unit::Bytes, 3.1e9 + online * 5.3 * kib);
        set("process.fds".into(), FigureKind::Peak, Unit::Count, online + 12.0);
        set("process.fds_max".into(), gauge, Unit::Count, 420_032.0);
        set("tcp.established".into(), gauge, Unit::Count, online);
        set("tcp.time_wait".into(), gauge, Unit::Count, 400.0 * self.random());
        set(
            "tcp.listen_queue".into(),
            FigureKind::Peak,
            Unit::Count,
            if load > 5.0 { 4_096.0 } else { 30.0 * self.random() },
        );
        set("tcp.listen_backlog".into(), gauge, Unit::Count, 4_096.0);
        let at = self.at_ms as f64 / 1_000.0;
        for (name, rate) in [
            ("net.packets_in", 1_200.0),
            ("net.packets_out", 1_900.0),
            ("tcp.retransmits", 0.0),
            ("tcp.in_segments", 1_100.0),
            ("tcp.out_segments", 1_850.0),
            ("softnet.dropped", 0.0),
            ("tcp.opens_passive", 500.0),
            ("host.switches", 40_000.0),
            ("ip.in_discards", 0.0),
        ] {
            set(
                name.into(),
                FigureKind::Total,
                Unit::Count,
                (at * rate * (1.0 + 0.001 * self.random())).round(),
            );
        }
        let lost = self.totals.get("errors").copied().unwrap_or(0.0);
        for (name, value) in [
            ("tcp.listen_overflows", lost),
            ("tcp.listen_drops", lost),
            ("tcp.syn_retransmits", lost * 3.1),
        ] {
            set(name.into(), FigureKind::Total, Unit::Count, value.round());
        }
        set("net.bytes_in".into(), FigureKind::Total, Unit::Bytes, at * 130_000.0);
        set("net.bytes_out".into(), FigureKind::Total, Unit::Bytes, at * 210_000.0);
        set("psi.cpu".into(), FigureKind::Peak, Unit::Share, 0.02 * load * self.random());
        reading
    }
}
