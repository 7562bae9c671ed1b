//! The lies of a server of XMPP: a server of few words that counts what it did, and the runs.
//!
//! The server knows PLAIN, a resource, stream management and messages to accounts, and accepts
//! every other request.

use crate::broker::{EACH, Truth, TruthTeller};
use crate::lab_::{Around, run};
use crate::list::{Lie, MESSAGES};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lab::cause::Cause;
use lab::run::Run;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use testkit::faulty::{ConnectionFate, FateStep, Faulty, Mediator};

/// How it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    None,
    /// Every tenth message comes from the next account.
    OtherSender,
    /// The server acknowledges more stanzas than it received.
    Overcount,
    /// The server never acknowledges every tenth message.
    NoAck,
    /// The server acknowledges every tenth message and delivers it to nobody.
    Drop,
}

const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
const SM: &str = "urn:xmpp:sm:3";

#[derive(Default)]
struct State {
    truth: Truth,
    /// Names logged in on each connection, and those that are online.
    names: BTreeMap<u64, String>,
    there: BTreeMap<String, u64>,
    /// Stanzas that came since stream management began.
    stanzas: BTreeMap<u64, u32>,
}

struct Server {
    server: Faulty,
    state: Arc<Mutex<State>>,
}

type Out = Vec<(u64, Vec<u8>)>;

impl Server {
    fn start(told: Told) -> Server {
        let state = Arc::new(Mutex::new(State::default()));
        let mine = state.clone();
        let mediator: Mediator = Arc::new(move |from, heard: &mut Vec<u8>| {
            let mut state = mine.lock().unwrap_or_else(PoisonError::into_inner);
            let mut out = Vec::new();
            while let Some(element) = take(heard) {
                state.element(told, from, &element, &mut out);
            }
            out
        });
        let fate = ConnectionFate::new("serves", [FateStep::Mediate(mediator)]);
        Server { server: Faulty::start(vec![fate]), state }
    }

    fn url(&self) -> String {
        format!("xmpp://{}", self.server.address())
    }
}

impl TruthTeller for Server {
    fn truth(&self) -> Truth {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).truth.clone()
    }
}

/// Takes the first whole element of the stream, its header included.
fn take(heard: &mut Vec<u8>) -> Option<String> {
    let text = String::from_utf8_lossy(heard).into_owned();
    let tag = text.find('>')? + 1;
    let name = text[1..tag].split([' ', '>', '/']).next().unwrap_or_default();
    let is_alone = name.starts_with('?')
        || name.is_empty()
        || name == "stream:stream"
        || text[..tag].ends_with("/>");
    let end = match is_alone {
        true => tag,
        false => {
            let close = format!("</{name}>");
            text.find(&close)? + close.len()
        }
    };
    *heard = heard.split_off(end);
    Some(text[..end].to_owned())
}

/// Text between these two.
fn between<'a>(text: &'a str, open: &str, close: &str) -> &'a str {
    let rest = text.split_once(open).map_or("", |(_, rest)| rest);
    rest.split_once(close).map_or("", |(inner, _)| inner)
}

impl State {
    fn element(&mut self, told: Told, from: u64, element: &str, out: &mut Out) {
        let mut say = |text: String| out.push((from, text.into_bytes()));
        let name = element[1..].split([' ', '>', '/']).next().unwrap_or_default();
        if matches!(name, "iq" | "presence" | "message") {
            *self.stanzas.entry(from).or_default() += 1;
        }
        match name {
            "stream:stream" => say(self.header(from)),
            "auth" => {
                let plain = STANDARD.decode(between(element, ">", "<")).unwrap_or_default();
                let plain = String::from_utf8_lossy(&plain).into_owned();
                let user = plain.split('\0').nth(1).unwrap_or_default().to_owned();
                self.names.insert(from, user);
                say(format!("<success xmlns='{SASL}'/>"));
            }
            "enable" => {
                self.stanzas.insert(from, 0);
                say(format!("<enabled xmlns='{SM}'/>"));
                self.there.insert(self.names[&from].clone(), from);
                self.truth.accepted += 1;
            }
            "presence" if told == Told::Overcount => {
                self.truth.lied += 1;
                say(format!("<a xmlns='{SM}' h='99'/>"));
            }
            "iq" => {
                let id = between(element, "id='", "'");
                say(format!("<iq type='result' id='{id}'/>"));
            }
            "message" => self.message(told, from, element, out),
            _ => {}
        }
    }

    fn header(&self, from: u64) -> String {
        let features = match self.names.contains_key(&from) {
            true => format!("<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='{SM}'/>"),
            false => {
                format!("<mechanisms xmlns='{SASL}'><mechanism>PLAIN</mechanism></mechanisms>")
            }
        };
        format!(
            "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' \
             id='1' from='h' version='1.0'><stream:features>{features}</stream:features>"
        )
    }

    fn message(&mut self, told: Told, from: u64, element: &str, out: &mut Out) {
        self.truth.heard += 1;
        let concerned = self.truth.heard.is_multiple_of(EACH);
        let is_dropped = told == Told::Drop && concerned;
        self.truth.lied += u64::from(concerned && told != Told::None);
        let to = between(element, "to='", "@");
        let own = self.names[&from].clone();
        let sender = match told == Told::OtherSender && concerned {
            true => self.names.values().find(|name| **name != own).cloned().unwrap_or_default(),
            false => own,
        };
        if let Some(&to) = self.there.get(to).filter(|_| !is_dropped) {
            self.truth.sent += 1;
            let body = between(element, "<body>", "</body>");
            let message = format!(
                "<message type='chat' from='{sender}@h/r' id='1'><body>{body}</body></message>"
            );
            out.push((to, message.into_bytes()));
        }
        // Each is asked about on its own: `h` of a later one is of this one, too.
        let has = self.stanzas[&from];
        if told != Told::NoAck || self.truth.heard != MESSAGES {
            self.truth.acked += 1;
            out.push((from, format!("<a xmlns='{SM}' h='{has}'/>").into_bytes()));
        } else {
            self.truth.owed += 1;
        }
    }
}

const KEYS: &str = "user = \"user-%i@h\"\npassword = \"secret\"\ntimeout = \"600s\"";

/// Four people who say something to any of the others.
fn chat(told: Told) -> Run {
    let server = Server::start(told);
    let plan = format!(
        r#"
[[group]]
name = "g"
threads = 2
{KEYS}
[[stage]]
name = "hold"
clients = {{ g = 4 }}
arrive = {{ shape = "burst" }}
hold = "1h"
[[stage.traffic.g]]
what = "publish"
topic = "user-%i@h"
among = 4
messages = {MESSAGES}
pace = {{ window = 1_000 }}
"#
    );
    run(&plan, &server.url(), Around::of(Some(&server), MESSAGES))
}

/// Four people who log in.
fn login(told: Told, ends: u64) -> Run {
    let server = Server::start(told);
    let plan = format!(
        "[[group]]\nname = \"g\"\nthreads = 1\n{KEYS}\n[[stage]]\nname = \"hold\"\n\
         clients = {{ g = 4 }}\narrive = {{ shape = \"burst\" }}\nhold = \"1s\"\n"
    );
    run(&plan, &server.url(), Around { ends, ..Around::of(Some(&server), 0) })
}

pub fn lies() -> Vec<Lie> {
    let clean =
        &[("messages.missing", 0.0), ("messages.repeated", 0.0), ("messages.other_sender", 0.0)];
    vec![
        Lie::of("works correctly (XMPP)", || chat(Told::None)).counts(clean),
        Lie::of("delivers messages with the wrong sender (XMPP)", || chat(Told::OtherSender))
            .counts(&[("messages.other_sender", 20.0), ("messages.missing", 0.0)])
            .says("target", "20 messages arrived with the wrong sender", "20 of 205"),
        Lie::of("acknowledges more stanzas than were sent (`h` of XEP-0198)", || {
            login(Told::Overcount, 4)
        })
        .counts(&[("messages.overcounted", 4.0)])
        .ends(&[(Cause::ProtocolViolation, 4)])
        .says("target", "4 acknowledgements exceeded the number of stanzas sent", "4"),
        Lie::of("acknowledges messages that it drops (XMPP)", || chat(Told::Drop))
            .counts(&[("messages.missing", 20.0), ("messages.taken", 205.0)])
            .says("target", "20 messages did not arrive.", "20 of 205 (9.76 %)"),
        Lie::of("never acknowledges the last message (XMPP)", || chat(Told::NoAck))
            .counts(&[("messages.unanswered", 1.0), ("messages.missing", 0.0)])
            .says("target", "1 messages were never acknowledged.", "1 of 205"),
    ]
}
