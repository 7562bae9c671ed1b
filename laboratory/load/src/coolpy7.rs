//! Coolpy7's benchmark line: so many MQTT clients that connect, subscribe and stay.
//!
//! `-workers=N -cid=PREFIX -topic=T%i -qos=0 -url=tcp://HOST:PORT -keepalive=60s -clear=true`, with
//! Go's flags: one dash or two, `=` or a space, `-clear` alone for true, times like `1h30m`. It
//! becomes a [`Plan`]; a line for every thousand connections is printed as they come. It knows
//! nothing of running the plan.

use crate::run::{RunTick, Watch};
use lab::plan::{Plan, Span};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// Arguments of the benchmark.
#[derive(Clone, PartialEq, Debug)]
pub struct Coolpy7Arguments {
    /// Clients.
    pub workers: u32,
    /// In front of each client's number, in its id.
    pub cid: String,
    /// Topic that each subscribes to, with `%i`; `None`: no subscription.
    pub topic: Option<String>,
    /// Quality of service of the subscription.
    pub qos: u8,
    /// URL of the broker.
    pub url: String,
    /// Keep-alive.
    pub keepalive: Span,
    /// Clean session.
    pub clear: bool,
    /// How long they stay; ours. Without it, until somebody interrupts, a month at most.
    pub duration: Option<Span>,
    /// The server's process on this machine, by its number; ours.
    pub pid: Option<u32>,
    /// The server's process, by a port that it listens on; ours.
    pub port: Option<u16>,
    /// The server's own page of metrics; ours.
    pub metrics: Option<String>,
    /// The token for that page; ours.
    pub token: Option<String>,
}

/// Usage of the command.
pub const USAGE: &str = "\
usage: holdline load coolpy7 -workers=N -url=tcp://HOST:PORT
  -workers=N       clients (1)
  -cid=PREFIX      prefix of the client numbers (cp7)
  -topic=T         topic each client subscribes to, %i is its number; null: none (null)
  -qos=0           quality of service of the subscription
  -url=tcp://…     the broker; also mqtt://, mqtts://, ssl:// (tcp://127.0.0.1:1883)
  -keepalive=60s   interval of keep-alive pings
  -clear=true      clean session
Additional options of Holdline:
  -duration=10m    how long to stay connected (until Ctrl-C)
  -pid=N           PID of the server on this machine, to observe it
  -port=N          the same by a port the server listens on (loopback URL: its port)
  -metrics=URL     URL of the server's Prometheus metrics
  -token=TOKEN     token for the metrics";

impl Default for Coolpy7Arguments {
    fn default() -> Self {
        Coolpy7Arguments {
            workers: 1,
            cid: "cp7".to_owned(),
            topic: None,
            qos: 0,
            url: "tcp://127.0.0.1:1883".to_owned(),
            keepalive: Span::from_secs(60),
            clear: true,
            duration: None,
            pid: None,
            port: None,
            metrics: None,
            token: None,
        }
    }
}

/// Reads Go's flags.
pub fn parse(words: &[String]) -> Result<Coolpy7Arguments, String> {
    let mut arguments = Coolpy7Arguments::default();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            return Err(format!("unexpected argument `{word}`"));
        };
        let (name, given) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        if name == "clear" {
            // Go's switches take no second word.
            arguments.clear = switch(given.as_deref().unwrap_or("true"))?;
            continue;
        }
        let value = match given {
            Some(value) => value,
            None => words.next().cloned().ok_or_else(|| format!("-{name} needs a value"))?,
        };
        let wrong = |need: &str| format!("-{name}={value}: {need}");
        match name {
            "workers" => {
                let count = value.parse().ok().filter(|count| *count > 0);
                arguments.workers = count.ok_or_else(|| wrong("a number of clients, from 1"))?;
            }
            "cid" => arguments.cid = value,
            "topic" => arguments.topic = (value != "null" && !value.is_empty()).then_some(value),
            "qos" => {
                let qos = value.parse().ok().filter(|qos| *qos <= 2);
                arguments.qos = qos.ok_or_else(|| wrong("0, 1 or 2"))?;
            }
            "url" => arguments.url = value,
            "keepalive" => arguments.keepalive = span(&value).map_err(|why| wrong(&why))?,
            "pid" => arguments.pid = Some(value.parse().map_err(|_| wrong("a process ID"))?),
            "port" => arguments.port = Some(value.parse().map_err(|_| wrong("a port"))?),
            "metrics" => arguments.metrics = Some(value),
            "token" => arguments.token = Some(value),
            "duration" => arguments.duration = Some(span(&value).map_err(|why| wrong(&why))?),
            _ => return Err(format!("unknown flag -{name}")),
        }
    }
    Ok(arguments)
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("-clear={value}: expected true or false")),
    }
}

/// A time as Go writes it: `60s`, `1h30m`, `1.5h`.
fn span(text: &str) -> Result<Span, String> {
    let need = || "a time like 60s or 1h30m".to_owned();
    let mut all = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(need)?;
        let digits = rest[unit..].find(|c: char| !c.is_ascii_alphabetic());
        let end = digits.map_or(rest.len(), |digits| unit + digits);
        let part: Span = rest[..end].parse().map_err(|_| need())?;
        all = all.checked_add(part.0).ok_or_else(need)?;
        rest = &rest[end..];
    }
    if text.is_empty() { Err(need()) } else { Ok(Span(all)) }
}

impl Coolpy7Arguments {
    /// The plan that they ask for.
    pub fn plan(&self) -> Result<Plan, String> {
        let url = match self.url.split_once("://") {
            Some(("tcp", rest)) => format!("mqtt://{rest}"),
            Some(("ssl" | "tls", rest)) => format!("mqtts://{rest}"),
            _ => self.url.clone(),
        };
        let text = "name = \"coolpy7\"\nabout = \"Clients that connect, subscribe and stay.\"\n\
                    [[group]]\nname = \"workers\"\nback_after = \"1s\"\n\
                    [[stage]]\nname = \"stay\"\narrive_max = \"24h\"\n\
                    pass = [\"online_share == 1\", \"unexplained == 0\"]\n";
        let mut plan = crate::run::file::parse("coolpy7", text, &[])?;
        let target = &mut plan.target;
        target.url = vec![url];
        (target.pid, target.port) = (self.pid, self.port);
        target.metrics.clone_from(&self.metrics);
        target.token.clone_from(&self.token);
        let group = &mut plan.groups[0];
        group.id = Some(format!("{}%i", self.cid));
        group.keep_alive = self.keepalive;
        group.keep_session = !self.clear;
        group.subscribe = self.topic.clone().into_iter().collect();
        group.subscribe_qos = self.qos;
        let stage = &mut plan.stages[0];
        stage.clients = BTreeMap::from([("workers".to_owned(), self.workers)]);
        stage.hold = self.duration.unwrap_or(crate::run::check::TIME_MAX);
        crate::run::check::check(&plan).map_err(|problem| problem.to_string())?;
        Ok(plan)
    }
}

/// Prints a line for every thousand connections.
pub struct ProgressPrinter<W> {
    to: W,
    printed: u64,
}

impl<W: Write> ProgressPrinter<W> {
    /// A counter that prints there.
    pub fn new(to: W) -> ProgressPrinter<W> {
        ProgressPrinter { to, printed: 0 }
    }
}

impl<W: Write> Watch for ProgressPrinter<W> {
    fn tick(&mut self, tick: &RunTick) {
        while self.printed + 1_000 <= tick.counts.online {
            self.printed += 1_000;
            // Whoever closed the pipe wants no lines.
            let _ = writeln!(self.to, "connected {}", self.printed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Coolpy7Arguments, String> {
        parse(&line.split(' ').filter(|w| !w.is_empty()).map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_published_line_is_read() {
        let line = "-workers=4000000 -cid=tqy -topic=null -qos=0 -url=tcp://192.168.200.238:1883 \
                    -keepalive=60000s -clear=true";
        let arguments = parsed(line).expect("it is theirs");
        assert_eq!((arguments.workers, arguments.topic.clone()), (4_000_000, None));
        let plan = arguments.plan().expect("it can be run");
        assert_eq!(plan.target.url, ["mqtt://192.168.200.238:1883"]);
        assert_eq!(plan.groups[0].id.as_deref(), Some("tqy%i"));
        assert_eq!(plan.groups[0].keep_alive, Span::from_secs(60_000));
        assert!(plan.groups[0].subscribe.is_empty() && !plan.groups[0].keep_session);
    }

    #[test]
    fn flags_are_gos() {
        let arguments = parsed("--workers 5 -topic=my/%i --qos=1 -clear=F -keepalive 1h30m");
        let arguments = arguments.expect("Go takes it");
        assert_eq!((arguments.workers, arguments.qos, arguments.clear), (5, 1, false));
        assert_eq!(arguments.keepalive, Span::from_secs(5_400));
        let plan = arguments.plan().expect("it can be run");
        assert_eq!(plan.groups[0].subscribe, ["my/%i"]);
        assert!(plan.groups[0].keep_session);
        assert!(parsed("-clear -workers=1").expect("a switch alone").clear);
    }

    #[test]
    fn the_server_is_observed_as_it_is_named() {
        let plan = parsed("-pid=7 -metrics=http://h/metrics -token=t").expect("ours");
        let target = plan.plan().expect("it can be run").target;
        assert_eq!((target.pid, target.metrics.as_deref()), (Some(7), Some("http://h/metrics")));
        assert_eq!(target.token.as_deref(), Some("t"));
        let plan = parsed("-port 1884").expect("ours").plan().expect("it can be run");
        assert_eq!(plan.target.port, Some(1_884));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, said) in [
            ("-workers=0", "-workers=0: a number of clients"),
            ("-workers", "-workers needs a value"),
            ("-qos=3", "-qos=3: 0, 1 or 2"),
            ("-keepalive=60", "-keepalive=60: a time like 60s"),
            ("-clear=maybe", "-clear=maybe: expected true or false"),
            ("-speed=1", "unknown flag -speed"),
            ("-pid=x", "-pid=x: a process ID"),
            ("-port=70000", "-port=70000: a port"),
            ("workers=1", "unexpected argument `workers=1`"),
        ] {
            assert!(parsed(line).expect_err(line).contains(said), "{line}");
        }
        assert!(parsed("-url=x").expect("read").plan().is_err());
        assert!(parsed("-keepalive=20h").expect("read").plan().is_err(), "16 bits of seconds");
    }

    #[test]
    fn every_thousand_is_printed_once() {
        let mut printed = Vec::new();
        let mut counter = ProgressPrinter::new(&mut printed);
        for online in [10, 2_500, 2_600, 3_000, 1_000] {
            let counts = lab::run::Counts { online, ..Default::default() };
            counter.tick(&crate::run::watch::tests::tick(counts));
        }
        assert_eq!(printed, b"connected 1000\nconnected 2000\nconnected 3000\n");
    }
}
