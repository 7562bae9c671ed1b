//! Input of the driver, and where each kind goes.

use super::slot::of_tag;
use super::table::BUCKET;
use super::{Driver, Input, Serving};
use crate::one_node;
use crate::turn::ClusterNotice;
use crate::wire::{CopyAsk, read_ask};
use base::time::Instant;
use cluster::batch::StreamBatch;
use cluster::node::MajorityProof;
use cluster::port::{LogEvent, PublishNumber, StreamError, StreamPage};
use cluster::replica::NodeView;
use cluster::wire::beat::{Beat, LogRole, clock_difference, clock_of};
use nats::{NatsError, NatsEvent, StreamSlice, Tag};

impl Driver {
    pub(super) fn take(&mut self, input: Input) {
        match input {
            Input::Nats(event) => self.nats_told(event),
            Input::Written { log, bytes } => self.written(log, &bytes),
            Input::Opened(logs) => self.logs_opened(logs),
            Input::Closed => self.logs_closed(),
            Input::Copy(end) => self.copy_went_on(end),
            Input::Based { log, base } => self.based(log, base),
            Input::Reached { node, unreachable } => self.reached(node, unreachable),
            Input::Leave => {
                self.is_to_leave = true;
                self.look_for_successor();
            }
            Input::End => self.is_over = true,
        }
        self.carry_out_all();
    }

    fn nats_told(&mut self, event: NatsEvent) {
        match event {
            NatsEvent::Connected(is_connected) => {
                self.note_connected(is_connected);
            }
            NatsEvent::Said(why) => self.complain(why),
            NatsEvent::Published { tag, result } => self.published(tag, &result),
            NatsEvent::Read { tag, result } => {
                let result = result.map(page).map_err(|error| failure(&error));
                self.answer(tag, LogEvent::Read { ask: tag[2], result });
            }
            NatsEvent::Created { tag, result } => {
                // The machine asks again; an operator may have to do something.
                if let Some(why) = result.as_ref().err().filter(|it| **it != NatsError::Silent) {
                    self.complain(format!("no stream: {why}"));
                }
                let result = result.map_err(|error| failure(&error));
                self.answer(tag, LogEvent::Created { ask: tag[2], result });
            }
            NatsEvent::Set { tag, result } => self.was_set(tag, &result),
            NatsEvent::State { tag: [BUCKET, ..], result } => {
                if let Ok(state) = result {
                    self.replicas = state.replicas.max(1);
                }
            }
            NatsEvent::State { tag, result } => {
                let (log, _) = of_tag(tag);
                if let (Some(slot), Ok(state)) = (self.slots.get_mut(usize::from(log)), result) {
                    slot.stream_bytes = state.bytes;
                }
            }
            NatsEvent::Table(value) => self.table_told(value),
            NatsEvent::TableWhole => self.table_whole(),
            NatsEvent::TableGone => self.table_gone(),
            NatsEvent::Heard { subject, reply, payload } => self.heard(&subject, reply, &payload),
        }
    }

    /// NATS complains. It says the same at every attempt, and an operator hears it once.
    fn complain(&mut self, why: String) {
        if self.said != why {
            self.said.clone_from(&why);
            self.notice(ClusterNotice::Nats(why));
        }
    }

    pub(super) fn note_connected(&mut self, is_connected: bool) {
        if self.is_connected != is_connected {
            self.is_connected = is_connected;
            self.said.clear();
            self.notice(ClusterNotice::Connected(is_connected));
        }
    }

    fn published(&mut self, tag: Tag, result: &Result<u64, NatsError>) {
        let now = self.clock.now();
        let number = PublishNumber { round: tag[2], number: tag[3] as u32 };
        let (log, life) = of_tag(tag);
        let slot = self.slots.get_mut(usize::from(log)).filter(|it| it.life == life);
        if let Some(slot) = slot.filter(|_| result.is_ok()) {
            slot.acknowledged(now, number);
        }
        let result = result.as_ref().map(|sequence| *sequence).map_err(failure);
        self.answer(tag, LogEvent::Published { generation: tag[1] as u32, number, result });
    }

    /// An answer to a machine, unless that is gone.
    fn answer(&mut self, tag: Tag, event: LogEvent) {
        let (log, life) = of_tag(tag);
        if self.slots.get(usize::from(log)).is_some_and(|slot| slot.life == life) {
            self.event(log, event);
        }
    }

    fn written(&mut self, log: u16, bytes: &[u8]) {
        let batch = StreamBatch::take(&mut &bytes[..]);
        let batch = batch.expect("a batch as the log has it on its disk");
        self.slots[usize::from(log)].written = batch.last_index();
        self.event(log, LogEvent::Written { batch });
    }

    fn heard(&mut self, subject: &str, reply: Option<String>, payload: &[u8]) {
        if subject == self.names.ask() {
            if let (Some(log), Some(reply)) = (read_ask(payload), reply) {
                self.tell_state(log, reply);
            }
        } else if subject == self.names.copy(self.me.node) {
            if let (Some(ask), Some(reply)) = (CopyAsk::read(payload), reply) {
                self.give_copy(ask, reply);
            }
        } else if let Some(rest) = subject.strip_prefix(&self.inbox) {
            self.copy_state(rest, payload);
        } else if let Some(beat) = Beat::read(self.fingerprint, payload) {
            self.hear(beat);
        }
    }

    fn hear(&mut self, beat: Beat) {
        let now = self.clock.now();
        if beat.by.node == self.me.node {
            return self.namesake.hear(now, self.me.boot, beat.by.boot);
        }
        self.heard.insert(beat.by.node.number(), now);
        self.compare_clocks(now, &beat);
        self.look_whether_reached(now, beat.by.node);
        if beat.logs.iter().any(|told| told.role == LogRole::Left) {
            self.next_tick = now; // a node that is to lead claims at once
        }
        self.peers.hear(now, beat);
        if self.told_leader.is_none() {
            self.tell_leader(now); // clients are refused until then
        }
    }

    fn compare_clocks(&mut self, now: Instant, beat: &Beat) {
        let own = clock_of(self.clock.now_s());
        let Some(seconds) = clock_difference(own, beat.clock) else { return };
        let node = beat.by.node;
        if let Some(differs) = self.skews.note(now, node, seconds) {
            let seconds = differs.then_some(seconds);
            self.notice(ClusterNotice::ClockDiffers { node, seconds });
        }
    }

    /// Another copy said how far it is: `.log.life.ask`.
    fn copy_state(&mut self, subject: &str, payload: &[u8]) {
        let mut words = subject.split('.').skip(1).map(|word| word.parse::<u64>().ok());
        let (Some(Some(first)), Some(Some(ask))) = (words.next(), words.next()) else { return };
        let Some(beat) = Beat::read(self.fingerprint, payload) else { return };
        if beat.by.node == self.me.node {
            return self.namesake.answered(self.clock.now(), self.me.boot, beat.by.boot);
        }
        let (log, _) = of_tag([first, 0, 0, 0]);
        let state = beat.logs.iter().find(|told| told.log == log).copied();
        let Some(state) = state else { return };
        self.answer([first, 0, ask, 0], LogEvent::CopyState { ask, node: beat.by.node, state });
    }

    pub(super) fn tick_log(&mut self, log: u16) {
        self.show_entry(log);
        self.event(log, LogEvent::Tick);
    }

    /// Tells the machine of a log something; what it wants is carried out later.
    pub(super) fn event(&mut self, log: u16, event: LogEvent) {
        let now = self.clock.now();
        let leads_first = self.leads_first();
        let Some(slot) = self.slots.get_mut(usize::from(log)) else { return };
        // While a copy is made the machine waits for it, however long that takes.
        let is_frozen = slot.copying.is_some() && !matches!(event, LogEvent::Copied { .. });
        let Some(replica) = slot.replica.as_mut().filter(|_| !is_frozen) else { return };
        let none = MajorityProof::default();
        let may_claim = one_node::may_claim(log, leads_first, slot.is_open);
        let proof = if may_claim { &self.proof } else { &none };
        let copies_min = usize::from(self.settings.copies_min);
        let view = NodeView { now, proof, peers: &self.peers, copies_min };
        let mut out = Vec::new();
        replica.on(&view, event, &mut out);
        let life = slot.life;
        self.commands.extend(out.into_iter().map(|command| (log, life, command)));
    }

    /// Whether a log is isolated.
    pub(super) fn is_isolated(&self) -> bool {
        let (now, proof, peers) = (self.clock.now(), &self.proof, &self.peers);
        let view = NodeView { now, proof, peers, copies_min: 1 };
        let is = |replica: &cluster::replica::Replica| replica.is_isolated(&view);
        self.slots.iter().any(|slot| slot.replica.as_ref().is_some_and(is))
    }

    /// Whether all logs are led and served.
    pub(super) fn leads(&self) -> bool {
        let (now, proof, peers) = (self.clock.now(), &self.proof, &self.peers);
        let view = NodeView { now, proof, peers, copies_min: 1 };
        let is = |replica: &cluster::replica::Replica| replica.leads(&view);
        matches!(self.serving, Serving::Open(_))
            && self.slots.iter().all(|slot| slot.replica.as_ref().is_some_and(is))
    }
}

fn page(slice: StreamSlice) -> StreamPage {
    let StreamSlice { first, last, messages } = slice;
    StreamPage { first, last, messages }
}

fn failure(error: &NatsError) -> StreamError {
    match error {
        NatsError::Refused => StreamError::Refused,
        NatsError::Full => StreamError::Full,
        NatsError::Gone => StreamError::Gone,
        NatsError::Silent | NatsError::Other(_) => StreamError::Silent,
    }
}
