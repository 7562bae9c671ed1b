//! Memory of a million people with ten conversations each, nobody of whom is there.
//!
//! People come in groups of eleven in which everybody talks to everybody once: ten conversations
//! and ten messages each. Then each asks for the list of its conversations and goes. *By default*:
//! what is in memory has the limits that are shipped (numbers of accounts, conversations, heads of
//! timelines), so that it stops growing. *All known*: these limits are as high as may be, so that
//! everything is kept; that is what a person costs. Private_Dirty of the server, without huge
//! pages, each time after it is at rest.

use super::person::Person;
use super::rest;
use crate::clock;
use crate::holdline::{Holdline, Setup};
use crate::measure::memory::Memory;
use crate::measure::slope;
use crate::results::Outcome;
use crate::scenario::Scale;
use client::im::{ImEvent, ImOrder};
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// People of a group that talk to each other.
const GROUP: u32 = 11;
/// Groups: a million people.
const GROUPS: u32 = 90_910;
const QUICK_GROUPS: u32 = 250;
/// Steps in which they come.
const STEPS: u32 = 5;
/// Threads that play them: so many groups at once.
const THREADS: u32 = 8;
/// The longest wait until what was said is in an inbox, and between two looks.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(2);
/// Text of each message: twelve Chinese characters.
const TEXT: &str = "今天晚上一起吃饭好不好呀";
/// The largest values that can be configured.
const ALL_KNOWN: &str = "accounts_known_max = 16777216\nconversations_known_max = 1073741824\n";

/// Runs the scenario.
pub fn memory(scale: Scale) -> io::Result<Outcome> {
    let groups = if scale.quick { QUICK_GROUPS } else { GROUPS };
    let mut outcome = Outcome::new(json!({
        "people": groups * GROUP, "conversations_each": GROUP - 1, "messages_each": GROUP - 1,
        "user_memory": "Private_Dirty", "huge_pages": false, "server": setup("").plan()?,
        "all_known": ALL_KNOWN.lines().collect::<Vec<_>>(),
    }));
    for (name, chat) in [("all known", ALL_KNOWN), ("by default", "")] {
        let server = setup(chat).start()?;
        let mut points = Vec::new();
        let mut told = Vec::new();
        for step in 1..=STEPS {
            let (from, to) = (groups * (step - 1) / STEPS, groups * step / STEPS);
            come(server.address, from, to)?;
            rest(&server)?;
            let memory = Memory::of(server.pid())?;
            points.push((f64::from(to * GROUP), memory.private_dirty as f64));
            told.push(json!({
                "people": to * GROUP, "private_dirty": memory.private_dirty, "rss": memory.rss,
            }));
        }
        all_there(&server, groups)?;
        let slope = slope::through(&points);
        outcome.figure(&format!("{name}: a person"), slope.each, "bytes");
        outcome.figure(&format!("{name}: R² of the slope"), slope.r2, "");
        let last = points.last().map_or(0.0, |(_, bytes)| *bytes);
        outcome.figure(&format!("{name}: all of them, whole process"), last, "bytes");
        outcome.detail(name, json!(told));
    }
    Ok(outcome)
}

fn setup(chat: &str) -> Setup {
    Setup { chat: chat.to_owned(), ..Setup::default() }
}

/// An error unless what was said is in everybody's inbox.
fn all_there(server: &Holdline, groups: u32) -> io::Result<()> {
    let pairs = u64::from(groups * (GROUP * (GROUP - 1) / 2));
    let count = |name: &str| server.api.count(name);
    let (sent, placed) = (count("chat_sent_total")?, count("chat_distributed_total")?);
    if (sent, placed) != (pairs, 2 * pairs) {
        return Err(io::Error::other(format!("{sent} of {pairs} are stored, {placed} in inboxes")));
    }
    Ok(())
}

/// Groups come, talk, look at their lists and go.
fn come(to: SocketAddr, from: u32, upto: u32) -> io::Result<()> {
    std::thread::scope(|scope| {
        let mut players = Vec::new();
        for first in 0..THREADS {
            let mut groups = (from + first..upto).step_by(THREADS as usize);
            let play = move || groups.try_for_each(|group| talk(to, group));
            let thread = std::thread::Builder::new().name("player".into());
            players.push(thread.spawn_scoped(scope, play)?);
        }
        let failed = || io::Error::other("a player failed");
        players.into_iter().try_for_each(|player| player.join().map_err(|_| failed())?)
    })
}

fn talk(to: SocketAddr, group: u32) -> io::Result<()> {
    let name = |place: u32| format!("person-{:08}", group * GROUP + place);
    let mut people = Vec::new();
    for place in 0..GROUP {
        // To all who have come before.
        let others: Vec<String> = (0..place).map(name).collect();
        let mut person = Person::login(to, &name(place), "phone")?;
        person.say_to_all(&others, TEXT, GROUP as usize)?;
        people.push(person);
    }
    for mut person in people {
        let began = clock::now();
        // What is acknowledged is in the conversation; in the other's inbox it is a moment later.
        while listed(&mut person)? != GROUP as usize - 1 {
            if clock::since(began) > PATIENCE {
                return Err(io::Error::other("somebody lacks a conversation"));
            }
            std::thread::sleep(LOOK);
        }
        person.goes();
    }
    Ok(())
}

/// Conversations of somebody's list.
fn listed(person: &mut Person) -> io::Result<usize> {
    let asked = person.ask(|number| ImOrder::Conversations {
        number,
        with: None,
        before: 0,
        count: 100,
        groups: false,
    })?;
    match asked {
        ImEvent::Conversations(page) => Ok(page.conversations.len()),
        other => Err(io::Error::other(format!("{other:?}"))),
    }
}
