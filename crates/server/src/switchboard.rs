//! The API's way to the shards.
//!
//! A command about one device goes to the shard that owns it; a list of devices is split among
//! their owners; what is about all goes to all, and the answers are merged into one. A full mailbox
//! is answered as busy. Every command is answered exactly once: a part that is lost on the way (a
//! shard that has ended) answers busy as it is dropped.

mod presence_questions;
mod topics;

use crate::clock;
use crate::outside::Outside;
use crate::shard_logic::{Mail, ServerLogic, owner};
use base::hash::{self, HashKey};
use hub::order_home;
use model::id::{DeviceId, MessageId, ProductKey, ShardId};
use model::ports::control::{Answer, Command, Control, PushCounts, PushOrder, PushTarget, Reply};
use model::push::{Outcome, Rejection};
use net::mailbox::Mailbox;
use net::shard::{ShardMessage, ShardMessageOf};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The shard messages of a server's shards.
pub type ServerLetter<O> = ShardMessageOf<ServerLogic<O>, OwnedFd>;

/// The mailboxes of all shards.
pub type Mailboxes<O> = Arc<[Arc<Mailbox<ServerLetter<O>>>]>;

/// The API's way to the shards. Cheap to clone.
pub struct Switchboard<O: Outside + Send + 'static> {
    mailboxes: Mailboxes<O>,
    hash_key: HashKey,
    last_id: Arc<Mutex<u64>>,
    draining: Arc<AtomicBool>,
}

impl<O: Outside + Send> Clone for Switchboard<O> {
    fn clone(&self) -> Self {
        Switchboard {
            mailboxes: self.mailboxes.clone(),
            hash_key: self.hash_key,
            last_id: self.last_id.clone(),
            draining: self.draining.clone(),
        }
    }
}

impl<O: Outside + Send> Switchboard<O> {
    /// A switchboard over these shards; push ids continue after `last_id`.
    pub fn new(mailboxes: Mailboxes<O>, hash_key: HashKey, last_id: u64) -> Self {
        let (last_id, draining) = (Arc::new(Mutex::new(last_id)), Arc::default());
        Switchboard { mailboxes, hash_key, last_id, draining }
    }

    /// Says that the server is going: from now on it is not ready.
    pub fn announce_drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Has all shards let their connections go; false when some mailbox was full.
    pub fn drain(&self) -> bool {
        self.announce_drain();
        self.tell_all(|| Mail::Drain)
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

    fn all(&self) -> impl Iterator<Item = ShardId> {
        (0..self.shards()).map(ShardId)
    }

    fn owner(&self, product: &ProductKey, device: &DeviceId) -> ShardId {
        owner(self.hash_key, self.shards(), product, device)
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

    fn split(
        &self,
        product: &ProductKey,
        devices: Vec<DeviceId>,
    ) -> BTreeMap<ShardId, Vec<DeviceId>> {
        let mut split = BTreeMap::<ShardId, Vec<DeviceId>>::new();
        for device in devices {
            split.entry(self.owner(product, &device)).or_default().push(device);
        }
        split
    }

    fn push(&self, order: PushOrder, reply: Reply) {
        let PushTarget::Devices(devices) = &order.target else {
            return self.push_to_many(order, reply);
        };
        let split = self.split(&order.product, devices.clone());
        if split.is_empty() {
            let (outcomes, counts) = (Vec::new(), PushCounts::default());
            return reply(Answer::Pushed { id: order.id, outcomes, counts });
        }
        match order.idempotency_key.is_some() && split.len() > 1 {
            true => self.push_with_key(order, split, reply),
            false => self.gather(parts_of(&order, split), reply),
        }
    }

    /// The order's owner takes it, for all; then all are asked how far they are.
    fn push_to_many(&self, order: PushOrder, reply: Reply) {
        let owner = hash::home(order_home(self.hash_key, &order), self.shards());
        let this = self.clone();
        let taken = move |answer: Answer| {
            let Answer::Pushed { id, outcomes, counts } = answer else { return reply(answer) };
            let told = move |answer: Answer| {
                let counts = match answer {
                    Answer::Counts(Some(counts)) => counts,
                    _ => counts,
                };
                reply(Answer::Pushed { id, outcomes, counts });
            };
            this.ask(Command::PushCounts(id), Box::new(told));
        };
        self.gather(vec![(ShardId(owner), Command::Push(order))], Box::new(taken));
    }

    /// One shard is asked first, and the others under the id it answers: so an order that was cut
    /// off between shards goes on under its first id when it is repeated. Each half may wait half
    /// as long.
    fn push_with_key(
        &self,
        order: PushOrder,
        mut split: BTreeMap<ShardId, Vec<DeviceId>>,
        reply: Reply,
    ) {
        let order = PushOrder { wait_ms: order.wait_ms / 2, ..order };
        let first = split.pop_first().into_iter().collect();
        let (this, commands) = (self.clone(), parts_of(&order, first));
        let rest = move |answer: Answer| {
            let Answer::Pushed { id, .. } = answer else { return reply(answer) };
            let commands = parts_of(&PushOrder { id, ..order }, split);
            this.gather(commands, Box::new(move |more| reply(merge(answer, more))));
        };
        self.gather(commands, Box::new(rest));
    }

    /// A page is taken from one shard after the other: the cursor's high half says which is next.
    fn list(&self, list: Command, so_far: Vec<model::ports::control::DeviceState>, reply: Reply) {
        let Command::List { product, online, tag, after, count } = list else { return };
        let shard = (after.unwrap_or(0) >> 40) as u16;
        // Inside a shard the place is a slot; 0 is taken for the beginning, so slots are told as
        // one more than they are.
        let inside = after.and_then(|after| (after & ((1 << 40) - 1)).checked_sub(1));
        if shard >= self.shards() {
            return reply(Answer::Page { devices: so_far, next: None });
        }
        let again = (product.clone(), tag.clone());
        let command = Command::List { product, online, tag, after: inside, count };
        let this = self.clone();
        let merge = move |answer: Answer| {
            let Answer::Page { devices, next } = answer else { return reply(answer) };
            let left = count.saturating_sub(devices.len() as u32);
            let mut all = so_far;
            all.extend(devices);
            let next = match next {
                Some(slot) => Some((u64::from(shard) << 40) | (slot + 1)),
                None if shard + 1 < this.shards() => Some(u64::from(shard + 1) << 40),
                None => None,
            };
            if left == 0 || next.is_none() {
                return reply(Answer::Page { devices: all, next });
            }
            let (product, tag) = again;
            this.list(Command::List { product, online, tag, after: next, count: left }, all, reply);
        };
        self.gather(vec![(ShardId(shard), command)], Box::new(merge));
    }
}

impl<O: Outside + Send> Control for Switchboard<O> {
    fn ask(&self, command: Command, reply: Reply) {
        match command {
            Command::Push(order) => self.push(order, reply),
            Command::List { .. } => self.list(command, Vec::new(), reply),
            Command::States { product, devices } => {
                let split = self.split(&product, devices);
                if split.is_empty() {
                    return reply(Answer::Devices(Vec::new()));
                }
                let commands = split.into_iter().map(|(shard, devices)| {
                    (shard, Command::States { product: product.clone(), devices })
                });
                self.gather(commands.collect(), reply);
            }
            Command::Kick { ref product, ref device, .. }
            | Command::Block { ref product, ref device, .. }
            | Command::SetTags { ref product, ref device, .. } => {
                let owner = self.owner(product, device);
                self.gather(vec![(owner, command)], reply);
            }
            Command::Products | Command::Token { .. } => {
                self.gather(vec![(ShardId(0), command)], reply);
            }
            Command::Topics(command) => self.ask_topics(command, reply),
            Command::Presence(command) => self.ask_presence(command, reply),
            Command::PushCounts(_)
            | Command::Configure { .. }
            | Command::PutProduct(_)
            | Command::DropProduct(_)
            | Command::Status => {
                let commands = self.all().map(|shard| (shard, command.clone()));
                self.gather(commands.collect(), reply);
            }
        }
    }

    fn next_id(&self) -> MessageId {
        let mut last = self.last_id.lock().unwrap_or_else(PoisonError::into_inner);
        let id = MessageId::after(*last, clock::wall_ms(), ShardId(0));
        *last = id.0;
        id
    }
}

/// One shard's part of a question. Answers when it is dropped, if it has not before.
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

/// An order for each shard's part of its devices.
fn parts_of(order: &PushOrder, split: BTreeMap<ShardId, Vec<DeviceId>>) -> Vec<(ShardId, Command)> {
    let part = |devices| PushOrder { target: PushTarget::Devices(devices), ..order.clone() };
    split.into_iter().map(|(shard, devices)| (shard, Command::Push(part(devices)))).collect()
}

/// Two shards' answers as one.
fn merge(one: Answer, other: Answer) -> Answer {
    match (one, other) {
        (
            Answer::Pushed { id, mut outcomes, mut counts },
            Answer::Pushed { id: other, outcomes: more, counts: others },
        ) => {
            outcomes.extend(more);
            counts.add(&others);
            // Where a repeated order was not known it was carried out now, under a new id: the
            // application is told the first one.
            Answer::Pushed { id: id.min(other), outcomes, counts }
        }
        (Answer::Counts(Some(mut counts)), Answer::Counts(Some(others))) => {
            counts.add(&others);
            Answer::Counts(Some(counts))
        }
        (Answer::Counts(one), Answer::Counts(other)) => Answer::Counts(one.or(other)),
        (Answer::Devices(mut devices), Answer::Devices(more)) => {
            devices.extend(more);
            Answer::Devices(devices)
        }
        (Answer::Status(mut status), Answer::Status(other)) => {
            status.add(&other);
            Answer::Status(status)
        }
        (Answer::Done(one), Answer::Done(other)) => Answer::Done(one || other),
        (Answer::Topics(one), Answer::Topics(other)) => Answer::Topics(topics::merge(one, other)),
        (Answer::Presence(one), Answer::Presence(other)) => {
            Answer::Presence(presence_questions::merge(one, other))
        }
        // What went wrong somewhere is told, whatever went well elsewhere.
        (
            wrong
            @ (Answer::UnknownProduct | Answer::Busy | Answer::StoreFailed | Answer::Conflict),
            _,
        ) => wrong,
        (_, other) => other,
    }
}

/// The answer for a shard whose mailbox was full.
fn busy(command: Command) -> Answer {
    match command {
        Command::Push(PushOrder { id, target: PushTarget::Devices(devices), .. }) => {
            let rejected = |device| (device, Outcome::Rejected(Rejection::Busy));
            let outcomes = devices.into_iter().map(rejected).collect();
            Answer::Pushed { id, outcomes, counts: PushCounts::default() }
        }
        _ => Answer::Busy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            part.answer(Answer::Counts(Some(counts)));
        }
        let Ok(Answer::Counts(Some(counts))) = answers.try_recv() else { panic!("counts") };
        assert_eq!(counts.matched, 6);
    }

    #[test]
    fn a_lost_part_answers_busy() {
        let (mut parts, answers) = asked(2);
        parts.pop().expect("two").answer(Answer::Done(true));
        drop(parts);
        assert_eq!(answers.try_recv(), Ok(Answer::Busy));
    }
}
