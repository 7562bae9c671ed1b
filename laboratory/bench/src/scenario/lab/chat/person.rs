//! A device of an account, asked from a thread that waits: what measurements of chat do themselves.
//!
//! The device speaks IM by the shipped client, over TCP without a proof. It looks only at the
//! answer that it waits for, and at the last place of the inbox. Invariant: a request that the
//! server refuses is an error with its word.

use client::im::{ImEvent, ImOrder, ImSession, ImSettings, Profile, Welcome, client_message_id};
use client::{BrokerAddress, ConnectError, Trust};
use model::account::Addressee;
use model::chat::Content;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Time for a login, and for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A device that is logged in.
pub struct Person {
    session: ImSession,
    number: u32,
    /// The server's welcome at log-in.
    pub welcome: Box<Welcome>,
}

impl Person {
    /// Logs in: an account begins when somebody comes by its name.
    pub fn login(to: SocketAddr, name: &str, device: &str) -> io::Result<Person> {
        let settings = ImSettings {
            address: BrokerAddress::im(&to.ip().to_string(), to.port()),
            trust: Trust::default(),
            profile: Profile::new(name, device),
            scram: None,
            connect_timeout: PATIENCE,
        };
        let mut session = ImSession::new(settings).map_err(broken)?;
        let welcome = session.login().map_err(broken)?;
        Ok(Person { session, number: 0, welcome })
    }

    /// Gives an order, and does not wait: its number.
    pub fn order(&mut self, order: impl FnOnce(u32) -> ImOrder) -> u32 {
        self.number += 1;
        self.session.order(order(self.number));
        self.number
    }

    /// Sends a message to an account or a group without waiting for the answer, and returns its
    /// number.
    pub fn say(&mut self, to: &str, content: Content) -> io::Result<u32> {
        let to = Addressee::parse(to).map_err(|why| io::Error::other(format!("{to}: {why}")))?;
        let client_id = client_message_id().map_err(broken)?;
        Ok(self.order(|number| ImOrder::Send { number, to, client_id, content }))
    }

    /// The next answer to an order, whichever.
    pub fn answer(&mut self) -> io::Result<ImEvent> {
        loop {
            let event = self.session.poll(PATIENCE).map_err(broken)?;
            let event = event.ok_or_else(|| io::Error::other("there is no answer"))?;
            match event {
                ImEvent::Failed { word, .. } => return Err(io::Error::other(word.into_string())),
                event if answers(&event) => return Ok(event),
                _ => {}
            }
        }
    }

    /// Gives an order and waits for its answer.
    pub fn ask(&mut self, order: impl FnOnce(u32) -> ImOrder) -> io::Result<ImEvent> {
        self.order(order);
        self.answer()
    }

    /// Gives so many orders, at most `window` of them without an answer, and waits for all answers.
    pub fn all(
        &mut self,
        count: usize,
        window: usize,
        mut give: impl FnMut(&mut Person, usize) -> io::Result<u32>,
    ) -> io::Result<()> {
        for at in 0..count {
            if at >= window {
                self.answer()?;
            }
            give(self, at)?;
        }
        (0..count.min(window)).try_for_each(|_| self.answer().map(drop))
    }

    /// Sends one text to all accounts, and waits until all messages are stored.
    pub fn say_to_all(&mut self, names: &[String], text: &str, window: usize) -> io::Result<()> {
        let say = |person: &mut Person, at: usize| person.say(&names[at], Content::text(text));
        self.all(names.len(), window, say)
    }

    /// Goes.
    pub fn goes(mut self) {
        self.session.order(ImOrder::Goodbye);
    }
}

/// Whether an event answers a request of those that are given here.
fn answers(event: &ImEvent) -> bool {
    matches!(
        event,
        ImEvent::Sent { .. }
            | ImEvent::Page { .. }
            | ImEvent::History { .. }
            | ImEvent::Conversations(_)
            | ImEvent::Upload { .. }
            | ImEvent::Done { .. }
    )
}

fn broken(why: ConnectError) -> io::Error {
    io::Error::other(why.text)
}
