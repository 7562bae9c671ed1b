//! The runner: a plan's stages in order, each of them arrive, hold, settle and judge.
//!
//! The runner waits only by its [`RunClock`](super::parts::RunClock) and never longer than to the
//! next look. The parts of a stage are in `stage`, wishes of onlookers in `wishes`.
//!
//! ```text
//! stage: [leave] → arrive (all there, all had a turn, or arrive_max) → hold (faults, traffic)
//!        → settle (nothing sent, answers come in) → [audits] → checks → next, or the end
//! ```

mod audience;
mod audit;
mod excuse;
mod founding;
mod heard;
mod ledger;
mod look;
mod stage;
mod tail;
mod wishes;

use super::parts::{Before, Parts};
use super::redact;
use lab::order::Order;
use lab::plan::{Plan, Stage, Traffic};
use lab::run::{Agent, Counts, FORMAT, NOTES_MAX, Note, Run};
use lab::series::COLUMNS_MAX;
use std::collections::BTreeMap;

/// Milliseconds from one row of the series to the next.
const ROW_MS: u64 = 1_000;
/// Milliseconds between two looks while something is waited for.
const LOOK_MS: u64 = 100;

/// Works a plan off. The plan has been checked. An error says why nothing could be run at all;
/// whatever happens later is in the run.
pub fn run<'a>(plan: &'a Plan, before: Before, parts: Parts<'a>) -> Result<Run, String> {
    let mut runner = Runner::new(plan, before, parts);
    runner.found()?;
    runner.row();
    for place in 0..plan.stages.len() {
        if let Some(end) = &runner.end {
            let why = end.words();
            runner.run.skipped.push((plan.stages[place].name.clone(), why));
            continue;
        }
        runner.stage(place)?;
    }
    Ok(runner.finish())
}

/// Why a run ends before its plan does.
#[derive(Clone, PartialEq, Eq, Debug)]
enum End {
    /// A stage did not pass, and the plan says that this ends it.
    Failed(String),
    /// An onlooker wished it.
    Wished { now: bool },
    /// SIGINT or SIGTERM.
    Interrupted,
    /// An agent was lost.
    AgentLost(String),
    /// The load generator could not carry an order out.
    Refused(String),
    /// No call came through.
    NobodyAnswers,
    /// Every client was refused, or answered with nonsense, or not answered.
    NobodyLetIn,
}

impl End {
    fn words(&self) -> String {
        match self {
            End::Failed(stage) => format!("stage {stage} failed"),
            End::Wished { .. } => "the run was ended by hand".to_owned(),
            End::Interrupted => "the run was interrupted".to_owned(),
            End::AgentLost(agent) => format!("agent {agent} was lost"),
            End::Refused(why) => format!("the tester could not continue: {why}"),
            End::NobodyAnswers => "the target does not answer".to_owned(),
            End::NobodyLetIn => "the target accepted no client".to_owned(),
        }
    }

    /// Whether there is time to wait for answers.
    fn is_hasty(&self) -> bool {
        matches!(
            self,
            End::Wished { now: true } | End::Refused(_) | End::NobodyAnswers | End::NobodyLetIn
        )
    }
}

/// A plan that is being worked off.
struct Runner<'a> {
    plan: &'a Plan,
    parts: Parts<'a>,
    go_on_without_agents: bool,
    run: Run,
    began_ms: u64,
    /// When the next row is due, milliseconds since the run began.
    row_due_ms: u64,
    /// When the tester was looked at last.
    looked_ms: Option<u64>,
    /// Readings of the generator's machines since the last row.
    readings: Vec<lab::series::Reading>,
    /// Counts at the last look.
    groups: BTreeMap<String, Counts>,
    total: Counts,
    /// Totals of the last row.
    row_total: Counts,
    /// Addresses of conversations that were made, by their name in the plan.
    addresses: BTreeMap<String, Vec<String>>,
    /// Traffic of groups, for when they may send.
    traffic: BTreeMap<String, Vec<Traffic>>,
    /// Traffic of groups in this stage, whether or not they send now.
    spoken: BTreeMap<String, Vec<Traffic>>,
    /// Messages that groups have not heard and should have, and the like, by sums.
    summed: heard::Sums,
    /// Messages of each group that had no answer when the last stage had settled.
    unanswered: BTreeMap<String, f64>,
    /// Ends that are the plan's own doing.
    excuses: excuse::Excuses,
    /// Results of audits.
    audited: Counts,
    /// Groups that have a number of messages to send in this stage, and what they will have had
    /// taken then.
    owing: Vec<(String, f64)>,
    /// Messages that had an answer, and those received, when a look last showed more of them.
    answered: tail::Latest,
    received: tail::Latest,
    /// Clients that each group shall have.
    wanted: BTreeMap<String, u32>,
    place: usize,
    part: super::StagePart,
    until_ms: u64,
    paused: bool,
    /// Milliseconds of pauses, so far.
    paused_ms: u64,
    /// Notes that the watch has been shown.
    notes_shown: usize,
    /// Seconds in which the tester said that it was saturated, and what it said last.
    saturated: (u64, String),
    /// Looks since the last row, and those at which it said so.
    looks: u32,
    saturated_looks: u32,
    /// Whether messages are counted, so that it matters when they have been sent.
    counts_messages: bool,
    end: Option<End>,
}

impl<'a> Runner<'a> {
    fn new(plan: &'a Plan, before: Before, parts: Parts<'a>) -> Runner<'a> {
        let began_ms = parts.clock.now_ms();
        let shown = before.shown.as_ref().unwrap_or(plan);
        let run = Run {
            format: FORMAT,
            name: plan.name.clone(),
            about: plan.about.clone(),
            command: redact::command(&before.command),
            plan: redact::plan(shown),
            target: redact::targets(shown),
            began_unix_ms: parts.clock.unix_ms(),
            seed: before.seed,
            environment: before.environment,
            doctor: before.doctor,
            skipped: before.skipped,
            ..Run::default()
        };
        let mut runner = Runner {
            plan,
            parts,
            go_on_without_agents: before.go_on_without_agents,
            run,
            began_ms,
            row_due_ms: 0,
            looked_ms: None,
            readings: Vec::new(),
            groups: BTreeMap::new(),
            total: Counts::default(),
            row_total: Counts::default(),
            addresses: BTreeMap::new(),
            traffic: BTreeMap::new(),
            spoken: BTreeMap::new(),
            summed: heard::Sums::new(),
            unanswered: BTreeMap::new(),
            excuses: excuse::Excuses::default(),
            audited: Counts::default(),
            owing: Vec::new(),
            answered: tail::Latest::default(),
            received: tail::Latest::default(),
            wanted: BTreeMap::new(),
            place: 0,
            part: super::StagePart::Arriving,
            until_ms: 0,
            paused: false,
            paused_ms: 0,
            notes_shown: 0,
            saturated: (0, String::new()),
            looks: 0,
            saturated_looks: 0,
            counts_messages: false,
            end: None,
        };
        before.notes.into_iter().for_each(|note| runner.note(note));
        runner
    }

    /// Makes the groups.
    fn found(&mut self) -> Result<(), String> {
        for group in &self.plan.groups {
            let mut group = group.clone();
            if group.url.is_empty() {
                group.url.clone_from(&self.plan.target.url);
            }
            if group.url.is_empty() {
                let name = group.name;
                return Err(format!(
                    "group {name} has no target: give it on the command line, e.g. \
                     mqtt://127.0.0.1:1883, or as target.url in the plan"
                ));
            }
            let name = group.name.clone();
            let planned = self.plan.stages.iter().filter_map(|stage| stage.clients.get(&name));
            let clients_max = planned.copied().max().unwrap_or(0);
            let order = Order::Found { group: Box::new(group), clients_max };
            self.parts.generator.order(&order).map_err(|why| format!("group {name}: {why}"))?;
        }
        Ok(())
    }

    /// Milliseconds since the run began.
    fn now_ms(&mut self) -> u64 {
        self.parts.clock.now_ms().saturating_sub(self.began_ms)
    }

    fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.run.notes.len() < NOTES_MAX {
            let at_ms = self.now_ms();
            self.run.notes.push(Note { at_ms, text });
        }
    }

    /// Gives an order whose failure ends the run.
    fn order(&mut self, order: &Order) -> bool {
        match self.parts.generator.order(order) {
            Ok(()) => true,
            Err(why) => {
                self.note(format!("the clients refused an order: {why}"));
                self.end.get_or_insert(End::Refused(why));
                false
            }
        }
    }

    /// Has a group send this from now on, by the tester and by the API.
    fn send(&mut self, group: &str, traffic: &[Traffic]) {
        let (pushes, own): (Vec<_>, Vec<_>) =
            traffic.iter().cloned().partition(|sent| sent.what == lab::plan::What::Push);
        self.order(&Order::Traffic { group: group.to_owned(), traffic: own });
        if let Err(why) = self.parts.pushes.push(group, &pushes) {
            self.note(format!("no pushes to {group}: {why}"));
            self.end.get_or_insert(End::Refused(why));
        }
    }

    /// Lets nothing be sent, or all that shall be.
    fn send_all(&mut self, sending: bool) {
        for (group, traffic) in self.traffic.clone() {
            if !traffic.is_empty() {
                self.send(&group, if sending { &traffic } else { &[] });
            }
        }
    }

    /// Ends what is open, judges and hands over.
    fn finish(mut self) -> Run {
        self.look();
        self.row();
        self.run.took_ms = self.now_ms();
        self.run.total = self.total.clone();
        if self.run.series.columns_refused > 0 {
            let (most, refused) = (COLUMNS_MAX, self.run.series.columns_refused);
            self.note(format!(
                "the figures over time have room for {most} columns: {refused} readings of others \
                 were left out"
            ));
        }
        self.run.finished = match &self.end {
            None | Some(End::Failed(_)) => true,
            Some(end) => {
                let words = end.words();
                self.note(words);
                false
            }
        };
        if let Err(why) = self.parts.generator.order(&Order::Stop) {
            self.note(format!("the clients could not be stopped: {why}"));
        }
        self.judge();
        self.parts.watch.done(&self.run);
        self.run
    }

    /// Rules, saturation and findings over the whole run.
    fn judge(&mut self) {
        let (seconds, last) = self.saturated.clone();
        let rows = self.run.took_ms / ROW_MS;
        self.run.saturation = verdict::saturation(&self.run);
        if seconds >= SATURATED_S_MIN && seconds * SATURATED_ONE_IN > rows {
            let said = format!(
                "in {seconds} of {rows} seconds the tester reported: \
                                {last}"
            );
            self.run.saturation.push(said);
        }
        let scope = verdict::Scope::of_run(&self.run);
        let checks = self.plan.pass.iter().map(|rule| verdict::check(rule, &scope)).collect();
        self.run.checks = checks;
        self.run.findings = verdict::findings(&self.run);
        self.run.summary = verdict::summary(&self.run);
    }

    /// The agents as the last look showed them.
    fn agents(&mut self, agents: Vec<Agent>) {
        let lost = agents.iter().find(|agent| agent.lost_ms.is_some());
        if let (Some(lost), false, None) = (lost, self.go_on_without_agents, &self.end) {
            self.end = Some(End::AgentLost(lost.name.clone()));
        }
        self.run.agents = agents;
    }

    fn planned(&self) -> &'a Stage {
        &self.plan.stages[self.place]
    }
}

/// Seconds of saturation below which a run stays valid.
const SATURATED_S_MIN: u64 = 3;
/// A run is not valid when more than one in so many seconds was saturated.
const SATURATED_ONE_IN: u64 = 20;

#[cfg(test)]
mod tests;
