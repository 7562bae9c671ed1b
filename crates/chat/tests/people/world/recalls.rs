//! Recalls: who makes them, and that the contents of recalled messages are never delivered again.

use super::{Device, PEOPLE, World, person, whole};
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatFault, ChatMessage, Content, Recall};
use model::timeline::Seq;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A message in its conversation, the same for both parties: the lower address, the higher one (or
/// the group, twice), and the offset.
pub type Recalled = (AccountAddress, AccountAddress, Seq);

/// The message at an offset of a conversation between two, or of a group.
fn named(one: &AccountAddress, other: &AccountAddress, seq: Seq) -> Recalled {
    match other.is_group() {
        true => (other.clone(), other.clone(), seq),
        false => (one.min(other).clone(), one.max(other).clone(), seq),
    }
}

pub(super) fn name_of(message: &ChatMessage) -> Recalled {
    named(&message.from, &message.to, message.seq)
}

impl World {
    /// Lets a device recall a message, mostly of its own account.
    pub(super) fn calls_back(&mut self, at: usize) {
        let device = &self.devices[at];
        let strangers = self.rng.one_in(10);
        let all = device.has.values().filter(|it| strangers || it.from == device.account);
        let all: Vec<_> = all.collect();
        if all.is_empty() {
            return;
        }
        let message = all[self.rng.below(all.len() as u64) as usize];
        let is_out = message.from == device.account || message.to.is_group();
        let with = if is_out { &message.to } else { &message.from };
        let (with, seq) = (with.clone(), message.seq);
        self.calls_this_back(at, with, seq);
    }

    /// Makes a device's recall, without waiting for the answer.
    pub fn calls_this_back(&mut self, at: usize, with: AccountAddress, seq: Seq) {
        if let Some(request) = self.devices[at].recalls(with, seq) {
            self.ask(at, request);
        }
    }

    pub(super) fn recall_answered(
        &mut self,
        account: &AccountAddress,
        with: &AccountAddress,
        target: Seq,
        answer: (u64, Seq),
    ) {
        let name = named(account, with, target);
        if let Some((_, first)) = self.recalled.iter().find(|(of, _)| *of == name) {
            assert_eq!(*first, answer, "the first answer");
        }
        self.recalled.push((name, answer));
    }

    /// Checks that the answer to a device's request has no contents of messages that were recalled
    /// before.
    pub(super) fn says_nothing_recalled(&self, at: usize, answer: &ChatDelivery, asked: usize) {
        let gone: BTreeSet<_> = self.recalled[..asked].iter().map(|(of, _)| of).collect();
        let says = |message: &ChatMessage| match message.content.target() {
            // An edit has no text once its message is recalled.
            Some(target) if message.content.kind == Content::EDIT => {
                let (one, other, _) = name_of(message);
                !message.content.text.is_empty() && gone.contains(&(one, other, target.seq))
            }
            _ => message.content.kind != Content::RECALLED && gone.contains(&name_of(message)),
        };
        let account = &self.devices[at].account;
        match answer {
            ChatDelivery::Page(page) => {
                let said = page.messages.iter().find(|(_, it)| says(it));
                assert!(said.is_none(), "{account} got {said:?}");
            }
            ChatDelivery::History(page) => {
                let said = page.messages.iter().find(|it| says(it));
                assert!(said.is_none(), "{account} read {said:?}");
            }
            ChatDelivery::Archive(page) => {
                let said = page.messages.iter().find(|it| says(it));
                assert!(said.is_none(), "{account} found {said:?}");
            }
            ChatDelivery::Conversations(page) => {
                for row in &page.conversations {
                    let name = named(account, &row.with, row.said_seq);
                    let last = row.last.as_ref().filter(|it| it.kind != Content::RECALLED);
                    assert!(last.is_none() || !gone.contains(&name), "{account} saw {row:?}");
                }
            }
            _ => {}
        }
    }

    /// Makes a device's recall; returns the answer, when everything is at rest.
    pub fn recalls(&mut self, at: usize, with: &AccountAddress, seq: Seq) -> Result<(), ChatFault> {
        self.calls_this_back(at, with.clone(), seq);
        self.rest();
        self.devices[at].failed.take().map_or(Ok(()), Err)
    }

    /// A part of a conversation, from one end.
    pub fn history(
        &mut self,
        at: usize,
        with: &AccountAddress,
        backwards: bool,
    ) -> Vec<Arc<ChatMessage>> {
        if let Some(request) = self.devices[at].reads_all(with.clone(), backwards) {
            self.ask(at, request);
        }
        self.rest();
        std::mem::take(&mut self.devices[at].last_read)
    }

    /// Checks that every account with a recalled message has got the recall, once.
    pub(super) fn check_recalls(&self) {
        for n in 0..PEOPLE {
            let account = person(n);
            let of: Vec<&Device> =
                self.devices.iter().filter(|device| device.account == account).collect();
            let inbox = whole(&of);
            let mut told = BTreeSet::new();
            for message in inbox.values() {
                let Some(Recall { seq, id }) = Recall::of(&message.content) else { continue };
                let name = named(&message.from, &message.to, seq);
                assert!(told.insert(name.clone()), "{account} is told twice of {name:?}");
                let target = inbox.values().find(|it| name_of(it) == name);
                if let Some(target) = target {
                    assert_eq!((target.id, &target.from), (id, &message.from));
                    assert!(target.seq < message.seq && target.content.kind != Content::RECALL);
                }
            }
            for (name, (_, seq)) in &self.recalled {
                let (one, other, _) = name;
                if !one.is_group() && [one, other].contains(&&account) {
                    let is_told = inbox.values().any(|it| {
                        it.seq == *seq
                            && Recall::of(&it.content).is_some_and(|_| told.contains(name))
                    });
                    assert!(is_told, "{account} is told of {name:?}");
                }
            }
        }
    }
}
