//! A client of instant messaging: one device of an account, in the laboratory's words.
//!
//! ```text
//!          all up to `has` is here          a gap, a Notify, or behind at the login
//!  LoggedIn ───────────────► in step ─────────────────────────────────► pulling ──┐ Page, Pull
//!                               ▲                                                 │
//!                               └──────────── a page that reaches the head ───────┘
//! ```
//! In step it acknowledges what comes, many at once; else it pulls up to the head. A message is
//! kept until it is answered, and sent again with the same id on the next connection, or where the
//! server was too busy: so each message is said once, whatever breaks. The body that it reports has
//! the form of any other protocol: `extra`, and the text behind it. A client that is *lite* only
//! sends: what is for it it leaves where it is. Chatrooms it joins at login, and their messages,
//! and the counts of those it was not sent, it hands on likewise.
//!
//! The invariant: each place of the inbox is handed on once, unless the server itself says it
//! twice; what happened in a group never is, and what its own account says only to groups, and
//! only where an inbox is audited: there it is one member's entry like any other's.

use base::time::Now;
use client::scram::{self, ScramProof};
use client::{Formula, Scram};
use model::account::AccountAddress;
use model::chat::{Content, PAGE_MESSAGES_MAX};
use model::close::CloseReason;
use model::machine::{Input, Outbox};
use model::ports::virtual_client::{Action, DeliveryClaim, HEAD_BYTES, Observation};
use model::timeline::Seq;
use proto_im::client::{Client as Machine, Profile};
use proto_im::codec::EndReason;
use proto_im::codec::chatroom::JoinFields;
use proto_im::codec::client_frame::{ClientFrame, PullFields, SendFields};
use proto_im::codec::content::{ContentFields, EntryFields, MessageFields};
use proto_im::codec::conversation::EventFields;
use proto_im::codec::server_frame::{EndFields, LoggedInFields, PageFields, ServerFrame};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Profile that the clients of a fleet share.
pub struct ImProfile {
    /// Their accounts.
    pub account: Formula,
    /// The device of each.
    pub device: Formula,
    /// Password of all clients; `None`: none.
    pub password: Option<Box<str>>,
    /// Whether they prove it by SCRAM-SHA-256, and do not show it.
    pub is_scram: bool,
    /// The longest silence they wish, seconds; 0: the server's.
    pub silence_s: u16,
    /// Whether the clients only send.
    pub is_lite: bool,
    /// Whether the clients read whole inboxes: messages of their own account to groups count, too.
    pub audits: bool,
    /// Chatrooms that each is in, from its login on.
    pub rooms: Box<[Box<str>]>,
    /// How nobody logs in: what a machine has while it need not know who it is.
    pub nobody: Arc<Profile>,
}

/// Message to send over IM or XMPP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChatSay {
    /// Client that sends it: its place in the logic.
    pub virtual_client: u32,
    /// Its number among those of this client.
    pub number: u32,
    /// The account, or with IM the group or chatroom, that it is for.
    pub to: Box<str>,
    /// The id by which it is said once.
    pub id: [u8; 16],
    /// The front of its body.
    pub front: Box<[u8]>,
    /// Text behind the head.
    pub text: Arc<str>,
}

/// State that a client has only now and then.
#[derive(Default)]
struct Work {
    /// Messages without an answer, in the order in which they were sent; `true`: it waits to be
    /// sent again.
    unanswered: VecDeque<(ChatSay, bool)>,
    proof: Option<Box<ScramProof>>,
}

/// One client.
pub(crate) struct Client {
    machine: Machine,
    profile: Arc<ImProfile>,
    /// All of the inbox up to here was handed on.
    has: Seq,
    /// The last place of the inbox that is known of.
    head: Seq,
    /// Place up to which messages may come once more on this connection, by no fault of the server.
    paged: Seq,
    acknowledged: Seq,
    work: Option<Box<Work>>,
    number: u32,
    page_max: u16,
    is_pulling: bool,
    /// The last pull was refused for now.
    is_refused: bool,
    /// Some chatroom was not joined.
    is_outside: bool,
    /// A call was asked for, to acknowledge or to say something again.
    is_waking: bool,
}

/// Budget of a client's machine, bytes; what is under way excepted.
pub const IM_CLIENT_BYTES_MAX: usize = 88;
const _: () = assert!(size_of::<Client>() <= IM_CLIENT_BYTES_MAX, "a client of IM is too large");

/// Messages that are acknowledged at once, at the latest.
const ACKNOWLEDGED_AT_ONCE: u64 = 16;
/// Time after which fewer are.
const ACKNOWLEDGE_AFTER: Duration = Duration::from_secs(1);
/// Time after which something is said again that the server was too busy for.
const SAY_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The number of pulls; those of messages begin behind it.
const PULL: u32 = 0;
/// The first of the numbers of joins, a chatroom each; no message comes so far.
const JOIN: u32 = u32::MAX - 64;
/// Faults that are over by themselves (IM 8.2): `busy`, `store_full`, `store_failed`.
pub(crate) const PASSING_FAULTS: std::ops::RangeInclusive<u32> = 5..=7;

type Out = Outbox<Observation>;
type Told = Result<(), CloseReason>;

impl Client {
    pub(super) fn new(profile: Arc<ImProfile>, number: u32) -> Client {
        Client {
            machine: Machine::new(profile.nobody.clone()),
            profile,
            has: 0,
            head: 0,
            paged: 0,
            acknowledged: 0,
            work: None,
            number,
            page_max: PAGE_MESSAGES_MAX,
            is_pulling: false,
            is_refused: false,
            is_outside: false,
            is_waking: false,
        }
    }

    pub(super) fn opened(&mut self, out: &mut Out) -> Told {
        let account = self.profile.account.of(self.number).into_owned();
        let device = self.profile.device.of(self.number);
        let silence_s = self.profile.silence_s;
        let mut profile = Profile { silence_s, ..Profile::new(&account, &device) };
        match self.profile.password.clone() {
            Some(password) if self.profile.is_scram => {
                let mut random = [0; 18];
                getrandom::fill(&mut random).map_err(|_| CloseReason::LocalLimit)?;
                let password = password.into();
                let proof = ScramProof::new(&Scram { user: account, password }, random);
                profile.method = Some((scram::METHOD.into(), proof.first()));
                self.work().proof = Some(Box::new(proof));
            }
            Some(password) => profile.password = password.into_boxed_bytes(),
            None => {}
        }
        self.machine.set_profile(Arc::new(profile));
        self.machine.open(out);
        self.machine.set_profile(self.profile.nobody.clone());
        Ok(())
    }

    pub(super) fn receive(&mut self, now: Now, input: &mut Input<'_>, out: &mut Out) -> Told {
        while let Some(frame) = self.machine.next(now, input, out)? {
            self.take(now, &frame, out)?;
        }
        Ok(())
    }

    /// Carries out an action that every protocol knows. Other actions do nothing.
    pub(super) fn act(&mut self, action: &Action, out: &mut Out) -> Told {
        match action {
            Action::Ping if self.machine.is_logged_in() => ClientFrame::Ping.write(out.bytes()),
            Action::Unbind => {
                ClientFrame::Goodbye.write(out.bytes());
                return Err(CloseReason::OwnStop);
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends a message, now or once the client has its session.
    pub(super) fn say(&mut self, say: ChatSay, out: &mut Out) {
        if self.machine.is_logged_in() {
            write(&say, out);
        }
        self.keep(say);
    }

    /// Keeps a message to send on the next connection.
    pub(crate) fn keep(&mut self, say: ChatSay) {
        self.work().unanswered.push_back((say, false));
    }

    pub(super) fn wake(&mut self, out: &mut Out) -> Told {
        self.is_waking = false;
        if !self.machine.is_logged_in() {
            return Ok(());
        }
        self.acknowledge(out);
        if std::mem::take(&mut self.is_refused) {
            self.pull(out);
        }
        if std::mem::take(&mut self.is_outside) {
            self.join(out);
        }
        let waiting = self.work.iter_mut().flat_map(|work| &mut work.unanswered);
        for (say, waits) in waiting.filter(|(_, waits)| *waits) {
            *waits = false;
            write(say, out);
        }
        Ok(())
    }

    pub(super) fn closed(&mut self) {
        self.machine.end();
        (self.is_pulling, self.is_refused, self.is_waking) = (false, false, false);
        self.is_outside = false;
        if let Some(work) = &mut self.work {
            work.proof = None;
        }
        self.rest();
    }

    fn work(&mut self) -> &mut Work {
        self.work.get_or_insert_default()
    }

    /// Gives back what is not needed any more.
    fn rest(&mut self) {
        let is_idle = |work: &Work| work.unanswered.is_empty() && work.proof.is_none();
        if self.work.as_deref().is_some_and(is_idle) {
            self.work = None;
        }
    }

    fn take(&mut self, now: Now, frame: &ServerFrame<'_>, out: &mut Out) -> Told {
        match frame {
            ServerFrame::LoggedIn(fields) => self.let_in(fields, out)?,
            ServerFrame::Challenge(data) => {
                let proof = self.work.as_mut().and_then(|work| work.proof.as_mut());
                let answer = proof.and_then(|proof| proof.answer(data));
                let answer = answer.ok_or(CloseReason::AuthFailed)?;
                ClientFrame::Proceed(&answer).write(out.bytes());
            }
            ServerFrame::Refused(EndFields { reason, retry_after_ms, .. }) => {
                out.say(Observation::Refused { code: *reason, retry_after_ms: *retry_after_ms });
            }
            ServerFrame::End(EndFields { reason, retry_after_ms, .. }) => {
                out.say(match EndReason::of(*reason) {
                    EndReason::ShuttingDown | EndReason::UseAnother | EndReason::Moved => {
                        let retry_after_ms = *retry_after_ms;
                        Observation::GoAway { retry_after_ms, addrs: Vec::new() }
                    }
                    _ => Observation::Kicked { code: *reason },
                });
            }
            ServerFrame::Sent(sent) => {
                if self.answered(sent.number) {
                    out.say(Observation::TakenAlone { seq: sent.number });
                }
            }
            ServerFrame::Failed(failed) => self.failed(now, (failed.number, failed.fault), out),
            ServerFrame::Message(_) | ServerFrame::Event(_) | ServerFrame::Notify(_)
                if self.profile.is_lite => {}
            ServerFrame::Message(entry) => self.message(now, entry, out),
            // The page that it pulls says that the place of an event is passed (IM 11.1).
            ServerFrame::Notify(head) | ServerFrame::Event(EventFields { seq: head, .. }) => {
                self.head = self.head.max(*head);
                self.pull_if_behind(out);
            }
            ServerFrame::Page(page) => self.page(page, out),
            ServerFrame::ChatroomSaid(_) | ServerFrame::ChatroomMissed(_) => {
                self.in_chatroom(frame, out);
            }
            ServerFrame::ChatroomJoined(_) => {
                let (at_qos, refused) = ([0; 3], Box::default());
                out.say(Observation::Subscribed { granted: 1, at_qos, refused });
            }
            ServerFrame::ChatroomNews(_)
            | ServerFrame::History(_)
            | ServerFrame::Changed(_)
            | ServerFrame::Members(_)
            | ServerFrame::MarkedRead(_)
            | ServerFrame::Set(_)
            | ServerFrame::Conversations(_)
            | ServerFrame::PushStatus(_)
            | ServerFrame::PushCode(_)
            | ServerFrame::Readers(_)
            | ServerFrame::Privacy(_)
            | ServerFrame::Delivered(_)
            | ServerFrame::Contacts(_)
            | ServerFrame::Done(_)
            | ServerFrame::Contact(_)
            | ServerFrame::Presence(_)
            | ServerFrame::Upload(_)
            | ServerFrame::Transient(_)
            | ServerFrame::Token(_)
            | ServerFrame::Found(_) => {}
            ServerFrame::Pong => out.say(Observation::Pong),
        }
        Ok(())
    }

    /// The server has let it in, and has proved that it knows the password where that is wanted.
    fn let_in(&mut self, fields: &LoggedInFields<'_>, out: &mut Out) -> Told {
        let (cursor, head) = (fields.cursor, fields.head);
        let proof = self.work.as_mut().and_then(|work| work.proof.take());
        if proof.is_some_and(|proof| !proof.is_proved(fields.data)) {
            return Err(CloseReason::AuthFailed);
        }
        self.page_max = u16::try_from(fields.page_messages_max).unwrap_or(u16::MAX).max(1);
        let heartbeat_s = u16::try_from(fields.silence_s).unwrap_or(u16::MAX);
        self.logged_in((cursor, head), heartbeat_s, out);
        Ok(())
    }

    /// Handles a message in the chatroom, or a notice of messages left out there.
    fn in_chatroom(&self, frame: &ServerFrame<'_>, out: &mut Out) {
        if self.profile.is_lite {
            return;
        }
        match frame {
            ServerFrame::ChatroomSaid(said)
                if !is_of(said.message.from, &self.profile.account.of(self.number)) =>
            {
                hand_on_message(&said.message, false, out);
            }
            ServerFrame::ChatroomMissed(fields) => {
                out.say(Observation::Skipped { messages: fields.missed });
            }
            _ => {}
        }
    }

    /// The device has its session: it goes on where it was.
    fn logged_in(&mut self, (cursor, head): (Seq, Seq), heartbeat_s: u16, out: &mut Out) {
        let resumed = cursor > 0;
        self.has = self.has.max(cursor);
        (self.head, self.paged, self.acknowledged) = (head.max(self.has), self.has, cursor);
        let is_lite = self.profile.is_lite;
        let behind = if is_lite { 0 } else { self.head - self.has.min(self.head) };
        let offline_count = u32::try_from(behind).unwrap_or(u32::MAX);
        // Who begins elsewhere than at its cursor pulls, too (IM 5.2).
        let pulls = !is_lite && (cursor < head || self.has < head);
        let offline_count = offline_count.max(u32::from(pulls));
        out.say(Observation::Bound { resumed, heartbeat_s, offline_count });
        self.rest();
        self.join(out);
        for (say, waits) in self.work.iter_mut().flat_map(|work| &mut work.unanswered) {
            *waits = false;
            write(say, out);
        }
        if pulls {
            self.is_pulling = true;
            self.pull(out);
        }
    }

    fn pull_if_behind(&mut self, out: &mut Out) {
        if !self.is_pulling && self.has < self.head {
            self.is_pulling = true;
            self.pull(out);
        }
    }

    /// Joins its chatrooms; one that it is in already is joined once.
    fn join(&mut self, out: &mut Out) {
        for (number, room) in (JOIN..).zip(&self.profile.rooms) {
            let join = JoinFields { number, room, history: 0 };
            ClientFrame::JoinChatroom(join).write(out.bytes());
        }
    }

    fn pull(&mut self, out: &mut Out) {
        let count = u32::from(self.page_max.min(PAGE_MESSAGES_MAX));
        ClientFrame::Pull(PullFields { number: PULL, after: self.has, count }).write(out.bytes());
    }

    /// Notes the answer to a message. Returns false if it had one before.
    fn answered(&mut self, number: u32) -> bool {
        let Some(work) = &mut self.work else { return false };
        let at = work.unanswered.iter().position(|(say, _)| say.number == number);
        let was_open = at.and_then(|at| work.unanswered.remove(at)).is_some();
        self.rest();
        was_open
    }

    fn failed(&mut self, now: Now, (number, code): (u32, u32), out: &mut Out) {
        let passes = PASSING_FAULTS.contains(&code);
        if number == PULL {
            self.is_refused = true;
            return self.wake_after(now, SAY_AGAIN_AFTER, out);
        }
        if number >= JOIN {
            self.is_outside = true;
            return self.wake_after(now, SAY_AGAIN_AFTER, out);
        }
        if passes {
            let said = self.work.iter_mut().flat_map(|work| &mut work.unanswered);
            let mut said = said.filter(|(say, _)| say.number == number);
            let Some((_, waits)) = said.next() else { return };
            *waits = true;
            self.wake_after(now, SAY_AGAIN_AFTER, out);
        } else if !self.answered(number) {
            return;
        }
        out.say(Observation::NotTaken { seq: number, code });
    }

    fn wake_after(&mut self, now: Now, span: Duration, out: &mut Out) {
        if !std::mem::replace(&mut self.is_waking, true) {
            out.wake(now.after(span));
        }
    }

    /// The next of the inbox, or one that shows that something was passed over.
    fn message(&mut self, now: Now, entry: &EntryFields<'_>, out: &mut Out) {
        self.head = self.head.max(entry.seq);
        if entry.seq <= self.has {
            if entry.seq > self.paged {
                hand_on_message(&entry.message, true, out);
            }
        } else if self.is_pulling {
            // A page will have it.
        } else if entry.seq == self.has + 1 {
            self.has = entry.seq;
            if self.is_heard(entry, &self.profile.account.of(self.number)) {
                hand_on_message(&entry.message, false, out);
            }
            if self.has - self.acknowledged >= ACKNOWLEDGED_AT_ONCE {
                self.acknowledge(out);
            } else {
                self.wake_after(now, ACKNOWLEDGE_AFTER, out);
            }
        } else {
            self.pull_if_behind(out);
        }
    }

    fn page(&mut self, page: &PageFields<'_>, out: &mut Out) {
        let own = self.profile.account.of(self.number).into_owned();
        let mut messages = 0;
        for entry in &page.entries {
            if self.is_heard(entry, &own) {
                messages += 1;
                hand_on_message(&entry.message, entry.seq <= self.has, out);
            }
            self.has = self.has.max(entry.seq);
        }
        self.has = self.has.max(page.upto);
        self.head = self.head.max(page.head).max(self.has);
        self.paged = self.has;
        self.acknowledge(out);
        let behind = u32::try_from(self.head - self.has).unwrap_or(u32::MAX);
        out.say(Observation::Fetched { messages, behind });
        self.is_pulling = behind > 0;
        if self.is_pulling {
            self.pull(out);
        }
    }

    fn acknowledge(&mut self, out: &mut Out) {
        if self.has > self.acknowledged {
            self.acknowledged = self.has;
            ClientFrame::Acknowledge(self.has).write(out.bytes());
        }
    }

    /// Whether an entry is something that was said, and that this client is to hear.
    fn is_heard(&self, entry: &EntryFields<'_>, own: &str) -> bool {
        let message = &entry.message;
        let is_said = message.content.kind != u32::from(Content::GROUP);
        is_said && (!is_of(message.from, own) || self.profile.audits && is_group(message.to))
    }
}

fn hand_on_message(message: &MessageFields<'_>, again: bool, out: &mut Out) {
    let ContentFields { text, extra, .. } = message.content;
    hand_on((extra, text), message.from, again, out);
}

/// CRC-32 of an account without its domain.
pub(crate) fn sender_sum(address: &str) -> u32 {
    let user = address.split('@').next().unwrap_or_default();
    crc32fast::hash(user.to_lowercase().as_bytes())
}

/// Reports a message's front and the text behind it to the logic, with its sender.
pub(super) fn hand_on((extra, text): (&[u8], &str), from: &str, again: bool, out: &mut Out) {
    let mut head = [0; HEAD_BYTES];
    let (front, behind) = extra.split_at(extra.len().min(HEAD_BYTES));
    head[..front.len()].copy_from_slice(front);
    let mut rest = crc32fast::Hasher::new();
    rest.update(behind);
    rest.update(text.as_bytes());
    let bytes = u32::try_from(extra.len() + text.len()).unwrap_or(u32::MAX);
    let claim = match from {
        "" => DeliveryClaim::Nothing,
        from => DeliveryClaim::Sender(sender_sum(from)),
    };
    out.say(Observation::Heard { bytes, head, rest: rest.finalize(), again, claim });
}

/// Whether a whole address is of the account of this name, which may have a domain.
fn is_of(address: &str, account: &str) -> bool {
    let rest = address.strip_prefix(account);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
}

/// Whether a whole address is a group's (IM 10).
fn is_group(address: &str) -> bool {
    AccountAddress::parse(address, "").is_ok_and(|address| address.is_group())
}

fn write(say: &ChatSay, out: &mut Out) {
    let content = ContentFields::new(1, &say.text, &say.front);
    let (number, to, client_id) = (say.number, &*say.to, &say.id[..]);
    ClientFrame::Send(SendFields { number, to, client_id, content }).write(out.bytes());
}

#[cfg(test)]
mod tests;
