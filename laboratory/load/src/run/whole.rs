//! A whole run with real parts: what is examined before it, who looks on the machines, who breaks
//! things, who pushes and audits; then the runner, which knows none of this.
//!
//! This module knows neither the command line nor where the tester is. The invariant: a thing that
//! cannot be observed or examined is a note of the run, and never a reason not to run.

use super::hand::{self, Hand};
use super::parts::{Auditor, Before, Parts, Pushes, Pushless, Unaudited};
use super::presence_api::{Audits, PresenceApi};
use super::push::PushApi;
use super::real::{Clock, Observers};
use super::{Watch, runner};
use crate::founder::Founding;
use crate::scenario::ReadyPlan;
use crate::target::{Speech, Url};
use lab::generator::LoadGenerator;
use lab::host::{HostRow, Need, Role};
use lab::plan::{FaultKind, Plan};
use lab::run::Run;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Settings of a run beside its plan.
#[derive(Clone, Default)]
pub struct RunSetting {
    /// The command that made it.
    pub command: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// Set by whoever catches signals.
    pub interrupted: Arc<AtomicBool>,
    /// Settings of the agents' machines; empty: the load is made here.
    pub agents: Vec<(String, HostRow)>,
    /// Whether the load is made elsewhere, by agents.
    pub elsewhere: bool,
    /// Whether the run goes on when an agent is lost.
    pub go_on_without_agents: bool,
}

/// Runs a plan to its end, whatever ends it.
pub fn whole(
    ready: &ReadyPlan,
    setting: RunSetting,
    generator: &mut dyn LoadGenerator,
    watch: &mut dyn Watch,
) -> Result<Run, String> {
    let target = &ready.plan.target;
    let presence_api = target.api.as_ref().map(|base| PresenceApi::new(base, target.token.clone()));
    let ready = &*auditable(ready, presence_api.as_ref());
    let mut plan = ready.plan.clone();
    let mut notes = ready.notes.clone();
    let addresses = addresses(&plan)?;
    let mut proxy = None;
    if plan.stages.iter().any(|stage| stage.faults.iter().any(|fault| is_network(&fault.what))) {
        if setting.elsewhere {
            notes.push("the fault proxy stands here, where no agent calls through it".to_owned());
        } else {
            let standing = hand::proxy(&addresses)?;
            proxied(&mut plan, standing.address())?;
            proxy = Some(standing);
        }
    }
    let (mut eyes, blind) = Observers::of(&plan.target, ready.port_here, !setting.elsewhere);
    notes.extend(blind);
    if plan.target.port.is_some() {
        plan.target.pid = plan.target.pid.or(eyes.target_pid());
    }
    let mut hand = Hand::new(&plan.target, proxy);
    let mut doctor = setting.agents;
    doctor.extend(examine(
        ready.clients().max(1),
        &addresses,
        eyes.target_pid(),
        setting.elsewhere,
    ));
    let mut pushes = pushes(&plan);
    let mut auditor: Box<dyn Auditor> = match presence_api {
        None => Box::new(Unaudited),
        Some(presence_api) => Box::new(Audits::of(presence_api)),
    };
    let before = Before {
        command: setting.command,
        environment: observe::environment(),
        doctor,
        seed: setting.seed,
        go_on_without_agents: setting.go_on_without_agents,
        notes,
        skipped: ready.skipped.clone(),
        shown: Some(ready.plan.clone()),
    };
    runner::run(
        &plan,
        before,
        Parts {
            generator,
            clock: &mut Clock::new(setting.interrupted),
            eyes: &mut eyes,
            breaker: &mut hand,
            pushes: &mut *pushes,
            auditor: &mut *auditor,
            founder: &mut Founding::default(),
            watch,
        },
    )
}

/// Sender of the plan's pushes.
fn pushes(plan: &Plan) -> Box<dyn Pushes> {
    let Some(base) = &plan.target.api else { return Box::new(Pushless) };
    let url = plan.target.url.first().and_then(|url| Url::parse(url).ok());
    let url = url.filter(|url| url.scheme.speech == Some(Speech::Miop));
    let product = url.and_then(|url| url.password);
    Box::new(PushApi::new(base, plan.target.token.clone(), &plan.groups, product.as_deref()))
}

/// The plan without rules about presence, where it came along and the server cannot be audited.
fn auditable<'a>(ready: &'a ReadyPlan, presence_api: Option<&PresenceApi>) -> Cow<'a, ReadyPlan> {
    let why = presence_api.filter(|_| ready.is_shipped && ready.is_about_presence());
    match why.and_then(PresenceApi::why_not) {
        None => Cow::Borrowed(ready),
        Some(why) => Cow::Owned(ready.clone().unaudited(&why)),
    }
}

fn is_network(what: &FaultKind) -> bool {
    matches!(what, FaultKind::Network { .. })
}

/// The addresses of the target, each once.
fn addresses(plan: &Plan) -> Result<Vec<SocketAddr>, String> {
    let mut all = Vec::new();
    let groups = plan.groups.iter().flat_map(|group| &group.url);
    for url in plan.target.url.iter().chain(groups) {
        let found = Url::parse(url)?.resolve()?;
        if !all.contains(&found) {
            all.push(found);
        }
    }
    Ok(all)
}

/// Puts the fault proxy between the target and the groups that are to call through it.
fn proxied(plan: &mut Plan, proxy: SocketAddr) -> Result<(), String> {
    let all = !plan.groups.iter().any(|group| group.proxied);
    for group in plan.groups.iter_mut().filter(|group| all || group.proxied) {
        let urls = if group.url.is_empty() { &plan.target.url } else { &group.url };
        let url = urls.first().ok_or("no target for the fault proxy")?;
        group.url = vec![through(url, proxy)];
    }
    Ok(())
}

/// The URL with another address.
fn through(url: &str, address: SocketAddr) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((who, _)) => format!("{scheme}://{who}@{address}{path}"),
        None => format!("{scheme}://{address}{path}"),
    }
}

/// The doctor's rows of the machines that can be examined from here.
fn examine(
    connections: u64,
    addresses: &[SocketAddr],
    target: Option<u32>,
    elsewhere: bool,
) -> Vec<(String, HostRow)> {
    let mut rows = Vec::new();
    let mut add = |whose: &str, need: &Need| {
        let examined = observe::doctor::examine(need);
        rows.extend(examined.into_iter().map(|row| (whose.to_owned(), row)));
    };
    if !elsewhere {
        let targets = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let loopback = addresses.iter().all(|address| address.ip().is_loopback());
        // Towards loopback the engine takes as many source addresses as ports need.
        let auto = connections.div_ceil(u64::from(crate::plan::PILOTS_A_SOURCE));
        let sources = if loopback { u32::try_from(auto).unwrap_or(u32::MAX) } else { 1 };
        add("tester", &Need { sources, targets, ..Need::of(connections, Role::Client) });
    }
    if target.is_some() {
        add("target", &Need { pid: target, ..Need::of(connections, Role::Server) });
    }
    rows
}

#[cfg(test)]
mod tests;
