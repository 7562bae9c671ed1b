//! Every cause that can be provoked is provoked, and found under its name, in the right phase, as
//! often as the faulty server (the known truth) says it happened. Sums equal attempts throughout.
//!
//! Tests that need limits of their own run in children of the test: few descriptors in a process
//! with some to spare, few ports and forbidden routes in a network namespace of their own.
//!
//! Not provoked, because this machine as a whole would suffer or cannot be made to: `no_buffers`,
//! `no_system_files`, `no_watches` (their errnos are in `cause`'s own table), `internal`, and
//! `name_unknown`, which is told before anybody calls.

#[path = "causes/children.rs"]
mod children;
#[path = "causes/faults.rs"]
mod faults;
#[path = "causes/layers.rs"]
mod layers;
#[path = "causes/one_group.rs"]
mod one_group;
#[path = "causes/sessions.rs"]
mod sessions;

use lab::cause::{Cause, Phase};
use lab::order::Cut;
use one_group::{LONG, OneGroup, Want, until};
use std::sync::Arc;
use testkit::faulty::{ConnectionFate, FateStep, Faulty, FaultyAnswer, HeldPort};

#[test]
fn a_closed_port_refuses() {
    let port = HeldPort::closed();
    let seen = OneGroup::call(&format!("tcp://{}", port.address()), "", 7).ends(7);
    seen.are(&[(Phase::Connect, Cause::Refused, 7)]);
}

#[test]
fn a_full_queue_lets_calls_time_out() {
    let port = HeldPort::full(0);
    let rest = r#", "timeout": "2s""#;
    let seen = OneGroup::call(&format!("mqtt://{}", port.address()), rest, 6).ends(6);
    // The kernel takes one for a listener that never accepts: its CONNECT has no answer.
    let want: Want =
        &[(Phase::Connect, Cause::SynTimedOut, 5), (Phase::Bind, Cause::BindTimedOut, 1)];
    seen.are(want);
}

#[test]
fn no_way_and_no_sense_in_the_address() {
    // The address of all of a network cannot be called: the kernel says so before any packet.
    OneGroup::call("tcp://127.255.255.255:9", "", 3).ends(3).are(&[(
        Phase::Connect,
        Cause::NoRoute,
        3,
    )]);
    // An address of a link without the link.
    let seen = OneGroup::call("tcp://[fe80::1]:9", "", 3).ends(3);
    seen.are(&[(Phase::Connect, Cause::LocalError, 3)]);
    assert_eq!(seen.code("errno 22"), 3, "{seen:?}");
}

#[test]
fn a_name_without_address_is_told_before_anybody_calls() {
    // No part of a name is so long (RFC 1035 2.3.4): nobody has to be asked.
    let name = "x".repeat(64);
    let told =
        OneGroup::found(&format!("mqtt://{name}.invalid:1"), "").err().expect("nobody has it");
    assert!(told.contains(&name), "{told}");
}

#[test]
fn what_the_plan_wants_is_no_error() {
    let still: FaultyAnswer = Arc::new(|heard: &mut Vec<u8>| {
        heard.clear();
        Vec::new()
    });
    let server = Faulty::start(vec![ConnectionFate::new("served", [FateStep::Serve(still)])]);
    let mut generator = OneGroup::call(&format!("tcp://{}", server.address()), "", 10);
    generator.wait("all online", |seen| seen.online == 10);
    generator.arrive(8);
    generator.wait("two said farewell", |seen| seen.causes.sum() == 2);
    generator.cut(0.25, Cut::Close);
    generator.wait("two were cut", |seen| seen.causes.sum() == 4);
    generator.cut(0.5, Cut::Reset);
    generator.wait("three were reset", |seen| seen.causes.sum() == 7);
    let seen = generator.stop();
    seen.are(&[
        (Phase::Online, Cause::Farewell, 2),
        (Phase::Online, Cause::Cut, 5),
        (Phase::Online, Cause::RunOver, 3),
    ]);
    assert_eq!((seen.errors(), server.accepted_in_time(10, LONG)), (0, 10));
}

#[test]
fn a_server_that_does_not_read_is_a_slow_reader() {
    let server = Faulty::start(vec![sessions::online("held", [FateStep::Hold])]);
    let mut generator =
        OneGroup::call(&format!("mqtt://{}", server.address()), r#", "subscribe": ["t"]"#, 2);
    generator.wait("both online", |seen| seen.online == 2);
    // The tester keeps what a server does not take, up to its limit.
    generator
        .send(r#"{"what": "publish", "topic": "t", "bytes": 1000000, "pace": {"per_s": 200.0}}"#);
    let seen = generator.ends(2);
    seen.are(&[(Phase::Online, Cause::SlowReader, 2)]);
    assert_eq!(server.count("held"), 2);
}

#[test]
fn a_heartbeat_without_answer_is_lost() {
    let server = Faulty::start(vec![sessions::online("mute", [FateStep::Hold])]);
    let rest = r#", "keep_alive": "1s", "timeout": "100ms", "subscribe": ["t"]"#;
    let seen = OneGroup::call(&format!("mqtt://{}", server.address()), rest, 3).ends(3);
    seen.are(&[(Phase::Online, Cause::HeartbeatLost, 3)]);
    assert!(until(|| server.count("mute") == 3));
}
