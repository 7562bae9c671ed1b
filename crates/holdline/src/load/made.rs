//! Makes a run: the tester, whoever looks on, the run itself, its folder, what is printed
//! of it.
//!
//! This module does not know the content of a plan. The invariant: a run that was made is written,
//! whatever its result, and the exit code says the same as its last line.

use super::asked::{Asked, Show};
use super::{FAILED, INVALID, PASSED, watch};
use ::load::run::whole::{RunSetting, whole};
use ::load::run::{Watch, folder};
use ::load::scenario::{self, ReadyPlan};
use lab::generator::LoadGenerator;
use lab::host::{Need, Role};
use lab::run::{Gravity, Run};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs a plan's text with what is asked.
pub fn run(
    name: &str,
    text: &str,
    asked: &Asked,
    show: &Show,
    shipped: bool,
) -> Result<u8, String> {
    let ready = scenario::ready(name, text, &asked.asked(), shipped)?;
    make(&ready, show, Vec::new())
}

/// Runs a plan that is ready; `more` look on, too.
pub fn make(ready: &ReadyPlan, show: &Show, more: Vec<Box<dyn Watch>>) -> Result<u8, String> {
    let seed = match ready.plan.seed {
        Some(seed) => seed,
        None => drawn()?,
    };
    let mut setting = RunSetting {
        command: std::env::args().collect::<Vec<_>>().join(" "),
        seed,
        interrupted: caught()?,
        elsewhere: !show.agents.is_empty(),
        go_on_without_agents: show.go_on_without_agents,
        ..RunSetting::default()
    };
    let most = ready.clients();
    let mut generator: Box<dyn LoadGenerator> = if show.agents.is_empty() {
        let mut local = ::load::local::LocalGenerator::new(seed);
        local.expect(most)?;
        Box::new(local)
    } else {
        let token = show.agents_token.as_deref();
        let mut remote = ::load::agent::Remote::connect(&show.agents, token, seed)?;
        let each = most.div_ceil(show.agents.len() as u64);
        setting.agents = remote.examine(&Need::of(each, Role::Client));
        Box::new(remote)
    };
    let mut watches = more;
    if !show.quiet && watches.is_empty() {
        let title = watch::Title {
            name: ready.plan.name.clone(),
            target: ::load::run::targets(&ready.plan).join(" "),
            plain: show.plain,
        };
        // What reads JSON has a terminal that others read.
        let quietly = show.json;
        watches.push(if quietly { watch::quietly(&title) } else { watch::watch(&title) });
    }
    if let Some(addr) = show.export {
        let exporter = ::load::exporter::Exporter::start(addr, show.agents_token.as_deref())?;
        watches.push(Box::new(exporter));
    }
    let run = whole(ready, setting, &mut *generator, &mut watches)?;
    drop(watches);
    let kept = folder::write(&run, &show.out);
    print(&run, show);
    let code = code(&run);
    if !show.json {
        if let Some(limit) = limit(ready, &run) {
            out!("{limit}");
        }
        match &kept {
            Ok(folder) => out!("{}: {}", word(code), folder.display()),
            Err(_) => out!("{}", word(code)),
        }
    }
    kept.map_err(|why| format!("the run finished, but its result could not be written: {why}"))?;
    Ok(code)
}

/// The first limit that link-limit met, in a line.
fn limit(ready: &ReadyPlan, run: &Run) -> Option<String> {
    let found = verdict::first_limit(run).filter(|_| ready.plan.name == "link-limit")?;
    let evidence = match found.evidence.as_str() {
        "" => String::new(),
        evidence => format!(" ({evidence})"),
    };
    let word = if found.gravity == Gravity::Limit { "first limit: " } else { "" };
    Some(format!("{word}{}{evidence}", found.what))
}

/// Result of a run.
pub fn code(run: &Run) -> u8 {
    match (run.saturation.is_empty(), run.passed()) {
        (false, _) => INVALID,
        (true, true) => PASSED,
        (true, false) => FAILED,
    }
}

/// Result of a run as a word.
fn word(code: u8) -> &'static str {
    match code {
        PASSED => "passed",
        INVALID => "NOT VALID (the tester was saturated)",
        _ => "FAILED",
    }
}

fn print(run: &Run, show: &Show) {
    if show.json {
        out!("{}", report::json(run));
    } else if !show.quiet {
        out!("{}", report::text(run));
        if show.sizes {
            crate::out::print(&report::sizes(run));
        }
    }
}

/// A flag that SIGINT and SIGTERM set; a second one ends the process at once.
fn caught() -> Result<Arc<AtomicBool>, String> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the second signal finds the flag set by the first.
        signal_hook::flag::register_conditional_shutdown(signal, 130, flag.clone())
            .and_then(|_| signal_hook::flag::register(signal, flag.clone()))
            .map_err(|error| format!("cannot install signal handlers: {error}"))?;
    }
    Ok(flag)
}

fn drawn() -> Result<u64, String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| format!("random number generator: {error}"))?;
    // So that JSON, whose numbers are doubles to many, shows the same seed.
    Ok(u64::from_le_bytes(bytes) >> 12)
}
