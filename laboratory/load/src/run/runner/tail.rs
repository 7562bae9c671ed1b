//! Messages left when the senders are done: those that the target still owes an answer, and how
//! long after the last answer the last message came.
//!
//! The measurement goes by looks, ten a second while messages are counted: that is the grain of its
//! time.

use super::Runner;
use lab::run::Counts;
use verdict::message_figures as figures;

/// A count, and when a look last showed more than before, milliseconds since the run began.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Latest {
    count: f64,
    at_ms: u64,
}

impl Latest {
    fn note(&mut self, count: f64, now_ms: u64) {
        if count > self.count {
            *self = Latest { count, at_ms: now_ms };
        }
    }
}

const TAKEN: &str = "messages.taken";

impl Runner<'_> {
    /// Notes what the look of this moment showed.
    pub(super) fn note_latest(&mut self, now_ms: u64) {
        let of = |name: &str| self.total.figure(name);
        let answered = of(TAKEN) + of("messages.refused");
        let received = of("messages.received");
        self.answered.note(answered, now_ms);
        self.received.note(received, now_ms);
    }

    /// Counts how long after the last answer the last message came, if both did in this stage.
    pub(super) fn tail(&mut self, from_ms: u64) {
        let (answered, received) = (self.answered.at_ms, self.received.at_ms);
        if answered > from_ms && received > from_ms {
            self.count_once(figures::TAILS, 1.0);
            self.count_once(figures::TAIL_MS, received.saturating_sub(answered) as f64);
        }
    }

    /// Counts how long the target took for a number of messages that were to be sent, from the
    /// first moment of sending to its last answer.
    pub(super) fn sent_in(&mut self, from_ms: u64) {
        let answered = self.answered.at_ms;
        if !self.owing.is_empty() && answered > from_ms {
            self.count_once(figures::SENDINGS, 1.0);
            self.count_once(figures::SENDING_MS, answered.saturating_sub(from_ms) as f64);
        }
    }

    /// Groups that have a number of messages to send, and what they will have had taken then.
    pub(super) fn owing(&self) -> Vec<(String, f64)> {
        let groups = self.traffic.iter().filter_map(|(group, traffic)| {
            let clients = self.wanted.get(group).copied().unwrap_or(0);
            let rounds: Option<u64> = traffic.iter().map(|sent| sent.rounds(clients)).sum();
            let messages: Option<u64> = traffic.iter().map(|sent| sent.messages).sum();
            let until = match (rounds.filter(|rounds| *rounds > 0), messages) {
                (Some(rounds), _) => rounds as f64,
                (None, messages) => self.taken(group) + messages.filter(|it| *it > 0)? as f64,
            };
            Some((group.clone(), until))
        });
        groups.collect()
    }

    /// Counts what the target owes of what was to be sent in this stage.
    pub(super) fn owe(&mut self) {
        let owing = std::mem::take(&mut self.owing);
        if owing.is_empty() {
            return;
        }
        let owed: f64 =
            owing.iter().map(|(group, until)| (until - self.taken(group)).max(0.0)).sum();
        self.count_once(figures::OWING, 1.0);
        self.count_once(figures::OWED, owed);
    }

    fn taken(&self, group: &str) -> f64 {
        self.groups.get(group).map_or(0.0, |counts: &Counts| counts.figure(TAKEN))
    }

    /// Counts something that no look shows.
    pub(super) fn count_once(&mut self, name: &str, value: f64) {
        self.audited.raise(name, value);
        self.total.raise(name, value);
    }
}
