//! The thread that serves requests: connections come from listeners of others, and end here.
//!
//! The thread has a runtime of its own. Invariant: there are never more connections than may be;
//! one more is not taken.

use crate::answer::{BoshListener, Desk};
use crate::sessions::{Sessions, StreamGiver};
use crate::tally::{BoshOutcome, BoshTally};
use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request, State};
use axum::serve::IncomingStream;
use media::{Handed, Incoming};
use model::limits::BoshLimits;
use model::limits::seats::SourceSeats;
use model::link::Source;
use proto_xmpp::bosh::BoshTerms;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Time after which a connection ends, whatever goes on: a client repeats what was not answered.
const CONNECTION: Duration = Duration::from_secs(3_600);

/// Time beyond an answer's wait in which nothing need go on.
const SPARE: Duration = Duration::from_secs(30);

/// Connections that may wait for the thread: as many as may ever have seats.
const WAITING_MAX: usize = 1_000_000;

/// Bounds of BOSH. All of them may change while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoshBounds {
    /// Keys of `[bosh]`.
    pub limits: BoshLimits,
    /// Largest stanza of a client, bytes.
    pub stanza_bytes_max: u32,
    /// Bytes of those that one request says before a login.
    pub unproven_bytes_max: u32,
    /// Largest of a server.
    pub out_bytes_max: u32,
    /// Time in which a request must have come.
    pub request_ms_max: u32,
}

impl BoshBounds {
    /// Bounds for a new session.
    pub(crate) fn terms(&self) -> BoshTerms {
        let limits = &self.limits;
        BoshTerms {
            wait_s_max: limits.wait_s_max,
            inactivity_s: limits.inactivity_s,
            pause_s_max: limits.pause_s_max,
            waiting_bytes_max: limits.waiting_bytes_max as usize,
            stanza_bytes_max: self.out_bytes_max as usize,
            unproven_bytes_max: self.unproven_bytes_max as usize,
        }
    }

    /// Largest request, bytes.
    pub(crate) fn request_bytes_max(&self) -> usize {
        self.stanza_bytes_max as usize + 4_096
    }

    /// Time in which a request must have come.
    pub(crate) fn request_time(&self) -> Duration {
        Duration::from_millis(self.request_ms_max.into())
    }

    /// KiB that requests which are being read may take together, and those of one source.
    fn reading_kib(&self) -> (u32, u32) {
        let limits = &self.limits;
        (limits.reading_bytes_max / 1_024, limits.reading_bytes_a_source_max.div_ceil(1_024))
    }

    /// Time in which nothing need go on over a connection.
    fn silence(&self) -> Duration {
        Duration::from_secs(self.limits.wait_s_max.into()) + SPARE
    }
}

/// Parts with which the thread starts.
pub struct BoshSettings {
    /// Its bounds at the start.
    pub bounds: BoshBounds,
    /// Gives each session a stream.
    pub giver: Arc<dyn StreamGiver>,
    /// Microseconds of a clock that only rises.
    pub now_us: fn() -> u64,
    /// Fills with random bytes.
    pub random: fn(&mut [u8]),
}

/// Origin of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The listener that it came through, by its place.
    pub door: u8,
    /// Address of the caller.
    pub peer: SocketAddr,
    /// In TLS.
    pub encrypted: bool,
}

/// The way in, for listeners.
#[derive(Clone)]
pub struct BoshDoor {
    to: mpsc::Sender<(Incoming, Caller)>,
    seats: Arc<SourceSeats>,
    desk: Arc<Desk>,
}

impl BoshDoor {
    /// Starts the thread.
    pub fn start(settings: BoshSettings) -> io::Result<BoshDoor> {
        let BoshSettings { bounds, .. } = &settings;
        let limits = &bounds.limits;
        let seats = SourceSeats::new(limits.connections_max, limits.connections_a_source_max);
        let (to, from) = mpsc::channel(WAITING_MAX);
        let tally = Arc::new(BoshTally::default());
        let sessions = Sessions::new(&settings);
        let (reading, reading_a_source) = bounds.reading_kib();
        let desk = Arc::new(Desk {
            sessions,
            tally,
            bounds: RwLock::new(Arc::new(bounds.clone())),
            reading: SourceSeats::new(reading, reading_a_source),
            listeners: RwLock::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (listener, serving) = (Listener { from, desk: desk.clone() }, desk.clone());
        thread::Builder::new().name("bosh".into()).spawn(move || {
            runtime.block_on(serve(listener, serving));
        })?;
        Ok(BoshDoor { to, seats, desk })
    }

    /// Sets other bounds. Sessions and connections that are open keep theirs.
    pub fn set_bounds(&self, bounds: BoshBounds) {
        let limits = &bounds.limits;
        self.seats.set_max(limits.connections_max, limits.connections_a_source_max);
        self.desk.sessions.set_max(limits);
        let (reading, reading_a_source) = bounds.reading_kib();
        self.desk.reading.set_max(reading, reading_a_source);
        self.desk.set_bounds(bounds);
    }

    /// Whether one more connection from there would be taken. A no is counted.
    pub fn has_room(&self, peer: SocketAddr) -> bool {
        let room = self.seats.check(Source::of(peer.ip()));
        room.map_err(|why| self.desk.tally.count(BoshOutcome::of(why))).is_ok()
    }

    /// Takes a connection, or lets it go where there are too many.
    pub fn take(&self, incoming: Incoming, caller: Caller) -> bool {
        let seat = match self.seats.take(Source::of(caller.peer.ip())) {
            Ok(seat) => seat,
            Err(why) => {
                self.desk.tally.count(BoshOutcome::of(why));
                return false;
            }
        };
        // Whoever has the connection has both seats: the one here, and that of its listener.
        let seat = Box::new((seat, incoming.seat));
        self.to.try_send((Incoming { seat, ..incoming }, caller)).is_ok()
    }

    /// Sets the listener of this number.
    pub fn set_listener(&self, door: u8, listener: BoshListener) {
        self.desk.set_listener(door, listener);
    }

    /// Counts of requests by their outcome.
    pub fn tally(&self) -> &BoshTally {
        &self.desk.tally
    }

    /// Sessions now.
    pub fn sessions(&self) -> u64 {
        self.desk.sessions.open()
    }
}

async fn serve(listener: Listener, desk: Arc<Desk>) {
    let router = Router::new().fallback(answer).with_state(desk);
    let service = router.into_make_service_with_connect_info::<Caller>();
    if let Err(error) = axum::serve(listener, service).await {
        tracing::error!(%error, "BOSH has stopped");
    }
}

async fn answer(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    request: Request,
) -> axum::response::Response {
    desk.answer(caller, request).await
}

/// Connections that others hand over.
struct Listener {
    from: mpsc::Receiver<(Incoming, Caller)>,
    desk: Arc<Desk>,
}

impl axum::serve::Listener for Listener {
    type Io = Handed<TcpStream>;
    type Addr = Caller;

    async fn accept(&mut self) -> (Handed<TcpStream>, Caller) {
        loop {
            match self.from.recv().await {
                Some((incoming, caller)) => {
                    let silence = self.desk.bounds().silence();
                    match Handed::new(incoming, silence, CONNECTION) {
                        Ok(handed) => return (handed, caller),
                        Err(error) => tracing::debug!(%error, "a BOSH connection failed"),
                    }
                }
                // Nobody can hand anything over any more: the process ends.
                None => std::future::pending().await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Caller> {
        Err(ErrorKind::Unsupported.into())
    }
}

impl Connected<IncomingStream<'_, Listener>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Caller {
        *stream.remote_addr()
    }
}

#[cfg(test)]
mod tests;
