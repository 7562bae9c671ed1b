//! Where Reports wait for webhooks, as reloads change which webhooks there are.
//!
//! The API's couriers follow first, then the shards store Reports for the webhooks that there are,
//! then what waits for removed ones is deleted. Invariant: nothing is deleted from a timeline into
//! which a shard may still append.

use super::super::storage::{Storage, insist};
use super::super::{ServerOutside, services};
use super::listeners::PATIENCE;
use super::lock;
use crate::config::Config;
use crate::shard_logic::Mail;
use crate::switchboard::Mailboxes;
use base::hash::HashKey;
use model::id::ShardId;
use model::ports::backlog::ReportHook;
use model::timeline::TimelineId;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};

/// The Reports for webhooks, on all shards of a running server.
pub(in crate::start) struct ReportPlaces {
    boxes: Mailboxes<ServerOutside>,
    storage: Arc<Storage>,
    /// Names the timelines.
    home: HashKey,
    state: Mutex<PlacesState>,
}

struct PlacesState {
    /// Timelines in which Reports may wait, those included that are still to be deleted.
    timelines: Vec<TimelineId>,
    /// The last change was not carried out whole.
    is_behind: bool,
}

/// Where each webhook of a configuration has its Reports wait: none without the API, which would
/// post them.
pub(in crate::start) fn report_hooks(config: &Config, home: HashKey) -> Vec<ReportHook> {
    let hooks = if config.api.enabled { services::webhooks(config) } else { Vec::new() };
    let timelines = services::report_timelines(home, &hooks);
    let both = hooks.into_iter().zip(timelines);
    let wanted = both.filter_map(|(hook, timeline)| Some((hook, timeline?)));
    wanted.map(|(hook, timeline)| ReportHook { product: hook.product, timeline }).collect()
}

impl ReportPlaces {
    /// Places of a server that was started with this configuration.
    pub(in crate::start) fn new(
        boxes: &Mailboxes<ServerOutside>,
        storage: &Arc<Storage>,
        (home, config): (HashKey, &Config),
    ) -> ReportPlaces {
        let state = PlacesState { timelines: timelines(config, home), is_behind: false };
        let (boxes, storage, state) = (boxes.clone(), storage.clone(), Mutex::new(state));
        ReportPlaces { boxes, storage, home, state }
    }

    /// Whether the last change left something to do.
    pub(super) fn is_behind(&self) -> bool {
        lock(&self.state).is_behind
    }

    /// Sets the webhooks that get Reports, and deletes what waits for others. An error says what is
    /// left, for the next reload or start.
    pub(super) fn set(&self, config: &Config) -> Result<(), String> {
        let mut state = lock(&self.state);
        state.is_behind = true;
        self.tell_shards(report_hooks(config, self.home).into())?;
        let wanted = timelines(config, self.home);
        let mut gone = std::mem::replace(&mut state.timelines, wanted.clone());
        gone.retain(|timeline| !wanted.contains(timeline));
        let mut fault = None;
        for timeline in gone {
            if let Err(error) = self.storage.backlog.forget(timeline) {
                fault = Some(error);
                state.timelines.push(timeline);
            }
        }
        state.is_behind = fault.is_some();
        fault.map_or(Ok(()), |error| {
            Err(format!(
                "Reports that wait for a removed webhook could not be deleted ({error:?}): the \
                 next reload or start deletes them"
            ))
        })
    }

    /// Returns once all shards store Reports for these webhooks and no others.
    fn tell_shards(&self, hooks: Arc<[ReportHook]>) -> Result<(), String> {
        let (done, is_done) = sync_channel(0);
        for shard in 0..self.boxes.len() {
            let mail = Mail::ReportHooks(hooks.clone(), done.clone());
            insist(&self.boxes, ShardId(shard as u16), mail, &self.storage.over);
        }
        drop(done);
        match is_done.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Timeout) => {
                Err("a shard is busy: it follows when it is less busy; Reports that wait for \
                     removed webhooks are deleted by the next reload or start"
                    .into())
            }
            // Nothing is ever sent: this is the end of the last shard's copy.
            Err(RecvTimeoutError::Disconnected) => Ok(()),
        }
    }
}

/// The timelines of the webhooks of a configuration that want Reports.
fn timelines(config: &Config, home: HashKey) -> Vec<TimelineId> {
    services::report_timelines(home, &services::webhooks(config)).into_iter().flatten().collect()
}
