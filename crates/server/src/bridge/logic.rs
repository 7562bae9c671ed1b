//! Logic of the shard that all bridges of a process live on.
//!
//! Their connections are dialled, wrapped, limited, counted and ended as all of `net`'s are. It
//! passes on what is said between bridges and connections, and begins calls when they are due. It
//! knows no topic: what crosses, and what is acknowledged when, is the bridge's.

use super::crossing::Bridge;
use super::leg::{CONNECT_TIME, LegId, LegMachine, LegOrder, LegState};
use super::map::BridgeSide;
use base::hash::HashKey;
use base::time::{Instant, Now};
use client::{Endpoint, MqttEvent};
use model::close::CloseReason;
use model::id::ConnRef;
use model::link::{Link, WireProfile};
use model::machine::Outbox;
use model::ports::names::{NameAnswer, NameResolver};
use net::{ConnectionOrigin, Dialler, NamedCall, ShardHandle, ShardLogic};
use std::collections::HashMap;
use std::time::Duration;

/// Longest time that farewells take.
const FAREWELL_TIME: Duration = Duration::from_secs(1);

/// Message to the shard of bridges from outside.
pub(super) enum BridgeMail {
    /// Names were looked up.
    Names(u64, NameAnswer),
    /// Say farewell to all brokers, and end.
    Stop,
}

/// The bridges of a process.
pub(super) struct BridgeLogic {
    bridges: Vec<Bridge>,
    legs: HashMap<ConnRef, LegId>,
    dialler: Dialler,
    names: Box<dyn NameResolver + Send>,
    /// Of machines at rest.
    out: Outbox<MqttEvent>,
    /// When the shard ends, farewells said or not.
    ends_at: Option<Instant>,
}

type Handle = ShardHandle<BridgeLogic>;

impl BridgeLogic {
    pub fn new(
        bridges: Vec<Bridge>,
        dialler: Dialler,
        names: Box<dyn NameResolver + Send>,
    ) -> BridgeLogic {
        let out = Outbox::new(HashKey::new(0, 0), [0; 32]);
        BridgeLogic { bridges, legs: HashMap::new(), dialler, names, out, ends_at: None }
    }

    fn all_legs(&self) -> impl Iterator<Item = LegId> + use<> {
        (0..self.bridges.len() as u16 * 2).map(LegId)
    }

    fn part(&mut self, id: LegId) -> (&mut Bridge, BridgeSide) {
        let side = if id.0.is_multiple_of(2) { BridgeSide::Remote } else { BridgeSide::Local };
        (&mut self.bridges[usize::from(id.0 / 2)], side)
    }

    /// Carries out what this leg's bridge orders. Machines at rest are told at once, and what they
    /// say to it may bring more orders; the others are told on their connections.
    fn carry_out(&mut self, now: Now, of: LegId, handle: &mut Handle) {
        let number = usize::from(of.0 / 2);
        loop {
            let taken = self.bridges[number].take_orders();
            if taken.is_empty() {
                return;
            }
            for (side, order) in taken {
                let id = LegId(of.0 / 2 * 2 + u16::from(side == BridgeSide::Local));
                let bridge = &mut self.bridges[number];
                let leg = bridge.leg(side);
                match leg.conn() {
                    Some(conn) => handle.deliver(conn, LegOrder { id, order }),
                    None => {
                        leg.order(now, order, &mut self.out);
                        self.out.words().for_each(|event| bridge.event(side, None, event));
                    }
                }
            }
        }
    }

    /// Looks at a leg whose time has come.
    fn look(&mut self, now: Now, id: LegId, handle: &mut Handle) {
        let is_ending = self.ends_at.is_some();
        let (bridge, side) = self.part(id);
        let leg = bridge.leg(side);
        if leg.next_look().is_none_or(|at| at > now.mono) {
            return;
        }
        match leg.state {
            LegState::Away(_) if !is_ending => self.call(now, id),
            LegState::Calling(_) => {
                let text = format!("{}: connection timed out", leg.address());
                leg.failed(now);
                bridge.lost(side, text, false);
                self.dialler.cancel(id.0.into());
            }
            LegState::Asking(conn, _) => handle.close(conn, CloseReason::TimedOut),
            LegState::Away(_) | LegState::Online(_) => {}
        }
    }

    fn call(&mut self, now: Now, id: LegId) {
        let tag = u64::from(id.0);
        let (bridge, side) = self.part(id);
        let leg = bridge.leg(side);
        let layers = match leg.layers() {
            Ok(layers) => layers,
            Err(fault) => {
                leg.failed(now);
                return bridge.lost(side, fault.text, false);
            }
        };
        leg.state = LegState::Calling(now.after(CONNECT_TIME));
        match leg.address().place.clone() {
            Endpoint::Unix(path) => self.dialler.call_file(now, path.into(), layers, tag),
            Endpoint::Host(host, port) => {
                let (domain, host) = (host.into(), Some((port, layers)));
                let (services, from, public_only) = (Vec::new(), None, false);
                let named = NamedCall { domain, services, host, from, public_only, tag };
                self.dialler.call(now, named, &mut *self.names);
            }
        }
    }

    fn stop(&mut self, now: Now, handle: &mut Handle) {
        self.ends_at = Some(now.after(FAREWELL_TIME));
        for id in self.all_legs() {
            let (bridge, side) = self.part(id);
            let state = bridge.leg(side).state;
            match state {
                LegState::Calling(_) => self.dialler.cancel(id.0.into()),
                LegState::Asking(conn, _) => handle.close(conn, CloseReason::OwnStop),
                LegState::Away(_) | LegState::Online(_) => {}
            }
        }
        for at in 0..self.bridges.len() as u16 {
            self.bridges[usize::from(at)].stop();
            self.carry_out(now, LegId(at * 2), handle);
        }
    }
}

impl ShardLogic for BridgeLogic {
    type Machine = LegMachine;
    type Mail = BridgeMail;
    const WIRES: &'static [WireProfile] = &[proto_mqtt::WIRE];

    fn machine(&mut self, _: Now, _: &Link, how: ConnectionOrigin) -> Option<LegMachine> {
        let ConnectionOrigin::Dialled(tag) = how else { return None };
        let (tag, conn) = self.dialler.opened(tag)?;
        let id = LegId(u16::try_from(tag).ok()?);
        let (bridge, side) = self.part(id);
        let machine = bridge.leg(side).opened(id, conn)?;
        self.legs.insert(conn, id);
        Some(machine)
    }

    fn word(&mut self, now: Now, from: ConnRef, word: MqttEvent, handle: &mut Handle) {
        let Some(id) = self.legs.get(&from).copied() else { return };
        let (bridge, side) = self.part(id);
        bridge.event(side, Some(from), word);
        self.carry_out(now, id, handle);
    }

    fn mail(&mut self, now: Now, mail: BridgeMail, handle: &mut Handle) {
        match mail {
            BridgeMail::Names(ticket, answer) => self.dialler.answered(ticket, answer),
            BridgeMail::Stop => self.stop(now, handle),
        }
    }

    fn turn(&mut self, now: Now, handle: &mut Handle) -> Option<Instant> {
        for id in self.all_legs() {
            self.look(now, id, handle);
        }
        let next_call = self.dialler.turn(now, &mut *self.names, handle);
        for (tag, fault) in self.dialler.take_failed() {
            let id = LegId(tag as u16);
            let (bridge, side) = self.part(id);
            let leg = bridge.leg(side);
            let text = format!("{}: {fault}", leg.address());
            leg.failed(now);
            bridge.lost(side, text, false);
        }
        if let Some(ends_at) = self.ends_at {
            if self.legs.is_empty() || ends_at <= now.mono {
                handle.stop();
            }
            return Some(ends_at);
        }
        let bridges = self.bridges.iter_mut();
        let sides = [BridgeSide::Remote, BridgeSide::Local];
        let looks = bridges.flat_map(|bridge| sides.map(|side| bridge.leg(side).next_look()));
        looks.chain([next_call]).flatten().min()
    }

    fn undelivered(&mut self, now: Now, _: ConnRef, down: LegOrder, handle: &mut Handle) {
        let LegOrder { id, order } = down;
        let (bridge, side) = self.part(id);
        bridge.put_back(side, order);
        self.carry_out(now, id, handle);
    }

    fn ended(&mut self, now: Now, machine: &LegMachine, reason: CloseReason, handle: &mut Handle) {
        let id = machine.id;
        let (bridge, side) = self.part(id);
        if let Some(conn) = bridge.ended(now, side, machine, reason) {
            self.legs.remove(&conn);
        }
        self.carry_out(now, id, handle);
    }

    fn dialling(&mut self, _: Now, tag: u64, conn: ConnRef) {
        self.dialler.dialling(tag, conn);
    }

    fn connected(&mut self, _: Now, tag: u64) {
        self.dialler.connected(tag);
    }

    fn dial_failed(&mut self, now: Now, tag: u64, reason: CloseReason, handle: &mut Handle) {
        let known = (handle.detail(), handle.reached());
        self.dialler.dial_failed(now, tag, reason, known);
    }
}
