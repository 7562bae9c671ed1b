//! The laboratory's own cost: what a simulated client takes of the tester, beside tsung.
//!
//! Each tool in turn holds MQTT clients with a subscription at a mosquitto started for
//! it. Memory is a slope over counts, CPU is what the tool spent until all were there, a client.
//! The count is what the broker's process says (its open sockets), not what a tool claims.

pub mod chat;
pub mod im;
mod others;
mod pairs;
mod rate;
pub mod talk;

pub use others::{w11, w12, w13};
pub use pairs::{latency, sizes};
pub use rate::highest;

use crate::child::Child;
use crate::clock;
use crate::holdline;
use crate::measure::memory::Memory;
use crate::measure::{cpu, slope};
use crate::results::Outcome;
use crate::scenario::Scale;
use crate::swarm::peers::Kind;
use rustix::process::{Pid, Signal};
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Clients held, one run each. tsung's memory moves by steps, so that several are needed.
const COUNTS: [u32; 4] = [500, 2_000, 4_000, 8_000];
/// The longest wait until all are there.
const PATIENCE: Duration = Duration::from_secs(90);
/// Pause before memory is read: buffers of the beginning are given back.
const CALM: Duration = Duration::from_secs(3);

/// Bytes and CPU a simulated client.
pub fn clients(scale: Scale) -> io::Result<Outcome> {
    let counts: Vec<u32> = COUNTS.iter().map(|&count| scale.of(count)).collect();
    let tools: Vec<&str> = ["holdline", "tsung"].into_iter().filter(|it| is_here(it)).collect();
    let mut outcome = Outcome::new(json!({
        "clients": counts, "tools": tools, "broker": Kind::Mosquitto.version(),
        "each": "MQTT 3.1.1, one subscription, keep-alive 60 s",
    }));
    for tool in tools {
        let (mut memory, mut spent) = (Vec::new(), Vec::new());
        for &count in &counts {
            let (bytes, cpu_s) = hold(tool, count)?;
            memory.push((f64::from(count), bytes));
            spent.push((f64::from(count), cpu_s * 1e6));
        }
        let (bytes, micros) = (slope::through(&memory), slope::through(&spent));
        outcome.figure(&format!("{tool}: memory"), bytes.each, "bytes a client");
        outcome.figure(&format!("{tool}: memory, R²"), bytes.r2, "");
        outcome.figure(&format!("{tool}: CPU"), micros.each, "µs a client brought");
        outcome.detail(tool, json!({ "memory": memory, "cpu_us": spent }));
    }
    Ok(outcome)
}

fn is_here(tool: &str) -> bool {
    match tool {
        "holdline" => holdline::binary().is_ok(),
        _ => Command::new(tool).arg("-v").output().is_ok(),
    }
}

/// Bytes and CPU seconds of a tool that holds so many.
fn hold(tool: &str, count: u32) -> io::Result<(f64, f64)> {
    let broker = Kind::Mosquitto.start(false)?;
    let folder = tempfile::tempdir()?;
    let before = sockets(broker.pid())?;
    let mut child = start(tool, broker.address, count, folder.path())?;
    let began = clock::now();
    while sockets(broker.pid())? < before + count as usize {
        if !child.runs() || clock::since(began) > PATIENCE {
            let seen = sockets(broker.pid())? - before;
            return Err(io::Error::other(format!("{tool}: {seen} of {count} came")));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(CALM);
    let (mut bytes, mut spent) = (0, Duration::ZERO);
    let family = family(child.pid());
    for &pid in &family {
        bytes += Memory::of(pid)?.private_dirty;
        spent += cpu::used(pid)?;
    }
    child.end(Duration::from_secs(10));
    // tsung's virtual machine outlives the script that started it, and keeps its name.
    for pid in family.into_iter().filter_map(|pid| Pid::from_raw(pid as i32)) {
        // It may have ended meanwhile, which is what is wanted.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
    Ok((bytes as f64, spent.as_secs_f64()))
}

/// Files that a process has open: of a broker, its clients and a few more.
fn sockets(pid: u32) -> io::Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// A process and those it started.
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(&parent) = all.get(at) {
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let children = children.unwrap_or_default();
        all.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        at += 1;
    }
    all
}

fn start(tool: &str, to: SocketAddr, count: u32, folder: &Path) -> io::Result<Child> {
    let file = folder.join("plan");
    let mut command = if tool == "holdline" {
        std::fs::write(&file, plan(count))?;
        let mut command = Command::new(holdline::binary()?);
        command.args(["load", "run"]).arg(&file).arg(format!("mqtt://{to}"));
        command.arg("--quiet").arg("--out").arg(folder.join("runs"));
        command
    } else {
        std::fs::write(&file, sessions(to, count))?;
        let logs: PathBuf = folder.join("logs");
        let mut command = Command::new(tool);
        command.arg("-f").arg(&file).arg("-l").arg(logs).arg("start");
        command
    };
    // tsung keeps a folder at home, and erl its cookie.
    command.env("HOME", folder).current_dir(folder).stderr(std::process::Stdio::null());
    Child::start_quiet(&mut command)
}

/// The plan of `holdline load`.
fn plan(count: u32) -> String {
    format!(
        "name = \"hold\"\n\n[[group]]\nname = \"devices\"\nsubscribe = [\"lab/%i\"]\n\
         keep_alive = \"60s\"\n\n[[stage]]\nname = \"hold\"\nclients = {{ devices = {count} }}\n\
         arrive = {{ shape = \"rate\", per_s = 2000.0 }}\nhold = \"60s\"\n"
    )
}

/// The sessions of tsung.
fn sessions(to: SocketAddr, count: u32) -> String {
    let (host, port) = (to.ip(), to.port());
    let seconds = count.div_ceil(1_000) + 1;
    format!(
        "<?xml version=\"1.0\"?>\n\
         <!DOCTYPE tsung SYSTEM \"/usr/share/tsung/tsung-1.0.dtd\">\n\
         <tsung loglevel=\"warning\"><clients>\
         <client host=\"localhost\" use_controller_vm=\"true\" maxusers=\"30000\"/></clients>\
         <servers><server host=\"{host}\" port=\"{port}\" type=\"tcp\"/></servers>\
         <load><arrivalphase phase=\"1\" duration=\"{seconds}\" unit=\"second\">\
         <users maxnumber=\"{count}\" arrivalrate=\"1000\" unit=\"second\"/></arrivalphase></load>\
         <sessions><session name=\"hold\" probability=\"100\" type=\"ts_mqtt\">\
         <request><mqtt type=\"connect\" clean_start=\"true\" keepalive=\"60\"/></request>\
         <request><mqtt type=\"subscribe\" topic=\"lab/1\" qos=\"0\"/></request>\
         <request><mqtt type=\"waitForMessages\" timeout=\"60\"/></request>\
         </session></sessions></tsung>\n"
    )
}
