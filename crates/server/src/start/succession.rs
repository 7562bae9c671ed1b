//! A server that takes the place of a running one, and one whose place is taken.
//!
//! Steps that can fail without the data folder are tried before the running server is bound to
//! anything: files that the configuration names, addresses that the other one does not have,
//! descriptors. Invariant: a server that gives its place away keeps copies of its listeners until
//! another one serves at them.

use super::supervisor::Inherited;
use super::{RunningServer, StartError, doors, failed, fit_descriptors, listeners};
use super::{shard_count, unusable};
use crate::config::Config;
use crate::takeover::{ListenerHold, Offer, Predecessor, TakeOverEvent};
use model::{event, tell};
use net::OtherServers;
use net::listen::{KeptSocket, SocketFiles};
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the place of the server that runs on the data folder of this configuration: when this
/// returns, its clients are gone, its logs are closed, and its listeners are among what is
/// inherited. Without such a server there is nothing to take. An error changed nothing for it.
pub fn take_over(
    config: &Config,
    inherited: Inherited,
) -> Result<(Option<Predecessor>, Inherited), StartError> {
    if inherited.supervisor.is_there() {
        return Err(StartError(
            "--take-over: this server has a supervisor (NOTIFY_SOCKET), which keeps its listeners \
             over a restart: let that one restart it"
                .into(),
        ));
    }
    let Some((predecessor, mut sockets)) = Predecessor::ask(&config.server.data).map_err(failed)?
    else {
        tell!(event::NOBODY_TO_SUCCEED);
        return Ok((None, inherited));
    };
    let mut files = ready(config, &mut sockets)?;
    predecessor.commit();
    // From here on they are among those that the server adopts.
    files.leave();
    Ok((Some(predecessor), Inherited { sockets, taken_over: true, ..inherited }))
}

/// Sees that this process could serve with these sockets.
fn ready(config: &Config, sockets: &mut Vec<KeptSocket>) -> Result<SocketFiles, StartError> {
    let serves_on =
        |why: String| StartError(format!("{why}\nThe running server continues to serve"));
    let mut config = config.clone();
    fit_descriptors(&mut config).map_err(|error| serves_on(error.to_string()))?;
    let wrong = unusable(&config);
    if !wrong.is_empty() {
        return Err(serves_on(wrong.join("\n")));
    }
    let tls = doors::load_tls(&config)?;
    let doors = doors::doors(&config, &tls);
    let count = shard_count(config.server.shards);
    let completed = listeners::complete(&config, (&doors, count), sockets);
    completed.map_err(|error| serves_on(error.to_string()))
}

impl RunningServer {
    /// Offers its place to a server that is started to take it over. Where a supervisor keeps the
    /// listeners it is not offered.
    pub fn offer_place(&self, events: &SyncSender<TakeOverEvent>) {
        if self.supervisor.is_there() {
            return;
        }
        let data = self.config().server.data;
        match Offer::make(&data, self.copies.clone(), events.clone()) {
            Ok(offer) => *lock(&self.offer) = Some(offer),
            Err(error) => tell!(event::SUCCESSION_OFF, %error),
        }
    }

    /// Offers its place no more. Its listeners, once more.
    pub(super) fn keep_place(&self) -> Vec<KeptSocket> {
        drop(lock(&self.offer).take());
        let mut copies = lock(&self.copies);
        copies.hold = ListenerHold::Gone;
        std::mem::take(&mut copies.sockets)
    }

    /// Lets the connections go at the pace of a take-over. The listeners stay open, in the hands of
    /// whoever calls this.
    pub fn move_off(&mut self) -> Vec<KeptSocket> {
        self.tell_stopping();
        self.step_down(self.config().limits.take_over_ms, OtherServers::new())
    }

    /// Lets the connections go over so many milliseconds, to these servers, at the end of a node of
    /// a cluster.
    pub(super) fn hand_over(&mut self, over_ms: u32, to: OtherServers) {
        self.tell_stopping();
        drop(self.step_down(over_ms, to));
    }

    /// The log takes nothing more: nobody waits for it at the end.
    pub(super) fn abandon_log(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Lets the connections go over so many milliseconds, to these servers, of a process that goes
    /// on. The listeners stay open, in the hands of whoever calls this.
    pub(super) fn step_down(&mut self, over_ms: u32, to: OtherServers) -> Vec<KeptSocket> {
        self.files.0.files().leave();
        let copies = self.keep_place();
        self.let_go(over_ms, to);
        copies
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
