//! XMPP beside Prosody and ejabberd, in one run: what an idle session keeps in memory, and what a
//! login, a message, a message in a room and a page of an archive cost in CPU.
//!
//! Each server in turn has the same people and the same orders. Clients are blocking streams that
//! do not parse; what is measured is the server's own CPU by the scheduler's accounting. TLS is
//! left out. A server that is not installed is reported and left out.

pub mod room;
mod servers;
mod session;

use crate::clock;
use crate::measure::memory::Memory;
use crate::measure::{cpu, slope};
use crate::results::Outcome;
use crate::scenario::Scale;
use serde_json::json;
use servers::{Kind, People, Server};
use session::{DOMAIN, Session};
use std::io;
use std::time::Duration;

/// Sessions of the largest step; there are four. Of ours there are more: what grows in steps weighs
/// less then, where a session is small.
const SESSIONS: u32 = 2_000;
const SESSIONS_OF_OURS: u32 = 12_000;
const STEPS: u32 = 4;
/// Contacts of each, in the second run.
const CONTACTS: u32 = 20;
/// Messages between two.
const MESSAGES: u32 = 20_000;
/// Messages under way at once.
const WINDOW: u32 = 50;
/// Occupants of a room, and messages there.
const OCCUPANTS: u32 = 1_000;
const ROOM_MESSAGES: u32 = 100;
/// Pages of an archive, of so many messages each.
const PAGES: u32 = 1_000;
const PAGE: u32 = 50;
/// Messages and pages are fewer where they would last longer than this.
const LASTS: Duration = Duration::from_secs(30);
/// Text of a message.
const TEXT: &str = "a text of about a hundred bytes, as people write them: are you coming to lunch \
                    today, or later on?";

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let plan = json!({
        "sessions": scale.of(SESSIONS), "sessions_of_ours": scale.of(SESSIONS_OF_OURS),
        "steps": STEPS, "contacts": CONTACTS,
        "messages": scale.of(MESSAGES), "window": WINDOW, "text_bytes": TEXT.len(),
        "occupants": scale.of(OCCUPANTS), "room_messages": scale.of(ROOM_MESSAGES),
        "pages": scale.of(PAGES), "page": PAGE, "scram": "SHA-256, 4096 rounds", "tls": false,
    });
    let mut outcome = Outcome::new(plan);
    for kind in Kind::ALL {
        let Some(version) = kind.version() else {
            eprintln!("  {} is not installed: it is left out", kind.name());
            continue;
        };
        outcome.detail(&format!("{} version", kind.name()), version);
        let with_name = |error: io::Error| io::Error::other(format!("{}: {error}", kind.name()));
        all(scale, kind, &mut outcome).map_err(with_name)?;
    }
    compare(&mut outcome);
    Ok(outcome)
}

/// Compares ours with the best of the others that are installed.
fn compare(outcome: &mut Outcome) {
    let ours = Kind::Holdline.name();
    let whats =
        outcome.figures.iter().filter_map(|it| it.name.strip_prefix(ours)?.strip_prefix(": "));
    for what in whats.map(str::to_owned).collect::<Vec<_>>() {
        let of = |kind: Kind| {
            let name = format!("{}: {what}", kind.name());
            outcome.figures.iter().find(|it| it.name == name).map(|it| it.value)
        };
        let others = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Holdline);
        let best = others.filter_map(of).reduce(f64::min);
        if let Some((ours, best)) = of(Kind::Holdline).zip(best) {
            outcome.figure(&format!("{what}: against the best peer"), ours / best, "times");
        }
    }
}

/// All that is measured of one server.
fn all(scale: Scale, kind: Kind, outcome: &mut Outcome) -> io::Result<()> {
    for contacts in [0, CONTACTS] {
        sessions(scale, kind, contacts, outcome)?;
    }
    let count = scale.of(OCCUPANTS).max(2);
    let server = kind.start(People { count, contacts: 0 })?;
    messages(scale, (kind, &server), outcome)?;
    room::compared(scale, (kind, &server), outcome)
}

/// Bytes of an idle session, and the CPU of a login.
fn sessions(scale: Scale, kind: Kind, contacts: u32, outcome: &mut Outcome) -> io::Result<()> {
    let count = scale.of(match kind {
        Kind::Holdline => SESSIONS_OF_OURS,
        _ => SESSIONS,
    });
    let server = kind.start(People { count, contacts })?;
    let pid = server.pid();
    let mut all = Vec::new();
    let mut points = Vec::new();
    let mut used = Duration::ZERO;
    for step in 1..=STEPS {
        let before = cpu::used(pid)?;
        let upto = count * step / STEPS;
        for at in all.len() as u32..upto {
            all.push(Session::start(server.address, &People::name(at), true)?);
        }
        used += cpu::used(pid)? - before;
        all.iter_mut().try_for_each(Session::settle)?;
        std::thread::sleep(kind.rest());
        points.push((f64::from(upto), Memory::of(pid)?.private_dirty as f64));
    }
    let line = slope::through(&points);
    let (name, with) = (kind.name(), format!("with {contacts} contacts"));
    outcome.figure(&format!("{name}: user bytes a session, {with}"), line.each, "bytes");
    let each = used.as_nanos() as f64 / 1e3 / f64::from(count);
    outcome.figure(&format!("{name}: a login, {with}"), each, "µs of CPU");
    outcome.detail(&format!("{name}: bytes by sessions, {with}"), json!(points));
    outcome.detail(&format!("{name}: R² of that, {with}"), line.r2);
    Ok(())
}

/// CPU that the server uses for something, microseconds each; how often it was done is the answer.
fn each(server: &Server, what: impl FnOnce() -> io::Result<u32>) -> io::Result<f64> {
    let before = cpu::used(server.pid())?;
    let count = what()?;
    let used = cpu::used(server.pid())? - before;
    Ok(used.as_nanos() as f64 / 1e3 / f64::from(count))
}

/// Messages between two who are there, archived and not, and pages of what was.
fn messages(
    scale: Scale,
    (kind, server): (Kind, &Server),
    outcome: &mut Outcome,
) -> io::Result<()> {
    let mut ann = Session::start(server.address, &People::name(0), true)?;
    let mut bob = Session::start(server.address, &People::name(1), true)?;
    let (count, name) = (scale.of(MESSAGES), kind.name());
    let hint = "<no-store xmlns='urn:xmpp:hints'/><no-permanent-store xmlns='urn:xmpp:hints'/>";
    for (what, hints) in [("archived", ""), ("not archived", hint)] {
        // The first are not counted: buffers grow, an archive's file is made.
        talk((&mut ann, &mut bob), WINDOW, hints)?;
        let used = each(server, || talk((&mut ann, &mut bob), count, hints))?;
        outcome.figure(&format!("{name}: a message, {what}"), used, "µs of CPU");
    }
    let pages = scale.of(PAGES);
    let used = each(server, || {
        let (began, mut done) = (clock::now(), 0);
        while done < pages && clock::since(began) < LASTS {
            done += 1;
            ann.say(&format!(
                "<iq type='set' id='page'><query xmlns='urn:xmpp:mam:2'><x \
                 xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'><value>\
                 urn:xmpp:mam:2</value></field><field var='with'><value>{}@{DOMAIN}</value>\
                 </field></x><set xmlns='http://jabber.org/protocol/rsm'><max>{PAGE}</max>\
                 <before/></set></query></iq>",
                bob.name
            ))?;
            let told = ann.until("</fin>")?;
            let count = told.matches("<result ").count() as u32;
            if count != PAGE.min(scale.of(MESSAGES)) {
                return Err(io::Error::other(format!("{name}: a page of {count} messages")));
            }
            ann.until("</iq>")?;
        }
        Ok(done)
    })?;
    outcome.figure(&format!("{name}: a page of {PAGE} from an archive"), used, "µs of CPU");
    Ok(())
}

/// One says so many to the other, a few at a time.
fn talk((ann, bob): (&mut Session, &mut Session), count: u32, hints: &str) -> io::Result<u32> {
    let to = format!("{}@{DOMAIN}/bench", bob.name);
    let (began, mut said) = (clock::now(), 0);
    while said < count && clock::since(began) < LASTS {
        let some = WINDOW.min(count - said);
        let mut text = String::new();
        for number in said..said + some {
            text += &format!(
                "<message to='{to}' type='chat' id='m{number}'><body>{TEXT}</body>{hints}</message>"
            );
        }
        ann.say(&text)?;
        for _ in 0..some {
            bob.until("</message>")?;
        }
        said += some;
    }
    ann.settle().map(|()| said)
}
