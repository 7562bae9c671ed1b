//! The real clock, and the eyes that look at this machine, the target's process and its metrics.
//!
//! A figure that cannot be observed is absent, and reported once. This module knows no plan: its
//! caller names the targets.

use super::parts::{Eyes, RunClock};
use crate::{fleet, stamp};
use lab::plan::Target;
use lab::series::Reading;
use observe::{ObservedHost, Process, Scrape};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The real clock; a flag says that somebody has interrupted.
pub struct Clock {
    began: Instant,
    interrupted: Arc<AtomicBool>,
}

impl Clock {
    /// A clock that begins now. `interrupted` is set by whoever catches signals.
    pub fn new(interrupted: Arc<AtomicBool>) -> Clock {
        Clock { began: fleet::instant(), interrupted }
    }
}

/// Longest time without a look whether somebody has interrupted.
const REST: Duration = Duration::from_millis(100);

impl RunClock for Clock {
    fn now_ms(&mut self) -> u64 {
        u64::try_from((fleet::instant() - self.began).as_millis()).unwrap_or(u64::MAX)
    }

    fn unix_ms(&mut self) -> u64 {
        stamp::wall_us() / 1_000
    }

    fn rest_until(&mut self, at_ms: u64) {
        let at = self.began + Duration::from_millis(at_ms);
        let known = self.is_interrupted();
        // An interruption that is news ends the rest.
        while known || !self.is_interrupted() {
            let left = at.saturating_duration_since(fleet::instant());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(REST));
        }
    }

    fn is_interrupted(&mut self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// Eyes on this machine, on the target's process if it runs here, and on its metrics.
pub struct Observers {
    host: Option<ObservedHost>,
    /// This process, and those that it begins to have more descriptors.
    own: Option<Process>,
    target: Option<Watched>,
    scrape: Option<Page>,
    redis: Option<Process>,
}

/// The last reading of a page, and its error.
type Last = Mutex<(Reading, Option<String>)>;

/// The target's page of metrics, read on a thread of its own: a server that hangs shall not keep
/// the tester from looking.
struct Page {
    last: Arc<Last>,
    over: Arc<AtomicBool>,
}

impl Page {
    fn of(mut scrape: Scrape) -> Result<Page, String> {
        let (last, over) = (Arc::<Last>::default(), Arc::<AtomicBool>::default());
        let (to, stop) = (last.clone(), over.clone());
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        let spawned = thread.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let read = scrape.read();
                let trouble = scrape.trouble();
                let mut last = to.lock().unwrap_or_else(PoisonError::into_inner);
                last.0 = read;
                last.1 = trouble.or(last.1.take());
                drop(last);
                std::thread::sleep(PAGE_EVERY);
            }
        });
        spawned.map_err(|error| error.to_string())?;
        Ok(Page { last, over })
    }

    /// Takes the reading since the last call.
    fn take(&self) -> (Reading, Option<String>) {
        std::mem::take(&mut *self.last.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// From one reading of a page to the next.
const PAGE_EVERY: Duration = Duration::from_millis(900);

/// The target on this machine.
struct Watched {
    host: ObservedHost,
    process: Process,
    /// The process that was seen last, so that its going is noted.
    pid: Option<u32>,
}

impl Observers {
    /// Observers of the target's parts that can be observed from here; and notes on the others,
    /// with reasons. `port_here` is the target's port if it is on this machine. The tester's own
    /// machine is left out when agents make the load: each looks at its own.
    pub fn of(target: &Target, port_here: Option<u16>, own: bool) -> (Observers, Vec<String>) {
        let mut notes = Vec::new();
        let by_port = |port: u16| Process::of_port(port);
        let process = match (target.pid, target.port.or(port_here)) {
            // By its port it is found again after a restart.
            (Some(pid), Some(port)) => match by_port(port) {
                Ok(process) if process.pid() == Some(pid) => Some(Ok(process)),
                _ => Some(Process::of_pid(pid)),
            },
            (Some(pid), None) => Some(Process::of_pid(pid)),
            (None, Some(port)) => Some(by_port(port)),
            (None, None) => None,
        };
        let process = process.and_then(|process| match process {
            Ok(process) => Some(process.with_children(true)),
            Err(why) => {
                notes.push(format!("the target's process is not observed: {why}"));
                None
            }
        });
        let target_host = process.map(|process| {
            let pid = process.pid();
            let host = pid.map_or_else(ObservedHost::of_this_machine, ObservedHost::around);
            Watched { host, process, pid }
        });
        let redis = target.redis_pid.and_then(|pid| match Process::of_pid(pid) {
            Ok(process) => Some(process),
            Err(why) => {
                notes.push(format!("Redis is not observed: {why}"));
                None
            }
        });
        let scrape = target.metrics.as_ref().and_then(|url| {
            let page = Page::of(scrape(url, target.token.clone()));
            page.inspect_err(|why| notes.push(format!("the metrics are not read: {why}"))).ok()
        });
        let host = own.then(ObservedHost::of_this_machine);
        let this = Process::of_pid(std::process::id()).ok().filter(|_| own);
        let own = this.map(|process| process.with_children(true));
        (Observers { host, own, target: target_host, scrape, redis }, notes)
    }

    /// The target's process.
    pub fn target_pid(&self) -> Option<u32> {
        self.target.as_ref().and_then(|watched| watched.pid)
    }
}

fn scrape(url: &str, token: Option<String>) -> Scrape {
    Scrape::new(url).bearer(token).timed(fleet::micros)
}

impl Eyes for Observers {
    fn read(&mut self) -> (Reading, Vec<String>) {
        let mut reading = Reading::default();
        let mut notes = Vec::new();
        if let Some(host) = &mut self.host {
            reading.extend(host.read().of_whom("tester"));
        }
        if let Some(own) = &mut self.own {
            reading.extend(own.read().of_whom("tester"));
        }
        if let Some(target) = &mut self.target {
            reading.extend(target.host.read().of_whom("target"));
            reading.extend(target.process.read().of_whom("target"));
            let pid = target.process.pid();
            if pid != target.pid {
                notes.push(match (target.pid, pid) {
                    (Some(old), None) => format!("the target's process {old} has ended"),
                    (Some(old), Some(new)) => {
                        format!("the target's process is {new} now, and was {old}")
                    }
                    (None, Some(new)) => format!("the target's process was found: {new}"),
                    (None, None) => String::new(),
                });
                target.pid = pid;
            }
        }
        if let Some(redis) = &mut self.redis {
            reading.extend(redis.read().of_whom("redis"));
        }
        if let Some(scrape) = &mut self.scrape {
            let (read, trouble) = scrape.take();
            reading.extend(read.of_whom("server"));
            notes.extend(trouble.map(|why| format!("the target's metrics: {why}")));
        }
        (reading, notes)
    }
}
