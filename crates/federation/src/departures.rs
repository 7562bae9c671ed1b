//! Messages that are with their servers, or were refused, leave the queues in which they stand.
//!
//! Queues are notified a turn's worth at once. A queue that could not be notified is notified
//! again. Invariant: a place that has left is reported until its queue has taken it, or the process
//! ends; then it is found there, and its message goes out once more.

use crate::{FederationMail, WayOut};
use model::chat::foreign::QueuePlace;
use model::ports::chat::{ChatAnswer, ChatCommand};
use model::ports::control::{Answer, Command, Control};
use model::timeline::{Seq, TimelineId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Messages that have left their queues, for which their homes are to be notified.
pub(crate) struct Departures {
    control: Arc<dyn Control + Send + Sync>,
    way: WayOut,
    left: Vec<QueuePlace>,
    /// Places whose queues could not be notified.
    again: Vec<QueuePlace>,
}

impl Departures {
    pub(crate) fn new(control: Arc<dyn Control + Send + Sync>, way: WayOut) -> Departures {
        Departures { control, way, left: Vec::new(), again: Vec::new() }
    }

    /// Reports the messages at these places: their server has them, or they were refused.
    pub(crate) fn put(&mut self, places: impl IntoIterator<Item = QueuePlace>) {
        self.left.extend(places);
    }

    /// Takes places back whose queue could not be notified.
    pub(crate) fn come_back(&mut self, queue: TimelineId, seqs: &[Seq]) {
        self.again.extend(seqs.iter().map(|&seq| QueuePlace { queue, seq }));
    }

    /// Schedules the reports again that could not be sent.
    pub(crate) fn sweep(&mut self) {
        self.left.append(&mut self.again);
    }

    /// Whether no queue must be notified again.
    pub(crate) fn is_idle(&self) -> bool {
        self.again.is_empty()
    }

    /// Tells queues what has left them.
    pub(crate) fn tell(&mut self) {
        let mut queues = BTreeMap::<TimelineId, Vec<Seq>>::new();
        for QueuePlace { queue, seq } in self.left.drain(..) {
            queues.entry(queue).or_default().push(seq);
        }
        for (queue, seqs) in queues {
            let (seqs, way) = (Box::<[Seq]>::from(seqs), self.way.clone());
            let told = ChatCommand::LeftQueue { queue, seqs: seqs.clone() };
            let reply = move |answer| {
                if !matches!(answer, Answer::Chat(ChatAnswer::Reached(true))) {
                    // Without room it is found at the next start.
                    let _ = way.post(FederationMail::NotLeft(queue, seqs));
                }
            };
            self.control.ask(Command::Chat(told), Box::new(reply));
        }
    }
}
