//! Faults of a plan, carried out: on the target's process, on its Redis, on the network between.
//!
//! Only processes that the plan names are touched, and only while they are the same: each is held
//! by a descriptor of its own, so that a number that was given to another process is not. Every
//! fault that lasts has its undo, which is carried out at its end, when [`FaultRunner`] is dropped,
//! and, by a small guard process, when this one is killed: no server stays stopped because its
//! tester died. Cuts and flapping are the clients' business and not here.
//!
//! The invariant: what was begun is undone once.

mod process;
pub mod proxy;
mod redis;
mod undo_guard;

use lab::plan::{FaultKind, Target};
use process::Held;
use proxy::Proxy;
use rustix::process::{Resource, Rlimit, Signal, prlimit};
use std::process::Child;
use undo_guard::UndoGuard;

/// A fault under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActiveFault(u64);

/// Carries out faults, and undoes them.
pub struct FaultRunner {
    target: Party,
    redis: Party,
    redis_address: Option<String>,
    proxy: Option<Proxy>,
    standing: Vec<(ActiveFault, Undo)>,
    begun: u64,
}

/// A process that the plan names, and how it is started again.
struct Party {
    name: &'static str,
    /// The keys of a plan that tell its pid and its command.
    keys: [&'static str; 2],
    pid: Option<u32>,
    start: Vec<String>,
    /// The process, once it was started from here: to be waited for.
    child: Option<Child>,
}

/// Which of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whom {
    Target,
    Redis,
}

/// The way to undo a fault.
enum Undo {
    Continue(Held, UndoGuard),
    Start(Whom, UndoGuard),
    Limit(Held, Rlimit, UndoGuard),
    Network,
    Nothing,
}

impl FaultRunner {
    /// For the processes that `target` names, and this proxy.
    pub fn new(target: &Target, proxy: Option<Proxy>) -> FaultRunner {
        let (pid, start) = (target.pid, target.start.clone());
        let keys = ["target.pid", "target.start"];
        let party = Party { name: "the target", keys, pid, start, child: None };
        let (pid, start) = (target.redis_pid, target.redis_start.clone());
        let keys = ["target.redis_pid", "target.redis_start"];
        FaultRunner {
            target: party,
            redis: Party { name: "Redis", keys, pid, start, child: None },
            redis_address: target.redis.clone(),
            proxy,
            standing: Vec::new(),
            begun: 0,
        }
    }

    /// The target's process as it is now: another one after it was killed and started.
    pub fn target_pid(&self) -> Option<u32> {
        self.target.pid
    }

    /// The proxy, for what it has counted.
    pub fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    /// Whether this fault could be begun: what the plan does not say, in words.
    pub fn check(&self, what: &FaultKind) -> Result<(), String> {
        let needs = |party: &Party, starts: bool| match (party.name, party.keys) {
            (name, [key, _]) if party.pid.is_none() => {
                Err(format!("the fault needs the pid of {name}: set {key}"))
            }
            (name, [_, key]) if starts && party.start.is_empty() => {
                Err(format!("the fault needs the command that starts {name}: set {key}"))
            }
            _ => Ok(()),
        };
        match what {
            FaultKind::TargetKilled => needs(&self.target, true),
            FaultKind::TargetPaused | FaultKind::DescriptorsStarved { .. } => {
                needs(&self.target, false)
            }
            FaultKind::RedisPaused => needs(&self.redis, false),
            FaultKind::RedisKilled => needs(&self.redis, true),
            FaultKind::RedisFlushed if self.redis_address.is_none() => {
                Err("the fault needs the address of Redis: set target.redis".to_owned())
            }
            FaultKind::Network { .. } if self.proxy.is_none() => {
                Err("the fault needs the proxy between clients and target".to_owned())
            }
            FaultKind::Flap { .. } | FaultKind::Cut { .. } => {
                Err("this is an order to the clients".to_owned())
            }
            FaultKind::RedisFlushed | FaultKind::Network { .. } => Ok(()),
        }
    }

    /// Begins a fault. Says in words what was done.
    pub fn begin(&mut self, what: &FaultKind) -> Result<(ActiveFault, String), String> {
        self.check(what)?;
        let (undo, words) = match what {
            FaultKind::TargetPaused => pause(&self.target)?,
            FaultKind::RedisPaused => pause(&self.redis)?,
            FaultKind::TargetKilled => kill(&mut self.target, Whom::Target)?,
            FaultKind::RedisKilled => kill(&mut self.redis, Whom::Redis)?,
            FaultKind::DescriptorsStarved { spare } => starve(&self.target, *spare)?,
            FaultKind::RedisFlushed => {
                let address = self.redis_address.as_deref().expect("it was checked");
                redis::flush(address)?;
                (Undo::Nothing, "Redis was flushed".to_owned())
            }
            FaultKind::Network { how, share } => {
                let proxy = self.proxy.as_ref().expect("it was checked");
                let meant = proxy.set(*how, *share)?;
                (Undo::Network, format!("network: {how:?} for {meant} open connections"))
            }
            FaultKind::Flap { .. } | FaultKind::Cut { .. } => unreachable!("it was checked"),
        };
        self.begun += 1;
        let standing = ActiveFault(self.begun);
        self.standing.push((standing, undo));
        Ok((standing, words))
    }

    /// Ends a fault: puts right what it broke. Says in words what was done; nothing for a fault
    /// that has ended or that has nothing to put right.
    pub fn end(&mut self, standing: ActiveFault) -> Result<String, String> {
        let Some(at) = self.standing.iter().position(|(known, _)| *known == standing) else {
            return Ok(String::new());
        };
        let (_, undo) = self.standing.remove(at);
        self.undo(undo)
    }

    /// Ends all faults, the latest first.
    pub fn end_all(&mut self) -> Vec<Result<String, String>> {
        let mut done = Vec::new();
        while let Some((_, undo)) = self.standing.pop() {
            done.push(self.undo(undo));
        }
        done
    }

    fn undo(&mut self, undo: Undo) -> Result<String, String> {
        match undo {
            Undo::Continue(held, undo_guard) => {
                undo_guard.let_go();
                held.signal(Signal::CONT)?;
                Ok(format!("process {} continues", held.pid()))
            }
            Undo::Limit(held, before, undo_guard) => {
                undo_guard.let_go();
                set_limit(&held, before)?;
                Ok(format!("process {} has its descriptor limit back", held.pid()))
            }
            Undo::Start(whom, undo_guard) => {
                undo_guard.let_go();
                let party = match whom {
                    Whom::Target => &mut self.target,
                    Whom::Redis => &mut self.redis,
                };
                let child = process::start(&party.start)?;
                party.pid = Some(child.id());
                let words = format!("{} was restarted as process {}", party.name, child.id());
                party.child = Some(child);
                Ok(words)
            }
            Undo::Network => {
                let proxy = self.proxy.as_ref().expect("a fault of it was begun");
                proxy.clear()?;
                Ok("network: restored".to_owned())
            }
            Undo::Nothing => Ok(String::new()),
        }
    }
}

impl Drop for FaultRunner {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.end_all();
    }
}

fn held(party: &Party) -> Result<Held, String> {
    Held::of(party.pid.expect("it was checked"), party.name)
}

fn pause(party: &Party) -> Result<(Undo, String), String> {
    let held = held(party)?;
    let pid = held.pid().to_string();
    let undo_guard = UndoGuard::of(&["kill".to_owned(), "-CONT".to_owned(), pid.clone()])?;
    held.signal(Signal::STOP)?;
    Ok((Undo::Continue(held, undo_guard), format!("{} (process {pid}) was paused", party.name)))
}

fn kill(party: &mut Party, whom: Whom) -> Result<(Undo, String), String> {
    let held = held(party)?;
    let undo_guard = UndoGuard::of(&party.start)?;
    held.signal(Signal::KILL)?;
    held.wait_for_end()?;
    // A child of ours has to be waited for, or its number stays.
    party.child.take().into_iter().for_each(|mut child| drop(child.wait()));
    party.pid = None;
    let words = format!("{} (process {}) was killed", party.name, held.pid());
    Ok((Undo::Start(whom, undo_guard), words))
}

fn starve(party: &Party, spare: u64) -> Result<(Undo, String), String> {
    let held = held(party)?;
    let before = limit_of(&held)?;
    let open = held.descriptors()?;
    // A fault takes away: where less is left than is to be spared, nothing is changed.
    let most = process::limit_for(&open, spare).min(before.current.unwrap_or(u64::MAX));
    let word = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let undo_guard = UndoGuard::of(&[
        "prlimit".to_owned(),
        format!("--pid={}", held.pid()),
        format!("--nofile={}:{}", word(before.current), word(before.maximum)),
    ])?;
    set_limit(&held, Rlimit { current: Some(most), maximum: before.maximum })?;
    let words = format!(
        "{} (process {}) has {} descriptors open and may open {spare} more",
        party.name,
        held.pid(),
        open.len()
    );
    Ok((Undo::Limit(held, before, undo_guard), words))
}

/// Its limit of descriptors.
fn limit_of(held: &Held) -> Result<Rlimit, String> {
    let text = std::fs::read_to_string(format!("/proc/{}/limits", held.pid()))
        .map_err(|error| format!("the limits of process {}: {error}", held.pid()))?;
    process::nofile_in(&text).ok_or_else(|| "the descriptor limit is unreadable".to_owned())
}

fn set_limit(held: &Held, limit: Rlimit) -> Result<(), String> {
    if !held.lives() {
        return Err(format!("process {} has ended", held.pid()));
    }
    prlimit(Some(held.number()), Resource::Nofile, limit)
        .map(drop)
        .map_err(|errno| format!("descriptors of process {}: {errno}", held.pid()))
}

#[cfg(test)]
mod tests;
