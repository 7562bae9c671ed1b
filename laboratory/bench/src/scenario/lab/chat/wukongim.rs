//! Messages of an application to a hundred groups of a hundred, by the HTTP API: ours, and
//! `WuKongIM`'s in the same run, where it is installed.
//!
//! The only version that the Go registry gives is 1.2.6 (2.1.2, whose figures are published, it
//! answers with 403); its own protocol is encrypted, so that both are spoken to by HTTP. Nobody is
//! online. Four connections post one message after the other, to each group in turn, and each is
//! answered when the server says that it has it: ours when it is on stable storage, theirs when it
//! is written to a file, which nothing syncs. Ours has a place in a hundred inboxes besides.
//! Acknowledged messages are then looked for: in our inboxes' count, in their groups' last number.

use super::person::Person;
use super::{rest, rest_of};
use crate::api::Api;
use crate::child::{Child, pinned};
use crate::clock;
use crate::holdline::{Setup, free_ports};
use crate::measure::{cpu, slope};
use crate::results::Outcome;
use crate::scenario::{CALLER_CORE, SERVER_CORE, Scale};
use crate::swarm::peers::installed;
use serde_json::{Value, json};
use std::io;
use std::process::Command;
use std::time::Duration;

const GROUPS: u32 = 100;
const MEMBERS: u32 = 100;
/// Messages, and connections that post them.
const MESSAGES: u32 = 40_000;
const POSTERS: u32 = 4;
/// Rounds of the two in turn; the first warms up.
const ROUNDS: u32 = 3;
const TEXT: &str = "今天晚上一起吃饭好不好呀";
/// The program's name as `go install` leaves it.
const PROGRAM: &str = "WuKongIM";
/// Another one that does not answer for so long has not started.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the scenario.
pub fn api(scale: Scale) -> io::Result<Outcome> {
    let messages = scale.of(MESSAGES);
    let setup = Setup { shards: 1, core: Some(SERVER_CORE), ..Setup::default() };
    let server = setup.start()?;
    let theirs = installed(PROGRAM).map(|_| Theirs::start()).transpose()?;
    let mut outcome = Outcome::new(json!({
        "groups": GROUPS, "members": MEMBERS, "messages": messages, "posters": POSTERS,
        "rounds": ROUNDS, "bytes": TEXT.len(), "server": server.plan(),
        "theirs": if theirs.is_some() { "WuKongIM 1.2.6" } else { "not installed" },
        "cores": "each server on one, who posts on the other",
    }));
    let groups = make(server.address, &server.api)?;
    let path = "/v1/chat/accounts/m_0/messages";
    let ours = |number: u32| {
        let to = &groups[(number % GROUPS) as usize];
        (path, json!({ "to": to, "message": { "text": TEXT } }))
    };
    let (mut of_ours, mut of_theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let before = cpu::used(server.pid())?;
        let per_s = post(&server.api, messages, &ours)?;
        rest(&server)?;
        let used = cpu::used(server.pid())? - before;
        let theirs = theirs.as_ref().map(|theirs| theirs.round(messages)).transpose()?;
        if round > 0 {
            of_ours.push((used.as_nanos() as f64 / 1e3 / f64::from(messages), per_s));
            of_theirs.extend(theirs);
        }
    }
    let owed = u64::from(messages * ROUNDS);
    let (sent, placed) =
        (server.api.count("chat_sent_total")?, server.api.count("chat_distributed_total")?);
    // Beside them are the words that groups were made with.
    if sent < owed || placed < owed * u64::from(MEMBERS) {
        return Err(io::Error::other(format!("{sent} of {owed} sent, {placed} in inboxes")));
    }
    tell("Holdline", &of_ours, &mut outcome);
    if let Some(theirs) = theirs {
        theirs.has_all(messages * ROUNDS)?;
        tell("WuKongIM", &of_theirs, &mut outcome);
        let middle =
            |all: &[(f64, f64)]| slope::median(&all.iter().map(|it| it.0).collect::<Vec<_>>());
        outcome.figure("against WuKongIM's CPU", middle(&of_ours) / middle(&of_theirs), "times");
    }
    Ok(outcome)
}

fn tell(name: &str, rounds: &[(f64, f64)], outcome: &mut Outcome) {
    let middle =
        |of: fn(&(f64, f64)) -> f64| slope::median(&rounds.iter().map(of).collect::<Vec<_>>());
    outcome.figure(&format!("{name}: CPU"), middle(|round| round.0), "µs a send");
    outcome.figure(&format!("{name}: sends"), middle(|round| round.1), "a second");
    outcome.detail(name, json!(rounds));
}

/// Posts all, some connections at once: messages a second.
fn post(
    api: &Api,
    messages: u32,
    order: &(dyn Fn(u32) -> (&'static str, Value) + Sync),
) -> io::Result<f64> {
    let began = clock::now();
    pinned(CALLER_CORE, || {
        std::thread::scope(|scope| {
            let mut posters = Vec::new();
            for first in 0..POSTERS {
                let post = move || {
                    (first..messages).step_by(POSTERS as usize).try_for_each(|number| {
                        let (path, body) = order(number);
                        api.post(path, &body).map(drop)
                    })
                };
                let thread = std::thread::Builder::new().name("poster".into());
                posters.push(thread.spawn_scoped(scope, post)?);
            }
            let failed = || io::Error::other("a poster failed");
            posters.into_iter().try_for_each(|poster| poster.join().map_err(|_| failed())?)
        })
    })?;
    Ok(f64::from(messages) / clock::since(began).as_secs_f64())
}

fn member(number: u32) -> String {
    format!("m_{number}")
}

/// Our accounts, who come once, and groups: their addresses.
fn make(address: std::net::SocketAddr, api: &Api) -> io::Result<Vec<String>> {
    for number in 0..MEMBERS {
        Person::login(address, &member(number), "phone")?.goes();
    }
    let members: Vec<String> = (1..MEMBERS).map(member).collect();
    let made = |number: u32| {
        let order = json!({
            "owner": member(0), "title": format!("group {number}"), "members": members,
        });
        let answer = api.post("/v1/chat/groups", &order)?;
        let group = answer["group"].as_str().map(str::to_owned);
        group.ok_or_else(|| io::Error::other(format!("no group: {answer}")))
    };
    (0..GROUPS).map(made).collect()
}

/// A running `WuKongIM`.
struct Theirs {
    child: Child,
    api: Api,
    _folder: tempfile::TempDir,
}

impl Theirs {
    fn start() -> io::Result<Theirs> {
        let folder = tempfile::tempdir()?;
        let [http, tcp, ws, monitor] = free_ports()?;
        let program = installed(PROGRAM).ok_or_else(|| io::Error::other("it is not installed"))?;
        let mut command = Command::new(program);
        command.env("WK_MODE", "release").env("WK_ROOTDIR", folder.path());
        command.env("WK_HTTPADDR", http.to_string()).env("WK_ADDR", format!("tcp://{tcp}"));
        command.env("WK_WSADDR", format!("ws://{ws}"));
        command.env("WK_MONITOR_ADDR", monitor.to_string()).env("WK_DEMO_ON", "false");
        command.env("HOME", folder.path()).current_dir(folder.path());
        command.stderr(std::process::Stdio::null());
        let child = Child::start_quiet_on(&mut command, Some(SERVER_CORE))?;
        let mut theirs = Theirs { child, api: Api::new(http, "none"), _folder: folder };
        let began = clock::now();
        while let Err(why) = theirs.make(0) {
            if !theirs.child.runs() || clock::since(began) > PATIENCE {
                return Err(io::Error::other(format!("{PROGRAM} did not start: {why}")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        (1..GROUPS).try_for_each(|number| theirs.make(number))?;
        Ok(theirs)
    }

    fn make(&self, number: u32) -> io::Result<()> {
        let members: Vec<String> = (0..MEMBERS).map(member).collect();
        let order = json!({
            "channel_id": format!("group{number}"), "channel_type": 2, "subscribers": members,
        });
        self.api.post("/channel", &order).map(drop)
    }

    /// Microseconds of CPU a send, and sends a second.
    fn round(&self, messages: u32) -> io::Result<(f64, f64)> {
        let order = |number: u32| {
            let group = format!("group{}", number % GROUPS);
            // Its payload is base64.
            let payload = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, TEXT);
            let body = json!({
                "header": { "no_persist": 0, "red_dot": 1, "sync_once": 0 }, "from_uid": "m_0",
                "channel_id": group, "channel_type": 2, "payload": payload,
            });
            ("/message/send", body)
        };
        let before = cpu::used(self.child.pid())?;
        let per_s = post(&self.api, messages, &order)?;
        rest_of(self.child.pid())?;
        let used = cpu::used(self.child.pid())? - before;
        Ok((used.as_nanos() as f64 / 1e3 / f64::from(messages), per_s))
    }

    /// An error unless its groups have all that it said it had.
    fn has_all(&self, messages: u32) -> io::Result<()> {
        let mut found = 0;
        for number in 0..GROUPS {
            let asked = json!({
                "login_uid": "m_0", "channel_id": format!("group{number}"), "channel_type": 2,
                "limit": 1,
            });
            let answer = self.api.post("/channel/messagesync", &asked)?;
            let last = answer["messages"].as_array().and_then(|all| all.last());
            found += last.and_then(|last| last["message_seq"].as_u64()).unwrap_or(0);
        }
        match found == u64::from(messages) {
            true => Ok(()),
            false => Err(io::Error::other(format!("{PROGRAM} has {found} of {messages}"))),
        }
    }
}
