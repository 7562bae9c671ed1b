//! Demands of the command line on a plan: target, size, duration, and what may be broken.
//!
//! A plan and what is asked become a plan that can be run, with what was left out of it and why.
//! It starts nothing. The invariant: nothing is left out silently, and what comes out has passed
//! the check.

mod fit;

use crate::run::{check, file, scale};
use crate::target::{Speech, Url};
use lab::plan::{Arrival, Plan, Span, Stage, Target, Traffic, What};

/// Demands of the command line on a plan.
#[derive(Clone, Default, Debug)]
pub struct Asked {
    /// The target, and what may be asked about it and broken; the plan decides the rest.
    pub target: Target,
    /// Clients of the largest stage (link-limit: of the last step).
    pub clients: Option<u32>,
    /// Clients a step (link-limit).
    pub step: Option<u32>,
    /// Multiplies all counts and rates.
    pub scale: Option<f64>,
    /// How long stages are held that are held at all.
    pub hold: Option<Span>,
    /// Clients that come a second, in place of how the plan has them come.
    pub rate: Option<f64>,
    /// Seed of all randomness.
    pub seed: Option<u64>,
    /// `KEY=VALUE` texts.
    pub sets: Vec<String>,
}

/// A plan that can be run.
#[derive(Clone, PartialEq, Debug)]
pub struct ReadyPlan {
    /// The plan.
    pub plan: Plan,
    /// Stages that were left out, and why.
    pub skipped: Vec<(String, String)>,
    /// Further changes, and their reasons.
    pub notes: Vec<String>,
    /// The target's port, if it is on this machine: its process is observed. Disturbed is only a
    /// process that was named.
    pub port_here: Option<u16>,
    /// Whether the plan came along, and may be made to fit.
    pub is_shipped: bool,
}

impl ReadyPlan {
    /// The most clients that are wanted at once, of all groups.
    pub fn clients(&self) -> u64 {
        let mut wanted = std::collections::BTreeMap::new();
        let mut most = 0;
        for stage in &self.plan.stages {
            wanted.extend(stage.clients.iter().map(|(group, count)| (group, u64::from(*count))));
            most = most.max(wanted.values().sum());
        }
        most
    }

    /// Whether a rule is about presence.
    pub fn is_about_presence(&self) -> bool {
        let stages = self.plan.stages.iter().flat_map(|stage| &stage.pass);
        self.plan.pass.iter().chain(stages).any(|rule| fit::is_about_presence(rule))
    }

    /// Without rules about presence, and why.
    pub fn unaudited(mut self, why: &str) -> ReadyPlan {
        fit::unaudited(&mut self, why);
        self
    }
}

/// Makes a plan of a file's text and what is asked. Of a plan that is `shipped` stages and rules
/// are left out that need what was not named; of one's own plan nothing is: there they fail.
pub fn ready(name: &str, text: &str, asked: &Asked, shipped: bool) -> Result<ReadyPlan, String> {
    let mut plan = file::parse(name, text, &asked.sets)?;
    whom(&mut plan, asked);
    let port_here = port_here(&plan.target.url);
    let mut ready =
        ReadyPlan { plan, skipped: Vec::new(), notes: Vec::new(), port_here, is_shipped: shipped };
    size(&mut ready, asked)?;
    if let Some(hold) = asked.hold {
        if hold.is_zero() {
            return Err("--hold 0s: must be above 0".to_owned());
        }
        let stages = ready.plan.stages.iter_mut();
        let held = stages.filter(|stage| !stage.hold.is_zero());
        if held.map(|stage| hold_for(stage, hold)).filter(|shorter| *shorter).count() > 0 {
            let note = "the faults of stages come earlier and are shorter, as the stages are";
            ready.notes.push(note.to_owned());
        }
    }
    if let Some(per_s) = asked.rate {
        let stages = ready.plan.stages.iter_mut();
        stages.for_each(|stage| stage.arrive = Arrival::Rate { per_s });
    }
    if shipped {
        fit::fit(&mut ready);
    }
    let changed = check::check(&ready.plan).map_err(|problem| format!("{name}: {problem}"));
    // The file's own line is the better place, where the fault is the file's.
    changed.map_err(|why| file::read(name, text, &asked.sets).err().unwrap_or(why))?;
    check::accounts(&ready.plan)?;
    pushes(&ready.plan).map_err(|why| format!("{name}: {why}"))?;
    if ready.plan.stages.is_empty() {
        return Err(format!("{name}: every stage would be skipped"));
    }
    Ok(ready)
}

/// Holds a stage so long. Its faults keep their order, and their share of a shorter hold; true: it
/// was shortened.
fn hold_for(stage: &mut Stage, hold: Span) -> bool {
    let share = hold.0.as_secs_f64() / stage.hold.0.as_secs_f64();
    stage.hold = hold;
    let is_shorter = share < 1.0 && !stage.faults.is_empty();
    for fault in stage.faults.iter_mut().filter(|_| is_shorter) {
        for time in [&mut fault.at, &mut fault.lasts, &mut fault.every] {
            let ms = (time.0.as_secs_f64() * share * 1_000.0).round() as u64;
            // Zero means the whole hold.
            let least = u64::from(!time.is_zero());
            *time = Span(std::time::Duration::from_millis(ms.max(least)));
        }
    }
    is_shorter
}

/// The target, as far as it was named.
fn whom(plan: &mut Plan, asked: &Asked) {
    let (target, named) = (&mut plan.target, &asked.target);
    if !named.url.is_empty() {
        target.url.clone_from(&named.url);
        plan.groups.iter_mut().for_each(|group| group.url.clear());
    }
    target.pid = named.pid.or(target.pid);
    target.port = named.port.or(target.port);
    let texts = [
        (&mut target.metrics, &named.metrics),
        (&mut target.api, &named.api),
        (&mut target.token, &named.token),
        (&mut target.redis, &named.redis),
    ];
    for (known, named) in texts {
        if named.is_some() {
            known.clone_from(named);
        }
    }
    target.redis_pid = named.redis_pid.or(target.redis_pid);
    for (known, named) in
        [(&mut target.start, &named.start), (&mut target.redis_start, &named.redis_start)]
    {
        if !named.is_empty() {
            known.clone_from(named);
        }
    }
    plan.seed = asked.seed.or(plan.seed);
    names(plan);
}

/// Devices are called after the prefix in the URL; of several groups each has names of its own.
fn names(plan: &mut Plan) {
    let url = plan.target.url.first().and_then(|url| Url::parse(url).ok());
    let url = url.filter(|url| url.scheme.speech == Some(Speech::Miop));
    let Some(prefix) = url.and_then(|url| url.user) else { return };
    let alone = plan.groups.len() == 1;
    for group in plan.groups.iter_mut().filter(|group| group.url.is_empty()) {
        let name = &group.name;
        let own = if alone { format!("{prefix}-%i") } else { format!("{prefix}-{name}-%i") };
        group.id.get_or_insert(own);
    }
}

/// The port of the target, if it is on this machine's loopback: its process can be observed.
pub fn port_here(urls: &[String]) -> Option<u16> {
    let target = Url::parse(urls.first()?).ok()?;
    let host = target.host.parse::<std::net::IpAddr>();
    (target.host == "localhost" || host.is_ok_and(|ip| ip.is_loopback())).then_some(target.port)
}

/// Whether what pushes need was named.
fn pushes(plan: &Plan) -> Result<(), String> {
    let sent = plan.stages.iter().flat_map(|stage| &stage.traffic);
    let pushed = |traffic: &[Traffic]| traffic.iter().any(|sent| sent.what == What::Push);
    let Some((name, _)) = sent.into_iter().find(|(_, traffic)| pushed(traffic)) else {
        return Ok(());
    };
    if plan.target.api.is_none() {
        return Err("pushes use Holdline's API: give --api http://HOST:PORT and --token".into());
    }
    let url = plan.target.url.first().and_then(|url| Url::parse(url).ok());
    let by_url = url.filter(|url| url.scheme.speech == Some(Speech::Miop));
    let by_url = by_url.and_then(|url| url.password);
    let by_group = plan.groups.iter().find(|group| group.name == *name);
    match by_url.or(by_group.and_then(|group| group.product.clone())) {
        Some(_) => Ok(()),
        None => Err(format!(
            "pushes need a product: name it in the URL, \
             miop://PREFIX:PRODUCT@HOST:PORT, or as group.{name}.product"
        )),
    }
}

/// Counts and rates.
fn size(ready: &mut ReadyPlan, asked: &Asked) -> Result<(), String> {
    let plan = &mut ready.plan;
    let steps = plan.name == "link-limit" && (asked.step.is_some() || asked.clients.is_some());
    if asked.step.is_some() && plan.name != "link-limit" {
        return Err("--step: only link-limit has steps".to_owned());
    }
    if steps {
        let first = plan.stages.first().cloned().ok_or("link-limit has no stage")?;
        let least = first.clients.values().sum::<u32>().max(1);
        let all = largest(plan);
        let step = asked.step.unwrap_or_else(|| least.min(asked.clients.unwrap_or(least)));
        plan.stages = self::steps(&first, step, asked.clients.unwrap_or(all.max(step)))?;
    }
    let factor = match (asked.scale, asked.clients.filter(|_| !steps)) {
        (Some(_), Some(_)) => return Err("--clients and --scale: give only one of them".to_owned()),
        (Some(scale), None) => scale,
        (None, Some(0)) => return Err("--clients 0: at least one".to_owned()),
        (None, Some(clients)) => f64::from(clients) / f64::from(largest(plan).max(1)),
        (None, None) => return Ok(()),
    };
    scale::scale(plan, factor)
}

/// The most clients that the first group has in any stage.
fn largest(plan: &Plan) -> u32 {
    let first = plan.groups.first().map(|group| group.name.as_str()).unwrap_or_default();
    let counts = plan.stages.iter().filter_map(|stage| stage.clients.get(first));
    counts.max().copied().unwrap_or(0)
}

/// The stages of link-limit: like `first`, each `step` clients larger, up to `clients`.
pub fn steps(first: &Stage, step: u32, clients: u32) -> Result<Vec<Stage>, String> {
    if step == 0 || clients == 0 {
        return Err("--step and --clients: at least 1".to_owned());
    }
    let count = clients.div_ceil(step);
    if count as usize > check::STAGES_MAX {
        let least = clients.div_ceil(check::STAGES_MAX as u32);
        return Err(format!("--step {step}: {count} steps are too many; at least {least}"));
    }
    let stages = (1..=count).map(|number| {
        let mut stage = first.clone();
        stage.name = format!("step-{number:02}");
        let all = number.saturating_mul(step).min(clients);
        stage.clients.values_mut().for_each(|clients| *clients = all);
        stage
    });
    Ok(stages.collect())
}

#[cfg(test)]
mod tests;
