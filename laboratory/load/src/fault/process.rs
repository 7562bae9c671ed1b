//! A process that the plan names: held by a descriptor, so that it cannot become another one.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Rlimit, Signal, getpid, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// How long a killed process may take to be gone.
const END_WAIT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// How long a started one is looked at: one that ends at once was not started.
const START_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A process.
pub(super) struct Held {
    pid: Pid,
    descriptor: OwnedFd,
}

impl Held {
    /// The process of this number, which is neither this one nor the first.
    pub fn of(pid: u32, name: &str) -> Result<Held, String> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.filter(|pid| !pid.is_init() && *pid != getpid());
        let number = number.ok_or_else(|| format!("{pid} cannot be the pid of {name}"))?;
        let descriptor = pidfd_open(number, PidfdFlags::empty())
            .map_err(|errno| format!("{name} (process {pid}): {errno}"))?;
        Ok(Held { pid: number, descriptor })
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub fn number(&self) -> Pid {
        self.pid
    }

    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        pidfd_send_signal(&self.descriptor, signal)
            .map_err(|errno| format!("process {}: {errno}", self.pid()))
    }

    /// Whether it has not ended.
    pub fn lives(&self) -> bool {
        !self.ended(&Timespec { tv_sec: 0, tv_nsec: 0 })
    }

    /// Waits until it is gone.
    pub fn wait_for_end(&self) -> Result<(), String> {
        match self.ended(&END_WAIT) {
            true => Ok(()),
            false => Err(format!("process {} was killed but does not end", self.pid())),
        }
    }

    fn ended(&self, within: &Timespec) -> bool {
        let mut polled = [PollFd::new(&self.descriptor, PollFlags::IN)];
        poll(&mut polled, Some(within)).is_ok_and(|ready| ready > 0)
    }

    /// The descriptors that it has open.
    pub fn descriptors(&self) -> Result<BTreeSet<u64>, String> {
        let wrong = |error| format!("descriptors of process {}: {error}", self.pid());
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).map_err(wrong)?;
        let names = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        Ok(names.collect())
    }
}

/// The limit below which `spare` numbers are free.
pub(super) fn limit_for(open: &BTreeSet<u64>, spare: u64) -> u64 {
    let mut free = 0;
    let mut limit = 0;
    while free < spare {
        free += u64::from(!open.contains(&limit));
        limit += 1;
    }
    // The last number below it may be taken: then no lower limit changes anything.
    limit
}

/// The soft and hard limit of open files in `/proc/PID/limits`.
pub(super) fn nofile_in(limits: &str) -> Option<Rlimit> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut words = line.split_whitespace().map(|word| match word {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    });
    Some(Rlimit { current: words.next()??, maximum: words.next()?? })
}

/// Starts a command that goes on when this process ends.
pub(super) fn start(command: &[String]) -> Result<Child, String> {
    let (program, arguments) = command.split_first().ok_or("the command is empty")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("`{program}` cannot be started: {error}"))?;
    let held = Held::of(child.id(), program);
    if held.is_ok_and(|held| held.ended(&START_WAIT)) {
        let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        return Err(format!("`{}` was started but ended immediately: {how}", command.join(" ")));
    }
    Ok(child)
}
