//! A whole run for real: this process's clients against a mosquitto on loopback, and what its file
//! says of it. Skipped, and said so, where there is no mosquitto.

use super::*;
use crate::run::{Nobody, folder};
use crate::scenario::{self, Asked, Scenario};
use lab::cause::{Cause, Phase};
use lab::plan::Target;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

#[test]
fn a_url_leads_through_the_proxy_with_all_else_as_it_was() {
    let proxy = "127.0.0.1:9".parse().expect("an address");
    for (url, led) in [
        ("mqtt://10.0.0.1:1883", "mqtt://127.0.0.1:9"),
        ("miop://dev:pk@[::1]:7/?v=6", "miop://dev:pk@127.0.0.1:9/?v=6"),
        ("ws://me@h:80/mqtt", "ws://me@127.0.0.1:9/mqtt"),
    ] {
        assert_eq!(through(url, proxy), led);
    }
}

/// A mosquitto that ends with the test.
struct Mosquitto {
    child: Child,
    port: u16,
}

impl Mosquitto {
    fn start() -> Option<Mosquitto> {
        let program = ["/usr/sbin/mosquitto", "/usr/bin/mosquitto"]
            .into_iter()
            .find(|path| std::path::Path::new(path).is_file())?;
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let child = Command::new(program)
            .args(["-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it can be run");
        let mosquitto = Mosquitto { child, port };
        for _ in 0..2_000 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(mosquitto);
            }
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        panic!("mosquitto does not listen");
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a plan against a mosquitto of its own.
fn run(name: &str, text: &str, change: impl FnOnce(&mut Asked)) -> Option<Run> {
    let Some(mosquitto) = Mosquitto::start() else {
        eprintln!("skipped: there is no mosquitto here");
        return None;
    };
    let url = vec![format!("mqtt://127.0.0.1:{}", mosquitto.port)];
    let pid = Some(mosquitto.child.id());
    let target = Target { url, pid, ..Target::default() };
    let mut asked = Asked { target, seed: Some(7), ..Asked::default() };
    change(&mut asked);
    let ready = scenario::ready(name, text, &asked, true).expect("it can be run");
    let mut generator = crate::local::LocalGenerator::new(7);
    let setting = RunSetting { command: "a test".to_owned(), seed: 7, ..RunSetting::default() };
    let run = whole(&ready, setting, &mut generator, &mut Nobody).expect("it was run");
    Some(run)
}

fn explain(run: &Run) -> String {
    let checks = run.stages.iter().flat_map(|stage| {
        stage
            .checks
            .iter()
            .map(|check| format!("{}: {} ({})", stage.name, check.rule, check.shown()))
    });
    let notes = run.notes.iter().map(|note| format!("{} ms: {}", note.at_ms, note.text));
    let causes = run.total.causes.iter().map(|cause| format!("{cause:?}"));
    let figures = run.total.figures.iter().map(|figure| format!("{figure:?}"));
    checks.chain(notes).chain(causes).chain(figures).collect::<Vec<_>>().join("\n")
}

#[test]
fn steps_against_mosquitto_stand_and_the_file_says_what_happened() {
    let scenario = Scenario::named("link-limit").expect("it comes along");
    let made = run("link-limit", scenario.text, |asked| {
        (asked.step, asked.clients) = (Some(60), Some(150));
        asked.sets = vec!["stage.*.hold=1s".to_owned()];
    });
    let Some(run) = made else { return };
    let sizes: Vec<_> = run.stages.iter().map(|stage| stage.clients).collect();
    assert_eq!(sizes, [60, 120, 150], "{}", explain(&run));
    assert!(run.finished, "{}", explain(&run));
    for stage in &run.stages {
        assert!(stage.checks.iter().all(|check| check.held == Some(true)), "{}", explain(&run));
    }
    assert_eq!((run.total.attempts, run.total.online), (150, 150));
    assert_eq!(run.total.causes.errors(), 0);
    assert!(run.total.accounts.iter().all(lab::run::Balance::agrees), "{:?}", run.total.accounts);
    assert_eq!(run.series.values("clients.online").last(), Some(&Some(150.0)));
    let rss = run.series.values("target.process.rss").iter().flatten().next();
    assert!(rss.is_some_and(|bytes| *bytes > 1e6), "mosquitto was observed: {rss:?}");
    assert!(!run.series.values("tester.cpu.busy").is_empty());
    assert!(run.doctor.iter().any(|(whose, _)| whose == "tester"));
    let left = run.notes.iter().any(|note| note.text.contains("bytes_per_connection.r2"));
    assert!(left, "what was left out is said");
    let out = tempfile::tempdir().expect("a folder");
    let kept = folder::write(&run, out.path()).expect("written");
    let back = folder::read(&kept).expect("its own");
    assert_eq!((back.total.attempts, back.stages.len()), (150, 3));
    assert!(back.plan.contains("step-03"), "the plan that was run is in it");
}

const TROUBLE: &str = r#"
name = "trouble"
[[group]]
name = "devices"
back_after = "100ms"
back_max = "200ms"
[[group]]
name = "crossers"
proxied = true
back_after = "100ms"
back_max = "200ms"
[[stage]]
name = "herd"
clients = { devices = 40 }
hold = "1500ms"
[[stage.fault]]
at = "100ms"
what = { cut = { share = 1.0, how = "reset" } }
[[stage]]
name = "network"
clients = { crossers = 20 }
hold = "2s"
[[stage.fault]]
at = "100ms"
for = "200ms"
what = { network = { how = "reset" } }
[[stage]]
name = "paused"
hold = "1s"
[[stage.fault]]
at = "100ms"
for = "300ms"
what = "target_paused"
[[stage]]
name = "redis"
[[stage.fault]]
what = "redis_flushed"
"#;

#[test]
fn faults_against_mosquitto_are_counted_under_their_names() {
    let Some(run) = run("trouble", TROUBLE, |_| {}) else { return };
    let [herd, network, paused] = &run.stages[..] else { panic!("{}", explain(&run)) };
    assert_eq!(herd.counts.causes.all_of(Cause::Cut), 40, "{}", explain(&run));
    assert_eq!((herd.counts.attempts, herd.counts.online), (80, 40), "{}", explain(&run));
    // Those that came back too early were reset again, before they were bound.
    let planned = network.counts.causes.of(Phase::Online, Cause::PlannedFault);
    assert_eq!(planned, 20, "{}", explain(&run));
    assert_eq!(network.counts.online, 60, "{}", explain(&run));
    assert_eq!(paused.counts.causes.errors(), 0, "{}", explain(&run));
    let noted = |text: &str| run.notes.iter().any(|note| note.text.contains(text));
    assert!(noted("was paused") && noted("continues") && noted("network: "), "{}", explain(&run));
    assert_eq!(run.skipped.len(), 1);
    assert!(run.skipped[0].0 == "redis" && run.skipped[0].1.contains("--redis"));
    assert!(run.total.accounts.iter().all(lab::run::Balance::agrees), "{:?}", run.total.accounts);
}
