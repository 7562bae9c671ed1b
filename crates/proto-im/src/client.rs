//! The client's side of a connection: for the command line, the laboratory and tests.
//!
//! The machine logs in when the link opens, pings the server now and then, carries out its owner's
//! orders and reports events. Its owner remembers what the device has read and which message it
//! expects next, and decides when to reconnect. The same machine may be opened again on a new
//! connection.
//!
//! Owners that want its words get [`ImEvent`]s; the laboratory, of whose clients there are many,
//! looks at the frames themselves ([`Client::open`], [`Client::next`], [`Client::end`]).

mod chatroom;
mod conversation;
mod group;
mod order;
mod people;
mod receipts;
mod word;

pub use word::{ChatroomEntry, ChatroomTold, ImEvent, ImOrder, Profile, SaidEnd, Welcome};

use crate::codec::client_frame::{ClientFrame, LoginFields};
use crate::codec::content::EntryFields;
use crate::codec::conversation::MarkedFields;
use crate::codec::frame::{PREFACE, SERVER_BYTES_MAX, split};
use crate::codec::server_frame::{
    EndFields, HistoryPageFields, LoggedInFields, PageFields, SentFields, ServerFrame,
};
use crate::codec::{EndReason, WireFault};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::ChatMessage;
use model::close::CloseReason;
use model::link::Link;
use model::machine::{Input, Machine, Outbox, TurnAway};
use model::timeline::Seq;
use std::sync::Arc;
use std::time::Duration;

type Out = Outbox<ImEvent>;

/// Seconds a client waits for a Pong.
const PONG_WAIT_S: u32 = 30;

/// One device of an account.
pub struct Client {
    profile: Arc<Profile>,
    /// When the next Ping is due.
    beat_at: Instant,
    /// The silence in force, seconds.
    silence_s: u16,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No connection was begun, or the last one has ended.
    Idle,
    /// The Login is on its way.
    Asking,
    /// The device has its session.
    LoggedIn,
    /// The server said no, or farewell.
    Out,
}

impl Client {
    /// A device that logs in so.
    pub fn new(profile: Arc<Profile>) -> Client {
        Client { profile, beat_at: Instant::default(), silence_s: 0, state: State::Idle }
    }

    /// Changes how it logs in next time.
    pub fn set_profile(&mut self, profile: Arc<Profile>) {
        self.profile = profile;
    }

    /// Whether the device has its session.
    pub fn is_logged_in(&self) -> bool {
        self.state == State::LoggedIn
    }

    /// Calls: the preface, and the Login (IM 3.1).
    pub fn open<U>(&mut self, out: &mut Outbox<U>) {
        self.state = State::Asking;
        out.bytes().extend_from_slice(&PREFACE);
        let profile = &self.profile;
        let (method, data): (&str, &[u8]) =
            profile.method.as_ref().map_or(("", &[]), |(method, data)| (method, data));
        let login = LoginFields {
            name: &profile.name,
            device: &profile.device,
            password: &profile.password,
            method,
            data,
            silence_s: u32::from(profile.silence_s),
        };
        ClientFrame::Login(login).write(out.bytes());
    }

    /// Takes the next whole frame off the input and goes along with it; what it says is for whoever
    /// drives the machine, in whatever words. `None`: nothing is there to be looked at.
    pub fn next<'a, U>(
        &mut self,
        now: Now,
        input: &mut Input<'a>,
        out: &mut Outbox<U>,
    ) -> Result<Option<ServerFrame<'a>>, CloseReason> {
        while self.state != State::Out {
            let frame = split(input.rest(), SERVER_BYTES_MAX).map_err(WireFault::close_reason)?;
            let Some((frame, length)) = frame else { return Ok(None) };
            input.take(length);
            let read = ServerFrame::read(frame).map_err(WireFault::close_reason)?;
            if let Some(frame) = read {
                self.hear(now, &frame, out).map_err(WireFault::close_reason)?;
                return Ok(Some(frame));
            }
        }
        // What follows a farewell is not looked at: the server closes.
        input.take(input.rest().len());
        Ok(None)
    }

    /// The connection has ended.
    pub fn end(&mut self) {
        self.state = State::Idle;
    }

    /// Handles a frame of the server.
    fn hear<U>(
        &mut self,
        now: Now,
        frame: &ServerFrame<'_>,
        out: &mut Outbox<U>,
    ) -> Result<(), WireFault> {
        let is_asking = self.state == State::Asking;
        match frame {
            ServerFrame::LoggedIn(fields) if is_asking => {
                let silence_s = u16::try_from(fields.silence_s).map_err(|_| WireFault::Range)?;
                self.state = State::LoggedIn;
                self.silence_s = silence_s.max(1);
                out.silence((u32::from(self.silence_s) + PONG_WAIT_S) * 1_000);
                self.beat_later(now, out);
            }
            ServerFrame::Challenge(_) if is_asking => {}
            ServerFrame::Refused(_) if is_asking => self.state = State::Out,
            ServerFrame::End(_) => self.state = State::Out,
            ServerFrame::LoggedIn(_) | ServerFrame::Challenge(_) | ServerFrame::Refused(_) => {
                return Err(WireFault::OutOfOrder);
            }
            _ if self.state != State::LoggedIn => return Err(WireFault::OutOfOrder),
            _ => {}
        }
        Ok(())
    }

    fn beat_later<U>(&mut self, now: Now, out: &mut Outbox<U>) {
        self.beat_at = now.after(Duration::from_secs(u64::from(self.silence_s)));
        out.wake(self.beat_at);
    }
}

impl Machine for Client {
    type Up = ImEvent;
    type Down = ImOrder;

    fn opened(&mut self, _: Now, _: &Link, out: &mut Out) -> Result<(), CloseReason> {
        self.open(out);
        Ok(())
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        while let Some(frame) = self.next(now, input, out)? {
            out.say(event_of(&frame).map_err(WireFault::close_reason)?);
        }
        Ok(())
    }

    fn command(&mut self, _: Now, order: ImOrder, out: &mut Out) -> Result<(), CloseReason> {
        let may = match order {
            ImOrder::Proceed(_) => self.state == State::Asking,
            ImOrder::Goodbye => self.state != State::Idle,
            _ => self.state == State::LoggedIn,
        };
        if !may {
            return Ok(());
        }
        let frame = order::frame_of(&order);
        frame.write(out.bytes());
        if order == ImOrder::Goodbye { Err(CloseReason::OwnStop) } else { Ok(()) }
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        if self.state != State::LoggedIn {
            return Ok(());
        }
        if now.mono < self.beat_at {
            out.wake(self.beat_at);
            return Ok(());
        }
        self.beat_later(now, out);
        self.command(now, ImOrder::Ping, out)
    }

    fn silent(&mut self, _: Now, _: &mut Out) -> Result<(), CloseReason> {
        Err(CloseReason::KeepAliveTimeout)
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Out) {}

    fn closed(&mut self, _: Now, _: CloseReason, _: &mut Out) {
        self.end();
    }
}

/// A frame as a word that owns what it says.
fn event_of(frame: &ServerFrame<'_>) -> Result<ImEvent, WireFault> {
    Ok(match frame {
        ServerFrame::LoggedIn(fields) => ImEvent::LoggedIn(Box::new(welcome(fields)?)),
        ServerFrame::Challenge(data) => ImEvent::Challenge((*data).into()),
        ServerFrame::Refused(fields) => ImEvent::Refused(said(fields)),
        ServerFrame::End(fields) => ImEvent::End(said(fields)),
        &ServerFrame::Sent(SentFields { number, id, seq, at_ms, again }) => {
            ImEvent::Sent { number, id, seq, at_ms, again }
        }
        ServerFrame::Failed(fields) => word::failed(fields),
        ServerFrame::Message(entry) => {
            let (seq, message) = entry_of(entry)?;
            ImEvent::Message { seq, message }
        }
        ServerFrame::Event(fields) => conversation::event(fields)?,
        ServerFrame::MarkedRead(MarkedFields { number, upto }) => {
            ImEvent::MarkedRead { number: *number, upto: *upto }
        }
        ServerFrame::Set(number) => ImEvent::Set { number: *number },
        ServerFrame::Conversations(page) => conversation::conversations(page)?,
        ServerFrame::Contacts(page) => people::contacts(page)?,
        ServerFrame::Done(number) => ImEvent::Done { number: *number },
        ServerFrame::Contact(change) => people::changed(change)?,
        ServerFrame::Presence(presence) => people::presence(presence)?,
        ServerFrame::Upload(fields) => {
            ImEvent::Upload { number: fields.number, slot: Box::new(fields.slot()) }
        }
        ServerFrame::Found(page) => ImEvent::Found(Box::new(page.page()?)),
        ServerFrame::Transient(fields) => ImEvent::Transient(Box::new(fields.transient()?)),
        ServerFrame::Notify(head) => ImEvent::Notify(*head),
        ServerFrame::Page(page) => page_of(page)?,
        ServerFrame::History(page) => history_of(page)?,
        ServerFrame::Changed(fields) => group::changed(fields)?,
        ServerFrame::Members(fields) => group::members(fields)?,
        ServerFrame::PushStatus(status) => ImEvent::PushStatus(Box::new(status.status())),
        ServerFrame::PushCode(number) => ImEvent::PushCode { number: *number },
        ServerFrame::Readers(page) => receipts::readers(page)?,
        ServerFrame::Privacy(told) => receipts::privacy(told),
        ServerFrame::Delivered(news) => receipts::delivered(news)?,
        ServerFrame::ChatroomJoined(fields) => chatroom::joined(fields)?,
        ServerFrame::ChatroomSaid(fields) => chatroom::said(fields)?,
        ServerFrame::ChatroomMissed(fields) => chatroom::missed(fields)?,
        ServerFrame::ChatroomNews(fields) => chatroom::news(fields)?,
        ServerFrame::Token(token) => ImEvent::Token { number: token.number },
        ServerFrame::Pong => ImEvent::Pong,
    })
}

fn welcome(fields: &LoggedInFields<'_>) -> Result<Welcome, WireFault> {
    Ok(Welcome {
        account: AccountAddress::parse(fields.account, "").map_err(|_| WireFault::Address)?,
        head: fields.head,
        cursor: fields.cursor,
        server_ms: fields.server_ms,
        data: fields.data.into(),
        silence_s: u16::try_from(fields.silence_s).map_err(|_| WireFault::Range)?,
        page_messages_max: fields.page_messages_max,
        text_bytes_max: fields.text_bytes_max,
        extra_bytes_max: fields.extra_bytes_max,
        requests_max: fields.requests_max,
        file_bytes_max: fields.file_bytes_max,
    })
}

fn said(fields: &EndFields<'_>) -> SaidEnd {
    SaidEnd {
        reason: EndReason::of(fields.reason),
        word: fields.word.into(),
        retry_after_ms: fields.retry_after_ms,
        server: fields.server.into(),
    }
}

fn entry_of(entry: &EntryFields<'_>) -> Result<(Seq, Arc<ChatMessage>), WireFault> {
    Ok((entry.seq, Arc::new(entry.message.message()?)))
}

fn page_of(page: &PageFields<'_>) -> Result<ImEvent, WireFault> {
    let messages = page.entries.iter().map(entry_of).collect::<Result<_, _>>()?;
    let events = conversation::events_of(&page.events)?;
    let PageFields { number, upto, head, .. } = *page;
    Ok(ImEvent::Page { number, messages, events, upto, head })
}

fn history_of(page: &HistoryPageFields<'_>) -> Result<ImEvent, WireFault> {
    let messages = page.messages.iter().map(|message| message.message().map(Arc::new));
    let messages = messages.collect::<Result<_, _>>()?;
    Ok(ImEvent::History { number: page.number, messages, more: page.more })
}
