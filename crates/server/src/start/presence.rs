//! Presence at the start: configuration's words become keepers, the directory's thread, the office.
//!
//! What can refuse (certificates, settings) does so before any shard runs; a directory that is away
//! refuses nothing. [`copying`] is the thread that carries what keepers hand out, [`office`]
//! answers operators, [`figures`] notes totals once a second, [`opening`] makes directories as
//! configured, [`recall`] puts right what a killed server left on the topic of events. Invariant:
//! the lease is released after the shards have ended, and nothing is written after that.

pub(super) mod copying;
mod figures;
mod node;
mod office;
mod opening;
mod recall;

use super::storage::{Storage, insist};
use super::{LOOK, LOOKS, Seeds, StartError, World, failed, stream};
use crate::config::Config;
use crate::house::{Attendance, EventTopic, Mail};
use crate::switchboard::{Mailboxes, Switchboard};
use ::presence::{Copyist, CopyistSettings, Digests, Keeper, Settings, Statistics};
use admin::{Feed, Readings};
use copying::{Copies, Copying, Post, Word, Work};
use figures::Sampling;
use model::id::ShardId;
use model::ports::directory::Lease;
use model::presence::Principal;
use office::{Copy, Office, Shards};
use opening::Opening;
use std::sync::{Arc, Mutex};

/// What is known of presence before the shards run.
pub(super) struct Presence {
    pub(super) lease: Lease,
    opening: Option<Opening>,
    digests: Arc<Digests>,
    topic: Option<EventTopic>,
    history_max: u32,
    flush_ms: u32,
    copying: Option<Copying>,
    stream: Option<stream::Running>,
}

/// Presence at work.
pub(super) struct Running {
    copying: Option<Copying>,
    stream: Option<stream::Running>,
    sampling: Sampling,
}

impl Presence {
    /// Reads certificates, and draws the number of this start.
    pub(super) fn new(config: &Config, boot: u64) -> Result<Presence, StartError> {
        let config = &config.presence;
        let name = node::name(&config.node);
        Ok(Presence {
            lease: Lease { node: name.clone(), boot },
            opening: Opening::of(config).map_err(wrong)?,
            digests: Digests::new(),
            topic: EventTopic::parse(&config.events_topic).map(|topic| topic.of(&name)),
            history_max: config.history_max,
            flush_ms: config.flush_ms,
            copying: None,
            stream: None,
        })
    }

    /// Starts the directory's thread, if there is a directory, and the courier to its stream.
    pub(super) fn begin(
        &mut self,
        config: &Config,
        seed: u64,
        (boxes, storage, feed): (&Mailboxes<World>, &Storage, &Arc<Feed>),
    ) -> Result<(), StartError> {
        let Some(opening) = &self.opening else { return Ok(()) };
        let Lease { node, boot } = &self.lease;
        if let Some(stream) = opening.stream(&config.presence).map_err(wrong)? {
            // Before anything happens.
            self.stream = Some(stream::start(stream, feed, node, *boot).map_err(failed)?);
        }
        let shards = boxes.len() as u16;
        let settings = CopyistSettings {
            lease_ms: config.presence.lease_ms,
            resync_per_s: config.presence.resync_per_s,
            background_s: config.presence.compare_s,
            forget_after_s: config.limits.forget_after_s,
            ..CopyistSettings::new(self.lease.clone(), shards, opening.kind(), seed)
        };
        let (boxes, over) = (boxes.clone(), storage.over.clone());
        let post = move |word| match word {
            Word::Written(shard, result) => insist(&boxes, shard, Mail::Written(result), &over),
            Word::Compare(bucket, stored) => {
                for shard in (0..shards).map(ShardId) {
                    insist(&boxes, shard, Mail::Compare(bucket, stored.clone()), &over);
                }
            }
        };
        let work = Work {
            copyist: Copyist::new(settings, self.digests.clone()),
            directory: opening.connection().map_err(wrong)?,
            desk: Box::new(Post(post)),
            digests: self.digests.clone(),
        };
        self.copying = Some(Copying::start(shards.into(), work).map_err(failed)?);
        let (boot, kind) = (format!("{boot:x}"), opening.kind());
        tracing::info!(%node, boot, kind, "a directory is told who is online");
        Ok(())
    }

    /// The way to the directory's thread.
    pub(super) fn copies(&self) -> Option<Copies> {
        self.copying.as_ref().and_then(Copying::copies)
    }

    /// A shard's keeper.
    pub(super) fn attendance(&self, seeds: &Seeds, shard: ShardId) -> Attendance {
        let settings = Settings {
            shard,
            shards: seeds.count as u16,
            home: seeds.home,
            lease: self.lease.clone(),
            copies: self.opening.is_some(),
            history_max: self.history_max,
            flush_ms: self.flush_ms,
            seed: seeds.seed ^ u64::from(shard.0),
        };
        Attendance::new(Keeper::new(settings, self.digests.clone()), self.topic.clone())
    }

    /// The shards run: the office, and figures once a second.
    pub(super) fn run(
        self,
        switchboard: &Switchboard<World>,
        shards: usize,
    ) -> Result<(Arc<Office>, Running), StartError> {
        let statistics = Arc::new(Mutex::new(Statistics::new()));
        let Presence { lease, opening, digests, copying, topic, stream, .. } = self;
        let copy = match opening.zip(copying.as_ref()) {
            None => None,
            Some((opening, copying)) => {
                let (control, all) = (Arc::new(switchboard.clone()), switchboard.clone());
                let compare = move |bucket, stored: Arc<_>| {
                    all.tell_all(|| Mail::Compare(bucket, Arc::clone(&stored)))
                };
                Some(Copy {
                    latest: copying.latest(),
                    digests,
                    reader: Mutex::new(opening.connection().map_err(wrong)?),
                    auditor: Mutex::new(opening.connection().map_err(wrong)?),
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
        let all = switchboard.clone();
        let ask = move |to: &_| all.tell_all(|| Mail::Figures(Clone::clone(to)));
        let sampling = Sampling::start(shards, Box::new(ask), statistics.clone());
        let office = Arc::new(Office { lease, copy, statistics });
        Ok((office, Running { copying, stream, sampling: sampling.map_err(failed)? }))
    }
}

impl Running {
    /// Figures of the stream of events, where there is one.
    pub(super) fn readings(&self) -> Option<Readings> {
        self.stream.as_ref().map(|stream| Arc::new(stream.readings()) as Readings)
    }

    /// The shards have ended: ends the lease and the threads.
    pub(super) fn stop(&mut self) {
        self.sampling.stop();
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
