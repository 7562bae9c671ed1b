//! Routing of commands: to the one server, the master that Sentinels name, or the slot's master.
//!
//! All that this module learns is forgotten after a fault, except the servers it can ask: the
//! places of the URL and the masters seen last. The server that is asked first changes with each
//! fault, so that one that does not answer does not cost every call its time.

use crate::clock::Deadline;
use crate::reply;
use crate::settings::Access;
use crate::slots::SlotMap;
use crate::url::{HostPort, RedisKind, RedisUrl};
use crate::wire::Wire;
use model::ports::presence::directory::DirectoryError;
use std::collections::HashMap;

/// Connections by place.
pub(crate) type Wires = HashMap<HostPort, Wire>;

/// Routing of commands: which node serves which slot.
pub(crate) struct Course {
    target: RedisUrl,
    /// For Sentinels.
    access: Access,
    /// The server that has everything, unless it is a cluster.
    master: Option<HostPort>,
    map: SlotMap,
    /// Masters of the cluster that were seen last.
    seen: Vec<HostPort>,
    /// Number of faults so far, by which the server to ask first is chosen.
    first: usize,
    /// Whether something has happened since that does not fit.
    is_stale: bool,
}

impl Course {
    /// Makes a course that knows nothing yet.
    pub(crate) fn new(target: RedisUrl, access: &Access) -> Course {
        let account = target.sentinel_account.clone();
        let access = Access { account, db: 0, ..access.clone() };
        let (map, seen) = (SlotMap::default(), Vec::new());
        Course { target, access, master: None, map, seen, first: 0, is_stale: false }
    }

    /// Which Redis it is.
    pub(crate) fn kind(&self) -> RedisKind {
        self.target.kind
    }

    /// The slots, of a cluster.
    pub(crate) fn map(&self) -> &SlotMap {
        &self.map
    }

    /// Notes that the topology may have changed: the next call looks.
    pub(crate) fn doubt(&mut self) {
        self.is_stale = true;
    }

    /// A node said that a slot is elsewhere. More may have moved.
    pub(crate) fn moved(&mut self, slot: u16, to: HostPort) -> Result<(), DirectoryError> {
        self.doubt();
        self.map.moved(slot, to)
    }

    /// Whether somebody whom commands may go to is there.
    pub(crate) fn has(&self, place: &HostPort) -> bool {
        match self.target.kind {
            RedisKind::Standalone | RedisKind::Sentinel => self.master.as_ref() == Some(place),
            RedisKind::Cluster => {
                self.map.masters().contains(place) || self.target.places.contains(place)
            }
        }
    }

    /// Learns what has to be known before [`Course::place`]. `access` is for servers.
    pub(crate) fn learn(
        &mut self,
        access: &Access,
        wires: &mut Wires,
        deadline: Deadline,
    ) -> Result<(), DirectoryError> {
        match self.target.kind {
            RedisKind::Standalone => self.master = self.target.places.first().cloned(),
            RedisKind::Sentinel if self.master.is_none() => self.ask_sentinels(deadline)?,
            RedisKind::Cluster if self.map.is_empty() => self.ask_nodes(access, wires, deadline)?,
            RedisKind::Sentinel | RedisKind::Cluster if self.is_stale => {
                self.review(access, wires, deadline)
            }
            RedisKind::Sentinel | RedisKind::Cluster => {}
        }
        Ok(())
    }

    /// Asks again although something is known: after a fail-over the old master may still answer.
    /// Where nobody knows better, what was known stays.
    pub(crate) fn review(&mut self, access: &Access, wires: &mut Wires, deadline: Deadline) {
        self.is_stale = false;
        // Not knowing better must leave time for what has to be done.
        let deadline = deadline.share(2);
        let _ = match self.target.kind {
            RedisKind::Standalone => Ok(()),
            RedisKind::Sentinel => self.ask_sentinels(deadline),
            RedisKind::Cluster => self.ask_nodes(access, wires, deadline),
        };
    }

    /// Where the commands about this slot go.
    pub(crate) fn place(&self, slot: u16) -> Result<HostPort, DirectoryError> {
        let place = match self.target.kind {
            RedisKind::Cluster => self.map.master(slot),
            RedisKind::Standalone | RedisKind::Sentinel => self.master.as_ref(),
        };
        let refused = || DirectoryError::Refused(format!("CLUSTERDOWN no master has slot {slot}"));
        place.cloned().ok_or_else(refused)
    }

    /// Forgets masters and slots.
    pub(crate) fn forget(&mut self) {
        self.master = None;
        self.map = SlotMap::default();
        self.is_stale = false;
        self.first = self.first.wrapping_add(1);
    }

    /// Asks the Sentinels for the master; the first answer counts.
    fn ask_sentinels(&mut self, deadline: Deadline) -> Result<(), DirectoryError> {
        let places = self.in_turn(self.target.places.clone());
        let count = places.len();
        let mut last = None;
        for (at, place) in places.into_iter().enumerate() {
            match self.ask_sentinel(&place, one_of(deadline, count - at)) {
                Ok(master) => {
                    self.master = Some(master);
                    return Ok(());
                }
                Err(fault) => last = worse(last, fault),
            }
        }
        Err(last.unwrap_or_else(|| DirectoryError::Unreachable("no Sentinel is reachable".into())))
    }

    fn ask_sentinel(
        &mut self,
        place: &HostPort,
        deadline: Deadline,
    ) -> Result<HostPort, DirectoryError> {
        let mut wire = Wire::open(place, &self.access, deadline)?;
        let name = self.target.master.as_bytes();
        let answer = wire.ask(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name], deadline);
        let answer = reply::done(answer?)?;
        if answer == redis::Value::Nil {
            let name = &self.target.master;
            return Err(DirectoryError::Refused(format!(
                "the Sentinel {place} has no master `{name}`"
            )));
        }
        let mut answer = reply::list(answer)?.into_iter();
        let mut next = || reply::text(answer.next().unwrap_or_default());
        let (host, port) = (next()?, next()?);
        let port = port.parse().map_err(|_| {
            DirectoryError::Nonsense(format!(
                "an invalid port \
                                                                       `{port}`"
            ))
        })?;
        Ok(HostPort { host: host.into(), port })
    }

    /// Asks the nodes for the slots; the first answer counts.
    fn ask_nodes(
        &mut self,
        access: &Access,
        wires: &mut Wires,
        deadline: Deadline,
    ) -> Result<(), DirectoryError> {
        let mut places = self.in_turn(self.target.places.clone());
        let others = self.seen.iter().filter(|place| !places.contains(place));
        places.extend(others.cloned().collect::<Vec<_>>());
        let count = places.len();
        let mut last = None;
        for (at, place) in places.into_iter().enumerate() {
            let deadline = one_of(deadline, count - at);
            let wire = match wires.remove(&place) {
                Some(wire) => Ok(wire),
                None => Wire::open(&place, access, deadline),
            };
            let told = wire.and_then(|mut wire| {
                let answer = wire.ask(&[b"CLUSTER", b"SLOTS"], deadline)?;
                let map = SlotMap::read(answer, &place)?;
                wires.insert(place, wire);
                Ok(map)
            });
            match told {
                Ok(map) => {
                    self.seen = map.masters().to_vec();
                    self.map = map;
                    return Ok(());
                }
                Err(fault) => last = worse(last, fault),
            }
        }
        Err(last.unwrap_or_else(|| DirectoryError::Unreachable("no node is reachable".into())))
    }

    fn in_turn(&self, mut places: Vec<HostPort>) -> Vec<HostPort> {
        let first = self.first % places.len().max(1);
        places.rotate_left(first);
        places
    }
}

/// The end of the time of the next of so many who may be asked: half of it, for most answer.
fn one_of(deadline: Deadline, left: usize) -> Deadline {
    if left > 1 { deadline.share(2) } else { deadline }
}

/// Of several faults that which says most: a word of theirs before silence.
fn worse(last: Option<DirectoryError>, fault: DirectoryError) -> Option<DirectoryError> {
    match last {
        Some(last @ (DirectoryError::Refused(_) | DirectoryError::Nonsense(_))) => Some(last),
        _ => Some(fault),
    }
}
