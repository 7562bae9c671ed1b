//! Programs that a measurement starts: each in a process of its own, and ended with it.
//!
//! Server and client are apart because each needs descriptors for all connections and because the
//! CPU of one must not be charged to the other. A child is talked to in lines: what it prints is
//! its answer. It is ended by its pid and only by the one who started it, when its [`Child`] is
//! dropped at the latest.

use crate::clock;
use rustix::process::{Pid, Signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A running child.
pub struct Child {
    process: std::process::Child,
    input: Option<ChildStdin>,
    /// Absent when it is not looked at.
    output: Option<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts this same program with other arguments, on core `core` alone if there is one.
    pub fn again(arguments: &[&str], core: Option<usize>) -> io::Result<Child> {
        Child::start(Command::new(std::env::current_exe()?).args(arguments), core)
    }

    /// Starts `command`, on core `core` alone if there is one.
    pub fn start(command: &mut Command, core: Option<usize>) -> io::Result<Child> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = match core {
            None => command.spawn()?,
            Some(core) => pinned(core, || command.spawn())?,
        };
        let input = process.stdin.take();
        let output = process.stdout.take().expect("it was asked for");
        Ok(Child { process, input, output: Some(BufReader::new(output)) })
    }

    /// Starts `command`; what it prints is not looked at.
    pub fn start_quiet(command: &mut Command) -> io::Result<Child> {
        Child::start_quiet_on(command, None)
    }

    /// As [`start_quiet`](Self::start_quiet), on core `core` alone if there is one.
    pub fn start_quiet_on(command: &mut Command, core: Option<usize>) -> io::Result<Child> {
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut process = match core {
            None => command.spawn()?,
            Some(core) => pinned(core, || command.spawn())?,
        };
        let input = process.stdin.take();
        Ok(Child { process, input, output: None })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Keeps its thread `name` on core `core`, and leaves the others where they are.
    pub fn keep(&self, name: &str, core: usize) -> io::Result<()> {
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let task = task?;
            if std::fs::read_to_string(task.path().join("comm"))?.trim_end() == name {
                let number = task.file_name().to_str().and_then(|it| it.parse().ok());
                let thread = number.and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
                return Ok(sched_setaffinity(Some(thread), &only(core))?);
            }
        }
        Err(io::Error::other(format!("the child has no thread {name}")))
    }

    /// The next line that it prints, without its end; an error at the end of its output.
    pub fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        let output = self.output.as_mut().ok_or_else(|| io::Error::other("nobody listens"))?;
        if output.read_line(&mut line)? == 0 {
            return Err(io::Error::other("the child ended before it answered"));
        }
        Ok(line.trim_end().to_owned())
    }

    /// Tells it `order` and returns its answer.
    pub fn ask(&mut self, order: &str) -> io::Result<String> {
        self.tell(order)?;
        self.line()
    }

    /// Tells it `order`.
    pub fn tell(&mut self, order: &str) -> io::Result<()> {
        let input = self.input.as_mut().expect("it is open until the child is dropped");
        writeln!(input, "{order}")?;
        input.flush()
    }

    /// The line that begins with `ready`, and what follows it.
    pub fn ready(&mut self) -> io::Result<String> {
        let line = self.line()?;
        let odd = || io::Error::other(format!("the child said {line:?} instead of ready"));
        line.strip_prefix("ready ").map(str::to_owned).ok_or_else(odd)
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Waits until it has ended by itself; its exit code. Its output is read and discarded.
    pub fn finished(&mut self) -> io::Result<i32> {
        if let Some(mut output) = self.output.take() {
            io::copy(&mut output, &mut io::sink())?;
        }
        let code = self.process.wait()?.code();
        code.ok_or_else(|| io::Error::other("it was ended by a signal"))
    }

    /// Ends it by SIGKILL.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait().map(|_| ())
    }

    /// Asks it to end by SIGTERM and waits, at most `patience`; then it is killed.
    pub fn end(&mut self, patience: Duration) {
        self.input = None;
        if let Some(pid) = Pid::from_raw(self.pid() as i32)
            && self.runs()
        {
            // It may have ended meanwhile, which is what is wanted.
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let began = clock::now();
        while self.runs() && clock::since(began) < patience {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill(); // an error says that it has ended
        let _ = self.process.wait();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end(Duration::from_secs(2));
    }
}

/// Runs `start` on `core`, with the thread that calls: a process started there stays there.
pub fn pinned<T>(core: usize, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = sched_getaffinity(None)?;
    sched_setaffinity(None, &only(core))?;
    let started = start();
    sched_setaffinity(None, &before)?;
    started
}

fn only(core: usize) -> CpuSet {
    let mut cores = CpuSet::new();
    cores.set(core);
    cores
}
