//! Cost of messages in a room of XMPP that reach all who are in it: in one of a thousand, of each
//! server that is compared; and in one of ten thousand, of ours, with what entering costs.
//!
//! Members are made by the API before anybody enters: a client that becomes a member by entering is
//! announced to all who are there.

use super::servers::{Kind, People, Server};
use super::session::{DOMAIN, Session};
use super::{OCCUPANTS, ROOM_MESSAGES, TEXT, each};
use crate::clock;
use crate::measure::cpu;
use crate::measure::memory::Memory;
use crate::results::Outcome;
use crate::scenario::Scale;
use serde_json::json;
use std::io;

/// Occupants of the large room, and messages there.
const MANY: u32 = 10_000;
const MESSAGES_TO_MANY: u32 = 20;

/// The room.
struct Room {
    address: String,
    /// Sessions of the occupants.
    occupants: Vec<Session>,
}

impl Room {
    /// Makes so many accounts members of a room, and logs them in.
    fn of(server: &Server, count: u32) -> io::Result<Room> {
        let names: Vec<String> = (0..count).map(People::name).collect();
        server.make_room("crowd", &names)?;
        let start = |name: &String| Session::start(server.address, name, true);
        let occupants = names.iter().map(start).collect::<io::Result<_>>()?;
        Ok(Room { address: format!("crowd@conference.{DOMAIN}"), occupants })
    }

    /// Has the occupants enter, one after the other. The one that makes the room of another server
    /// accepts its default form.
    fn enter(&mut self, takes_form: bool) -> io::Result<()> {
        let room = &self.address;
        for (at, one) in self.occupants.iter_mut().enumerate() {
            one.say(&format!(
                "<presence to='{room}/{}'><x xmlns='http://jabber.org/protocol/muc'>\
                 <history maxstanzas='0'/></x></presence>",
                one.name
            ))?;
            one.until("110")?;
            one.settle()?;
            if at == 0 && takes_form {
                one.say(&format!(
                    "<iq type='set' id='form' to='{room}'><query \
                     xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' \
                     type='submit'/></query></iq>"
                ))?;
                one.settle()?;
            }
        }
        self.occupants.iter_mut().try_for_each(Session::settle)
    }

    /// The first says something, until all have it: how long that took, milliseconds.
    fn hears(&mut self, number: u32) -> io::Result<f64> {
        let began = clock::now();
        let room = &self.address;
        self.occupants[0].say(&format!(
            "<message to='{room}' type='groupchat' id='r{number}'><body>{number} {TEXT}</body>\
             </message>"
        ))?;
        let wanted = format!("<body>{number} ");
        for one in &mut self.occupants {
            one.until(&wanted)?;
            one.until("</message>")?;
        }
        Ok(clock::since(began).as_secs_f64() * 1e3)
    }
}

/// A room of each server that is compared.
pub(super) fn compared(
    scale: Scale,
    (kind, server): (Kind, &Server),
    outcome: &mut Outcome,
) -> io::Result<()> {
    let (count, said) = (scale.of(OCCUPANTS).max(2), scale.of(ROOM_MESSAGES));
    let mut room = Room::of(server, count)?;
    room.enter(kind != Kind::Holdline)?;
    let used = each(server, || {
        (0..said).try_for_each(|number| room.hears(number).map(|_| ()))?;
        Ok(said * count)
    })?;
    let name = format!("{}: a message in a room of {count}, each occupant", kind.name());
    outcome.figure(&name, used, "µs of CPU");
    Ok(())
}

/// Runs the scenario of the large room.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let (count, said) = (scale.of(MANY).max(2), scale.of(MESSAGES_TO_MANY));
    let plan = json!({
        "occupants": count, "messages": said, "text_bytes": TEXT.len(), "tls": false,
    });
    let mut outcome = Outcome::new(plan);
    let kind = Kind::Holdline;
    let server = kind.start(People { count, contacts: 0 })?;
    let pid = server.pid();
    let mut room = Room::of(&server, count)?;
    let memory = || -> io::Result<f64> {
        std::thread::sleep(kind.rest());
        Ok(Memory::of(pid)?.private_dirty as f64)
    };
    let before = memory()?;
    let used = cpu::used(pid)?;
    room.enter(false)?;
    let used = cpu::used(pid)? - used;
    let micros = used.as_nanos() as f64 / 1e3 / f64::from(count);
    outcome.figure("an occupant enters", micros, "µs of CPU");
    outcome.figure("an occupant", (memory()? - before) / f64::from(count), "bytes");
    let mut lasted = Vec::new();
    let used = each(&server, || {
        for number in 0..said {
            lasted.push(room.hears(number)?);
        }
        Ok(said * count)
    })?;
    outcome.figure("a message, each occupant", used, "µs of CPU");
    lasted.sort_unstable_by(f64::total_cmp);
    let middle = lasted.get(lasted.len() / 2).copied().unwrap_or_default();
    outcome.figure("a message until all have read it, p50", middle, "ms");
    outcome.detail("messages until all have read them, ms", json!(lasted));
    Ok(outcome)
}
