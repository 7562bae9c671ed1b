//! Devices: they come, take some of what is there, say so or not, report, and go or are cut off.
//!
//! One thread is host to some of the crowd, so that the visits of one device are one after another
//! and their order is known.

use super::{Numbers, Scene, Seen};
use crate::book::fact::{Ack, Fact, Visit};
use crate::clock;
use crate::dice::Dice;
use crate::line::{Heard, Line};
use crate::plan::{DeviceNumber, version};
use proto_miop::codec::Version;
use std::collections::HashMap;
use std::time::Duration;

/// State that a host keeps over the server's lives.
pub struct Host {
    devices: Vec<DeviceNumber>,
    /// The number of the last Report of each.
    seqs: HashMap<DeviceNumber, u32>,
}

impl Host {
    /// The host of these devices.
    pub fn new(devices: Vec<DeviceNumber>) -> Host {
        Host { devices, seqs: HashMap::new() }
    }
}

/// Lets devices come and go until it is over.
pub fn run(scene: &Scene, party: u64, numbers: &Numbers, host: &mut Host) -> Seen {
    let (mut dice, mut seen) = (scene.dice(party), Seen::default());
    while scene.goes_on() {
        let device = *dice.one(&host.devices);
        let mut stay = Stay {
            visit: Visit {
                device,
                began_at: clock::now_us(),
                epoch: None,
                full: false,
                came: Vec::new(),
                acks: Vec::new(),
            },
            waiting: Vec::new(),
        };
        let seq = host.seqs.entry(device).or_default();
        let ended = stay.stay(scene, (&mut dice, numbers, seq), &mut seen);
        if ended.is_err() {
            seen.tally.count("connections cut");
            clock::rest(5);
        }
        if stay.visit.epoch.is_some() || !stay.visit.came.is_empty() {
            seen.facts.push(Fact::Visited(stay.visit));
        }
    }
    seen
}

/// One visit while it lasts.
struct Stay {
    visit: Visit,
    /// Reports said and not answered: their numbers here and in the run.
    waiting: Vec<(u32, u64)>,
}

impl Stay {
    fn stay(
        &mut self,
        scene: &Scene,
        (dice, numbers, seq): (&mut Dice, &Numbers, &mut u32),
        seen: &mut Seen,
    ) -> std::io::Result<()> {
        let device = self.visit.device;
        let mut line = Line::bind(scene.devices, device, &[])?;
        match line.hear(Duration::from_secs(3))? {
            Some(Heard::Bound { epoch, .. }) => {
                self.visit.epoch = epoch;
                seen.tally.count("binds");
            }
            _ => {
                seen.tally.count("binds refused");
                clock::rest(1);
                return Ok(());
            }
        }
        for _ in 0..dice.range(1, 3) {
            let linger = dice.range(1, 25);
            if scene.reports && version(device) == Version::V7 && dice.percent(60) {
                for _ in 0..dice.range(1, 4) {
                    let number = numbers.next();
                    *seq += 1;
                    let body = crate::hook::report(scene.seed, number, device, dice.range(0, 900));
                    seen.said.push((number, device));
                    self.waiting.push((*seq, number));
                    line.report(*seq, body.as_bytes())?;
                }
            }
            let until = clock::now_us() + linger * 1_000;
            while clock::now_us() < until && scene.goes_on() {
                let left = until.saturating_sub(clock::now_us()).max(1_000);
                let Some(heard) = line.hear(Duration::from_micros(left))? else { break };
                if !self.take(heard, seen) {
                    return Ok(());
                }
            }
            self.acknowledge(&mut line, dice, seen)?;
        }
        if dice.percent(30) {
            line.unbind()?;
            while let Some(heard) = line.hear(Duration::from_secs(2))? {
                if heard == Heard::Unbound || !self.take(heard, seen) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Acknowledges all, some or none of the new pushes, and mostly asks whether that was read.
    fn acknowledge(
        &mut self,
        line: &mut Line,
        dice: &mut Dice,
        seen: &mut Seen,
    ) -> std::io::Result<()> {
        let share = *dice.one(&[0, 50, 100, 100]);
        let is_new = |id: &u64| !self.visit.acks.iter().any(|ack| ack.id == *id);
        let ids: Vec<u64> = self.visit.came.iter().map(|came| came.id).filter(is_new).collect();
        let ids: Vec<u64> = ids.into_iter().filter(|_| dice.percent(share)).collect();
        if ids.is_empty() {
            return Ok(());
        }
        // Written down first: a cut in the middle of it may leave a part with the server.
        self.visit.acks.extend(ids.iter().map(|id| Ack { id: *id, read_at: None }));
        line.acknowledge(&ids)?;
        if dice.percent(15) {
            return Ok(());
        }
        line.ping()?;
        loop {
            match line.hear(Duration::from_secs(3))? {
                Some(Heard::Pong) => break,
                Some(heard) => {
                    if !self.take(heard, seen) {
                        return Ok(());
                    }
                }
                None => return Ok(()),
            }
        }
        let now = clock::now_us();
        self.visit.acks.iter_mut().for_each(|ack| _ = ack.read_at.get_or_insert(now));
        Ok(())
    }

    /// Whether the visit goes on.
    fn take(&mut self, heard: Heard, seen: &mut Seen) -> bool {
        match heard {
            Heard::Push(came) => self.visit.came.push(came),
            Heard::Taken(upto) => {
                let taken = self.waiting.iter().filter(|(seq, _)| *seq <= upto);
                seen.taken.extend(taken.map(|(_, number)| *number));
                self.waiting.retain(|(seq, _)| *seq > upto);
            }
            Heard::NotTaken(refused) => {
                seen.tally.count("reports refused");
                self.waiting.retain(|(seq, _)| *seq != refused);
            }
            Heard::Refused(_) | Heard::Unbound => return false,
            Heard::Bound { .. } | Heard::Pong => {}
        }
        true
    }
}
