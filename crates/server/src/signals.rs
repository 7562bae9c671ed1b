//! SIGTERM and SIGINT drain the server, a second one ends it at once; SIGHUP reloads. A server that
//! takes over is an event like them.
//!
//! Invariant: this process ends when it was told to, or when another one serves in its place; if
//! that one dies first, this one serves again.

use crate::config::Config;
use crate::start::{Inherited, RunningServer, Started};
use crate::takeover::{Successor, TakeOverEvent};
use model::{event, tell};
use net::listen::KeptSocket;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

/// Signals that are caught from now on, and wait until the server runs.
pub struct Caught {
    events: Receiver<TakeOverEvent>,
    more: SyncSender<TakeOverEvent>,
    /// The next signal that ends has its default effect: an end at once.
    ends_at_once: Arc<AtomicBool>,
}

/// Most events that wait to be handled. One more blocks its sender; signals that come meanwhile are
/// merged by the system.
const EVENTS_MAX: usize = 64;

/// Catches the signals. To be called before anybody can know that the server is there.
pub fn catch() -> io::Result<Caught> {
    let ends_at_once = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register_conditional_default(signal, ends_at_once.clone())?;
    }
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let (more, events) = sync_channel(EVENTS_MAX);
    let to = more.clone();
    let forward = move || {
        for signal in signals.forever() {
            if to.send(TakeOverEvent::Signal(signal)).is_err() {
                break;
            }
        }
    };
    Builder::new().name("signals".into()).spawn(forward)?;
    Ok(Caught { events, more, ends_at_once })
}

impl Caught {
    /// The next event, if any.
    pub(crate) fn look(&self) -> Option<TakeOverEvent> {
        self.events.try_recv().ok()
    }

    /// Where further events go.
    pub(crate) fn more(&self) -> SyncSender<TakeOverEvent> {
        self.more.clone()
    }

    /// The next signal that ends does so at once.
    pub(crate) fn end_at_once(&self) {
        self.ends_at_once.store(true, Ordering::Relaxed);
    }

    /// Waits until the successor serves, or this process was told to end: `Break`. Otherwise the
    /// successor is lost.
    pub(crate) fn until_it_serves(&self) -> ControlFlow<()> {
        for event in &self.events {
            match event {
                TakeOverEvent::Served => {
                    tell!(event::SUCCESSION_DONE);
                    return ControlFlow::Break(());
                }
                TakeOverEvent::Signal(SIGTERM | SIGINT) => {
                    tell!(event::STOPPED);
                    return ControlFlow::Break(());
                }
                TakeOverEvent::Lost => return ControlFlow::Continue(()),
                // A new server reads its configuration anyway; one commits itself at a time.
                TakeOverEvent::Signal(_) | TakeOverEvent::TakeOver(_) => {}
            }
        }
        ControlFlow::Break(())
    }
}

/// How a server is made again, for one that serves on.
pub struct Again<'a> {
    /// Starts a server with what it inherits.
    pub start: &'a dyn Fn(Config, Inherited) -> Started,
}

/// Serves until a signal says otherwise or another server serves in its place, then returns when
/// everything is closed.
pub fn serve(caught: &Caught, running: RunningServer, again: &Again<'_>) -> io::Result<()> {
    let mut running = running;
    loop {
        running.offer_place(&caught.more);
        running.tell_ready();
        let Some(successor) = until_the_end(caught, &running) else {
            caught.end_at_once();
            let ms = running.config().limits.drain_ms;
            tell!(event::DRAINING, ms);
            running.drain();
            running.join();
            tell!(event::STOPPED);
            return Ok(());
        };
        let config = running.config().clone();
        let sockets = give_place(running, &successor);
        successor.closed(caught.more.clone())?;
        if caught.until_it_serves().is_break() {
            return Ok(());
        }
        tell!(event::SUCCESSION_FAILED, pid = successor.pid());
        let inherited = Inherited { sockets, taken_over: true, ..Inherited::default() };
        running = (again.start)(config, inherited).map_err(io::Error::other)?;
        tell!(event::SERVING_AGAIN);
    }
}

/// Serves until the end; returns the successor, if one takes over.
fn until_the_end(caught: &Caught, running: &RunningServer) -> Option<Successor> {
    for event in &caught.events {
        match event {
            TakeOverEvent::Signal(SIGHUP) => {
                running.tell_reloading();
                running.reload_file();
                running.tell_ready();
            }
            TakeOverEvent::Signal(_) => break,
            TakeOverEvent::TakeOver(successor) => return Some(successor),
            // Of one that took the place of the server that was here before this one.
            TakeOverEvent::Served | TakeOverEvent::Lost => {}
        }
    }
    None
}

/// Drains connections and closes the logs; returns the listeners, which stay open.
fn give_place(mut running: RunningServer, successor: &Successor) -> Vec<KeptSocket> {
    let ms = running.config().limits.take_over_ms;
    let pid = successor.pid();
    tell!(event::SUCCESSION_BEGINS, pid, ms);
    let sockets = running.move_off();
    running.join();
    sockets
}
