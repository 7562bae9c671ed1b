//! A million devices: the laboratory's VM, with server and devices inside.
//!
//! This machine lets a process open 20,000 descriptors; the VM (`lab/vm.sh`, HOLDLINE_LAB) lets it
//! open millions. The release binaries are handed in, `bench inside` does the work there, and the
//! line it prints is the result. A run of a million takes 10 to 90 minutes and most of the memory.

use crate::inside::MARK;
use crate::results::{self, Outcome};
use crate::{clock, holdline};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Sessions of XMPP, unless the command says how many.
const XMPP_SESSIONS: u32 = 30_000;

/// Options of a measurement in the VM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Devices.
    pub devices: u32,
    /// Memory of the VM, MiB.
    pub mem_mb: u32,
    /// Time until the VM is ended, seconds.
    pub seconds: u32,
    /// Time for which all are held, seconds.
    pub hold_s: u32,
    /// For trying out.
    pub quick: bool,
    /// Clients of the server.
    pub callers: Callers,
}

/// Clients of the server in the VM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callers {
    /// Devices of MIOP, held by this program.
    Devices,
    /// MQTT clients with a subscription each, held by this program.
    Mqtt,
    /// MQTT clients with sessions that are kept, held by this program.
    MqttKept,
    /// XMPP sessions of accounts with a password each, held by this program.
    Xmpp,
    /// Devices of MIOP, held by `holdline load run million`.
    Lab,
}

impl Callers {
    /// The result's name, and the word that orders it inside.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Callers::Devices => ("vm", "miop"),
            Callers::Mqtt => ("vm-mqtt", "mqtt"),
            Callers::MqttKept => ("vm-mqtt-kept", "mqtt-kept"),
            Callers::Xmpp => ("vm-xmpp", "xmpp"),
            Callers::Lab => ("vm-lab", "lab"),
        }
    }
}

impl Options {
    /// Reads `--devices N --mem MB --seconds S --hold S --quick`, and who calls.
    pub fn parse(words: &[String]) -> io::Result<Options> {
        let is_xmpp = words.iter().any(|word| word == "--xmpp");
        let mut options = Options {
            devices: if is_xmpp { XMPP_SESSIONS } else { 1_000_000 },
            mem_mb: 20_480,
            seconds: 6_000,
            hold_s: 90,
            quick: false,
            callers: Callers::Devices,
        };
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let place = match word {
                "--quick" => {
                    (options.devices, options.mem_mb, options.quick) = (20_000, 3_072, true);
                    continue;
                }
                "--mqtt" | "--mqtt-kept" | "--lab" | "--xmpp" => {
                    options.callers = match word {
                        "--lab" => Callers::Lab,
                        "--xmpp" => Callers::Xmpp,
                        "--mqtt-kept" => Callers::MqttKept,
                        _ => Callers::Mqtt,
                    };
                    continue;
                }
                "--devices" => &mut options.devices,
                "--mem" => &mut options.mem_mb,
                "--seconds" => &mut options.seconds,
                "--hold" => &mut options.hold_s,
                _ => return Err(io::Error::other(format!("no such option: {word}"))),
            };
            let number = words.next().and_then(|number| number.parse().ok());
            *place = number.ok_or_else(|| io::Error::other(format!("{word} needs a number")))?;
        }
        Ok(options)
    }
}

/// Runs the measurement in the VM.
pub fn run(options: &Options) -> io::Result<Outcome> {
    let root = results::root();
    let lab = std::env::var_os("HOLDLINE_LAB")
        .map_or_else(|| root.join("../shared/lab/vm.sh"), PathBuf::from);
    let cache = std::env::var_os("VM_CACHE").map_or_else(|| root.join("target/vm"), PathBuf::from);
    std::fs::create_dir_all(&cache)?;
    let patience_s = options.seconds.saturating_sub(options.hold_s + 120);
    // The VM's files lie in one folder and keep their names: the server's must be holdline.
    let order = format!(
        "HOLDLINE_BIN=/w/{} ./{} inside {} {} {} {patience_s}",
        name(&holdline::binary()?)?,
        name(&std::env::current_exe()?)?,
        options.callers.names().1,
        options.devices,
        options.hold_s,
    );
    println!("  in the VM: {order}");
    let began = clock::now();
    let mut vm = Command::new("bash")
        .arg(&lab)
        .args(["--mem", &options.mem_mb.to_string(), "--time", &options.seconds.to_string()])
        .arg("--file")
        .args([holdline::binary()?, std::env::current_exe()?])
        .args(["--cmd", &order])
        .env("VM_CACHE", std::path::absolute(cache)?)
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(vm.stdout.take().expect("it was asked for"));
    let mut result = None;
    for line in output.lines() {
        let line = line?;
        match line.strip_prefix(MARK) {
            Some(told) => result = Some(serde_json::from_str::<Value>(told)?),
            None => println!("  {line}"),
        }
    }
    vm.wait()?; // it ends by itself, at the latest when its time is over
    let told = result.ok_or_else(|| io::Error::other("the VM told no result"))?;
    let mut outcome = match options.callers {
        Callers::Lab => of_the_laboratory(options, told),
        Callers::Devices | Callers::Mqtt | Callers::MqttKept | Callers::Xmpp => {
            outcome(options, told)
        }
    };
    outcome.figure("the whole run", clock::since(began).as_secs_f64(), "s (emulated)");
    Ok(outcome)
}

/// Outcome of the laboratory's run; its summary and its run are the details.
fn of_the_laboratory(options: &Options, told: Value) -> Outcome {
    let mut outcome = Outcome::new(json!({
        "plan": "million", "clients": options.devices, "memory_mb": options.mem_mb,
        "seconds_max": options.seconds, "holdline": told["holdline"],
    }));
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    outcome.figure("exit code", number(&told["exit_code"]), "");
    outcome.figure("devices held", number(&told["run"]["total"]["online"]), "");
    outcome.figure("errors", number(&told["errors"]), "");
    outcome.details = told;
    outcome
}

fn outcome(options: &Options, told: Value) -> Outcome {
    let mut outcome = Outcome::new(json!({
        "devices": options.devices, "memory_mb": options.mem_mb, "seconds_max": options.seconds,
        "hold_s": options.hold_s, "window": told["window"], "heartbeat_s": told["heartbeat_s"],
        "holdline": told["holdline"],
    }));
    let errors = told["errors"].as_object();
    let errors = errors.map_or(0, |all| all.values().filter_map(Value::as_u64).sum());
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let memory = &told["memory"];
    outcome.figure("devices held", number(&told["held"]), "");
    outcome.figure("errors", errors as f64, "");
    for (name, value, unit) in [
        ("user bytes a connection", &memory["private_dirty_a_connection"], "bytes"),
        ("R² of the slope", &memory["r2"], ""),
        ("of them, blocks of the store's indexes", &memory["index_blocks_a_connection"], "bytes"),
        ("of them, rows for the store's indexes", &memory["index_rows_a_connection"], "bytes"),
        ("RSS a connection", &memory["rss_a_connection"], "bytes"),
        ("PSS a connection", &memory["pss_a_connection"], "bytes"),
        ("kernel bytes a connection, both ends", &memory["kernel_a_connection_both_ends"], "bytes"),
        ("server's RSS at the end", &memory["rss"], "bytes"),
        ("pushes acknowledged of a thousand", &told["delivered"], ""),
        ("time until all were bound", &told["bind_s"], "s (emulated)"),
        ("pings answered while held", &told["pongs"], ""),
        ("back after the server was killed", &told["killed"]["back"], ""),
        ("of them, sessions that went on", &told["killed"]["went_on"], ""),
        ("messages for a thousand that came after it", &told["killed"]["delivered"], ""),
        ("time until all were back", &told["killed"]["back_s"], "s (emulated)"),
    ] {
        outcome.figure(name, number(value), unit);
    }
    outcome.details = told;
    outcome
}

fn name(path: &std::path::Path) -> io::Result<String> {
    let name = path.file_name().ok_or_else(|| io::Error::other("a binary without a name"))?;
    Ok(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> io::Result<Options> {
        Options::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_in_order() {
        let options = parse(&["--quick", "--devices", "500", "--hold", "5"]).unwrap();
        assert_eq!((options.devices, options.hold_s, options.quick), (500, 5, true));
        assert_eq!(parse(&[]).unwrap().devices, 1_000_000);
        let devices = |words: &[&str]| parse(words).unwrap().devices;
        assert_eq!((devices(&["--xmpp"]), devices(&["--quick", "--xmpp"])), (30_000, 20_000));
        assert_eq!(devices(&["--devices", "9", "--xmpp"]), 9);
        assert!(parse(&["--devices"]).is_err());
        assert!(parse(&["--devices", "many"]).is_err());
        assert!(parse(&["--loud"]).is_err());
    }

    #[test]
    fn errors_are_added_up_over_their_causes() {
        let told = json!({ "held": 9, "errors": { "closed: reset": 2, "refused: 30": 3 } });
        let outcome = outcome(&parse(&[]).unwrap(), told);
        let figure =
            |name: &str| outcome.figures.iter().find(|figure| figure.name == name).unwrap().value;
        assert_eq!((figure("devices held"), figure("errors")), (9.0, 5.0));
        assert!(figure("RSS a connection").is_nan());
    }
}
