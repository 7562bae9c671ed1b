//! The login sync of somebody with a thousand conversations: time, CPU and bytes.
//!
//! A thousand people say three messages each to one who is away. Then, one after the other:
//! *a new device* logs in and gets the list of conversations with last messages and unread counts,
//! page by page; *one that comes back* logs in and pulls what came meanwhile, the last message of
//! everybody; *one that missed nothing* logs in. Each with the account's knowledge in memory, and
//! the first also after a restart whose files the kernel was asked to forget. Time is from the call
//! to the last answer; bytes are what the server sent.

use super::super::talk;
use super::person::Person;
use super::rest;
use crate::child::pinned;
use crate::clock;
use crate::holdline::{Holdline, Setup};
use crate::measure::{cpu, slope};
use crate::results::Outcome;
use crate::scenario::log::disk;
use crate::scenario::{CALLER_CORE, SERVER_CORE, Scale};
use client::im::{ImEvent, ImOrder};
use model::timeline::Seq;
use serde_json::json;
use std::io;

/// People who have talked to the one.
const CONVERSATIONS: u32 = 1_000;
/// Messages of each of them.
const MESSAGES: u32 = 3;
/// Bytes of a message.
const BYTES: u32 = 64;
/// The one.
const NAME: &str = "busy";
/// Conversations, or messages, of a page: as many as a server gives by default.
const PAGE: u16 = 128;
/// Logins of each kind.
const ROUNDS: u32 = 20;
/// Restarts, of which each makes one login from the disk.
const RESTARTS: u32 = 5;

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let (rounds, restarts) = (scale.of(ROUNDS), scale.of(RESTARTS));
    let conversations = scale.of(CONVERSATIONS);
    let mut server = setup().start()?;
    let mut outcome = Outcome::new(json!({
        "conversations": conversations, "messages_each": MESSAGES, "bytes": BYTES, "page": PAGE,
        "rounds": rounds, "restarts": restarts, "server": server.plan(),
        "cores": "the server on one, who logs in on the other",
    }));
    let talked = talk::written(&server, &plan(conversations))?;
    talked.held_but(&[])?;
    rest(&server)?;
    let (all, listed) = (u64::from(conversations * MESSAGES), conversations as usize);
    let new = Sync { behind: None, listed };
    let mut cold = Vec::new();
    for round in 0..restarts {
        server.restart(disk::forget)?;
        rest(&server)?;
        cold.push(new.measure(&server, &format!("cold-{round}"))?);
    }
    let measured = |sync: &Sync, name: &str| -> io::Result<Vec<Cost>> {
        let device = |round: u32| format!("{name}-{round}");
        (0..rounds).map(|round| sync.measure(&server, &device(round))).collect()
    };
    tell("a new device", &measured(&new, "new")?, &mut outcome);
    tell("a new device, from disk", &cold, &mut outcome);
    for (what, name, behind) in [
        ("a device that comes back", "back", u64::from(conversations)),
        ("a device that missed nothing", "there", 0),
    ] {
        for round in 0..rounds {
            leave_at(&server, &format!("{name}-{round}"), all - behind)?;
        }
        let sync = Sync { behind: Some(behind), listed };
        tell(what, &measured(&sync, name)?, &mut outcome);
    }
    Ok(outcome)
}

fn setup() -> Setup {
    Setup { shards: 1, core: Some(SERVER_CORE), ..Setup::default() }
}

/// Calls that follow a login.
struct Sync {
    /// Number of messages to pull; `None`: the list is asked for.
    behind: Option<u64>,
    listed: usize,
}

/// Cost of a login and the calls that follow it.
struct Cost {
    ms: f64,
    cpu_us: f64,
    bytes: f64,
}

impl Sync {
    fn measure(&self, server: &Holdline, device: &str) -> io::Result<Cost> {
        let bytes = || server.api.count("bytes_sent_total");
        let (sent, before) = (bytes()?, cpu::used(server.pid())?);
        let (took, person) = pinned(CALLER_CORE, || {
            let began = clock::now();
            let mut person = Person::login(server.address, NAME, device)?;
            match self.behind {
                Some(behind) => pulled(&mut person, behind)?,
                None => listed(&mut person, self.listed)?,
            }
            Ok((clock::since(began), person))
        })?;
        let used = cpu::used(server.pid())? - before;
        let bytes = (bytes()? - sent) as f64;
        person.goes();
        let (ms, cpu_us) = (took.as_secs_f64() * 1e3, used.as_secs_f64() * 1e6);
        Ok(Cost { ms, cpu_us, bytes })
    }
}

fn tell(name: &str, costs: &[Cost], outcome: &mut Outcome) {
    let middle = |of: fn(&Cost) -> f64| slope::median(&costs.iter().map(of).collect::<Vec<_>>());
    outcome.figure(&format!("{name}: time"), middle(|cost| cost.ms), "ms");
    outcome.figure(&format!("{name}: CPU"), middle(|cost| cost.cpu_us), "µs");
    outcome.figure(&format!("{name}: sent to it"), middle(|cost| cost.bytes), "bytes");
    outcome.detail(name, json!(costs.iter().map(|cost| cost.ms).collect::<Vec<_>>()));
}

/// Gets the list, whose conversations have all that is not read.
fn listed(person: &mut Person, wanted: usize) -> io::Result<()> {
    let (mut count, mut unread, mut before) = (0, 0, 0);
    loop {
        let asked = person.ask(|number| ImOrder::Conversations {
            number,
            with: None,
            before,
            count: PAGE,
            groups: false,
        })?;
        let ImEvent::Conversations(page) = asked else {
            return Err(io::Error::other(format!("{asked:?}")));
        };
        count += page.conversations.len();
        unread += page.conversations.iter().map(|one| u32::from(one.unread)).sum::<u32>();
        before = page.conversations.last().map_or(0, |last| last.place);
        if !page.more {
            break;
        }
    }
    match (count, unread) == (wanted, wanted as u32 * MESSAGES) {
        true => Ok(()),
        false => Err(io::Error::other(format!("{count} of {wanted} listed, {unread} unread"))),
    }
}

/// Pulls what is behind the device's place.
fn pulled(person: &mut Person, behind: u64) -> io::Result<()> {
    let (mut after, head) = (person.welcome.cursor, person.welcome.head);
    let mut count = 0;
    while after < head {
        let asked = person.ask(|number| ImOrder::Pull { number, after, count: PAGE })?;
        let ImEvent::Page { messages, upto, .. } = asked else {
            return Err(io::Error::other(format!("{asked:?}")));
        };
        count += messages.len() as u64;
        after = upto;
    }
    match count == behind {
        true => Ok(()),
        false => Err(io::Error::other(format!("{count} of {behind} were pulled"))),
    }
}

/// A device that has everything up to this place goes.
fn leave_at(server: &Holdline, device: &str, upto: Seq) -> io::Result<()> {
    let mut person = Person::login(server.address, NAME, device)?;
    person.order(|_| ImOrder::Acknowledge(upto));
    // What is asked behind it is answered behind it.
    person.ask(|number| ImOrder::Pull { number, after: 0, count: 1 })?;
    person.goes();
    Ok(())
}

/// The one comes once, and is away while it is talked to.
fn plan(conversations: u32) -> String {
    format!(
        "name = \"sync\"\npass = [\"accounts == 1\", \"unexplained == 0\"]\n\n\
         [[group]]\nname = \"senders\"\nuser = \"p_%i\"\nid = \"c_p_%i\"\nlite = true\n\n\
         [[group]]\nname = \"receivers\"\nuser = \"{NAME}\"\nid = \"first_%i\"\n\n\
         [[stage]]\nname = \"accounts\"\nclients = {{ receivers = 1 }}\n\
         pass = [\"online_share == 1\", \"errors == 0\"]\nstop_on_failure = true\n\n\
         [[stage]]\nname = \"connect\"\n\
         clients = {{ senders = {conversations}, receivers = 0 }}\n\
         pass = [\"online_share == 1\", \"errors == 0\"]\nstop_on_failure = true\n\n\
         [[stage]]\nname = \"send\"\nhold = \"10m\"\n\
         pass = [\"messages.owed == 0\", \"errors == 0\"]\n\n\
         [[stage.traffic.senders]]\nwhat = \"publish\"\ntopic = \"{NAME}\"\namong = 1\n\
         loops = {MESSAGES}\nbytes = {BYTES}\npace = {{ window = 1 }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_a_plan() {
        assert_eq!(talk::is_plan(&plan(CONVERSATIONS)).map(|plan| plan.stages.len()), Ok(3));
    }
}
