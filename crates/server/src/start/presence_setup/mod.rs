//! Presence at the start: configuration's words become trackers, the directory's thread, the
//! queries.
//!
//! Certificates and settings are checked before any shard runs; a directory that is away does not
//! stop the start. [`replication`] is the thread that carries what trackers hand out, [`history`]
//! the one that keeps who came and went on the disk, [`queries`] answers operators, [`figures`]
//! notes totals once a second, [`connector`] makes directories as configured, [`recall`] puts right
//! what a killed server left on the topic of events. Invariant: the lease is released after the
//! shards have ended, and nothing is written after that.

pub(super) mod connector;
mod figures;
pub(super) mod history;
mod node;
mod queries;
mod recall;
pub(super) mod replication;

use super::periodic::PeriodicTask;
use super::storage::{Storage, insist};
use super::{LOOK, LOOKS, Seeds, ServerOutside, StartError, failed, stream};
use crate::config::Config;
use crate::shard_logic::{EventTopic, FiguresCell, Mail, ShardPresence};
use crate::switchboard::{Mailboxes, Switchboard};
use ::presence::{Digests, PresenceTracker, Replicator, ReplicatorSettings, Settings, Statistics};
use admin::{Feed, Readings};
use connector::DirectoryConnector;
use history::{HistoryInbox, HistoryThread};
use model::id::ShardId;
use model::ports::presence::directory::Lease;
use model::presence::Principal;
use model::{event, tell};
use queries::{Copy, DirectoryQueries, Shards};
use replication::{
    ReplicatorInbox, ReplicatorParts, ReplicatorThread, ShardMailboxes, ShardNotice,
};
use std::sync::{Arc, Mutex};

/// Presence before the shards run.
pub(super) struct PresenceSetup {
    pub(super) lease: Lease,
    connector: Option<DirectoryConnector>,
    digests: Arc<Digests>,
    topic: Option<EventTopic>,
    history_max: u32,
    history_told_max: usize,
    flush_ms: u32,
    history: Option<HistoryThread>,
    copying: Option<ReplicatorThread>,
    stream: Option<stream::Running>,
    /// Each shard's totals.
    figures: Arc<[FiguresCell]>,
}

/// Presence at work.
pub(super) struct Running {
    history: Option<HistoryThread>,
    copying: Option<ReplicatorThread>,
    stream: Option<stream::Running>,
}

impl PresenceSetup {
    /// Reads certificates; `boot` is the number of this start.
    pub(super) fn new(
        config: &Config,
        shards: usize,
        boot: u64,
    ) -> Result<PresenceSetup, StartError> {
        let name = node::name(&config.presence.node);
        let address = node::address(config, &name);
        let config = &config.presence;
        Ok(PresenceSetup {
            lease: Lease { node: name.clone(), boot },
            connector: DirectoryConnector::of(config, address).map_err(wrong)?,
            digests: Digests::new(),
            topic: EventTopic::parse(&config.events_topic).map(|topic| topic.of(&name)),
            history_max: config.history_max,
            history_told_max: config.history_told_max as usize,
            flush_ms: config.flush_ms,
            history: None,
            copying: None,
            stream: None,
            figures: (0..shards).map(|_| FiguresCell::default()).collect(),
        })
    }

    /// Starts the thread of the history, and, if there is a directory, the directory's and the
    /// courier to its stream.
    pub(super) fn begin(
        &mut self,
        config: &Config,
        seed: u64,
        (boxes, storage, feed): (&Mailboxes<ServerOutside>, &Storage, &Arc<Feed>),
    ) -> Result<(), StartError> {
        let history = HistoryThread::start(&config.server.data, &config.presence, &self.lease);
        self.history = history.map_err(|error| {
            StartError(format!("{}/presence-history: {error}", config.server.data.display()))
        })?;
        let Some(connector) = &self.connector else { return Ok(()) };
        let Lease { node, boot } = &self.lease;
        if let Some(stream) = connector.stream(&config.presence).map_err(wrong)? {
            // Before anything happens.
            self.stream = Some(stream::start(stream, feed, node, *boot).map_err(failed)?);
        }
        let shards = boxes.len() as u16;
        let settings = ReplicatorSettings {
            lease_ms: config.presence.lease_ms,
            resync_per_s: config.presence.resync_per_s,
            background_s: config.presence.compare_s,
            forget_after_s: config.limits.pushes.forget_after_s,
            ..ReplicatorSettings::new(self.lease.clone(), shards, connector.kind(), seed)
        };
        let (boxes, over) = (boxes.clone(), storage.over.clone());
        let post = move |word| match word {
            ShardNotice::Written(shard, result) => {
                insist(&boxes, shard, Mail::Written(result), &over)
            }
            ShardNotice::Compare(bucket, stored) => {
                for shard in (0..shards).map(ShardId) {
                    insist(&boxes, shard, Mail::Compare(bucket, stored.clone()), &over);
                }
            }
        };
        let work = ReplicatorParts {
            replicator: Replicator::new(settings, self.digests.clone()),
            directory: connector.connection().map_err(wrong)?,
            sink: Box::new(ShardMailboxes(post)),
            digests: self.digests.clone(),
        };
        self.copying = Some(ReplicatorThread::start(shards.into(), work).map_err(failed)?);
        let (boot, kind) = (format!("{boot:x}"), connector.kind());
        tell!(event::DIRECTORY_TOLD, %node, boot, kind);
        Ok(())
    }

    /// The way to the directory's thread.
    pub(super) fn copies(&self) -> Option<ReplicatorInbox> {
        self.copying.as_ref().and_then(ReplicatorThread::copies)
    }

    /// The way to the history.
    pub(super) fn history(&self) -> Option<HistoryInbox> {
        self.history.as_ref().map(HistoryThread::inbox)
    }

    /// A shard's tracker.
    pub(super) fn shard_presence(&self, seeds: &Seeds, shard: ShardId) -> ShardPresence {
        let settings = Settings {
            shard,
            shards: seeds.count as u16,
            home: seeds.home,
            lease: self.lease.clone(),
            copies: self.connector.is_some(),
            history_max: self.history_max,
            flush_ms: self.flush_ms,
            seed: seeds.seed ^ u64::from(shard.0),
        };
        let tracker = PresenceTracker::new(settings, self.digests.clone());
        let figures = self.figures[usize::from(shard.0)].clone();
        ShardPresence::new(tracker, self.topic.clone(), figures)
    }

    /// The shards run: the queries, and what notes figures once a second.
    pub(super) fn run(
        self,
        switchboard: &Switchboard<ServerOutside>,
    ) -> Result<(Arc<DirectoryQueries>, Running, PeriodicTask), StartError> {
        let statistics = Arc::new(Mutex::new(Statistics::new()));
        let history = self.history();
        let PresenceSetup { lease, connector, digests, copying, topic, stream, figures, .. } = self;
        let copy = match connector.zip(copying.as_ref()) {
            None => None,
            Some((connector, copying)) => {
                let (control, all) = (Arc::new(switchboard.clone()), switchboard.clone());
                let compare = move |bucket, stored: Arc<_>| {
                    all.tell_all(|| Mail::Compare(bucket, Arc::clone(&stored)))
                };
                Some(Copy {
                    latest: copying.latest(),
                    digests,
                    reader: Mutex::new(connector.connection().map_err(wrong)?),
                    auditor: Mutex::new(connector.connection().map_err(wrong)?),
                    shards: Shards { control, compare: Box::new(compare) },
                })
            }
        };
        if let Some(topic) = topic {
            let all = switchboard.clone();
            // A full mailbox is waited for; nobody else waits for this.
            let ask = move |who: Principal, version| {
                (0..LOOKS).any(|look| {
                    if look > 0 {
                        std::thread::sleep(LOOK);
                    }
                    all.recall(who.clone(), version)
                })
            };
            let control = Arc::new(switchboard.clone());
            recall::begin(topic, control, Box::new(ask)).map_err(failed)?;
        }
        let figures = figures::task(figures, statistics.clone());
        let history = (history, self.history_told_max);
        let queries = Arc::new(DirectoryQueries { lease, copy, history, statistics });
        Ok((queries, Running { history: self.history, copying, stream }, figures))
    }
}

impl Running {
    /// Figures of the history and of the stream of events, where there are such.
    pub(super) fn readings(&self) -> Option<Readings> {
        let stream = self.stream.as_ref().map(|stream| Arc::new(stream.readings()) as Readings);
        let history = self.history.as_ref().map(|history| history.inbox().readings());
        let all: Vec<Readings> = history.into_iter().chain(stream).collect();
        (!all.is_empty()).then(|| -> Readings {
            Arc::new(move || all.iter().flat_map(|readings| readings()).collect())
        })
    }

    /// The shards have ended: ends the lease and the threads.
    pub(super) fn stop(&mut self) {
        if let Some(history) = &mut self.history {
            history.stop();
        }
        if let Some(stream) = &self.stream {
            stream.stop();
        }
        if let Some(copying) = &mut self.copying {
            copying.stop();
        }
    }
}

fn wrong(error: String) -> StartError {
    StartError(format!("[presence]: {error}"))
}
