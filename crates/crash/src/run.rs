//! A run: its cycles, its last audit, and what is said about it.
//!
//! Nothing is judged here. Invariant: a server that was started is ended, whatever happens, for
//! its owner is dropped.

use crate::audit::{self, Depth};
use crate::body;
use crate::book::Book;
use crate::book::fact::Fact;
use crate::clock;
use crate::dice::Dice;
use crate::hook::Hook;
use crate::line::Line;
use crate::load::crowd::{self, Host};
use crate::load::orders::{self, Keyed};
use crate::load::registers::Registers;
use crate::load::{Numbers, Scene, Seen};
use crate::mqtt::{self, Mqtt};
use crate::plan::{CROWD, DeviceNumber, GROUPS, PRODUCT, Plan, SLEEPERS, TAGGED, members, names};
use crate::result::{self, Outcome};
use crate::sabotage;
use crate::server::{Home, Server};
use crate::{LOAD_MS, api};
use serde_json::json;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Threads that order pushes.
const APPLICATIONS: usize = 4;
/// Threads that are hosts to devices.
const HOSTS: usize = 2;
/// Audits and loads whose facts are kept for a failure.
const RECENT_MAX: usize = 12;
/// Starts in a hundred that are killed before they are done, and then tried again.
const STUMBLE_PERCENT: u64 = 8;
/// How long such a start may last, milliseconds.
const STUMBLE_MS_MAX: u64 = 40;
/// How long the load goes on after SIGTERM, or has been over before it, milliseconds.
const TERM_LOAD_MS: u64 = 30;
/// Longest time without a Report until all must have come to the webhook, seconds.
const HOOK_PATIENCE_S: u64 = 30;

/// Runs `plan`, tells about it and stores the result.
pub fn run(plan: &Plan) -> io::Result<ExitCode> {
    let folder = tempfile::Builder::new().prefix("holdline-crash-").tempdir()?;
    let hook = if plan.reports && plan.miop { Some(Hook::listen(plan.seed)?) } else { None };
    let home = Home::make(plan, folder.path(), hook.as_ref().map(|hook| hook.address))?;
    let (began_s, load_before) = (clock::unix_s(), result::load());
    let mut run = Run::new(plan, home, hook);
    println!("seed {}, {} cycles of {}", plan.seed, plan.cycles, plan.binary.display());
    let cycles = run.cycles(folder.path())?;
    if run.book.violations_count == 0 {
        run.last_audit()?;
    }
    let outcome = run.outcome(began_s, load_before);
    println!("{}", outcome.told());
    println!("  stored in {}", outcome.store(plan)?.display());
    for found in &outcome.violations {
        println!("violation in life {}: {}: {}", found.life, found.kind, found.text);
    }
    let found = outcome.violations_count > 0;
    if found {
        let kept = plan.keep.join(format!("seed-{}-cycle-{cycles}", plan.seed));
        run.keep(folder.path(), &kept)?;
        println!("seed {}, cycle {cycles}: all of it is in {}", plan.seed, kept.display());
        println!("the end of the server's log:\n{}", run.home.log_tail());
    }
    Ok(match (plan.sabotage, found) {
        (None, false) => ExitCode::SUCCESS,
        (None, true) => ExitCode::from(1),
        (Some(_), true) => {
            println!("the sabotage was found");
            ExitCode::SUCCESS
        }
        (Some(_), false) => {
            println!("the sabotage was NOT found");
            ExitCode::from(3)
        }
    })
}

/// How a life of the server ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// By SIGKILL, under load.
    Kill,
    /// By SIGTERM, under load.
    Term,
    /// By SIGTERM, when the load is over.
    TermInPeace,
}

struct Run<'a> {
    plan: &'a Plan,
    home: Home,
    hook: Option<Hook>,
    book: Book,
    registers: Registers,
    mqtt: Mqtt,
    numbers: Numbers,
    keyed: Vec<Vec<Keyed>>,
    hosts: Vec<Host>,
    said: HashMap<u64, DeviceNumber>,
    taken: HashSet<u64>,
    recent: VecDeque<(u32, Vec<Fact>)>,
    recoveries_us: Vec<u64>,
    ends: (u32, u32),
    hurt: Vec<String>,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, home: Home, hook: Option<Hook>) -> Run<'a> {
        let hosts = (0..HOSTS as DeviceNumber).map(|host| {
            let is_its = |device: &DeviceNumber| device % HOSTS as DeviceNumber == host;
            Host::new((SLEEPERS..CROWD).filter(is_its).collect())
        });
        Run {
            plan,
            home,
            hook,
            book: Book::new(plan.seed),
            registers: Registers::new(plan.tags),
            mqtt: Mqtt::default(),
            numbers: Numbers::default(),
            keyed: vec![Vec::new(); APPLICATIONS],
            hosts: hosts.collect(),
            said: HashMap::new(),
            taken: HashSet::new(),
            recent: VecDeque::new(),
            recoveries_us: Vec::new(),
            ends: (0, 0),
            hurt: Vec::new(),
        }
    }

    /// All cycles, until one finds something; the number of the last.
    fn cycles(&mut self, folder: &Path) -> io::Result<u32> {
        let mut dice = Dice::new(self.plan.seed, 0);
        let hurt_in = self.plan.cycles.min(3);
        for cycle in 1..=self.plan.cycles {
            if dice.percent(STUMBLE_PERCENT) {
                self.home.stumble(dice.range(1, STUMBLE_MS_MAX))?;
                self.book.tally.count("starts killed before they were done");
            }
            let Some(mut server) = self.start() else { return Ok(cycle) };
            let scene = self.scene(cycle, &server);
            if cycle == 1 {
                self.first(&scene);
            }
            let hurt = !self.hurt.is_empty();
            self.audit(&scene, if hurt { Depth::All } else { Depth::Some }, &mut dice);
            // What waits is left to grow over some lives.
            if dice.percent(50) || hurt {
                self.audit_mqtt(&scene);
            }
            if self.book.violations_count > 0 {
                return Ok(cycle);
            }
            let clean = dice.percent(self.plan.clean_percent) && self.plan.sabotage.is_none();
            let end = match (clean, dice.percent(50)) {
                (false, _) => End::Kill,
                (true, false) => End::Term,
                (true, true) => End::TermInPeace,
            };
            let load_ms = dice.range(LOAD_MS.0, LOAD_MS.1);
            self.load(&scene, &mut server, (end, load_ms));
            self.book.end_life(clean);
            if self.plan.snapshots {
                sabotage::copy(&self.home.data, &folder.join(format!("after-{cycle}")))?;
                let _ = std::fs::remove_dir_all(folder.join(format!("after-{}", cycle - 1)));
            }
            if let Some(how) = self.plan.sabotage.filter(|_| cycle == hurt_in) {
                self.hurt = sabotage::hurt(&self.home.data, how)?;
                println!("\n{}", self.hurt.join("\n"));
            }
            self.progress(cycle);
            if clock::now_us() / 1_000_000 > self.plan.seconds || self.book.violations_count > 0 {
                return Ok(cycle);
            }
        }
        Ok(self.plan.cycles)
    }

    fn start(&mut self) -> Option<Server> {
        match self.home.start() {
            Ok(server) => {
                self.recoveries_us.push(server.recovery_us);
                Some(server)
            }
            Err(error) => {
                self.book.wrong("the server did not start", error.to_string());
                None
            }
        }
    }

    fn scene(&self, cycle: u32, server: &Server) -> Scene {
        Scene {
            seed: self.plan.seed,
            cycle,
            devices: server.devices,
            mqtt: server.mqtt,
            api: server.api,
            keys: self.plan.keys,
            collapse: self.plan.collapse,
            reports: self.plan.reports,
            tags: self.plan.tags,
            stopping: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Tags that are set once and must hold for ever, and devices that can be given some.
    fn first(&mut self, scene: &Scene) {
        if self.plan.mqtt {
            self.mqtt.begin(scene.mqtt);
            self.judge_mqtt();
        }
        if !scene.tags || !self.plan.miop {
            return;
        }
        let api = api::Api::new(scene.api);
        let groups = (0..GROUPS).flat_map(|group| {
            let tags = json!({ "tags": [format!("group-{group}")] });
            members(group).into_iter().map(move |device| (names(device).1, tags.clone()))
        });
        let tagged = (0..TAGGED).map(|at| (format!("t-{at}"), json!({ "tags": [] })));
        for (name, tags) in groups.chain(tagged) {
            let bound = Line::bind_patiently(scene.devices, (0, PRODUCT, &name), &[]);
            let bound = bound.map(|(_, answer)| answer);
            let path = format!("/v1/products/{PRODUCT}/devices/{name}/tags");
            let reply = api.put(&path, Some(&tags));
            if bound.is_err() || !matches!(reply, api::Reply::Done(_)) {
                self.book.wrong("a tag could not be set", format!("{name}: {bound:?} {reply:?}"));
            }
        }
    }

    fn audit(&mut self, scene: &Scene, depth: Depth, dice: &mut Dice) {
        if !self.plan.miop {
            return;
        }
        let began = clock::now_us();
        let mut facts = self.registers.look(scene);
        let fleeting = self.registers.fleeting();
        facts.extend(audit::run(scene, depth, &fleeting, dice));
        let visited = clock::now_us();
        self.write_down(facts);
        let tally = &mut self.book.tally;
        tally.count_by("µs of visits without load", visited - began);
        tally.count_by("µs of judging", clock::now_us() - visited);
    }

    /// Every subscriber takes what waits for it.
    fn audit_mqtt(&mut self, scene: &Scene) {
        if self.plan.mqtt {
            let began = clock::now_us();
            self.mqtt.audit(self.book.life(), scene);
            self.judge_mqtt();
            self.book.tally.count_by("µs of audits of mqtt", clock::now_us() - began);
        }
    }

    fn end_mqtt(&mut self, facts: Vec<mqtt::Fact>) {
        if self.plan.mqtt {
            self.mqtt.take(self.book.life(), facts);
            self.mqtt.end_life();
            self.judge_mqtt();
        }
    }

    fn judge_mqtt(&mut self) {
        let (wrongs, tally) = self.mqtt.judged();
        wrongs.into_iter().for_each(|(kind, text)| self.book.wrong(kind, text));
        tally.0.iter().for_each(|(what, by)| self.book.tally.count_by(what, *by));
    }

    /// Load from all sides, and the end of the server.
    fn load(&mut self, scene: &Scene, server: &mut Server, (end, load_ms): (End, u64)) {
        let began = clock::now_us();
        let (numbers, registers) = (&self.numbers, &mut self.registers);
        let (keyed, hosts) = (&mut self.keyed, &mut self.hosts);
        let (mqtt, plan) = (&mut self.mqtt, self.plan);
        let (seen, topics, alive, (stopped, at)) = std::thread::scope(|threads| {
            let mut parties = Vec::new();
            let clients = match plan.mqtt {
                true => mqtt.load(threads, (scene, numbers)),
                false => Vec::new(),
            };
            let (keyed, hosts) =
                if plan.miop { (&mut keyed[..], &mut hosts[..]) } else { Default::default() };
            for (at, keyed) in keyed.iter_mut().enumerate() {
                let party = 1 + at as u64;
                parties.push(threads.spawn(move || orders::run(scene, party, numbers, keyed)));
            }
            for (at, host) in hosts.iter_mut().enumerate() {
                let party = 101 + at as u64;
                parties.push(threads.spawn(move || crowd::run(scene, party, numbers, host)));
            }
            if plan.miop {
                parties.push(threads.spawn(move || registers.run(scene, 200, numbers)));
            }
            clock::rest(load_ms);
            let (alive, at) = (!server.has_died(), clock::now_us());
            match end {
                End::Kill => server.kill(),
                End::Term => {
                    scene.stopping.store(true, Ordering::Relaxed);
                    server.ask_to_stop();
                    clock::rest(TERM_LOAD_MS);
                }
                End::TermInPeace => {
                    scene.over.store(true, Ordering::Relaxed);
                    clock::rest(TERM_LOAD_MS);
                    server.ask_to_stop();
                }
            }
            scene.over.store(true, Ordering::Relaxed);
            let stopped = end == End::Kill || server.stop();
            let sound = "a party that panics is a defect of the harness";
            let seen = parties.into_iter().map(|party| party.join().expect(sound));
            let seen: Vec<Seen> = seen.collect();
            let topics: Vec<_> =
                clients.into_iter().flat_map(|party| party.join().expect(sound)).collect();
            (seen, topics, alive, (stopped, at))
        });
        if !alive {
            self.book.wrong("the server ended by itself", format!("cycle {}", scene.cycle));
        }
        if !stopped {
            self.book.wrong("the server did not stop cleanly", format!("cycle {}", scene.cycle));
        }
        let ends = if end == End::Kill { &mut self.ends.0 } else { &mut self.ends.1 };
        *ends += 1;
        let mut facts = vec![Fact::Ended { at, how: format!("{end:?}") }];
        for seen in seen {
            self.said.extend(seen.said);
            self.taken.extend(seen.taken);
            seen.tally.0.iter().for_each(|(what, by)| self.book.tally.count_by(what, *by));
            facts.extend(seen.facts);
        }
        let loaded = clock::now_us();
        // All at once: what one party was sent another has asked.
        self.write_down(facts);
        self.end_mqtt(topics);
        self.book.tally.count_by("µs of load", loaded - began);
        self.book.tally.count_by("µs of judging", clock::now_us() - loaded);
    }

    /// The book judges the facts; those of the last lives are kept for whoever has to understand.
    fn write_down(&mut self, mut facts: Vec<Fact>) {
        self.book.take(&facts);
        for fact in &mut facts {
            if let Fact::Visited(visit) = fact {
                visit.came.iter_mut().for_each(|came| came.body.truncate(body::BYTES_MIN));
            }
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((self.book.life(), facts));
    }

    /// Keeps everything about a failure in `folder`.
    fn keep(&self, from: &Path, folder: &Path) -> io::Result<()> {
        sabotage::copy(from, folder)?;
        let mut facts = String::new();
        for (life, some) in &self.recent {
            for fact in some {
                writeln!(facts, "life {life}: {fact:?}").expect("a String takes all");
            }
        }
        std::fs::write(folder.join("facts-mqtt.txt"), self.mqtt.facts())?;
        std::fs::write(folder.join("facts.txt"), facts)
    }

    /// Drains everything, waits for the Reports, and checks that nothing is left after a clean
    /// stop.
    fn last_audit(&mut self) -> io::Result<()> {
        let mut dice = Dice::new(self.plan.seed, 1);
        for turn in 0..2 {
            let Some(mut server) = self.start() else { return Ok(()) };
            let scene = self.scene(self.plan.cycles + 1 + turn, &server);
            self.audit(&scene, Depth::All, &mut dice);
            self.audit_mqtt(&scene);
            if turn == 0 {
                self.wait_for_reports();
            }
            server.ask_to_stop();
            if !server.stop() {
                self.book.wrong("the server did not stop cleanly", "the last audit".into());
            }
            self.ends.1 += 1;
            self.book.end_life(true);
        }
        let left = self.book.promised();
        if left > 0 {
            // Those whose products are gone cannot be fetched; all others were drained.
            self.book.tally.count_by("pushes of products that are gone", left as u64);
        }
        Ok(())
    }

    fn wait_for_reports(&mut self) {
        let Some(hook) = &self.hook else { return };
        let (mut missing, mut since) = (usize::MAX, clock::now_us());
        loop {
            let now = hook.look(|heard| heard.missing(&self.taken).len());
            if now < missing {
                (missing, since) = (now, clock::now_us());
            }
            if missing == 0 || clock::now_us() - since > HOOK_PATIENCE_S * 1_000_000 {
                break;
            }
            clock::rest(50);
        }
        let life = self.book.life();
        let found = hook.look(|heard| heard.judge(life, &self.taken, &self.said));
        found.into_iter().for_each(|found| self.book.wrong(found.kind, found.text));
        let (heard, more) = hook.look(|heard| heard.counts());
        let (taken, refused) = hook.look(|heard| heard.batches);
        let tally = &mut self.book.tally;
        tally.count_by("reports said", self.said.len() as u64);
        tally.count_by("reports answered taken", self.taken.len() as u64);
        tally.count_by("reports posted", heard);
        tally.count_by("reports posted again", more);
        tally.count_by("batches answered 200", taken);
        tally.count_by("batches answered 500", refused);
    }

    fn progress(&self, cycle: u32) {
        if cycle.is_multiple_of(10) || cycle == self.plan.cycles {
            let of = |name: &str| self.book.tally.0.get(name).copied().unwrap_or(0);
            println!(
                "cycle {cycle} of {}, {} s: {} pushes stored, {} delivered; MQTT: {} answered, {} \
                 delivered; {} violations",
                self.plan.cycles,
                clock::now_us() / 1_000_000,
                of("pushes answered stored"),
                of("deliveries"),
                of("mqtt messages answered"),
                of("mqtt deliveries"),
                self.book.violations_count
            );
        }
    }

    fn outcome(&mut self, began_s: u64, load_before: String) -> Outcome {
        Outcome {
            began_s,
            load_before,
            ends: self.ends,
            recoveries_us: std::mem::take(&mut self.recoveries_us),
            tally: self.book.tally.clone(),
            violations: self.book.violations.clone(),
            violations_count: self.book.violations_count,
            sabotage: self.hurt.clone(),
        }
    }
}
