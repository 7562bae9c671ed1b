//! The groups of this process, and what its own threads tell of themselves.

use super::recruit;
use crate::fleet::effort::{self, SATURATED, ThreadUse};
use crate::fleet::snapshot::Snapshot;
use crate::{Fleet, source};
use lab::generator::Look;
use lab::order::Order;
use lab::plan::Group;
use lab::run::{Agent, Counts};
use lab::series::{Column, Unit};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

const TURN: Column = Column::peak("tester.turn_us_max", Unit::Micros);
const BUSIEST: Column = Column::peak("tester.busiest", Unit::Share);
const CPU: Column = Column::total("tester.engine.cpu_s", Unit::Seconds);
const THREADS: Column = Column::gauge("tester.engine.threads", Unit::Count);

/// Longest turn of a loop that does not yet show in what it measures, microseconds.
const TURN_US_MAX: u64 = 100_000;
/// The shortest time of which the share that a thread was busy means something.
const SPAN_MIN: Duration = Duration::from_millis(200);
/// Threads whose effort is reported one by one, at most.
const THREADS_TOLD_MAX: usize = 32;
/// Reasons for saturation told at once, at most.
const REASONS_MAX: usize = 8;

/// The groups of this process.
pub(super) struct Here {
    seed: u64,
    /// Processes of the tester: all of them call from this machine's addresses.
    processes: u32,
    teams: BTreeMap<String, Team>,
    turn_us_max: u64,
    /// The busiest share of the whole run so far.
    busiest: f64,
}

/// A group.
struct Team {
    group: Group,
    to: Vec<SocketAddr>,
    clients: u32,
    /// The most there were or are planned to be.
    clients_max: u32,
    work: Work,
    /// The threads' effort at the last look.
    before: Vec<ThreadUse>,
    /// Messages dropped by then.
    dropped: u64,
}

enum Work {
    Goes(Fleet),
    Over(Box<Snapshot>),
}

impl Team {
    fn fleet(&self) -> Result<&Fleet, String> {
        match &self.work {
            Work::Goes(fleet) => Ok(fleet),
            Work::Over(_) => Err("the run has ended".to_owned()),
        }
    }
}

impl Here {
    pub(super) fn new(seed: u64, processes: u32) -> Here {
        Here { seed, processes, teams: BTreeMap::new(), turn_us_max: 0, busiest: 0.0 }
    }

    pub(super) fn order(&mut self, order: &Order) -> Result<(), String> {
        match order {
            Order::Found { group, clients_max } => self.found(group, *clients_max),
            Order::Arrive { group, clients, arrival } => {
                let team = self.team(group)?;
                team.clients_max = team.clients_max.max(*clients);
                let sources = self.sources(group)?;
                let team = self.team(group)?;
                team.fleet()?.arrive(*clients, *arrival, sources)?;
                team.clients = *clients;
                Ok(())
            }
            Order::Traffic { group, traffic } => {
                self.team(group)?.fleet()?.send_from_now_on(traffic)
            }
            Order::Cut { group, share, how } => {
                self.each(group.as_deref(), |fleet| fleet.cut(*share, *how))
            }
            Order::Flap { group, share_per_s } => {
                self.each(group.as_deref(), |fleet| fleet.flap(*share_per_s))
            }
            Order::Stop => {
                for team in self.teams.values_mut() {
                    let over = Work::Over(Box::default());
                    team.work = match std::mem::replace(&mut team.work, over) {
                        Work::Goes(fleet) => Work::Over(Box::new(fleet.stop())),
                        over => over,
                    };
                }
                Ok(())
            }
        }
    }

    fn found(&mut self, group: &Group, clients_max: u32) -> Result<(), String> {
        let named = |what: String| format!("group `{}`: {what}", group.name);
        if self.teams.contains_key(&group.name) {
            return Err(named("the name is taken".to_owned()));
        }
        let mut plan = recruit::plan(group, self.seed).map_err(named)?;
        plan.hearing.is_shared_elsewhere |= plan.hearing.is_shared && self.processes > 1;
        let to = plan.to.clone();
        let work = Work::Goes(Fleet::start(plan).map_err(named)?);
        let group = group.clone();
        let (clients, before, dropped) = (0, Vec::new(), 0);
        let team = Team { to, clients, clients_max, work, before, dropped, group };
        self.teams.insert(team.group.name.clone(), team);
        Ok(())
    }

    fn team(&mut self, name: &str) -> Result<&mut Team, String> {
        self.teams.get_mut(name).ok_or_else(|| format!("no group `{name}`"))
    }

    /// Where the clients of a group call from. Ports are shared by all that call the same target.
    fn sources(&self, name: &str) -> Result<Vec<std::net::IpAddr>, String> {
        let Some(team) = self.teams.get(name) else { return Ok(Vec::new()) };
        let others = self.teams.values().filter(|other| other.group.name != name);
        let beside = others.filter(|other| other.to.iter().any(|to| team.to.contains(to)));
        let all = beside.map(|other| other.clients_max).fold(team.clients_max, u32::saturating_add);
        source::spread(&team.group.sources, &team.to, all.saturating_mul(self.processes))
    }

    fn each(&self, name: Option<&str>, act: impl Fn(&Fleet)) -> Result<(), String> {
        let teams = self.teams.values().filter(|team| name.is_none_or(|n| n == team.group.name));
        let fleets: Vec<&Fleet> = teams.filter_map(|team| team.fleet().ok()).collect();
        if fleets.is_empty() && name.is_some() {
            return Err(format!("no group `{}`", name.unwrap_or_default()));
        }
        fleets.into_iter().for_each(act);
        Ok(())
    }

    pub(super) fn look(&mut self) -> Look {
        let mut look = Look::default();
        let (mut turn, mut threads, mut clients) = (0, 0, 0);
        let (mut busiest, mut busiest_of_all) = (None::<f64>, 0.0_f64);
        for (name, team) in &mut self.teams {
            let seen = match &team.work {
                Work::Goes(fleet) => fleet.snapshot(),
                Work::Over(seen) => (**seen).clone(),
            };
            let is_over = matches!(team.work, Work::Over(_));
            look.groups.insert(name.clone(), counts(&seen));
            let since = since(&seen.threads, &team.before);
            for (place, thread) in since.iter().enumerate().filter(|_| !is_over) {
                turn = turn.max(thread.turn_us_max);
                busiest_of_all = busiest_of_all.max(seen.threads[place].busy());
                if thread.elapsed < SPAN_MIN {
                    continue;
                }
                busiest = Some(busiest.unwrap_or(0.0).max(thread.busy()));
                if threads < THREADS_TOLD_MAX {
                    let column = Column::peak("busy", Unit::Share);
                    let column = column.of(&format!("tester.thread.{name}-{place}"));
                    look.reading.set(column, thread.busy());
                }
                threads += 1;
            }
            saturation(name, &since, seen.dropped - team.dropped.min(seen.dropped), &mut look);
            // Of two looks right after each other the share of a moment would mean nothing.
            if since.iter().all(|thread| thread.elapsed >= SPAN_MIN) {
                team.before = seen.threads;
            }
            team.dropped = seen.dropped;
            clients += u64::from(team.clients);
        }
        self.turn_us_max = self.turn_us_max.max(turn);
        if threads > 0 {
            self.busiest = busiest_of_all;
        }
        let cpu_s = effort::of_this_process().as_secs_f64();
        look.reading.set(TURN, turn as f64);
        if let Some(share) = busiest {
            look.reading.set(BUSIEST, share);
        }
        look.reading.set(CPU, cpu_s);
        look.reading.set(THREADS, threads as f64);
        look.agents.push(Agent {
            name: "tester".to_owned(),
            clients,
            cpu_s,
            busiest: self.busiest,
            turn_us_max: self.turn_us_max,
            ..Agent::default()
        });
        look
    }
}

/// The counts of a fleet. Threads that panicked appear as an account whose sums differ.
fn counts(seen: &Snapshot) -> Counts {
    let mut counts = seen.counts();
    if seen.lost_threads > 0 {
        let what = "threads of the tester that failed".to_owned();
        counts.accounts.push(lab::run::Balance { what, total: seen.lost_threads, parts: vec![] });
    }
    counts
}

/// Time that threads spent since then. Their number does not change while a fleet goes.
fn since(now: &[ThreadUse], before: &[ThreadUse]) -> Vec<ThreadUse> {
    let fresh = ThreadUse::default();
    let before = before.iter().chain(std::iter::repeat(&fresh));
    let spent = |(now, then): (&ThreadUse, &ThreadUse)| ThreadUse {
        elapsed: now.elapsed.saturating_sub(then.elapsed),
        ran: now.ran.saturating_sub(then.ran),
        waited: now.waited.saturating_sub(then.waited),
        turn_us_max: now.turn_us_max,
    };
    now.iter().zip(before).map(spent).collect()
}

/// Reasons why the figures since the last look cannot be trusted.
fn saturation(name: &str, threads: &[ThreadUse], dropped: u64, look: &mut Look) {
    let mut reasons = Vec::new();
    for (place, thread) in threads.iter().enumerate() {
        if thread.is_saturated() {
            let share = 100.0 * thread.busy().min(1.0);
            reasons.push(format!(
                "thread {place} of group `{name}` was busy {share:.0} % of the time (more than \
                 {:.0} % is too much)",
                100.0 * SATURATED
            ));
        }
        if thread.turn_us_max > TURN_US_MAX {
            let turn = Duration::from_micros(thread.turn_us_max);
            reasons.push(format!("a turn of thread {place} of group `{name}` took {turn:.0?}"));
        }
    }
    if dropped > 0 {
        reasons.push(format!("group `{name}` was {dropped} times too late for its plan"));
    }
    let room = REASONS_MAX.saturating_sub(look.saturation.len());
    look.saturation.extend(reasons.into_iter().take(room));
}

/// Adds what another process tells of itself: the worst counts, and processor time adds up.
pub(super) fn worst_of(look: &mut Look, other: &Look) {
    for column in [TURN, BUSIEST] {
        let values = [look.reading.of(&column.name), other.reading.of(&column.name)];
        look.reading.set(column, values.into_iter().flatten().fold(0.0, f64::max));
    }
    for column in [CPU, THREADS] {
        let values = [look.reading.of(&column.name), other.reading.of(&column.name)];
        look.reading.set(column, values.into_iter().flatten().sum());
    }
    if let (Some(mine), Some(theirs)) = (look.agents.first_mut(), other.agents.first()) {
        mine.clients += theirs.clients;
        mine.cpu_s += theirs.cpu_s;
        mine.busiest = mine.busiest.max(theirs.busiest);
        mine.turn_us_max = mine.turn_us_max.max(theirs.turn_us_max);
    }
}
