//! Coordinator and agents over real connections on loopback, with load generators that only
//! pretend.
//!
//! The tests show that all agents together do and count what one load generator would, that clocks
//! are compared rightly, that the loss of an agent is noticed, and that strangers get nowhere.

#[path = "agents/fake.rs"]
mod fake;
#[path = "agents/relay.rs"]
mod relay;

use fake::{Fake, agent, agent_with};
use lab::cause::{Cause, Phase};
use lab::generator::{LoadGenerator, Look};
use lab::order::Order;
use lab::plan::{Arrival, Group};
use lab::timing::Timing;
use load::agent::{AgentListener, Remote};
use relay::{Relay, start};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

const TOKEN: &str = "a token";

fn connect(addrs: &[SocketAddr], token: &str) -> Result<Remote, String> {
    let addrs: Vec<String> = addrs.iter().map(SocketAddr::to_string).collect();
    Remote::connect(&addrs, Some(token), 7)
}

fn found(name: &str) -> Order {
    let group: Group =
        serde_json::from_value(serde_json::json!({ "name": name })).expect("a group");
    Order::Found { group: Box::new(group), clients_max: 0 }
}

fn arrive(name: &str, clients: u32) -> Order {
    Order::Arrive { group: name.to_owned(), clients, arrival: Arrival::Burst }
}

fn numbers(fakes: &[Arc<Fake>]) -> Vec<u32> {
    let mut numbers: Vec<u32> = fakes.iter().flat_map(|fake| fake.numbers()).collect();
    numbers.sort_unstable();
    numbers
}

/// Looks until something is so; looks are bounded, so that a failure ends.
fn look_until(remote: &mut Remote, so: impl Fn(&Look) -> bool) -> Look {
    for _ in 0..200 {
        let look = remote.look();
        if so(&look) {
            return look;
        }
        std::thread::yield_now();
    }
    panic!("it never came to be so: {:?}", remote.look().agents);
}

#[test]
fn three_agents_do_and_count_what_one_generator_would() {
    let fakes = [0, 5_000_000, -3_000_000].map(Fake::new);
    let addrs: Vec<_> = fakes.iter().map(|fake| agent("a", TOKEN, fake)).collect();
    let mut remote = connect(&addrs, TOKEN).expect("all are there");
    remote.order(&found("device")).expect("a group");
    remote.order(&arrive("device", 1_000)).expect("clients");
    let first = remote.look();
    remote.order(&arrive("device", 1_003)).expect("more clients");
    let second = remote.look();
    assert_eq!(numbers(&fakes), (0..1_003).collect::<Vec<_>>());
    let (first, total) = (first.total(), second.total());
    assert_eq!((first.attempts, first.planned, first.online), (1_000, 1_000, 1_000));
    assert_eq!((total.attempts, total.planned, total.online), (1_003, 1_003, 1_003));
    assert!(total.accounts[0].agrees());
    // Every client noted its number as a time: the sum of all is the distribution of all.
    let mut expected = lab::timing::Spectrum::default();
    (0..1_003).for_each(|number| expected.note(number));
    assert_eq!(total.timings.of(Timing::Bind).raw, expected);
    let names: Vec<_> = second.agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["a", "a-2", "a-3"]);
    assert_eq!(second.agents.iter().map(|agent| agent.clients).sum::<u64>(), 1_003);
    assert_eq!(second.reading.of("a-2.cpu.busy"), Some(1.5));
    assert_eq!(second.reading.of("tester.busiest"), Some(0.25));
    assert_eq!(second.saturation, ["a: too much", "a-2: too much", "a-3: too much"]);
}

#[test]
fn clocks_are_compared_and_each_agent_is_told_by_how_much_it_is_ahead() {
    let skews = [5_000_000, -3_000_000, 0];
    let fakes = skews.map(Fake::new);
    let addrs: Vec<_> = fakes.iter().map(|fake| agent("a", TOKEN, fake)).collect();
    let mut remote = connect(&addrs, TOKEN).expect("all are there");
    remote.order(&found("device")).expect("a group");
    let look = remote.look();
    assert!(look.notes[0].contains("corrected by their clocks' offsets: a +"), "{:?}", look.notes);
    for ((agent, skew), fake) in look.agents.iter().zip(skews).zip(&fakes) {
        let apart = agent.offset_us.abs_diff(skew);
        assert!(apart <= agent.offset_error_us, "{} is not {skew}", agent.offset_us);
        let told = fake.ahead().expect("it was told");
        assert!(told.abs_diff(skew) < 1_000_000, "{told}");
    }
}

#[test]
fn a_lost_agent_is_told_of_by_name_and_its_counts_are_kept() {
    let fakes = [0, 0].map(Fake::new);
    let stays = agent("stays", TOKEN, &fakes[0]);
    let relay = Relay::to(agent("goes", TOKEN, &fakes[1]));
    let mut remote = connect(&[stays, relay.addr()], TOKEN).expect("both are there");
    remote.order(&found("device")).expect("a group");
    remote.order(&arrive("device", 11)).expect("clients");
    assert_eq!(remote.look().total().open, 11);
    relay.cut();
    let look = look_until(&mut remote, |look| look.agents[1].lost_ms.is_some());
    let note = look.notes.iter().find(|note| note.contains("goes")).expect("it is told");
    assert!(note.contains("was lost") && note.contains("with 5 connections"), "{note}");
    let total = look.total();
    assert_eq!((total.attempts, total.open, total.online, total.planned), (11, 6, 6, 6));
    assert_eq!(total.causes.of(Phase::Online, Cause::AgentLost), 5);
    assert_eq!(total.attempts, total.open + total.causes.sum());
    assert!(total.accounts[0].agrees(), "{:?}", total.accounts);
    assert_eq!(total.timings.of(Timing::Bind).raw.count(), 11);
    assert_eq!(remote.lost(), ["goes"]);
    // The others go on, and it is told once.
    remote.order(&arrive("device", 21)).expect("the other one does its part");
    let look = remote.look();
    assert_eq!((look.total().planned, look.notes.len()), (11, 0));
    fakes[1].wait_for_stop();
}

#[test]
fn when_all_are_lost_orders_say_so() {
    let fake = Fake::new(0);
    let relay = Relay::to(agent("only", TOKEN, &fake));
    let mut remote = connect(&[relay.addr()], TOKEN).expect("it is there");
    remote.order(&found("device")).expect("a group");
    relay.cut();
    look_until(&mut remote, |look| look.agents[0].lost_ms.is_some());
    assert_eq!(remote.order(&Order::Stop), Err("all agents are lost".to_owned()));
}

#[test]
fn an_agent_that_talks_nonsense_is_lost_and_the_nonsense_told() {
    let fake = Fake::new(0);
    let relay = Relay::to(agent("mad", TOKEN, &fake));
    let mut remote = connect(&[relay.addr()], TOKEN).expect("it is there");
    relay.inject(b"{\"say\": \"banana\"}\n");
    let look = look_until(&mut remote, |look| look.agents[0].lost_ms.is_some());
    let note = look.notes.iter().find(|note| note.contains("was lost")).expect("it is told");
    assert!(note.contains("invalid protocol message"), "{note}");
}

#[test]
fn what_an_agent_can_not_do_is_told_with_its_name() {
    let fakes = [0, 0].map(Fake::new);
    let addrs = [agent("good", TOKEN, &fakes[0]), agent("bad", TOKEN, &fakes[1])];
    fakes[1].refuse("no such product");
    let mut remote = connect(&addrs, TOKEN).expect("both are there");
    assert_eq!(remote.order(&found("device")), Err("bad: no such product".to_owned()));
}

#[test]
fn the_token_must_be_the_same_and_never_travels() {
    let fake = Fake::new(0);
    let relay = Relay::to(agent("a", TOKEN, &fake));
    let Err(why) = connect(&[relay.addr()], "another token") else { panic!("it was let in") };
    assert!(why.contains("wrong token"), "{why}");
    let remote = connect(&[relay.addr()], TOKEN).expect("the right one");
    drop(remote);
    let travelled = relay.travelled();
    assert!(travelled.contains("welcome") && !travelled.contains(TOKEN));
}

#[test]
fn a_second_coordinator_is_told_who_the_agent_works_for_and_may_come_afterwards() {
    let fake = Fake::new(0);
    let addr = agent("a", TOKEN, &fake);
    let first = connect(&[addr], TOKEN).expect("it is free");
    let Err(why) = connect(&[addr], TOKEN) else { panic!("it serves two") };
    assert!(why.contains("a is working for 127.0.0.1:"), "{why}");
    drop(first);
    fake.wait_for_stop();
    let mut again = Err(String::new());
    for _ in 0..100 {
        again = connect(&[addr], TOKEN);
        if again.is_ok() {
            break;
        }
        std::thread::yield_now();
    }
    again.expect("it is free again");
}

#[test]
fn strangers_and_nonsense_are_hung_up_on_and_the_agent_lives() {
    let fake = Fake::new(0);
    let addr = agent("a", TOKEN, &fake);
    let long = "x".repeat(100_000);
    for said in ["nonsense\n", "{}\n", "{\"say\": \"leave\"}\n", &long, "\n", ""] {
        let mut stranger = TcpStream::connect(addr).expect("it listens");
        // It may hang up before all is said.
        let _ = stranger.write_all(said.as_bytes());
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stranger.read_to_string(&mut answer);
        let answers: Vec<_> = answer.lines().collect();
        assert!(answers[0].contains("hello"), "{answer}");
        assert!(!answer.contains("welcome"), "{answer}");
    }
    connect(&[addr], TOKEN).expect("it still works");
}

#[test]
fn another_version_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    let thread = start(move || {
        let (mut stream, _) = listener.accept().expect("a caller");
        let nonce = "0".repeat(64);
        let hello = format!("{{\"say\":\"hello\",\"version\":99,\"nonce\":\"{nonce}\"}}\n");
        stream.write_all(hello.as_bytes()).expect("sent");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("nothing more");
    });
    let Err(why) = connect(&[addr], TOKEN) else { panic!("it went on") };
    assert!(why.contains("its protocol version is 99, this coordinator's 1"), "{why}");
    thread.join().expect("it ended");
}

#[test]
fn an_agent_may_only_observe_and_then_its_figures_are_the_targets() {
    let fakes = [0, 0].map(Fake::new);
    let loads = agent("loads", TOKEN, &fakes[0]);
    let watches = agent_with("watches", TOKEN, &fakes[1], false);
    let mut remote = connect(&[watches, loads], TOKEN).expect("both are there");
    assert!(remote.observes());
    remote.order(&found("device")).expect("a group");
    remote.order(&arrive("device", 10)).expect("clients");
    let look = remote.look();
    assert_eq!((look.total().online, fakes[1].numbers().len()), (10, 0));
    assert_eq!(look.reading.of("target.cpu.busy"), Some(1.5));
    assert_eq!((look.agents[0].clients, look.agents[1].clients), (0, 10));
    drop(remote);
    let Err(why) = connect(&[watches], TOKEN) else { panic!("nobody makes load") };
    assert!(why.contains("only observe") || why.contains("is working"), "{why}");
}

#[test]
fn without_a_token_an_agent_stays_on_loopback() {
    let open = AgentListener::take(([0, 0, 0, 0], 0).into(), "a", "", true);
    assert!(open.is_err_and(|why| why.contains("--token")));
    assert!(AgentListener::take(([127, 0, 0, 1], 0).into(), "a", "", true).is_ok());
    let seat =
        AgentListener::take(([0, 0, 0, 0], 0).into(), "a.b c", TOKEN, true).expect("a token");
    assert_eq!(seat.name, "a-b-c");
}
