//! Bridges to other MQTT brokers.
//!
//! A bridge is a thread with two legs: a session at the remote broker and one at our own, both
//! durable unless it is told otherwise. A message that comes in on one leg is acknowledged there
//! when the other leg's broker has it, and not before: while one side is away, messages wait in the
//! other side's queue for the bridge's session, and a crash loses none. (At QoS 2 a crash of this
//! process may repeat what was on its way.)
//!
//! It knows no shard and no store: our own broker is an address to it, as the remote one is.
//! Topics are mapped in [`map`], what a bridge is asked for stands in [`settings`].

mod legs;
pub mod map;
pub mod settings;

pub use map::{Direction, Topic};
pub use settings::{BridgeProtocol, BridgeSection, LocalBroker};

use client::{ConnectError, Session};
use legs::Legs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Status of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeStatus {
    /// Its name in the configuration.
    pub name: String,
    /// Whether the remote broker has accepted it.
    pub is_online: bool,
    /// Connections to the remote broker so far.
    pub connects: u64,
    /// Messages handed to the remote broker and, at QoS 1 and 2, acknowledged by it.
    pub out: u64,
    /// Messages of the remote broker handed to ours.
    pub received: u64,
    /// Messages that the other side did not take, or that could not be mapped.
    pub refused: u64,
    /// Why the remote broker was not reached, or was lost, the last time.
    pub last_fault: Option<String>,
}

/// What a bridge's thread shares with whoever asks.
#[derive(Default)]
struct Shared {
    status: Mutex<BridgeStatus>,
    stop: AtomicBool,
}

impl Shared {
    fn status(&self) -> MutexGuard<'_, BridgeStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bridges of this process. Dropping them stops them.
#[derive(Default)]
pub struct Bridges {
    threads: Vec<(Arc<Shared>, JoinHandle<()>)>,
}

/// Starts a thread for each bridge that is to start. An error says what to change.
pub fn start(all: Vec<BridgeSection>, local: &LocalBroker) -> Result<Bridges, String> {
    let mut bridges = Bridges::default();
    for settings in all.into_iter().filter(|settings| settings.enabled) {
        settings.check()?;
        let named = |fault: ConnectError| format!("bridge {}: {fault}", settings.name);
        let remote = Session::new(settings.remote()?).map_err(named)?;
        let ours = Session::new(settings.ours(local)?).map_err(named)?;
        let shared = Arc::new(Shared::default());
        shared.status().name.clone_from(&settings.name);
        let name = format!("bridge-{}", settings.name);
        let mut legs = Legs::new(settings, [remote, ours], shared.clone())?;
        let builder = std::thread::Builder::new().name(name.clone());
        let thread = builder.spawn(move || legs.run());
        let thread = thread.map_err(|error| format!("{name}: cannot start a thread: {error}"))?;
        bridges.threads.push((shared, thread));
    }
    Ok(bridges)
}

/// Longest time between two looks at whether a bridge is to stop.
const LOOK: Duration = Duration::from_millis(250);

impl Bridges {
    /// How they are.
    pub fn status(&self) -> Vec<BridgeStatus> {
        self.threads.iter().map(|(shared, _)| shared.status().clone()).collect()
    }

    /// Stops them; each says farewell to both brokers. One that is calling finishes that first.
    pub fn stop(&mut self) {
        self.threads.iter().for_each(|(shared, _)| shared.stop.store(true, Ordering::Relaxed));
        for (_, thread) in self.threads.drain(..) {
            // One that broke off has said so in the log.
            let _ = thread.join();
        }
    }
}

impl Drop for Bridges {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests;
