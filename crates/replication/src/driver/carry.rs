//! Commands of machines, carried out.

use super::{Driver, Serving};
use crate::names::log_key;
use crate::own::{batches_from, own_log};
use crate::turn::ClusterNotice;
use crate::wire::write_ask;
use base::time::Instant;
use cluster::batch::{LogEnd, StreamBatch};
use cluster::port::{Ask, LogCommand, LogEvent, LogNotice};
use cluster::replica::Replica;
use cluster::wire::message::LogName;
use model::ports::log::StoreError;
use nats::{StreamRead, TableValue};
use std::time::Duration;
use store::OpenError;
use store::data::lost::LostRecords;
use store::engine::Engine;
use store::log::FollowError;

/// A machine whose log found no room is made again after so long.
const FULL: Duration = Duration::from_secs(5);

impl Driver {
    pub(super) fn carry_out_all(&mut self) {
        while let Some((log, life, command)) = self.commands.pop_front() {
            if self.slots[usize::from(log)].life == life {
                self.carry_out(log, command);
            }
        }
    }

    fn carry_out(&mut self, log: u16, command: LogCommand) {
        let slot = &mut self.slots[usize::from(log)];
        match command {
            LogCommand::Publish { generation, number, expected, message } => {
                slot.sent(self.clock.now(), number);
                let tag = slot.tag([generation.into(), number.round, number.number.into()]);
                let subject = self.names.subject(log, generation);
                self.nats.publish(tag, subject, expected, message);
            }
            LogCommand::Read { generation, ask, from, wait } => {
                let stream = self.names.stream(log, generation);
                let tag = slot.tag([generation.into(), ask, 0]);
                self.nats.read(log.into(), tag, StreamRead { stream, from, wait });
            }
            LogCommand::Create { generation, ask } => {
                let spec = self.names.spec(log, generation, self.replicas);
                self.nats.create_later(slot.tag([generation.into(), ask, 0]), spec);
            }
            LogCommand::Delete { generation } => {
                self.nats.delete_later(self.names.stream(log, generation));
            }
            LogCommand::Purge { generation, below } => {
                slot.purge = Some((generation, below));
                self.purge();
            }
            LogCommand::Claim { ask, revision, entry } => {
                let (key, value) = (log_key(log), Some(entry.write()));
                let change = TableValue { key, revision, value };
                self.nats.set_later(slot.tag([1, ask, 0]), self.names.bucket(), change);
            }
            LogCommand::AskCopies { ask } => {
                let [first, ..] = slot.tag([0; 3]);
                let reply = format!("{}.{first}.{ask}", self.inbox);
                self.nats.say(self.names.ask(), Some(reply), write_ask(log));
            }
            LogCommand::Append { batch } => self.append(log, &batch),
            LogCommand::Cut { behind } => self.cut(log, behind),
            LogCommand::Mark { index } => {
                if let Some(engine) = self.engine(log) {
                    engine.note_acknowledged(index);
                }
            }
            LogCommand::ReadLog { ask, from } => self.read_log(log, ask, from),
            LogCommand::Copy { ask, from, have } => self.begin_copy(log, Some((ask, have)), from),
            LogCommand::Open { .. } => {
                slot.is_open = true;
                self.show_entries();
                self.next_tick = self.clock.now(); // the other logs are claimed at once
            }
            LogCommand::Close { why } => self.close(log, why),
            LogCommand::Release { index } => {
                if let Serving::Open(logs) | Serving::Leaving(_, Some(logs)) = &self.serving {
                    logs.acknowledge(log, index);
                }
            }
            LogCommand::Tell(notice) => self.tell(log, notice),
        }
    }

    /// Purges the streams of which nobody is about to go on where a base ends.
    pub(super) fn purge(&mut self) {
        for log in 0..self.slots.len() as u16 {
            if self.is_copied(log) {
                continue;
            }
            if let Some((generation, below)) = self.slots[usize::from(log)].purge.take() {
                self.nats.purge_later(self.names.stream(log, generation), below);
            }
        }
    }

    fn tell(&mut self, log: u16, notice: LogNotice) {
        let notice = match notice {
            LogNotice::AcknowledgedLost { first, last } => {
                self.note_lost(log, first, last);
                ClusterNotice::AcknowledgedLost { log, first, last }
            }
            // The damaged value was reported already.
            LogNotice::WaitsForRecover if !self.table.damages.is_empty() => return,
            LogNotice::PurgedBehindOneDisk => ClusterNotice::PurgedBehindOneDisk { log },
            LogNotice::NewGeneration { generation } => {
                ClusterNotice::NewGeneration { log, generation }
            }
            LogNotice::WaitsForRecover => ClusterNotice::WaitsForRecover { log },
        };
        self.notice(notice);
    }

    /// Remembers what the log goes on without, before it is removed from it.
    fn note_lost(&mut self, log: u16, first: u64, last: u64) {
        let (at_s, records) = (self.clock.now_s().into(), last.saturating_sub(first) + 1);
        let lost = LostRecords { at_s, log, first, last, records };
        let noted = self.folder.as_ref().map(|folder| folder.note_lost(lost));
        if let Some(Err(error)) = noted {
            self.notice(ClusterNotice::Nats(format!("the loss is not remembered: {error}")));
        }
        self.read_lost();
    }

    pub(super) fn engine(&mut self, log: u16) -> Option<&mut Engine> {
        self.folder.as_mut()?.engine(log)
    }

    /// A batch that counts goes into the own log.
    fn append(&mut self, log: u16, batch: &StreamBatch) {
        let now_s = self.clock.now_s();
        let Some(engine) = self.engine(log) else { return };
        match engine.follow(now_s, batch.bytes()) {
            Ok(_) => {
                let slot = &mut self.slots[usize::from(log)];
                (slot.is_dirty, slot.has_no_room) = (true, false);
            }
            Err(FollowError::Store(StoreError::Full)) => self.has_no_room(log),
            Err(why) => self.wreck(log, why.to_string()),
        }
    }

    fn cut(&mut self, log: u16, behind: LogEnd) {
        let Some(folder) = self.folder.as_mut() else { return };
        let slot = &mut self.slots[usize::from(log)];
        slot.written = slot.written.min(behind.index);
        if let Err(error) = folder.open(log, Some(behind.index)) {
            self.open_failed(log, &error);
        }
    }

    /// The disk is full: the machine is made again later.
    fn has_no_room(&mut self, log: u16) {
        let again = self.clock.now() + FULL;
        let slot = &mut self.slots[usize::from(log)];
        slot.drop_machine();
        (slot.again, slot.has_no_room) = (Some(again), true);
        self.notice(ClusterNotice::DiskFull { log });
    }

    /// A log does not open: for want of room it is tried again, else it is of no use.
    pub(super) fn open_failed(&mut self, log: u16, error: &OpenError) {
        match error {
            OpenError::NoSpace { .. } => self.has_no_room(log),
            _ => self.wreck(log, error.to_string()),
        }
    }

    fn read_log(&mut self, log: u16, ask: Ask, from: u64) {
        let Some(engine) = self.engine(log) else { return };
        match batches_from(engine, from) {
            Ok(batches) => self.event(log, LogEvent::LogRead { ask, batches }),
            Err(error) => self.wreck(log, error.to_string()),
        }
    }

    /// Opens every log, at the beginning.
    pub(super) fn open_all(&mut self) {
        for log in 0..self.slots.len() as u16 {
            self.open(log);
        }
    }

    fn open(&mut self, log: u16) {
        let Some(folder) = self.folder.as_mut() else { return };
        if let Err(error) = folder.open(log, None) {
            self.open_failed(log, &error);
        }
    }

    /// The copy on this disk is of no use: it is made anew from another node.
    pub(super) fn wreck(&mut self, log: u16, why: String) {
        if let Some(folder) = self.folder.as_mut() {
            folder.close(log);
        }
        let slot = &mut self.slots[usize::from(log)];
        slot.drop_machine();
        slot.copying = None;
        slot.has_no_room = false;
        slot.wreck = Some(why.clone());
        self.notice(ClusterNotice::CopiesAnew { log, why });
    }

    /// Makes a machine for a log that is open and has none, once the table is known.
    pub(super) fn make_machine(&mut self, log: u16) {
        let name = LogName { cluster: self.fingerprint, log };
        let (me, is_known) = (self.me, self.table.is_good());
        let at = usize::from(log);
        let is_wanted = self.slots[at].replica.is_none() && self.slots[at].wreck.is_none();
        if !is_known || !is_wanted || self.slots[at].copying.is_some() {
            return;
        }
        let Some(engine) = self.engine(log) else { return };
        let own = match engine.sync() {
            Ok(()) => own_log(engine),
            Err(error) => return self.wreck(log, format!("its disk fails: {error:?}")),
        };
        let slot = &mut self.slots[at];
        slot.written = own.end().index;
        slot.replica = Some(Replica::new(name, me, own));
        (slot.again, slot.is_failed) = (None, false);
        self.show_entry(log);
    }

    /// Machines that were dropped are made again, and wrecks are copied.
    pub(super) fn begin_again(&mut self, now: Instant) {
        if self.folder.is_none() {
            return;
        }
        for log in 0..self.slots.len() as u16 {
            let slot = &self.slots[usize::from(log)];
            if slot.copying.is_none() && slot.wreck.is_some() {
                self.copy_wreck(log, now);
            } else if slot.again.is_none_or(|again| now >= again) {
                if slot.copying.is_none() && self.engine(log).is_none() {
                    self.open(log);
                }
                self.make_machine(log);
            }
        }
    }

    /// Puts what followers wrote on stable storage.
    pub(super) fn sync(&mut self) {
        for log in 0..self.slots.len() as u16 {
            if !std::mem::take(&mut self.slots[usize::from(log)].is_dirty) {
                continue;
            }
            let Some(engine) = self.engine(log) else { continue };
            let (synced, index) = (engine.sync(), engine.synced());
            match synced {
                Ok(()) => self.event(log, LogEvent::Synced { index }),
                Err(error) => self.wreck(log, format!("its disk fails: {error:?}")),
            }
        }
    }

    /// Runs a slice of upkeep of each log that follows.
    pub(super) fn upkeep(&mut self) {
        let now_s = self.clock.now_s();
        for log in 0..self.slots.len() as u16 {
            let Some(engine) = self.engine(log) else { return };
            if let Some(upkeep_task) = engine.upkeep_task(now_s) {
                engine.finished(now_s, upkeep_task.run());
            }
        }
    }
}
