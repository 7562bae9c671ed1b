//! The thread that serves requests: connections come from listeners of others, and end here.
//!
//! It has a runtime of its own. Invariant: there are never more connections than may be; one more
//! is not taken.

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

/// What the thread is started with.
pub struct BoshSettings {
    /// What bounds it.
    pub limits: BoshLimits,
    /// Largest stanza of a client, bytes.
    pub stanza_bytes_max: u32,
    /// Bytes of those that one request says before a login.
    pub unproven_bytes_max: u32,
    /// Largest of a server.
    pub out_bytes_max: u32,
    /// Time in which a request must have come.
    pub request_ms_max: u32,
    /// Who gives sessions a stream.
    pub giver: Arc<dyn StreamGiver>,
    /// Microseconds of a clock that only rises.
    pub now_us: fn() -> u64,
    /// Fills with random bytes.
    pub random: fn(&mut [u8]),
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The listener that it came through, by its place.
    pub door: u8,
    /// From where.
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
        let limits = &settings.limits;
        let most = limits.connections_max as usize;
        let seats = SourceSeats::new(limits.connections_max, limits.connections_a_source_max);
        let (to, from) = mpsc::channel(most);
        let terms = BoshTerms {
            wait_s_max: limits.wait_s_max,
            inactivity_s: limits.inactivity_s,
            pause_s_max: limits.pause_s_max,
            waiting_bytes_max: limits.waiting_bytes_max as usize,
            stanza_bytes_max: settings.out_bytes_max as usize,
            unproven_bytes_max: settings.unproven_bytes_max as usize,
        };
        let tally = Arc::new(BoshTally::default());
        let silence = Duration::from_secs(limits.wait_s_max.into()) + SPARE;
        let sessions = Sessions::new(terms, &settings);
        let desk = Arc::new(Desk {
            sessions,
            tally,
            request_bytes_max: settings.stanza_bytes_max as usize + 4_096,
            reading: SourceSeats::new(
                limits.reading_bytes_max / 1_024,
                limits.reading_bytes_a_source_max.div_ceil(1_024),
            ),
            request_time: Duration::from_millis(settings.request_ms_max.into()),
            url: limits.url.clone(),
            listeners: RwLock::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (listener, serving) = (Listener { from, silence }, desk.clone());
        thread::Builder::new().name("bosh".into()).spawn(move || {
            runtime.block_on(serve(listener, serving));
        })?;
        Ok(BoshDoor { to, seats, desk })
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

    /// From now on the listener of this number is so.
    pub fn set_listener(&self, door: u8, listener: BoshListener) {
        self.desk.set_listener(door, listener);
    }

    /// What became of requests.
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
    silence: Duration,
}

impl axum::serve::Listener for Listener {
    type Io = Handed<TcpStream>;
    type Addr = Caller;

    async fn accept(&mut self) -> (Handed<TcpStream>, Caller) {
        loop {
            match self.from.recv().await {
                Some((incoming, caller)) => match Handed::new(incoming, self.silence, CONNECTION) {
                    Ok(handed) => return (handed, caller),
                    Err(error) => tracing::debug!(%error, "a BOSH connection failed"),
                },
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
