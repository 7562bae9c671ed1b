//! A process under load, alone or with its children: processor, memory, descriptors, queues.
//!
//! The process is chosen by its number, or by the port it listens on; by port it is found again
//! after a restart. Totals go on over restarts and over children that ended. Figures that another
//! user's process does not show (descriptors, disk traffic) are left out. This module reads no
//! clock.

mod member;
mod owner;

use crate::columns as at;
use crate::host::uptime_s;
use crate::listeners;
use crate::place::KernelFiles;
use lab::series::{Column, Reading};
use member::{Member, Spent};
pub(crate) use member::{limit_of, open_files_max};
pub(crate) use owner::sockets;
use std::collections::{HashMap, HashSet};

/// Processes counted together, at most.
const PROCESSES_MAX: usize = 1_024;

/// A process whose counters are read.
#[derive(Debug)]
pub struct Process {
    place: KernelFiles,
    chosen: Chosen,
    with_children: bool,
    /// The process as it was last seen.
    current: Option<Identity>,
    restarts: u64,
    readings: u64,
    before: Before,
    queues: Queues,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Chosen {
    Pid,
    Port(u16),
}

/// A number is given again; with the tick at which it started, a process is itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Identity {
    pid: u32,
    started: u64,
}

/// Counters of the last reading, from which shares and totals are computed.
#[derive(Default, Debug)]
struct Before {
    uptime_s: f64,
    /// Seconds in its own code and in the kernel.
    cpu_s: Option<[f64; 2]>,
    /// Counters of each process.
    spent: HashMap<Identity, Spent>,
    /// Counters of the processes that are gone.
    departed: Spent,
    /// Nanoseconds that each thread had run, by process and thread.
    ran: HashMap<(u32, u32), u64>,
}

/// Which listeners are the process's.
#[derive(Default, Debug)]
struct Queues {
    own: HashSet<u64>,
    /// All listeners there were when this was looked up.
    known: HashSet<u64>,
    /// Drops of each of its own listeners, and of those that were closed.
    drops: HashMap<u64, u64>,
    drops_closed: u64,
}

impl Process {
    /// The process of this number.
    pub fn of_pid(pid: u32) -> Result<Process, String> {
        Process::of_pid_at(KernelFiles::real(), pid)
    }

    /// The process that listens on this TCP port, and its children. Of several the oldest, which is
    /// the parent of the others wherever a server forks workers.
    pub fn of_port(port: u16) -> Result<Process, String> {
        Process::of_port_at(KernelFiles::real(), port)
    }

    /// The process of this number, among those that are there.
    pub fn of_pid_at(place: KernelFiles, pid: u32) -> Result<Process, String> {
        let found = identity(&place, pid);
        let current = found.ok_or_else(|| format!("no process {pid}"))?;
        Ok(Process::found(place, Chosen::Pid, current))
    }

    /// The process that listens on this port, among those that are there.
    pub fn of_port_at(place: KernelFiles, port: u16) -> Result<Process, String> {
        let current = owner::of_port(&place, port)?;
        Ok(Process::found(place, Chosen::Port(port), current).with_children(true))
    }

    fn found(place: KernelFiles, chosen: Chosen, current: Identity) -> Process {
        let mut process = Process {
            place,
            chosen,
            with_children: false,
            current: Some(current),
            restarts: 0,
            readings: 0,
            before: Before::default(),
            queues: Queues::default(),
        };
        process.read();
        process
    }

    /// Whether its children, and theirs, are counted with it.
    pub fn with_children(mut self, wanted: bool) -> Process {
        self.with_children = wanted;
        self.before = Before::default();
        self.read();
        self
    }

    /// Its number, while it is there.
    pub fn pid(&self) -> Option<u32> {
        self.current.map(|identity| identity.pid)
    }

    /// The name of its program, while it is there.
    pub fn name(&self) -> Option<String> {
        let name = self.place.text(&format!("proc/{}/comm", self.pid()?))?;
        Some(name.trim().to_owned())
    }

    /// Reads the counters now. Shares are those of the time since the last reading. Of a process
    /// that is gone, only that it is gone is read.
    pub fn read(&mut self) -> Reading {
        let mut out = Reading::default();
        self.look_again();
        let uptime_s = uptime_s(&self.place).unwrap_or_default();
        let took_s = uptime_s - self.before.uptime_s;
        self.before.uptime_s = uptime_s;
        out.set(at::ALIVE, f64::from(u8::from(self.current.is_some())));
        out.set(at::RESTARTS, self.restarts as f64);
        let Some(current) = self.current else {
            self.before.cpu_s = None;
            return out;
        };
        let started_s = current.started as f64 / member::ticks_per_s();
        out.set(at::UPTIME, (uptime_s - started_s).max(0.0));
        let fds_thoroughly = self.readings.is_multiple_of(10);
        self.readings += 1;
        let pids = self.pids(current.pid);
        let members = pids.iter().filter_map(|&pid| Member::of(&self.place, pid, fds_thoroughly));
        let members: Vec<Member> = members.collect();
        out.set(at::PROCESSES, members.len() as f64);
        held(&members, &mut out);
        self.used(&members, took_s, &mut out);
        self.busiest(&members, took_s, &mut out);
        self.waiting(&pids, &mut out);
        out
    }

    /// Notices that the process is gone, or another one in its place.
    fn look_again(&mut self) {
        let still = self.current.and_then(|known| identity(&self.place, known.pid));
        if still.is_some() && still == self.current {
            return;
        }
        let port = match self.chosen {
            Chosen::Pid => {
                self.current = None;
                return;
            }
            Chosen::Port(port) => port,
        };
        self.current = owner::of_port(&self.place, port).ok();
        if self.current.is_some() {
            self.restarts += 1;
            self.queues.known.clear();
        }
    }

    /// The process and, where wanted, all below it.
    fn pids(&self, pid: u32) -> Vec<u32> {
        let mut family = vec![pid];
        if !self.with_children {
            return family;
        }
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for other in self.place.numbers("proc") {
            let stat = self.place.text(&format!("proc/{other}/stat"));
            if let Some(stat) = stat.as_deref().and_then(member::Stat::of) {
                children.entry(stat.parent).or_default().push(other);
            }
        }
        let mut at = 0;
        while at < family.len() && family.len() < PROCESSES_MAX {
            family.extend(children.remove(&family[at]).unwrap_or_default());
            at += 1;
        }
        family.truncate(PROCESSES_MAX);
        family
    }

    fn used(&mut self, members: &[Member], took_s: f64, out: &mut Reading) {
        let now: HashMap<Identity, Spent> =
            members.iter().map(|member| (member.identity, member.spent.clone())).collect();
        for (identity, spent) in &self.before.spent {
            if !now.contains_key(identity) {
                self.before.departed.add(spent);
            }
        }
        let mut all = self.before.departed.clone();
        now.values().for_each(|spent| all.add(spent));
        let now_s =
            [all.user_ticks, all.system_ticks].map(|ticks| ticks as f64 / member::ticks_per_s());
        out.set(at::CPU_S, now_s.iter().sum());
        let before_s = self.before.cpu_s.replace(now_s);
        if let Some(before_s) = before_s.filter(|_| took_s > 0.0) {
            let share = |at: usize| (now_s[at] - before_s[at]).max(0.0) / took_s;
            out.set(at::CPU, share(0) + share(1));
            out.set(at::USER, share(0));
            out.set(at::SYSTEM, share(1));
        }
        for (column, value) in [
            (at::SWITCHES, all.switches),
            (at::SWITCHES_FORCED, all.switches_forced),
            (at::IO_READ, all.disk_read),
            (at::IO_WRITTEN, all.disk_written),
        ] {
            value.inspect(|value| out.set(column, *value as f64));
        }
        self.before.spent = now;
    }

    fn busiest(&mut self, members: &[Member], took_s: f64, out: &mut Reading) {
        let mut ran = HashMap::new();
        let mut most = None::<f64>;
        for member in members {
            for (thread, ns) in &member.ran {
                let key = (member.identity.pid, *thread);
                let earlier = self.before.ran.get(&key);
                if let Some(earlier) = earlier.filter(|_| took_s > 0.0) {
                    let share = ns.saturating_sub(*earlier) as f64 / 1e9 / took_s;
                    most = Some(most.unwrap_or(0.0).max(share.min(1.0)));
                }
                ran.insert(key, *ns);
            }
        }
        most.inspect(|most| out.set(at::BUSIEST, *most));
        self.before.ran = ran;
    }

    /// The queue of its fullest listener. Which ones are its own is looked up when there are new
    /// ones; where its descriptors are hidden, those of the port it was chosen by.
    fn waiting(&mut self, pids: &[u32], out: &mut Reading) {
        let net = crate::network_of(&self.place, pids.first().copied());
        let all = listeners::read(&self.place, &net);
        let inodes: HashSet<u64> = all.iter().map(|one| one.inode).collect();
        if !inodes.is_subset(&self.queues.known) {
            let own = pids.iter().flat_map(|&pid| owner::sockets(&self.place, pid));
            self.queues.own = own.filter(|inode| inodes.contains(inode)).collect();
            if let (true, Chosen::Port(port)) = (self.queues.own.is_empty(), self.chosen) {
                let of_port = all.iter().filter(|one| one.port == port);
                self.queues.own = of_port.map(|one| one.inode).collect();
            }
        }
        self.queues.known = inodes;
        let own = || all.iter().filter(|one| self.queues.own.contains(&one.inode));
        let told = own().filter_map(|one| Some((one.inode, u64::from(one.drops?))));
        let drops: HashMap<u64, u64> = told.collect();
        let closed = self.queues.drops.iter().filter(|(inode, _)| !drops.contains_key(*inode));
        self.queues.drops_closed += closed.map(|(_, drops)| drops).sum::<u64>();
        if own().any(|one| one.drops.is_some()) {
            let all = self.queues.drops_closed + drops.values().sum::<u64>();
            out.set(at::DROPS, all as f64);
        }
        let fullest = listeners::fullest(own());
        self.queues.drops = drops;
        if let Some(fullest) = fullest {
            out.set(at::QUEUE, fullest.waiting.into());
            fullest.backlog.inspect(|backlog| out.set(at::BACKLOG, (*backlog).into()));
        }
    }
}

/// Adds what processes hold now.
fn held(members: &[Member], out: &mut Reading) {
    let mut sum = |column: Column, of: fn(&Member) -> Option<u64>| {
        let known = members.iter().filter_map(of).reduce(u64::saturating_add);
        known.inspect(|sum| out.set(column, *sum as f64));
    };
    sum(at::RSS, |member| member.rss);
    sum(at::VIRTUAL, |member| member.virtual_);
    sum(at::ANON, |member| member.anon);
    sum(at::SWAP, |member| member.swap);
    sum(at::FDS_ALL, |member| member.fds);
    sum(at::THREADS, |member| Some(member.threads));
    let filled = members.iter().filter_map(|member| Some((member.fill()?, member)));
    let nearest = filled.max_by(|one, other| one.0.total_cmp(&other.0));
    let limit = nearest.and_then(|(_, member)| member.fds_max);
    let limit = limit.or_else(|| members.iter().find_map(|member| member.fds_max));
    limit.inspect(|limit| out.set(at::FDS_MAX, *limit as f64));
    // Its own count and its own limit: the sum of several is held against nothing.
    let open = nearest.and_then(|(_, member)| member.fds);
    let open = open.or_else(|| members.iter().filter_map(|member| member.fds).max());
    open.inspect(|open| out.set(at::FDS, *open as f64));
    nearest.inspect(|(fill, _)| out.set(at::FDS_FILL, *fill));
}

fn identity(place: &KernelFiles, pid: u32) -> Option<Identity> {
    let stat = member::Stat::of(&place.text(&format!("proc/{pid}/stat"))?)?;
    // A zombie holds nothing any more and waits for its parent to hear of it.
    (stat.state != 'Z').then_some(Identity { pid, started: stat.started })
}

#[cfg(test)]
mod tests;
