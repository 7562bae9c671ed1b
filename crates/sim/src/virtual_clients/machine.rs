//! A seat's machine: the shipped client, or a script that says what no client would.
//!
//! The machine adds its seat's number to every word, so that the logic knows whose it is. The
//! client machine is shared with the seat and opened again on the next connection, session and all.

use super::lock;
use base::hash::HashKey;
use base::prng::Prng;
use base::time::Now;
use model::close::CloseReason;
use model::link::{Link, Protocol};
use model::machine::{Input, Machine, Outbox, Piece, TurnAway};
use model::ports::virtual_client::{Action, Observation};
use proto_miop::client::Client;
use std::sync::{Arc, Mutex};

/// Content of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConnectionScript {
    /// The shipped client.
    Proper,
    /// Sends nothing at all.
    Mute,
    /// Sends these bytes, and then nothing.
    Noise(Vec<u8>),
    /// The client's Bind with a byte changed.
    Spoilt(u16),
    /// Sends so many bytes of the client's Bind, and then nothing.
    Torn(u16),
    /// The client's Bind twice, then silence: a replay, or a second Bind on one connection.
    Twice,
    /// The shipped client, with these Binds of other devices behind its own (version 5).
    Several(Vec<u8>),
}

impl ConnectionScript {
    /// A script other than the proper one.
    pub fn drawn(rng: &mut Prng) -> ConnectionScript {
        match rng.below(6) {
            0 => ConnectionScript::Mute,
            1 => ConnectionScript::Noise((0..rng.below(3_000)).map(|_| rng.draw() as u8).collect()),
            2 => {
                let version = 5 + rng.below(3) as u8;
                let tail = (0..rng.below(300)).map(|_| rng.draw() as u8);
                ConnectionScript::Noise([0, version].into_iter().chain(tail).collect())
            }
            3 => ConnectionScript::Spoilt(rng.below(200) as u16),
            4 => ConnectionScript::Torn(rng.below(100) as u16),
            _ => ConnectionScript::Twice,
        }
    }
}

/// Event of a seat's connection for the logic.
pub enum Saw {
    /// The connection is open.
    Open(u32),
    /// The client of this seat observed something.
    Said(u32, Observation),
}

/// Order of the logic.
pub enum ScriptOrder {
    /// Act as a client does.
    Act(Action),
    /// Send these bytes, whatever they are.
    Raw(Vec<u8>),
}

/// The bytes with which a client that was never opened binds.
pub(super) fn bind_bytes(now: Now, mut client: Client) -> Vec<u8> {
    let mut out = Outbox::new(HashKey::new(0, 0), [0; 32]);
    let opened = client.opened(now, &Link::loopback(Protocol::Miop), &mut out);
    opened.expect("a client that opens has no reason to end");
    std::mem::take(out.bytes())
}

/// One connection of a seat.
pub struct ClientMachine {
    seat: u32,
    client: Arc<Mutex<Client>>,
    script: ConnectionScript,
}

impl ClientMachine {
    /// A machine for a seat.
    pub fn new(seat: u32, client: Arc<Mutex<Client>>, script: ConnectionScript) -> ClientMachine {
        ClientMachine { seat, client, script }
    }

    /// Seat of the machine.
    pub fn seat(&self) -> u32 {
        self.seat
    }

    /// Lets the client act and passes on what it wants, with the seat's number on its words.
    fn pass(
        &mut self,
        out: &mut Outbox<Saw>,
        act: impl FnOnce(&mut Client, &mut Outbox<Observation>) -> Result<(), CloseReason>,
    ) -> Result<(), CloseReason> {
        let mut inner = Outbox::new(HashKey::new(0, 0), [0; 32]);
        let result = act(&mut lock(&self.client), &mut inner);
        inner.drain_wire(|piece| match piece {
            Piece::Own(bytes) => out.bytes().extend_from_slice(bytes),
            Piece::Shared(frame) => out.share(frame),
        });
        inner.words().for_each(|seen| out.say(Saw::Said(self.seat, seen)));
        if let Some(at) = inner.take_wake() {
            out.wake(at);
        }
        if let Some(ms) = inner.take_silence() {
            out.silence(ms);
        }
        result
    }

    fn is_proper(&self) -> bool {
        matches!(self.script, ConnectionScript::Proper | ConnectionScript::Several(_))
    }
}

impl Machine for ClientMachine {
    type Up = Saw;
    type Down = ScriptOrder;

    fn opened(&mut self, now: Now, link: &Link, out: &mut Outbox<Saw>) -> Result<(), CloseReason> {
        out.say(Saw::Open(self.seat));
        if let ConnectionScript::Noise(bytes) = &self.script {
            out.bytes().extend_from_slice(bytes);
            return Ok(());
        }
        if self.script == ConnectionScript::Mute {
            return Ok(());
        }
        let mut bind = Outbox::new(HashKey::new(0, 0), [0; 32]);
        let result = lock(&self.client).opened(now, link, &mut bind);
        let bytes = bind.bytes();
        match self.script {
            ConnectionScript::Spoilt(at) => {
                let at = usize::from(at) % bytes.len();
                bytes[at] ^= 0x80; // no name has such a byte: it does not become another device
            }
            ConnectionScript::Torn(length) => bytes.truncate(usize::from(length)),
            ConnectionScript::Twice => bytes.extend_from_within(..),
            ConnectionScript::Several(ref others) => bytes.extend_from_slice(others),
            _ => {}
        }
        out.bytes().extend_from_slice(bytes);
        result
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Outbox<Saw>,
    ) -> Result<(), CloseReason> {
        if !self.is_proper() {
            input.take(input.rest().len());
            return Ok(());
        }
        self.pass(out, |client, out| client.receive(now, input, out))
    }

    fn command(
        &mut self,
        now: Now,
        order: ScriptOrder,
        out: &mut Outbox<Saw>,
    ) -> Result<(), CloseReason> {
        match order {
            ScriptOrder::Act(action) if self.is_proper() => {
                self.pass(out, |client, out| client.command(now, action, out))
            }
            ScriptOrder::Act(_) => Ok(()),
            ScriptOrder::Raw(bytes) => {
                out.bytes().extend_from_slice(&bytes);
                Ok(())
            }
        }
    }

    fn wake(&mut self, now: Now, out: &mut Outbox<Saw>) -> Result<(), CloseReason> {
        if self.is_proper() { self.pass(out, |client, out| client.wake(now, out)) } else { Ok(()) }
    }

    fn silent(&mut self, now: Now, out: &mut Outbox<Saw>) -> Result<(), CloseReason> {
        self.pass(out, |client, out| client.silent(now, out))
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Outbox<Saw>) {}

    fn closed(&mut self, now: Now, reason: CloseReason, out: &mut Outbox<Saw>) {
        let _ = self.pass(out, |client, out| {
            client.closed(now, reason, out);
            Ok(())
        });
    }
}
