//! The API's way to the shards.
//!
//! A command about one device goes to the shard that owns it; a list of devices is split among
//! their owners; what is about all goes to all, and the answers are merged into one. A full mailbox
//! is answered as busy. Every command is answered exactly once: a part that is lost on the way (a
//! shard that has ended) answers busy as it is dropped.

mod chats;
pub mod moderation;
mod presence_questions;
mod pushes;
pub mod reviews;
mod topics;

use crate::clock;
use crate::shard_logic::outside::Outside;
use crate::shard_logic::{Mail, ServerLogic};
use base::hash::{self, HashKey};
use model::id::{MessageId, NodeId, ShardId};
use model::ports::control::disconnections;
use model::ports::control::{Answer, Command, Control, Reply};
use net::OtherServers;
use net::mailbox::Mailbox;
use net::shard::{ShardMessage, ShardMessageOf};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The shard messages of a server's shards.
pub type ServerMessage<O> = ShardMessageOf<ServerLogic<O>, OwnedFd>;

/// The mailboxes of all shards.
pub type Mailboxes<O> = Arc<[Arc<Mailbox<ServerMessage<O>>>]>;

/// The API's way to the shards. Cheap to clone.
pub struct Switchboard<O: Outside + Send + 'static> {
    mailboxes: Mailboxes<O>,
    hash_key: HashKey,
    node: NodeId,
    /// The node's clock for ids.
    last_id: Arc<Mutex<u64>>,
    draining: Arc<AtomicBool>,
}

impl<O: Outside + Send> Clone for Switchboard<O> {
    fn clone(&self) -> Self {
        Switchboard {
            mailboxes: self.mailboxes.clone(),
            hash_key: self.hash_key,
            node: self.node,
            last_id: self.last_id.clone(),
            draining: self.draining.clone(),
        }
    }
}

impl<O: Outside + Send> Switchboard<O> {
    /// A switchboard over these shards; push ids of this node continue after `last_id`.
    pub fn new(mailboxes: Mailboxes<O>, hash_key: HashKey, (node, last_id): (NodeId, u64)) -> Self {
        let (last_id, draining) = (Arc::new(Mutex::new(last_id)), Arc::default());
        Switchboard { mailboxes, hash_key, node, last_id, draining }
    }

    /// Drains all shards' connections, over `over_ms` milliseconds, to these servers; false if a
    /// mailbox was full.
    pub fn drain(&self, over_ms: u32, to: OtherServers) -> bool {
        self.set_draining(true);
        let to = Arc::new(to);
        self.tell_all(|| Mail::Drain(over_ms, Arc::clone(&to)))
    }

    /// Sets whether the server drains. Returns whether it did before.
    pub fn set_draining(&self, draining: bool) -> bool {
        self.draining.swap(draining, Ordering::Relaxed)
    }

    /// Whether it is going.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Sends mail to every shard; false when some mailbox was full.
    pub fn tell_all(&self, mail: impl Fn() -> Mail) -> bool {
        let mut all = true;
        for mailbox in self.mailboxes.iter() {
            all &= mailbox.put(ShardMessage::Mail(mail())).is_ok();
            mailbox.ring();
        }
        all
    }

    fn shards(&self) -> u16 {
        self.mailboxes.len() as u16
    }

    /// The shard that owns an identity.
    fn home_of(&self, identity: &[&[u8]]) -> ShardId {
        ShardId(hash::home(self.hash_key.of(identity), self.shards()))
    }

    fn all(&self) -> impl Iterator<Item = ShardId> {
        (0..self.shards()).map(ShardId)
    }

    /// Where a page goes on that is taken from one shard after the other: which shard is next, and
    /// its own cursor. The shard is the high half. Inside, the place is a slot, told as one more
    /// than it is, for 0 is taken for the beginning.
    fn place(after: Option<u64>) -> (u16, Option<u64>) {
        let after = after.unwrap_or(0);
        ((after >> 40) as u16, (after & ((1 << 40) - 1)).checked_sub(1))
    }

    /// The cursor behind what this shard told, which has more behind this slot, or no more.
    fn cursor(&self, shard: u16, more: Option<u64>) -> Option<u64> {
        match more {
            Some(slot) => Some((u64::from(shard) << 40) | (slot + 1)),
            None => (shard + 1 < self.shards()).then(|| u64::from(shard + 1) << 40),
        }
    }

    /// Sends the same command to every shard.
    fn gather_from_all(&self, command: Command, reply: Reply) {
        let commands = self.all().map(|shard| (shard, command.clone()));
        self.gather(commands.collect(), reply);
    }

    /// Sends each shard its command and merges the answers into one.
    fn gather(&self, commands: Vec<(ShardId, Command)>, reply: Reply) {
        let parts = Gather::parts(commands.len(), reply);
        for ((shard, command), part) in commands.into_iter().zip(parts) {
            let mailbox = &self.mailboxes[shard.0 as usize];
            let refused = mailbox.put(ShardMessage::Mail(Mail::Ask(command, part)));
            mailbox.ring();
            if let Err(ShardMessage::Mail(Mail::Ask(command, part))) = refused {
                part.answer(busy(command));
            }
        }
    }
}

impl<O: Outside + Send> Control for Switchboard<O> {
    fn ask(&self, command: Command, reply: Reply) {
        match command {
            Command::Push(command) => self.ask_pushes(command, reply),
            Command::Topics(command) => self.ask_topics(command, reply),
            Command::Chat(command) => self.ask_chat(command, reply),
            Command::Presence(command) => self.ask_presence(command, reply),
            Command::Echo(_) => self.gather(vec![(ShardId(0), command)], reply),
            Command::Disconnections(_)
            | Command::SlowClients
            | Command::Top(_)
            | Command::Status => {
                self.gather_from_all(command, reply);
            }
        }
    }

    fn next_id(&self) -> MessageId {
        let mut last = self.last_id.lock().unwrap_or_else(PoisonError::into_inner);
        let id = MessageId::after(*last, clock::wall_ms(), self.node);
        *last = id.0;
        id
    }
}

/// One shard's part of an answer. If it is dropped without one, it answers then.
pub struct ShardPart(Option<Arc<Gather>>);

impl ShardPart {
    /// Answers.
    pub fn answer(mut self, answer: Answer) {
        if let Some(gather) = self.0.take() {
            gather.take(answer);
        }
    }
}

impl Drop for ShardPart {
    fn drop(&mut self) {
        if let Some(gather) = self.0.take() {
            gather.take(Answer::Busy);
        }
    }
}

struct Gather(Mutex<Gathered>);

struct Gathered {
    left: usize,
    answer: Option<Answer>,
    reply: Option<Reply>,
}

impl Gather {
    fn parts(count: usize, reply: Reply) -> impl Iterator<Item = ShardPart> {
        let gathered = Gathered { left: count, answer: None, reply: Some(reply) };
        let gather = Arc::new(Gather(Mutex::new(gathered)));
        (0..count).map(move |_| ShardPart(Some(gather.clone())))
    }

    fn take(&self, answer: Answer) {
        let mut gathered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gathered.left -= 1;
        let merged = match gathered.answer.take() {
            None => answer,
            Some(before) => merge(before, answer),
        };
        if gathered.left > 0 {
            gathered.answer = Some(merged);
            return;
        }
        let reply = gathered.reply.take();
        drop(gathered);
        if let Some(reply) = reply {
            reply(merged);
        }
    }
}

/// Parts for a question that is not split, one for each `replies`: for the simulation.
pub fn part(reply: Reply) -> ShardPart {
    let mut parts = Gather::parts(1, reply);
    parts.next().expect("one part was asked for")
}

/// Two shards' answers as one.
fn merge(one: Answer, other: Answer) -> Answer {
    match (one, other) {
        (Answer::Push(one), Answer::Push(other)) => pushes::merge(one, other).into(),
        (Answer::Topics(one), Answer::Topics(other)) => Answer::Topics(topics::merge(one, other)),
        (Answer::Chat(one), Answer::Chat(other)) => chats::merge(one, other).into(),
        (Answer::Presence(one), Answer::Presence(other)) => {
            Answer::Presence(presence_questions::merge(one, other))
        }
        (Answer::Disconnections(one), Answer::Disconnections(other)) => {
            Answer::Disconnections(disconnections::merge(one, other))
        }
        (Answer::SlowClients(mut one), Answer::SlowClients(other)) => {
            one.extend(other);
            Answer::SlowClients(one)
        }
        (Answer::Top(mut one), Answer::Top(other)) => {
            one.add(other);
            Answer::Top(one)
        }
        (Answer::Status(mut status), Answer::Status(other)) => {
            status.add(&other);
            Answer::Status(status)
        }
        // A failure at one shard is returned, whatever succeeded at others.
        (Answer::Busy, _) => Answer::Busy,
        (_, other) => other,
    }
}

/// The answer for a shard whose mailbox was full.
fn busy(command: Command) -> Answer {
    match command {
        Command::Push(command) => pushes::busy(command).into(),
        _ => Answer::Busy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ports::pushes::{PushAnswer, PushCounts};
    use std::sync::mpsc;

    fn asked(parts: usize) -> (Vec<ShardPart>, mpsc::Receiver<Answer>) {
        let (sender, answers) = mpsc::sync_channel(1);
        let reply: Reply = Box::new(move |answer| sender.send(answer).expect("somebody waits"));
        (Gather::parts(parts, reply).collect(), answers)
    }

    #[test]
    fn answers_of_all_shards_become_one() {
        let (parts, answers) = asked(3);
        for (at, part) in parts.into_iter().enumerate() {
            assert!(answers.try_recv().is_err(), "not before all have answered");
            let counts = PushCounts { matched: at as u64 + 1, ..PushCounts::default() };
            part.answer(Answer::Push(PushAnswer::Counts(Some(counts))));
        }
        let Ok(Answer::Push(PushAnswer::Counts(Some(counts)))) = answers.try_recv() else {
            panic!("counts")
        };
        assert_eq!(counts.matched, 6);
    }

    #[test]
    fn a_lost_part_answers_busy() {
        let (mut parts, answers) = asked(2);
        parts.pop().expect("two").answer(Answer::Push(PushAnswer::Done(true)));
        drop(parts);
        assert_eq!(answers.try_recv(), Ok(Answer::Busy));
    }
}
