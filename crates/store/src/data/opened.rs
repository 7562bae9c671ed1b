//! An open data folder before its threads start: what is alive in it, and what must be done first.
//!
//! In this order: rehome, if the number of logs changed; restore; start. Invariant: this module
//! notifies nobody; all answers are return values.

use crate::data::folder::OpenLog;
use crate::data::{Logs, Place, Secrets, Settings};
use crate::engine::{Engine, EngineFound, Inspection, Keep, StateError};
use crate::{LostMessage, OpenError};
use model::id::NodeId;
use model::ports::log::{Completion, Done, Party, Restored, StoreError, Table, Write};
use std::io;
use std::sync::Arc;

/// An open data folder. Dropping it lets the folder go.
pub struct OpenFolder {
    /// Its secrets: those given in [`Settings`] at its first start.
    pub secrets: Secrets,
    /// The node's number in the cluster.
    pub node: NodeId,
    /// The number of this start: above those of all before it.
    pub boot: u64,
    /// Findings of each log.
    pub found: Vec<EngineFound>,
    /// Further inspection of each log by the start.
    pub inspections: Vec<Inspection>,
    pub(crate) place: Place,
    pub(crate) settings: Settings,
    pub(crate) logs: Vec<OpenLog>,
}

impl OpenFolder {
    pub(crate) fn new(place: Place, settings: Settings, logs: Vec<OpenLog>) -> OpenFolder {
        let found = logs.iter().map(|log| log.found.clone()).collect();
        let inspections = logs.iter().map(|log| log.inspection.clone()).collect();
        let Place { secrets, node, boot, .. } = place;
        OpenFolder { secrets, node, boot, found, inspections, place, settings, logs }
    }

    /// Logs in the folder. When they are not those of the settings, [`OpenFolder::rehome`] comes
    /// before [`OpenFolder::start`].
    pub fn logs_on_disk(&self) -> u16 {
        self.logs.len() as u16
    }

    /// Carries out writes at once.
    pub fn commit(
        &mut self,
        now_s: u32,
        log: u16,
        writes: &[Write],
    ) -> Vec<Result<Done, StoreError>> {
        self.logs[usize::from(log)].engine.commit(now_s, writes)
    }

    /// Gives everything alive in a log, in the order of the port. `each` says of a timeline whether
    /// its entries are wanted; what it says of anything else means nothing. Writes of
    /// [`OpenFolder::commit`] are among it only after the next start.
    pub fn restore(
        &self,
        log: u16,
        each: &mut dyn FnMut(Restored<'_>) -> bool,
    ) -> Result<(), StateError> {
        self.logs[usize::from(log)].engine.restore(each)
    }

    /// Gives the rows of one table of a log, before anything was committed to it.
    pub fn rows(
        &self,
        log: u16,
        table: Table,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StateError> {
        let state = &self.logs[usize::from(log)].state;
        let (from, to) = ([table as u8], [&[table as u8][..], &[u8::MAX; 512]].concat());
        state.range(Keep::Rows, (&from, &to), false, &mut |key, value| {
            each(&key[1..], value);
            true
        })
    }

    /// Receiver of messages that reads find to be lost, with the number of their log.
    pub fn tell_lost(&self, hook: impl Fn(u16, LostMessage) + Clone + Send + Sync + 'static) {
        for (number, log) in (0..).zip(&self.logs) {
            let hook = hook.clone();
            log.engine.tell_lost(Arc::new(move |lost| hook(number, lost)));
        }
    }

    /// Starts the threads. `on_complete` is called on them, several at a time; it must not block.
    /// `now_s` is the clock, Unix seconds.
    pub fn start(
        self,
        now_s: Arc<dyn Fn() -> u32 + Send + Sync>,
        on_complete: impl Fn(Party, Vec<Completion>) + Clone + Send + Sync + 'static,
    ) -> io::Result<Logs> {
        if self.logs_on_disk() != self.settings.logs {
            return Err(io::Error::other("the number of logs of the folder differs: rehome first"));
        }
        Logs::start(self.place, self.logs, &self.settings, &now_s, on_complete)
    }

    /// Puts everything on stable storage, whatever the policy.
    pub(crate) fn settle(&mut self, now_s: u32) -> Result<(), OpenError> {
        let (logs, place) = (&mut self.logs, &self.place);
        logs.iter_mut().try_for_each(|log| settle(place, &mut log.engine, now_s))
    }
}

/// Makes a checkpoint of an engine, which syncs its log.
pub(crate) fn settle(place: &Place, engine: &mut Engine, now_s: u32) -> Result<(), OpenError> {
    if engine.checkpoint_now(now_s) && engine.sync().is_ok() {
        return Ok(());
    }
    let path = place.path.clone();
    match engine.is_full() {
        true => Err(OpenError::NoSpace { path }),
        false => {
            let error = io::Error::other("a log could not be put on stable storage");
            Err(OpenError::Failed { path, error })
        }
    }
}
