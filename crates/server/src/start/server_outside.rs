//! The log, the event feed, the questions of access and the directory as one shard of a real server
//! sees them.
//!
//! It notes which appends are Reports, so that the webhooks' couriers are told when one is on
//! stable storage and not at every push. Invariant: a ticket is noted from its call to its
//! completion.

use super::SharedParts;
use super::presence_setup::replication::ReplicatorInbox;
use super::storage::Storage;
use crate::access::Entrance;
use crate::outside::{Outside, Service};
use admin::Feed;
use model::event::{ClientEvent, Event};
use model::id::ShardId;
use model::ports::access::{Admission, Question};
use model::ports::directory::{Batch, DirectoryError};
use model::ports::log::{Call, Completion, Party, Ticket, Write};
use model::pressure::{Gauge, Pressure};
use model::timeline::Space;
use std::collections::HashSet;
use std::sync::Arc;

/// The log and the event feed of a real server.
pub struct ServerOutside {
    shard: ShardId,
    storage: Arc<Storage>,
    feed: Arc<Feed>,
    entrance: Arc<Entrance>,
    /// The way to the directory's thread, where there is one.
    copies: Option<ReplicatorInbox>,
    gauge: Arc<Gauge>,
    /// Tickets of Reports that are on their way to the log.
    reports: HashSet<Ticket>,
}

impl ServerOutside {
    pub(super) fn new(shard: ShardId, parts: &SharedParts<'_>) -> ServerOutside {
        ServerOutside {
            shard,
            storage: parts.storage.clone(),
            feed: parts.feed.clone(),
            entrance: parts.entrance.clone(),
            copies: parts.presence.copies(),
            gauge: parts.gauge.clone(),
            reports: HashSet::new(),
        }
    }
}

impl Outside for ServerOutside {
    fn call(&mut self, service: Service, calls: Vec<(Ticket, Call)>) -> Vec<Ticket> {
        let Service::Hub = service else {
            let refused = self.storage.logs.submit(Party::Broker(self.shard), self.shard.0, calls);
            let refused = refused.err().unwrap_or_default();
            return refused.into_iter().map(|(ticket, _)| ticket).collect();
        };
        let reports = calls.iter().filter(|(_, call)| is_report(call));
        self.reports.extend(reports.map(|(ticket, _)| *ticket));
        let refused = self.storage.logs.submit(Party::Shard(self.shard), self.shard.0, calls);
        let refused = refused.err().unwrap_or_default();
        let tickets: Vec<_> = refused.into_iter().map(|(ticket, _)| ticket).collect();
        self.reports.retain(|ticket| !tickets.contains(ticket));
        tickets
    }

    fn completed(&mut self, completions: &[Completion]) {
        if self.reports.is_empty() {
            return;
        }
        let noted = completions.iter().filter(|(ticket, _)| self.reports.remove(ticket));
        if noted.filter(|(_, result)| result.is_ok()).count() > 0 {
            self.storage.backlog.appended();
        }
    }

    fn events_wanted(&self) -> bool {
        self.feed.wanted()
    }

    fn publish(&mut self, events: Vec<Event>) -> usize {
        self.feed.publish(events)
    }

    fn clients_wanted(&self) -> bool {
        self.feed.clients_wanted()
    }

    fn messages_wanted(&self) -> bool {
        self.feed.messages_wanted()
    }

    fn publish_clients(&mut self, events: Vec<ClientEvent>) -> usize {
        self.feed.publish_clients(events)
    }

    fn pressure(&self) -> Pressure {
        self.gauge.now()
    }

    fn resolve(&mut self, number: u64, question: Box<Question>) -> Result<(), Admission> {
        self.entrance.resolve(self.shard, number, question)
    }

    fn copy(&mut self, batches: Vec<Batch>) -> Result<(), DirectoryError> {
        match &self.copies {
            Some(copies) => copies.offer(self.shard, batches),
            None => Err(DirectoryError::Refused("no directory is configured".into())),
        }
    }
}

fn is_report(call: &Call) -> bool {
    let Call::Write(Write::Append(append)) = call else { return false };
    append.to.first().is_some_and(|timeline| timeline.space() == Space::Reports)
}
