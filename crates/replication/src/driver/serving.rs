//! The folder's way to the server and back: lead, opened, leave, closed.
//!
//! ```text
//! Follows ─► all logs open ─► Given ─► opened ─► Open ─► a log closes ─► Leaving ─► closed ─► Over
//!    ▲ a log closes before that: all machines anew ┘
//! ```

use super::slot::Slot;
use super::{Driver, Input};
use crate::one_node::FIRST;
use crate::turn::{ClusterNotice, LeaveReason, Turn};
use base::time::Instant;
use cluster::port::{ClosedBy, LogEvent};
use cluster::replica::COPIES_LONGEST;
use cluster::wire::beat::LogRole;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use store::data::{FollowingFolder, Logs};
use store::log::{LogBatch, Ship};

/// Time in which batches written before the logs closed may still be acknowledged.
const LAST: Duration = Duration::from_secs(2);

/// A log that the leader of log 0 does not come to lead in this time: it lets others try. Machines
/// begin anew then, so none may still wait for copies.
const ALL: Duration = Duration::from_secs(150);

const _: () = assert!(ALL.as_secs() > 2 * COPIES_LONGEST.as_secs());

/// Owner of the folder.
pub(crate) enum Serving {
    /// This thread: logs follow, or claim. Since when log 0 is open, if it is.
    Follows(Option<Instant>),
    /// The server, which restores.
    Given,
    /// The server, whose logs run.
    Open(Arc<Logs>),
    /// The server, which closes the logs, since then. Written batches are still acknowledged; none
    /// if the logs did not run yet.
    Leaving(Instant, Option<Arc<Logs>>),
    /// No owner; the last acknowledgements are waited for until then.
    Over(Instant),
}

/// Hands a log's batches to the node's thread.
struct Shipped {
    log: u16,
    to: Sender<Input>,
}

impl Ship for Shipped {
    fn ship(&mut self, batch: &LogBatch<'_>) {
        // Whoever is gone acknowledges nothing.
        let _ = self.to.send(Input::Written { log: self.log, bytes: batch.bytes.to_vec() });
    }
}

impl Driver {
    pub(super) fn look_at_serving(&mut self, now: Instant) {
        match &mut self.serving {
            Serving::Follows(since) => {
                if !self.slots.first().is_some_and(|slot| slot.is_open) {
                    *since = None;
                } else if self.slots.iter().all(|slot| slot.is_open) {
                    self.give_folder();
                } else if now.since(*since.get_or_insert(now)) >= ALL {
                    *since = None;
                    self.begin_anew();
                }
            }
            Serving::Over(until) => {
                let is_done = self.slots.iter().all(Slot::is_settled);
                if is_done || now >= *until {
                    self.say_goodbye();
                    self.is_over = true;
                }
            }
            Serving::Given | Serving::Open(_) | Serving::Leaving(..) => {}
        }
        self.look_how_full();
    }

    /// Tells the logs, and an operator, of streams that have no room, or have room again. A node
    /// that leads no more does not know whether there is room.
    fn look_how_full(&mut self) {
        for slot in &mut self.slots {
            let is_full = slot.replica.as_ref().is_some_and(|it| it.is_full());
            if std::mem::replace(&mut slot.is_told_full, is_full) == is_full {
                continue;
            }
            if let Serving::Open(logs) = &self.serving {
                logs.stream_full(slot.log, is_full);
            }
            let role = slot.replica.as_ref().map(|it| it.beat().role);
            if is_full || matches!(role, Some(LogRole::Leading | LogRole::Claiming)) {
                let notice = ClusterNotice::StreamFull { log: slot.log, is_full };
                self.shared.tell(Turn::Notice(notice));
            }
        }
    }

    /// All logs are led: the server gets the folder.
    fn give_folder(&mut self) {
        let now_s = self.clock.now_s();
        let Some(mut folder) = self.folder.take() else { return };
        self.serving = Serving::Given;
        let led = lead_all(&mut folder, &self.to_self)
            .and_then(|()| folder.lead(now_s).map_err(|error| error.to_string()));
        match led {
            Ok(open) => self.shared.tell(Turn::Lead(Box::new(open))),
            Err(why) => {
                self.notice(ClusterNotice::Nats(why));
                self.leave(LeaveReason::LogFailed);
            }
        }
    }

    pub(super) fn logs_opened(&mut self, logs: Arc<Logs>) {
        for slot in &self.slots {
            logs.acknowledge(slot.log, slot.acknowledged_index());
            if slot.is_told_full {
                logs.stream_full(slot.log, true);
            }
        }
        match &mut self.serving {
            Serving::Given => self.serving = Serving::Open(logs),
            // It is to leave, and the server is told.
            Serving::Leaving(_, leaving) => return *leaving = Some(logs),
            _ => return,
        }
        for log in 0..self.slots.len() as u16 {
            self.event(log, LogEvent::Opened);
        }
        self.tell_status(self.clock.now()); // whoever balances clients looks at it
    }

    /// Ends the service of a log, and with it that of all: a server serves all logs or none.
    pub(super) fn close(&mut self, log: u16, why: ClosedBy) {
        let why = match why {
            ClosedBy::Deposed => LeaveReason::Deposed,
            ClosedBy::Asked => LeaveReason::Asked,
            ClosedBy::LogFailed => LeaveReason::LogFailed,
        };
        match self.serving {
            Serving::Given | Serving::Open(_) => self.leave(why),
            Serving::Leaving(..) | Serving::Over(_) => {}
            Serving::Follows(_) => {
                self.slots[usize::from(log)].is_open = false;
                self.event(log, LogEvent::Closed);
                if log == FIRST {
                    self.begin_anew();
                }
            }
        }
    }

    fn leave(&mut self, why: LeaveReason) {
        self.is_deposed = why == LeaveReason::Deposed;
        let logs = match &self.serving {
            Serving::Open(logs) => Some(Arc::clone(logs)),
            _ => None,
        };
        let now = self.clock.now();
        self.serving = Serving::Leaving(now, logs);
        self.tell_status(now);
        let to = self.leader_address();
        self.shared.tell(Turn::Leave { why, to });
    }

    /// The logs beside log 0 are followed again, for another node leads log 0 or is to.
    fn begin_anew(&mut self) {
        for log in 0..self.slots.len() as u16 {
            let slot = &mut self.slots[usize::from(log)];
            if slot.replica.is_some() && slot.copying.is_none() {
                slot.drop_machine();
                self.make_machine(log);
            }
        }
    }

    pub(super) fn logs_closed(&mut self) {
        // Of a deposed leader nothing more is acknowledged.
        let last = if self.is_deposed { Duration::ZERO } else { LAST };
        let until = self.clock.now() + last;
        self.serving = Serving::Over(until);
        for log in 0..self.slots.len() as u16 {
            self.event(log, LogEvent::Closed);
        }
    }
}

fn lead_all(folder: &mut FollowingFolder, to: &Sender<Input>) -> Result<(), String> {
    for log in 0..folder.count() {
        let engine = folder.engine(log).ok_or("a log is not open")?;
        let ship = Box::new(Shipped { log, to: to.clone() });
        engine.lead_on(ship).map_err(|error| format!("log {log} cannot be led: {error:?}"))?;
    }
    Ok(())
}
