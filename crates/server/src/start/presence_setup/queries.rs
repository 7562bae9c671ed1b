//! Queries of operators about the copy of presence.
//!
//! The replicator's thread says how it stands; records are read, and audits made, over connections
//! of their own, so that neither waits for the other nor holds the replicator up. Memory answers by
//! the control port, like everybody. Invariant: at most one call is under way on a connection.

use super::history::HistoryInbox;
use super::replication::Latest;
use crate::clock;
use model::ports::control::{Answer, Command, Control};
use model::ports::presence::directory::{Directory, DirectoryEntry, DirectoryError, Lease};
use model::ports::presence::queries::{
    Audit, AuditOrder, Circuit, MemoryEntry, Moment, PastTransition, PresenceAnswer,
    PresenceCommand, PresenceQueries, Remembered, ReplicationStatus, StatisticsStep,
};
use model::presence::{NodeName, PresenceRecord, Principal};
use presence::{AuditSides, Digests, MemoryReader, Statistics};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long shards may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Sends all shards the directory's content of a bucket; false when some could not be reached.
pub type CompareAll = Box<dyn Fn(u16, Arc<Vec<DirectoryEntry>>) -> bool + Send + Sync>;

/// The process's queries for presence.
pub struct DirectoryQueries {
    /// This node.
    pub lease: Lease,
    /// The copy; absent without a directory.
    pub copy: Option<Copy>,
    /// The history, where one is kept, and the number of its transitions in one answer.
    pub history: (Option<HistoryInbox>, usize),
    /// Figures over time.
    pub statistics: Arc<Mutex<Statistics>>,
}

/// State of the copy, and who can find out more.
pub struct Copy {
    /// State of the copy.
    pub latest: Latest,
    /// Memory's own sums.
    pub digests: Arc<Digests>,
    /// For single records.
    pub reader: Mutex<Box<dyn Directory>>,
    /// For audits.
    pub auditor: Mutex<Box<dyn Directory>>,
    /// Memory itself.
    pub shards: Shards,
}

/// Memory, on all shards.
pub struct Shards {
    /// For questions.
    pub control: Arc<dyn Control>,
    /// For what is to be written over.
    pub compare: CompareAll,
}

impl DirectoryQueries {
    fn copy(&self) -> Result<&Copy, DirectoryError> {
        self.copy
            .as_ref()
            .ok_or_else(|| DirectoryError::Refused("no directory is configured".into()))
    }
}

impl PresenceQueries for DirectoryQueries {
    fn standing(&self) -> ReplicationStatus {
        match &self.copy {
            Some(copy) => copy.latest.standing(),
            None => ReplicationStatus {
                kind: "none",
                node: self.lease.clone(),
                circuit: Circuit::Closed,
                unwritten: 0,
                lag_ms: 0,
                resync_left: 0,
                fault: None,
                counters: Vec::new(),
            },
        }
    }

    fn stored(
        &self,
        who: &[Principal],
    ) -> Result<(Vec<Option<PresenceRecord>>, Vec<Lease>), DirectoryError> {
        let mut reader = held(&self.copy()?.reader);
        let keys: Vec<Box<str>> = who.iter().map(Principal::key).collect();
        let records = if keys.is_empty() { Vec::new() } else { reader.find(&keys)? };
        Ok((records, reader.nodes()?))
    }

    fn addresses(&self, nodes: &[NodeName]) -> Result<Vec<Option<Box<str>>>, DirectoryError> {
        let mut reader = held(&self.copy()?.reader);
        nodes.iter().map(|node| reader.address(node)).collect()
    }

    fn history(&self, who: &Principal, count: usize) -> Option<Vec<PastTransition>> {
        let (history, most) = &self.history;
        history.as_ref()?.read(who, count.min(*most))
    }

    fn audit(&self, order: AuditOrder) -> Result<Audit, DirectoryError> {
        let copy = self.copy()?;
        let mut auditor = held(&copy.auditor);
        let (began, mut waited) = (clock::began(), Duration::ZERO);
        let mut wait = |ms: u64| {
            let time = Duration::from_millis(ms);
            std::thread::sleep(time);
            waited += time;
        };
        let sides = AuditSides {
            lease: &self.lease,
            digests: &copy.digests,
            memory: &copy.shards,
            directory: auditor.as_mut(),
        };
        let audit = presence::audit(order, sides, &mut wait)?;
        let took = clock::since(began).saturating_sub(waited);
        Ok(Audit { took_ms: took.as_millis() as u64, ..audit })
    }

    fn statistics(&self, step: StatisticsStep) -> Vec<Moment> {
        held(&self.statistics).of(step)
    }
}

impl Shards {
    fn ask(&self, command: PresenceCommand) -> Result<PresenceAnswer, DirectoryError> {
        let (tell, told) = sync_channel(1);
        let reply = Box::new(move |answer| {
            // Nobody waits any more when it is late.
            let _ = tell.send(answer);
        });
        self.control.ask(Command::Presence(command), reply);
        match told.recv_timeout(ANSWER) {
            Ok(Answer::Presence(answer)) => Ok(answer),
            Ok(Answer::Busy) => {
                Err(DirectoryError::Refused("shards of this server are busy".into()))
            }
            Ok(_) => Err(nonsense()),
            Err(_) => {
                Err(DirectoryError::Refused("shards of this server did not answer in time".into()))
            }
        }
    }
}

impl MemoryReader for Shards {
    fn entries(&self, buckets: Vec<u16>) -> Result<Vec<MemoryEntry>, DirectoryError> {
        match self.ask(PresenceCommand::Buckets(buckets))? {
            PresenceAnswer::Entries(entries) => Ok(entries),
            _ => Err(nonsense()),
        }
    }

    fn histories(
        &self,
        who: Vec<Principal>,
    ) -> Result<Vec<(Principal, Vec<Remembered>)>, DirectoryError> {
        match self.ask(PresenceCommand::Histories(who))? {
            PresenceAnswer::Histories(histories) => Ok(histories),
            _ => Err(nonsense()),
        }
    }

    fn compare(&self, bucket: u16, stored: Arc<Vec<DirectoryEntry>>) -> Result<(), DirectoryError> {
        match (self.compare)(bucket, stored) {
            true => Ok(()),
            false => Err(DirectoryError::Refused("shards of this server are busy".into())),
        }
    }
}

fn nonsense() -> DirectoryError {
    DirectoryError::Nonsense("an internal answer to another question".into())
}

fn held<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
