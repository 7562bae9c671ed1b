//! Orders to a swarm, a line each, and its answers: `done ...`, or `failed: ...`.
//!
//! ```text
//! hold COUNT FIRST WINDOW none|exact|wildcard    clients with identifiers of 16 characters
//! pair QOS PAIRS clean|kept                      and the same for fanout, fanin, share: opens them
//! run WINDOW COPIES SECONDS                      until so many copies were delivered
//! pace PER_S SECONDS                             latencies from the planned time
//! retain TOPICS                                  a retained message on each
//! collect TOPICS PER_S                           one subscriber to all, publishers at that rate
//! ```

use super::{Load, Swarm, Wanted};
use crate::caller::sockets;
use crate::child::Child;
use crate::clock;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A swarm in a process of its own.
pub struct Remote(Child);

/// Result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Copies delivered.
    pub delivered: u64,
    /// Seconds it took.
    pub seconds: f64,
    /// Latencies at 50 and 99 percent, microseconds.
    pub latency_us: [f64; 2],
}

impl Remote {
    /// Starts one that calls `to`.
    pub fn start(to: SocketAddr) -> io::Result<Remote> {
        Ok(Remote(Child::again(&["swarm", &to.to_string()], None)?))
    }

    /// Tells it to open clients.
    pub fn open(&mut self, order: &str) -> io::Result<()> {
        self.ask(order).map(drop)
    }

    /// Tells it to run or pace.
    pub fn run(&mut self, order: &str) -> io::Result<Ran> {
        let answer = self.ask(order)?;
        let numbers: Vec<f64> = answer.split(' ').filter_map(|it| it.parse().ok()).collect();
        let [delivered, seconds, half, most] = numbers[..] else {
            return Err(io::Error::other(format!("the swarm answered {answer:?}")));
        };
        Ok(Ran { delivered: delivered as u64, seconds, latency_us: [half, most] })
    }

    fn ask(&mut self, order: &str) -> io::Result<String> {
        let answer = self.0.ask(order)?;
        let told = answer.strip_prefix("done").map(|rest| rest.trim_start().to_owned());
        told.ok_or_else(|| io::Error::other(format!("{order}: {answer}")))
    }
}

/// Runs a swarm: `ADDRESS`.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let [to] = arguments else { return Err(io::Error::other("ADDRESS")) };
    let to: SocketAddr = to.parse().map_err(io::Error::other)?;
    let mut swarm = Swarm::new(to)?;
    let mut load = Load { first: 0, publishers: 0, copies: 1, qos: 0, window: 1 };
    sockets::obey(|order| obey(&mut swarm, &mut load, order))
}

fn obey(swarm: &mut Swarm, load: &mut Load, order: &str) -> io::Result<String> {
    let words: Vec<&str> = order.split(' ').collect();
    let number = |at: usize| -> io::Result<u32> {
        let word = words.get(at).copied().unwrap_or("");
        word.parse().map_err(|_| io::Error::other(format!("no order: {order}")))
    };
    let rate = |at: usize| -> io::Result<f64> {
        let rate = words.get(at).and_then(|word| word.parse().ok()).filter(|rate| *rate > 0.0);
        rate.ok_or_else(|| io::Error::other(format!("no order: {order}")))
    };
    match words[0] {
        "hold" => {
            let (count, first) = (number(1)?, number(2)?);
            let kind = words.get(4).copied().unwrap_or("none");
            let held = (first..first + count).map(|number| held(number, kind)).collect();
            swarm.open(held, number(3)? as usize)?;
            Ok(String::new())
        }
        shape @ ("pair" | "fanout" | "fanin" | "share") => {
            let (qos, count) = (number(1)? as u8, number(2)?);
            let clean = words.get(3) != Some(&"kept");
            let first = swarm.clients.len();
            let (readers, publishers) = members(shape, qos, count, clean);
            let copies = if shape == "fanout" { count } else { 1 };
            *load = Load {
                first: first + readers.len(),
                publishers: publishers.len(),
                copies,
                qos,
                window: 1,
            };
            swarm.open(readers, 50)?;
            swarm.open(publishers, 50)?;
            Ok(String::new())
        }
        "run" => {
            load.window = number(1)?;
            let span = Duration::from_secs(u64::from(number(3)?));
            let began = clock::now();
            let delivered = swarm.run(*load, u64::from(number(2)?), span)?;
            Ok(told(swarm, delivered, clock::since(began)))
        }
        "pace" => {
            let span = Duration::from_secs(u64::from(number(2)?));
            let began = clock::now();
            let delivered = swarm.pace(*load, rate(1)?, span)?;
            Ok(told(swarm, delivered, clock::since(began)))
        }
        "retain" => {
            swarm.retain(number(1)?)?;
            Ok(String::new())
        }
        "collect" => {
            let (topics, per_s) = (u64::from(number(1)?), rate(2)?);
            let began = clock::now();
            let collected = swarm.collect(*load, per_s, topics)?;
            Ok(told(swarm, collected, clock::since(began)))
        }
        _ => Err(io::Error::other(format!("no order: {order}"))),
    }
}

fn told(swarm: &Swarm, delivered: u64, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    format!("{delivered} {seconds} {} {}", swarm.latency_us(0.5), swarm.latency_us(0.99))
}

/// An idle client, with an identifier of 16 characters and perhaps one subscription of its own.
fn held(number: u32, kind: &str) -> Wanted {
    let id = format!("client-{:09}", number);
    let filter = match kind {
        "exact" => Some((format!("bench/{number}/in"), 0)),
        "wildcard" => Some((format!("bench/{number}/#"), 0)),
        _ => None,
    };
    Wanted { id, clean: true, filter, topic: String::new() }
}

/// Readers and publishers of a shape.
fn members(shape: &str, qos: u8, count: u32, clean: bool) -> (Vec<Wanted>, Vec<Wanted>) {
    let reader = |number: u32, filter: String| Wanted {
        id: format!("reader-{number}"),
        clean,
        filter: Some((filter, qos)),
        topic: String::new(),
    };
    let publisher = |number: u32, topic: String| Wanted {
        id: format!("publisher-{number}"),
        clean: true,
        filter: None,
        topic,
    };
    let all = 0..count;
    match shape {
        "pair" => (
            all.clone().map(|n| reader(n, format!("pair/{n}"))).collect(),
            all.map(|n| publisher(n, format!("pair/{n}"))).collect(),
        ),
        "fanout" => (
            all.map(|n| reader(n, "fan/out".to_owned())).collect(),
            vec![publisher(0, "fan/out".to_owned())],
        ),
        "fanin" => (
            vec![reader(0, "fan/in/+".to_owned())],
            all.map(|n| publisher(n, format!("fan/in/{n}"))).collect(),
        ),
        _ => (
            (0..4).map(|n| reader(n, "$share/group/share/+".to_owned())).collect(),
            all.map(|n| publisher(n, format!("share/{n}"))).collect(),
        ),
    }
}
