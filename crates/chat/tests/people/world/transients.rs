//! Transients: their senders and receivers, and that each is received at most once.

use super::{Device, PEOPLE};
use super::{World, person};
use model::account::AccountAddress;
use model::chat::{
    ChatDelivery, ChatFault, ChatRequest, ChatState, Content, NewTransient, Transient,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A transient that was sent: account and device of the sender, and receiver.
pub type Told = (AccountAddress, String, AccountAddress);

impl World {
    /// Lets a device type to a random receiver.
    pub(super) fn types(&mut self, at: usize) {
        let group = if self.rng.one_in(2) { self.a_group() } else { None };
        let to = group.unwrap_or_else(|| person(self.rng.below(PEOPLE.into()) as u32));
        self.tells(at, to, Some(ChatState::Composing));
    }

    fn tells(&mut self, at: usize, to: AccountAddress, state: Option<ChatState>) {
        let device = &self.devices[at];
        let Some(session) = device.session else { return };
        self.told.push((device.account.clone(), device.name.clone(), to.clone()));
        let content = Content::text(&(self.told.len() - 1).to_string());
        let transient = Box::new(NewTransient { to: to.into(), state, content });
        self.ask(at, ChatRequest::Transient { session, number: 0, transient });
    }

    /// Lets a device type; returns the devices that get the notice, when everything is at rest.
    pub fn typing(&mut self, at: usize, to: &AccountAddress) -> Vec<usize> {
        self.devices.iter_mut().for_each(|device| device.heard.clear());
        self.tells(at, to.clone(), Some(ChatState::Composing));
        self.rest();
        (0..self.devices.len()).filter(|&at| !self.devices[at].heard.is_empty()).collect()
    }

    /// Sends a device's transient of this many bytes; returns whether any device gets it.
    pub fn is_heard(&mut self, at: usize, to: &AccountAddress, bytes: usize) -> bool {
        self.devices.iter_mut().for_each(|device| device.heard.clear());
        let session = self.devices[at].session.expect("it is here");
        let content = Content::text(&"x".repeat(bytes));
        let transient = Box::new(NewTransient { to: to.clone().into(), state: None, content });
        self.ask(at, ChatRequest::Transient { session, number: 0, transient });
        self.rest();
        self.devices.iter().any(|device| !device.heard.is_empty())
    }

    /// Sends a device's numbered transient of this many bytes; returns its one answer.
    pub fn told_with_number(
        &mut self,
        at: usize,
        to: &AccountAddress,
        bytes: usize,
    ) -> Result<(), ChatFault> {
        let device = &mut self.devices[at];
        let (session, number) = (device.session.expect("it is here"), device.number());
        device.failed = None;
        device.push_answers.clear();
        let content = Content::text(&"x".repeat(bytes));
        let transient = Box::new(NewTransient { to: to.clone().into(), state: None, content });
        self.ask(at, ChatRequest::Transient { session, number, transient });
        self.rest();
        let device = &mut self.devices[at];
        let is_it =
            |it: &ChatDelivery| matches!(it, ChatDelivery::Done { number: n } if *n == number);
        let done = device.push_answers.iter().filter(|it| is_it(it)).count();
        match (done, device.failed.take()) {
            (1, None) => Ok(()),
            (0, Some(why)) => Err(why),
            other => panic!("one answer: {other:?}"),
        }
    }

    /// Checks that every received transient was sent to the receiver, once, by the given sender.
    pub(super) fn check_transients(&self) -> usize {
        let heard = self.devices.iter().map(|device| {
            let mut numbers = BTreeSet::new();
            for it in &device.heard {
                let number: usize = it.content.text.parse().expect("a number");
                assert!(numbers.insert(number), "{} heard {it:?} twice", device.account);
                let told = (it.from.clone(), it.device.to_string(), it.to.clone());
                assert_eq!(self.told[number], told);
                check_reader(device, it);
            }
            numbers.len()
        });
        heard.sum()
    }
}

fn check_reader(device: &Device, it: &Arc<Transient>) {
    let is_own = it.from == device.account;
    assert!(!(is_own && *it.device == *device.name), "it said that itself");
    match it.to.is_group() {
        true => assert!(!is_own && device.groups.contains(&it.to), "{it:?} is none of its"),
        false => assert_eq!(it.to, device.account),
    }
}
