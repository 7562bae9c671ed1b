//! `holdline im chat`: people talk in a terminal, two of them or a group, or a script does by
//! pipes.
//!
//! Lines of standard input are sent; what is said in the conversation is printed as it comes, but
//! for what was typed here, which stands there already. When standard input ends, the last answers
//! are waited for.

use super::follower::{Came, Follower};
use super::keyboard::{Keyboard, LOOK, all_answered};
use super::send::addressee;
use super::{Common, Failure, goodbye, history, line};
use crate::out;
use base::text::escaped;
use client::im::{ImEvent, ImOrder, ImSession, client_message_id};
use model::account::{AccountAddress, Addressee};
use model::chat::{
    ChatMessage, ChatState, ClientMessageId, Content, InboxChange, InboxEvent, Transient,
};
use model::timeline::Seq;
use std::collections::{HashMap, HashSet};

/// The conversation, and how much of it is shown first.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// The other side: NAME, of your own domain, NAME@DOMAIN, or the address of a group
    #[arg(value_name = "TO")]
    to: String,
    /// Number of earlier messages to show first
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    past: u32,
}

/// Number of what is said of how far was read: none of a message's.
const READ_NUMBER: u32 = u32::MAX - 1;

/// Talks until one has had enough.
pub(super) fn chat(arguments: &Arguments) -> Result<(), Failure> {
    let to = addressee(&arguments.to)?;
    let (mut session, welcome) = arguments.common.login("chat")?;
    let peer = to.within(welcome.account.domain());
    let past = match arguments.past {
        0 => Some(Vec::new()),
        count => history::last(&mut session, &to, 0, count)?,
    };
    if past.is_none() {
        note!("{peer} has never logged in: messages are refused until then");
    }
    let past = past.unwrap_or_default();
    past.iter().for_each(|message| out!("{}", line(message)));
    let mut talk = Talk {
        shown: past.last().map_or(0, |message| message.seq),
        seen: past.iter().rfind(|it| it.from != welcome.account).map_or(0, |it| it.seq),
        marked: 0,
        me: welcome.account.clone(),
        follower: Follower::new(welcome.head, welcome.head),
        session,
        to,
        peer,
        sent: HashMap::new(),
        typed: HashSet::new(),
        receipts: Receipts::default(),
        number: 0,
    };
    note!("{} chats with {}; /quit ends", talk.me, talk.peer);
    talk.go_on(&mut Keyboard::new()?)?;
    goodbye(talk.session);
    Ok(())
}

struct Talk {
    session: ImSession,
    follower: Follower,
    me: AccountAddress,
    peer: AccountAddress,
    to: Addressee,
    /// Place in the conversation up to which everything is shown.
    shown: Seq,
    /// The place of the last that somebody else said and that is shown here.
    seen: Seq,
    /// The place up to which the account was said to have read.
    marked: Seq,
    /// Lines typed here that are not answered, by the requests' numbers.
    sent: HashMap<u32, (ClientMessageId, String)>,
    /// Lines typed here that have not come back through the inbox.
    typed: HashSet<ClientMessageId>,
    receipts: Receipts,
    number: u32,
}

/// How far the other side is with the conversation. An account that has read a message has it, so
/// that of two receipts that come in the wrong order only the further one is shown.
#[derive(Default)]
struct Receipts {
    delivered: Seq,
    read: Seq,
}

impl Receipts {
    /// The other side has everything up to this place; whether that is news.
    fn deliver(&mut self, upto: Seq) -> bool {
        let is_news = upto > self.delivered.max(self.read);
        self.delivered = self.delivered.max(upto);
        is_news
    }

    /// The other side has read everything up to this place; whether that is news.
    fn read(&mut self, upto: Seq) -> bool {
        let is_news = upto > self.read;
        self.read = self.read.max(upto);
        is_news
    }
}

impl Talk {
    fn go_on(&mut self, keyboard: &mut Keyboard) -> Result<(), Failure> {
        while !out::is_closed() {
            while let Some(line) = keyboard.line(self.sent.len()) {
                self.say(&line)?;
            }
            let event = self.session.poll(LOOK)?;
            if let Some(event) = &event {
                self.hear(event);
            }
            let orders = self.follower.orders(event.is_none());
            orders.into_iter().for_each(|order| self.session.order(order));
            if event.is_none() {
                self.mark_read();
            }
            if keyboard.is_done(self.sent.len(), event.is_none()) {
                break;
            }
        }
        all_answered(self.sent.len())
    }

    /// Sends a line.
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        let client_id = client_message_id()?;
        self.number = (self.number + 1) % (u32::MAX / 2);
        let (number, to, content) = (self.number, self.to.clone(), Content::text(text));
        self.sent.insert(number, (client_id, text.to_owned()));
        self.typed.insert(client_id);
        self.session.order(ImOrder::Send { number, to, client_id, content });
        Ok(())
    }

    /// Marks all shown messages as read.
    fn mark_read(&mut self) {
        if self.marked < self.seen {
            self.marked = self.seen;
            let (number, with, upto) = (READ_NUMBER, self.to.clone(), self.seen);
            self.session.order(ImOrder::MarkRead { number, with, upto });
        }
    }

    fn hear(&mut self, event: &ImEvent) {
        match event {
            ImEvent::Sent { number, .. } => drop(self.sent.remove(number)),
            ImEvent::Failed { number, word, .. } => {
                if let Some((client_id, text)) = self.sent.remove(number) {
                    self.typed.remove(&client_id);
                    note!("not sent ({word}): {text}");
                }
            }
            ImEvent::Transient(it) => self.tell_typing(it),
            _ => {}
        }
        if let ImEvent::Delivered(news) = event
            && news.with == self.peer
            && self.receipts.deliver(news.upto)
        {
            note!("delivered to {}: {}", self.peer.name(), news.upto);
        }
        for (_, came) in self.follower.hear(event) {
            match came {
                Came::Message(message) => self.show(&message),
                Came::Event(event) => self.tell(&event),
            }
        }
    }

    /// The other has read what was said here: a receipt.
    fn tell(&mut self, event: &InboxEvent) {
        if let (InboxChange::PeerRead(upto), true) = (&event.what, event.with == self.peer)
            && self.receipts.read(*upto)
        {
            note!("read by {}: {upto}", self.peer.name());
        }
    }

    /// Prints that another member of the conversation is typing.
    fn tell_typing(&self, it: &Transient) {
        let is_here = it.to == self.peer || (it.from == self.peer && it.to == self.me);
        if is_here && it.from != self.me && it.state == Some(ChatState::Composing) {
            note!("{} is typing", it.from.name());
        }
    }

    fn show(&mut self, message: &ChatMessage) {
        let is_groups = message.to == self.peer && self.peer.is_group();
        let is_theirs = message.from == self.peer && message.to == self.me || is_groups;
        let is_ours = message.from == self.me && message.to == self.peer;
        if !is_theirs && !is_ours {
            return note!("(a message from {})", escaped(message.from.as_str()));
        }
        if message.seq <= self.shown {
            return; // the history had it
        }
        self.shown = message.seq;
        if !is_ours {
            self.seen = message.seq;
        }
        let is_typed = is_ours && self.typed.remove(&message.client_id);
        if !is_typed {
            out!("{}", line(message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_was_read_is_not_reported_as_delivered_afterwards() {
        let mut receipts = Receipts::default();
        assert!(receipts.deliver(1) && receipts.read(1), "in the usual order both are shown");
        assert!(receipts.read(3));
        assert!(!receipts.deliver(2) && !receipts.deliver(3), "these were read");
        assert!(receipts.deliver(4) && receipts.read(4) && !receipts.read(4));
    }
}
