//! The laboratory's four stages, against Holdline by MIOP and by MQTT and against mosquitto.
//!
//! `bench stages [--clients N] [--only STAGE|TARGET ...] [--redis none]` starts each server afresh
//! on loopback, runs `holdline load` against it as anyone would, and keeps the summary, and the run
//! without its series and distributions, in `bench/results/lab`. The findings of a stage are its
//! result: nothing is judged here.
//!
//! In the stage `exception` Holdline has a Redis beside it as its directory of who is online, which
//! the stage breaks, unless `--redis none` says otherwise. A server that a stage killed and started
//! again is ended by its folder's name in its command.

mod redis;

use crate::clock;
use crate::holdline::{self, clean};
use crate::results;
use crate::swarm::peers::Kind;
use redis::Redis;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// The servers.
const TARGETS: [&str; 3] = ["holdline-miop", "holdline-mqtt", "mosquitto"];
/// The stages.
const STAGES: [&str; 4] = ["link-limit", "stability", "ladder", "exception"];
/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);
/// Clients of the ladder's highest rung.
const LADDER_TOP: f64 = 1_000_000.0;
/// Token of the API, for this one run on loopback.
const TOKEN: &str = "measurement-token-of-loopback";

/// One stage against one server.
#[derive(Clone, Copy)]
struct Wanted {
    target: &'static str,
    stage: &'static str,
    clients: u32,
    /// Whether the server has a Redis where that makes a difference.
    redis: bool,
}

/// Where the server is, and what is beside it.
struct ServerUnderTest {
    port: u16,
    api: u16,
    redis: Option<Redis>,
}

/// Runs what is asked for.
pub fn run(words: &[String]) -> io::Result<()> {
    let (mut clients, mut only, mut redis) = (15_000_u32, Vec::new(), true);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| io::Error::other(format!("{word}: of what?")))?;
        match (word.as_str(), value.as_str()) {
            ("--clients", value) => {
                clients = value.parse().map_err(|_| io::Error::other("--clients: a number"))?;
            }
            ("--only", value) => only.push(value.to_owned()),
            ("--redis", "none") => redis = false,
            ("--redis", "real") => redis = true,
            ("--redis", _) => return Err(io::Error::other("--redis: `none` or `real`")),
            _ => return Err(io::Error::other(format!("no such option: {word}"))),
        }
    }
    let wanted = |name: &str, among: &[&str]| {
        let named: Vec<_> = only.iter().filter(|it| among.contains(&it.as_str())).collect();
        named.is_empty() || named.iter().any(|it| *it == name)
    };
    for target in TARGETS.into_iter().filter(|it| wanted(it, &TARGETS)) {
        for stage in STAGES.into_iter().filter(|it| wanted(it, &STAGES)) {
            println!("{stage} {target} ...");
            match one(Wanted { target, stage, clients, redis }) {
                Ok(file) => println!("  stored in {}", file.display()),
                Err(error) => eprintln!("  {error}"),
            }
        }
    }
    Ok(())
}

/// Runs one stage against one server, and keeps what came out.
fn one(wanted: Wanted) -> io::Result<PathBuf> {
    let folder = tempfile::tempdir()?;
    let has_redis = wanted.redis && wanted.stage == "exception" && wanted.target != "mosquitto";
    let redis = has_redis.then(|| Redis::start(folder.path())).transpose()?;
    let under_test = ServerUnderTest { port: free_port()?, api: free_port()?, redis };
    let server = server(wanted, &under_test, folder.path())?;
    let words: Vec<&str> = server.iter().map(String::as_str).collect();
    let log = || std::fs::File::create(folder.path().join("log"));
    let mut child = clean(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(log()?)
        .stderr(log()?)
        .spawn()?;
    let done = listens(under_test.port).and_then(|()| {
        let out = folder.path().join("runs");
        load(wanted, &under_test, (&server, child.id()), &out)
    });
    let _ = child.kill(); // an error says that a stage has ended it
    let _ = child.wait();
    end_all(folder.path());
    done?;
    keep(wanted, under_test.redis.as_ref(), &folder.path().join("runs"))
}

/// The command that starts a server.
fn server(wanted: Wanted, under_test: &ServerUnderTest, folder: &Path) -> io::Result<Vec<String>> {
    let file = folder.join("server.conf");
    let path = |path: &Path| path.display().to_string();
    let port = under_test.port;
    if wanted.target == "mosquitto" {
        let program = Kind::Mosquitto.program();
        let program = program.ok_or_else(|| io::Error::other("mosquitto is not installed"))?;
        let text = format!(
            "listener {port} 127.0.0.1\nallow_anonymous true\nlog_type none\npersistence false\n\
             set_tcp_nodelay true\n"
        );
        std::fs::write(&file, text)?;
        return Ok(vec![path(&program), "-c".to_owned(), path(&file)]);
    }
    let protocol = if wanted.target == "holdline-mqtt" { "mqtt" } else { "miop" };
    let directory = under_test.redis.as_ref().map_or_else(String::new, |redis| {
        format!("\n[presence]\ndirectory = \"redis://127.0.0.1:{}\"\n", redis.port)
    });
    let text = format!(
        "[server]\nlog = \"warn\"\n\n[listen.it]\naddress = \"127.0.0.1:{port}\"\n\
         protocol = \"{protocol}\"\n\n[api]\naddress = \"127.0.0.1:{}\"\n\
         token = \"{TOKEN}\"\n\n[limits]\n\
         connections_max = {}\nbinds_per_s = 1000000\n\n[products.demo]\napp_id = 1\n\
         anonymous = \"loopback\"\nheartbeat_min_s = 5\n{directory}",
        under_test.api,
        wanted.clients + 2_000
    );
    std::fs::write(&file, text)?;
    let data = path(&folder.join("data"));
    let words = ["serve", "--config", &path(&file), "--data", &data].map(str::to_owned);
    Ok([vec![path(&holdline::binary()?)], words.into()].concat())
}

/// A port of loopback that nobody listens on.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Waits until somebody listens there.
fn listens(port: u16) -> io::Result<()> {
    let began = clock::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if clock::since(began) > PATIENCE {
            return Err(io::Error::other("the server did not listen in time"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Runs the stage.
fn load(
    wanted: Wanted,
    under_test: &ServerUnderTest,
    (server, pid): (&[String], u32),
    out: &Path,
) -> io::Result<()> {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, under_test.port));
    let url = match wanted.target {
        "holdline-miop" => format!("miop://stage:demo@{at}/"),
        _ => format!("mqtt://{at}"),
    };
    let mut command = clean(holdline::binary()?);
    command.args(["load", wanted.stage, &url, "--pid", &pid.to_string(), "--quiet"]);
    command.arg("--out").arg(out);
    let clients = wanted.clients;
    let count = clients.to_string();
    match wanted.stage {
        "link-limit" => {
            command.args(["--clients", &count]).arg("--step").arg((clients / 5).to_string())
        }
        "stability" => command.args(["--clients", &count, "--hold", "60s"]),
        "ladder" => {
            let scale = (f64::from(clients) / LADDER_TOP).to_string();
            command.args(["--hold", "5s", "--scale", &scale])
        }
        _ => command.args(["--clients", &count, "--start", &server.join(" ")]),
    };
    if let Some(redis) = &under_test.redis {
        listens(under_test.api)?;
        let api = format!("http://127.0.0.1:{}", under_test.api);
        let address = format!("127.0.0.1:{}", redis.port);
        command.args(["--api", &api, "--token", TOKEN, "--metrics", &format!("{api}/metrics")]);
        command.args(["--redis", &address, "--redis-pid", &redis.pid().to_string()]);
        command.args(["--redis-start", &redis.start]);
    }
    match command.stdout(Stdio::null()).status()?.code() {
        Some(2) | None => Err(io::Error::other("nothing was run")),
        Some(code) => {
            println!("  exit code {code}");
            Ok(())
        }
    }
}

/// Whole distributions are most of a run's bytes; the summary has what is said of them.
fn without_timings(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("timings");
            fields.values_mut().for_each(without_timings);
        }
        Value::Array(values) => values.iter_mut().for_each(without_timings),
        _ => {}
    }
}

/// Ends what was started with this folder in its command: a server that was started again.
fn end_all(folder: &Path) {
    let folder = folder.display().to_string();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_string_lossy().parse::<i32>().ok();
        let Some(pid) = pid.and_then(Pid::from_raw) else { continue };
        let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if command.contains(&folder) {
            // It may have ended meanwhile, which is what is wanted.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// Shortens a run for a stored result: all but its series and distributions stay.
pub fn shorten(run: &mut Value) {
    if let Some(run) = run.as_object_mut() {
        run.remove("series");
    }
    without_timings(run);
}

/// The one run in a folder of runs, and its summary.
pub fn made(runs: &Path) -> io::Result<(Value, String)> {
    let made = std::fs::read_dir(runs)?.flatten().next();
    let made = made.ok_or_else(|| io::Error::other("no run was written"))?.path();
    let run = serde_json::from_str(&std::fs::read_to_string(made.join("run.json"))?)?;
    let summary = clean(holdline::binary()?).args(["load", "report"]).arg(&made).output()?;
    Ok((run, String::from_utf8_lossy(&summary.stdout).into_owned()))
}

/// Keeps the summary and the run without its series, and what was beside the server.
fn keep(wanted: Wanted, redis: Option<&Redis>, runs: &Path) -> io::Result<PathBuf> {
    let (mut run, mut summary) = made(runs)?;
    shorten(&mut run);
    if let Some(redis) = redis {
        let text = format!("the server's directory of who is online: {}", redis.words);
        summary = format!("{summary}\n{text}\n");
        if let Some(notes) = run.get_mut("notes").and_then(Value::as_array_mut) {
            notes.insert(0, json!({ "at_ms": 0, "text": text }));
        }
    }
    let folder = results::folder().join("lab");
    std::fs::create_dir_all(&folder)?;
    let date = base::calendar::date(clock::unix_s());
    let name = format!("{date}-{}-{}", wanted.stage, wanted.target);
    std::fs::write(folder.join(format!("{name}.json")), serde_json::to_string(&run)?)?;
    let file = folder.join(format!("{name}.txt"));
    std::fs::write(&file, summary)?;
    Ok(file)
}
