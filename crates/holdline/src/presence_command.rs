//! `holdline presence`: who is online, as a server's memory has it, as the directory has it, or
//! both side by side; how the directory stands; figures over time.

pub mod audit;

use crate::client::{Server, query, tell};
use crate::clients::{lines, text};
use base::text::escaped;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// Principals that are asked for at once.
const AT_ONCE: usize = 1_000;

/// Devices and clients, and the source of their presence. Without any: the number online.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Ask the presence directory instead of the server's memory
    #[arg(long)]
    stored: bool,
    /// Show memory and directory side by side
    #[arg(long, conflicts_with = "stored")]
    both: bool,
    /// Product of the devices; without devices, all its devices
    #[arg(long)]
    product: Option<String>,
    /// Topic client (MQTT); can be repeated
    #[arg(long = "client", value_name = "ID")]
    clients: Vec<String>,
    /// Maximum number of devices when none is named
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Devices of the product; without --product, keys of the directory: product#device
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Show the directory's status: circuit breaker, lag, last error, counters
    Status,
    /// Show the last connects and disconnects of a device or client, with reasons
    History {
        /// Device; without --product, a key: product#device
        #[arg(value_name = "DEVICE", required_unless_present = "client")]
        device: Option<String>,
        /// Product of the device
        #[arg(long, requires = "device")]
        product: Option<String>,
        /// Topic client (MQTT) instead of a device
        #[arg(long, value_name = "ID", conflicts_with_all = ["device", "product"])]
        client: Option<String>,
        /// Maximum number of lines, newest first
        #[arg(long, default_value_t = 20)]
        count: u32,
    },
    /// Show online counts, connects, disconnects and heartbeats of the last seconds or minutes
    Statistics {
        /// Time between two lines
        #[arg(long, value_enum, default_value_t = Step::Second)]
        step: Step,
        /// Number of lines
        #[arg(long, default_value_t = 20)]
        count: u32,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Step {
    Second,
    Minute,
}

/// Carries out the command, and prints the result.
pub fn presence(arguments: Arguments) -> ExitCode {
    tell(act(&arguments))
}

fn act(arguments: &Arguments) -> Result<String, String> {
    let (server, json) = (&arguments.server, arguments.json);
    let shown = |answer: Value, table: fn(&Value) -> String| {
        if json { format!("{answer}\n") } else { table(&answer) }
    };
    match &arguments.action {
        Some(Action::Status) => {
            server.call("GET", "/v1/presence/status", None).map(|answer| shown(answer, card))
        }
        Some(Action::History { device, product, client, count }) => {
            let key = match (device, product) {
                (Some(device), None) if !device.contains('#') => {
                    return Err(of_which_product(device));
                }
                (Some(device), None) => Some(device.clone()),
                _ => None,
            };
            let named = device.clone().filter(|_| product.is_some());
            let filters = [
                ("product", product.clone()),
                ("device", named),
                ("client", client.clone()),
                ("key", key),
                ("limit", Some(count.to_string())),
            ];
            let answer = server.call("GET", &query("/v1/presence/history", &filters), None)?;
            Ok(shown(answer, history))
        }
        Some(Action::Statistics { step, count }) => {
            let step = match step {
                Step::Second => "second",
                Step::Minute => "minute",
            };
            let path = format!("/v1/presence/statistics?step={step}&count={count}");
            server.call("GET", &path, None).map(|answer| shown(answer, statistics))
        }
        None => {
            let keys = arguments.keys()?;
            if keys.is_empty() && arguments.product.is_none() {
                let answer = server.call("GET", "/v1/presence/counts", None)?;
                return Ok(shown(answer, counts));
            }
            arguments.look_up(&keys)
        }
    }
}

impl Arguments {
    /// The devices that are named, and whether it is about something else.
    #[cfg(test)]
    pub fn asked(&self) -> (&[String], bool) {
        (&self.devices, self.action.is_some())
    }

    /// The keys of those who are named, each once.
    fn keys(&self) -> Result<Vec<String>, String> {
        let mut keys: Vec<String> = match &self.product {
            Some(product) if self.devices.is_empty() => {
                let filters = [("product", self.product.clone())];
                let path = query("/v1/devices", &filters);
                let found = self.server.pages(&path, "devices", self.limit)?;
                found.iter().map(|found| format!("{product}#{}", name(&found["device"]))).collect()
            }
            Some(product) => self.devices.iter().map(|name| format!("{product}#{name}")).collect(),
            None => self.devices.clone(),
        };
        if let Some(key) = keys.iter().find(|key| !key.contains('#')) {
            return Err(of_which_product(key));
        }
        keys.extend(self.clients.iter().map(|id| format!("#{id}")));
        let mut seen = BTreeSet::new();
        keys.retain(|key| seen.insert(key.clone()));
        Ok(keys)
    }

    fn look_up(&self, keys: &[String]) -> Result<String, String> {
        let memory = if self.stored { None } else { Some(self.found("/v1/presence", keys)?) };
        let wants_stored = self.stored || self.both;
        let stored = match wants_stored {
            true => Some(self.found("/v1/presence/stored", keys)?),
            false => None,
        };
        match (memory, stored) {
            (Some(memory), Some(stored)) => {
                let pairs = keys.iter().map(|key| Pair::new(key, &memory, &stored));
                let pairs: Vec<Pair> = pairs.collect();
                Ok(if self.json { lines(&all(&pairs)) } else { side_by_side(&pairs) })
            }
            (found, None) | (None, found) => {
                let found = found.unwrap_or_default();
                if self.json {
                    let known: Vec<Value> =
                        keys.iter().filter_map(|key| found.get(key).cloned()).collect();
                    return Ok(lines(&known));
                }
                Ok(if self.stored { records(keys, &found) } else { states(keys, &found) })
            }
        }
    }

    /// Presence of the principals with these keys, by key.
    fn found(&self, path: &str, keys: &[String]) -> Result<BTreeMap<String, Value>, String> {
        let mut found = BTreeMap::new();
        for keys in keys.chunks(AT_ONCE) {
            let mut answer = self.server.call("POST", path, Some(&json!({ "keys": keys })))?;
            for one in answer["found"].as_array_mut().into_iter().flatten() {
                found.insert(name(&one["key"]).to_owned(), one.take());
            }
        }
        Ok(found)
    }
}

fn of_which_product(device: &str) -> String {
    format!(
        "{device}: product missing. Give --product, or a key: product#{device}. For a topic \
         client, give --client {device}."
    )
}

/// A name as it is, for the next question; to be shown it has to be made fit.
fn name(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A principal as memory has it and as the directory has it.
struct Pair<'a> {
    key: &'a str,
    memory: &'a Value,
    stored: &'a Value,
}

impl<'a> Pair<'a> {
    fn new(
        key: &'a str,
        memory: &'a BTreeMap<String, Value>,
        stored: &'a BTreeMap<String, Value>,
    ) -> Pair<'a> {
        let of = |found: &'a BTreeMap<String, Value>| found.get(key).unwrap_or(&Value::Null);
        Pair { key, memory: of(memory), stored: of(stored) }
    }

    /// `yes`, `no`, or `elsewhere`: another server has it, and this one does not say otherwise.
    fn agrees(&self) -> &'static str {
        let online = |found: &Value| found["online"] == true;
        let (memory, stored) = (online(self.memory), online(self.stored));
        let record = &self.stored["record"];
        let same = |what: &str| self.memory[what] == record[what];
        match (memory, stored) {
            (true, true) if same("node") && same("version") => "yes",
            (false, false) => "yes",
            (false, true) if self.memory.is_null() || !same("node") => "elsewhere",
            _ => "no",
        }
    }
}

fn all(pairs: &[Pair]) -> Vec<Value> {
    let each = pairs.iter().map(|pair| {
        let Pair { key, memory, stored } = pair;
        json!({ "key": key, "memory": memory, "stored": stored, "agree": pair.agrees() })
    });
    each.collect()
}

/// A Unix millisecond as people read it, UTC.
fn moment(unix_ms: &Value) -> String {
    let Some(unix_ms) = unix_ms.as_u64().filter(|&unix_ms| unix_ms != 0) else {
        return "-".into();
    };
    let (unix_s, ms) = (unix_ms / 1_000, unix_ms % 1_000);
    let (date, second) = (base::calendar::date(unix_s), unix_s % 60);
    format!("{date}T{}:{second:02}.{ms:03}Z", base::calendar::hour(unix_s))
}

/// Online or not, and the protocol or how it ended.
fn state(found: &Value) -> [String; 2] {
    match &found["online"] {
        Value::Bool(true) => ["online".into(), text(&found["protocol"])],
        Value::Bool(false) => ["offline".into(), text(&found["reason"])],
        _ => ["unknown".into(), "-".into()],
    }
}

fn states(keys: &[String], found: &BTreeMap<String, Value>) -> String {
    let mut out = format!(
        "{:<32} {:<7} {:<18} {:<24} {:<24} VERSION\n",
        "KEY", "STATE", "BY", "SINCE", "SEEN"
    );
    for key in keys {
        let one = found.get(key).unwrap_or(&Value::Null);
        let [state, by] = state(one);
        let (since, seen) = (moment(&one["since_ms"]), moment(&one["seen_ms"]));
        let (key, version) = (escaped(key), text(&one["version"]));
        out += &format!("{key:<32} {state:<7} {by:<18} {since:<24} {seen:<24} {version}\n");
    }
    out
}

/// A line a transition, and one where the server was started in between.
fn history(answer: &Value) -> String {
    let mut out = format!(
        "{:<24} {:<7} {:<8} {:<24} {:<22} NODE\n",
        "AT", "STATE", "PROTOCOL", "FROM", "REASON"
    );
    let mut boot = None;
    for one in answer["transitions"].as_array().into_iter().flatten() {
        if boot.replace(&one["boot"]).is_some_and(|before| *before != one["boot"]) {
            out += "-- server started --\n";
        }
        let [state, _] = state(one);
        let (at, protocol) = (moment(&one["at_ms"]), text(&one["protocol"]));
        let [from, reason, node] = ["peer", "reason", "node"].map(|what| text(&one[what]));
        out += &format!("{at:<24} {state:<7} {protocol:<8} {from:<24} {reason:<22} {node}\n");
    }
    out
}

fn records(keys: &[String], found: &BTreeMap<String, Value>) -> String {
    let mut out = format!(
        "{:<32} {:<7} {:<6} {:<18} {:<16} {:<24} VERSION\n",
        "KEY", "STATE", "LEASE", "RECORD", "NODE", "SINCE"
    );
    for key in keys {
        let one = found.get(key).unwrap_or(&Value::Null);
        let record = &one["record"];
        let [state, _] = state(one);
        let [_, by] = self::state(record);
        let lease = match one["lease"] {
            Value::Bool(true) => "yes",
            Value::Bool(false) => "no",
            _ => "-",
        };
        let (node, since) = (text(&record["node"]), moment(&record["at_ms"]));
        let (key, version) = (escaped(key), text(&record["version"]));
        out +=
            &format!("{key:<32} {state:<7} {lease:<6} {by:<18} {node:<16} {since:<24} {version}\n");
    }
    out
}

fn side_by_side(pairs: &[Pair]) -> String {
    let mut out = format!(
        "{:<32} {:<7} {:<18} {:<16}   {:<7} {:<18} {:<16} {:<16} AGREE\n",
        "KEY", "MEMORY", "BY", "VERSION", "STORED", "BY", "VERSION", "NODE"
    );
    for pair in pairs {
        let ([here, by], record) = (state(pair.memory), &pair.stored["record"]);
        let ([there, _], [_, of]) = (state(pair.stored), state(record));
        out += &format!(
            "{:<32} {here:<7} {by:<18} {:<16}   {there:<7} {of:<18} {:<16} {:<16} {}\n",
            escaped(pair.key),
            text(&pair.memory["version"]),
            text(&record["version"]),
            text(&record["node"]),
            pair.agrees(),
        );
    }
    out
}

fn counts(answer: &Value) -> String {
    let mut out = format!(
        "{:<32} {:<8} {:>10} {:>12} {:>12}\n",
        "PRODUCT", "PROTOCOL", "ONLINE", "ARRIVALS", "DEPARTURES"
    );
    let mut line = |product: String, protocol: String, figures: &Value| {
        let figure = |what: &str| text(&figures[what]);
        out += &format!(
            "{product:<32} {protocol:<8} {:>10} {:>12} {:>12}\n",
            figure("online"),
            figure("arrivals"),
            figure("departures")
        );
    };
    for one in answer["by"].as_array().into_iter().flatten() {
        line(text(&one["product"]), text(&one["protocol"]), one);
    }
    line("all".into(), "all".into(), answer);
    out
}

fn statistics(answer: &Value) -> String {
    let mut out = format!(
        "{:<20} {:>10} {:>9} {:>11} {:>11} {:>8} {:>8}\n",
        "UNTIL", "ONLINE", "ARRIVALS", "DEPARTURES", "HEARTBEATS", "LATE", "LOST"
    );
    for one in answer["moments"].as_array().into_iter().flatten() {
        let at_ms = json!(one["at_s"].as_u64().unwrap_or(0) * 1_000);
        let at = moment(&at_ms).replace(".000Z", "Z");
        let figure = |what: &str| text(&one[what]);
        out += &format!(
            "{at:<20} {:>10} {:>9} {:>11} {:>11} {:>8} {:>8}\n",
            figure("online"),
            figure("arrivals"),
            figure("departures"),
            figure("heartbeats"),
            figure("heartbeats_late"),
            figure("heartbeats_lost"),
        );
    }
    out
}

fn card(status: &Value) -> String {
    let kind = text(&status["directory"]);
    let node = format!("{} (start {})", text(&status["node"]), text(&status["boot"]));
    if kind == "none" {
        return format!(
            "no presence directory is configured: set `[presence] directory`, for example to \
             \"redis://127.0.0.1:6379\"\n  {:<28} {node}\n",
            "node"
        );
    }
    let mut out = format!("directory: {kind}\n");
    let fault = match &status["fault"] {
        Value::Null => "none".to_owned(),
        fault => format!("{} {}", moment(&fault["at_ms"]), text(&fault["message"])),
    };
    for (name, value) in [
        ("node", node),
        ("circuit", text(&status["circuit"])),
        ("not yet written", text(&status["unwritten"])),
        ("lag", format!("{} ms", status["lag_ms"])),
        ("buckets to compare", text(&status["resync_left"])),
        ("last error", fault),
    ] {
        out += &format!("  {name:<28} {value}\n");
    }
    for (name, count) in status["counters"].as_object().into_iter().flatten() {
        out += &format!("  {name:<44} {count}\n");
    }
    out
}

#[cfg(test)]
mod tests;
