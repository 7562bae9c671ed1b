//! Faults on children of this test, and on nobody else.

use super::*;
use lab::plan::Network;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::faulty::{ConnectionFate, FateStep, Faulty, FaultyAnswer, HeldPort};

/// Longest wait for what must happen.
const PATIENCE: u32 = 2_000;

/// A child that does nothing for long. It ends with the test.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Sleeper {
        let child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn();
        Sleeper(child.expect("sleep can be run"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn becomes(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..PATIENCE {
        if holds() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    panic!("never: {what}");
}

fn is_stopped(pid: u32) -> bool {
    state_of(pid) == Some('T')
}

fn of_target(pid: u32) -> Target {
    Target { pid: Some(pid), ..Target::default() }
}

#[test]
fn a_paused_process_goes_on_however_the_fault_ends() {
    let child = Sleeper::new();
    let mut faults = FaultRunner::new(&of_target(child.pid()), None);
    let (standing, words) = faults.begin(&FaultKind::TargetPaused).expect("it is ours");
    assert!(words.contains(&child.pid().to_string()), "{words}");
    becomes("stopped", || is_stopped(child.pid()));
    assert!(faults.end(standing).expect("it lives").contains("continues"));
    becomes("going on", || state_of(child.pid()) == Some('S'));
    assert_eq!(faults.end(standing), Ok(String::new()), "once");
    faults.begin(&FaultKind::TargetPaused).expect("it is ours");
    becomes("stopped", || is_stopped(child.pid()));
    drop(faults);
    becomes("going on", || state_of(child.pid()) == Some('S'));
}

/// Stands for a tester: pauses the process of that number and waits to be killed.
#[test]
fn a_tester_that_is_killed() {
    let Ok(pid) = std::env::var("FAULT_TEST_PID") else { return };
    let mut faults = FaultRunner::new(&of_target(pid.parse().expect("a number")), None);
    faults.begin(&FaultKind::TargetPaused).expect("it is the test's");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_paused_process_goes_on_when_its_tester_is_killed() {
    let child = Sleeper::new();
    let this = std::env::current_exe().expect("a test has a file");
    let mut tester = Command::new(this)
        .args(["a_tester_that_is_killed", "--nocapture"])
        .env("FAULT_TEST_PID", child.pid().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a test can be run");
    becomes("stopped", || is_stopped(child.pid()));
    tester.kill().expect("it is our child");
    tester.wait().expect("it was killed");
    becomes("going on", || state_of(child.pid()) == Some('S'));
}

#[test]
fn a_killed_process_is_started_again() {
    let mut child = Sleeper::new();
    let start = ["sleep", "601"].map(str::to_owned).to_vec();
    let mut faults = FaultRunner::new(&Target { start, ..of_target(child.pid()) }, None);
    let (standing, _) = faults.begin(&FaultKind::TargetKilled).expect("it is ours");
    assert!(child.0.wait().is_ok_and(|status| !status.success()));
    assert_eq!(faults.target_pid(), None);
    assert!(faults.begin(&FaultKind::TargetPaused).is_err(), "there is nobody");
    faults.end(standing).expect("sleep can be run");
    let second = faults.target_pid().expect("it was started");
    // What was started from here can be killed, and is waited for.
    let (standing, _) = faults.begin(&FaultKind::TargetKilled).expect("it is ours");
    assert_eq!(state_of(second), None, "nothing is left of it");
    faults.end(standing).expect("sleep can be run");
    let third = faults.target_pid().expect("it was started");
    let _end = Sleeper(faults.target.child.take().expect("a child"));
    assert_eq!(state_of(third), Some('S'));
}

#[test]
fn what_cannot_be_started_is_told_before_or_after() {
    let child = Sleeper::new();
    let mut faults = FaultRunner::new(&of_target(child.pid()), None);
    let error = faults.begin(&FaultKind::TargetKilled).expect_err("there is no command");
    assert!(error.contains("target.start"), "{error}");
    becomes("at rest, for nothing was done", || state_of(child.pid()) == Some('S'));
    assert!(process::start(&["false".to_owned()]).is_err_and(|e| e.contains("ended immediately")));
    assert!(process::start(&["/no/such/file".to_owned()]).is_err());
}

#[test]
fn descriptors_are_starved_and_given_back() {
    let child = Sleeper::new();
    let mut faults = FaultRunner::new(&of_target(child.pid()), None);
    let limits = || {
        let text = std::fs::read_to_string(format!("/proc/{}/limits", child.pid()));
        process::nofile_in(&text.expect("it lives")).expect("a line of it")
    };
    let before = limits();
    let held = Held::of(child.pid(), "child").expect("it lives");
    becomes("at rest", || state_of(child.pid()) == Some('S'));
    let open = held.descriptors().expect("it is ours");
    let (standing, _) = faults.begin(&FaultKind::DescriptorsStarved { spare: 3 }).expect("ours");
    let free = (0..limits().current.expect("a limit")).filter(|n| !open.contains(n)).count();
    assert_eq!(free, 3);
    faults.end(standing).expect("it lives");
    assert_eq!(limits(), before);
}

#[test]
fn limits_are_read_and_computed() {
    let text = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024        \
                unlimited            files\n";
    let limit = Rlimit { current: Some(1_024), maximum: None };
    assert_eq!(process::nofile_in(text), Some(limit));
    assert_eq!(process::nofile_in("nothing"), None);
    let open = [0, 1, 2, 5].into();
    assert_eq!([0, 1, 2, 3].map(|spare| process::limit_for(&open, spare)), [0, 4, 5, 7]);
}

#[test]
fn redis_forgets_or_its_answer_is_told() {
    let said = |heard: &mut Vec<u8>, answer: &[u8]| match heard.as_slice() {
        redis if redis == b"*1\r\n$8\r\nFLUSHALL\r\n" => answer.to_vec(),
        _ => b"-ERR unknown command\r\n".to_vec(),
    };
    let well: FaultyAnswer = std::sync::Arc::new(move |heard| said(heard, b"+OK\r\n"));
    let no: FaultyAnswer = std::sync::Arc::new(move |heard| said(heard, b"-NOAUTH needed\r\n"));
    let server = Faulty::start(vec![
        ConnectionFate::new("well", [FateStep::Reply(well), FateStep::Close]),
        ConnectionFate::new("no", [FateStep::Reply(no), FateStep::Close]),
        ConnectionFate::new("gone", [FateStep::Hear, FateStep::Close]),
    ]);
    let redis = Some(server.address().to_string());
    let mut faults = FaultRunner::new(&Target { redis, ..Target::default() }, None);
    let (standing, _) = faults.begin(&FaultKind::RedisFlushed).expect("it says OK");
    assert_eq!(faults.end(standing), Ok(String::new()));
    for word in ["NOAUTH", "answered ``"] {
        let error = faults.begin(&FaultKind::RedisFlushed).expect_err("it does not say OK");
        assert!(error.contains(word), "{error}");
    }
    let port = HeldPort::closed();
    assert!(redis::flush(&port.address().to_string()).is_err());
}

/// A real Redis on a free port with nothing on disk; `None`, and said so, where there is none.
fn real_redis() -> Option<(Sleeper, Target)> {
    let program = "/usr/bin/redis-server";
    if !std::path::Path::new(program).is_file() {
        eprintln!("skipped: there is no {program}");
        return None;
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("bound").port().to_string();
    drop(free);
    let words = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir", "/"];
    let child = Command::new(program).args(words).stdout(Stdio::null()).spawn();
    let redis = Sleeper(child.expect("it can be run"));
    let target = Target {
        redis: Some(format!("127.0.0.1:{port}")),
        redis_pid: Some(redis.pid()),
        redis_start: [&[program], &words[..]].concat().iter().map(|word| (*word).into()).collect(),
        ..Target::default()
    };
    becomes("answering", || asked(&target, "PING").as_deref() == Some("+PONG"));
    Some((redis, target))
}

/// The first line of Redis' answer; `None`: nobody is there, or says anything for a while.
fn asked(target: &Target, words: &str) -> Option<String> {
    use std::io::{BufRead, BufReader, Write};
    let address = target.redis.as_ref().expect("it has one");
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
    stream.write_all(format!("{words}\r\n").as_bytes()).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    (!line.is_empty()).then(|| line.trim_end().to_owned())
}

#[test]
fn a_real_redis_is_paused_flushed_killed_and_comes_back_empty() {
    let Some((_redis, target)) = real_redis() else { return };
    let value = || asked(&target, "EXISTS it");
    let set = || assert_eq!(asked(&target, "SET it 1").as_deref(), Some("+OK"));
    let mut faults = FaultRunner::new(&target, None);
    set();
    let (standing, _) = faults.begin(&FaultKind::RedisPaused).expect("it is ours");
    assert_eq!(value(), None, "it stands still");
    faults.end(standing).expect("it lives");
    assert_eq!(value().as_deref(), Some(":1"), "and had it all the time");
    faults.begin(&FaultKind::RedisFlushed).expect("it says OK");
    assert_eq!(value().as_deref(), Some(":0"));
    set();
    let (standing, _) = faults.begin(&FaultKind::RedisKilled).expect("it is ours");
    assert_eq!(value(), None, "nobody is there");
    assert!(faults.begin(&FaultKind::RedisFlushed).is_err(), "nor to be told");
    faults.end(standing).expect("it can be started");
    let _end = Sleeper(faults.redis.child.take().expect("a child"));
    becomes("answering", || value().as_deref() == Some(":0"));
}

#[test]
fn the_network_is_broken_and_mended() {
    let server = Faulty::start(vec![ConnectionFate::new("held", [FateStep::Hold])]);
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let proxy = Proxy::start(any, vec![server.address()]).expect("a free port");
    let address = proxy.address();
    let mut faults = FaultRunner::new(&Target::default(), Some(proxy));
    let refuse = FaultKind::Network { how: Network::Refuse, share: 1.0 };
    let (standing, _) = faults.begin(&refuse).expect("there is a proxy");
    assert!(std::net::TcpStream::connect(address).is_err());
    faults.end(standing).expect("its thread turns");
    assert!(std::net::TcpStream::connect(address).is_ok());
    let none = FaultRunner::new(&Target::default(), None);
    assert!(none.check(&refuse).is_err_and(|words| words.contains("proxy")));
}

#[test]
fn nobody_is_touched_whom_the_plan_does_not_name() {
    for pid in [0, 1, std::process::id(), u32::MAX] {
        let mut faults = FaultRunner::new(&of_target(pid), None);
        assert!(faults.begin(&FaultKind::TargetPaused).is_err(), "{pid}");
    }
    let faults = FaultRunner::new(&Target::default(), None);
    let flap = FaultKind::Flap { share_per_s: 0.1 };
    for what in [FaultKind::TargetPaused, FaultKind::RedisKilled, FaultKind::RedisFlushed, flap] {
        assert!(faults.check(&what).is_err(), "{what:?}");
    }
}
