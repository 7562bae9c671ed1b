//! `holdline im chatrooms`: chatrooms are made and changed, and people talk in them.
//!
//! A device that talks is in the room until standard input ends, or the room does. Messages that
//! this device was not sent, since it did not read fast enough, are printed as a number.

use super::keyboard::{Keyboard, LOOK, all_answered};
use super::send::addressee;
use super::{Common, Failure, answer, goodbye, line};
use crate::out;
use base::text::escaped;
use clap::{Subcommand, ValueEnum};
use client::im::{ChatroomEntry, ChatroomTold, ImEvent, ImOrder, ImSession, client_message_id};
use model::account::AccountAddress;
use model::chat::{
    ChatroomAsk, ChatroomOrder, ChatroomState, ChatroomVerb, Content, MEMBERS_PAGE_MAX,
    MembersRange,
};
use std::collections::HashSet;

/// Action on chatrooms.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create a chatroom that you own
    Make(Made),
    /// Chat in a chatroom: typed lines are sent, incoming messages printed; /quit ends
    Talk(Talked),
    /// List participants, one per line: address, role, and whether muted
    Members(Room),
    /// Change a chatroom, or remove participants
    Change(Changed),
}

/// A chatroom.
#[derive(clap::Args)]
struct Room {
    #[command(flatten)]
    common: Common,
    /// Room: NAME, of your own domain, or NAME@live.DOMAIN
    #[arg(value_name = "ROOM")]
    room: String,
}

/// A chatroom that is made.
#[derive(clap::Args)]
struct Made {
    #[command(flatten)]
    room: Room,
    /// Title
    #[arg(long, value_name = "TITLE", default_value = "")]
    title: String,
    /// Number of last messages to keep for participants who join
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    keeps: u16,
    /// Keep them across a restart of the server
    #[arg(long)]
    durable: bool,
}

/// A chatroom that one is in.
#[derive(clap::Args)]
struct Talked {
    #[command(flatten)]
    room: Room,
    /// Number of last messages to show first
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    past: u16,
}

/// A change of a chatroom.
#[derive(clap::Args)]
struct Changed {
    #[command(flatten)]
    room: Room,
    /// Action
    #[arg(value_name = "VERB")]
    verb: Verb,
    /// Users: NAME, of your own domain, or NAME@DOMAIN
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Title or announcement
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    text: String,
}

/// A verb of the command line.
#[derive(Clone, Copy)]
struct Verb(ChatroomVerb);

impl ValueEnum for Verb {
    fn value_variants<'a>() -> &'a [Verb] {
        use ChatroomVerb::*;
        const ALL: [Verb; 12] = [
            Verb(Rename),
            Verb(Announce),
            Verb(Promote),
            Verb(Demote),
            Verb(Mute),
            Verb(Unmute),
            Verb(Kick),
            Verb(Ban),
            Verb(Unban),
            Verb(Quiet),
            Verb(Open),
            Verb(Close),
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.word()))
    }
}

/// Carries out the command.
pub(super) fn chatrooms(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Make(made) => {
            let Made { room, title, keeps, durable } = made;
            let order = ChatroomOrder {
                room: addressee(&room.room)?,
                verb: ChatroomVerb::Create,
                text: title.into(),
                accounts: Vec::new(),
                keeps,
                durable,
            };
            give(&room.common, order)
        }
        Command::Change(changed) => {
            let Changed { room, verb, names, text } = changed;
            let accounts = names.iter().map(|name| addressee(name)).collect::<Result<_, _>>()?;
            let order = ChatroomOrder {
                room: addressee(&room.room)?,
                verb: verb.0,
                text: text.into(),
                accounts,
                keeps: 0,
                durable: false,
            };
            give(&room.common, order)
        }
        Command::Members(room) => members(&room),
        Command::Talk(talked) => talk(&talked),
    }
}

fn give(common: &Common, order: ChatroomOrder) -> Result<(), Failure> {
    let (mut session, _) = common.login("chatrooms")?;
    session.order(ImOrder::Chatroom { number: 1, ask: Box::new(ChatroomAsk::Order(order)) });
    answer(&mut session, |event| match event {
        ImEvent::Done { number: 1 } => Some(Ok(())),
        ImEvent::Failed { number: 1, word, .. } => Some(Err(format!("failed: {word}"))),
        _ => None,
    })?;
    goodbye(session);
    Ok(())
}

/// Joins a room.
fn join(session: &mut ImSession, room: &str, history: u16) -> Result<Box<ChatroomEntry>, Failure> {
    let ask = Box::new(ChatroomAsk::Join { room: addressee(room)?, history });
    session.order(ImOrder::Chatroom { number: 1, ask });
    answer(session, |event| match event {
        ImEvent::ChatroomJoined(joined) if joined.number == 1 => Some(Ok(joined)),
        ImEvent::Failed { number: 1, word, .. } => Some(Err(format!("not joined: {word}"))),
        _ => None,
    })
}

fn members(room: &Room) -> Result<(), Failure> {
    let (mut session, _) = room.common.login("chatrooms")?;
    let joined = join(&mut session, &room.room, 0)?;
    let mut from = 0;
    loop {
        let (group, version, count) = (joined.room.clone().into(), 1, MEMBERS_PAGE_MAX);
        let range = Box::new(MembersRange { group, version, from, count, banned: false });
        session.order(ImOrder::Members { number: 2, range });
        let page = answer(&mut session, |event| match event {
            ImEvent::Members(page) if page.number == 2 => Some(Ok(page)),
            ImEvent::Failed { number: 2, word, .. } => {
                Some(Err(format!("list not available: {word}")))
            }
            _ => None,
        })?;
        for it in &page.members {
            let muted = if it.muted { " muted" } else { "" };
            out!("{} {}{muted}", it.member.address, it.role.word());
        }
        from += page.members.len() as u32;
        if page.members.is_empty() || from >= page.total {
            break;
        }
    }
    goodbye(session);
    Ok(())
}

/// Session that is in a chatroom.
struct Guest {
    session: ImSession,
    me: AccountAddress,
    room: AccountAddress,
    shown: ChatroomState,
    /// Lines typed here that are not answered, by the requests' numbers.
    unanswered: HashSet<u32>,
    number: u32,
}

fn talk(talked: &Talked) -> Result<(), Failure> {
    let (mut session, welcome) = talked.room.common.login("talk")?;
    let joined = join(&mut session, &talked.room.room, talked.past)?;
    joined.history.iter().for_each(|message| out!("{}", line(message)));
    let muted = if joined.muted { ", muted" } else { "" };
    note!("{} is in {} as {}{muted}; /quit ends", welcome.account, joined.room, joined.role.word());
    let mut guest = Guest {
        session,
        me: welcome.account.clone(),
        room: joined.room.clone(),
        shown: ChatroomState::default(),
        unanswered: HashSet::new(),
        number: 1,
    };
    guest.show(joined.state);
    guest.go_on()?;
    goodbye(guest.session);
    Ok(())
}

impl Guest {
    fn go_on(&mut self) -> Result<(), Failure> {
        let mut keyboard = Keyboard::new()?;
        while !out::is_closed() {
            while let Some(line) = keyboard.line(self.unanswered.len()) {
                self.say(&line)?;
            }
            let event = self.session.poll(LOOK)?;
            if let Some(event) = &event {
                self.hear(event)?;
            }
            if keyboard.is_done(self.unanswered.len(), event.is_none()) {
                break;
            }
        }
        all_answered(self.unanswered.len())
    }

    fn say(&mut self, text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        self.number += 1;
        self.unanswered.insert(self.number);
        let (number, to, client_id) = (self.number, self.room.clone().into(), client_message_id()?);
        self.session.order(ImOrder::Send { number, to, client_id, content: Content::text(text) });
        Ok(())
    }

    fn hear(&mut self, event: &ImEvent) -> Result<(), Failure> {
        match event {
            ImEvent::Sent { number, .. } => drop(self.unanswered.remove(number)),
            ImEvent::Failed { number, word, .. } if self.unanswered.remove(number) => {
                note!("not sent: {word}");
            }
            ImEvent::ChatroomSaid { message, .. }
                if message.to == self.room && message.from != self.me =>
            {
                out!("{}", line(message));
            }
            ImEvent::ChatroomMissed { room, missed } if *room == self.room => {
                note!("{missed} messages were skipped");
            }
            ImEvent::ChatroomNews { room, what } if **room == self.room => match &**what {
                ChatroomTold::State(state) => self.show(state.clone()),
                ChatroomTold::Out(why) => {
                    return Err(format!("removed from {}: {}", self.room, why.word()).into());
                }
            },
            _ => {}
        }
        Ok(())
    }

    /// Prints the state of the chatroom, where that is new.
    fn show(&mut self, state: ChatroomState) {
        if state.here != self.shown.here {
            note!("{} participants", state.here);
        }
        if state.title != self.shown.title {
            note!("title: {}", escaped(&state.title));
        }
        if state.announcement != self.shown.announcement {
            note!("announcement: {}", escaped(&state.announcement));
        }
        if state.quiet != self.shown.quiet {
            note!(
                "{}",
                if state.quiet {
                    "quiet: only moderators can write"
                } else {
                    "open: everybody can write"
                }
            );
        }
        self.shown = state;
    }
}
