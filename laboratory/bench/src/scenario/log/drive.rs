//! The producer: keeps a window of appends under way in a lane, for a while.
//!
//! A window of one is a producer in lock step, a window of 200 are 200 of them, a wide one is a
//! pipeline. The appends' CPU is that of all other threads, until the process is at rest: the
//! producer's own is not in it.

use super::lane::{Lane, Ordered};
use super::meter::{self, Others};
use super::traffic::Traffic;
use crate::clock;
use model::ports::log::{Completion, Done};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// How long, and how much at once.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Appends under way at once.
    pub window: usize,
    /// No new append after this.
    pub time: Duration,
    /// Nor after so many.
    pub appends_max: u64,
}

/// Result of the appends.
pub struct Run {
    /// Appends acknowledged: all that were submitted.
    pub appends: u64,
    /// From the first submission to the last acknowledgement.
    pub wall: Duration,
    /// CPU of the lane.
    pub cpu: Duration,
    /// From submission to acknowledgement, microseconds, one of each burst.
    pub latencies_us: Vec<f64>,
}

impl Run {
    /// Appends a second.
    pub fn rate(&self) -> f64 {
        self.appends as f64 / self.wall.as_secs_f64()
    }

    /// CPU an append, microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.appends as f64
    }
}

/// Appends of `traffic` go through `lane`.
pub fn run(lane: &mut dyn Lane, traffic: &mut Traffic, plan: &Plan) -> io::Result<Run> {
    let (began, others) = (clock::now(), Others::begin());
    let first = traffic.messages() + 1;
    let mut run =
        Run { appends: 0, wall: Duration::ZERO, cpu: Duration::ZERO, latencies_us: Vec::new() };
    let mut bursts: VecDeque<(u64, Instant)> = VecDeque::new(); // the first ticket of each
    let mut completions = Vec::new();
    loop {
        let made = traffic.messages() + 1 - first;
        let room = plan.window - (made - run.appends) as usize;
        let room = room.min((plan.appends_max - made) as usize);
        if room > 0 && clock::since(began) < plan.time {
            let burst: Vec<Ordered> =
                (0..room).map(|_| (traffic.messages() + 1, traffic.append())).collect();
            bursts.push_back((burst[0].0, clock::now()));
            lane.submit(burst)?;
        } else if made == run.appends {
            break;
        }
        lane.mailbox().expect(&mut completions)?;
        let now = clock::now();
        for completion in &completions {
            acknowledged(completion, first + run.appends)?;
            run.appends += 1;
            if let Some((_, at)) = bursts.pop_front_if(|(ticket, _)| *ticket == completion.0) {
                run.latencies_us.push((now - at).as_secs_f64() * 1e6);
            }
        }
    }
    run.wall = clock::since(began);
    meter::rest();
    run.cpu = others.used();
    Ok(run)
}

/// An error unless `completion` says that the append with the ticket `owed` is stored.
pub fn acknowledged(completion: &Completion, owed: u64) -> io::Result<()> {
    match completion {
        (ticket, Ok(Done::Appended(appended)))
            if (*ticket, appended.id, appended.new) == (owed, owed, true) =>
        {
            Ok(())
        }
        other => Err(io::Error::other(format!("append {owed} was answered by {other:?}"))),
    }
}
