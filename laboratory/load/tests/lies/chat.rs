//! A server of instant messaging of few words that lies as it is told, over `testkit`'s faulty
//! server, and counts what it did: the known truth.
//!
//! The server knows Login without a proof, Send, Pull, Acknowledge, Ping and Goodbye, and groups
//! that are made and added to. Every account that is named exists; an inbox has references to
//! nothing but itself. In a group a lie concerns one member's inbox.

use crate::broker::{EACH, Truth, TruthTeller};
use proto_im::codec::client_frame::{ClientFrame, LoginFields, SendFields};
use proto_im::codec::content::{ContentFields, EntryFields, MessageFields};
use proto_im::codec::frame::{PREFACE, split};
use proto_im::codec::group::{ChangedFields, GroupFields};
use proto_im::codec::server_frame::{
    EndFields, FailedFields, LoggedInFields, PageFields, SentFields, ServerFrame,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use testkit::faulty::{ConnectionFate, FateStep, Faulty, Mediator};

/// How it lies. Every [`EACH`]th message is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    None,
    /// Sent, and nobody ever has it.
    Drop,
    /// Sent and delivered, and not stored.
    Forget,
    /// Delivered twice at one place.
    Repeat,
    /// The message has two places in the inbox.
    StoreTwice,
    /// The message waits for the next one, and has the place behind it.
    Swap,
    /// A bit of what is said.
    Change,
    /// Stored and delivered, and never answered.
    NoSent,
    /// To the inbox of another one.
    Astray,
    /// Not done, with this fault.
    Fail(u32),
    /// Busy at first.
    Busy,
    /// Every second login, with this reason.
    Refuse(u32),
    /// Said to a group, and not in the inbox of who said it.
    KeepOwn,
}

/// The member of groups whom lies concern.
const ONE: &str = "r1";
/// The device that makes groups, of which the laboratory counts nothing.
const FOUNDER: &str = "founder";
/// Prefix of devices that read whole inboxes.
const AUDITS: &str = "auditors";

/// Entry of an inbox.
#[derive(Clone)]
struct Entry {
    from: String,
    /// The group; empty: whose inbox it is.
    to: String,
    kind: u32,
    client_id: Vec<u8>,
    text: String,
    extra: Vec<u8>,
}

#[derive(Default)]
struct State {
    truth: Truth,
    heard: BTreeMap<u64, bool>,
    logins: u64,
    accounts: BTreeMap<u64, String>,
    devices: BTreeMap<u64, String>,
    groups: BTreeMap<String, Vec<String>>,
    inboxes: BTreeMap<String, Vec<Entry>>,
    /// Connections that are sent what comes.
    in_step: BTreeSet<u64>,
    was_busy: BTreeSet<Vec<u8>>,
    waits: Option<(String, Entry)>,
    /// Answers that each connection is owed.
    owed: BTreeMap<u64, u64>,
}

/// The server.
pub struct Chat {
    server: Faulty,
    state: Arc<Mutex<State>>,
}

impl Chat {
    /// Begins, lying so.
    pub fn start(lie: Lie) -> Chat {
        let state = Arc::new(Mutex::new(State::default()));
        let mine = state.clone();
        let mediator: Mediator = Arc::new(move |from, heard: &mut Vec<u8>| {
            let mut state = mine.lock().unwrap_or_else(PoisonError::into_inner);
            let mut out = Vec::new();
            if !*state.heard.entry(from).or_default() && heard.starts_with(&PREFACE) {
                heard.drain(..PREFACE.len());
                state.heard.insert(from, true);
            }
            while let Some((frame, length)) = split(heard, 1 << 20).expect("a good length") {
                let frame = frame.to_vec();
                heard.drain(..length);
                state.take(lie, from, &frame, &mut out);
            }
            out
        });
        let serves = ConnectionFate::new("serves", [FateStep::Mediate(mediator)]);
        Chat { server: Faulty::start(vec![serves]), state }
    }

    /// Where it listens.
    pub fn address(&self) -> std::net::SocketAddr {
        self.server.address()
    }
}

impl TruthTeller for Chat {
    fn truth(&self) -> Truth {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).truth.clone()
    }
}

type Out = Vec<(u64, Vec<u8>)>;

fn say(to: u64, frame: &ServerFrame<'_>, out: &mut Out) {
    let mut bytes = Vec::new();
    frame.write(&mut bytes);
    out.push((to, bytes));
}

fn whole(name: &str) -> String {
    format!("{name}@localhost")
}

/// Fields of an entry, with its place and receiver.
fn fields<'a>(seq: u64, own: &'a str, entry: &'a Entry) -> EntryFields<'a> {
    let Entry { kind, text, extra, .. } = entry;
    let content = ContentFields::new(*kind, text, extra);
    let to = if entry.to.is_empty() { own } else { &entry.to };
    let message = MessageFields {
        id: seq,
        seq,
        at_ms: 1,
        from: &entry.from,
        device: "d",
        to,
        client_id: &entry.client_id,
        content,
        edited_ms: 0,
        reactions: Vec::new(),
    };
    EntryFields { seq, message }
}

impl State {
    fn take(&mut self, lie: Lie, from: u64, frame: &[u8], out: &mut Out) {
        match ClientFrame::read(frame).expect("a good frame") {
            ClientFrame::Login(login) => self.login(lie, from, &login, out),
            ClientFrame::Send(send) => self.send(lie, from, &send, out),
            ClientFrame::Pull(pull) => {
                let name = self.accounts[&from].clone();
                let inbox = self.inboxes.get(&name).cloned().unwrap_or_default();
                let (after, to) = (pull.after as usize, whole(&name));
                let some = inbox.iter().enumerate().skip(after).take(pull.count as usize);
                let entries: Vec<_> =
                    some.map(|(at, entry)| fields(at as u64 + 1, &to, entry)).collect();
                let (upto, head) = ((after + entries.len()) as u64, inbox.len() as u64);
                if upto >= head {
                    self.in_step.insert(from);
                }
                let page = PageFields { number: pull.number, entries, upto, head, events: vec![] };
                say(from, &ServerFrame::Page(page), out);
            }
            ClientFrame::Group(order) => self.group(from, &order, out),
            ClientFrame::Ping => say(from, &ServerFrame::Pong, out),
            ClientFrame::Goodbye => {
                self.truth.owed -= self.owed.remove(&from).unwrap_or(0);
                self.accounts.remove(&from);
            }
            _ => {}
        }
    }

    /// Makes a group, or adds to one; its members are told.
    fn group(&mut self, from: u64, order: &GroupFields<'_>, out: &mut Out) {
        let own = self.accounts[&from].clone();
        let (number, again) = (self.groups.len(), false);
        let (group, first) = match order.group {
            "" => (format!("g{number}@conference.localhost"), Some(own.clone())),
            known => (known.to_owned(), None),
        };
        let members = self.groups.entry(group.clone()).or_default();
        members.extend(first.into_iter().chain(order.members.iter().map(|it| (*it).to_owned())));
        let (client_id, text) = (order.client_id.to_vec(), order.title.to_owned());
        let (from_, extra) = (whole(&own), b"create".to_vec());
        let entry = Entry { from: from_, to: group.clone(), kind: 3, client_id, text, extra };
        for member in self.groups[&group].clone() {
            self.place(&member, entry.clone(), out);
        }
        let (number, id, seq, at_ms) = (order.number, 1, 1, 1);
        let changed = ChangedFields { number, group: &group, id, seq, at_ms, again };
        say(from, &ServerFrame::Changed(changed), out);
    }

    /// Whether the laboratory counts an entry that this connection is sent.
    fn counts(&self, conn: u64, entry: &Entry) -> bool {
        let (own, device) = (whole(&self.accounts[&conn]), &self.devices[&conn]);
        let is_others = entry.from != own || device.contains(AUDITS) && !entry.to.is_empty();
        device != FOUNDER && entry.kind == 1 && is_others
    }

    fn login(&mut self, lie: Lie, from: u64, login: &LoginFields<'_>, out: &mut Out) {
        self.logins += 1;
        if let Lie::Refuse(reason) = lie
            && self.logins.is_multiple_of(2)
        {
            self.truth.refused += 1;
            let end = EndFields { reason, word: "no", ..EndFields::default() };
            return say(from, &ServerFrame::Refused(end), out);
        }
        self.truth.accepted += u64::from(login.device != FOUNDER);
        self.accounts.insert(from, login.name.to_owned());
        self.devices.insert(from, login.device.to_owned());
        let inbox = self.inboxes.get(login.name);
        let head = inbox.map_or(0, Vec::len) as u64;
        // It will pull all of them.
        let counted = inbox.into_iter().flatten().filter(|entry| self.counts(from, entry));
        self.truth.sent += counted.count() as u64;
        if head == 0 {
            self.in_step.insert(from);
        }
        let accepted = LoggedInFields {
            account: &whole(login.name),
            head,
            silence_s: 300,
            page_messages_max: 16,
            text_bytes_max: 65_536,
            extra_bytes_max: 65_536,
            requests_max: 256,
            ..LoggedInFields::default()
        };
        say(from, &ServerFrame::LoggedIn(accepted), out);
    }

    fn send(&mut self, lie: Lie, from: u64, send: &SendFields<'_>, out: &mut Out) {
        let number = send.number;
        let fails = |fault| {
            ServerFrame::Failed(FailedFields {
                number,
                fault,
                word: "no",
                reason: "",
                retry_after_ms: 0,
            })
        };
        let is_again = self.was_busy.contains(send.client_id);
        self.truth.heard += u64::from(!is_again);
        let concerned = self.truth.heard.is_multiple_of(EACH) && !is_again;
        match lie {
            Lie::Fail(fault) if concerned => {
                self.truth.nacked += 1;
                return say(from, &fails(fault), out);
            }
            Lie::Busy if concerned => {
                self.was_busy.insert(send.client_id.to_vec());
                return say(from, &fails(5), out);
            }
            Lie::NoSent if concerned => {
                self.truth.owed += 1;
                *self.owed.entry(from).or_default() += 1;
            }
            _ => {
                self.truth.acked += 1;
                let sent = SentFields { number, id: 1, seq: 1, at_ms: 1, again: false };
                say(from, &ServerFrame::Sent(sent), out);
            }
        }
        let mut entry = Entry {
            from: whole(&self.accounts[&from]),
            to: String::new(),
            kind: 1,
            client_id: send.client_id.to_vec(),
            text: send.content.text.to_owned(),
            extra: send.content.extra.to_vec(),
        };
        let mut to = send.to.to_owned();
        if self.groups.contains_key(&to) {
            entry.to = to;
            return self.tell_members(lie, concerned, &entry, out);
        }
        match lie {
            _ if !concerned => {}
            Lie::Drop => return,
            Lie::Change => *entry.extra.last_mut().expect("something is said") ^= 1,
            Lie::Swap => {
                self.waits = Some((to, entry));
                return;
            }
            Lie::Astray => to = "r0".to_owned(),
            Lie::StoreTwice => self.place(&to, entry.clone(), out),
            _ => {}
        }
        self.place(&to, entry.clone(), out);
        if concerned && lie == Lie::Forget {
            self.forget(&to);
        }
        if concerned && lie == Lie::Repeat {
            let seq = self.inboxes[&to].len() as u64;
            self.deliver(&to, seq, &entry, out);
        }
        if let Some((to, entry)) = self.waits.take() {
            self.place(&to, entry, out);
        }
    }

    /// Puts something into the inboxes of a group's members, and lies about one of them.
    fn tell_members(&mut self, lie: Lie, concerned: bool, entry: &Entry, out: &mut Out) {
        for member in self.groups[&entry.to].clone() {
            let is_own = whole(&member) == entry.from;
            match lie {
                _ if !concerned => {}
                Lie::KeepOwn if is_own => continue,
                Lie::Drop if member == ONE => continue,
                Lie::StoreTwice if member == ONE => self.place(&member, entry.clone(), out),
                Lie::Swap if member == ONE => {
                    self.waits = Some((member, entry.clone()));
                    continue;
                }
                _ => {}
            }
            self.place(&member, entry.clone(), out);
        }
        if let Some((member, entry)) = self.waits.take_if(|_| !concerned) {
            self.place(&member, entry, out);
        }
    }

    /// Puts something into an inbox, and sends it to who is there.
    fn place(&mut self, to: &str, entry: Entry, out: &mut Out) {
        let inbox = self.inboxes.entry(to.to_owned()).or_default();
        inbox.push(entry.clone());
        let seq = inbox.len() as u64;
        self.deliver(to, seq, &entry, out);
    }

    fn deliver(&mut self, to: &str, seq: u64, entry: &Entry, out: &mut Out) {
        let there = self.accounts.iter().filter(|(_, name)| *name == to);
        let there: Vec<u64> = there.map(|(conn, _)| *conn).collect();
        for conn in there.into_iter().filter(|conn| self.in_step.contains(conn)) {
            self.truth.sent += u64::from(self.counts(conn, entry));
            say(conn, &ServerFrame::Message(fields(seq, &whole(to), entry)), out);
        }
    }

    /// Forgets the entry that was placed last: in its place stands a message of the inbox's owner,
    /// which nobody counts.
    fn forget(&mut self, to: &str) {
        let last = self.inboxes.get_mut(to).and_then(|inbox| inbox.last_mut());
        last.expect("it was placed").from = whole(to);
    }
}
