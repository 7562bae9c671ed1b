//! Tests that need limits of their own: this test's program again, with fewer descriptors or in a
//! network namespace, where it runs one test that the environment names.

use crate::one_group::{LONG, OneGroup};
use lab::cause::{Cause, Phase};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fs::File;
use std::process::{Command, Output};
use testkit::faulty::{ConnectionFate, FateStep, Faulty, FaultyAnswer};

/// Tells a child what it is for.
const PART: &str = "LOAD_CAUSES_PART";

fn still() -> FaultyAnswer {
    std::sync::Arc::new(|heard: &mut Vec<u8>| {
        heard.clear();
        Vec::new()
    })
}

/// Runs a test of this program in a child, called by these words.
fn run(words: &[&str], test: &str, part: &str) -> Output {
    let this = std::env::current_exe().expect("a test has a file");
    let mut command = match words.split_first() {
        Some((program, words)) => {
            let mut command = Command::new(program);
            command.args(words).arg(this);
            command
        }
        None => Command::new(this),
    };
    command.args(["--exact", test, "--nocapture"]).env(PART, part);
    command.output().expect("a test can be run")
}

fn passed(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && all.contains("1 passed"), "{all}");
}

#[test]
fn descriptors_run_out() {
    let server = Faulty::start(vec![ConnectionFate::new("served", [FateStep::Serve(still())])]);
    passed(&run(&[], "children::a_child_with_few_descriptors", &server.address().to_string()));
    assert_eq!(server.accepted_in_time(60, LONG), 60);
}

#[test]
fn a_child_with_few_descriptors() {
    let Ok(address) = std::env::var(PART) else { return };
    let limit = Some(400);
    setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).expect("it is lower");
    let mut generator = OneGroup::found(&format!("tcp://{address}"), "").expect("a good group");
    // All are taken, and sixty given back.
    let mut taken: Vec<File> = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    taken.truncate(taken.len() - 60);
    generator.arrive(100);
    generator.wait("all have called", |seen| seen.online == 60 && seen.causes.sum() == 40);
    generator
        .stop()
        .are(&[(Phase::Connect, Cause::NoDescriptors, 40), (Phase::Online, Cause::RunOver, 60)]);
}

#[test]
fn ports_run_out_and_routes_forbid() {
    let alone = |flags: &str| {
        let done = Command::new("unshare").args([flags, "true"]).status();
        done.is_ok_and(|status| status.success())
    };
    // As root, or as the root of a namespace of users of our own.
    let Some(flags) = ["-n", "-rn"].into_iter().find(|flags| alone(flags)) else {
        return eprintln!("no network namespace can be made here: not tested");
    };
    let set = "ip link set lo up && echo 40000 40009 > /proc/sys/net/ipv4/ip_local_port_range && \
               ip route add prohibit 10.9.9.1/32 && ip route add unreachable 10.9.9.2/32 && \
               exec \"$@\"";
    let words = ["unshare", flags, "sh", "-c", set, "sh"];
    passed(&run(&words, "children::a_child_with_few_ports", "ports"));
}

#[test]
fn a_child_with_few_ports() {
    if std::env::var(PART).is_err() {
        return;
    }
    let fate = vec![ConnectionFate::new("served", [FateStep::Serve(still())])];
    let server = Faulty::at(([127, 0, 0, 1], 1_000).into(), fate.clone());
    let url = format!("tcp://{}", server.address());
    let source = r#", "sources": ["127.0.0.5"]"#;
    let mut generator = OneGroup::call(&url, source, 15);
    generator.wait("all have called", |seen| seen.online == 10 && seen.causes.sum() == 5);
    assert_eq!(server.accepted_in_time(10, LONG), 10);
    // The ports of another address of the target, and of the source, are others, though all are
    // taken: binding a source takes none.
    let second = Faulty::at(([127, 0, 0, 2], 1_000).into(), fate);
    let mut other = OneGroup::call(&format!("tcp://{}", second.address()), source, 10);
    other.wait("all online", |seen| seen.online == 10);
    let sources = r#", "sources": ["127.0.0.6-127.0.0.7"]"#;
    let mut more = OneGroup::call(&url, sources, 20);
    more.wait("all online", |seen| seen.online == 20);
    let ends: &[_] = &[(Phase::Connect, Cause::NoPorts, 5), (Phase::Online, Cause::RunOver, 10)];
    generator.stop().are(ends);
    for (address, cause) in [("10.9.9.1", Cause::Forbidden), ("10.9.9.2", Cause::NoRoute)] {
        let seen = OneGroup::call(&format!("tcp://{address}:9"), "", 4).ends(4);
        seen.are(&[(Phase::Connect, cause, 4)]);
    }
}
