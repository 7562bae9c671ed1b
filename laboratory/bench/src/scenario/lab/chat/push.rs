//! The rate of the push gateway, and what a push of somebody who is away costs.
//!
//! Two thousand people register a device and go. Others say something to each of them: every
//! message is posted to a gateway of the operator's, a program of this bench on the other core that
//! takes everything at once. First the same messages go to people who have registered nothing: the
//! difference of the server's CPU is what the pushes cost. Every notification is counted: by the
//! server and at the gateway.

use super::gateway::Gateway;
use super::person::Person;
use super::rest;
use crate::child::pinned;
use crate::clock;
use crate::holdline::{Holdline, Setup};
use crate::measure::cpu;
use crate::results::Outcome;
use crate::scenario::{CALLER_CORE, SERVER_CORE, Scale};
use client::im::ImOrder;
use model::chat::{PushRoute, PushWish};
use serde_json::json;
use std::io;
use std::time::Duration;

/// People that are away.
const PEOPLE: u32 = 2_000;
/// Senders to each of them, once.
const SENDERS: u32 = 10;
/// Messages of a sender without an answer.
const WINDOW: usize = 64;
/// Requests to the gateway at once: the default, and more.
const REQUESTS: [u32; 2] = [8, 64];
/// The longest wait for the last notification.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(5);
/// Text of each message.
const TEXT: &str = "今天晚上一起吃饭好不好呀";

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let people = scale.of(PEOPLE);
    let messages = people * SENDERS;
    let mut outcome = Outcome::new(json!({
        "people": people, "messages": messages, "window": WINDOW, "requests_at_once": REQUESTS,
        "server": setup("127.0.0.1:0", REQUESTS[0]).plan()?,
        "cores": "the server with its log on one, gateway and senders on the other",
    }));
    for requests in REQUESTS {
        let mut gateway = Gateway::start(CALLER_CORE)?;
        let server = setup(&gateway.address.to_string(), requests).start()?;
        let each = f64::from(messages);
        arrive(&server, "plain", people, false)?;
        arrive(&server, "away", people, true)?;
        rest(&server)?;
        let alone = talk(&server, "plain", people)?;
        let gateway_before = cpu::used(gateway.pid())?;
        let (began, before) = (clock::now(), cpu::used(server.pid())?);
        pinned(CALLER_CORE, || say(&server, "away", people))?;
        while gateway.count()? < u64::from(messages) {
            if clock::since(began) > PATIENCE {
                let told = gateway.count()?;
                return Err(io::Error::other(format!("{told} of {messages} came to the gateway")));
            }
            std::thread::sleep(LOOK);
        }
        let took_s = clock::since(began).as_secs_f64();
        rest(&server)?;
        let used = cpu::used(server.pid())? - before;
        all_told(&server, &mut gateway, u64::from(messages))?;
        let pushes = used.saturating_sub(alone).as_nanos() as f64 / 1e3;
        let name = |what: &str| format!("{requests} at once: {what}");
        outcome.figure(&name("notifications"), each / took_s, "a second");
        outcome.figure(&name("CPU"), pushes / each, "µs a notification");
        outcome.figure(&name("notifications a second a core"), 1e6 * each / pushes, "a second");
        let gateway_used = cpu::used(gateway.pid())? - gateway_before;
        outcome.detail(&format!("{requests} at once"), json!({
            "seconds": took_s, "cpu_s": used.as_secs_f64(), "sends_alone_s": alone.as_secs_f64(),
            "gateway_cpu_s": gateway_used.as_secs_f64(),
        }));
    }
    Ok(outcome)
}

fn setup(gateway: &str, requests: u32) -> Setup {
    let more = format!(
        "[push]\ngateway = \"http://{gateway}/push\"\nsecret = \"secret-of-the-push-gateway\"\n\
         window_ms = 0\nrequests_max = {requests}\n"
    );
    Setup { shards: 1, core: Some(SERVER_CORE), more, ..Setup::default() }
}

/// An error unless each message was notified once.
fn all_told(server: &Holdline, gateway: &mut Gateway, messages: u64) -> io::Result<()> {
    let (sent, taken) =
        (server.api.count("chat_push_sent_total")?, server.api.count("chat_push_taken_total")?);
    let came = gateway.count()?;
    match (sent, taken, came) == (messages, messages, messages) {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{messages} messages, {sent} notifications, {taken} taken, {came} at the gateway"
        ))),
    }
}

/// People come, register where that is wanted, and go.
fn arrive(server: &Holdline, kind: &str, people: u32, registers: bool) -> io::Result<()> {
    for number in 0..people {
        let mut person = Person::login(server.address, &format!("{kind}-{number}"), "phone")?;
        if registers {
            let route = PushRoute::gateway("chat", &format!("token-{number}"));
            let route = route.ok_or_else(|| io::Error::other("that is no way"))?;
            let wish = PushWish::Register { name: None, route, code: None, shared: false };
            person.ask(|number| ImOrder::Push { number, wish: Box::new(wish) })?;
        }
        person.goes();
    }
    Ok(())
}

/// CPU of the server until everything that is said to these people is stored.
fn talk(server: &Holdline, kind: &str, people: u32) -> io::Result<Duration> {
    let before = cpu::used(server.pid())?;
    pinned(CALLER_CORE, || say(server, kind, people))?;
    rest(server)?;
    Ok(cpu::used(server.pid())? - before)
}

/// Each sender says something to each of them.
fn say(server: &Holdline, kind: &str, people: u32) -> io::Result<()> {
    let names: Vec<String> = (0..people).map(|number| format!("{kind}-{number}")).collect();
    for sender in 0..SENDERS {
        let mut person = Person::login(server.address, &format!("sender-{sender}"), "phone")?;
        person.say_to_all(&names, TEXT, WINDOW)?;
        person.goes();
    }
    Ok(())
}
