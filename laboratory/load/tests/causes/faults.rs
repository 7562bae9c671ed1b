//! Faults of the network on a real load generator: what the proxy did is what the clients report.

use crate::one_group::{LONG, OneGroup};
use lab::cause::{Cause, Phase};
use lab::plan::{FaultKind, Network, Target};
use load::fault::FaultRunner;
use load::proxy::{Proxy, ProxyCounts};
use std::sync::Arc;
use testkit::faulty::{ConnectionFate, FateStep, Faulty, FaultyAnswer};

const CLIENTS: u64 = 40;

/// An MQTT server of few words behind a proxy.
fn server() -> (Faulty, FaultRunner, String) {
    let still: FaultyAnswer = Arc::new(|heard: &mut Vec<u8>| {
        heard.clear();
        Vec::new()
    });
    let connack = FateStep::Say(vec![0x20, 2, 0, 0]);
    let server = Faulty::start(vec![ConnectionFate::new(
        "well",
        [FateStep::Hear, connack, FateStep::Serve(still)],
    )]);
    let any = ([127, 0, 0, 1], 0).into();
    let proxy = Proxy::start(any, vec![server.address()]).expect("a free port");
    let url = format!("mqtt://{}", proxy.address());
    (server, FaultRunner::new(&Target::default(), Some(proxy)), url)
}

fn counts(faults: &FaultRunner) -> ProxyCounts {
    faults.proxy().expect("there is one").counts().expect("its thread turns")
}

fn network(how: Network, share: f64) -> FaultKind {
    FaultKind::Network { how, share }
}

#[test]
fn resets_are_counted_alike_at_both_ends_and_all_come_back() {
    let (server, mut faults, url) = server();
    let mut generator = OneGroup::call(&url, r#", "back_after": "1ms""#, CLIENTS as u32);
    generator.wait("all online", |seen| seen.online == CLIENTS);
    let (standing, _) = faults.begin(&network(Network::Reset, 0.3)).expect("there is a proxy");
    faults.end(standing).expect("its thread turns");
    let reset = counts(&faults).reset;
    assert!(reset >= 11, "{reset} of {CLIENTS}");
    let back = |seen: &lab::run::Counts| seen.figure("reconnects") == reset as f64;
    generator.wait("all back", |seen| seen.online == CLIENTS && back(seen));
    let seen = generator.stop();
    // Who came back while the fault still stood was reset again, before it was bound or after.
    assert_eq!(seen.0.causes.all_of(Cause::Reset), reset, "{seen:?}");
    assert_eq!(seen.0.causes.of(Phase::Online, Cause::RunOver), CLIENTS);
    assert!(server.accepted_in_time(CLIENTS + 1, LONG) > CLIENTS);
}

#[test]
fn newcomers_are_refused_and_what_is_cut_is_missed() {
    let (server, mut faults, url) = server();
    let rest = r#", "timeout": "1s", "beats": false"#;
    let mut generator = OneGroup::call(&url, rest, 10);
    generator.wait("all online", |seen| seen.online == 10);
    let (refusing, _) = faults.begin(&network(Network::Refuse, 1.0)).expect("there is a proxy");
    generator.arrive(15);
    generator.wait("five refused", |seen| seen.causes.sum() == 5);
    faults.end(refusing).expect("its thread turns");
    let (silent, _) = faults.begin(&network(Network::Silence, 1.0)).expect("there is a proxy");
    generator.arrive(18);
    // The kernel completes their calls; nothing that they say arrives.
    generator.wait("three without an answer", |seen| seen.causes.sum() == 8);
    faults.end(silent).expect("its thread turns");
    generator.stop().are(&[
        (Phase::Connect, Cause::Refused, 5),
        (Phase::Bind, Cause::BindTimedOut, 3),
        (Phase::Online, Cause::RunOver, 10),
    ]);
    assert!(server.accepted_in_time(10, LONG) >= 10);
}
